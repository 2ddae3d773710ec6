/* Footprints of LANES voxels at once (see kernel/footprint.h): the pixels onto which each voxel
 * projects, and the shares of their columns and rows. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FOOTPRINT_H
#define TOMOS_BACKEND_CPU_LEVEL_FOOTPRINT_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/doubles.h"
#include "kernel/footprint.h"

enum {
	MOST_PIXELS = 8, /* of a footprint in either direction; larger ones are computed singly */
	MOST_PLACE = 1 << 20, /* positions from here on are beyond every detector */
};

/* Four columns of one voxel. */
typedef float v4 __attribute__((vector_size(16)));

INLINE v4 four_load(const float *p)
{
	v4 v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* Stores four vectors as fours of each lane, that of lane l at fours[four_of(l)]. */
INLINE void fours_store(const vf m[4], float (*fours)[4])
{
	vf square[4];
	transpose_four(m, square);
	for (int c = 0; c < 4; c++)
		vf_store(fours[c * (LANES / 4)], square[c]);
}

INLINE int four_of(int l)
{
	return l % 4 * (LANES / 4) + l / 4;
}

/* A trapezoid in one detector coordinate, for each lane. It begins in pixel `first`, whose upper
 * edge is at `edge` from its centre, and reaches `reach` from there. */
typedef struct {
	vi first;
	vf edge, reach, narrow;
	vf rate, curve; /* 1 / wide and 1 / (2 wide narrow) */
} Profile;

/* Narrower boxes are made this wide, for the sake of rounding errors. */
#define LEAST_WIDTH 1e-6F

/* The trapezoid of two boxes, centred `fraction` beyond pixel `whole`. */
INLINE Profile profile_of_boxes(vi whole, vf fraction, vf wide, vf narrow, vf rate, vf curve)
{
	Profile p = {
		.reach = 0.5F * (wide + narrow), .narrow = narrow, .rate = rate, .curve = curve};
	vf start = vf_floor(fraction + 0.5F - p.reach);
	p.first = (vi)((vu)whole + (vu)vf_truncate(start)); /* lanes without a voxel may wrap */
	p.edge = start + 0.5F - fraction;
	return p;
}

/* The trapezoid of the widths that the three edges of a voxel project to. */
INLINE Profile profile_of(vi whole, vf fraction, vf x, vf y, vf z)
{
	const vf least = vf_all(LEAST_WIDTH);
	vf low = vf_min(x, y), high = vf_max(x, y), middle = vf_min(high, z);
	vf wide = vf_max(vf_max(high, z), least);
	vf narrow = vf_max(vf_min(vf_sqrt(low * low + middle * middle), wide), least);
	vf inverse = 1 / (wide * narrow);
	return profile_of_boxes(whole, fraction, wide, narrow, inverse * narrow, 0.5F * inverse);
}

/* Lanes whose trapezoid has at most `pixels` pixels, wherever it is. */
INLINE vi profile_within(const Profile *p, int pixels)
{
	return p->reach <= 0.5F * (float)(pixels - 1);
}

/* Part of the trapezoid further than |s| from its centre, on one side. */
INLINE vf profile_tail(const Profile *p, vf s)
{
	vf far = vf_positive(p->reach - vf_abs(s)), slope = vf_min(far, p->narrow);
	return (far - slope) * p->rate + slope * slope * p->curve;
}

/* The shares of `count` pixels from the first one on. Those at the ends, which may be small, are
 * not differences of large numbers. */
INLINE void profile_shares(const Profile *p, const int count, vf *shares)
{
	vf s = p->edge, tail = profile_tail(p, s), above = vf_by_sign(s, 1 - tail, tail);
	shares[0] = vf_by_sign(s, tail, 1 - tail);
	for (int i = 1; i < count - 1; i++) {
		s = p->edge + (float)i;
		tail = profile_tail(p, s);
		vf next = vf_by_sign(s, 1 - tail, tail);
		shares[i] = above - next;
		above = next;
	}
	shares[count - 1] = above;
}

/* LANES voxels, `stride` voxels apart along `axis`, from voxel `at` of the grid on. */
typedef struct {
	double at[3], stride;
	int axis;
} VoxelLanes;

/* The function f of the voxel index in lane 0, and its change from lane to lane. */
INLINE double lanes_affine(const double f[4], const VoxelLanes *v, double *step)
{
	*step = f[v->axis] * v->stride;
	return f[0] * v->at[0] + f[1] * v->at[1] + f[2] * v->at[2] + f[3];
}

INLINE Doubles lanes_values(const double f[4], const VoxelLanes *v)
{
	double step, first = lanes_affine(f, v, &step);
	return doubles_line(first, step);
}

/* voxel_weight of LANES voxels; nearer: 1 / depth. */
INLINE vf lanes_weight(const Plan *plan, const KernelView *k, const VoxelLanes *v, vf nearer)
{
	bool fans = KERNEL_FANS(k);
	if (plan->model.weight == WEIGHT_NONE)
		return vf_all(1);
	if (plan->model.weight == WEIGHT_DEPTH)
		return nearer * nearer;
	if (!KERNEL_HAS_SOURCE(k))
		return vf_all((float)k->mass);
	vf square = {0};
	double climb, row = lanes_affine(k->row, v, &climb);
	for (int a = 0; a < 3; a++) {
		double d = v->at[a] - k->src[a], step = a == v->axis ? v->stride : 0;
		d -= fans ? row * k->v[a] : 0;
		step -= fans ? climb * k->v[a] : 0;
		vf from = (float)(d * plan->whole.step[a]) +
			  vf_lane() * (float)(step * plan->whole.step[a]);
		square += from * from;
	}
	vf weight = (float)k->mass * vf_sqrt(square) * nearer * nearer;
	return plan->model.planar || fans ? weight : weight * nearer;
}

/* Trapezoid of the detector coordinate f(voxel) `nearer`; `change`: see footprint_shadow. Clears
 * the lanes of `near` whose position no detector has. */
INLINE Profile lanes_profile(const double f[4], const KernelView *k, const VoxelLanes *v,
	const Doubles *nearer, float change, vi *near)
{
	Doubles centre = lanes_values(f, v);
	for (int h = 0; h < 2; h++)
		centre.half[h] *= nearer->half[h];
	vf scale = doubles_float(nearer), at = doubles_float(&centre), bend = change * at;
	vf fraction;
	vi whole = doubles_round(&centre, &fraction);
	*near &= vf_abs(at) < (float)MOST_PLACE;
	return profile_of(whole, fraction, vf_abs((float)f[0] - bend * (float)k->depth[0]) * scale,
		vf_abs((float)f[1] - bend * (float)k->depth[1]) * scale,
		vf_abs((float)f[2] - bend * (float)k->depth[2]) * scale);
}

/* The pixels of LANES voxels in a view. Voxel l begins at float offset[l] of the padded view; row i
 * has the share row[i][l], which includes the weight of the voxel, and column 4 j + c the share
 * column[j][four_of(l)][c]. */
typedef struct {
	_Alignas(64) float column[MOST_PIXELS / 4][LANES][4];
	float row[MOST_PIXELS][LANES];
	int32_t offset[LANES];
	int rows, fours;
	vi large; /* lanes whose footprints have too many pixels: not computed here */
} Footprints;

INLINE void footprints_columns(Footprints *f, const Profile *p, vi good, const int fours)
{
	vf shares[MOST_PIXELS];
	profile_shares(p, 4 * fours, shares);
	for (int i = 0; i < 4 * fours; i++)
		shares[i] = vf_where(good, shares[i]);
	for (int j = 0; j < fours; j++)
		fours_store(shares + 4 * j, f->column[j]);
	f->fours = fours;
}

INLINE void footprints_rows(Footprints *f, const Profile *p, vi good, vf weight, const int rows)
{
	vf shares[MOST_PIXELS];
	profile_shares(p, rows, shares);
	for (int i = 0; i < rows; i++)
		vf_store(f->row[i], vf_where(good, weight * shares[i]));
	f->rows = rows;
}

/* `width`: floats from row to row of the padded view. */
INLINE void footprints_of(
	Footprints *f, const Plan *plan, const KernelView *k, const VoxelLanes *v, int32_t width)
{
	Doubles nearer = lanes_values(k->depth, v), one = doubles_line(1, 0);
	for (int h = 0; h < 2; h++)
		nearer.half[h] = 1 / nearer.half[h];
	vf scale = doubles_float(&nearer);
	vi front = scale > 0, near = front;
	Profile across = lanes_profile(k->column, k, v, &nearer, 1, &near), along = across;
	if (!plan->model.planar && KERNEL_FANS(k))
		along = lanes_profile(k->row, k, v, &one, 0, &near);
	else if (!plan->model.planar)
		along = lanes_profile(k->row, k, v, &nearer, 1, &near);
	vi good = profile_within(&across, MOST_PIXELS) & profile_within(&along, MOST_PIXELS);
	f->large = front & ~good;
	good &= near;
	vi offset = vi_limit(across.first, -MOST_PIXELS, (int32_t)plan->model.columns);
	vf weight = lanes_weight(plan, k, v, scale);
	if (vi_any(good & ~profile_within(&across, 4)))
		footprints_columns(f, &across, good, 2);
	else
		footprints_columns(f, &across, good, 1);
	if (plan->model.planar) {
		vf_store(f->row[0], vf_where(good, weight));
		f->rows = 1;
	} else {
		offset += width * vi_limit(along.first, -MOST_PIXELS, (int32_t)plan->model.rows);
		if (!vi_any(good & ~profile_within(&along, 3)))
			footprints_rows(f, &along, good, weight, 3);
		else if (!vi_any(good & ~profile_within(&along, 4)))
			footprints_rows(f, &along, good, weight, 4);
		else
			footprints_rows(f, &along, good, weight, MOST_PIXELS);
	}
	memcpy(f->offset, &offset, sizeof offset);
}

/* A voxel whose footprint has any number of pixels: adds its back projection to *voxel, or its
 * projection to the view at `image`, with these numbers of floats from pixel to pixel. */
void LEVEL(footprint_large)(const Plan *plan, const KernelView *k, const int64_t at[3],
	Direction direction, float *voxel, float *image, int64_t row_stride, int64_t column_stride);

#endif
