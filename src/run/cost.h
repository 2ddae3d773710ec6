/* The expected cost of a run over ranks, and the rates it is expected from. */
#ifndef TOMOS_RUN_COST_H
#define TOMOS_RUN_COST_H

#include "run/run_parts.h"

/* What the model needs to know of a run besides its geometry. */
typedef struct {
	double row_bytes;   /* of a row of the scan in all frames, as stored */
	double voxel_bytes; /* of the output */
	int64_t groups;     /* ranks that share a slab */
	int64_t thickest;   /* slab that memory allows; 0: any */
} CostBytes;

/* The cost of `run`, of which grid, slices, geometry and method are used. */
tomos_status cost_of(const FileRun *run, const CostBytes *bytes, const tomos_rates *rates,
	int64_t ranks, tomos_cost *cost);

/* Measures the rates of this run on this machine, in a few seconds. */
tomos_status rates_measure(FileRun *run, tomos_rates *rates);
/* A name for the rays of the scan, as in tomos_tuned. */
const char *rates_rays(const FileRun *run);

/* Slabs and memory of the rank that has most slices. */
tomos_status cost_plan(FileRun *run);
/* Ranks that share the memory in which they compute: those of a node, if they have no devices. */
int64_t rates_near(const tomos_rates *rates);
/* Dry run with `ranks`: decomposition, memory, bytes, time by stage, and where it stops scaling. */
tomos_status cost_say(FileRun *run);

#endif
