/* Shares of pixels in the footprint of one voxel (kernel/footprint.h), in float, for point sources
 * and parallel rays in any direction.
 *
 * A voxel with projection (U, V) / D has edges that appear |f - u d| / D wide, f and d being the
 * changes of U and D along the edge. All lengths are left multiplied by D, which cancels in the
 * shares, so that one reciprocal serves both coordinates.
 *
 * The part of a trapezoid beyond a position that is y before its end is p (y - n p / 2), p being
 * y / n between 0 and 1 and n the narrow box. Pixels are counted from the centre of the footprint
 * to either side, so that only these ends are needed.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SHARES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SHARES_H

#include "backend/cuda/kernels/footprint.h"

/* Half the changes of U or V and of D along the three edges of a voxel, the one that appears
 * longest in the middle of the block first. */
typedef struct {
	float f[3], d[3];
} Edges;

static __device__ __forceinline__ float inverse_root(float x)
{
	float result;
	asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
	return result;
}

/* The trapezoid of one coordinate, lengths times D. */
typedef struct {
	float wide, narrow; /* half of the boxes */
	float rate;         /* 1 / narrow box */
	float reach;        /* half the length of the base */
} Shape;

/* u: the coordinate. PLAIN: everywhere in the block the first edge is the longest, and longer than
 * the others together. */
template <bool PLAIN> static __device__ __forceinline__ Shape shape_of(const Edges &e, float u)
{
	const float x = fabsf(fmaf(-u, e.d[0], e.f[0])), y = fmaf(-u, e.d[1], e.f[1]),
		    z = fmaf(-u, e.d[2], e.f[2]);
	float wide = x, square = fmaf(y, y, fmaf(z, z, 1e-18f));
	if (!PLAIN) {
		const float larger = fmaxf(x, fabsf(y)), one = fminf(x, fabsf(y)),
			    two = fminf(larger, fabsf(z));
		wide = fmaxf(larger, fmaxf(fabsf(z), FOOTPRINT_LEAST));
		square = fminf(fmaf(one, one, fmaf(two, two, 1e-18f)), wide * wide);
	}
	const float root = inverse_root(square), narrow = square * root;
	return Shape{wide, narrow, 0.5f * root, wide + narrow};
}

/* The part of the footprint beyond `reach` - y, times its whole width. */
static __device__ __forceinline__ float shape_end(const Shape &shape, float y)
{
	const float p = fma_saturate(y, shape.rate, 0.f);
	return p * fmaf(-shape.narrow, p, y);
}

/* The pixel of N, counted from MAGIC, that contains the centre (N odd) or is left of the edge next
 * to it. */
template <int N> static __device__ __forceinline__ float middle_pixel(float u)
{
	return __fadd_rn(N % 2 ? u : u - 0.5f, MAGIC);
}

/* Pixels before that one. */
template <int N> constexpr int BEFORE = (N - 1) / 2;

/* The part of the footprint below s, on either side of the centre, times its whole width. */
static __device__ __forceinline__ float shape_below(const Shape &shape, float s)
{
	const float y = shape.reach - fabsf(s), p = fma_saturate(y, shape.rate, 0.f);
	const float half = fmaf(-p, fmaf(-shape.narrow, p, y), shape.wide);
	return shape.wide + copysignf(half, s);
}

/* The shares of N pixels, times the wide box. U: the coordinate times depth; middle: the pixel of
 * middle_pixel. EITHER: the centre may be farther outside that pixel than the difference of the
 * boxes' halves. */
template <int N, bool EITHER>
static __device__ __forceinline__ void shares_of(
	const Shape &shape, float middle, float U, float depth, float share[N])
{
	constexpr int M = N / 2; /* edges on either side; the middle one of N even is on both */
	const float all = 2 * shape.wide;
	float left[M + 1], right[M + 1];
	left[M] = right[M] = 0;
	if (N % 2) {
		const float f = fmaf(-middle, depth, U), y = fmaf(-0.5f, depth, shape.reach);
#pragma unroll
		for (int m = EITHER; m < M; m++) {
			const float at = fmaf(-(float)m, depth, y);
			left[m] = shape_end(shape, at - f);
			right[m] = shape_end(shape, at + f);
		}
		if (EITHER) {
			left[0] = shape_below(shape, fmaf(-0.5f, depth, -f));
			right[0] = shape_below(shape, fmaf(-0.5f, depth, f));
		}
		share[M] = all - (left[0] + right[0]);
	} else {
		const float f = fmaf(-(middle + 0.5f), depth, U);
		left[0] = shape_below(shape, -f);
		right[0] = all - left[0];
#pragma unroll
		for (int m = 1; m < M; m++) {
			const float at = fmaf(-(float)m, depth, shape.reach);
			left[m] = shape_end(shape, at - f);
			right[m] = shape_end(shape, at + f);
		}
	}
#pragma unroll
	for (int m = 0; m < M; m++) {
		share[BEFORE<N> - m - N % 2] = left[m] - left[m + 1];
		share[N - M + m] = right[m] - right[m + 1];
	}
}

/* Pixels that a footprint meets in each coordinate, at most: columns and rows; and whether shapes
 * are plain across columns and along rows. */
#define SHARE_KINDS(KIND) \
	KIND(0, 3, 2, true, true) \
	KIND(1, 3, 3, true, true) \
	KIND(2, 3, 3, false, true) \
	KIND(3, 3, 3, false, false) \
	KIND(4, 4, 3, false, true) \
	KIND(5, 4, 4, false, false) \
	KIND(6, 5, 5, false, false) \
	KIND(7, 7, 7, false, false)

/* LOOP, after these: rows and columns of a footprint are counted for every voxel. FORWARD_SHARES:
 * kinds of forward projection; more pixels would mostly be in few banks of shared memory, those of
 * LOOP are not. */
enum { FORWARD_SHARES = 7, LOOP = 8, SHARE_COUNT = 9 };

/* The first kind that is enough for footprints of these lengths. */
static __device__ __forceinline__ int share_kind(
	float across, float along, bool plain_across, bool plain_along)
{
#define KIND(number, NC, NR, ACROSS, ALONG) \
	if (across <= NC - 1 && along <= NR - 1 && plain_across >= ACROSS && plain_along >= ALONG) \
		return number;
	SHARE_KINDS(KIND)
#undef KIND
	return LOOP;
}

/* Spans of N neighbouring voxels of a column whose footprints are in windows of NC x NR pixels,
 * G / 2 rows after that of the voxel before, rounded down; shapes are plain. EITHER: see shares_of,
 * across columns. Larger windows than those of single voxels pay where shared memory is the limit,
 * which is in forward projection of several views, or where voxels appear larger than pixels. */
#define LONG_SPAN_KINDS(KIND) KIND(9, 8, 2, 3, 3, false)

#define SPAN_KINDS(KIND) \
	KIND(10, 4, 2, 3, 3, false) \
	KIND(11, 4, 2, 3, 3, true)

#define LARGE_SPAN_KINDS(KIND) \
	KIND(12, 4, 2, 3, 4, true) \
	KIND(13, 4, 2, 4, 3, false) \
	KIND(14, 4, 2, 4, 4, false)

#define STEEP_SPAN_KINDS(KIND) \
	KIND(15, 4, 3, 4, 4, false) \
	KIND(16, 4, 4, 4, 4, false) \
	KIND(17, 4, 4, 5, 4, true) \
	KIND(18, 4, 5, 5, 5, true)

#define ALL_SPAN_KINDS(KIND) \
	LONG_SPAN_KINDS(KIND) SPAN_KINDS(KIND) LARGE_SPAN_KINDS(KIND) STEEP_SPAN_KINDS(KIND)

/* Rows from the window of a span's first voxel to that of voxel i. */
static __host__ __device__ __forceinline__ constexpr int span_row(int G, int i)
{
	return i * G / 2;
}

/* How much farther the centres of a span's voxels are apart than their windows, at most, if rows
 * per voxel are between low and high. */
static __device__ __forceinline__ float span_more(int N, int G, float low, float high)
{
	const float differ = fmaxf(high - 0.5f * G, 0.5f * G - low);
	return (N - 1) * differ + (G % 2 ? 0.5f : 0.f);
}

/* Whether windows of P pixels are enough for footprints of this length, whose centres are in an
 * interval of length `more` about the middle. gap: least difference of their boxes. */
template <int P, bool EITHER>
static __device__ __forceinline__ bool span_fits(float length, float more, float gap)
{
	return length + more <= P - 1 && (EITHER || gap > more - (P % 2 ? 0 : 1));
}

/* What a block sees of footprints, in columns [0] and rows [1]: length of the longest one, range of
 * steps from a voxel of a column to the next, least difference of the boxes. */
typedef struct {
	float length[2], low[2], high[2], gap[2];
} SeenSpan;

/* Which of the kinds a kernel is compiled for. */
typedef struct {
	bool longer, large, steep;
} SpanChoice;

/* The first kind that is enough; -1: none. */
static __device__ __forceinline__ int span_kind(const SeenSpan &seen, SpanChoice choice)
{
#define KIND(number, N, G, NC, NR, EITHER) \
	if (span_fits<NC, EITHER>( \
		    seen.length[0], span_more(N, 0, seen.low[0], seen.high[0]), seen.gap[0]) && \
		span_fits<NR, false>( \
			seen.length[1], span_more(N, G, seen.low[1], seen.high[1]), seen.gap[1])) \
		return number;
	if (choice.longer) {
		LONG_SPAN_KINDS(KIND)
	}
	SPAN_KINDS(KIND)
	if (choice.large) {
		LARGE_SPAN_KINDS(KIND)
	}
	if (choice.steep) {
		STEEP_SPAN_KINDS(KIND)
	}
#undef KIND
	return -1;
}

/* Voxels, half rows per voxel, columns and rows of a kind. */
typedef struct {
	signed char voxels, step, columns, rows;
} KindSize;

static __constant__ const KindSize kind_sizes[] = {
#define KIND(number, NC, NR, ACROSS, ALONG) {1, 2, NC, NR},
	SHARE_KINDS(KIND)
#undef KIND
		{1, 2, 0, 0},
#define KIND(number, N, G, NC, NR, EITHER) {N, G, NC, NR},
	ALL_SPAN_KINDS(KIND)
#undef KIND
};

static __device__ __forceinline__ KindSize kind_size(int kind)
{
	return kind >= 0 ? kind_sizes[kind] : KindSize{1, 2, 0, 0};
}

/* Columns or rows of a kind. */
static __device__ __forceinline__ int share_pixels(int kind, int rows)
{
	const KindSize size = kind_size(kind);
	return rows ? size.rows : size.columns;
}

/* Forward: pitch of a tile's rows, and whether even columns are before odd ones, so that lanes
 * which are two columns apart are in neighbouring banks. */
static __host__ __device__ constexpr int span_pitch(int G)
{
	return G > 2 ? 128 : 64;
}

static __host__ __device__ constexpr bool span_split(int G)
{
	return G > 3;
}

#endif
