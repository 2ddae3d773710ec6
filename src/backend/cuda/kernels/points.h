/* Linear interpolation at N equidistant points between samples in registers, and its transpose.
 *
 * Point k is at t0 + k rate, in samples. If the rate is near G / 2, point k is between sample m =
 * floor(k G / 2) and sample m + S for all k, so that registers have fixed indices and no point is
 * rounded to an integer. The value of point k is
 *
 *     q[m] + sum over s < S of saturate(t - s) (q[m + s + 1] - q[m + s]),
 *     t = t0 + k (rate - G / 2), plus 1/2 where k G is odd.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_POINTS_H
#define TOMOS_BACKEND_CUDA_KERNELS_POINTS_H

#include "backend/cuda/kernels/update.h"

static __device__ __forceinline__ void add_between(float &value, float share, float one, float two)
{
	value = fmaf(share, two - one, value);
}

static __device__ __forceinline__ void add_between(
	float2 &value, float share, float2 one, float2 two)
{
	add_between(value.x, share, one.x, two.x);
	add_between(value.y, share, one.y, two.y);
}

template <int N_, int G_, int S_> struct Points {
	static constexpr int N = N_, G = G_, S = S_, LAST = (N - 1) * G / 2, SAMPLES = LAST + S + 1;
	static constexpr bool ODD = G % 2 == 1;

	/* Whether S is large enough for all rates from low to high. */
	static __device__ __forceinline__ bool fit(float low, float high)
	{
		float differ = fmaxf(fabsf(low - 0.5f * G), fabsf(high - 0.5f * G));
		return fmaf((float)(N - 1), differ, ODD ? 1.52f : 1.02f) < (float)S;
	}

	/* Index of the first sample if point 0 is at t; more: rate - G / 2. */
	static __device__ __forceinline__ float first(float t, float more)
	{
		return floorf(fminf(t, fmaf((float)(ODD ? N - 2 : N - 1), more, t)));
	}

	/* Calls use(k, value) for every point; t: position of point 0, from the first sample on.
	 * Zero is subtracted, because the compiler omits that but not an addition of zero. */
	template <typename Pixel, class Use>
	static __device__ __forceinline__ void interpolate(
		const Pixel q[SAMPLES], float t, float more, const Use &use)
	{
#pragma unroll
		for (int k = 0; k < N; k++) {
			const int m = k * G / 2;
			const float half = ODD && k % 2 ? 0.5f : 0.f;
			Pixel value = q[m];
#pragma unroll
			for (int s = 0; s < S; s++)
				add_between(value,
					fma_saturate((float)k, more, t - ((float)s - half)),
					q[m + s], q[m + s + 1]);
			use(k, value);
		}
	}
};

/* Variants for different rates, those that read the fewest samples first: KIND(number, range, N, G,
 * S). Each rate from LEAST_RATE to MOST_RATE fits one of them; an interval of rates may fit none.
 * Kernels are compiled for ranges of rates, with the variants of that range and of narrower
 * ones. */
#define POINT_KINDS(KIND) \
	KIND(0, 0, 8, 2, 2) \
	KIND(1, 1, 8, 2, 3) \
	KIND(2, 3, 8, 1, 3) \
	KIND(3, 3, 8, 3, 3) \
	KIND(4, 2, 8, 2, 4) \
	KIND(5, 2, 4, 2, 3) \
	KIND(6, 3, 4, 4, 3) \
	KIND(7, 3, 4, 1, 3) \
	KIND(8, 3, 4, 6, 3) \
	KIND(9, 3, 4, 8, 3)
#define LEAST_RATE 0.02
#define MOST_RATE 4.5
enum { POINT_RANGES = 4, ALL_RATES = POINT_RANGES - 1 };

/* The narrowest range that has all rates from low to high. */
static inline int points_range(double low, double high)
{
	const double differ = fmax(high - 1, 1 - low);
	return differ < 0.138 ? 0 : differ < 0.28 ? 1 : differ < 0.65 ? 2 : ALL_RATES;
}

/* Number of the first variant that fits; -1: none. */
template <int RANGE = ALL_RATES>
static __device__ __forceinline__ int points_kind(float low, float high)
{
#define KIND(number, range, N, G, S) \
	if (range <= RANGE && Points<N, G, S>::fit(low, high)) \
		return number;
	POINT_KINDS(KIND)
#undef KIND
	return -1;
}

/* Calls visit(Points<...>()) with the variant of that number. */
template <int RANGE = ALL_RATES, class Visit>
static __device__ __forceinline__ void points_visit(int kind, const Visit &visit)
{
#define KIND(number, range, N, G, S) \
	if constexpr (range <= RANGE) \
		if (kind == number) \
			visit(Points<N, G, S>());
	POINT_KINDS(KIND)
#undef KIND
}

/* ---- the transpose --------------------------------------------------------------------------- */

/* ROWS_SIDE: most rows read on either side of a voxel's nearest row. ROWS_BORDER: rows of zeros
 * above and below an image, more than the rows of a span. */
enum { ROWS_SIDE = 3, ROWS_BORDER = 16 };

/* Each of SPAN neighbouring voxels gathers from the rows whose interpolation uses it. If the rate,
 * in rows per voxel, is near RATE / 2, the row nearest to voxel k is m = floor(k RATE / 2), counted
 * from the first row of the span, and all rows with weights above zero are m - SIDE .. m + SIDE. */
template <int SPAN_, int RATE, int SIDE_> struct Rows {
	static constexpr int SPAN = SPAN_, SIDE = SIDE_, LAST = (SPAN - 1) * RATE / 2,
			     COUNT = LAST + 2 * SIDE + 1;
	static constexpr bool ONE = RATE == 2 && SIDE == 1; /* fewer additions */
	static constexpr float HALF = (SPAN - 1) * 0.5f, STAGGER = RATE % 2 ? 0.25f : 0.f;
	static_assert(
		LAST + 2 * SIDE < ROWS_BORDER && SIDE <= ROWS_SIDE, "the border is too narrow");

	static __device__ __forceinline__ int of(int k)
	{
		return k * RATE / 2;
	}

	/* Mean distance of the voxels from their rows m, if voxel 0 is at row 0. */
	static __device__ __forceinline__ float centre(float rate)
	{
		return fmaf(HALF, rate - 0.5f * RATE, STAGGER);
	}

	static __device__ __forceinline__ bool fit(float low, float high)
	{
		float differ = fmaf(HALF, fmaxf(0.5f * RATE - low, high - 0.5f * RATE), STAGGER);
		return differ < 0.49f && high + differ < SIDE + 0.49f;
	}
};

/* Calls use(k, value) for every voxel of a span: the sum of the rows q around it, each weighted by
 * 1 minus its distance in voxels. e: distance of voxel 0 from row 0, in voxels; gap: distance of
 * rows in voxels, 1 / rate. */
template <class R, typename Pixel, class Use>
static __device__ __forceinline__ void rows_gather(
	const Pixel q[R::COUNT], float e, float gap, const Use &use)
{
	const float more = 1 - gap;
#pragma unroll
	for (int k = 0; k < R::SPAN; k++) {
		const int m = R::of(k);
		const float here =
			R::ONE ? fmaf((float)k, more, e) : fmaf((float)-m, gap, e + (float)k);
		Pixel value = {};
		accumulate(value, __saturatef(1 - fabsf(here)), q[m + R::SIDE]);
#pragma unroll
		for (int side = 1; side <= R::SIDE; side++) {
			const float below = R::ONE ? fma_saturate((float)(1 - k), more, -e)
						   : fma_saturate((float)-side, gap, 1 - here);
			const float above = R::ONE ? fma_saturate((float)(1 + k), more, e)
						   : fma_saturate((float)-side, gap, 1 + here);
			accumulate(value, below, q[m + R::SIDE - side]);
			accumulate(value, above, q[m + R::SIDE + side]);
		}
		use(k, value);
	}
}

/* Variants for different rates, the fastest first: KIND(number, near_one, SPAN, RATE, SIDE). Those
 * with near_one suffice for rates from 0.1 to 1.3: kernels are compiled for these and for all. */
#define ROWS_KINDS(KIND) \
	KIND(0, true, 8, 2, 1) \
	KIND(1, true, 4, 2, 1) \
	KIND(2, false, 4, 1, 1) \
	KIND(3, true, 2, 2, 1) \
	KIND(4, false, 4, 3, 2) \
	KIND(5, false, 4, 4, 2) \
	KIND(6, false, 2, 3, 2) \
	KIND(7, false, 2, 5, 3)

/* Number of the first variant that fits all rates from low to high; -1: none. */
template <bool NEAR_ONE = false>
static __device__ __forceinline__ int rows_kind(float low, float high)
{
#define KIND(number, near_one, SPAN, RATE, SIDE) \
	if ((near_one || !NEAR_ONE) && Rows<SPAN, RATE, SIDE>::fit(low, high)) \
		return number;
	ROWS_KINDS(KIND)
#undef KIND
	return -1;
}

/* Calls visit(Rows<...>()) with the variant of that number. */
template <bool NEAR_ONE = false, class Visit>
static __device__ __forceinline__ void rows_visit(int kind, const Visit &visit)
{
#define KIND(number, near_one, SPAN, RATE, SIDE) \
	if constexpr (near_one || !NEAR_ONE) \
		if (kind == number) \
			visit(Rows<SPAN, RATE, SIDE>());
	ROWS_KINDS(KIND)
#undef KIND
}

#endif
