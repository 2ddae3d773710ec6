/* Where voxel columns along z project to, if all voxels of a column project to the same detector
 * column position: for back projection (column.c) and its transpose (column_forward.c). Views are
 * stored transposed, [columns + 2][column_stride(rows)], with a zero column on either side. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_COLUMN_H
#define TOMOS_BACKEND_CPU_LEVEL_COLUMN_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/stretch.h"

enum {
	ACROSS = 16,   /* voxels of a tile along x */
	SHORTEST = 32, /* voxels of a column, below which patches are faster */
	SCRATCH_FLOATS = 11 << 20
};

static inline int64_t view_floats(const Plan *plan)
{
	return (plan->model.columns + 2) * column_stride(plan->model.rows);
}

/* The linear function f(x, y) at corner i of the grid. */
static inline double corner(const double f[4], const Plan *plan, int i)
{
	return f[0] * (double)(i & 1 ? plan->grid.n[0] - 1 : 0) +
	       f[1] * (double)(i & 2 ? plan->grid.n[1] - 1 : 0) + f[3];
}

/* Whether the two directions of `column` apply, but for the steps of rows. */
static inline bool columns_apply(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	/* The formula of the weights depends on the kind of source, which must be the same in all
	 * views. In tilted fans the source differs between the voxels of a column. */
	bool fans = rays->source == TOMOS_FAN_PER_ROW;
	if (rays->source == SOURCES_MIXED || !rays_are(rays, RAYS_IN_SHEET) ||
		(fans && !rays_are(rays, RAYS_LEVEL)))
		return false;
	if (plan->grid.n[2] < SHORTEST || plan->model.planar || plan->model.clamp ||
		plan->model.nearest || plan->model.rows > MAX_COLUMN ||
		view_floats(plan) > SCRATCH_FLOATS)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++)
		for (int c = 0; c < 4; c++)
			if (!(corner(plan->views[i].depth, plan, c) > 1e-3))
				return false;
	return true;
}

/* Projection of ACROSS voxel columns, neighbours along x, in one view. Per voxel column: the
 * detector column to its left (-2: off the detector, as where the view sees none of the voxels),
 * the interpolation weight `share` of the next one, the detector row of the first voxel, the rows
 * per voxel, and the weight of the view. */
typedef struct {
	int64_t left[ACROSS];
	double row[ACROSS], step[ACROSS];
	float share[ACROSS], weight[ACROSS];
	float near2[ACROSS], z,
		dz; /* squared distance of voxel n to the source: near2 + ((n - z) dz)^2 */
} Hits;

/* Computes the hits of the voxel columns of `tall` voxels from voxel `at` on. */
static inline void hit_columns(
	const Plan *plan, const KernelView *k, const int64_t at[3], int64_t tall, Hits *hits)
{
	int weight = plan->model.weight;
	bool fans = KERNEL_FANS(k);
	double columns = (double)plan->model.columns, rows = (double)plan->model.rows;
	double y = (double)at[1], z = (double)at[2], last = (double)(tall - 1);
	double depth0 = k->depth[1] * y + k->depth[3], column0 = k->column[1] * y + k->column[3];
	double row0 = k->row[1] * y + k->row[2] * z + k->row[3];
	double dy = (y - k->src[1]) * plan->whole.step[1];
	for (int i = 0; i < ACROSS; i++) {
		double x = (double)(at[0] + i), nearer = 1 / (k->depth[0] * x + depth0);
		double column = (k->column[0] * x + column0) * nearer;
		double lower = fans ? 1 : nearer, step = k->row[2] * lower;
		double row = (k->row[0] * x + row0) * lower, end = row + last * step;
		bool seen = (row > -1 || end > -1) && (row < rows || end < rows);
		bool inside = column > -1 && column < columns && seen;
		double left = floor(inside ? column : -2);
		double dx = (x - k->src[0]) * plan->whole.step[0];
		hits->left[i] = (int64_t)left;
		hits->share[i] = (float)(column - left);
		hits->step[i] = step;
		hits->row[i] = row;
		hits->weight[i] =
			(float)(weight == WEIGHT_NONE    ? 1
				: weight == WEIGHT_DEPTH ? nearer * nearer
				: !KERNEL_HAS_SOURCE(k)  ? k->mass
							 : k->mass * nearer * nearer * lower);
		hits->near2[i] = (float)(dx * dx + dy * dy);
	}
	hits->z = (float)(k->src[2] - z);
	hits->dz = fans ? 0 : (float)plan->whole.step[2];
}

bool LEVEL(column_forward_applies)(const ProjectRequest *what);
tomos_status LEVEL(column_forward)(const ProjectRequest *what);

#endif
