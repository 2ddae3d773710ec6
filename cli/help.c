/* Help of --help and `tomos help`, generated from the option rows. */
#include <stdio.h>
#include <string.h>
#include "cli.h"

#define INDENT 26

/* Prints text wrapped at WIDTH, with continuation lines indented; `column` is the start of the
 * first line, and `fold` is appended to a line that continues. */
static void wrap(const char *text, int indent, int column, const char *fold)
{
	while (*text) {
		int n = (int)strcspn(text, " ");
		if (column > indent && column + 1 + n + (int)strlen(fold) > WIDTH) {
			printf("%s\n%*s", fold, indent, "");
			column = indent;
		} else if (column > indent) {
			putchar(' ');
			column++;
		}
		printf("%.*s", n, text);
		column += n;
		text += n + strspn(text + n, " ");
	}
	putchar('\n');
}

void row_heading(const tomos_option *row, char text[160])
{
	char name[64], letter = row_letter(row);
	const char *value = row->kind == TOMOS_FLAG ? "" : row_values(row);
	name_shown(row->name, name);
	if (row->kind == TOMOS_CHOICE)
		value = "NAME";
	int at = letter ? snprintf(text, 160, "-%c, ", letter) : 0;
	snprintf(text + at, 160 - (size_t)at, "--%s%s%s", name, value[0] ? " " : "", value);
}

/* The requirement of an option, for example "needs --rings vo"; empty if defaults satisfy it. The
 * option that is needed may be in any group of the command's options. */
static void help_needs(const command *c, const tomos_option *row, char text[256])
{
	settings plain;
	settings_init(&plain);
	snprintf(plain.facts, sizeof plain.facts, "phantom=none text_views=0");
	bool met = false;
	for (int number = 0; number < GROUP_COUNT; number++) {
		group g = group_get(number);
		for (int i = 0; i < g.count; i++)
			if (row_used(c, number, i) && strcmp(g.rows[i].name, row->name) == 0)
				met |= needs_met(&plain, number, i);
	}
	text[0] = 0;
	if (!met)
		tomos_option_needs(row, 1, text, 256);
	settings_free(&plain);
}

/* "help; needs --other (a, b or c; default: a)" */
void row_help(const command *c, int number, const tomos_option *row, char text[1024])
{
	char fallback[256];
	bool choice = row->kind == TOMOS_CHOICE;
	char needs[256];
	help_needs(c, row, needs);
	int at = snprintf(text, 1024, "%s%s%s%s", row_text(c, row), needs[0] ? "; needs " : "",
		needs, choice ? " (" : "");
	for (const char *v = row_values(row); choice && *v && at < 1000; v++)
		at += *v == '|' ? sprintf(text + at, ", ") : sprintf(text + at, "%c", *v);
	row_default(c, number, row, fallback);
	if (fallback[0])
		at += snprintf(text + at, 1024 - (size_t)at, "%sdefault: %s%s",
			choice ? "; " : " (", fallback, choice ? "" : ")");
	if (choice)
		snprintf(text + at, 1024 - (size_t)at, ")");
}

static void print_row(const command *c, int number, const tomos_option *row)
{
	char heading[160], help[1024];
	row_heading(row, heading);
	row_help(c, number, row, help);
	int column = printf("  %s", heading);
	if (column > INDENT - 2) {
		printf("\n%*s", INDENT, "");
		column = INDENT;
	} else {
		column += printf("%*s", INDENT - column, "");
	}
	wrap(help, INDENT, column, "");
}

static void print_examples(const char *examples)
{
	printf("\nExamples:\n");
	for (const char *at = examples; *at;) {
		char line[256];
		int n = (int)strcspn(at, "\n");
		snprintf(line, sizeof line, "%.*s", n, at);
		printf("  ");
		wrap(line, 6, 2, " \\");
		at += n + (at[n] == '\n');
	}
}

/* Lists the operands of the command that are from a fixed set. */
static void print_operands(const command *c)
{
	char line[512];
	if (!word_has(c->operands, "phantom"))
		return;
	int at = snprintf(line, sizeof line, "Phantoms: ");
	for (const char *name = tomos_phantom_names(); *name && at < (int)sizeof line - 3; name++)
		at += sprintf(line + at, *name == '|' ? "%c " : "%c", *name == '|' ? ',' : *name);
	putchar('\n');
	wrap(line, 2, 0, "");
}

/* Whether an earlier group of the command has an option of that name, which is then the same. */
static bool is_shown(const command *c, int number, const char *name)
{
	for (int before = 0; before < number; before++) {
		group g = group_get(before);
		for (int i = 0; i < g.count; i++)
			if (row_used(c, before, i) && strcmp(g.rows[i].name, name) == 0)
				return true;
	}
	return false;
}

/* Prints every option under the heading of its group; returns whether one takes a list. */
static bool print_groups(const command *c)
{
	bool lists = false;
	for (int number = 0; number < GROUP_COUNT; number++) {
		group g = group_get(number);
		bool begun = false;
		for (int i = 0; g.heading[0] && i < g.count; i++) {
			if (!row_used(c, number, i) || is_shown(c, number, g.rows[i].name))
				continue;
			if (!begun)
				printf("\n%s:\n", g.heading);
			begun = true;
			lists |= g.rows[i].count_offset != 0;
			print_row(c, number, &g.rows[i]);
		}
	}
	return lists;
}

void help_command(const command *c)
{
	printf("tomos %s: %s\n\nUsage: tomos %s %s\n", c->name, c->summary, c->name, c->usage);
	print_operands(c);
	bool lists = print_groups(c);
	if (lists)
		printf("\nLists of numbers are written a,b,c, or @FILE to read them from "
		       "a file.\n");
	print_examples(c->examples);
}

void help_all(void)
{
	int count;
	const command *list = command_list(&count);
	printf("tomos %s: images from X-ray projections\n\n", tomos_version());
	printf("Usage: tomos COMMAND [OPTIONS]\n\nCommands:\n");
	for (int i = 0; i < count; i++)
		printf("  %-12s %s\n", list[i].name, list[i].summary);
	printf("\n'tomos help COMMAND' or 'tomos COMMAND --help' describes one command.\n"
	       "Lengths are in one unit of your choice (usually mm), attenuation in 1/unit,\n"
	       "angles in degrees. Exit status: 0 done, 1 failed, 2 wrong usage, 130 "
	       "interrupted.\n");
}
