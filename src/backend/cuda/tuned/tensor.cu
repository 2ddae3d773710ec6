/* Back projection of slices that share their weights by tensor cores: data in half, float sums.
 *
 * In one view, a square of 4 x 4 pixels meets at most 8 columns. Their hats are a matrix of 16 x 8; those
 * of two views side by side make the 16 x 16 that the cores multiply with 16 columns x 8 slices. A block
 * has 16 x 16 pixels, one warp for each square, and one or two groups of 64 slices. One or two more warps
 * run ahead and bring the columns that the block meets, VIEWS views at a time, into a ring of stages.
 * It is bound by shared memory: each update reads half a byte, 128 bytes a clock.
 *
 * With two parts, data and weights are sums of two halves and three products are summed: float accuracy.
 */
#include <cudaTypedefs.h>
#include <stdlib.h>
#include "backend/cuda/tuned/mma.h"
#include "backend/cuda/tuned/turn.h"

/* Used for float data as well, in two parts, where that is faster than float arithmetic. */
#define SPLIT_FOR_FLOAT false

enum {
	SIDE = 16,    /* pixels of a block */
	SQUARE = 4,   /* pixels of a warp */
	SQUARES = 16, /* of a block */
	REACH = 8,    /* columns of a square */
	COLUMNS = 24, /* of a block */
	VIEWS = 8,    /* of a stage */
	GROUP = 64,   /* slices in a line of a buffer */
	LINE = 2 * GROUP,
	BUFFER = COLUMNS * LINE,
	MOST_STAGES = 4,
	UNIT = 8, /* slices that are written together */
	LEAST_SLICES = 16,
	PASS = 2048, /* views at a time: the cores cut sums off where they should round */
	HEAD = 64    /* floats before the data */
};

/* A block spans less than 15 of this and two columns more. */
#define MOST_SLOPE 1.46

typedef struct {
	const HatView *views;
	int count, columns;
	int na, nb;           /* pixels of the box */
	int64_t low_a, low_b; /* and where it begins */
	int pitch;            /* slices of data and sums */
	int stages;
	const __half *data; /* [part][view][column][slice] */
	float *to;          /* [b][a][slice] */
} Tensor;

/* A square in a view: the column of its first pixel and its slopes, counted from line `row` of the
 * block's columns. */
typedef struct __align__(16)
{
	float e, ea, eb;
	int row;
}
Seen;

/* How the shared memory of a block is used. */
template <int GROUPS, int PARTS> struct Layout {
	static constexpr int VIEW = GROUPS * PARTS * BUFFER;
	static constexpr int STAGE = VIEWS * VIEW;
	static constexpr int TABLE = VIEWS * SQUARES * (int)sizeof(Seen);
	static constexpr int ALIGNED = 1024; /* as swizzled lines want it */
	static size_t bytes(int stages)
	{
		return (size_t)stages * (STAGE + TABLE) + ALIGNED;
	}
};

/* Producers: one warp that asks for bulk copies, or two that copy by themselves. */
static __host__ __device__ constexpr int producers(bool bulk)
{
	return bulk ? 32 : 64;
}

/* ---- on the card -------------------------------------------------------------------------- */

#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800

/* What the warps of a block share. */
typedef struct {
	unsigned char *data;
	Seen *table;
	unsigned full, empty; /* the first barrier of each ring */
} Ring;

/* Where the producers and each warp stand in the ring. */
typedef struct {
	int slot;
	unsigned parity;
} Turn;

static __device__ void turn_next(Turn *turn, int stages)
{
	if (++turn->slot == stages) {
		turn->slot = 0;
		turn->parity ^= 1;
	}
}

/* The least column that pixels of a square of that side fall on. */
static __device__ double least_column(double e, double ea, double eb, int side)
{
	return e + fmin(0., (side - 1) * ea) + fmin(0., (side - 1) * eb);
}

static __device__ double corner_column(const Tensor *s, const HatView *hat)
{
	return hat->e0 + hat->ea * (double)(s->low_a + (int64_t)blockIdx.x * SIDE) +
	       hat->eb * (double)(s->low_b + (int64_t)blockIdx.y * SIDE);
}

/* The first column of a block; off the detector it does not matter how far. */
static __device__ int first_column(const Tensor *s, const HatView *hat, double e)
{
	double first = floor(least_column(e, hat->ea, hat->eb, SIDE));
	return (int)fmax(fmin(first, (double)s->columns), (double)-COLUMNS);
}

/* Lines are kept inside the buffer, whatever rounding does: a column that is lost by that has a weight
 * of nearly zero. Views after the last have zeros for data and any finite weights. */
static __device__ Seen see(const Tensor *s, int view, int square)
{
	if (view >= s->count)
		return Seen{0, 0, 0, 0};
	const HatView hat = s->views[view];
	double e = corner_column(s, &hat);
	int first = first_column(s, &hat, e);
	e += (square % SQUARE * hat.ea + square / SQUARE * hat.eb) * SQUARE - first;
	double row = floor(least_column(e, hat.ea, hat.eb, SQUARE));
	row = fmax(fmin(row, (double)(COLUMNS - REACH)), 0.);
	return Seen{(float)(e - row), (float)hat.ea, (float)hat.eb, (int)row};
}

template <int GROUPS, int PARTS>
static __device__ void fetch_bulk(
	const Tensor *s, const CUtensorMap *map, const Ring *ring, int slot, int first, int lane)
{
	unsigned full = ring->full + 8 * slot;
	__syncwarp(); /* the table is written */
	if (lane == 0)
		bulk_expect(full, Layout<GROUPS, PARTS>::STAGE);
	__syncwarp();
	int buffer = lane, group = lane % GROUPS, part = lane / GROUPS % PARTS;
	int view = first + lane / (GROUPS * PARTS);
	if (buffer >= VIEWS * GROUPS * PARTS)
		return;
	int column = 0, plane = PARTS * s->count; /* beyond all: zeros */
	if (view < s->count) {
		const HatView hat = s->views[view];
		column = first_column(s, &hat, corner_column(s, &hat));
		plane = part * s->count + view;
	}
	bulk_copy(
		shared_address(ring->data + slot * Layout<GROUPS, PARTS>::STAGE) + buffer * BUFFER,
		map, ((int)blockIdx.z * GROUPS + group) * GROUP, column, plane, full);
}

/* The same 16 bytes at a time, swizzled in the same way. */
template <int GROUPS, int PARTS>
static __device__ void fetch_lines(const Tensor *s, const Ring *ring, int slot, int first, int lane)
{
	unsigned full = ring->full + 8 * slot;
	unsigned to = shared_address(ring->data + slot * Layout<GROUPS, PARTS>::STAGE);
	for (int v = 0; v < VIEWS; v++, to += Layout<GROUPS, PARTS>::VIEW) {
		bool there = first + v < s->count;
		const HatView hat = s->views[there ? first + v : 0];
		int base = first_column(s, &hat, corner_column(s, &hat));
		for (int i = lane; i < PARTS * GROUPS * COLUMNS * 8; i += producers(false)) {
			int chunk = i % 8, line = i / 8, column = base + line % COLUMNS;
			int group = line / COLUMNS % GROUPS, part = line / (COLUMNS * GROUPS);
			int slice = ((int)blockIdx.z * GROUPS + group) * GROUP + chunk * 8;
			int64_t plane = (int64_t)part * s->count + first + v;
			bool inside = there && (unsigned)column < (unsigned)s->columns &&
				      slice < s->pitch;
			int64_t at = inside ? (plane * s->columns + column) * s->pitch + slice : 0;
			copy_16(to + line * LINE + ((chunk ^ (line % 8)) << 4), s->data + at,
				inside ? 16 : 0);
		}
	}
	copies_arrive(full);
	barrier_arrive(full); /* the table, which is no copy */
}

template <int GROUPS, int PARTS, bool BULK>
static __device__ void bring(const Tensor *s, const CUtensorMap *map, const Ring *ring, int lane)
{
	Turn turn = {0, 1}; /* the first round finds the ring empty */
	for (int first = 0; first < s->count; first += VIEWS, turn_next(&turn, s->stages)) {
		barrier_wait(ring->empty + 8 * turn.slot, turn.parity);
		Seen *table = ring->table + turn.slot * VIEWS * SQUARES;
		for (int i = lane; i < VIEWS * SQUARES; i += producers(BULK))
			table[i] = see(s, first + i / SQUARES, i % SQUARES);
		if constexpr (BULK)
			fetch_bulk<GROUPS, PARTS>(s, map, ring, turn.slot, first, lane);
		else
			fetch_lines<GROUPS, PARTS>(s, ring, turn.slot, first, lane);
	}
}

/* Weights of two neighbouring columns, e the distance from the first: what fits into halves, and the rest. */
template <int PARTS>
static __device__ __forceinline__ void weigh(float e, unsigned *w, unsigned *rest)
{
	float one = 1 - fabsf(e), two = 1 - fabsf(e - 1);
	*w = pack_positive(one, two);
	if (PARTS == 2) {
		float2 whole = __half22float2(*(const __half2 *)w);
		__half2 left =
			__floats2half2_rn(fmaxf(one, 0.f) - whole.x, fmaxf(two, 0.f) - whole.y);
		*rest = *(const unsigned *)&left;
	}
}

/* Two views as this lane holds them: pixels g and g + 8 of the square, columns 2 t and 2 t + 1. */
template <int PARTS>
static __device__ __forceinline__ void weigh_views(
	const Seen *one, const Seen *two, int lane, unsigned w[4], unsigned rest[4])
{
	int g = lane / 4, t = lane % 4;
	float a = (float)(g % SQUARE), b = (float)(g / SQUARE), column = (float)(2 * t);
	float e = fmaf(a, one->ea, fmaf(b, one->eb, one->e - column));
	float f = fmaf(a, two->ea, fmaf(b, two->eb, two->e - column));
	weigh<PARTS>(e, &w[0], &rest[0]);
	weigh<PARTS>(fmaf(2.f, one->eb, e), &w[1], &rest[1]);
	weigh<PARTS>(f, &w[2], &rest[2]);
	weigh<PARTS>(fmaf(2.f, two->eb, f), &w[3], &rest[3]);
}

/* Small products first, and their sum rounded to the others: the cores cut off. */
static __device__ __forceinline__ void multiply_parts(float sum[4], const unsigned w[4],
	const unsigned rest[4], const unsigned *data, const unsigned *data_rest)
{
	float part[4] = {0, 0, 0, 0};
	multiply_add(part, w, data_rest[0], data_rest[1]);
	multiply_add(part, rest, data[0], data[1]);
	multiply_add(part, w, data[0], data[1]);
	for (int i = 0; i < 4; i++)
		sum[i] += part[i];
}

/* Views k and k + 1 of a stage, for one square and all slices of the block. */
template <int GROUPS, int PARTS>
static __device__ __forceinline__ void add_views(
	float sums[GROUPS * 8][4], const Seen *table, unsigned data, int square, int lane)
{
	unsigned w[4], rest[4];
	int second = lane / 8 % 2, next = lane / 16;
	const Seen one = table[square], two = table[SQUARES + square];
	weigh_views<PARTS>(&one, &two, lane, w, rest);
	int row = (second ? two.row : one.row) + lane % 8;
	unsigned from = data + second * Layout<GROUPS, PARTS>::VIEW + row * LINE +
			((next ^ (row % 8)) << 4);
#pragma unroll
	for (int i = 0; i < GROUPS * 4; i++) {
		unsigned at = (from ^ (i % 4 * 32)) + i / 4 * BUFFER, d[4], r[4];
		load_matrices(d, at);
		if (PARTS == 2) {
			load_matrices(r, at + GROUPS * BUFFER);
			multiply_parts(sums[2 * i], w, rest, d, r);
			multiply_parts(sums[2 * i + 1], w, rest, d + 2, r + 2);
		} else {
			multiply_add(sums[2 * i], w, d[0], d[1]);
			multiply_add(sums[2 * i + 1], w, d[2], d[3]);
		}
	}
}

template <int GROUPS>
static __device__ void write_sums(
	const Tensor *s, const float sums[GROUPS * 8][4], int square, int lane)
{
	int g = lane / 4, slice = blockIdx.z * GROUPS * GROUP + lane % 4 * 2;
	int a = blockIdx.x * SIDE + square % SQUARE * SQUARE + g % SQUARE;
	int b = blockIdx.y * SIDE + square / SQUARE * SQUARE + g / SQUARE;
	for (int half = 0; half < 2; half++, b += 2) {
		if (a >= s->na || b >= s->nb)
			continue;
		float *to = s->to + ((int64_t)b * s->na + a) * s->pitch;
#pragma unroll
		for (int n = 0; n < GROUPS * 8; n++)
			if (slice + n * UNIT < s->pitch)
				*(float2 *)(to + slice + n * UNIT) =
					make_float2(sums[n][2 * half], sums[n][2 * half + 1]);
	}
}

template <int GROUPS, int PARTS>
static __device__ void take(const Tensor *s, const Ring *ring, int square, int lane)
{
	float sums[GROUPS * 8][4] = {};
	Turn turn = {0, 0};
	for (int first = 0; first < s->count; first += VIEWS, turn_next(&turn, s->stages)) {
		unsigned data =
			shared_address(ring->data + turn.slot * Layout<GROUPS, PARTS>::STAGE);
		const Seen *table = ring->table + turn.slot * VIEWS * SQUARES;
		barrier_wait(ring->full + 8 * turn.slot, turn.parity);
#pragma unroll(PARTS == 2 ? 1 : 2)
		for (int k = 0; k < VIEWS; k += 2)
			add_views<GROUPS, PARTS>(sums, table + k * SQUARES,
				data + k * Layout<GROUPS, PARTS>::VIEW, square, lane);
		__syncwarp();
		if (lane == 0)
			barrier_arrive(ring->empty + 8 * turn.slot);
	}
	write_sums<GROUPS>(s, sums, square, lane);
}

template <int GROUPS, int PARTS, bool BULK>
static __device__ void work(const Tensor *s, const CUtensorMap *map)
{
	extern __shared__ unsigned char memory[];
	__shared__ __align__(8) uint64_t barriers[2][MOST_STAGES];
	Ring ring;
	ring.data = memory + (-shared_address(memory) & (Layout<GROUPS, PARTS>::ALIGNED - 1));
	ring.table = (Seen *)(ring.data + s->stages * Layout<GROUPS, PARTS>::STAGE);
	ring.full = shared_address(barriers[0]);
	ring.empty = shared_address(barriers[1]);
	if (threadIdx.x < s->stages) {
		barrier_init(ring.full + 8 * threadIdx.x, BULK ? 1 : 2 * producers(BULK));
		barrier_init(ring.empty + 8 * threadIdx.x, SQUARES);
		if constexpr (BULK)
			bulk_fence();
	}
	__syncthreads();
	int thread = threadIdx.x, own = thread - SQUARES * 32;
	if (own < 0)
		take<GROUPS, PARTS>(s, &ring, thread / 32, thread % 32);
	else
		bring<GROUPS, PARTS, BULK>(s, map, &ring, own);
}

#endif

/* Compiled to nothing for cards that lack the instructions; run_kernel never asks those. */
template <int GROUPS, int PARTS, bool BULK>
static __global__ void __launch_bounds__(SQUARES * 32 + producers(BULK), 1)
	tensor_back(const __grid_constant__ Tensor s, const __grid_constant__ CUtensorMap map)
{
#if __CUDA_ARCH__ >= 800
	if constexpr (__CUDA_ARCH__ >= (BULK ? 900 : 800))
		work<GROUPS, PARTS, BULK>(&s, &map);
#endif
}

/* ---- what the card can do ----------------------------------------------------------------- */

/* The current card's compute capability times ten, or what TOMOS_CUDA says if that is less. */
static int card_level(void)
{
	int card, major = 0, minor = 0;
	const char *wanted = getenv("TOMOS_CUDA");
	if (cudaGetDevice(&card) != cudaSuccess ||
		cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, card) !=
			cudaSuccess ||
		cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, card) !=
			cudaSuccess)
		return 0;
	int level = 10 * major + minor;
	return wanted && *wanted ? (int)min64(level, atoi(wanted)) : level;
}

/* Stages that fit into the shared memory of a block. */
static int stages_for(size_t (*bytes)(int stages))
{
	int card, most = 0, stages = MOST_STAGES;
	if (cudaGetDevice(&card) != cudaSuccess ||
		cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, card) !=
			cudaSuccess)
		return 0;
	while (stages > 0 && bytes(stages) + 1024 > (size_t)most)
		stages--;
	return stages;
}

/* The driver's function that describes arrays to the engine of bulk copies; NULL: there is none. */
static PFN_cuTensorMapEncodeTiled_v12000 find_encode(void)
{
	void *found = NULL;
	cudaDriverEntryPointQueryResult result;
	if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
		    cudaEnableDefault, &result) != cudaSuccess ||
		result != cudaDriverEntryPointSuccess) {
		cudaGetLastError();
		return NULL;
	}
	return (PFN_cuTensorMapEncodeTiled_v12000)found;
}

/* The data as bulk copies see them: boxes of one line of slices, all columns of a block, one view. */
static bool describe(CUtensorMap *map, const Tensor *s, int parts)
{
	PFN_cuTensorMapEncodeTiled_v12000 encode = find_encode();
	const cuuint64_t line = (cuuint64_t)s->pitch * sizeof(__half);
	const cuuint64_t size[3] = {(cuuint64_t)s->pitch, (cuuint64_t)s->columns,
		(cuuint64_t)parts * (cuuint64_t)s->count};
	const cuuint64_t stride[2] = {line, line * (cuuint64_t)s->columns};
	const cuuint32_t box[3] = {GROUP, COLUMNS, 1}, every[3] = {1, 1, 1};
	return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, (void *)s->data, size,
				 stride, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
				 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
				 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* ---- a whole request ---------------------------------------------------------------------- */

static int parts_for(const Plan *plan)
{
	return plan->data == DATA_HALF ? 1 : 2;
}

/* A square meets at most REACH columns, a block COLUMNS. */
static bool is_shallow(const Projecting *what, const HatSlices *l)
{
	for (int64_t i = 0; i < what->count; i++) {
		const double *column = what->plan->views[what->first + i].column;
		if (!(fabs(column[l->a]) + fabs(column[l->b]) <= MOST_SLOPE))
			return false;
	}
	return true;
}

static bool tensor_applies(const Projecting *what, CudaNotes *notes)
{
	HatSlices *l = notes_of<HatSlices>(notes);
	const Plan *plan = what->plan;
	if ((plan->data == DATA_FLOAT && !SPLIT_FOR_FLOAT) || plan->model.planar ||
		plan->model.columns > INT32_MAX / 2 || !hat_slices(what, l))
		return false;
	int64_t low, high;
	turn_range(what, l, &low, &high);
	return high - low >= LEAST_SLICES && is_shallow(what, l) && card_level() >= 80;
}

typedef struct {
	void (*kernel)(const Tensor s, const CUtensorMap map);
	size_t (*bytes)(int stages);
} TensorKernel;

template <int GROUPS, int PARTS> static TensorKernel kernel_of(bool bulk)
{
	return TensorKernel{
		bulk ? tensor_back<GROUPS, PARTS, true> : tensor_back<GROUPS, PARTS, false>,
		Layout<GROUPS, PARTS>::bytes};
}

/* Two groups of slices, where there are as many and two of their stages have room. Two parts of both would
 * take more registers than there are. */
static TensorKernel choose_kernel(int pitch, int parts, bool bulk, int *groups)
{
	TensorKernel two = kernel_of<2, 1>(bulk);
	*groups = parts == 1 && pitch > GROUP && stages_for(two.bytes) >= 2 ? 2 : 1;
	return *groups == 2 ? two : parts == 1 ? kernel_of<1, 1>(bulk) : kernel_of<1, 2>(bulk);
}

static tomos_status run_kernel(tomos_backend *backend, Tensor s, int parts)
{
	CUtensorMap map = {};
	bool bulk = card_level() >= 90 && describe(&map, &s, parts);
	int groups;
	TensorKernel chosen = choose_kernel(s.pitch, parts, bulk, &groups);
	s.stages = stages_for(chosen.bytes);
	size_t bytes = chosen.bytes(s.stages);
	CUDA_TRY(cudaFuncSetAttribute((const void *)chosen.kernel,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
		"asking for shared memory");
	dim3 blocks(cuda_blocks(s.na, SIDE, 1 << 30), cuda_blocks(s.nb, SIDE, 65535),
		cuda_blocks(s.pitch, groups * GROUP, 65535));
	chosen.kernel<<<blocks, SQUARES * 32 + producers(bulk), bytes,
		device_of(backend)->stream>>>(s, map);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

/* Some of the views and some of the slices. */
static tomos_status run_views(tomos_backend *backend, const Projecting *what, const HatSlices *l,
	const HatView *views, Turning x, Turning y)
{
	int parts = parts_for(what->plan);
	float *head;
	int64_t halves = parts * y.nk * y.nj * y.pitch;
	TRY(cuda_scratch(backend, 0, x.pitch * x.nj * x.nk, &x.inside, "slices"));
	TRY(cuda_scratch(backend, 1, HEAD + (halves + 1) / 2, &head, "rows of slices"));
	TurnHalves to = {.data = (__half *)(head + HEAD),
		.parts = parts,
		.views = views,
		.largest = (unsigned *)head};
	Tensor s = {.views = views,
		.count = (int)y.nk,
		.columns = (int)y.nj,
		.na = (int)x.nj,
		.nb = (int)x.nk,
		.low_a = what->box.low[l->a],
		.low_b = what->box.low[l->b],
		.pitch = (int)x.pitch,
		.data = to.data,
		.to = x.inside};
	TRY(turn_in_halves(backend, &y, &to));
	TRY(run_kernel(backend, s, parts));
	x.largest = to.largest;
	return turn_out(backend, &x);
}

static tomos_status run_slices(tomos_backend *backend, const Projecting *what, const HatSlices *l,
	const HatView *views, int64_t slice, int64_t slices)
{
	Turning x = turn_volume(what, l, slice, slices, UNIT);
	Turning y = turn_views(what, l, slice, slices, UNIT);
	for (int64_t first = 0; first < what->count; first += PASS) {
		Turning pass = y;
		pass.outside += first * y.sk;
		pass.nk = min64(PASS, what->count - first);
		TRY(run_views(backend, what, l, views + first, x, pass));
	}
	return TOMOS_OK;
}

static tomos_status tensor_run(
	tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	const HatSlices l = *notes_of<HatSlices>(notes);
	const HatView *views;
	int64_t low, high;
	TRY(hat_views(backend, what, &l, &views));
	turn_range(what, &l, &low, &high);
	for (int64_t at = low; at < high; at += TURN_SLICES)
		TRY(run_slices(backend, what, &l, views, at, min64(TURN_SLICES, high - at)));
	return TOMOS_OK;
}

extern const CudaTuned tensor_kernels[1];
const CudaTuned tensor_kernels[1] = {
	{"tensor", KERNEL_voxel, ADJOINT, tensor_applies, tensor_run},
};
