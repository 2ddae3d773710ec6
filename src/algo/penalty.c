/* Proximal steps of Tikhonov's, the L1, the total variation and the Huber penalty.
 *
 * A. Beck and M. Teboulle, "Fast gradient-based algorithms for constrained total variation image
 * denoising and deblurring problems", IEEE Trans. Image Process. 18 (2009). The dual of the Huber
 * penalty is that of the total variation with a square added, so it takes one more scaling.
 */
#include "algo/penalty.h"
#include <math.h>

PenaltyKind penalty_kind(const Run *run)
{
	return run->o->strength == 0 ? PENALTY_NONE
				     : (PenaltyKind)choice_index(
					       "none|tikhonov|l1|tv|huber", run->o->regulariser);
}

bool penalty_of_gradient(PenaltyKind kind)
{
	return kind == PENALTY_TV || kind == PENALTY_HUBER;
}

double gradient_bound(const Run *run)
{
	return 4.0 * gradient_parts(run->X);
}

tomos_status penalty_simple(const Run *run, double a, float *y)
{
	PenaltyKind kind = penalty_kind(run);
	if (kind == PENALTY_TIKHONOV)
		TRY(vector_scale(run->X, (float)(1 / (1 + a)), y));
	if (kind == PENALTY_L1)
		TRY(vector_soft(run->X, (float)a, y));
	return run_bound(run, y);
}

tomos_status denoiser_make(Run *run, Denoiser *d)
{
	TRY(run_gradient(run, &d->gradient));
	TRY(run_state(run, &d->p, &run->field, "the dual field"));
	TRY(run_vector(run, &d->q, &run->field, "the dual field"));
	TRY(run_vector(run, &d->g, &run->field, "the gradient"));
	TRY(run_vector(run, &d->u, run->X, "the smoothed volume"));
	return vector_fill(&run->field, 0, d->p);
}

/* u = P(y - a gradient' p) */
static tomos_status primal(
	const Run *run, const Denoiser *d, double a, const float *p, const float *y)
{
	TRY(op_adjoint(d->gradient, p, d->u));
	TRY(vector_xpay(run->X, y, -(float)a, d->u));
	return run_bound(run, d->u);
}

tomos_status denoise(const Run *run, const Denoiser *d, double a, float *y)
{
	const Space *F = &run->field;
	double step = 1 / (gradient_bound(run) * a), t = 1;
	bool huber = penalty_kind(run) == PENALTY_HUBER;
	TRY(vector_copy(F, d->p, d->q));
	for (int64_t k = 0; k < run->o->inner; k++) {
		double next = 0.5 * (1 + sqrt(1 + 4 * t * t));
		TRY(primal(run, d, a, d->q, y));
		TRY(op_forward(d->gradient, d->u, d->g));
		TRY(vector_axpy(F, (float)step, d->g, d->q)); /* q += step gradient u */
		if (huber)
			TRY(vector_scale(F, (float)(1 / (1 + run->o->huber * step)), d->q));
		TRY(vector_shorten(run->X, gradient_parts(run->X), 1, d->q));
		TRY(vector_copy(F, d->q, d->g)); /* the new p */
		TRY(vector_xpay(F, d->q, -1, d->p));
		TRY(vector_axpy(F, (float)((t - 1) / next), d->p, d->q));
		TRY(vector_copy(F, d->g, d->p));
		t = next;
	}
	TRY(primal(run, d, a, d->p, y));
	return vector_copy(run->X, d->u, y);
}
