/* Weights of rays and voxels: SIRT, Cimmino, Landweber, CAV and DROP.
 *
 * P. Gilbert 1972 and paper of Pedersen and Lindhøj 2018 (inverse row and column sums); G. Cimmino
 * 1938; L. Landweber 1951; Y. Censor, D. Gordon, R. Gordon, "Component averaging", Parallel Comput.
 * 27 (2001); Y. Censor, T. Elfving, G. T. Herman, T. Nikazad, "On diagonally relaxed orthogonal
 * projection methods", SIAM J. Sci. Comput. 30 (2008). With weights w = rays^2 of the caller, A
 * here is diag(rays) times the projector, so that M, measured on the projector alone, comes out
 * multiplied by w.
 */
#include <math.h>
#include "algo/weights.h"

OPTION_VALUES(algebraic_values, TOMOS_ALGEBRAIC_OPTIONS);

#define LEAST 1e-6 /* relative to the largest: rays and voxels with smaller sums get the weight 0 */

WeightKind weights_kind(const Iteration *it)
{
	return (WeightKind)choice_index(algebraic_values.weights, it->o->weights);
}

bool weights_has_rays(WeightKind kind)
{
	return kind != WEIGHTS_LANDWEBER;
}

bool weights_has_voxels(WeightKind kind)
{
	return kind == WEIGHTS_SIRT || kind == WEIGHTS_DROP;
}

static tomos_status invert(const Space *space, float *x)
{
	double largest;
	TRY(vector_max_abs(space, x, &largest));
	return vector_invert(space, (float)(LEAST * largest), x);
}

static tomos_status square_weights(const Space *Y, const float *rays, float *w)
{
	TRY(vector_fill(Y, 1, w));
	for (int i = 0; rays && i < 2; i++)
		TRY(vector_mul(Y, rays, w));
	return TOMOS_OK;
}

tomos_status weights_rays(
	const Iteration *it, const tomos_op *A, const float *rays, float *M, float *scratch)
{
	WeightKind kind = weights_kind(it);
	if (kind == WEIGHTS_LANDWEBER)
		return vector_fill(&A->range, 1, M);
	TRY(iteration_ones(it, scratch));
	if (kind == WEIGHTS_SIRT) {
		TRY(it->mask ? op_forward(A, scratch, M) : op_row_sums(A, scratch, M));
		TRY(op_check_sums(A, &A->range, M, "weights 'sirt'"));
	} else {
		if (kind == WEIGHTS_CAV) {
			TRY(square_weights(&A->range, rays, M));
			TRY(op_power_adjoint(A, 0, M, scratch));
		}
		TRY(op_power(A, 2, scratch, M));
	}
	TRY(invert(&A->range, M));
	for (int i = 0; rays && i < (kind == WEIGHTS_SIRT ? 1 : 2); i++)
		TRY(vector_mul(&A->range, rays, M));
	return TOMOS_OK;
}

tomos_status weights_voxels(
	const Iteration *it, const tomos_op *A, const float *rays, float *T, float *scratch)
{
	if (weights_kind(it) == WEIGHTS_SIRT) {
		TRY(vector_fill(&A->range, 1, scratch));
		if (rays)
			TRY(vector_mul(&A->range, rays, scratch));
		TRY(op_adjoint(A, scratch, T));
		TRY(op_check_sums(A, it->X, T, "weights 'sirt'"));
	} else {
		TRY(square_weights(&A->range, rays, scratch));
		TRY(op_power_adjoint(A, 0, scratch, T));
	}
	return invert(it->X, T);
}

bool weights_step(const Iteration *it, const float *rays, double lambda, FusedUpdate *step)
{
	*step = (FusedUpdate){.a = (float)lambda,
		.low = it->low,
		.high = it->high,
		.average = true,
		.rays = rays,
		.least = (float)LEAST};
	return weights_kind(it) == WEIGHTS_SIRT;
}

tomos_status weights_update(const Iteration *it, const tomos_op *A, double lambda, const float *T,
	const float *y, float *s, float *x)
{
	FusedUpdate step = {.a = (float)lambda, .low = it->low, .high = it->high, .voxels = T};
	bool done = false;
	if (!it->mask)
		TRY(op_adjoint_update(A, y, &step, x, &done));
	if (done)
		return TOMOS_OK;
	TRY(op_adjoint(A, y, s));
	return iteration_step(it, (float)lambda, T, s, x);
}

/* The largest eigenvalue of A' M A, the square of the norm of sqrt(M) A; M NULL: ones. */
static tomos_status largest_eigenvalue(
	const Iteration *it, const tomos_op *A, const float *M, double *value)
{
	float *root;
	tomos_op *weighted = NULL;
	tomos_status status;
	if (!M) {
		TRY(op_norm(A, NORM_FOR_STEPS, NULL, it->progress, value));
		*value *= *value;
		return TOMOS_OK;
	}
	TRY(vector_new(&root, &A->range, "the relaxation"));
	TRY_OR_DONE(vector_copy(&A->range, M, root));
	TRY_OR_DONE(vector_sqrt(&A->range, root));
	TRY_OR_DONE(op_weighted(&weighted, A, root, NULL));
	TRY_OR_DONE(op_norm(weighted, NORM_FOR_STEPS, NULL, it->progress, value));
	*value *= *value;
done:
	tomos_op_free(weighted);
	vector_free(root, &A->range);
	return status;
}

tomos_status weights_relaxation(
	const Iteration *it, const tomos_op *A, const float *M, double *lambda)
{
	WeightKind kind = weights_kind(it);
	double largest = 0;
	*lambda = it->o->relaxation != 0 ? it->o->relaxation : 1;
	if (it->o->relaxation != 0 || (kind != WEIGHTS_CIMMINO && kind != WEIGHTS_LANDWEBER))
		return TOMOS_OK;
	TRY(largest_eigenvalue(it, A, M, &largest));
	*lambda = largest > 0 ? 1 / largest : 1;
	return TOMOS_OK;
}
