/* The penalties R(x) of fista and pdhg. */
#ifndef TOMOS_ALGO_PENALTY_H
#define TOMOS_ALGO_PENALTY_H

#include "algo/iteration.h"

typedef enum { PENALTY_NONE, PENALTY_TIKHONOV, PENALTY_L1, PENALTY_TV, PENALTY_HUBER } PenaltyKind;

PenaltyKind penalty_kind(const Iteration *it);
bool penalty_of_gradient(PenaltyKind kind);
/* y = argmin 1/2 ||x - y||^2 + a R(x) inside the bounds, for penalties of x itself. */
tomos_status penalty_simple(const Iteration *it, double a, float *y);

/* The same for penalties of the gradient, with a dual field that is kept between calls. */
typedef struct {
	const tomos_op *gradient;
	float *p, *q, *g, *u; /* dual field, the same with momentum, a gradient, a volume */
} Denoiser;

tomos_status denoiser_make(Iteration *it, Denoiser *d);
tomos_status denoise(const Iteration *it, const Denoiser *d, double a, float *y);
/* The largest eigenvalue of the gradient's adjoint times the gradient is below this. */
double gradient_bound(const Iteration *it);

#endif
