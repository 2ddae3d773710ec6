/* Projections of ranks that share the only slab, in memory of all of them. Every rank puts its
 * slices, or its rows, there; then they compute the loops of one projection of all views together,
 * as the threads of one process would, and each takes its part of the result. Nothing is computed
 * or stored once for each rank, and nothing is summed over them.
 */
#include "op/ranked_parts.h"

/* Floats of arrays in shared memory: whole pages, and one between two of them, as kernels read a
 * little beyond the end. */
enum { PAGE = 1024 };

static int64_t paged(int64_t floats)
{
	return (floats + PAGE - 1) / PAGE * PAGE + PAGE;
}

static void look(void *comm)
{
	comm_look(comm);
}

static int64_t needed_floats(tomos_backend *inner, const ProjectRequest *what)
{
	const BackendProjector *projector = inner->type->projector;
	return projector->team_floats ? projector->team_floats(inner, what) : 0;
}

/* The scratch memory of both directions; 0: their kernels are not those of several processes. */
static int64_t scratch_floats(tomos_backend *inner, const ProjectRequest requests[2])
{
	int64_t forward = needed_floats(inner, &requests[0]);
	int64_t back = needed_floats(inner, &requests[1]);
	return forward == 0 || back == 0 ? 0 : max64(forward, back);
}

/* The same on all ranks; 0: they do not agree. */
static tomos_status agree_floats(tomos_comm *comm, int64_t *floats)
{
	double ends[2] = {(double)*floats, -(double)*floats};
	TRY(comm_largest(comm, ends, 2));
	*floats = ends[0] == -ends[1] ? *floats : 0;
	return TOMOS_OK;
}

tomos_status team_open(TeamProjector *t, const SlabGroup *g, const ProjectRequest requests[2])
{
	const Plan *plan = requests[0].plan;
	const Box *box = &requests[0].box;
	int64_t volume = paged((box->high[2] - box->low[2]) * g->slice);
	int64_t rays = paged(plan->scan->count * plan->scan->rows * plan->scan->columns);
	int64_t scratch = g->inner->device == 0 ? scratch_floats(g->inner, requests) : 0;
	TRY(agree_floats(g->comm, &scratch));
	if (scratch == 0)
		return TOMOS_OK;
	int64_t all = PAGE + volume + rays + paged(scratch);
	int64_t mine = slab_member(g) == 0 ? all : 1;
	TRY(comm_share(g->comm, g->ranks, mine * (int64_t)sizeof(float), &t->shared));
	if (!t->shared)
		return TOMOS_OK;
	float *data = t->shared->parts[0].data;
	t->team = (Team){.members = g->ranks,
		.state = (TeamState *)(void *)data,
		.scratch = data + PAGE + volume + rays,
		.floats = scratch,
		.idle = look,
		.user = g->comm};
	t->volume = data + PAGE;
	t->projections = t->volume + volume;
	return TOMOS_OK;
}

void team_close(TeamProjector *t)
{
	comm_share_free(t->shared);
	t->shared = NULL;
}

tomos_status team_put(
	const TeamProjector *t, const SlabGroup *g, const float *own, int64_t count, float *place)
{
	TRY(g->inner->type->vector->copy(g->inner, count, own, place));
	team_wait(&t->team);
	return TOMOS_OK;
}

bool team_can(const TeamProjector *t, const SlabGroup *g, const ProjectRequest *what)
{
	int64_t floats = needed_floats(g->inner, what);
	return floats > 0 && floats <= t->team.floats;
}

tomos_status team_project(
	const TeamProjector *t, const SlabGroup *g, const ProjectRequest *what, int power)
{
	ProjectRequest all = *what;
	all.volume = t->volume;
	all.projections = t->projections;
	team_enter(&t->team);
	tomos_status status = project_power(g->inner, &all, power);
	team_leave();
	return status;
}
