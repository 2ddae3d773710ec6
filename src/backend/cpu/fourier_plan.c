/* Plan of the Fourier projector: window, sizes, and the points in each tile of the grid.
 *
 * The window is that of Kaiser and Bessel, with the width parameter of P. J. Beatty, D. G.
 * Nishimura and J. M. Pauly, Rapid gridding reconstruction with a minimal oversampling ratio, IEEE
 * Trans. Med. Imag. 24 (2005) 799-808.
 */
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/fourier.h"
#include "base/fft.h"
#include "base/solve.h"

enum { TILE = 64 };

/* The modified Bessel function of order 0. */
static double bessel(double x)
{
	double term = 1, sum = 1;
	for (int k = 1; term > 1e-18 * sum; k++) {
		term *= x / (2 * k) * (x / (2 * k));
		sum += term;
	}
	return sum;
}

static double window_value(double beta, double z)
{
	return z * z >= 1 ? z * z > 1 + 1e-9 ? 0 : 1 : bessel(beta * sqrt(1 - z * z));
}

/* Its transform at `cycles` per cell. */
static double window_transform(double beta, int taps, double cycles)
{
	double square = beta * beta - M_PI * taps * cycles * M_PI * taps * cycles;
	double root = sqrt(fabs(square));
	if (root < 1e-6)
		return taps;
	return taps * (square > 0 ? sinh(root) : sin(root)) / root;
}

/* The polynomial through the values of one tap at the Chebyshev points. */
static bool fit_tap(SpreadWindow *w, double beta, int tap)
{
	enum { N = SPREAD_DEGREE + 1 };
	double a[N][N + 1];
	int n = w->degree + 1;
	for (int i = 0; i < n; i++) {
		double t = cos(M_PI * (i + 0.5) / n), power = 1;
		for (int k = 0; k < n; k++, power *= t)
			a[i][k] = power;
		double z = 2 * ((t + 1) / 2 + tap) / w->taps - 1;
		a[i][n] = window_value(beta, z) / bessel(beta);
	}
	if (!solve_equations(&a[0][0], n, N + 1))
		return false;
	for (int k = 0; k < n; k++)
		w->polynomials[k][tap] = (float)a[k][n];
	return true;
}

/* Width for the accuracy: the error of this window falls by exp(pi sqrt(1 - 1 / oversampling)) per
 * tap. */
static int window_taps(double oversampling, double accuracy)
{
	double rate = M_PI * sqrt(1 - 1 / oversampling);
	double taps = ceil(log(5 / accuracy) / rate);
	return (int)fmin(fmax(taps, SPREAD_LEAST), SPREAD_MOST);
}

static tomos_status make_scale(FourierAxis *axis, double beta, int taps)
{
	TRY(mem_alloc(&axis->scale, axis->n, sizeof *axis->scale, "the window"));
	for (int64_t i = 0; i < axis->n; i++)
		axis->scale[i] = (float)(bessel(beta) /
					 window_transform(beta, taps,
						 (double)(i - axis->half) / (double)axis->size));
	return TOMOS_OK;
}

tomos_status window_make(SpreadWindow *w, FourierAxis axis[2], double accuracy)
{
	double over = fmin(
		(double)axis[0].size / (double)axis[0].n, (double)axis[1].size / (double)axis[1].n);
	w->taps = window_taps(over, accuracy);
	w->degree = w->taps + 3;
	double wide = w->taps / over * (over - 0.5);
	double beta = M_PI * sqrt(wide * wide - 0.8);
	for (int i = 0; i < w->taps; i++)
		if (!fit_tap(w, beta, i))
			return fail(TOMOS_UNSUPPORTED, "the window of %d taps has no polynomials",
				w->taps);
	for (int a = 0; a < 2; a++)
		TRY(make_scale(&axis[a], beta, w->taps));
	return TOMOS_OK;
}

/* ---- points of a tile ------------------------------------------------------------------------ */

static bool in_cells(const SpreadWindow *w, double step, int64_t m, double low, double high)
{
	double first = SPREAD_FIRST(w, (double)m * step);
	return first >= low && first < high;
}

/* The points m from -top to top whose first cell is in low .. high - 1; it is monotonic in m. */
static PointRange points_in(
	const SpreadWindow *w, double step, int64_t top, double low, double high)
{
	double a = low - 1 + 0.5 * w->taps, b = high - 1 + 0.5 * w->taps;
	double edge = (double)top + 1, from, to;
	if (fabs(step) * edge < 1e-9) {
		bool all = in_cells(w, step, 0, low, high);
		return all ? (PointRange){(int32_t)-top, (int32_t)top + 1} : (PointRange){0, 0};
	}
	from = fmin(fmax(floor(fmin(a / step, b / step)), -edge), edge);
	to = fmin(fmax(ceil(fmax(a / step, b / step)) + 1, -edge), edge);
	int64_t first = max64((int64_t)from, -top), end = min64((int64_t)to + 1, top + 1);
	while (first < end && !in_cells(w, step, first, low, high))
		first++;
	while (first < end && !in_cells(w, step, end - 1, low, high))
		end--;
	return first < end ? (PointRange){(int32_t)first, (int32_t)end} : (PointRange){0, 0};
}

static tomos_status make_edges(FourierAxis *axis)
{
	axis->tiles = 2 * (int)max64(1, axis->size / (2 * TILE));
	TRY(mem_alloc(&axis->edge, axis->tiles + 1, sizeof *axis->edge, "the tiles"));
	for (int i = 0; i <= axis->tiles; i++)
		axis->edge[i] = i * axis->size / axis->tiles;
	return TOMOS_OK;
}

typedef struct {
	Fourier *f;
	int axis;
} RangeTask;

static void range_tile(void *user, int64_t tile)
{
	const RangeTask *r = user;
	const Fourier *f = r->f;
	const FourierAxis *axis = &f->axis[r->axis];
	PointRange *to = axis->ranges + tile * f->spec.count * 2 * axis->periods;
	for (int64_t v = 0; v < f->spec.count; v++) {
		double step = f->views[v].column[r->axis] * (double)axis->size / (double)f->period;
		for (int p = -axis->periods; p < axis->periods; p++) {
			double shift = (double)(p * axis->size);
			*to++ = points_in(&f->window, step, f->top,
				(double)axis->edge[tile] + shift,
				(double)axis->edge[tile + 1] + shift);
		}
	}
}

tomos_status axis_ranges(Fourier *f, int which)
{
	FourierAxis *axis = &f->axis[which];
	double most = 0;
	for (int64_t v = 0; v < f->spec.count; v++)
		most = fmax(most, fabs(f->views[v].column[which]));
	TRY(make_edges(axis));
	/* Points are up to most / 2 periods from the origin, and half a window further. */
	axis->periods = (int)ceil(0.5 * most + (double)SPREAD_MOST / (double)axis->size);
	TRY(mem_alloc(&axis->ranges, axis->tiles * f->spec.count * 2 * axis->periods,
		sizeof *axis->ranges, "the points of the tiles"));
	parallel_for(axis->tiles, range_tile, &(RangeTask){f, which});
	return TOMOS_OK;
}
