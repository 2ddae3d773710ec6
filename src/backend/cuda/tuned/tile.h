/* Voxel-driven back projection by blocks: what is the same for all kinds of images.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels along z and visits all views. The part of a view that the
 * block meets is copied into shared memory while earlier views are worked on. An image has 8 bytes for each
 * pixel: a pair of floats, or four halves.
 */
#ifndef CUDA_TILE_H
#define CUDA_TILE_H

#include "backend/cuda/cuda.h"
#include <cuda_pipeline.h>

#ifndef TILE_COLUMN
#define TILE_COLUMN 16
#endif

enum {
	SIDE = 16,
	COLUMN = TILE_COLUMN,
	VIEWS = 64,        /* whose coefficients are held at a time */
	STAGES_AHEAD = 4,  /* copies under way and in use */
	TILE_COLUMNS = 32, /* pixels that a block can hold of a view */
	TILE_PITCH = 34,   /* odd times two, so that rows lie on other banks */
	TILE_ROWS = 32,
	BORDER = 2,
	THREADS = SIDE * SIDE,
	SCRATCH_FLOATS = 512 << 20
};

/* 8 bytes. */
typedef uint2 Pixel;

/* A view seen from a block: (column, row) = (uf + ua dx + ub dy, vf + va dx + vb dy) / D counted from the
 * tile's first, D = df + da dx + db dy, and rows climb by vc / D. */
typedef struct {
	float uf, ua, ub, vf, va, vb, vc, df, da, db, weight;
	short segments;  /* S */
	int column, row; /* of the tile's first pixel */
	float away[3];   /* from the source to the corner, in units */
} Near;

typedef struct {
	const KernelView *views;
	int64_t count;
	int rows, weighting; /* weighting: a WEIGHT_... */
	int64_t low[3];
	float step[3];
	int n[3];
	const Pixel *images; /* [view][row][pitch] */
	int pitch;
	float *volume;
} Tiles;

static __device__ double affine(const double f[4], double x, double y, double z)
{
	return f[0] * x + f[1] * y + f[2] * z + f[3];
}

static __device__ Near near_block(const Tiles *s, const KernelView *k, int x0, int y0, int z0)
{
	double x = (double)(s->low[0] + x0), y = (double)(s->low[1] + y0),
	       z = (double)(s->low[2] + z0);
	double column = 1e9, row = 1e9, differ = 0;
	for (int corner = 0; corner < 4; corner++) { /* the extremes are there */
		double cx = x + (corner & 1 ? SIDE - 1 : 0), cy = y + (corner & 2 ? SIDE - 1 : 0);
		double rate = 1 / affine(k->depth, cx, cy, z);
		double first = affine(k->row, cx, cy, z) * rate;
		column = fmin(column, affine(k->column, cx, cy, z) * rate);
		row = fmin(row, first + fmin((COLUMN - 1) * (k->row[2] * rate - 1), 0.0));
		differ = fmax(differ, fabs((COLUMN - 1) * (k->row[2] * rate - 1)));
	}
	column = floor(fmax(fmin(column, 1e6), -1e6) / 2 - 1e-3) * 2; /* 16 bytes are two pixels */
	row = floor(fmax(fmin(row, 1e6), -1e6) - 1e-3);
	double depth = affine(k->depth, x, y, z);
	Near near = {.uf = (float)(affine(k->column, x, y, z) - column * depth),
		.ua = (float)(k->column[0] - column * k->depth[0]),
		.ub = (float)(k->column[1] - column * k->depth[1]),
		.vf = (float)(affine(k->row, x, y, z) - row * depth),
		.va = (float)(k->row[0] - row * k->depth[0]),
		.vb = (float)(k->row[1] - row * k->depth[1]),
		.vc = (float)k->row[2],
		.df = (float)depth,
		.da = (float)k->depth[0],
		.db = (float)k->depth[1],
		.weight = s->weighting == WEIGHT_RAY ? (float)k->mass : 1,
		.segments = (short)fmin(2 + floor(differ + 0.01), 5.0),
		.column = (int)column + BORDER,
		.row = (int)row};
	near.away[0] = (float)((x - k->src[0]) * s->step[0]);
	near.away[1] = (float)((y - k->src[1]) * s->step[1]);
	near.away[2] = (float)((z - k->src[2]) * s->step[2]);
	return near;
}

/* Two pixels at a time, always the same ones for a thread; what lies beyond the image is zero. */
static __device__ __forceinline__ void copy_tile(
	const Tiles *s, const Near *near, const Pixel *image, Pixel *tile, int thread)
{
	const int chunks = TILE_COLUMNS / 2, down = THREADS / chunks;
	const int r = thread / chunks, c = thread % chunks * 2, column = near->column + c;
	const int first = near->row + r;
	bool across = (unsigned)column < (unsigned)s->pitch;
#pragma unroll
	for (int j = 0; j < TILE_ROWS / down; j++) {
		int row = first + j * down;
		bool inside = across && (unsigned)row < (unsigned)s->rows;
		const Pixel *from = image + (inside ? row * s->pitch + column : 0);
		__pipeline_memcpy_async(
			tile + (r + j * down) * TILE_PITCH + c, from, 16, inside ? 0 : 16);
	}
}

/* Weights along a column of voxels: constant, or for rays of a point source the parabola through three of
 * them, which is exact to float where the source is far from a column. */
typedef struct {
	float w0, w1, w2;
} Weights;

template <bool RAYS>
static __device__ __forceinline__ Weights weights_of(
	const Tiles *s, const Near *v, float rate, float dx, float dy)
{
	if (!RAYS)
		return Weights{s->weighting == WEIGHT_DEPTH ? rate * rate : v->weight, 0, 0};
	const float half = (COLUMN - 1) * 0.5f, scale = v->weight * rate * rate * rate;
	float x = fmaf(dx, s->step[0], v->away[0]), y = fmaf(dy, s->step[1], v->away[1]);
	float z = v->away[2], square = fmaf(x, x, y * y), d = s->step[2] * half;
	float a = root_nearly(fmaf(z, z, square)), b = root_nearly(fmaf(z + d, z + d, square)),
	      c = root_nearly(fmaf(z + 2 * d, z + 2 * d, square));
	float slope = (4 * b - 3 * a - c) * (0.5f / half),
	      bend = (c - 2 * b + a) * (0.5f / (half * half));
	return Weights{scale * a, scale * slope, scale * bend};
}

/* Where voxel (dx, dy, 0) of a block falls on a tile: between two columns, on rows that climb with every
 * voxel by `more` than one, from row `first` + t0 on. */
typedef struct {
	const Pixel *at; /* column and row before */
	float right, more, t0, rate;
} Foot;

static __device__ __forceinline__ Foot foot_of(const Near &v, const Pixel *tile, float dx, float dy)
{
	float rate = __fdividef(1.f, fmaf(v.da, dx, fmaf(v.db, dy, v.df)));
	float u = fmaf(v.ua, dx, fmaf(v.ub, dy, v.uf)) * rate, left = floorf(u);
	float row = fmaf(v.va, dx, fmaf(v.vb, dy, v.vf)) * rate, more = fmaf(v.vc, rate, -1.f);
	float first = floorf(fminf(row, fmaf((float)(COLUMN - 1), more, row)));
	return Foot{tile + (int)first * TILE_PITCH + (int)left, u - left, more, row - first, rate};
}

/* Calls visit(near, tile) for every view, whose tile is then there. */
template <class Visit>
static __device__ __forceinline__ void visit_views(
	const Tiles &s, int x0, int y0, int z0, const Visit &visit)
{
	extern __shared__ float4 tile_memory[];
	Near *near = (Near *)tile_memory;
	Pixel *tiles = (Pixel *)(near + VIEWS);
	const int64_t image = (int64_t)s.rows * s.pitch;
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		const int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.x; i < views; i += THREADS)
			near[i] = near_block(&s, &s.views[first + i], x0, y0, z0);
		__syncthreads();
		const Pixel *images = s.images + first * image;
		for (int i = 0; i < STAGES_AHEAD - 1; i++) {
			if (i < views)
				copy_tile(&s, &near[i], images + i * image,
					tiles + i * TILE_ROWS * TILE_PITCH, threadIdx.x);
			__pipeline_commit();
		}
		for (int i = 0; i < views; i++) {
			int next = i + STAGES_AHEAD - 1;
			__pipeline_wait_prior(STAGES_AHEAD - 2);
			__syncthreads();
			if (next < views)
				copy_tile(&s, &near[next], images + next * image,
					tiles + next % STAGES_AHEAD * TILE_ROWS * TILE_PITCH,
					threadIdx.x);
			__pipeline_commit();
			visit(near[i], tiles + i % STAGES_AHEAD * TILE_ROWS * TILE_PITCH);
		}
		__pipeline_wait_prior(0);
	}
}

/* Bytes of shared memory that a block takes. */
static inline int tile_bytes(void)
{
	return VIEWS * (int)sizeof(Near) +
	       STAGES_AHEAD * TILE_ROWS * TILE_PITCH * (int)sizeof(Pixel);
}

/* Whether the views of the request are such that blocks of its voxels find all they need in a tile. */
bool tile_views(const Projecting *what);
/* The request but for its views and images. */
Tiles tile_request(const Projecting *what);

#endif
