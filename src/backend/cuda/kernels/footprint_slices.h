/* Separable footprints of rays that stay in slices, parallel or from a point source in every slice:
 * all slices have the same weights.
 *
 * A group of threads, each of which has four slices, has the rays of four neighbouring
 * columns (forward) or a square of 2 x 2 pixels (back). Each of its threads lists the samples that
 * any of the four meets in one plane of pixels or in one view, with four weights for each sample, in
 * shared memory; then the group adds the samples of all its lists. In a slice, pixel p falls on
 * column U / D, both affine in p, and the ray of column c is the line U - c D = 0 (fan.h). Lengths on
 * the detector are left multiplied by D, which cancels in the weights.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SLICES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SLICES_H

#include "backend/cuda/kernels/footprint.h"

enum {
	FOUR = 4,
	WARP = 32,
	MOST_THREADS = 512,
	BLOCKS = 2,
	NEAR = 64 /* back: views whose NearView is in shared memory */
};

typedef struct {
	const KernelView *views;
	int count, columns;
	int axis[2];    /* the axes a and b in a slice */
	int64_t low[3]; /* first voxel of the box */
	double step[3];
	int n[2];                 /* pixels along a and b */
	int weight;               /* WEIGHT_... */
	float least;              /* below the least depth of a pixel */
	int quads;                /* float4 per pixel, four slices each */
	int lanes, groups, parts; /* threads per group; groups of a block; shares of their lists */
	int together;             /* forward: views of a block, which read nearly the same pixels */
	int wide;                 /* back: squares along a of a block */
	int most;                 /* samples of a list; odd, so that fewer banks conflict */
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

/* From the source to pixel (0, 0) of the box along axis i; rise: square of the distance across the
 * slice, which is 0 for a fan per row. */
static __device__ double from_source(const Slices &s, const KernelView *k, int i)
{
	const int a = s.axis[i];
	return ((double)s.low[a] - k->src[a]) * s.step[a];
}

static __device__ double rise_of(const Slices &s, const KernelView *k)
{
	const double z = ((double)s.low[2] - k->src[2]) * s.step[2];
	return KERNEL_FANS(k) ? 0 : z * z;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* A ramp averaged over a box of width 2 half. */
static __device__ __forceinline__ float smooth_ramp(float t, float half, float rate)
{
	const float p = fma_saturate(t, rate, 0.f);
	return p * fmaf(-half, p, t);
}

/* The share of a pixel at distance y from the centre of a footprint whose boxes are |x0| and |x1|
 * wide: the convolution of both with the pixel. */
static __device__ __forceinline__ float share_of(float x0, float x1, float depth, float y)
{
	const float tiny = 1e-6f * depth, wide = fmaxf(fmaxf(fabsf(x0), fabsf(x1)), tiny),
		    narrow = fmaxf(fminf(fabsf(x0), fabsf(x1)), tiny);
	const float both = inverse_nearly(wide * narrow), rate = both * wide, half = 0.5f * narrow;
	const float end = 0.5f * (wide + narrow + depth) - fabsf(y);
	const float sum = smooth_ramp(end, half, rate) - smooth_ramp(end - depth, half, rate) -
			  smooth_ramp(end - wide, half, rate);
	return fmaxf(sum, 0.f) * narrow * both;
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

static __device__ __forceinline__ void clear_list(float *list, int count)
{
	for (int m = 0; m < count; m++)
		((float4 *)list)[m] = make_float4(0, 0, 0, 0);
}

/* ---- a group --------------------------------------------------------------------------------- */

typedef struct {
	int lane, group, part;
	float *list; /* of this thread */
	int2 *range; /* its first sample and their number */
	const float4 *lists;
	const int2 *ranges; /* of the group */
} Member;

static __device__ Member member_of(const Slices &s, float4 *memory)
{
	const int thread = threadIdx.x, lane = thread % s.lanes;
	int2 *ranges = (int2 *)(memory + blockDim.x * s.most);
	return Member{.lane = lane,
		.group = thread / s.lanes % s.groups,
		.part = thread / (s.lanes * s.groups),
		.list = (float *)(memory + thread * s.most),
		.range = ranges + thread,
		.lists = memory + (thread - lane) * s.most,
		.ranges = ranges + (thread - lane)};
}

/* Adds N samples of a list; a static number, so that their loads overlap. */
template <int N>
static __device__ __forceinline__ void add_samples(
	const float4 *from, int step, const float4 *weights, float4 sum[FOUR])
{
	float4 value[N];
#pragma unroll
	for (int m = 0; m < N; m++)
		value[m] = __ldg(from + m * step);
#pragma unroll
	for (int m = 0; m < N; m++) {
		const float4 weight = weights[m];
		add_scaled(sum[0], weight.x, value[m]);
		add_scaled(sum[1], weight.y, value[m]);
		add_scaled(sum[2], weight.z, value[m]);
		add_scaled(sum[3], weight.w, value[m]);
	}
}

/* Adds the samples of all lists of the group. step: from one sample of a list to the next. */
static __device__ __forceinline__ void add_lists(
	const Slices &s, const Member &me, int step, float4 sum[FOUR])
{
	const float4 *from = (const float4 *)s.from + min(me.lane, s.quads - 1);
	__syncwarp();
	for (int j = 0; j < s.lanes; j++) {
		const int2 range = me.ranges[j];
		const float4 *at = from + (int64_t)range.x * s.quads;
		const float4 *weights = me.lists + j * s.most;
		int left = range.y;
		for (; left >= 4; left -= 4, at += 4 * step, weights += 4)
			add_samples<4>(at, step, weights, sum);
		if (left == 3)
			add_samples<3>(at, step, weights, sum);
		else if (left == 2)
			add_samples<2>(at, step, weights, sum);
		else if (left == 1)
			add_samples<1>(at, step, weights, sum);
	}
	__syncwarp();
}

/* Adds the sums of all parts, in their order; the result is that of the first part. */
static __device__ __forceinline__ void add_parts(
	const Slices &s, const Member &me, float4 *memory, float4 sum[FOUR])
{
	if (s.parts == 1)
		return;
	const int apart = s.lanes * s.groups;
	float4 *sums = (float4 *)memory;
	__syncthreads();
	for (int i = 0; i < FOUR; i++)
		sums[i * blockDim.x + threadIdx.x] = sum[i];
	__syncthreads();
	for (int part = 1; me.part == 0 && part < s.parts; part++)
		for (int i = 0; i < FOUR; i++)
			add_scaled(sum[i], 1.f, sums[i * blockDim.x + part * apart + threadIdx.x]);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Four neighbouring rays of a view. Of the two axes in the slice, the first is now that across the
 * planes' lines of pixels, the second that along which planes follow each other. */
typedef struct {
	SliceView view;
	int column, n, first, last; /* pixels of a plane; the first and the last plane they meet */
	int across, along;          /* strides of the pixels */
	double source[2], step[2], rise;
	float mass;
} Rays;

/* Where the ray of a column crosses a plane. */
static __device__ __forceinline__ double crossing(const Rays &r, double column, int plane)
{
	const SliceView &v = r.view;
	const double across = column * v.d[0] - v.u[0],
		     along = (v.u[1] - column * v.d[1]) * plane + v.u[2] - column * v.d[2];
	/* 1 / across by a step of Newton's method: fewer instructions than a division. */
	const double nearly = (double)inverse_nearly((float)across);
	return along * fma(nearly, fma(-across, nearly, 1.), nearly);
}

/* The planes where a ray is within `margin` of the pixels. */
static __device__ int2 planes_within(const Rays &r, double column, double margin, int planes)
{
	const double p = crossing(r, column, 0), slope = crossing(r, column, 1) - p;
	const double low = -margin - p, high = (double)(r.n - 1) + margin - p;
	if (fabs(slope) < 1e-9)
		return low <= 0 && high >= 0 ? make_int2(0, planes - 1) : make_int2(planes, -1);
	const double one = low / slope, two = high / slope;
	return make_int2((int)fmin(fmax(floor(fmin(one, two)), 0.), (double)planes),
		(int)fmax(fmin(ceil(fmax(one, two)), (double)(planes - 1)), -1.));
}

static __device__ void swap(double pair[2])
{
	const double first = pair[0];
	pair[0] = pair[1];
	pair[1] = first;
}

static __device__ __forceinline__ Rays rays_of(const Slices &s, const KernelView *k, int column)
{
	Rays r = {.view = slice_view(s, k),
		.column = column,
		.n = s.n[0],
		.first = 1 << 30,
		.last = -1,
		.across = 1,
		.along = s.n[0],
		.source = {from_source(s, k, 0), from_source(s, k, 1)},
		.step = {s.step[s.axis[0]], s.step[s.axis[1]]},
		.rise = rise_of(s, k),
		.mass = (float)k->mass};
	const double *u = r.view.u, *d = r.view.d, middle = (double)column + 1.5;
	int planes = s.n[1];
	if (fabs(u[0] - middle * d[0]) < fabs(u[1] - middle * d[1])) {
		swap(r.view.u);
		swap(r.view.d);
		swap(r.source);
		swap(r.step);
		r.across = s.n[0];
		r.along = 1;
		r.n = s.n[1];
		planes = s.n[0];
	}
	for (int j = 0; j < FOUR; j += FOUR - 1) {
		const int2 within = planes_within(r, (double)(column + j), (double)s.most, planes);
		r.first = min(r.first, within.x);
		r.last = max(r.last, within.y);
	}
	return r;
}

/* Where one of the rays crosses a plane: `at` from pixel `whole`; which pixels it may meet, and the
 * changes of U - c D across and along the planes. */
typedef struct {
	float at, across, along, depth;
	int first, last;
} Crossing;

template <bool FAN>
static __device__ __forceinline__ Crossing ray_crossing(
	const Slices &s, const Rays &r, double column, int plane, int whole)
{
	const SliceView &v = r.view;
	const double p = crossing(r, column, plane);
	Crossing x = {.at = (float)(p - whole),
		.across = (float)(v.u[0] - column * v.d[0]),
		.along = (float)(v.u[1] - column * v.d[1]),
		.depth = 1};
	float most = fabsf(x.across) * 0.9999f;
	if (FAN) {
		/* Pixels beside the ray appear larger where they are nearer to the source. */
		x.depth = fmaxf((float)(v.d[1] * plane + v.d[0] * p + v.d[2]), s.least);
		const float d0 = fabsf((float)v.d[0]), d1 = fabsf((float)v.d[1]);
		most -= 0.5f * fmaf(most * inverse_nearly(x.depth), d0 + d1, d0);
	}
	const float reach =
		0.5f * (fabsf(x.across) + fabsf(x.along) + x.depth) * inverse_nearly(most);
	x.first = max(whole + (int)ceilf(x.at - reach), 0);
	x.last = min(whole + (int)floorf(x.at + reach), r.n - 1);
	return x;
}

/* Lists the pixels of a plane that one of the rays meets; low: the first pixel of the list. */
template <bool FAN>
static __device__ __forceinline__ void list_ray(const Slices &s, const Rays &r, const Crossing &x,
	int plane, int whole, int low, float *list)
{
	const double away = r.source[1] + plane * r.step[1];
	const float square = (float)(away * away + r.rise),
		    beside = (float)(r.source[0] + whole * r.step[0]), step = (float)r.step[0];
	for (int i = x.first; i <= x.last; i++) {
		const float from = (float)(i - whole), d = from - x.at, y = x.across * d;
		float x0 = x.across, x1 = x.along, depth = 1, near = 1;
		if (FAN) {
			depth = fmaf(d, (float)r.view.d[0], x.depth);
			near = inverse_nearly(depth);
			const float t = y * near;
			x0 = fmaf(-t, (float)r.view.d[0], x0);
			x1 = fmaf(-t, (float)r.view.d[1], x1);
		}
		const float q = fmaf(from, step, beside);
		list[(i - low) * FOUR] = share_of(x0, x1, depth, y) *
					 pixel_weight<FAN>(s, r.mass, fmaf(q, q, square), near);
	}
}

/* Lists the pixels of a plane: those from the outer ones of the rays. */
template <bool FAN>
static __device__ __forceinline__ int2 list_plane(
	const Slices &s, const Rays &r, int plane, float *list)
{
	const int whole = (int)rint(crossing(r, (double)r.column, plane));
	const Crossing one = ray_crossing<FAN>(s, r, (double)r.column, plane, whole),
		       four = ray_crossing<FAN>(s, r, (double)(r.column + FOUR - 1), plane, whole);
	const int low = min(one.first, four.first), high = max(one.last, four.last),
		  count = max(min(high - low + 1, s.most), 0);
	clear_list(list, count);
#pragma unroll 1
	for (int j = 0; j < FOUR && count > 0; j++) {
		Crossing x = ray_crossing<FAN>(s, r, (double)(r.column + j), plane, whole);
		x.first = max(x.first, low);
		x.last = min(x.last, low + count - 1);
		list_ray<FAN>(s, r, x, plane, whole, low, list + j);
	}
	return make_int2(plane * r.along + low * r.across, count);
}

template <bool FAN>
static __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
	slices_forward(const __grid_constant__ Slices s)
{
	extern __shared__ float4 memory[];
	const Member me = member_of(s, memory);
	const int wide = s.groups / s.together, view = blockIdx.y * s.together + me.group / wide;
	const int column = (blockIdx.x * wide + me.group % wide) * FOUR;
	const bool mine = view < s.count && column < s.columns;
	const Rays r = rays_of(s, &s.views[min(view, s.count - 1)], column);
	const int first = __reduce_min_sync(~0u, mine ? r.first : 1 << 30),
		  last = __reduce_max_sync(~0u, mine ? r.last : -1);
	const int step = r.across * s.quads;
	float4 sum[FOUR] = {};
	for (int k = first + me.part * s.lanes; k <= last; k += s.parts * s.lanes) {
		const int plane = k + me.lane;
		*me.range = mine && plane <= r.last ? list_plane<FAN>(s, r, plane, me.list)
						    : make_int2(0, 0);
		add_lists(s, me, step, sum);
	}
	add_parts(s, me, memory, sum);
	float4 *to = (float4 *)s.to + ((int64_t)view * s.columns + column) * s.quads + me.lane;
	for (int j = 0; j < FOUR; j++)
		if (mine && me.part == 0 && me.lane < s.quads && column + j < s.columns)
			to[j * s.quads] = sum[j];
}

/* ---- back ------------------------------------------------------------------------------------ */

/* A view relative to the pixel in the middle of a block and column c0: pixel (x, y) from there has U
 * - c0 D = u . (x, y, 1) and D = d . (x, y, 1). */
typedef struct {
	float u[3], d[3], source[2], rise, mass;
	int low, high; /* columns of the detector, from c0 on */
	int place;     /* sample of column c0 */
} NearView;

static __device__ NearView near_view(const Slices &s, int64_t view, int a, int b)
{
	const KernelView *k = &s.views[view];
	const SliceView v = slice_view(s, k);
	const double depth = v.d[0] * a + v.d[1] * b + v.d[2],
		     u = (v.u[0] * a + v.u[1] * b + v.u[2]) / depth,
		     c0 = rint(fmin(fmax(u, -1.), (double)s.columns));
	NearView to = {.rise = (float)rise_of(s, k),
		.mass = (float)k->mass,
		.low = -(int)c0,
		.high = s.columns - 1 - (int)c0,
		.place = (int)view * s.columns + (int)c0};
	for (int i = 0; i < 2; i++) {
		to.u[i] = (float)(v.u[i] - c0 * v.d[i]);
		to.d[i] = (float)v.d[i];
		to.source[i] = (float)(from_source(s, k, i) + (i ? b : a) * s.step[s.axis[i]]);
	}
	to.u[2] = (float)((u - c0) * depth);
	to.d[2] = (float)depth;
	return to;
}

/* A pixel in a view: its column U / D, edges and depth, weight, and which columns it may meet. */
typedef struct {
	float e, x0, x1, depth, weight;
	int first, last;
} SeenPixel;

template <bool FAN>
static __device__ __forceinline__ SeenPixel see_pixel(
	const Slices &s, const NearView &v, float x, float y)
{
	SeenPixel p;
	const float u = fmaf(v.u[0], x, fmaf(v.u[1], y, v.u[2]));
	p.depth = FAN ? fmaxf(fmaf(v.d[0], x, fmaf(v.d[1], y, v.d[2])), s.least) : 1;
	const float near = FAN ? inverse_nearly(p.depth) : 1;
	p.e = u * near;
	p.x0 = fmaf(-p.e, FAN ? v.d[0] : 0, v.u[0]);
	p.x1 = fmaf(-p.e, FAN ? v.d[1] : 0, v.u[1]);
	const float reach = fmaf(0.50005f * near, fabsf(p.x0) + fabsf(p.x1), 0.50005f);
	p.first = max((int)ceilf(fminf(p.e - reach, 1e9f)), v.low);
	p.last = min((int)floorf(fmaxf(p.e + reach, -1e9f)), v.high);
	const float dx = fmaf(x, (float)s.step[s.axis[0]], v.source[0]),
		    dy = fmaf(y, (float)s.step[s.axis[1]], v.source[1]);
	p.weight = pixel_weight<FAN>(s, v.mass, fmaf(dx, dx, fmaf(dy, dy, v.rise)), near);
	return p;
}

/* Lists the columns of a view for the square whose first pixel is (x, y) from the middle. */
template <bool FAN>
static __device__ __forceinline__ int2 list_view(
	const Slices &s, const NearView &v, float x, float y, float *list)
{
	SeenPixel p[FOUR];
	int low = v.high + 1, high = v.low - 1;
#pragma unroll
	for (int j = 0; j < FOUR; j++) {
		p[j] = see_pixel<FAN>(s, v, x + (float)(j % 2), y + (float)(j / 2));
		low = min(low, p[j].first);
		high = max(high, p[j].last);
	}
	const int count = max(min(high - low + 1, s.most), 0);
	clear_list(list, count);
#pragma unroll
	for (int j = 0; j < FOUR; j++)
		for (int c = p[j].first; c <= p[j].last; c++)
			list[(c - low) * FOUR + j] =
				p[j].weight * share_of(p[j].x0, p[j].x1, p[j].depth,
						      ((float)c - p[j].e) * p[j].depth);
	return make_int2(v.place + low, count);
}

template <bool FAN>
static __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
	slices_back(const __grid_constant__ Slices s)
{
	extern __shared__ float4 memory[];
	__shared__ NearView near[NEAR];
	const Member me = member_of(s, memory);
	const int high = s.groups / s.wide, a0 = blockIdx.x * s.wide * 2,
		  b0 = blockIdx.y * high * 2;
	const int da = me.group % s.wide * 2, db = me.group / s.wide * 2, a = a0 + da, b = b0 + db;
	const int middle_a = min(a0 + s.wide, s.n[0] - 1), middle_b = min(b0 + high, s.n[1] - 1);
	const float x = (float)(a - middle_a), y = (float)(b - middle_b);
	const bool mine = a < s.n[0] && b < s.n[1];
	float4 sum[FOUR] = {};
	for (int first = 0; first < s.count; first += NEAR) {
		const int views = min((int)NEAR, s.count - first);
		__syncthreads();
		for (int i = threadIdx.x; i < views; i += blockDim.x)
			near[i] = near_view(s, first + i, middle_a, middle_b);
		__syncthreads();
		for (int i = me.part * s.lanes; i < views; i += s.parts * s.lanes) {
			const int view = i + me.lane;
			*me.range = mine && view < views
					    ? list_view<FAN>(s, near[view], x, y, me.list)
					    : make_int2(0, 0);
			add_lists(s, me, s.quads, sum);
		}
	}
	add_parts(s, me, memory, sum);
	float4 *to = (float4 *)s.to + ((int64_t)b * s.n[0] + a) * s.quads + me.lane;
	for (int j = 0; j < FOUR; j++)
		if (me.part == 0 && me.lane < s.quads && a + j % 2 < s.n[0] && b + j / 2 < s.n[1])
			to[((int64_t)(j / 2) * s.n[0] + j % 2) * s.quads] = sum[j];
}

#endif
