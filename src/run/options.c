/* The rows of options.def at run time, for programs that make their own interface from them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"

#define DEGREES (180 / 3.14159265358979323846)

enum { TEXT = 32 }; /* characters of the longest number */

typedef struct {
	const char *name;
	const tomos_option *rows;
	int count;
} Group;

static void print_real(char text[TEXT], double value)
{
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, TEXT, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			return;
	}
}

/* The default of an option as a string: numbers are written to `text`. */
static const char *fallback_text(tomos_option_kind kind, const char *field, char text[TEXT])
{
	int64_t whole;
	double real;
	const char *given;
	switch (kind) {
	case TOMOS_INT:
	case TOMOS_SIZE:
	case TOMOS_FLAG:
		memcpy(&whole, field, sizeof whole);
		snprintf(text, TEXT, "%lld", (long long)whole);
		return text;
	case TOMOS_REAL:
	case TOMOS_ANGLE:
	case TOMOS_LENGTH:
	case TOMOS_ENERGY:
		memcpy(&real, field, sizeof real);
		print_real(text, kind == TOMOS_ANGLE ? real * DEGREES : real);
		return text;
	case TOMOS_TEXT:
	case TOMOS_CHOICE:
		memcpy(&given, field, sizeof given);
		return given;
	default:
		return ""; /* lists and arrays have none */
	}
}

static void finish_rows(tomos_option *rows, int count, char (*texts)[TEXT], const void *defaults)
{
	for (int i = 0; i < count; i++) {
		const char *field = (const char *)defaults + rows[i].offset;
		rows[i].fallback = fallback_text(rows[i].kind, field, texts[i]);
		if (strcmp(rows[i].values, "=projectors") == 0)
			rows[i].values = tomos_projector_names();
	}
}

#define COUNT_AT_INT(name) 0
#define COUNT_AT_REAL(name) 0
#define COUNT_AT_ANGLE(name) 0
#define COUNT_AT_LENGTH(name) 0
#define COUNT_AT_ENERGY(name) 0
#define COUNT_AT_SIZE(name) 0
#define COUNT_AT_FLAG(name) 0
#define COUNT_AT_TEXT(name) 0
#define COUNT_AT_CHOICE(name) 0
#define COUNT_AT_ARRAY(name) 0
#define COUNT_AT_HISTORY(name) 0
#define COUNT_AT_INTS(name) offsetof(Options, name##_count)
#define COUNT_AT_REALS(name) offsetof(Options, name##_count)
#define COUNT_AT_ANGLES(name) offsetof(Options, name##_count)
#define COUNT_AT_LENGTHS(name) offsetof(Options, name##_count)
#define ROW(kind, name, fallback, values, ...) \
	{sizeof(tomos_option), #name, TOMOS_##kind, "", values, TOMOS_ROW_HELP(__VA_ARGS__), \
		offsetof(Options, name), COUNT_AT_##kind(name), TOMOS_ROW_NEEDS(__VA_ARGS__)},

#define GROUP_FUNCTION(group, ROWS) \
	static Group group##_group(void) \
	{ \
		typedef tomos_##group##_options Options; \
		static tomos_option rows[] = {ROWS(ROW)}; \
		static char texts[COUNT(rows)][TEXT]; \
		Options defaults = tomos_##group##_defaults(); \
		finish_rows(rows, COUNT(rows), texts, &defaults); \
		return (Group){#group, rows, COUNT(rows)}; \
	}
#define GROUP_ONE(group, ROWS) +1
#define GROUP_CALL(group, ROWS) groups[i++] = group##_group();

TOMOS_OPTION_GROUPS(GROUP_FUNCTION)

static Group groups[TOMOS_OPTION_GROUPS(GROUP_ONE)];

static void fill_groups(void)
{
	int i = 0;
	TOMOS_OPTION_GROUPS(GROUP_CALL)
}

const tomos_option *tomos_options(const char *group, int *count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, fill_groups);
	for (int i = 0; group && i < COUNT(groups); i++)
		if (strcmp(groups[i].name, group) == 0) {
			*count = groups[i].count;
			return groups[i].rows;
		}
	*count = 0;
	return NULL;
}
