/* Voxel-driven projection: the centre of each voxel is projected onto the detector and its value
 * distributed to the pixels around that point, by linear interpolation or to the nearest.
 *
 * Nielsen 2014, 2.5.3, with the same boundaries: `expand`, a voxel that projects to within one
 * pixel of the outermost pixel centres contributes the part that falls on pixels; `clamp`, it
 * contributes nothing.
 */
#ifndef TOMOS_KERNEL_VOXEL_H
#define TOMOS_KERNEL_VOXEL_H

#include "kernel/portable.h"

/* A point this close to the outermost pixel centres counts as on them; this close to the middle
 * between two pixels, the upper one is the nearest, however it was rounded. */
#define VOXEL_EDGE 1e-9

KERNEL_FN double voxel_affine(const double f[4], const int64_t at[3])
{
	return f[0] * (double)at[0] + f[1] * (double)at[1] + f[2] * (double)at[2] + f[3];
}

/* WEIGHT_RAY: the line integral that a voxel adds to a pixel onto which all of it projects, voxel
 * volume times |grad c x grad r| for column c and row r as functions of position. For a point
 * source this is mass distance / depth^3 (planar and fans: mass distance / depth^2), where mass is
 * a constant of the view. */
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

/* The lower of two neighbouring pixels and the weight of the upper one; 0 if the point is off a
 * detector of n pixels. */
KERNEL_FN int voxel_share(
	const KernelModel *model, double p, int64_t n, int64_t *low, double *share)
{
	if (model->clamp && (p < -VOXEL_EDGE || p > (double)(n - 1) + VOXEL_EDGE))
		return 0;
	if (!(p > -1 && p < (double)n))
		return 0;
	double below = model->nearest ? floor(p + 0.5 + VOXEL_EDGE) : floor(p);
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
