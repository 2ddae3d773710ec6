/* CGLS: conjugate gradients on the normal equations, with Tikhonov's penalty.
 *
 * M. R. Hestenes and E. Stiefel 1952; Å. Björck, "Numerical methods for least squares problems", 7.4.
 * Minimises 1/2 ||A x - b||^2 + alpha/2 ||x - start||^2; d is x - start.
 */
#include "algo/run.h"

#define ROUNDING 1e-12 /* below this part of the first gradient's square there is but rounding */

/* s = A'r - alpha d, and its square. */
static tomos_status gradient(
	const Run *run, const float *r, const float *d, float *s, double *square)
{
	TRY(op_adjoint(run->A, r, s));
	TRY(vector_axpy(run->X, -(float)run->o->strength, d, s));
	return vector_dot(run->X, s, s, square);
}

tomos_status cgls_method(Run *run)
{
	const Space *X = run->X, *Y = run->Y;
	float *r, *q, *s, *p, *d;
	double gamma, first, last, qq, pp;
	TRY(run_state(run, &r, Y, "the residual"));
	TRY(run_vector(run, &q, Y, "the direction's projections"));
	TRY(run_vector(run, &s, X, "the gradient"));
	TRY(run_state(run, &p, X, "the direction"));
	TRY(run_state(run, &d, X, "the way from the start"));
	run_scalar(run, &gamma);
	run_scalar(run, &first);
	TRY(run_residual(run, r));
	TRY(vector_fill(X, 0, d));
	TRY(gradient(run, r, d, s, &gamma));
	TRY(vector_copy(X, s, p));
	first = gamma;
	TRY(run_start(run));
	while (run->going && gamma > ROUNDING * first) {
		TRY(op_forward(run->A, p, q)); /* q = A p */
		TRY(vector_dot(Y, q, q, &qq));
		TRY(vector_dot(X, p, p, &pp));
		float a = (float)(gamma / (qq + run->o->strength * pp));
		TRY(vector_axpy(X, a, p, d));
		TRY(vector_axpy(Y, -a, q, r)); /* r -= a q */
		last = gamma;
		TRY(gradient(run, r, d, s, &gamma));
		TRY(vector_axpy(X, a, p, run->x)); /* x += a p, now that nothing can be cancelled */
		TRY(vector_xpay(X, s, (float)(gamma / last), p)); /* p = s + beta p */
		TRY(run_iterated(run, r));
	}
	return TOMOS_OK;
}
