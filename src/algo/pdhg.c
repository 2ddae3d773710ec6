/* Primal-dual hybrid gradients for 1/2 ||A x - b||^2 + alpha R(x) inside bounds.
 *
 * A. Chambolle and T. Pock, "A first-order primal-dual algorithm for convex problems with applications to
 * imaging", J. Math. Imaging Vis. 40 (2011); E. Y. Sidky, J. H. Jørgensen, X. Pan 2012. The gradient is
 * scaled by nu to the norm of A, so that the one operator (A, nu gradient) has norm sqrt(2) ||A||. Every
 * iteration checks that no change of x is projected to more than that norm allows.
 */
#include <math.h>
#include "algo/penalty.h"

#define NOTABLE 1e-3 /* of the data */
#define MARGIN 1.01

/* The dual variable of A has the unit of the data, so its step is a number and the other one has the unit of
 * 1 / A^2: with equal steps the unit of lengths would decide how fast x comes near. Of 0.03 to 1
 * this comes near soonest in slices and cone beams. */
#define SIGMA 0.15

typedef struct {
	const tomos_op *gradient; /* NULL: the penalty is of x itself */
	double norm, nu, tau, sigma;
	float *y, *p;        /* dual variables of A and of the gradient */
	float *lead, *s, *g; /* x carried on; scratch: volume, field */
	float *old, *Ax, *Aold, *r;
} Pdhg;

static tomos_status prepare_gradient(Run *run, Pdhg *d)
{
	TRY(run_gradient(run, &d->gradient));
	TRY(run_state(run, &d->p, &run->field, "the dual field"));
	TRY(run_vector(run, &d->g, &run->field, "the gradient"));
	TRY(vector_fill(&run->field, 0, d->p));
	d->nu = d->norm / sqrt(gradient_bound(run));
	return TOMOS_OK;
}

static tomos_status prepare(Run *run, Pdhg *d)
{
	bool field = penalty_of_gradient(penalty_kind(run));
	TRY(run_state(run, &d->y, run->Y, "the dual projections"));
	TRY(run_state(run, &d->old, run->X, "the volume before"));
	TRY(run_vector(run, &d->lead, run->X, "the volume ahead"));
	TRY(run_vector(run, &d->s, run->X, "the update"));
	TRY(run_vector(run, &d->Ax, run->Y, "projections"));
	TRY(run_vector(run, &d->Aold, run->Y, "projections"));
	TRY(run_vector(run, &d->r, run->Y, "the residual"));
	TRY(run_norm(run, &(NormRoom){{d->old, d->lead}, {d->Ax, d->Aold}}, &d->norm));
	d->norm = d->norm > 0 ? d->norm : 1;
	if (field)
		TRY(prepare_gradient(run, d));
	d->sigma = SIGMA;
	d->tau = 1 / (SIGMA * d->norm * d->norm * (field ? 2 : 1));
	run_scalar(run, &d->norm);
	run_scalar(run, &d->tau);
	TRY(vector_fill(run->Y, 0, d->y));
	TRY(run_bound(run, run->x));
	return vector_copy(run->X, run->x, d->old);
}

/* p = prox(p + sigma nu gradient lead): no longer than alpha / nu. */
static tomos_status dual_field(const Run *run, const Pdhg *d)
{
	double alpha = run->o->strength;
	TRY(op_forward(d->gradient, d->lead, d->g));
	TRY(vector_axpy(&run->field, (float)(d->sigma * d->nu), d->g, d->p));
	if (penalty_kind(run) == PENALTY_HUBER) {
		double square = d->sigma * run->o->huber * d->nu * d->nu / alpha;
		TRY(vector_scale(&run->field, (float)(1 / (1 + square)), d->p));
	}
	return vector_shorten(run->X, gradient_parts(run->X), (float)(alpha / d->nu), d->p);
}

/* x = prox(x - tau (A'y + nu gradient'p)) */
static tomos_status primal(const Run *run, const Pdhg *d)
{
	TRY(op_adjoint(run->A, d->y, d->s));
	TRY(vector_axpy(run->X, -(float)d->tau, d->s, run->x));
	if (!d->gradient)
		return penalty_simple(run, d->tau * run->o->strength, run->x);
	TRY(op_adjoint(d->gradient, d->p, d->s));
	TRY(vector_axpy(run->X, -(float)(d->tau * d->nu), d->s, run->x));
	return run_bound(run, run->x);
}

/* A norm that was too small, an estimate or the user's, makes way for the one that was seen. Of small
 * changes the projections are rounding error, and tell nothing. */
static tomos_status check_norm(const Run *run, Pdhg *d)
{
	double way, seen;
	TRY(vector_distance(run->Y, d->Ax, d->Aold, &seen));
	if (!(seen > NOTABLE * run->b_norm))
		return TOMOS_OK;
	TRY(vector_distance(run->X, run->x, d->old, &way));
	if (seen > d->norm * way) {
		double norm = MARGIN * seen / way;
		d->tau *= d->norm * d->norm / (norm * norm);
		d->norm = norm;
	}
	return TOMOS_OK;
}

static tomos_status iterate(Run *run, Pdhg *d)
{
	const Space *X = run->X, *Y = run->Y;
	TRY(vector_copy(X, d->old, d->lead));
	TRY(vector_xpay(X, run->x, -1, d->lead));
	TRY(vector_axpy(X, 1, run->x, d->lead)); /* lead = 2 x - old */
	TRY(vector_axpy(Y, 2 * (float)d->sigma, d->Ax, d->y));
	TRY(vector_axpy(Y, -(float)d->sigma, d->Aold, d->y));
	TRY(vector_axpy(Y, -(float)d->sigma, run->b, d->y)); /* y += sigma (A lead - b) */
	TRY(vector_scale(Y, (float)(1 / (1 + d->sigma)), d->y));
	if (d->gradient)
		TRY(dual_field(run, d));
	TRY(run_keep(run, d->old));
	TRY(vector_copy(Y, d->Ax, d->Aold));
	TRY(primal(run, d));
	TRY(op_forward(run->A, run->x, d->Ax));
	TRY(check_norm(run, d));
	TRY(vector_copy(Y, d->Ax, d->r));
	return vector_xpay(Y, run->b, -1, d->r);
}

tomos_status pdhg_method(Run *run)
{
	Pdhg d = {0};
	TRY(prepare(run, &d));
	TRY(run_start(run));
	TRY(op_forward(run->A, run->x, d.Ax));
	TRY(op_forward(run->A, d.old, d.Aold));
	while (run->going) {
		TRY(iterate(run, &d));
		TRY(run_iterated(run, d.r));
	}
	return TOMOS_OK;
}
