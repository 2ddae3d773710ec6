/* Ring removal by one offset per column, found by regularisation.
 *
 * S. Titarenko, P. J. Withers, A. Yagola, An analytical formula for ring artefact suppression in
 * X-ray tomography, Applied Mathematics Letters 23 (2010) 1489-1495: the column offsets q minimise
 * ||D (m - q)||^2 + alpha ||q||^2, with m the mean over views and D the difference of neighbours:
 * (D'D + alpha) q = D'D m, a tridiagonal system.
 */
#include "prep/prep.h"

int64_t ring_titarenko_floats(const RingJob *job)
{
	return 6 * job->columns; /* three lists of doubles */
}

/* Thomas algorithm; overwrites `upper` and `right`. */
static void solve(int64_t n, double alpha, double *upper, double *right)
{
	for (int64_t i = 0; i < n; i++) {
		double ends = n == 1 ? 0 : i == 0 || i == n - 1 ? 1 : 2;
		double lower = i > 0 ? -1 : 0;
		double pivot = ends + alpha - (i > 0 ? lower * upper[i - 1] : 0);
		upper[i] = i + 1 < n ? -1 / pivot : 0;
		right[i] = (right[i] - (i > 0 ? lower * right[i - 1] : 0)) / pivot;
	}
	for (int64_t i = n - 2; i >= 0; i--)
		right[i] -= upper[i] * right[i + 1];
}

int64_t ring_titarenko(const RingJob *job, float *sinogram, float *scratch)
{
	int64_t n = job->columns, views = job->views;
	double *mean = (double *)(void *)scratch, *upper = mean + n, *offset = upper + n;
	for (int64_t c = 0; c < n; c++)
		mean[c] = 0;
	for (int64_t v = 0; v < views; v++)
		for (int64_t c = 0; c < n; c++)
			mean[c] += (double)sinogram[v * n + c];
	for (int64_t c = 0; c < n; c++)
		mean[c] /= (double)views;
	for (int64_t c = 0; c < n; c++)
		offset[c] = (c > 0 ? mean[c] - mean[c - 1] : 0) +
			    (c + 1 < n ? mean[c] - mean[c + 1] : 0);
	solve(n, job->options->ring_alpha, upper, offset);
	float *height = scratch; /* the means are no longer needed */
	for (int64_t c = 0; c < n; c++)
		height[c] = (float)offset[c];
	for (int64_t v = 0; v < views; v++)
		for (int64_t c = 0; c < n; c++)
			sinogram[v * n + c] -= height[c];
	return 0;
}
