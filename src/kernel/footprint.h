/* Separable footprint: the projection of a voxel as the product of one trapezoid along the columns
 * and one along the rows, each averaged over the pixel.
 *
 * Y. Long, J. A. Fessler, J. M. Balter, "3D forward and back-projection for X-ray CT using
 * separable footprints", IEEE Trans. Med. Imaging 29 (2010). A trapezoid is the convolution of two
 * boxes: the widths of the voxel's three projected edges, of which the two smaller ones are
 * combined as the root of the sum of squares, which keeps the variance. For parallel rays and
 * detector rows perpendicular to z the footprint is exact. The total weight is that of
 * voxel_weight, so mass is preserved for every geometry.
 */
#ifndef TOMOS_KERNEL_FOOTPRINT_H
#define TOMOS_KERNEL_FOOTPRINT_H

#include "kernel/voxel.h"

typedef struct {
	double centre, wide, narrow; /* widths of the two convolved boxes, wide >= narrow */
	double reach;                /* half the length of the base */
} FootprintProfile;

/* The footprint in one detector coordinate f / depth, linearised around the voxel; `change` is 0
 * where the coordinate is not divided by the depth, else 1. */
KERNEL_FN FootprintProfile footprint_profile(
	const double f[4], const KernelView *view, const int64_t at[3], double depth, double change)
{
	FootprintProfile profile;
	profile.centre = voxel_affine(f, at) / depth;
	double bend = profile.centre * change;
	double x = fabs(f[0] - bend * view->depth[0]) / depth;
	double y = fabs(f[1] - bend * view->depth[1]) / depth;
	double z = fabs(f[2] - bend * view->depth[2]) / depth;
	profile.wide = fmax(fmax(x, y), fmax(z, 1e-9));
	double rest = x * x + y * y + z * z - profile.wide * profile.wide;
	profile.narrow = fmin(sqrt(fmax(rest, 0.0)), profile.wide);
	profile.reach = 0.5 * (profile.wide + profile.narrow);
	return profile;
}

/* Fraction of the footprint below s, measured from its centre. */
KERNEL_FN double footprint_below(const FootprintProfile *profile, double s)
{
	double far = profile->reach - fabs(s);
	if (far <= 0)
		return s > 0 ? 1 : 0;
	double tail = far < profile->narrow ? far * far / (2 * profile->wide * profile->narrow)
					    : 0.5 - fabs(s) / profile->wide;
	return s > 0 ? 1 - tail : tail;
}

KERNEL_FN double footprint_share(const FootprintProfile *profile, int64_t pixel)
{
	double s = (double)pixel - profile->centre;
	return footprint_below(profile, s + 0.5) - footprint_below(profile, s - 0.5);
}

KERNEL_FN void footprint_range(
	const FootprintProfile *profile, int64_t n, int64_t *low, int64_t *high)
{
	double from = profile->centre - profile->reach + 0.5,
	       to = profile->centre + profile->reach + 0.5;
	*low = from > 0 ? (from < (double)n ? (int64_t)floor(from) : n) : 0;
	*high = to < (double)(n - 1) ? (to < 0 ? -1 : (int64_t)floor(to)) : n - 1;
}

KERNEL_FN void footprint_voxel(const KernelGrid *grid, const KernelModel *model,
	const KernelView *view, const int64_t at[3], const int mode, KernelMeet *meet)
{
	double depth = voxel_affine(view->depth, at);
	if (!(depth > 0))
		return;
	FootprintProfile across = footprint_profile(view->column, view, at, depth, 1),
			 along = across;
	int64_t c0, c1, r0 = 0, r1 = 0;
	footprint_range(&across, model->columns, &c0, &c1);
	if (!model->planar) {
		along = footprint_profile(view->row, view, at, kernel_row_depth(view, depth),
			KERNEL_FANS(view) ? 0 : 1);
		footprint_range(&along, model->rows, &r0, &r1);
	}
	double weight = voxel_weight(grid, model, view, at, depth);
	for (int64_t r = r0; r <= r1; r++) {
		double row_share = model->planar ? 1 : footprint_share(&along, r);
		for (int64_t c = c0; c <= c1; c++) {
			double share = row_share * footprint_share(&across, c);
			if (share > KERNEL_LEAST)
				kernel_meet(meet, mode, r * model->columns + c, share * weight);
		}
	}
}

#endif
