/* Trapezoids of separable footprints (kernel/footprint.h) in one detector coordinate, of LANES
 * voxels. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_TRAPEZOID_H
#define TOMOS_BACKEND_CPU_LEVEL_TRAPEZOID_H

#include "backend/cpu/level/simd.h"

enum { MOST_PIXELS = 16 }; /* of a footprint in either direction */

/* Boxes narrower than this are made as wide, for the sake of rounding errors. */
#define LEAST_WIDTH 1e-6F

/* The convolution of a wide and a narrow box. Lengths are in units of the wide box, which is `wide`
 * pixels long. */
typedef struct {
	vf wide, rate;           /* rate: 1 / wide */
	vf narrow, reach, curve; /* reach: half the length of the base; curve: 1 / (2 narrow) */
} Trapezoid;

/* rate: 1 / wide; square: of the narrow box in pixels, not larger than that of the wide one. */
INLINE Trapezoid trapezoid_by(vf wide, vf rate, vf square)
{
	vf inverse = vf_inverse_root(square);
	Trapezoid t = {.wide = wide, .rate = rate, .narrow = square * inverse * rate};
	t.reach = 0.5F + 0.5F * t.narrow;
	t.curve = 0.5F * wide * inverse;
	return t;
}

/* The trapezoid of a voxel whose edges appear `edges` wide. */
INLINE Trapezoid trapezoid_of(const vf edges[3])
{
	const float least = LEAST_WIDTH * LEAST_WIDTH;
	vf squares[3];
	for (int a = 0; a < 3; a++)
		squares[a] = edges[a] * edges[a] + least;
	vf low = vf_min(squares[0], squares[1]), high = vf_max(squares[0], squares[1]);
	vf wide = vf_max(high, squares[2]), rate = vf_inverse_root(wide);
	return trapezoid_by(wide * rate, rate, vf_min(low + vf_min(high, squares[2]), wide));
}

/* Part of the trapezoid up to `far` from one end, which is not beyond the centre, or before that
 * end. */
INLINE vf trapezoid_end(const Trapezoid *t, vf far)
{
	far = vf_positive(far);
	vf slope = vf_min(far, t->narrow);
	return far - slope * (1 - slope * t->curve);
}

/* The parts below and above a place that is `far` above the lower end. Each is computed from the
 * nearer end: a small one is not the difference of large numbers. */
INLINE vf trapezoid_below(const Trapezoid *t, vf far, vf *above)
{
	vf end = trapezoid_end(t, vf_min(far, 2 * t->reach - far)), upper = t->reach - far;
	*above = vf_by_sign(upper, end, 1 - end);
	return vf_by_sign(upper, 1 - end, end);
}

/* The share of a pixel that is `away` from the centre. */
INLINE vf trapezoid_share(const Trapezoid *t, vf away)
{
	vf s = vf_abs(away) - 0.5F;
	vf tail = trapezoid_end(t, t->reach - vf_abs(s) * t->rate);
	vf other = trapezoid_end(t, t->reach - (s + 1) * t->rate);
	return vf_by_sign(s, 1 - tail, tail) - other;
}

/* The first pixel of a trapezoid with its centre at `at`; its upper edge is `from` above the lower
 * end. */
INLINE vf trapezoid_first(const Trapezoid *t, vf at, vf *from)
{
	vf first = vf_floor(at + 0.5F - t->reach * t->wide);
	*from = (first - at + 0.5F) + t->reach * t->wide;
	return first;
}

/* The shares of `count` >= 2 pixels, the first of which has its upper edge `from` above the lower
 * end. The last edge between three pixels or more is above the centre. */
INLINE void trapezoid_shares(const Trapezoid *t, vf from, const int count, vf *shares)
{
	vf far = from * t->rate, above;
	shares[0] = trapezoid_below(t, far, &above);
	for (int i = 1; i < count - 2; i++) {
		vf next;
		trapezoid_below(t, far + (float)i * t->rate, &next);
		shares[i] = above - next;
		above = next;
	}
	shares[count - 1] = above;
	if (count > 2) {
		vf rest = 2 * t->reach - far - (float)(count - 2) * t->rate;
		shares[count - 1] = trapezoid_end(t, rest);
		shares[count - 2] = above - shares[count - 1];
	}
}

#endif
