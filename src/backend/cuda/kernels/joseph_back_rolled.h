/* Joseph's back projection of parallel rays in planes of constant z, detector rolled.
 *
 * A stack of slices shares the weights within a slice, if all slices have the same rays. Here the
 * ray of a pixel is shifted by `delta` columns from that of its column in the middle slice. As a
 * function of the shift, the weight of a voxel, a hat function, is linear but for kinks where a ray
 * passes the centre of the voxel or of its neighbours. So the rays of each view are replaced by two
 * sets of rays, shifted by -rho and rho, for all slices of a group: linear interpolation and
 * extrapolation distribute each pixel to these two (rolled_spread), and a stack kernel back
 * projects them. What is missing is
 *
 *   C(kappa, delta) = (delta - kappa)+ - (1 + delta / rho) / 2 (rho - kappa)+
 *                     - (1 - delta / rho) / 2 (-rho - kappa)+
 *
 * for each ray and voxel, where kappa is the distance of the voxel's centre from the column;
 * it is zero for most. Sums of it over all views (rolled_kinks) are added to the voxel and its
 * neighbours across the rays as a second difference.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_BACK_ROLLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_BACK_ROLLED_H

#include "backend/cuda/kernels/slices_resampled.h"

enum {
	SLICES = 64, /* of a group */
	LEAST_SLICES = 16,
	LANES = 32,
	SIDE = 16, /* of a block of rolled_kinks, in pixels */
	THREADS = SIDE * LANES,
	PIXELS = SIDE * SIDE,
	MOST_SLOTS = 3,
	HIGH = 8, /* of a block of rolled_spread */
	BATCH = 4 /* kinks whose loads are in flight together */
};

typedef struct {
	const KernelView *views;
	const HatView *hats; /* two of each view, shifted by -rho and rho */
	int64_t count, rows, columns;
	int na, nb;           /* pixels of the box */
	int64_t low_a, low_b; /* first pixel of the box */
	int64_t low;          /* first slice */
	int slices;
	double middle;     /* slice without a shift */
	const float *scan; /* [view][row][column] */
	float *stack;      /* [view][-rho, rho][slice][column] */
	float4 *packed;    /* [view][column][SLICES]: weighted rows, and delta of the first */
	float *bends;      /* [along][nb + 2][na + 2][SLICES] */
} Rolled;

/* ---- pixels to slices ------------------------------------------------------------------------ */

/* Rows of a column that meet a slice: from `first` on. Row r is at height z + r step, and its ray
 * is shifted by (middle - height) shift. */
typedef struct {
	double z, step, shift, first;
} Meeting;

static __device__ Meeting meeting_of(const KernelView *k, double column, double slice)
{
	Meeting m = {.z = k->first[2] + column * k->u[2], .step = k->v[2], .shift = k->column[2]};
	m.first = floor((slice - m.z) / m.step - (1 - 1e-7) / fabs(m.step)) + 1;
	return m;
}

/* Distributes the pixels of the scan to slices. Block: LANES columns, all slices. */
static __global__ void __launch_bounds__(LANES *HIGH)
	rolled_spread(const __grid_constant__ Rolled s)
{
	__shared__ float4 tile[LANES][HIGH + 1];
	const int64_t first = (int64_t)blockIdx.x * LANES, column = first + threadIdx.x;
	const int64_t view = blockIdx.y;
	const KernelView *k = &s.views[view];
	const HatView *hat = &s.hats[2 * view];
	const double rho = 0.5 * (hat[0].e0 - hat[1].e0), scale = (double)hat->weight / hat->h;
	const int thread = threadIdx.y * LANES + threadIdx.x;
	for (int n0 = 0; n0 < SLICES; n0 += HIGH) {
		const int n = n0 + threadIdx.y;
		const double slice = (double)(s.low + n);
		const Meeting m = meeting_of(k, (double)column, slice);
		float less = 0, more = 0, values[MOST_SLOTS + 1] = {0};
#pragma unroll
		for (int w = 0; w <= MOST_SLOTS; w++) {
			const double row = m.first + w, z = m.z + row * m.step,
				     weight = 1 - fabs(z - slice);
			if (weight <= 0 || row < 0 || row >= (double)s.rows ||
				column >= s.columns || n >= s.slices)
				continue;
			const float y = s.scan[(view * s.rows + (int64_t)row) * s.columns + column];
			const double delta = (s.middle - z) * m.shift / rho;
			less = fmaf((float)(0.5 * weight * (1 - delta)), y, less);
			more = fmaf((float)(0.5 * weight * (1 + delta)), y, more);
			values[w] = (float)(weight * scale) * y;
		}
		tile[threadIdx.x][threadIdx.y] = make_float4(values[0], values[1], values[2],
			(float)((s.middle - m.z - m.first * m.step) * m.shift));
		if (n < s.slices && column < s.columns) {
			float *to = s.stack + (2 * view * s.slices + n) * s.columns + column;
			to[0] = less;
			to[s.slices * s.columns] = more;
		}
		__syncthreads();
		if (first + thread / HIGH < s.columns)
			s.packed[(view * s.columns + first + thread / HIGH) * SLICES + n0 +
				 thread % HIGH] = tile[thread / HIGH][thread % HIGH];
		__syncthreads();
	}
}

/* ---- kinks ----------------------------------------------------------------------------------- */

/* A view relative to the first pixel of a block: pixel (a, b) is at column c0 + e + a ea + b eb. A
 * kink is nearer than `most` to its column. next: change of delta from row to row. */
typedef struct {
	float e, ea, eb, most, rho, next;
	int c0;
	bool falls; /* delta decreases with the slice */
} Seen;

static __device__ Seen seen_by(const Rolled &s, int64_t view, int a0, int b0)
{
	const KernelView *k = &s.views[view];
	const HatView *hat = &s.hats[2 * view];
	const double rho = 0.5 * (hat[0].e0 - hat[1].e0);
	const double e =
		hat->e0 - rho + hat->ea * (double)(s.low_a + a0) + hat->eb * (double)(s.low_b + b0);
	const double c0 = fmin(fmax(rint(e), -1e6), 1e6 + (double)s.columns);
	const double most = fabs(k->column[2]) * (0.5 * (s.slices - 1) + 1);
	return Seen{(float)(e - c0), (float)hat->ea, (float)hat->eb,
		hat->along == (int)blockIdx.z ? (float)fmax(most, rho) : -1.f, (float)rho,
		(float)(-k->column[2] * k->v[2]), (int)c0, k->column[2] > 0};
}

static __device__ __forceinline__ float row_of(float4 y, int w)
{
	return w == 0 ? y.x : w == 1 ? y.y : y.z;
}

/* Adds a kink at least rho from its column: only rays on the same side have passed it. */
template <int SLOTS>
static __device__ __forceinline__ float add_far(float sum, float4 y, float kappa, float next)
{
	const float side = copysignf(1.f, kappa), far = fabsf(kappa);
#pragma unroll
	for (int w = 0; w < SLOTS; w++)
		sum = fmaf(__saturatef(fmaf(side, y.w, fmaf(side * (float)w, next, -far))),
			row_of(y, w), sum);
	return sum;
}

/* The same for any distance up to rho. */
template <int SLOTS>
static __device__ __forceinline__ float add_near(
	float sum, float4 y, float kappa, float next, float one, float two)
{
#pragma unroll
	for (int w = 0; w < SLOTS; w++) {
		const float delta = fmaf((float)w, next, y.w);
		sum = fmaf(fmaxf(delta - kappa, 0.f) - fmaf(delta, two, one), row_of(y, w), sum);
	}
	return sum;
}

/* A kink that one lane found, as all lanes see it. */
typedef struct {
	float kappa, next;
	unsigned place; /* in `packed` */
} Hit;

/* Takes the first lane out of *hits and returns its kink; valid: there was one. */
static __device__ __forceinline__ Hit next_hit(const Hit &own, unsigned *hits, bool *valid)
{
	const int lane = max(__ffs(*hits) - 1, 0);
	*valid = *hits != 0;
	*hits &= *hits - 1;
	return Hit{__shfl_sync(~0u, own.kappa, lane), __shfl_sync(~0u, own.next, lane),
		__shfl_sync(~0u, own.place, lane)};
}

/* Adds distant kinks to a half of the slices; all loads of a batch are started before the first is
 * used. */
template <int SLOTS>
static __device__ __forceinline__ float add_all_far(
	const float4 *from, const Hit &own, unsigned hits, float sum)
{
	while (hits) {
		float4 y[BATCH];
		Hit hit[BATCH];
#pragma unroll
		for (int i = 0; i < BATCH; i++) {
			bool valid;
			hit[i] = next_hit(own, &hits, &valid);
			y[i] = valid ? __ldg(from + hit[i].place) : make_float4(0, 0, 0, 0);
		}
#pragma unroll
		for (int i = 0; i < BATCH; i++)
			sum = add_far<SLOTS>(sum, y[i], hit[i].kappa, hit[i].next);
	}
	return sum;
}

/* Adds kinks near their columns to all slices. */
template <int SLOTS>
static __device__ __forceinline__ void add_all_near(
	const float4 *from, const Hit &own, unsigned hits, int upper, float rho, float sums[2])
{
	while (hits) {
		float4 y[BATCH / 2][2];
		Hit hit[BATCH / 2];
#pragma unroll
		for (int i = 0; i < BATCH / 2; i++) {
			bool valid;
			hit[i] = next_hit(own, &hits, &valid);
#pragma unroll
			for (int h = 0; h < 2; h++)
				y[i][h] = valid ? __ldg(from + hit[i].place + h * upper)
						: make_float4(0, 0, 0, 0);
		}
#pragma unroll
		for (int i = 0; i < BATCH / 2; i++) {
			const float one = 0.5f * (rho - hit[i].kappa), two = one / rho;
#pragma unroll
			for (int h = 0; h < 2; h++)
				sums[h] = add_near<SLOTS>(
					sums[h], y[i][h], hit[i].kappa, hit[i].next, one, two);
		}
	}
}

/* Adds the kinks of pixel (a, b) of the block in up to LANES views, one for each lane, to slices
 * `lane` of the lower and of the upper half. */
template <int SLOTS>
static __device__ __forceinline__ void add_pixel(
	const Rolled &s, const Seen &v, int64_t first, float a, float b, float sums[2])
{
	const int lane = threadIdx.x % LANES, upper = s.slices / 2;
	const float e = fmaf(a, v.ea, fmaf(b, v.eb, v.e)), whole = rintf(e), kappa = e - whole;
	const int column = v.c0 + (int)whole;
	const bool hit = fabsf(kappa) < v.most && column >= 0 && column < s.columns;
	const bool near = hit && fabsf(kappa) < v.rho, low = (kappa > 0) == v.falls;
	const Hit own = {kappa, v.next, (unsigned)((first + lane) * s.columns + column) * SLICES};
	const float4 *from = s.packed + lane;
	const unsigned lower = __ballot_sync(~0u, hit && !near && low),
		       higher = __ballot_sync(~0u, hit && !near && !low);
	sums[0] = add_all_far<SLOTS>(from, own, lower, sums[0]);
	sums[1] = add_all_far<SLOTS>(from + upper, own, higher, sums[1]);
	add_all_near<SLOTS>(
		from, own, __ballot_sync(~0u, near), upper, __shfl_sync(~0u, v.rho, 0), sums);
}

template <int SLOTS>
static __global__ void __launch_bounds__(THREADS, 2) rolled_kinks(const __grid_constant__ Rolled s)
{
	extern __shared__ float sums[];
	__shared__ Seen seen[LANES];
	const int a0 = (int)blockIdx.x * SIDE - 1, b0 = (int)blockIdx.y * SIDE - 1;
	const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES, upper = s.slices / 2;
	for (int i = threadIdx.x; i < PIXELS * SLICES; i += THREADS)
		sums[i] = 0;
	for (int64_t first = 0; first < s.count; first += LANES) {
		__syncthreads(); /* all warps have read the views before */
		if (row == 0)
			seen[lane] = first + lane < s.count ? seen_by(s, first + lane, a0, b0)
							    : Seen{.most = -1};
		__syncthreads();
		const Seen v = seen[lane];
		if (!__any_sync(~0u, v.most > 0)) /* rays along the other axis */
			continue;
		for (int a = 0; a < SIDE; a++) {
			float add[2] = {0, 0}, *to = sums + (row * SIDE + a) * SLICES + lane;
			add_pixel<SLOTS>(s, v, first, (float)a, (float)row, add);
			if (lane < upper)
				to[0] += add[0];
			__syncwarp();
			to[upper] += add[1];
			__syncwarp();
		}
	}
	__syncthreads();
	for (int i = threadIdx.x; i < PIXELS * SLICES; i += THREADS) {
		const int a = a0 + 1 + i / SLICES % SIDE, b = b0 + 1 + i / SLICES / SIDE;
		if (a < s.na + 2 && b < s.nb + 2)
			s.bends[(((int64_t)blockIdx.z * (s.nb + 2) + b) * (s.na + 2) + a) * SLICES +
				i % SLICES] = sums[i];
	}
}

/* Second differences: along a of the views with rays along b, along b of the others. */
static __global__ void rolled_bend(const __grid_constant__ Rolled s, float *to, int64_t pitch)
{
	const int64_t line = (int64_t)(s.na + 2) * SLICES, plane = (s.nb + 2) * line;
	const int n = threadIdx.x, a = blockIdx.x * blockDim.y + threadIdx.y;
	if (a >= s.na || n >= pitch)
		return;
	for (int b = blockIdx.y; b < s.nb; b += gridDim.y) {
		const float *y = s.bends + (b + 1) * line + (a + 1) * SLICES + n, *x = y + plane;
		const float bend_x = x[-SLICES] - 2 * x[0] + x[SLICES],
			    bend_y = y[-line] - 2 * y[0] + y[line];
		to[((int64_t)b * s.na + a) * pitch + n] = bend_x + bend_y;
	}
}

#endif
