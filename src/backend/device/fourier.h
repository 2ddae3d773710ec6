/* What implementations of the Fourier projector on devices have in common (kernel/fourier.h). */
#ifndef TOMOS_BACKEND_DEVICE_FOURIER_H
#define TOMOS_BACKEND_DEVICE_FOURIER_H

#include "backend/backend.h"
#include "backend/fourier_window.h"

/* Views of a FourierSpec as lines of points, m from -top to top, in a plane of size[0] x size[1]
 * cells. */
typedef struct {
	int64_t size[2], period, top, count;
	SpreadWindow window;
	LineView *views;
	bool own_rows, covers; /* every slice has a row of its own, and every row a slice */
} PointLines;

/* To be freed after a failure as well. */
tomos_status point_lines_make(PointLines *lines, const FourierSpec *spec);
void point_lines_free(PointLines *lines);

/* Points sorted by tile, in host or device memory. */
typedef struct {
	PointSegment *segments;
	PointChunk *chunks;
	PartTile *tiles;
	int segment_count, chunk_count, tile_count, parts;
} PointLists;

/* In host memory. Of FORWARD, the points with their first cell in a tile, and of ADJOINT those with
 * any cell in it; for the latter every tile has a chunk. */
tomos_status point_lists_make(PointLists *lists, const PointLines *lines, Direction direction);
void point_lists_free(PointLists *lists);

#endif
