/* Rays of upright detectors (circular cone beam, fans and parallel beam): all rays of one
 * detector column are in one plane parallel to z, a sheet. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_UPRIGHT_H
#define TOMOS_BACKEND_CUDA_KERNELS_UPRIGHT_H

#include "backend/cuda/kernels/sheets.h"
#include "kernel/ray.h"

/* The rays of a detector column, for their dominant axis (0: x, 1: y). In plane k of that axis,
 * their other horizontal coordinate is p + k slope, and the ray of row j is at height z + k climb +
 * j (gap + k widen); all in voxels, relative to the first voxel of the box. */
typedef struct {
	double p, slope, z, climb, gap, widen;
	int axis;
} Path;

static __device__ Path path_of(const KernelGrid *grid, const KernelModel *model,
	const KernelView *k, int64_t row, int64_t column)
{
	double d[2], start[2];
	bool source = KERNEL_HAS_SOURCE(k);
	for (int i = 0; i < 2; i++) {
		double pixel = k->first[i] + (double)column * k->u[i];
		start[i] = source ? k->src[i] : pixel;
		d[i] = source ? pixel - k->src[i] : k->src[i];
	}
	/* As in kernel_ray and kernel_dominant. */
	double largest = fmax(fabs(d[0]), fabs(d[1]));
	d[0] = fabs(d[0]) < RAY_LEVEL * largest ? 0 : d[0];
	d[1] = fabs(d[1]) < RAY_LEVEL * largest ? 0 : d[1];
	Path path = {.gap = 1, .axis = fabs(d[0]) >= fabs(d[1]) ? 0 : 1};
	int a = path.axis, b = 1 - a;
	double rate = 1 / d[a], low = (double)grid->low[a];
	double z = k->first[2] + (double)row * k->v[2] + (double)column * k->u[2];
	path.slope = d[b] * rate;
	path.p = start[b] - (start[a] - low) * path.slope - (double)grid->low[b];
	if (model->planar)
		return path;
	bool rises = source && !KERNEL_FANS(k); /* fans are level */
	if (rises) {
		path.climb = (z - k->src[2]) * rate;
		path.z = k->src[2] - (start[a] - low) * path.climb - (double)grid->low[2];
		path.widen = k->v[2] * rate;
		path.gap = -(start[a] - low) * path.widen;
		return path;
	}
	path.climb = source ? 0 : k->src[2] * rate;
	double ahead = source ? 0 : start[a] + (double)row * k->v[a] - low;
	path.z = z - ahead * path.climb - (double)grid->low[2];
	path.gap = k->v[2] - (source ? 0 : k->v[a] * path.climb);
	return path;
}

/* Length of a ray from one plane of its dominant axis to the next. */
static __device__ float step_of(
	const KernelGrid *grid, const KernelView *k, int64_t row, int64_t column, int axis)
{
	KernelRay ray = kernel_ray(grid, k, row, column);
	return (float)(ray.length / fabs(ray.direction[axis]));
}

#endif
