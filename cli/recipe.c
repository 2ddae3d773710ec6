/* Recipes: the options of a command as an INI file, read and written; sections are the groups of
 * rows, keys are their names. */
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "canvas.h"

#define DEGREES (180 / 3.14159265358979323846)
#define LINE 140 /* characters; inih is built for lines of 200 */
#define NUMBER 32

/* Options that do not affect the result: where it is written, what is shown of the run, and which
 * resources it may use. */
static const char left_out[] =
	"output.output file.overwrite run.memory run.dry_run run.resume run.preview run.ranks "
	"run.rates "
	"device.memory recon.sbatch "
	"algebraic.resume algebraic.checkpoint algebraic.every recon.plot recon.history "
	"recon.report";

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct reading {
	settings *s;
	const command *c;
	const char *path;
	FILE *file;
	int line, begun; /* number of this line, and of the one where its value begins */
	bool goes_on;    /* the line is more of that value */
	char section[64], name[64];
	char *value;                /* NULL: none yet */
	uint64_t seen[GROUP_COUNT]; /* in the recipe */
	int code;
} reading;

/* One line, counted; the parser would take the rest of one that is too long for the next. */
static char *next_line(char *text, int size, void *user)
{
	reading *r = user;
	if (r->code != DONE || !fgets(text, size, r->file))
		return NULL;
	r->line++;
	if (!strchr(text, '\n') && !feof(r->file)) {
		message_place(r->path, r->line);
		r->code = wrong_usage("the line has more than %d characters; it may go on in the "
				      "next one, after a space",
			size - 2);
		return NULL;
	}
	r->goes_on = text[0] == ' ' || text[0] == '\t';
	return text;
}

static bool has_section(const command *c, int number)
{
	group g = group_get(number);
	if (number == GROUP_recipe || number == GROUP_common || !g.heading[0])
		return false;
	for (int i = 0; i < g.count; i++)
		if (row_used(c, number, i))
			return true;
	return false;
}

static int section_find(const command *c, const char *name, int *number)
{
	char names[1024] = "";
	for (*number = 0; *number < GROUP_COUNT; (*number)++) {
		if (!has_section(c, *number))
			continue;
		const char *section = group_get(*number).name;
		if (strcmp(section, name) == 0)
			return DONE;
		size_t used = strlen(names);
		snprintf(names + used, sizeof names - used, "%s|", section);
	}
	const char *nearest = tomos_name_nearest(names, name);
	if (nearest[0])
		return wrong_usage("[%s] is not known; nearest: [%s]", name, nearest);
	return wrong_usage("[%s] is not one of %s", name, names);
}

static int row_unknown(const command *c, int number, const char *name)
{
	char names[4096] = "", shown[64];
	group g = group_get(number);
	for (int i = 0; i < g.count; i++) {
		size_t used = strlen(names);
		name_shown(g.rows[i].name, shown);
		if (row_used(c, number, i))
			snprintf(names + used, sizeof names - used, "%s|", shown);
	}
	const char *nearest = tomos_name_nearest(names, name);
	if (nearest[0])
		return wrong_usage("'%s' is not in [%s]; nearest: %s", name, g.name, nearest);
	return wrong_usage("'%s' is not in [%s]; see 'tomos recon --save-recipe FILE --dry-run'",
		name, g.name);
}

static int row_find(const command *c, int number, const char *name, int *at)
{
	group g = group_get(number);
	char shown[64];
	for (*at = 0; *at < g.count; (*at)++) {
		name_shown(g.rows[*at].name, shown);
		bool same = strcmp(shown, name) == 0 || strcmp(g.rows[*at].name, name) == 0;
		if (same && row_used(c, number, *at))
			return DONE;
	}
	return row_unknown(c, number, name);
}

/* Flags are yes or no. An empty value, or no, leaves an option as it is by default. */
static int value_set(reading *r, int number, int at)
{
	const tomos_option *row = group_get(number).rows + at;
	if (row->kind == TOMOS_FLAG &&
		!name_in("yes|no|true|false|1|0|", r->value, strlen(r->value)))
		return wrong_usage("%s: '%s' is neither yes nor no", r->name, r->value);
	bool off = row->kind == TOMOS_FLAG && name_in("no|false|0", r->value, strlen(r->value));
	if (!r->value[0] || off)
		return DONE;
	char *kept = strdup(r->value);
	if (!kept)
		return failed("no memory for the recipe");
	int code = settings_keep(r->s, kept);
	return code == DONE ? settings_set(r->s, number, at, kept) : code;
}

/* The value is complete; the command line has precedence. */
static int value_end(reading *r)
{
	int number = 0, at = 0, code = DONE;
	if (!r->value)
		return DONE;
	message_place(r->path, r->begun);
	DO(section_find(r->c, r->section, &number));
	DO(row_find(r->c, number, r->name, &at));
	uint64_t bit = (uint64_t)1 << at;
	if (r->seen[number] & bit)
		DO(wrong_usage("'%s' was given before", r->name));
	r->seen[number] |= bit;
	if (!(r->s->typed[number] & bit))
		code = value_set(r, number, at);
done:
	message_place(NULL, 0);
	free(r->value);
	r->value = NULL;
	return code;
}

static int value_more(reading *r, const char *text)
{
	size_t before = r->value ? strlen(r->value) : 0, more = strlen(text);
	char *longer = realloc(r->value, before + more + 1);
	if (!longer)
		return failed("no memory for the recipe");
	memcpy(longer + before, text, more + 1);
	r->value = longer;
	return DONE;
}

/* From inih: a key, or another line of its value. */
static int value_hear(void *user, const char *section, const char *name, const char *value)
{
	reading *r = user;
	if (!(r->goes_on && r->value)) {
		r->code = value_end(r);
		snprintf(r->section, sizeof r->section, "%s", section);
		snprintf(r->name, sizeof r->name, "%s", name);
		r->begun = r->line;
	}
	if (r->code == DONE)
		r->code = value_more(r, value);
	return r->code == DONE;
}

int recipe_read(settings *s, const command *c, const char *path)
{
	reading r = {.s = s, .c = c, .path = path, .file = fopen(path, "r")};
	if (!r.file)
		return failed("'%s' cannot be read: %s", path, strerror(errno));
	int wrong = ini_parse_stream(next_line, &r, value_hear, &r);
	if (r.code == DONE)
		r.code = value_end(&r);
	if (r.code == DONE && wrong < 0)
		r.code = failed("no memory for the recipe '%s'", path);
	if (r.code == DONE && wrong > 0) {
		message_place(path, wrong);
		r.code = wrong_usage("neither [section] nor key = value");
	}
	if (r.code == DONE && ferror(r.file))
		r.code = failed("'%s' cannot be read: %s", path, strerror(errno));
	message_place(NULL, 0);
	free(r.value);
	fclose(r.file);
	return r.code;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The shortest text that is read as the same number again; degrees, where `angle`. */
static void number_text(double value, bool angle, char text[NUMBER])
{
	if (isnan(value)) { /* of options that may be found automatically */
		snprintf(text, NUMBER, "auto");
		return;
	}
	double shown = angle ? value * DEGREES : value, unit = angle ? 1 / DEGREES : 1;
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, NUMBER, "%.*g", digits, shown);
		if (strtod(text, NULL) * unit == value)
			return;
	}
	/* Degrees differ from those typed by two roundings. */
	double low = nextafter(nextafter(shown, -INFINITY), -INFINITY);
	for (int i = 0; i < 5; i++, low = nextafter(low, INFINITY)) {
		snprintf(text, NUMBER, "%.17g", low);
		if (strtod(text, NULL) * unit == value)
			return;
	}
}

/* Lines go on after a tab. */
static void put_numbers(FILE *out, const tomos_option *row, const char *base)
{
	const void *list;
	char text[NUMBER];
	int64_t count, whole;
	double real;
	int length = 0;
	memcpy(&list, base + row->offset, sizeof list);
	memcpy(&count, base + row->count_offset, sizeof count);
	for (int64_t i = 0; list && i < count; i++) {
		memcpy(&whole, (const char *)list + i * 8, sizeof whole);
		memcpy(&real, (const char *)list + i * 8, sizeof real);
		if (row->kind == TOMOS_INTS)
			snprintf(text, sizeof text, "%lld", (long long)whole);
		else
			number_text(real, row->kind == TOMOS_ANGLES, text);
		length += fprintf(out, "%s%s", text, i + 1 < count ? "," : "");
		if (length > LINE - NUMBER && i + 1 < count)
			length = fprintf(out, "\n\t") - 2;
	}
}

/* What INI files cannot hold is rejected in recipes that are saved; in provenance it can still be
 * read. */
static int put_text(FILE *out, const char *name, const char *text, bool saved)
{
	size_t end = strlen(text);
	bool spaced = end > 0 && (strchr(" \t;", text[0]) || strchr(" \t", text[end - 1]));
	bool lost = spaced || strchr(text, '\n') || strstr(text, " ;") || strstr(text, "\t;");
	if (lost && saved)
		return failed("%s: '%s' cannot be kept in a recipe", name, text);
	size_t length = 0;
	for (const char *at = text; *at; at++, length++) {
		if (length >= LINE && !strchr(" \t;#", *at) && !strchr(" \t", at[-1])) {
			fputs("\n\t", out);
			length = 0;
		}
		fputc(*at, out);
	}
	return DONE;
}

static void put_number(FILE *out, const tomos_option *row, const char *field)
{
	char text[NUMBER] = "";
	int64_t whole;
	double real;
	if (row->kind == TOMOS_INT || row->kind == TOMOS_SIZE) {
		memcpy(&whole, field, sizeof whole);
		snprintf(text, sizeof text, "%lld", (long long)whole);
	} else {
		memcpy(&real, field, sizeof real);
		if (isfinite(real) || isnan(real))
			number_text(real, row->kind == TOMOS_ANGLE, text);
	}
	fputs(text, out);
}

static int put_value(FILE *out, const tomos_option *row, const char *base, bool saved)
{
	const char *field = base + row->offset, *text;
	const file_array *array;
	int64_t flag;
	switch (row->kind) {
	case TOMOS_FLAG:
		memcpy(&flag, field, sizeof flag);
		fputs(flag ? "yes" : "no", out);
		return DONE;
	case TOMOS_TEXT:
	case TOMOS_CHOICE:
		memcpy(&text, field, sizeof text);
		return put_text(out, row->name, text, saved);
	case TOMOS_ARRAY:
		memcpy(&array, field, sizeof array);
		return array ? put_text(out, row->name, array->path, saved) : DONE;
	case TOMOS_INTS:
	case TOMOS_REALS:
	case TOMOS_ANGLES:
	case TOMOS_LENGTHS:
		put_numbers(out, row, base);
		return DONE;
	default:
		put_number(out, row, field);
		return DONE;
	}
}

static bool is_kept(const settings *s, const command *c, int number, int i, recipe_filter kept)
{
	group g = group_get(number);
	char name[128];
	snprintf(name, sizeof name, "%s.%s", g.name, g.rows[i].name);
	return row_used(c, number, i) && !word_has(left_out, name) && needs_met(s, number, i) &&
	       kept(s, number, &g.rows[i]);
}

static int put_group(FILE *out, const settings *s, const command *c, int number, recipe_filter kept)
{
	group g = group_get(number);
	const char *base = (const char *)s + g.offset;
	bool begun = false;
	for (int i = 0; i < g.count; i++) {
		char shown[64];
		if (!is_kept(s, c, number, i, kept))
			continue;
		if (!begun)
			fprintf(out, "\n[%s]\n", g.name);
		begun = true;
		name_shown(g.rows[i].name, shown);
		fprintf(out, "%s = ", shown);
		int code = put_value(out, &g.rows[i], base, s->recipe.save_recipe[0] != 0);
		if (code != DONE)
			return code;
		fputc('\n', out);
	}
	return DONE;
}

int recipe_text(const settings *s, const command *c, recipe_filter kept, char **text)
{
	size_t size;
	FILE *out = open_memstream(text, &size);
	int code = out ? DONE : failed("no memory for the recipe");
	if (code != DONE)
		return code;
	fprintf(out,
		"# tomos %s: tomos %s SCAN --recipe FILE does this again.\n"
		"# A key without a value is left to the scan or the method.\n",
		tomos_version(), c->name);
	for (int number = 0; number < GROUP_COUNT && code == DONE; number++)
		if (has_section(c, number))
			code = put_group(out, s, c, number, kept);
	bool whole = !ferror(out);
	if ((fclose(out) != 0 || !whole) && code == DONE)
		code = failed("no memory for the recipe");
	return code;
}

int recipe_save(const settings *s, const char *text)
{
	const char *path = s->recipe.save_recipe;
	return path[0] && ranks_print() ? text_write(path, text, s->file.overwrite) : DONE;
}
