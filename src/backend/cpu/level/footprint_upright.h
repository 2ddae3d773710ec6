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

/* LANES neighbouring columns from voxel `at` on upwards: depth, row times depth (fans: row), and
 * the members of Sight that differ. */
typedef struct {
	Doubles depth, height, row, step;
	vf weight, x[2], y[2], z, rate, near2, nearest;
	vi rows, upright;
	float dz;
	bool distance;
} Sights;

static inline Sights sights_at(const KernelView *k, const double at[3])
{
	const double *d = k->depth, *r = k->row;
	return (Sights){.depth = doubles_line(d[0] * at[0] + d[1] * at[1] + d[3], d[0]),
		.height = doubles_line(r[0] * at[0] + r[1] * at[1] + r[2] * at[2] + r[3], r[0])};
}

/* The distances to the source. */
static inline void sights_distances(
	Sights *s, const Plan *plan, const KernelView *k, const double at[3])
{
	const bool fans = KERNEL_FANS(k);
	const double *size = plan->whole.step;
	Doubles nearest, near2;
	double step[3], square = 0;
	for (int a = 0; a < 3; a++) {
		step[a] = ((a == 2) - (fans ? k->row[2] * k->v[a] : 0)) * size[a];
		square += step[a] * step[a];
	}
	const double rate = square > 1e-12 ? 1 / square : 0, dz = square > 1e-12 ? sqrt(square) : 0;
	const Doubles x = doubles_line(at[0], 1);
	for (int h = 0; h < 2; h++) {
		vd along = {0}, far = {0};
		for (int a = 0; a < 3; a++) {
			vd p = (a == 0 ? x.half[h] : at[a] + (vd){0}) - k->src[a];
			p = (p - (fans ? k->v[a] : 0) * s->height.half[h]) * size[a];
			along += step[a] * p;
			far += p * p;
		}
		nearest.half[h] = -dz * rate * along;
		near2.half[h] = vd_most(far - along * along * rate, (vd){0});
	}
	s->dz = (float)dz;
	s->nearest = doubles_float(&nearest);
	s->near2 = doubles_float(&near2);
}

/* Weights: the common factor, and the distances. */
static inline void sights_weights(
	Sights *s, const Plan *plan, const KernelView *k, const double at[3])
{
	const int weight = plan->model.weight;
	const bool source = KERNEL_HAS_SOURCE(k);
	s->distance = weight == WEIGHT_RAY && source;
	s->weight = vf_all(weight == WEIGHT_RAY ? (float)k->mass : 1);
	if (weight == WEIGHT_NONE || (weight == WEIGHT_RAY && !source))
		return;
	vf nearer = 1 / doubles_float(&s->depth);
	s->weight *= nearer * nearer;
	if (s->distance && !KERNEL_FANS(k))
		s->weight *= nearer;
	if (s->distance)
		sights_distances(s, plan, k, at);
}

/* Rows of `tall` voxels. */
static inline void sights_rows(Sights *s, const KernelView *k, int64_t tall)
{
	const bool fans = KERNEL_FANS(k);
	const double *r = k->row, *d = k->depth;
	Doubles edges[4];
	for (int h = 0; h < 2; h++) {
		const vd none = {0};
		vd nearer = fans ? 1 + none : 1 / s->depth.half[h];
		vd bend = fans ? none : nearer;
		vd row = s->height.half[h] * nearer, step = r[2] * nearer;
		s->row.half[h] = row;
		s->step.half[h] = step;
		for (int a = 0; a < 2; a++) {
			edges[2 * a].half[h] = r[a] * nearer - row * d[a] * bend;
			edges[2 * a + 1].half[h] = -step * d[a] * bend;
		}
	}
	for (int i = 0; i < 2; i++) {
		s->x[i] = doubles_float(&edges[i]);
		s->y[i] = doubles_float(&edges[2 + i]);
	}
	/* Widths are largest at one of the ends. */
	const float top = (float)(tall + 2 * LANES);
	vf x = vf_max(vf_abs(s->x[0]), vf_abs(s->x[0] + top * s->x[1]));
	vf y = vf_max(vf_abs(s->y[0]), vf_abs(s->y[0] + top * s->y[1]));
	vf z = vf_abs(doubles_float(&s->step)), wide = x + y + z + 1e-5F;
	s->z = z;
	s->rate = 1 / z;
	s->upright = (z * z > x * x + y * y) & (z > 2 * LEAST_WIDTH);
	s->rows = (wide <= (float)(MOST_PIXELS - 1)) & (vi)(1 - vf_truncate(vf_floor(-wide)));
}

/* Trapezoids of the columns, in detector columns: the first one, and where its upper edge is.
 * Clears the lanes of `near` whose position no detector has. */
static inline Trapezoid sights_columns(
	const Sights *s, const KernelView *k, const double at[3], vi *near, vi *first, vf *from)
{
	const double *d = k->depth, *f = k->column;
	Doubles centre = doubles_line(f[0] * at[0] + f[1] * at[1] + f[3], f[0]);
	for (int h = 0; h < 2; h++)
		centre.half[h] /= s->depth.half[h];
	vf place = doubles_float(&centre), rate = 1 / doubles_float(&s->depth), fraction;
	vi whole = doubles_round(&centre, &fraction);
	const vf edges[3] = {((float)f[0] - place * (float)d[0]) * rate,
		((float)f[1] - place * (float)d[1]) * rate, vf_all(0)};
	Trapezoid t = trapezoid_of(edges);
	vf start = trapezoid_first(&t, fraction, from);
	*near = (rate > 0) & (vf_abs(place) < (float)MOST_PLACE);
	*first = (vi)((vu)whole + (vu)vf_truncate(start)); /* lanes without a voxel may wrap */
	return t;
}

/* Shares of at most `most` columns; returns how many are set, 3 or more. */
static inline int sights_shares(const Trapezoid *t, vf from, int most, vf *shares)
{
	if (most <= 3)
		trapezoid_shares(t, from, 3, shares);
	else if (most == 4)
		trapezoid_shares(t, from, 4, shares);
	else
		trapezoid_shares(t, from, most, shares);
	return most < 3 ? 3 : most;
}

/* Lane l of all but the columns. */
static inline void sight_take(const Sights *all, int l, Sight *s)
{
	s->distance = all->distance;
	s->row = ((const double *)&all->row)[l];
	s->step = ((const double *)&all->step)[l];
	for (int i = 0; i < 2; i++) {
		s->x[i] = ((const float *)&all->x[i])[l];
		s->y[i] = ((const float *)&all->y[i])[l];
	}
	s->z = ((const float *)&all->z)[l];
	s->rate = ((const float *)&all->rate)[l];
	s->near2 = ((const float *)&all->near2)[l];
	s->nearest = ((const float *)&all->nearest)[l];
	s->dz = all->dz;
	s->upright = ((const int32_t *)&all->upright)[l] != 0;
	s->rows = ((const int32_t *)&all->rows)[l];
	s->below = s->rows / 2 + 1;
}

/* The sights of `wide` (at most LANES) columns of `tall` voxels from voxel `at` on. */
static inline void sights_of(const Plan *plan, const KernelView *k, const double at[3],
	int64_t wide, int64_t tall, Sight *sights)
{
	vf shares[MOST_PIXELS], from;
	vi near, first;
	Sights all = sights_at(k, at);
	Trapezoid t = sights_columns(&all, k, at, &near, &first, &from);
	vf base = 2 * t.reach * t.wide;
	vi columns = (base <= (float)(MOST_PIXELS - 1)) & (vi)(1 - vf_truncate(vf_floor(-base)));
	int most = 0;
	for (int l = 0; l < LANES; l++)
		most = columns[l] > most ? columns[l] : most;
	most = sights_shares(&t, from, most, shares);
	sights_weights(&all, plan, k, at);
	sights_rows(&all, k, tall);
	for (int i = 0; i < most; i++)
		shares[i] *= all.weight;
	for (int l = 0; l < wide; l++) {
		Sight *s = &sights[l];
		sight_take(&all, l, s);
		s->columns = columns[l];
		s->column = near[l] ? first[l] : -MOST_PLACE;
		s->fits = s->columns > 0 && s->rows > 0;
		for (int i = 0; i < most; i++)
			s->share[i] = ((const float *)&shares[i])[l];
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
