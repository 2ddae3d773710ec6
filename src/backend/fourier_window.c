/* The window of Kaiser and Bessel, with the width parameter of P. J. Beatty, D. G. Nishimura and
 * J. M. Pauly, Rapid gridding reconstruction with a minimal oversampling ratio, IEEE Trans. Med.
 * Imag. 24 (2005) 799-808.
 */
#include "backend/fourier_window.h"
#include <math.h>
#include "base/solve.h"

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
static bool fit_tap(SpreadWindow *w, int tap)
{
	enum { N = SPREAD_DEGREE + 1 };
	double a[N][N + 1];
	int n = w->degree + 1;
	for (int i = 0; i < n; i++) {
		double t = cos(M_PI * (i + 0.5) / n), power = 1;
		for (int k = 0; k < n; k++, power *= t)
			a[i][k] = power;
		double z = 2 * ((t + 1) / 2 + tap) / w->taps - 1;
		a[i][n] = window_value(w->beta, z) / bessel(w->beta);
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

void window_scales(const SpreadWindow *w, int64_t n, int64_t size, float *scales)
{
	for (int64_t i = 0; i < n; i++)
		scales[i] = (float)(bessel(w->beta) / window_transform(w->beta, w->taps,
							      (double)(i - n / 2) / (double)size));
}

tomos_status window_make(
	SpreadWindow *w, const int64_t n[2], const int64_t size[2], double accuracy)
{
	double over = fmin((double)size[0] / (double)n[0], (double)size[1] / (double)n[1]);
	w->taps = window_taps(over, accuracy);
	w->degree = SPREAD_DEGREE_OF(w->taps);
	double wide = w->taps / over * (over - 0.5);
	w->beta = M_PI * sqrt(wide * wide - 0.8);
	for (int i = 0; i < w->taps; i++)
		if (!fit_tap(w, i))
			return fail(TOMOS_UNSUPPORTED, "the window of %d taps has no polynomials",
				w->taps);
	return TOMOS_OK;
}

/* Without a fused multiplication and addition, which compilers may make of these two. */
double window_first(const SpreadWindow *w, double step, int64_t m)
{
	volatile double position = (double)m * step;
	return SPREAD_FIRST(w, position);
}

static bool in_cells(const SpreadWindow *w, double step, int64_t m, double low, double high)
{
	double first = window_first(w, step, m);
	return first >= low && first < high;
}

/* The first cell is monotonic in m. */
PointRange window_points(const SpreadWindow *w, double step, int64_t top, double low, double high)
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
