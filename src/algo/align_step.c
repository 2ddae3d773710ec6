/* A Gauss-Newton step on the motions of the views: the least squares solution of
 * || r - A dx - J dm ||, with the residual r, a change dx of the volume, a change dm of the motions
 * and the derivatives J of the projections with respect to them.
 *
 * Without dx, the residual would not show the part of a motion to which the volume has adapted
 * already, and motions to which it adapts well, such as those that vary slowly with the angle,
 * would need hundreds of steps. Solved by a few iterations of CGLS on both unknowns, scaled so that
 * the J of each view has orthonormal columns and the norm of A is at most 1. */
#include <math.h>
#include <string.h>
#include "algo/align_step.h"

#define LEAST_PIVOT 1e-6 /* relative: below, a motion cannot be told from the others */

typedef struct {
	const tomos_op *P, *A; /* the projector; what the volume is projected from, P S */
	const Space *X, *Y;
	Space image, columns_space;
	float scale;     /* of A */
	float *columns;  /* J: [view][count][row][column] */
	double *scaling; /* W of each view, [view][MOTIONS][MOTIONS]: J W has orthonormal columns */
	int count;
	int64_t views;
} Joint;

/* ---- scaling --------------------------------------------------------------------------------- */

/* W = L^-T, where F = L L'. Columns that depend on those before become 0. */
static void scaling_of(int n, double f[MOTIONS][MOTIONS], double w[MOTIONS][MOTIONS])
{
	double inverse[MOTIONS][MOTIONS] = {{0}}, l[MOTIONS][MOTIONS] = {{0}};
	for (int j = 0; j < n; j++) {
		double pivot = f[j][j];
		for (int k = 0; k < j; k++)
			pivot -= l[j][k] * l[j][k];
		double factor = pivot > LEAST_PIVOT * f[j][j] && pivot > 0 ? 1 / sqrt(pivot) : 0;
		for (int i = j; i < n; i++) {
			double sum = f[i][j];
			for (int k = 0; k < j; k++)
				sum -= l[i][k] * l[j][k];
			l[i][j] = sum * factor;
		}
		inverse[j][j] = factor;
		for (int i = 0; i < j; i++)
			for (int k = i; k < j; k++)
				inverse[j][i] -= factor * l[j][k] * inverse[k][i];
	}
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			w[i][j] = inverse[j][i];
}

static const float *column_of(const Joint *j, int64_t view, int k)
{
	return j->columns + (view * j->count + k) * j->image.count;
}

static tomos_status scale_view(const Joint *j, int64_t view)
{
	double f[MOTIONS][MOTIONS] = {{0}};
	for (int i = 0; i < j->count; i++)
		for (int k = 0; k <= i; k++) {
			TRY(vector_dot(
				&j->image, column_of(j, view, i), column_of(j, view, k), &f[i][k]));
			f[k][i] = f[i][k];
		}
	scaling_of(j->count, f, (double(*)[MOTIONS])(j->scaling + MOTIONS * MOTIONS * view));
	return TOMOS_OK;
}

/* The largest entry of A'A 1 is a bound of the norm of A'A. */
static tomos_status scale_volume(Joint *j, float *x, float *y)
{
	double largest;
	TRY(vector_fill(j->X, 1, x));
	TRY(op_forward(j->A, x, y));
	TRY(op_adjoint(j->A, y, x));
	TRY(vector_max_abs(j->X, x, &largest));
	j->scale = largest > 0 ? (float)(1 / sqrt(largest)) : 0;
	return TOMOS_OK;
}

/* ---- the joint operator ---------------------------------------------------------------------- */

/* Multiplies by the scaling matrix of a view, which makes motions of scaled motions; transposed: it
 * makes scaled gradients of gradients. */
static void scale_motion(const Joint *j, int64_t view, bool transposed, double m[MOTIONS])
{
	const double *w = j->scaling + MOTIONS * MOTIONS * view;
	double from[MOTIONS];
	memcpy(from, m, (size_t)j->count * sizeof *m);
	for (int i = 0; i < j->count; i++) {
		m[i] = 0;
		for (int k = 0; k < j->count; k++)
			m[i] += w[transposed ? MOTIONS * k + i : MOTIONS * i + k] * from[k];
	}
}

static tomos_status joint_forward(const Joint *j, const float *x, const double *m, float *y)
{
	double motion[MOTIONS];
	TRY(op_forward(j->A, x, y));
	TRY(vector_scale(j->Y, j->scale, y));
	for (int64_t i = 0; i < j->views; i++) {
		memcpy(motion, m + j->count * i, (size_t)j->count * sizeof *m);
		scale_motion(j, i, false, motion);
		for (int k = 0; k < j->count; k++)
			TRY(vector_axpy(&j->image, (float)motion[k], column_of(j, i, k),
				y + i * j->image.count));
	}
	return TOMOS_OK;
}

/* Also the square of the result. */
static tomos_status joint_adjoint(
	const Joint *j, const float *y, float *x, double *m, double *square)
{
	TRY(op_adjoint(j->A, y, x));
	TRY(vector_scale(j->X, j->scale, x));
	TRY(vector_dot(j->X, x, x, square));
	for (int64_t i = 0; i < j->views; i++) {
		double *motion = m + j->count * i;
		for (int k = 0; k < j->count; k++)
			TRY(vector_dot(
				&j->image, column_of(j, i, k), y + i * j->image.count, &motion[k]));
		scale_motion(j, i, true, motion);
		for (int k = 0; k < j->count; k++)
			*square += motion[k] * motion[k];
	}
	return TOMOS_OK;
}

/* ---- CGLS ------------------------------------------------------------------------------------ */

typedef struct {
	float *r, *q; /* the residual, the direction's projections */
	float *s, *p; /* gradient and direction of the volume */
	double *sm, *pm;
} Vectors;

static void vectors_free(const Joint *j, Vectors *v)
{
	vector_free(v->r, j->Y);
	vector_free(v->q, j->Y);
	vector_free(v->s, j->X);
	vector_free(v->p, j->X);
	mem_free(v->sm);
	mem_free(v->pm);
}

static tomos_status vectors_new(const Joint *j, Vectors *v)
{
	TRY(vector_new(&v->r, j->Y, "the residual"));
	TRY(vector_new(&v->q, j->Y, "the direction's projections"));
	TRY(vector_new(&v->s, j->X, "the gradient"));
	TRY(vector_new(&v->p, j->X, "the direction"));
	TRY(mem_alloc(&v->sm, j->views * j->count, sizeof *v->sm, "the gradient"));
	return mem_alloc(&v->pm, j->views * j->count, sizeof *v->pm, "the direction");
}

static tomos_status joint_solve(const Joint *j, Vectors *v, int64_t iterations, float *z, double *m)
{
	int64_t n = j->views * j->count;
	double gamma, last, qq;
	TRY(joint_adjoint(j, v->r, v->s, v->sm, &gamma));
	TRY(vector_copy(j->X, v->s, v->p));
	memcpy(v->pm, v->sm, (size_t)n * sizeof *v->pm);
	for (int64_t i = 0; i < iterations && gamma > 0; i++) {
		TRY(joint_forward(j, v->p, v->pm, v->q));
		TRY(vector_dot(j->Y, v->q, v->q, &qq));
		if (!(qq > 0))
			break;
		double a = gamma / qq;
		TRY(vector_axpy(j->Y, -(float)a, v->q, v->r));
		TRY(vector_axpy(j->X, (float)a * j->scale, v->p, z));
		for (int64_t k = 0; k < n; k++)
			m[k] += a * v->pm[k];
		last = gamma;
		TRY(joint_adjoint(j, v->r, v->s, v->sm, &gamma));
		TRY(vector_xpay(j->X, v->s, (float)(gamma / last), v->p));
		for (int64_t k = 0; k < n; k++)
			v->pm[k] = v->sm[k] + gamma / last * v->pm[k];
	}
	return TOMOS_OK;
}

static tomos_status joint_open(Joint *j, const float *x, const double *directions)
{
	TRY(vector_new(&j->columns, &j->columns_space, "derivatives along motions"));
	TRY(mem_alloc(&j->scaling, j->views, MOTIONS * MOTIONS * sizeof(double), "scales"));
	TRY(op_pose_along(j->P, x, directions, j->count, j->columns));
	for (int64_t i = 0; i < j->views; i++)
		TRY(scale_view(j, i));
	return TOMOS_OK;
}

tomos_status align_step(const tomos_op *P, const tomos_op *A, const float *x, const float *residual,
	const double *directions, int count, int64_t iterations, float *z, double *steps)
{
	const int64_t *shape = A->range.shape;
	int64_t pixels = shape[1] * shape[2];
	Joint j = {.P = P,
		.A = A,
		.X = &A->domain,
		.Y = &A->range,
		.image = {A->range.backend, {1, shape[1], shape[2]}, pixels, NULL},
		.columns_space = {A->range.backend, {shape[0] * count, shape[1], shape[2]},
			shape[0] * count * pixels, NULL},
		.count = count,
		.views = shape[0]};
	Vectors v = {.r = NULL};
	tomos_status status;
	memset(steps, 0, (size_t)(count * j.views) * sizeof *steps);
	TRY_OR_DONE(joint_open(&j, x, directions));
	TRY_OR_DONE(vectors_new(&j, &v));
	TRY_OR_DONE(scale_volume(&j, v.s, v.q));
	TRY_OR_DONE(vector_copy(j.Y, residual, v.r));
	TRY_OR_DONE(joint_solve(&j, &v, iterations, z, steps));
	for (int64_t i = 0; i < j.views; i++)
		scale_motion(&j, i, false, steps + count * i);
done:
	vectors_free(&j, &v);
	vector_free(j.columns, &j.columns_space);
	mem_free(j.scaling);
	return status;
}
