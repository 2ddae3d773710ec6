/* Ranks that share a slab of the volume and divide the views: each computes the whole slab from its
 * views, and owns some of its slices. */
#ifndef TOMOS_OP_SLAB_GROUP_H
#define TOMOS_OP_SLAB_GROUP_H

#include "backend/backend.h"
#include "comm/comm.h"

typedef struct {
	tomos_comm *comm;
	tomos_backend *inner; /* the slab is in its memory */
	int ranks;            /* of each slab; they follow each other */
	int64_t slice;        /* floats of a slice */
} SlabGroup;

/* The number of this rank's slab, and of this rank within it. */
static inline int slab_number(const SlabGroup *g)
{
	return comm_rank(g->comm) / g->ranks;
}

static inline int slab_member(const SlabGroup *g)
{
	return comm_rank(g->comm) % g->ranks;
}

/* Member k owns slices [edges[k], edges[k + 1]) of the slab. Those of this rank become the sum of
 * all members' (a reduce-scatter: every rank sends the slices of the others once), in an order that
 * does not change; its other slices are then not defined. */
tomos_status slab_sum(const SlabGroup *group, const int64_t *edges, float *slab);
/* The slices of the other members, from their owners. */
tomos_status slab_gather(const SlabGroup *group, const int64_t *edges, float *slab);
/* Floats between the memory of the backend and that of the host. */
tomos_status host_copy(tomos_backend *inner, float *data, float *host, int64_t count, bool down);

#endif
