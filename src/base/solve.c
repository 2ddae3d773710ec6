/* Gauss elimination. */
#include "base/solve.h"
#include <math.h>

static void swap_rows(double *a, double *b, int count)
{
	for (int j = 0; j < count; j++) {
		double swap = a[j];
		a[j] = b[j];
		b[j] = swap;
	}
}

bool solve_equations(double *a, int n, int stride)
{
	for (int k = 0; k < n; k++) {
		double *row = a + k * stride;
		int pivot = k;
		for (int i = k + 1; i < n; i++)
			pivot = fabs(a[i * stride + k]) > fabs(a[pivot * stride + k]) ? i : pivot;
		swap_rows(row, a + pivot * stride, n + 1);
		if (!(fabs(row[k]) > 0))
			return false;
		for (int i = 0; i < n; i++) {
			double factor = i == k ? 0 : a[i * stride + k] / row[k];
			for (int j = k; j <= n; j++)
				a[i * stride + j] -= factor * row[j];
		}
	}
	for (int k = 0; k < n; k++)
		a[k * stride + n] /= a[k * stride + k];
	return true;
}

bool polynomial_increases(const double *c, int terms, double most)
{
	double last = 0;
	for (int i = 1; i <= 100; i++) {
		double x = 0.01 * i * most, sum = 0;
		for (int k = terms - 1; k >= 0; k--)
			sum = (sum + c[k]) * x;
		if (sum <= last)
			return false;
		last = sum;
	}
	return true;
}

void cubic_weights(double t, float weight[4], float slope[4])
{
	weight[0] = (float)(0.5 * t * (-1 + t * (2 - t)));
	weight[1] = (float)(1 + 0.5 * t * t * (-5 + 3 * t));
	weight[2] = (float)(0.5 * t * (1 + t * (4 - 3 * t)));
	weight[3] = (float)(0.5 * t * t * (t - 1));
	slope[0] = (float)(-0.5 + t * (2 - 1.5 * t));
	slope[1] = (float)(t * (-5 + 4.5 * t));
	slope[2] = (float)(0.5 + t * (4 - 4.5 * t));
	slope[3] = (float)(t * (-1 + 1.5 * t));
}

void spline_weights(double t, float weight[4], float slope[4])
{
	double u = 1 - t;
	weight[0] = (float)(u * u * u / 6);
	weight[1] = (float)(2.0 / 3 - t * t * (1 - 0.5 * t));
	weight[2] = (float)(2.0 / 3 - u * u * (1 - 0.5 * u));
	weight[3] = (float)(t * t * t / 6);
	slope[0] = (float)(-0.5 * u * u);
	slope[1] = (float)(t * (-2 + 1.5 * t));
	slope[2] = (float)(u * (2 - 1.5 * u));
	slope[3] = (float)(0.5 * t * t);
}
