/* tomos help --header: the option structs of tomos/options.h as plain C, for the installed
 * header. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "cli.h"

enum { COLUMNS = 100, TAB = 8 };

/* The type of a member, in the order of tomos_option_kind; lists are followed by their count. */
static const char *const types[] = {
	[TOMOS_INT] = "int64_t ",
	[TOMOS_REAL] = "double ",
	[TOMOS_ANGLE] = "double ",
	[TOMOS_FLAG] = "int64_t ",
	[TOMOS_TEXT] = "const char *",
	[TOMOS_CHOICE] = "const char *",
	[TOMOS_INTS] = "const int64_t *",
	[TOMOS_REALS] = "const double *",
	[TOMOS_ANGLES] = "const double *",
	[TOMOS_ARRAY] = "const struct tomos_array *",
	[TOMOS_HISTORY] = "struct tomos_history *",
	[TOMOS_LENGTH] = "double ",
	[TOMOS_ENERGY] = "double ",
	[TOMOS_SIZE] = "int64_t ",
	[TOMOS_LENGTHS] = "const double *",
};

/* One indented comment, wrapped between words. */
static void comment(const char *text)
{
	int column = TAB + 2;
	printf("\t/*");
	for (const char *at = text; *at; at += strspn(at, " ")) {
		int length = (int)strcspn(at, " ");
		if (column + 1 + length > COLUMNS - 3) {
			printf("\n\t *");
			column = TAB + 2;
		}
		printf(" %.*s", length, at);
		column += 1 + length;
		at += length;
	}
	printf(" */\n");
}

static void member(const tomos_option *row)
{
	char text[2048], needs[256];
	tomos_option_needs(row, 0, needs, sizeof needs);
	const char *unit =
		row->kind == TOMOS_ANGLE || row->kind == TOMOS_ANGLES ? "radians" : row_values(row);
	snprintf(text, sizeof text, "%s%s%s%s%s%s", unit, unit[0] ? ": " : "", row->help,
		needs[0] ? "; needs " : "", needs,
		row->count_offset ? "; NULL and 0: not given" : "");
	comment(text);
	printf("\t%s%s;\n", types[row->kind], row->name);
	if (row->count_offset)
		printf("\tint64_t %s_count;\n", row->name);
}

/* What differs from all bits 0. */
static void set_default(const tomos_option *row)
{
	const char *value = row->fallback;
	if (row->kind == TOMOS_TEXT || row->kind == TOMOS_CHOICE)
		printf("\to.%s = \"%s\";\n", row->name, value);
	else if (strcmp(value, "inf") == 0 || strcmp(value, "-inf") == 0)
		printf("\to.%s = %sINFINITY;\n", row->name, value[0] == '-' ? "-" : "");
	else if (row->kind == TOMOS_ANGLE && strcmp(value, "0") != 0)
		printf("\to.%s = %s * (3.14159265358979323846 / 180);\n", row->name, value);
	else if (value[0] && strcmp(value, "0") != 0)
		printf("\to.%s = %s;\n", row->name, value);
}

static void print_group(const char *name)
{
	int count;
	const tomos_option *rows = tomos_options(name, &count);
	printf("typedef struct tomos_%s_options {\n\tsize_t bytes; /* of this struct */\n", name);
	for (int i = 0; i < count; i++)
		member(TOMOS_ROW(rows, i));
	printf("} tomos_%s_options;\n\n", name);
	printf("static inline tomos_%s_options tomos_%s_defaults(void)\n{\n", name, name);
	printf("\ttomos_%s_options o = TOMOS_ZERO;\n\to.bytes = sizeof o;\n", name);
	for (int i = 0; i < count; i++)
		set_default(TOMOS_ROW(rows, i));
	printf("\treturn o;\n}\n\n");
}

void help_header(void)
{
#define GROUP_NAME(group, ROWS) #group,
	static const char *const groups[] = {TOMOS_OPTION_GROUPS(GROUP_NAME)};
	printf("/* Option structs of tomos %s and their defaults; generated. */\n",
		tomos_version());
	printf("#ifndef TOMOS_OPTIONS_H\n#define TOMOS_OPTIONS_H\n\n"
	       "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n\n"
	       "#ifdef __cplusplus\n#define TOMOS_ZERO {}\n#else\n#define TOMOS_ZERO {0}\n"
	       "#endif\n\n");
	for (int i = 0; i < COUNT(groups); i++)
		print_group(groups[i]);
	printf("#endif\n");
}
