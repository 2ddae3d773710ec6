/* Block-iterative methods: SIRT's update with one block of views after the other; one view: SART.
 *
 * Nielsen 2014, algorithm 2.3; A. H. Andersen and A. C. Kak, "Simultaneous algebraic reconstruction
 * technique (SART)", Ultrasonic Imaging 6 (1984). Momentum: D. Kim, S. Ramani, J. A. Fessler, "Combining
 * ordered subsets and momentum for accelerated X-ray CT image reconstruction", IEEE Trans. Med. Imaging
 * 34 (2015).
 */
#include <math.h>
#include "algo/blocks.h"

#define CACHE ((int64_t)1 << 28) /* floats in weights of voxels that are kept and not made again */

int64_t blocks_count(const Run *run)
{
	int64_t views = run->Y->shape[0];
	return run->o->blocks != 0 ? run->o->blocks : (int64_t)lround(sqrt((double)views));
}

tomos_status blocks_arrange(Run *run, Blocks *B, int64_t count)
{
	int order = choice_index(VIEW_ORDERS, run->o->order);
	TRY(subsets_make(&run->subsets, run->A, count, (ViewOrder)order, (uint64_t)run->o->seed));
	TRY(mem_zeroed(&B->columns, count, sizeof *B->columns, "blocks of views"));
	TRY(run_vector(run, &B->b, run->Y, "the data in order"));
	TRY(subsets_arrange(&run->subsets, run->A, run->b, B->b));
	if (run->rays) {
		TRY(run_vector(run, &B->rays, run->Y, "weights of rays in order"));
		TRY(subsets_arrange(&run->subsets, run->A, run->rays, B->rays));
	}
	TRY(run_vector(run, &B->r, run->Y, "the residual"));
	TRY(run_vector(run, &B->y, &run->subsets.ops[0]->range, "the weighted residual"));
	return run_vector(run, &B->s, run->X, "the update");
}

static const float *rays_of(const Run *run, const Blocks *B, int64_t i)
{
	return B->rays ? B->rays + subset_offset(&run->subsets, i) : NULL;
}

static tomos_status weigh_blocks(Run *run, Blocks *B)
{
	const Subsets *subsets = &run->subsets;
	for (int64_t i = 0; i < subsets->count; i++)
		TRY(weights_rays(run, subsets->ops[i], rays_of(run, B, i),
			B->M + subset_offset(subsets, i), B->s));
	return weights_relaxation(run, subsets->ops[0], B->M, &B->lambda);
}

tomos_status blocks_make(Run *run, Blocks *B, int64_t count, bool momentum)
{
	*B = (Blocks){.momentum = momentum, .t = 1, .z = run->x};
	TRY(blocks_arrange(run, B, count));
	TRY(run_vector(run, &B->M, run->Y, "weights of rays"));
	if (weights_has_voxels(weights_kind(run)))
		TRY(run_vector(run, &B->T, run->X, "weights of voxels"));
	TRY(weigh_blocks(run, B));
	if (!momentum)
		return TOMOS_OK;
	run_scalar(run, &B->t);
	TRY(run_state(run, &B->z, run->X, "the volume with momentum"));
	return vector_copy(run->X, run->x, B->z);
}

void blocks_free(Blocks *B)
{
	mem_free(B->columns);
}

tomos_status blocks_voxels(Run *run, Blocks *B, int64_t i, float **T, bool *fresh)
{
	*fresh = !B->columns[i];
	*T = B->columns[i];
	if (*T)
		return TOMOS_OK;
	if (i < CACHE / run->X->count)
		TRY(run_vector(run, &B->columns[i], run->X, "weights of voxels"));
	*T = B->columns[i] ? B->columns[i] : B->T;
	return TOMOS_OK;
}

static tomos_status weigh_residual(const Run *run, const Blocks *B, int64_t i)
{
	const Space *Y = &run->subsets.ops[i]->range;
	int64_t at = subset_offset(&run->subsets, i);
	TRY(vector_copy(Y, B->r + at, B->y));
	return vector_mul(Y, B->M + at, B->y); /* y = M r */
}

/* Where they have to be made, y is the scratch for it. */
static tomos_status voxel_weights(Run *run, Blocks *B, int64_t i, float **T)
{
	bool fresh;
	*T = NULL;
	if (!B->T)
		return TOMOS_OK;
	TRY(blocks_voxels(run, B, i, T, &fresh));
	if (!fresh)
		return TOMOS_OK;
	TRY(weights_voxels(run, run->subsets.ops[i], rays_of(run, B, i), *T, B->y));
	return weigh_residual(run, B, i);
}

/* z, just updated, becomes the new x, and takes momentum from the old one. */
static tomos_status gain_momentum(Run *run, Blocks *B)
{
	double t = 0.5 * (1 + sqrt(1 + 4 * B->t * B->t));
	TRY(vector_copy(run->X, B->z, B->s));
	TRY(vector_xpay(run->X, B->z, -1, run->x)); /* the way from x */
	TRY(vector_axpy(run->X, (float)((B->t - 1) / t), run->x, B->z));
	TRY(vector_copy(run->X, B->s, run->x));
	B->t = t;
	return TOMOS_OK;
}

/* z += lambda T A' y with the rays of block i; where the operator can, T is made in the same pass. */
static tomos_status update(Run *run, Blocks *B, int64_t i)
{
	const tomos_op *A = run->subsets.ops[i];
	BackStep step;
	bool done = false;
	float *T;
	if (weights_step(run, rays_of(run, B, i), B->lambda, &step))
		TRY(op_adjoint_step(A, B->y, &step, B->z, &done));
	if (done)
		return TOMOS_OK;
	TRY(voxel_weights(run, B, i, &T));
	return weights_update(run, A, B->lambda, T, B->y, B->s, B->z);
}

tomos_status blocks_sweep(Run *run, Blocks *B)
{
	subsets_sweep(&run->subsets, run->k);
	TRY(run_keep(run, NULL));
	for (int64_t visit = 0; visit < run->subsets.count; visit++) {
		int64_t i = run->subsets.visits[visit], at = subset_offset(&run->subsets, i);
		const tomos_op *A = run->subsets.ops[i];
		TRY(op_residual(A, B->z, B->b + at, B->M + at, B->r + at, B->y));
		TRY(update(run, B, i));
		if (B->momentum)
			TRY(gain_momentum(run, B));
	}
	return TOMOS_OK;
}

static tomos_status iterate(Run *run, Blocks *B, int64_t count, bool momentum)
{
	TRY(blocks_make(run, B, count, momentum));
	TRY(run_start(run));
	while (run->going) {
		TRY(blocks_sweep(run, B));
		TRY(run_iterated(run, B->r));
	}
	return TOMOS_OK;
}

static tomos_status block_iterative(Run *run, int64_t count, bool momentum)
{
	Blocks blocks = {0};
	tomos_status status = iterate(run, &blocks, count, momentum);
	blocks_free(&blocks);
	return status;
}

tomos_status block_method(Run *run)
{
	return block_iterative(run, blocks_count(run), run->o->nesterov != 0);
}

tomos_status sart_method(Run *run)
{
	return block_iterative(run, run->Y->shape[0], false);
}
