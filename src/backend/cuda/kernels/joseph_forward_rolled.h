/* Sums along the rays of one column in eight slices; see joseph_forward_rolled.cu. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_FORWARD_ROLLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_FORWARD_ROLLED_H

#include "backend/cuda/kernels/rolled.h"

enum { SLOTS = 3 /* rows of a slice in one pass */ };

/* Sums of eight slices along one ray, and their change per pixel across it. */
typedef struct {
	float sum[SLICES], slope[SLICES];
} Sums;

static __device__ __forceinline__ void add_pixels(Sums *to, float f, Pixel one, Pixel two)
{
#pragma unroll
	for (int j = 0; j < SLICES; j++) {
		const float rise = two.x[j] - one.x[j];
		to->sum[j] += one.x[j];
		to->slope[j] += rise;
		to->sum[j] = fmaf(f, rise, to->sum[j]);
	}
}

static __device__ __forceinline__ void add_inside(const Lines &s, const Segment &g, Sums *to)
{
	const float whole = 1.5f * (1 << 23); /* floats of this size are integers */
	unsigned plane = 0u - __float_as_uint(whole);
	float at_plane = 0;
#pragma unroll 4
	for (int k = 0; k < g.end; k++, plane += (unsigned)s.plane, at_plane += 1) {
		const float at = fmaf(at_plane, g.rate, g.f), lowest = __fadd_rd(at, whole);
		const float4 *from = g.line + (int)(__float_as_uint(lowest) + plane);
		add_pixels(to, at - (lowest - whole), pixel_at(from, s.half),
			pixel_at(from + 1, s.half));
	}
}

static __device__ __forceinline__ void add_edge(const Lines &s, const Segment &g, Sums *to)
{
	const float4 *line = g.line - g.base;
	for (int k = 0; k < g.end; k++, line += s.plane) {
		const float at = fmaf((float)k, g.rate, g.f), lowest = floorf(at);
		const int i = g.base + (int)lowest;
		add_pixels(to, at - lowest, pixel_of(s, line, i), pixel_of(s, line, i + 1));
	}
}

/* Adds a kink to the rays at f + offset that are past the pixel. */
template <int N>
static __device__ __forceinline__ void add_kink(const Lines &s, const KinkPlane &k,
	const float offset[SLICES][SLOTS], float more[N][SLICES])
{
	const Pixel one = pixel_of(s, k.line, k.i - 1), two = pixel_of(s, k.line, k.i),
		    three = pixel_of(s, k.line, k.i + 1);
#pragma unroll
	for (int j = 0; j < SLICES; j++) {
		const float bend = one.x[j] - two.x[j] + (three.x[j] - two.x[j]);
#pragma unroll
		for (int w = 0; w < N; w++)
			more[w][j] = fmaf(__saturatef(k.f + offset[j][w]), bend, more[w][j]);
	}
}

/* Sums of the eight slices of a thread at the positions p + offset[slice][slot], with offsets from
 * 0 to 1. */
template <int N>
static __device__ __forceinline__ void follow(const Lines &s, const Kinks &kinks, double p,
	double slope, int planes, const float offset[SLICES][SLOTS], float sums[SLOTS][SLICES])
{
	Sums all = {};
	float more[N][SLICES] = {{0}};
	for (int k0 = 0; k0 < planes; k0 += SEGMENT) {
		const double start = segment_start(p, slope, k0), whole = floor(start);
		const double last = start + SEGMENT * slope, least = fmin(start, last);
		const Segment g = {s.from + (int64_t)k0 * s.plane + (int64_t)whole,
			(float)(start - whole), (float)slope, (int)whole,
			min((int)SEGMENT, planes - k0)};
		if (least > 0.01 && fmax(start, last) < s.n - 1.01)
			add_inside(s, g, &all);
		else if (fmax(start, last) > -2 && least < s.n)
			add_edge(s, g, &all);
	}
	for (Kink k = first_kink(kinks, p, planes); k.plane < planes; k = next_kink(kinks, k))
		add_kink<N>(s, kink_plane(s, p, slope, k.plane), offset, more);
#pragma unroll
	for (int w = 0; w < N; w++)
#pragma unroll
		for (int j = 0; j < SLICES; j++)
			sums[w][j] = fmaf(offset[j][w], all.slope[j], all.sum[j]) + more[w][j];
}

#endif
