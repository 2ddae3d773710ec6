/* Primal-dual hybrid gradients for 1/2 ||A x - b||^2 + alpha R(x) inside bounds.
 *
 * A. Chambolle and T. Pock, "A first-order primal-dual algorithm for convex problems with
 * applications to imaging", J. Math. Imaging Vis. 40 (2011); E. Y. Sidky, J. H. Jørgensen, X. Pan
 * 2012. The gradient is scaled by nu to the norm of A, so that the one operator (A, nu gradient)
 * has norm sqrt(2) ||A||. Every iteration checks that no change of x is projected to more than that
 * norm allows.
 */
#include <math.h>
#include "algo/penalty.h"

#define NOTABLE 1e-3 /* relative to the norm of the data */
#define MARGIN 1.01

/* Step size of the dual variable. It has no unit, while the primal step has the unit of 1 / A^2; if
 * both were equal, the speed of convergence would depend on the unit of length. Of values from 0.03
 * to 1 this one converged fastest, in slices and in cone beams. */
#define SIGMA 0.15

typedef struct {
	const tomos_op *gradient; /* NULL: the penalty is of x itself */
	double norm, nu, tau, sigma;
	float *y, *p;        /* dual variables of A and of the gradient */
	float *lead, *s, *g; /* x extrapolated; scratch: volume, field */
	float *old, *Ax, *Aold, *r;
} Pdhg;

static tomos_status prepare_gradient(Iteration *it, Pdhg *d)
{
	TRY(iteration_gradient(it, &d->gradient));
	TRY(iteration_state(it, &d->p, &it->field, "the dual field"));
	TRY(iteration_vector(it, &d->g, &it->field, "the gradient"));
	TRY(vector_fill(&it->field, 0, d->p));
	d->nu = d->norm / sqrt(gradient_bound(it));
	return TOMOS_OK;
}

static tomos_status prepare(Iteration *it, Pdhg *d)
{
	bool field = penalty_of_gradient(penalty_kind(it));
	TRY(iteration_state(it, &d->y, it->Y, "the dual projections"));
	TRY(iteration_state(it, &d->old, it->X, "the volume before"));
	TRY(iteration_vector(it, &d->lead, it->X, "the volume ahead"));
	TRY(iteration_vector(it, &d->s, it->X, "the update"));
	TRY(iteration_vector(it, &d->Ax, it->Y, "projections"));
	TRY(iteration_vector(it, &d->Aold, it->Y, "projections"));
	TRY(iteration_vector(it, &d->r, it->Y, "the residual"));
	TRY(iteration_norm(it, &(NormVectors){{d->old, d->lead}, {d->Ax, d->Aold}}, &d->norm));
	d->norm = d->norm > 0 ? d->norm : 1;
	if (field)
		TRY(prepare_gradient(it, d));
	d->sigma = SIGMA;
	d->tau = 1 / (SIGMA * d->norm * d->norm * (field ? 2 : 1));
	iteration_scalar(it, &d->norm);
	iteration_scalar(it, &d->tau);
	TRY(vector_fill(it->Y, 0, d->y));
	TRY(iteration_bound(it, it->x));
	return vector_copy(it->X, it->x, d->old);
}

/* Dual step of the penalty on the gradient: p + sigma nu gradient(lead), where lead is the
 * extrapolated volume and nu scales the gradient; vectors longer than alpha / nu are shortened to
 * it. */
static tomos_status dual_field(const Iteration *it, const Pdhg *d)
{
	double alpha = it->o->strength;
	TRY(op_forward(d->gradient, d->lead, d->g));
	TRY(vector_axpy(&it->field, (float)(d->sigma * d->nu), d->g, d->p));
	if (penalty_kind(it) == PENALTY_HUBER) {
		double square = d->sigma * it->o->huber * d->nu * d->nu / alpha;
		TRY(vector_scale(&it->field, (float)(1 / (1 + square)), d->p));
	}
	return vector_clip_norm(it->X, gradient_parts(it), (float)(alpha / d->nu), d->p);
}

/* x = prox(x - tau (A'y + nu gradient'p)) */
static tomos_status primal(const Iteration *it, const Pdhg *d)
{
	TRY(op_adjoint(it->A, d->y, d->s));
	TRY(vector_axpy(it->X, -(float)d->tau, d->s, it->x));
	if (!d->gradient)
		return penalty_simple(it, d->tau * it->o->strength, it->x);
	TRY(op_adjoint(d->gradient, d->p, d->s));
	TRY(vector_axpy(it->X, -(float)(d->tau * d->nu), d->s, it->x));
	return iteration_bound(it, it->x);
}

/* A norm that is too small (an estimate, or the user's) is replaced by the ratio that was observed.
 * Small changes are ignored: their projections are mostly rounding error. */
static tomos_status check_norm(const Iteration *it, Pdhg *d)
{
	double way, seen;
	TRY(vector_distance(it->Y, d->Ax, d->Aold, &seen));
	if (!(seen > NOTABLE * it->b_norm))
		return TOMOS_OK;
	TRY(vector_distance(it->X, it->x, d->old, &way));
	if (seen > d->norm * way) {
		double norm = MARGIN * seen / way;
		d->tau *= d->norm * d->norm / (norm * norm);
		d->norm = norm;
	}
	return TOMOS_OK;
}

static tomos_status iterate(Iteration *it, Pdhg *d)
{
	const Space *X = it->X, *Y = it->Y;
	TRY(vector_copy(X, d->old, d->lead));
	TRY(vector_xpay(X, it->x, -1, d->lead));
	TRY(vector_axpy(X, 1, it->x, d->lead)); /* lead = 2 x - old */
	TRY(vector_axpy(Y, 2 * (float)d->sigma, d->Ax, d->y));
	TRY(vector_axpy(Y, -(float)d->sigma, d->Aold, d->y));
	TRY(vector_axpy(Y, -(float)d->sigma, it->b, d->y)); /* y += sigma (A lead - b) */
	TRY(vector_scale(Y, (float)(1 / (1 + d->sigma)), d->y));
	if (d->gradient)
		TRY(dual_field(it, d));
	TRY(iteration_keep(it, d->old));
	TRY(vector_copy(Y, d->Ax, d->Aold));
	TRY(primal(it, d));
	TRY(op_forward(it->A, it->x, d->Ax));
	TRY(check_norm(it, d));
	TRY(vector_copy(Y, d->Ax, d->r));
	return vector_xpay(Y, it->b, -1, d->r);
}

tomos_status pdhg_method(Iteration *it)
{
	Pdhg d = {0};
	TRY(prepare(it, &d));
	TRY(iteration_start(it));
	TRY(op_forward(it->A, it->x, d.Ax));
	TRY(op_forward(it->A, d.old, d.Aold));
	while (it->going) {
		TRY(iterate(it, &d));
		TRY(iteration_iterated(it, d.r));
	}
	return TOMOS_OK;
}
