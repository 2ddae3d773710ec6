/* Tensor core products of slices_forward_tile.h, and the kernel. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_FORWARD_WGMMA_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_FORWARD_WGMMA_H

#include "backend/cuda/kernels/slices_forward_tile.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Data of a lane for the weights of a square in columns g and g + 8. x, xu, xv: as in Strip, in
 * half widths of the hat with one part, in columns with two; far: 8 columns; next: change per pixel
 * across; down: change per two pixels along the rays; find: constant of find_row. */
typedef struct {
	float x, xu, xv, far;
	float x_rest, xu_rest, xv_rest, inverse;
	float next, down, find;
} Lane;

/* Dense: a lane has pixels 2 t and 2 t + 1 and those two rows further. Sparse: it has row t. */
template <int PARTS, bool SPARSE>
static __device__ __forceinline__ Lane lane_of(const Strip *strip, int lane)
{
	int g = lane / 4, pixel = lane % 4 * 2;
	float u = SPARSE ? 0 : (float)(pixel % SQUARE_SIDE);
	float v = SPARSE ? (float)(lane % 4) : (float)(pixel / SQUARE_SIDE);
	float inverse = strip->inverse, scale = PARTS == 1 ? inverse : 1;
	float x = fmaf(u, strip->xu, fmaf(v, strip->xv, strip->x - (float)g));
	float rest = fmaf(u, strip->xu_rest, fmaf(v, strip->xv_rest, strip->x_rest));
	float xu = strip->xu + strip->xu_rest, xv = strip->xv + strip->xv_rest;
	Lane l = {.far = 8 * scale,
		.x_rest = rest,
		.xu_rest = strip->xu_rest,
		.xv_rest = strip->xv_rest,
		.inverse = inverse,
		.next = xu * inverse,
		.down = 2 * xv * inverse,
		.find = -1 / (FIND * xu * inverse)};
	l.x = PARTS == 1 ? (x + rest) * scale : x;
	l.xu = PARTS == 1 ? xu * scale : strip->xu;
	l.xv = PARTS == 1 ? xv * scale : strip->xv;
	return l;
}

/* Position of a square relative to columns g and g + 8, in half widths of the hat. */
template <int PARTS>
static __device__ __forceinline__ float2 place_square(const Lane *l, float u, float v)
{
	float whole = fmaf(u, l->xu, fmaf(v, l->xv, l->x));
	if constexpr (PARTS == 1)
		return make_float2(whole, whole - l->far);
	float less = fmaf(u, l->xu_rest, fmaf(v, l->xv_rest, l->x_rest));
	return make_float2((whole + less) * l->inverse, (whole - l->far + less) * l->inverse);
}

template <int PARTS>
static __device__ __forceinline__ void weigh_dense(
	const Lane *l, float u, float v, unsigned w[4], unsigned rest[4])
{
	float2 x = place_square<PARTS>(l, u, v);
	tensor_weigh<PARTS>(x.x, x.x + l->next, &w[0], &rest[0]);
	tensor_weigh<PARTS>(x.y, x.y + l->next, &w[1], &rest[1]);
	x.x += l->down;
	x.y += l->down;
	tensor_weigh<PARTS>(x.x, x.x + l->next, &w[2], &rest[2]);
	tensor_weigh<PARTS>(x.y, x.y + l->next, &w[3], &rest[3]);
}

/* In a row of four pixels that starts at x: the first of the two neighbouring pixels with
 * non-zero weights, in the last bits of a sum with MAGIC. */
static __device__ __forceinline__ float find_row(const Lane *l, float x)
{
	return __fmaf_rd(__saturatef(x * l->find), FIND, MAGIC);
}

template <int PARTS>
static __device__ __forceinline__ void weigh_row(
	const Lane *l, float x, float found, unsigned *w, unsigned *rest)
{
	float at = fmaf(found - MAGIC, l->next, x);
	tensor_weigh<PARTS>(at, at + l->next, w, rest);
}

/* Weights of both squares of a pair; returns which elements are stored (see
 * group_multiply_sparse). Lanes compute weights while they exchange these bits. */
template <int PARTS>
static __device__ __forceinline__ unsigned weigh_sparse(
	const Lane *l, const Pair *pair, unsigned w[4], unsigned rest[4], int lane)
{
	unsigned kept[2];
	float2 x[2], found[2];
	const unsigned low = 5u << lane % 4 * 4, high = low << 16;
	const unsigned none = (4u << lane % 4 * 4) * 0x10001u - MAGIC_BITS * (low + high);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		x[i] = place_square<PARTS>(l, pair->u[i], pair->v[i]);
		found[i] = make_float2(find_row(l, x[i].x), find_row(l, x[i].y));
		kept[i] = __float_as_uint(found[i].x) * low +
			  (__float_as_uint(found[i].y) * high + none);
	}
	unsigned own = lane % 2 ? kept[1] : kept[0], other = lane % 2 ? kept[0] : kept[1];
	own |= __shfl_xor_sync(0xffffffffu, other, 1);
	weigh_row<PARTS>(l, x[0].x, found[0].x, &w[0], &rest[0]);
	weigh_row<PARTS>(l, x[0].y, found[0].y, &w[1], &rest[1]);
	other = __shfl_xor_sync(0xffffffffu, own, 2);
	weigh_row<PARTS>(l, x[1].x, found[1].x, &w[2], &rest[2]);
	weigh_row<PARTS>(l, x[1].y, found[1].y, &w[3], &rest[3]);
	return own | other;
}

/* Remaining pairs as a bit mask, and the index of the next one; -1: none. */
typedef struct {
	unsigned met;
	int next;
} Left;

static __device__ __forceinline__ Left left_of(unsigned met)
{
	int next;
	asm("bfind.u32 %0, %1;" : "=r"(next) : "r"(met & (0 - met)));
	return Left{met, next};
}

/* Loads the next pair; the index of the one after it is computed long before it is needed. */
static __device__ __forceinline__ Pair next_pair(const Ring *ring, Left *left)
{
	const Pair pair = ring->pairs[1 + left->next];
	*left = left_of(left->met & (left->met - 1));
	return pair;
}

/* Starts the products of a square, or of a pair. */
template <int SLICES, int PARTS, bool SPARSE>
static __device__ __forceinline__ void multiply(float (&sums)[SLICES / 2], const unsigned w[4],
	const unsigned rest[4], unsigned kept, unsigned place, bool add)
{
	const uint64_t from = group_matrix(0, 0, 8 * WORD) | place;
	const uint64_t low = from + Layout<SLICES, PARTS>::PART / WORD;
	auto product = [&](const unsigned *weights, uint64_t data, bool more) {
		if constexpr (SPARSE)
			group_multiply_sparse<SLICES>(sums, weights, kept, data, more);
		else
			group_multiply_add<SLICES>(sums, weights, data, more);
	};
	if constexpr (PARTS == 2) {
		product(w, low, add);
		product(rest, from, true);
	}
	product(w, from, PARTS == 2 || add);
	group_commit();
	group_wait<1>();
}

/* Adds a pair: computes weights while the tensor cores process the previous ones. */
template <int SLICES, int PARTS>
static __device__ __forceinline__ void add_dense(float (&sums)[SLICES / 2], const Ring *ring,
	const Lane *own, Pair *pair, Left *left, bool add)
{
	unsigned w[2][4], rest[2][4];
	const Pair now = *pair;
#pragma unroll
	for (int i = 0; i < 2; i++) {
		weigh_dense<PARTS>(own, now.u[i], now.v[i], w[i], rest[i]);
		if (i == 0)
			*pair = next_pair(ring, left);
		group_fence();
		multiply<SLICES, PARTS, false>(sums, w[i], rest[i], 0,
			now.place + i * (Layout<SLICES, PARTS>::SQUARE / WORD), add || i > 0);
	}
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void add_sparse(float (&sums)[SLICES / 2], const Ring *ring,
	const Lane *own, Pair *pair, Left *left, unsigned w[4], unsigned rest[4], bool add)
{
	unsigned place = pair->place;
	unsigned kept = weigh_sparse<PARTS>(own, pair, w, rest, threadIdx.x % 32);
	*pair = next_pair(ring, left); /* prefetch */
	group_fence();
	multiply<SLICES, PARTS, true>(sums, w, rest, kept, place, add);
}

/* Adds up to `most` pairs; their products may still be in flight on return. */
template <int SLICES, int PARTS, bool SPARSE>
static __device__ __forceinline__ void add_pairs(float (&sums)[SLICES / 2], const Ring *ring,
	const Lane *own, Pair *pair, Left *left, int most)
{
	unsigned w[2][4], rest[2][4];
	int count = 0;
	do {
		if constexpr (SPARSE) {
			add_sparse<SLICES, PARTS>(
				sums, ring, own, pair, left, w[0], rest[0], count > 0);
			add_sparse<SLICES, PARTS>(sums, ring, own, pair, left, w[1], rest[1], true);
			count += 2;
		} else {
			add_dense<SLICES, PARTS>(sums, ring, own, pair, left, count > 0);
			count++;
		}
	} while (count < most && !pair->none);
}

template <int N>
static __device__ __forceinline__ void add_up(float (&sums)[N], const float (&part)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		sums[i] += part[i];
}

/* Adds all pairs of an item. With two parts, the first FEW are in flight while the next start. */
template <int SLICES, int PARTS, bool SPARSE>
static __device__ __forceinline__ void add_all(
	float (&sums)[SLICES / 2], const Ring *ring, const Lane *own, unsigned met)
{
	Left left = left_of(met);
	Pair pair = next_pair(ring, &left);
	add_pairs<SLICES, PARTS, SPARSE>(sums, ring, own, &pair, &left, PARTS == 1 ? 64 : (int)FEW);
	if (PARTS == 2 && !pair.none) {
		float part[SLICES / 2];
		add_pairs<SLICES, PARTS, SPARSE>(part, ring, own, &pair, &left, FEW);
		group_wait<0>();
		add_up(sums, part);
		while (Layout<SLICES, PARTS>::PAIRS > 2 * FEW && !pair.none) {
			add_pairs<SLICES, PARTS, SPARSE>(part, ring, own, &pair, &left, FEW);
			group_wait<0>();
			add_up(sums, part);
		}
	} else {
		group_wait<0>();
	}
}

static __device__ __forceinline__ void add_four(float *to, float4 x)
{
	asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to),
		     "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
		     : "memory");
}

/* Adds column g (half 0) or g + 8 (half 1) to the projections. Two pairs of neighbouring sums
 * are four consecutive slices in the layout HalfSquares. */
template <int N>
static __device__ __forceinline__ void add_column(
	float *to, const float (&sums)[N], int half, float weight, int slices)
{
#pragma unroll
	for (int n = 0; n < N / 8; n++) {
		const float *from = &sums[8 * n + 2 * half];
		if (n * 2 * CHUNK < slices)
			add_four(to + n * 2 * CHUNK, make_float4(weight * from[0], weight * from[1],
							     weight * from[4], weight * from[5]));
	}
}

/* Adds the sums of a group of columns. No branches where all slices are inside: registers of
 * pending additions must not be reused before the GPU has read them, so that several are used. */
template <int N>
static __device__ __forceinline__ void write_sums(
	const Forward *s, const Strip *strip, const float (&sums)[N], int lane)
{
	int slice = blockIdx.z * N * 2 + lane % 4 * 4, column = strip->first + lane / 4;
	bool whole = (int)(blockIdx.z + 1) * N * 2 <= s->pitch;
	float *to = s->to + ((int64_t)strip->view * s->columns + column) * s->pitch + slice;
#pragma unroll
	for (int half = 0; half < 2; half++, column += 8, to += 8 * s->pitch) {
		if (column < 0 || column >= strip->end)
			continue;
		if (whole)
			add_column(to, sums, half, strip->weight, 2 * N);
		else
			add_column(to, sums, half, strip->weight, s->pitch - slice);
	}
}

/* Consumer warps: teams alternate over the items that have any pair. */
template <int SLICES, int PARTS, bool SPARSE>
static __device__ __forceinline__ void take(const Forward *s, const Ring *ring)
{
	constexpr int teams = Crew<SLICES, PARTS>::TEAMS;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % TOGETHER, team = threadIdx.x / 128;
	int items = items_of(s, ring), number = 0;
	for (int batch = 0; batch * ITEMS < items; batch++) {
		int slot = batch % BATCHES;
		barrier_wait(ring->full + 8 * slot, batch / BATCHES & 1);
		const unsigned *met = ring->met + slot * ITEMS;
		unsigned some = __ballot_sync(0xffffffffu, lane < ITEMS && met[lane % ITEMS]);
		for (; some; some &= some - 1) {
			int i = __ffs((int)some) - 1;
			if (number++ % teams != team)
				continue;
			const Strip *strip = ring->strips + (slot * ITEMS + i) * VIEWS + warp;
			const Lane own = lane_of<PARTS, SPARSE>(strip, lane);
			float sums[SLICES / 2];
			add_all<SLICES, PARTS, SPARSE>(sums, ring, &own, met[i]);
			write_sums(s, strip, sums, lane);
		}
		__syncwarp();
		if (lane == 0)
			barrier_arrive(ring->empty + 8 * slot);
	}
}

/* Position of the tile; false: outside. Blocks that run concurrently are along the rays, so that
 * they add to the same columns, in L2 cache. */
template <class L> static __device__ bool find_tile(const Forward *s, Ring *ring)
{
	int tiles = (s->nv + L::LONG - 1) / L::LONG;
	ring->across = ((int)blockIdx.x / tiles + ring->course.low) * WIDE;
	ring->along = (int)blockIdx.x % tiles * L::LONG;
	ring->u = ring->across + shift_of(&ring->course, ring->along);
	return (int)blockIdx.x / tiles < ring->course.tiles;
}

static __device__ void start_barriers(const Ring *ring, int takers)
{
	for (int i = 0; i < BATCHES; i++) {
		barrier_init(ring->full + 8 * i, 32); /* arrivals: threads of the scheduler warp */
		barrier_init(ring->empty + 8 * i, takers);
	}
	barrier_init(ring->ready, 1);
	bulk_fence();
}

template <int SLICES, int PARTS, bool SPARSE> static __device__ void work(const Forward *s)
{
	extern __shared__ __align__(128) unsigned char memory[];
	__shared__ __align__(8) uint64_t barriers[2 * BATCHES + 1];
	__shared__ int count;
	typedef Layout<SLICES, PARTS> L;
	typedef Crew<SLICES, PARTS> C;
	int lane = threadIdx.x % 32;
	bool brings = threadIdx.x / 32 == C::TAKERS / 32;
	Ring ring = {.course = s->courses[blockIdx.y],
		.pairs = (Pair *)(memory + L::TILE + L::STRIPS),
		.strips = (Strip *)(memory + L::TILE),
		.full = shared_address(barriers),
		.empty = shared_address(barriers + BATCHES),
		.ready = shared_address(barriers + 2 * BATCHES)};
	ring.met = (unsigned *)(ring.pairs + L::PAIRS + 1);
	if (!find_tile<L>(s, &ring))
		return;
	if (brings) {
		if (lane == 0)
			start_barriers(&ring, C::TAKERS / 32);
		__syncwarp();
		count = lay_squares<SLICES, PARTS>(s, &ring, shared_address(memory), lane);
	}
	__syncthreads();
	lay_zeros<SLICES, PARTS, C::THREADS>(&ring, count, memory);
	__syncthreads();
	if (!count)
		return;
	if (threadIdx.x < C::TAKERS) {
		group_more_registers<C::TAKER_REGISTERS>();
		barrier_wait(ring.ready, 0);
		take<SLICES, PARTS, SPARSE>(s, &ring);
	} else {
		group_fewer_registers<C::BRINGER_REGISTERS>();
		if (brings)
			bring(s, &ring, count, lane);
	}
}

#endif

template <int SLICES, int PARTS, bool SPARSE>
static __global__ void __launch_bounds__(Crew<SLICES, PARTS>::THREADS, 1)
	group_forward(const __grid_constant__ Forward s)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	work<SLICES, PARTS, SPARSE>(&s);
#endif
}

#endif
