/* tomos curves: convergence of several reconstructions in one plot, with a table below. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plot.h"

enum { MOST = 6, NAME = 16 };

typedef struct history {
	char name[NAME + 1];
	double *values;
	int64_t count;
} history;

/* The file name without folder and extension. */
static void short_name(const char *path, char name[NAME + 1])
{
	const char *slash = strrchr(path, '/');
	path = slash ? slash + 1 : path;
	const char *ending = strrchr(path, '.');
	int length = ending ? (int)(ending - path) : (int)strlen(path), most = utf8_cut(path, NAME);
	snprintf(name, NAME + 1, "%.*s", length < most ? length : most, path);
}

static int history_grow(history *h)
{
	size_t bytes = (size_t)(2 * h->count + 64) * sizeof *h->values;
	double *larger = h->count % 64 == 0 ? realloc(h->values, bytes) : h->values;
	if (!larger)
		return failed("no memory for a history");
	h->values = larger;
	return DONE;
}

static int history_lines(FILE *file, const char *path, bool residual, history *h)
{
	char line[128] = "";
	double values[2];
	long long iteration;
	int code = DONE;
	if (!fgets(line, sizeof line, file) || strcmp(line, "iteration,residual,error\n") != 0)
		return failed("'%s' is no history of recon --history", path);
	while (code == DONE && fgets(line, sizeof line, file)) {
		if (sscanf(line, "%lld,%lf,%lf", &iteration, &values[0], &values[1]) != 3)
			return failed("'%s': line %lld is not three numbers", path,
				(long long)h->count + 2);
		code = history_grow(h);
		if (code == DONE)
			h->values[h->count++] = values[residual ? 0 : 1];
	}
	if (code == DONE && h->count == 0)
		return failed("'%s' has no iterations", path);
	if (code == DONE && !residual && isnan(h->values[0]))
		return failed("'%s' has no errors, as the truth was not given (recon --truth); use "
			      "--column residual",
			path);
	return code;
}

static int history_read(const settings *s, const char *path, history *h)
{
	FILE *file = fopen(path, "r");
	if (!file)
		return failed("'%s' cannot be opened: %s", path, strerror(errno));
	short_name(path, h->name);
	int code = history_lines(file, path, strcmp(s->curves.column, "residual") == 0, h);
	fclose(file);
	return code;
}

/* "name least 0.1 after 12 of 40, below 0.2 after 5" */
static void table_line(const settings *s, const history *h, char *text, size_t size)
{
	int64_t best = 0, below = -1;
	int wide = NAME; /* in bytes: that of as many letters */
	for (const char *c = h->name; *c; c++)
		wide += ((unsigned char)*c & 0xc0) == 0x80;
	for (int64_t i = 0; i < h->count; i++) {
		best = h->values[i] < h->values[best] ? i : best;
		below = below < 0 && h->values[i] < s->curves.below ? i : below;
	}
	int used = snprintf(text, size, "%-*s  least %.4g after %lld of %lld", wide, h->name,
		h->values[best], (long long)best + 1, (long long)h->count);
	if (s->curves.below > 0 && below >= 0)
		used += snprintf(text + used, size - (size_t)used, ", below %g after %lld",
			s->curves.below, (long long)below + 1);
	else if (s->curves.below > 0)
		used += snprintf(
			text + used, size - (size_t)used, ", never below %g", s->curves.below);
	snprintf(text + used, size - (size_t)used, "\n");
}

int cmd_curves(const settings *s)
{
	history list[MOST] = {0};
	curve curves[MOST];
	char notes[MOST * 128] = "";
	int code = DONE;
	for (int i = 0; i < s->operand_count; i++) {
		DO(history_read(s, s->operands[i], &list[i]));
		curves[i] = (curve){list[i].name, list[i].values, list[i].count};
		table_line(s, &list[i], notes + strlen(notes), 128);
	}
	const plot p = {.title = s->curves.title[0] ? s->curves.title : s->curves.column,
		.curves = curves,
		.curve_count = s->operand_count,
		.notes = notes,
		.across = "iteration",
		.up = strcmp(s->curves.column, "error") == 0 ? "relative error"
							     : "relative residual"};
	DO(plot_write(s->output.output, &p, &s->file));
	printf("%s", notes);
done:
	for (int i = 0; i < MOST; i++)
		free(list[i].values);
	return code;
}
