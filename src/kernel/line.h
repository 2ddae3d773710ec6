/* Intersection length of ray and voxel, without branches.
 *
 * Columns of voxels across the dominant axis are handled one by one (Pedersen and Lindhøj 2018; Gao
 * 2012): inside a column the ray changes voxel at most once per minor axis, so it meets at most
 * three voxels, whose lengths follow from the two fractions at which it changes.
 */
#ifndef TOMOS_KERNEL_LINE_H
#define TOMOS_KERNEL_LINE_H

#include "kernel/ray.h"

/* Fraction of a step from p to p + slope at which the ray leaves voxel floor(p), or 1. */
KERNEL_FN double line_leaves(double p, double slope)
{
	double edge = slope > 0 ? floor(p) + 1 : floor(p);
	return slope == 0 ? 1 : fmin((edge - p) / slope, 1.0);
}

KERNEL_FN void line_ray(const KernelGrid *grid, const KernelModel *model, const KernelRay *ray,
	const int mode, KernelMeet *meet)
{
	(void)model;
	KernelRay nudged = kernel_nudge(ray);
	KernelWalk walk = kernel_walk(grid, &nudged, 0.5, 0.5);
	int64_t stop = (int64_t)floor(walk.k_stop + 0.5);
	for (int64_t k = (int64_t)floor(walk.k_start + 0.5); k <= stop; k++) {
		/* The part of the column that the ray covers: all of it, except at a source. */
		double from = fmax((double)k - 0.5, walk.k_start),
		       to = fmin((double)k + 0.5, walk.k_stop);
		double part = to - from;
		if (!(part > 0))
			continue;
		double p = walk.base[0] + from * walk.slope[0] + 0.5;
		double q = walk.base[1] + from * walk.slope[1] + 0.5;
		double leave_p = line_leaves(p, walk.slope[0] * part);
		double leave_q = line_leaves(q, walk.slope[1] * part);
		double one = fmin(leave_p, leave_q), two = fmax(leave_p, leave_q);
		double share[3] = {one, two - one, 1 - two};
		int64_t i = (int64_t)floor(p), j = (int64_t)floor(q);
		int64_t step_b = walk.slope[0] > 0 ? 1 : -1, step_c = walk.slope[1] > 0 ? 1 : -1;
		for (int n = 0; n < 3; n++) {
			if (share[n] * part > KERNEL_LEAST)
				kernel_walk_meet(meet, mode, grid, &walk, k, i, j,
					share[n] * part * walk.step);
			int p_changes = n == 0 ? leave_p <= leave_q : leave_p > leave_q;
			i += p_changes ? step_b : 0;
			j += p_changes ? 0 : step_c;
		}
	}
}

#endif
