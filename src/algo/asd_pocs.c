/* ASD-POCS: sweeps of SART in turn with steps down the total variation, so long as the data fit.
 *
 * E. Y. Sidky and X. Pan, "Image reconstruction in circular cone-beam computed tomography by constrained,
 * total-variation minimization", Phys. Med. Biol. 53 (2008); constants and names are theirs.
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

static tomos_status prepare(Run *run, Asd *a)
{
	TRY(blocks_make(run, &a->blocks, run->Y->shape[0], false));
	TRY(run_gradient(run, &a->gradient));
	TRY(run_vector(run, &a->before, run->X, "the volume before"));
	TRY(run_vector(run, &a->df, run->X, "the way down"));
	TRY(run_vector(run, &a->field, &run->field, "the gradient"));
	a->beta = a->blocks.lambda;
	run_scalar(run, &a->beta);
	run_scalar(run, &a->dtvg);
	return TOMOS_OK;
}

/* x -= dtvg df / ||df||, df the gradient of the total variation. */
static tomos_status descend(Run *run, Asd *a)
{
	double largest, norm;
	TRY(vector_largest(run->X, run->x, &largest));
	TRY(op_forward(a->gradient, run->x, a->field));
	TRY(vector_unit(run->X, gradient_parts(run->X), (float)(1e-4 * largest + 1e-30), a->field));
	TRY(op_adjoint(a->gradient, a->field, a->df));
	if (run->mask)
		TRY(vector_mul(run->X, run->mask, a->df));
	TRY(vector_norm(run->X, a->df, &norm));
	return norm > 0 ? vector_axpy(run->X, -(float)(a->dtvg / norm), a->df, run->x) : TOMOS_OK;
}

static tomos_status iterate(Run *run, Asd *a)
{
	double fit, dp, dg;
	a->blocks.lambda = a->beta;
	TRY(vector_copy(run->X, run->x, a->before));
	TRY(blocks_sweep(run, &a->blocks));
	TRY(vector_norm(run->Y, a->blocks.r, &fit));
	TRY(vector_distance(run->X, run->x, a->before, &dp));
	if (run->k == 0)
		a->dtvg = ALPHA * dp;
	TRY(vector_copy(run->X, run->x, a->before));
	for (int64_t i = 0; i < run->o->inner; i++)
		TRY(descend(run, a));
	TRY(run_bound(run, run->x));
	TRY(vector_distance(run->X, run->x, a->before, &dg));
	if (dg > R_MAX * dp && fit > run->o->noise_level * run->b_norm)
		a->dtvg *= ALPHA_RED;
	a->beta *= BETA_RED;
	return TOMOS_OK;
}

static tomos_status run_all(Run *run, Asd *a)
{
	TRY(prepare(run, a));
	TRY(run_start(run));
	while (run->going) {
		TRY(iterate(run, a));
		TRY(run_iterated(run, a->blocks.r));
	}
	return TOMOS_OK;
}

tomos_status asd_pocs_method(Run *run)
{
	Asd a = {.dtvg = 0};
	tomos_status status = run_all(run, &a);
	blocks_free(&a.blocks);
	return status;
}
