/* Rotation axis from trial reconstructions of one slice with different axes.
 *
 * T. Donath, F. Beckmann, A. Schreyer, Automated determination of the center of rotation in
 * tomography data, J. Opt. Soc. Am. A 23 (2006) 1048-1057, with other measures: in a 180 degree
 * scan a wrong axis opens every edge into two arcs, and the right one minimises the total
 * variation; in a 360 degree scan it blurs, and the right one maximises the energy of the gradient.
 * Both are summed over the same circle for all axes, in slices without the highest frequencies,
 * whose noise would depend on the subpixel position of the axis. The search is from coarse to fine:
 * columns and views are averaged, by half as many each time. Slices have all columns but not all
 * lines, because differences between points further apart than a pixel do not show small errors.
 */
#include <string.h>
#include "prep/axis.h"
#include "prep/orbit.h"

/* COARSE and FINE: columns in the first pass over a wide range, and in the last; NEAR: trials on
 * either side of the best in all passes but the first. */
enum { COARSE = 128, FINE = 1024, MOST_POINTS = 1 << 17, MOST_TRIALS = 16, NEAR = 2 };
#define VIEWS 0.6 /* per column and 180 degrees; further views are averaged */

/* One row of all views, and the slice reconstructed from it. */
typedef struct {
	const AxisProblem *problem;
	bool full_turn;
	int64_t views, columns, bin;
	double *angles;
	float *row, *slice;
	tomos_grid grid;
} Slice;

/* The middle of the rows; of a cone beam, the one nearest to the midplane. */
static int64_t middle_row(const AxisProblem *p)
{
	int64_t rows = p->data->shape[1];
	if (!p->orbit || p->orbit->kind != TOMOS_POINT)
		return rows / 2;
	double row = floor(p->orbit->pose[POSE_ROW] + 0.5);
	return (int64_t)fmin(fmax(row, 0), (double)(rows - 1));
}

static tomos_status take_row(Slice *s)
{
	const tomos_array *a = s->problem->data;
	int64_t all = a->shape[0], row = middle_row(s->problem);
	double step, most = VIEWS * (double)s->columns * (s->full_turn ? 2 : 1);
	int64_t together = max64((int64_t)((double)all / most + 0.5), 1);
	AxisView *sorted = NULL;
	float *line = NULL;
	tomos_status status;
	s->views = (all + together - 1) / together;
	TRY_OR_DONE(axis_sort(s->problem, &sorted, &step));
	TRY_OR_DONE(mem_zeroed(&s->angles, s->views, sizeof *s->angles, "angles"));
	TRY_OR_DONE(mem_zeroed(&s->row, s->views * s->columns, sizeof *line, "a sinogram"));
	TRY_OR_DONE(mem_alloc(&line, a->shape[2], sizeof *line, "a row"));
	for (int64_t v = 0; v < all; v++) {
		int64_t to = v / together, count = min64(together, all - to * together);
		float share = 1 / (float)(s->bin * count);
		row_get(a, sorted[v].view, row, line);
		s->angles[to] += sorted[v].angle / (double)count;
		for (int64_t c = 0; c < s->columns * s->bin; c++)
			s->row[to * s->columns + c / s->bin] += share * line[c];
	}
done:
	mem_free(sorted);
	mem_free(line);
	return status;
}

/* The circle covered by the detector for all axes of the range, or most of them. */
static tomos_status choose_grid(Slice *s, double low, double high)
{
	double n = (double)s->columns, middle = 0.5 * (low + high);
	double radius = fmax(fmin(low, n - 1 - high), 0.2 * n);
	if (s->full_turn && (middle < 0.25 * n || middle > 0.75 * n))
		radius = 0.9 * fmax(middle, n - 1 - middle);
	radius = fmin(0.95 * radius, 0.95 * n);
	int64_t points = max64((int64_t)(2 * radius), 8);
	int64_t lines = min64(points, MOST_POINTS / points);
	double across = 2 * radius / (double)points, down = 2 * radius / (double)lines;
	s->grid = (tomos_grid){.n = {points, lines, 1},
		.first = {-0.5 * across * (double)(points - 1), -0.5 * down * (double)(lines - 1),
			0},
		.step = {across, down, across}};
	return mem_alloc(&s->slice, points * lines, sizeof *s->slice, "a slice");
}

/* Negative total variation, or energy of the gradient: larger is better. Its component across the
 * lines only counts where they are as close together as columns. */
static double sharpness(const Slice *s)
{
	int64_t n = s->grid.n[0], lines = s->grid.n[1];
	double sum = 0, centre = 0.5 * (double)(n - 1), radius = centre - 1;
	double ratio = s->grid.step[1] / s->grid.step[0], middle = 0.5 * (double)(lines - 1);
	bool square = lines == n;
	for (int64_t j = 0; j < lines; j++) {
		double y = ((double)j - middle) * ratio,
		       half = sqrt(fmax(radius * radius - y * y, 0));
		const float *line = s->slice + j * n;
		if (fabs(y) > radius)
			continue;
		for (int64_t i = (int64_t)ceil(centre - half); i <= (int64_t)(centre + half); i++) {
			double dx = (double)(line[i + 1] - line[i - 1]);
			double dy = square ? (double)(line[i + n] - line[i - n]) : 0;
			sum += s->full_turn ? dx * dx + dy * dy : -sqrt(dx * dx + dy * dy);
		}
	}
	return sum;
}

/* The row with the axis at a column, in widths of a pixel at the axis. */
static tomos_status row_geometry(const Slice *s, double axis, tomos_geometry **scan)
{
	Orbit row = {.views = s->views, .rows = 1, .columns = s->columns, .angles = s->angles};
	const Orbit *o = s->problem->orbit;
	const double pose[POSE_COUNT] = {
		[POSE_AXIS] = axis, [POSE_SWIVEL] = o ? o->pose[POSE_SWIVEL] : 0, [POSE_SCALE] = 1};
	row.width = row.height = row.mirror = row.upright = 1;
	if (o) {
		row.width = row.height = o->detector / o->source;
		row.source = o->source * row.width / (o->width * (double)s->bin);
		row.detector = row.source * row.width;
		row.mirror = o->mirror;
		row.kind = TOMOS_POINT;
	}
	return orbit_geometry(scan, &row, pose, s->problem->reversed);
}

static tomos_status try_axis(const Slice *s, double axis, double *score)
{
	tomos_analytic_options how = tomos_analytic_defaults();
	tomos_geometry *scan;
	how.filter = "hann";
	how.padding = "smooth";
	TRY(row_geometry(s, axis, &scan));
	tomos_array row = tomos_array_of(s->row, s->views, 1, s->columns);
	tomos_array slice = tomos_array_of(s->slice, 1, s->grid.n[1], s->grid.n[0]);
	tomos_status status =
		tomos_fbp(s->problem->backend, &s->grid, scan, &row, &slice, &how, NULL);
	tomos_geometry_free(scan);
	if (status == TOMOS_OK)
		*score = sharpness(s);
	return status;
}

/* Tries `count` axes from low to high, in columns of the data. */
static tomos_status try_range(const AxisProblem *p, bool full_turn, int64_t bin, double low,
	double high, int64_t count, AxisAnswer *answer)
{
	double shift = 0.5 * (double)(bin - 1), step = (high - low) / (double)(count - 1), top = 0;
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
	axis_scores(answer, score, count, low, step);
	if (!answer->at_edge)
		top = axis_top(score[best - 1], score[best], score[best + 1]);
	answer->column = low + step * ((double)best + top);
	answer->error = NAN;
done:
	mem_free(s.angles);
	mem_free(s.row);
	mem_free(s.slice);
	mem_free(score);
	return status;
}

tomos_status axis_sharpness(const AxisProblem *p, bool full_turn, AxisAnswer *answer)
{
	int64_t n = p->data->shape[2], finest = (n + FINE - 1) / FINE, bin = finest;
	double step = 0.5 * (double)finest;
	while (p->high - p->low > MOST_TRIALS * step && n / (2 * bin) >= COARSE) {
		bin *= step < (double)finest ? 1 : 2;
		step *= 2;
	}
	int64_t count = max64((int64_t)ceil((p->high - p->low) / step), 2 * NEAR) + 1;
	TRY(try_range(p, full_turn, bin, p->low, p->high, count, answer));
	while (step > 0.5 * (double)finest) {
		AxisAnswer near;
		step *= 0.5;
		bin = max64((int64_t)step, finest);
		double low = answer->column - NEAR * step;
		TRY(try_range(p, full_turn, bin, low, low + 2 * NEAR * step, 2 * NEAR + 1, &near));
		answer->column = near.column;
	}
	axis_settle(p, answer);
	return TOMOS_OK;
}

tomos_status axis_sharper(
	const AxisProblem *p, bool full_turn, double one, double other, double *column)
{
	AxisAnswer answer;
	double low = fmin(one, other), high = fmax(one, other);
	int64_t bin = (p->data->shape[2] + FINE - 1) / FINE;
	TRY(try_range(p, full_turn, bin, low, high, 2, &answer));
	*column = fabs(answer.column - one) < fabs(answer.column - other) ? one : other;
	return TOMOS_OK;
}
