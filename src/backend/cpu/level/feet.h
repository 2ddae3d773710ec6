/* Separable footprints (kernel/footprint.h) of the voxels of a strip: their first pixels, and the
 * shares of columns and rows. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FEET_H
#define TOMOS_BACKEND_CPU_LEVEL_FEET_H

#include "backend/cpu/level/tile.h"

enum { BATCH = 128 / LANES }; /* voxels of a line at a time: their shares stay in the L1 cache */

/* Widths of the projected edges of voxels at x from the middle of a strip: edge[a] + x step[a],
 * times the square of depth in the middle / depth. (The coordinate is a quotient of functions that
 * are linear in the position.) `sorted`: everywhere in the strip, the first edge is the wide box of
 * the footprint; it is positive, and `square` the square of the narrow box, a polynomial in x. */
typedef struct {
	vf edge[3], step[3], square[3];
	bool sorted;
} Edges;

/* Exchanges *a and *b where the mask is set. */
static inline void exchange(vi mask, vf *a, vf *b)
{
	vi change = ((vi)*a ^ (vi)*b) & mask;
	*a = (vf)((vi)*a ^ change);
	*b = (vf)((vi)*b ^ change);
}

/* Puts the longest edge first. half: x at the end of the strip. */
static inline void edges_sort(Edges *e, float half)
{
	for (int a = 1; a < 3; a++) {
		vi longer = vf_abs(e->edge[a]) > vf_abs(e->edge[0]);
		exchange(longer, &e->edge[0], &e->edge[a]);
		exchange(longer, &e->step[0], &e->step[a]);
	}
	vi sign = (vi)e->edge[0] & INT32_MIN;
	e->edge[0] = (vf)((vi)e->edge[0] ^ sign);
	e->step[0] = (vf)((vi)e->step[0] ^ sign);
	const vf *w = e->edge, *s = e->step;
	e->square[0] = w[1] * w[1] + w[2] * w[2] + 2 * LEAST_WIDTH * LEAST_WIDTH;
	e->square[1] = 2 * (w[1] * s[1] + w[2] * s[2]);
	e->square[2] = s[1] * s[1] + s[2] * s[2];
	vf least = w[0] - half * vf_abs(s[0]);
	vf most = e->square[0] + half * (vf_abs(e->square[1]) + half * e->square[2]);
	e->sorted = !vi_any((least <= 0) | (least * least < most));
}

/* f, at, along: the function of the voxel index, its value in the middle and per voxel; whole: the
 * number that it is relative to. */
static inline Edges edges_of(const Look *look, const Strip *s, const double f[4], vf at, vf along,
	vf whole, bool depth, float half)
{
	Edges e;
	for (int a = 0; a < 3; a++) {
		vf bend = (float)(depth ? look->depth[a] : 0) * s->nearer;
		vf own = (float)f[a] * (depth ? s->nearer : vf_all(1)) - whole * bend;
		e.edge[a] = (depth ? own + own * s->lean : own) - at * bend;
		e.step[a] = depth && a > 0 ? own * s->bend - along * bend : vf_all(0);
	}
	edges_sort(&e, half);
	return e;
}

/* Positions of the voxels of a strip, and the factors of the widths of their edges. */
typedef struct {
	vf column[BATCH], row[BATCH], weight[BATCH], near[BATCH];
} Spots;

INLINE void spots_of(const TileView *t, const Cells *cells, const TileStrip *strip, Spots *spots,
	const PlaceKind kind)
{
	const Strip s = strip->strip;
	vf x = vf_all(strip->x0);
	for (int64_t i = 0; i < strip->count; i++, x += 1) {
		Places p = strip_places(&s, &t->look, cells, x, kind);
		spots->column[i] = p.column;
		spots->row[i] = p.row;
		spots->weight[i] = p.weight;
		spots->near[i] = p.nearer * p.nearer;
	}
}

static inline void spots_fill(
	const TileView *t, const Cells *cells, const TileStrip *s, Spots *spots)
{
	const PlaceKind kind = place_kind(&t->look, cells);
	if (kind == PLACES_SMOOTH)
		spots_of(t, cells, s, spots, PLACES_SMOOTH);
	else if (kind == PLACES_NEAR)
		spots_of(t, cells, s, spots, PLACES_NEAR);
	else
		spots_of(t, cells, s, spots, kind);
}

/* The footprints of a strip: for voxel i of each line, its first column and row, relative to the
 * strip, its cell, and the shares of columns and rows, those of a voxel side by side. */
typedef struct {
	vf column[BATCH], row[BATCH];
	vi cell[BATCH];
	vf across[BATCH * MOST_PIXELS], along[BATCH * MOST_PIXELS];
} Feet;

/* The trapezoid of the voxels at x, but for the factor of its width. */
INLINE Trapezoid trapezoid_at(const Edges *e, vf x, const bool sorted)
{
	vf widths[3];
	for (int a = 0; a < (sorted ? 1 : 3); a++)
		widths[a] = e->edge[a] + x * e->step[a];
	if (!sorted)
		return trapezoid_of(widths);
	/* Where the narrow box is nearly zero, rounding may leave less than nothing. */
	vf square = e->square[0] + x * (e->square[1] + x * e->square[2]);
	return trapezoid_by(widths[0], vf_inverse(widths[0]),
		vf_max(square, vf_all(LEAST_WIDTH * LEAST_WIDTH)));
}

/* One coordinate. near: the factors of widths; depth: the roots of one over these, at x. In two
 * loops: the operations for one voxel depend on each other, and a processor overlaps more
 * iterations of short loops. */
INLINE void shares_by(const vf *at, const vf *near, const vf depth[2], const Edges *edges,
	const TileStrip *s, const int pixels, const bool sorted, vf *first, vf *shares)
{
	const Edges e = *edges;
	const vf middle = depth[0], bend = depth[1];
	Trapezoid t[BATCH];
	vf x = vf_all(s->x0), from[BATCH];
	for (int64_t i = 0; i < s->count; i++, x += 1) {
		t[i] = trapezoid_at(&e, x, sorted);
		vf d = middle + x * bend;
		t[i].rate *= d * d;
		t[i].wide *= near[i];
		first[i] = trapezoid_first(&t[i], at[i], &from[i]);
	}
	for (int64_t i = 0; i < s->count; i++)
		trapezoid_shares(&t[i], from[i], pixels, shares + i * pixels);
}

INLINE void shares_of(const vf *at, const vf *near, const vf depth[2], const Edges *edges,
	const TileStrip *s, const int pixels, vf *first, vf *shares)
{
	if (edges->sorted)
		shares_by(at, near, depth, edges, s, pixels, true, first, shares);
	else
		shares_by(at, near, depth, edges, s, pixels, false, first, shares);
}

/* Voxels with no pixel on the detector are assigned to cells beside it. */
INLINE void cells_of(const Strip *strip, int64_t count, bool clipped, const int rows, Feet *f)
{
	const Strip s = *strip;
	for (int64_t i = 0; clipped && i < count; i++) {
		f->column[i] = vf_min(vf_max(f->column[i], s.left), s.right);
		if (rows > 1)
			f->row[i] = vf_min(vf_max(f->row[i], s.below), s.above);
	}
	for (int64_t i = 0; i < count; i++) {
		vf cell = f->column[i] * s.unit + s.first;
		f->cell[i] = vf_truncate(rows > 1 ? cell + f->row[i] * s.width : cell);
	}
}

/* The edges of the voxels of a strip in columns and rows. */
static inline void feet_edges(
	const TileView *t, const Cells *cells, const TileStrip *s, Edges edges[2])
{
	const Look *look = &t->look;
	const Strip *m = &s->strip;
	vf c = (float)cells->least[0] - m->left, r = (float)cells->least[1] - m->below;
	edges[0] = edges_of(look, m, look->column, m->column, m->column_step, c, true, -s->x0);
	if (!look->plan->model.planar)
		edges[1] =
			edges_of(look, m, look->row, m->row, m->row_step, r, !look->fans, -s->x0);
}

INLINE void feet_of(const TileView *t, const Cells *cells, const TileStrip *s, const Spots *spots,
	const Edges edges[2], const int columns, const int rows, Feet *f)
{
	const Strip *m = &s->strip;
	const vf depth[2] = {1 + m->lean, m->bend}, same[2] = {vf_all(1), vf_all(0)};
	vf ones[BATCH];
	shares_of(spots->column, spots->near, depth, &edges[0], s, columns, f->column, f->across);
	for (int i = 0; i < BATCH && t->look.fans; i++)
		ones[i] = vf_all(1);
	const vf *near = t->look.fans ? ones : spots->near, *deep = t->look.fans ? same : depth;
	if (rows > 1)
		shares_of(spots->row, near, deep, &edges[1], s, rows, f->row, f->along);
	cells_of(m, s->count, cells->clipped, rows, f);
}

#endif
