/* Every row of options.def with a need: rejected without it, accepted with each of its
 * alternatives. */
#include "base/base_test.h"

enum { ROOM = 4096 }; /* of the largest struct */

typedef struct {
	const char *group;
	const tomos_option *rows;
	int count;
	_Alignas(16) char options[ROOM];
	char facts[256];
	char words[32][128]; /* texts that the options point to */
	int used;
} Case;

static const tomos_option *find_row(const Case *c, const char *name)
{
	for (int i = 0; i < c->count; i++)
		if (strcmp(c->rows[i].name, name) == 0)
			return &c->rows[i];
	return NULL;
}

static void set_text(Case *c, const tomos_option *row, const char *text)
{
	const char *kept = c->words[c->used];
	assert_true(c->used < COUNT(c->words));
	snprintf(c->words[c->used++], sizeof c->words[0], "%s", text);
	memcpy(c->options + row->offset, &kept, sizeof kept);
}

/* A value other than the default; of choices one that is not in `but`. */
static void set_other(Case *c, const tomos_option *row, const char *but)
{
	static const double list[1] = {1};
	const void *pointer = list;
	int64_t one = 1, whole = 7;
	double real = 0.125;
	char word[64];
	switch (row->kind) {
	case TOMOS_CHOICE:
		for (const char *at = row->values; *at; at += strcspn(at, "|"), at += *at == '|') {
			snprintf(word, sizeof word, "%.*s", (int)strcspn(at, "|"), at);
			if (choice_index(but, word) < 0) {
				set_text(c, row, word);
				return;
			}
		}
		fail_msg("%s has no value beside %s", row->name, but);
		return;
	case TOMOS_TEXT:
		set_text(c, row, "some");
		return;
	case TOMOS_FLAG:
	case TOMOS_INT:
	case TOMOS_SIZE:
		memcpy(c->options + row->offset, &whole, sizeof whole);
		return;
	case TOMOS_REAL:
	case TOMOS_ANGLE:
	case TOMOS_LENGTH:
	case TOMOS_ENERGY:
		memcpy(c->options + row->offset, &real, sizeof real);
		return;
	default:
		memcpy(c->options + row->offset, &pointer, sizeof pointer);
		if (row->count_offset)
			memcpy(c->options + row->count_offset, &one, sizeof one);
	}
}

static void set_nothing(Case *c, const tomos_option *row)
{
	const void *none = NULL;
	int64_t zero = 0;
	if (row->kind == TOMOS_TEXT || row->kind == TOMOS_CHOICE)
		set_text(c, row, "");
	else
		memcpy(c->options + row->offset, &none, sizeof none);
	if (row->count_offset)
		memcpy(c->options + row->count_offset, &zero, sizeof zero);
}

/* One alternative, "name", "name=a|b", "name!=a", "name~word", made true or false. */
static void make(Case *c, const char *alternative, bool met)
{
	char name[64], text[128], first[64];
	int length = (int)strcspn(alternative, "=!~:");
	const char *relation = alternative + length;
	bool not = relation[0] == '!', equal = relation[0] == '=', has = relation[0] == '~';
	snprintf(name, sizeof name, "%.*s", length, alternative);
	const char *values = relation + (not ? 2 : equal || has);
	snprintf(text, sizeof text, "%.*s", (int)strcspn(values, ":"), values);
	snprintf(first, sizeof first, "%.*s", (int)strcspn(text, "|"), text);
	const tomos_option *row = find_row(c, name);
	size_t used = strlen(c->facts);
	if (!row)
		snprintf(c->facts + used, sizeof c->facts - used, " %s=%s", name,
			met == !not ? (equal || not ? first : "1") : "0");
	else if (has)
		set_text(c, row, met ? text : "other, another");
	else if (equal || not )
		equal == met ? set_text(c, row, first) : set_other(c, row, text);
	else
		met ? set_other(c, row, "") : set_nothing(c, row);
}

/* Calls make for each alternative of the row's need but `chosen`, which is met last. */
static int alternatives(Case *c, const tomos_option *row, int chosen)
{
	int count = 0;
	char met[256] = "";
	for (const char *at = row->needs; *at; count++) {
		const char *end = strstr(at, " or ");
		char one[256];
		snprintf(one, sizeof one, "%.*s", end ? (int)(end - at) : (int)strlen(at), at);
		if (count == chosen)
			snprintf(met, sizeof met, "%s", one);
		else
			make(c, one, false);
		at = end ? end + 4 : at + strlen(at);
	}
	if (met[0])
		make(c, met, true);
	return count;
}

/* -1: without what it needs. */
static int unmet(Case *c, const tomos_option *row, const void *defaults, size_t bytes, int chosen,
	int *count)
{
	uint64_t bit = (uint64_t)1 << (row - c->rows);
	memcpy(c->options, defaults, bytes);
	c->used = 0;
	c->facts[0] = 0;
	if (!strstr(row->needs, row->name))
		set_other(c, row, row->kind == TOMOS_CHOICE ? row->fallback : "");
	*count = alternatives(c, row, chosen);
	return tomos_option_unmet(c->rows, c->count, c->options, &bit, c->facts);
}

static int check_group(const char *group, const void *defaults, size_t bytes)
{
	static Case c;
	int needs = 0;
	c.group = group;
	c.rows = tomos_options(group, &c.count);
	assert_true(bytes <= sizeof c.options);
	for (int i = 0; i < c.count; i++) {
		const tomos_option *row = &c.rows[i];
		int count = 1, none;
		char words[256];
		if (!row->needs[0])
			continue;
		tomos_option_needs(row, 1, words, sizeof words);
		printf("  %s.%s: %s\n", group, row->name, words);
		if (unmet(&c, row, defaults, bytes, -1, &none) != i)
			fail_msg("%s.%s is accepted without %s", group, row->name, words);
		for (int k = 0; k < count; k++)
			if (unmet(&c, row, defaults, bytes, k, &count) != -1)
				fail_msg("%s.%s is rejected with the need %d of %s", group,
					row->name, k, row->needs);
		needs++;
	}
	return needs;
}

static void every_need(void **state)
{
	(void)state;
	int needs = 0;
#define CHECK(name, ROWS) \
	{ \
		tomos_##name##_options o = tomos_##name##_defaults(); \
		needs += check_group(#name, &o, sizeof o); \
	}
	TOMOS_OPTION_GROUPS(CHECK)
	printf("%d rows with a need\n", needs);
	assert_true(needs >= 50);
}

/* A need names an option of its list, and values that this has, or a fact supplied by a caller. */
static void needs_name_what_there_is(void **state)
{
	(void)state;
#define COUNT_GROUP(name, ROWS) #name,
	static const char *const groups[] = {TOMOS_OPTION_GROUPS(COUNT_GROUP)};
	static const char facts[] =
		"method|phantom|hdf5|store|folder|flats|places|shifts|scan|backend|text_views|"
		"fit";
	for (int g = 0; g < COUNT(groups); g++) {
		Case c = {.group = groups[g]};
		c.rows = tomos_options(groups[g], &c.count);
		for (int i = 0; i < c.count; i++)
			for (const char *at = c.rows[i].needs; *at;) {
				char name[64];
				snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "=!~: "), at);
				if (!find_row(&c, name) && choice_index(facts, name) < 0)
					fail_msg("%s.%s needs '%s'", groups[g], c.rows[i].name,
						name);
				const char *next = strstr(at, " or ");
				at = next ? next + 4 : at + strlen(at);
			}
	}
}

static void words_of_a_need(void **state)
{
	(void)state;
	char text[256];
	tomos_option row = {
		.bytes = sizeof row, .needs = "stop=discrepancy|monotone or method=asd-pocs"};
	tomos_option_needs(&row, 1, text, sizeof text);
	assert_string_equal(text, "--stop discrepancy|monotone or --method asd-pocs");
	tomos_option_needs(&row, 0, text, sizeof text);
	assert_string_equal(text, "stop=discrepancy|monotone or method=asd-pocs");
	row.needs = "filter!=none or shift_x or steps~rings or flats:flat fields";
	tomos_option_needs(&row, 1, text, sizeof text);
	assert_string_equal(
		text, "--filter other than none or --shift-x or rings in --steps or flat fields");
	char little[12];
	tomos_option_needs(&row, 1, little, sizeof little);
	assert_string_equal(little, "--filter ot");
	row.needs = "";
	tomos_option_needs(&row, 1, text, sizeof text);
	assert_string_equal(text, "");
}

/* Library functions that take a struct: options that differ from their defaults count as given. */
static void structs_are_checked_by_their_values(void **state)
{
	(void)state;
	tomos_prep_options p = tomos_prep_defaults();
	assert_ok(options_need("prep", &p, NULL));
	p.delta_beta = 300;
	assert_rejected(options_need("prep", &p, NULL), TOMOS_BAD_VALUE,
		"delta_beta has no effect without phase=paganin");
	p.phase = "paganin";
	assert_ok(options_need("prep", &p, NULL));
	tomos_algebraic_options a = tomos_algebraic_defaults();
	a.noise_level = 0.1;
	assert_rejected(options_need("algebraic", &a, "method=sirt"), TOMOS_BAD_VALUE,
		"noise_level has no effect without stop=discrepancy|monotone or method=asd-pocs");
	assert_ok(options_need("algebraic", &a, "method=asd-pocs"));
	a.stop = "monotone";
	assert_ok(options_need("algebraic", &a, "method=sirt"));
}

#define TESTS(T) \
	T(every_need), T(needs_name_what_there_is), T(words_of_a_need), \
		T(structs_are_checked_by_their_values)
TEST_MAIN(TESTS, NULL, NULL)
