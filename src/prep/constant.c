/* Detector pixels that do not vary over the views, dead ones and those behind a frame: they are the
 * same in all views, so that any search for what opposite views have in common finds them. Columns
 * between others are interpolated; at the edges, where air does not vary either, those that differ
 * from it become air. */
#include <math.h>
#include "prep/axis.h"

#define CONSTANT 1e-5  /* of the largest variation in a row */
#define DIFFERENT 0.02 /* likewise: from air */
#define WIDEST 0.06    /* of the columns, that are interpolated */

typedef struct {
	float low, high;
} Range;

/* Ranges of the pixels of a row over the views, and the largest. */
static float take_ranges(const tomos_array *a, int64_t row, Range *ranges)
{
	float widest = 0;
	for (int64_t v = 0; v < a->shape[0]; v++) {
		const float *line = array_row(a, v, row);
		for (int64_t c = 0; c < a->shape[2]; c++) {
			float value = line[c * a->stride[2]];
			Range *r = &ranges[c];
			*r = v ? (Range){fminf(r->low, value), fmaxf(r->high, value)}
			       : (Range){value, value};
		}
	}
	for (int64_t c = 0; c < a->shape[2]; c++)
		widest = fmaxf(widest, ranges[c].high - ranges[c].low);
	return widest;
}

/* A run of constant columns, [first, end), in one row. */
typedef struct {
	int64_t row, first, end;
} Run;

static void interpolate(const tomos_array *a, const Run *run)
{
	int64_t step = a->stride[2];
	for (int64_t v = 0; v < a->shape[0]; v++) {
		float *line = array_row(a, v, run->row);
		float left = line[(run->first - 1) * step], right = line[run->end * step];
		for (int64_t c = run->first; c < run->end; c++)
			line[c * step] = left + (right - left) * (float)(c - run->first + 1) /
							(float)(run->end - run->first + 1);
	}
}

static void set_column(const tomos_array *a, int64_t row, int64_t column, float value)
{
	for (int64_t v = 0; v < a->shape[0]; v++)
		array_row(a, v, row)[column * a->stride[2]] = value;
}

/* Corrects a run, or says whether it needs that (`only_look`). */
static bool repair_run(
	const tomos_array *a, const Run *run, const Range *ranges, float widest, bool only_look)
{
	int64_t n = a->shape[2];
	bool edge = run->first == 0 || run->end == n, found = false;
	if (!edge && run->end - run->first > max64((int64_t)(WIDEST * (double)n), 1))
		return false;
	if (!edge && !only_look)
		interpolate(a, run);
	if (!edge)
		return true;
	float air = ranges[run->first == 0 ? run->end : run->first - 1].low;
	for (int64_t c = run->first; c < run->end; c++) {
		float value = ranges[c].low; /* 0 is air, also beside a column that has none */
		if (fminf(fabsf(value), fabsf(value - air)) <= (float)DIFFERENT * widest)
			continue;
		found = true;
		if (!only_look)
			set_column(a, run->row, c, air);
	}
	return found;
}

static bool repair_row(const tomos_array *a, int64_t row, Range *ranges, bool only_look)
{
	float widest = take_ranges(a, row, ranges), least = (float)CONSTANT * widest;
	int64_t n = a->shape[2];
	bool found = false;
	if (!(widest > 0 && isfinite(widest)))
		return false;
	for (int64_t c = 0; c < n; c++) {
		Run run = {row, c, c};
		while (run.end < n && ranges[run.end].high - ranges[run.end].low <= least)
			run.end++;
		if (run.end > run.first)
			found |= repair_run(a, &run, ranges, widest, only_look);
		c = run.end;
	}
	return found;
}

static bool repair_rows(const tomos_array *a, Range *ranges, bool only_look)
{
	bool found = false;
	for (int64_t r = 0; r < a->shape[1]; r++)
		found |= repair_row(a, r, ranges, only_look);
	return found;
}

tomos_status constant_repair(tomos_array *data, float **copy)
{
	const int64_t *n = data->shape;
	Range *ranges;
	*copy = NULL;
	TRY(mem_alloc(&ranges, n[2], sizeof *ranges, "ranges of columns"));
	tomos_status status = TOMOS_OK;
	if (repair_rows(data, ranges, true))
		status = mem_alloc(copy, n[0] * n[1] * n[2], sizeof **copy, "corrected columns");
	if (status == TOMOS_OK && *copy) {
		tomos_array own = tomos_array_of(*copy, n[0], n[1], n[2]);
		for (int64_t i = 0; i < n[0] * n[1]; i++)
			row_get(data, i / n[1], i % n[1], *copy + i * n[2]);
		repair_rows(&own, ranges, false);
		*data = own;
	}
	mem_free(ranges);
	return status;
}
