/* Laminography as parallel beam: the sum of a view over its rows is the integral over planes along
 * z, whatever the tilt of the rays, so that sums over rows are the sinogram of the object
 * summed along z, and its axis is found as that of any slice.
 *
 * Of plates that go on beyond the first and last row, views see different parts. There rows
 * count less towards the ends: a point at the height of the middle row is as far from it in the
 * opposite view, on the other side, and counts alike in both. */
#include <math.h>
#include "prep/axis.h"
#include "prep/orbit.h"

#define TRUNCATED 0.03 /* of the largest value, in the first and last rows */
#define COMMON 0.05    /* columns: error of scans that are cut off there */

tomos_status axis_sums_begin(AxisSums *s, const Orbit *orbit)
{
	int64_t count;
	*s = (AxisSums){.views = orbit->views, .rows = orbit->rows, .columns = orbit->columns};
	s->middle = 0.5 * (double)(orbit->rows - 1);
	/* columns that the projected axis moves by from row to row */
	s->slope = tan(orbit->mirror * orbit->upright * orbit->pose[POSE_ROLL]) * orbit->height /
		   orbit->width;
	TRY(shape_count((const int64_t[]){2, s->views, s->columns}, &count));
	return mem_zeroed(&s->sums, count, sizeof *s->sums, "sums over rows");
}

void axis_sums_free(AxisSums *s)
{
	mem_free(s->sums);
	s->sums = NULL;
}

/* Adds `share` times a row to a sum, moved by `by` columns. */
static void add_row(const float *row, int64_t n, double by, float share, float *sum)
{
	double whole = floor(by);
	float part = (float)(by - whole);
	for (int64_t c = 0; c < n; c++) {
		int64_t at = min64(max64(c + (int64_t)whole, 0), n - 1),
			next = min64(at + 1, n - 1);
		sum[c] += share * ((1 - part) * row[at] + part * row[next]);
	}
}

typedef struct {
	AxisSums *sums;
	const tomos_array *rows;
	int64_t first;
} SumTask;

static void add_view(const void *user, int64_t view, float *row)
{
	const SumTask *t = user;
	const AxisSums *s = t->sums;
	float *even = s->sums + view * s->columns, *tapered = even + s->views * s->columns;
	for (int64_t r = 0; r < t->rows->shape[1]; r++) {
		double at = (double)(t->first + r) - s->middle;
		double taper = cos(M_PI * at / (double)s->rows);
		row_get(t->rows, view, r, row);
		add_row(row, s->columns, s->slope * at, 1, even);
		add_row(row, s->columns, s->slope * at, (float)(taper * taper), tapered);
	}
}

/* Values of the first and last rows, and the largest of all. */
static void note_edges(AxisSums *s, const tomos_array *rows, int64_t first)
{
	for (int64_t v = 0; v < s->views; v++)
		for (int64_t r = 0; r < rows->shape[1]; r++) {
			const float *row = array_row(rows, v, r);
			bool end = first + r == 0 || first + r == s->rows - 1;
			for (int64_t c = 0; c < s->columns; c++) {
				double value = (double)row[c * rows->stride[2]];
				s->most = fmax(s->most, value);
				s->edge += end ? value : 0;
			}
		}
}

tomos_status axis_sums_add(AxisSums *s, const tomos_array *rows, int64_t first)
{
	const SumTask task = {s, rows, first};
	note_edges(s, rows, first);
	return pieces_each(s->views, s->columns, add_view, &task);
}

static tomos_array sums_array(const AxisSums *s, bool tapered)
{
	float *sums = s->sums + (tapered ? s->views * s->columns : 0);
	return tomos_array_of(sums, s->views, 1, s->columns);
}

/* Where rows are cut off, parts of the data have the error in common: the two kinds of sums, which
 * weight what is cut off differently, show it. */
tomos_status axis_sums_find(const AxisSums *s, tomos_backend *backend, const double *angles,
	const tomos_axis_options *options, const tomos_progress *progress, tomos_axis *axis)
{
	double pixels = (double)(s->views * s->columns) * (s->rows > 1 ? 2 : 1);
	bool truncated = s->rows > 2 && s->edge > TRUNCATED * s->most * pixels;
	tomos_array sums = sums_array(s, truncated), even = sums_array(s, false);
	tomos_axis other = {.bytes = sizeof other};
	TRY(tomos_axis_find(axis, backend, &sums, angles, options, progress));
	if (!truncated)
		return TOMOS_OK;
	TRY(tomos_axis_find(&other, backend, &even, angles, options, NULL));
	axis->error = hypot(fmax(axis->error, fabs(other.column - axis->column)), COMMON);
	return TOMOS_OK;
}
