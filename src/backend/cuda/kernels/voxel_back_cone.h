/* Voxel-driven back projection by blocks of voxel columns, for all types of images.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels along z and visits all views. The part of a view
 * that the block needs (a tile) is copied into shared memory while earlier views are processed. A
 * Pixel of an image has 8 or 16 bytes: one or two pairs of floats, or the same pixel of several
 * views.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_CONE_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_CONE_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/points.h"

enum {
	SIDE = 16,
	COLUMN = 16,
	AT_ONCE = 2, /* views between two barriers; the same number of tiles is being copied */
	TILES = 2 * AT_ONCE,
	TILE = 32,         /* rows and columns of a tile */
	MOST = 64,         /* most rows or columns of a tile that is wider or higher than that */
	BORDER = MOST + 2, /* rows and columns of zeros around an image */
	THREADS = SIDE * SIDE,
	WARPS = THREADS / 32 /* more than TILES */
};

/* The same where the magnification varies much: as large as the blocks of an SM allow. */
template <class Pixel> constexpr int LARGE_TILE = sizeof(Pixel) == 16 ? 36 : 34;

/* How a block reads a view: spans of voxels (points.h) or single voxels from a tile; single voxels
 * from the image, because the tile is too small; not at all, because the block is not seen. */
enum { SPANS_OF_8, SPANS_OF_4, SINGLE, FROM_IMAGE = -1, UNSEEN = -2 };

/* Row pitch of a tile, in pixels: neighbouring rows are half of the banks apart. With this, and
 * threads placed as in place_of, few concurrent reads have bank conflicts. */
template <class Pixel, int SIZE> constexpr int PITCH = SIZE + 64 / (int)sizeof(Pixel);

/* The same for single voxels, where the tile may be wider and lower. */
template <class Pixel> static __host__ __device__ __forceinline__ int pitch_of(int columns)
{
	const int half = 64 / (int)sizeof(Pixel);
	return (columns + half - 1) / (2 * half) * (2 * half) + half;
}

/* Column of voxels (x, y) of a thread: 8 or 16 neighbouring threads are a rectangle, a warp is 8
 * x 4. */
static __device__ __forceinline__ int2 place_of(int thread)
{
	const int lane = thread % 32, warp = thread / 32;
	return make_int2(lane % 4 + lane / 16 * 4 + warp % 2 * 8, lane / 4 % 4 + warp / 2 * 4);
}

/* A view relative to the first voxel (corner) of a block. The voxel at (dx, dy) from the corner
 * has depth D = df + da dx + db dy. Its projection, relative to the tile's first pixel, is (column,
 * row) = (uf + ua dx + ub dy, vf + va dx + vb dy) / D; per voxel along z the row increases by vc /
 * D. */
typedef struct __align__(16) /* four numbers per load */
{
	float uf, ua, ub, vf, va, vb, vc, df, da, db, weight;
	float away[3];     /* from the source to the corner, in units of length */
	int kind;          /* SPANS_OF_8 .. UNSEEN */
	int from;          /* index of the tile's first pixel in the image */
	int columns, rows; /* columns and rows of the tile that are needed */
	int pitch;         /* row pitch of the tile */
	int column, row;   /* the tile's first pixel before it is clamped to the image */
}
Near;

typedef struct {
	const KernelView *views;
	int64_t count;
	int weighting; /* WEIGHT_NONE, WEIGHT_DEPTH or WEIGHT_RAY */
	int64_t low[3];
	float step[3];
	int n[3];
	const void *images; /* Pixel [view][lines][pitch], with borders of zeros */
	int lines, pitch;
	float *volume;
	VoxelUpdate update;
} Tiles;

static __device__ double affine(const double f[4], double x, double y, double z)
{
	return f[0] * x + f[1] * y + f[2] * z + f[3];
}

/* First row or column of a tile, clamped to the image; this moves only tiles whose pixels are
 * all zero. */
static __device__ int within(double first, int size, int tile)
{
	return (int)fmin(fmax(first, 0.0), (double)(size - tile));
}

/* SKIP: views that do not see the block are marked. */
template <class Pixel, int SIZE, bool SKIP>
static __device__ __forceinline__ Near near_block(
	const Tiles *s, const KernelView *k, int x0, int y0, int z0)
{
	double x = (double)(s->low[0] + x0), y = (double)(s->low[1] + y0),
	       z = (double)(s->low[2] + z0);
	double column = 1e9, row = 1e9, right = -1e9, top = -1e9, slow = 1e9, fast = -1e9;
	for (int corner = 0; corner < 4; corner++) { /* extremes are at the corners */
		double cx = x + (corner & 1 ? SIDE - 1 : 0), cy = y + (corner & 2 ? SIDE - 1 : 0);
		double rate = 1 / affine(k->depth, cx, cy, z), climb = k->row[2] * rate;
		double across = affine(k->column, cx, cy, z) * rate;
		double first = affine(k->row, cx, cy, z) * rate;
		column = fmin(column, across);
		right = fmax(right, across);
		row = fmin(row, first);
		top = fmax(top, first + (COLUMN - 1) * climb);
		slow = fmin(slow, climb);
		fast = fmax(fast, climb);
	}
	const float low = (float)slow, high = (float)fast;
	const int kind = Points<8, 2, 2>::fit(low, high)   ? SPANS_OF_8
			 : Points<4, 2, 2>::fit(low, high) ? SPANS_OF_4
							   : SINGLE;
	/* Rows that spans read below the first and above the last voxel. */
	const double span = kind == SPANS_OF_8 ? 7 : kind == SPANS_OF_4 ? 3 : 0;
	row += fmin(0.0, span * (slow - 1));
	top += kind == SINGLE ? 1 : 2 + fmax(0.0, span * (1 - slow));
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
		.kind = kind,
		.from = within(row + BORDER, s->lines, MOST) * s->pitch +
			within(column + BORDER, s->pitch, MOST),
		.columns = (int)fmin(right - column + 2.01, 1e4),
		/* One more than the corners need: between them rows can be slightly higher. */
		.rows = (int)fmin(top - row + 2.01, 1e4),
		.pitch = PITCH<Pixel, SIZE>,
		.column = (int)column + BORDER,
		.row = (int)row + BORDER};
	if (kind == SINGLE || near.columns > SIZE || near.rows > SIZE) {
		near.kind = SINGLE;
		near.pitch = pitch_of<Pixel>(near.columns);
	}
	if (near.rows * near.pitch > SIZE * PITCH<Pixel, SIZE> || near.rows > MOST ||
		near.columns > MOST)
		near.kind = FROM_IMAGE;
	if (SKIP && (right < -1 || column > (double)(s->pitch - 2 * BORDER) || top < -1 ||
			    row > (double)(s->lines - 2 * BORDER)))
		near.kind = UNSEEN;
	near.away[0] = (float)((x - k->src[0]) * s->step[0]);
	near.away[1] = (float)((y - k->src[1]) * s->step[1]);
	near.away[2] = (float)((z - k->src[2]) * s->step[2]);
	return near;
}

/* Copies tiles, 16 bytes per instruction. One warp copies a whole tile, the next warp the next
 * tile, so that addresses are computed once for several views. */
template <class Pixel, int SIZE> struct Copier {
	/* CHUNKS: chunks of a row that are copied at once. */
	static constexpr int PIXELS = 16 / (int)sizeof(Pixel), CHUNKS = TILE / PIXELS,
			     DOWN = 32 / CHUNKS;
	int row, column;

	__device__ __forceinline__ Copier()
	{
		row = threadIdx.x % 32 / CHUNKS;
		column = threadIdx.x % CHUNKS * PIXELS;
	}

	/* Whether this warp copies tile `number`. */
	static __device__ __forceinline__ bool has(int number)
	{
		return (number ^ (threadIdx.x / 32)) % WARPS == 0;
	}

	/* The lanes whose column is needed copy it in all rows. */
	__device__ __forceinline__ void copy_columns(
		const Tiles &s, const Near &near, int c, const Pixel *image, Pixel *tile)
	{
		const int rows = c < near.columns ? near.rows : 0;
		const int pitch = SIZE == TILE ? PITCH<Pixel, SIZE> : near.pitch;
		const Pixel *from = image + (near.from + row * s.pitch + c);
		Pixel *to = tile + row * pitch + c;
#pragma unroll 4
		for (int r = row; r < rows; r += DOWN) {
			__pipeline_memcpy_async(to, from, 16);
			to += DOWN * pitch;
			from += DOWN * s.pitch;
		}
	}

	__device__ __forceinline__ void copy(
		const Tiles &s, const Near &near, const Pixel *image, Pixel *tile)
	{
		if (near.kind >= 0) {
			copy_columns(s, near, column, image, tile);
#pragma unroll 1
			for (int c = TILE; SIZE > TILE && c < near.columns; c += TILE)
				copy_columns(s, near, c + column, image, tile);
		}
		__pipeline_commit();
	}
};

/* Weight of voxel z of a column: w0 + z w1 + z^2 w2. Constant or, for rays of a point source,
 * the parabola through three exact weights, which has float accuracy if the source is far from the
 * column. */
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

/* Position in a tile of voxel (dx, dy, 0) of a block: `column` + `right`, `row`; the row
 * increases by 1 + `more` per voxel along z. */
typedef struct {
	int column; /* the column before the voxel */
	float right, row, more, rate;
} Foot;

static __device__ __forceinline__ Foot foot_of(const Near &v, float dx, float dy)
{
	float rate = inverse_nearly(fmaf(v.da, dx, fmaf(v.db, dy, v.df)));
	float u = fmaf(v.ua, dx, fmaf(v.ub, dy, v.uf)) * rate, left = floorf(u);
	float row = fmaf(v.va, dx, fmaf(v.vb, dy, v.vf)) * rate;
	return Foot{(int)left, u - left, row, fmaf(v.vc, rate, -1.f), rate};
}

/* Weight of voxel k of a column. */
template <bool RAYS> static __device__ __forceinline__ float weight_at(const Weights &w, int k)
{
	const float z = (float)k;
	return RAYS ? fmaf(z, fmaf(z, w.w2, w.w1), w.w0) : w.w0;
}

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* Calls use(k, at, up) for every voxel of a column: at: the pixel before it, `up`: its distance to
 * the row of that pixel. rows: pixels of the column; CLAMP: rows are limited to low .. high. */
template <bool CLAMP, class Pixel, class Use>
static __device__ __forceinline__ void visit_singles(
	const Foot &foot, const Pixel *rows, int pitch, float low, float high, const Use &use)
{
	const float start = foot.row - 0.5f, climb = 1 + foot.more;
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		float row = fmaf((float)k, climb, start);
		row = CLAMP ? fminf(fmaxf(row, low), high) : row;
		const float rounded = __fadd_rn(row, MAGIC);
		const int whole = __float_as_int(rounded) - __float_as_int(MAGIC);
		use(k, rows + whole * pitch, row - (__fadd_rn(rounded, -MAGIC) - 0.5f));
	}
}

/* Single voxels of a view, from the tile or from the image. */
template <class Pixel, class Use>
static __device__ __forceinline__ void visit_singles(const Tiles &s, const Near &near,
	const Foot &foot, const Pixel *tile, const Pixel *image, const Use &use)
{
	if (near.kind == SINGLE) {
		visit_singles<false>(foot, tile + foot.column, near.pitch, 0, 0, use);
		return;
	}
	const int column = min(max(near.column + foot.column, 0), s.pitch - 2);
	visit_singles<true>(foot, image + near.row * s.pitch + column, s.pitch, (float)-near.row,
		(float)(s.lines - 3 - near.row), use);
}

/* Views set up at once, over all parts: many, since all threads wait for the setup. */
template <class Pixel> constexpr int VIEWS = sizeof(Pixel) == sizeof(float4) ? 128 : 64;

/* The views that a block visits, in PARTS parts: `count` from `first` on, the same in each
 * further part, `part` views later. All parts use the same `count` images. */
typedef struct {
	const KernelView *first;
	int64_t part;
	int count;
} Visited;

/* Sets up some views of all parts for a block. Meanwhile sums are stored in the memory of the
 * tiles: keeping them in registers would cause spilling. */
template <class Pixel, int SIZE, int SUMS, int VIEWS_HELD, int PARTS>
static __device__ __forceinline__ void near_views(const Tiles &s, const Visited &list, int x0,
	int y0, int z0, Near *near, volatile float *parked, float sum[SUMS])
{
	const int number = threadIdx.x, part = PARTS == 1 ? 0 : number / list.count;
	const int view = number - part * list.count;
	if (number >= PARTS * list.count)
		return;
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		parked[i * VIEWS_HELD + number] = sum[i];
	near[number] = near_block < Pixel, SIZE,
	PARTS == 1 || (SIZE > TILE) > (&s, &list.first[part * list.part + view], x0, y0, z0);
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		sum[i] = parked[i * VIEWS_HELD + number];
}

/* Copies the tiles of `count` views and calls visit(near, tile, image) when each is complete. */
template <int SIZE, class Pixel, class Visit>
static __device__ __forceinline__ void visit_tiles(const Tiles &s, const Near *near, int count,
	const Pixel *images, Pixel *tiles, const Visit &visit)
{
	const int size = SIZE * PITCH<Pixel, SIZE>;
	const int64_t image = (int64_t)s.lines * s.pitch;
	Copier<Pixel, SIZE> copier;
	for (int i = 0; i < min((int)AT_ONCE, count); i++)
		if (copier.has(i))
			copier.copy(s, near[i], images + i * image, tiles + i * size);
	for (int i = 0; i < count; i += AT_ONCE) {
		const int end = min(i + AT_ONCE, count);
		if (copier.has(i) || copier.has(i + 1))
			__pipeline_wait_prior(0);
		__syncthreads();
		for (int next = i + AT_ONCE; next < min(i + TILES, count); next++)
			if (copier.has(next))
				copier.copy(s, near[next], images + next * image,
					tiles + next % TILES * size);
#pragma unroll 1
		for (int j = i; j < end; j++)
			visit(near[j], tiles + j % TILES * size, images + j * image);
	}
}

/* The same for all views of the list, some of each part at a time; calls ended() after the views
 * of each part. */
template <class Pixel, int SIZE, int SUMS, int PARTS, class Visit, class Ended>
static __device__ __forceinline__ void visit_views(const Tiles &s, const Visited &list, int x0,
	int y0, int z0, float sum[SUMS], const Visit &visit, const Ended &ended)
{
	extern __shared__ float4 tile_memory[];
	static_assert(SUMS * VIEWS<Pixel> * sizeof(float) <=
		      TILES * SIZE * PITCH<Pixel, SIZE> * sizeof(Pixel));
	Near *near = (Near *)tile_memory;
	Pixel *tiles = (Pixel *)(near + VIEWS<Pixel>);
	const int most = VIEWS<Pixel> / PARTS;
	for (int first = 0; first < list.count; first += most) {
		const Visited some = {list.first + first, list.part, min(most, list.count - first)};
		const Pixel *images = (const Pixel *)s.images + (int64_t)first * s.lines * s.pitch;
		__syncthreads();
		near_views<Pixel, SIZE, SUMS, VIEWS<Pixel>, PARTS>(
			s, some, x0, y0, z0, near, (float *)tiles, sum);
#pragma unroll 1
		for (int part = 0; part < PARTS; part++) {
			__syncthreads();
			visit_tiles<SIZE>(
				s, near + part * some.count, some.count, images, tiles, visit);
			ended();
		}
	}
}

/* Bytes of shared memory per block. */
template <class Pixel, int SIZE> static inline int tile_bytes(void)
{
	return VIEWS<Pixel> * (int)sizeof(Near) +
	       TILES * SIZE * PITCH<Pixel, SIZE> * (int)sizeof(Pixel);
}

/* Allows a kernel to use `bytes` bytes of shared memory. */
template <class Kernel> static inline tomos_status tile_take(Kernel kernel, int bytes)
{
	CUDA_TRY(cudaFuncSetAttribute(
			 (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"taking shared memory");
	return TOMOS_OK;
}

typedef enum { NO_TILES, SMALL_TILES, LARGE_TILES } TileSize;

/* NO_TILES: rays are of another kind, or too many blocks would need larger tiles. */
TileSize tile_size(const ProjectRequest *what);

/* Rows and row pitch of the image of a view, with its border of zeros. */
static inline int tile_lines(const KernelModel *model)
{
	return (int)model->rows + 2 * BORDER;
}

static inline int tile_pitch(const KernelModel *model)
{
	return (int)(model->columns + 2 * BORDER + 1) / 2 * 2;
}

/* The request without its views and images. */
static inline Tiles tile_request(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	Tiles s = {.weighting = plan->model.weight,
		.lines = tile_lines(&plan->model),
		.pitch = tile_pitch(&plan->model),
		.volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = (float)plan->whole.step[a];
	}
	return s;
}

#endif
