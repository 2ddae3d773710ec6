/* Back projection of footprints in slices (footprint_slices.h): lists of the columns that a square
 * of pixels meets in a view. Positions are in float, relative to the middle of a block.
 *
 * In one slice weights serve one update each and are not listed. Several threads compute the same
 * pixels, each from its own views; partial sums are added in a fixed order.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_SLICES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_SLICES_H

#include "backend/cuda/kernels/footprint_slices.h"

/* ---- views ----------------------------------------------------------------------------------- */

/* A view relative to the pixel in the middle of a block and column c0: pixel (x, y) from there has
 * U - c0 D = u . (x, y, 1) and D = d . (x, y, 1). */
typedef struct {
	float u[3], d[3], source[2], rise, mass;
	float left,
		right; /* positions beyond these are limited to them: pixels there meet no column */
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
		.left = (float)(-s.beyond - c0),
		.right = (float)(s.columns - 1 + s.beyond - c0),
		.low = -(int)c0,
		.high = s.columns - 1 - (int)c0,
		.place = (int)view * s.pitch + s.margin + (int)c0};
	for (int i = 0; i < 2; i++) {
		to.u[i] = (float)(v.u[i] - c0 * v.d[i]);
		to.d[i] = (float)v.d[i];
		to.source[i] =
			(float)(from_source(s, k, i) + (double)(i ? b : a) * s.step[s.axis[i]]);
	}
	to.u[2] = (float)((u - c0) * depth);
	to.d[2] = (float)depth;
	return to;
}

/* A pixel in a view: its column U / D, boxes, depth and weight. */
typedef struct {
	Boxes boxes;
	float e, depth, weight;
} SeenPixel;

template <bool FAN>
static __device__ __forceinline__ SeenPixel see_pixel(
	const Slices &s, const NearView &v, float x, float y)
{
	SeenPixel p;
	p.depth = FAN ? fmaxf(fmaf(v.d[0], x, fmaf(v.d[1], y, v.d[2])), s.least) : 1;
	const float near = FAN ? inverse_nearly(p.depth) : 1;
	p.e = fminf(fmaxf(fmaf(v.u[0], x, fmaf(v.u[1], y, v.u[2])) * near, v.left), v.right);
	p.boxes = FAN ? boxes_of(fmaf(-p.e, v.d[0], v.u[0]), fmaf(-p.e, v.d[1], v.u[1]), p.depth)
		      : boxes_of(v.u[0], v.u[1], 1);
	const float dx = fmaf(x, s.pixel[0], v.source[0]), dy = fmaf(y, s.pixel[1], v.source[1]);
	p.weight = p.boxes.scale *
		   pixel_weight<FAN>(s, v.mass, fmaf(dx, dx, fmaf(dy, dy, v.rise)), near);
	return p;
}

/* The columns first .. last that it may meet. */
static __device__ __forceinline__ int2 columns_of(const NearView &v, const SeenPixel &p)
{
	const float reach =
		0.50005f * (p.boxes.wide + p.boxes.narrow + p.depth) * inverse_nearly(p.depth);
	return make_int2(
		max((int)ceilf(p.e - reach), v.low), min((int)floorf(p.e + reach), v.high));
}

/* Shares of the three columns around `middle`, which a pixel of at most two columns meets, times
 * the wide box: the parts beyond the edges of the column that contains its centre, and the rest. */
typedef struct {
	float of[3];
	int middle;
} Three;

static __device__ __forceinline__ Three three_columns(const SeenPixel &p)
{
	const float rounded = __fadd_rn(p.e, MAGIC),
		    f = (p.e - __fadd_rn(rounded, -MAGIC)) * p.depth,
		    end = 0.5f * (p.boxes.wide + p.boxes.narrow - p.depth);
	const float left = smooth_ramp(p.boxes, end - f), right = smooth_ramp(p.boxes, end + f);
	return Three{{left, p.boxes.wide - left - right, right},
		__float_as_int(rounded) - __float_as_int(MAGIC)};
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
	int2 columns[SQUARE];
	int low = v.high + 1, high = v.low - 1;
#pragma unroll
	for (int j = 0; j < SQUARE; j++) {
		p[j] = see_pixel<FAN>(s, v, x + (float)(j % 2), y + (float)(j / 2));
		columns[j] = columns_of(v, p[j]);
		low = min(low, columns[j].x);
		high = max(high, columns[j].y);
	}
	const int count = max(min(high - low + 1, s.most), 0);
	clear_list(list, count);
#pragma unroll
	for (int j = 0; j < SQUARE; j++)
		for (int c = columns[j].x; c <= min(columns[j].y, low + count - 1); c++)
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
	float4 sum[SQUARE] = {};
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

/* ---- one slice ------------------------------------------------------------------------------- */

/* Adds a view to the pixels of a thread. Rows have a margin of zeros. THREE: a pixel meets three
 * columns at most. */
template <bool FAN, bool THREE>
static __device__ __forceinline__ void add_view(
	const Slices &s, const NearView &v, float x, float sum[PIXELS])
{
	const float *row = s.from + v.place;
#pragma unroll
	for (int j = 0; j < PIXELS; j++) {
		const SeenPixel p = see_pixel<FAN>(s, v, x, (float)j);
		if constexpr (THREE) {
			const Three three = three_columns(p);
			const float *at = row + three.middle;
			sum[j] = fmaf(p.weight,
				fmaf(three.of[0], __ldg(at - 1),
					fmaf(three.of[1], __ldg(at), three.of[2] * __ldg(at + 1))),
				sum[j]);
		} else {
			const int2 columns = columns_of(v, p);
			for (int c = columns.x; c <= columns.y; c++)
				sum[j] = fmaf(column_weight(p, c), __ldg(row + c), sum[j]);
		}
	}
}

/* Block: pixels along a, threads per pixel. */
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
