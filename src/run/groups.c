/* Ranks that share a slab and divide its views: how many, which views, and the sum of what they
 * compute. */
#include <string.h>
#include "run/run_parts.h"

/* With more slabs, or thinner ones, ranks exchange and filter the same detector rows too often. */
enum { MOST_SLABS = 16, THINNEST = 8 };

/* Why every rank needs all views; NULL: it does not. */
static const char *why_all_views(const FileRun *r)
{
	const tomos_job *job = r->job;
	if (r->stacked)
		return "ranks divide the slices, each of which has detector rows of its own";
	if (r->metal)
		return "metal is found from all views";
	if (r->iterates && tomos_method_uses(r->method, "order"))
		return "each of its updates is computed from some of the views";
	if (job->stored || (job->matrix && job->matrix[0]))
		return "the stored matrix is that of all views";
	return NULL;
}

/* Groups by which at most MOST_SLABS slabs of THINNEST slices or more remain; 1: there are none. */
static int64_t least_groups(const FileRun *r, int64_t ranks)
{
	int64_t useful = min64(MOST_SLABS, max64(1, r->slices / THINNEST)), slabs = useful;
	if (ranks <= useful)
		return 1;
	while (ranks % slabs != 0)
		slabs--;
	/* A number of ranks with few divisors would leave slabs that are much thicker. */
	return 2 * slabs >= useful ? ranks / slabs : 1;
}

/* Time of an iteration of a rank, in voxel updates for each voxel of a slice. A slab takes as long
 * as if it had 64 slices more, and a float of another rank as long as 4 updates
 * (doc/lab-notes.md). */
static double iteration_cost(const FileRun *r, int64_t ranks, int64_t groups)
{
	double slices = (double)(r->slices * groups) / (double)ranks;
	double views = (double)r->prepared->geometry->count / (double)groups;
	double moved = 2 * slices * (1 - 1 / (double)groups); /* slices gathered, and summed */
	return 2 * views * (slices + 64) + 4 * moved;
}

/* Ranks that share memory have thick slabs, as long as these are a small part of it and memory is
 * not limited: they need more. */
static int64_t best_groups(const FileRun *r, int64_t ranks, int64_t least)
{
	double slice = (double)r->grid.n[0] * (double)r->grid.n[1] * sizeof(float);
	int64_t best = least, most = min64(ranks, r->prepared->geometry->count);
	for (int64_t g = least + 1; g <= min64(most, r->near); g++)
		if (ranks % g == 0 && r->near % g == 0 &&
			4 * slice * (double)(r->slices * g) / (double)ranks <= r->least_memory &&
			iteration_cost(r, ranks, g) < iteration_cost(r, ranks, best))
			best = g;
	return best;
}

tomos_status run_view_groups(const FileRun *r, int64_t ranks, int64_t *groups)
{
	const char *why = why_all_views(r);
	int64_t asked = r->options.view_groups, views = r->prepared->geometry->count;
	*groups = max64(1, asked);
	if (asked > 1 && why)
		return fail(TOMOS_UNSUPPORTED, "%lld view groups are not possible with %s: %s",
			(long long)asked, r->method, why);
	if (asked > 0 && (ranks % asked != 0 || asked > views))
		return fail(TOMOS_BAD_VALUE,
			"%lld view groups: the number must divide that of the ranks, %lld, and not "
			"exceed that of the views, %lld",
			(long long)asked, (long long)ranks, (long long)views);
	if (asked > 0 || why)
		return TOMOS_OK;
	int64_t least = least_groups(r, ranks);
	least = least <= views ? least : 1;
	*groups = r->iterates && r->options.memory <= 0 ? best_groups(r, ranks, least) : least;
	return TOMOS_OK;
}

tomos_status run_take_views(FileRun *r, int64_t group, int64_t groups)
{
	int64_t views = r->whole->geometry->count, first = views * group / groups;
	if (groups == 1)
		return TOMOS_OK;
	TRY(prepared_part(&r->part, r->whole, first, views * (group + 1) / groups - first));
	r->prepared = &r->part;
	return TOMOS_OK;
}

void run_all_views(FileRun *r)
{
	if (r->prepared == &r->part)
		prepared_part_free(&r->part);
	r->prepared = r->whole;
}

/* Which slices of a slab each of the ranks that share it owns. For a trial, which all of them look
 * at, the slices are divided evenly. */
static void find_edges(const FileRun *r, const Slab *slab, int64_t *edges)
{
	int count = r->group.ranks;
	const int64_t *own = r->bands.slices + slab_number(&r->group) * count;
	for (int i = 0; i <= count; i++)
		edges[i] = r->iterative.probing
				   ? slab->count * i / count
				   : max64(0, min64(slab->count, own[i] - slab->first));
}

tomos_status run_sum_views(FileRun *r, const Slab *slab, float *volume)
{
	double sent = r->comm ? r->comm->sent : 0;
	int64_t *edges, member = slab_member(&r->group);
	if (r->group.ranks == 1 || r->iterates)
		return TOMOS_OK;
	TRY(mem_alloc(&edges, r->group.ranks + 1, sizeof *edges, "slices of ranks"));
	find_edges(r, slab, edges);
	tomos_status status = slab_sum(&r->group, edges, volume);
	if (status == TOMOS_OK && r->iterative.probing) {
		status = slab_gather(
			&r->group, edges, volume + edges[member] * r->group.slice, volume);
		r->comm->sent = sent; /* what is counted is the cost of the method */
	}
	mem_free(edges);
	return status;
}

Share slab_own(const FileRun *r, const Slab *slab)
{
	int64_t first = max64(slab->first, r->own_share.first);
	int64_t end = min64(slab->first + slab->count, r->own_share.first + r->own_share.count);
	return (Share){first, max64(0, end - first)};
}

/* The others would wait for its sums. */
tomos_status run_end_all(const FileRun *r, tomos_status status)
{
	if (status != TOMOS_OK && r->group.ranks > 1 && !r->iterates)
		tomos_comm_abort(r->comm, 1);
	return status;
}

tomos_status run_same_slabs(FileRun *r)
{
	double pieces = (double)r->slab_count;
	if (r->group.ranks == 1 || r->iterates)
		return TOMOS_OK;
	TRY(comm_largest(r->comm, &pieces, 1));
	return run_cut(r, (int64_t)pieces);
}
