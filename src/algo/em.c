/* Expectation maximisation for Poisson data: x *= A'(b / A x) / A'1, for all views or block by block.
 *
 * L. A. Shepp and Y. Vardi 1982; K. Lange and R. Carson 1984 (mlem); H. M. Hudson and R. S. Larkin,
 * "Accelerated image reconstruction using ordered subsets of projection data", IEEE Trans. Med. Imaging
 * 13 (1994) (osem).
 */
#include <math.h>
#include "algo/blocks.h"

#define LEAST 1e-6 /* of the largest projection, sensitivity: less is not seen */

/* How far the start is from the data's scale. The first update makes up for any factor, unless what
 * is projected is too small beside the data to be divided by. `y` is scratch. */
static tomos_status start_scale(const Run *run, const float *b, float *y, double *scale)
{
	double data, positive, projected;
	TRY(vector_norm(run->Y, b, &data));
	TRY(vector_copy(run->Y, b, y));
	TRY(vector_clamp(run->Y, 0, HUGE_VALF, y));
	TRY(vector_norm(run->Y, y, &positive));
	if (data > 0 && !(positive > 0))
		return fail(
			TOMOS_BAD_VALUE, "%s needs projections above 0, and none is", run->method);
	TRY(op_forward(run->A, run->x, y));
	TRY(vector_norm(run->Y, y, &projected));
	if (!(projected > 0))
		return fail(TOMOS_BAD_VALUE,
			"%s: no ray meets a voxel that is above 0 at the start", run->method);
	*scale = positive > 0 ? positive / projected : 1;
	return TOMOS_OK;
}

/* A volume above zero, or none could ever be, whose projections are of the data's size. */
static tomos_status start_positive(const Run *run, const float *b, float *y)
{
	double largest, scale;
	TRY(vector_clamp(run->X, 0, HUGE_VALF, run->x));
	TRY(vector_largest(run->X, run->x, &largest));
	if (!(largest > 0))
		TRY(run_ones(run, run->x));
	TRY(start_scale(run, b, y, &scale));
	return vector_scale(run->X, (float)scale, run->x);
}

/* 1 / A'w of block i. */
static tomos_status sensitivity(Run *run, Blocks *B, int64_t i, float **T)
{
	const tomos_op *A = run->subsets.ops[i];
	double largest;
	bool fresh;
	TRY(blocks_voxels(run, B, i, T, &fresh));
	if (!fresh)
		return TOMOS_OK;
	TRY(vector_fill(&A->range, 1, B->y));
	if (B->rays)
		TRY(vector_mul(&A->range, B->rays + subset_offset(&run->subsets, i), B->y));
	TRY(op_adjoint(A, B->y, *T));
	TRY(op_check_sums(A, run->X, *T, run->method));
	TRY(vector_largest(run->X, *T, &largest));
	return vector_invert(run->X, (float)(LEAST * largest), *T);
}

static tomos_status update(Run *run, Blocks *B, int64_t i, double largest)
{
	const tomos_op *A = run->subsets.ops[i];
	int64_t at = subset_offset(&run->subsets, i);
	float *T;
	TRY(sensitivity(run, B, i, &T));
	TRY(op_forward(A, run->x, B->y)); /* y = A x */
	TRY(vector_copy(&A->range, B->y, B->r + at));
	TRY(vector_xpay(&A->range, B->b + at, -1, B->r + at));
	TRY(vector_ratio(&A->range, B->b + at, (float)(LEAST * largest), B->y)); /* y = b / A x */
	if (B->rays)
		TRY(vector_mul(&A->range, B->rays + at, B->y));
	TRY(op_adjoint(A, B->y, B->s));
	TRY(vector_mul(run->X, T, B->s));
	TRY(vector_mul(run->X, B->s, run->x));
	return run_bound(run, run->x);
}

static tomos_status iterate(Run *run, Blocks *B, int64_t count)
{
	double largest;
	TRY(blocks_arrange(run, B, count));
	TRY(run_vector(run, &B->T, run->X, "the sensitivity"));
	TRY(vector_largest(run->Y, B->b, &largest));
	TRY(start_positive(run, B->b, B->r));
	TRY(run_start(run));
	while (run->going) {
		subsets_sweep(&run->subsets, run->k);
		TRY(run_keep(run, NULL));
		for (int64_t visit = 0; visit < count; visit++)
			TRY(update(run, B, run->subsets.visits[visit], largest));
		TRY(run_iterated(run, B->r));
	}
	return TOMOS_OK;
}

static tomos_status expectation_maximisation(Run *run, int64_t count)
{
	Blocks blocks = {0};
	tomos_status status = iterate(run, &blocks, count);
	blocks_free(&blocks);
	return status;
}

tomos_status mlem_method(Run *run)
{
	return expectation_maximisation(run, 1);
}

tomos_status osem_method(Run *run)
{
	return expectation_maximisation(run, blocks_count(run));
}
