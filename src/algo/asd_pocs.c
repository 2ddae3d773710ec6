/* ASD-POCS: sweeps of SART alternate with gradient steps that reduce the total variation.
 *
 * E. Y. Sidky and X. Pan, "Image reconstruction in circular cone-beam computed tomography by
 * constrained, total-variation minimization", Phys. Med. Biol. 53 (2008); constants and names are
 * theirs.
 */
#include "algo/blocks.h"

#define BETA_RED 0.995
#define ALPHA 0.2
#define ALPHA_RED 0.95
#define R_MAX 0.95

typedef struct {
	Blocks blocks;
	const tomos_op *gradient;
	float *before, *field, *df;
	double dtvg, beta;
} Asd;

static tomos_status prepare(Iteration *it, Asd *a)
{
	TRY(blocks_make(it, &a->blocks, it->Y->shape[0], false));
	TRY(iteration_gradient(it, &a->gradient));
	TRY(iteration_vector(it, &a->before, it->X, "the volume before"));
	TRY(iteration_vector(it, &a->df, it->X, "the way down"));
	TRY(iteration_vector(it, &a->field, &it->field, "the gradient"));
	a->beta = a->blocks.lambda;
	iteration_scalar(it, &a->beta);
	iteration_scalar(it, &a->dtvg);
	return TOMOS_OK;
}

/* x -= dtvg df / ||df||, df the gradient of the total variation. */
static tomos_status descend(Iteration *it, Asd *a)
{
	double largest, norm;
	TRY(vector_max_abs(it->X, it->x, &largest));
	TRY(op_forward(a->gradient, it->x, a->field));
	TRY(vector_normalise(it->X, gradient_parts(it), (float)(1e-4 * largest + 1e-30), a->field));
	TRY(op_adjoint(a->gradient, a->field, a->df));
	if (it->mask)
		TRY(vector_mul(it->X, it->mask, a->df));
	TRY(vector_norm(it->X, a->df, &norm));
	return norm > 0 ? vector_axpy(it->X, -(float)(a->dtvg / norm), a->df, it->x) : TOMOS_OK;
}

static tomos_status iterate(Iteration *it, Asd *a)
{
	double fit, dp, dg;
	a->blocks.lambda = a->beta;
	TRY(vector_copy(it->X, it->x, a->before));
	TRY(blocks_sweep(it, &a->blocks));
	TRY(vector_norm(it->Y, a->blocks.r, &fit));
	TRY(vector_distance(it->X, it->x, a->before, &dp));
	if (it->k == 0)
		a->dtvg = ALPHA * dp;
	TRY(vector_copy(it->X, it->x, a->before));
	for (int64_t i = 0; i < it->o->inner; i++)
		TRY(descend(it, a));
	TRY(iteration_bound(it, it->x));
	TRY(vector_distance(it->X, it->x, a->before, &dg));
	if (dg > R_MAX * dp && fit > it->o->noise_level * it->b_norm)
		a->dtvg *= ALPHA_RED;
	a->beta *= BETA_RED;
	return TOMOS_OK;
}

static tomos_status run_all(Iteration *it, Asd *a)
{
	TRY(prepare(it, a));
	TRY(iteration_start(it));
	while (it->going) {
		TRY(iterate(it, a));
		TRY(iteration_iterated(it, a->blocks.r));
	}
	return TOMOS_OK;
}

tomos_status asd_pocs_method(Iteration *it)
{
	Asd a = {.dtvg = 0};
	tomos_status status = run_all(it, &a);
	blocks_free(&a.blocks);
	return status;
}
