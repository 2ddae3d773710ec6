/* Sweeps of Kaczmarz's method on backends that list rows in memory of their own. */
#ifndef SWEEP_H
#define SWEEP_H

#include "op/op.h"

typedef struct {
	const tomos_op *op;
	KernelBatch batch;
	int64_t *order; /* of all rays */
} Sweep;

/* For operators of which op_lists is true and row_most is not 0. */
tomos_status sweep_open(Sweep *sweep, const tomos_op *op);
void sweep_close(Sweep *sweep);
/* The order of the rays from now on. */
tomos_status sweep_order(const Sweep *sweep, const int64_t *rays);
tomos_status sweep_run(const Sweep *sweep, const KernelVisits *visits);

#endif
