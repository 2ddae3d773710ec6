/* Helpers for tests of single steps. */
#ifndef TOMOS_TESTS_ALGO_STEPS_HELP_H
#define TOMOS_TESTS_ALGO_STEPS_HELP_H

#include "algo/dense.h"

#define ROUNDING 2e-5
/* Plain; with bounds; with weights and a mask; with all of these. */
enum { WAYS = 4 };

static inline Dense *dense_way(Dense *d, int way)
{
	dense_make(d);
	if (way % 2)
		d->o.minimum = 0.25, d->o.maximum = 0.75;
	if (way / 2)
		dense_weigh(d);
	return d;
}

/* How many of the rays first .. end-1, as they count, meet voxel j. */
static inline double met(const Dense *d, int j, int first, int end)
{
	double sum = 0;
	for (int i = first; i < end; i++)
		sum += d->A[i][j] != 0 ? d->w[i] * d->mask[j] : 0;
	return sum;
}

/* 1 / the row's sum, 1 / the sum of its squares, 1, 1 / the sum of squares times how many rays meet
 * the voxel. */
static inline double ray_weight(const Dense *d, const char *kind, int i, int first, int end)
{
	double sum = 0;
	if (strcmp(kind, "landweber") == 0)
		return 1;
	for (int j = 0; j < VOXELS; j++) {
		double a = dense_a(d, i, j);
		sum += strcmp(kind, "sirt") == 0  ? a
		       : strcmp(kind, "cav") == 0 ? a * a * met(d, j, first, end)
						  : a * a;
	}
	return sum > 1e-5 ? 1 / sum : 0;
}

/* 1 / the column's sum, 1 / how many rays meet the voxel, or 1. */
static inline double voxel_weight(const Dense *d, const char *kind, int j, int first, int end)
{
	double sum = 0;
	if (strcmp(kind, "drop") == 0)
		sum = met(d, j, first, end);
	else if (strcmp(kind, "sirt") != 0)
		return 1;
	else
		for (int i = first; i < end; i++)
			sum += dense_a(d, i, j) * d->w[i];
	return sum > 1e-5 ? 1 / sum : 0;
}

/* One update with the rays of views from .. to-1. */
static inline void update(const Dense *d, double lambda, int from, int to, double *x)
{
	int first = from * PER_VIEW, end = to * PER_VIEW;
	double y[RAYS], s[VOXELS];
	for (int i = first; i < end; i++)
		y[i] = d->w[i] * (d->b[i] - dense_row(d, i, x)) *
		       ray_weight(d, d->o.weights, i, first, end);
	dense_back(d, first, end, y, s);
	for (int j = 0; j < VOXELS; j++)
		x[j] = dense_bound(
			d, x[j] + lambda * voxel_weight(d, d->o.weights, j, first, end) * s[j], j);
}

static inline double eigenvalue(const Dense *d)
{
	double x[VOXELS], y[RAYS], length = 0;
	for (int j = 0; j < VOXELS; j++)
		x[j] = d->mask[j];
	for (int k = 0; k < 2000; k++) {
		for (int i = 0; i < RAYS; i++)
			y[i] = d->w[i] * ray_weight(d, d->o.weights, i, 0, RAYS) *
			       dense_row(d, i, x);
		dense_back(d, 0, RAYS, y, x);
		length = sqrt(dense_dot(x, x, VOXELS));
		for (int j = 0; j < VOXELS; j++)
			x[j] /= length;
	}
	return length;
}

#endif
