/* Units of the sums of footprint_forward.h, and the axis of its lanes. Host code. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_QUANTA_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_QUANTA_H

#include "backend/cuda/kernels/footprint_blocks.h"

/* Pixels from one voxel to the next along each axis, and the weight of a voxel. */
typedef struct {
	double u[3], v[3], weight;
} VoxelBound;

static inline VoxelBound bound_at(const Plan *plan, const KernelView *k, const double at[3])
{
	const bool fans = KERNEL_FANS(k);
	const double depth = form_at(k->depth, at), lower = fans ? 1 : depth,
		     column = form_at(k->column, at) / depth, row = form_at(k->row, at) / lower;
	double square = 0;
	VoxelBound b;
	for (int a = 0; a < 3; a++) {
		const double away = at[a] - k->src[a] - (fans ? row * k->v[a] : 0);
		b.u[a] = (k->column[a] - column * k->depth[a]) / depth;
		b.v[a] = (k->row[a] - (fans ? 0 : row * k->depth[a])) / lower;
		square += pow(away * plan->whole.step[a], 2);
	}
	b.weight = plan->model.weight == WEIGHT_NONE    ? 1
		   : plan->model.weight == WEIGHT_DEPTH ? 1 / (depth * depth)
		   : KERNEL_HAS_SOURCE(k) ? fabs(k->mass) * sqrt(square) / (depth * depth * lower)
					  : fabs(k->mass);
	return b;
}

/* The axis of lanes for a view: x or y, where neighbouring voxels along z are about a row or more
 * apart, so that columns along z are in spans (footprint_shares.h). */
static inline int footprint_lanes(const Plan *plan, const KernelView *k)
{
	double middle[3], apart[2];
	for (int a = 0; a < 3; a++)
		middle[a] = 0.5 * (double)(plan->grid.n[a] - 1);
	const VoxelBound b = bound_at(plan, k, middle);
	for (int a = 0; a < 2; a++) /* as in lanes_axis */
		apart[a] = hypot(b.u[a], b.v[a]) * fmin(1.0, (double)plan->grid.n[a] / (int)LANES);
	const int other = apart[0] > apart[1] ? 0 : 1;
	if (fabs(b.u[2]) < 0.3 * fmax(b.v[2], 1.0) && b.v[2] > 0.6 && apart[other] > 0.5)
		return other;
	return lanes_axis(plan, k);
}

/* Quantum of a view; `most` is what the sums of a tile allow. The shares of a pixel have integral 1
 * over the positions of a voxel and are at most 1, so the sum over a plane is bounded as that of
 * hat functions (voxel_quanta.h). */
static inline void footprint_quantum(const Plan *plan, int64_t view, const void *, void *place)
{
	const KernelView *k = &plan->views[view];
	double all[3] = {0, 0, 0}, block[3] = {0, 0, 0}, whole = 1e300, part = 1e300;
	for (int corner = 0; corner < 8; corner++) {
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = corner >> a & 1 ? (double)plan->grid.n[a] : -1.0;
		const VoxelBound b = bound_at(plan, k, at);
		for (int a = 0; a < 3; a++) {
			const double plane = 1.5 * plane_bound(b.u, b.v, (a + 1) % 3, (a + 2) % 3);
			all[a] = fmax(all[a], plane * b.weight);
			block[a] = fmax(block[a], plane);
		}
	}
	for (int a = 0; a < 3; a++) {
		const double n = (double)plan->grid.n[a];
		if (KERNEL_HAS_SOURCE(k) && k->src[a] >= -1 && k->src[a] <= n)
			continue; /* a plane through the source is a line on the detector */
		whole = fmin(whole, all[a] * n);
		part = fmin(part, block[a] * (int)LANES);
	}
	*(Quantum *)place = Quantum{
		(float)(whole / LARGEST), (float)(LARGEST / part), footprint_lanes(plan, k)};
}

/* Whether more than a few voxels have footprints too large for the kinds that kernels are compiled
 * for. */
static inline bool has_large_footprints(const ProjectRequest *what)
{
	const double most = 2.6; /* pixels from one voxel to the next */
	int64_t all = 0, large = 0;
	sample_box(what, [&](const KernelView *k, const double at[3]) {
		const VoxelBound b = bound_at(what->plan, k, at);
		all++;
		large += fabs(b.u[0]) + fabs(b.u[1]) + fabs(b.u[2]) > most ||
			 fabs(b.v[0]) + fabs(b.v[1]) + fabs(b.v[2]) > most;
	});
	return 32 * large > all;
}

/* Whether integers have enough digits for every view; sets the axes of lanes. */
static inline bool quanta_apply(const ProjectRequest *what, int *axes)
{
	*axes = 0;
	for (int64_t i = 0; i < what->count; i++) {
		Quantum q;
		footprint_quantum(what->plan, what->first + i, NULL, &q);
		if (!isfinite(q.unit) || !(q.unit > 0) || !(q.most > 1e4f))
			return false;
		*axes |= 1 << q.axis;
	}
	return true;
}

#endif
