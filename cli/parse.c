/* Parses the command line into the settings, using the rows of the groups. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cli.h"

#define RADIANS (3.14159265358979323846 / 180)

int settings_keep(settings *s, void *block)
{
	void **larger = realloc(s->blocks, (size_t)(s->block_count + 1) * sizeof *larger);
	if (!larger) {
		free(block);
		return failed("no memory for the options");
	}
	s->blocks = larger;
	s->blocks[s->block_count++] = block;
	return DONE;
}

/* Converts a list of doubles to integers in place. */
static int list_whole(const char *option, double *values, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		double value = values[i];
		int64_t whole = fabs(value) < 9e15 ? (int64_t)value : 0;
		if ((double)whole != value)
			return wrong_usage("--%s: %g is not a whole number", option, value);
		memcpy(&values[i], &whole, sizeof whole);
	}
	return DONE;
}

/* The word auto, of options that have it, is NAN. */
static bool is_automatic(const tomos_option *row, const char *text)
{
	return strcmp(text, "auto") == 0 && name_in(row_values(row), text, strlen(text));
}

static int set_list(
	settings *s, char *base, const tomos_option *row, const char *option, const char *text)
{
	double *values;
	int64_t count;
	bool automatic = is_automatic(row, text);
	int code = text_list(
		option, automatic ? "0" : text, row->kind == TOMOS_LENGTHS, &values, &count);
	if (code == DONE)
		code = settings_keep(s, values);
	if (code == DONE && row->kind == TOMOS_INTS)
		code = list_whole(option, values, count);
	if (code != DONE)
		return code;
	if (automatic)
		values[0] = NAN;
	for (int64_t i = 0; row->kind == TOMOS_ANGLES && i < count; i++)
		values[i] *= RADIANS;
	memcpy(base + row->offset, &values, sizeof values);
	memcpy(base + row->count_offset, &count, sizeof count);
	return DONE;
}

/* A backend's name may be followed by its devices: cuda:0,1. */
static bool choice_allowed(const tomos_option *row, const char *text)
{
	size_t length = strcmp(row->values, "=backends") == 0 ? strcspn(text, ":") : strlen(text);
	return name_in(row_values(row), text, length);
}

static int bad_choice(const tomos_option *row, const char *option, const char *text)
{
	const char *nearest = tomos_name_nearest(row_values(row), text);
	return wrong_usage("--%s: '%s' is not one of %s%s%s", option, text, row_values(row),
		nearest[0] ? "; nearest: " : "", nearest);
}

/* A length or an energy, with its unit. */
static int set_quantity(char *base, const tomos_option *row, const char *option, const char *text)
{
	double value;
	tomos_status status = row->kind == TOMOS_LENGTH ? tomos_length_parse(text, &value)
							: tomos_energy_parse(text, &value);
	if (status != TOMOS_OK)
		return wrong_usage("--%s: %s", option, tomos_message());
	memcpy(base + row->offset, &value, sizeof value);
	return DONE;
}

static int set_size(char *base, const tomos_option *row, const char *option, const char *text)
{
	int64_t bytes;
	if (tomos_size_parse(text, &bytes) != TOMOS_OK)
		return wrong_usage("--%s: %s", option, tomos_message());
	if (bytes > 0 && bytes < 1 << 20 && isdigit((unsigned char)text[strlen(text) - 1]))
		return wrong_usage("--%s: '%s' means bytes, as it has no unit; write %sM for MiB "
				   "or %sG for GiB",
			option, text, text, text);
	memcpy(base + row->offset, &bytes, sizeof bytes);
	return DONE;
}

static int set_real(char *base, const tomos_option *row, const char *option, const char *text)
{
	double real = NAN;
	if (!is_automatic(row, text) && !text_real(text, &real))
		return wrong_usage("--%s: '%s' is not a number", option, text);
	if (row->kind == TOMOS_ANGLE)
		real *= RADIANS;
	memcpy(base + row->offset, &real, sizeof real);
	return DONE;
}

/* Stores the file name; the file is read later. */
static int set_array(settings *s, char *base, const tomos_option *row, const char *path)
{
	file_array *file = calloc(1, sizeof *file);
	if (!file)
		return failed("no memory for the options");
	file->path = path;
	memcpy(base + row->offset, &file, sizeof file);
	return settings_keep(s, file);
}

static int set_one(settings *s, int number, const tomos_option *row, const char *text)
{
	char *base = (char *)s + group_get(number).offset, option[64];
	const int64_t yes = 1;
	int64_t whole;
	name_shown(row->name, option);
	switch (row->kind) {
	case TOMOS_INT:
		if (!text_int(text, &whole))
			return wrong_usage("--%s: '%s' is not a whole number", option, text);
		memcpy(base + row->offset, &whole, sizeof whole);
		return DONE;
	case TOMOS_REAL:
	case TOMOS_ANGLE:
		return set_real(base, row, option, text);
	case TOMOS_LENGTH:
	case TOMOS_ENERGY:
		return set_quantity(base, row, option, text);
	case TOMOS_SIZE:
		return set_size(base, row, option, text);
	case TOMOS_FLAG:
		memcpy(base + row->offset, &yes, sizeof yes);
		return DONE;
	case TOMOS_TEXT:
	case TOMOS_CHOICE:
		memcpy(base + row->offset, &text, sizeof text);
		return DONE;
	case TOMOS_ARRAY:
		return set_array(s, base, row, text);
	default:
		return set_list(s, base, row, option, text);
	}
}

int settings_set(settings *s, int number, int i, const char *text)
{
	const tomos_option *row = group_get(number).rows + i;
	char option[64];
	name_shown(row->name, option);
	if (row->kind == TOMOS_CHOICE && !choice_allowed(row, text))
		return bad_choice(row, option, text);
	int code = set_one(s, number, row, text);
	if (code != DONE)
		return code;
	bool length = row->kind == TOMOS_LENGTH || row->kind == TOMOS_LENGTHS;
	s->given[number] |= (uint64_t)1 << i;
	s->units[number] &= ~((uint64_t)1 << i);
	if (length && text[0] != '@' && strchr(text, 'm')) /* they all end in it */
		s->units[number] |= (uint64_t)1 << i;
	return code;
}

static bool same_name(const char *shown, size_t length, const char *name)
{
	if (strlen(name) != length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (shown[i] != name[i] && !(shown[i] == '-' && name[i] == '_'))
			return false;
	return true;
}

/* The next row of that name after group *number, row *at; two groups may have the same name. */
static const tomos_option *find(
	const command *c, const char *name, size_t length, int *number, int *at)
{
	for (; *number < GROUP_COUNT; (*number)++, *at = 0) {
		group g = group_get(*number);
		for (; *at < g.count; (*at)++)
			if (row_used(c, *number, *at) && same_name(name, length, g.rows[*at].name))
				return g.rows + *at;
	}
	return NULL;
}

/* "a|b|c" of all options of the command, as on the command line. */
static void option_names(const command *c, char *names, size_t size)
{
	size_t used = 0;
	names[0] = 0;
	for (int number = 0; number < GROUP_COUNT; number++) {
		group g = group_get(number);
		for (int i = 0; g.heading[0] && i < g.count; i++) {
			char shown[64];
			name_shown(g.rows[i].name, shown);
			if (row_used(c, number, i) && used + strlen(shown) + 2 < size)
				used += (size_t)sprintf(names + used, "%s|", shown);
		}
	}
}

/* The commands that have that option, "a, b"; empty if none has. */
static void commands_with(const char *name, size_t length, char *names, size_t size)
{
	int count;
	const command *list = command_list(&count);
	names[0] = 0;
	for (int i = 0; i < count; i++) {
		int number = 0, at = 0;
		size_t used = strlen(names);
		if (find(&list[i], name, length, &number, &at) && group_get(number).heading[0])
			snprintf(names + used, size - used, "%s%s", used ? ", " : "", list[i].name);
	}
}

static int unknown(const command *c, const char *name, size_t length)
{
	char names[8192], word[256];
	snprintf(word, sizeof word, "%.*s", (int)length, name);
	commands_with(name, length, names, sizeof names);
	if (names[0])
		return wrong_usage(
			"--%s is no option of this command; it is an option of: %s", word, names);
	option_names(c, names, sizeof names);
	const char *nearest = tomos_name_nearest(names, word);
	if (nearest[0])
		return wrong_usage("unknown option '--%s'; nearest: --%s", word, nearest);
	return wrong_usage("unknown option '--%s'; see 'tomos help %s'", word, c->name);
}

/* Sets the option in every group that has it and, for a choice, allows the value. */
static int set_all(settings *s, const command *c, const char *name, size_t length, const char *text)
{
	int number = 0, at = 0, set = 0;
	const tomos_option *row, *rejected = NULL;
	for (; (row = find(c, name, length, &number, &at)) != NULL; at++) {
		if (row->kind == TOMOS_CHOICE && !choice_allowed(row, text)) {
			rejected = row;
			continue;
		}
		int code = settings_set(s, number, at, text);
		if (code != DONE)
			return code;
		set++;
	}
	if (set == 0 && rejected) {
		char option[64];
		name_shown(rejected->name, option);
		return bad_choice(rejected, option, text);
	}
	return DONE;
}

/* The option at words[*i]: --name value, --name=value, --flag. */
static int parse_long(settings *s, const command *c, int count, char **words, int *i)
{
	const char *name = words[*i] + 2;
	size_t length = strcspn(name, "=");
	bool joined = name[length] == '=';
	int number = 0, at = 0;
	const tomos_option *row = find(c, name, length, &number, &at);
	if (!row)
		return unknown(c, name, length);
	if (row->kind == TOMOS_FLAG && joined)
		return wrong_usage("--%.*s takes no value", (int)length, name);
	if (row->kind == TOMOS_FLAG)
		return set_all(s, c, name, length, "");
	if (!joined && *i + 1 >= count)
		return wrong_usage("--%s needs a value, %s", name, row_values(row));
	return set_all(s, c, name, length, joined ? name + length + 1 : words[++*i]);
}

static int parse_short(settings *s, const command *c, int count, char **words, int *i)
{
#define NAME(letter, name) letter == words[*i][1] ? name:
	const char *name = CLI_SHORT(NAME) NULL;
	int number = 0, at = 0;
	const tomos_option *row = name ? find(c, name, strlen(name), &number, &at) : NULL;
	if (!row)
		return wrong_usage("unknown option '%s': tomos %s %s; see 'tomos help %s'",
			words[*i], c->name, c->usage, c->name);
	const char *rest = words[*i] + 2;
	if (row->kind == TOMOS_FLAG && rest[0])
		return wrong_usage("-%c takes no value, not '%s'", words[*i][1], rest);
	if (row->kind == TOMOS_FLAG)
		return set_all(s, c, name, strlen(name), "");
	if (!rest[0] && *i + 1 >= count)
		return wrong_usage("-%c needs a value, %s", words[*i][1], row_values(row));
	return set_all(s, c, name, strlen(name), rest[0] ? rest : words[++*i]);
}

/* Operands are the first words of the usage. */
static int operand_missing(int given, const command *c)
{
	const char *at = c->usage;
	for (int i = 0; i < given; i++)
		at += strcspn(at, " ") + 1;
	return wrong_usage(
		"%.*s is missing: tomos %s %s", (int)strcspn(at, " "), at, c->name, c->usage);
}

static int check_operands(const settings *s, const command *c)
{
	if (s->common.help || s->pages.man || s->pages.bash_completion || s->pages.header)
		return DONE;
	if (s->operand_count < c->least)
		return operand_missing(s->operand_count, c);
	if (c->most >= 0 && s->operand_count > c->most)
		return wrong_usage("'%s' is one word too many: tomos %s %s", s->operands[c->most],
			c->name, c->usage);
	bool optional = strstr(c->usage, "[-o") != NULL;
	if (row_used(c, GROUP_output, 0) && !s->output.output[0] && !optional)
		return wrong_usage("no output; name it with -o FILE");
	return DONE;
}

/* The message of the library begins with the name of the option. */
static int out_of_range(void)
{
	char option[64];
	const char *message = tomos_message();
	int length = (int)strcspn(message, " ");
	snprintf(option, sizeof option, "%.*s", length, message);
	for (char *at = option; *at; at++)
		*at = *at == '_' ? '-' : *at;
	return wrong_usage("--%s%s", option, message + length);
}

/* Checks the ranges of tomos/options.def before any work. */
static int check_ranges(const settings *s)
{
#define CHECK_LIBRARY(group, heading) tomos_options_check(#group, &s->group) != TOMOS_OK ||
#define CHECK_OWN(group, rows, heading)
	return CLI_GROUPS(CHECK_LIBRARY, CHECK_OWN) false ? out_of_range() : DONE;
}

/* The command line, quoted for a shell, as provenance of the result; without --resume, so
 * that it is the same for a run that was interrupted. */
static int keep_line(settings *s, const command *c, int count, char **words)
{
	size_t length;
	FILE *text = open_memstream(&s->line, &length);
	if (!text)
		return failed("no memory for the options");
	fprintf(text, "tomos %s", c->name);
	for (int i = 0; i < count; i++)
		if (strcmp(words[i], "--resume") != 0) {
			fputc(' ', text);
			shell_quote(text, words[i]);
		}
	if (fclose(text) != 0)
		return failed("no memory for the options");
	return settings_keep(s, s->line);
}

int settings_parse(settings *s, const command *c, int count, char **words)
{
	bool options = true;
	int code = keep_line(s, c, count, words);
	s->word_count = count;
	s->words = words;
	if (code != DONE)
		return code;
	s->operands = calloc((size_t)count + 1, sizeof *s->operands);
	if (!s->operands)
		return failed("no memory for the options");
	DO(settings_keep(s, (void *)s->operands));
	for (int i = 0; i < count; i++) {
		const char *word = words[i];
		double real;
		if (options && strcmp(word, "--") == 0)
			options = false;
		else if (options && strncmp(word, "--", 2) == 0)
			DO(parse_long(s, c, count, words, &i));
		else if (options && word[0] == '-' && word[1] && !text_real(word, &real))
			DO(parse_short(s, c, count, words, &i));
		else
			s->operands[s->operand_count++] = word;
	}
	memcpy(s->typed, s->given, sizeof s->typed);
	if (s->recipe.recipe[0])
		DO(recipe_read(s, c, s->recipe.recipe));
	DO(check_ranges(s));
	DO(check_operands(s, c));
	if (!s->common.help)
		DO(needs_check(s, c));
	if (!s->common.help)
		DO(outputs_check(s, c));
done:
	return code;
}
