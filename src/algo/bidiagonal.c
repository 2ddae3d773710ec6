/* Golub-Kahan bidiagonalisation.
 *
 * G. Golub and W. Kahan 1965; C. C. Paige and M. A. Saunders, "LSQR", ACM Trans. Math. Softw. 8
 * (1982).
 */
#include "algo/bidiagonal.h"
#include <math.h>

/* x / ||x||, and the norm. */
static tomos_status normalise(const Space *space, float *x, double *norm)
{
	TRY(vector_norm(space, x, norm));
	return *norm > 0 ? vector_scale(space, (float)(1 / *norm), x) : TOMOS_OK;
}

tomos_status bidiagonal_begin(Iteration *it, Bidiagonal *b)
{
	TRY(iteration_state(it, &b->u, it->Y, "left vectors"));
	TRY(iteration_state(it, &b->v, it->X, "right vectors"));
	TRY(iteration_vector(it, &b->Av, it->Y, "left vectors"));
	TRY(iteration_vector(it, &b->Atu, it->X, "right vectors"));
	iteration_scalar(it, &b->alpha);
	iteration_scalar(it, &b->beta);
	TRY(iteration_first_residual(it, NULL, b->u, NULL));
	TRY(normalise(it->Y, b->u, &b->beta));
	TRY(op_adjoint(it->A, b->u, b->v));
	return normalise(it->X, b->v, &b->alpha);
}

tomos_status bidiagonal_next(const Iteration *it, Bidiagonal *b)
{
	TRY(op_forward(it->A, b->v, b->Av));
	TRY(vector_xpay(it->Y, b->Av, -(float)b->alpha, b->u));
	TRY(normalise(it->Y, b->u, &b->beta));
	TRY(op_adjoint(it->A, b->u, b->Atu));
	TRY(vector_xpay(it->X, b->Atu, -(float)b->beta, b->v));
	return normalise(it->X, b->v, &b->alpha);
}

void bidiagonal_turn(double a, double b, double *c, double *s, double *r)
{
	*r = hypot(a, b);
	*c = *r > 0 ? a / *r : 1;
	*s = *r > 0 ? b / *r : 0;
}

tomos_status bidiagonal_residual(
	const Iteration *it, const float *start, double with_penalty, double *norm)
{
	double way = 0;
	if (it->o->strength > 0)
		TRY(vector_distance(it->X, it->x, start, &way));
	*norm = sqrt(fmax(with_penalty * with_penalty - it->o->strength * way * way, 0));
	return TOMOS_OK;
}
