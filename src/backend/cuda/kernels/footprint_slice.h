/* Footprints in one slice: weights serve one update each and are not listed. Forward, several
 * threads follow one ray, each its own segments of planes; back, several threads compute the same
 * pixels, each from its own views. Partial sums are added in a fixed order. Positions are in float,
 * relative to a segment or to the middle of a block. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SLICE_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SLICE_H

#include "backend/cuda/kernels/footprint_slices.h"

enum {
	WIDE = 32,
	RAY_VIEWS = 4, /* forward: neighbouring views of a block */
	SEGMENT = 32,  /* planes */
	MOST_PARTS = 8,
	PIXELS = 4 /* back: pixels of a thread */
};

/* ---- forward --------------------------------------------------------------------------------- */

/* A segment of planes: in plane k the ray is f + k rate pixels from pixel `line`, at depth `depth` +
 * k deeper. low, high: the pixels there are. */
typedef struct {
	const float *line;
	float f, rate, depth, deeper;
	int end, low, high;
} Segment;

/* A ray: changes of U - c D and of D per pixel across and along the planes; square of the length of
 * the rays of columns c + t at depth 1, times the square of the mass: w[0] + t w[1] + t^2 w[2]. */
typedef struct {
	float g[2], d[2], w[3];
} SliceRay;

template <bool FAN>
static __device__ SliceRay slice_ray(
	const Slices &s, const KernelView *k, const Rays &r, int column)
{
	SliceRay ray = {.w = {s.weight == WEIGHT_RAY ? (float)k->mass : 1, 0, 0}};
	for (int i = 0; i < 2; i++) {
		ray.g[i] = (float)(r.view.u[i] - column * r.view.d[i]);
		ray.d[i] = (float)r.view.d[i];
	}
	if constexpr (FAN) {
		double l[3] = {0};
		for (int i = 0; i < 9; i++) {
			const int a = i % 3;
			const double d =
				(k->first[a] + (column + i / 3 - 1) * k->u[a] - k->src[a]) *
				s.step[a] * k->mass;
			l[i / 3] += d * d;
		}
		ray.w[0] = (float)l[1];
		ray.w[1] = (float)(0.5 * (l[2] - l[0]));
		ray.w[2] = (float)(0.5 * (l[2] + l[0]) - l[1]);
	}
	return ray;
}

/* The weight of a pixel that falls t columns from the ray's. */
static __device__ __forceinline__ float fan_weight(
	const Slices &s, const SliceRay &ray, float t, float near)
{
	if (s.weight == WEIGHT_RAY)
		return near * root_nearly(fmaf(t, fmaf(t, ray.w[2], ray.w[1]), ray.w[0]));
	return s.weight == WEIGHT_DEPTH ? near * near : 1;
}

/* Sum of the T pixels around the ray in each plane; INSIDE: all of them are pixels of the slice. */
template <bool FAN, int T, bool INSIDE>
static __device__ __forceinline__ float follow(
	const Slices &s, const SliceRay &ray, const Segment &g, int pitch, float sum)
{
	const Boxes all = boxes_of(ray.g[0], ray.g[1], 1);
	const float *line = g.line;
#pragma unroll 2
	for (int k = 0; k < g.end; k++, line += pitch) {
		const float at = fmaf((float)k, g.rate, g.f),
			    here = fmaf((float)k, g.deeper, g.depth);
		const float first =
			T % 2 ? rintf(at) - (float)(T / 2) : floorf(at) - (float)(T / 2 - 1);
		const int i = (int)first;
#pragma unroll
		for (int j = 0; j < T; j++) {
			const float away = first + (float)j - at, y = away * ray.g[0];
			float depth = 1, weight = 1;
			Boxes b = all;
			if (FAN) {
				depth = fmaxf(fmaf(away, ray.d[0], here), s.least);
				const float near = inverse_nearly(depth), t = y * near;
				b = boxes_of(fmaf(-t, ray.d[0], ray.g[0]),
					fmaf(-t, ray.d[1], ray.g[1]), depth);
				weight = b.scale * fan_weight(s, ray, t, near);
			}
			const float share = share_of(b, depth, y);
			const bool there = INSIDE || (i + j >= g.low && i + j <= g.high);
			const float value = there ? __ldg(line + i + j) : 0;
			sum = fmaf(FAN ? share * weight : share, value, sum);
		}
	}
	return sum;
}

template <bool FAN, int T>
static __device__ __forceinline__ float follow_segment(
	const Slices &s, const SliceRay &ray, const Segment &g, int pitch, float sum)
{
	const float last = fmaf((float)(g.end - 1), g.rate, g.f);
	const bool inside = (int)fminf(g.f, last) - T > g.low && (int)fmaxf(g.f, last) + T < g.high;
	return inside ? follow<FAN, T, true>(s, ray, g, pitch, sum)
		      : follow<FAN, T, false>(s, ray, g, pitch, sum);
}

/* Sum over segments `part`, `part` + parts, ... of a ray. MOST: most pixels of a plane. */
template <bool FAN, int MOST>
static __device__ __forceinline__ float sum_ray(
	const Slices &s, const KernelView *k, int column, int part, int parts)
{
	const Rays r = rays_of(s, k, column, 1);
	const SliceRay ray = slice_ray<FAN>(s, k, r, column);
	const double p = crossing(r, column, 0), slope = crossing(r, column, 1) - p;
	const double depth = r.view.d[0] * p + r.view.d[2],
		     deeper = r.view.d[1] + r.view.d[0] * slope;
	const float *from = r.across == 1 ? s.from : s.transposed;
	const float g0 = fabsf(ray.g[0]), both = g0 + fabsf(ray.g[1]), d0 = fabsf(ray.d[0]);
	float sum = 0;
	for (int k0 = r.first + part * SEGMENT; k0 <= r.last; k0 += parts * SEGMENT) {
		const double start = p + k0 * slope, whole = rint(start);
		const Segment g = {.line = from + (int64_t)k0 * r.n + (int)whole,
			.f = (float)(start - whole),
			.rate = (float)slope,
			.depth = FAN ? (float)(depth + k0 * deeper) : 1,
			.deeper = FAN ? (float)deeper : 0,
			.end = min(SEGMENT, r.last + 1 - k0),
			.low = -(int)whole,
			.high = r.n - 1 - (int)whole};
		float far = g.depth, most = g0;
		if (FAN) { /* as in ray_crossing */
			far = fmaxf(far, fmaf((float)SEGMENT, g.deeper, far));
			most -= 0.5f * fmaf(g0 / s.least, d0 + fabsf(ray.d[1]), d0);
		}
		const float length = (both + far) / most; /* twice the reach */
		if (length < 2.997f)
			sum = follow_segment<FAN, 3>(s, ray, g, r.n, sum);
		else if (MOST == 4 || length < 3.996f)
			sum = follow_segment<FAN, 4>(s, ray, g, r.n, sum);
		else
			sum = follow_segment<FAN, MOST>(s, ray, g, r.n, sum);
	}
	return FAN ? sum : sum * ray.w[0] * boxes_of(ray.g[0], ray.g[1], 1).scale;
}

/* Block: columns, views, threads per ray. */
template <bool FAN, int MOST>
static __global__ void __launch_bounds__(WIDE *RAY_VIEWS *MOST_PARTS)
	slice_forward(const __grid_constant__ Slices s)
{
	__shared__ float sums[MOST_PARTS][RAY_VIEWS][WIDE];
	const int column = blockIdx.x * WIDE + threadIdx.x,
		  view = blockIdx.y * RAY_VIEWS + threadIdx.y;
	const bool mine = column < s.columns && view < s.count;
	sums[threadIdx.z][threadIdx.y][threadIdx.x] =
		mine ? sum_ray<FAN, MOST>(s, &s.views[view], column, threadIdx.z, blockDim.z) : 0;
	__syncthreads();
	if (!mine || threadIdx.z > 0)
		return;
	float sum = 0;
	for (int i = 0; i < blockDim.z; i++)
		sum += sums[i][threadIdx.y][threadIdx.x];
	s.to[(int64_t)view * s.columns + column] = sum;
}

/* ---- back ------------------------------------------------------------------------------------ */

static __device__ __forceinline__ float sample_of(
	const Slices &s, const NearView &v, const float *row, int column)
{
	return (unsigned)(column - v.low) < (unsigned)s.columns ? __ldg(row + column) : 0;
}

/* What a pixel gets of a row of samples, of which v.place is that of column c0: three columns. */
template <bool FAN>
static __device__ __forceinline__ float gather_three(const Slices &s, const NearView &v,
	const Boxes &all, float u, float depth, float x, float y)
{
	const float *row = s.from + v.place;
	const float near = FAN ? inverse_nearly(depth) : 1, e = u * near, m = rintf(e);
	Boxes b = all;
	float weight = 1;
	if (FAN) {
		b = boxes_of(fmaf(-e, v.d[0], v.u[0]), fmaf(-e, v.d[1], v.u[1]), depth);
		const float dx = fmaf(x, (float)s.step[s.axis[0]], v.source[0]),
			    dy = fmaf(y, (float)s.step[s.axis[1]], v.source[1]);
		weight = b.scale *
			 pixel_weight<true>(s, v.mass, fmaf(dx, dx, fmaf(dy, dy, v.rise)), near);
	}
	/* Parts beyond the edges of the column that contains the centre. */
	const float f = fmaf(-m, depth, u), end = 0.5f * (b.wide + b.narrow - depth);
	const float left = smooth_ramp(b, end - f), right = smooth_ramp(b, end + f),
		    middle = b.wide - left - right;
	const int i = (int)m;
	return weight *
	       fmaf(left, sample_of(s, v, row, i - 1),
		       fmaf(middle, sample_of(s, v, row, i), right * sample_of(s, v, row, i + 1)));
}

/* The same for any number of columns. */
template <bool FAN>
static __device__ __forceinline__ float gather_any(
	const Slices &s, const NearView &v, float x, float y)
{
	const SeenPixel p = see_pixel<FAN>(s, v, x, y);
	const float *row = s.from + v.place;
	float sum = 0;
	for (int c = p.first; c <= p.last; c++)
		sum = fmaf(column_weight(p, c), __ldg(row + c), sum);
	return sum;
}

/* Adds a view to the pixels of a thread. */
template <bool FAN, bool THREE>
static __device__ __forceinline__ void add_view(
	const Slices &s, const NearView &v, float x, float sum[PIXELS])
{
	const float u = fmaf(v.u[0], x, v.u[2]), d = FAN ? fmaf(v.d[0], x, v.d[2]) : 1;
	const Boxes all = boxes_of(v.u[0], v.u[1], 1);
	const float weight = FAN ? 1 : all.scale * pixel_weight<false>(s, v.mass, 1, 1);
#pragma unroll
	for (int j = 0; j < PIXELS; j++) {
		const float y = (float)j;
		if (THREE)
			sum[j] = fmaf(weight,
				gather_three<FAN>(s, v, all, fmaf(v.u[1], y, u),
					FAN ? fmaf(v.d[1], y, d) : 1, x, y),
				sum[j]);
		else
			sum[j] += gather_any<FAN>(s, v, x, y);
	}
}

/* Block: pixels along a, threads per pixel. THREE: a pixel meets three columns at most. */
template <bool FAN, bool THREE>
static __global__ void __launch_bounds__(WIDE *MOST_PARTS, 4)
	slice_back(const __grid_constant__ Slices s)
{
	__shared__ NearView near[NEAR];
	__shared__ float sums[MOST_PARTS][PIXELS][WIDE];
	const int a0 = blockIdx.x * WIDE, b0 = blockIdx.y * PIXELS, part = threadIdx.y;
	const int middle = min(WIDE / 2, s.n[0] - 1 - a0);
	const float x = (float)((int)threadIdx.x - middle);
	float sum[PIXELS] = {0};
	for (int first = 0; first < s.count; first += NEAR) {
		const int views = min((int)NEAR, s.count - first);
		__syncthreads();
		for (int i = part * WIDE + threadIdx.x; i < views; i += WIDE * MOST_PARTS)
			near[i] = near_view(s, first + i, a0 + middle, b0);
		__syncthreads();
		for (int i = part; i < views; i += MOST_PARTS)
			add_view<FAN, THREE>(s, near[i], x, sum);
	}
#pragma unroll
	for (int j = 0; j < PIXELS; j++)
		sums[part][j][threadIdx.x] = sum[j];
	__syncthreads();
	const int a = a0 + threadIdx.x, b = b0 + part;
	if (part >= PIXELS || a >= s.n[0] || b >= s.n[1])
		return;
	float total = 0;
#pragma unroll
	for (int i = 0; i < MOST_PARTS; i++)
		total += sums[i][part][threadIdx.x];
	s.to[(int64_t)b * s.n[0] + a] = total;
}

#endif
