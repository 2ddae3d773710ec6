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

void wavelet_make(int moments, double low[WAVELET_TAPS])
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
}

void wavelet_forth(const double *low, int taps, const float *in, int64_t count, float *out)
{
	int64_t half = count / 2;
	for (int64_t i = 0; i < half; i++) {
		double average = 0, detail = 0;
		for (int k = 0; k < taps; k++) {
			int64_t at = 2 * i + k;
			double value = (double)in[at < count ? at : at % count];
			average += low[k] * value;
			detail += (k % 2 ? -1 : 1) * low[taps - 1 - k] * value;
		}
		out[i] = (float)average;
		out[half + i] = (float)detail;
	}
}

void wavelet_back(const double *low, int taps, const float *in, int64_t count, float *out)
{
	int64_t half = count / 2;
	for (int64_t n = 0; n < count; n++) {
		double sum = 0;
		for (int k = (int)(n % 2); k < taps; k += 2) {
			int64_t i = (n - k) / 2;
			while (i < 0)
				i += half;
			double high = (k % 2 ? -1 : 1) * low[taps - 1 - k];
			sum += low[k] * (double)in[i] + high * (double)in[half + i];
		}
		out[n] = (float)sum;
	}
}
