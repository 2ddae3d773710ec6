/* Back projection of in-slice rays by tensor cores, with products of single warps (mma): compute
 * capability 8.0 and higher.
 *
 * In one view, a square of 4 x 4 pixels spans at most 8 detector columns, so that its weights are a
 * matrix of 16 pixels x 8 columns. Two views make the matrix of 16 x 16 that the tensor cores
 * multiply by 16 columns x 8 slices. A block has 16 x 16 pixels, one warp per square, and one or
 * two groups of 64 slices. Two producer warps copy the columns that the block needs, VIEWS views at
 * a time, into a ring of buffers (stages) in shared memory. The kernel is bound by shared memory:
 * one byte is read per update of a voxel by a view.
 *
 * With two parts, data and weights are sums of two halves, and three products are added: the
 * accuracy of float.
 */
#include "backend/cuda/kernels/tensor.h"

enum {
	SIDE = 16,    /* side of a block, in pixels */
	SQUARE = 4,   /* side of the square of a warp, in pixels */
	SQUARES = 16, /* of a block */
	REACH = 8,    /* most columns that a square meets */
	COLUMNS = 24, /* of a block */
	VIEWS = 8,    /* views per stage */
	GROUP = 64,   /* slices per buffer; a line has one column */
	LINE = 2 * GROUP,
	BUFFER = COLUMNS * LINE,
	MOST_STAGES = 4,
	PRODUCERS = 64
};

/* A square of pixels in a view. x: position of its first pixel relative to column `row` of the
 * stage; xa, xb: its change per pixel along a and b; inverse: one column. All in units of the hat's
 * half width. */
typedef struct __align__(16)
{
	float x, xa, xb, inverse;
}
Seen;

typedef struct {
	TensorBack request;
	int stages;
} Tensor;

/* Layout of the shared memory of a block. */
template <int GROUPS, int PARTS> struct Layout {
	static constexpr int VIEW = GROUPS * PARTS * BUFFER;
	static constexpr int STAGE = VIEWS * VIEW;
	static constexpr int TABLE = VIEWS * SQUARES * (int)(sizeof(Seen) + sizeof(int));
	static constexpr int ALIGNED = 1024; /* required for swizzled lines */
	static size_t bytes(int stages)
	{
		return (size_t)stages * (STAGE + TABLE) + ALIGNED;
	}
};

/* ---- on the GPU ------------------------------------------------------------------------------ */

#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800

/* State common to the warps of a block. */
typedef struct {
	unsigned char *data;
	Seen *table;
	int *rows;            /* first column of each square, relative to the stage */
	unsigned full, empty; /* first of the barriers of the stages */
} Ring;

/* Position of the producers, or of a warp, in the ring. */
typedef struct {
	int slot;
	unsigned parity;
} RingSlot;

static __device__ void slot_next(RingSlot *at, int stages)
{
	if (++at->slot == stages) {
		at->slot = 0;
		at->parity ^= 1;
	}
}

/* Smallest column onto which the pixels of a square project. e: column of its first pixel; ea,
 * eb: change per pixel; side: in pixels. */
static __device__ double least_column(double e, double ea, double eb, int side)
{
	return e + fmin(0., (side - 1) * ea) + fmin(0., (side - 1) * eb);
}

static __device__ double corner_column(const Tensor *s, const HatView *hat)
{
	return hat->e0 + hat->ea * (double)(s->request.low_a + (int64_t)blockIdx.x * SIDE) +
	       hat->eb * (double)(s->request.low_b + (int64_t)blockIdx.y * SIDE);
}

/* First column of a block; clamped where the block projects off the detector. */
static __device__ int first_column(const Tensor *s, const HatView *hat, double e)
{
	double first = floor(least_column(e, hat->ea, hat->eb, SIDE));
	return (int)fmax(fmin(first, (double)s->request.columns), (double)-COLUMNS);
}

/* Position of a square in a view (view and square by index); *row: its first column in the
 * stage, clamped to the buffer: a column lost to rounding has a weight of nearly zero. Views after
 * the last have zeros for data and finite weights. */
static __device__ Seen see(const Tensor *s, int view, int square, int *row)
{
	const HatView hat = s->request.views[min(view, s->request.count - 1)];
	double e = corner_column(s, &hat);
	int first = first_column(s, &hat, e);
	e += (square % SQUARE * hat.ea + square / SQUARE * hat.eb) * SQUARE - first;
	double line = floor(least_column(e, hat.ea, hat.eb, SQUARE));
	line = fmax(fmin(line, (double)(COLUMNS - REACH)), 0.);
	*row = (int)line;
	float inverse = 1 / hat.h;
	return Seen{(float)((e - line) / hat.h), (float)hat.ea * inverse, (float)hat.eb * inverse,
		inverse};
}

/* Starts the copies of one stage, in words of 16 bytes, swizzled to avoid bank conflicts of
 * these writes and of the matrix loads. */
template <int GROUPS, int PARTS>
static __device__ void fetch_lines(const Tensor *s, const Ring *ring, int slot, int first, int lane)
{
	unsigned full = ring->full + 8 * slot;
	unsigned to = shared_address(ring->data + slot * Layout<GROUPS, PARTS>::STAGE);
	int chunks = s->request.pitch / CHUNK;
	for (int v = 0; v < VIEWS; v++, to += Layout<GROUPS, PARTS>::VIEW) {
		bool valid = first + v < s->request.count;
		const HatView hat = s->request.views[valid ? first + v : 0];
		int base = first_column(s, &hat, corner_column(s, &hat));
		for (int i = lane; i < PARTS * GROUPS * COLUMNS * 8; i += PRODUCERS) {
			int word = i % 8, line = i / 8 % COLUMNS, column = base + line;
			int buffer = i / (COLUMNS * 8), group = buffer % GROUPS;
			int chunk = ((int)blockIdx.z * GROUPS + group) * 8 + word;
			int64_t plane = (int64_t)(buffer / GROUPS) * s->request.count + first + v;
			bool inside = valid && (unsigned)column < (unsigned)s->request.columns &&
				      chunk < chunks;
			int64_t at =
				inside ? (plane * s->request.columns + column) * chunks + chunk : 0;
			copy_16(to + buffer * BUFFER + line * LINE + ((word ^ (line % 8)) << 4),
				s->request.data + at, inside ? 16 : 0);
		}
	}
	copies_arrive(full);
	barrier_arrive(full); /* for the table, which is written by stores */
}

template <int GROUPS, int PARTS>
static __device__ void bring(const Tensor *s, const Ring *ring, int lane)
{
	RingSlot at = {0, 1}; /* the first round finds the ring empty */
	for (int first = 0; first < s->request.count; first += VIEWS, slot_next(&at, s->stages)) {
		barrier_wait(ring->empty + 8 * at.slot, at.parity);
		for (int i = lane; i < VIEWS * SQUARES; i += PRODUCERS) {
			int entry = at.slot * VIEWS * SQUARES + i;
			ring->table[entry] =
				see(s, first + i / SQUARES, i % SQUARES, &ring->rows[entry]);
		}
		fetch_lines<GROUPS, PARTS>(s, ring, at.slot, first, lane);
	}
}

/* Weights of two views in this lane, in the layout of mma: pixels g and g + 8 of the square,
 * columns 2 t and 2 t + 1. rest: their rounding errors. */
template <int FINE>
static __device__ __forceinline__ void weigh_views(
	const Seen *one, const Seen *two, int lane, unsigned w[4], unsigned rest[4])
{
	int g = lane / 4, t = lane % 4;
	float a = (float)(g % SQUARE), b = (float)(g / SQUARE), column = (float)(2 * t);
	float x = fmaf(a, one->xa, fmaf(b, one->xb, fmaf(-column, one->inverse, one->x)));
	float y = fmaf(a, two->xa, fmaf(b, two->xb, fmaf(-column, two->inverse, two->x)));
	float below_x = fmaf(2.f, one->xb, x), below_y = fmaf(2.f, two->xb, y);
	tensor_weigh<FINE>(x, x - one->inverse, &w[0], &rest[0]);
	tensor_weigh<FINE>(below_x, below_x - one->inverse, &w[1], &rest[1]);
	tensor_weigh<FINE>(y, y - two->inverse, &w[2], &rest[2]);
	tensor_weigh<FINE>(below_y, below_y - two->inverse, &w[3], &rest[3]);
}

/* Small products first, and their sum rounded before it is added: tensor cores truncate. */
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

/* Adds two views of a stage, for one square and all slices of the block. */
template <int GROUPS, int PARTS, int FINE>
static __device__ __forceinline__ void add_views(
	float sums[GROUPS * 8][4], const Seen *table, const int *rows, unsigned data, int lane)
{
	unsigned w[4], rest[4];
	int second = lane / 8 % 2, next = lane / 16;
	const Seen one = table[0], two = table[SQUARES];
	weigh_views<FINE>(&one, &two, lane, w, rest);
	int row = rows[second * SQUARES] + lane % 8;
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
			if (FINE == 2) {
				multiply_add(sums[2 * i], rest, d[0], d[1]);
				multiply_add(sums[2 * i + 1], rest, d[2], d[3]);
			}
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
		if (a >= s->request.na || b >= s->request.nb)
			continue;
		float *to = s->request.to + ((int64_t)b * s->request.na + a) * s->request.pitch;
#pragma unroll
		for (int n = 0; n < GROUPS * 8; n++)
			if (slice + n * CHUNK < s->request.pitch)
				*(float2 *)(to + slice + n * CHUNK) =
					make_float2(sums[n][2 * half], sums[n][2 * half + 1]);
	}
}

template <int GROUPS, int PARTS, int FINE>
static __device__ void take(const Tensor *s, const Ring *ring, int square, int lane)
{
	float sums[GROUPS * 8][4] = {};
	RingSlot at = {0, 0};
	for (int first = 0; first < s->request.count; first += VIEWS, slot_next(&at, s->stages)) {
		unsigned data = shared_address(ring->data + at.slot * Layout<GROUPS, PARTS>::STAGE);
		int entry = at.slot * VIEWS * SQUARES + square;
		barrier_wait(ring->full + 8 * at.slot, at.parity);
#pragma unroll(PARTS == 2 ? 1 : 2)
		for (int k = 0; k < VIEWS; k += 2)
			add_views<GROUPS, PARTS, FINE>(sums, ring->table + entry + k * SQUARES,
				ring->rows + entry + k * SQUARES,
				data + k * Layout<GROUPS, PARTS>::VIEW, lane);
		__syncwarp();
		if (lane == 0)
			barrier_arrive(ring->empty + 8 * at.slot);
	}
	write_sums<GROUPS>(s, sums, square, lane);
}

template <int GROUPS, int PARTS, int FINE> static __device__ void work(const Tensor *s)
{
	extern __shared__ unsigned char memory[];
	__shared__ __align__(8) uint64_t barriers[2][MOST_STAGES];
	Ring ring;
	ring.data = memory + (-shared_address(memory) & (Layout<GROUPS, PARTS>::ALIGNED - 1));
	ring.table = (Seen *)(ring.data + s->stages * Layout<GROUPS, PARTS>::STAGE);
	ring.rows = (int *)(ring.table + s->stages * VIEWS * SQUARES);
	ring.full = shared_address(barriers[0]);
	ring.empty = shared_address(barriers[1]);
	if (threadIdx.x < s->stages) {
		barrier_init(ring.full + 8 * threadIdx.x, 2 * PRODUCERS);
		barrier_init(ring.empty + 8 * threadIdx.x, SQUARES);
	}
	__syncthreads();
	int thread = threadIdx.x, own = thread - SQUARES * 32;
	if (own < 0)
		take<GROUPS, PARTS, FINE>(s, &ring, thread / 32, thread % 32);
	else
		bring<GROUPS, PARTS>(s, &ring, own);
}

#endif

/* Empty for GPUs without these instructions; warp_applies is false for them. */
template <int GROUPS, int PARTS, int FINE>
static __global__ void __launch_bounds__(SQUARES * 32 + PRODUCERS, 1)
	warp_back(const __grid_constant__ Tensor s)
{
#if __CUDA_ARCH__ >= 800
	work<GROUPS, PARTS, FINE>(&s);
#endif
}

/* ---- what the GPU can do --------------------------------------------------------------------- */

/* Stages that fit into the shared memory of a block. */
static int stages_for(size_t (*bytes)(int stages))
{
	int stages = MOST_STAGES;
	while (stages > 0 && bytes(stages) + 1024 > (size_t)cuda_most_shared())
		stages--;
	return stages;
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool warp_applies(const ProjectRequest *what, CudaNotes *notes)
{
	HatSlices *l = notes_of<HatSlices>(notes);
	return what->plan->data != DATA_FLOAT && tensor_slices(what, l) && l->width <= 1 &&
	       tensor_span(what, l, SQUARE, SQUARE) <= (double)REACH &&
	       tensor_span(what, l, SIDE, SIDE) <= (double)COLUMNS && cuda_level() >= 80;
}

typedef struct {
	void (*kernel)(const Tensor s);
	size_t (*bytes)(int stages);
} TensorKernel;

template <int GROUPS, int PARTS, int FINE> static TensorKernel kernel_of(void)
{
	return TensorKernel{warp_back<GROUPS, PARTS, FINE>, Layout<GROUPS, PARTS>::bytes};
}

/* Two groups of 64 slices per block, if there are more than 64 slices and two stages fit into
 * shared memory. With weights in two parts that would need too many registers. */
static TensorKernel choose_kernel(const TensorBack *request, int *groups)
{
	TensorKernel two = kernel_of<2, 1, 1>();
	*groups =
		request->fine == 1 && request->pitch > GROUP && stages_for(two.bytes) >= 2 ? 2 : 1;
	return *groups == 2          ? two
	       : request->fine == 1  ? kernel_of<1, 1, 1>()
	       : request->parts == 1 ? kernel_of<1, 1, 2>()
				     : kernel_of<1, 2, 2>();
}

static tomos_status launch(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *slices, const TensorBack *request)
{
	(void)what;
	(void)slices;
	int groups;
	TensorKernel chosen = choose_kernel(request, &groups);
	Tensor s = {*request, stages_for(chosen.bytes)};
	size_t bytes = chosen.bytes(s.stages);
	CUDA_TRY(cudaFuncSetAttribute((const void *)chosen.kernel,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
		"asking for shared memory");
	dim3 blocks(cuda_blocks(request->na, SIDE, 1 << 30), cuda_blocks(request->nb, SIDE, 65535),
		cuda_blocks(request->pitch, groups * GROUP, 65535));
	chosen.kernel<<<blocks, SQUARES * 32 + PRODUCERS, bytes, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

static tomos_status warp_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	return tensor_back_run(backend, what, notes, epilogue, launch);
}

extern const CudaKernel cuda_slices_back_mma;
const CudaKernel cuda_slices_back_mma = {
	warp_applies, warp_run, tensor_fuses, transpose_overwrites};
