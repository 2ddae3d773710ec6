/* Back projection of in-slice rays by tensor cores, with products of four warps (wgmma): compute
 * capability 9.0.
 *
 * In one view, a square of 8 x 8 pixels spans at most 16 detector columns, and each pixel
 * interpolates between two neighbouring columns: at least two of every four weights are zero, which
 * sparse products skip. The weights of a square in four views are two matrices of 64 x 32, for the
 * first and the last eight columns of each view, in the registers of four warps; the tensor cores
 * multiply them by the same columns x 128 slices in shared memory. A product reads its four views
 * with one constant stride, so the square must start at the same column of all four buffers: the
 * four views must have similar directions, for which the host sorts the views. A block has four
 * squares; four producer warps copy the columns that the block needs, VIEWS views at a time, into a
 * ring of buffers (stages). The kernel is bound by shared memory: each update of a voxel by a view
 * reads half a byte, and the copies write a fifth of a byte.
 *
 * With two parts (split), data and weights are sums of two halves and three products are added: the
 * accuracy of float, provided that sums of few views are accumulated in float, since tensor cores
 * truncate instead of rounding. With half precision data and few views, weights are still sums of
 * two halves (fine).
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_BACK_WGMMA_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_BACK_WGMMA_H

#include "backend/cuda/kernels/tensor.h"

enum {
	SIDE = 16,    /* side of a block, in pixels */
	SQUARE = 8,   /* side of the square of a product, in pixels */
	SQUARES = 4,  /* of a block */
	REACH = 16,   /* most columns that a square meets */
	COLUMNS = 24, /* of a block */
	TOGETHER = 4, /* views of a product */
	VIEWS = 8,    /* of a stage */
	ADDED = 16,   /* with two parts: views accumulated by the tensor cores */
	STAGES_OF_RING = 4,
	ENTRY = 16,                           /* bytes per square and view in the table, see
	                                       * bring_stage */
	PRODUCT = TOGETHER * SQUARES * ENTRY, /* bytes of the table per product */
	SLOT = VIEWS * SQUARES * ENTRY,       /* of a stage */
	PLACES = STAGES_OF_RING * SLOT,       /* offset of the matrix addresses of the squares */
	FULL = 2 * PLACES,                    /* offset of the barriers */
	EMPTY = FULL + 8 * STAGES_OF_RING,
	RING = EMPTY + 8 * STAGES_OF_RING,
	TAKERS = SQUARES * 128,
	THREADS = TAKERS + STAGES_OF_RING * 32,
	TAKER_REGISTERS = 112,
	BRINGER_REGISTERS = 32,
	LINE = 128, /* bytes of a column: a buffer has 64 slices */
	EIGHT = 8 * LINE,
	BUFFER = COLUMNS * LINE
};

/* A request and its views in processing order: VIEWS per stage, each TOGETHER of them with
 * similar directions. An entry ~view has the geometry of `view` and no data; it completes a
 * group. */
typedef struct {
	TensorBack of;
	const int *order;
	int entries;
} Ordered;

/* Layout of the shared memory of a block. */
template <int SLICES, int PARTS> struct Layout {
	static constexpr int BUFFERS = SLICES * (int)sizeof(__half) / LINE;
	static constexpr int PART = BUFFERS * BUFFER;
	static constexpr int VIEW = PARTS * PART;
	static constexpr int STAGE = VIEWS * VIEW;
	static constexpr int BYTES = STAGES_OF_RING * STAGE + RING + 1024;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Shared memory addresses of the ring of stages, and of the table with the barriers; see PLACES,
 * FULL, EMPTY. */
typedef struct {
	unsigned data, table;
	int a, b; /* first pixel of the block */
} Ring;

static __device__ double least_column(double e, double ea, double eb, int side)
{
	return e + fmin(0., (side - 1) * ea) + fmin(0., (side - 1) * eb);
}

/* First column of a square in the buffers of its TOGETHER views: the least over these views, one
 * lane for each. */
static __device__ int common_line(double least)
{
	int line = (int)floor(least);
	for (int step = SQUARES; step < SQUARES * TOGETHER; step *= 2)
		line = min(line, __shfl_xor_sync(0xffffffffu, line, step));
	return max(min(line, COLUMNS - REACH), 0);
}

/* Slope of a hat per column; with FINE = 1 as two halves, for the columns before and after a
 * pixel. */
template <int FINE> static __device__ float slope_of(float inverse)
{
	__half2 both = __floats2half2_rn(-inverse, inverse);
	return FINE == 2 ? inverse : __uint_as_float(*(const unsigned *)&both);
}

/* Fills a stage: table entries and copies; one lane for each view and square. Columns are
 * clamped to the buffer: a column lost to rounding has a weight of nearly zero. */
template <int SLICES, int PARTS, int FINE>
static __device__ void bring_stage(const TensorBack *s, const CUtensorMap *map, const Ring *ring,
	int slot, int view, const HatView hat, int lane)
{
	using L = Layout<SLICES, PARTS>;
	int square = lane % SQUARES, k = lane / SQUARES;
	double e = hat.e0 + hat.ea * (double)(s->low_a + ring->a) +
		   hat.eb * (double)(s->low_b + ring->b);
	/* Half a hat is at most one column wide. */
	double base = floor(least_column(e, hat.ea, hat.eb, SIDE));
	e += (square % 2 * hat.ea + square / 2 * hat.eb) * SQUARE - base;
	int line = common_line(least_column(e, hat.ea, hat.eb, SQUARE));
	unsigned entry = ring->table + slot * SLOT + lane * ENTRY;
	store_floats(entry, make_float4((float)(e - line - 0.5), (float)hat.ea, (float)hat.eb,
				    slope_of<FINE>(1 / hat.h)));
	unsigned data = ring->data + slot * L::STAGE + k * L::VIEW;
	store_word(entry + PLACES, (unsigned)group_matrix_wide(
					   data - k % TOGETHER * L::VIEW + line * LINE, BUFFER, 0));
	unsigned full = ring->table + FULL + 8 * slot;
	if (lane == 0)
		bulk_expect(full, L::STAGE);
	else
		barrier_arrive(full);
	__syncwarp();
	int part = square / L::BUFFERS, buffer = square % L::BUFFERS;
	/* Clamped where the block projects off the detector. */
	int column = (int)fmax(fmin(base, (double)s->columns), (double)-COLUMNS);
	if (part < PARTS)
		bulk_copy(data + square * BUFFER, map,
			((int)blockIdx.z * L::BUFFERS + buffer) * (LINE / (int)sizeof(__half)),
			column, view >= 0 ? part * s->count + view : PARTS * s->count, full);
}

/* Slot of stage number `stage`, and the parity of its barrier phase. */
static __device__ __forceinline__ unsigned slot_of(unsigned stage)
{
	return stage % STAGES_OF_RING;
}

static __device__ __forceinline__ unsigned parity_of(unsigned stage)
{
	return stage / STAGES_OF_RING & 1;
}

static __device__ int view_of(const Ordered *s, int stage, int lane)
{
	return s->order[min(stage * VIEWS + lane / SQUARES, s->entries - 1)];
}

static __device__ HatView hat_of(const Ordered *s, int view)
{
	return s->of.views[view < 0 ? ~view : view];
}

/* Producer warp, one per slot of the ring: refills its slot when all warps have finished with
 * the previous contents. Views are loaded one stage ahead. */
template <int SLICES, int PARTS, int FINE>
static __device__ void bring(
	const Ordered *s, const CUtensorMap *map, const Ring *ring, int slot, int lane)
{
	int next = view_of(s, slot, lane);
	for (int stage = slot; stage * VIEWS < s->entries; stage += STAGES_OF_RING) {
		const int view = next;
		const HatView hat = hat_of(s, view);
		next = view_of(s, stage + STAGES_OF_RING, lane);
		if (stage >= STAGES_OF_RING)
			barrier_wait(ring->table + EMPTY + 8 * slot, parity_of(stage) ^ 1);
		bring_stage<SLICES, PARTS, FINE>(&s->of, map, ring, slot, view, hat, lane);
	}
}

/* Weights of TOGETHER views in this lane, for two views (two apart) and two pixels (two rows
 * apart). whole: the column before the pixel, in the last bits; two: weights of this and the next
 * column; rest: their rounding errors; kept: which weights the sparse products store, for the first
 * eight columns and for the last. */
template <int FINE> struct Weights {
	float whole[4];
	unsigned two[4], rest[FINE == 2 ? 4 : 1];
	unsigned kept[2];
	unsigned place; /* address of the columns: half of group_matrix_wide */
};

/* Floats of this size are integers, held in their last bits. */
static constexpr float WHOLE = 1.5f * (1 << 23);
static constexpr int WHOLE_BITS = 0x4b400000;

/* A hat for two neighbouring columns: its value half-way between them, and its slope per column. */
template <int FINE> struct Hat {
	float slope, top;
};

template <> struct Hat<1> {
	__half2 slope, top;
};

template <int FINE> static __device__ __forceinline__ Hat<FINE> hat_with(float slope)
{
	if constexpr (FINE == 2)
		return Hat<2>{slope, fmaf(-0.5f, slope, 1.f)};
	else {
		__half2 both = *(const __half2 *)&slope;
		return Hat<1>{
			both, __hfma2(both, __floats2half2_rn(0.5f, -0.5f), __float2half2_rn(1))};
	}
}

/* Weights of one pixel in one view; x: position relative to the point half-way between the first
 * two columns of the square. */
static __device__ __forceinline__ void weigh_pixel(float x, Hat<1> hat, int i, Weights<1> *to)
{
	to->whole[i] = x + WHOLE;
	float d = x - (to->whole[i] - WHOLE);
	__half2 both = __hfma2_relu(__floats2half2_rn(d, d), hat.slope, hat.top);
	to->two[i] = *(const unsigned *)&both;
}

static __device__ __forceinline__ void weigh_pixel(float x, Hat<2> hat, int i, Weights<2> *to)
{
	to->whole[i] = x + WHOLE;
	float d = x - (to->whole[i] - WHOLE);
	float one = fma_saturate(-d, hat.slope, hat.top), two = fma_saturate(d, hat.slope, hat.top);
	__half2 whole = __floats2half2_rn(one, two);
	float2 near = __half22float2(whole);
	__half2 left = __floats2half2_rn(one - near.x, two - near.y);
	to->two[i] = *(const unsigned *)&whole;
	to->rest[i] = *(const unsigned *)&left;
}

/* Minimum in one instruction, where the compiler would generate two. */
static __device__ __forceinline__ unsigned lesser(unsigned a, unsigned b)
{
	unsigned result;
	asm("min.u32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
	return result;
}

/* Which two of each four columns of a pixel a sparse product stores: any two that include its
 * weights. */
static __device__ __forceinline__ unsigned keep_of(float whole)
{
	unsigned c = __float_as_uint(whole);
	return lesser(c & 3, 2) << (c & 12);
}

/* Exchanges `kept` of two views each between the lanes of a row, as the tensor cores require. */
template <int FINE> static __device__ __forceinline__ void keep(bool last, Weights<FINE> *w)
{
	float above = last ? w->whole[2] : w->whole[0], below = last ? w->whole[3] : w->whole[1];
	unsigned own = 5 * keep_of(above) + ((5 << 16) * keep_of(below) + 0x44444444);
	w->kept[0] = own;
	w->kept[1] = __shfl_xor_sync(0xffffffffu, own, 2);
}

/* Role of a lane: pixel (a, b) of a square; four: its first of four columns, in the form that
 * place_weights uses; entry: offset of its table entry, whose successor is two views further; last:
 * whether it supplies the selection of the last two views. */
typedef struct {
	float a, b;
	int square, four, entry;
	bool last, first;
} Lane;

static __device__ __forceinline__ Lane lane_of(int thread)
{
	int lane = thread % 32, warp = thread / 32 % 4, square = thread / 128, g = lane / 4;
	return Lane{(float)(warp % 2 * 4 + g % 4), (float)(warp / 2 * 4 + g / 4), square,
		(WHOLE_BITS << 4) + lane % 2 * 64, (lane / 2 % 2 * SQUARES + square) * ENTRY,
		lane % 2 == 1, lane == 0};
}

/* Two entries of the table, and the address of the columns. */
typedef struct {
	float4 view[2];
	unsigned place;
} Seen;

static __device__ __forceinline__ Seen see_views(unsigned at)
{
	return Seen{
		{load_floats(at), load_floats(at + 2 * SQUARES * ENTRY)}, load_word(at + PLACES)};
}

template <int FINE>
static __device__ __forceinline__ void weigh_views(
	const Seen *seen, const Lane *lane, Weights<FINE> *to)
{
	to->place = seen->place;
#pragma unroll
	for (int k = 0; k < 2; k++) {
		const float4 v = seen->view[k];
		float x = fmaf(lane->a, v.y, fmaf(lane->b, v.z, v.x));
		const Hat<FINE> hat = hat_with<FINE>(v.w);
		weigh_pixel(x, hat, 2 * k, to);
		weigh_pixel(fmaf(2.f, v.z, x), hat, 2 * k + 1, to);
	}
	keep(lane->last, to);
}

static __device__ __forceinline__ unsigned kept_of(const unsigned kept[2], int i)
{
	return __byte_perm(kept[0], kept[1], i == 0 ? 0x6240 : 0x7351);
}

/* The upper half of the 64-bit value `word` after a shift up by `bits`; zero from 64 bits on. */
static __device__ __forceinline__ unsigned move_up(unsigned word, int bits)
{
	unsigned upper;
	asm("{ .reg .b64 both; .reg .b32 lower; mov.b64 both, {%1, 0}; shl.b64 both, both, %2; "
	    "mov.b64 {lower, %0}, both; }"
		: "=r"(upper)
		: "r"(word), "r"(bits));
	return upper;
}

/* Moves the weights of two neighbouring columns to the positions of the lane's four columns that
 * a sparse product stores; both, one or none of the two may be among these. */
static __device__ __forceinline__ void place_weights(
	const unsigned two[4], const float whole[4], int four, unsigned to[4])
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int past = (__float_as_int(whole[i]) << 4) - four; /* columns times 16 */
		to[i] = move_up(two[i], max(min(past + 32, 32), past));
	}
}

/* Starts the products of TOGETHER views with a square while earlier ones are in flight: weight
 * registers can be reused when the last but one product has completed. */
template <int SLICES, int FINE>
static __device__ __forceinline__ void multiply(
	float (&sums)[SLICES / 2], const Weights<FINE> *v, int four)
{
	const uint64_t steps = group_matrix_wide(0, 0, Layout<SLICES, 1>::VIEW);
	unsigned w[2][FINE][4];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		group_wait<1>();
		place_weights(v->two, v->whole, four + 128 * i, w[i][0]);
		if constexpr (FINE == 2)
			place_weights(v->rest, v->whole, four + 128 * i, w[i][1]);
		group_fence();
#pragma unroll
		for (int part = 0; part < FINE; part++)
			group_multiply_sparse<SLICES>(sums, w[i][part], kept_of(v->kept, i),
				steps | (v->place + i * EIGHT / 16), true);
		group_commit();
	}
}

/* The same in two parts, small products first, after the earlier products have completed and, if
 * a new sum starts, have been added to `sums`. look() is called when all weights are placed, while
 * the first products are in flight. */
template <int SLICES, class Look>
static __device__ __forceinline__ void multiply_parts(float (&sums)[SLICES / 2],
	float (&part)[SLICES / 2], const Weights<2> *v, int four, bool overwrite, Look look)
{
	using L = Layout<SLICES, 2>;
	const uint64_t steps = group_matrix_wide(0, 0, L::VIEW);
	const unsigned place = v->place;
	unsigned w[2][4], rest[2][4], kept[2];
	group_wait<0>();
	if (overwrite)
		tensor_add(sums, part);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		place_weights(v->two, v->whole, four + 128 * i, w[i]);
		kept[i] = kept_of(v->kept, i);
		group_fence();
		group_multiply_sparse<SLICES>(part, w[i], kept[i],
			steps | (place + (L::PART + i * EIGHT) / 16), i > 0 || !overwrite);
	}
#pragma unroll
	for (int i = 0; i < 2; i++)
		place_weights(v->rest, v->whole, four + 128 * i, rest[i]);
	look();
	group_fence();
#pragma unroll
	for (int i = 0; i < 4; i++)
		group_multiply_sparse<SLICES>(part, i < 2 ? rest[i] : w[i - 2], kept[i % 2],
			steps | (place + i % 2 * EIGHT / 16), true);
	group_commit();
}

/* Consumer warps: compute the weights of the next views while the tensor cores multiply. */
template <int SLICES, int PARTS, int FINE>
static __device__ __forceinline__ void take(const Ordered *s, const Ring *ring)
{
	float sums[SLICES / 2] = {}, part[PARTS == 2 ? SLICES / 2 : 1] = {};
	const unsigned stages = s->entries / VIEWS;
	const Lane lane = lane_of(threadIdx.x);
	unsigned at = ring->table + lane.entry;
	Weights<FINE> w;
	barrier_wait(ring->table + FULL, 0);
	Seen seen = see_views(at);
	weigh_views<FINE>(&seen, &lane, &w);
	for (unsigned stage = 0; stage < stages; stage++) {
#pragma unroll
		for (int k = TOGETHER; k <= VIEWS; k += TOGETHER) {
			auto look = [&]() {
				if (k == VIEWS) {
					unsigned next = min(stage + 1, stages - 1);
					unsigned slot = slot_of(next);
					barrier_wait(
						ring->table + FULL + 8 * slot, parity_of(next));
					at = ring->table + slot * SLOT + lane.entry;
				}
				seen = see_views(at + k / TOGETHER * PRODUCT % SLOT);
			};
			if constexpr (PARTS == 2) {
				bool overwrite = k == TOGETHER && stage * VIEWS % ADDED == 0;
				multiply_parts<SLICES>(sums, part, &w, lane.four, overwrite, look);
			} else {
				multiply<SLICES, FINE>(sums, &w, lane.four);
				look();
			}
			if (k == TOGETHER && stage > 0 &&
				lane.first) /* the products of the previous stage have completed */
				barrier_arrive(ring->table + EMPTY + 8 * slot_of(stage - 1));
			weigh_views<FINE>(&seen, &lane, &w);
		}
	}
	group_wait<0>();
	if constexpr (PARTS == 2)
		tensor_add(sums, part);
	tensor_put(&s->of, sums, ring->a + lane.square % 2 * SQUARE + (int)lane.a,
		ring->b + lane.square / 2 * SQUARE + (int)lane.b);
}

template <int SLICES, int PARTS, int FINE>
static __device__ void work(const Ordered *s, const CUtensorMap *map)
{
	extern __shared__ unsigned char shared[];
	unsigned memory = shared_address(shared);
	const int2 place = cluster_place((s->of.na + SIDE - 1) / SIDE);
	Ring ring;
	ring.a = place.x * SIDE;
	ring.b = place.y * SIDE;
	if (ring.a >= s->of.na || ring.b >= s->of.nb)
		return;
	ring.data = (memory + 1023) / 1024 * 1024;
	ring.table = ring.data + STAGES_OF_RING * Layout<SLICES, PARTS>::STAGE;
	if (threadIdx.x < STAGES_OF_RING) {
		barrier_init(ring.table + FULL + 8 * threadIdx.x, 32); /* arrivals: threads of
		                                                        * the producer warp */
		barrier_init(ring.table + EMPTY + 8 * threadIdx.x, TAKERS / 32);
		bulk_fence();
	}
	__syncthreads();
	if (threadIdx.x < TAKERS) {
		group_more_registers<TAKER_REGISTERS>();
		take<SLICES, PARTS, FINE>(s, &ring);
	} else {
		group_fewer_registers<BRINGER_REGISTERS>();
		bring<SLICES, PARTS, FINE>(
			s, map, &ring, threadIdx.x / 32 - TAKERS / 32, threadIdx.x % 32);
	}
}

#endif

/* Empty for other GPUs; `fits` is false for them. */
template <int SLICES, int PARTS, int FINE>
static __global__ void __launch_bounds__(THREADS, 1)
	group_back(const __grid_constant__ Ordered s, const __grid_constant__ CUtensorMap map)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	work<SLICES, PARTS, FINE>(&s, &map);
#endif
}

#endif
