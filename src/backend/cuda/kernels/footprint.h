/* Separable footprints (kernel/footprint.h) in float.
 *
 * A footprint along one detector coordinate is the convolution of two boxes, of widths `wide` and
 * `narrow`. With P the integral of a line of pixels up to a position t, and e the edges between
 * pixels, at which the line changes by d(e),
 *
 *     Q(t) = P(t) + sum over e of d(e) (h - |t - e|)^2 / 4 h,  the last factor 0 where |t - e| > h,
 *
 * is the integral of the line that is averaged over the narrow box, h being half its width; a voxel
 * gets (Q(t1) - Q(t0)) / wide from its two boundaries t0 and t1. Forward, pixels and voxels change
 * roles. Boundaries are wide apart, and the first of several is rounded to an edge, as in
 * points.h, so that a static number of edges serves each of the others.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_H

#include "backend/cuda/kernels/affine.h"
#include "backend/cuda/kernels/update.h"

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

#define FOOTPRINT_LEAST 1e-9f /* width of a box, in pixels or voxels */

/* Views of a pixel, voxel or sum: one, or two or four of the same weights (footprint_blocks.h). */
template <class Value> constexpr int PARTS = (int)(sizeof(Value) / sizeof(float));

static __device__ __forceinline__ void add_scaled(float &sum, float scale, float value)
{
	sum = fmaf(scale, value, sum);
}

static __device__ __forceinline__ void add_scaled(float2 &sum, float scale, const float2 &value)
{
	sum.x = fmaf(scale, value.x, sum.x);
	sum.y = fmaf(scale, value.y, sum.y);
}

static __device__ __forceinline__ float scaled(float scale, float value)
{
	return scale * value;
}

static __device__ __forceinline__ float4 scaled(float scale, const float4 &v)
{
	return make_float4(scale * v.x, scale * v.y, scale * v.z, scale * v.w);
}

static __device__ __forceinline__ float2 scaled(float scale, const float2 &v)
{
	return make_float2(scale * v.x, scale * v.y);
}

static __device__ __forceinline__ float part_of(float sum, int)
{
	return sum;
}

static __device__ __forceinline__ float part_of(const float4 &sum, int part)
{
	return part == 0 ? sum.x : part == 1 ? sum.y : part == 2 ? sum.z : sum.w;
}

static __device__ __forceinline__ float part_of(const float2 &sum, int part)
{
	return part == 0 ? sum.x : sum.y;
}

/* The square root of a positive number that is not denormal. */
static __device__ __forceinline__ float length_nearly(float x)
{
	float result;
	asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
	return result;
}

/* 1 / x by a step of Newton's method, of relative error 1e-13: a division of doubles takes ten
 * times as many instructions. */
static __device__ __forceinline__ double inverse_double(double x)
{
	const double nearly = (double)inverse_nearly((float)x);
	return fma(nearly, fma(-x, nearly, 1.), nearly);
}

/* The footprint of a voxel in one detector coordinate, its centre at 0. */
typedef struct {
	float reach, narrow; /* half the length of the base, width of the narrow box */
	float rate, bend;    /* 1 / wide, 1 / (2 narrow) */
} Trapezoid;

static __device__ __forceinline__ Trapezoid trapezoid(float wide, float narrow)
{
	wide = fmaxf(wide, FOOTPRINT_LEAST);
	narrow = fmaxf(fminf(narrow, wide), FOOTPRINT_LEAST);
	return Trapezoid{0.5f * (wide + narrow), narrow, inverse_nearly(wide),
		0.5f * inverse_nearly(narrow)};
}

/* Along rows: the vertical edges of a voxel appear `vertical` high, both horizontal ones together 2
 * |half|, and the higher of the two `shape` times that. */
static __device__ __forceinline__ Trapezoid trapezoid_of_rows(
	float vertical, float half, float shape)
{
	const float both = 2 * fabsf(half), higher = both * shape;
	const float other = (both - higher) * (both + higher);
	return higher > vertical ? trapezoid(higher, root_nearly(fmaf(vertical, vertical, other)))
				 : trapezoid(vertical, both);
}

/* The fraction of the footprint below s. */
static __device__ __forceinline__ float trapezoid_below(const Trapezoid &t, float s)
{
	const float far = t.reach - fabsf(s), curved = fminf(fmaxf(far, 0.f), t.narrow);
	const float tail = t.rate * fmaf(curved * t.bend, curved, fmaxf(far - t.narrow, 0.f));
	return s > 0 ? 1 - tail : tail;
}

/* max(h - |distance|, 0), for h below 1. */
static __device__ __forceinline__ float overlap(float h, float distance)
{
	return __saturatef(h - fabsf(distance));
}

/* N intervals between boundaries t0 + k rate, k = 0 .. N, over samples that are 1 apart. Boundary k
 * and everything within h of it is between edge m = k G / 2, rounded down, and edge m + S. */
template <int N_, int G_, int S_> struct Boundaries {
	static constexpr int N = N_, G = G_, S = S_, SAMPLES = N * G / 2 + S;
	static constexpr bool ODD = G % 2 == 1;

	/* Whether these are enough samples for rates from low to high and h up to `most`. */
	static __host__ __device__ __forceinline__ bool fit(float low, float high, float most)
	{
		float differ = fmaxf(fabsf(low - 0.5f * G), fabsf(high - 0.5f * G));
		return fmaf((float)N, differ, (ODD ? 1.52f : 1.02f) + 2 * most) < (float)S;
	}

	/* The first edge. */
	static __device__ __forceinline__ float first(float t, float rate, float most)
	{
		return floorf(fminf(t, fmaf((float)N, rate - 0.5f * G, t)) - most);
	}

	/* The number of its first edge, and where boundary k is from there. */
	static __device__ __forceinline__ constexpr int edge(int k)
	{
		return k * G / 2;
	}

	static __device__ __forceinline__ float at(int k, float t, float rate)
	{
		return fmaf((float)k, rate - 0.5f * G, t + (ODD && k % 2 ? 0.5f : 0.f));
	}

	/* The integral of the samples, `before` those up to the first edge, to position t. */
	static __device__ __forceinline__ float integral(
		const float samples[SAMPLES], const float before[SAMPLES], int k, float t)
	{
		const int m = edge(k);
		float sum = before[m];
#pragma unroll
		for (int s = 0; s < S; s++)
			sum = fmaf(__saturatef(t - (float)s), samples[m + s], sum);
		return sum;
	}
};

/* The kinds that kernels are compiled for, those of fewest instructions first. */
#define BOUNDARY_KINDS(KIND) \
	KIND(0, 8, 2, 2) \
	KIND(1, 4, 2, 2) \
	KIND(2, 4, 1, 2) \
	KIND(3, 4, 2, 3) \
	KIND(4, 4, 1, 3) \
	KIND(5, 4, 3, 3) \
	KIND(6, 4, 4, 3) \
	KIND(7, 2, 5, 3) \
	KIND(8, 2, 6, 3) \
	KIND(9, 2, 8, 3)

/* The first kind that fits; -1: none. */
static __host__ __device__ __forceinline__ int boundary_kind(float low, float high, float most)
{
#define KIND(number, N, G, S) \
	if (Boundaries<N, G, S>::fit(low, high, most)) \
		return number;
	BOUNDARY_KINDS(KIND)
#undef KIND
	return -1;
}

/* Calls visit(Boundaries<...>()). */
template <class Visit>
static __device__ __forceinline__ void boundary_visit(int kind, const Visit &visit)
{
	switch (kind) {
#define KIND(number, N, G, S) \
	case number: \
		visit(Boundaries<N, G, S>()); \
		break;
		BOUNDARY_KINDS(KIND)
#undef KIND
	default:
		break;
	}
}

/* Half of what the horizontal edges of a voxel add to its height on an upright detector, in pixels,
 * is |flat - bent v| / depth at row v: half the narrow box, where the vertical edges appear higher.
 * shape: see trapezoid_of_rows. */
typedef struct {
	double flat, bent, shape;
} FootprintHalf;

static __device__ __forceinline__ FootprintHalf footprint_half(const KernelView *k)
{
	const bool fans = KERNEL_FANS(k);
	const double x = k->row[0], y = k->row[1];
	const double across = fans ? 0 : k->depth[0], away = fans ? 0 : k->depth[1];
	const double square = across * across + away * away;
	if (!(square > 0)) { /* the depth is the same everywhere */
		const double both = sqrt(x * x + y * y);
		return FootprintHalf{0.5 * both, 0, both > 0 ? fmax(fabs(x), fabs(y)) / both : 1};
	}
	const double bent = sqrt(square), rate = inverse_double(bent);
	return FootprintHalf{0.5 * rate * (x * across + y * away), 0.5 * bent,
		fmax(fabs(across), fabs(away)) * rate};
}

/* Calls measure(view, position) for some views, and positions in the middle of 64 parts of the
 * box. */
template <class Measure> static void sample_box(const ProjectRequest *what, const Measure &measure)
{
	const int64_t step = 1 + what->count / 64, *low = what->box.low, *high = what->box.high;
	for (int64_t i = 0; i < what->count; i += step)
		for (int j = 0; j < 64; j++) {
			const int part[3] = {j % 4, j / 4 % 4, j / 16};
			double at[3];
			for (int a = 0; a < 3; a++)
				at[a] = (double)low[a] +
					(double)(high[a] - low[a] - 1) * (2 * part[a] + 1) / 8;
			measure(&what->plan->views[what->first + i], at);
		}
}

/* Whether in all views a column of voxels along z projects onto one detector column, rows increase
 * with z, and in most of the request's box the vertical edges of a voxel appear higher than the
 * horizontal ones and a kind of Boundaries fits. Elsewhere, voxels are projected one by one. */
bool footprint_upright(const ProjectRequest *what);

#endif
