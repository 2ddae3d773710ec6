/* Sweeps of Kaczmarz's method on devices: matrix rows are listed in device memory, in batches. */
#ifndef TOMOS_OP_SWEEP_H
#define TOMOS_OP_SWEEP_H

#include "op/subset.h"

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
tomos_status sweep_run(const Sweep *sweep, const KernelKaczmarz *kaczmarz);

/* Sweeps one view at a time, for methods without bounds on voxels: the result equals that of one
 * ray after the other up to rounding. */
typedef struct {
	const Subsets *views;  /* each view is a block of its own */
	int64_t neighbours;    /* rays on either side of a ray that may share voxels with it */
	float *products;       /* [view][ray modulo 2 neighbours + 1][ray] */
	float *steps, *update; /* steps of the rays of a view; update of the volume */
} ViewSweep;

bool view_sweep_can(const tomos_op *op);
tomos_status view_sweep_open(ViewSweep *sweep, const Subsets *views);
void view_sweep_close(ViewSweep *sweep);
tomos_status view_sweep_run(const ViewSweep *s, const KernelKaczmarz *v);

#endif
