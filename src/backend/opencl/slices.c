/* Voxel-driven back projection where rays stay in slices; see slices.cl. */
#include <math.h>
#include <string.h>
#include "backend/opencl/slices.h"

/* As slices.cl has them. */
enum { SIDE = 32, COLUMNS = 48, SLICES = 4, MOST_GROUPS = 65535 };

/* The columns of a group: 31 of this and two more. */
#define MOST_SLOPE 1.45

typedef struct {
	cl_int s, a, b, sign;
	cl_long row;
} Slices;

static int64_t groups_of(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

static bool is_shallow(const Projecting *what, const HatSlices *l)
{
	for (int64_t i = 0; i < what->count; i++) {
		const double *column = what->plan->views[what->first + i].column;
		if (!(fabs(column[l->a]) + fabs(column[l->b]) <= MOST_SLOPE))
			return false;
	}
	return true;
}

bool slices_apply(const Projecting *what, HatSlices *l)
{
	const Box *box = &what->box;
	if (what->plan->plain || what->kernel != KERNEL_voxel || what->direction != ADJOINT ||
		!hat_slices(what, l) || !is_shallow(what, l))
		return false;
	return groups_of(box->high[l->a] - box->low[l->a], SIDE) <= MOST_GROUPS &&
	       groups_of(box->high[l->b] - box->low[l->b], SIDE) <= MOST_GROUPS &&
	       groups_of(box->high[l->s] - box->low[l->s], SLICES) <= MOST_GROUPS;
}

tomos_status slices_run(
	tomos_backend *backend, const Projecting *what, const HatSlices *l, cl_mem views)
{
	KernelGrid grid = what->plan->whole;
	OpenclPlace volume, projections;
	Slices slices = {l->s, l->a, l->b, l->sign, l->first};
	TRY(opencl_place(backend, what->volume, &volume));
	TRY(opencl_place(backend, what->projections, &projections));
	memcpy(grid.low, what->box.low, sizeof grid.low);
	memcpy(grid.high, what->box.high, sizeof grid.high);
	const OpenclArg args[] = {ARG(grid), ARG(what->plan->model), ARG(views), ARG(what->first),
		ARG(what->count), ARG_PLACE(volume), ARG_PLACE(projections), ARG(slices)};
	const int64_t items[3] = {grid.high[l->a] - grid.low[l->a],
		groups_of(grid.high[l->b] - grid.low[l->b], SIDE) * HIGH,
		groups_of(grid.high[l->s] - grid.low[l->s], SLICES)};
	return opencl_planes(backend, TASK_slices_slices_back, items, args, COUNT(args));
}
