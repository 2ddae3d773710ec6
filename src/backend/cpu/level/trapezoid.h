/* Trapezoids of separable footprints (kernel/footprint.h) in one detector coordinate, of LANES
 * voxels. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_TRAPEZOID_H
#define TOMOS_BACKEND_CPU_LEVEL_TRAPEZOID_H

#include "backend/cpu/level/simd.h"

enum { MOST_PIXELS = 16 }; /* of a footprint in either direction */

/* Boxes narrower than this are made as wide, for the sake of rounding errors. */
#define LEAST_WIDTH 1e-6F

/* The convolution of a wide and a narrow box. */
typedef struct {
	vf reach, narrow; /* reach: half the length of the base */
	vf rate, curve;   /* 1 / wide and 1 / (2 wide narrow) */
} Trapezoid;

/* The trapezoid of a voxel whose edges appear `edges` wide, times the root of `square`. */
INLINE Trapezoid trapezoid_of(const vf edges[3], vf square)
{
	const float least = LEAST_WIDTH * LEAST_WIDTH;
	vf squares[3];
	for (int a = 0; a < 3; a++)
		squares[a] = edges[a] * edges[a] + least;
	vf low = vf_min(squares[0], squares[1]), high = vf_max(squares[0], squares[1]);
	vf wide = vf_max(high, squares[2]);
	vf narrow = square * vf_min(low + vf_min(high, squares[2]), wide);
	wide *= square;
	vf rate = vf_inverse_root(wide), inverse = vf_inverse_root(narrow);
	Trapezoid t = {.narrow = narrow * inverse, .rate = rate, .curve = 0.5F * rate * inverse};
	t.reach = 0.5F * (wide * rate + t.narrow);
	return t;
}

/* Part of the trapezoid further than `away` from its centre, on one side. */
INLINE vf trapezoid_tail(const Trapezoid *t, vf away)
{
	vf far = vf_positive(t->reach - away), slope = vf_min(far, t->narrow);
	return far * t->rate - slope * (t->rate - slope * t->curve);
}

/* The share of a pixel that is `away` from the centre. */
INLINE vf trapezoid_share(const Trapezoid *t, vf away)
{
	vf s = vf_abs(away) - 0.5F, tail = trapezoid_tail(t, vf_abs(s));
	return vf_by_sign(s, 1 - tail, tail) - trapezoid_tail(t, s + 1);
}

/* The shares of `count` >= 2 pixels, the first of which is `first` from the centre. Those at the
 * ends, which may be small, are not differences of large numbers; the last edge between three
 * pixels or more is above the centre. */
INLINE void trapezoid_shares(const Trapezoid *t, vf first, const int count, vf *shares)
{
	vf s = first + 0.5F, tail = trapezoid_tail(t, vf_abs(s));
	vf above = vf_by_sign(s, 1 - tail, tail);
	shares[0] = vf_by_sign(s, tail, 1 - tail);
	for (int i = 1; i < count - 2; i++) {
		s = first + ((float)i + 0.5F);
		tail = trapezoid_tail(t, vf_abs(s));
		vf next = vf_by_sign(s, 1 - tail, tail);
		shares[i] = above - next;
		above = next;
	}
	if (count > 2) {
		tail = trapezoid_tail(t, first + ((float)count - 1.5F));
		shares[count - 2] = above - tail;
	}
	shares[count - 1] = count > 2 ? tail : above;
}

#endif
