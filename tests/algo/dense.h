/* A problem of a few rays and voxels with its matrix in full, and the algebraic methods by their
 * formulas in doubles: what the methods are compared with step by step. */
#ifndef TOMOS_TESTS_ALGO_DENSE_H
#define TOMOS_TESTS_ALGO_DENSE_H

#include "algo/problem.h"

enum {
	SIDE = 5,
	ACROSS = 4,
	VOXELS = SIDE * ACROSS,
	VIEWS = 6,
	PER_VIEW = 7,
	RAYS = VIEWS * PER_VIEW
};

typedef struct {
	tomos_backend *backend;
	tomos_op *op;
	double A[RAYS][VOXELS], b[RAYS], start[VOXELS];
	float data[RAYS], image[VOXELS], ray_weights[RAYS], inside[VOXELS];
	double w[RAYS], mask[VOXELS]; /* of the caller: 1 where none are given */
	tomos_array projections, volume, weights_array, mask_array;
	tomos_algebraic_options o;
} Dense;

static inline void dense_matrix(Dense *d, double length)
{
	for (int j = 0; j < VOXELS; j++) {
		float unit[VOXELS] = {0}, column[RAYS];
		unit[j] = 1;
		tomos_array x = tomos_array_of(unit, 1, ACROSS, SIDE);
		tomos_array y = tomos_array_of(column, VIEWS, 1, PER_VIEW);
		OK(tomos_op_forward(d->op, &x, &y));
		for (int i = 0; i < RAYS; i++)
			d->A[i][j] = fabs(column[i]) > 1e-6 * length ? column[i] : 0;
	}
}

/* Voxels of two different edges, rays of all lengths, positive data that no volume fits. */
static inline void dense_make_in(Dense *d, double unit)
{
	tomos_geometry *scan;
	double angles[VIEWS];
	Case c = {.state = 77};
	tomos_grid grid = {{SIDE, ACROSS, 1}, {-2.1, 1.6, 0}, {1.1, -0.9, 1}};
	memset(d, 0, sizeof *d);
	for (int a = 0; a < 3; a++)
		grid.first[a] *= unit, grid.step[a] *= unit;
	for (int i = 0; i < VIEWS; i++)
		angles[i] = 0.17 + 0.5 * i;
	OK(tomos_backend_open(&d->backend, test_backend()));
	OK(tomos_geometry_parallel(&scan, 1, PER_VIEW, 0.89 * unit, angles, VIEWS));
	OK(tomos_op_projector(&d->op, d->backend, &grid, scan, NULL));
	tomos_geometry_free(scan);
	dense_matrix(d, unit);
	for (int i = 0; i < RAYS; i++) {
		d->data[i] = (float)case_between(&c, 0.5, 3);
		d->b[i] = d->data[i];
		d->w[i] = 1;
	}
	for (int j = 0; j < VOXELS; j++) {
		d->start[j] = (float)case_between(&c, 0.2, 1);
		d->mask[j] = 1;
	}
	d->projections = tomos_array_of(d->data, VIEWS, 1, PER_VIEW);
	d->volume = tomos_array_of(d->image, 1, ACROSS, SIDE);
	d->weights_array = tomos_array_of(d->ray_weights, VIEWS, 1, PER_VIEW);
	d->mask_array = tomos_array_of(d->inside, 1, ACROSS, SIDE);
	d->o = tomos_algebraic_defaults();
}

static inline void dense_make(Dense *d)
{
	dense_make_in(d, 1);
}

static inline void dense_free(Dense *d)
{
	tomos_op_free(d->op);
	tomos_backend_close(d->backend);
}

/* Rays that count more or less, one of them not at all, and voxels that stay 0. */
static inline void dense_weigh(Dense *d)
{
	Case c = {.state = 78};
	for (int i = 0; i < RAYS; i++)
		d->w[i] = d->ray_weights[i] = i == 10 ? 0 : (float)case_between(&c, 0.3, 2);
	for (int j = 0; j < VOXELS; j++)
		d->mask[j] = d->inside[j] = j != 3 && j != 11;
	d->o.ray_weights = &d->weights_array;
	d->o.mask = &d->mask_array;
}

static inline double dense_a(const Dense *d, int i, int j)
{
	return d->A[i][j] * d->mask[j];
}

static inline double dense_row(const Dense *d, int i, const double *x)
{
	double sum = 0;
	for (int j = 0; j < VOXELS; j++)
		sum += dense_a(d, i, j) * x[j];
	return sum;
}

/* s = A' y with the rays first .. end-1 */
static inline void dense_back(const Dense *d, int first, int end, const double *y, double *s)
{
	for (int j = 0; j < VOXELS; j++) {
		s[j] = 0;
		for (int i = first; i < end; i++)
			s[j] += dense_a(d, i, j) * y[i];
	}
}

/* A' W (b - A x) */
static inline void dense_gradient(const Dense *d, const double *x, double *g)
{
	double r[RAYS];
	for (int i = 0; i < RAYS; i++)
		r[i] = d->w[i] * (d->b[i] - dense_row(d, i, x));
	dense_back(d, 0, RAYS, r, g);
}

static inline double dense_dot(const double *a, const double *b, int n)
{
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

static inline double dense_bound(const Dense *d, double x, int j)
{
	return d->mask[j] * fmin(fmax(x, d->o.minimum), d->o.maximum);
}

static inline void dense_begin(const Dense *d, double *x)
{
	for (int j = 0; j < VOXELS; j++)
		x[j] = d->mask[j] * d->start[j];
}

/* x of the method after `iterations` iterations. */
static inline void dense_run(Dense *d, const char *method, int64_t iterations)
{
	d->o.iterations = iterations;
	if (tomos_method_uses(method, "order"))
		d->o.order = "sequential";
	for (int j = 0; j < VOXELS; j++)
		d->image[j] = (float)d->start[j];
	OK(tomos_reconstruct(d->op, method, &d->projections, &d->volume, &d->o, NULL));
}

static inline void dense_same(const Dense *d, const char *what, const double *x, double within)
{
	double most = 0, size = 0;
	for (int j = 0; j < VOXELS; j++) {
		most = fmax(most, fabs(d->image[j] - x[j]));
		size = fmax(size, fabs(x[j]));
	}
	if (!(most <= within * size))
		fail_msg("%s: off by %g of %g", what, most, size);
}

#endif
