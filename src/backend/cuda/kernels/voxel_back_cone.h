/* Voxel-driven back projection by blocks of voxel columns, for all types of images.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels along z and visits all views. The part of a view
 * that the block needs (a tile) is copied into shared memory while earlier views are processed. A
 * Pixel of an image has 8, 16 or 32 bytes: pairs of floats, or the same pixel of several views.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_CONE_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_CONE_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/voxel_back_near.h"

/* Copies tiles, 16 bytes or a pixel at once. One warp copies a whole tile, the next warp the next
 * tile, so that addresses are computed once for several views. */
template <class Pixel, int SIZE> struct Copier {
	/* CHUNKS: chunks of a row that are copied at once. */
	static constexpr int
		BYTES = sizeof(Pixel) > 16 ? (int)sizeof(Pixel) : 16,
		PIXELS = BYTES / (int)sizeof(Pixel), CHUNKS = TILE / PIXELS, DOWN = 32 / CHUNKS;
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
		char *to = (char *)tile + (row * pitch + c) * CELL<Pixel>;
#pragma unroll 4
		for (int r = row; r < rows; r += DOWN) {
#pragma unroll
			for (int i = 0; i < BYTES; i += 16)
				__pipeline_memcpy_async(to + i / 16 * PLANE<Pixel, SIZE>,
					(const char *)from + i, 16);
			to += DOWN * pitch * CELL<Pixel>;
			from += DOWN * s.pitch;
		}
	}

	__device__ __forceinline__ void copy(
		const Tiles &s, const Near &near, const Pixel *image, Pixel *tile)
	{
		if (near.kind >= 0) {
			copy_columns(s, near, column, image, tile);
#pragma unroll 1
			for (int c = TILE; SIZE != TILE && c < near.columns; c += TILE)
				copy_columns(s, near, c + column, image, tile);
		}
		__pipeline_commit();
	}
};

/* Weight of a voxel at z from the middle of a column: w0 + z w1 + z^2 w2. Constant or, for rays of
 * a point source, close to the exact weight if the source is far from the column. */
typedef struct {
	float w0, w1, w2;
} Weights;

/* Square of the horizontal distance of a column from the source. */
static __device__ __forceinline__ float square_of(const Tiles &s, const Near &v, float dx, float dy)
{
	const float x = fmaf(dx, s.step[0], v.away[0]), y = fmaf(dy, s.step[1], v.away[1]);
	return fmaf(x, x, y * y);
}

/* rate: 1 / depth of the middle; slope: increase of the depth per voxel, divided by the depth. For
 * rays, the Taylor series of distance / depth^3, with the closest linear term instead of z^3. */
template <bool RAYS>
static __device__ __forceinline__ Weights weights_of(
	const Tiles &s, const Near &v, float rate, float slope, float dx, float dy)
{
	if (!RAYS)
		return Weights{s.weighting == WEIGHT_DEPTH ? rate * rate : v.weight, 0, 0};
	const float half = (COLUMN - 1) * 0.5f, z = fmaf(half, s.step[2], v.away[2]);
	const float square = fmaf(z, z, square_of(s, v, dx, dy)),
		    inverse = s.step[2] * inverse_nearly(square);
	const float first = z * inverse, second = 0.5f * fmaf(s.step[2], inverse, -first * first);
	const float w0 = root_nearly(square) * (v.weight * rate * rate * rate);
	const float third = fmaf(
		slope * slope, fmaf(-10.f, slope, 6 * first), -second * fmaf(3.f, slope, first));
	return Weights{w0, w0 * fmaf(0.75f * half * half, third, fmaf(-3.f, slope, first)),
		w0 * fmaf(3 * slope, fmaf(2.f, slope, -first), second)};
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
	const float z = (float)k - (COLUMN - 1) * 0.5f;
	return RAYS ? fmaf(z, fmaf(z, w.w2, w.w1), w.w0) : w.w0;
}

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* Calls use(k, at, up) for every voxel of an upright column: at: the pixel before it, `up`: its
 * distance to the row of that pixel. rows: pixels of the column. */
template <class Pixel, class Use>
static __device__ __forceinline__ void visit_singles(
	const Foot &foot, const Pixel *rows, int pitch, const Use &use)
{
	const float start = foot.row - 0.5f, climb = 1 + foot.more;
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float row = fmaf((float)k, climb, start);
		const float rounded = __fadd_rn(row, MAGIC);
		const int whole = __float_as_int(rounded) - __float_as_int(MAGIC);
		use(k, rows + whole * pitch, row - (__fadd_rn(rounded, -MAGIC) - 0.5f));
	}
}

/* A column of voxels that drifts across detector columns: U, V and D of its first voxel, and their
 * increase along z; 1 / D at z from the middle: rate + z bend[0] + z^2 bend[1]. What is used for
 * every voxel is copied from Near, which would be loaded again after each load of pixels. */
typedef struct {
	float u, v, depth, du, dv, dd, rate, bend[2], slope, away;
} Drift;

/* With depth D (1 + slope z), 1 / D is rate (1 - slope z + (slope z)^2 - ...), where the term of
 * third order is replaced by the closest linear one. */
template <int KIND>
static __device__ __forceinline__ Drift drift_of(const Near &n, float dx, float dy)
{
	const float half = (COLUMN - 1) * 0.5f, depth = fmaf(n.da, dx, fmaf(n.db, dy, n.df));
	const float u = fmaf(n.ua, dx, fmaf(n.ub, dy, n.uf)),
		    v = fmaf(n.va, dx, fmaf(n.vb, dy, n.vf));
	const float rate = inverse_nearly(KIND == LEVEL ? depth : fmaf(half, n.dc, depth)),
		    slope = KIND == LEVEL ? 0 : n.dc * rate, square = slope * slope;
	return Drift{u, v, depth, n.uc, n.vc, n.dc, rate,
		{-rate * slope * fmaf(0.75f * half * half, square, 1.f), rate * square}, slope,
		n.away[2]};
}

/* 1 / depth of voxel k. */
template <int KIND> static __device__ __forceinline__ float rate_of(const Drift &c, int k)
{
	const float z = (float)k - (COLUMN - 1) * 0.5f;
	return KIND == LEVEL    ? c.rate
	       : KIND == SLOPED ? fmaf(z, fmaf(z, c.bend[1], c.bend[0]), c.rate)
				: inverse_nearly(fmaf((float)k, c.dd, c.depth));
}

/* The weights of such a column. Where they are exact: the constants of drift_weight. */
template <int KIND, bool RAYS>
static __device__ __forceinline__ Weights drift_weights(
	const Tiles &s, const Near &n, const Drift &c, float dx, float dy)
{
	if (KIND == LEVEL || (KIND == SLOPED && RAYS))
		return weights_of<RAYS>(s, n, c.rate, c.slope, dx, dy);
	const bool deep = s.weighting == WEIGHT_DEPTH;
	return Weights{deep ? 0 : n.weight, deep ? 1.f : 0.f, RAYS ? square_of(s, n, dx, dy) : 0};
}

template <int KIND, bool RAYS>
static __device__ __forceinline__ float drift_weight(
	const Tiles &s, const Drift &c, const Weights &w, int k, float rate)
{
	if (KIND == LEVEL || (KIND == SLOPED && RAYS))
		return weight_at<RAYS>(w, k);
	if (!RAYS)
		return fmaf(rate * rate, w.w1, w.w0);
	const float z = fmaf((float)k, s.step[2], c.away);
	return w.w0 * root_nearly(fmaf(z, z, w.w2)) * (rate * rate * rate);
}

/* Calls use(k, column, row, x, y, weight) for every voxel of a column: column, row: of the first of
 * the four pixels around it, added to MAGIC, as bits; (x, y): its distance from their centre.
 * Positions are rounded as exact products with the rate, which saves an instruction for each. */
template <int KIND, bool RAYS, class Use>
static __device__ __forceinline__ void visit_drift(
	const Tiles &s, const Near &n, float dx, float dy, const Use &use)
{
	constexpr bool LIMIT = KIND == FROM_IMAGE;
	const Drift c = drift_of<KIND>(n, dx, dy);
	const Weights w = drift_weights<KIND, RAYS>(s, n, c, dx, dy);
	const float right = (float)(s.pitch - 2 - n.column), top = (float)(s.lines - 2 - n.row);
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float z = (float)k, rate = rate_of<KIND>(c, k);
		float u = fmaf(z, c.du, c.u), v = fmaf(z, c.dv, c.v);
		u = LIMIT ? fminf(fmaxf(u * rate, (float)-n.column), right) : u;
		v = LIMIT ? fminf(fmaxf(v * rate, (float)-n.row), top) : v;
		const float factor = LIMIT ? 1 : rate;
		const float near_u = fmaf(u, factor, MAGIC), near_v = fmaf(v, factor, MAGIC);
		const float weight = drift_weight<KIND, RAYS>(s, c, w, k, rate);
		use(k, __float_as_uint(near_u), __float_as_uint(near_v),
			fmaf(u, factor, __fadd_rn(MAGIC, -near_u)),
			fmaf(v, factor, __fadd_rn(MAGIC, -near_v)),
			LIMIT && !(rate > 0) ? 0 : weight);
	}
}

/* The same from a tile or an image, with use(k, at, pitch, x, y, weight), at: the first pixel. */
template <int KIND, bool RAYS, class Pixel, class Use>
static __device__ __forceinline__ void visit_pixels(const Tiles &s, const Near &n,
	const Pixel *pixels, int pitch, float dx, float dy, const Use &use)
{
	const unsigned magic = __float_as_uint(MAGIC), origin = magic * (unsigned)pitch + magic;
	visit_drift<KIND, RAYS>(s, n, dx, dy,
		[&](int k, unsigned column, unsigned row, float x, float y, float weight) {
			use(k, pixels + (int)(row * (unsigned)pitch + column - origin), pitch, x, y,
				weight);
		});
}

/* A voxel: index of the first of the four pixels around it, distance from their centre, weight. */
typedef struct {
	int64_t at;
	float x, y, weight;
} Exact;

static __device__ double limited_to(double value, int size)
{
	return limited(value + BORDER, 0, size - 2);
}

/* Not inlined, since few blocks need it. */
static __device__ __noinline__ Exact exact_voxel(
	const Tiles &s, const KernelView *view, int64_t x, int64_t y, int64_t z)
{
	const int64_t at[3] = {x, y, z};
	const KernelModel model = {.weight = s.weighting};
	const KernelGrid grid = {.step = {s.step[0], s.step[1], s.step[2]}};
	const double depth = voxel_affine(view->depth, at);
	if (!(depth > 0))
		return Exact{};
	const double u = limited_to(voxel_affine(view->column, at) / depth, s.pitch),
		     v = limited_to(voxel_affine(view->row, at) / depth, s.lines);
	const double left = floor(u), below = floor(v);
	return Exact{(int64_t)below * s.pitch + (int64_t)left, (float)(u - left - 0.5),
		(float)(v - below - 0.5), (float)voxel_weight(&grid, &model, view, at, depth)};
}

template <class Pixel, class Use>
static __device__ __forceinline__ void visit_exact(
	const Tiles &s, const Near &n, const Pixel *image, float dx, float dy, const Use &use)
{
	const int64_t x = s.low[0] + blockIdx.x * SIDE + (int)dx,
		      y = s.low[1] + blockIdx.y * SIDE + (int)dy,
		      z = s.low[2] + blockIdx.z * COLUMN;
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const Exact e = exact_voxel(s, s.views + n.origin, x, y, z + k);
		use(k, image + e.at, s.pitch, e.x, e.y, e.weight);
	}
}

/* For any kind but spans and single voxels. */
template <bool RAYS, bool TILTED, class Pixel, class Use>
static __device__ __forceinline__ void visit_points(const Tiles &s, const Near &n,
	const Pixel *tile, const Pixel *image, float dx, float dy, const Use &use)
{
	const Pixel *from = tile + n.origin;
	if (TILTED && n.kind == LEVEL)
		visit_pixels<LEVEL, RAYS>(s, n, from, n.pitch, dx, dy, use);
	else if (TILTED && n.kind == SLOPED)
		visit_pixels<SLOPED, RAYS>(s, n, from, n.pitch, dx, dy, use);
	else if (n.kind == CLOSE)
		visit_pixels<CLOSE, RAYS>(s, n, from, n.pitch, dx, dy, use);
	else if (n.kind == FROM_IMAGE)
		visit_pixels<FROM_IMAGE, RAYS>(
			s, n, image + n.row * s.pitch + n.column, s.pitch, dx, dy, use);
	else if (n.kind == IN_DOUBLE)
		visit_exact(s, n, image, dx, dy, use);
}

/* Views set up at once, over all parts: many, since all threads wait for the setup. */
template <class Pixel> constexpr int VIEWS = sizeof(Pixel) == sizeof(float4) ? 128 : 64;

/* Views between two barriers; the same number of tiles is being copied. */
template <class Pixel, int SIZE> constexpr int AT_ONCE = SIZE == HUGE_TILE ? 1 : 2;
template <class Pixel, int SIZE> constexpr int TILES = 2 * AT_ONCE<Pixel, SIZE>;

/* The views that a block visits, in PARTS parts: `count` from `first` on, the same in each
 * further part, `part` views later. All parts use the same `count` images. */
typedef struct {
	const KernelView *first;
	int64_t part;
	int count;
} Visited;

/* Sets up some views of all parts for a block. Meanwhile sums are stored in the memory of the
 * tiles: keeping them in registers would cause spilling. */
template <class Pixel, int SIZE, int SUMS, int VIEWS_HELD, int PARTS, bool TILTED>
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
	constexpr bool SKIP = PARTS == 1 || SIZE != TILE;
	near[number] = near_block<Pixel, SIZE, SKIP, TILTED>(
		&s, &list.first[part * list.part + view], x0, y0, z0);
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
	for (int i = 0; i < min(AT_ONCE<Pixel, SIZE>, count); i++)
		if (copier.has(i))
			copier.copy(s, near[i], images + i * image, tiles + i * size);
	for (int i = 0; i < count; i += AT_ONCE<Pixel, SIZE>) {
		const int end = min(i + AT_ONCE<Pixel, SIZE>, count);
		if (copier.has(i) || (AT_ONCE<Pixel, SIZE> == 2 && copier.has(i + 1)))
			__pipeline_wait_prior(0);
		__syncthreads();
		for (int next = i + AT_ONCE<Pixel, SIZE>; next < min(i + TILES<Pixel, SIZE>, count);
			next++)
			if (copier.has(next))
				copier.copy(s, near[next], images + next * image,
					tiles + next % TILES<Pixel, SIZE> * size);
#pragma unroll 1
		for (int j = i; j < end; j++)
			visit(near[j], tiles + j % TILES<Pixel, SIZE> * size, images + j * image);
	}
}

/* The same for all views of the list, some of each part at a time; calls ended() after the views
 * of each part. */
template <class Pixel, int SIZE, int SUMS, int PARTS, bool TILTED, class Visit, class Ended>
static __device__ __forceinline__ void visit_views(const Tiles &s, const Visited &list, int x0,
	int y0, int z0, float sum[SUMS], const Visit &visit, const Ended &ended)
{
	extern __shared__ float4 tile_memory[];
	static_assert(SUMS * VIEWS<Pixel> * sizeof(float) <=
		      TILES<Pixel, SIZE> * SIZE * PITCH<Pixel, SIZE> * sizeof(Pixel));
	Near *near = (Near *)tile_memory;
	Pixel *tiles = (Pixel *)(near + VIEWS<Pixel>);
	const int most = VIEWS<Pixel> / PARTS;
	for (int first = 0; first < list.count; first += most) {
		const Visited some = {list.first + first, list.part, min(most, list.count - first)};
		const Pixel *images = (const Pixel *)s.images + (int64_t)first * s.lines * s.pitch;
		__syncthreads();
		near_views<Pixel, SIZE, SUMS, VIEWS<Pixel>, PARTS, TILTED>(
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
	       TILES<Pixel, SIZE> * SIZE * PITCH<Pixel, SIZE> * (int)sizeof(Pixel);
}

/* Allows a kernel to use `bytes` bytes of shared memory. */
template <class Kernel> static inline tomos_status tile_take(Kernel kernel, int bytes)
{
	CUDA_TRY(cudaFuncSetAttribute(
			 (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"taking shared memory");
	return TOMOS_OK;
}

/* TILTED_TILES: columns of voxels drift across detector columns. HUGE_TILES: the same, or voxels of
 * about two pixels. */
typedef enum { NO_TILES, SMALL_TILES, LARGE_TILES, TILTED_TILES, HUGE_TILES } TileSize;

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

/* Whether an image has few enough pixels for indices of 32 bits. */
static inline bool tile_fits_int(const KernelModel *model)
{
	return (model->rows + 2 * BORDER) * (model->columns + 2 * BORDER) <= 1 << 30;
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
