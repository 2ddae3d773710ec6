/* Sweeps over blocks of views, each an update like SIRT's: what block, sart and asd-pocs share. */
#ifndef TOMOS_ALGO_BLOCKS_H
#define TOMOS_ALGO_BLOCKS_H

#include "algo/weights.h"

typedef struct {
	float *b, *M, *r; /* in the order of the blocks: data, weights, residual when met */
	float *rays;      /* square roots of the caller's weights, or NULL */
	float *y, *s, *T; /* scratch: of the largest block, of the volume */
	float **columns;  /* weights of voxels, one volume per block as far as memory allows */
	double lambda;
	bool momentum;
	float *z; /* the volume and its momentum */
	double t;
} Blocks;

/* Blocks as --order and --seed say. */
tomos_status blocks_make(Iteration *it, Blocks *blocks, int64_t count, bool momentum);
tomos_status blocks_sweep(Iteration *it, Blocks *blocks);
void blocks_free(Blocks *blocks);
/* The run's subsets and the data in their order. */
tomos_status blocks_arrange(Iteration *it, Blocks *blocks, int64_t count);
/* Where the voxel weights of block i are, and whether they must be computed: as many are kept as
 * `cache` of the iteration allows. */
tomos_status blocks_voxels(Iteration *it, Blocks *blocks, int64_t i, float **T, bool *fresh);
/* From --blocks. */
int64_t blocks_count(const Iteration *it);

#endif
