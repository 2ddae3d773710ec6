/* SIRT: x += lambda T A' M (b - A x), all rays at once.
 *
 * Nielsen 2014, algorithm 2.1; Pedersen and Lindhøj 2018, eq. (2).
 */
#include "algo/weights.h"

/* In one pass where the operator can. */
static tomos_status update(Run *run, float lambda, const float *T, const float *y, float *s)
{
	BackStep step = {.a = lambda, .low = run->low, .high = run->high, .voxels = T};
	bool done = false;
	if (!run->mask)
		TRY(op_adjoint_step(run->A, y, &step, run->x, &done));
	if (done)
		return TOMOS_OK;
	TRY(op_adjoint(run->A, y, s));
	return run_step(run, lambda, T, s, run->x);
}

tomos_status sirt_method(Run *run)
{
	const tomos_op *A = run->A;
	float *M, *T = NULL, *r, *y, *s;
	double lambda;
	TRY(run_vector(run, &M, run->Y, "weights of rays"));
	TRY(run_vector(run, &r, run->Y, "the residual"));
	TRY(run_vector(run, &y, run->Y, "the weighted residual"));
	TRY(run_vector(run, &s, run->X, "the update"));
	TRY(weights_rays(run, A, run->rays, M, s));
	if (weights_has_voxels(weights_kind(run))) {
		TRY(run_vector(run, &T, run->X, "weights of voxels"));
		TRY(weights_voxels(run, A, run->rays, T, y));
	}
	TRY(weights_relaxation(run, A, M, &lambda));
	TRY(run_start(run));
	TRY(run_residual(run, r)); /* r = b - A x */
	while (run->going) {
		TRY(vector_copy(run->Y, r, y));
		TRY(vector_mul(run->Y, M, y));            /* y = M r */
		TRY(update(run, (float)lambda, T, y, s)); /* x += lambda T A' y */
		TRY(run_residual(run, r));
		TRY(run_iterated(run, r));
	}
	return TOMOS_OK;
}
