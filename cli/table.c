/* Run-time access to the tables: groups of option rows, their values and defaults, commands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

#define DEGREES (180 / 3.14159265358979323846)

/* Rows of the groups in cli/options.def, in the form of tomos_options(); G is the struct. */
#define COUNT_AT_INT(name) 0
#define COUNT_AT_REAL(name) 0
#define COUNT_AT_FLAG(name) 0
#define COUNT_AT_TEXT(name) 0
#define COUNT_AT_CHOICE(name) 0
#define COUNT_AT_INTS(name) offsetof(G, name##_count)
#define COUNT_AT_REALS(name) offsetof(G, name##_count)
#define COUNT_AT_LENGTHS(name) offsetof(G, name##_count)
#define ROW(kind, name, fallback, values, ...) \
	{sizeof(tomos_option), #name, TOMOS_##kind, #fallback, values, \
		TOMOS_ROW_HELP(__VA_ARGS__), offsetof(G, name), COUNT_AT_##kind(name), \
		TOMOS_ROW_NEEDS(__VA_ARGS__)},
#define OWN_ROWS(group, ROWS, heading) \
	static const tomos_option *group##_rows(int *count) \
	{ \
		typedef group##_options G; \
		static const tomos_option rows[] = {ROWS(ROW)}; \
		*count = COUNT(rows); \
		return rows; \
	}
#define NO_ROWS(group, heading)
CLI_GROUPS(NO_ROWS, OWN_ROWS)

group group_get(int number)
{
#define LIBRARY_GROUP(group, heading) {#group, heading, offsetof(settings, group), NULL},
#define OWN_GROUP(group, ROWS, heading) {#group, heading, offsetof(settings, group), group##_rows},
	static const struct {
		const char *name, *heading;
		size_t offset;
		const tomos_option *(*rows)(int *count);
	} list[] = {CLI_GROUPS(LIBRARY_GROUP, OWN_GROUP)};
	group g = {list[number].name, list[number].heading, list[number].offset, NULL, 0};
	g.rows = list[number].rows ? list[number].rows(&g.count) : tomos_options(g.name, &g.count);
	return g;
}

bool row_used(const command *c, int number, int i)
{
	char text[128];
	group g = group_get(number);
	snprintf(text, sizeof text, "%s.%s", g.name, g.rows[i].name);
	if (g.rows[i].kind == TOMOS_HISTORY) /* only used by programs */
		return false;
	return word_has(c->groups, g.name) || word_has(c->groups, text);
}

void settings_init(settings *s)
{
	memset(s, 0, sizeof *s);
#define LIBRARY_DEFAULTS(group, heading) s->group = tomos_##group##_defaults();
#define OWN_DEFAULTS(group, ROWS, heading) s->group = group##_defaults();
	CLI_GROUPS(LIBRARY_DEFAULTS, OWN_DEFAULTS)
}

void settings_free(settings *s)
{
	for (int i = 0; i < s->block_count; i++)
		free(s->blocks[i]);
	free(s->blocks);
}

void name_shown(const char *name, char shown[64])
{
	snprintf(shown, 64, "%s", name);
	for (char *c = shown; *c; c++)
		if (*c == '_')
			*c = '-';
}

bool settings_given(const settings *s, int number, const char *name)
{
	group g = group_get(number);
	for (int i = 0; i < g.count; i++)
		if (strcmp(g.rows[i].name, name) == 0)
			return s->given[number] >> i & 1;
	return false;
}

const char *settings_stray(const settings *s, int number, int other)
{
	group g = group_get(number);
	for (int i = 0; i < g.count; i++)
		if ((s->given[number] >> i & 1) &&
			(other < 0 || !settings_given(s, other, g.rows[i].name)))
			return g.rows[i].name;
	return NULL;
}

int settings_reject(const settings *s, int number, int other, const char *why)
{
	const char *name = settings_stray(s, number, other);
	char shown[64];
	if (!name)
		return DONE;
	name_shown(name, shown);
	return wrong_usage("--%s has no effect %s", shown, why);
}

bool row_silent(const settings *s, const settings *plain, int number, int i)
{
	group g = group_get(number);
	const tomos_option *row = &g.rows[i];
	const char *now = (const char *)s + g.offset + row->offset;
	const char *before = (const char *)plain + g.offset + row->offset;
	const char *text, *usual;
	if (row->kind != TOMOS_CHOICE && row->kind != TOMOS_TEXT)
		return memcmp(now, before, sizeof(int64_t)) == 0;
	memcpy(&text, now, sizeof text);
	memcpy(&usual, before, sizeof usual);
	return strcmp(text, usual) == 0;
}

void row_reset(settings *s, const settings *plain, int number, int i)
{
	group g = group_get(number);
	const tomos_option *row = &g.rows[i];
	size_t at = g.offset + row->offset, count = g.offset + row->count_offset;
	memcpy((char *)s + at, (const char *)plain + at, sizeof(int64_t));
	if (row->count_offset)
		memcpy((char *)s + count, (const char *)plain + count, sizeof(int64_t));
}

static const char *recon_methods(void)
{
	static char names[256];
	snprintf(names, sizeof names, "fdk|fbp|%s", tomos_method_names());
	return names;
}

/* Methods with a relaxation parameter. */
static const char *relaxed_methods(void)
{
	static char names[256];
	char list[256], *rest = list;
	names[0] = 0;
	snprintf(list, sizeof list, "%s", tomos_method_names());
	for (char *name = strtok_r(list, "|", &rest); name; name = strtok_r(NULL, "|", &rest))
		if (tomos_method_uses(name, "relaxation"))
			snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
				names[0] ? "|" : "", name);
	return names;
}

const char *row_values(const tomos_option *row)
{
	if (strcmp(row->values, "=relaxed") == 0)
		return relaxed_methods();
	if (strcmp(row->values, "=methods") == 0)
		return recon_methods();
	if (strcmp(row->values, "=backends") == 0)
		return tomos_backend_names();
	if (strcmp(row->values, "=projectors") == 0)
		return tomos_projector_names();
	return row->values;
}

char row_letter(const tomos_option *row)
{
#define LETTER(letter, name) {letter, name},
	static const struct {
		char letter;
		const char *name;
	} list[] = {CLI_SHORT(LETTER)};
	for (int i = 0; i < COUNT(list); i++)
		if (strcmp(list[i].name, row->name) == 0)
			return list[i].letter;
	return 0;
}

typedef struct own_text {
	const char *commands, *option, *text;
} own_text;

#define OWN_TEXT(commands, option, text) {commands, option, text},

static const char *find_own(const own_text *list, int count, const command *c, const char *option)
{
	for (int i = 0; i < count; i++)
		if (name_in(list[i].commands, c->name, strlen(c->name)) &&
			strcmp(list[i].option, option) == 0)
			return list[i].text;
	return NULL;
}

const char *row_text(const command *c, const tomos_option *row)
{
	static const own_text list[] = {CLI_HELP(OWN_TEXT)};
	const char *own = find_own(list, COUNT(list), c, row->name);
	return own ? own : row->help;
}

void row_default(const command *c, int number, const tomos_option *row, char text[256])
{
	settings s;
	settings_init(&s);
	const char *field = (const char *)&s + group_get(number).offset + row->offset;
	static const own_text list[] = {CLI_DEFAULTS(OWN_TEXT)};
	const char *own = find_own(list, COUNT(list), c, row->name);
	bool plain =
		row->kind == TOMOS_REAL || row->kind == TOMOS_LENGTH || row->kind == TOMOS_ENERGY;
	double real = 0;
	text[0] = 0;
	if (plain || row->kind == TOMOS_ANGLE)
		memcpy(&real, field, sizeof real);
	if (own)
		snprintf(text, 256, "%s", own);
	else if (row->kind == TOMOS_INT || row->kind == TOMOS_SIZE)
		snprintf(text, 256, "%lld", (long long)*(const int64_t *)(const void *)field);
	else if (plain && !isinf(real))
		snprintf(text, 256, "%g", real);
	else if (plain)
		snprintf(text, 256, "none");
	else if (row->kind == TOMOS_ANGLE)
		snprintf(text, 256, "%g", real * DEGREES);
	else if (row->kind == TOMOS_TEXT || row->kind == TOMOS_CHOICE)
		snprintf(text, 256, "%s", *(const char *const *)(const void *)field);
}

const command *command_list(int *count)
{
#define COMMAND(name, least, most, operands, usage, summary, groups, examples) \
	{#name, least, most, operands, usage, summary, groups, examples, cmd_##name},
	static const command list[] = {
#include "commands.def"
	};
#undef COMMAND
	*count = COUNT(list);
	return list;
}

const command *command_find(const char *name)
{
	int count;
	const command *list = command_list(&count);
	for (int i = 0; i < count; i++)
		if (strcmp(list[i].name, name) == 0)
			return &list[i];
	return NULL;
}

const char *command_names(void)
{
#define COMMAND(name, least, most, operands, usage, summary, groups, examples) "|" #name
	static const char names[] =
#include "commands.def"
		;
#undef COMMAND
	return names + 1;
}

int command_unknown(const char *name)
{
	const char *nearest = tomos_name_nearest(command_names(), name);
	if (nearest[0])
		return wrong_usage("unknown command '%s'; nearest: %s", name, nearest);
	return wrong_usage("unknown command '%s'; see 'tomos help'", name);
}
