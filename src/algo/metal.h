/* Metal artefact reduction for filtered back projection: replaces the line integrals of rays
 * through metal. */
#ifndef TOMOS_ALGO_METAL_H
#define TOMOS_ALGO_METAL_H

#include "op/op.h"

typedef struct Metal Metal;

tomos_status metal_open(Metal **metal, const char *method, tomos_backend *backend,
	const tomos_geometry *scan, const tomos_analytic_options *options);
void metal_close(Metal *metal);
/* Corrects all line integrals of the scan, [view][row][column] in host memory, in place. */
tomos_status metal_reduce(Metal *metal, float *p);
/* What was found so far. */
typedef struct {
	double voxels, metal; /* of these */
	double low, high;     /* the thresholds, which slices have of their own */
} MetalFound;
/* Adds what metal_reduce found the last time. */
void metal_add_found(const Metal *metal, MetalFound *sum);
/* Puts the values of `plain` where metal was found. Both are volumes of the grid, in host
 * memory. */
void metal_insert(const Metal *metal, const tomos_grid *grid, const float *plain, float *volume);
/* Bytes that it allocates for such a scan. */
double metal_bytes(const tomos_geometry *scan);

#endif
