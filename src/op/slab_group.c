/* Slabs that several ranks share: sums over the ranks, and slices from their owners. */
#include <string.h>
#include "op/slab_group.h"

tomos_status host_copy(tomos_backend *inner, float *data, float *host, int64_t count, bool down)
{
	const tomos_array array = tomos_array_of(host, 1, 1, count);
	const BackendMemory *memory = inner->type->memory;
	if (inner->device != 0)
		return down ? memory->download(inner, data, &array)
			    : memory->upload(inner, data, &array);
	memcpy(down ? host : data, down ? data : host, (size_t)count * sizeof *host);
	return TOMOS_OK;
}

/* Slices for, or from, a member. */
typedef struct {
	int member;
	float *data; /* in the memory of the backend */
	int64_t count;
} Slices;

/* host: memory for both, where that of the backend is not the host's, or NULL. */
static tomos_status trade(const SlabGroup *g, const Slices *out, const Slices *in, float *host)
{
	int first = slab_number(g) * g->ranks;
	float *to = host ? host : out->data, *from = host ? host + out->count : in->data;
	CommMessage list[2];
	int64_t count = 0;
	if (host && out->count > 0)
		TRY(host_copy(g->inner, out->data, to, out->count, true));
	if (in->count > 0)
		list[count++] = (CommMessage){
			first + in->member, false, from, in->count * (int64_t)sizeof *from};
	if (out->count > 0)
		list[count++] = (CommMessage){
			first + out->member, true, to, out->count * (int64_t)sizeof *to};
	TRY(comm_exchange(g->comm, list, count));
	return host && in->count > 0 ? host_copy(g->inner, in->data, from, in->count, false)
				     : TOMOS_OK;
}

static Slices slices_of(const SlabGroup *g, const int64_t *edges, int member, float *slab)
{
	return (Slices){member, slab + edges[member] * g->slice,
		(edges[member + 1] - edges[member]) * g->slice};
}

/* In step k every rank sends to the k-th after it, so that no two send to the same one. `received`:
 * where slices of this rank arrive that are to be added; NULL: slices arrive in their places. */
static tomos_status trade_all(
	const SlabGroup *g, const int64_t *edges, float *slab, float *host, float *received)
{
	int me = slab_member(g);
	const Slices own = slices_of(g, edges, me, slab);
	for (int k = 1; k < g->ranks; k++) {
		int next = (me + k) % g->ranks, last = (me + g->ranks - k) % g->ranks;
		Slices out = received ? slices_of(g, edges, next, slab) : own;
		Slices in = received ? own : slices_of(g, edges, last, slab);
		out.member = next;
		in.member = last;
		in.data = received ? received : in.data;
		TRY(trade(g, &out, &in, host));
		if (received && own.count > 0)
			TRY(g->inner->type->vector->axpy(
				g->inner, own.count, 1, received, own.data));
	}
	return TOMOS_OK;
}

static tomos_status with_memory(const SlabGroup *g, const int64_t *edges, float *slab, bool adding)
{
	const BackendMemory *memory = g->inner->type->memory;
	float *host = NULL, *received = NULL;
	int64_t most = 1;
	tomos_status status;
	for (int k = 0; k < g->ranks; k++)
		most = max64(most, (edges[k + 1] - edges[k]) * g->slice);
	TRY_OR_DONE(memory->sync(g->inner));
	if (g->inner->device != 0)
		TRY_OR_DONE(mem_alloc(&host, 2 * most, sizeof *host, "slices of other ranks"));
	if (adding)
		TRY_OR_DONE(memory->alloc(g->inner, &received, most, "slices of other ranks"));
	TRY_OR_DONE(trade_all(g, edges, slab, host, received));
done:
	mem_free(host);
	if (received)
		memory->release(g->inner, received);
	return status;
}

tomos_status slab_sum(const SlabGroup *g, const int64_t *edges, float *slab)
{
	return g->ranks > 1 ? with_memory(g, edges, slab, true) : TOMOS_OK;
}

tomos_status slab_gather(const SlabGroup *g, const int64_t *edges, float *slab)
{
	return g->ranks > 1 ? with_memory(g, edges, slab, false) : TOMOS_OK;
}
