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
	CommShared *shared;   /* host memory for slabs; NULL: the members send messages */
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

/* Shared memory for slabs of up to `floats` floats, where the members of all slabs are on one
 * machine each. Slabs that are larger are sent. */
tomos_status slab_share(SlabGroup *group, int64_t floats);
void slab_unshare(SlabGroup *group);
/* Whether slabs of the backend are in shared memory, so that nothing is copied: slab_gather has its
 * result in slab_input, and slab_sum takes slab_output. */
bool slab_direct(const SlabGroup *group);
float *slab_input(const SlabGroup *group);
float *slab_output(const SlabGroup *group);

/* Member k owns slices [edges[k], edges[k + 1]) of the slab. Those of this rank become the sum of
 * all members' (a reduce-scatter: the slices of the others are sent or read once), in an order that
 * does not change; its other slices are then not defined. */
tomos_status slab_sum(const SlabGroup *group, const int64_t *edges, float *slab);
/* The whole slab, of which this rank has its slices `own`. */
tomos_status slab_gather(
	const SlabGroup *group, const int64_t *edges, const float *own, float *slab);
/* Counts what slab_gather and slab_sum would read, for ranks that do without them. */
void slab_count_gathered(const SlabGroup *group, int64_t own);
void slab_count_summed(const SlabGroup *group, const int64_t *edges);
/* Floats between the memory of the backend and that of the host. */
tomos_status host_copy(tomos_backend *inner, float *data, float *host, int64_t count, bool down);

#endif
