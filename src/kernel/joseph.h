/* Joseph's method: on each plane of voxel centres across the ray's dominant axis, linear
 * interpolation between the voxels around the point where the ray passes.
 *
 * P. M. Joseph, "An improved algorithm for reprojecting rays through pixel images", IEEE Trans.
 * Med. Imaging 1 (1982). Boundaries (Nielsen 2014, 2.5.2): expanding, the volume fades into zero
 * within one voxel of its outermost centres; clamping, nothing is counted beyond those centres.
 */
#ifndef TOMOS_KERNEL_JOSEPH_H
#define TOMOS_KERNEL_JOSEPH_H

#include "kernel/ray.h"

/* A point this close to the outermost voxel centres counts as on them. */
#define JOSEPH_EDGE 1e-9

KERNEL_FN int joseph_beyond(const KernelGrid *grid, int axis, double p)
{
	return p < -JOSEPH_EDGE || p > (double)(grid->n[axis] - 1) + JOSEPH_EDGE;
}

KERNEL_FN void joseph_meet(KernelMeet *meet, const int mode, const KernelGrid *grid,
	const KernelWalk *walk, int64_t k, int64_t i, int64_t j, double share)
{
	if (share > KERNEL_LEAST)
		kernel_walk_meet(meet, mode, grid, walk, k, i, j, share * walk->step);
}

KERNEL_FN void joseph_ray(const KernelGrid *grid, const KernelModel *model, const KernelRay *ray,
	const int mode, KernelMeet *meet)
{
	KernelWalk walk = kernel_walk(grid, ray, 1, 0);
	int64_t stop = (int64_t)floor(walk.k_stop);
	for (int64_t k = (int64_t)ceil(walk.k_start); k <= stop; k++) {
		double p = walk.base[0] + (double)k * walk.slope[0];
		double q = walk.base[1] + (double)k * walk.slope[1];
		if (model->clamp &&
			(joseph_beyond(grid, walk.b, p) || joseph_beyond(grid, walk.c, q)))
			continue;
		double p0 = floor(p), q0 = floor(q), right = p - p0, up = q - q0;
		int64_t i = (int64_t)p0, j = (int64_t)q0;
		joseph_meet(meet, mode, grid, &walk, k, i, j, (1 - right) * (1 - up));
		joseph_meet(meet, mode, grid, &walk, k, i + 1, j, right * (1 - up));
		joseph_meet(meet, mode, grid, &walk, k, i, j + 1, (1 - right) * up);
		joseph_meet(meet, mode, grid, &walk, k, i + 1, j + 1, right * up);
	}
}

#endif
