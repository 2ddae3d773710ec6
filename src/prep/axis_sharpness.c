/* Rotation axis from trial reconstructions of one slice with different axes.
 *
 * T. Donath, F. Beckmann, A. Schreyer, Automated determination of the center of rotation in
 * tomography data, J. Opt. Soc. Am. A 23 (2006) 1048-1057, with other measures: in a 180 degree
 * scan a wrong axis opens every edge into two arcs, and the right one minimises the total
 * variation; in a 360 degree scan it blurs, and the right one maximises the energy of the gradient.
 * Both are summed over the same circle for all axes, in slices without the highest frequencies,
 * whose noise would depend on the subpixel position of the axis.
 */
#include <string.h>
#include "prep/axis.h"

enum { COARSE = 256, MOST_POINTS = 512, TRIALS = 17, APART = 2 };
#define FINE 0.25 /* columns between trials in the last pass */

/* One row of all views, and the slice reconstructed from it. */
typedef struct {
	const AxisProblem *problem;
	bool full_turn;
	int64_t columns, bin;
	float *row, *slice;
	tomos_grid grid;
} Slice;

static tomos_status take_row(Slice *s)
{
	const tomos_array *a = s->problem->data;
	int64_t views = a->shape[0], row = a->shape[1] / 2;
	float *line;
	TRY(mem_zeroed(&s->row, views * s->columns, sizeof *line, "a sinogram"));
	TRY(mem_alloc(&line, a->shape[2], sizeof *line, "a row"));
	for (int64_t v = 0; v < views; v++) {
		row_get(a, v, row, line);
		for (int64_t c = 0; c < s->columns * s->bin; c++)
			s->row[v * s->columns + c / s->bin] += line[c] / (float)s->bin;
	}
	mem_free(line);
	return TOMOS_OK;
}

/* The circle covered by the detector for all axes of the range, or most of them. */
static tomos_status choose_grid(Slice *s, double low, double high)
{
	double n = (double)s->columns, middle = 0.5 * (low + high);
	double radius = fmax(fmin(low, n - 1 - high), 0.2 * n);
	if (s->full_turn && (middle < 0.25 * n || middle > 0.75 * n))
		radius = 0.9 * fmax(middle, n - 1 - middle);
	radius = fmin(0.95 * radius, 0.95 * n);
	int64_t points = min64((int64_t)(2 * radius), MOST_POINTS);
	TRY(tomos_grid_centred(
		&s->grid, max64(points, 8), max64(points, 8), 1, 2 * radius / (double)points));
	return mem_alloc(&s->slice, s->grid.n[0] * s->grid.n[1], sizeof *s->slice, "a slice");
}

/* Negative total variation, or energy of the gradient: larger is better. */
static double sharpness(const Slice *s)
{
	int64_t n = s->grid.n[0];
	double sum = 0, middle = 0.5 * (double)(n - 1), radius = middle - 1;
	for (int64_t i = 0; i < n * n; i++) {
		double x = (double)(i % n) - middle, y = (double)(i / n) - middle;
		if (x * x + y * y > radius * radius)
			continue;
		const float *at = s->slice + i;
		double dx = (double)(at[1] - at[-1]), dy = (double)(at[n] - at[-n]);
		sum += s->full_turn ? dx * dx + dy * dy : -sqrt(dx * dx + dy * dy);
	}
	return sum;
}

static tomos_status try_axis(const Slice *s, double axis, double *score)
{
	const AxisProblem *p = s->problem;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_analytic_options how = tomos_analytic_defaults();
	tomos_geometry *scan;
	o.columns = s->columns;
	o.angles = p->angles, o.angles_count = p->data->shape[0];
	o.axis = &axis, o.axis_count = 1;
	how.filter = "hann";
	how.padding = "smooth";
	TRY(tomos_geometry_make(&scan, &o));
	tomos_array row = tomos_array_of(s->row, o.angles_count, 1, s->columns);
	tomos_array slice = tomos_array_of(s->slice, 1, s->grid.n[1], s->grid.n[0]);
	tomos_status status = tomos_fbp(p->backend, &s->grid, scan, &row, &slice, &how, NULL);
	tomos_geometry_free(scan);
	if (status == TOMOS_OK)
		*score = sharpness(s);
	return status;
}

/* Tries `count` axes from low to high, in columns of the data. */
static tomos_status try_range(const AxisProblem *p, bool full_turn, int64_t bin, double low,
	double high, int64_t count, AxisAnswer *answer)
{
	double shift = 0.5 * (double)(bin - 1), step = (high - low) / (double)(count - 1);
	double *score = NULL;
	Slice s = {.problem = p,
		.full_turn = full_turn,
		.columns = p->data->shape[2] / bin,
		.bin = bin};
	int64_t best = 0;
	tomos_status status;
	TRY_OR_DONE(take_row(&s));
	TRY_OR_DONE(choose_grid(&s, (low - shift) / (double)bin, (high - shift) / (double)bin));
	TRY_OR_DONE(mem_alloc(&score, count, sizeof *score, "scores of the axis"));
	for (int64_t i = 0; i < count; i++) {
		double axis = low + step * (double)i;
		TRY_OR_DONE(try_axis(&s, (axis - shift) / (double)bin, &score[i]));
		best = score[i] > score[best] ? i : best;
	}
	answer->at_edge = best == 0 || best == count - 1;
	answer->confidence = axis_confidence(score, count, best, max64(count / 20, 3));
	int64_t apart = min64(min64(best, count - 1 - best), APART);
	double top = apart == 0 ? 0
				: (double)apart * axis_top(score[best - apart], score[best],
							  score[best + apart]);
	answer->column = low + step * ((double)best + top);
	answer->error = NAN;
done:
	mem_free(s.row);
	mem_free(s.slice);
	mem_free(score);
	return status;
}

tomos_status axis_sharpness(const AxisProblem *p, bool full_turn, AxisAnswer *answer)
{
	int64_t bin = (p->data->shape[2] + COARSE - 1) / COARSE;
	double half = FINE * (TRIALS - 1) / 2, low = p->low, high = p->high;
	AxisAnswer near;
	if (high - low > 2 * half) {
		int64_t count = (int64_t)ceil((high - low) / (double)bin) + 1;
		TRY(try_range(p, full_turn, bin, low, high, count, answer));
		for (double reach = 2 * (double)bin; reach > half; reach *= 0.25) {
			low = answer->column - reach;
			TRY(try_range(p, full_turn, 1, low, low + 2 * reach, TRIALS, &near));
			answer->column = near.column;
		}
		low = answer->column - half;
		high = low + 2 * half;
		TRY(try_range(p, full_turn, 1, low, high, TRIALS, &near));
		answer->column = near.column;
	} else {
		TRY(try_range(p, full_turn, 1, low, high, TRIALS, answer));
	}
	axis_settle(p, answer);
	return TOMOS_OK;
}
