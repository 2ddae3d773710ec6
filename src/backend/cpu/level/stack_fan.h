/* Fans for stack.h: sample indices and weights where positions are quotients of linear functions.
 *
 * From a pixel that projects to column C, the pixel at distance d along an axis projects to column
 * C + d step / (1 + d bend); see fan.h. Solved for d: the ray of column c passes the first pixel at
 * the distance d = (c - C) / (step - (c - C) bend) along that axis. The adjoint computes this for
 * the columns around a given pixel, forward projection the inverse for the voxels around a given
 * ray. Each ray is sampled along its dominant axis, which changes at column `cross`.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_STACK_FAN_H
#define TOMOS_BACKEND_CPU_LEVEL_STACK_FAN_H

#include "backend/cpu/level/doubles.h"
#include "backend/cpu/level/fan.h"
#include "backend/cpu/level/stack.h"

/* Depths are clamped to this value, which avoids division by 0 beside the grid; depths inside the
 * grid are larger. */
#define LEAST_DEPTH 0.01F

/* Dominant axis of the ray of a column, as in the reference kernel. */
INLINE int fan_axis(const KernelView *k, double column)
{
	double d[2];
	for (int a = 0; a < 2; a++)
		d[a] = k->first[a] + column * k->u[a] - k->src[a];
	return fabs(d[0]) >= fabs(d[1]) ? 0 : 1;
}

/* The rays span less than 90 degrees, so the dominant axis changes at most once. */
INLINE Fan fan_of(const Stack *s, int64_t view)
{
	const KernelView *k = &s->what->plan->views[s->what->first + view];
	Fan fan = {.k = k, .axis = fan_axis(k, 0)};
	int64_t low = 0, high = s->what->plan->model.columns;
	while (low < high) { /* bisection: first column of the other axis */
		int64_t middle = low + (high - low) / 2;
		if (fan_axis(k, (double)middle) == fan.axis)
			low = middle + 1;
		else
			high = middle;
	}
	fan.cross = low;
	return fan;
}

/* Columns [*low, *high) whose rays have that dominant axis. */
INLINE void fan_columns(const Stack *s, const Fan *fan, int axis, int64_t *low, int64_t *high)
{
	*low = axis == fan->axis ? 0 : fan->cross;
	*high = axis == fan->axis ? fan->cross : s->what->plan->model.columns;
}

INLINE vf vf_choose(vi mask, vf yes, vf no)
{
	return (vf)(((vi)yes & mask) | ((vi)no & ~mask));
}

/* Stores the offsets of the first samples `at`, clamped to the zero padding. */
INLINE void entries_at(Entries *e, int term, vi at, int32_t n, const int taps, int32_t wide)
{
	vi offset = (vi_limit(at, -taps, n) + taps) * wide;
	memcpy(e->offset[term], &offset, sizeof offset);
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Voxel-driven: columns and weights of LANES pixels from (x, y) of the grid on. */
INLINE void fan_entries_voxel(
	Entries *e, int term, const Stack *s, const Fan *fan, double x, double y)
{
	const Plan *plan = s->what->plan;
	Look look = look_from(fan->k, x, y);
	Hits hits = fan_hits(&look);
	vf weight = fan_weights(plan, fan->k, &hits, x, y), second = weight * hits.fraction;
	vi at = hits.at + (int32_t)limit(hits.first, -MOST_SAMPLES, 2 * MOST_SAMPLES);
	entries_at(e, term, at, (int32_t)plan->model.columns, 2, (int32_t)s->wide);
	vf_store(e->weight[term][0], weight - second);
	vf_store(e->weight[term][1], second);
}

/* Likewise for the adjoint of Joseph's method. The ray lengths are already in the samples. */
INLINE void fan_entries_joseph(
	Entries *e, int term, const Stack *s, const Fan *fan, double x, double y, const int taps)
{
	const KernelView *k = fan->k;
	int32_t columns = (int32_t)s->what->plan->model.columns;
	Look look = look_from(k, x, y);
	Hits hits = fan_hits(&look);
	int32_t whole = (int32_t)limit(hits.first, -MOST_SAMPLES, 2 * MOST_SAMPLES);
	vf bend[2] = {hits.nearer * (float)k->depth[0], hits.nearer * (float)k->depth[1]}, step[2];
	vf inverse = hits.nearer * (float)look.depth;
	step[0] = (float)look.step * inverse * inverse;
	vf column = vi_float(hits.at + whole) + hits.fraction;
	step[1] = ((float)k->column[1] - column * (float)k->depth[1]) * hits.nearer;
	vf low = vf_floor(hits.fraction - (float)s->reach) + 1, away = low - hits.fraction;
	vi at = hits.at + whole + vf_truncate(low);
	entries_at(e, term, at, columns, taps, (int32_t)s->wide);
	for (int t = 0; t < taps; t++) {
		vf c = away + (float)t;
		/* rays with dominant axis x are apart along y, and the reverse */
		vi along_y = (at + t < (int32_t)fan->cross) ^ (fan->axis == 0 ? 0 : -1);
		vf d = c / vf_choose(along_y, step[1] - c * bend[1], step[0] - c * bend[0]);
		vf_store(e->weight[term][t], vf_positive(1 - vf_abs(d)));
	}
}

/* Likewise for footprints. */
INLINE void fan_entries_footprint(
	Entries *e, int term, const Stack *s, const Fan *fan, double x, double y, const int taps)
{
	const KernelView *k = fan->k;
	const Plan *plan = s->what->plan;
	Look look = look_from(k, x, y);
	Hits hits = fan_hits(&look);
	vi whole = hits.at + (int32_t)limit(hits.first, -MOST_SAMPLES, 2 * MOST_SAMPLES);
	vf column = vi_float(whole) + hits.fraction, edges[3] = {{0}};
	for (int a = 0; a < 2; a++)
		edges[a] = ((float)k->column[a] - column * (float)k->depth[a]) * hits.nearer;
	Trapezoid trapezoid = trapezoid_of(edges);
	vf weight = fan_weights(plan, k, &hits, x, y);
	vf low = vf_floor(hits.fraction - (float)s->reach) + 1, away = low - hits.fraction;
	entries_at(e, term, whole + vf_truncate(low), (int32_t)plan->model.columns, taps,
		(int32_t)s->wide);
	for (int t = 0; t < taps; t++)
		vf_store(e->weight[term][t], weight * trapezoid_share(&trapezoid, away + (float)t));
}

/* Lengths between two planes of the rays of LANES columns from `column` on. */
INLINE vf fan_lengths(const Stack *s, const Fan *fan, int64_t column)
{
	const double *step = s->what->plan->whole.step;
	const KernelView *k = fan->k;
	vf lengths = {0};
	for (int l = 0; l < LANES; l++) {
		double c = (double)(column + l), d[2];
		int a = column + l < fan->cross ? fan->axis : 1 - fan->axis;
		for (int i = 0; i < 2; i++)
			d[i] = k->first[i] + c * k->u[i] - k->src[i];
		lengths[l] = (float)(sqrt(d[0] * d[0] * step[0] * step[0] +
					     d[1] * d[1] * step[1] * step[1]) /
				     fabs(d[a]));
	}
	return lengths;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* LANES neighbouring rays. In plane k across `axis` a ray is at voxel base + k slope of the other
 * axis; both are relative to the box. Lanes outside [first, last] have the other dominant axis;
 * their base is far outside the box, so that they add 0. */
typedef struct {
	int axis, first, last; /* lanes with that dominant axis */
	double base[LANES], slope[LANES];
	vf length; /* length between two planes; voxel-driven: 1 */
	/* Voxel-driven only. A voxel projects to column U / D. On the ray of column c, in plane k,
	 * D = depth + k deeper. One voxel further along the other axis, U - c D grows by `rate` and
	 * D by `bend`. `source`: position of the source along `axis`. */
	float depth[LANES], deeper[LANES], rate[LANES], bend, source;
	/* Footprints: the same as `rate` and `bend` from plane to plane. */
	float next[LANES], bow;
} FanRays;

INLINE void fan_ray(FanRays *r, const Stack *s, const KernelView *k, int64_t column, int l)
{
	int a = r->axis, b = 1 - a;
	double low[2] = {(double)s->what->box.low[0], (double)s->what->box.low[1]}, d[2];
	for (int i = 0; i < 2; i++)
		d[i] = k->first[i] + (double)column * k->u[i] - k->src[i];
	double slope = d[b] / d[a], base = k->src[b] - low[b] + (low[a] - k->src[a]) * slope;
	r->base[l] = base, r->slope[l] = slope;
	r->depth[l] = (float)(k->depth[a] * low[a] + k->depth[b] * (base + low[b]) + k->depth[3]);
	r->deeper[l] = (float)(k->depth[a] + k->depth[b] * slope);
	r->rate[l] = (float)(k->column[b] - (double)column * k->depth[b]);
	r->next[l] = (float)(k->column[a] - (double)column * k->depth[a]);
}

INLINE FanRays fan_rays(const Stack *s, const Fan *fan, int axis, int64_t column)
{
	FanRays r = {.axis = axis};
	int64_t low, high;
	fan_columns(s, fan, axis, &low, &high);
	r.first = (int)limit(low - column, 0, LANES - 1);
	r.last = (int)limit(high - 1 - column, 0, LANES - 1);
	for (int l = 0; l < LANES; l++) {
		r.base[l] = -MOST_SAMPLES;
		r.depth[l] = r.rate[l] = r.next[l] = 1;
		if (l >= r.first && l <= r.last)
			fan_ray(&r, s, fan->k, column + l, l);
	}
	r.length = s->what->kernel == KERNEL_joseph ? fan_lengths(s, fan, column) : vf_all(1);
	r.bend = (float)fan->k->depth[1 - axis];
	r.bow = (float)fan->k->depth[axis];
	r.source = (float)(fan->k->src[axis] - (double)s->what->box.low[axis]);
	return r;
}

/* Position of the ray in lane l in plane k. */
INLINE double fan_place(const FanRays *r, int l, double k)
{
	return r->base[l] + k * r->slope[l];
}

/* Whether any of the rays passes within `reach` of voxels [0, n) in planes [k, k + count). */
INLINE bool fan_meets(const FanRays *r, int64_t k, int64_t count, double reach, int64_t n)
{
	double from = (double)k, to = (double)(k + count - 1);
	double a = fan_place(r, r->first, from), b = fan_place(r, r->first, to);
	double c = fan_place(r, r->last, from), d = fan_place(r, r->last, to);
	return fmax(fmax(a, b), fmax(c, d)) + reach > 0 &&
	       fmin(fmin(a, b), fmin(c, d)) - reach < (double)(n - 1);
}

/* Voxel-driven weights (see WEIGHT_*) of one voxel per lane. `along` and `across`: distances from
 * the source in voxels along `axis` and the other axis; `nearer`: 1 / D of the voxels. */
INLINE vf fan_voxel_weight(
	const Stack *s, const KernelView *k, const FanRays *r, float along, vf across, vf nearer)
{
	const Plan *plan = s->what->plan;
	if (plan->model.weight == WEIGHT_NONE)
		return vf_all(1);
	if (plan->model.weight == WEIGHT_DEPTH)
		return nearer * nearer;
	float a = along * (float)plan->whole.step[r->axis];
	vf b = across * (float)plan->whole.step[1 - r->axis];
	return nearer * nearer * (float)k->mass * vf_root(a * a + b * b);
}

/* Computes first voxels and weights of the rays in plane k, which has n voxels. */
INLINE void fan_entries_rays(Entries *e, int term, const Stack *s, const KernelView *view,
	const FanRays *r, int64_t k, int32_t n, const int taps, const bool linear,
	const bool footprint)
{
	Doubles slope = doubles_load(r->slope), place = doubles_load(r->base);
	vf fraction;
	for (int h = 0; h < 2; h++) /* rounding to the nearest becomes rounding down */
		place.half[h] += (double)k * slope.half[h] - 0.5;
	vi whole = doubles_round(&place, &fraction);
	fraction = vf_positive(fraction + 0.5F);
	if (linear) {
		entries_at(e, term, whole, n, taps, (int32_t)s->wide);
		vf_store(e->weight[term][1], fraction);
		return;
	}
	vf low = vf_floor(fraction - (float)s->reach) + 1, away = low - fraction;
	entries_at(e, term, whole + vf_truncate(low), n, taps, (int32_t)s->wide);
	float along = (float)k - r->source;
	vf depth = vf_load(r->depth) + (float)k * vf_load(r->deeper), rate = vf_load(r->rate);
	vf across = doubles_float(&slope) * along;
	for (int t = 0; t < taps; t++) {
		vf d = away + (float)t;
		vf nearer = 1 / vf_max(depth + d * r->bend, vf_all(LEAST_DEPTH));
		vf c = d * rate * nearer, weight = vf_positive(1 - vf_abs(c));
		if (footprint) {
			const vf edges[3] = {(rate - c * r->bend) * nearer,
				(vf_load(r->next) - c * r->bow) * nearer, {0}};
			const Trapezoid trapezoid = trapezoid_of(edges);
			weight = trapezoid_share(&trapezoid, c);
		}
		vf_store(e->weight[term][t],
			weight * fan_voxel_weight(s, view, r, along, across + d, nearer));
	}
}

#endif
