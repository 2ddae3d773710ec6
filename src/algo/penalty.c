/* Proximal steps of Tikhonov's, the L1, the total variation and the Huber penalty.
 *
 * A. Beck and M. Teboulle, "Fast gradient-based algorithms for constrained total variation image
 * denoising and deblurring problems", IEEE Trans. Image Process. 18 (2009). The dual of the Huber
 * penalty is that of the total variation with a square added, so it takes one more scaling.
 */
#include "algo/penalty.h"
#include <math.h>

PenaltyKind penalty_kind(const Iteration *it)
{
	return it->o->strength == 0
		       ? PENALTY_NONE
		       : (PenaltyKind)choice_index("none|tikhonov|l1|tv|huber", it->o->regulariser);
}

bool penalty_of_gradient(PenaltyKind kind)
{
	return kind == PENALTY_TV || kind == PENALTY_HUBER;
}

double gradient_bound(const Iteration *it)
{
	return 4.0 * gradient_parts(it);
}

tomos_status penalty_simple(const Iteration *it, double a, float *y)
{
	PenaltyKind kind = penalty_kind(it);
	if (kind == PENALTY_TIKHONOV)
		TRY(vector_scale(it->X, (float)(1 / (1 + a)), y));
	if (kind == PENALTY_L1)
		TRY(vector_soft_threshold(it->X, (float)a, y));
	return iteration_bound(it, y);
}

tomos_status denoiser_make(Iteration *it, Denoiser *d)
{
	TRY(iteration_gradient(it, &d->gradient));
	TRY(iteration_state(it, &d->p, &it->field, "the dual field"));
	TRY(iteration_vector(it, &d->q, &it->field, "the dual field"));
	TRY(iteration_vector(it, &d->g, &it->field, "the gradient"));
	TRY(iteration_vector(it, &d->u, it->X, "the smoothed volume"));
	return vector_fill(&it->field, 0, d->p);
}

/* u = P(y - a gradient' p) */
static tomos_status primal(
	const Iteration *it, const Denoiser *d, double a, const float *p, const float *y)
{
	TRY(op_adjoint(d->gradient, p, d->u));
	TRY(vector_xpay(it->X, y, -(float)a, d->u));
	return iteration_bound(it, d->u);
}

tomos_status denoise(const Iteration *it, const Denoiser *d, double a, float *y)
{
	const Space *F = &it->field;
	double step = 1 / (gradient_bound(it) * a), t = 1;
	bool huber = penalty_kind(it) == PENALTY_HUBER;
	TRY(vector_copy(F, d->p, d->q));
	for (int64_t k = 0; k < it->o->inner; k++) {
		double next = 0.5 * (1 + sqrt(1 + 4 * t * t));
		TRY(primal(it, d, a, d->q, y));
		TRY(op_forward(d->gradient, d->u, d->g));
		TRY(vector_axpy(F, (float)step, d->g, d->q)); /* q += step gradient u */
		if (huber)
			TRY(vector_scale(F, (float)(1 / (1 + it->o->huber * step)), d->q));
		TRY(vector_clip_norm(it->X, gradient_parts(it), 1, d->q));
		TRY(vector_copy(F, d->q, d->g)); /* the new p */
		TRY(vector_xpay(F, d->q, -1, d->p));
		TRY(vector_axpy(F, (float)((t - 1) / next), d->p, d->q));
		TRY(vector_copy(F, d->g, d->p));
		t = next;
	}
	TRY(primal(it, d, a, d->p, y));
	return vector_copy(it->X, d->u, y);
}
