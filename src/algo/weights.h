/* The weights M of rays and T of voxels in x += lambda T A' M (b - A x). */
#ifndef TOMOS_ALGO_WEIGHTS_H
#define TOMOS_ALGO_WEIGHTS_H

#include "algo/iteration.h"

typedef enum {
	WEIGHTS_SIRT,
	WEIGHTS_CIMMINO,
	WEIGHTS_LANDWEBER,
	WEIGHTS_CAV,
	WEIGHTS_DROP
} WeightKind;

WeightKind weights_kind(const Iteration *it);
/* The weights M of the rays of A, which is the operator or a block of it. `rays`: ray weights of
 * the user, or NULL; `scratch` is a volume. */
tomos_status weights_rays(
	const Iteration *it, const tomos_op *A, const float *rays, float *M, float *scratch);
/* If weights_has_rays is false, all are 1. */
bool weights_has_rays(WeightKind kind);
/* Weights of the voxels that rays of A meet; `scratch` has the size of A's projections. If
 * weights_has_voxels is false, all are 1. */
bool weights_has_voxels(WeightKind kind);
tomos_status weights_voxels(
	const Iteration *it, const tomos_op *A, const float *rays, float *T, float *scratch);
/* The update with these weights as one fused step, which computes the voxel weights itself; false:
 * there is none. */
bool weights_step(const Iteration *it, const float *rays, double lambda, FusedUpdate *step);
/* x += lambda T A'y, fused if the operator supports it; `s` is a scratch volume; T NULL: ones. */
tomos_status weights_update(const Iteration *it, const tomos_op *A, double lambda, const float *T,
	const float *y, float *s, float *x);
/* The relaxation: the option, or if this is 0 a value that suits the weights; M NULL: ones. */
tomos_status weights_relaxation(
	const Iteration *it, const tomos_op *A, const float *M, double *lambda);

#endif
