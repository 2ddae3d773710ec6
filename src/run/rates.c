/* The rates of a machine as a file: a line "name value" for each, and comments. */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "run/cost.h"

enum { LINE = 512 };

typedef struct {
	const char *name, *unit;
	size_t offset;
	double assumed;
} Row;

static const Row rows[] = {
#define RATE(name, assumed, unit) {#name, unit, offsetof(tomos_rates, name), assumed},
#include "run/rates.def"
#undef RATE
};

static double *rate_at(tomos_rates *rates, const Row *row)
{
	return (double *)(void *)((char *)rates + row->offset);
}

tomos_rates tomos_rates_defaults(void)
{
	tomos_rates rates = {.bytes = sizeof rates};
	for (int i = 0; i < COUNT(rows); i++)
		*rate_at(&rates, &rows[i]) = rows[i].assumed;
	return rates;
}

/* ---- reading -------------------------------------------------------------------------------- */

static const Row *row_find(const char *name)
{
	for (int i = 0; i < COUNT(rows); i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

static tomos_status bad_line(const char *path, int line, const char *why, const char *word)
{
	return fail(TOMOS_BAD_FILE, "'%s', line %d: %s '%s'", path, line, why, word);
}

/* Members that are words; false: another name, or a word that is too long. */
static bool take_word(tomos_rates *rates, const char *name, const char *word)
{
	bool rays = strcmp(name, "rays") == 0;
	char *to = rays ? rates->rays : rates->method;
	size_t most = rays ? sizeof rates->rays : sizeof rates->method, length = strlen(word);
	if ((!rays && strcmp(name, "method") != 0) || length >= most)
		return false;
	memcpy(to, word, length + 1);
	return true;
}

/* "name value", empty once the comment is removed, or an error. */
static tomos_status line_take(tomos_rates *rates, char *text, const char *path, int line)
{
	char name[32], value[64], more[2], *end;
	text[strcspn(text, "#\r\n")] = 0;
	int found = sscanf(text, "%31s %63s %1s", name, value, more);
	if (found <= 0)
		return TOMOS_OK;
	if (found != 2)
		return bad_line(path, line, "a rate is a name and a number, not", text);
	if (take_word(rates, name, value))
		return TOMOS_OK;
	const Row *row = row_find(name);
	if (!row)
		return bad_line(path, line, "there is no rate", name);
	double number = strtod(value, &end);
	if (*end || !(number >= 0) || isinf(number))
		return bad_line(path, line, "not a number that is 0 or larger:", value);
	*rate_at(rates, row) = number;
	return TOMOS_OK;
}

tomos_status tomos_rates_read(tomos_rates *given, const char *path)
{
	tomos_rates rates = tomos_rates_defaults();
	char text[LINE];
	tomos_status status = TOMOS_OK;
	FILE *file = fopen(path, "r");
	if (!file)
		return fail(TOMOS_IO, "'%s' cannot be read: %s", path, strerror(errno));
	for (int line = 1; status == TOMOS_OK && fgets(text, sizeof text, file); line++)
		status = strlen(text) + 1 == sizeof text
				 ? bad_line(path, line, "the line is too long:", "...")
				 : line_take(&rates, text, path, line);
	fclose(file);
	TRY(status);
	if (!(rates.node_ranks >= 1))
		return fail(TOMOS_BAD_FILE, "'%s': node_ranks is %g, at least 1 is needed", path,
			rates.node_ranks);
	return struct_give(given, &rates, "tomos_rates");
}

/* ---- writing -------------------------------------------------------------------------------- */

static void print_row(FILE *file, const tomos_rates *rates, const Row *row)
{
	double value = *rate_at((tomos_rates *)(uintptr_t)rates, row);
	bool assumed = row->assumed > 0 && value == row->assumed;
	fprintf(file, "%-10s %-12.4g # %s%s\n", row->name, value, row->unit,
		assumed ? " (assumed: set it to that of your machine)" : "");
}

tomos_status tomos_rates_write(const tomos_rates *given, const char *path, const char *note)
{
	tomos_rates rates = tomos_rates_defaults();
	TRY(struct_take(&rates, given, "tomos_rates"));
	FILE *file = fopen(path, "wx");
	if (!file)
		return fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	fprintf(file, "# Rates of a machine, per second, for tomos recon --ranks N --dry-run.\n");
	if (note)
		fprintf(file, "# %s\n", note);
	if (rates.rays[0])
		fprintf(file, "rays       %s\n", rates.rays);
	if (rates.method[0])
		fprintf(file, "method     %s\n", rates.method);
	for (int i = 0; i < COUNT(rows); i++)
		print_row(file, &rates, &rows[i]);
	bool wrong = ferror(file) != 0;
	if (fclose(file) != 0 || wrong)
		return fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	return TOMOS_OK;
}
