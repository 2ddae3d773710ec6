/* Data of the Fourier projector on the GPU.
 *
 * Slices are transformed in pairs, as real and imaginary parts, `pairs` of them in a batch. Arrays
 * of a batch are grid[pair][y][x] and values[pair][view][m], with m modulo the period. */
#ifndef TOMOS_BACKEND_CUDA_FOURIER_H
#define TOMOS_BACKEND_CUDA_FOURIER_H

#include <cufft.h>
#include "backend/cuda/cuda.h"

extern "C" {
#include "backend/fourier_window.h"
}

enum {
	FOURIER_TILE = 32,   /* cells of a tile along an axis */
	FOURIER_PAIRS = 8,   /* most pairs of a batch */
	FOURIER_CHUNK = 2048 /* points of a tile that a block processes */
};

/* A view as kernels read it. */
typedef struct {
	double step[2];            /* from point m to m + 1, in cells */
	double turn;               /* phase of point 1, in cycles */
	double width[2];           /* of the response along each axis, in cycles of point 1 */
	float unit;                /* weight / period */
	double row, height, reach; /* as `row`, `step` and `reach` of FourierView */
} LineView;

/* Points of a view in one tile, from point `from` on; `begin` is the number of points of the chunk
 * before them. The tile's first cell is at `origin`, in the period of the grid that the points are
 * in. */
typedef struct {
	int view, from, begin;
	int origin[2];
} PointSegment;

/* Points of a tile. A tile with several chunks is the sum of `parts`; part -1: the only one. */
typedef struct {
	int tile[2];
	int segment, segments, points, part;
} PointChunk;

typedef struct {
	int tile[2];
	int part, parts;
} PartTile;

/* Points sorted by tile, in device memory. */
typedef struct {
	PointSegment *segments;
	PointChunk *chunks;
	PartTile *tiles;
	int chunk_count, tile_count, parts;
} PointLists;

struct Fourier {
	FourierSpec spec; /* without views */
	int64_t size[2], period, top;
	SpreadWindow window;
	LineView *host_views, *views;
	float *scale[2];
	PointLists lists[2]; /* of each Direction: points with their first cell in a tile; points
	                        with any cell in it */
	int pairs;
	int planes; /* of one transform */
	cufftHandle plane_fft, row_fft;
	bool has_plane_fft, has_row_fft;
	bool own_rows, covers; /* every slice has a row of its own, and every row a slice */
	float2 *grid, *values, *parts;
	struct Convolution *normal; /* instead of all these but `spec` */
};

/* One batch of slices, from `slice` on. */
typedef struct {
	int64_t n[3], size[2], rows, columns, count, period, slice;
	int pairs;
	bool own_rows;
	const LineView *views;
	const float *scale[2];
	float *volume, *projections;
	float2 *grid, *values;
} SliceBatch;

tomos_status cufft_failed(cufftResult result, int64_t length);

#define CUFFT_TRY(call, length) TRY_CODE(cufftResult, CUFFT_SUCCESS, call, cufft_failed, length)

/* Device memory with the contents of host memory. */
tomos_status fourier_send(
	tomos_backend *b, void *device, const void *host, int64_t bytes, const char *what);

/* A plan of in-place complex transforms. */
tomos_status fourier_plan(cufftHandle *plan, bool *has, int rank, const int64_t *n, int64_t batch);
tomos_status fourier_transform(
	tomos_backend *b, cufftHandle plan, float2 *data, int direction, int64_t length);

tomos_status fourier_lists(tomos_backend *b, Fourier *f, Direction direction);
void fourier_lists_free(PointLists *lists);

/* Between the grid and the values of all points. squares: instead of values, the squares of the
 * responses. */
int64_t fourier_most_pairs(const Fourier *f); /* that fit into the shared memory of a block */
tomos_status fourier_collect(tomos_backend *b, const Fourier *f);
tomos_status fourier_spread(tomos_backend *b, const Fourier *f, bool squares);

/* Slices to the padded grid (`pad`) or back, detector rows to padded rows or back. */
tomos_status slices_move(tomos_backend *b, const SliceBatch *batch, bool pad);
tomos_status rows_move(tomos_backend *b, const SliceBatch *batch, bool pad);

/* A Fourier with the spec, which `fill` completes. */
tomos_status fourier_open(tomos_backend *b, Fourier **fourier, const FourierSpec *spec,
	tomos_status (*fill)(tomos_backend *b, Fourier *f, const FourierSpec *spec));
tomos_status cuda_fourier_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec);
void cuda_fourier_close(tomos_backend *backend, Fourier *fourier);
SliceBatch fourier_batch(const Fourier *f, int64_t slice);

tomos_status cuda_normal_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec);
tomos_status cuda_normal_apply(
	tomos_backend *backend, Fourier *f, const float *volume, float *result);
void convolution_free(struct Convolution *normal);

#endif
