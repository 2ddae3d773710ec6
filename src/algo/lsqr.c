/* LSQR: the iterates of CGLS by bidiagonalisation.
 *
 * C. C. Paige and M. A. Saunders, "LSQR: an algorithm for sparse linear equations and sparse least
 * squares", ACM Trans. Math. Softw. 8 (1982), with their damping: alpha/2 ||x - start||^2.
 */
#include <math.h>
#include "algo/bidiagonal.h"

tomos_status lsqr_method(Iteration *it)
{
	Bidiagonal b;
	float *w, *start;
	double damp = sqrt(it->o->strength), rho_bar, phi_bar, psi = 0, norm;
	double c, s, rho, c1, s1, rho1;
	TRY(bidiagonal_begin(it, &b));
	TRY(iteration_state(it, &w, it->X, "the direction"));
	TRY(iteration_state(it, &start, it->X, "the start"));
	iteration_scalar(it, &rho_bar);
	iteration_scalar(it, &phi_bar);
	iteration_scalar(it, &psi);
	rho_bar = b.alpha;
	phi_bar = b.beta;
	TRY(vector_copy(it->X, b.v, w));
	TRY(vector_copy(it->X, it->x, start));
	TRY(iteration_start(it));
	while (it->going && b.alpha > 0) {
		TRY(bidiagonal_next(it, &b));
		bidiagonal_turn(rho_bar, damp, &c1, &s1, &rho1); /* the damping's row */
		psi = hypot(psi, s1 * phi_bar);
		phi_bar *= c1;
		bidiagonal_turn(rho1, b.beta, &c, &s, &rho); /* the new row */
		double theta = s * b.alpha, phi = c * phi_bar;
		rho_bar = -c * b.alpha;
		phi_bar = s * phi_bar;
		if (stop_needs_residual(it))
			TRY(iteration_keep(it, NULL));
		TRY(vector_axpy(it->X, (float)(phi / rho), w, it->x));
		TRY(vector_xpay(it->X, b.v, -(float)(theta / rho), w));
		TRY(bidiagonal_residual(it, start, hypot(phi_bar, psi), &norm));
		TRY(iteration_iterated_norm(it, norm));
	}
	return TOMOS_OK;
}
