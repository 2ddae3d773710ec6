/* Shares of pixels in the footprint of one voxel (kernel/footprint.h), in float, for point sources
 * and parallel rays in any direction.
 *
 * A voxel with projection (U, V) / D has edges that appear |f - u d| / D wide, f and d being the
 * changes of U and D along the edge. All lengths are left multiplied by D, which cancels in the
 * shares, so that one reciprocal serves both coordinates. A footprint no longer than N - 1 pixels
 * meets at most N of them, and only the N - 1 edges between these need the trapezoid's integral.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SHARES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_SHARES_H

#include "backend/cuda/kernels/footprint.h"

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* U or V: changes along x, y and z (or other axes), and the constant. */
typedef struct {
	float x, y, z, w;
} Affine;

static __device__ __forceinline__ float inverse_root(float x)
{
	float result;
	asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
	return result;
}

/* The trapezoid of one coordinate, lengths times D. */
typedef struct {
	float wide, narrow, flat; /* boxes; half the length of the top */
	float bend;               /* 1 / (2 narrow) */
} Shape;

/* u: the coordinate; f, d: changes of U and D. */
static __device__ __forceinline__ Shape shape_of(const Affine &f, const Affine &d, float u)
{
	const float x = fabsf(fmaf(-u, d.x, f.x)), y = fabsf(fmaf(-u, d.y, f.y)),
		    z = fabsf(fmaf(-u, d.z, f.z));
	const float larger = fmaxf(x, y), one = fminf(x, y), two = fminf(larger, z);
	Shape s;
	s.wide = fmaxf(larger, fmaxf(z, FOOTPRINT_LEAST));
	const float square = fminf(fmaf(one, one, fmaf(two, two, 1e-18f)), s.wide * s.wide);
	const float root = inverse_root(square);
	s.narrow = square * root;
	s.bend = 0.5f * root;
	s.flat = 0.5f * (s.wide - s.narrow);
	return s;
}

/* The integral of the footprint from its centre to s, times `wide`; both lengths times D. */
static __device__ __forceinline__ float shape_integral(const Shape &shape, float s)
{
	const float far = fminf(fabsf(s) - shape.flat, shape.narrow), curved = fmaxf(far, 0.f);
	return copysignf(fmaf(-curved * shape.bend, curved, far + shape.flat), s);
}

/* The first pixel that a footprint meets, plus MAGIC. */
static __device__ __forceinline__ float first_pixel(const Shape &shape, float u, float rate)
{
	return __fadd_rn(fmaf(-(shape.flat + shape.narrow), rate, u), MAGIC);
}

/* The shares of N pixels from `first` on, times `wide`. U: the coordinate times depth. */
template <int N>
static __device__ __forceinline__ void shares_of(
	const Shape &shape, float first, float U, float depth, float share[N])
{
	float s = fmaf(first + 0.5f, depth, -U), last = -0.5f * shape.wide;
#pragma unroll
	for (int i = 0; i < N - 1; i++, s += depth) {
		const float next = shape_integral(shape, s);
		share[i] = next - last;
		last = next;
	}
	share[N - 1] = 0.5f * shape.wide - last;
}

/* Pixels that a footprint meets in each coordinate, at most: columns and rows. */
#define SHARE_KINDS(KIND) \
	KIND(0, 2, 2) \
	KIND(1, 3, 2) \
	KIND(2, 3, 3) \
	KIND(3, 4, 3) \
	KIND(4, 4, 4) \
	KIND(5, 5, 5) \
	KIND(6, 7, 7)

enum { SHARES_MOST = 7 };

/* The first kind that is enough for footprints of these lengths; -1: none. */
static __host__ __device__ __forceinline__ int share_kind(float across, float along)
{
#define KIND(number, NC, NR) \
	if (across <= NC - 1 && along <= NR - 1) \
		return number;
	SHARE_KINDS(KIND)
#undef KIND
	return -1;
}

/* Columns or rows of a kind. */
static __host__ __device__ inline int share_pixels(int kind, int rows)
{
#define KIND(number, NC, NR) \
	if (kind == number) \
		return rows ? NR : NC;
	SHARE_KINDS(KIND)
#undef KIND
	return 0;
}

/* ---- extent ---------------------------------------------------------------------------------- */

/* Length of a footprint in coordinate f / depth at a voxel, in pixels. */
static __host__ __device__ inline double footprint_length(
	const double f[4], const double d[4], double at, double depth)
{
	double wide = 0, square = 0;
	for (int a = 0; a < 3; a++) {
		const double edge = fabs(f[a] - at * d[a]) / depth;
		wide = fmax(wide, edge);
		square += edge * edge;
	}
	return wide + fmin(sqrt(fmax(square - wide * wide, 0.0)), wide);
}

#endif
