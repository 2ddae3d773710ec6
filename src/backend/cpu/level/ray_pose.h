/* Derivatives of Joseph's projections with respect to the poses of the views (kernel/pose.h), for
 * LANES rays of any kind. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_RAY_POSE_H
#define TOMOS_BACKEND_CPU_LEVEL_RAY_POSE_H

#include "backend/cpu/level/ray.h"
#include "kernel/pose.h"

/* A part of the volume in forward projection. */
typedef struct {
	RayPart part;
	int64_t bands;
	Window *windows; /* of the part in each view */
	float *copy;
	float *single; /* copy of single voxels, for windows (ray_window.h); or NULL */
	bool pose;     /* derivatives instead of the sums themselves */
} Forward;

/* Sums of LANES rays over planes: of the values I, of their slopes along axes[1] and axes[2], and
 * of both slopes times the distance from plane rays->from. */
enum { SUM_VALUE, SUM_SLOPE, SUM_MOMENT = 3, PLANE_SUMS = 5 };

/* The rays are moved by `nudge` units. Returns whether, before that, one of them passed exactly
 * through voxel centres along one of the axes. */
static inline bool add_planes(const Forward *f, Rays rays, int32_t nudge, vf sums[PLANE_SUMS])
{
	const float *plane = f->copy + rays.from * f->part.plane;
	vf ahead = {0};
	vi centred = {0};
	for (int i = 0; i < 2; i++)
		rays.offset[i] = (vi)((vu)rays.offset[i] + (uint32_t)nudge);
	for (int64_t k = rays.from; k < rays.to; k++, plane += f->part.plane, ahead += 1) {
		vf fraction[2], x[4];
		for (int i = 0; i < 2; i++)
			centred |= (rays.offset[i] & OFFSET_MASK) == (nudge & OFFSET_MASK);
		vi at = rays_visit(&f->part, &rays, 0, 2, fraction);
		vf_load_fours(plane, at, x);
		vf one = x[1] - x[0], two = x[3] - x[2], low = x[0] + fraction[0] * one;
		vf b = one + fraction[1] * (two - one), c = x[2] + fraction[0] * two - low;
		sums[SUM_VALUE] += low + fraction[1] * c;
		sums[SUM_SLOPE] += b;
		sums[SUM_SLOPE + 1] += c;
		sums[SUM_MOMENT] += ahead * b;
		sums[SUM_MOMENT + 1] += ahead * c;
	}
	return vi_any(centred & (rays.step > 0));
}

/* The derivative of rays through voxel centres is the mean of those on both sides. */
static inline void plane_sums(const Forward *f, const Rays *rays, vf sums[PLANE_SUMS])
{
	vf length = rays->step;
	memset(sums, 0, PLANE_SUMS * sizeof *sums);
	if (add_planes(f, *rays, 1, sums)) {
		length *= 0.5F;
		(void)add_planes(f, *rays, -1, sums);
	}
	for (int i = 0; i < PLANE_SUMS; i++)
		sums[i] *= length;
}

/* out = x cross y in the order of part->axes. */
static inline void cross_along(const RayPart *part, const vf x[3], const vf y[3], vf out[3])
{
	float sign = part->axes[0] == 1 ? 1 : -1; /* whether that order is cyclic */
	out[0] = sign * (x[1] * y[2] - x[2] * y[1]);
	out[1] = sign * (x[2] * y[0] - x[0] * y[2]);
	out[2] = sign * (x[0] * y[1] - x[1] * y[0]);
}

/* The slopes of some sums as a gradient that does not change along the ray. */
static inline void gradient(const vf slopes[2], const float step[3], const vf follow[3], vf g[3])
{
	g[1] = slopes[0] * (1 / step[1]);
	g[2] = slopes[1] * (1 / step[2]);
	g[0] = -(follow[1] * g[1] + follow[2] * g[2]);
}

/* The derivatives of LANES rays by pose_ray's formulas, in the order of the axes of space. */
static inline void pose_rays(const Forward *f, const Rays *rays, vf derivative[POSE_NUMBERS])
{
	const RayPart *part = &f->part;
	const tomos_grid *grid = &part->what->plan->grid;
	vf sums[PLANE_SUMS], g[3], moved[3], point[3], follow[3], turn[3][3];
	float step[3];
	plane_sums(f, rays, sums);
	for (int i = 0; i < 3; i++) {
		int a = part->axes[i];
		double low = grid->first[a] + (double)part->box.low[a] * grid->step[a];
		step[i] = (float)grid->step[a];
		vf at = vf_all((float)rays->from);
		if (i > 0)
			at = vi_float(rays->whole[i - 1]) - 1 +
			     vi_float(rays->offset[i - 1]) * (float)(1 / OFFSET_ONE);
		point[i] = (float)low + at * step[i];
		follow[i] = i == 0 ? vf_all(1)
				   : vi_float(rays->slope[i - 1]) *
					     (float)(1 / OFFSET_ONE * grid->step[a] /
						     grid->step[part->axes[0]]);
	}
	gradient(sums + SUM_SLOPE, step, follow, g);
	gradient(sums + SUM_MOMENT, step, follow, moved);
	for (int i = 0; i < 3; i++)
		moved[i] *= step[0]; /* times the distance along the dominant axis */
	vf shorter[3] = {-sums[SUM_VALUE], {0}, {0}};
	cross_along(part, point, g, turn[0]);
	cross_along(part, follow, moved, turn[1]);
	cross_along(part, follow, shorter, turn[2]);
	for (int i = 0; i < 3; i++) {
		derivative[part->axes[i]] = g[i];
		derivative[3 + part->axes[i]] = turn[0][i] + turn[1][i] + turn[2][i];
	}
}

#endif
