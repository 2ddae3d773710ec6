/* What a warp of footprint_forward_upright.cu sees of a view: positions of voxels on some planes,
 * and which columns of voxels its detector columns meet. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_UPRIGHT_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_UPRIGHT_H

#include "backend/cuda/kernels/footprint.h"
#include "backend/cuda/kernels/lanes.h"

enum {
	UNITS = 96,   /* columns of voxels in shared memory, of a warp */
	SEGMENT = 32, /* planes whose positions are counted from the same voxel */
	BLOCKS = 2    /* per SM */
};

/* Detector rows of a warp. */
template <class Value> constexpr int ROWS = PARTS<Value> == 4 ? 8 : 16;

typedef struct {
	const KernelView *views;
	int64_t count; /* views, or those of a quarter of the circle */
	int direction; /* `quarter` of RayClass */
	int together;  /* neighbouring views of a block: 1, 2, 4 or 8 */
	int weighting, rows, columns;
	int64_t low[3];
	double step[3];
	int n[3];
	const void
		*volume[2]; /* by axis a of the planes: Value [z][a][b]; NULL: in another launch */
	float *projections;
} Sheets;

/* Sums over rows of a column of voxels, and its footprint along a row. */
template <class Value> struct Spread {
	Value sums[ROWS<Value>][UNITS];
	float4 across[UNITS]; /* centre, narrow, reach, weight / wide */
};

/* A view as a warp sees it from voxel (k0, b0, 0) of the box on. The voxel dk planes and db columns
 * farther has D = d, U - c D = u, where c is the warp's first detector column, and the lower edge
 * of the warp's first row passes it at height z; each is a constant, its change per plane and per
 * column. Heights count boundaries of voxels, from slice `slice` on. Half the narrow box of voxel j
 * is |flat + bent (j - source) / D|, on the warp's rows at most `rows`. */
typedef struct {
	float u[3], d[3], z[3];
	float inverse; /* voxels per row, divided by D or, of fans, by 1 (lower: 0) */
	float flat, bent, shape, source, rows;
	float away[2], step[3], rise; /* from the source to the voxel, in units of length */
	float scale, lower;
	int slice, b0;
} Local;

/* The column b nearest to the rays of the warp's middle column on plane k0. */
static __device__ int middle_of(
	const Sheets &s, const KernelView *k, const int axes[2], int column, int k0)
{
	const double c = column + 0.5 * (WARP - 1);
	double constant = k->column[3] - c * k->depth[3], by[2];
	for (int i = 0; i < 2; i++) {
		const int a = axes[i];
		by[i] = k->column[a] - c * k->depth[a];
		constant += by[i] * (double)(s.low[a] + (i == 0 ? k0 : 0));
	}
	const double last = (double)(s.n[axes[1]] - 1), b = by[1] != 0 ? -constant / by[1] : 0;
	return (int)fmin(fmax(b, 0.0), last);
}

static __device__ __noinline__ void local_of(const Sheets &s, const KernelView *k,
	const int axes[2], int row, int rows, int column, int k0, Local *to)
{
	const int b0 = middle_of(s, k, axes, column, k0);
	double at[3] = {0, 0, (double)s.low[2]};
	at[axes[0]] = (double)(s.low[axes[0]] + k0);
	at[axes[1]] = (double)(s.low[axes[1]] + b0);
	const bool fans = KERNEL_FANS(k);
	const double c = (double)column, edge = (double)row - 0.5, inverse = 1 / k->row[2];
	const double depth = footprint_affine(k->depth, at);
	const double z = (edge * (fans ? 1 : depth) - footprint_affine(k->row, at)) * inverse + 0.5;
	const double near = fmin(fmax(floor(z), -1e6), 1e6);
	const FootprintHalf half = footprint_half(k, 0);
	const double first = fabs(half.flat - half.bent * edge),
		     last = fabs(half.flat - half.bent * (edge + rows));
	Local l = {.u = {(float)(footprint_affine(k->column, at) - c * depth)},
		.d = {(float)depth},
		.z = {(float)(z - near)},
		.inverse = (float)inverse,
		.flat = half.bent > 0 ? 0 : (float)(half.flat * inverse),
		.bent = (float)half.bent,
		.shape = (float)half.shape,
		.source = half.bent > 0 ? (float)(k->src[2] - at[2] - near) : 0,
		.rows = (float)(fmax(first, last) * inverse),
		.rise = fans ? 0 : (float)((at[2] + near - k->src[2]) * s.step[2]),
		.scale = s.weighting == WEIGHT_RAY ? (float)k->mass : 1,
		.lower = fans ? 0.f : 1.f,
		.slice = (int)near,
		.b0 = b0};
	for (int i = 0; i < 2; i++) {
		const int a = axes[i];
		l.u[i + 1] = (float)(k->column[a] - c * k->depth[a]);
		l.d[i + 1] = (float)k->depth[a];
		l.z[i + 1] = (float)((edge * (fans ? 0 : k->depth[a]) - k->row[a]) * inverse);
		l.away[i] = (float)((at[a] - k->src[a]) * s.step[a]);
		l.step[i] = (float)s.step[a];
	}
	l.step[2] = fans ? 0 : (float)s.step[2];
	*to = l;
}

static __device__ __forceinline__ float along(const float f[3], float dk, float db)
{
	return fmaf(f[1], dk, fmaf(f[2], db, f[0]));
}

/* ---- columns that rays meet ------------------------------------------------------------------ */

/* Where the rays of a lane's detector column pass the planes of a segment: column b at p + dk
 * slope, and columns up to `half` from there have footprints that meet it. */
typedef struct {
	float p, slope, half;
	bool valid; /* the rays cross the planes */
} Track;

static __device__ __forceinline__ Track path_of(const Local &l, float c, int planes, int b0, int nb)
{
	const float constant = fmaf(-c, l.d[0], l.u[0]), by_k = fmaf(-c, l.d[1], l.u[1]),
		    by_b = fmaf(-c, l.d[2], l.u[2]);
	Track path = {0, 0, 0, fabsf(by_b) > 0.05f * fabsf(by_k)};
	if (!path.valid)
		return path;
	path.p = -constant / by_b;
	path.slope = -by_k / by_b;
	float deepest = 0, nearest = 1e30f;
#pragma unroll
	for (int end = 0; end < 2; end++) {
		const float k = end ? (float)(planes - 1) : 0.f, b = fmaf(k, path.slope, path.p);
		const float inside = fminf(fmaxf(b, (float)-b0), (float)(nb - 1 - b0));
		const float d = along(l.d, k, inside);
		deepest = fmaxf(deepest, d);
		nearest = fminf(nearest, d);
	}
	/* Where depth and column step are those of the path; within `half` of it they differ. */
	const float half = 0.5f * (deepest + fabsf(by_k) + fabsf(by_b)) / fabsf(by_b);
	path.half = half * (1 + 4 * (fabsf(l.d[1]) + fabsf(l.d[2])) * (half + 1) / nearest) + 0.05f;
	return path;
}

/* The columns of voxels that a warp's detector columns meet on plane dk: `width` from
 * first_of(...) on. */
typedef struct {
	float p0, slope0, p1, slope1, half; /* of the outermost detector columns; half: of all */
	int low, high;                      /* columns of the box */
	bool whole;                         /* all columns of the box */
} Range;

static __device__ __forceinline__ int first_of(const Range &r, int dk)
{
	const float k = (float)dk,
		    b = fminf(fmaf(k, r.slope0, r.p0), fmaf(k, r.slope1, r.p1)) - r.half;
	return r.whole ? r.low : (int)ceilf(fminf(fmaxf(b, (float)r.low), (float)(r.high + 1)));
}

static __device__ __forceinline__ int end_of(const Range &r, int dk)
{
	const float k = (float)dk,
		    b = fmaxf(fmaf(k, r.slope0, r.p0), fmaf(k, r.slope1, r.p1)) + r.half;
	return (r.whole ? r.high
			: (int)floorf(fminf(fmaxf(b, (float)(r.low - 1)), (float)r.high))) +
	       1;
}

static __device__ __forceinline__ Range range_of(const Track &path, int low, int high)
{
	Range r;
	float half = path.half;
#pragma unroll
	for (int apart = WARP / 2; apart > 0; apart /= 2)
		half = fmaxf(half, __shfl_xor_sync(~0u, half, apart));
	r.p0 = __shfl_sync(~0u, path.p, 0);
	r.slope0 = __shfl_sync(~0u, path.slope, 0);
	r.p1 = __shfl_sync(~0u, path.p, WARP - 1);
	r.slope1 = __shfl_sync(~0u, path.slope, WARP - 1);
	r.half = half;
	r.low = low;
	r.high = high;
	r.whole = !__all_sync(~0u, path.valid);
	return r;
}

/* ---- rows of a column of voxels -------------------------------------------------------------- */

/* Lengths of a boundary at t, counted from the lower edge of the first of S samples: of sample s,
 * that which is below, averaged over its narrow box, half of which is half[s]. */
template <int S>
static __device__ __forceinline__ void lengths_below(
	float t, const float *half, const float *quarter, float below[S])
{
	float lower[S], upper[S];
	lower[0] = t;
	upper[S - 1] = 0;
#pragma unroll
	for (int e = 1; e < S; e++) {
		/* Only the last edge is at most one sample before the boundary. */
		const float far = t - (float)e,
			    after = e == S - 1 ? __saturatef(t - (float)e) : fmaxf(far, 0.f);
		const float q = overlap(half[e], far), p = overlap(half[e - 1], far);
		lower[e] = fmaf(q * quarter[e], q, after);
		upper[e - 1] = fmaf(p * quarter[e - 1], p, after);
	}
#pragma unroll
	for (int s = 0; s < S; s++)
		below[s] = lower[s] - upper[s];
}

/* Adds the samples between two boundaries, whose first samples are D apart. */
template <int S, int D, class Value>
static __device__ __forceinline__ Value add_between(
	const float low[S], const float high[S], const Value *x)
{
	Value sum = scaled(1 - low[0], x[0]);
#pragma unroll
	for (int i = D == 0 ? 0 : 1; i < D + S; i++) {
		const float below = i < D ? 1 : high[i - D],
			    weight = i < S ? below - low[i] : below;
		if (D == 0 && i == 0)
			sum = scaled(weight, x[0]);
		else
			add_scaled(sum, weight, x[i]);
	}
	return sum;
}

#endif
