/* Joseph's forward projection of parallel rays in any direction, from bricks of voxels in shared
 * memory.
 *
 * a is the dominant axis of a view, b and c are the other two. A block computes a square of SIDE x
 * SIDE pixels. It advances along a by PLANES planes at a time. First it copies the voxels that its
 * rays can read in these planes, a brick, to shared memory, with zeros outside the box. Then PLANES
 * neighbouring threads sample the same ray, one plane each; their sums are added at the end. With
 * few views, the planes are divided among several blocks, whose sums are added in a fixed order.
 */
#include <cuda_pipeline.h>
#include "backend/cuda/kernels/oblique.h"

enum {
	WARP = 32,
	SIDE = 16, /* side of a square of pixels */
	PAIR = 2,  /* pixels of a warp at a time: PAIR columns of PAIR rows */
	WARPS = SIDE / PAIR,
	THREADS = WARP * WARPS,
	GROUPS = SIDE / PAIR,
	PLANES = WARP / (PAIR * PAIR), /* planes of a brick; with a = x, 8 contiguous floats (a
	                                * cache sector) */
	BLOCKS_EACH = 8,               /* blocks wanted per SM */
	MOST_PARTS = 16,
	MOST_SIDE = 255,
	MOST_BYTES = 96 << 10
};

#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800 /* fewer threads per SM */
enum { BLOCKS = 4 };
#else
enum { BLOCKS = 5 };
#endif

#define ROOM 1e-3       /* margin for rounding positions to float, in voxels */
#define WHOLE 0x1.8p23f /* 1.5 * 2^23: floats of this size are integers */

typedef struct {
	const ObliqueView *views;
	int axis, rows, columns, parts;
	int n[3];                  /* voxels of the box along a, b, c */
	int64_t low[3], stride[3]; /* first voxel of the box; strides, in floats */
	int wide, high;            /* voxels per line (along b) and lines per plane (along c)
	                            * that are copied */
	int units;                 /* pieces (units of copying) per line */
	unsigned inverse;          /* reciprocal of units, times 2^32 */
	int pitch, plane;          /* strides of lines and planes within a brick, in floats */
	int size;                  /* floats of a brick */
	unsigned first; /* cancels WHOLE in the bit patterns that split returns, times strides */
	const float *volume;
	float *to;    /* projections, or partial sums of each part */
	int64_t part; /* stride of parts; 0: one part, added to the projections */
} Bricks;

/* The rays of a square of pixels. Positions (p, q) are along b and c, in voxels of the box. */
typedef struct {
	double p, q;         /* first ray (first column and row) in plane 0 of the box */
	double low_p, low_q; /* smallest position of any ray in plane 0, with a margin */
	double slope_p, slope_q;
	float column_p, column_q, row_p, row_q;
} Square;

/* Along b (i = 0) or c (i = 1): position of the ray of (column, row) in plane 0 of the box. */
static __device__ double place_of(const Bricks &s, const ObliqueView &v, int i, int column, int row)
{
	return v.from[i] + column * v.column[i] + row * v.row[i] + (double)s.low[0] * v.slope[i] -
	       (double)s.low[1 + i];
}

static __device__ double least_from(const ObliqueView &v, int i)
{
	return (SIDE - 1) * (fmin(v.column[i], 0.) + fmin(v.row[i], 0.)) - ROOM;
}

static __device__ Square square_of(const Bricks &s, const ObliqueView &v, int column, int row)
{
	double p = place_of(s, v, 0, column, row), q = place_of(s, v, 1, column, row);
	return Square{p, q, p + least_from(v, 0), q + least_from(v, 1), v.slope[0], v.slope[1],
		(float)v.column[0], (float)v.column[1], (float)v.row[0], (float)v.row[1]};
}

/* Voxel (along b, along c) at which the copied region of a plane starts or, with a = x, that of
 * a brick. */
typedef struct {
	int i, j;
} Corner;

static __device__ int least_of(double low, double slope, int k)
{
	return (int)floor(fma((double)k, slope, low));
}

template <bool ALONG, int COPIED> static __device__ Corner corner_of(const Square &square, int k)
{
	Corner to = {least_of(square.low_p, square.slope_p, k),
		least_of(square.low_q, square.slope_q, k)};
	if (ALONG) {
		to.i = min(to.i, least_of(square.low_p, square.slope_p, k + PLANES - 1));
		to.j = min(to.j, least_of(square.low_q, square.slope_q, k + PLANES - 1));
	} else if (COPIED == 4) {
		to.i &= ~3;
	}
	return to;
}

/* Along one axis: whether rays may meet voxels 0 .. n - 1 in planes k .. k + PLANES - 1. low:
 * smallest position in plane 0; size: voxels that are copied. */
static __device__ bool is_near(double low, double slope, int k, int size, int n)
{
	double one = fma((double)k, slope, low), two = fma((double)(k + PLANES - 1), slope, low);
	return (one < n || two < n) && (one > -size || two > -size);
}

static __device__ bool is_met(const Bricks &s, const Square &square, int k)
{
	return is_near(square.low_p, square.slope_p, k, s.wide, s.n[1]) &&
	       is_near(square.low_q, square.slope_q, k, s.high, s.n[2]);
}

/* A unit of copying: COPIED voxels of a line or, with a = x, the PLANES voxels of one line along
 * x. */
typedef struct {
	int from;           /* offset in the volume from the corner, in floats */
	unsigned short to;  /* offset in the brick, in floats */
	unsigned char i, j; /* index along b and c */
} Piece;

/* Lists the pieces to copy, once for all bricks: relative to the corner, the voxels that rays
 * can meet differ between bricks only by fractions of a voxel or piece. The position of a piece
 * relative to the centre of the square is converted to detector columns (u) and rows (v); it is
 * listed if both are within half a square plus the size of the piece. */
template <bool ALONG, int COPIED>
static __device__ void list_pieces(const Bricks &s, const Square &square, Piece *list, int *count)
{
	const float half = 0.5f * (SIDE - 1), piece = ALONG ? 1 : COPIED;
	const float drift = ALONG ? 0.5f * (PLANES - 1) : 0;
	float drift_p = drift * fabsf((float)square.slope_p);
	float drift_q = drift * fabsf((float)square.slope_q);
	float p = half * (fabsf(square.column_p) + fabsf(square.row_p)) + drift_p + 0.5f;
	float q = half * (fabsf(square.column_q) + fabsf(square.row_q)) + drift_q + 0.5f;
	float away_p = 0.51f + drift_p + piece, away_q = 1.51f + drift_q;
	float scale = 1 / (square.column_p * square.row_q - square.column_q * square.row_p);
	float u_p = square.row_q * scale, u_q = -square.row_p * scale;
	float v_p = -square.column_q * scale, v_q = square.column_p * scale;
	float most_u = 0.5f * SIDE + fabsf(u_p) * away_p + fabsf(u_q) * away_q;
	float most_v = 0.5f * SIDE + fabsf(v_p) * away_p + fabsf(v_q) * away_q;
	for (int unit = threadIdx.x; unit < s.units * s.high; unit += THREADS) {
		int j = (int)__umulhi((unsigned)unit, s.inverse), i = unit - j * s.units;
		float dp = (float)i * piece - p, dq = (float)j - q;
		if (fabsf(fmaf(u_p, dp, u_q * dq)) <= most_u &&
			fabsf(fmaf(v_p, dp, v_q * dq)) <= most_v)
			list[atomicAdd(count, 1)] = Piece{
				(int)(i * (ALONG ? s.stride[1] : COPIED) + j * s.stride[2]),
				(unsigned short)(j * s.pitch + i * (ALONG ? PLANES : COPIED)),
				(unsigned char)i, (unsigned char)j};
	}
}

/* Starts the asynchronous copy of a brick (planes from k0 on). ALONG (a = x): all threads copy
 * all planes; otherwise each warp copies one plane. COPIED: floats per copy instruction. */
template <bool ALONG, int COPIED>
static __device__ __forceinline__ void bring(
	const Bricks &s, const Square &square, const Piece *list, int count, int k0, float *brick)
{
	constexpr int PIECES = ALONG ? PLANES / COPIED : 1, VOXELS = ALONG ? 1 : COPIED;
	constexpr int BYTES = COPIED * (int)sizeof(float), STEP = (ALONG ? THREADS : WARP) / PIECES;
	const int thread = ALONG ? threadIdx.x : threadIdx.x % WARP;
	const int plane = ALONG ? 0 : threadIdx.x / WARP;
	const int k = ALONG ? thread % PIECES * COPIED : plane, a = k0 + k;
	const Corner corner = corner_of<ALONG, COPIED>(square, k0 + plane);
	const float *from =
		s.volume + a * s.stride[0] + corner.i * s.stride[1] + corner.j * s.stride[2];
	float *to = brick + (ALONG ? k : k * s.plane);
	if (corner.i >= 0 && corner.i + s.units * VOXELS <= s.n[1] && corner.j >= 0 &&
		corner.j + s.high <= s.n[2] && a < s.n[0]) {
		for (int n = thread / PIECES; n < count; n += STEP)
			__pipeline_memcpy_async(to + list[n].to, from + list[n].from, BYTES);
		return;
	}
	for (int n = thread / PIECES; n < count; n += STEP) {
		const Piece piece = list[n];
		bool inside = a < s.n[0] &&
			      (unsigned)(corner.i + piece.i * VOXELS) < (unsigned)s.n[1] &&
			      (unsigned)(corner.j + piece.j) < (unsigned)s.n[2];
		__pipeline_memcpy_async(to + piece.to, inside ? from + piece.from : s.volume, BYTES,
			inside ? 0 : BYTES);
	}
}

/* Splits `at` into its fraction (`part`) and the integer below it. The result is the bit pattern
 * of WHOLE plus that integer. */
static __device__ __forceinline__ unsigned split(float at, float &part)
{
	float sum = __fadd_rd(at, WHOLE);
	part = at - (sum - WHOLE);
	return __float_as_uint(sum);
}

/* Column of a thread's ray in group 0, relative to the square; group g is at g PAIR columns
 * more. */
static __device__ __forceinline__ int column_of(int thread)
{
	return thread / PLANES % PAIR;
}

static __device__ __forceinline__ int row_of(int thread)
{
	return thread / (PLANES * PAIR);
}

template <bool ALONG, int COPIED>
static __device__ __forceinline__ void cross(
	const Bricks &s, const Square &square, int k0, const float *brick, float sum[GROUPS])
{
	const int plane = threadIdx.x % PLANES, column = column_of(threadIdx.x),
		  row = row_of(threadIdx.x);
	const unsigned step = ALONG ? PLANES : 1, pitch = (unsigned)s.pitch;
	const Corner corner = corner_of<ALONG, COPIED>(square, ALONG ? k0 : k0 + plane);
	float p = (float)(fma((double)(k0 + plane), square.slope_p, square.p) - corner.i);
	float q = (float)(fma((double)(k0 + plane), square.slope_q, square.q) - corner.j);
	p = fmaf((float)column, square.column_p, fmaf((float)row, square.row_p, p));
	q = fmaf((float)column, square.column_q, fmaf((float)row, square.row_q, q));
	const unsigned first = s.first + (unsigned)(ALONG ? plane : plane * s.plane);
#pragma unroll
	for (int g = 0; g < GROUPS; g++) {
		float right, up;
		unsigned i = split(fmaf((float)(g * PAIR), square.column_p, p), right);
		unsigned j = split(fmaf((float)(g * PAIR), square.column_q, q), up);
		const float *at = brick + (first + i * step + j * pitch);
		float low = fmaf(right, at[step] - at[0], at[0]);
		at += pitch;
		float high = fmaf(right, at[step] - at[0], at[0]);
		sum[g] = fmaf(up, high - low, sum[g] + low);
	}
}

/* Narrows the range of bricks *at .. *end - 1 to the contiguous range that rays may meet. */
static __device__ void met_of(const Bricks &s, const Square &square, int *at, int *end)
{
	int begin = *end, last = *at;
#pragma unroll 1
	for (int first = *at; first < *end; first += WARP) {
		int i = first + threadIdx.x % WARP;
		unsigned met = __ballot_sync(~0u, i < *end && is_met(s, square, i * PLANES));
		if (met) {
			begin = min(begin, first + __ffs((int)met) - 1);
			last = first + WARP - __clz((int)met);
		}
	}
	*at = begin;
	*end = last;
}

/* Transposing reduction: PLANES neighbouring threads each have one plane's sums for all groups.
 * Thread i of them returns the sum over all planes for group i. */
static __device__ __forceinline__ float sum_planes(float sum[PLANES])
{
#pragma unroll
	for (int apart = PLANES / 2; apart > 0; apart /= 2) {
		bool upper = threadIdx.x & apart;
#pragma unroll
		for (int g = 0; g < apart; g++) {
			float other = upper ? sum[g] : sum[g + apart];
			sum[g] = upper ? sum[g + apart] : sum[g];
			sum[g] += __shfl_xor_sync(~0u, other, apart);
		}
	}
	return sum[0];
}

template <bool ALONG, int COPIED>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
	brick_forward(const __grid_constant__ Bricks s)
{
	static_assert(GROUPS == PLANES);
	extern __shared__ __align__(16) float brick[];
	Piece *list = (Piece *)(brick + s.size);
	int *count = (int *)(list + s.units * s.high);
	const int view = blockIdx.z / s.parts, part = blockIdx.z % s.parts;
	const int column = blockIdx.x * SIDE, row = blockIdx.y * SIDE;
	const ObliqueView &v = s.views[view];
	if (v.a != s.axis)
		return;
	const Square square = square_of(s, v, column, row);
	const int bricks = (s.n[0] + PLANES - 1) / PLANES;
	int at = part * bricks / s.parts, end = (part + 1) * bricks / s.parts;
	float sum[GROUPS] = {0};
	met_of(s, square, &at, &end);
	if (at < end) {
		if (threadIdx.x == 0)
			*count = 0;
		__syncthreads();
		list_pieces<ALONG, COPIED>(s, square, list, count);
		__syncthreads();
	}
	for (; at < end; at++) {
		bring<ALONG, COPIED>(s, square, list, *count, at * PLANES, brick);
		__pipeline_commit();
		__pipeline_wait_prior(0);
		__syncthreads();
		cross<ALONG, COPIED>(s, square, at * PLANES, brick, sum);
		__syncthreads(); /* before the brick is overwritten */
	}
	int c = column + threadIdx.x % PLANES * PAIR + column_of(threadIdx.x);
	int r = row + row_of(threadIdx.x);
	float all = (float)v.step * sum_planes(sum);
	if (c >= s.columns || r >= s.rows)
		return;
	float *to = s.to + part * s.part + ((int64_t)view * s.rows + r) * s.columns + c;
	*to = s.part > 0 ? all : *to + all;
}

static __global__ void add_parts(const __grid_constant__ Bricks s, int64_t pixels, float *to)
{
	const int view = blockIdx.y;
	int64_t at = blockIdx.x * (int64_t)THREADS + threadIdx.x;
	if (s.views[view].a != s.axis || at >= pixels)
		return;
	float sum = 0;
	for (int part = 0; part < s.parts; part++)
		sum += s.to[part * s.part + view * pixels + at];
	to[view * pixels + at] += sum;
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Upper bounds of the copied voxels (Bricks.wide, Bricks.high) for each dominant axis. */
typedef struct {
	int axes; /* bit mask of the dominant axes that occur: 1, 2, 4 for x, y, z */
	int wide[3], high[3];
} BrickSizes;

static int size_of(const ObliqueView *v, int i)
{
	double squares = (SIDE - 1) * (fabs(v->column[i]) + fabs(v->row[i]));
	double drift = v->a == 0 ? (PLANES - 1) * fabs(v->slope[i]) : 0;
	return (int)fmin(squares + drift + 2 * ROOM, 1e4) + 3;
}

/* Layout of bricks in shared memory. Strides are padded so that neighbouring rays and planes are
 * mostly in different banks. */
static void lay_out(Bricks *s, const BrickSizes *sizes, int copied)
{
	s->wide = sizes->wide[s->axis];
	s->high = sizes->high[s->axis];
	if (s->axis == 0) {
		s->wide += (6 - s->wide % 4) % 4;
		s->units = s->wide;
		s->pitch = s->wide * PLANES;
		s->size = s->high * s->pitch;
	} else {
		s->wide += copied - 1;
		s->units = (s->wide + copied - 1) / copied;
		s->pitch = (s->units | 1) * copied;
		s->plane = (s->high * s->pitch + 19) / 32 * 32 + 12;
		s->size = PLANES * s->plane;
	}
	float whole = WHOLE;
	unsigned bits;
	memcpy(&bits, &whole, sizeof bits);
	s->first = -bits * (unsigned)(s->pitch + (s->axis == 0 ? PLANES : 1));
	s->inverse = (unsigned)((((int64_t)1 << 32) + s->units - 1) / s->units);
}

static int bytes_of(const Bricks *s)
{
	return (int)(s->size * sizeof(float) + s->units * s->high * sizeof(Piece) + sizeof(int));
}

/* Whether bricks with pieces of 1 and of 4 floats fit into shared memory, and their indices into
 * Piece. */
static bool has_room(const ProjectRequest *what, const BrickSizes *sizes, int axis)
{
	const Box *box = &what->box;
	const int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	bool fits = nx * (sizes->wide[axis] + ny * sizes->high[axis]) < INT32_MAX;
	for (int copied = 1; copied <= 4; copied += 3) {
		Bricks s = {.axis = axis};
		lay_out(&s, sizes, copied);
		fits = fits && s.units <= MOST_SIDE && s.high <= MOST_SIDE &&
		       bytes_of(&s) <= MOST_BYTES && cuda_has_shared(bytes_of(&s));
	}
	return fits;
}

static bool brick_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const KernelModel *model = &what->plan->model;
	BrickSizes *sizes = notes_of<BrickSizes>(notes);
	*sizes = BrickSizes{};
	if (what->plan->rays.source != TOMOS_PARALLEL || model->clamp || model->planar ||
		what->count > 65535 / MOST_PARTS)
		return false;
	for (int64_t i = 0; i < what->count; i++) {
		ObliqueView v;
		if (!oblique_view(what->plan, &what->plan->views[what->first + i], &v))
			return false;
		sizes->axes |= 1 << v.a;
		sizes->wide[v.a] = max(sizes->wide[v.a], size_of(&v, 0));
		sizes->high[v.a] = max(sizes->high[v.a], size_of(&v, 1));
	}
	bool fits = true;
	for (int axis = 0; axis < 3; axis++)
		fits = fits && (!(sizes->axes & 1 << axis) || has_room(what, sizes, axis));
	return fits;
}

static void make_view(const Plan *plan, int64_t view, const void *user, void *place)
{
	(void)user;
	oblique_view(plan, &plan->views[view], (ObliqueView *)place);
}

static tomos_status start(tomos_backend *backend, const ProjectRequest *what, Bricks *s, int copied)
{
	typedef void (*BrickKernel)(const Bricks s);
	const CudaDevice *d = device_of(backend);
	BrickKernel kernel = s->axis == 0
				     ? copied == 4 ? brick_forward<true, 4> : brick_forward<true, 1>
			     : copied == 4 ? brick_forward<false, 4>
					   : brick_forward<false, 1>;
	const int64_t pixels = (int64_t)s->rows * s->columns;
	TRY(cuda_take_shared((const void *)kernel));
	dim3 blocks(cuda_blocks(s->columns, SIDE, 1 << 30), cuda_blocks(s->rows, SIDE, 65535),
		(unsigned)(what->count * s->parts));
	kernel<<<blocks, THREADS, bytes_of(s), d->stream>>>(*s);
	if (s->part > 0)
		add_parts<<<dim3(cuda_blocks(pixels, THREADS, 1 << 30), (unsigned)what->count),
			THREADS, 0, d->stream>>>(*s, pixels, what->projections);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

/* Number of parts into which the planes are divided, to have enough blocks for the GPU. */
static int parts_of(const CudaDevice *d, const ProjectRequest *what, const Bricks *s)
{
	int64_t pixels = what->count * s->rows * s->columns, squares = pixels / (SIDE * SIDE);
	int parts = 1;
	while (parts < MOST_PARTS && 2 * parts * PLANES <= s->n[0] &&
		parts * squares < BLOCKS_EACH * (int64_t)d->sms &&
		2 * parts * pixels <= d->scratch_most)
		parts *= 2;
	return parts;
}

static tomos_status run_axis(tomos_backend *backend, const ProjectRequest *what, Bricks *s,
	const BrickSizes *sizes, int a)
{
	const Box *box = &what->box;
	const int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	const int64_t stride[3] = {1, nx, nx * ny};
	const int order[3] = {a, a == 0 ? 1 : 0, a == 2 ? 1 : 2};
	const int copied = nx % 4 == 0 && (uintptr_t)what->volume % 16 == 0 ? 4 : 1;
	s->axis = a;
	for (int i = 0; i < 3; i++) {
		s->n[i] = (int)(box->high[order[i]] - box->low[order[i]]);
		s->low[i] = box->low[order[i]];
		s->stride[i] = stride[order[i]];
	}
	lay_out(s, sizes, copied);
	s->to = what->projections;
	s->parts = parts_of(device_of(backend), what, s);
	s->part = s->parts > 1 ? what->count * s->rows * s->columns : 0;
	if (s->part > 0)
		TRY(cuda_scratch(backend, SCRATCH_REORDERED, s->parts * s->part, &s->to,
			"parts of projections"));
	return start(backend, what, s, copied);
}

static tomos_status brick_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const KernelModel *model = &what->plan->model;
	const BrickSizes *sizes = notes_of<BrickSizes>(notes);
	const void *views;
	TRY(cuda_kept(
		backend, what->plan, KEPT_OBLIQUE, sizeof(ObliqueView), make_view, NULL, &views));
	Bricks s = {.views = (const ObliqueView *)views + what->first,
		.rows = (int)model->rows,
		.columns = (int)model->columns,
		.volume = what->volume};
	for (int a = 0; a < 3; a++)
		if (sizes->axes & 1 << a)
			TRY(run_axis(backend, what, &s, sizes, a));
	return TOMOS_OK;
}

extern const CudaKernel cuda_joseph_forward_oblique;
const CudaKernel cuda_joseph_forward_oblique = {brick_applies, brick_run};
