/* A Gauss-Newton step on the motions of the views. */
#ifndef TOMOS_ALGO_ALIGN_STEP_H
#define TOMOS_ALGO_ALIGN_STEP_H

#include "op/op.h"

enum { MOTIONS = 3 }; /* along columns, along rows, roll */

/* Changes of motions, [view][count], with which the residual of the volume x is least, where the
 * volume may change as well. `directions` are the poses of unit motions, [view][6][count]. */
tomos_status align_step(const tomos_op *A, const float *x, const float *residual,
	const double *directions, int count, int64_t iterations, double *steps);

#endif
