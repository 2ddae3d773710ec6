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
/* Of the rays of A, the run's operator or a block of it, whose weights are `rays`; `scratch` is a
 * volume. */
tomos_status weights_rays(
	const Iteration *it, const tomos_op *A, const float *rays, float *M, float *scratch);
/* Of the voxels, which A's rays meet; `scratch` is of A's projections. False from
 * weights_has_voxels: all 1. */
bool weights_has_voxels(WeightKind kind);
tomos_status weights_voxels(
	const Iteration *it, const tomos_op *A, const float *rays, float *T, float *scratch);
/* The update with these weights as one step, which makes those of voxels itself; false: not so. */
bool weights_step(const Iteration *it, const float *rays, double lambda, FusedUpdate *step);
/* x += lambda T A'y, in one pass where the operator can; `s` is a volume for scratch, T NULL: ones.
 * */
tomos_status weights_update(const Iteration *it, const tomos_op *A, double lambda, const float *T,
	const float *y, float *s, float *x);
/* The relaxation: the option, or if this is 0 a value that suits the weights. */
tomos_status weights_relaxation(
	const Iteration *it, const tomos_op *A, const float *M, double *lambda);

#endif
