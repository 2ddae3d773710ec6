/* Detector rows of ranks, where rays cross several slices: ranks own slabs of the volume and bands
 * of detector rows.
 *
 * Every row of a view is owned by one rank: the boundary between two ranks is the row to which the
 * boundary between their slabs projects, on the axis of the volume. A slab reaches more rows than
 * its rank owns; only these are exchanged.
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
	int ranks;
} Bands;

RowBand bands_own(const Bands *bands, int rank, int64_t view);
/* Rows that depend on the slab of a rank; low == high: none. */
RowBand bands_reach(const Bands *bands, int rank, int64_t view);
RowBand band_meet(RowBand a, RowBand b); /* the rows in both */
/* Pixels that a rank sends to others in a forward projection: rows that its slab reaches and others
 * own. A back projection sends them the other way. */
int64_t bands_sent(const Bands *bands, int rank);

#endif
