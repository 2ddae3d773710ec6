/* Voxel-driven forward projection of upright detectors by voxels that add to pixels
 * (voxel_forward_scatter) or by pixels that gather voxels (voxel_forward_upright): which of them is
 * faster, from counts of their work; likewise of other detectors (voxel_forward_any).
 *
 * The factors are picoseconds on an H200, fitted to the survey; only ratios matter.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_WORK_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_WORK_H

#include "backend/cuda/kernels/voxel_scatter.h"

/* Sizes of tiles. Pitches of one more than a multiple of the banks, see Near. Three large ones take
 * as much memory as two tall ones. */
enum { PITCH = 65, ROWS = 72, LARGE_PITCH = 97, LARGE_ROWS = 84, TALL_ROWS = 128 };

/* Voxels along an axis in blocks of `size`, of which some may be outside. */
static inline double padded_to(int64_t n, int size)
{
	return (double)((n + size - 1) / size * size);
}

/* Of a view: pixels and voxels on both sides of the comparison. */
typedef struct {
	double empty;   /* pixels, in every plane of voxels across the rays */
	double visits;  /* of those onto which voxels project; the voxels, if these are more */
	double updates; /* voxels that project onto the detector */
	double blocks;  /* the same of whole blocks */
	bool plain;     /* rays climb little, and few voxels project onto a pixel */
} Work;

static inline Work work_of(const Plan *plan, const KernelView *k)
{
	const int64_t *n = plan->grid.n;
	const double rows = (double)plan->model.rows, columns = (double)plan->model.columns;
	double middle[3];
	for (int a = 0; a < 3; a++)
		middle[a] = 0.5 * (double)(n[a] - 1);
	const double depth = form_at(k->depth, middle);
	const int across = fabs(k->column[0]) > fabs(k->column[1]) ? 0 : 1;
	const double planes = (double)n[1 - across], wide = (double)n[across], high = (double)n[2];
	const double u = fmax(fabs(k->column[across]) / depth, 1e-9),
		     v = fmax(fabs(k->row[2]) / depth, 1e-9);
	const double seen[2] = {fmin(wide, columns / u), fmin(high, rows / v)};
	return Work{planes * columns * padded_to(plan->model.rows, 15),
		planes * fmax(seen[0] * u, seen[0]) * fmax(seen[1] * v, seen[1]),
		planes * seen[0] * seen[1],
		planes * fmin(wide, seen[0] + (int)RUN) * fmin(high, seen[1] + (int)RUN),
		fmin(hypot(k->column[0], k->column[1]) / depth, v) > 0.4 &&
			(KERNEL_HAS_SOURCE(k) ||
				fabs(k->src[2]) < 0.35 * hypot(k->src[0], k->src[1]))};
}

/* The third axis of blocks, whose lanes are along `lanes`: such that fewer of their voxels are
 * outside. */
static inline int third_axis(const int64_t n[3], int lanes)
{
	const int one = lanes == 0 ? 2 : 0, other = 3 - lanes - one;
	return padded_to(n[other], RUN) * padded_to(n[one], WARPS) <
			       padded_to(n[one], RUN) * padded_to(n[other], WARPS)
		       ? one
		       : other;
}

/* Whether a block at a point of the grid fits into a tile of this many rows. */
static inline bool block_fits(const KernelView *k, int third, const double at[3], int rows)
{
	const double depth = form_at(k->depth, at), column = form_at(k->column, at) / depth,
		     row = form_at(k->row, at) / depth;
	double wide = 0, high = 0;
	for (int a = 0; a < 3; a++) {
		const double size = (a == third ? WARPS : RUN) - 1;
		wide += fabs(k->column[a] - column * k->depth[a]) / depth * size;
		high += fabs(k->row[a] - row * k->depth[a]) / depth * size;
	}
	return depth > 0 && wide < LARGE_PITCH - 4 && high < rows - 4;
}

/* The fraction of eight blocks in the outer part of the grid for which a tile is too small. */
static inline double beyond_tile(const Plan *plan, const KernelView *k, int rows)
{
	const int third = third_axis(plan->grid.n, lanes_axis(plan, k));
	int beyond = 0;
	for (int corner = 0; corner < 8; corner++) {
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = (double)plan->grid.n[a] * (corner >> a & 1 ? 0.875 : 0.125);
		beyond += !block_fits(k, third, at, rows);
	}
	return beyond / 8.0;
}

/* Voxels of the box, and those of whole blocks. */
typedef struct {
	double voxels, padded;
} Volume;

static inline Volume volume_of(const ProjectRequest *what)
{
	Volume v = {1, 1};
	for (int a = 0; a < 3; a++) {
		const int64_t n = what->box.high[a] - what->box.low[a];
		v.voxels *= (double)n;
		v.padded *= padded_to(n, WARPS);
	}
	return v;
}

/* Picoseconds of voxels that add to one of many views. voxels: of whole blocks; beyond: the
 * fraction of blocks that do not fit into tiles. Blocks take some microseconds for each view, one
 * after the other, however few they are; with few views that does not matter. */
static inline double scatter_work(int64_t views, double voxels, double beyond)
{
	return fmax(1.55 * voxels * (1 + 24 * beyond), views < 64 ? 0 : 4.5e6);
}

/* Upright detectors only. Neighbouring views read nearly the same voxels if they are close. */
static inline bool upright_is_faster(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const Volume volume = volume_of(what);
	const double padding = volume.padded / volume.voxels,
		     pixels = (double)(plan->model.rows * plan->model.columns);
	double turn = 0, gather = 0, scatter = 0;
	if (!rays_are(&plan->rays, RAYS_IN_SHEET))
		return false;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i], *last = i ? k - 1 : k;
		const Work w = work_of(plan, k);
		if (!w.plain)
			return false;
		turn += fabs(atan2(k->u[0] * last->u[1] - k->u[1] * last->u[0],
			k->u[0] * last->u[0] + k->u[1] * last->u[1]));
		gather += 0.25 * w.empty + 0.7 * w.visits + 0.45 * w.updates;
		scatter += scatter_work(what->count, w.blocks * padding,
				   beyond_tile(plan, k, TALL_ROWS)) +
			   10 * pixels;
	}
	const bool close = turn < 0.09 * (double)what->count; /* 5 degrees */
	return 30 * volume.voxels + gather * (close ? 1 : 1.75) < 10 * volume.voxels + scatter;
}

/* Pixels that a voxel in the middle covers, in the plane across its ray's dominant axis. */
static inline double pixels_of_voxel(const Plan *plan, const KernelView *k)
{
	double at[3], u[3], v[3], most = 0;
	for (int a = 0; a < 3; a++)
		at[a] = 0.5 * (double)(plan->grid.n[a] - 1);
	const double depth = form_at(k->depth, at), column = form_at(k->column, at) / depth,
		     row = form_at(k->row, at) / depth;
	for (int a = 0; a < 3; a++) {
		u[a] = (k->column[a] - column * k->depth[a]) / depth;
		v[a] = (k->row[a] - row * k->depth[a]) / depth;
	}
	for (int a = 0; a < 3; a++) {
		const int b = (a + 1) % 3, c = (a + 2) % 3;
		most = fmax(most, fabs(u[b] * v[c] - u[c] * v[b]));
	}
	return most;
}

/* Whether pixels that gather (voxel_forward_any) are faster, as there are few blocks, or many of
 * large voxels do not fit into tiles. */
static inline bool any_is_faster(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const Volume volume = volume_of(what);
	const double pixels = (double)(plan->model.rows * plan->model.columns);
	double gather = 0, scatter = 0;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		const double covered = fmax(pixels_of_voxel(plan, k), 1);
		gather += (0.85 + 1.75 * covered) * volume.voxels + 50 * pixels;
		scatter +=
			scatter_work(what->count, volume.padded, beyond_tile(plan, k, TALL_ROWS)) +
			10 * pixels;
	}
	return gather < scatter;
}

#endif
