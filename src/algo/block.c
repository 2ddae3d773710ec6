/* Block-iterative methods: SIRT's update with one block of views after the other; one view: SART.
 *
 * Nielsen 2014, algorithm 2.3; A. H. Andersen and A. C. Kak, "Simultaneous algebraic reconstruction
 * technique (SART)", Ultrasonic Imaging 6 (1984). Momentum: D. Kim, S. Ramani, J. A. Fessler,
 * "Combining ordered subsets and momentum for accelerated X-ray CT image reconstruction", IEEE
 * Trans. Med. Imaging 34 (2015).
 */
#include <math.h>
#include "algo/blocks.h"

int64_t blocks_count(const Iteration *it)
{
	int64_t views = it->Y->shape[0];
	return it->o->blocks != 0 ? it->o->blocks : (int64_t)lround(sqrt((double)views));
}

tomos_status blocks_arrange(Iteration *it, Blocks *B, int64_t count)
{
	int order = choice_index(VIEW_ORDERS, it->o->order);
	TRY(subsets_make(&it->subsets, it->A, count, (ViewOrder)order, (uint64_t)it->o->seed));
	TRY(mem_zeroed(&B->columns, count, sizeof *B->columns, "blocks of views"));
	TRY(iteration_vector(it, &B->b, it->Y, "the data in order"));
	TRY(subsets_arrange(&it->subsets, it->A, it->b, B->b));
	if (it->rays) {
		TRY(iteration_vector(it, &B->rays, it->Y, "weights of rays in order"));
		TRY(subsets_arrange(&it->subsets, it->A, it->rays, B->rays));
	}
	TRY(iteration_vector(it, &B->r, it->Y, "the residual"));
	TRY(iteration_vector(it, &B->y, &it->subsets.ops[0]->range, "the weighted residual"));
	return iteration_vector(it, &B->s, it->X, "the update");
}

static const float *rays_of(const Iteration *it, const Blocks *B, int64_t i)
{
	return B->rays ? B->rays + subset_offset(&it->subsets, i) : NULL;
}

static tomos_status weigh_blocks(Iteration *it, Blocks *B)
{
	const Subsets *subsets = &it->subsets;
	for (int64_t i = 0; i < subsets->count; i++)
		TRY(weights_rays(it, subsets->ops[i], rays_of(it, B, i),
			B->M + subset_offset(subsets, i), B->s));
	return weights_relaxation(it, subsets->ops[0], B->M, &B->lambda);
}

tomos_status blocks_make(Iteration *it, Blocks *B, int64_t count, bool momentum)
{
	*B = (Blocks){.momentum = momentum, .t = 1, .z = it->x};
	TRY(blocks_arrange(it, B, count));
	TRY(iteration_vector(it, &B->M, it->Y, "weights of rays"));
	if (weights_has_voxels(weights_kind(it)))
		TRY(iteration_vector(it, &B->T, it->X, "weights of voxels"));
	TRY(weigh_blocks(it, B));
	if (!momentum)
		return TOMOS_OK;
	iteration_scalar(it, &B->t);
	TRY(iteration_state(it, &B->z, it->X, "the volume with momentum"));
	return vector_copy(it->X, it->x, B->z);
}

void blocks_free(Blocks *B)
{
	mem_free(B->columns);
}

tomos_status blocks_voxels(Iteration *it, Blocks *B, int64_t i, float **T, bool *fresh)
{
	*fresh = !B->columns[i];
	*T = B->columns[i];
	if (*T)
		return TOMOS_OK;
	if (i < it->cache / it->X->count)
		TRY(iteration_vector(it, &B->columns[i], it->X, "weights of voxels"));
	*T = B->columns[i] ? B->columns[i] : B->T;
	return TOMOS_OK;
}

static tomos_status weigh_residual(const Iteration *it, const Blocks *B, int64_t i)
{
	const Space *Y = &it->subsets.ops[i]->range;
	int64_t at = subset_offset(&it->subsets, i);
	TRY(vector_copy(Y, B->r + at, B->y));
	return vector_mul(Y, B->M + at, B->y); /* y = M r */
}

/* Voxel weights of block i. If they must be computed, y is scratch and then M r again. */
static tomos_status voxel_weights(Iteration *it, Blocks *B, int64_t i, float **T)
{
	bool fresh;
	*T = NULL;
	if (!B->T)
		return TOMOS_OK;
	TRY(blocks_voxels(it, B, i, T, &fresh));
	if (!fresh)
		return TOMOS_OK;
	TRY(weights_voxels(it, it->subsets.ops[i], rays_of(it, B, i), *T, B->y));
	return weigh_residual(it, B, i);
}

/* The updated z becomes the new x; momentum from the old x is added to z. */
static tomos_status gain_momentum(Iteration *it, Blocks *B)
{
	double t = 0.5 * (1 + sqrt(1 + 4 * B->t * B->t));
	TRY(vector_copy(it->X, B->z, B->s));
	TRY(vector_xpay(it->X, B->z, -1, it->x)); /* the step from x to z */
	TRY(vector_axpy(it->X, (float)((B->t - 1) / t), it->x, B->z));
	TRY(vector_copy(it->X, B->s, it->x));
	B->t = t;
	return TOMOS_OK;
}

/* z += lambda T A' y with the rays of block i; T is computed in the same pass if the operator
 * supports it. */
static tomos_status update(Iteration *it, Blocks *B, int64_t i)
{
	const tomos_op *A = it->subsets.ops[i];
	FusedUpdate step;
	bool done = false;
	float *T;
	if (weights_step(it, rays_of(it, B, i), B->lambda, &step))
		TRY(op_adjoint_update(A, B->y, &step, B->z, &done));
	if (done)
		return TOMOS_OK;
	TRY(voxel_weights(it, B, i, &T));
	return weights_update(it, A, B->lambda, T, B->y, B->s, B->z);
}

tomos_status blocks_sweep(Iteration *it, Blocks *B)
{
	subsets_sweep(&it->subsets, it->k);
	TRY(iteration_keep(it, NULL));
	for (int64_t visit = 0; visit < it->subsets.count; visit++) {
		int64_t i = it->subsets.visits[visit], at = subset_offset(&it->subsets, i);
		const tomos_op *A = it->subsets.ops[i];
		TRY(op_residual(A, B->z, B->b + at, B->M + at, B->r + at, B->y));
		TRY(update(it, B, i));
		if (B->momentum)
			TRY(gain_momentum(it, B));
	}
	return TOMOS_OK;
}

static tomos_status iterate(Iteration *it, Blocks *B, int64_t count, bool momentum)
{
	TRY(blocks_make(it, B, count, momentum));
	TRY(iteration_start(it));
	while (it->going) {
		TRY(blocks_sweep(it, B));
		TRY(iteration_iterated(it, B->r));
	}
	return TOMOS_OK;
}

static tomos_status block_iterative(Iteration *it, int64_t count, bool momentum)
{
	Blocks blocks = {0};
	tomos_status status = iterate(it, &blocks, count, momentum);
	blocks_free(&blocks);
	return status;
}

tomos_status block_method(Iteration *it)
{
	return block_iterative(it, blocks_count(it), it->o->nesterov != 0);
}

tomos_status sart_method(Iteration *it)
{
	return block_iterative(it, it->Y->shape[0], false);
}
