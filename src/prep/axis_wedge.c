/* Rotation axis from the double wedge that contains the spectrum of a 360 degree sinogram.
 *
 * N. T. Vo, M. Drakopoulos, R. C. Atwood, C. Reinhard, Reliable method for calculating the center
 * of rotation in parallel-beam tomography, Optics Express 22 (2014) 19078-19086. A 180 degree
 * sinogram is extended to 360 degrees by its mirror image about a trial axis; the right axis
 * minimises the spectrum outside the wedge. Trials are at half columns, where mirroring needs no
 * interpolation, and are refined by a parabola. A coarse search uses fewer columns and views.
 */
#include <fftw3.h>
#include <string.h>
#include "base/fft.h"
#include "prep/axis.h"

enum { COARSE_COLUMNS = 320, COARSE_VIEWS = 200, MOST_ROWS = 4, NEAR = 4 };
#define RADIUS 0.25 /* smallest radius of an object, as a fraction of the columns */

/* A 180 degree sinogram sorted by angle, and its spectra. */
typedef struct {
	int64_t views, columns, first; /* the first sum of columns tried */
	float *sinogram;
	double *outside; /* of each sum tried: mean modulus of the spectrum outside the wedge */
	fftwf_plan plan;
} Wedge;

/* The 180 degree sinogram, and below it its mirror image; where the mirror image ends, the last and
 * the first view are continued, to avoid jumps. */
static void extend_to_full(const Wedge *w, int64_t sum, float *full)
{
	int64_t n = w->columns, stride = 2 * (n / 2 + 1);
	for (int64_t v = 0; v < w->views; v++) {
		const float *mirror = w->sinogram + v * n;
		const float *fill = w->sinogram + (w->views - 1 - v) * n;
		float *top = full + v * stride, *below = full + (w->views + v) * stride;
		memcpy(top, mirror, (size_t)n * sizeof *top);
		for (int64_t c = 0; c < n; c++) {
			int64_t from = sum - c;
			below[c] = from >= 0 && from < n ? mirror[from] : fill[c];
		}
	}
}

static double outside_of(const Wedge *w, const float *spectrum)
{
	int64_t n = w->columns, rows = 2 * w->views, stride = n / 2 + 1, count = 0;
	int64_t drop = max64(min64(20, w->views / 10), 2);
	double sum = 0;
	for (int64_t r = drop; r <= rows - drop; r++) {
		double waves = (double)min64(r, rows - r);                /* per 360 degrees */
		int64_t end = (int64_t)(waves / (2 * M_PI * RADIUS)) + 1; /* RADIUS n pixels */
		for (int64_t c = 2; c < min64(end, stride); c++, count++)
			sum += hypot((double)spectrum[2 * (r * stride + c)],
				(double)spectrum[2 * (r * stride + c) + 1]);
	}
	return count > 0 ? sum / (double)count : 0;
}

static void try_sum(const void *user, int64_t index, float *full)
{
	const Wedge *w = user;
	extend_to_full(w, w->first + index, full);
	fftwf_execute_dft_r2c(w->plan, full, (fftwf_complex *)full);
	w->outside[index] = outside_of(w, full);
}

/* Tries `count` sums of columns, starting with `first`. */
static tomos_status try_all(Wedge *w, int64_t first, int64_t count)
{
	int64_t floats = 2 * w->views * 2 * (w->columns / 2 + 1);
	float *full; /* only for its alignment: FFTW_ESTIMATE does not write to it */
	w->first = first;
	TRY(mem_alloc(&w->outside, count, sizeof(double), "scores of the axis"));
	TRY(mem_alloc(&full, floats, sizeof *full, "a whole full"));
	fft_lock();
	w->plan = fftwf_plan_dft_r2c_2d(
		(int)(2 * w->views), (int)w->columns, full, (fftwf_complex *)full, FFTW_ESTIMATE);
	fft_unlock();
	mem_free(full);
	if (!w->plan)
		return fail(TOMOS_NO_MEMORY, "no plan for transforms of %lld x %lld",
			(long long)(2 * w->views), (long long)w->columns);
	return pieces_each(count, floats, try_sum, w);
}

static void wedge_free(Wedge *w)
{
	fft_lock();
	if (w->plan)
		fftwf_destroy_plan(w->plan);
	fft_unlock();
	mem_free(w->outside);
	mem_free(w->sinogram);
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

/* Averages of `views_bin` views and `bin` columns of one row. */
static tomos_status take_sinogram(const AxisProblem *p, const AxisView *views, int64_t first,
	int64_t row, int64_t bin, int64_t views_bin, Wedge *w)
{
	int64_t n = p->data->shape[2], all = p->data->shape[0];
	float *line, share = 1 / (float)(bin * views_bin);
	TRY(mem_zeroed(&w->sinogram, w->views * w->columns, sizeof *line, "a sinogram"));
	TRY(mem_alloc(&line, n, sizeof *line, "a row"));
	for (int64_t v = 0; v < w->views * views_bin; v++) {
		row_get(p->data, views[(first + v) % all].view, row, line);
		float *out = w->sinogram + v / views_bin * w->columns;
		for (int64_t c = 0; c < w->columns * bin; c++)
			out[c / bin] += share * line[c];
	}
	mem_free(line);
	return TOMOS_OK;
}

/* The smallest score, its position and its confidence. */
static void take_least(const Wedge *w, int64_t count, AxisAnswer *answer)
{
	double *score = w->outside;
	int64_t best = 0;
	for (int64_t i = 0; i < count; i++) {
		score[i] = -score[i];
		best = score[i] > score[best] ? i : best;
	}
	answer->at_edge = best == 0 || best == count - 1;
	double top = answer->at_edge ? 0 : axis_top(score[best - 1], score[best], score[best + 1]);
	answer->column = 0.5 * ((double)(w->first + best) + top);
	answer->error = NAN;
	answer->confidence = axis_confidence(score, count, best, max64(w->columns / 50, 6));
}

static tomos_status search(const AxisProblem *p, const AxisView *views, int64_t first, int64_t used,
	int64_t row, int64_t bin, int64_t views_bin, AxisAnswer *answer)
{
	Wedge w = {.views = used / views_bin, .columns = p->data->shape[2] / bin};
	double low = (p->low - 0.5 * (double)(bin - 1)) / (double)bin;
	double high = (p->high - 0.5 * (double)(bin - 1)) / (double)bin;
	int64_t from = (int64_t)floor(2 * low), count = (int64_t)ceil(2 * high) - from + 1;
	tomos_status status;
	TRY_OR_DONE(take_sinogram(p, views, first, row, bin, views_bin, &w));
	TRY_OR_DONE(try_all(&w, from, count));
	take_least(&w, count, answer);
	answer->column = answer->column * (double)bin + 0.5 * (double)(bin - 1);
done:
	wedge_free(&w);
	return status;
}

static tomos_status search_row(const AxisProblem *p, const AxisView *views, int64_t first,
	int64_t used, int64_t row, AxisAnswer *answer)
{
	int64_t bin = (p->data->shape[2] + COARSE_COLUMNS - 1) / COARSE_COLUMNS;
	int64_t views_bin = max64(used / COARSE_VIEWS, 1);
	TRY(search(p, views, first, used, row, bin, views_bin, answer));
	if ((bin == 1 && views_bin == 1) || answer->at_edge)
		return TOMOS_OK;
	AxisAnswer fine;
	AxisProblem near = *p;
	near.low = fmax(answer->column - (double)(NEAR * bin), p->low);
	near.high = fmin(answer->column + (double)(NEAR * bin), p->high);
	TRY(search(&near, views, first, used, row, 1, 1, &fine));
	answer->column = fine.column;
	return TOMOS_OK;
}

/* Result of the row with the highest confidence; the error is from the scatter between rows. */
tomos_status axis_wedge(const AxisProblem *p, AxisAnswer *answer)
{
	AxisView *views;
	double step;
	TRY(axis_sort(p, &views, &step));
	int64_t first, used = half_turn(views, p->data->shape[0], step, &first);
	int64_t rows = p->data->shape[1], taken = min64(rows, MOST_ROWS);
	tomos_status status = TOMOS_OK;
	AxisAnswer best = {0}, one;
	double columns[MOST_ROWS];
	if ((double)used * step < 0.9 * M_PI || used < 8 || used > INT32_MAX / 2)
		status = fail(TOMOS_BAD_VALUE, "the views cover %.4g of 180 degrees in %lld steps",
			(double)used * step * 180 / M_PI, (long long)used);
	for (int64_t r = 0; status == TOMOS_OK && r < taken; r++) {
		int64_t row = (2 * r + 1) * rows / (2 * taken);
		status = search_row(p, views, first, used, row, &one);
		if (status != TOMOS_OK)
			break;
		columns[r] = one.column;
		if (one.confidence >= best.confidence)
			best = one;
	}
	best.error = status == TOMOS_OK ? axis_error(columns, taken) : NAN;
	mem_free(views);
	axis_settle(p, &best);
	*answer = best;
	return status;
}
