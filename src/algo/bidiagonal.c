/* Golub-Kahan bidiagonalisation.
 *
 * G. Golub and W. Kahan 1965; C. C. Paige and M. A. Saunders, "LSQR", ACM Trans. Math. Softw. 8 (1982).
 */
#include "algo/bidiagonal.h"
#include <math.h>

/* x / ||x||, and the norm. */
static tomos_status normalise(const Space *space, float *x, double *norm)
{
	TRY(vector_norm(space, x, norm));
	return *norm > 0 ? vector_scale(space, (float)(1 / *norm), x) : TOMOS_OK;
}

tomos_status bidiagonal_begin(Run *run, Bidiagonal *b)
{
	TRY(run_state(run, &b->u, run->Y, "left vectors"));
	TRY(run_state(run, &b->v, run->X, "right vectors"));
	TRY(run_vector(run, &b->Av, run->Y, "left vectors"));
	TRY(run_vector(run, &b->Atu, run->X, "right vectors"));
	run_scalar(run, &b->alpha);
	run_scalar(run, &b->beta);
	TRY(run_residual(run, b->u));
	TRY(normalise(run->Y, b->u, &b->beta));
	TRY(op_adjoint(run->A, b->u, b->v));
	return normalise(run->X, b->v, &b->alpha);
}

tomos_status bidiagonal_next(const Run *run, Bidiagonal *b)
{
	TRY(op_forward(run->A, b->v, b->Av));
	TRY(vector_xpay(run->Y, b->Av, -(float)b->alpha, b->u));
	TRY(normalise(run->Y, b->u, &b->beta));
	TRY(op_adjoint(run->A, b->u, b->Atu));
	TRY(vector_xpay(run->X, b->Atu, -(float)b->beta, b->v));
	return normalise(run->X, b->v, &b->alpha);
}

void bidiagonal_turn(double a, double b, double *c, double *s, double *r)
{
	*r = hypot(a, b);
	*c = *r > 0 ? a / *r : 1;
	*s = *r > 0 ? b / *r : 0;
}

tomos_status bidiagonal_residual(
	const Run *run, const float *start, double with_penalty, double *norm)
{
	double way = 0;
	if (run->o->strength > 0)
		TRY(vector_distance(run->X, run->x, start, &way));
	*norm = sqrt(fmax(with_penalty * with_penalty - run->o->strength * way * way, 0));
	return TOMOS_OK;
}
