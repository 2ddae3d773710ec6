/* What a block of footprint_back_any.cu sees of a view, and the copy of it (tile) in shared
 * memory. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_ANY_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_ANY_H

#include "backend/cuda/kernels/footprint_back.h"
#include "backend/cuda/kernels/footprint_shares.h"

enum { COLUMN = 8 };

/* A view relative to the first voxel (corner) of a block and the first pixel of its tile, with
 * depths divided by that of the corner. */
typedef struct __align__(16)
{
	Affine u, v, d;
	float away[3]; /* from the source to the corner, in units of length */
	float scale;
	float last;        /* voxel of the box along z */
	int row, column;   /* of the tile's first pixel */
	int rows, columns; /* of the tile */
	int kind;
}
Near;

/* Projection of a block, in pixels: range of centres and length of the longest footprint. */
typedef struct {
	double low[2], high[2], length[2];
} Seen;

static __device__ Seen seen_by(const Footprints &s, const KernelView *k, const double corner[3])
{
	Seen seen = {{1e9, 1e9}, {-1e9, -1e9}, {0, 0}};
	const int size[3] = {SIDE, SIDE, COLUMN};
	for (int i = 0; i < 8; i++) { /* extremes are at the corners */
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = i >> a & 1 ? fmin(corner[a] + size[a] - 1,
						     (double)(s.low[a] + s.n[a] - 1))
					   : corner[a];
		const double depth = footprint_affine(k->depth, at);
		for (int c = 0; c < 2; c++) {
			const double *f = c ? k->row : k->column;
			const double p = footprint_affine(f, at) / depth;
			seen.low[c] = fmin(seen.low[c], p);
			seen.high[c] = fmax(seen.high[c], p);
			seen.length[c] =
				fmax(seen.length[c], footprint_length(f, k->depth, p, depth));
		}
	}
	for (int c = 0; c < 2; c++) /* rounding of float, and lengths between the corners */
		seen.length[c] = seen.length[c] * 1.0005 + 2e-5;
	return seen;
}

static __device__ __forceinline__ Affine affine_of(
	const double f[4], const KernelView *k, const double at[3], double pixel, double rate)
{
	return Affine{(float)((f[0] - pixel * k->depth[0]) * rate),
		(float)((f[1] - pixel * k->depth[1]) * rate),
		(float)((f[2] - pixel * k->depth[2]) * rate),
		(float)((footprint_affine(f, at) - pixel * footprint_affine(k->depth, at)) * rate)};
}

/* Factor of all voxels of a view, where depths are divided by 1 / rate. */
static __device__ __forceinline__ float scale_of(int weighting, const KernelView *k, double rate)
{
	return (float)(weighting == WEIGHT_DEPTH ? rate * rate
		       : weighting != WEIGHT_RAY ? 1
		       : KERNEL_HAS_SOURCE(k)    ? k->mass * rate * rate * rate
						 : k->mass);
}

template <class Pixel>
static __device__ __noinline__ void near_block(
	const Footprints &s, const KernelView *k, int x0, int y0, int z0, int pitch, Near *to)
{
	const double at[3] = {
		(double)(s.low[0] + x0), (double)(s.low[1] + y0), (double)(s.low[2] + z0)};
	const Seen seen = seen_by(s, k, at);
	const int kind = share_kind((float)seen.length[0], (float)seen.length[1]);
	double first[2], size[2];
	for (int c = 0; c < 2; c++) {
		first[c] = rint(fmin(fmax(seen.low[c] - 0.5 * seen.length[c], -1e6), 1e6) - 1e-3);
		if (c == 0)
			first[c] = floor(first[c] / EACH<Pixel>) * EACH<Pixel>;
		/* A thread reads some pixels from one not right of its voxel's centre on. */
		size[c] = fmin(seen.high[c] - first[c] + share_pixels(kind, c) + 1, 1e6);
	}
	const double rate = 1 / footprint_affine(k->depth, at);
	Near v = {.u = affine_of(k->column, k, at, first[0], rate),
		.v = affine_of(k->row, k, at, first[1], rate),
		.d = {(float)(k->depth[0] * rate), (float)(k->depth[1] * rate),
			(float)(k->depth[2] * rate), 1},
		.scale = scale_of(s.weighting, k, rate),
		.last = (float)(s.n[2] - 1 - z0),
		.row = (int)first[1],
		.column = (int)first[0]};
	for (int a = 0; a < 3; a++)
		v.away[a] = (float)((at[a] - k->src[a]) * s.step[a]);
	v.kind = size[1] > s.tile_rows || size[0] > pitch ? (int)DIRECT : kind;
	const double reach[2] = {0.5 * seen.length[0] + 0.5, 0.5 * seen.length[1] + 0.5};
	if (seen.high[0] + reach[0] < 0 || seen.low[0] - reach[0] > s.columns - 1 ||
		seen.high[1] + reach[1] < 0 || seen.low[1] - reach[1] > s.rows - 1)
		v.kind = UNSEEN;
	v.rows = (int)fmin(size[1], (double)s.tile_rows);
	v.columns = (int)fmin(size[0], (double)pitch);
	*to = v;
}

#endif
