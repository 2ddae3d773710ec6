/* A fan of rays from a point source in each slice: positions and weights, all in float relative to
 * a segment of planes or to the middle of a block. In a slice, pixel p falls on column U / D, both
 * affine in p (kernel/portable.h), and the ray of column c is the line g = U - c D = 0.
 *
 * Forward, several threads follow one ray, each its own segments of planes. Back, several threads
 * compute the same pixels, each from its own views. Partial sums are added in a fixed order.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FAN_H
#define TOMOS_BACKEND_CUDA_KERNELS_FAN_H

#include "backend/cuda/kernels/slice.h"
#include "backend/cuda/kernels/update.h"
#include "backend/cuda/kernels/upright.h"

enum {
	FAN_VIEWS = 4,  /* forward: neighbouring views of a block read nearly the same pixels */
	FAN_PARTS = 8,  /* most threads per ray; threads per pixel */
	FAN_PIXELS = 4, /* back: pixels of a thread */
	FAN_NEAR = 128  /* back: views whose FanView is in shared memory */
};

/* Weights of the voxel-driven projector. DEEP: powers of the depth. PARABOLA: length of the ray by
 * a parabola through three columns. ROOT: by a square root. */
typedef enum { DEEP, PARABOLA, ROOT } FanWeights;

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int64_t count, stride; /* stride: from one view to the next in the projections */
	int64_t row;           /* detector row of the slice */
	int na, nb;
	int border, pitch;                 /* of the rows or lines of samples */
	const float *samples, *transposed; /* with a border; pairs where LINEAR */
	float least;                       /* below the least depth of a pixel */
	float *to;
	VoxelUpdate update;
} Fan;

/* The first of the T samples within T / 2 of position p. */
template <int T> static __device__ __forceinline__ float first_tap(float p)
{
	return T % 2 ? rintf(p) - (float)(T / 2) : floorf(p) - (float)(T / 2 - 1);
}

/* Samples beyond the outermost ones that T taps may read, if positions are at most T / 2 + 1
 * outside. */
static __host__ __device__ constexpr int border_of(int taps)
{
	return taps + 1;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* A ray. Voxel-driven: depth at plane 0 of the box, its change from plane to plane along the ray
 * and across it, change of g across the ray, and the length of the rays of columns c + t at depth
 * 1, or its square: w[0] + t w[1] + t^2 w[2]. */
typedef struct {
	Path path;
	double depth, by_plane;
	float across, g, w[3];
} FanRay;

static __device__ double fan_affine(const double f[4], double x, double y, double z)
{
	return f[0] * x + f[1] * y + f[2] * z + f[3];
}

/* Squared length of the ray of a column at depth 1. */
static __device__ double fan_square(const Fan *s, const KernelView *k, double column)
{
	double square = 0;
	for (int a = 0; a < 3; a++) {
		double d = (k->first[a] + column * k->u[a] - k->src[a]) * s->grid.step[a];
		square += d * d;
	}
	return square;
}

template <FanWeights W>
static __device__ void fan_lengths(const Fan *s, const KernelView *k, int64_t column, float w[3])
{
	double l[3];
	for (int i = 0; i < 3; i++) {
		const double square = fan_square(s, k, (double)(column + i - 1));
		l[i] = W == PARABOLA ? k->mass * sqrt(square) : k->mass * k->mass * square;
	}
	w[0] = (float)l[1];
	w[1] = (float)(0.5 * (l[2] - l[0]));
	w[2] = (float)(0.5 * (l[2] + l[0]) - l[1]);
}

template <FanWeights W>
static __device__ FanRay fan_ray(const Fan *s, const KernelView *k, int64_t column)
{
	FanRay ray = {.path = path_of(&s->grid, &s->model, k, s->row, column)};
	const int a = ray.path.axis, b = 1 - a;
	double at[2];
	at[a] = (double)s->grid.low[a];
	at[b] = (double)s->grid.low[b] + ray.path.p;
	ray.depth = fan_affine(k->depth, at[0], at[1], (double)s->grid.low[2]);
	ray.by_plane = k->depth[a] + k->depth[b] * ray.path.slope;
	ray.across = (float)k->depth[b];
	ray.g = (float)(k->column[b] - (double)column * k->depth[b]);
	if constexpr (W == DEEP)
		ray.w[0] = s->model.weight == WEIGHT_DEPTH ? 0 : 1;
	else
		fan_lengths<W>(s, k, column, ray.w);
	return ray;
}

/* The weight of a pixel that falls t columns from the ray's. */
template <FanWeights W>
static __device__ __forceinline__ float fan_weight(const FanRay &ray, float t, float near)
{
	if (W == DEEP)
		return ray.w[0] > 0 ? 1 : near * near;
	const float length = fmaf(t, fmaf(t, ray.w[2], ray.w[1]), ray.w[0]);
	return near * (W == ROOT ? root_nearly(length) : length);
}

/* A segment of planes: in plane k the ray is f + k rate pixels from `line`, within low .. high, and
 * at depth `depth` + k deeper. */
typedef struct {
	const float *line;
	float f, rate, low, high, depth, deeper;
	int end, pitch;
} FanSegment;

/* Sum of the T pixels around the ray in each plane. */
template <int T, FanWeights W>
static __device__ __forceinline__ float fan_segment(
	const Fan &s, const FanRay &ray, const FanSegment &g, float sum)
{
	const float *line = g.line;
#pragma unroll 4
	for (int k = 0; k < g.end; k++, line += g.pitch) {
		const float at = fminf(fmaxf(fmaf((float)k, g.rate, g.f), g.low), g.high);
		const float first = first_tap<T>(at), here = fmaf((float)k, g.deeper, g.depth);
#pragma unroll
		for (int j = 0; j < T; j++) {
			const float away = first + (float)j - at;
			const float near =
				inverse_nearly(fmaxf(fmaf(away, ray.across, here), s.least));
			const float t = away * ray.g * near;
			const float share = __saturatef(1 - fabsf(t));
			sum = fmaf(share * fan_weight<W>(ray, t, near),
				__ldg(line + (int)first + j), sum);
		}
	}
	return sum;
}

/* Sum over segments `part`, `part` + parts, ... of the pixels that fall within a column of the
 * ray's: at most T in a plane, often fewer. n: pixels per plane. */
template <int T, FanWeights W>
static __device__ __forceinline__ float fan_pixels(
	const Fan &s, const FanRay &ray, int planes, int n, const float *from, int part, int parts)
{
	const int border = border_of(T), pitch = n + 2 * border;
	const double p = ray.path.p, slope = ray.path.slope;
	float sum = 0;
	for (int k0 = part * SEGMENT; k0 < planes; k0 += parts * SEGMENT) {
		const double start = p + k0 * slope, last = start + SEGMENT * slope;
		if (fmax(start, last) < -T / 2 - 1 || fmin(start, last) > n + T / 2)
			continue;
		const double whole = rint(start);
		const FanSegment g = {.line = from + (int64_t)k0 * pitch + (int)whole + border,
			.f = (float)(start - whole),
			.rate = (float)slope,
			.low = (float)(-T / 2 - 1 - whole),
			.high = (float)(n + T / 2 - whole),
			.depth = (float)(ray.depth + k0 * ray.by_plane),
			.deeper = (float)ray.by_plane,
			.end = min(SEGMENT, planes - k0),
			.pitch = pitch};
		/* Half of the pixels within a column of the ray. */
		const float far = fmaxf(g.depth, fmaf((float)SEGMENT, g.deeper, g.depth));
		const float reach = (far + T * fabsf(ray.across)) / fabsf(ray.g);
		if (T > 2 && reach < 0.998f)
			sum = fan_segment<2, W>(s, ray, g, sum);
		else if (T > 3 && reach < 1.497f)
			sum = fan_segment<3, W>(s, ray, g, sum);
		else
			sum = fan_segment<T, W>(s, ray, g, sum);
	}
	return sum;
}

/* Block: columns, views, threads per ray. T: pixels of a plane that a ray meets; Joseph's method:
 * 0. */
template <int T, FanWeights W>
static __global__ void __launch_bounds__(WIDE *FAN_VIEWS *FAN_PARTS)
	fan_forward(const __grid_constant__ Fan s)
{
	__shared__ FanRay rays[FAN_VIEWS][WIDE];
	__shared__ float sums[FAN_PARTS][FAN_VIEWS][WIDE];
	const int part = threadIdx.z, parts = blockDim.z;
	const int64_t column = (int64_t)blockIdx.x * WIDE + threadIdx.x,
		      view = (int64_t)blockIdx.y * FAN_VIEWS + threadIdx.y;
	const bool inside = column < s.model.columns && view < s.count;
	if (inside && part == 0)
		rays[threadIdx.y][threadIdx.x] = fan_ray<W>(&s, &s.views[view], column);
	__syncthreads();
	if (inside) {
		const FanRay &ray = rays[threadIdx.y][threadIdx.x];
		const bool y = ray.path.axis == 1;
		const float *from = y ? s.samples : s.transposed;
		const int planes = y ? s.nb : s.na, n = y ? s.na : s.nb;
		float sum;
		if constexpr (T == 0)
			sum = follow<HAT, LINEAR>(
				from, ray.path.p, ray.path.slope, planes, n, 1, part, parts);
		else
			sum = fan_pixels<T, W>(s, ray, planes, n, from, part, parts);
		sums[part][threadIdx.y][threadIdx.x] = sum;
	}
	__syncthreads();
	if (!inside || part > 0)
		return;
	float sum = 0;
	for (int i = 0; i < parts; i++)
		sum += sums[i][threadIdx.y][threadIdx.x];
	if (T == 0)
		sum *= step_of(&s.grid, &s.views[view], s.row, column,
			rays[threadIdx.y][threadIdx.x].path.axis);
	s.to[view * s.stride + column] += sum;
}

/* ---- back ------------------------------------------------------------------------------------ */

/* A view relative to a pixel in the middle of a block: pixel (da, db) from there has U - c0 D = u .
 * (da, db, 1) and D = d . (da, db, 1). low, high: range of U / D - c0 that has samples. */
typedef struct __align__(16)
{
	float u[3], low, d[3], high;
	float away[2], square, mass; /* from the source; square of the distance along z */
	int64_t at;                  /* sample of column c0 */
	int64_t taps;                /* Joseph's method: rays that meet a pixel of the block */
}
FanView;

/* The number of rays per pixel between two and T that is tried before T. */
template <int T> static constexpr int FEWER = T <= 4 ? 3 : T <= 6 ? 4 : T <= 10 ? 6 : 10;

/* Joseph's method: T > 0 rays meet a pixel. Voxel-driven: T = 0, the value half-way between two
 * samples. */
template <int T> static __device__ FanView fan_view(const Fan *s, int64_t view, int a0, int b0)
{
	const KernelView *k = &s->views[view];
	const double x = (double)(s->grid.low[0] + a0), y = (double)(s->grid.low[1] + b0),
		     z = (double)s->grid.low[2], half = T == 0 ? 0.5 : 0;
	const double depth = fan_affine(k->depth, x, y, z),
		     u = fan_affine(k->column, x, y, z) / depth;
	const double columns = (double)s->model.columns, outside = T / 2 + 1;
	const double c0 = rint(fmin(fmax(u, -outside), columns)), c = c0 + half;
	FanView v;
	for (int a = 0; a < 2; a++) {
		v.u[a] = (float)(k->column[a] - c * k->depth[a]);
		v.d[a] = (float)k->depth[a];
		v.away[a] = (float)(((a ? y : x) - k->src[a]) * s->grid.step[a]);
	}
	const double rise = KERNEL_FANS(k) ? 0 : (z - k->src[2]) * s->grid.step[2];
	v.u[2] = (float)((u - c) * depth);
	v.d[2] = (float)depth;
	v.low = (float)(-outside - c);
	v.high = (float)(columns + T / 2 - c);
	v.square = (float)(rise * rise);
	v.mass = (float)k->mass;
	v.at = view * s->pitch + (int64_t)c0 + s->border;
	/* Depths, and changes of g per pixel, anywhere in the block. */
	const double dx = fabs(k->depth[0]), dy = fabs(k->depth[1]);
	const double least = depth - WIDE * dx - FAN_PIXELS * dy;
	const double wide =
		(WIDE * fabs(v.u[0]) + FAN_PIXELS * fabs(v.u[1])) / fmax(least, 1e-9) + 2;
	const double reach =
		fmax(fabs((double)v.u[0]) + wide * dx, fabs((double)v.u[1]) + wide * dy);
	v.taps = !(least > 0)                       ? T
		 : reach < 0.998 * least            ? 2
		 : reach < 0.499 * FEWER<T> * least ? FEWER<T>
						    : T;
	return v;
}

template <bool RAYS>
static __device__ __forceinline__ float fan_linear(
	const Fan &s, const FanView &v, float u, float depth, float da, float db)
{
	int i;
	const float near = inverse_nearly(depth);
	const float d = round_off(fminf(fmaxf(u * near, v.low), v.high), &i);
	const float value = meet<HAT, LINEAR>(s.samples + 2 * v.at, i, d, 1, 1, 0);
	if (!RAYS)
		return s.model.weight == WEIGHT_DEPTH ? value * near * near : value;
	const float x = fmaf(da, (float)s.grid.step[0], v.away[0]),
		    y = fmaf(db, (float)s.grid.step[1], v.away[1]);
	return value * v.mass * near * near * root_nearly(fmaf(x, x, fmaf(y, y, v.square)));
}

/* A ray c is |g| / h pixels from a pixel along its plane, where h is the larger change of g per
 * pixel; a sample has the value times the ray's step and 1 / h. */
template <int T>
static __device__ __forceinline__ float fan_joseph(
	const Fan &s, const FanView &v, float u, float depth)
{
	const float at = fminf(fmaxf(u * inverse_nearly(depth), v.low), v.high);
	const float first = first_tap<T>(at);
	const float2 *from = (const float2 *)s.samples + v.at + (int)first;
	float g = fmaf(-first, depth, u), sum = 0;
#pragma unroll
	for (int j = 0; j < T; j++, g -= depth) {
		const float2 ray = __ldg(from + j);
		sum = fmaf(fma_saturate(-fabsf(g), ray.y, 1), ray.x, sum);
	}
	return sum;
}

/* Adds a view to the pixels of a thread. */
template <int T, bool RAYS>
static __device__ __forceinline__ void fan_add(
	const Fan &s, const FanView &v, float da, float sum[FAN_PIXELS])
{
	const float u = fmaf(v.u[0], da, v.u[2]), depth = fmaf(v.d[0], da, v.d[2]);
#pragma unroll
	for (int j = 0; j < FAN_PIXELS; j++) {
		const float db = (float)j, uj = fmaf(v.u[1], db, u), dj = fmaf(v.d[1], db, depth);
		if constexpr (T == 0)
			sum[j] += fan_linear<RAYS>(s, v, uj, dj, da, db);
		else
			sum[j] += fan_joseph<T>(s, v, uj, dj);
	}
}

template <int T, bool RAYS>
static __global__ void __launch_bounds__(WIDE *FAN_PARTS, 4) fan_back(const __grid_constant__ Fan s)
{
	__shared__ FanView near[FAN_NEAR];
	__shared__ float sums[FAN_PARTS][FAN_PIXELS][WIDE];
	const int a0 = blockIdx.x * WIDE, b0 = blockIdx.y * FAN_PIXELS, part = threadIdx.y;
	const int middle = min(WIDE / 2, s.na - 1 - a0);
	const float da = (float)((int)threadIdx.x - middle);
	float sum[FAN_PIXELS] = {0};
	for (int64_t first = 0; first < s.count; first += FAN_NEAR) {
		const int views = (int)min((int64_t)FAN_NEAR, s.count - first);
		__syncthreads();
		for (int i = part * WIDE + threadIdx.x; i < views; i += WIDE * FAN_PARTS)
			near[i] = fan_view<T>(&s, first + i, a0 + middle, b0);
		__syncthreads();
#pragma unroll 2
		for (int i = part; i < views; i += FAN_PARTS) {
			const FanView &v = near[i];
			if (T > 2 && v.taps == 2)
				fan_add<2, RAYS>(s, v, da, sum);
			else if (T > 3 && v.taps == FEWER<T>)
				fan_add<FEWER<T>, RAYS>(s, v, da, sum);
			else
				fan_add<T, RAYS>(s, v, da, sum);
		}
	}
#pragma unroll
	for (int j = 0; j < FAN_PIXELS; j++)
		sums[part][j][threadIdx.x] = sum[j];
	__syncthreads();
	const int a = a0 + threadIdx.x, b = b0 + part;
	if (part >= FAN_PIXELS || a >= s.na || b >= s.nb)
		return;
	float total = 0;
#pragma unroll
	for (int i = 0; i < FAN_PARTS; i++)
		total += sums[i][part][threadIdx.x];
	update_voxels<1, 1>(
		s.update, s.to + (int64_t)b * s.na + a, 0, 1, [&](int) { return total; });
}

/* Joseph's method: samples with a border. */
static __global__ void fan_samples(const __grid_constant__ Fan s, const float *from, float2 *to)
{
	const int c = blockIdx.x * blockDim.x + threadIdx.x, column = c - s.border;
	if (c >= s.pitch)
		return;
	for (int64_t view = blockIdx.y; view < s.count; view += gridDim.y) {
		float2 sample = {0, 0};
		if (column >= 0 && column < s.model.columns) {
			const KernelView *k = &s.views[view];
			const double gx = k->column[0] - column * k->depth[0],
				     gy = k->column[1] - column * k->depth[1];
			const int axis = path_of(&s.grid, &s.model, k, s.row, column).axis;
			sample.x = from[view * s.stride + column] *
				   step_of(&s.grid, k, s.row, column, axis);
			sample.y = (float)(1 / fmax(fabs(gx), fabs(gy)));
		}
		to[view * s.pitch + c] = sample;
	}
}

#endif
