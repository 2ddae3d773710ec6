/* Daubechies wavelets: computation of the filters, and one level of the periodic transform.
 *
 * I. Daubechies, Orthonormal bases of compactly supported wavelets, Comm. Pure Appl. Math. 41
 * (1988). The filter of N vanishing moments is (1 + z)^N times the minimum-phase factor of the
 * polynomial sum_k binomial(N - 1 + k, k) y^k, y = (2 - z - 1/z) / 4, whose roots are found by the
 * Durand-Kerner method.
 */
#include <complex.h>
#include "prep/prep.h"

enum { MOST = WAVELET_TAPS / 2 };

/* The roots of the monic polynomial with coefficients c[0 .. degree-1]. */
static void find_roots(const double *c, int degree, double complex *roots)
{
	for (int i = 0; i < degree; i++)
		roots[i] = cpow(0.4 + 0.9 * I, i + 1);
	for (int round = 0; round < 500; round++)
		for (int i = 0; i < degree; i++) {
			double complex value = 1, apart = 1;
			for (int k = degree - 1; k >= 0; k--)
				value = value * roots[i] + c[k];
			for (int j = 0; j < degree; j++)
				apart *= j == i ? 1 : roots[i] - roots[j];
			roots[i] -= value / apart;
		}
}

/* Multiplies a polynomial of that degree by (z - root). */
static void times_root(double complex *p, int degree, double complex root)
{
	p[degree + 1] = p[degree];
	for (int k = degree; k > 0; k--)
		p[k] = p[k - 1] - root * p[k];
	p[0] *= -root;
}

void wavelet_make(int moments, double low[WAVELET_TAPS], double high[WAVELET_TAPS])
{
	double c[MOST] = {1}, sum = 0;
	double complex roots[MOST], p[WAVELET_TAPS + 1] = {1};
	int degree = 0;
	for (int k = 1; k < moments; k++)
		c[k] = c[k - 1] * (moments - 1 + k) / k;
	for (int k = 0; k < moments; k++)
		c[k] /= c[moments - 1];
	find_roots(c, moments - 1, roots);
	for (int i = 0; i < moments; i++)
		times_root(p, degree++, -1);
	for (int i = 0; i < moments - 1; i++) {
		double complex b = 1 - 2 * roots[i], z = b + csqrt(b * b - 1);
		times_root(p, degree++, cabs(z) < 1 ? z : 1 / z);
	}
	for (int k = 0; k < 2 * moments; k++)
		sum += creal(p[k]);
	for (int k = 0; k < 2 * moments; k++) /* the largest coefficients first */
		low[k] = creal(p[2 * moments - 1 - k]) * sqrt(2) / sum;
	for (int k = 0; k < 2 * moments; k++)
		high[k] = (k % 2 ? -1 : 1) * low[2 * moments - 1 - k];
}

void lines_sum(const double *weights, const float *const *lines, int64_t count, int64_t columns,
	double *sums)
{
	enum { PART = 16 }; /* sums of a part stay in registers */
	for (int64_t c = 0; c < columns; c += PART) {
		double part[PART] = {0};
		int64_t width = min64(PART, columns - c);
		if (width == PART)
			for (int64_t i = 0; i < count; i++)
				for (int k = 0; k < PART; k++)
					part[k] += weights[i] * (double)lines[i][c + k];
		else
			for (int64_t i = 0; i < count; i++)
				for (int64_t k = 0; k < width; k++)
					part[k] += weights[i] * (double)lines[i][c + k];
		memcpy(sums + c, part, (size_t)width * sizeof *sums);
	}
}

int64_t wavelet_floats(int64_t count)
{
	return 2 * count + WAVELET_TAPS; /* sums in doubles; two halves, extended */
}

/* Even and odd values as lines of their own, extended periodically, so that each tap is a shifted
 * line. */
void wavelet_forth(const double *low, const double *high, int taps, const float *in, int64_t count,
	float *out, float *scratch)
{
	int64_t half = count / 2, length = half + WAVELET_TAPS / 2;
	double *sums = (double *)(void *)scratch;
	float *even = scratch + 2 * half, *odd = even + length;
	const float *lines[WAVELET_TAPS];
	for (int64_t i = 0; i < length; i++) {
		int64_t at = i < half ? i : i % half;
		even[i] = in[2 * at];
		odd[i] = in[2 * at + 1];
	}
	for (int k = 0; k < taps; k++)
		lines[k] = (k % 2 ? odd : even) + k / 2;
	lines_sum(low, lines, taps, half, sums);
	for (int64_t i = 0; i < half; i++)
		out[i] = (float)sums[i];
	lines_sum(high, lines, taps, half, sums);
	for (int64_t i = 0; i < half; i++)
		out[half + i] = (float)sums[i];
}

/* Averages and details are extended before the first; even and odd values are sums of shifted
 * lines. */
void wavelet_back(const double *low, const double *high, int taps, const float *in, int64_t count,
	float *out, float *scratch)
{
	enum { BEFORE = WAVELET_TAPS / 2 };
	int64_t half = count / 2, length = half + BEFORE;
	double *sums = (double *)(void *)scratch, weights[WAVELET_TAPS];
	float *average = scratch + 2 * half, *detail = average + length;
	const float *lines[WAVELET_TAPS];
	for (int64_t i = 0; i < length; i++) {
		int64_t at = i >= BEFORE ? i - BEFORE : half - 1 - (BEFORE - 1 - i) % half;
		average[i] = in[at];
		detail[i] = in[half + at];
	}
	for (int side = 0; side < 2; side++) {
		for (int k = 0; k < taps; k += 2) {
			lines[k] = average + BEFORE - k / 2;
			lines[k + 1] = detail + BEFORE - k / 2;
			weights[k] = low[k + side];
			weights[k + 1] = high[k + side];
		}
		lines_sum(weights, lines, taps, half, sums);
		for (int64_t i = 0; i < half; i++)
			out[2 * i + side] = (float)sums[i];
	}
}
