/* Footprints of LANES voxels at once (see kernel/footprint.h): the pixels onto which each voxel
 * projects, and the shares of their columns and rows. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FOOTPRINT_H
#define TOMOS_BACKEND_CPU_LEVEL_FOOTPRINT_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"
#include "kernel/footprint.h"

enum {
	MOST_PIXELS = 8, /* of a footprint in either direction; larger ones are computed singly */
	MOST_PLACE = 1 << 20, /* positions from here on are beyond every detector */
};

/* Four columns of one voxel. */
typedef float v4 __attribute__((vector_size(16)));

/* A trapezoid in one detector coordinate, for each lane. It begins in pixel `first`, whose upper
 * edge is at `edge` from its centre, and ends `more` pixels further. */
typedef struct {
	vi first;
	vf more, edge, reach, narrow;
	vf rate, bend; /* 1 / wide and 1 / (2 narrow) */
	vi fits;       /* lanes whose trapezoid has at most MOST_PIXELS pixels */
	vi near;       /* lanes at positions that a detector may have */
} Profile;

/* The trapezoid around `centre`, of the widths that the three edges of a voxel project to. */
INLINE Profile profile_of(const Doubles *centre, vf x, vf y, vf z)
{
	Profile p;
	vf low = vf_min(x, y), high = vf_max(x, y), middle = vf_min(high, z);
	vf wide = vf_max(vf_max(high, z), vf_all(1e-9F));
	p.narrow = vf_min(vf_sqrt(low * low + middle * middle), wide);
	p.reach = 0.5F * (wide + p.narrow);
	p.rate = 1 / wide;
	p.bend = 0.5F / vf_max(p.narrow, vf_all(1e-12F));
	p.fits = p.reach <= 0.5F * (MOST_PIXELS - 1);
	vf fraction;
	vi whole = doubles_round(centre, &fraction);
	vf start = vf_floor(fraction + 0.5F - p.reach);
	p.first = whole + vf_truncate(start);
	p.edge = start + 0.5F - fraction;
	p.more = vf_floor(fraction + 0.5F + p.reach) - start;
	return p;
}

/* Part of the trapezoid above s, measured from its centre. */
INLINE vf profile_above(const Profile *p, vf s)
{
	vf far = vf_positive(p->reach - vf_abs(s)), slope = vf_min(far, p->narrow);
	vf tail = (far - slope + slope * slope * p->bend) * p->rate;
	return 0.5F - (vf)((vi)(0.5F - tail) ^ ((vi)s & INT32_MIN));
}

/* The shares of `count` pixels from the first one on. */
INLINE void profile_shares(const Profile *p, const int count, vf *shares)
{
	vf above = vf_all(1);
	for (int i = 0; i < count - 1; i++) {
		vf next = profile_above(p, p->edge + (float)i);
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

/* Trapezoid of the detector coordinate f(voxel) `nearer`; `change`: see footprint_shadow. */
INLINE Profile lanes_profile(const double f[4], const KernelView *k, const VoxelLanes *v,
	const Doubles *nearer, float change)
{
	Doubles centre = lanes_values(f, v);
	for (int h = 0; h < 2; h++)
		centre.half[h] *= nearer->half[h];
	vf scale = doubles_float(nearer), at = doubles_float(&centre), bend = change * at;
	Profile p = profile_of(&centre, vf_abs((float)f[0] - bend * (float)k->depth[0]) * scale,
		vf_abs((float)f[1] - bend * (float)k->depth[1]) * scale,
		vf_abs((float)f[2] - bend * (float)k->depth[2]) * scale);
	p.near = vf_abs(at) < (float)MOST_PLACE;
	return p;
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

/* Place of lane l after transpose_four. */
INLINE int four_of(int l)
{
	return l % 4 * (LANES / 4) + l / 4;
}

INLINE void footprints_columns(Footprints *f, const Profile *p, vi good, const int fours)
{
	vf shares[MOST_PIXELS];
	profile_shares(p, 4 * fours, shares);
	for (int i = 0; i < 4 * fours; i++)
		shares[i] = vf_where(good, shares[i]);
	for (int j = 0; j < fours; j++) {
		vf square[4];
		transpose_four(shares + 4 * j, square);
		memcpy(f->column[j], square, sizeof square);
	}
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
	Profile across = lanes_profile(k->column, k, v, &nearer, 1), along = across;
	if (!plan->model.planar)
		along = lanes_profile(
			k->row, k, v, KERNEL_FANS(k) ? &one : &nearer, KERNEL_FANS(k) ? 0 : 1);
	vi fits = across.fits & along.fits;
	f->large = ~fits & (scale > 0);
	vi good = fits & (scale > 0) & across.near & along.near;
	vi offset = vi_limit(across.first, -MOST_PIXELS, (int32_t)plan->model.columns);
	vf weight = lanes_weight(plan, k, v, scale);
	if (vi_any(good & (across.more > 3)))
		footprints_columns(f, &across, good, 2);
	else
		footprints_columns(f, &across, good, 1);
	if (plan->model.planar) {
		vf_store(f->row[0], vf_where(good, weight));
		f->rows = 1;
	} else {
		offset += width * vi_limit(along.first, -MOST_PIXELS, (int32_t)plan->model.rows);
		if (!vi_any(good & (along.more > 2)))
			footprints_rows(f, &along, good, weight, 3);
		else if (!vi_any(good & (along.more > 3)))
			footprints_rows(f, &along, good, weight, 4);
		else
			footprints_rows(f, &along, good, weight, MOST_PIXELS);
	}
	memcpy(f->offset, &offset, sizeof offset);
}

#endif
