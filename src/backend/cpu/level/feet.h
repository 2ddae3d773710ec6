/* Separable footprints (kernel/footprint.h) of the voxels of a strip: their first pixels, and the
 * shares of columns and rows. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FEET_H
#define TOMOS_BACKEND_CPU_LEVEL_FEET_H

#include "backend/cpu/level/tile.h"

enum { BATCH = 128 / LANES }; /* voxels of a line at a time: their shares stay in the L1 cache */

/* Widths of the projected edges of voxels at x from the middle of a strip: edge[a] + x step[a],
 * times the square of depth in the middle / depth. (The coordinate is a quotient of functions that
 * are linear in the position.) The step along the strip itself is 0. */
typedef struct {
	vf edge[3], step[3];
} Edges;

/* f, at, along: the function of the voxel index, its value in the middle and per voxel; whole: the
 * number that it is relative to. */
static inline Edges edges_of(
	const Look *look, const Strip *s, const double f[4], vf at, vf along, vf whole, bool depth)
{
	Edges e;
	for (int a = 0; a < 3; a++) {
		vf bend = (float)(depth ? look->depth[a] : 0) * s->nearer;
		vf own = (float)f[a] * (depth ? s->nearer : vf_all(1)) - whole * bend;
		e.edge[a] = (depth ? own + own * s->lean : own) - at * bend;
		e.step[a] = depth && a > 0 ? own * s->bend - along * bend : vf_all(0);
	}
	return e;
}

/* Positions of the voxels of a strip, and the factors of the widths of their edges. */
typedef struct {
	vf column[BATCH], row[BATCH], weight[BATCH], scale[BATCH], row_scale[BATCH];
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
		vf near = p.nearer * p.nearer;
		spots->scale[i] = near * near;
		spots->row_scale[i] = t->look.fans ? vf_all(1) : spots->scale[i];
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
 * strip, its cell, and the shares of columns and rows. Each is computed in loops of its own: the
 * operations for one voxel depend on each other, and a processor overlaps more iterations of short
 * loops. */
typedef struct {
	vf column[BATCH], row[BATCH];
	vi cell[BATCH];
	vf across[BATCH][MOST_PIXELS], along[BATCH][MOST_PIXELS];
} Feet;

/* One coordinate. */
INLINE void shares_of(const vf *at, const vf *scale, const Edges *edges, const TileStrip *s,
	const int pixels, vf *first, vf (*shares)[MOST_PIXELS])
{
	const Edges e = *edges;
	Trapezoid t[BATCH];
	vf x = vf_all(s->x0);
	for (int64_t i = 0; i < s->count; i++, x += 1) {
		const vf widths[3] = {
			e.edge[0], e.edge[1] + x * e.step[1], e.edge[2] + x * e.step[2]};
		t[i] = trapezoid_of(widths, scale[i]);
	}
	for (int64_t i = 0; i < s->count; i++) {
		first[i] = vf_floor(at[i] + 0.5F - t[i].reach);
		trapezoid_shares(&t[i], first[i] - at[i], pixels, shares[i]);
	}
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

INLINE void feet_of(const TileView *t, const Cells *cells, const TileStrip *s, const Spots *spots,
	const int columns, const int rows, Feet *f)
{
	const Strip *m = &s->strip;
	vf c = (float)cells->least[0] - m->left, r = (float)cells->least[1] - m->below;
	Edges u = edges_of(&t->look, m, t->look.column, m->column, m->column_step, c, true);
	shares_of(spots->column, spots->scale, &u, s, columns, f->column, f->across);
	if (rows > 1) {
		Edges v = edges_of(&t->look, m, t->look.row, m->row, m->row_step, r, !t->look.fans);
		shares_of(spots->row, spots->row_scale, &v, s, rows, f->row, f->along);
	}
	cells_of(m, s->count, cells->clipped, rows, f);
}

#endif
