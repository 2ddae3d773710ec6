/* Voxel-driven back projection of mirrored views: sources on opposite sides of the centre of the
 * grid, as on a circle about any axis through it.
 *
 * A point and its mirror image about the centre project to the same column of two such views, and
 * to rows that are mirrored about the middle of the detector. So one position and weight serve two
 * voxels, if the views of the second half are flipped and their pixels stored beside those of the
 * first half.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_MIRROR_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_MIRROR_H

#include "backend/cuda/kernels/voxel_back_cone.h"

/* Flips the rows of the second half of the views. last: the last row. */
static __global__ void flip_views(
	const KernelView *from, KernelView *to, int64_t count, double last)
{
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= count)
		return;
	KernelView view = from[i];
	for (int a = 0; a < 4 && i >= count / 2; a++)
		view.row[a] = last * view.depth[a] - view.row[a];
	to[i] = view;
}

/* Whether f(p) = last h(q) + sign g(q), where q is p mirrored, for all voxels. */
static bool is_mirrored_form(const tomos_grid *grid, const double f[4], const double g[4],
	const double h[4], double last, double sign, double tolerance)
{
	double there = last * h[3] + sign * g[3], most = 0;
	for (int a = 0; a < 3; a++) {
		const double by = last * h[a] + sign * g[a], n = (double)grid->n[a];
		most = fmax(most, fabs(by + f[a]) * n);
		there += by * (n - 1);
	}
	return fmax(most, fabs(there - f[3])) <= tolerance;
}

static bool is_mirrored_view(const Plan *plan, const KernelView *a, const KernelView *b)
{
	const double last = (double)(plan->model.rows - 1),
		     size = last + (double)plan->model.columns;
	const tomos_grid *grid = &plan->grid;
	return fabs(a->mass - b->mass) <= RAY_TOLERANCE * fabs(a->mass) &&
	       is_mirrored_form(grid, a->column, b->column, b->depth, 0, 1, RAY_TOLERANCE) &&
	       is_mirrored_form(grid, a->row, b->row, b->depth, last, -1, RAY_TOLERANCE) &&
	       is_mirrored_form(
		       grid, a->depth, b->depth, b->depth, 0, 1, RAY_TOLERANCE / fmax(size, 1));
}

/* Whether the views of the second half mirror those of the first, and all of them and the whole
 * grid are requested. */
static inline bool is_mirrored(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const int64_t count = what->count;
	bool mirrored = request_is_whole(what) && count % 2 == 0 && what->box.low[2] == 0 &&
			what->box.high[2] == plan->grid.n[2];
	for (int64_t i = 0; mirrored && i < count / 2; i++)
		mirrored = is_mirrored_view(plan, &plan->views[i], &plan->views[i + count / 2]);
	return mirrored;
}

#endif
