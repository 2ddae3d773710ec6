/* Rays of any kind as Joseph's method follows them from plane to plane, LANES at a time, for ray.c:
 * a part of the volume, and the positions of a vector of rays in its planes. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_RAY_H
#define TOMOS_BACKEND_CPU_LEVEL_RAY_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/doubles.h"
#include "backend/cpu/level/quads.h"

/* Positions in a plane are an integer per ray and a fixed-point offset with 24 fractional bits.
 * The offset changes by at most one voxel per plane, so that it cannot overflow. */
enum { OFFSET_BITS = 24, PLANES = 32 };
#define OFFSET_ONE 0x1p24
#define OFFSET_MASK 0xffffff

/* Positions are limited to this distance from the part, in voxels. */
#define FAR 0x1p20

/* A box of voxels: planes across axes[0], rows along axes[2]. In the copy of a part, element (b, c)
 * of a plane is the pair of voxels (b, c) and (b + 1, c), for b in [-1, n[1]] and c in
 * [-1, n[2] + 1]. Two neighbouring elements are the four voxels around a ray, in consecutive
 * floats. `planar`: a single slice with in-slice rays, whose elements are single voxels. */
typedef struct {
	const ProjectRequest *what;
	Box box;
	int axes[3];
	int64_t n[3], stride[3]; /* size of the part; floats between neighbours in the volume */
	int64_t row, plane;      /* floats from row to row and from plane to plane of the copy */
	int per;                 /* floats of an element */
	bool planar;
} RayPart;

static inline RayPart ray_part(const ProjectRequest *what, int axis, const Box *box, bool planar)
{
	RayPart part = {.what = what,
		.box = *box,
		.axes = {axis, axis == 2 ? 1 : 2, axis == 0 ? 1 : 0},
		.planar = planar};
	const KernelGrid grid = request_grid(what);
	for (int i = 0; i < 3; i++) {
		part.n[i] = box->high[part.axes[i]] - box->low[part.axes[i]];
		part.stride[i] = kernel_stride(&grid, part.axes[i]);
	}
	part.per = planar ? 1 : 2;
	part.row = part.per * (part.n[2] + 3);
	part.plane = (planar ? 1 : part.n[1] + 2) * part.row;
	return part;
}

/* The volume at the first voxel of a part. */
static inline float *ray_voxels(const RayPart *part)
{
	float *voxels = part->what->volume;
	for (int i = 0; i < 3; i++)
		voxels += (part->box.low[part->axes[i]] - part->what->box.low[part->axes[i]]) *
			  part->stride[i];
	return voxels;
}

/* The rays of one detector row whose direction along axes[0] has the sign `side`. */
typedef struct {
	double first[3], source[3]; /* pixel of column 0 and source or direction, along axes[] */
	double toward[3];     /* direction of column 0, the same in all parts: rounding must not
				       leave a ray to one axis here and to another there */
	double u[3], size[3]; /* column step, voxel size */
	double side, middle;  /* middle: plane at which positions are exact */
	int64_t from, to;     /* planes in front of the source, relative to the part */
	bool point;
} RayRow;

static inline RayRow ray_row(const RayPart *part, const KernelView *k, int64_t row, int side)
{
	RayRow r = {.side = side, .point = KERNEL_HAS_SOURCE(k), .to = part->n[0]};
	for (int i = 0; i < 3; i++) {
		int a = part->axes[i];
		double along = (double)row * k->v[a];
		r.first[i] = k->first[a] + along - (double)part->box.low[a];
		r.source[i] = k->src[a];
		if (r.point)
			r.source[i] += (KERNEL_FANS(k) ? along : 0) - (double)part->box.low[a];
		r.toward[i] = k->src[a];
		if (r.point)
			r.toward[i] = k->first[a] + (KERNEL_FANS(k) ? 0 : along) - k->src[a];
		r.u[i] = k->u[a];
		r.size[i] = part->what->plan->whole.step[a];
	}
	if (r.point && side > 0)
		r.from = (int64_t)ceil(fmin(fmax(r.source[0], 0), (double)r.to));
	else if (r.point)
		r.to = 1 + (int64_t)floor(fmin(fmax(r.source[0], -1), (double)r.to - 1));
	r.middle = 0.5 * (double)(r.from + r.to);
	return r;
}

/* Extends the columns range[0] to range[1] by those with a + column b > 0. */
static inline void extend(double a, double b, double range[2])
{
	double root = -a / b;
	if (b > 0 || (b == 0 && a > 0))
		range[1] = HUGE_VAL;
	if (b < 0 || (b == 0 && a > 0))
		range[0] = -HUGE_VAL;
	if (b > 0 && root < range[0])
		range[0] = root;
	if (b < 0 && root > range[1])
		range[1] = root;
}

/* Extends a range by the columns whose rays are at most n[i] along axes[i] in plane k (sign 1), or
 * at least -1 (sign -1). All these conditions are linear in the column. Rays just there have no
 * weight, but derivatives (ray_pose.h): rounding must not leave them out. */
static inline void extend_side(
	const RayPart *part, const RayRow *r, int i, int sign, double k, double range[2])
{
	const double slack = 1e-6;
	double bound = sign > 0 ? (double)part->n[i] + slack : -1 - slack,
	       to = bound - r->source[i];
	double ahead = k - r->source[0], d0 = r->first[0] - r->source[0];
	double di = r->first[i] - r->source[i], turn = sign * r->side;
	if (!r->point) {
		double slope = r->source[i] / r->source[0];
		extend(sign * (bound - r->first[i] - (k - r->first[0]) * slope),
			-sign * (r->u[i] - r->u[0] * slope), range);
		return;
	}
	extend(turn * (to * d0 - ahead * di), turn * (to * r->u[0] - ahead * r->u[i]), range);
}

/* Narrows the columns [*low, *high) to those whose rays may cross the part: they are not beyond the
 * same side of it in both its first and its last plane. */
static inline void ray_clip(const RayPart *part, const RayRow *r, int64_t *low, int64_t *high)
{
	double first = (double)*low, last = (double)*high - 1;
	for (int side = 0; side < 4; side++) {
		double range[2] = {HUGE_VAL, -HUGE_VAL};
		int i = 1 + side / 2, sign = side % 2 ? 1 : -1;
		extend_side(part, r, i, sign, (double)r->from, range);
		extend_side(part, r, i, sign, (double)r->to - 1, range);
		first = fmax(first, range[0] - 1e-3);
		last = fmin(last, range[1] + 1e-3);
	}
	bool some = r->from < r->to && first <= last;
	*low = some ? (int64_t)ceil(first) : *high;
	*high = some ? (int64_t)floor(last) + 1 : *high;
}

/* LANES rays in the next plane. Positions along axes[1] (index 0) and axes[2] (1) are whole +
 * offset, counted from the element before the first voxel. */
typedef struct {
	vi whole[2], offset[2], slope[2]; /* slope: change of the offset per plane */
	vi element;                       /* of the copy, at position `whole` */
	vf step;                          /* length from plane to plane; 0: the lane has no ray */
	int64_t column;                   /* of lane 0 */
	int64_t pixel, pitch;             /* in the view: that of lane 0; from lane to lane */
	int64_t count;                    /* lanes with a pixel, the first ones */
	int64_t from, to;                 /* planes in which some rays are in the part */
	bool inside, alike;               /* all rays are in it in all of these; see rays_alike */
} Rays;

/* Up to LANES neighbouring detector rows, for vectors that have a ray of each. Lanes beyond the
 * last row repeat it. */
typedef struct {
	RayRow end[2]; /* the first and the last row */
	Doubles first[3], toward[3];
	int64_t count;
} RayRows;

static inline void rows_lane(RayRows *r, int l, const RayRow *row)
{
	for (int i = 0; i < 3; i++) {
		r->first[i].half[2 * l / LANES][l % (LANES / 2)] = row->first[i];
		r->toward[i].half[2 * l / LANES][l % (LANES / 2)] = row->toward[i];
	}
}

/* Rounding to multiples of a power of two p: the sum of a number and 1.5 2^52 p has the rounded
 * number, in units of p, in the lower half of its bits. */
#define ROUND_WHOLE 0x1.8p52
#define ROUND_OFFSET 0x1.8p28 /* to 2^-OFFSET_BITS */

/* A ray belongs to the axis along which its direction has the largest component; where two are
 * equally large, to the first of them. */
static inline vl belongs(const RayPart *part, int i, vd ahead, vd aside)
{
	vd more = ahead - vd_abs(aside);
	return part->axes[0] < part->axes[i + 1] ? more >= 0 : more > 0;
}

/* Whether the rays of columns `first` and `last`, and so all between them, belong to the axis and
 * are near the part: conditions that rays_at then omits. */
static inline bool rays_alike(const RayRow *r, int64_t first, int64_t last)
{
	bool alike = true;
	for (int end = 0; end < 2; end++) {
		double direction[3], start[3];
		for (int i = 0; i < 3; i++) {
			double column = (double)(end ? last : first);
			start[i] = r->point ? r->source[i] : r->first[i] + column * r->u[i];
			direction[i] = r->toward[i] + (r->point ? column * r->u[i] : 0);
		}
		double ahead = direction[0] * r->side, away = r->middle - start[0];
		for (int i = 1; i < 3; i++) {
			double p = start[i] + away * direction[i] / direction[0];
			alike = alike && ahead > fabs(direction[i]) && fabs(p) < FAR / 2;
		}
	}
	return alike;
}

/* What rays_at packs into Rays, in the lower halves of doubles. */
typedef struct {
	Doubles whole[2], offset[2], slope[2];
	Doubles live; /* lanes with a ray */
} WideRays;

INLINE void half_rays(const RayPart *part, const RayRow *r, const vd first[3], const vd toward[3],
	vd column, const int alike, int h, WideRays *wide)
{
	vd direction[3], start[3];
	for (int i = 0; i < 3; i++) {
		vd pixel = first[i] + column * r->u[i], source = r->source[i] + (vd){0};
		start[i] = r->point ? source : pixel;
		direction[i] = r->point ? toward[i] + column * r->u[i] : toward[i];
	}
	vd ahead = direction[0] * r->side, rate = 1 / direction[0];
	vl live = (ahead > 0) & belongs(part, 0, ahead, direction[1]) &
		  belongs(part, 1, ahead, direction[2]);
	wide->live.half[h] = (vd)live;
	if (!alike)
		rate = vd_choose(live, rate, (vd){0});
	for (int i = 0; i < 2; i++) {
		vd s = direction[i + 1] * rate;
		vd p = start[i + 1] + (r->middle - start[0]) * s + 1;
		vd slope = s + ROUND_OFFSET;
		if (!alike)
			p = vd_choose(live & (p > -FAR) & (p < FAR), p, (vd){0} - FAR);
		vd whole = p + ROUND_WHOLE;
		vd back = (r->middle - (double)r->from) * (slope - ROUND_OFFSET);
		wide->slope[i].half[h] = slope;
		wide->whole[i].half[h] = whole;
		wide->offset[i].half[h] = p - (whole - ROUND_WHOLE) - back + ROUND_OFFSET;
	}
}

/* Whether the rays are at elements of the part in its first and its last plane. */
static inline bool rays_inside(const RayPart *part, const RayRow *r, const Rays *rays)
{
	vi outside = {0};
	const uint32_t further = (uint32_t)(r->to - 1 - r->from);
	for (int i = part->planar; i < 2; i++) {
		const int32_t most = (int32_t)part->n[i + 1] + 1;
		vi last = (vi)((vu)rays->offset[i] + further * (vu)rays->slope[i]);
		vi at[2] = {rays->offset[i], last};
		for (int end = 0; end < 2; end++) {
			vi index = (vi)((vu)rays->whole[i] + (vu)(at[end] >> OFFSET_BITS));
			outside |= index ^ vi_least_unsigned(index, most);
		}
	}
	return !vi_any(outside != 0);
}

/* The lowest of all lanes. */
static inline float vf_lowest(vf v)
{
	float each[LANES], lowest[4];
	vf_store(each, v);
	memcpy(lowest, each, sizeof lowest);
	for (int l = 4; l < LANES; l++)
		lowest[l % 4] = each[l] < lowest[l % 4] ? each[l] : lowest[l % 4];
	for (int l = 2; l > 0; l /= 2)
		for (int i = 0; i < l; i++)
			lowest[i] = lowest[i + l] < lowest[i] ? lowest[i + l] : lowest[i];
	return lowest[0];
}

/* Moves rays to the planes in which some of them are in the part. In single precision, with a
 * margin. */
static inline void rays_narrow(const RayPart *part, const RayRow *r, Rays *rays)
{
	const float margin = 1e-3F, least = 0x1p-20F, never = 0x1p20F;
	vf enter = {0}, leave = vf_all((float)(r->to - 1 - r->from)), ends[2];
	for (int i = part->planar; i < 2; i++) {
		vf slope = vi_float(rays->slope[i]) * (float)(1 / OFFSET_ONE);
		vf at = vi_float(rays->whole[i]) +
			vi_float(rays->offset[i]) * (float)(1 / OFFSET_ONE);
		vf rate = 1 / (slope + vf_where(vf_abs(slope) < least, vf_all(2 * least)));
		vf low = -at * rate, high = ((float)(part->n[i + 1] + 1) - at) * rate;
		vf slack = margin * vf_abs(rate);
		enter = vf_max(enter, vf_min(low, high) - slack);
		leave = vf_min(leave, vf_max(low, high) + slack);
	}
	const vi some = enter <= leave;
	const vf none = vf_where(~some, vf_all(never));
	ends[0] = none + vf_where(some, enter);
	ends[1] = none - vf_where(some, leave);
	const int64_t skipped = (int64_t)ceilf(vf_lowest(ends[0]));
	rays->from = r->from + skipped;
	rays->to = r->from + (int64_t)floorf(-vf_lowest(ends[1])) + 1;
	for (int i = 0; i < 2; i++)
		rays->offset[i] =
			(vi)((vu)rays->offset[i] + (uint32_t)skipped * (vu)rays->slope[i]);
}

/* Returns false if no ray is in the part. */
INLINE bool rays_pack(
	const RayPart *part, const RayRow *r, const WideRays *wide, vi live, Rays *rays)
{
	vf square = vf_all((float)(r->size[0] * r->size[0]));
	for (int i = 0; i < 2; i++) {
		float size = (float)(r->size[i + 1] / OFFSET_ONE);
		rays->whole[i] = doubles_low(&wide->whole[i]);
		rays->offset[i] = doubles_low(&wide->offset[i]);
		rays->slope[i] = doubles_low(&wide->slope[i]);
		vf along = size * vi_float(rays->slope[i]);
		square += along * along;
	}
	rays->step = vf_where(live, vf_root(square));
	rays->element = rays->whole[1];
	if (!part->planar)
		rays->element = (vi)((vu)rays->whole[0] * (uint32_t)part->row +
				     (vu)rays->whole[1] * (uint32_t)part->per);
	rays->from = r->from;
	rays->to = r->to;
	rays->inside = rays_inside(part, r, rays);
	if (!rays->inside)
		rays_narrow(part, r, rays);
	return rays->from < rays->to;
}

/* The rays of columns first, first + every, .. before `end`. Returns false if there are none. */
INLINE bool rays_at(const RayPart *part, const RayRow *r, int64_t first, int64_t every, int64_t end,
	const int alike, Rays *rays)
{
	const double last = (double)end - 1;
	Doubles column = doubles_line((double)first, (double)every);
	WideRays wide;
	for (int h = 0; h < 2; h++) {
		vd c = column.half[h], at[3], toward[3];
		for (int i = 0; i < 3; i++) {
			at[i] = r->first[i] + (vd){0};
			toward[i] = r->toward[i] + (vd){0};
		}
		half_rays(part, r, at, toward, vd_choose(c < last, c, last + (vd){0}), alike, h,
			&wide);
	}
	rays->count = min64(parts(end - first, every), LANES);
	vi live = vf_truncate(vf_lane()) < (int32_t)rays->count;
	if (!alike)
		live &= doubles_low(&wide.live);
	if (!alike && !vi_any(live))
		return false;
	rays->column = first;
	rays->alike = alike;
	return rays_pack(part, r, &wide, live, rays);
}

/* The rays of a column of several rows, likewise. */
INLINE bool rays_down(
	const RayPart *part, const RayRows *rows, int64_t column, const int alike, Rays *rays)
{
	WideRays wide;
	for (int h = 0; h < 2; h++) {
		vd first[3], toward[3];
		for (int i = 0; i < 3; i++) {
			first[i] = rows->first[i].half[h];
			toward[i] = rows->toward[i].half[h];
		}
		half_rays(part, &rows->end[0], first, toward, (double)column + (vd){0}, alike, h,
			&wide);
	}
	vi live = vf_truncate(vf_lane()) < (int32_t)rows->count;
	if (!alike)
		live &= doubles_low(&wide.live);
	if (!alike && !vi_any(live))
		return false;
	rays->column = column;
	rays->alike = alike;
	rays->count = rows->count;
	return rays_pack(part, &rows->end[0], &wide, live, rays);
}

/* Index of the element at or below each ray in a plane of the copy, where elements outside the part
 * are replaced by ones without voxels, and the fractions beyond it. Advances to the next plane.
 * `per`: that of the part. */
INLINE vi rays_visit(
	const RayPart *part, Rays *rays, const int inside, const int per, vf fraction[2])
{
	const int planar = per == 1;
	vi at[2], *offset = rays->offset;
	vi element = planar ? offset[1] >> OFFSET_BITS
			    : vi_sum_tops(offset[0], (int32_t)part->row, offset[1], per);
	for (int i = planar; i < 2; i++) {
		at[i] = (vi)((vu)rays->whole[i] + (vu)(offset[i] >> OFFSET_BITS));
		at[i] = vi_least_unsigned(at[i], (int32_t)part->n[i + 1] + 1);
		fraction[i] = vi_float(offset[i] & OFFSET_MASK) * (float)(1 / OFFSET_ONE);
		/* Those of lanes without a ray may wrap. */
		offset[i] = (vi)((vu)offset[i] + (vu)rays->slope[i]);
	}
	if (inside)
		return (vi)((vu)rays->element + (vu)element);
	return planar ? at[1] : at[0] * (int32_t)part->row + at[1] * per;
}

/* LANES rays in the planes of a part: the element at or below each, and the fractions beyond it,
 * across the rows and along them. */
typedef struct {
	vi at[PLANES];
	vf across[PLANES], along[PLANES];
} Path;

INLINE void follow(
	const RayPart *all, const Rays *from, const int inside, const int per, Path *path)
{
	const RayPart part = *all;
	Rays rays = *from;
	for (int64_t k = 0; k < from->to - from->from; k++) {
		vf fraction[2];
		path->at[k] = rays_visit(&part, &rays, inside, per, fraction);
		if (per > 1)
			path->across[k] = fraction[0];
		path->along[k] = fraction[1];
	}
}

INLINE void rays_path(const RayPart *part, const Rays *rays, const int per, Path *path)
{
	if (rays->inside)
		follow(part, rays, 1, per, path);
	else
		follow(part, rays, 0, per, path);
}

#endif
