/* Zingers: pixels hit by a stray photon, brighter than the median of their neighbours in space, in
 * time or in both. The test in both preserves small bright details, which are in the next view as
 * well. */
#include <stdatomic.h>
#include <string.h>
#include "prep/prep.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

enum { ZINGERS_SPACE = 1, ZINGERS_TIME = 2 };

typedef struct {
	const tomos_array *in, *out; /* of the same shape; `in` is not changed */
	int where;
	int64_t half;
	float level;
	_Atomic int64_t *found;
} Zingers;

/* ---- medians, of the few zingers ------------------------------------------------------------- */

/* Neighbours in the copy: `rows` lines of `columns` values, or one column of several views. */
typedef struct {
	const float *first;
	int64_t rows, columns, stride; /* stride: between lines */
} Neighbours;

/* Windows are truncated at the edges. */
static Neighbours around(const Zingers *job, bool time, int64_t view, int64_t row, int64_t column)
{
	const int64_t *n = job->in->shape, plane = n[1] * n[2], h = job->half;
	const float *copy = job->in->data;
	if (time) {
		int64_t low = max64(view - h, 0), high = min64(view + h, n[0] - 1);
		return (Neighbours){
			copy + low * plane + row * n[2] + column, high - low + 1, 1, plane};
	}
	int64_t top = max64(row - h, 0), bottom = min64(row + h, n[1] - 1);
	int64_t left = max64(column - h, 0), right = min64(column + h, n[2] - 1);
	return (Neighbours){
		copy + view * plane + top * n[2] + left, bottom - top + 1, right - left + 1, n[2]};
}

/* Values that are no numbers are the largest. */
static float neighbours_median(const Neighbours *n, float *values)
{
	int64_t count = 0;
	for (int64_t r = 0; r < n->rows; r++)
		for (int64_t c = 0; c < n->columns; c++) {
			float value = n->first[r * n->stride + c];
			values[count++] = isnan(value) ? INFINITY : value;
		}
	return median_of(values, count);
}

/* ---- the test -------------------------------------------------------------------------------- */

/* Adds one for each pixel of a row that exceeds the one in `other` by the level. */
static void count_row(
	const float *here, const float *other, int64_t count, float level, int32_t *above)
{
	for (int64_t c = 0; c < count; c++)
		above[c] += here[c] > other[c] + level;
}

/* How many neighbours in time each pixel of a row exceeds by the level. */
static void count_in_time(
	const Zingers *job, int64_t view, int64_t row, const float *here, int32_t *above)
{
	const int64_t *n = job->in->shape, h = job->half;
	memset(above, 0, (size_t)n[2] * sizeof *above);
	for (int64_t v = max64(view - h, 0); v <= min64(view + h, n[0] - 1); v++)
		count_row(here, array_row(job->in, v, row), n[2], job->level, above);
}

static void count_in_space(
	const Zingers *job, int64_t view, int64_t row, const float *here, int32_t *above)
{
	const int64_t *n = job->in->shape, h = job->half, columns = n[2];
	memset(above, 0, (size_t)columns * sizeof *above);
	for (int64_t r = max64(row - h, 0); r <= min64(row + h, n[1] - 1); r++)
		for (int64_t d = max64(-h, 1 - columns); d <= min64(h, columns - 1); d++) {
			int64_t first = max64(0, -d);
			count_row(here + first, array_row(job->in, view, r) + first + d,
				columns - max64(d, -d), job->level, above + first);
		}
}

static int32_t count_one(const Zingers *job, const Neighbours *n, float here)
{
	int32_t above = 0;
	for (int64_t r = 0; r < n->rows; r++)
		for (int64_t c = 0; c < n->columns; c++)
			above += here > n->first[r * n->stride + c] + job->level;
	return above;
}

/* A value exceeds the median by the level exactly if it exceeds more than half of the neighbours by
 * it; of an even number, it may be between the two in the middle. */
static bool exceeds(
	const Zingers *job, const Neighbours *n, float here, int32_t above, float *values)
{
	int64_t count = n->rows * n->columns;
	if (above != count / 2 || count % 2)
		return above > count / 2;
	return here > neighbours_median(n, values) + job->level;
}

/* above: for the test in time, if there is one, otherwise for that in space. */
static bool is_zinger(
	const Zingers *job, const int64_t at[3], int32_t above, float *values, float *median)
{
	const float here = array_row(job->in, at[0], at[1])[at[2]];
	bool in_time = job->where & ZINGERS_TIME, both = in_time && job->where & ZINGERS_SPACE;
	Neighbours first = around(job, in_time, at[0], at[1], at[2]);
	if (!exceeds(job, &first, here, above, values))
		return false;
	Neighbours beside = around(job, false, at[0], at[1], at[2]);
	if (both && !exceeds(job, &beside, here, count_one(job, &beside, here), values))
		return false;
	*median = neighbours_median(&first, values);
	return true;
}

/* The test in time has fewer neighbours and is done first; few pixels pass it. */
static int64_t clean_row(
	const Zingers *job, int64_t view, int64_t row, float *values, int32_t *above)
{
	const float *here = array_row(job->in, view, row);
	float *out = array_row(job->out, view, row), median;
	int64_t found = 0;
	if (job->where & ZINGERS_TIME)
		count_in_time(job, view, row, here, above);
	else
		count_in_space(job, view, row, here, above);
	for (int64_t c = 0; c < job->in->shape[2]; c++) {
		if (above[c] == 0 ||
			!is_zinger(job, (int64_t[]){view, row, c}, above[c], values, &median))
			continue;
		out[c * job->out->stride[2]] = median;
		found++;
	}
	return found;
}

static void clean_view(const void *user, int64_t view, float *scratch)
{
	const Zingers *job = user;
	int32_t *above = (int32_t *)(void *)scratch;
	int64_t found = 0;
	for (int64_t row = 0; row < job->in->shape[1]; row++)
		found += clean_row(job, view, row, scratch + job->in->shape[2], above);
	*job->found += found;
}

/* Works on a copy, because neighbours that are already corrected would change the medians. */
static tomos_status clean(const tomos_array *data, Zingers job, int64_t size)
{
	const int64_t *n = data->shape;
	int64_t count, high = min64(size, n[1]), wide = min64(size, n[2]);
	float *copy;
	TRY(shape_count(n, &count));
	TRY(mem_alloc(&copy, count, sizeof *copy, "a copy of the views, to find zingers"));
	for (int64_t view = 0; view < n[0]; view++)
		frame_get(data, view, copy + view * n[1] * n[2]);
	tomos_array in = tomos_array_of(copy, n[0], n[1], n[2]);
	job.in = &in;
	tomos_status status = pieces_each(n[0], n[2] + max64(high * wide, size), clean_view, &job);
	mem_free(copy);
	return status;
}

tomos_status zingers_check(const tomos_prep_options *o)
{
	TRY(prep_size("zinger-size", o->zinger_size));
	if (!(o->zinger_level > 0))
		return fail(
			TOMOS_BAD_VALUE, "zinger-level %g: it must be above 0", o->zinger_level);
	return TOMOS_OK;
}

tomos_status tomos_prep_zingers(
	const tomos_array *data, const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	int where;
	TRY(prep_begin(&o, options, report, data, "the transmissions"));
	TRY(choice_find("zingers", prep_values.zingers, o.zingers, &where));
	TRY(zingers_check(&o));
	_Atomic int64_t found = 0;
	Zingers job = {.out = data,
		.where = where,
		.half = o.zinger_size / 2,
		.level = (float)o.zinger_level,
		.found = &found};
	if (where == 0)
		return TOMOS_OK;
	TRY(clean(data, job, o.zinger_size));
	return report_add(report, &(tomos_prep_report){.zingers = found});
}
