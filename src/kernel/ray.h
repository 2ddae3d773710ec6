/* A ray, and its walk through the planes of voxel centres across its dominant axis. */
#ifndef TOMOS_KERNEL_RAY_H
#define TOMOS_KERNEL_RAY_H

#include "kernel/portable.h"

/* Points start + t direction, in voxel indices; t >= 0 where the ray has a source. */
typedef struct {
	double start[3], direction[3];
	double length; /* of `direction`, in the unit of the scan */
	int has_source;
} KernelRay;

/* Components of a direction that are zero but for rounding become exactly zero, so that a ray in
 * the face between two voxels stays on one side of it, in every kernel and slab. */
#define RAY_LEVEL 1e-12

KERNEL_FN KernelRay kernel_ray(
	const KernelGrid *grid, const KernelView *view, int64_t row, int64_t column)
{
	KernelRay ray;
	double square = 0, largest = 0;
	ray.has_source = KERNEL_HAS_SOURCE(view);
	for (int a = 0; a < 3; a++) {
		double along = (double)row * view->v[a];
		double pixel = view->first[a] + (double)column * view->u[a] + along;
		double source = KERNEL_FANS(view) ? view->src[a] + along : view->src[a];
		ray.start[a] = ray.has_source ? source : pixel;
		ray.direction[a] = ray.has_source ? pixel - source : source;
		square += ray.direction[a] * grid->step[a] * ray.direction[a] * grid->step[a];
		largest = fmax(largest, fabs(ray.direction[a]));
	}
	for (int a = 0; a < 3; a++)
		ray.direction[a] =
			fabs(ray.direction[a]) < RAY_LEVEL * largest ? 0 : ray.direction[a];
	ray.length = sqrt(square);
	return ray;
}

/* Shifts a ray slightly: one that runs in the face between two voxels is then assigned to the same
 * voxel whatever the last bits of its position are. */
KERNEL_FN KernelRay kernel_nudge(const KernelRay *ray)
{
	KernelRay nudged = *ray;
	for (int a = 0; a < 3; a++)
		nudged.start[a] += 1e-9;
	return nudged;
}

/* The axis along which the ray crosses most voxels. */
KERNEL_FN int kernel_dominant(const KernelRay *ray)
{
	double x = fabs(ray->direction[0]), y = fabs(ray->direction[1]),
	       z = fabs(ray->direction[2]);
	return x >= y ? (x >= z ? 0 : 2) : (y >= z ? 1 : 2);
}

/* A ray parametrised by its dominant axis a: in plane k it is at b = base[0] + k slope[0], c =
 * base[1] + k slope[1], with |slope| <= 1. */
typedef struct {
	int a, b, c;
	int64_t stride[3]; /* of the voxels along a, b, c */
	double base[2], slope[2];
	double step;            /* length from one plane to the next */
	double k_start, k_stop; /* planes where the ray can meet the box */
} KernelWalk;

/* Narrows [*first, *last] to the k with low <= base + k slope <= high. */
KERNEL_FN void kernel_clip(
	double base, double slope, double low, double high, double *first, double *last)
{
	if (slope == 0) {
		if (base < low || base > high)
			*last = *first - 1;
		return;
	}
	double one = (low - base) / slope, two = (high - base) / slope;
	*first = fmax(*first, fmin(one, two));
	*last = fmin(*last, fmax(one, two));
}

/* `margin`, `along`: how far beyond the box the kernel's weights reach across and along the ray, in
 * voxels. */
KERNEL_FN KernelWalk kernel_walk(
	const KernelGrid *grid, const KernelRay *ray, double margin, double along)
{
	KernelWalk walk;
	walk.a = kernel_dominant(ray);
	walk.b = walk.a == 0 ? 1 : 0;
	walk.c = walk.a == 2 ? 1 : 2;
	walk.stride[0] = kernel_stride(grid, walk.a);
	walk.stride[1] = kernel_stride(grid, walk.b);
	walk.stride[2] = kernel_stride(grid, walk.c);
	double rate = 1 / ray->direction[walk.a];
	walk.slope[0] = ray->direction[walk.b] * rate;
	walk.slope[1] = ray->direction[walk.c] * rate;
	walk.base[0] = ray->start[walk.b] - ray->start[walk.a] * walk.slope[0];
	walk.base[1] = ray->start[walk.c] - ray->start[walk.a] * walk.slope[1];
	walk.step = ray->length * fabs(rate);
	walk.k_start = (double)grid->low[walk.a] - along;
	walk.k_stop = (double)(grid->high[walk.a] - 1) + along;
	kernel_clip(walk.base[0], walk.slope[0], (double)grid->low[walk.b] - margin,
		(double)(grid->high[walk.b] - 1) + margin, &walk.k_start, &walk.k_stop);
	kernel_clip(walk.base[1], walk.slope[1], (double)grid->low[walk.c] - margin,
		(double)(grid->high[walk.c] - 1) + margin, &walk.k_start, &walk.k_stop);
	if (ray->has_source) {
		if (rate > 0)
			walk.k_start = fmax(walk.k_start, ray->start[walk.a]);
		else
			walk.k_stop = fmin(walk.k_stop, ray->start[walk.a]);
	}
	if (!(walk.k_start <= walk.k_stop)) { /* ends may be infinite or beyond int64_t */
		walk.k_start = 0;
		walk.k_stop = -2;
	}
	return walk;
}

/* Visits voxel (k, i, j) along (a, b, c) if it is in the box; k is known to be. */
KERNEL_FN void kernel_walk_meet(KernelMeet *meet, const int mode, const KernelGrid *grid,
	const KernelWalk *walk, int64_t k, int64_t i, int64_t j, double weight)
{
	if (kernel_in_box(grid, walk->b, i) && kernel_in_box(grid, walk->c, j))
		kernel_meet(meet, mode,
			(k - grid->low[walk->a]) * walk->stride[0] +
				(i - grid->low[walk->b]) * walk->stride[1] +
				(j - grid->low[walk->c]) * walk->stride[2],
			weight);
}

#endif
