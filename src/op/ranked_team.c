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

/* Of all views. */
static ProjectRequest request(const TeamProjector *t, Direction direction)
{
	return (ProjectRequest){.plan = &t->plan,
		.kernel = t->kernels[direction],
		.direction = direction,
		.box = t->box,
		.count = t->plan.scan->count,
		.volume = t->volume,
		.projections = t->projections,
		.overwrite = true};
}

/* Of row sums: as in one process (projector.c), views a quarter turn apart have the same. */
static ProjectRequest sums_request(const TeamProjector *t)
{
	ProjectRequest what = request(t, FORWARD), quarter = what;
	quarter.count /= 4;
	if (t->plan.rays.quarter == 0 || t->plan.rays.source != TOMOS_POINT ||
		needed_floats(t->group.inner, &quarter) == 0)
		return what;
	return quarter;
}

/* The scratch memory of all requests, the same on all ranks; 0: their kernels are not those of
 * several processes. */
static tomos_status scratch_floats(const TeamProjector *t, int64_t *floats)
{
	tomos_backend *inner = t->group.inner;
	const ProjectRequest all[3] = {request(t, FORWARD), request(t, ADJOINT), sums_request(t)};
	int64_t forward = needed_floats(inner, &all[0]), back = needed_floats(inner, &all[1]);
	int64_t mine = max64(max64(forward, back), needed_floats(inner, &all[2]));
	if (forward == 0 || back == 0 || inner->device != 0)
		mine = 0;
	double ends[2] = {(double)mine, -(double)mine};
	TRY(comm_largest(t->group.comm, ends, 2));
	*floats = ends[0] == -ends[1] ? mine : 0;
	return TOMOS_OK;
}

/* The first member has all memory. */
static tomos_status share(TeamProjector *t)
{
	const SlabGroup *g = &t->group;
	const tomos_geometry *scan = t->plan.scan;
	int64_t volume = paged((t->box.high[2] - t->box.low[2]) * g->slice);
	int64_t rays = paged(scan->count * scan->rows * scan->columns), scratch = 0;
	TRY(scratch_floats(t, &scratch));
	if (scratch == 0)
		return TOMOS_OK;
	int64_t all = slab_member(g) == 0 ? PAGE + volume + rays + paged(scratch) : 0;
	TRY(comm_share(g->comm, g->ranks, all * (int64_t)sizeof(float), &t->shared));
	if (!t->shared)
		return TOMOS_OK;
	float *data = t->shared->parts[0].data;
	t->volume = data + PAGE;
	t->projections = t->volume + volume;
	t->team = (Team){.members = g->ranks,
		.state = (TeamState *)(void *)data,
		.scratch = t->projections + rays,
		.floats = scratch,
		.idle = look,
		.user = g->comm};
	return TOMOS_OK;
}

tomos_status team_open(TeamProjector *t, const Bands *b, const KernelModel *model, bool plain)
{
	if (b->groups == 1 || b->slabs > 1 || !b->all)
		return TOMOS_OK;
	TRY(plan_make(&t->plan, b->grid, b->all, model));
	t->plan.plain = plain;
	t->view = b->first_view;
	tomos_status status = share(t);
	if (!t->shared)
		plan_free(&t->plan);
	return status;
}

void team_close(TeamProjector *t)
{
	comm_share_free(t->shared);
	t->shared = NULL;
	plan_free(&t->plan);
}

/* ---- projection ----------------------------------------------------------------------------- */

static tomos_status copy(const TeamProjector *t, int64_t count, const float *from, float *to)
{
	return t->group.inner->type->vector->copy(t->group.inner, count, from, to);
}

static float *own_slices(const TeamProjector *t)
{
	return t->volume + t->edges[slab_member(&t->group)] * t->group.slice;
}

/* What all ranks have put into shared memory, they project. */
static tomos_status project(const TeamProjector *t, const ProjectRequest *what, int power)
{
	team_wait(&t->team);
	team_enter(&t->team);
	tomos_status status = project_power(t->group.inner, what, power);
	team_leave();
	return status;
}

static tomos_status project_slices(const TeamProjector *t, const tomos_op *op,
	const ProjectRequest *what, int power, const float *x)
{
	slab_count_gathered(&t->group, op->domain.count);
	TRY(copy(t, op->domain.count, x, own_slices(t)));
	return project(t, what, power);
}

tomos_status team_forward(
	const TeamProjector *t, const tomos_op *op, int power, const float *x, float *y)
{
	const ProjectRequest what = request(t, FORWARD);
	int64_t image = op->range.shape[1] * op->range.shape[2];
	TRY(project_slices(t, op, &what, power, x));
	return copy(t, op->range.count, t->projections + t->view * image, y);
}

tomos_status team_adjoint(
	const TeamProjector *t, const tomos_op *op, int power, const float *y, float *x)
{
	const ProjectRequest what = request(t, ADJOINT);
	int64_t image = op->range.shape[1] * op->range.shape[2];
	slab_count_summed(&t->group, t->edges);
	TRY(copy(t, op->range.count, y, t->projections + t->view * image));
	TRY(project(t, &what, power));
	return copy(t, op->domain.count, own_slices(t), x);
}

tomos_status team_row_sums(const TeamProjector *t, const tomos_op *op, const float *x, float *y)
{
	const ProjectRequest what = sums_request(t);
	int64_t image = op->range.shape[1] * op->range.shape[2];
	TRY(project_slices(t, op, &what, 1, x));
	tomos_status status = TOMOS_OK;
	for (int64_t i = 0; i < op->range.shape[0] && status == TOMOS_OK; i++)
		status = copy(t, image, t->projections + (t->view + i) % what.count * image,
			y + i * image);
	team_wait(&t->team); /* before a rank overwrites views that others still copy */
	return status;
}
