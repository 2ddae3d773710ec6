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

static float at(const tomos_array *a, int64_t view, int64_t row, int64_t column)
{
	return array_row(a, view, row)[column * a->stride[2]];
}

/* Windows are truncated at the edges. */
static float space_median(
	const Zingers *job, int64_t view, int64_t row, int64_t column, float *values)
{
	const int64_t *n = job->in->shape;
	int64_t count = 0, h = job->half;
	for (int64_t r = max64(row - h, 0); r <= min64(row + h, n[1] - 1); r++)
		for (int64_t c = max64(column - h, 0); c <= min64(column + h, n[2] - 1); c++)
			values[count++] = at(job->in, view, r, c);
	return median_of(values, count);
}

static float time_median(
	const Zingers *job, int64_t view, int64_t row, int64_t column, float *values)
{
	int64_t count = 0, h = job->half;
	for (int64_t v = max64(view - h, 0); v <= min64(view + h, job->in->shape[0] - 1); v++)
		values[count++] = at(job->in, v, row, column);
	return median_of(values, count);
}

/* Whether the pixel is a zinger, and the median that replaces it. The test in time has fewer values
 * and is done first. */
static bool is_zinger(
	const Zingers *job, int64_t view, int64_t row, int64_t column, float *values, float *median)
{
	float here = at(job->in, view, row, column);
	if (job->where & ZINGERS_TIME) {
		*median = time_median(job, view, row, column, values);
		if (!(here > *median + job->level))
			return false;
	}
	if (job->where & ZINGERS_SPACE) {
		float space = space_median(job, view, row, column, values);
		if (!(here > space + job->level))
			return false;
		if (!(job->where & ZINGERS_TIME))
			*median = space;
	}
	return true;
}

static void clean_view(const void *user, int64_t view, float *values)
{
	const Zingers *job = user;
	int64_t found = 0;
	float median = 0;
	for (int64_t row = 0; row < job->in->shape[1]; row++)
		for (int64_t c = 0; c < job->in->shape[2]; c++) {
			if (!is_zinger(job, view, row, c, values, &median))
				continue;
			array_row(job->out, view, row)[c * job->out->stride[2]] = median;
			found++;
		}
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
	tomos_status status = pieces_each(n[0], max64(high * wide, size), clean_view, &job);
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
