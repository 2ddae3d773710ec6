/* Slabs that several ranks share: sums over the ranks, and slices from their owners. Ranks on one
 * machine read them in each other's memory, others send messages. */
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

/* ---- by messages ---------------------------------------------------------------------------- */

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

/* ---- through shared memory ------------------------------------------------------------------ */

/* The first member has space for the slab that is gathered, behind that of its own. */
tomos_status slab_share(SlabGroup *g, int64_t floats)
{
	int64_t bytes = floats * (int64_t)sizeof(float) * (slab_member(g) == 0 ? 2 : 1);
	return g->ranks > 1 ? comm_share(g->comm, g->ranks, bytes, &g->shared) : TOMOS_OK;
}

void slab_unshare(SlabGroup *g)
{
	comm_share_free(g->shared);
	g->shared = NULL;
}

bool slab_direct(const SlabGroup *g)
{
	return g->shared && g->inner->device == 0;
}

float *slab_output(const SlabGroup *g)
{
	return g->shared->parts[slab_member(g)].data;
}

float *slab_input(const SlabGroup *g)
{
	const CommPart *first = &g->shared->parts[0];
	return (float *)first->data + first->bytes / 2 / (int64_t)sizeof(float);
}

static bool is_shared(const SlabGroup *g, const int64_t *edges)
{
	int64_t bytes = edges[g->ranks] * g->slice * (int64_t)sizeof(float);
	return g->shared && 2 * bytes <= g->shared->parts[0].bytes;
}

enum { BLOCK = 4096 }; /* floats that stay in the L1 cache */

typedef struct {
	const SlabGroup *group;
	int64_t first, count; /* floats of this member's slices */
} Addition;

static void add_block(void *user, int64_t index)
{
	const Addition *a = user;
	const CommPart *parts = a->group->shared->parts;
	int64_t first = a->first + index * BLOCK;
	int64_t count = min64(BLOCK, a->first + a->count - first);
	float sum[BLOCK] = {0};
	for (int k = 0; k < a->group->ranks; k++) {
		const float *part = (const float *)parts[k].data + first;
		for (int64_t i = 0; i < count; i++)
			sum[i] += part[i];
	}
	memcpy(slab_output(a->group) + first, sum, (size_t)count * sizeof *sum);
}

/* As many bytes as messages would have had. */
static void count_bytes(const SlabGroup *g, int64_t floats)
{
	g->comm->shared += (double)floats * sizeof(float);
}

void slab_count_gathered(const SlabGroup *g, int64_t own)
{
	count_bytes(g, own * (g->ranks - 1));
}

void slab_count_summed(const SlabGroup *g, const int64_t *edges)
{
	int member = slab_member(g);
	int64_t own = edges[member + 1] - edges[member];
	count_bytes(g, (edges[g->ranks] - own) * g->slice);
}

static tomos_status sum_shared(const SlabGroup *g, const int64_t *edges, float *slab)
{
	const Slices own = slices_of(g, edges, slab_member(g), slab);
	int64_t all = edges[g->ranks] * g->slice;
	Addition what = {g, edges[slab_member(g)] * g->slice, own.count};
	if (slab != slab_output(g))
		TRY(host_copy(g->inner, slab, slab_output(g), all, true));
	slab_count_summed(g, edges);
	TRY(comm_wait(g->comm));
	parallel_for((own.count + BLOCK - 1) / BLOCK, add_block, &what);
	if (slab != slab_output(g) && own.count > 0)
		TRY(host_copy(g->inner, own.data, slab_output(g) + what.first, own.count, false));
	return comm_wait(g->comm); /* until then others read what the next slab will overwrite */
}

static tomos_status gather_shared(
	const SlabGroup *g, const int64_t *edges, const float *own, float *slab)
{
	const Slices place = slices_of(g, edges, slab_member(g), slab_input(g));
	TRY(comm_wait(g->comm)); /* until then others read the slab that was gathered before */
	TRY(host_copy(g->inner, (float *)(uintptr_t)own, place.data, place.count, true));
	slab_count_gathered(g, place.count);
	TRY(comm_wait(g->comm));
	if (slab == slab_input(g))
		return TOMOS_OK;
	return host_copy(g->inner, slab, slab_input(g), edges[g->ranks] * g->slice, false);
}

/* ---- both ----------------------------------------------------------------------------------- */

tomos_status slab_sum(const SlabGroup *g, const int64_t *edges, float *slab)
{
	if (g->ranks == 1)
		return TOMOS_OK;
	TRY(g->inner->type->memory->sync(g->inner));
	return is_shared(g, edges) ? sum_shared(g, edges, slab) : with_memory(g, edges, slab, true);
}

tomos_status slab_gather(const SlabGroup *g, const int64_t *edges, const float *own, float *slab)
{
	const Slices place = slices_of(g, edges, slab_member(g), slab);
	if (g->ranks == 1)
		return TOMOS_OK;
	TRY(g->inner->type->memory->sync(g->inner));
	if (is_shared(g, edges))
		return gather_shared(g, edges, own, slab);
	if (own != place.data)
		TRY(g->inner->type->vector->copy(g->inner, place.count, own, place.data));
	return with_memory(g, edges, slab, false);
}
