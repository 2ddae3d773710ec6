/* Sums along the rays of one column in four slices; see joseph_forward_rolled.cu. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_FORWARD_ROLLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_FORWARD_ROLLED_H

#include "backend/cuda/kernels/transpose.h"

enum {
	QUAD = 4,
	SEGMENT = 32, /* planes */
	SLOTS = 3     /* rows of a slice in one pass */
};

/* Slack of the search for kinks, in pixels. */
#define KINK_SLACK 5e-4f

/* Planes with kinks: those where the fraction y of the position, counted from the lowest that can
 * have a kink, is less than `wide`. Positions change by a constant from plane to plane, so that the
 * next such plane is `up` planes on, where y is `rise` larger, `down` planes on, where it is `fall`
 * less, or both together. */
typedef struct {
	float wide, start, rate; /* start: of the first plane, y - p */
	int up, down;
	float rise, fall;
} Kinks;

typedef struct {
	int plane; /* the next plane with a kink */
	float y;
} Kink;

static __device__ __forceinline__ Kink next_kink(const Kinks &s, Kink k)
{
	bool up = k.y < s.wide - s.rise, down = k.y >= s.fall;
	if (up && down) {
		up = s.up <= s.down;
		down = !up;
	} else if (!up && !down) {
		up = down = true;
	}
	return Kink{k.plane + (up ? s.up : 0) + (down ? s.down : 0),
		k.y + (up ? s.rise : 0.f) - (down ? s.fall : 0.f)};
}

static __device__ Kink first_kink(const Kinks &s, double p, int planes)
{
	const double from = p + (double)s.start;
	Kink k = {0, (float)(from - floor(from))};
	while (k.plane < planes && k.y >= s.wide) {
		k.plane++;
		k.y += s.rate;
		k.y -= k.y >= 1 ? 1.f : 0.f;
	}
	return k;
}

/* A line of pixels, four slices each: n pixels, `step` apart; zeros outside. */
typedef struct {
	const float4 *from;
	int step, plane; /* strides across and along the rays, in float4 */
	int n;
} Lines;

typedef struct {
	float x[QUAD];
} Four;

static __device__ __forceinline__ Four four_of(float4 v)
{
	return Four{{v.x, v.y, v.z, v.w}};
}

static __device__ __forceinline__ Four pixel_of(const Lines &s, const float4 *line, int i)
{
	return four_of((unsigned)i < (unsigned)s.n ? __ldg(line + (int64_t)i * s.step)
						   : make_float4(0, 0, 0, 0));
}

/* Sums of four slices along one ray, and their change per pixel across it. */
typedef struct {
	float sum[QUAD], slope[QUAD];
} Sums;

static __device__ __forceinline__ void add_pixels(Sums *to, float f, Four one, Four two)
{
#pragma unroll
	for (int j = 0; j < QUAD; j++) {
		const float rise = two.x[j] - one.x[j];
		to->sum[j] += one.x[j];
		to->slope[j] += rise;
		to->sum[j] = fmaf(f, rise, to->sum[j]);
	}
}

/* Planes of a segment; the ray is at base + f + k rate in plane k. */
typedef struct {
	const float4 *line; /* of its first plane, at pixel `base` */
	float f, rate;
	int base, end;
} Segment;

static __device__ __forceinline__ void add_inside(const Lines &s, const Segment &g, Sums *to)
{
	const float whole = 1.5f * (1 << 23); /* floats of this size are integers */
	const float4 *second = g.line + s.step;
	unsigned plane = 0u - __float_as_uint(whole) * (unsigned)s.step;
	float at_plane = 0;
#pragma unroll 8
	for (int k = 0; k < g.end; k++, plane += (unsigned)s.plane, at_plane += 1) {
		const float at = fmaf(at_plane, g.rate, g.f), lowest = __fadd_rd(at, whole);
		const int i = (int)(__float_as_uint(lowest) * (unsigned)s.step + plane);
		add_pixels(to, at - (lowest - whole), four_of(__ldg(g.line + i)),
			four_of(__ldg(second + i)));
	}
}

static __device__ __forceinline__ void add_edge(const Lines &s, const Segment &g, Sums *to)
{
	const float4 *line = g.line - (int64_t)g.base * s.step;
	for (int k = 0; k < g.end; k++, line += s.plane) {
		const float at = fmaf((float)k, g.rate, g.f), lowest = floorf(at);
		const int i = g.base + (int)lowest;
		add_pixels(to, at - lowest, pixel_of(s, line, i), pixel_of(s, line, i + 1));
	}
}

/* Adds the kink in plane k of a segment to the rays at f + offset that are past the pixel. */
template <int N>
static __device__ __forceinline__ void add_kink(const Lines &s, const Segment &g, int k,
	const float offset[QUAD][SLOTS], float more[N][QUAD])
{
	const float at = fmaf((float)k, g.rate, g.f), lowest = floorf(at), f = at - lowest - 1;
	const float4 *line = g.line + (int64_t)k * s.plane - (int64_t)g.base * s.step;
	const int i = g.base + (int)lowest;
	const Four one = pixel_of(s, line, i), two = pixel_of(s, line, i + 1),
		   three = pixel_of(s, line, i + 2);
#pragma unroll
	for (int j = 0; j < QUAD; j++) {
		const float bend = one.x[j] - two.x[j] + (three.x[j] - two.x[j]);
#pragma unroll
		for (int w = 0; w < N; w++)
			more[w][j] = fmaf(__saturatef(f + offset[j][w]), bend, more[w][j]);
	}
}

/* Sums of the four slices of a thread at the positions p + offset[slice][slot], with offsets from 0
 * to 1. */
template <int N>
static __device__ __forceinline__ void follow(const Lines &s, const Kinks &kinks, double p,
	double slope, int planes, const float offset[QUAD][SLOTS], float sums[SLOTS][QUAD])
{
	Sums all = {};
	float more[N][QUAD] = {{0}};
	Kink kink = first_kink(kinks, p, planes);
	for (int k0 = 0; k0 < planes; k0 += SEGMENT) {
		const double start = p + k0 * slope, whole = floor(start);
		const double last = start + SEGMENT * slope, least = fmin(start, last);
		const int end = min((int)SEGMENT, planes - k0);
		const Segment g = {s.from + (int64_t)k0 * s.plane + (int64_t)whole * s.step,
			(float)(start - whole), (float)slope, (int)whole, end};
		const bool outside = fmax(start, last) < -3 || least > s.n;
		if (least > 0.01 && fmax(start, last) < s.n - 1.01)
			add_inside(s, g, &all);
		else if (!outside)
			add_edge(s, g, &all);
		for (; kink.plane < k0 + end; kink = next_kink(kinks, kink))
			if (!outside)
				add_kink<N>(s, g, kink.plane - k0, offset, more);
	}
#pragma unroll
	for (int w = 0; w < N; w++)
#pragma unroll
		for (int j = 0; j < QUAD; j++)
			sums[w][j] = fmaf(offset[j][w], all.slope[j], all.sum[j]) + more[w][j];
}

#endif
