/* Golub-Kahan bidiagonalisation of A, started by b - A x: used by LSQR and LSMR. */
#ifndef TOMOS_ALGO_BIDIAGONAL_H
#define TOMOS_ALGO_BIDIAGONAL_H

#include "algo/iteration.h"

typedef struct {
	float *u, *v, *Av, *Atu;
	double alpha, beta;
} Bidiagonal;

/* beta u = b - A x, alpha v = A'u; both are part of the run's state. */
tomos_status bidiagonal_begin(Iteration *it, Bidiagonal *b);
/* beta u = A v - alpha u, alpha v = A'u - beta v, with new alpha and beta. */
tomos_status bidiagonal_next(const Iteration *it, Bidiagonal *b);
/* c, s and r with (c, s)(a, b)' = r, c^2 + s^2 = 1. */
void bidiagonal_turn(double a, double b, double *c, double *s, double *r);
/* ||b - A x||, from the norm that includes the penalty. */
tomos_status bidiagonal_residual(
	const Iteration *it, const float *start, double with_penalty, double *norm);

#endif
