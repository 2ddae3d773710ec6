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
