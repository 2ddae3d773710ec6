/* Separable footprints of rays that stay in slices, parallel or from a point source in every slice:
 * all slices have the same weights.
 *
 * A group of threads has a few outputs in all slices: the rays of neighbouring columns (forward) or
 * a square of 2 x 2 pixels (back). Each thread has SUMS / outputs times four slices. It lists the
 * samples that any of the outputs meets in one plane of pixels or in one view, with the weights for
 * all outputs, in shared memory; then the group adds the samples of all its lists. In a slice, pixel
 * p falls on column U / D, both affine in p, and the ray of column c is the line U - c D = 0
 * (fan.h). Lengths on the detector are left multiplied by D, which cancels in the weights.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SLICES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SLICES_H

#include "backend/cuda/kernels/footprint.h"

enum {
	SUMS = 4,       /* float4 of a thread */
	COLUMNS = 2,    /* forward: outputs of a group */
	SQUARE = 2 * 2, /* back: likewise */
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

/* The float4 of a thread, which are `lanes` apart. */
template <int OUTPUTS> constexpr int QUADS = SUMS / OUTPUTS;

/* Adds N samples of a list; a static number, so that their loads overlap. */
template <int OUTPUTS, int N>
static __device__ __forceinline__ void add_samples(const float4 *const from[QUADS<OUTPUTS>],
	int64_t place, int step, const Weights<OUTPUTS> *weights, float4 sum[SUMS])
{
	constexpr int Q = QUADS<OUTPUTS>;
	float4 value[N * Q];
#pragma unroll
	for (int i = 0; i < N * Q; i++)
		value[i] = __ldg(from[i % Q] + place + i / Q * step);
#pragma unroll
	for (int m = 0; m < N; m++) {
		const Weights<OUTPUTS> w = weights[m];
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			add_scaled(sum[i], w.of[i / Q], value[m * Q + i % Q]);
	}
}

/* Adds the samples of all lists of the group. step: from one sample of a list to the next. */
template <int OUTPUTS>
static __device__ __forceinline__ void add_lists(
	const Slices &s, const Member<OUTPUTS> &me, int step, float4 sum[SUMS])
{
	const float4 *from[QUADS<OUTPUTS>];
#pragma unroll
	for (int q = 0; q < QUADS<OUTPUTS>; q++)
		from[q] = (const float4 *)s.from + min(me.lane + q * s.lanes, s.quads - 1);
	__syncwarp();
	for (int j = 0; j < s.lanes; j++) {
		const int2 range = me.ranges[j];
		const Weights<OUTPUTS> *weights = me.lists + j * s.most;
		int64_t at = (int64_t)range.x * s.quads;
		int left = range.y;
		for (; left >= 4; left -= 4, at += 4 * step, weights += 4)
			add_samples<OUTPUTS, 4>(from, at, step, weights, sum);
		if (left == 3)
			add_samples<OUTPUTS, 3>(from, at, step, weights, sum);
		else if (left == 2)
			add_samples<OUTPUTS, 2>(from, at, step, weights, sum);
		else if (left == 1)
			add_samples<OUTPUTS, 1>(from, at, step, weights, sum);
	}
	__syncwarp();
}

/* Adds the sums of all parts, in their order; the result is that of the first part. */
template <int OUTPUTS>
static __device__ __forceinline__ void add_parts(
	const Slices &s, const Member<OUTPUTS> &me, float4 *memory, float4 sum[SUMS])
{
	const int apart = s.lanes * s.groups;
	for (int i = 0; s.parts > 1 && i < SUMS; i++) {
		__syncthreads();
		memory[threadIdx.x] = sum[i];
		__syncthreads();
		for (int part = 1; me.part == 0 && part < s.parts; part++)
			add_scaled(sum[i], 1.f, memory[part * apart + threadIdx.x]);
	}
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Neighbouring rays of a view. Of the two axes in the slice, the first is now that across the
 * rays, along the lines of pixels of a plane; the second is that of the planes. */
typedef struct {
	SliceView view;
	int column, n, first, last; /* pixels of a plane; the first and the last plane they meet */
	int across, along;          /* strides of the pixels */
	float source[2], step[2], rise, mass;
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

template <class T> static __device__ void swap(T pair[2])
{
	const T first = pair[0];
	pair[0] = pair[1];
	pair[1] = first;
}

/* The rays of `columns` columns. */
static __device__ __forceinline__ Rays rays_of(
	const Slices &s, const KernelView *k, int column, int columns)
{
	Rays r = {.view = slice_view(s, k),
		.column = column,
		.n = s.n[0],
		.first = 1 << 30,
		.last = -1,
		.across = 1,
		.along = s.n[0],
		.source = {(float)from_source(s, k, 0), (float)from_source(s, k, 1)},
		.step = {(float)s.step[s.axis[0]], (float)s.step[s.axis[1]]},
		.rise = (float)rise_of(s, k),
		.mass = (float)k->mass};
	const double *u = r.view.u, *d = r.view.d, middle = column + 0.5 * (columns - 1);
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
	for (int j = 0; j < columns; j++) {
		const int2 within = planes_within(r, (double)(column + j), (double)s.most, planes);
		r.first = min(r.first, within.x);
		r.last = max(r.last, within.y);
	}
	return r;
}

/* Where a ray crosses a plane: `at` from a pixel, at depth D; the changes of U - c D per pixel across
 * and along; and how far the ray reaches, in pixels. */
typedef struct {
	float at, across, along, depth, reach;
} Crossing;

/* That of the first ray; whole: the pixel next to it. */
template <bool FAN>
static __device__ __forceinline__ Crossing first_crossing(
	const Slices &s, const Rays &r, int plane, int *whole)
{
	const SliceView &v = r.view;
	const double column = (double)r.column, p = crossing(r, column, plane), near = rint(p);
	*whole = (int)near;
	return Crossing{.at = (float)(p - near),
		.across = (float)(v.u[0] - column * v.d[0]),
		.along = (float)(v.u[1] - column * v.d[1]),
		.depth = FAN ? fmaxf((float)(v.d[1] * plane + v.d[0] * p + v.d[2]), s.least) : 1};
}

/* That of ray j, for which U - c D is -j D where the first ray crosses. */
template <bool FAN>
static __device__ __forceinline__ Crossing next_crossing(
	const Slices &s, const Rays &r, const Crossing &first, int j)
{
	const float d0 = (float)r.view.d[0], d1 = (float)r.view.d[1];
	Crossing x = first;
	if (FAN) {
		x.across = fmaf((float)-j, d0, first.across);
		x.along = fmaf((float)-j, d1, first.along);
	}
	const float by = (float)j * first.depth * inverse_nearly(x.across);
	float most = fabsf(x.across) * 0.9999f;
	x.at += by;
	if (FAN) {
		/* Pixels beside the ray appear larger where they are nearer to the source. */
		x.depth = fmaxf(fmaf(by, d0, first.depth), s.least);
		most -= 0.5f *
			fmaf(most * inverse_nearly(x.depth), fabsf(d0) + fabsf(d1), fabsf(d0));
	}
	x.reach = 0.5f * (fabsf(x.across) + fabsf(x.along) + x.depth) * inverse_nearly(most);
	return x;
}

/* Lists the pixels low .. high of a plane that a ray meets; list: its weight of the first. */
template <bool FAN>
static __device__ __forceinline__ void list_ray(const Slices &s, const Rays &r, const Crossing &x,
	int plane, int whole, int low, int high, float *list)
{
	const float d0 = (float)r.view.d[0], d1 = (float)r.view.d[1];
	const float away = fmaf((float)plane, r.step[1], r.source[1]),
		    square = fmaf(away, away, r.rise),
		    beside = fmaf((float)whole, r.step[0], r.source[0]);
	const int first = max(whole + (int)ceilf(x.at - x.reach), low),
		  last = min(whole + (int)floorf(x.at + x.reach), high);
	const Boxes all = boxes_of(x.across, x.along, 1);
	const float scale = all.scale * pixel_weight<false>(s, r.mass, 1, 1);
	for (int i = first; i <= last; i++) {
		const float from = (float)(i - whole), d = from - x.at, y = x.across * d;
		float weight;
		if constexpr (FAN) {
			const float depth = fmaf(d, d0, x.depth), near = inverse_nearly(depth),
				    t = y * near, q = fmaf(from, r.step[0], beside);
			const Boxes b =
				boxes_of(fmaf(-t, d0, x.across), fmaf(-t, d1, x.along), depth);
			weight = b.scale * share_of(b, depth, y) *
				 pixel_weight<true>(s, r.mass, fmaf(q, q, square), near);
		} else {
			weight = scale * share_of(all, 1, y);
		}
		list[(i - low) * COLUMNS] = weight;
	}
}

/* Lists the pixels of a plane. */
template <bool FAN>
static __device__ __forceinline__ int2 list_plane(
	const Slices &s, const Rays &r, int plane, Weights<COLUMNS> *list)
{
	int whole;
	const Crossing first = first_crossing<FAN>(s, r, plane, &whole);
	const Crossing one = next_crossing<FAN>(s, r, first, 0),
		       two = next_crossing<FAN>(s, r, first, COLUMNS - 1);
	const float left = fminf(one.at - one.reach, two.at - two.reach),
		    right = fmaxf(one.at + one.reach, two.at + two.reach);
	const int low = max(whole + (int)ceilf(left), 0),
		  high = min(whole + (int)floorf(right), r.n - 1),
		  count = max(min(high - low + 1, s.most), 0);
	clear_list(list, count);
	for (int j = 0; j < COLUMNS && count > 0; j++)
		list_ray<FAN>(s, r, next_crossing<FAN>(s, r, first, j), plane, whole, low,
			low + count - 1, list->of + j);
	return make_int2(plane * r.along + low * r.across, count);
}

template <bool FAN>
static __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
	slices_forward(const __grid_constant__ Slices s)
{
	extern __shared__ float4 memory[];
	const Member<COLUMNS> me = member_of<COLUMNS>(s, memory);
	const int wide = s.groups / s.together, view = blockIdx.y * s.together + me.group / wide;
	const int column = (blockIdx.x * wide + me.group % wide) * COLUMNS;
	const bool mine = view < s.count && column < s.columns;
	const Rays r = rays_of(s, &s.views[min(view, s.count - 1)], column, COLUMNS);
	const int first = __reduce_min_sync(~0u, mine ? r.first : 1 << 30),
		  last = __reduce_max_sync(~0u, mine ? r.last : -1);
	float4 sum[SUMS] = {};
	for (int k = first + me.part * s.lanes; k <= last; k += s.parts * s.lanes) {
		const int plane = k + me.lane;
		*me.range = mine && plane <= r.last ? list_plane<FAN>(s, r, plane, me.list)
						    : make_int2(0, 0);
		add_lists(s, me, r.across * s.quads, sum);
	}
	add_parts(s, me, memory, sum);
	float4 *to = (float4 *)s.to + ((int64_t)view * s.columns + column) * s.quads;
	for (int i = 0; i < SUMS; i++) {
		const int j = i / QUADS<COLUMNS>, quad = me.lane + i % QUADS<COLUMNS> * s.lanes;
		if (mine && me.part == 0 && quad < s.quads && column + j < s.columns)
			to[j * s.quads + quad] = sum[i];
	}
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

/* A pixel in a view: its column U / D, boxes and depth, weight, and which columns it meets. */
typedef struct {
	Boxes boxes;
	float e, depth, weight;
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
	p.boxes = FAN ? boxes_of(fmaf(-p.e, v.d[0], v.u[0]), fmaf(-p.e, v.d[1], v.u[1]), p.depth)
		      : boxes_of(v.u[0], v.u[1], 1);
	const float reach = fmaf(0.50005f * near, p.boxes.wide + p.boxes.narrow, 0.50005f);
	p.first = max((int)ceilf(fminf(p.e - reach, 1e9f)), v.low);
	p.last = min((int)floorf(fmaxf(p.e + reach, -1e9f)), v.high);
	const float dx = fmaf(x, (float)s.step[s.axis[0]], v.source[0]),
		    dy = fmaf(y, (float)s.step[s.axis[1]], v.source[1]);
	p.weight = p.boxes.scale *
		   pixel_weight<FAN>(s, v.mass, fmaf(dx, dx, fmaf(dy, dy, v.rise)), near);
	return p;
}

/* The weight of a column. */
static __device__ __forceinline__ float column_weight(const SeenPixel &p, int column)
{
	return p.weight * share_of(p.boxes, p.depth, ((float)column - p.e) * p.depth);
}

/* Lists the columns of a view for the square whose first pixel is (x, y) from the middle. */
template <bool FAN>
static __device__ __forceinline__ int2 list_view(
	const Slices &s, const NearView &v, float x, float y, Weights<SQUARE> *list)
{
	SeenPixel p[SQUARE];
	int low = v.high + 1, high = v.low - 1;
#pragma unroll
	for (int j = 0; j < SQUARE; j++) {
		p[j] = see_pixel<FAN>(s, v, x + (float)(j % 2), y + (float)(j / 2));
		low = min(low, p[j].first);
		high = max(high, p[j].last);
	}
	const int count = max(min(high - low + 1, s.most), 0);
	clear_list(list, count);
#pragma unroll
	for (int j = 0; j < SQUARE; j++)
		for (int c = p[j].first; c <= p[j].last; c++)
			list[c - low].of[j] = column_weight(p[j], c);
	return make_int2(v.place + low, count);
}

template <bool FAN>
static __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
	slices_back(const __grid_constant__ Slices s)
{
	extern __shared__ float4 memory[];
	__shared__ NearView near[NEAR];
	const Member<SQUARE> me = member_of<SQUARE>(s, memory);
	const int high = s.groups / s.wide, a0 = blockIdx.x * s.wide * 2,
		  b0 = blockIdx.y * high * 2;
	const int a = a0 + me.group % s.wide * 2, b = b0 + me.group / s.wide * 2;
	const int middle_a = min(a0 + s.wide, s.n[0] - 1), middle_b = min(b0 + high, s.n[1] - 1);
	const float x = (float)(a - middle_a), y = (float)(b - middle_b);
	const bool mine = a < s.n[0] && b < s.n[1];
	float4 sum[SUMS] = {};
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
	for (int j = 0; j < SQUARE; j++)
		if (me.part == 0 && me.lane < s.quads && a + j % 2 < s.n[0] && b + j / 2 < s.n[1])
			to[((int64_t)(j / 2) * s.n[0] + j % 2) * s.quads] = sum[j];
}

#endif
