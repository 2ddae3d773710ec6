/* Back projection of stacks of fans from detector rows in shared memory: all slices have the same
 * positions and weights.
 *
 * A block has 16 x 16 pixels and 32 or 64 slices. It copies the columns that its pixels need, a
 * few views at a time, into one of two stages while the other is in use. A thread has a square of
 * 2 x 2 pixels and 8 or 16 slices (QUADS float4), and visits the columns within reach of any of the
 * four pixels: a sample is read once for all of them, and a weight serves all slices. Pixel p falls
 * on column U / D, both affine in p, and the ray of column c is the line g = U - c D = 0 (fan.h).
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FANS_BACK_SHARED_H
#define TOMOS_BACKEND_CUDA_KERNELS_FANS_BACK_SHARED_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/epilogue.h"
#include "backend/cuda/kernels/fan_span.h"
#include "backend/cuda/kernels/slices_resampled.h"
#include "backend/cuda/kernels/upright.h"

enum {
	SIDE = 16,
	LANES = 4,
	SLICES = 64, /* most slices of a block */
	THREADS = SIDE * SIDE / 4 * LANES,
	STAGE_LINES =
		200, /* columns of all views of a stage, such that two blocks fit into an SM */
	MOST_VIEWS = 8,
	NEAR = 128, /* views whose FansView is in shared memory */
	BUFFERS = 2,
	USUAL = 4 /* columns that most squares meet */
};

typedef struct {
	HatSlices slices;
	int wide; /* most columns that a block needs of a view */
} Notes;

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int count, na, nb, quads;
	int line;           /* float4 of slices per block and column: 8 or 16 */
	int64_t low[2];     /* first pixel of the box */
	int wide, together; /* columns copied per view; views per stage */
	const float4 *from; /* [group][view][margin, columns, margin][quad of the group] */
	const float2
		*rays; /* Joseph's method: 1 / h and length of the step of each [view][column] */
	float *to;     /* [slice][b][a] */
	int slices;
	int64_t apart; /* from slice to slice */
	EpilogueKind epilogue;
	CudaUpdate update;
} Fans;

/* A view relative to the pixel in the middle of a block and column c0: pixel (da, db) has U - c0 D
 * = u . (da, db, 1) and D = d . (da, db, 1). off: first column copied, from c0 on; reach: of a ray,
 * in columns. */
typedef struct __align__(16)
{
	float u[3], reach, d[3], off;
	float away[2], mass; /* from the source */
	int first;           /* the first column copied */
}
FansView;

/* Zero columns on both sides of a view, so that a block may copy beyond the detector. */
static __host__ __device__ int margin_of(int wide)
{
	return wide + 1;
}

/* ---- a block --------------------------------------------------------------------------------- */

/* Sets up a view for the block at pixel (a0, b0). The first column to copy is limited so
 * that all columns copied lie in the row or its margins. */
template <bool JOSEPH>
static __device__ __noinline__ FansView fans_view(
	const Fans &s, const KernelView *k, int a0, int b0)
{
	const double x = (double)(s.low[0] + a0), y = (double)(s.low[1] + b0), half = SIDE / 2;
	const double depth = fan_affine(k->depth, x + half, y + half);
	const double c = fan_affine(k->column, x + half, y + half) / depth, c0 = rint(c);
	const FanSpan span = fan_span<JOSEPH>(k, x, y, SIDE);
	const double start = fmin(fmax((double)floorf(span.low - span.reach), (double)-s.wide),
		(double)s.model.columns);
	FansView v;
	for (int a = 0; a < 2; a++) {
		v.u[a] = (float)(k->column[a] - c0 * k->depth[a]);
		v.d[a] = (float)k->depth[a];
		v.away[a] = (float)(((a ? y : x) + half - k->src[a]) * s.grid.step[a]);
	}
	v.u[2] = (float)((c - c0) * depth);
	v.d[2] = (float)depth;
	v.mass = (float)k->mass;
	v.reach = (float)span.reach;
	v.off = (float)fmin(fmax(start - c0, -1e9), 1e9);
	v.first = (int)start;
	return v;
}

/* Place of a float4 of a stage: neighbouring quads change places in every second column, so that
 * squares at neighbouring columns read different banks. */
template <int LINE> static __device__ __forceinline__ int place_of(int i)
{
	return i ^ (i / LINE & 1) * LANES;
}

/* Starts the copies of `views` views from `view` on, whose FansView are in `table`. */
template <bool JOSEPH, int QUADS>
static __device__ void bring(const Fans &s, float4 *data, float2 *rays, const FansView *table,
	int group, int view, int views)
{
	constexpr int LINE = QUADS * LANES;
	const int64_t lines = s.model.columns + 2 * margin_of(s.wide);
	const int quads = min(LINE, s.quads - group * LINE);
	for (int i = 0; i < views; i++, data += s.wide * LINE, rays += s.wide) {
		const int first = table[i].first;
		const float4 *from = s.from + (int64_t)group * s.count * lines * LINE +
				     ((view + i) * lines + margin_of(s.wide) + first) * quads;
		for (int j = threadIdx.x; j < s.wide * LINE && quads == LINE; j += THREADS)
			__pipeline_memcpy_async(data + place_of<LINE>(j), from + j, sizeof(float4));
		for (int j = threadIdx.x; j < s.wide * LINE && quads < LINE; j += THREADS)
			if (j % LINE < quads)
				__pipeline_memcpy_async(data + place_of<LINE>(j),
					from + j / LINE * quads + j % LINE, sizeof(float4));
		for (int j = threadIdx.x; JOSEPH && j < s.wide; j += THREADS) {
			const int column = min(max(first + j, 0), (int)s.model.columns - 1);
			__pipeline_memcpy_async(rays + j,
				s.rays + (int64_t)(view + i) * s.model.columns + column,
				sizeof(float2));
		}
	}
	__pipeline_commit();
}

/* Weight of a voxel at (x, y) from the middle of the block. near: 1 / D. */
static __device__ __forceinline__ float voxel_weight_of(
	const Fans &s, const FansView &v, float x, float y, float near)
{
	if (s.model.weight == WEIGHT_NONE)
		return 1;
	if (s.model.weight == WEIGHT_DEPTH)
		return near * near;
	const float dx = fmaf(x, (float)s.grid.step[0], v.away[0]),
		    dy = fmaf(y, (float)s.grid.step[1], v.away[1]);
	return v.mass * near * near * root_nearly(fmaf(dx, dx, dy * dy));
}

/* The four pixels of a square in a view: U, D, column U / D, weight (voxel-driven). */
typedef struct {
	float u[4], d[4], e[4], w[4];
} Pixels;

template <bool JOSEPH>
static __device__ __forceinline__ Pixels pixels_of(
	const Fans &s, const FansView &v, float x, float y)
{
	Pixels at;
#pragma unroll
	for (int p = 0; p < 4; p++) {
		const float px = x + (float)(p % 2), py = y + (float)(p / 2);
		at.u[p] = fmaf(px, v.u[0], fmaf(py, v.u[1], v.u[2]));
		at.d[p] = fmaf(px, v.d[0], fmaf(py, v.d[1], v.d[2]));
		const float near = inverse_nearly(at.d[p]);
		at.e[p] = at.u[p] * near;
		at.w[p] = JOSEPH ? 0 : voxel_weight_of(s, v, px, py, near);
	}
	return at;
}

/* A column in a stage: its even and its odd quads (place_of). */
typedef struct {
	const float4 *even, *odd;
} Column;

template <int LINE> static __device__ __forceinline__ Column next_column(Column c)
{
	return Column{c.odd + LINE, c.even + LINE};
}

/* Adds column c to the pixels of MASK. */
template <bool JOSEPH, int QUADS, int MASK>
static __device__ __forceinline__ void add_column(
	const Pixels &at, Column column, const float2 *rays, float c, float4 sums[4][QUADS])
{
	const float2 ray = JOSEPH ? *rays : make_float2(0, 0);
	float4 sample[QUADS];
#pragma unroll
	for (int q = 0; q < QUADS; q++)
		sample[q] = (q % 2 ? column.odd : column.even)[q / 2 * 2 * LANES];
#pragma unroll
	for (int p = 0; p < 4; p++) {
		if (!(MASK >> p & 1))
			continue;
		const float share =
			JOSEPH ? ray.y * fma_saturate(-fabsf(fmaf(-c, at.d[p], at.u[p])), ray.x, 1)
			       : at.w[p] * __saturatef(1 - fabsf(at.e[p] - c));
#pragma unroll
		for (int q = 0; q < QUADS; q++)
			add_scaled(sums[p][q], share, sample[q]);
	}
}

enum { ALL = 15 };

/* Adds three or four columns from `start` on. ONE, THREE, FOUR: masks of the pixels that meet the
 * first, the third and the fourth (0: none); all may meet the second. */
template <bool JOSEPH, int QUADS, int ONE, int THREE, int FOUR>
static __device__ __forceinline__ void add_four(
	const Pixels &at, Column one, const float2 *rays, float start, float4 sums[4][QUADS])
{
	constexpr int LINE = QUADS * LANES;
	const Column two = next_column<LINE>(one), three = next_column<LINE>(two),
		     four = next_column<LINE>(three);
	add_column<JOSEPH, QUADS, ONE>(at, one, rays, start, sums);
	add_column<JOSEPH, QUADS, ALL>(at, two, rays + 1, start + 1, sums);
	add_column<JOSEPH, QUADS, THREE>(at, three, rays + 2, start + 2, sums);
	if constexpr (FOUR != 0)
		add_column<JOSEPH, QUADS, FOUR>(at, four, rays + 3, start + 3, sums);
}

/* Adds the columns that a square meets, if its rays reach one column at most; LOW: the pixel of the
 * lowest position. The first column is at most one before that pixel: pixels that are a column or
 * more after it do not meet the first one, others not the fourth. False: there are more columns, or
 * another pixel is the lowest or highest one. */
template <bool JOSEPH, int QUADS, int LOW>
static __device__ __forceinline__ bool add_columns(
	const Pixels &at, Column column, const float2 *rays, float start, float4 sums[4][QUADS])
{
	constexpr int X = LOW ^ 1, Y = LOW ^ 2, HIGH = LOW ^ 3, LATER = ALL ^ 1 << LOW;
	const float x = at.e[X] - at.e[LOW], y = at.e[Y] - at.e[LOW], high = at.e[HIGH] - at.e[LOW];
	/* Squares are a little twisted, since positions are quotients. */
	if (fminf(x, y) < 0 || high < fmaxf(x, y))
		return false;
	if (high <= 1)
		add_four<JOSEPH, QUADS, ALL, LATER, 0>(at, column, rays, start, sums);
	else if (high > 2 || fminf(x, y) > 1)
		return false;
	else if (fmaxf(x, y) <= 1)
		add_four<JOSEPH, QUADS, ALL ^ 1 << HIGH, LATER, 1 << HIGH>(
			at, column, rays, start, sums);
	else if (x > 1)
		add_four<JOSEPH, QUADS, 1 << LOW | 1 << Y, LATER, 1 << X | 1 << HIGH>(
			at, column, rays, start, sums);
	else
		add_four<JOSEPH, QUADS, 1 << LOW | 1 << X, LATER, 1 << Y | 1 << HIGH>(
			at, column, rays, start, sums);
	return true;
}

template <bool JOSEPH, int QUADS>
static __device__ __forceinline__ bool add_few(
	const Pixels &at, Column column, const float2 *rays, float start, float4 sums[4][QUADS])
{
	const bool falls_x = at.e[1] < at.e[0], falls_y = at.e[2] < at.e[0];
	if (!falls_x && !falls_y)
		return add_columns<JOSEPH, QUADS, 0>(at, column, rays, start, sums);
	if (!falls_y)
		return add_columns<JOSEPH, QUADS, 1>(at, column, rays, start, sums);
	if (!falls_x)
		return add_columns<JOSEPH, QUADS, 2>(at, column, rays, start, sums);
	return add_columns<JOSEPH, QUADS, 3>(at, column, rays, start, sums);
}

/* Adds a view to the square whose first pixel is (x, y) from the middle of the block. */
template <bool JOSEPH, int QUADS>
static __device__ __forceinline__ void add_view(const Fans &s, const FansView &v,
	const float4 *data, const float2 *rays, float x, float y, float4 sums[4][QUADS])
{
	constexpr int LINE = QUADS * LANES;
	const Pixels at = pixels_of<JOSEPH>(s, v, x, y);
	const float *e = at.e;
	const float low = fminf(fminf(e[0], e[1]), fminf(e[2], e[3])),
		    high = fmaxf(fmaxf(e[0], e[1]), fmaxf(e[2], e[3]));
	const float start = fminf(
			    fmaxf(ceilf(low - v.reach), v.off), v.off + (float)(s.wide - USUAL)),
		    stop = fminf(high + v.reach, v.off + (float)(s.wide - 1));
	const int first = (int)(start - v.off), swap = first % 2 * LANES;
	Column column = {data + first * LINE + swap, data + first * LINE + (LANES - swap)};
	rays += first;
	if (v.reach <= 1 && add_few<JOSEPH, QUADS>(at, column, rays, start, sums))
		return;
	for (float c = start; c <= stop; c++, column = next_column<LINE>(column), rays++)
		add_column<JOSEPH, QUADS, ALL>(at, column, rays, c, sums);
}

/* Applies the epilogue of the request to the sums of four slices of a pixel; to: the
 * first slice; count: slices inside. */
template <EpilogueKind EPILOGUE>
static __device__ __forceinline__ void put_slices(
	const Fans &s, float *to, int64_t pixel, int count, const float4 &sums)
{
	const float sum[4] = {sums.x, sums.y, sums.z, sums.w};
	float value[4], factor[4];
#pragma unroll
	for (int i = 0; i < 4; i++)
		if (i < count)
			load_operands<EPILOGUE>(
				s.update, CudaResidual{}, to + i * s.apart, &value[i], &factor[i]);
#pragma unroll
	for (int i = 0; i < 4; i++)
		if (i < count)
			store_result<EPILOGUE>(s.update, CudaResidual{}, to + i * s.apart, pixel,
				value[i], factor[i], sum[i]);
}

template <EpilogueKind EPILOGUE, int QUADS>
static __device__ __forceinline__ void put_sums(
	const Fans &s, const float4 sums[4][QUADS], int a, int b, int quad)
{
#pragma unroll
	for (int p = 0; p < 4; p++) {
		const int64_t pixel = (int64_t)(b + p / 2) * s.na + a + p % 2;
		if (a + p % 2 >= s.na || b + p / 2 >= s.nb)
			continue;
#pragma unroll
		for (int q = 0; q < QUADS; q++) {
			const int slice = 4 * (quad + q * LANES);
			put_slices<EPILOGUE>(s, s.to + (slice * s.apart + pixel), pixel,
				s.slices - slice, sums[p][q]);
		}
	}
}

template <int QUADS>
static __device__ __forceinline__ void write_sums(
	const Fans &s, const float4 sums[4][QUADS], int a, int b, int quad)
{
	if (s.epilogue == EPILOGUE_OVERWRITE)
		put_sums<EPILOGUE_OVERWRITE, QUADS>(s, sums, a, b, quad);
	else if (s.epilogue == EPILOGUE_ACCUMULATE)
		put_sums<EPILOGUE_ACCUMULATE, QUADS>(s, sums, a, b, quad);
	else
		put_sums<EPILOGUE_UPDATE, QUADS>(s, sums, a, b, quad);
}

/* Bytes of shared memory for stages of `lines` columns of `line` float4. */
static int bytes_of(int lines, int line)
{
	return BUFFERS * lines * (int)(line * sizeof(float4) + sizeof(float2)) +
	       NEAR * (int)sizeof(FansView);
}

static __host__ __device__ int stage_lines(const Fans *s)
{
	return s->together * s->wide;
}

/* Adds up to NEAR views from `first` on. */
template <bool JOSEPH, int QUADS>
static __device__ __forceinline__ void add_views(const Fans &s, float4 *memory, int a0, int b0,
	int group, int first, float x, float y, float4 sums[4][QUADS])
{
	constexpr int LINE = QUADS * LANES;
	const int lines = stage_lines(&s), count = min((int)NEAR, s.count - first);
	FansView *table = (FansView *)(memory + BUFFERS * lines * LINE);
	float2 *rays = (float2 *)(table + NEAR);
	__syncthreads(); /* the table and the stages are free */
	for (int i = threadIdx.x; i < count; i += THREADS)
		table[i] = fans_view<JOSEPH>(s, &s.views[first + i], a0, b0);
	__syncthreads();
	bring<JOSEPH, QUADS>(s, memory, rays, table, group, first, min(s.together, count));
	for (int i = 0, stage = 0; i < count; i += s.together, stage ^= 1) {
		const int next = i + s.together, other = stage ^ 1;
		__pipeline_wait_prior(0);
		__syncthreads(); /* this stage is complete, and the other one is free */
		bring<JOSEPH, QUADS>(s, memory + other * lines * LINE, rays + other * lines,
			table + next, group, first + next, min(s.together, count - next));
		for (int v = 0; v < min(s.together, count - i); v++)
			add_view<JOSEPH, QUADS>(s, table[i + v],
				memory + (stage * lines + v * s.wide) * LINE + threadIdx.x % LANES,
				rays + stage * lines + v * s.wide, x, y, sums);
	}
}

template <bool JOSEPH, int QUADS>
static __global__ void __launch_bounds__(THREADS, 2) fans_back(const __grid_constant__ Fans s)
{
	extern __shared__ float4 memory[];
	const int a0 = blockIdx.x * SIDE, b0 = blockIdx.y * SIDE, square = threadIdx.x / LANES;
	const int da = square % (SIDE / 2) * 2, db = square / (SIDE / 2) * 2;
	float4 sums[4][QUADS] = {};
	for (int first = 0; first < s.count; first += NEAR)
		add_views<JOSEPH, QUADS>(s, memory, a0, b0, blockIdx.z, first,
			(float)(da - SIDE / 2), (float)(db - SIDE / 2), sums);
	write_sums<QUADS>(
		s, sums, a0 + da, b0 + db, blockIdx.z * (QUADS * LANES) + threadIdx.x % LANES);
}

/* 1 / h and the length of a step of every ray. */
static __global__ void fans_rays(const __grid_constant__ Fans s, float2 *to)
{
	const int column = blockIdx.x * blockDim.x + threadIdx.x;
	if (column >= s.model.columns)
		return;
	for (int view = blockIdx.y; view < s.count; view += gridDim.y) {
		const KernelView *k = &s.views[view];
		const double gx = k->column[0] - column * k->depth[0],
			     gy = k->column[1] - column * k->depth[1];
		const int axis = path_of(&s.grid, &s.model, k, 0, column).axis;
		to[(int64_t)view * s.model.columns + column] =
			make_float2((float)(1 / fmax(fabs(gx), fabs(gy))),
				step_of(&s.grid, k, 0, column, axis));
	}
}

#endif
