/* Derivatives of a projection by Joseph's method with respect to the pose of its view.
 *
 * The pose is a small shift t and rotation w (a rotation vector) about the origin that moves source
 * and detector together: a point X of a ray moves by t + w x X. Joseph's sum is length L times the
 * sum over planes k of the interpolated values I(p, q), where p and q say where the ray passes
 * plane k. Its derivative is L times the sums of g and X x g, where g is the gradient of I at X
 * along the plane, minus its component along the ray; with the rotation L changes as well.
 *
 * I is piecewise linear. Where the ray passes exactly through voxel centres, the derivative is the
 * mean of those on both sides, the limit of central differences. Jumps, of rays that change their
 * dominant axis or leave a clamped volume, have no derivative and are not part of it.
 */
#ifndef TOMOS_KERNEL_POSE_H
#define TOMOS_KERNEL_POSE_H

#include "kernel/joseph.h"

/* The positions of voxels: that of voxel (0, 0, 0) and from one to the next, signed. */
typedef struct {
	double first[3], step[3];
} KernelSpace;

/* Voxel (k, i, j) along (a, b, c), 0 outside the box; k is known to be in it. */
KERNEL_FN double pose_voxel(const KernelGrid *grid, const KernelWalk *walk,
	KERNEL_GLOBAL const float *volume, int64_t k, int64_t i, int64_t j)
{
	if (!kernel_in_box(grid, walk->b, i) || !kernel_in_box(grid, walk->c, j))
		return 0;
	return volume[(k - grid->low[walk->a]) * walk->stride[0] +
		      (i - grid->low[walk->b]) * walk->stride[1] +
		      (j - grid->low[walk->c]) * walk->stride[2]];
}

/* The slope between voxels -1, 0, 1 and 2 along an axis, at `part` of the way from 0 to 1. */
KERNEL_FN double pose_slope(double before, double at, double next, double after, double part)
{
	if (part < KERNEL_LEAST)
		return 0.5 * (next - before);
	return part > 1 - KERNEL_LEAST ? 0.5 * (after - at) : next - at;
}

/* Interpolated value and its slopes along b and c at (p, q) of plane k. */
KERNEL_FN void pose_point(const KernelGrid *grid, const KernelWalk *walk,
	KERNEL_GLOBAL const float *volume, int64_t k, double p, double q, double found[3])
{
	double p0 = floor(p), q0 = floor(q), right = p - p0, up = q - q0;
	double along[4], across[4]; /* values at q along b, and at p along c */
	int edge = right < KERNEL_LEAST || right > 1 - KERNEL_LEAST || up < KERNEL_LEAST ||
		   up > 1 - KERNEL_LEAST;
	int64_t i = (int64_t)p0, j = (int64_t)q0;
	along[0] = along[3] = across[0] = across[3] = 0;
	for (int n = edge ? -1 : 0; n < (edge ? 3 : 2); n++) {
		along[n + 1] = (1 - up) * pose_voxel(grid, walk, volume, k, i + n, j) +
			       up * pose_voxel(grid, walk, volume, k, i + n, j + 1);
		across[n + 1] = (1 - right) * pose_voxel(grid, walk, volume, k, i, j + n) +
				right * pose_voxel(grid, walk, volume, k, i + 1, j + n);
	}
	found[0] = (1 - right) * along[1] + right * along[2];
	found[1] = pose_slope(along[0], along[1], along[2], along[3], right);
	found[2] = pose_slope(across[0], across[1], across[2], across[3], up);
}

/* out += x cross y */
KERNEL_FN void pose_add_cross(double out[3], const double x[3], const double y[3])
{
	out[0] += x[1] * y[2] - x[2] * y[1];
	out[1] += x[2] * y[0] - x[0] * y[2];
	out[2] += x[0] * y[1] - x[1] * y[0];
}

/* The sums over planes of one ray: of g, of X x g and of I. */
typedef struct {
	double gradient[3], moment[3], value;
} PoseSums;

/* Adds a plane. `follow`: how far the ray moves along each axis, per length along its dominant
 * axis. */
KERNEL_FN void pose_add(PoseSums *sums, const KernelWalk *walk, const KernelSpace *space,
	const double follow[3], const double at[3], const double found[3])
{
	double g[3], point[3];
	g[walk->b] = found[1] / space->step[walk->b];
	g[walk->c] = found[2] / space->step[walk->c];
	g[walk->a] = -follow[walk->b] * g[walk->b] - follow[walk->c] * g[walk->c];
	for (int n = 0; n < 3; n++) {
		point[n] = space->first[n] + at[n] * space->step[n];
		sums->gradient[n] += g[n];
	}
	pose_add_cross(sums->moment, point, g);
	sums->value += found[0];
}

/* The six derivatives of the sum along one ray. */
KERNEL_FN void pose_ray(const KernelGrid *grid, const KernelSpace *space, const KernelModel *model,
	const KernelRay *ray, KERNEL_GLOBAL const float *volume, double derivative[POSE_NUMBERS])
{
	KernelWalk walk = kernel_walk(grid, ray, 1, 0);
	PoseSums sums = {{0, 0, 0}, {0, 0, 0}, 0};
	double follow[3], at[3], found[3], shorter[3] = {0, 0, 0};
	int64_t stop = (int64_t)floor(walk.k_stop);
	follow[walk.a] = 1;
	follow[walk.b] = walk.slope[0] * space->step[walk.b] / space->step[walk.a];
	follow[walk.c] = walk.slope[1] * space->step[walk.c] / space->step[walk.a];
	for (int64_t k = (int64_t)ceil(walk.k_start); k <= stop; k++) {
		at[walk.a] = (double)k;
		at[walk.b] = walk.base[0] + (double)k * walk.slope[0];
		at[walk.c] = walk.base[1] + (double)k * walk.slope[1];
		if (model->clamp && (joseph_beyond(grid, walk.b, at[walk.b]) ||
					    joseph_beyond(grid, walk.c, at[walk.c])))
			continue;
		pose_point(grid, &walk, volume, k, at[walk.b], at[walk.c], found);
		pose_add(&sums, &walk, space, follow, at, found);
	}
	/* The length between planes is proportional to 1 / direction[a]. */
	shorter[walk.a] = -sums.value;
	pose_add_cross(sums.moment, follow, shorter);
	for (int n = 0; n < 3; n++) {
		derivative[n] = sums.gradient[n] * walk.step;
		derivative[3 + n] = sums.moment[n] * walk.step;
	}
}

#endif
