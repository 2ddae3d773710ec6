/* A Gauss-Newton step on the motions of the views. */
#ifndef TOMOS_ALGO_ALIGN_STEP_H
#define TOMOS_ALGO_ALIGN_STEP_H

#include "op/op.h"

enum { MOTIONS = 3 }; /* along columns, along rows, roll */

/* Changes of motions, [view][count], with which the residual of the volume x = S z is least, where
 * z may change as well: it becomes what belongs to them. P is the projector, A = P S; `directions`
 * are the poses of unit motions, [view][6][count]. */
tomos_status align_step(const tomos_op *P, const tomos_op *A, const float *x, const float *residual,
	const double *directions, int count, int64_t iterations, float *z, double *steps);

/* 1 where a ray passes nothing but air, else 0, of projections without gaps in memory. */
tomos_status align_air(const tomos_array *data, float *air);
/* The voxels that hardly any view sees through air only: 1, the others 0. */
tomos_status align_mask(const tomos_op *P, const tomos_array *air, float *mask);

/* Smooths views without gaps in memory: (1, 2, 1) / 4 along rows and columns. */
void align_smooth(const tomos_array *views);
/* Takes the blur of smoothed projections out of z: that of S, on voxels half as wide as pixels,
 * twice. */
tomos_status align_sharpen(const tomos_op *S, const float *z, float *sharp);

#endif
