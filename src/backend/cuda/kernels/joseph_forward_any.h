/* Device code of joseph_forward_any.cu: rectangles of planes in shared memory, and samples of rays
 * from them. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_FORWARD_ANY_H
#define TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_FORWARD_ANY_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/lanes.h"

enum {
	MOST_WARPS = 8, /* of a block; half as many where views have little in common */
	RAYS = 8,
	PITCH = 64, /* floats of a line in shared memory: a whole number of rows of banks, so that
	             * lanes on different lines have no more bank conflicts */
	COPIED = 4, /* floats of a copy instruction */
	PIECES = PITCH / COPIED,
	FRACTION = 23,
	SLOPE_BITS = 30,
	MOST_PLANES = 4,
	KEPT = 256,      /* planes whose rectangles are computed at a time */
	LINES_FOUR = 72, /* most lines of a plane, with four planes or two */
	LINES_TWO = 144,
	MOST_VOXELS = 8192 /* along an axis, for the accuracy of slopes */
};

#define ROOM 1e-3 /* margin of the rectangles, in voxels */

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int count;
	const float *volume;
	int64_t stride[2]; /* along a, b */
	int n[3];          /* along a, b, c */
	int group;         /* views of a block: 1, 2, 4 or 8 */
	int along;         /* lanes of a warp side by side along c: 32, 16 or 8 */
	int most;          /* lines of a plane in shared memory */
	float *projections;
} Bundles;

/* Range of the positions of a warp's rays along b and c in plane k: from low + k low_rate to high +
 * k high_rate. */
typedef struct {
	double low[2], low_rate[2], high[2], high_rate[2];
} Edges;

/* The rectangle of a plane that is copied: first voxel along b and c, lines, pieces of a line. */
typedef struct {
	int j, i, lines, pieces;
} Frame;

/* The rays of a thread: positions in plane 0 along b and c, and slopes. */
typedef struct {
	unsigned p[RAYS], q[RAYS];
	int slope_p[RAYS], slope_q[RAYS];
	unsigned mine; /* bit r: ray r exists and has the dominant axis a */
} Lines;

/* The axes b and c of the dominant axis a. */
template <int A> struct Axes {
	static constexpr int B = A == 1 ? 0 : 1, C = A == 2 ? 0 : 2;
};

/* ---- rays ------------------------------------------------------------------------------------ */

/* Pixels of a thread: from (row, column) on, RAYS of them along the row or, if `swap`, the
 * column. */
typedef struct {
	int view, row, column;
	bool swap;
} Place;

static __device__ float share_of(const double d[3], int axis)
{
	return (float)(fabs(d[axis]) / (fabs(d[0]) + fabs(d[1]) + fabs(d[2])));
}

template <int BLOCK> static __device__ Place place_of(const Bundles &s, int c)
{
	const int warp = threadIdx.y, lane = threadIdx.x, sides = BLOCK / s.group;
	const int first = blockIdx.y * s.group;
	Place place = {.view = first + warp / sides};
	const KernelView *k = &s.views[first];
	place.swap = share_of(k->u, c) > share_of(k->v, c);
	int across = (blockIdx.x * sides + warp % sides) * (WARP / s.along) + lane / s.along;
	int along = blockIdx.z * s.along + lane % s.along;
	place.row = place.swap ? across * RAYS : along;
	place.column = place.swap ? along : across * RAYS;
	return place;
}

/* Row and column of ray r of a thread. */
static __device__ __forceinline__ int2 ray_pixel(const Place &place, int r)
{
	return make_int2(place.row + (place.swap ? r : 0), place.column + (place.swap ? 0 : r));
}

static __device__ bool is_pixel(const Bundles &s, const Place &place, int2 pixel)
{
	return place.view < s.count && pixel.x < s.model.rows && pixel.y < s.model.columns;
}

/* Positions along b and c in plane 0 of the box, and slopes; false if a is not the dominant
 * axis. */
template <int A>
static __device__ bool line_of(
	const Bundles &s, const Place &place, int2 pixel, double at[2], double slope[2])
{
	const KernelRay ray = kernel_ray(&s.grid, &s.views[place.view], pixel.x, pixel.y);
	const double rate = 1 / ray.direction[A];
	if (kernel_dominant(&ray) != A)
		return false;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		const int axis = i == 0 ? Axes<A>::B : Axes<A>::C;
		slope[i] = ray.direction[axis] * rate;
		at[i] = ray.start[axis] - (ray.start[A] - (double)s.grid.low[A]) * slope[i] -
			(double)s.grid.low[axis];
	}
	return true;
}

static __device__ unsigned fixed_of(double at)
{
	return (unsigned)__double2ll_rn(at * (1 << FRACTION));
}

/* Positions in plane 0 and beyond the last plane: least and most of each. */
typedef struct {
	double least[2][2], most[2][2];
} Ends;

static __device__ void ends_of_warp(Ends *ends)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		for (int apart = WARP / 2; apart > 0; apart /= 2) {
			double *least = &ends->least[i / 2][i % 2],
			       *most = &ends->most[i / 2][i % 2];
			*least = fmin(*least, __shfl_xor_sync(~0u, *least, apart));
			*most = fmax(*most, __shfl_xor_sync(~0u, *most, apart));
		}
}

/* The edges of the rays of a warp; beyond everything if it has none. Rays from one point, and
 * parallel ones, have straight edges; of others the chord is outside all of them. */
static __device__ Edges edges_of(const Bundles &s, Ends ends)
{
	const double inverse = 1. / (s.n[0] + MOST_PLANES), never = 1e8;
	Edges edges;
	ends_of_warp(&ends);
	const bool none = ends.least[0][0] > ends.most[0][0];
	for (int i = 0; i < 2; i++) {
		edges.low[i] = none ? never : ends.least[0][i] - ROOM;
		edges.high[i] = none ? -never : ends.most[0][i] + ROOM;
		edges.low_rate[i] = none ? 0 : (ends.least[1][i] - ends.least[0][i]) * inverse;
		edges.high_rate[i] = none ? 0 : (ends.most[1][i] - ends.most[0][i]) * inverse;
	}
	return edges;
}

/* Rays that are not computed follow another one of the warp, so that they stay inside the
 * rectangles. */
static __device__ void fill_lines(Lines *lines)
{
	unsigned p = 0, q = 0;
	int slope_p = 0, slope_q = 0;
#pragma unroll
	for (int r = 0; r < RAYS; r++)
		if (lines->mine >> r & 1) {
			p = lines->p[r];
			q = lines->q[r];
			slope_p = lines->slope_p[r];
			slope_q = lines->slope_q[r];
		}
	const int from = max(__ffs((int)__ballot_sync(~0u, lines->mine != 0)) - 1, 0);
	p = __shfl_sync(~0u, p, from);
	q = __shfl_sync(~0u, q, from);
	slope_p = __shfl_sync(~0u, slope_p, from);
	slope_q = __shfl_sync(~0u, slope_q, from);
#pragma unroll
	for (int r = 0; r < RAYS; r++)
		if (!(lines->mine >> r & 1)) {
			lines->p[r] = p;
			lines->q[r] = q;
			lines->slope_p[r] = slope_p;
			lines->slope_q[r] = slope_q;
		}
}

template <int A>
static __device__ Lines lines_of(const Bundles &s, const Place &place, Edges *edges)
{
	Lines lines = {.mine = 0};
	Ends ends = {{{1e300, 1e300}, {1e300, 1e300}}, {{-1e300, -1e300}, {-1e300, -1e300}}};
#pragma unroll
	for (int r = 0; r < RAYS; r++) {
		double at[2], slope[2];
		const int2 pixel = ray_pixel(place, r);
		if (!is_pixel(s, place, pixel) || !line_of<A>(s, place, pixel, at, slope))
			continue;
		lines.mine |= 1u << r;
		lines.p[r] = fixed_of(at[0]);
		lines.q[r] = fixed_of(at[1]);
		lines.slope_p[r] = __double2int_rn(slope[0] * (1 << SLOPE_BITS));
		lines.slope_q[r] = __double2int_rn(slope[1] * (1 << SLOPE_BITS));
		for (int i = 0; i < 2; i++) {
			const double last = at[i] + (s.n[0] + MOST_PLANES) * slope[i];
			ends.least[0][i] = fmin(ends.least[0][i], at[i]);
			ends.most[0][i] = fmax(ends.most[0][i], at[i]);
			ends.least[1][i] = fmin(ends.least[1][i], last);
			ends.most[1][i] = fmax(ends.most[1][i], last);
		}
	}
	*edges = edges_of(s, ends);
	fill_lines(&lines);
	return lines;
}

/* ---- rectangles ------------------------------------------------------------------------------ */

static __device__ int least_edge(const Edges &edges, int i, double k)
{
	return (int)floor(fma(k, edges.low_rate[i], edges.low[i]));
}

static __device__ int most_edge(const Edges &edges, int i, double k)
{
	return (int)floor(fma(k, edges.high_rate[i], edges.high[i])) + 1;
}

/* The rectangle of plane k that the rays of all warps need; without lines if it is too large. */
template <int BLOCK> static __device__ Frame frame_of(const Bundles &s, const Edges *edges, int k)
{
	int low[2] = {1 << 30, 1 << 30}, high[2] = {-(1 << 30), -(1 << 30)};
#pragma unroll 1
	for (int warp = 0; warp < BLOCK; warp++)
#pragma unroll
		for (int i = 0; i < 2; i++) {
			low[i] = min(low[i], least_edge(edges[warp], i, k));
			high[i] = max(high[i], most_edge(edges[warp], i, k));
		}
	low[1] &= ~(COPIED - 1);
	const int lines = high[0] - low[0] + 1, pieces = (high[1] - low[1]) / COPIED + 1;
	const bool fits = lines <= s.most && pieces <= PIECES;
	return Frame{low[0], low[1], fits ? lines : 0, pieces};
}

/* Whether rays of a block may meet the box in planes k .. end - 1. */
template <int BLOCK>
static __device__ bool is_met(const Bundles &s, const Edges *edges, int k, int end)
{
	bool met = false;
#pragma unroll 1
	for (int warp = 0; warp < BLOCK && !met; warp++) {
		met = true;
		for (int i = 0; i < 2; i++) {
			const int one = least_edge(edges[warp], i, k),
				  two = least_edge(edges[warp], i, end - 1);
			const int three = most_edge(edges[warp], i, k),
				  four = most_edge(edges[warp], i, end - 1);
			met = met && min(one, two) < s.n[1 + i] && max(three, four) >= 0;
		}
	}
	return met;
}

/* Starts the asynchronous copy of the rectangles of PLANES planes; several warps for each. */
template <int BLOCK, int PLANES>
static __device__ __forceinline__ void bring(
	const Bundles &s, int k0, float *tiles, const Frame *frames)
{
	constexpr int AT_ONCE = WARP / PIECES * (BLOCK / PLANES), BYTES = COPIED * sizeof(float);
	const int plane = threadIdx.y % PLANES, piece = threadIdx.x % PIECES, k = k0 + plane;
	const Frame frame = frames[plane];
	int line = threadIdx.y / PLANES * (WARP / PIECES) + threadIdx.x / PIECES;
	if (piece >= frame.pieces)
		return;
	const int i = frame.i + piece * COPIED;
	const bool column = k < s.n[0] && (unsigned)i < (unsigned)s.n[2];
	const float *from = s.volume + k * s.stride[0] + (frame.j + line) * s.stride[1] + i;
	float *to = tiles + (plane * s.most + line) * PITCH + piece * COPIED;
	const int64_t step = AT_ONCE * s.stride[1];
	if (column && frame.j >= 0 && frame.j + frame.lines <= s.n[1]) {
#pragma unroll 4
		for (; line < frame.lines; line += AT_ONCE, from += step, to += AT_ONCE * PITCH)
			__pipeline_memcpy_async(to, from, BYTES);
		return;
	}
	for (; line < frame.lines; line += AT_ONCE, from += step, to += AT_ONCE * PITCH) {
		const bool inside = column && (unsigned)(frame.j + line) < (unsigned)s.n[1];
		__pipeline_memcpy_async(to, inside ? from : s.volume, BYTES, inside ? 0 : BYTES);
	}
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Position in plane k. */
static __device__ __forceinline__ unsigned advance(unsigned at, int slope, int k)
{
	return at + (unsigned)(((int64_t)k * slope) >> (SLOPE_BITS - FRACTION));
}

/* The fraction of a position. */
static __device__ __forceinline__ float part_of(unsigned at)
{
	return __uint_as_float((at & ((1u << FRACTION) - 1)) | 0x3f800000u) - 1;
}

template <int PLANES>
static __device__ __forceinline__ void cross(const Bundles &s, const Lines &lines, int k0,
	const float *tiles, const Frame *frames, float sum[RAYS])
{
	unsigned j[PLANES], i[PLANES];
#pragma unroll
	for (int k = 0; k < PLANES; k++) {
		j[k] = (unsigned)(frames[k].j - (k > 0 ? frames[k - 1].j : 0)) << FRACTION;
		i[k] = (unsigned)(frames[k].i - (k > 0 ? frames[k - 1].i : 0)) << FRACTION;
	}
#pragma unroll
	for (int r = 0; r < RAYS; r++) {
		unsigned p = advance(lines.p[r], lines.slope_p[r], k0);
		unsigned q = advance(lines.q[r], lines.slope_q[r], k0);
#pragma unroll
		for (int k = 0; k < PLANES; k++) {
			const int more = SLOPE_BITS - FRACTION;
			p += (k > 0 ? (unsigned)(lines.slope_p[r] >> more) : 0u) - j[k];
			q += (k > 0 ? (unsigned)(lines.slope_q[r] >> more) : 0u) - i[k];
			const float *at =
				tiles + (k * s.most * PITCH +
						(int)((p >> FRACTION) * PITCH + (q >> FRACTION)));
			const float right = part_of(q), up = part_of(p);
			const float low = fmaf(right, at[1] - at[0], at[0]);
			const float high = fmaf(right, at[PITCH + 1] - at[PITCH], at[PITCH]);
			sum[r] = fmaf(up, high - low, sum[r] + low);
		}
	}
}

static __device__ float voxel_of(const Bundles &s, int k, int64_t j, int64_t i)
{
	bool inside = j >= 0 && j < s.n[1] && i >= 0 && i < s.n[2];
	return inside ? __ldg(s.volume + k * s.stride[0] + j * s.stride[1] + i) : 0;
}

/* Samples from device memory, for rectangles that do not fit into shared memory. */
template <int A>
static __device__ __noinline__ void cross_beyond(const Bundles &s, Place place, int k0, int end)
{
	for (int r = 0; r < RAYS; r++) {
		double at[2], slope[2], sum = 0;
		const int2 pixel = ray_pixel(place, r);
		if (!is_pixel(s, place, pixel) || !line_of<A>(s, place, pixel, at, slope))
			continue;
		for (int k = k0; k < end; k++) {
			const double p = at[0] + k * slope[0], q = at[1] + k * slope[1];
			const int64_t j = (int64_t)floor(p), i = (int64_t)floor(q);
			const double up = p - (double)j, right = q - (double)i;
			sum += (1 - up) * ((1 - right) * voxel_of(s, k, j, i) +
						  right * voxel_of(s, k, j, i + 1)) +
			       up * ((1 - right) * voxel_of(s, k, j + 1, i) +
					    right * voxel_of(s, k, j + 1, i + 1));
		}
		const KernelRay ray = kernel_ray(&s.grid, &s.views[place.view], pixel.x, pixel.y);
		s.projections[((int64_t)place.view * s.model.rows + pixel.x) * s.model.columns +
			      pixel.y] += (float)(sum * ray.length / fabs(ray.direction[A]));
	}
}

template <int A>
static __device__ __forceinline__ void put_sums(
	const Bundles &s, const Place &place, unsigned mine, const float sum[RAYS])
{
#pragma unroll
	for (int r = 0; r < RAYS; r++) {
		const int2 pixel = ray_pixel(place, r);
		if (!(mine >> r & 1))
			continue;
		const KernelRay ray = kernel_ray(&s.grid, &s.views[place.view], pixel.x, pixel.y);
		const float step = (float)(ray.length / fabs(ray.direction[A]));
		s.projections[((int64_t)place.view * s.model.rows + pixel.x) * s.model.columns +
			      pixel.y] += step * sum[r];
	}
}

/* Narrows first .. end - 1, in steps of PLANES planes, to those in which rays may meet the box. */
template <int BLOCK, int PLANES>
static __device__ void steps_of(const Bundles &s, const Edges *edges, int *first, int *end)
{
	const int steps = (s.n[0] + PLANES - 1) / PLANES;
	for (int i = threadIdx.y * WARP + threadIdx.x; i < steps; i += BLOCK * WARP)
		if (is_met<BLOCK>(s, edges, i * PLANES, (i + 1) * PLANES)) {
			atomicMin(first, i);
			atomicMax(end, i + 1);
		}
}

template <int A, int BLOCK, int PLANES>
static __global__ void __launch_bounds__(BLOCK *WARP, 2 * MOST_WARPS / BLOCK)
	bundle_forward(const __grid_constant__ Bundles s)
{
	extern __shared__ __align__(16) float tiles[];
	__shared__ Edges edges[BLOCK];
	__shared__ __align__(16) Frame kept[KEPT];
	__shared__ int first, end;
	const Place place = place_of<BLOCK>(s, Axes<A>::C);
	Edges own;
	const Lines lines = lines_of<A>(s, place, &own);
	if (threadIdx.x == 0)
		edges[threadIdx.y] = own;
	if (threadIdx.x == 0 && threadIdx.y == 0) {
		first = 1 << 30;
		end = 0;
	}
	if (!__syncthreads_or(lines.mine != 0))
		return;
	steps_of<BLOCK, PLANES>(s, edges, &first, &end);
	__syncthreads();
	const bool warp_has = __any_sync(~0u, lines.mine != 0);
	float sum[RAYS] = {0};
	for (int step = first; step < end; step++) {
		const int k0 = step * PLANES, at = (step - first) * PLANES % KEPT;
		const Frame *frames = kept + at;
		if (at == 0) {
#pragma unroll 1
			for (int k = threadIdx.y * WARP + threadIdx.x; k < KEPT; k += BLOCK * WARP)
				kept[k] = frame_of<BLOCK>(s, edges, k0 + k);
			__syncthreads();
		}
		bring<BLOCK, PLANES>(s, k0, tiles, frames);
		__pipeline_commit();
		__pipeline_wait_prior(0);
		__syncthreads();
		bool all = true;
#pragma unroll
		for (int k = 0; k < PLANES; k++)
			all = all && frames[k].lines > 0;
		if (all && warp_has)
			cross<PLANES>(s, lines, k0, tiles, frames, sum);
		else if (warp_has)
			cross_beyond<A>(s, place, k0, min(k0 + PLANES, s.n[0]));
		__syncthreads(); /* before the rectangles are overwritten */
	}
	put_sums<A>(s, place, lines.mine, sum);
}

#endif
