/* FISTA: accelerated proximal gradients for 1/2 ||A x - b||^2 + alpha R(x) inside bounds.
 *
 * A. Beck and M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse
 * problems", SIAM J. Imaging Sci. 2 (2009). The residual where the momentum leads, A (x + m (x - old)) -
 * b, comes from those of x and old, so there is one projection each way in an iteration. The step, 1 / L with
 * L >= ||A||^2, holds as long as ||A (x - y)||^2 <= L ||x - y||^2, which every iteration checks.
 */
#include <math.h>
#include "algo/penalty.h"

#define NOTABLE 1e-3 /* of the data */
#define MARGIN 1.02

typedef struct {
	float *old, *y;       /* the volume before; with momentum */
	float *Ax, *Aold, *r; /* their projections; scratch */
	double step, t;
	Denoiser denoiser;
} Fista;

static tomos_status prepare(Run *run, Fista *f)
{
	double norm;
	f->t = 1;
	run_scalar(run, &f->t);
	TRY(run_state(run, &f->old, run->X, "the volume before"));
	TRY(run_vector(run, &f->y, run->X, "the volume with momentum"));
	TRY(run_vector(run, &f->Ax, run->Y, "projections"));
	TRY(run_vector(run, &f->Aold, run->Y, "projections"));
	TRY(run_vector(run, &f->r, run->Y, "the residual"));
	if (penalty_of_gradient(penalty_kind(run)))
		TRY(denoiser_make(run, &f->denoiser));
	TRY(run_norm(run, &(NormRoom){{f->old, f->y}, {f->Ax, f->Aold}}, &norm));
	f->step = norm > 0 ? 1 / (norm * norm) : 0;
	run_scalar(run, &f->step);
	TRY(run_bound(run, run->x));
	return vector_copy(run->X, run->x, f->old);
}

/* to = now + m (now - old) */
static tomos_status carry_on(
	const Space *space, const float *now, const float *old, double m, float *to)
{
	TRY(vector_copy(space, old, to));
	TRY(vector_xpay(space, now, -1, to));
	return vector_xpay(space, now, (float)m, to);
}

/* A step that was too long for the norm, which is an estimate or the user's, shortens the next ones. Of
 * small steps the projections are rounding error, and tell nothing. */
static tomos_status check_step(const Run *run, Fista *f)
{
	double way, seen;
	TRY(vector_axpy(run->Y, 1, f->Ax, f->r)); /* r was b - A y, and is A (x - y) now */
	TRY(vector_axpy(run->Y, -1, run->b, f->r));
	TRY(vector_norm(run->Y, f->r, &seen));
	if (!(seen > NOTABLE * run->b_norm))
		return TOMOS_OK;
	TRY(vector_distance(run->X, run->x, f->y, &way));
	if (f->step * seen * seen > way * way)
		f->step = way * way / (seen * seen * MARGIN);
	return TOMOS_OK;
}

static tomos_status iterate(Run *run, Fista *f)
{
	double t = 0.5 * (1 + sqrt(1 + 4 * f->t * f->t)), m = (f->t - 1) / t;
	double a = f->step * run->o->strength;
	f->t = t;
	TRY(carry_on(run->X, run->x, f->old, m, f->y));
	TRY(carry_on(run->Y, f->Ax, f->Aold, m, f->r));
	TRY(vector_xpay(run->Y, run->b, -1, f->r)); /* r = b - A y */
	TRY(run_keep(run, f->old));
	TRY(vector_copy(run->Y, f->Ax, f->Aold));
	TRY(op_adjoint(run->A, f->r, run->x));
	TRY(vector_xpay(run->X, f->y, (float)f->step, run->x)); /* x = y + step A'r */
	if (f->denoiser.gradient)
		TRY(denoise(run, &f->denoiser, a, run->x));
	else
		TRY(penalty_simple(run, a, run->x));
	TRY(op_forward(run->A, run->x, f->Ax));
	TRY(check_step(run, f));
	TRY(vector_copy(run->Y, f->Ax, f->r));
	return vector_xpay(run->Y, run->b, -1, f->r);
}

tomos_status fista_method(Run *run)
{
	Fista f = {.t = 1};
	TRY(prepare(run, &f));
	TRY(run_start(run));
	TRY(op_forward(run->A, run->x, f.Ax));
	TRY(op_forward(run->A, f.old, f.Aold));
	while (run->going) {
		TRY(iterate(run, &f));
		TRY(run_iterated(run, f.r));
	}
	return TOMOS_OK;
}
