/* LSQR: the iterates of CGLS by bidiagonalisation.
 *
 * C. C. Paige and M. A. Saunders, "LSQR: an algorithm for sparse linear equations and sparse least
 * squares", ACM Trans. Math. Softw. 8 (1982), with their damping: alpha/2 ||x - start||^2.
 */
#include <math.h>
#include "algo/bidiagonal.h"

tomos_status lsqr_method(Run *run)
{
	Bidiagonal b;
	float *w, *start;
	double damp = sqrt(run->o->strength), rho_bar, phi_bar, psi = 0, norm;
	double c, s, rho, c1, s1, rho1;
	TRY(bidiagonal_begin(run, &b));
	TRY(run_state(run, &w, run->X, "the direction"));
	TRY(run_state(run, &start, run->X, "the start"));
	run_scalar(run, &rho_bar);
	run_scalar(run, &phi_bar);
	run_scalar(run, &psi);
	rho_bar = b.alpha;
	phi_bar = b.beta;
	TRY(vector_copy(run->X, b.v, w));
	TRY(vector_copy(run->X, run->x, start));
	TRY(run_start(run));
	while (run->going && b.alpha > 0) {
		TRY(bidiagonal_next(run, &b));
		bidiagonal_turn(rho_bar, damp, &c1, &s1, &rho1); /* the damping's row */
		psi = hypot(psi, s1 * phi_bar);
		phi_bar *= c1;
		bidiagonal_turn(rho1, b.beta, &c, &s, &rho); /* the new row */
		double theta = s * b.alpha, phi = c * phi_bar;
		rho_bar = -c * b.alpha;
		phi_bar = s * phi_bar;
		if (stop_needs_residual(run))
			TRY(run_keep(run, NULL));
		TRY(vector_axpy(run->X, (float)(phi / rho), w, run->x));
		TRY(vector_xpay(run->X, b.v, -(float)(theta / rho), w));
		TRY(bidiagonal_residual(run, start, hypot(phi_bar, psi), &norm));
		TRY(run_iterated_norm(run, norm));
	}
	return TOMOS_OK;
}
