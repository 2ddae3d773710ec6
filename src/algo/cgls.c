/* CGLS: conjugate gradients on the normal equations, with Tikhonov's penalty.
 *
 * M. R. Hestenes and E. Stiefel 1952; Å. Björck, "Numerical methods for least squares problems",
 * 7.4. Minimises 1/2 ||A x - b||^2 + alpha/2 ||x - start||^2; d is x - start, if alpha is not 0.
 */
#include <math.h>
#include "algo/iteration.h"

#define ROUNDING 1e-12 /* relative to the first gradient's square: less is rounding error */

enum { KEPT = 4 };

/* The first gradients, of length 1. Gradients are orthogonal to each other, but rounding brings the
 * directions of the largest singular values back after some ten iterations, and would then decide
 * the result. These directions are found first. */
typedef struct {
	float *list[KEPT];
	double count;
} Kept;

static tomos_status kept_new(Iteration *it, Kept *kept)
{
	kept->count = 0;
	iteration_scalar(it, &kept->count);
	for (int i = 0; i < KEPT; i++) {
		TRY(iteration_state(it, &kept->list[i], it->X, "an early gradient"));
		TRY(vector_fill(it->X, 0, kept->list[i]));
	}
	return TOMOS_OK;
}

static tomos_status keep(const Iteration *it, Kept *kept, const float *s, double square)
{
	int at = (int)kept->count;
	if (at == KEPT || !(square > 0))
		return TOMOS_OK;
	kept->count++;
	return vector_axpy(it->X, (float)(1 / sqrt(square)), s, kept->list[at]);
}

/* s = A'r - alpha d, and its square. */
static tomos_status gradient(
	const Iteration *it, const float *r, const float *d, Kept *kept, float *s, double *square)
{
	TRY(op_adjoint(it->A, r, s));
	if (it->o->strength != 0)
		TRY(vector_axpy(it->X, -(float)it->o->strength, d, s));
	TRY(vector_remove(it->X, (int)kept->count, (const float *const *)kept->list, s));
	TRY(vector_dot(it->X, s, s, square));
	return keep(it, kept, s, *square);
}

tomos_status cgls_method(Iteration *it)
{
	const Space *X = it->X, *Y = it->Y;
	float *r, *q, *s, *p, *d = NULL;
	double gamma, first, last, qq, pp = 0;
	Kept kept;
	TRY(iteration_state(it, &r, Y, "the residual"));
	TRY(iteration_vector(it, &q, Y, "the direction's projections"));
	TRY(iteration_vector(it, &s, X, "the gradient"));
	TRY(iteration_state(it, &p, X, "the direction"));
	if (it->o->strength != 0)
		TRY(iteration_state(it, &d, X, "the way from the start"));
	iteration_scalar(it, &gamma);
	iteration_scalar(it, &first);
	TRY(kept_new(it, &kept));
	TRY(iteration_first_residual(it, NULL, r, NULL));
	if (d)
		TRY(vector_fill(X, 0, d));
	TRY(gradient(it, r, d, &kept, s, &gamma));
	TRY(vector_copy(X, s, p));
	first = gamma;
	TRY(iteration_start(it));
	while (it->going && gamma > ROUNDING * first) {
		TRY(op_forward(it->A, p, q)); /* q = A p */
		TRY(vector_dot(Y, q, q, &qq));
		if (it->o->strength != 0)
			TRY(vector_dot(X, p, p, &pp));
		float a = (float)(gamma / (qq + it->o->strength * pp));
		if (it->o->strength != 0)
			TRY(vector_axpy(X, a, p, d));
		TRY(vector_axpy(Y, -a, q, r)); /* r -= a q */
		last = gamma;
		TRY(gradient(it, r, d, &kept, s, &gamma));
		TRY(vector_axpy(X, a, p, it->x)); /* x += a p, now that nothing can be cancelled */
		TRY(vector_xpay(X, s, (float)(gamma / last), p)); /* p = s + beta p */
		TRY(iteration_iterated(it, r));
	}
	return TOMOS_OK;
}
