/* Stacks of fans, forward: a thread follows one ray through several slices, which share its
 * positions and weights (fan.h). Slices are the fastest axis of a transposed volume. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FANS_FORWARD_H
#define TOMOS_BACKEND_CUDA_KERNELS_FANS_FORWARD_H

#include "backend/cuda/kernels/fan.h"

enum {
	FANS_VIEWS = 4, /* of a block: neighbouring views read nearly the same pixels */
	FANS_WARPS = 4  /* of each of them */
};

/* Number of float4 of a thread, four slices each: more weights are worth more slices. Joseph's
 * method: T = 0. */
template <int T> constexpr int QUADS = T ? 4 : 2;

typedef struct {
	Fan fan;
	int group, lanes;   /* threads per ray, and rounded up to a power of two */
	const float4 *from; /* [b][a][quad] */
	float4 *to;         /* [view][column][quad] */
} FanStack;

/* Pixels of a plane: n, `step` apart; planes are `plane` apart, both in float4. */
typedef struct {
	const float4 *from;
	int n, planes;
	int64_t step, plane;
} FanPlanes;

/* Planes of a segment: in plane k the ray is at pixel base + f + k rate, and at depth `depth` + k
 * deeper. */
typedef struct {
	const float4 *line;
	float f, rate, depth, deeper;
	int base, end;
} FansSegment;

/* Weights of the T pixels from `first` on; Joseph's method: 0. */
template <int T, FanWeights W>
static __device__ __forceinline__ void fans_weights(const FanStack &s, const FanRay &ray, float at,
	float first, float here, float weights[T ? T : 2])
{
	if constexpr (T == 0) {
		weights[1] = at - first;
		weights[0] = 1 - weights[1];
	} else {
#pragma unroll
		for (int j = 0; j < T; j++) {
			const float away = first + (float)j - at;
			const float near =
				inverse_nearly(fmaxf(fmaf(away, ray.across, here), s.fan.least));
			const float t = away * ray.g * near;
			weights[j] = __saturatef(1 - fabsf(t)) * fan_weight<W>(ray, t, near);
		}
	}
}

template <int T, FanWeights W, int Q>
static __device__ __forceinline__ void fans_segment(const FanStack &s, const FanRay &ray,
	const FanPlanes &planes, const FansSegment &g, float4 sums[Q])
{
	constexpr int TAPS = T ? T : 2;
	const float4 *line = g.line;
#pragma unroll 2
	for (int k = 0; k < g.end; k++, line += planes.plane) {
		const float at = fmaf((float)k, g.rate, g.f), first = first_tap<TAPS>(at);
		const int i = g.base + (int)first;
		float weights[TAPS];
		fans_weights<T, W>(s, ray, at, first, fmaf((float)k, g.deeper, g.depth), weights);
#pragma unroll
		for (int j = 0; j < TAPS; j++)
			if ((unsigned)(i + j) < (unsigned)planes.n)
#pragma unroll
				for (int q = 0; q < Q; q++)
					add_scaled(sums[q], weights[j],
						__ldg(line + (i + j) * planes.step + q * s.group));
	}
}

/* Sums of a ray; T: most pixels of a plane that it meets, often fewer. */
template <int T, FanWeights W>
static __device__ __forceinline__ void fans_follow(
	const FanStack &s, const FanRay &ray, const FanPlanes &planes, float4 sums[QUADS<T>])
{
	const double p = ray.path.p, slope = ray.path.slope;
	for (int k0 = 0; k0 < planes.planes; k0 += SEGMENT) {
		const double start = p + k0 * slope, last = start + SEGMENT * slope;
		if (fmax(start, last) < -T / 2 - 1 || fmin(start, last) > planes.n + T / 2)
			continue;
		const double whole = floor(start);
		const FansSegment g = {.line = planes.from + k0 * planes.plane,
			.f = (float)(start - whole),
			.rate = (float)slope,
			.depth = (float)(ray.depth + k0 * ray.by_plane),
			.deeper = (float)ray.by_plane,
			.base = (int)whole,
			.end = min(SEGMENT, planes.planes - k0)};
		/* Half of the pixels within a column of the ray. */
		const float far = fmaxf(g.depth, fmaf((float)SEGMENT, g.deeper, g.depth));
		const float reach = (far + T * fabsf(ray.across)) / fabsf(ray.g);
		if (T > 2 && reach < 0.998f)
			fans_segment<2, W, QUADS<T>>(s, ray, planes, g, sums);
		else if (T > 3 && reach < 1.497f)
			fans_segment<3, W, QUADS<T>>(s, ray, planes, g, sums);
		else
			fans_segment<T, W, QUADS<T>>(s, ray, planes, g, sums);
	}
}

template <int T, FanWeights W>
static __global__ void __launch_bounds__(WIDE *FANS_VIEWS *FANS_WARPS)
	fans_forward(const __grid_constant__ FanStack s)
{
	const int lane = threadIdx.x % s.lanes, rays = WIDE / s.lanes;
	const int64_t column =
			      ((int64_t)blockIdx.x * FANS_WARPS + threadIdx.y / FANS_VIEWS) * rays +
			      threadIdx.x / s.lanes,
		      view = (int64_t)blockIdx.y * FANS_VIEWS + threadIdx.y % FANS_VIEWS;
	if (lane >= s.group || column >= s.fan.model.columns || view >= s.fan.count)
		return;
	const KernelView *k = &s.fan.views[view];
	const FanRay ray = fan_ray<W>(&s.fan, k, column);
	const bool y = ray.path.axis == 1;
	const int64_t pixel = (int64_t)s.group * QUADS<T>, line = s.fan.na * pixel;
	const FanPlanes planes = {s.from + lane, y ? s.fan.na : s.fan.nb, y ? s.fan.nb : s.fan.na,
		y ? pixel : line, y ? line : pixel};
	float4 sums[QUADS<T>] = {};
	fans_follow<T, W>(s, ray, planes, sums);
	const float scale = T == 0 ? step_of(&s.fan.grid, k, s.fan.row, column, ray.path.axis) : 1;
	float4 *to = s.to + (view * s.fan.model.columns + column) * pixel + lane;
#pragma unroll
	for (int q = 0; q < QUADS<T>; q++)
		to[q * s.group] = make_float4(
			scale * sums[q].x, scale * sums[q].y, scale * sums[q].z, scale * sums[q].w);
}

#endif
