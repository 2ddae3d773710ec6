/* LSMR: like LSQR, but MINRES on the normal equations, so that ||A'r|| falls in every step.
 *
 * D. C.-L. Fong and M. A. Saunders, "LSMR: an iterative algorithm for sparse least-squares
 * problems", SIAM J. Sci. Comput. 33 (2011); the names are theirs.
 */
#include <math.h>
#include <string.h>
#include "algo/bidiagonal.h"

typedef struct {
	double alpha_bar, zeta_bar, zeta, rho, rho_bar, c_bar, s_bar;
	/* For the norm of the residual. */
	double beta_dd, beta_d, rho_d, theta_tilde, tau_tilde, d;
} Lsmr;
enum { LSMR_NUMBERS = sizeof(Lsmr) / sizeof(double) };

/* Section 5.1: the norm from two more rotations. */
static double residual_norm(
	Lsmr *l, double c, double s, double c_hat, double s_hat, double theta_bar, double zeta_old)
{
	double beta_acute = c_hat * l->beta_dd, beta_check = -s_hat * l->beta_dd;
	double beta_hat = c * beta_acute, c_tilde, s_tilde, rho_tilde;
	l->beta_dd = -s * beta_acute;
	bidiagonal_turn(l->rho_d, theta_bar, &c_tilde, &s_tilde, &rho_tilde);
	double theta_old = l->theta_tilde;
	l->theta_tilde = s_tilde * l->rho_bar;
	l->rho_d = c_tilde * l->rho_bar;
	l->beta_d = -s_tilde * l->beta_d + c_tilde * beta_hat;
	l->tau_tilde = (zeta_old - theta_old * l->tau_tilde) / rho_tilde;
	double tau_d = (l->zeta - l->theta_tilde * l->tau_tilde) / l->rho_d;
	l->d += beta_check * beta_check;
	return sqrt(l->d + (l->beta_d - tau_d) * (l->beta_d - tau_d) + l->beta_dd * l->beta_dd);
}

static tomos_status step(
	Iteration *it, Lsmr *l, Bidiagonal *b, float *h, float *h_bar, double *norm)
{
	double c_hat, s_hat, alpha_hat, c, s, rho_old = l->rho, rho_bar_old = l->rho_bar;
	double zeta_old = l->zeta;
	TRY(bidiagonal_next(it, b));
	bidiagonal_turn(l->alpha_bar, sqrt(it->o->strength), &c_hat, &s_hat, &alpha_hat);
	bidiagonal_turn(alpha_hat, b->beta, &c, &s, &l->rho);
	double theta_new = s * b->alpha, theta_bar = l->s_bar * l->rho;
	l->alpha_bar = c * b->alpha;
	bidiagonal_turn(l->c_bar * l->rho, theta_new, &l->c_bar, &l->s_bar, &l->rho_bar);
	l->zeta = l->c_bar * l->zeta_bar;
	l->zeta_bar *= -l->s_bar;
	TRY(vector_xpay(it->X, h, -(float)(theta_bar * l->rho / (rho_old * rho_bar_old)), h_bar));
	if (stop_needs_residual(it))
		TRY(iteration_keep(it, NULL));
	TRY(vector_axpy(it->X, (float)(l->zeta / (l->rho * l->rho_bar)), h_bar, it->x));
	TRY(vector_xpay(it->X, b->v, -(float)(theta_new / l->rho), h));
	*norm = residual_norm(l, c, s, c_hat, s_hat, theta_bar, zeta_old);
	return TOMOS_OK;
}

tomos_status lsmr_method(Iteration *it)
{
	Bidiagonal b;
	Lsmr l = {.rho = 1, .rho_bar = 1, .c_bar = 1, .rho_d = 1};
	double saved[LSMR_NUMBERS], norm;
	float *h, *h_bar, *start;
	TRY(bidiagonal_begin(it, &b));
	TRY(iteration_state(it, &h, it->X, "the direction"));
	TRY(iteration_state(it, &h_bar, it->X, "the direction before"));
	TRY(iteration_state(it, &start, it->X, "the start"));
	for (int i = 0; i < LSMR_NUMBERS; i++)
		iteration_scalar(it, &saved[i]);
	l.alpha_bar = b.alpha;
	l.zeta_bar = b.alpha * b.beta;
	l.beta_dd = b.beta;
	memcpy(saved, &l, sizeof saved);
	TRY(vector_copy(it->X, b.v, h));
	TRY(vector_fill(it->X, 0, h_bar));
	TRY(vector_copy(it->X, it->x, start));
	TRY(iteration_start(it));
	memcpy(&l, saved, sizeof saved);
	while (it->going && b.alpha > 0) {
		TRY(step(it, &l, &b, h, h_bar, &norm));
		memcpy(saved, &l, sizeof saved);
		TRY(bidiagonal_residual(it, start, norm, &norm));
		TRY(iteration_iterated_norm(it, norm));
	}
	return TOMOS_OK;
}
