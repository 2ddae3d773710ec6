/* Back projection of slices that share their weights by tensor cores, four warps together: cards of 9.0.
 *
 * In one view, a square of 8 x 8 pixels meets at most 16 columns. Their hats are a matrix of 64 x 16 in the
 * registers of four warps, which the cores multiply with 16 columns x 128 slices in shared memory. A block
 * has four such squares, PAIR for each four warps; one more warp runs ahead and brings the columns that the
 * block meets, VIEWS views at a time, into a ring of stages. It is bound by the cores: 128 updates a clock,
 * since seven products of eight are nothing.
 *
 * With two parts, data and weights are sums of two halves and three products are summed: float accuracy, if
 * sums of few views are added up in floats, since the cores cut off where they should round.
 */
#include "backend/cuda/tuned/tensor.h"

enum {
	SIDE = 16,    /* pixels of a block */
	SQUARE = 8,   /* pixels of a product */
	SQUARES = 4,  /* of a block */
	REACH = 16,   /* columns of a square */
	COLUMNS = 24, /* of a block */
	VIEWS = 8,    /* of a stage */
	STAGES_OF_RING = 4,
	PAIR = 1, /* squares of four warps */
	TAKERS = SQUARES / PAIR * 128,
	THREADS = TAKERS + 128,
	TAKER_REGISTERS = PAIR == 2 ? 232 : 104,
	BRINGER_REGISTERS = PAIR == 2 ? 40 : 64,
	FEW = 4,    /* views whose sums in two parts the cores add up */
	LINE = 128, /* bytes of a column, in a buffer of 64 slices */
	BUFFER = COLUMNS * LINE
};

/* How the shared memory of a block is used. */
template <int SLICES, int PARTS> struct Layout {
	static constexpr int BUFFERS = SLICES * (int)sizeof(__half) / LINE;
	static constexpr int PART = BUFFERS * BUFFER;
	static constexpr int VIEW = PARTS * PART;
	static constexpr int STAGE = VIEWS * VIEW;
	static constexpr int TABLE = VIEWS * SQUARES * (int)sizeof(Seen);
	static constexpr int PLACES = VIEWS * SQUARES * (int)sizeof(unsigned);
	static constexpr int BYTES = STAGES_OF_RING * (STAGE + TABLE + PLACES) + 1024;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* What the warps of a block share; `full` and `empty` are the first barrier of each ring. */
typedef struct {
	unsigned data;
	Seen *table;
	unsigned *from; /* where its squares find their columns: the first half of group_matrix */
	unsigned full, empty;
	int a, b; /* the first pixel of the block */
} Ring;

static __device__ double least_column(double e, double ea, double eb, int side)
{
	return e + fmin(0., (side - 1) * ea) + fmin(0., (side - 1) * eb);
}

/* One lane for each view and square of a stage. Lines are kept inside the buffer, whatever rounding does: a
 * column that is lost by that has a weight of nearly zero. Views after the last have zeros for data. */
template <int SLICES, int PARTS>
static __device__ void bring_stage(const TensorBack *s, const CUtensorMap *map, const Ring *ring,
	int slot, int first, const HatView hat, int lane)
{
	int view = first + lane / SQUARES, square = lane % SQUARES;
	double e = hat.e0 + hat.ea * (double)(s->low_a + ring->a) +
		   hat.eb * (double)(s->low_b + ring->b);
	/* The hat reaches no further than one column; off the detector it does not matter how far. */
	double base = floor(least_column(e, hat.ea, hat.eb, SIDE));
	base = fmax(fmin(base, (double)s->columns), (double)-COLUMNS);
	e += (square % 2 * hat.ea + square / 2 * hat.eb) * SQUARE - base;
	double row = floor(least_column(e, hat.ea, hat.eb, SQUARE));
	row = fmax(fmin(row, (double)(COLUMNS - REACH)), 0.);
	float inverse = 1 / hat.h;
	int entry = slot * VIEWS * SQUARES + lane;
	ring->table[entry] = Seen{(float)(e - row) * inverse, (float)hat.ea * inverse,
		(float)hat.eb * inverse, inverse};
	unsigned data = ring->data + slot * Layout<SLICES, PARTS>::STAGE +
			lane / SQUARES * Layout<SLICES, PARTS>::VIEW;
	ring->from[entry] = (unsigned)group_matrix_wide(data + (int)row * LINE, BUFFER);
	unsigned full = ring->full + 8 * slot;
	__syncwarp();
	if (lane == 0)
		bulk_expect(full, Layout<SLICES, PARTS>::STAGE);
	__syncwarp();
	constexpr int buffers = Layout<SLICES, PARTS>::BUFFERS;
	int part = square / buffers, buffer = square % buffers;
	if (part < PARTS)
		bulk_copy(data + square * BUFFER, map,
			((int)blockIdx.z * buffers + buffer) * (LINE / (int)sizeof(__half)),
			(int)base, view < s->count ? part * s->count + view : PARTS * s->count,
			full);
}

/* Where stage number `stage` is, and which of a barrier's phases is its own. */
static __device__ __forceinline__ int slot_of(int stage)
{
	return stage % STAGES_OF_RING;
}

static __device__ __forceinline__ unsigned parity_of(int stage)
{
	return stage / STAGES_OF_RING & 1;
}

static __device__ HatView view_of(const TensorBack *s, int stage, int lane)
{
	return s->views[min(stage * VIEWS + lane / SQUARES, s->count - 1)];
}

/* A stage takes the place of another, once all have done with that. Its views are read long before. */
template <int SLICES, int PARTS>
static __device__ void bring(
	const TensorBack *s, const CUtensorMap *map, const Ring *ring, int lane)
{
	HatView next = view_of(s, 0, lane);
	for (int stage = 0; stage * VIEWS < s->count; stage++) {
		const HatView hat = next;
		next = view_of(s, stage + 1, lane);
		if (stage >= STAGES_OF_RING)
			barrier_wait(ring->empty + 8 * slot_of(stage), parity_of(stage) ^ 1);
		bring_stage<SLICES, PARTS>(s, map, ring, slot_of(stage), stage * VIEWS, hat, lane);
	}
}

/* Weights of a view as this lane holds them: two pixels, two rows apart, with columns 2 t, 2 t + 1 and the same
 * plus eight. */
template <int PARTS>
static __device__ __forceinline__ void weigh_view(
	const Seen *v, float a, float b, float column, unsigned w[4], unsigned rest[4])
{
	float x = fmaf(a, v->xa, fmaf(b, v->xb, fmaf(-column, v->inverse, v->x)));
	float far = fmaf(-8.f, v->inverse, x), down = 2 * v->xb;
	float below = x + down, far_below = far + down;
	tensor_weigh<PARTS>(x, x - v->inverse, &w[0], &rest[0]);
	tensor_weigh<PARTS>(below, below - v->inverse, &w[1], &rest[1]);
	tensor_weigh<PARTS>(far, far - v->inverse, &w[2], &rest[2]);
	tensor_weigh<PARTS>(far_below, far_below - v->inverse, &w[3], &rest[3]);
}

template <int N>
static __device__ void write_sums(const TensorBack *s, const float (&sums)[N], int a, int b)
{
	int slice = blockIdx.z * N * 2 + threadIdx.x % 4 * 2;
	for (int half = 0; half < 2; half++, b += 2) {
		if (a >= s->na || b >= s->nb)
			continue;
		float *to = s->to + ((int64_t)b * s->na + a) * s->pitch;
#pragma unroll
		for (int n = 0; n < N / 4; n++)
			if (slice + n * CHUNK < s->pitch)
				*(float2 *)(to + slice + n * CHUNK) = make_float2(
					sums[4 * n + 2 * half], sums[4 * n + 2 * half + 1]);
	}
}

/* The products of one view with a square. */
template <int SLICES, int PARTS>
static __device__ __forceinline__ void multiply(float (&sums)[SLICES / 2], const unsigned w[4],
	const unsigned rest[4], unsigned place, bool add)
{
	uint64_t from = group_matrix_wide(0, BUFFER) | place;
	if constexpr (PARTS == 2) {
		group_multiply_add<SLICES>(sums, w, from + Layout<SLICES, PARTS>::PART / 16, add);
		group_multiply_add<SLICES>(sums, rest, from, true);
		group_multiply_add<SLICES>(sums, w, from, true);
	} else {
		group_multiply_add<SLICES>(sums, w, from, true);
	}
}

/* Two squares side by side, whose weights are made while the cores multiply those of the view before. */
template <int SLICES, int PARTS>
static __device__ __forceinline__ void take(const TensorBack *s, const Ring *ring)
{
	float sums[PAIR][SLICES / 2] = {}, part[PAIR][PARTS == 2 ? SLICES / 2 : 1];
	unsigned w[2][PAIR][4], rest[2][PAIR][4];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, pair = threadIdx.x / 128;
	int g = lane / 4, da = warp % 2 * 4 + g % 4, db = warp / 2 * 4 + g / 4;
	float a = (float)da, b = (float)db, column = (float)(lane % 4 * 2);
	for (int stage = 0; stage * VIEWS < s->count; stage++) {
		int entry = (slot_of(stage) * VIEWS) * SQUARES + pair * PAIR;
		const Seen *table = ring->table + entry;
		const unsigned *places = ring->from + entry;
		barrier_wait(ring->full + 8 * slot_of(stage), parity_of(stage));
		Seen seen[PAIR];
		unsigned place[PAIR];
#pragma unroll
		for (int i = 0; i < PAIR; i++) {
			seen[i] = table[i];
			place[i] = places[i];
		}
#pragma unroll
		for (int k = 0; k < VIEWS; k++) {
			unsigned now[PAIR];
#pragma unroll
			for (int i = 0; i < PAIR; i++) {
				now[i] = place[i];
				weigh_view<PARTS>(
					&seen[i], a, b, column, w[k % 2][i], rest[k % 2][i]);
				if (k + 1 < VIEWS) {
					seen[i] = table[(k + 1) * SQUARES + i];
					place[i] = places[(k + 1) * SQUARES + i];
				}
			}
			group_fence();
#pragma unroll
			for (int i = 0; i < PAIR; i++) {
				if constexpr (PARTS == 1)
					multiply<SLICES, 1>(
						sums[i], w[k % 2][i], NULL, now[i], true);
				else
					multiply<SLICES, 2>(part[i], w[k % 2][i], rest[k % 2][i],
						now[i], k % FEW != 0);
			}
			group_commit();
			group_wait<1>();
			if (k == 0 && stage > 0 && lane == 0) /* all products of that are made */
				barrier_arrive(ring->empty + 8 * slot_of(stage - 1));
			if constexpr (PARTS == 2)
				if (k % FEW == FEW - 1) {
					group_wait<0>();
#pragma unroll
					for (int i = 0; i < PAIR * SLICES / 2; i++)
						sums[i % PAIR][i / PAIR] +=
							part[i % PAIR][i / PAIR];
				}
		}
	}
	group_wait<0>();
#pragma unroll
	for (int i = 0; i < PAIR; i++)
		write_sums(s, sums[i], ring->a + (pair * PAIR + i) % 2 * SQUARE + da,
			ring->b + (pair * PAIR + i) / 2 * SQUARE + db);
}

template <int SLICES, int PARTS>
static __device__ void work(const TensorBack *s, const CUtensorMap *map)
{
	extern __shared__ unsigned char shared[];
	__shared__ __align__(8) uint64_t barriers[2][STAGES_OF_RING];
	unsigned char *memory = shared + (-shared_address(shared) & 1023);
	const int2 place = cluster_place((s->na + SIDE - 1) / SIDE);
	Ring ring;
	ring.a = place.x * SIDE;
	ring.b = place.y * SIDE;
	if (ring.a >= s->na || ring.b >= s->nb)
		return;
	ring.data = shared_address(memory);
	ring.table = (Seen *)(memory + STAGES_OF_RING * Layout<SLICES, PARTS>::STAGE);
	ring.from = (unsigned *)(ring.table + STAGES_OF_RING * VIEWS * SQUARES);
	ring.full = shared_address(barriers[0]);
	ring.empty = shared_address(barriers[1]);
	if (threadIdx.x < STAGES_OF_RING) {
		barrier_init(ring.full + 8 * threadIdx.x, 1);
		barrier_init(ring.empty + 8 * threadIdx.x, TAKERS / 32);
		bulk_fence();
	}
	__syncthreads();
	if (threadIdx.x < TAKERS) {
		group_more_registers<TAKER_REGISTERS>();
		take<SLICES, PARTS>(s, &ring);
	} else {
		group_fewer_registers<BRINGER_REGISTERS>();
		if (threadIdx.x < TAKERS + 32)
			bring<SLICES, PARTS>(s, map, &ring, threadIdx.x - TAKERS);
	}
}

#endif

/* Compiled to nothing for other cards, which group_applies leaves alone. */
template <int SLICES, int PARTS>
static __global__ void __launch_bounds__(THREADS, 1)
	group_back(const __grid_constant__ TensorBack s, const __grid_constant__ CUtensorMap map)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	work<SLICES, PARTS>(&s, &map);
#endif
}

/* ---- a whole request ---------------------------------------------------------------------- */

static bool fits(const Projecting *what, HatSlices *l)
{
	return tensor_slices(what, l) && l->width <= 1 && tensor_level() == 90 &&
	       tensor_span(what, l, SQUARE, SQUARE) <= (double)REACH &&
	       tensor_span(what, l, SIDE, SIDE) <= (double)COLUMNS;
}

static bool half_applies(const Projecting *what, CudaNotes *notes)
{
	return what->plan->data == DATA_HALF && fits(what, notes_of<HatSlices>(notes));
}

static bool split_applies(const Projecting *what, CudaNotes *notes)
{
	return what->plan->data == DATA_SPLIT && fits(what, notes_of<HatSlices>(notes));
}

static bool float_applies(const Projecting *what, CudaNotes *notes)
{
	return what->plan->data == DATA_FLOAT && fits(what, notes_of<HatSlices>(notes));
}

template <int SLICES, int PARTS>
static tomos_status launch(tomos_backend *backend, const TensorBack *s)
{
	CUtensorMap map;
	const int bytes = Layout<SLICES, PARTS>::BYTES;
	const int64_t size[3] = {s->pitch, s->columns, (int64_t)PARTS * s->count};
	const int box[3] = {LINE / (int)sizeof(__half), COLUMNS, 1};
	if (!tensor_describe(&map, s->data, size, box))
		return fail(TOMOS_NO_DEVICE,
			"the driver cannot describe views of %d columns for bulk copies",
			s->columns);
	CUDA_TRY(cudaFuncSetAttribute((const void *)group_back<SLICES, PARTS>,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"asking for shared memory");
	dim3 blocks(cluster_blocks((s->na + SIDE - 1) / SIDE, (s->nb + SIDE - 1) / SIDE), 1,
		cuda_blocks(s->pitch, SLICES, 65535));
	group_back<SLICES, PARTS><<<blocks, THREADS, bytes, device_of(backend)->stream>>>(*s, map);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

static tomos_status launch_fitting(tomos_backend *backend, const TensorBack *s)
{
	return s->parts == 2   ? launch<64, 2>(backend, s)
	       : s->pitch > 64 ? launch<128, 1>(backend, s)
			       : launch<64, 1>(backend, s);
}

static tomos_status group_run(
	tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	return tensor_back_run(backend, what, notes, launch_fitting);
}

/* Floats by choice: rows in shared memory are nearly as fast, and exact. */
extern const CudaTuned group_back_kernels[6];
const CudaTuned group_back_kernels[6] = {
	{"tensor", KERNEL_voxel, ADJOINT, half_applies, group_run, false, false, tensor_steps},
	{"tensor", KERNEL_joseph, ADJOINT, half_applies, group_run, false, false, tensor_steps},
	{"tensor-split", KERNEL_voxel, ADJOINT, split_applies, group_run, false, false,
		tensor_steps},
	{"tensor-split", KERNEL_joseph, ADJOINT, split_applies, group_run, false, false,
		tensor_steps},
	{"tensor-split", KERNEL_voxel, ADJOINT, float_applies, group_run, true, false,
		tensor_steps},
	{"tensor-split", KERNEL_joseph, ADJOINT, float_applies, group_run, true, false,
		tensor_steps},
};
