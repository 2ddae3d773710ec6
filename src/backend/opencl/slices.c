/* Voxel-driven back projection of in-slice rays; see slices.cl. */
#include <math.h>
#include <string.h>
#include "backend/opencl/slices.h"

/* As in slices.cl. */
enum { SIDE = 32, SLICES = 4, MOST_GROUPS = 65535 };

/* Most columns per pixel. Parallel rays: a group of 32 pixels then needs 31 times this plus two
 * columns; fans, which may use more columns, are limited by the accuracy of float. */
#define MOST_SLOPE 1.45
#define MOST_FAN_SLOPE 4.

typedef struct {
	cl_int s, a, b, sign;
	cl_long row;
} Slices;

static int64_t groups_of(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

static bool is_shallow(const ProjectRequest *what, const HatSlices *l)
{
	for (int64_t i = 0; i < what->count; i++) {
		const double *column = what->plan->views[what->first + i].column;
		if (!(fabs(column[l->a]) + fabs(column[l->b]) <= MOST_SLOPE))
			return false;
	}
	return true;
}

/* Columns per pixel at the steepest corner of the box. */
static double fan_slope(const ProjectRequest *what, const KernelView *k)
{
	double slope = 0;
	for (int corner = 0; corner < 4; corner++) {
		double x = (double)(corner & 1 ? what->box.high[0] : what->box.low[0] - 1);
		double y = (double)(corner & 2 ? what->box.high[1] : what->box.low[1] - 1);
		double depth = k->depth[0] * x + k->depth[1] * y + k->depth[3];
		double u = (k->column[0] * x + k->column[1] * y + k->column[3]) / depth;
		if (!(depth > 0))
			return HUGE_VAL;
		slope = fmax(slope, (fabs(k->column[0] - u * k->depth[0]) +
					    fabs(k->column[1] - u * k->depth[1])) /
					    depth);
	}
	return slope;
}

/* In-slice fans with the same rows in all views, or one fan beam in a single slice. */
static bool fans_apply(const ProjectRequest *what, HatSlices *l)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	*l = (HatSlices){.s = 2, .a = 0, .b = 1, .first = rays->all.row, .sign = rays->all.sign};
	if (plan->model.clamp || plan->model.nearest || !rays->same_rows)
		return false;
	for (int64_t i = 0; i < what->count; i++)
		if (!(fan_slope(what, &plan->views[what->first + i]) <= MOST_FAN_SLOPE))
			return false;
	return true;
}

bool slices_apply(const ProjectRequest *what, HatSlices *l)
{
	const Box *box = &what->box;
	if (what->plan->plain || what->kernel != KERNEL_voxel || what->direction != ADJOINT ||
		what->count == 0)
		return false;
	bool fans = what->plan->rays.source > TOMOS_PARALLEL;
	if (!(fans ? fans_apply(what, l) : hat_slices(what, l) && is_shallow(what, l)))
		return false;
	return groups_of(box->high[l->a] - box->low[l->a], SIDE) <= MOST_GROUPS &&
	       groups_of(box->high[l->b] - box->low[l->b], SIDE) <= MOST_GROUPS &&
	       groups_of(box->high[l->s] - box->low[l->s], SLICES) <= MOST_GROUPS;
}

tomos_status slices_run(
	tomos_backend *backend, const ProjectRequest *what, const HatSlices *l, cl_mem views)
{
	const KernelGrid grid = request_grid(what);
	OpenclPlace volume, projections;
	Slices slices = {l->s, l->a, l->b, l->sign, l->first};
	TRY(opencl_place(backend, what->volume, &volume));
	TRY(opencl_place(backend, what->projections, &projections));
	const OpenclArg args[] = {ARG(grid), ARG(what->plan->model), ARG(views), ARG(what->first),
		ARG(what->count), ARG_PLACE(volume), ARG_PLACE(projections), ARG(slices)};
	const int64_t items[3] = {grid.high[l->a] - grid.low[l->a],
		groups_of(grid.high[l->b] - grid.low[l->b], SIDE) * HIGH,
		groups_of(grid.high[l->s] - grid.low[l->s], SLICES)};
	return opencl_planes(backend,
		what->plan->rays.source > TOMOS_PARALLEL ? TASK_slices_fans_back
							 : TASK_slices_slices_back,
		items, args, COUNT(args));
}
