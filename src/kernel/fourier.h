/* The Fourier projector on devices (backend/fourier.h): its views and its points, sorted by tiles
 * of the frequency plane.
 *
 * The points of a view are on a line through the origin, so that those in a tile are consecutive: a
 * segment. Points beyond the plane belong to its periodic continuation. A work-group processes one
 * chunk of the segments of a tile; all views meet near the origin, and tiles there have many
 * chunks.
 */
#ifndef TOMOS_KERNEL_FOURIER_H
#define TOMOS_KERNEL_FOURIER_H

#include "kernel/portable.h"

enum {
	SPREAD_MOST = 12,     /* taps of a window */
	SPREAD_PITCH = 16,    /* floats of a row of its polynomials */
	FOURIER_TILE = 32,    /* cells of a tile along an axis */
	FOURIER_CHUNK = 2048, /* points of a chunk, and at most one segment more */
	FOURIER_CELLS = FOURIER_TILE * FOURIER_TILE
};

typedef struct {
	double step[2];            /* from point m to m + 1, in cells */
	double turn;               /* phase of point 1, in cycles */
	double width[2];           /* of the response along each axis, in cycles of point 1 */
	double row, height, reach; /* as `row`, `step` and `reach` of FourierView */
	float unit;                /* weight / period */
	int32_t unused;
} LineView;

/* Points of a view in one tile, from point `from` on; `begin` is the number of points of the chunk
 * before them. The tile's first cell is at `origin`, in the period of the plane that the points are
 * in. */
typedef struct {
	int32_t view, from, begin;
	int32_t origin[2];
} PointSegment;

/* Points of a tile. A tile with several chunks is the sum of `parts`; part -1: the only one. */
typedef struct {
	int32_t tile[2];
	int32_t segment, segments, points, part;
} PointChunk;

typedef struct {
	int32_t tile[2];
	int32_t part, parts;
} PartTile;

/* The voxel at a position of the transform, which begins with voxel n / 2; -1: none. */
KERNEL_FN int64_t fourier_voxel(int64_t n, int64_t size, int64_t position)
{
	const int64_t middle = n / 2;
	if (position < n - middle)
		return position + middle;
	return position >= size - middle ? position - size + middle : -1;
}

/* Detector rows first .. last that a slice meets, which is at row `at`. */
typedef struct {
	double at, reach;
	int64_t first, last;
} SliceRows;

/* own: slices have rows of their own, with the weight 1. */
KERNEL_FN SliceRows slice_rows(double row, double height, double reach, int64_t rows, int own,
	int64_t slice, int64_t slices)
{
	const double at = row + height * (double)slice, beyond = own ? 0 : reach;
	const double end = (double)(rows - 1);
	SliceRows met = {at, reach, 0, -1};
	if (slice < slices && at + beyond >= 0 && at - beyond <= end) {
		met.first = (int64_t)fmax(ceil(at - beyond), 0.0);
		met.last = (int64_t)fmin(floor(at + beyond), end);
	}
	return met;
}

KERNEL_FN float slice_row_weight(const SliceRows *rows, int64_t row)
{
	return (float)fmax(1 - fabs((double)row - rows->at) / rows->reach, 0.0);
}

/* The segment of point `index` of a chunk. */
KERNEL_FN PointSegment fourier_segment(
	KERNEL_GLOBAL const PointSegment *segments, const PointChunk *chunk, int index)
{
	KERNEL_GLOBAL const PointSegment *list = segments + chunk->segment;
	int low = 0, high = chunk->segments;
	while (high - low > 1) {
		int middle = (low + high) / 2;
		if (list[middle].begin <= index)
			low = middle;
		else
			high = middle;
	}
	return list[low];
}

#endif
