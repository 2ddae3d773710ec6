/* Forward projection of slices that share their weights by tensor cores, four warps together: cards of 9.0.
 *
 * A block keeps a tile of 32 x 24 pixels with all their slices in shared memory and goes through the views.
 * Four warps have 16 columns each of four neighbouring views: their hats over a square of 4 x 4 pixels are a
 * matrix of 64 x 16, which the cores multiply with the square's 16 pixels x 128 slices; the same for the next
 * four views. The sums of 16 columns stay in registers while all squares that they meet pass by, and are then
 * added to the projections. One more warp runs ahead and finds out which squares that are. It is bound by the
 * cores: 128 updates a clock, less a fourth for squares that meet two groups of columns.
 *
 * With two parts, as in group_back.cu, the sums of few squares are added up in floats.
 */
#include "backend/cuda/tuned/tensor.h"

enum {
	GROUP = 16,   /* columns of a warp */
	TOGETHER = 4, /* warps, and views in a product */
	PAIR = 2,     /* products with the same square */
	VIEWS = TOGETHER * PAIR,
	ACROSS = TILE_J / SQUARE_SIDE, /* squares: 8 in a row, which is a byte of bits */
	DOWN = TILE_K / SQUARE_SIDE,
	SQUARES = ACROSS * DOWN,
	SQUARE_PIXELS = SQUARE_SIDE * SQUARE_SIDE,
	ITEMS = 4, /* groups of columns in VIEWS views, prepared together: one view for each lane */
	BATCHES = 4,
	TAKERS = 256,
	THREADS = TAKERS + 128,
	TAKER_REGISTERS = 232, /* of 168 for each thread */
	BRINGER_REGISTERS = 40,
	WORD = 16,
	FEW = 6 /* squares whose sums in two parts the cores add up */
};

typedef struct {
	const HatView *views;
	int count, columns;
	int64_t low_a, low_b; /* where the box begins */
	int tiles_a, tiles_b;
	int pitch;         /* of the sums, in slices */
	int groups;        /* of columns that a tile can meet */
	const uint4 *data; /* as TurnTiles says */
	float *to;         /* [view][column][slice], added to */
	unsigned *done;    /* batches, by all blocks together */
	int blocks;        /* that run at the same time */
} Forward;

/* A group of columns in a view: the distance of the tile's first pixel from its first column, in hats, the
 * slopes for a pixel, the hats of a column. Columns from `first` up to `end` are there to be added to. */
typedef struct __align__(16)
{
	float x, xa, xb, inverse, weight;
	int first, end, view;
}
Strip;

/* Squares as bits, those of the first four rows and of the others. */
typedef struct {
	unsigned low, high;
} Squares;

/* Where a square is: its first pixel in the tile and in shared memory, the first half of group_matrix. The
 * last is for no square at all, which is too far away for any hat. */
typedef struct __align__(16)
{
	float a, b, away;
	unsigned place;
}
Square;

/* How the shared memory of a block is used. */
template <int SLICES, int PARTS> struct Layout {
	static constexpr int PART = SLICES / CHUNK * TILE_PIXELS * WORD;
	static constexpr int TILE = PARTS * PART;
	static constexpr int STRIPS = BATCHES * ITEMS * VIEWS * (int)sizeof(Strip);
	static constexpr int BYTES = TILE + STRIPS + (SQUARES + 1) * (int)sizeof(Square) +
				     BATCHES * ITEMS * (int)sizeof(Squares);
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* What the warps of a block share; `full` and `empty` are the first barrier of each ring. */
typedef struct {
	const Square *squares;
	Strip *strips;
	Squares *met;
	unsigned full, empty;
	int a, b; /* the tile */
} Ring;

static __device__ Strip see_strip(
	const Forward *s, const Ring *ring, const HatView hat, int view, int group)
{
	double e = hat.e0 + hat.ea * (double)(s->low_a + ring->a * TILE_J) +
		   hat.eb * (double)(s->low_b + ring->b * TILE_K);
	double da = (TILE_J - 1) * hat.ea, db = (TILE_K - 1) * hat.eb, h = hat.h;
	double least = floor(e + fmin(0., da) + fmin(0., db) - h) + 1;
	double most = ceil(e + fmax(0., da) + fmax(0., db) + h);
	least = fmax(fmin(least, 1e9), -1e9) + group * GROUP;
	float inverse = 1 / hat.h;
	Strip strip = {(float)(e - least) * inverse, (float)hat.ea * inverse,
		(float)hat.eb * inverse, inverse, hat.weight, (int)least,
		(int)fmin(most, (double)s->columns), view};
	if (view >= s->count || strip.first + GROUP <= 0)
		strip.end = strip.first;
	return strip;
}

/* The squares that meet the strip; one more does no harm. */
static __device__ Squares squares_met(const Strip *strip)
{
	const float side = SQUARE_SIDE - 1, slack = 1.001f;
	float low = fminf(0, side * strip->xa) + fminf(0, side * strip->xb) + strip->x;
	float high = fmaxf(0, side * strip->xa) + fmaxf(0, side * strip->xb) + strip->x;
	float end = (GROUP - 1) * strip->inverse + slack;
	unsigned met[2] = {0, 0};
#pragma unroll
	for (int i = 0; i < SQUARES; i++) {
		float at = fmaf((float)(i % ACROSS * SQUARE_SIDE), strip->xa,
			(float)(i / ACROSS * SQUARE_SIDE) * strip->xb);
		met[i / 32] |= (unsigned)(at + high > -slack && at + low < end) << i % 32;
	}
	return strip->first < strip->end ? Squares{met[0], met[1]} : Squares{0, 0};
}

/* Those that any of the views of a group of lanes meets. */
static __device__ Squares squares_of_any(Squares own)
{
	for (int step = 1; step < VIEWS; step *= 2) {
		own.low |= __shfl_xor_sync(0xffffffffu, own.low, step);
		own.high |= __shfl_xor_sync(0xffffffffu, own.high, step);
	}
	return own;
}

static __device__ int items_of(const Forward *s)
{
	return (s->count + VIEWS - 1) / VIEWS * s->groups;
}

/* Of a batch, this lane's item and view. */
static __device__ int item_of(int batch, int lane)
{
	return batch * ITEMS + lane / VIEWS;
}

static __device__ int view_of(const Forward *s, int batch, int lane)
{
	return item_of(batch, lane) / s->groups * VIEWS + lane % VIEWS;
}

static __device__ HatView hat_of(const Forward *s, int batch, int lane)
{
	return s->views[min(view_of(s, batch, lane), s->count - 1)];
}

/* A batch takes the place of another, once all have done with that. Its views are read long before. A block
 * begins with the views that the others are at, on average, and ends where it began: what they add to stays
 * in the second cache. */
static __device__ void bring(const Forward *s, const Ring *ring, int lane)
{
	int batches = (items_of(s) + ITEMS - 1) / ITEMS;
	int batch = (int)(*(volatile unsigned *)s->done / (unsigned)s->blocks % (unsigned)batches);
	HatView next = hat_of(s, batch, lane);
	for (int i = 0; i < batches; i++) {
		const HatView hat = next;
		int slot = i % BATCHES, now = batch;
		batch = batch + 1 < batches ? batch + 1 : 0;
		next = hat_of(s, batch, lane);
		const Strip strip = see_strip(
			s, ring, hat, view_of(s, now, lane), item_of(now, lane) % s->groups);
		const Squares met = squares_of_any(squares_met(&strip));
		if (i >= BATCHES)
			barrier_wait(ring->empty + 8 * slot, (i / BATCHES & 1) ^ 1);
		ring->strips[slot * ITEMS * VIEWS + lane] = strip;
		if (lane % VIEWS == 0)
			ring->met[slot * ITEMS + lane / VIEWS] = met;
		__syncwarp();
		if (lane == 0) {
			barrier_arrive(ring->full + 8 * slot);
			atomicAdd(s->done, 1);
		}
	}
}

/* What a lane needs to weigh a square: columns g and g + 8, pixels 2 t and 2 t + 1 and the same two rows on. */
typedef struct {
	float x, xa, xb, down, far;
} Lane;

static __device__ Lane lane_of(const Strip *strip, int lane)
{
	int g = lane / 4, pixel = lane % 4 * 2;
	float a = (float)(pixel % SQUARE_SIDE), b = (float)(pixel / SQUARE_SIDE);
	return Lane{fmaf(a, strip->xa, fmaf(b, strip->xb, strip->x - (float)g * strip->inverse)),
		strip->xa, strip->xb, 2 * strip->xb, 8 * strip->inverse};
}

template <int PARTS>
static __device__ __forceinline__ void weigh_square(
	const Lane *l, const Square *square, unsigned w[4], unsigned rest[4])
{
	float x = fmaf(square->a, l->xa, fmaf(square->b, l->xb, l->x + square->away));
	float next = x + l->xa, below = x + l->down, below_next = next + l->down;
	tensor_weigh<PARTS>(x, next, &w[0], &rest[0]);
	tensor_weigh<PARTS>(x - l->far, next - l->far, &w[1], &rest[1]);
	tensor_weigh<PARTS>(below, below_next, &w[2], &rest[2]);
	tensor_weigh<PARTS>(below - l->far, below_next - l->far, &w[3], &rest[3]);
}

static __device__ __forceinline__ Square next_square(const Ring *ring, Squares *left)
{
	int first = left->low ? 0 : 32;
	unsigned bits = left->low ? left->low : left->high, others = bits & (bits - 1);
	left->high = left->low ? left->high : others;
	left->low = left->low ? others : 0;
	return ring->squares[bits ? first + __ffs((int)bits) - 1 : (int)SQUARES];
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void multiply(float (&sums)[SLICES / 2], const unsigned w[4],
	const unsigned rest[4], unsigned place, bool add)
{
	uint64_t from = group_matrix(0, TILE_PIXELS * WORD) | place;
	if constexpr (PARTS == 2) {
		group_multiply_add<SLICES>(sums, w, from + Layout<SLICES, PARTS>::PART / WORD, add);
		group_multiply_add<SLICES>(sums, rest, from, true);
		group_multiply_add<SLICES>(sums, w, from, true);
	} else {
		group_multiply_add<SLICES>(sums, w, from, add);
	}
}

/* One square for both products; its weights are made while the cores multiply the square before. */
template <int SLICES, int PARTS>
static __device__ __forceinline__ void add_square(float (&sums)[PAIR][SLICES / 2], const Ring *ring,
	const Lane lanes[PAIR], Square *square, Squares *left, unsigned w[PAIR][4],
	unsigned rest[PAIR][4], bool add)
{
	unsigned place = square->place;
#pragma unroll
	for (int i = 0; i < PAIR; i++)
		weigh_square<PARTS>(&lanes[i], square, w[i], rest[i]);
	*square = next_square(ring, left); /* long before it is needed */
	group_fence();
#pragma unroll
	for (int i = 0; i < PAIR; i++)
		multiply<SLICES, PARTS>(sums[i], w[i], rest[i], place, add);
	group_commit();
	group_wait<1>();
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void add_squares(float (&sums)[PAIR][SLICES / 2],
	const Ring *ring, const Lane lanes[PAIR], Square *square, Squares *left, int most)
{
	unsigned w[2][PAIR][4], rest[2][PAIR][4];
	int count = 0;
	do {
		add_square<SLICES, PARTS>(
			sums, ring, lanes, square, left, w[0], rest[0], count > 0);
		add_square<SLICES, PARTS>(sums, ring, lanes, square, left, w[1], rest[1], true);
		count += 2;
	} while (count < most && square->away == 0);
	group_wait<0>();
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void add_all(
	float (&sums)[PAIR][SLICES / 2], const Ring *ring, const Lane lanes[PAIR], Squares left)
{
	Square square = next_square(ring, &left);
	add_squares<SLICES, PARTS>(sums, ring, lanes, &square, &left, PARTS == 1 ? SQUARES : FEW);
	if constexpr (PARTS == 2)
		while (square.away == 0) {
			float part[PAIR][SLICES / 2];
			add_squares<SLICES, PARTS>(part, ring, lanes, &square, &left, FEW);
#pragma unroll
			for (int i = 0; i < PAIR * SLICES / 2; i++)
				sums[i % PAIR][i / PAIR] += part[i % PAIR][i / PAIR];
		}
}

static __device__ __forceinline__ void add_pair(float *to, float x, float y)
{
	asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y)
		     : "memory");
}

/* Scaled where they are: a register that is to be added must not be needed again before the card has read
 * it. */
template <int N>
static __device__ __forceinline__ void write_sums(
	const Forward *s, const Strip *strip, float (&sums)[N], int lane)
{
	int slice = blockIdx.z * N * 2 + lane % 4 * 2, column = strip->first + lane / 4;
	bool whole = (int)(blockIdx.z + 1) * N * 2 <= s->pitch;
	float *to = s->to + ((int64_t)strip->view * s->columns + column) * s->pitch + slice;
#pragma unroll
	for (int i = 0; i < N; i++)
		sums[i] *= strip->weight;
#pragma unroll
	for (int half = 0; half < 2; half++, column += 8, to += 8 * s->pitch)
		if (column >= 0 && column < strip->end) {
#pragma unroll
			for (int n = 0; n < N / 4; n++)
				if (whole || slice + n * CHUNK < s->pitch)
					add_pair(to + n * CHUNK, sums[4 * n + 2 * half],
						sums[4 * n + 2 * half + 1]);
		}
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void take(const Forward *s, const Ring *ring)
{
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % TOGETHER, group = threadIdx.x / 128;
	for (int batch = 0; batch * ITEMS < items_of(s); batch++) {
		int slot = batch % BATCHES;
		barrier_wait(ring->full + 8 * slot, batch / BATCHES & 1);
		for (int i = slot * ITEMS + group; i < (slot + 1) * ITEMS; i += TAKERS / 128) {
			const Squares met = ring->met[i];
			if (!(met.low | met.high))
				continue;
			const Strip *strips = ring->strips + i * VIEWS + warp;
			const Lane lanes[PAIR] = {
				lane_of(&strips[0], lane), lane_of(&strips[TOGETHER], lane)};
			float sums[PAIR][SLICES / 2];
			add_all<SLICES, PARTS>(sums, ring, lanes, met);
#pragma unroll
			for (int p = 0; p < PAIR; p++)
				write_sums(s, &strips[p * TOGETHER], sums[p], lane);
		}
		__syncwarp();
		if (lane == 0)
			barrier_arrive(ring->empty + 8 * slot);
	}
}

static __device__ Square square_of(int number, unsigned data)
{
	if (number == SQUARES)
		return Square{0, 0, 1e9f, (unsigned)group_matrix(data, TILE_PIXELS * WORD)};
	return Square{(float)(number % ACROSS * SQUARE_SIDE),
		(float)(number / ACROSS * SQUARE_SIDE), 0,
		(unsigned)group_matrix(data + number * SQUARE_PIXELS * WORD, TILE_PIXELS * WORD)};
}

template <int SLICES, int PARTS> static __device__ void work(const Forward *s)
{
	extern __shared__ __align__(128) unsigned char memory[];
	__shared__ __align__(8) uint64_t barriers[2 * BATCHES + 1];
	typedef Layout<SLICES, PARTS> L;
	const int2 place = cluster_place(s->tiles_a);
	if (place.x >= s->tiles_a || place.y >= s->tiles_b)
		return;
	int64_t tile = ((int64_t)blockIdx.z * s->tiles_b + place.y) * s->tiles_a + place.x;
	unsigned data = shared_address(memory), ready = shared_address(&barriers[2 * BATCHES]);
	Strip *strips = (Strip *)(memory + L::TILE);
	Square *squares = (Square *)(memory + L::TILE + L::STRIPS);
	const Ring ring = {squares, strips, (Squares *)(squares + SQUARES + 1),
		shared_address(barriers), shared_address(barriers + BATCHES), place.x, place.y};
	if (threadIdx.x <= SQUARES)
		squares[threadIdx.x] = square_of(threadIdx.x, data);
	if (threadIdx.x == 0) {
		for (int i = 0; i < BATCHES; i++) {
			barrier_init(ring.full + 8 * i, 1);
			barrier_init(ring.empty + 8 * i, TAKERS / 32);
		}
		barrier_init(ready, 1);
		bulk_fence();
		bulk_expect(ready, L::TILE);
		bulk_copy_plain(data, s->data + tile * (L::TILE / WORD), L::TILE, ready);
	}
	__syncthreads();
	if (threadIdx.x < TAKERS) {
		group_more_registers<TAKER_REGISTERS>();
		barrier_wait(ready, 0);
		take<SLICES, PARTS>(s, &ring);
	} else {
		group_fewer_registers<BRINGER_REGISTERS>();
		if (threadIdx.x < TAKERS + 32)
			bring(s, &ring, threadIdx.x - TAKERS);
	}
}

#endif

template <int SLICES, int PARTS>
static __global__ void __launch_bounds__(THREADS, 1)
	group_forward(const __grid_constant__ Forward s)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	work<SLICES, PARTS>(&s);
#endif
}

/* ---- a whole request ---------------------------------------------------------------------- */

static bool half_applies(const Projecting *what, CudaNotes *notes)
{
	return what->plan->data == DATA_HALF && tensor_level() == 90 &&
	       tensor_slices(what, notes_of<HatSlices>(notes));
}

static bool split_applies(const Projecting *what, CudaNotes *notes)
{
	return what->plan->data != DATA_HALF && tensor_level() == 90 &&
	       tensor_slices(what, notes_of<HatSlices>(notes));
}

template <int SLICES, int PARTS>
static tomos_status launch(tomos_backend *backend, const Forward *s, const TurnTiles *tiles)
{
	const int bytes = Layout<SLICES, PARTS>::BYTES;
	CUDA_TRY(cudaFuncSetAttribute((const void *)group_forward<SLICES, PARTS>,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"asking for shared memory");
	dim3 blocks(cluster_blocks(tiles->tiles_j, tiles->tiles_k), 1, (unsigned)tiles->groups);
	group_forward<SLICES, PARTS><<<blocks, THREADS, bytes, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

static tomos_status launch_fitting(tomos_backend *backend, const Forward *s, const TurnTiles *tiles)
{
	return tiles->parts == 2                 ? launch<64, 2>(backend, s, tiles)
	       : tiles->chunks > 64 / (int)CHUNK ? launch<128, 1>(backend, s, tiles)
						 : launch<64, 1>(backend, s, tiles);
}

static tomos_status run_slices(tomos_backend *backend, const Projecting *what, const HatSlices *l,
	const HatView *views, int64_t slice, int64_t slices)
{
	Turning x = turn_volume(what, l, slice, slices, CHUNK);
	Turning y = turn_views(what, l, slice, slices, CHUNK);
	int parts = tensor_parts(what->plan), wide = parts == 1 && slices > 64 ? 128 : 64;
	TurnTiles tiles = {.tiles_j = (x.nj + TILE_J - 1) / TILE_J,
		.tiles_k = (x.nk + TILE_K - 1) / TILE_K,
		.groups = (slices + wide - 1) / wide,
		.chunks = wide / CHUNK,
		.parts = parts};
	int64_t words =
		tiles.groups * tiles.tiles_k * tiles.tiles_j * parts * tiles.chunks * TILE_PIXELS;
	int64_t sums = y.pitch * y.nj * y.nk;
	float *head;
	TRY(cuda_scratch(
		backend, 0, TENSOR_HEAD + words * (WORD / (int)sizeof(float)), &head, "slices"));
	TRY(cuda_scratch(backend, 1, sums, &y.inside, "rows of slices"));
	TurnHalves to = {
		.data = (uint4 *)(head + TENSOR_HEAD), .parts = parts, .largest = (unsigned *)head};
	double span = tensor_span(what, l, TILE_J, TILE_K);
	Forward s = {.views = views,
		.count = (int)what->count,
		.columns = (int)y.nj,
		.low_a = what->box.low[l->a],
		.low_b = what->box.low[l->b],
		.tiles_a = (int)tiles.tiles_j,
		.tiles_b = (int)tiles.tiles_k,
		.pitch = (int)y.pitch,
		.groups = (int)ceil(span / (double)GROUP),
		.data = to.data,
		.to = y.inside,
		.done = (unsigned *)head + 1,
		.blocks = device_of(backend)->processors};
	TRY(turn_in_tiles(backend, &x, &to, tiles));
	CUDA_TRY(cudaMemsetAsync(s.done, 0, sizeof *s.done, device_of(backend)->stream),
		"clearing rows of slices");
	CUDA_TRY(cudaMemsetAsync(
			 y.inside, 0, (size_t)sums * sizeof(float), device_of(backend)->stream),
		"clearing rows of slices");
	TRY(launch_fitting(backend, &s, &tiles));
	y.largest = to.largest;
	return turn_out(backend, &y);
}

static tomos_status group_run(
	tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	return turn_each(backend, what, notes, TurnKeeps{64, 1, 1, 0}, run_slices);
}

extern const CudaTuned group_forward_kernels[4];
const CudaTuned group_forward_kernels[4] = {
	{"tensor", KERNEL_voxel, FORWARD, half_applies, group_run},
	{"tensor", KERNEL_joseph, FORWARD, half_applies, group_run},
	{"tensor-split", KERNEL_voxel, FORWARD, split_applies, group_run},
	{"tensor-split", KERNEL_joseph, FORWARD, split_applies, group_run},
};
