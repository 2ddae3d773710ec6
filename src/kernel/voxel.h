/* Voxel-driven: each voxel's centre is projected onto the detector and shared among the pixels
 * around that point, by linear interpolation or all to the nearest.
 *
 * Nielsen 2014, 2.5.3; boundaries as there: expanding, a voxel within one pixel of the outermost
 * pixel centres still counts with what falls inside; clamping, it does not.
 */
#ifndef TOMOS_KERNEL_VOXEL_H
#define TOMOS_KERNEL_VOXEL_H

#include "kernel/portable.h"

#define VOXEL_EDGE 1e-9

KERNEL_FN double voxel_affine(const double f[4], const int64_t at[3])
{
	return f[0] * (double)at[0] + f[1] * (double)at[1] + f[2] * (double)at[2] + f[3];
}

/* WEIGHT_RAY: the line integral a voxel adds to a pixel on which all of it falls. With column and row
 * as functions c, r of space that is voxel volume |grad c x grad r|, which for a point source works
 * out as mass distance / depth^3 (planar and fans: mass distance / depth^2) with a constant of the
 * view. */
KERNEL_FN double voxel_weight(const KernelGrid *grid, const KernelModel *model,
	const KernelView *view, const int64_t at[3], double depth)
{
	if (model->weight == WEIGHT_NONE)
		return 1;
	if (model->weight == WEIGHT_DEPTH)
		return 1 / (depth * depth);
	if (!KERNEL_HAS_SOURCE(view))
		return view->mass;
	double square = 0, row = KERNEL_FANS(view) ? voxel_affine(view->row, at) : 0;
	for (int a = 0; a < 3; a++) {
		double d = ((double)at[a] - view->src[a] - row * view->v[a]) * grid->step[a];
		square += d * d;
	}
	int in_plane = model->planar || KERNEL_FANS(view);
	return view->mass * sqrt(square) / (depth * depth * (in_plane ? 1 : depth));
}

/* Lowest pixel and the share of the next one; 0 if the point is off a detector of n pixels. */
KERNEL_FN int voxel_share(
	const KernelModel *model, double p, int64_t n, int64_t *low, double *share)
{
	if (model->clamp && (p < -VOXEL_EDGE || p > (double)(n - 1) + VOXEL_EDGE))
		return 0;
	if (!(p > -1 && p < (double)n))
		return 0;
	double below = model->nearest ? floor(p + 0.5) : floor(p);
	*low = (int64_t)below;
	*share = model->nearest ? 0 : p - below;
	return 1;
}

KERNEL_FN void voxel_voxel(const KernelGrid *grid, const KernelModel *model, const KernelView *view,
	const int64_t at[3], const int mode, KernelMeet *meet)
{
	double depth = voxel_affine(view->depth, at);
	if (!(depth > 0))
		return;
	int64_t column, row = 0;
	double right, up = 0;
	if (!voxel_share(
		    model, voxel_affine(view->column, at) / depth, model->columns, &column, &right))
		return;
	if (!model->planar &&
		!voxel_share(model, voxel_affine(view->row, at) / kernel_row_depth(view, depth),
			model->rows, &row, &up))
		return;
	double weight = voxel_weight(grid, model, view, at, depth);
	for (int j = 0; j < 4; j++) {
		int64_t c = column + (j & 1), r = row + (j >> 1);
		double share = (j & 1 ? right : 1 - right) * (j & 2 ? up : 1 - up);
		if (share > KERNEL_LEAST && c >= 0 && c < model->columns && r >= 0 &&
			r < model->rows)
			kernel_meet(meet, mode, r * model->columns + c, share * weight);
	}
}

#endif
