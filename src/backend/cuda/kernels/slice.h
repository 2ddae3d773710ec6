/* In-slice rays in one slice, or in a few slices one after the other. Forward, a thread follows one
 * ray; back, it computes PIXELS pixels and visits all views. Slices and detector rows (the samples)
 * are first copied into arrays with a border of zeros, so that the loops need no bounds checks.
 *
 * Adding a large number rounds a position to the nearest sample i and leaves d = position - i in
 * -1/2 .. 1/2. For linear interpolation, a sample is stored as a pair: the value half-way to the
 * next sample, and the difference to it; this takes one load and two FMAs. Other hat functions read
 * the 2 samples on either side, or the 3 or 5 nearest ones. Intersection lengths (`line`) read the
 * same samples: forward, they are a linear interpolation whose transition is as wide as the slope
 * of the ray (ray_forward_any.cu); back, a hat function cut off at the top.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICE_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICE_H

#include "backend/cuda/kernels/transpose.h"

enum {
	WIDE = 32,
	HIGH = 8,
	GROUP = 4,
	PIXELS = 2,
	VIEWS = 256,
	SEGMENT = 32,
	PARTS = 16,         /* threads per ray, with few rays */
	FEW_RAYS = 1 << 15, /* fewer than a GPU has threads for */
	MOST_SLICES = 7,
	FEW_VIEWS = 8, /* fused updates recompute their weights up to this number of views */
	BORDER = 4
};

/* LINE, rays parallel to an axis. NUDGE: those on the face between two pixels belong to the next
 * pixel, whatever the rounding. STEEP: steepness of a hat with vertical sides. */
#define NUDGE 1e-4
#define STEEP 1e5

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* Blocks wanted per SM; older GPUs allow fewer threads. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800
#define BLOCKS 4
#else
#define BLOCKS 6
#endif

typedef enum { LINEAR, TWO, THREE, FIVE } Taps;
typedef enum { HAT, LINE } Weights;

typedef struct {
	const HatView *views;
	int64_t count, columns, stride; /* stride: from one view to the next in the projections */
	int na, nb;
	int64_t low_a, low_b;
	const float *samples, *transposed; /* with borders; pairs where LINEAR */
	int64_t first;                     /* back: column of the first sample of a row */
	int pitch;
	float *to;
	bool fused; /* back: pixels are updated by `with`; else sums are added */
	CudaUpdate with;
} Plane;

/* Whether d is relative to the point half-way between two samples. */
static __host__ __device__ constexpr bool is_between(Taps taps)
{
	return taps == LINEAR || taps == TWO;
}

/* Floats stored per sample. */
static __host__ __device__ constexpr int floats_of(Taps taps)
{
	return taps == LINEAR ? 2 : 1;
}

static __device__ __forceinline__ float round_off(float t, int *i)
{
	float rounded = __fadd_rn(t, MAGIC);
	*i = __float_as_int(rounded) - __float_as_int(MAGIC);
	return t - __fadd_rn(rounded, -MAGIC);
}

/* Adds the weighted samples around position i + d to `sum`. at: sample 0; s: slope of the sides
 * of the hat; top: height at which the sides would meet or, for TWO, the value of the sides
 * half-way between the samples. */
template <Weights W, Taps T>
static __device__ __forceinline__ float meet(
	const float *at, int i, float d, float s, float top, float sum)
{
	if (T == LINEAR) {
		float2 pair = __ldg((const float2 *)at + i);
		if (W == LINE)
			d = fma_saturate(d, s, 0.5f) - 0.5f;
		return fmaf(d, pair.y, sum) + pair.x;
	}
	const float *here = at + i;
	if (T == TWO) {
		sum = fmaf(fma_saturate(-d, s, top), __ldg(here), sum);
		return fmaf(fma_saturate(d, s, top), __ldg(here + 1), sum);
	}
	float more = top - s;
	sum = fmaf(fma_saturate(-fabsf(d), s, top), __ldg(here), sum);
	sum = fmaf(fma_saturate(-d, s, more), __ldg(here - 1), sum);
	sum = fmaf(fma_saturate(d, s, more), __ldg(here + 1), sum);
	if (T == THREE)
		return sum;
	sum = fmaf(fma_saturate(-d, s, more - s), __ldg(here - 2), sum);
	return fmaf(fma_saturate(d, s, more - s), __ldg(here + 2), sum);
}

/* ---- borders --------------------------------------------------------------------------------- */

typedef struct {
	const float *from;
	float *to;
	int n, first, pitch;         /* samples per row of `from`; the first one to copy; their
	                              * number */
	int64_t rows, along, across; /* number of rows; strides of `from` between samples and
	                              * rows */
	const HatView *views;        /* multiply each row by the weight of its view; NULL: no
	                              * weights */
	bool pairs;
} Border;

static __device__ float sample_of(const Border *b, int64_t row, int i)
{
	if (i < 0 || i >= b->n)
		return 0;
	float weight = b->views ? b->views[row].weight : 1;
	return weight * b->from[row * b->across + i * b->along];
}

static __global__ void set_border(const __grid_constant__ Border b)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= b.pitch)
		return;
	for (int64_t row = blockIdx.y; row < b.rows; row += gridDim.y) {
		float here = sample_of(&b, row, b.first + c);
		if (b.pairs) {
			float next = sample_of(&b, row, b.first + c + 1);
			((float2 *)b.to)[row * b.pitch + c] =
				make_float2(0.5f * (here + next), next - here);
		} else {
			b.to[row * b.pitch + c] = here;
		}
	}
}

static void launch_border(cudaStream_t stream, const Border *b)
{
	set_border<<<dim3(cuda_blocks(b->pitch, 128, 1 << 30), cuda_blocks(b->rows, 1, 65535)), 128,
		0, stream>>>(*b);
}

/* The lines of a slice of n[0] x n[1] pixels, in order and transposed, each with `border` zeros
 * before it and outside - border after it. */
static tomos_status border_slice(tomos_backend *backend, const float *slice, const int n[2],
	int border, int outside, bool pairs, float *bordered[2])
{
	static const int names[2] = {SCRATCH_REORDERED, SCRATCH_ROWS};
	for (int i = 0; i < 2; i++) {
		const int pitch = n[i] + outside, rows = n[1 - i];
		TRY(cuda_scratch(backend, names[i], (int64_t)(pairs ? 2 : 1) * pitch * rows,
			&bordered[i], "a slice with a border"));
		const Border b = {.from = slice,
			.to = bordered[i],
			.n = n[i],
			.first = -border,
			.pitch = pitch,
			.rows = rows,
			.along = i ? n[0] : 1,
			.across = i ? 1 : n[0],
			.pairs = pairs};
		launch_border(device_of(backend)->stream, &b);
	}
	return TOMOS_OK;
}

/* Whether a ray is parallel to an axis, up to rounding; as in kernel_ray. */
static __device__ bool is_level(double slope)
{
	return fabs(slope) < 1e-12;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Sum over segments `part`, `part` + parts, ... of a ray. p: position in plane 0; slope: change
 * per plane; planes: number of planes; n: samples per plane; s: slope of the hat's sides. */
template <Weights W, Taps T>
static __device__ __forceinline__ float follow(
	const float *from, double p, double slope, int planes, int n, float s, int part, int parts)
{
	const int floats = floats_of(T), pitch = (n + 2 * BORDER + 1) * floats;
	const double half = T == LINEAR ? 0.5 : 0;
	float sum = 0, rate = (float)slope;
	for (int k0 = part * SEGMENT; k0 < planes; k0 += parts * SEGMENT) {
		double start = p + k0 * slope - half, whole = rint(fmax(fmin(start, 1e9), -1e9));
		if (fmax(start, start + SEGMENT * slope) < -2 ||
			fmin(start, start + SEGMENT * slope) > n + 1)
			continue;
		float f = (float)(start - whole);
		const float *line = from + (int64_t)k0 * pitch + ((int)whole + BORDER) * floats;
		int end = min(SEGMENT, planes - k0), i;
		double last = start + SEGMENT * slope;
		if (end == SEGMENT && fmin(start, last) >= -2 && fmax(start, last) <= n + 1) {
#pragma unroll
			for (unsigned k = 0; k < SEGMENT; k++) {
				float d = round_off(fmaf((float)k, rate, f), &i);
				sum = meet<W, T>(line + k * (unsigned)pitch, i, d, s, 1, sum);
			}
			continue;
		}
		/* Positions beyond the border are clamped to it. */
		float low = (float)(-2 - whole), high = (float)(n + 1 - whole);
		for (int k = 0; k < end; k++, line += pitch) {
			float d = round_off(fminf(fmaxf(fmaf((float)k, rate, f), low), high), &i);
			sum = meet<W, T>(line, i, d, s, 1, sum);
		}
	}
	return sum;
}

template <Weights W, Taps T>
static __device__ __forceinline__ float sum_ray(
	const Plane &s, int64_t view, int64_t c, int part, int parts)
{
	const HatView hat = s.views[view];
	double e0 = hat.e0 + hat.ea * (double)s.low_a + hat.eb * (double)s.low_b;
	double across = hat.along ? hat.ea : hat.eb, down = hat.along ? hat.eb : hat.ea;
	double p = ((double)c - e0) / across, slope = -down / across;
	float steep = (float)fabs(across) / hat.h;
	if (W == LINE) {
		bool level = is_level(slope);
		steep = level ? 1 : (float)(1 / fabs(slope));
		p = level ? floor(p + 0.5 + NUDGE) : p;
		slope = level ? 0 : slope;
	}
	return hat.weight *
	       (hat.along ? follow<W, T>(s.samples, p, slope, s.nb, s.na, steep, part, parts)
			  : follow<W, T>(s.transposed, p, slope, s.na, s.nb, steep, part, parts));
}

template <Weights W, Taps T>
static __global__ void __launch_bounds__(WIDE *HIGH, BLOCKS)
	plane_forward(const __grid_constant__ Plane s)
{
	/* Neighbouring views read nearly the same pixels: a block has GROUP views of the same
	 * columns. */
	int64_t c = (int64_t)blockIdx.x * (WIDE * HIGH / GROUP) + threadIdx.y / GROUP * WIDE +
		    threadIdx.x;
	int64_t view = (int64_t)blockIdx.y * GROUP + threadIdx.y % GROUP;
	if (c < s.columns && view < s.count)
		s.to[view * s.stride + c] += sum_ray<W, T>(s, view, c, 0, 1);
}

/* The same for few rays, each processed by several threads. */
template <Weights W, Taps T>
static __global__ void __launch_bounds__(WIDE *PARTS)
	plane_forward_few(const __grid_constant__ Plane s)
{
	__shared__ float sums[PARTS][WIDE];
	int64_t c = (int64_t)blockIdx.x * WIDE + threadIdx.x, view = blockIdx.y;
	sums[threadIdx.y][threadIdx.x] =
		c < s.columns ? sum_ray<W, T>(s, view, c, (int)threadIdx.y, PARTS) : 0;
	__syncthreads();
	if (threadIdx.y > 0 || c >= s.columns)
		return;
	float sum = 0;
	for (int i = 0; i < PARTS; i++)
		sum += sums[i][threadIdx.x];
	s.to[view * s.stride + c] += sum;
}

/* ---- back ------------------------------------------------------------------------------------ */

/* A view relative to the corner of a block, aligned for wide loads: pixel (da, db) of the block
 * is at sample at + f + ea da + eb db. s, top: see meet. */
typedef struct __align__(16)
{
	int at; /* index of the sample nearest to the block's corner */
	float f, ea, eb;
	float s, top; /* LINE and TWO */
}
Near;

template <Weights W, Taps T>
static __device__ Near near_corner(const Plane *s, int64_t view, double a, double b)
{
	const HatView *hat = &s->views[view];
	double e = hat->e0 + hat->ea * a + hat->eb * b - (is_between(T) ? 0.5 : 0);
	double across = hat->along ? hat->ea : hat->eb, down = hat->along ? hat->eb : hat->ea;
	double slope = fabs(down / across), steep = 1;
	if (W == LINE) {
		bool level = is_level(slope);
		steep = level ? STEEP : 1 / slope;
		e -= level ? NUDGE * across : 0;
	}
	double whole = rint(e);
	float sides = (float)steep / hat->h;
	return Near{(int)(view * s->pitch + (int64_t)whole - s->first), (float)(e - whole),
		(float)hat->ea, (float)hat->eb, sides,
		W == LINE ? (float)(0.5 * (steep + (steep < STEEP))) : 1 - 0.5f * sides};
}

/* Value of a pixel after the fused update, or with the sum added. */
static __device__ float changed(const Plane *s, int64_t pixel, float sum)
{
	const CudaUpdate *step = &s->with;
	const float *at = s->to + pixel;
	if (!s->fused)
		return *at + sum;
	float factor = step->factors ? step->factors[pixel] : step->a;
	return cuda_updated(
		*step, *at, step->voxels ? factor * step->voxels[at - step->volume] : factor, sum);
}

template <Weights W, Taps T>
static __global__ void __launch_bounds__(WIDE *HIGH) plane_back(const __grid_constant__ Plane s)
{
	__shared__ Near near[VIEWS];
	int a0 = blockIdx.x * WIDE, b0 = blockIdx.y * (HIGH * PIXELS);
	const float da = (float)threadIdx.x, db = (float)threadIdx.y;
	float sum[PIXELS] = {0};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.y * WIDE + threadIdx.x; i < views; i += WIDE * HIGH)
			near[i] = near_corner<W, T>(
				&s, first + i, (double)(s.low_a + a0), (double)(s.low_b + b0));
		__syncthreads();
#pragma unroll 4
		for (int i = 0; i < views; i++) {
			const Near v = near[i];
			float t = fmaf(v.ea, da, fmaf(v.eb, db, v.f));
#pragma unroll
			for (int j = 0; j < PIXELS; j++) {
				int near_by;
				float d = round_off(fmaf((float)(j * HIGH), v.eb, t), &near_by);
				sum[j] = meet<W, T>(s.samples, v.at + near_by, d, v.s,
					W == LINE || T == TWO ? v.top : 1, sum[j]);
			}
		}
	}
#pragma unroll
	for (int j = 0; j < PIXELS; j++) {
		int a = a0 + threadIdx.x, b = b0 + threadIdx.y + j * HIGH;
		int64_t pixel = (int64_t)b * s.na + a;
		if (a < s.na && b < s.nb)
			s.to[pixel] = changed(&s, pixel, sum[j]);
	}
}

#endif
