/* Intersection length of ray and voxel, by marching from one voxel face to the next.
 *
 * R. L. Siddon 1985; J. Amanatides and A. Woo 1987. The same weights as line.h, to rounding.
 */
#ifndef TOMOS_KERNEL_LINE_MARCH_H
#define TOMOS_KERNEL_LINE_MARCH_H

#include "kernel/ray.h"

KERNEL_FN void line_march_ray(const KernelGrid *grid, const KernelModel *model,
	const KernelRay *exact, const int mode, KernelMeet *meet)
{
	(void)model;
	KernelRay nudged = kernel_nudge(exact), *ray = &nudged;
	double least = KERNEL_LEAST / fabs(ray->direction[kernel_dominant(ray)]);
	double enter = ray->has_source ? 0 : -1e300, leave = 1e300;
	for (int a = 0; a < 3; a++)
		kernel_clip(ray->start[a], ray->direction[a], (double)grid->low[a] - 0.5,
			(double)grid->high[a] - 0.5, &enter, &leave);
	if (!(enter < leave))
		return;
	int64_t at[3], step[3], row = kernel_stride(grid, 1), slice = kernel_stride(grid, 2);
	double next[3]; /* ray parameter at which the current voxel is left, per axis */
	for (int a = 0; a < 3; a++) {
		double d = ray->direction[a], p = ray->start[a] + enter * d + 0.5;
		at[a] = (int64_t)floor(p);
		at[a] = at[a] < grid->low[a] ? grid->low[a] : at[a];
		if (d == 0 && at[a] >= grid->high[a])
			return; /* it runs in the outermost face, which belongs to the next box */
		at[a] = at[a] >= grid->high[a] ? grid->high[a] - 1 : at[a];
		step[a] = d > 0 ? 1 : -1;
		next[a] = d == 0 ? 1e300
				 : ((double)at[a] + 0.5 * (double)step[a] - ray->start[a]) / d;
	}
	for (double t = enter; t < leave;) {
		int a = next[0] <= next[1] ? (next[0] <= next[2] ? 0 : 2)
					   : (next[1] <= next[2] ? 1 : 2);
		double end = fmin(next[a], leave);
		if (end - t > least)
			kernel_meet(meet, mode,
				(at[0] - grid->low[0]) + (at[1] - grid->low[1]) * row +
					(at[2] - grid->low[2]) * slice,
				(end - t) * ray->length);
		t = fmax(t, end);
		at[a] += step[a];
		if (!kernel_in_box(grid, a, at[a]))
			break;
		next[a] =
			((double)at[a] + 0.5 * (double)step[a] - ray->start[a]) / ray->direction[a];
	}
}

#endif
