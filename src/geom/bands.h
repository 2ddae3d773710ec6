/* Detector rows of slabs, where rays cross several slices: ranks own slabs of the volume and bands
 * of detector rows.
 *
 * Every row of a view is owned by one slab: the boundary between two slabs is the row to which
 * their boundary projects, on the axis of the volume. A slab reaches more rows than it owns; only
 * these are exchanged. Several ranks may share a slab: each has some of its slices and of the
 * views.
 */
#ifndef TOMOS_GEOM_BANDS_H
#define TOMOS_GEOM_BANDS_H

#include "geom/geom.h"

/* Detector rows [low, high). */
typedef struct {
	int64_t low, high;
} RowBand;

typedef struct {
	const tomos_geometry *scan; /* borrowed */
	const tomos_grid *grid;
	const int64_t *slices; /* rank r has slices [slices[r], slices[r + 1]) */
	int slabs, groups;     /* slab s is that of ranks [s groups, (s + 1) groups) */
	/* Of ranks that divide the views: those of all ranks, and which of them is the first of
	 * `scan`. NULL: all are in `scan`. */
	const tomos_geometry *all;
	int64_t first_view;
} Bands;

/* The first slice of a slab, or the end of the last one. */
static inline int64_t bands_slice(const Bands *b, int slab)
{
	return b->slices[slab * b->groups];
}

RowBand bands_own(const Bands *bands, int slab, int64_t view);
/* Rows that depend on a slab; low == high: none. */
RowBand bands_reach(const Bands *bands, int slab, int64_t view);
RowBand band_meet(RowBand a, RowBand b); /* the rows in both */
/* Pixels that a slab sends to others in a forward projection: rows that it reaches and others own.
 * A back projection sends them the other way. */
int64_t bands_sent(const Bands *bands, int slab);

#endif
