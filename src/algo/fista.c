/* FISTA: accelerated proximal gradients for 1/2 ||A x - b||^2 + alpha R(x) inside bounds.
 *
 * A. Beck and M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
 * problems", SIAM J. Imaging Sci. 2 (2009). The residual where the momentum leads, A (x + m (x -
 * old)) - b, comes from those of x and old, so there is one projection each way in an iteration.
 * The step, 1 / L with L >= ||A||^2, holds as long as ||A (x - y)||^2 <= L ||x - y||^2, which every
 * iteration checks.
 */
#include <math.h>
#include "algo/penalty.h"

#define NOTABLE 1e-3 /* relative to the norm of the data */
#define MARGIN 1.02

typedef struct {
	float *old, *y;       /* the previous volume; the volume with momentum */
	float *Ax, *Aold, *r; /* their projections; scratch */
	double step, t;
	Denoiser denoiser;
} Fista;

static tomos_status prepare(Iteration *it, Fista *f)
{
	double norm;
	f->t = 1;
	iteration_scalar(it, &f->t);
	TRY(iteration_state(it, &f->old, it->X, "the volume before"));
	TRY(iteration_vector(it, &f->y, it->X, "the volume with momentum"));
	TRY(iteration_vector(it, &f->Ax, it->Y, "projections"));
	TRY(iteration_vector(it, &f->Aold, it->Y, "projections"));
	TRY(iteration_vector(it, &f->r, it->Y, "the residual"));
	if (penalty_of_gradient(penalty_kind(it)))
		TRY(denoiser_make(it, &f->denoiser));
	TRY(iteration_norm(it, &(NormVectors){{f->old, f->y}, {f->Ax, f->Aold}}, &norm));
	f->step = norm > 0 ? 1 / (norm * norm) : 0;
	iteration_scalar(it, &f->step);
	TRY(iteration_bound(it, it->x));
	return vector_copy(it->X, it->x, f->old);
}

/* to = now + m (now - old) */
static tomos_status carry_on(
	const Space *space, const float *now, const float *old, double m, float *to)
{
	TRY(vector_copy(space, old, to));
	TRY(vector_xpay(space, now, -1, to));
	return vector_xpay(space, now, (float)m, to);
}

/* If a step was too long, because the norm (an estimate, or the user's) is too small, the next ones
 * are shorter. Small steps are ignored: their projections are mostly rounding error. */
static tomos_status check_step(const Iteration *it, Fista *f)
{
	double way, seen;
	TRY(vector_axpy(it->Y, 1, f->Ax, f->r)); /* r was b - A y, and is A (x - y) now */
	TRY(vector_axpy(it->Y, -1, it->b, f->r));
	TRY(vector_norm(it->Y, f->r, &seen));
	if (!(seen > NOTABLE * it->b_norm))
		return TOMOS_OK;
	TRY(vector_distance(it->X, it->x, f->y, &way));
	if (f->step * seen * seen > way * way)
		f->step = way * way / (seen * seen * MARGIN);
	return TOMOS_OK;
}

static tomos_status iterate(Iteration *it, Fista *f)
{
	double t = 0.5 * (1 + sqrt(1 + 4 * f->t * f->t)), m = (f->t - 1) / t;
	double a = f->step * it->o->strength;
	f->t = t;
	TRY(carry_on(it->X, it->x, f->old, m, f->y));
	TRY(carry_on(it->Y, f->Ax, f->Aold, m, f->r));
	TRY(vector_xpay(it->Y, it->b, -1, f->r)); /* r = b - A y */
	TRY(iteration_keep(it, f->old));
	TRY(vector_copy(it->Y, f->Ax, f->Aold));
	TRY(op_adjoint(it->A, f->r, it->x));
	TRY(vector_xpay(it->X, f->y, (float)f->step, it->x)); /* x = y + step A'r */
	if (f->denoiser.gradient)
		TRY(denoise(it, &f->denoiser, a, it->x));
	else
		TRY(penalty_simple(it, a, it->x));
	TRY(op_forward(it->A, it->x, f->Ax));
	TRY(check_step(it, f));
	TRY(vector_copy(it->Y, f->Ax, f->r));
	return vector_xpay(it->Y, it->b, -1, f->r);
}

tomos_status fista_method(Iteration *it)
{
	Fista f = {.t = 1};
	TRY(prepare(it, &f));
	TRY(iteration_start(it));
	TRY(op_forward(it->A, it->x, f.Ax));
	TRY(op_forward(it->A, f.old, f.Aold));
	while (it->going) {
		TRY(iterate(it, &f));
		TRY(iteration_iterated(it, f.r));
	}
	return TOMOS_OK;
}
