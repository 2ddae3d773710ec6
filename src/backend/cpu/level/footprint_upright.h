/* One column of voxels along z in one view, where all of them fall on the same detector columns:
 * the shares of these columns, and the rows of each voxel. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FOOTPRINT_UPRIGHT_H
#define TOMOS_BACKEND_CPU_LEVEL_FOOTPRINT_UPRIGHT_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/doubles.h"
#include "backend/cpu/level/stretch.h"
#include "backend/cpu/level/trapezoid.h"
#include "kernel/footprint.h"

enum { MOST_PLACE = 1 << 20 }; /* columns from here on are beyond every detector */

/* The detector columns from `column` on have the shares `share`, which include the factor of the
 * weight common to all voxels. Voxel n is at row `row` + n step; its edges project to
 * |x[0] + n x[1]|, |y[0] + n y[1]| and z rows. Its distance to the source is the root of near2 +
 * (n dz - nearest)^2. */
typedef struct {
	int64_t column;
	int columns, rows,
		below; /* pixels of a footprint; rows of a window below the lowest voxel */
	bool fits, distance;
	bool upright; /* z is the wider box, in all voxels */
	double row, step;
	float share[MOST_PIXELS], x[2], y[2], z, rate, near2, nearest, dz;
} Sight;

/* Weight of the voxels from `at` on upwards: the common factor, and the distances. */
static inline float sight_weight(
	Sight *s, const Plan *plan, const KernelView *k, const double at[3], double depth)
{
	bool fans = KERNEL_FANS(k);
	s->distance = plan->model.weight == WEIGHT_RAY && KERNEL_HAS_SOURCE(k);
	if (plan->model.weight == WEIGHT_NONE)
		return 1;
	if (plan->model.weight == WEIGHT_DEPTH)
		return (float)(1 / (depth * depth));
	if (!s->distance)
		return (float)k->mass;
	double p[3], step[3], square = 0, along = 0, size = 0;
	double row = k->row[0] * at[0] + k->row[1] * at[1] + k->row[2] * at[2] + k->row[3];
	for (int a = 0; a < 3; a++) {
		p[a] = (at[a] - k->src[a] - (fans ? row * k->v[a] : 0)) * plan->whole.step[a];
		step[a] = ((a == 2) - (fans ? k->row[2] * k->v[a] : 0)) * plan->whole.step[a];
		square += step[a] * step[a];
		along += step[a] * p[a];
		size += p[a] * p[a];
	}
	double nearest = square > 1e-12 ? -along / square : 0;
	s->dz = square > 1e-12 ? (float)sqrt(square) : 0;
	s->nearest = (float)(nearest * s->dz);
	s->near2 = (float)fmax(size - nearest * nearest * square, 0);
	return (float)(k->mass / (depth * depth * (fans ? 1 : depth)));
}

/* Rows of `tall` voxels from `at` on upwards. */
static inline void sight_rows(
	Sight *s, const KernelView *k, const double at[3], double depth, int64_t tall)
{
	double nearer = KERNEL_FANS(k) ? 1 : 1 / depth, bend = KERNEL_FANS(k) ? 0 : nearer;
	double row = k->row[0] * at[0] + k->row[1] * at[1] + k->row[2] * at[2] + k->row[3];
	s->row = row * nearer;
	s->step = k->row[2] * nearer;
	s->x[0] = (float)(k->row[0] * nearer - s->row * k->depth[0] * bend);
	s->y[0] = (float)(k->row[1] * nearer - s->row * k->depth[1] * bend);
	s->x[1] = (float)(-s->step * k->depth[0] * bend);
	s->y[1] = (float)(-s->step * k->depth[1] * bend);
	s->z = (float)fabs(s->step);
	/* Widths are largest at one of the ends. */
	float top = (float)(tall + 2 * LANES), x = fabsf(s->x[0]), y = fabsf(s->y[0]);
	x = fmaxf(x, fabsf(s->x[0] + top * s->x[1]));
	y = fmaxf(y, fabsf(s->y[0] + top * s->y[1]));
	s->upright = s->z > fmaxf(hypotf(x, y), 2 * LEAST_WIDTH);
	s->rate = 1 / s->z;
	float wide = x + y + s->z + 1e-5F;
	s->fits &= wide <= MOST_PIXELS - 1;
	s->rows = s->fits ? (int)ceilf(wide) + 1 : 0;
	s->below = s->rows / 2 + 1;
}

/* Trapezoids of LANES columns from voxel `at` on, in detector columns: the first one, and
 * where its upper edge is. Clears the lanes of `near` whose position no detector has. */
static inline Trapezoid sight_columns(
	const KernelView *k, const double at[3], vi *near, vi *first, vf *from)
{
	const double *d = k->depth, *f = k->column;
	Doubles depth = doubles_line(d[0] * at[0] + d[1] * at[1] + d[3], d[0]);
	Doubles centre = doubles_line(f[0] * at[0] + f[1] * at[1] + f[3], f[0]);
	for (int h = 0; h < 2; h++)
		centre.half[h] /= depth.half[h];
	vf place = doubles_float(&centre), rate = 1 / doubles_float(&depth), fraction;
	vi whole = doubles_round(&centre, &fraction);
	const vf edges[3] = {((float)f[0] - place * (float)d[0]) * rate,
		((float)f[1] - place * (float)d[1]) * rate, vf_all(0)};
	Trapezoid t = trapezoid_of(edges);
	vf start = trapezoid_first(&t, fraction, from);
	*near = (rate > 0) & (vf_abs(place) < (float)MOST_PLACE);
	*first = (vi)((vu)whole + (vu)vf_truncate(start)); /* lanes without a voxel may wrap */
	return t;
}

/* The sights of LANES columns of `tall` voxels from voxel `at` on. */
static inline void sights_of(
	const Plan *plan, const KernelView *k, const double at[3], int64_t tall, Sight *sights)
{
	vf shares[MOST_PIXELS], from;
	vi near, first;
	Trapezoid t = sight_columns(k, at, &near, &first, &from);
	vf base = 2 * t.reach * t.wide;
	vi fits = base <= (float)(MOST_PIXELS - 1);
	trapezoid_shares(&t, from, MOST_PIXELS, shares);
	for (int l = 0; l < LANES; l++) {
		Sight *s = &sights[l];
		double here[3] = {at[0] + l, at[1], at[2]};
		double depth = k->depth[0] * here[0] + k->depth[1] * here[1] + k->depth[3];
		s->column = near[l] ? first[l] : -MOST_PLACE;
		s->columns = fits[l] ? (int)ceilf(base[l]) + 1 : 0;
		s->fits = fits[l];
		float weight = sight_weight(s, plan, k, here, depth);
		for (int i = 0; i < MOST_PIXELS; i++)
			s->share[i] = weight * shares[i][l];
		sight_rows(s, k, here, depth, tall);
	}
}

/* Whether the footprints of the column are beside the detector. */
static inline bool sight_misses(const Sight *s, const KernelModel *model)
{
	return s->fits && (s->column + s->columns <= 0 || s->column >= model->columns);
}

/* Rows [*from, *to) of a padded detector column that `tall` voxels use, whole vectors. */
static inline void sight_range(
	const Sight *s, int64_t tall, int64_t stride, int64_t *from, int64_t *to)
{
	double end = s->row + (double)(tall + 2 * LANES) * s->step;
	double low = fmin(s->row, end) - s->below, high = fmax(s->row, end) + s->below + 1;
	*from = limit((int64_t)fmax(low, -PAD) + PAD - 1, 0, stride) / LANES * LANES;
	*to = limit((int64_t)fmax(fmin(high, (double)stride), -PAD) + PAD + 1, *from, stride);
	*to = *from + parts(*to - *from, LANES) * LANES;
}

/* Shares of the rows of LANES voxels from voxel n on, and in `scale` their distances; p: position
 * of the lowest lane. Returns the first row of each, relative to that of p. */
INLINE vi sight_shares(const Sight *s, const Lanes *lanes, int64_t p, int64_t n, const int rows,
	const bool distance, vf *shares, vf *scale)
{
	vf fraction, at = (float)n + vf_lane();
	vi whole = lanes_at(lanes, p, &fraction);
	vf x = s->x[0] + at * s->x[1], y = s->y[0] + at * s->y[1], z = vf_all(s->z);
	const vf edges[3] = {x, y, z};
	Trapezoid t;
	if (s->upright) /* the vertical edge projects to the wider box */
		t = trapezoid_by(z, vf_all(s->rate), x * x + (y * y + LEAST_WIDTH * LEAST_WIDTH));
	else
		t = trapezoid_of(edges);
	vf from, start = trapezoid_first(&t, fraction, &from);
	trapezoid_shares(&t, from, rows, shares);
	vf away = at * s->dz - s->nearest;
	*scale = distance ? vf_root(s->near2 + away * away) : vf_all(1);
	return whole + vf_truncate(start);
}

#endif
