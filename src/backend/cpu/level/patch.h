/* Where the voxels of a strip project to, for voxel-driven projection with bilinear interpolation.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_PATCH_H
#define TOMOS_BACKEND_CPU_LEVEL_PATCH_H

#include "backend/cpu/level/tile.h"

bool LEVEL(patch_applies)(const ProjectRequest *what);

/* Where the voxels of a strip project to: twice the place of the cell in the window, in the lower
 * 16 bits, columns and rows from the middle of the cell, and the weight of the view. */
typedef struct {
	vi cell[SPAN];
	vf right[SPAN], up[SPAN], weight[SPAN];
} Hits;

/* The first `count` voxels of a span whose voxel 0 is at x0 from its middle. `clipped`: some are
 * beside the detector. `planar`: all are in its only row. */
INLINE void strip_hits(const Look *look, const Cells *cells, const TileStrip *t, Hits *hits,
	const PlaceKind kind, const int clipped, const int planar)
{
	const Strip s = t->strip;
	vf x = vf_all(t->x0);
	for (int64_t i = 0; i < t->count; i++, x += 1) {
		Places p = strip_places(&s, look, cells, x, kind);
		if (clipped) {
			p.column = vf_min(vf_max(p.column, s.left), s.right);
			p.row = vf_min(vf_max(p.row, s.below), s.above);
		}
		vf place = p.column + s.first;
		hits->right[i] = p.column - (place - s.first);
		if (!planar) {
			vf r = (p.row + (float)ROUND) - (float)ROUND;
			hits->up[i] = p.row - r;
			place += r * s.width;
		}
		hits->cell[i] = (vi)((vu)place + (vu)place);
		if (planar)
			hits->cell[i] &= 0xffff;
		hits->weight[i] = p.weight;
	}
}

/* Separate from the loops that use the hits, since a processor overlaps more iterations of two
 * short loops than of one long loop. */
SEPARATE void strip_hit(const TileView *t, const Cells *cells, const TileStrip *s, Hits *hits)
{
	const PlaceKind kind = place_kind(&t->look, cells);
	if (kind == PLACES_PARALLEL)
		strip_hits(&t->look, cells, s, hits, PLACES_PARALLEL, 1, 0);
	else if (kind == PLACES_ANY)
		strip_hits(&t->look, cells, s, hits, PLACES_ANY, 1, 0);
	else if (kind == PLACES_NEAR)
		strip_hits(&t->look, cells, s, hits, PLACES_NEAR, 1, 0);
	else if (cells->clipped)
		strip_hits(&t->look, cells, s, hits, PLACES_SMOOTH, 1, 0);
	else
		strip_hits(&t->look, cells, s, hits, PLACES_SMOOTH, 0, 0);
}

#endif
