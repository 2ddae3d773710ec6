/* Separable footprints of rays that stay in slices, parallel or from a point source in every slice:
 * all slices have the same weights.
 *
 * A group of threads has a few outputs in all slices: the rays of neighbouring columns (forward) or
 * a square of 2 x 2 pixels (back). Each thread has four slices. It lists the samples that any of
 * the outputs meets in one plane of pixels or in one view, with the weights for all outputs, in
 * shared memory; then the group adds the samples of all its lists. In a slice, pixel p falls on
 * column U / D, both affine in p, and the ray of column c is the line U - c D = 0 (fan.h). Lengths
 * on the detector are left multiplied by D, which cancels in the weights.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SLICES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SLICES_H

#include "backend/cuda/kernels/footprint.h"

enum {
	COLUMNS = 2,    /* forward: outputs of a group */
	SQUARE = 2 * 2, /* back: likewise */
	MOST_THREADS = 512,
	BLOCKS = 2,     /* of an SM */
	NEAR = 64,      /* back: views whose NearView is in shared memory */
	WIDE = 32,      /* one slice: columns or pixels of a block */
	MOST_PARTS = 8, /* one slice: threads of a ray or pixel */
	RAY_VIEWS = 4,  /* one slice, forward: neighbouring views of a block */
	SEGMENT = 32,   /* likewise: planes whose positions are relative to one point */
	PIXELS = 4      /* one slice, back: pixels of a thread */
};

typedef struct {
	const KernelView *views;
	int count, columns;
	int axis[2];    /* the axes a and b in a slice */
	int64_t low[3]; /* first voxel of the box */
	double step[3];
	float pixel[2];           /* size of a pixel */
	int n[2];                 /* pixels along a and b */
	int weight;               /* WEIGHT_... */
	float least;              /* below the least depth of a pixel */
	int quads;                /* float4 per pixel, four slices each */
	int lanes, groups, parts; /* threads per group; groups of a block; shares of their lists */
	int together;             /* forward: views of a block, which read nearly the same pixels */
	int wide;                 /* back: squares along a of a block */
	int most;                 /* samples of a list; odd, so that fewer banks conflict */
	double beyond;            /* back: columns beyond the detector where pixels meet none */
	int pitch, margin;        /* back: samples of a view; those before the first column */
	const float *from, *transposed; /* transposed: of one slice, [a][b] */
	float *to;
} Slices;

/* U = u . (i, j, 1) and D = d . (i, j, 1) of pixel (i, j) of the box. */
typedef struct {
	double u[3], d[3];
} SliceView;

static __device__ double in_slice(const Slices &s, const double f[4])
{
	return f[0] * (double)s.low[0] + f[1] * (double)s.low[1] + f[2] * (double)s.low[2] + f[3];
}

static __device__ SliceView slice_view(const Slices &s, const KernelView *k)
{
	SliceView v = {.u = {0, 0, in_slice(s, k->column)}, .d = {0, 0, in_slice(s, k->depth)}};
	for (int i = 0; i < 2; i++) {
		v.u[i] = k->column[s.axis[i]];
		v.d[i] = k->depth[s.axis[i]];
	}
	return v;
}

/* From the source to pixel (0, 0) of the box along axis i. */
static __device__ double from_source(const Slices &s, const KernelView *k, int i)
{
	const int a = s.axis[i];
	return ((double)s.low[a] - k->src[a]) * s.step[a];
}

/* Square of the distance across the slice; 0 of a fan per row. */
static __device__ double rise_of(const Slices &s, const KernelView *k)
{
	const double z = ((double)s.low[2] - k->src[2]) * s.step[2];
	return KERNEL_FANS(k) ? 0 : z * z;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The two boxes of a footprint. */
typedef struct {
	float wide, narrow, half, rate; /* half: of the narrow box; rate: one over it */
	float scale;                    /* one over the wide box */
} Boxes;

static __device__ __forceinline__ Boxes boxes_of(float x0, float x1, float depth)
{
	const float tiny = 1e-6f * depth, wide = fmaxf(fmaxf(fabsf(x0), fabsf(x1)), tiny),
		    narrow = fmaxf(fminf(fabsf(x0), fabsf(x1)), tiny);
	const float both = inverse_nearly(wide * narrow);
	return Boxes{wide, narrow, 0.5f * narrow, both * wide, both * narrow};
}

/* The ramp max(t, 0) averaged over the narrow box. */
static __device__ __forceinline__ float smooth_ramp(const Boxes &b, float t)
{
	const float p = fma_saturate(t, b.rate, 0.f);
	return p * fmaf(-b.half, p, t);
}

/* The share of a pixel at distance |y| from the centre of a footprint, times the wide box: the
 * convolution of both boxes with the pixel. */
static __device__ __forceinline__ float share_of(const Boxes &b, float depth, float y)
{
	const float end = 0.5f * (b.wide + b.narrow + depth) - fabsf(y);
	return smooth_ramp(b, end) - smooth_ramp(b, end - depth) - smooth_ramp(b, end - b.wide);
}

/* The weight of a pixel; square: of its distance from the source; near: 1 / depth. */
template <bool FAN>
static __device__ __forceinline__ float pixel_weight(
	const Slices &s, float mass, float square, float near)
{
	if (s.weight == WEIGHT_RAY)
		return FAN ? mass * near * near * root_nearly(square) : mass;
	return FAN && s.weight == WEIGHT_DEPTH ? near * near : 1;
}

/* ---- a group --------------------------------------------------------------------------------- */

/* Weights of a sample for all outputs. */
template <int OUTPUTS> struct __align__(4 * OUTPUTS) Weights
{
	float of[OUTPUTS];
};

template <int OUTPUTS> struct Member {
	int lane, group, part;
	Weights<OUTPUTS> *list, *lists; /* of this thread; of the group */
	int2 *range, *ranges;           /* the first sample of a list, and their number */
};

/* Shared memory of a thread. */
template <int OUTPUTS> static __host__ __device__ constexpr int member_bytes(int most)
{
	return most * (int)sizeof(Weights<OUTPUTS>) + (int)sizeof(int2);
}

template <int OUTPUTS> static __device__ Member<OUTPUTS> member_of(const Slices &s, float4 *memory)
{
	const int thread = threadIdx.x, lane = thread % s.lanes;
	Weights<OUTPUTS> *lists = (Weights<OUTPUTS> *)memory;
	int2 *ranges = (int2 *)(lists + blockDim.x * s.most);
	return Member<OUTPUTS>{.lane = lane,
		.group = thread / s.lanes % s.groups,
		.part = thread / (s.lanes * s.groups),
		.list = lists + thread * s.most,
		.lists = lists + (thread - lane) * s.most,
		.range = ranges + thread,
		.ranges = ranges + (thread - lane)};
}

template <int OUTPUTS>
static __device__ __forceinline__ void clear_list(Weights<OUTPUTS> *list, int count)
{
	for (int m = 0; m < count; m++)
		list[m] = {};
}

/* Adds N samples of a list; a static number, so that their loads overlap. */
template <int OUTPUTS, int N>
static __device__ __forceinline__ void add_samples(
	const float4 *from, int step, const Weights<OUTPUTS> *weights, float4 sum[OUTPUTS])
{
	float4 value[N];
#pragma unroll
	for (int m = 0; m < N; m++)
		value[m] = __ldg(from + m * step);
#pragma unroll
	for (int m = 0; m < N; m++) {
		const Weights<OUTPUTS> w = weights[m];
#pragma unroll
		for (int i = 0; i < OUTPUTS; i++)
			add_scaled(sum[i], w.of[i], value[m]);
	}
}

/* Adds the samples of all lists of the group. step: from one sample of a list to the next. */
template <int OUTPUTS>
static __device__ __forceinline__ void add_lists(
	const Slices &s, const Member<OUTPUTS> &me, int step, float4 sum[OUTPUTS])
{
	const float4 *from = (const float4 *)s.from + min(me.lane, s.quads - 1);
	__syncwarp();
	for (int j = 0; j < s.lanes; j++) {
		const int2 range = me.ranges[j];
		const Weights<OUTPUTS> *weights = me.lists + j * s.most;
		const float4 *at = from + (int64_t)range.x * s.quads;
		int left = range.y;
		for (; left >= 4; left -= 4, at += 4 * step, weights += 4)
			add_samples<OUTPUTS, 4>(at, step, weights, sum);
		if (left == 3)
			add_samples<OUTPUTS, 3>(at, step, weights, sum);
		else if (left == 2)
			add_samples<OUTPUTS, 2>(at, step, weights, sum);
		else if (left == 1)
			add_samples<OUTPUTS, 1>(at, step, weights, sum);
	}
	__syncwarp();
}

/* Adds the sums of all parts, in their order; the result is that of the first part. */
template <int OUTPUTS>
static __device__ __forceinline__ void add_parts(
	const Slices &s, const Member<OUTPUTS> &me, float4 *memory, float4 sum[OUTPUTS])
{
	const int apart = s.lanes * s.groups;
	for (int i = 0; s.parts > 1 && i < OUTPUTS; i++) {
		__syncthreads();
		memory[threadIdx.x] = sum[i];
		__syncthreads();
		for (int part = 1; me.part == 0 && part < s.parts; part++)
			add_scaled(sum[i], 1.f, memory[part * apart + threadIdx.x]);
	}
}

#endif
