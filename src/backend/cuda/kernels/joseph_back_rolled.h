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
	HALF = SLICES / 2,
	QUAD = 4,           /* slices of a thread */
	TEAM = HALF / QUAD, /* threads for a kink and half of the slices */
	TEAMS = LANES / TEAM,
	HIGH = 8 /* of a block of rolled_spread */
};

/* The rows below the slices of a column: `first` is the shift of the one below slice 0, the next
 * slice has the next row, and so on; from slice skip / 2 on, they are one further up if skip is
 * even, or down. */
typedef struct __align__(8)
{
	float first;
	int skip;
}
Below;

typedef struct {
	const KernelView *views;
	const HatView *hats; /* two of each view, shifted by -rho and rho */
	int64_t count, rows, columns;
	int na, nb;           /* pixels of the box */
	int64_t low_a, low_b; /* first pixel of the box */
	int64_t low;          /* first slice */
	int slices;
	double middle;     /* slice without a shift */
	float rho, slope;  /* slope: 1 / (2 rho) */
	const float *scan; /* [view][row][column] */
	float *stack;      /* [view][-rho, rho][slice][column] */
	/* [view][column][SLICES]: weighted rows below and above a slice, of the first two of every
	 * four slices, and then of the others. */
	float2 *pairs;
	Below *below; /* [view][column] */
	float *bends; /* [along][nb + 2][na + 2][SLICES] */
} Rolled;

/* ---- pixels to slices ------------------------------------------------------------------------ */

/* The q-th row of a column from below is row `sign` q, at height z + q step; its ray is shifted by
 * (middle - height) shift. */
typedef struct {
	double z, step, sign, shift;
} Rows;

static __device__ Rows rows_of(const KernelView *k, double column)
{
	return Rows{k->first[2] + column * k->u[2], fabs(k->v[2]), k->v[2] < 0 ? -1. : 1.,
		k->column[2]};
}

/* The last row that is not above a slice; rows in line with slices are never above. */
static __device__ double row_below(const Rows &r, double slice)
{
	return floor((slice - r.z) / r.step + 1e-7);
}

static __device__ Below below_of(const Rolled &s, const Rows &r)
{
	const double first = row_below(r, (double)s.low), last = first + (s.slices - 1),
		     found = row_below(r, (double)(s.low + s.slices - 1));
	int skip = found == last ? (int)SLICES : 1;
	while (skip < SLICES && row_below(r, (double)(s.low + skip)) == first + skip)
		skip++;
	return Below{
		(float)((s.middle - r.z - first * r.step) * r.shift), 2 * skip + (found < last)};
}

/* Place of slice n among the pairs of a column: lanes of neighbouring quads read neighbours. */
static __device__ int pair_of(int n)
{
	return n / QUAD * 2 + n % 2 + n / 2 % 2 * HALF;
}

/* Distributes the pixels of the scan to slices. Block: LANES columns, all slices. */
static __global__ void __launch_bounds__(LANES *HIGH)
	rolled_spread(const __grid_constant__ Rolled s)
{
	__shared__ float2 tile[LANES][HIGH + 1];
	const int64_t first = (int64_t)blockIdx.x * LANES, column = first + threadIdx.x;
	const int64_t view = blockIdx.y;
	const HatView *hat = &s.hats[2 * view];
	const double rho = 0.5 * (hat[0].e0 - hat[1].e0), scale = (double)hat->weight / hat->h;
	const Rows r = rows_of(&s.views[view], (double)column);
	const int thread = threadIdx.y * LANES + threadIdx.x;
	if (threadIdx.y == 0 && column < s.columns)
		s.below[view * s.columns + column] = below_of(s, r);
	for (int n0 = 0; n0 < SLICES; n0 += HIGH) {
		const int n = n0 + threadIdx.y;
		const double slice = (double)(s.low + n), below = row_below(r, slice);
		float less = 0, more = 0, values[4] = {0};
#pragma unroll
		for (int w = 0; w < 4; w++) {
			const double q = below + (w - 1), z = r.z + q * r.step, row = r.sign * q,
				     weight = 1 - fabs(z - slice);
			if (weight <= 0 || row < 0 || row >= (double)s.rows ||
				column >= s.columns || n >= s.slices)
				continue;
			const float y = s.scan[(view * s.rows + (int64_t)row) * s.columns + column];
			const double delta = (s.middle - z) * r.shift / rho;
			less = fmaf((float)(0.5 * weight * (1 - delta)), y, less);
			more = fmaf((float)(0.5 * weight * (1 + delta)), y, more);
			values[w] = (float)(weight * scale) * y;
		}
		tile[threadIdx.x][threadIdx.y] = make_float2(values[1], values[2]);
		if (n < s.slices && column < s.columns) {
			float *to = s.stack + (2 * view * s.slices + n) * s.columns + column;
			to[0] = less;
			to[s.slices * s.columns] = more;
		}
		__syncthreads();
		if (first + thread / HIGH < s.columns)
			s.pairs[(view * s.columns + first + thread / HIGH) * SLICES +
				pair_of(n0 + thread % HIGH)] = tile[thread / HIGH][thread % HIGH];
		__syncthreads();
	}
}

/* ---- kinks ----------------------------------------------------------------------------------- */

/* A view relative to the first pixel of a block: pixel (a, b) is e + a ea + b eb columns from the
 * first that the block may meet. A kink is nearer than `most` to its column. next: change of delta
 * from row to row, upwards. */
typedef struct __align__(16)
{
	float e, ea, eb, most, next;
	int column;     /* the first that the block may meet, less WHOLE_BITS */
	unsigned place; /* of the view's first column in `below` */
}
Seen;

/* Floats of this size are integers, held in their last bits. */
static constexpr float WHOLE = 1.5f * (1 << 23);
static constexpr int WHOLE_BITS = 0x4b400000;

static __device__ Seen seen_by(const Rolled &s, int64_t view, int a0, int b0)
{
	const KernelView *k = &s.views[view];
	const HatView *hat = &s.hats[2 * view];
	const double rho = 0.5 * (hat[0].e0 - hat[1].e0);
	const double e =
		hat->e0 - rho + hat->ea * (double)(s.low_a + a0) + hat->eb * (double)(s.low_b + b0);
	const double first = fmin(fmax(rint(e), -1e6), 1e6 + (double)s.columns);
	const double most = fabs(k->column[2]) * (0.5 * (s.slices - 1) + 1);
	return Seen{(float)(e - first), (float)hat->ea, (float)hat->eb, (float)fmax(most, rho),
		(float)(-k->column[2] * fabs(k->v[2])), (int)first - WHOLE_BITS,
		(unsigned)(view * s.columns)};
}

/* Sets up the views from `first` on whose rays are along the axis of this block, in order; returns
 * how many. By the first warp. */
static __device__ int find_views(const Rolled &s, int64_t first, int a0, int b0, Seen *to)
{
	const int lane = threadIdx.x;
	const int64_t view = first + lane;
	const bool mine = view < s.count && s.hats[2 * view].along == (int)blockIdx.z;
	const unsigned all = __ballot_sync(~0u, mine);
	if (mine)
		to[__popc(all & ((1u << lane) - 1))] = seen_by(s, view, a0, b0);
	return __popc(all);
}

/* A kink. In slice n of its half, the ray below passes it by t + n step. */
typedef struct __align__(16)
{
	float t, step;
	unsigned from; /* place in `pairs`, in float4 */
	short to;      /* pixel and first slice in the sums */
	short skip;    /* as in Below */
}
Kink;

/* Kinks of SIDE pixels in a view: those at least rho from their column from the beginning on, the
 * others from the end on. line: what is subtracted from these, as a function of t. */
typedef struct {
	Kink kinks[SIDE];
	float2 line[SIDE];
} Queue;

/* What a lane found for its pixel and view. */
typedef struct {
	float kappa, next;
	unsigned from; /* place in `below` */
	Below below;
	bool hit;
} Found;

static __device__ __forceinline__ Found find_kink(
	const Rolled &s, const Seen *v, int views, float a, float b)
{
	Found f = {.hit = false};
	if ((int)(threadIdx.x % LANES / SIDE) < views) {
		const float e = fmaf(a, v->ea, fmaf(b, v->eb, v->e)), whole = e + WHOLE;
		const unsigned column = (unsigned)(v->column + __float_as_int(whole));
		f.kappa = e - (whole - WHOLE);
		f.hit = fabsf(f.kappa) < v->most && column < (unsigned)s.columns;
		f.next = v->next;
		f.from = v->place + column;
		if (f.hit)
			f.below = s.below[f.from];
	}
	return f;
}

/* Lanes with kinks at least rho from their column, and with others. */
typedef struct {
	unsigned far, near;
} Hits;

/* Puts the kinks of two lines of SIDE pixels, as two views see them, into the queues of the
 * views. */
static __device__ __forceinline__ Hits put_kinks(
	const Rolled &s, const Found &f, int upper, int pixel, Queue queues[2])
{
	const int lane = threadIdx.x % LANES, other = lane / SIDE;
	const unsigned before = ((1u << lane) - 1) & (0xffffu << other * SIDE);
	const bool near = fabsf(f.kappa) < s.rho;
	const Hits hits = {__ballot_sync(~0u, f.hit && !near), __ballot_sync(~0u, f.hit && near)};
	if (!f.hit)
		return hits;
	/* Only rays on the same side have passed a distant kink. */
	const float side = near || f.kappa > 0 ? 1.f : -1.f;
	const int start = near || (f.kappa > 0) == (f.next < 0) ? 0 : upper;
	const int i = near ? SIDE - 1 - __popc(hits.near & before) : __popc(hits.far & before);
	queues[other].kinks[i] = Kink{side * (fmaf((float)start, f.next, f.below.first) - f.kappa),
		side * f.next, f.from * HALF + start / QUAD, (short)(pixel * SLICES + start),
		(short)(f.below.skip - 2 * start)};
	if (near)
		queues[other].line[i] = make_float2(fmaf(-s.slope, f.kappa, 0.5f),
			fmaf(-s.slope * f.kappa, f.kappa, 0.5f * s.rho));
	return hits;
}

/* How far a ray has passed a kink, t, less what the stack has. */
template <bool NEAR> static __device__ __forceinline__ float passed_by(float t, float2 line)
{
	return NEAR ? fmaxf(t, 0.f) - fmaf(line.x, t, line.y) : __saturatef(t);
}

/* Adds a kink to slices n .. n + 3 of its half; y: their rows. */
template <bool NEAR, bool SKIPS>
static __device__ __forceinline__ void add_kink(
	const Kink &k, float2 line, const float4 y[2], int n, float4 *to)
{
	const float t = fmaf((float)n, k.step, k.t);
	float4 sum = *to;
	float below[QUAD], above[QUAD];
#pragma unroll
	for (int j = 0; j < QUAD; j++) {
		const int more = !SKIPS || n + j < k.skip >> 1 ? 0 : k.skip & 1 ? -1 : 1;
		const float at = SKIPS ? fmaf((float)more, k.step, t) : t;
		below[j] = !SKIPS && j > 0 ? above[j - 1]
					   : passed_by<NEAR>(fmaf((float)j, k.step, at), line);
		above[j] = passed_by<NEAR>(fmaf((float)(j + 1), k.step, at), line);
	}
	sum.x = fmaf(y[0].x, below[0], fmaf(y[0].y, above[0], sum.x));
	sum.y = fmaf(y[0].z, below[1], fmaf(y[0].w, above[1], sum.y));
	sum.z = fmaf(y[1].x, below[2], fmaf(y[1].y, above[2], sum.z));
	sum.w = fmaf(y[1].z, below[3], fmaf(y[1].w, above[3], sum.w));
	*to = sum;
}

/* The i-th kink and half: a distant kink has one half, the others have two. */
template <bool NEAR>
static __device__ __forceinline__ Kink kink_of(const Queue &q, int i, float2 *line)
{
	if (!NEAR)
		return q.kinks[i];
	const int second = i % 2;
	Kink k = q.kinks[SIDE - 1 - i / 2];
	*line = q.line[SIDE - 1 - i / 2];
	k.t = fmaf((float)(second * HALF), k.step, k.t);
	k.from += second * TEAM;
	k.to += second * HALF;
	k.skip -= second * 2 * HALF;
	return k;
}

/* Adds `count` kinks and halves of a view, one for each team of lanes at a time. No two have the
 * same pixel and half. */
template <bool NEAR, bool SKIPS>
static __device__ __forceinline__ void add_kinks(
	const Rolled &s, const Queue &q, int count, float *sums)
{
	const int team = threadIdx.x % LANES / TEAM, place = threadIdx.x % TEAM;
	const float4 *pairs = (const float4 *)s.pairs + place;
	for (int i = team; i < count; i += TEAMS) {
		float2 line;
		const Kink k = kink_of<NEAR>(q, i, &line);
		const float4 y[2] = {__ldg(pairs + k.from), __ldg(pairs + k.from + HALF / 2)};
		add_kink<NEAR, SKIPS>(
			k, line, y, QUAD * place, (float4 *)(sums + QUAD * place + k.to));
	}
}

/* Adds the kinks of a view; in lane order, so that sums do not depend on chance. */
template <bool SKIPS>
static __device__ __forceinline__ void add_queue(
	const Rolled &s, const Queue &q, unsigned far, unsigned near, float *sums)
{
	add_kinks<false, SKIPS>(s, q, __popc(far), sums);
	add_kinks<true, SKIPS>(s, q, 2 * __popc(near), sums);
	__syncwarp(); /* the next view has the same pixels */
}

/* Adds the kinks of a line of SIDE pixels in `count` views, two views at a time. */
static __device__ __forceinline__ void add_line(
	const Rolled &s, const Seen *seen, int count, Queue queues[2], float *sums)
{
	const int lane = threadIdx.x % LANES, row = threadIdx.x / LANES, a = lane % SIDE;
	const int upper = max((s.slices - HALF + QUAD - 1) / QUAD * QUAD, 0);
	seen += lane / SIDE;
	Found f = find_kink(s, seen, count, (float)a, (float)row);
	for (int v = 0; v < count; v += 2) {
		const Hits hits = put_kinks(s, f, upper, row * SIDE + a, queues);
		const bool skips = __any_sync(~0u, f.hit && f.below.skip < 2 * SLICES);
		__syncwarp();
		f = find_kink(s, seen + v + 2, count - v - 2, (float)a, (float)row);
#pragma unroll
		for (int i = 0; i < 2; i++) {
			const unsigned mine = 0xffffu << i * SIDE;
			if (skips)
				add_queue<true>(
					s, queues[i], hits.far & mine, hits.near & mine, sums);
			else
				add_queue<false>(
					s, queues[i], hits.far & mine, hits.near & mine, sums);
		}
	}
}

static __global__ void __launch_bounds__(THREADS, 2) rolled_kinks(const __grid_constant__ Rolled s)
{
	extern __shared__ float sums[];
	__shared__ Queue queues[SIDE][2];
	__shared__ Seen seen[LANES];
	__shared__ int count;
	const int a0 = (int)blockIdx.x * SIDE - 1, b0 = (int)blockIdx.y * SIDE - 1;
	for (int i = threadIdx.x; i < PIXELS * SLICES; i += THREADS)
		sums[i] = 0;
	for (int64_t first = 0; first < s.count; first += LANES) {
		__syncthreads(); /* all warps have read the views before */
		if (threadIdx.x < LANES) {
			const int found = find_views(s, first, a0, b0, seen);
			if (threadIdx.x == 0)
				count = found;
		}
		__syncthreads();
		add_line(s, seen, count, queues[threadIdx.x / LANES], sums);
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
