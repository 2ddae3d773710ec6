/* Voxel-driven forward projection by integer sums: their units, from bounds of what the voxels of a
 * block and of the volume add to a pixel.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_QUANTA_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_QUANTA_H

#include "backend/cuda/kernels/transpose.h"

enum { LANES = 32 /* most voxels of a block along an axis, that of the lanes of a warp */ };

#define QUANTA 4.1e6 /* largest share of a voxel in units of a tile, less than 2^22 */
#define LARGEST 2e9  /* largest sum, less than 2^31 */

/* Of a view: the unit of the sums in images, times the largest voxel; the largest share of a voxel
 * in units of a tile; the axis of the lanes. */
typedef struct {
	float unit, most;
	int axis;
} Quantum;

/* Bounds for a view: the weights that all voxels add to a pixel; the parts of a block's voxels that
 * fall on a pixel; pixels from one voxel to the next along each axis; the least depth. */
typedef struct {
	double all, block, size[3], least;
} Bounds;

/* Largest sum of the parts of voxels on a plane of axes b and c that fall on a pixel: the integral
 * of a hat function that is widened by half of a voxel. u, v: pixels per voxel. */
static inline double plane_bound(const double u[3], const double v[3], int b, int c)
{
	const double area = fabs(u[b] * v[c] - u[c] * v[b]);
	return (1 + fabs(u[b]) + fabs(u[c])) * (1 + fabs(v[b]) + fabs(v[c])) / fmax(area, 1e-12);
}

static inline double form_at(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

static inline double weight_at(const Plan *plan, const KernelView *k, const double at[3])
{
	const double depth = form_at(k->depth, at);
	double square = 0;
	if (plan->model.weight == WEIGHT_NONE)
		return 1;
	if (plan->model.weight == WEIGHT_DEPTH)
		return 1 / (depth * depth);
	for (int a = 0; a < 3; a++)
		square += pow((at[a] - k->src[a]) * plan->whole.step[a], 2);
	return fabs(k->mass) * (KERNEL_HAS_SOURCE(k) ? sqrt(square) / pow(depth, 3) : 1);
}

/* all, block: sums over a plane across each axis. */
static inline void bound_corner(const Plan *plan, const KernelView *k, const double at[3],
	double all[3], double block[3], Bounds *bounds)
{
	const double depth = form_at(k->depth, at), column = form_at(k->column, at) / depth,
		     row = form_at(k->row, at) / depth, weight = weight_at(plan, k, at);
	double u[3], v[3];
	for (int a = 0; a < 3; a++) {
		u[a] = (k->column[a] - column * k->depth[a]) / depth;
		v[a] = (k->row[a] - row * k->depth[a]) / depth;
		bounds->size[a] = fmax(bounds->size[a], fmax(fabs(u[a]), fabs(v[a])));
	}
	for (int a = 0; a < 3; a++) {
		const double plane = 1.5 * plane_bound(u, v, (a + 1) % 3, (a + 2) % 3);
		all[a] = fmax(all[a], plane * weight);
		block[a] = fmax(block[a], plane);
	}
	bounds->least = fmin(bounds->least, depth);
}

/* Planes across an axis count if they are all on one side of the source: between its sides, a plane
 * through the source is a line on the detector. */
static inline Bounds bounds_of(const Plan *plan, const KernelView *k)
{
	Bounds bounds = {.all = 1e300, .block = 1e300, .least = 1e300};
	double all[3] = {0, 0, 0}, block[3] = {0, 0, 0};
	for (int corner = 0; corner < 8; corner++) {
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = corner >> a & 1 ? (double)plan->grid.n[a] : -1.0;
		bound_corner(plan, k, at, all, block, &bounds);
	}
	for (int a = 0; a < 3; a++) {
		const double n = (double)plan->grid.n[a];
		if (KERNEL_HAS_SOURCE(k) && k->src[a] >= -1 && k->src[a] <= n)
			continue;
		bounds.all = fmin(bounds.all, all[a] * n);
		bounds.block = fmin(bounds.block, block[a] * (int)LANES);
	}
	return bounds;
}

/* The axis whose neighbouring voxels are farthest apart on the detector, in the middle of the grid;
 * z if it is nearly as good. */
static inline int lanes_axis(const Plan *plan, const KernelView *k)
{
	double middle[3], apart[3];
	for (int a = 0; a < 3; a++)
		middle[a] = 0.5 * (double)(plan->grid.n[a] - 1);
	const double depth = form_at(k->depth, middle), column = form_at(k->column, middle) / depth,
		     row = form_at(k->row, middle) / depth;
	for (int a = 0; a < 3; a++) /* blocks need some voxels along the axis */
		apart[a] =
			hypot(k->column[a] - column * k->depth[a], k->row[a] - row * k->depth[a]) *
			fmin(1.0, (double)plan->grid.n[a] / (int)LANES);
	const int other = apart[0] > apart[1] ? 0 : 1;
	return apart[other] > 1.2 * apart[2] ? other : 2;
}

static inline void make_quantum(const Plan *plan, int64_t view, const void *user, void *place)
{
	(void)user;
	const Bounds bounds = bounds_of(plan, &plan->views[view]);
	Quantum *q = (Quantum *)place;
	q->unit = (float)(bounds.all / LARGEST);
	q->most = (float)fmin(QUANTA, LARGEST / bounds.block);
	q->axis = lanes_axis(plan, &plan->views[view]);
}

#endif
