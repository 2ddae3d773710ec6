/* Forward projection of footprints in slices (footprint_slices.h): lists of the pixels that
 * neighbouring rays meet in a plane.
 *
 * In one slice weights serve one update each and are not listed. Several threads follow one ray,
 * each its own segments of planes; partial sums are added in a fixed order.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_SLICES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_SLICES_H

#include "backend/cuda/kernels/footprint_slices.h"
#include "backend/cuda/kernels/warp.h"

/* ---- rays ------------------------------------------------------------------------------------ */

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
	return along * inverse_double(across);
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
		.step = {s.pixel[0], s.pixel[1]},
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

/* Where a ray crosses a plane: `at` from a pixel, at depth D; the changes of U - c D per pixel
 * across and along; and how far the ray reaches, in pixels. */
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
	const int first = warp_min(mine ? r.first : 1 << 30), last = -warp_min(mine ? -r.last : 1);
	float4 sum[COLUMNS] = {};
	for (int k = first + me.part * s.lanes; k <= last; k += s.parts * s.lanes) {
		const int plane = k + me.lane;
		*me.range = mine && plane <= r.last ? list_plane<FAN>(s, r, plane, me.list)
						    : make_int2(0, 0);
		add_lists(s, me, r.across * s.quads, sum);
	}
	add_parts(s, me, memory, sum);
	float4 *to = (float4 *)s.to + ((int64_t)view * s.columns + column) * s.quads + me.lane;
	for (int j = 0; j < COLUMNS; j++)
		if (mine && me.part == 0 && me.lane < s.quads && column + j < s.columns)
			to[j * s.quads] = sum[j];
}

/* ---- one slice ------------------------------------------------------------------------------- */

/* A segment of planes: in plane k the ray is f + k rate pixels from pixel `line`, at depth `depth`
 * + k deeper. low, high: the pixels there are. */
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
#pragma unroll 4
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
		if (FAN) { /* as in next_crossing */
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

#endif
