/* Forward projection of in-slice rays by tensor cores, with products of four warps (wgmma): compute
 * capability 9.0.
 *
 * Views are grouped into bundles of nearly equal direction. For each bundle, the plane of a slice
 * is divided into tiles of 2 x 26 squares of 4 x 4 pixels. Tiles follow the rays, so that a tile
 * spans little more than 16 columns of a view. A block keeps a tile with all its slices in shared
 * memory and processes the views of the bundle. Four warps have 16 columns each of four
 * neighbouring views: their weights for a square are a matrix of 64 x 16, which the tensor cores
 * multiply by 16 pixels x 128 slices. The sums of 16 columns stay in registers until all pairs of
 * squares that contribute are processed, and are then added to the projections. A scheduler warp
 * finds those pairs in advance. The kernel is bound by the tensor cores: 128 updates per clock,
 * less for pairs that span two groups of columns.
 *
 * If a column reads only two of four pixels in a row across the rays, as in Joseph's method, sparse
 * products skip the zeros: a pair of squares is one matrix of 64 x 32. Slices are transposed
 * separately for rays along b and along a, so that the pixels of such a row are adjacent.
 *
 * With two parts, as in slices_back_wgmma.h, sums of few squares are accumulated in float, and a
 * pixel position is a multiple of GRAIN, whose sums are exact, plus a remainder.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_FORWARD_TILE_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_FORWARD_TILE_H

#include "backend/cuda/kernels/tensor.h"

extern "C" {
#include "backend/device/bundle.h"
}

enum {
	GROUP = 16,   /* columns per warp */
	TOGETHER = 4, /* warps and views per product */
	VIEWS = TOGETHER,
	WIDE = 2, /* squares of a tile across the rays; along them: LONGEST */
	LONGEST = 26,
	ITEMS = 32 / VIEWS, /* items of a batch; an item is a group of columns in VIEWS views */
	BATCHES = 4,
	WORD = 16,
	FEW = 8 /* with two parts: pairs accumulated by the tensor cores */
};

/* Warps of a block and registers per thread. Half precision is fastest with many warps; two parts
 * need twice the sums. */
template <int SLICES, int PARTS> struct Crew {
	static constexpr int TEAMS = PARTS == 1 ? 4 : SLICES == 64 ? 3 : 2; /* four warps each */
	static constexpr int TAKERS = TEAMS * TOGETHER * 32;
	static constexpr int THREADS = TAKERS + 128;
	static constexpr int TAKER_REGISTERS = TEAMS == 4 ? 104 : TEAMS == 3 ? 144 : 216;
	static constexpr int BRINGER_REGISTERS = TEAMS == 4 ? 64 : TEAMS == 3 ? 80 : 72;
};

static_assert((int)VIEWS == (int)BUNDLE_VIEWS);

/* Fraction of a column: multiples of it up to 4096 columns are exact floats. */
#define GRAIN 0x1p-12f

/* A float in 0 .. FIND, added to MAGIC and rounded down, has its integer part in the last bits. */
#define FIND 2.5f
#define MAGIC 0x1.8p23f
#define MAGIC_BITS 0x4b400000u

/* A bundle of views, and its tiles across the rays: `tiles` from `low` on. slope: see shift_of. */
typedef struct {
	int64_t slope;
	int first, items; /* of its items of VIEWS views: first and number */
	int low, tiles;
} Course;

/* All bundles with rays along the same axis: u is the axis across the rays, v the one along
 * them. */
typedef struct {
	const HatView *views;
	const Course *courses;
	const int *order;
	bool along_b;
	int columns;
	int64_t low_u, low_v; /* first pixel of the box */
	int nu, nv;           /* squares of the plane */
	int pitch;            /* of the sums, in slices */
	int groups;           /* groups of columns that a tile can meet */
	int bundles, tiles;   /* tiles: most across */
	const uint4 *data;    /* layout HalfSquares */
	float *to;            /* [view][column][slice], accumulated */
} Forward;

/* A group of columns in a view. x: position of the tile's first pixel relative to the first
 * column of the group; xu, xv: its change per pixel; in columns, with their rounding errors in
 * ..._rest; inverse: reciprocal of the hat's half width. Columns first .. end - 1 of the group are
 * on the detector. */
typedef struct __align__(16)
{
	float x, xu, xv, inverse;
	float x_rest, xu_rest, xv_rest, weight;
	int first, end, view;
}
Strip;

/* A pair of squares: first pixels (u, v) in the tile, and address in shared memory (lower half
 * of group_matrix). Pair 0 of the table is empty (`none`) and refers to zeros. */
typedef struct __align__(16)
{
	float u[2], v[2];
	unsigned place;
	int none;
}
Pair;

/* Layout of the shared memory of a block: [part][square][eight pixels][chunk of eight slices],
 * then zeros for the empty pair. */
template <int SLICES, int PARTS> struct Layout {
	static constexpr int EIGHT = SLICES / CHUNK * 8 * WORD;
	static constexpr int SQUARE = 2 * EIGHT; /* of a part */
	static constexpr int LONG = SLICES * PARTS > 128 ? LONGEST / 2 : LONGEST;
	static constexpr int SQUARES = WIDE * LONG, PAIRS = SQUARES / 2; /* at most 32 pairs */
	static constexpr int PART = SQUARES * SQUARE + EIGHT;
	static constexpr int TILE = PARTS * PART;
	static constexpr int STRIPS = BATCHES * ITEMS * VIEWS * (int)sizeof(Strip);
	static constexpr int BYTES = TILE + STRIPS + (PAIRS + 1) * (int)sizeof(Pair) +
				     BATCHES * ITEMS * (int)sizeof(unsigned);
};

/* Shift of the tiles across the rays at this position along them, in squares. */
static __host__ __device__ int shift_of(const Course *course, int64_t along)
{
	return (int)((along * course->slope + ((int64_t)1 << (BUNDLE_SHIFT - 1))) >> BUNDLE_SHIFT);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* State common to the warps of a block. full, empty: addresses of the barriers of the batches;
 * ready: barrier of the tile. */
typedef struct {
	Course course;
	Pair *pairs;
	Strip *strips;
	unsigned *met; /* bit mask of the pairs that contribute to each item */
	unsigned full, empty, ready;
	int across, along; /* position of the tile, in squares, before the shift */
	int u;             /* its first square is at (u, along) */
} Ring;

/* ---- the squares of a tile ------------------------------------------------------------------- */

/* Starts the copies of the tile's squares that are inside the plane, one after the other.
 * Returns their number. */
template <int SLICES, int PARTS>
static __device__ int lay_squares(const Forward *s, const Ring *ring, unsigned data, int lane)
{
	typedef Layout<SLICES, PARTS> L;
	int count = 0;
	for (int first = 0; first < L::SQUARES; first += 32) {
		int n = first + lane, v = ring->along + n / WIDE;
		int u = ring->across + n % WIDE + shift_of(&ring->course, v);
		bool valid = n < L::SQUARES && u >= 0 && u < s->nu && v < s->nv;
		unsigned all = __ballot_sync(0xffffffffu, valid);
		int number = count + __popc(all & ((1u << lane) - 1));
		count += __popc(all);
		if (!valid)
			continue;
		Pair *pair = &ring->pairs[1 + number / 2];
		pair->u[number % 2] = (float)((u - ring->u) * SQUARE_SIDE);
		pair->v[number % 2] = (float)((v - ring->along) * SQUARE_SIDE);
		int64_t square = s->along_b ? (int64_t)v * s->nu + u : (int64_t)u * s->nv + v;
		square += (int64_t)blockIdx.z * s->nu * s->nv;
		for (int part = 0; part < PARTS; part++)
			bulk_copy_plain(data + part * L::PART + number * L::SQUARE,
				s->data + (square * PARTS + part) * (L::SQUARE / WORD), L::SQUARE,
				ring->ready);
	}
	__syncwarp();
	if (lane == 0)
		bulk_expect(ring->ready, count * PARTS * L::SQUARE);
	return count;
}

/* Writes zeros after an odd last square and for the empty pair; then the addresses of the pairs. */
template <int SLICES, int PARTS, int THREADS>
static __device__ void lay_zeros(const Ring *ring, int count, unsigned char *memory)
{
	typedef Layout<SLICES, PARTS> L;
	const uint4 zero = make_uint4(0, 0, 0, 0);
	for (int part = 0; part < PARTS; part++) {
		uint4 *none = (uint4 *)(memory + part * L::PART + L::SQUARES * L::SQUARE);
		uint4 *odd = (uint4 *)(memory + part * L::PART + count * L::SQUARE);
		for (int i = threadIdx.x; i < L::EIGHT / WORD; i += THREADS)
			none[i] = zero;
		for (int i = threadIdx.x; count % 2 && i < L::SQUARE / WORD; i += THREADS)
			odd[i] = zero;
	}
	if (threadIdx.x == 0) {
		ring->pairs[0].u[0] = ring->pairs[0].v[0] = 0;
		ring->pairs[0].u[1] = ring->pairs[0].v[1] = 0;
		if (count % 2)
			ring->pairs[1 + count / 2].u[1] = ring->pairs[1 + count / 2].v[1] = 0;
	}
	unsigned at = shared_address(memory), number = threadIdx.x;
	if (number <= L::PAIRS) {
		ring->pairs[number].place =
			number ? (unsigned)group_matrix(
					 at + (number - 1) * 2 * L::SQUARE, L::EIGHT, 8 * WORD)
			       : (unsigned)group_matrix(at + L::SQUARES * L::SQUARE, 0, 8 * WORD);
		ring->pairs[number].none = number == 0;
	}
	bulk_fence();
}

/* ---- what a view sees of them ---------------------------------------------------------------- */

typedef struct {
	float low, high;
} Range;

/* Range of the columns of a square's pixels, relative to its first pixel. */
static __device__ Range range_of_square(const HatView *hat)
{
	float a = (SQUARE_SIDE - 1) * (float)hat->ea, b = (SQUARE_SIDE - 1) * (float)hat->eb;
	return Range{fminf(0, a) + fminf(0, b), fmaxf(0, a) + fmaxf(0, b)};
}

/* Range of the columns of all squares, relative to the tile's first pixel. */
static __device__ Range range_of_tile(const HatView *hat, const Ring *ring, int count)
{
	float a = (float)hat->ea, b = (float)hat->eb;
	Range own = range_of_square(hat), all = {1e30f, -1e30f};
#pragma unroll 8
	for (int i = 0; i < count; i++) {
		const Pair *pair = &ring->pairs[1 + i / 2];
		float at = fmaf(pair->u[i % 2], a, pair->v[i % 2] * b);
		all = Range{fminf(all.low, at), fmaxf(all.high, at)};
	}
	return Range{all.low + own.low, all.high + own.high};
}

/* Splits a value into a multiple of GRAIN and a remainder. */
static __device__ void part_of(double value, float *whole, float *rest)
{
	*whole = (float)(rint(value / (double)GRAIN) * (double)GRAIN);
	*rest = (float)(value - (double)*whole);
}

static __device__ Strip see_strip(
	const Forward *s, const Ring *ring, const HatView *hat, Range range, int view, int group)
{
	const double slack = 1e-3;
	double e = hat->e0 + hat->ea * (double)(s->low_u + (int64_t)ring->u * SQUARE_SIDE) +
		   hat->eb * (double)(s->low_v + (int64_t)ring->along * SQUARE_SIDE);
	double reach = (double)hat->h + slack;
	double least = floor(e + (double)range.low - reach) + 1;
	double most = ceil(e + (double)range.high + reach);
	least = fmax(fmin(least, 1e9), -1e9) + group * GROUP;
	Strip strip = {.inverse = 1 / hat->h,
		.weight = hat->weight,
		.first = (int)least,
		.end = (int)fmin(most, (double)s->columns),
		.view = view};
	part_of(e - least, &strip.x, &strip.x_rest);
	part_of(hat->ea, &strip.xu, &strip.xu_rest);
	part_of(hat->eb, &strip.xv, &strip.xv_rest);
	if (view < 0 || strip.first + GROUP <= 0)
		strip.end = strip.first;
	return strip;
}

/* Bit mask of the pairs that contribute to the strip; it may include others, which add zeros. */
static __device__ unsigned pairs_met(
	const Strip *strip, const HatView *hat, const Ring *ring, int count)
{
	const float slack = 1.001f * hat->h;
	Range own = range_of_square(hat);
	float low = -slack - own.high - strip->x, high = GROUP - 1 + slack - own.low - strip->x;
	float a = (float)hat->ea, b = (float)hat->eb;
	unsigned met = 0;
	if (strip->first >= strip->end)
		return 0;
#pragma unroll 8
	for (int i = 0; i < count; i++) {
		const Pair *pair = &ring->pairs[1 + i / 2];
		float at = fmaf(pair->u[i % 2], a, pair->v[i % 2] * b);
		met |= (unsigned)(at > low && at < high) << i / 2;
	}
	return met;
}

/* Union over the VIEWS lanes of an item. */
static __device__ unsigned pairs_of_any(unsigned own)
{
	for (int step = 1; step < VIEWS; step *= 2)
		own |= __shfl_xor_sync(0xffffffffu, own, step);
	return own;
}

static __device__ int items_of(const Forward *s, const Ring *ring)
{
	return ring->course.items * s->groups;
}

/* View of this lane in a batch, or -1. The first groups of columns of all views precede the
 * second ones, which are rare. */
static __device__ int view_of(const Forward *s, const Ring *ring, int batch, int lane)
{
	int item = batch * ITEMS + lane / VIEWS;
	if (item >= items_of(s, ring))
		return -1;
	return s->order[(ring->course.first + item % ring->course.items) * VIEWS + lane % VIEWS];
}

/* The hat of a view with ea across the rays (u) and eb along them (v). */
static __device__ HatView hat_of(const Forward *s, int view)
{
	HatView hat = s->views[max(view, 0)];
	double ea = hat.ea;
	hat.ea = s->along_b ? ea : hat.eb;
	hat.eb = s->along_b ? hat.eb : ea;
	return hat;
}

/* Scheduler warp: writes a batch when all warps have finished with the previous contents of its
 * slot. Views are loaded one batch ahead. */
static __device__ void bring(const Forward *s, const Ring *ring, int count, int lane)
{
	int view = view_of(s, ring, 0, lane);
	HatView next = hat_of(s, view);
	for (int i = 0; i * ITEMS < items_of(s, ring); i++) {
		const HatView hat = next;
		int slot = i % BATCHES, now = view;
		view = view_of(s, ring, i + 1, lane);
		next = hat_of(s, view);
		const Strip strip = see_strip(s, ring, &hat, range_of_tile(&hat, ring, count), now,
			(i * ITEMS + lane / VIEWS) / ring->course.items);
		unsigned met = pairs_of_any(pairs_met(&strip, &hat, ring, count));
		if (i >= BATCHES)
			barrier_wait(ring->empty + 8 * slot, (i / BATCHES & 1) ^ 1);
		ring->strips[slot * ITEMS * VIEWS + lane] = strip;
		if (lane % VIEWS == 0)
			ring->met[slot * ITEMS + lane / VIEWS] = met;
		barrier_arrive(ring->full + 8 * slot);
	}
}

#endif

#endif
