/* Opposite rays of a fan beam: every ray of the midplane, at angle b and fan angle g, is measured
 * again at b + 180 degrees + 2 g and fan angle -g, where the scan covers that.
 *
 * First the axis with the most alike pairs is searched for over the whole range; then the sum of
 * squares of their differences is minimised over the axis and, if asked for, the swivel of the
 * detector and its distance from the source, which the angles of the pairs depend on. Pairs exist
 * in full and short scans and of offset detectors, and objects may be wider than the detector.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "prep/opposite.h"

enum { MOST_VIEWS = 1024, LEAST_COLUMNS = 12, EDGE = 4 };
#define LEAST_SHARE 1e-3 /* of the energy of the rows, that an overlap must have */
/* Variance that smoothing leaves of white noise: of smooth_row, and of smooth_angles. */
#define LEFT_BY_ROWS 0.2808
#define LEFT_BY_ANGLES 0.2734

/* ---- the sinogram ---------------------------------------------------------------------------- */

typedef struct {
	const AxisProblem *problem;
	const AxisView *sorted;
	int64_t start;
	const Line *line;
	const Opposite *to;
} Source;

/* Views are averaged in groups of the same number, which are the samples that are interpolated. */
typedef struct {
	int64_t groups, together;
	double *angles;      /* from that of the first, ascending */
	float *rows, *rises; /* [group][column]: values, and derivatives along the rows */
} Groups;

/* Adds `share` times the values of a view along the line, `by` rows beside it. */
static void add_line(const Source *s, int64_t view, int64_t by, float share, float *row)
{
	const tomos_array *a = s->problem->data;
	int64_t last = a->shape[1] - 1, bin = s->to->bin;
	for (int64_t c = 0; c < s->to->columns * bin; c++) {
		double at = s->line->row + s->line->slope * (double)c + (double)by;
		at = fmin(fmax(at, 0), (double)last);
		int64_t whole = min64((int64_t)at, max64(last - 1, 0));
		float part = (float)(at - (double)whole);
		const float *here = array_row(a, view, whole) + c * a->stride[2];
		float value = *here;
		if (part > 0)
			value += part * (here[a->stride[1]] - value);
		row[c / bin] += share * value;
	}
}

/* Weights of rows -reach to reach: those of a parabola's fit (Savitzky and Golay), without a second
 * moment for the reason above; of slices that each have their own fans, all alike. */
static double row_weight(const Line *line, int64_t by)
{
	double m = (double)line->reach, k = (double)by;
	if (line->alike)
		return 1 / (2 * m + 1);
	return 3 * (3 * m * m + 3 * m - 1 - 5 * k * k) / ((2 * m - 1) * (2 * m + 1) * (2 * m + 3));
}

/* Likewise for the derivative. */
static double rise_weight(const Line *line, int64_t by)
{
	double m = (double)line->reach;
	return m > 0 && !line->alike ? 3 * (double)by / (m * (m + 1) * (2 * m + 1)) : 0;
}

static void take_group(const void *user, int64_t group, float *scratch)
{
	const Source *s = ((const Source *const *)user)[0];
	const Groups *g = ((const Groups *const *)user)[1];
	int64_t all = s->problem->data->shape[0], n = s->to->columns, reach = s->line->reach;
	int64_t from = group * g->together, to = min64(from + g->together, all);
	float *row = g->rows + group * n, *rise = g->rises + group * n;
	double share = 1 / (double)((to - from) * s->to->bin);
	double base = s->sorted[s->start].angle, sum = 0;
	(void)scratch;
	memset(row, 0, (size_t)n * sizeof *row);
	memset(rise, 0, (size_t)n * sizeof *rise);
	for (int64_t i = from; i < to; i++) {
		const AxisView *v = &s->sorted[(s->start + i) % all];
		double angle = fmod(v->angle - base, 2 * M_PI);
		sum += angle < 0 ? angle + 2 * M_PI : angle;
		for (int64_t by = -reach; by <= reach; by++) {
			add_line(s, v->view, by, (float)(share * row_weight(s->line, by)), row);
			add_line(s, v->view, by, (float)(share * rise_weight(s->line, by)), rise);
		}
	}
	g->angles[group] = sum / (double)(to - from);
}

/* The view after the widest gap between views. */
static int64_t after_gap(const AxisView *views, int64_t count)
{
	double widest = 2 * M_PI - views[count - 1].angle + views[0].angle;
	int64_t start = 0;
	for (int64_t i = 1; i < count; i++)
		if (views[i].angle - views[i - 1].angle > widest) {
			widest = views[i].angle - views[i - 1].angle;
			start = i;
		}
	return start;
}

/* (1 4 6 4 1) / 16, twice. */
static void blur_row(float *row, int64_t n, float *copy)
{
	for (int pass = 0; pass < 2; pass++) {
		memcpy(copy, row, (size_t)n * sizeof *row);
		for (int64_t c = 0; c < n; c++)
			row[c] =
				(copy[max64(c - 2, 0)] + 4 * copy[max64(c - 1, 0)] + 6 * copy[c] +
					4 * copy[min64(c + 1, n - 1)] + copy[min64(c + 2, n - 1)]) /
				16;
	}
}

/* Noise of single pixels would depend on where it is sampled. A blur B is wider for the parts of
 * the object near the source, and opposite rays see that; 2 B - B B has no second moment, and its
 * width is no matter. */
static void smooth_row(float *row, int64_t n, float *scratch)
{
	float *once = scratch, *copy = scratch + n;
	blur_row(row, n, copy);
	memcpy(once, row, (size_t)n * sizeof *row);
	blur_row(row, n, copy);
	for (int64_t c = 0; c < n; c++)
		row[c] = 2 * once[c] - row[c];
}

/* Interpolates values of the groups at an angle. */
static void between(
	const Groups *g, const float *from, int64_t n, int64_t at, double part, float *row)
{
	int64_t next = min64(at + 1, g->groups - 1);
	for (int64_t c = 0; c < n; c++)
		row[c] = (float)((1 - part) * (double)from[at * n + c] +
				 part * (double)from[next * n + c]);
}

static void transpose(const float *row, int64_t n, int64_t views, float *out)
{
	for (int64_t c = 0; c < n; c++)
		out[c * views] = row[c];
}

/* Interpolates the groups at the equal steps of the sinogram, and transposes. */
static void lay_out(const Opposite *s, const Groups *g, float *scratch)
{
	int64_t n = s->columns, at = 0;
	float *row = scratch, *other = scratch + n; /* two rows */
	for (int64_t i = 0; i < s->views; i++) {
		double angle = (double)i * s->step + g->angles[0];
		while (at + 2 < g->groups && g->angles[at + 1] <= angle)
			at++;
		double width = g->angles[min64(at + 1, g->groups - 1)] - g->angles[at], part = 0;
		if (width > 0)
			part = fmin(fmax((angle - g->angles[at]) / width, 0), 1);
		between(g, g->rises, n, at, part, row);
		smooth_row(row, n, other);
		transpose(row, n, s->views, s->rises + i);
		between(g, g->rows, n, at, part, row);
		axis_slopes(row, n, other);
		transpose(other, n, s->views, s->slopes + i);
		smooth_row(row, n, other);
		transpose(row, n, s->views, s->lines + i);
	}
}

static int64_t neighbour(const Opposite *s, int64_t i, int64_t by)
{
	int64_t at = i + by;
	return s->full ? (at + s->views) % s->views : min64(max64(at, 0), s->views - 1);
}

/* (1 4 6 4 1) / 16 along the angle, for the same reason as smooth_row. */
static void smooth_angles(const Opposite *s, float *lines, float *copy)
{
	for (int64_t c = 0; c < s->columns; c++) {
		float *line = lines + c * s->views;
		memcpy(copy, line, (size_t)s->views * sizeof *copy);
		for (int64_t i = 0; i < s->views; i++)
			line[i] = (copy[neighbour(s, i, -2)] + 4 * copy[neighbour(s, i, -1)] +
					  6 * copy[i] + 4 * copy[neighbour(s, i, 1)] +
					  copy[neighbour(s, i, 2)]) /
				  16;
	}
}

/* Noise is what a column differs by from the cubic through two neighbours on either side. Edges of
 * the object have more, so the median counts; of a normal distribution, squares have it at 0.455 of
 * their mean. */
static tomos_status take_noise(Opposite *s, const Groups *g)
{
	int64_t n = s->columns, count = 0;
	float *squares;
	double sum = 0;
	TRY(mem_alloc(&squares, g->groups * n, sizeof *squares, "differences of columns"));
	for (int64_t i = 0; i < g->groups * n; i++) {
		const float *at = g->rows + i;
		sum += (double)(*at * *at);
		if (i % n < 2 || i % n >= n - 2)
			continue;
		float smooth = (4 * (at[-1] + at[1]) - at[-2] - at[2]) / 6;
		squares[count++] = (*at - smooth) * (*at - smooth);
	}
	double gain = 1 + 34.0 / 36; /* of the difference */
	double variance = count > 0 ? (double)median_many(squares, count) / (0.455 * gain) : 0;
	s->noise = LEFT_BY_ROWS * LEFT_BY_ANGLES * variance;
	s->energy = sum / (double)(g->groups * n);
	mem_free(squares);
	return TOMOS_OK;
}

static tomos_status fill(Opposite *s, const Source *source, Groups *g, float *scratch)
{
	const void *both[] = {source, g};
	TRY(pieces_each(g->groups, 1, take_group, both));
	double sweep = g->angles[g->groups - 1] - g->angles[0];
	s->views = g->groups;
	s->step = s->full ? 2 * M_PI / (double)s->views : sweep / (double)(s->views - 1);
	if (!(s->step > 0))
		return fail(TOMOS_BAD_VALUE, "the %lld views have one angle", (long long)s->views);
	TRY(take_noise(s, g));
	lay_out(s, g, scratch);
	smooth_angles(s, s->lines, scratch);
	smooth_angles(s, s->rises, scratch);
	return TOMOS_OK;
}

tomos_status opposite_make(
	Opposite *s, const AxisProblem *p, const Line *line, int64_t most_columns)
{
	int64_t all = p->data->shape[0];
	Groups g = {.together = (all + MOST_VIEWS - 1) / MOST_VIEWS};
	AxisView *sorted = NULL;
	float *scratch = NULL;
	double step;
	tomos_status status;
	*s = (Opposite){.bin = (p->data->shape[2] + most_columns - 1) / most_columns};
	s->columns = p->data->shape[2] / s->bin;
	g.groups = (all + g.together - 1) / g.together;
	TRY_OR_DONE(axis_sort(p, &sorted, &step));
	s->full = axis_full_turn(sorted, all, step);
	TRY_OR_DONE(mem_alloc(&g.angles, g.groups, sizeof *g.angles, "angles"));
	float **const lists[] = {&g.rows, &g.rises, &s->lines, &s->slopes, &s->rises};
	for (int i = 0; i < COUNT(lists); i++)
		TRY_OR_DONE(
			mem_alloc(lists[i], g.groups * s->columns, sizeof(float), "a sinogram"));
	TRY_OR_DONE(mem_alloc(
		&scratch, 3 * max64(s->columns, g.groups), sizeof(float), "a row of views"));
	Source source = {p, sorted, after_gap(sorted, all), line, s};
	TRY_OR_DONE(fill(s, &source, &g, scratch));
done:
	mem_free(sorted);
	mem_free(g.angles);
	mem_free(g.rows);
	mem_free(g.rises);
	mem_free(scratch);
	if (status != TOMOS_OK)
		opposite_free(s);
	return status;
}

void opposite_free(Opposite *s)
{
	mem_free(s->lines);
	mem_free(s->slopes);
	mem_free(s->rises);
	*s = (Opposite){.views = 0};
}

/* ---- pairs ----------------------------------------------------------------------------------- */

bool opposite_shift(const Opposite *s, double angle, int way, int64_t *by, double *part)
{
	double turn = 2 * M_PI / s->step, steps = fmod(angle / s->step, turn);
	steps += steps < 0 ? turn : 0;
	steps -= way ? turn : 0;
	*by = (int64_t)floor(steps);
	*part = steps - floor(steps);
	return s->full ? way == 0 : llabs(*by) < s->views - 2 * EDGE;
}

/* ---- the search ------------------------------------------------------------------------------ */

typedef struct {
	const Opposite *sinogram;
	double distance, sign; /* distance in columns */
	int64_t first, count;  /* sums of the columns of a pair */
	double *likeness, *score;
} Search;

typedef struct {
	double product, here, opposite;
} Sums;

/* Views [from, to), whose opposites are the views from + by on; none of them wraps around. */
static void add_run(const Opposite *s, int64_t column, int64_t other, int64_t from, int64_t to,
	int64_t by, float part, Sums *sums)
{
	const float *a = s->slopes + column * s->views, *b = s->slopes + other * s->views;
	float product = 0, here = 0, opposite = 0, rest = 1 - part;
	for (int64_t i = from; i < to; i++) {
		int64_t next = i + by + 1 == s->views ? 0 : i + by + 1;
		float y = rest * b[i + by] + part * b[next];
		product -= a[i] * y;
		here += a[i] * a[i];
		opposite += y * y;
	}
	sums->product += (double)product;
	sums->here += (double)here;
	sums->opposite += (double)opposite;
}

/* Pairs of two columns; false: there are none. */
static bool add_pair(
	const Opposite *s, int64_t column, int64_t other, double angle, int way, Sums *sums)
{
	int64_t by, views = s->views;
	double part;
	if (!opposite_shift(s, angle, way, &by, &part))
		return false;
	if (!s->full) {
		add_run(s, column, other, max64(-by, 0), min64(views - 1 - by, views), by,
			(float)part, sums);
		return true;
	}
	add_run(s, column, other, 0, views - by, by, (float)part, sums);
	add_run(s, column, other, views - by, views, by - views, (float)part, sums);
	return true;
}

/* Likeness of the pairs whose columns have the sum first + index. */
static void try_sum(const void *user, int64_t index, float *scratch)
{
	const Search *k = user;
	const Opposite *s = k->sinogram;
	int64_t sum = k->first + index, n = s->columns, pairs = 0;
	int64_t low = max64(sum - (n - 1), 0) + EDGE, high = (sum - 1) / 2;
	Sums sums = {0};
	(void)scratch;
	for (int64_t c = low; c <= high; c++) {
		double fan = atan(((double)c - 0.5 * (double)sum) / k->distance);
		for (int way = 0; way < 2; way++)
			pairs += add_pair(s, c, sum - c, M_PI + 2 * k->sign * fan, way, &sums);
	}
	double size = sqrt(sums.here * sums.opposite);
	k->likeness[index] = pairs >= LEAST_COLUMNS / 2 && size > 0 ? sums.product / size : 0;
	k->score[index] = size;
}

/* Narrow overlaps may agree by chance, and overlaps in air always do. */
static int64_t best_sum(const Search *k)
{
	double most = 0;
	int64_t best = 0, n = k->sinogram->columns;
	for (int64_t i = 0; i < k->count; i++)
		most = fmax(most, k->score[i]);
	for (int64_t i = 0; i < k->count; i++) {
		double overlap = (double)(n - llabs(n - 1 - k->first - i)) / (double)n;
		bool empty = !(k->score[i] > LEAST_SHARE * most);
		k->score[i] = empty ? 0 : sqrt(overlap) * k->likeness[i];
		best = k->score[i] > k->score[best] ? i : best;
	}
	return best;
}

tomos_status opposite_search(
	const Opposite *s, const AxisProblem *p, double distance, double sign, AxisAnswer *answer)
{
	double bin = (double)s->bin, shift = 0.5 * (bin - 1);
	int64_t low = max64((int64_t)floor(2 * (p->low - shift) / bin), 1);
	int64_t high = min64((int64_t)ceil(2 * (p->high - shift) / bin), 2 * s->columns - 3);
	Search k = {s, distance / bin, sign, low, max64(high - low + 1, 1), NULL, NULL};
	TRY(mem_alloc(&k.likeness, 2 * k.count, sizeof(double), "scores of the axis"));
	k.score = k.likeness + k.count;
	tomos_status status = pieces_each(k.count, 1, try_sum, &k);
	if (status == TOMOS_OK) {
		int64_t best = best_sum(&k);
		answer->at_edge = best == 0 || best == k.count - 1;
		answer->confidence =
			fmax(k.likeness[best], 0) *
			axis_confidence(k.score, k.count, best, max64(s->columns / 50, 8));
		axis_scores(answer, k.score, k.count, 0.5 * (double)low * bin + shift, 0.5 * bin);
		answer->column = 0.5 * (double)(low + best) * bin + shift;
		answer->error = NAN;
		answer->likeness = k.score[best];
	}
	mem_free(k.likeness);
	return status;
}
