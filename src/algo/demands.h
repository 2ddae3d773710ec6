/* Requirements of an iterative method for a run in slabs: memory, and which slices must be in the
 * same slab. */
#ifndef TOMOS_ALGO_DEMANDS_H
#define TOMOS_ALGO_DEMANDS_H

#include "op/op.h"

/* What a method shares between slices with in-slice rays: nothing, sums over all of them, or
 * differences of neighbours. */
typedef enum { COUPLING_NOT, COUPLING_SUMS, COUPLING_DIFFERENCES } Coupling;

/* A method with its options. Mask and ray weights are separate, as a run reads them from files. */
typedef struct {
	const char *method; /* one of tomos_method_names() */
	const tomos_algebraic_options *o;
	bool mask, rays, truth;
} Demand;

Coupling demand_coupling(const Demand *demand);
/* Upper bounds of the number of vectors that are allocated, of the size of the volume and of the
 * projections, besides x, b and the arrays in the options. */
void demand_vectors(const Demand *demand, double *volumes, double *projections);

/* Whether projections may be stored in the form of op/normal.c, as twice the volume each. */
bool demand_normal(const Demand *demand);

/* tomos_reconstruct for a part of a volume. */
typedef struct {
	int64_t cache; /* floats that may be kept only to save time */
	bool part;     /* errors are absolute where the truth is 0 in all of it */
} Within;
tomos_status reconstruct_within(const tomos_op *op, const char *method, const tomos_array *b,
	const tomos_array *x, const tomos_algebraic_options *options, const Within *within,
	const tomos_progress *progress);

#endif
