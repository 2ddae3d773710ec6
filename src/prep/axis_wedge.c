/* Rotation axis from the double wedge that contains the spectrum of a 360 degree sinogram.
 *
 * N. T. Vo, M. Drakopoulos, R. C. Atwood, C. Reinhard, Reliable method for calculating the center
 * of rotation in parallel-beam tomography, Optics Express 22 (2014) 19078-19086. A 180 degree
 * sinogram is extended to 360 degrees by its mirror image about a trial axis; the right axis
 * minimises the spectrum outside the wedge. Here its energy is minimised, not its modulus: with the
 * spectrum A(m, k) of the first half (m waves per turn, k per column), that of its mirror image
 * about columns of sum s is (-1)^m conj(A(-m, k)) exp(-iks), and the energy depends on s only
 * through Re sum_k exp(iks) sum_m (-1)^m A(m, k) A(-m, k), one transform for all axes. That is also
 * the most likely axis where noise is white. Derivatives along the rows are taken, as in pairs. A
 * first pass uses all columns; a second one those that the mirror image covers, so that an object
 * wider than the detector is cut off alike on both sides.
 */
#include <string.h>
#include "backend/fft.h"
#include "base/fft.h"
#include "prep/axis.h"

enum { COARSE = 320, FINE = 1024, MOST_ROWS = 4, NEAR = 6, NEWTON = 4 };
/* The waves per turn are divided into parts, BLOCK adjacent ones at a time, whose noise is nearly
 * independent: the scatter of their results is the error even of a single row. */
enum { PARTS = 4, BLOCK = 4, MOST_LINES = PARTS * MOST_ROWS };
#define CUTOFF 0.05      /* waves per column: weight exp(-(k / CUTOFF)^2), against noise */
#define HIGHEST 0.12     /* waves per column that are used */
#define TAPER 0.1        /* of the width of the window, on either side */
#define FIRST_RADIUS 0.5 /* of the object in the first pass, per column of the detector */
#define RADIUS 0.6       /* in the second, per column of the overlap */

typedef float Complex[2];

/* Some rows of a 180 degree sinogram sorted by angle, with `bin` columns averaged. */
typedef struct {
	const AxisProblem *problem;
	const AxisView *sorted;
	int64_t start; /* the first of the views in sorted order */
	int64_t rows, views, columns, bin;
	int64_t length, waves; /* of the transform along a row, and those of it in use */
	double sum,
		radius;   /* sum of columns that mirror images in the window have; of the object */
	float *window;    /* of the columns */
	float *slopes;    /* [row][view][column] */
	Complex *spectra; /* [wave][row][view] */
	Complex *cross;   /* [row][part][wave], and after these the sum over rows and parts */
	Fft *along, *across;
} Wedge;

/* ---- spectra --------------------------------------------------------------------------------- */

static double window(const Wedge *w, int64_t column)
{
	double last = (double)(w->columns - 1);
	double low = fmax(0, w->sum - last), high = fmin(last, w->sum);
	double inside = fmin((double)column - low, high - (double)column) + 0.5;
	double width = fmax(TAPER * (high - low + 1), 1);
	return inside <= 0 ? 0 : inside >= width ? 1 : 0.5 - 0.5 * cos(M_PI * inside / width);
}

static void take_slopes(const void *user, int64_t index, float *scratch)
{
	const Wedge *w = user;
	const AxisProblem *p = w->problem;
	int64_t all = p->data->shape[0], rows = p->data->shape[1];
	int64_t r = index / w->views, v = index % w->views;
	float *binned = scratch + p->data->shape[2];
	row_get(p->data, w->sorted[(w->start + v) % all].view, (2 * r + 1) * rows / (2 * w->rows),
		scratch);
	for (int64_t c = 0; c < w->columns; c++) {
		binned[c] = 0;
		for (int64_t i = 0; i < w->bin; i++)
			binned[c] += scratch[c * w->bin + i];
	}
	axis_slopes(binned, w->columns, w->slopes + index * w->columns);
}

/* Puts the spectra of two real rows, whose complex sum has the spectrum z[position]. */
static void put_spectra(const Wedge *w, const float *z, int lane, int64_t index)
{
	const int lanes = fft_lanes(w->along);
	int64_t lines = w->rows * w->views;
	for (int64_t k = 0; k < w->waves; k++) {
		const float *here = z + 2 * fft_position(w->along, k) * lanes + lane;
		const float *there =
			z + 2 * fft_position(w->along, (w->length - k) % w->length) * lanes + lane;
		Complex *to = w->spectra + k * lines + index;
		to[0][0] = 0.5F * (here[0] + there[0]);
		to[0][1] = 0.5F * (here[lanes] - there[lanes]);
		if (index + 1 < lines) {
			to[1][0] = 0.5F * (here[lanes] + there[lanes]);
			to[1][1] = 0.5F * (there[0] - here[0]);
		}
	}
}

/* Two rows of each lane. */
static void transform_rows(const void *user, int64_t group, float *scratch)
{
	const Wedge *w = user;
	const int lanes = fft_lanes(w->along);
	int64_t lines = w->rows * w->views, first = 2 * lanes * group;
	memset(scratch, 0, (size_t)fft_floats(w->along) * sizeof *scratch);
	for (int i = 0; i < 2 * lanes && first + i < lines; i++) {
		const float *slopes = w->slopes + (first + i) * w->columns;
		float *to = scratch + i % 2 * lanes + i / 2;
		for (int64_t c = 0; c < w->columns; c++)
			to[2 * c * lanes] = slopes[c] * w->window[c];
	}
	fft_forward(w->along, scratch);
	for (int l = 0; l < lanes && first + 2 * l < lines; l++)
		put_spectra(w, scratch, l, first + 2 * l);
}

/* Sum over waves per turn outside the wedge, for one wave along the row, a lane of the data. */
static void sum_outside(const Wedge *w, int64_t index, const float *data, int lane)
{
	const int lanes = fft_lanes(w->across);
	int64_t k = index / w->rows, row = index % w->rows, views = w->views;
	double per_column = (double)k / (double)w->length;
	int64_t least = max64(min64(20, views / 10), 2);
	least = max64(least, (int64_t)floor(2 * M_PI * w->radius * per_column) + 1);
	double sum[PARTS][2] = {{0}}, weight = exp(-per_column * per_column / (CUTOFF * CUTOFF));
	for (int64_t m = least; m < views && k * w->columns >= 2 * w->length; m++) {
		const float *a = data + 2 * fft_position(w->across, m) * lanes + lane;
		const float *b = data + 2 * fft_position(w->across, 2 * views - m) * lanes + lane;
		double sign = m % 2 ? -weight : weight;
		double *part = sum[m / BLOCK % PARTS];
		part[0] += sign * (double)(a[0] * b[0] - a[lanes] * b[lanes]);
		part[1] += sign * (double)(a[0] * b[lanes] + a[lanes] * b[0]);
	}
	for (int64_t part = 0; part < PARTS; part++)
		for (int j = 0; j < 2; j++)
			w->cross[(row * PARTS + part) * w->waves + k][j] = (float)sum[part][j];
}

/* One wave along a row in each lane. */
static void transform_views(const void *user, int64_t group, float *scratch)
{
	const Wedge *w = user;
	const int lanes = fft_lanes(w->across);
	int64_t first = lanes * group, count = min64(lanes, w->waves * w->rows - first);
	memset(scratch, 0, (size_t)fft_floats(w->across) * sizeof *scratch);
	for (int l = 0; l < count; l++) {
		Complex *from = w->spectra + (first + l) * w->views;
		for (int64_t v = 0; v < w->views; v++) {
			scratch[2 * v * lanes + l] = from[v][0];
			scratch[(2 * v + 1) * lanes + l] = from[v][1];
		}
	}
	fft_forward(w->across, scratch);
	for (int l = 0; l < count; l++)
		sum_outside(w, first + l, scratch, l);
}

static tomos_status transform(const Wedge *w)
{
	int64_t lines = w->rows * PARTS;
	Complex *all = w->cross + lines * w->waves;
	int64_t rows = 2 * fft_lanes(w->along), waves = fft_lanes(w->across);
	for (int64_t c = 0; c < w->columns; c++)
		w->window[c] = (float)window(w, c);
	TRY(pieces_each(
		(w->rows * w->views + rows - 1) / rows, fft_floats(w->along), transform_rows, w));
	TRY(pieces_each((w->waves * w->rows + waves - 1) / waves, fft_floats(w->across),
		transform_views, w));
	memset(all, 0, (size_t)w->waves * sizeof *all);
	for (int64_t i = 0; i < lines * w->waves; i++)
		for (int j = 0; j < 2; j++)
			all[i % w->waves][j] += w->cross[i][j];
	return TOMOS_OK;
}

/* ---- the best sum of columns ----------------------------------------------------------------- */

/* Score of a sum of columns and its first two derivatives, of part `line` of a row, or (the last
 * line) of all together. */
static void score_at(const Wedge *w, int64_t line, double sum, double f[3])
{
	Complex *x = w->cross + line * w->waves;
	double one = 2 * M_PI / (double)w->length, c = 1, s = 0;
	const double turn[2] = {cos(one * sum), sin(one * sum)};
	f[0] = f[1] = f[2] = 0;
	for (int64_t k = 1; k < w->waves; k++) {
		double next = c * turn[0] - s * turn[1], wave = one * (double)k;
		s = c * turn[1] + s * turn[0];
		c = next;
		double re = (double)x[k][0] * c - (double)x[k][1] * s;
		double im = (double)x[k][0] * s + (double)x[k][1] * c;
		f[0] += re;
		f[1] -= wave * im;
		f[2] -= wave * wave * re;
	}
}

/* The maximum within one of a sum of columns, by Newton's method. */
static double climb(const Wedge *w, int64_t row, double about)
{
	double sum = about, f[3];
	for (int i = 0; i < NEWTON; i++) {
		score_at(w, row, sum, f);
		double step = f[2] < 0 ? -f[1] / f[2] : 0;
		sum = fmin(fmax(sum + step, about - 1), about + 1);
	}
	return sum;
}

/* The best of `count` sums of columns; its score relative to the others is the confidence in it. */
static tomos_status best_from(
	const Wedge *w, int64_t row, double first, int64_t count, AxisAnswer *answer)
{
	double *score, f[3];
	int64_t best = 0;
	TRY(mem_alloc(&score, count, sizeof *score, "scores of the axis"));
	for (int64_t i = 0; i < count; i++) {
		score_at(w, row, first + (double)i, f);
		score[i] = f[0];
		best = score[i] > score[best] ? i : best;
	}
	answer->at_edge = best == 0 || best == count - 1;
	answer->confidence = axis_confidence(score, count, best, max64(w->columns / 50, 6));
	double bin = (double)w->bin;
	axis_scores(answer, score, count, 0.5 * (first * bin + bin - 1), 0.5 * bin);
	answer->column = first + (double)best;
	if (!answer->at_edge)
		answer->column = climb(w, row, answer->column);
	mem_free(score);
	return TOMOS_OK;
}

/* The first pass, over the whole range; answer->column is a sum of columns. */
static tomos_status search_range(Wedge *w, AxisAnswer *answer)
{
	double bin = (double)w->bin, shift = 0.5 * (bin - 1);
	double first = floor(2 * (w->problem->low - shift) / bin);
	double last = ceil(2 * (w->problem->high - shift) / bin);
	w->sum = (double)(w->columns - 1);
	w->radius = FIRST_RADIUS * (double)w->columns;
	TRY(transform(w));
	return best_from(w, w->rows * PARTS, first, (int64_t)(last - first) + 1, answer);
}

/* The second pass. The error is from the scatter between rows and their parts. */
static tomos_status search_near(Wedge *w, AxisAnswer *answer)
{
	double last = (double)(w->columns - 1), columns[MOST_LINES];
	AxisAnswer near = {0};
	w->sum = fmin(fmax(answer->column, 0.1 * last), 1.9 * last);
	w->radius = RADIUS * fmin(w->sum, 2 * last - w->sum);
	TRY(transform(w));
	int64_t lines = w->rows * PARTS;
	for (int64_t line = 0; line <= lines; line++) {
		double from = answer->column - NEAR;
		TRY(best_from(w, line, from, 2 * NEAR + 1, &near));
		if (line < lines)
			columns[line] = 0.5 * (double)w->bin * near.column;
	}
	answer->error = axis_error(columns, lines);
	answer->column = near.column;
	return TOMOS_OK;
}

/* ---- the sinogram ---------------------------------------------------------------------------- */

static void wedge_free(Wedge *w)
{
	fft_close(w->along);
	fft_close(w->across);
	mem_free(w->window);
	mem_free(w->slopes);
	mem_free(w->spectra);
	mem_free(w->cross);
}

static tomos_status wedge_make(Wedge *w)
{
	const int64_t *n = w->problem->data->shape;
	w->rows = min64(n[1], MOST_ROWS);
	w->columns = n[2] / w->bin;
	w->length = fft_length(2 * w->columns);
	w->waves = (int64_t)(HIGHEST * (double)w->length) + 1;
	int64_t lines = w->rows * w->views;
	TRY(mem_alloc(&w->slopes, lines * w->columns, sizeof *w->slopes, "rows of a sinogram"));
	TRY(mem_alloc(&w->spectra, lines * w->waves, sizeof *w->spectra, "spectra of rows"));
	TRY(mem_alloc(&w->cross, (w->rows * PARTS + 1) * w->waves, sizeof *w->cross, "spectra"));
	TRY(mem_alloc(&w->window, w->columns, sizeof *w->window, "a window"));
	TRY(fft_open(&w->along, w->length));
	TRY(fft_open(&w->across, 2 * w->views));
	return pieces_each(lines, n[2] + w->columns, take_slopes, w);
}

/* First view and number of views of 180 degrees, in sorted order. */
static int64_t half_turn(const AxisView *views, int64_t count, double step, int64_t *first)
{
	int64_t start = 0, used = 0;
	double widest = 0;
	for (int64_t i = 0; i < count; i++) { /* the first after the widest gap */
		double gap = views[i].angle - views[(i + count - 1) % count].angle;
		gap += i == 0 ? 2 * M_PI : 0;
		if (gap > widest * (1 + 1e-9))
			widest = gap, start = i;
	}
	for (; used < count; used++) {
		double on = views[(start + used) % count].angle - views[start].angle;
		on += on < 0 ? 2 * M_PI : 0;
		if (on > M_PI - 0.5 * step)
			break;
	}
	*first = start;
	return used;
}

/* Searches the whole range, or (`near`) around answer->column, with `bin` columns averaged. */
static tomos_status search(const Wedge *views, int64_t bin, bool near, AxisAnswer *answer)
{
	Wedge w = *views;
	double shift = 0.5 * (double)(bin - 1);
	tomos_status status;
	w.bin = bin;
	TRY_OR_DONE(wedge_make(&w));
	if (near)
		answer->column = 2 * (answer->column - shift) / (double)bin;
	else
		TRY_OR_DONE(search_range(&w, answer));
	answer->error = NAN;
	if (!answer->at_edge)
		TRY_OR_DONE(search_near(&w, answer));
	answer->column = 0.5 * answer->column * (double)bin + shift;
done:
	wedge_free(&w);
	return status;
}

/* From coarse to fine; noise may be such that the coarse result is the better one. */
static tomos_status search_twice(const Wedge *views, AxisAnswer *answer)
{
	int64_t n = views->problem->data->shape[2];
	int64_t coarse = (n + COARSE - 1) / COARSE, bin = (n + FINE - 1) / FINE;
	TRY(search(views, coarse, false, answer));
	AxisAnswer fine = *answer;
	if (bin < coarse && !answer->at_edge)
		TRY(search(views, bin, true, &fine));
	if (fabs(fine.column - answer->column) <= (double)coarse && !(fine.error > answer->error))
		*answer = fine;
	axis_settle(views->problem, answer);
	return TOMOS_OK;
}

tomos_status axis_wedge(const AxisProblem *p, AxisAnswer *answer)
{
	AxisView *views;
	double step;
	TRY(axis_sort(p, &views, &step));
	Wedge w = {.problem = p, .sorted = views};
	tomos_status status;
	w.views = half_turn(views, p->data->shape[0], step, &w.start);
	if ((double)w.views * step < 0.9 * M_PI || w.views < 8 || w.views > INT32_MAX / 4)
		status = fail(TOMOS_BAD_VALUE,
			"the views cover %.4g of 180 degrees in %lld steps of %.4g; the search "
			"needs "
			"162 or more, in at least 8 even steps",
			(double)w.views * step * 180 / M_PI, (long long)w.views, step * 180 / M_PI);
	else
		status = search_twice(&w, answer);
	mem_free(views);
	return status;
}
