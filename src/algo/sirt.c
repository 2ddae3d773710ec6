/* SIRT: x += lambda T A' M (b - A x), all rays at once.
 *
 * Nielsen 2014, algorithm 2.1; Pedersen and Lindhøj 2018, eq. (2).
 */
#include "algo/weights.h"

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
	TRY(op_residual(A, run->x, run->b, M, r, y)); /* r = b - A x, y = M r */
	while (run->going) {
		TRY(run_keep(run, NULL));
		TRY(weights_update(run, A, lambda, T, y, s, run->x)); /* x += lambda T A' y */
		TRY(op_residual(A, run->x, run->b, M, r, y));
		TRY(run_iterated(run, r));
	}
	return TOMOS_OK;
}
