/* Expectation maximisation for Poisson data: x *= A'(b / A x) / A'1, for all views or block by
 * block.
 *
 * L. A. Shepp and Y. Vardi 1982; K. Lange and R. Carson 1984 (mlem); H. M. Hudson and R. S. Larkin,
 * "Accelerated image reconstruction using ordered subsets of projection data", IEEE Trans. Med.
 * Imaging 13 (1994) (osem).
 */
#include <math.h>
#include "algo/blocks.h"

#define LEAST 1e-6 /* relative to the largest projection or sensitivity: less counts as 0 */

/* Factor between the projections of the start and the data. The first update corrects any factor,
 * unless the projections are so small that they are not divided by. `y` is scratch. */
static tomos_status start_scale(const Iteration *it, const float *b, float *y, double *scale)
{
	double data, positive, projected;
	TRY(vector_norm(it->Y, b, &data));
	TRY(vector_copy(it->Y, b, y));
	TRY(vector_clamp(it->Y, 0, HUGE_VALF, y));
	TRY(vector_norm(it->Y, y, &positive));
	if (data > 0 && !(positive > 0))
		return fail(
			TOMOS_BAD_VALUE, "%s needs projections above 0, and none is", it->method);
	TRY(op_forward(it->A, it->x, y));
	TRY(vector_norm(it->Y, y, &projected));
	if (!(projected > 0))
		return fail(TOMOS_BAD_VALUE,
			"%s: no ray meets a voxel that is above 0 at the start", it->method);
	*scale = positive > 0 ? positive / projected : 1;
	return TOMOS_OK;
}

/* Makes the start non-negative (ones if no voxel is positive, since a voxel that is 0 stays 0), and
 * scales it so that its projections have the magnitude of the data. */
static tomos_status start_positive(const Iteration *it, const float *b, float *y)
{
	double largest, scale;
	TRY(vector_clamp(it->X, 0, HUGE_VALF, it->x));
	TRY(vector_max_abs(it->X, it->x, &largest));
	if (!(largest > 0))
		TRY(iteration_ones(it, it->x));
	TRY(start_scale(it, b, y, &scale));
	return vector_scale(it->X, (float)scale, it->x);
}

/* 1 / A'w of block i. */
static tomos_status sensitivity(Iteration *it, Blocks *B, int64_t i, float **T)
{
	const tomos_op *A = it->subsets.ops[i];
	double largest;
	bool fresh;
	TRY(blocks_voxels(it, B, i, T, &fresh));
	if (!fresh)
		return TOMOS_OK;
	TRY(vector_fill(&A->range, 1, B->y));
	if (B->rays)
		TRY(vector_mul(&A->range, B->rays + subset_offset(&it->subsets, i), B->y));
	TRY(op_adjoint(A, B->y, *T));
	TRY(op_check_sums(A, it->X, *T, it->method));
	TRY(vector_max_abs(it->X, *T, &largest));
	return vector_invert(it->X, (float)(LEAST * largest), *T);
}

static tomos_status update(Iteration *it, Blocks *B, int64_t i, double largest)
{
	const tomos_op *A = it->subsets.ops[i];
	int64_t at = subset_offset(&it->subsets, i);
	float *T;
	TRY(sensitivity(it, B, i, &T));
	TRY(op_forward(A, it->x, B->y)); /* y = A x */
	TRY(vector_copy(&A->range, B->y, B->r + at));
	TRY(vector_xpay(&A->range, B->b + at, -1, B->r + at));
	TRY(vector_ratio(&A->range, B->b + at, (float)(LEAST * largest), B->y)); /* y = b / A x */
	if (B->rays)
		TRY(vector_mul(&A->range, B->rays + at, B->y));
	TRY(op_adjoint(A, B->y, B->s));
	TRY(vector_mul(it->X, T, B->s));
	TRY(vector_mul(it->X, B->s, it->x));
	return iteration_bound(it, it->x);
}

static tomos_status iterate(Iteration *it, Blocks *B, int64_t count)
{
	double largest;
	TRY(blocks_arrange(it, B, count));
	TRY(iteration_vector(it, &B->T, it->X, "the sensitivity"));
	TRY(vector_max_abs(it->Y, B->b, &largest));
	TRY(start_positive(it, B->b, B->r));
	TRY(iteration_start(it));
	while (it->going) {
		subsets_sweep(&it->subsets, it->k);
		TRY(iteration_keep(it, NULL));
		for (int64_t visit = 0; visit < count; visit++)
			TRY(update(it, B, it->subsets.visits[visit], largest));
		TRY(iteration_iterated(it, B->r));
	}
	return TOMOS_OK;
}

static tomos_status expectation_maximisation(Iteration *it, int64_t count)
{
	Blocks blocks = {0};
	tomos_status status = iterate(it, &blocks, count);
	blocks_free(&blocks);
	return status;
}

tomos_status mlem_method(Iteration *it)
{
	return expectation_maximisation(it, 1);
}

tomos_status osem_method(Iteration *it)
{
	return expectation_maximisation(it, blocks_count(it));
}
