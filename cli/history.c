/* Residual and error of each iteration: lists for them, and their file and plot. */
#include <stdio.h>
#include <stdlib.h>
#include "plot.h"

enum { MOST = 100000 };

int history_new(tomos_history *h, int64_t iterations)
{
	h->bytes = sizeof *h;
	h->capacity = iterations < 0 ? 0 : iterations < MOST ? iterations : MOST;
	h->residual = malloc((size_t)(h->capacity + 1) * sizeof *h->residual);
	h->error = malloc((size_t)(h->capacity + 1) * sizeof *h->error);
	return h->residual && h->error ? DONE : failed("no memory for the history");
}

void history_free(tomos_history *h)
{
	free(h->residual);
	free(h->error);
}

int64_t history_count(const tomos_history *h)
{
	return h->count < h->capacity ? h->count : h->capacity;
}

int history_write(const settings *s, const tomos_history *h)
{
	const char *path = s->recon.history;
	text_file table;
	if (!path[0])
		return DONE;
	if (text_begin(&table, path) != DONE)
		return FAILED;
	fprintf(table.lines, "iteration,residual,error\n");
	for (int64_t i = 0; i < history_count(h); i++)
		fprintf(table.lines, "%lld,%.9g,%.9g\n", (long long)(i + 1), h->residual[i],
			h->error[i]);
	return text_end(&table, path, s->file.overwrite);
}

int history_plot(const settings *s, const tomos_history *h, const char *method, bool truth)
{
	int64_t count = history_count(h);
	const curve curves[2] = {{"residual", h->residual, count}, {"error", h->error, count}};
	const plot p = {.title = method,
		.curves = curves,
		.curve_count = truth ? 2 : 1,
		.across = "iteration",
		.up = "relative norm"};
	if (!s->recon.plot[0] || count == 0)
		return DONE;
	return plot_write(s->recon.plot, &p, &s->file);
}

double history_least(const tomos_history *h)
{
	return h->best > 0 && h->best <= h->capacity ? h->error[h->best - 1] : NAN;
}
