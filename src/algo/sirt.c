/* SIRT: x += lambda T A' M (b - A x), all rays at once.
 *
 * Nielsen 2014, algorithm 2.1; Pedersen and Lindhøj 2018, eq. (2).
 */
#include "algo/weights.h"

tomos_status sirt_method(Iteration *it)
{
	const tomos_op *A = it->A;
	float *M = NULL, *T = NULL, *r, *y, *s;
	double lambda;
	TRY(iteration_vector(it, &r, it->Y, "the residual"));
	TRY(iteration_vector(it, &s, it->X, "the update"));
	y = r;
	if (weights_has_rays(weights_kind(it))) {
		TRY(iteration_vector(it, &M, it->Y, "weights of rays"));
		TRY(iteration_vector(it, &y, it->Y, "the weighted residual"));
		TRY(weights_rays(it, A, it->rays, M, s));
	}
	if (weights_has_voxels(weights_kind(it))) {
		TRY(iteration_vector(it, &T, it->X, "weights of voxels"));
		TRY(weights_voxels(it, A, it->rays, T, y));
	}
	TRY(weights_relaxation(it, A, M, &lambda));
	TRY(iteration_start(it));
	TRY(iteration_first_residual(it, M, r, y)); /* r = b - A x, y = M r */
	while (it->going) {
		TRY(iteration_keep(it, NULL));
		TRY(weights_update(it, A, lambda, T, y, s, it->x)); /* x += lambda T A' y */
		TRY(op_residual(A, it->x, it->b, M, r, y));
		TRY(iteration_iterated(it, r));
	}
	return TOMOS_OK;
}
