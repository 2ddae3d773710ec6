/* Voxel-driven forward projection for upright detectors: a column of voxels adds to the rows of a
 * detector column.
 *
 * The voxels are visited upwards, in spans. A voxel between two rows adds to both, in proportion.
 * Which rows these are is known beforehand but for a choice of two or three, so sums are in
 * registers and no voxel needs a branch: rows that it is not next to get it with weight 0.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_COLUMNS_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_COLUMNS_H

#include "backend/cuda/kernels/upright.h"

enum {
	ROWS = 15, /* pixels of a thread */
	WINDOW =
		16, /* rows whose voxels it visits: those up to one row below the first pixel too */
	STRIP = 32, /* adjacent columns of voxels: the next slice is at a constant distance */
	BORDER = 16, /* slices of zeros below and above the volume: more than a span reads */
};

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int64_t count;
	const float *columns; /* [a][strip of b][z with borders][b in strip] */
	int a, na, nb, nz, lines, strips;
	float *projections;
} VoxelColumns;

/* ---- columns of voxels ----------------------------------------------------------------------- */

static __device__ float voxel_at(const VoxelColumns *s, const float *volume, int x, int y, int z)
{
	const int nx = s->a == 0 ? s->na : s->nb, ny = s->a == 0 ? s->nb : s->na;
	return x < nx && y < ny && z >= 0 && z < s->nz ? volume[((int64_t)z * ny + y) * nx + x] : 0;
}

/* A block has STRIP x STRIP columns of some slices. */
static __global__ void make_columns(
	const __grid_constant__ VoxelColumns s, const float *volume, float *columns)
{
	__shared__ float tile[STRIP][STRIP + 1];
	const int b0 = blockIdx.x * STRIP, a0 = blockIdx.y * STRIP, x = threadIdx.x;
	for (int line = blockIdx.z; line < s.lines; line += gridDim.z) {
		const int z = line - BORDER;
		if (s.a == 0) {
			__syncthreads();
			for (int y = threadIdx.y; y < STRIP; y += blockDim.y)
				tile[y][x] = voxel_at(&s, volume, a0 + x, b0 + y, z);
			__syncthreads();
		}
		for (int y = threadIdx.y; y < STRIP && a0 + y < s.na; y += blockDim.y)
			columns[(((int64_t)(a0 + y) * s.strips + blockIdx.x) * s.lines + line) *
					STRIP +
				x] =
				s.a == 0 ? tile[x][y] : voxel_at(&s, volume, b0 + x, a0 + y, z);
	}
}

/* ---- spans of voxels ------------------------------------------------------------------------- */

/* COUNT voxels, the first of which is the lowest in HIGH rows: enough for all in these rows. Voxel
 * i is at most STEPS rows above row row_of(i). */
template <int HIGH_, int COUNT_, int RATE_, int SHIFT_, int STEPS_> struct Span {
	static constexpr int HIGH = HIGH_, COUNT = COUNT_, STEPS = STEPS_, RATE = RATE_,
			     SHIFT = SHIFT_;
	static_assert(COUNT < BORDER && WINDOW % HIGH == 0 && SHIFT >= -8 && SHIFT < 4, "a span");

	static constexpr __host__ __device__ int row_of(int i)
	{
		return (i * RATE + SHIFT + 8) / 4 - 2;
	}

	/* The rates, rows per voxel, from low() to high() for which this holds. */
	static constexpr __host__ __device__ float low()
	{
		float rate = HIGH / (COUNT - 0.01f);
		for (int i = 1; i < COUNT; i++)
			rate = row_of(i) > i * rate ? (float)row_of(i) / i : rate;
		return rate;
	}

	static constexpr __host__ __device__ float high()
	{
		float rate = 100;
		for (int i = 0; i < COUNT; i++)
			if (row_of(i) + STEPS < HIGH && rate * (i + 1) > row_of(i) + STEPS)
				rate = (float)(row_of(i) + STEPS) / (i + 1);
		return rate;
	}

	/* Voxel i is between these rows at all these rates, if it is in the span. */
	static constexpr __host__ __device__ float lowest(int i)
	{
		return i * low() - 1e-5f;
	}

	static constexpr __host__ __device__ float highest(int i)
	{
		return (i + 1) * high() + 1e-5f < HIGH ? (i + 1) * high() + 1e-5f : HIGH;
	}

	/* Whether it can be within a row of `row`. */
	static constexpr __host__ __device__ bool meets(int i, int row)
	{
		return row >= 0 && row <= HIGH && lowest(i) < row + 1 && highest(i) > row - 1;
	}

	/* Voxels that are within the span at all these rates. */
	static constexpr __host__ __device__ int certain()
	{
		const int count = (int)(HIGH / high() - 0.01f);
		return count < COUNT ? count : COUNT;
	}
};

/* The kinds of spans, those of fewest instructions first. */
#define SPAN_KINDS(KIND) \
	KIND(0, 8, 5, 7, -1, 3) \
	KIND(1, 4, 2, 5, 0, 3) \
	KIND(2, 4, 2, 8, 0, 4) \
	KIND(3, 8, 6, 5, 1, 3) \
	KIND(4, 8, 8, 4, 0, 2) \
	KIND(5, 8, 7, 4, 0, 3) \
	KIND(6, 8, 9, 4, -4, 2) \
	KIND(7, 4, 3, 4, 0, 3) \
	KIND(8, 8, 10, 3, -1, 3) \
	KIND(9, 8, 9, 4, -4, 3) \
	KIND(10, 4, 4, 3, 1, 3) \
	KIND(11, 8, 12, 3, -4, 3) \
	KIND(12, 4, 6, 3, -1, 2) \
	KIND(13, 4, 7, 2, 0, 2) \
	KIND(14, 4, 7, 2, 0, 3) \
	KIND(15, 4, 9, 2, -2, 2) \
	KIND(16, 4, 12, 1, 1, 2) \
	KIND(17, 4, 11, 1, 0, 3) \
	KIND(18, 4, 15, 1, 0, 3)

/* The first kind for rates from low to high; -1: none. */
static __device__ __forceinline__ int span_kind(float low, float high)
{
#define KIND(number, ...) \
	if (low >= Span<__VA_ARGS__>::low() && high <= Span<__VA_ARGS__>::high()) \
		return number;
	SPAN_KINDS(KIND)
#undef KIND
	return -1;
}

/* How the weight changes along a column of voxels: not at all; with the length of the ray, by a
 * parabola, or by a square root where the source is near. */
typedef enum { EVEN, PARABOLA, ROOT } Weighing;

/* A column of voxels: row -1 of the thread is at height z, the next ones `gap` higher; `rate` rows
 * per voxel. Weights: left and right for the two detector columns, times w[0] + p (w[1] + p w[2])
 * at p rows above that row, or times the distance from the source, of which `square` is the
 * horizontal part. */
typedef struct {
	float z, gap, rate;
	float left, right;
	float w[3], square;
} Column;

/* Sums of the rows from row 0 on, in two detector columns. */
typedef struct {
	float left[ROWS], right[ROWS];
} Sums;

/* Heights of the voxels in memory, counted from a slice, and of slice 0 above the source. */
typedef struct {
	float low, high; /* where a span may begin */
	float rise, step;
} Slices;

/* The first voxel at or above a height, plus MAGIC. */
static __device__ __forceinline__ float voxel_above(const Slices &slices, float height)
{
	return __fadd_rn(fminf(fmaxf(height + 0.5f, slices.low), slices.high), MAGIC);
}

template <Weighing WEIGHING> struct Weights {
	float w0, w1, w2, square;

	/* Of voxels from `first` on, the first of which is p rows above row -1. */
	__device__ __forceinline__ Weights(
		const Slices &slices, const Column &column, float first, float p)
	{
		const float c = column.rate, bend = column.w[2] * c;
		if (WEIGHING == ROOT) {
			*this = {1, fmaf(first, slices.step, slices.rise), slices.step,
				column.square};
		} else if (WEIGHING == PARABOLA) {
			*this = {fmaf(p, fmaf(p, column.w[2], column.w[1]), column.w[0]),
				fmaf(2 * bend, p, column.w[1] * c), bend * c, 0};
		} else {
			*this = {1, 0, 0, 0};
		}
	}

	__device__ __forceinline__ Weights(float a, float b, float c, float d)
	    : w0(a), w1(b), w2(c), square(d)
	{
	}

	__device__ __forceinline__ float at(int i) const
	{
		if (WEIGHING == EVEN)
			return w0;
		const float line = fmaf((float)i, w2, w1);
		return WEIGHING == ROOT ? root_nearly(fmaf(line, line, square))
					: fmaf((float)i, line, w0);
	}
};

/* Adds voxel i of a span to the rows it is between; the first voxel is p rows above the first row.
 * All weights are at least 0. */
template <class S>
static __device__ __forceinline__ void add_voxel(float rows[], int i, float p, float rate, float x)
{
	const int m = S::row_of(i);
	const float more = rate - 0.25f * S::RATE, aside = 0.25f * (i * S::RATE - 4 * m);
#pragma unroll
	for (int s = 0; s <= S::STEPS; s++) {
		const int row = m + s;
		if (!S::meets(i, row))
			continue;
		const float from =
			aside - (float)s; /* the voxel is p + from + i more above the row */
		const float weight =
			S::lowest(i) >= row - 2e-5f ? fma_saturate((float)-i, more, 1 - from - p)
			: S::highest(i) <= row + 2e-5f
				? fma_saturate((float)i, more, 1 + from + p)
				: __saturatef(1 - fabsf(fmaf((float)i, more, p + from)));
		rows[row] = fmaf(weight, x, rows[row]);
	}
}

static __device__ __forceinline__ void add_row(
	Sums &sums, const Column &column, int row, float value)
{
	if (row <= 0 || row > ROWS)
		return;
	sums.left[row - 1] = fmaf(column.left, value, sums.left[row - 1]);
	sums.right[row - 1] = fmaf(column.right, value, sums.right[row - 1]);
}

/* The voxels of one column; `from` is that of slice 0. */
template <class S, Weighing WEIGHING>
static __device__ __forceinline__ void climb(
	const Slices &slices, const Column &column, const float *from, Sums &sums)
{
	float begin = voxel_above(slices, column.z), last = 0;
#pragma unroll
	for (int base = 0; base < WINDOW; base += S::HIGH) {
		const float z = fmaf((float)base, column.gap, column.z);
		const float next =
			voxel_above(slices, fmaf((float)(base + S::HIGH), column.gap, column.z));
		const float first = __fadd_rn(begin, -MAGIC), count = next - begin;
		const float p = (first - z) * column.rate;
		const Weights<WEIGHING> weights(slices, column, first, p + (float)base);
		const float *at = from + (__float_as_int(begin) - __float_as_int(MAGIC)) * STRIP;
		float q[S::COUNT], rows[S::HIGH + 1] = {last};
#pragma unroll
		for (int i = 0; i < S::COUNT; i++)
			q[i] = __ldg(at + i * STRIP);
#pragma unroll
		for (int i = 0; i < S::COUNT; i++) {
			const float x = WEIGHING == EVEN ? q[i] : weights.at(i) * q[i];
			add_voxel<S>(rows, i, p, column.rate,
				i < S::certain() || (float)i < count ? x : 0);
		}
#pragma unroll
		for (int row = 0; row < S::HIGH; row++)
			add_row(sums, column, base + row, rows[row]);
		last = rows[S::HIGH];
		begin = next;
	}
}

/* The same for any rate, row by row: sums of one column. */
template <Weighing WEIGHING>
static __device__ __noinline__ void climb_any(
	Slices slices, Column column, const float *from, float rows[ROWS])
{
	for (int row = 1; row <= ROWS; row++) {
		const float z = fmaf((float)row, column.gap, column.z);
		const float low = fmaxf(ceilf(z - column.gap), slices.low),
			    high = fminf(floorf(z + column.gap), slices.high);
		float sum = 0;
		for (float i = low; i <= high; i++) {
			const float p = (i - z) * column.rate;
			const Weights<WEIGHING> weights(slices, column, i, p + (float)row);
			sum = fmaf(__saturatef(1 - fabsf(p)) * weights.at(0),
				__ldg(from + (int)i * STRIP), sum);
		}
		rows[row - 1] = sum;
	}
}

#endif
