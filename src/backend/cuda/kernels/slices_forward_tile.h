/* Forward projection of in-slice rays by tensor cores, four warps together (wgmma): compute
 * capability 9.0.
 *
 * Views are grouped into bundles of nearly equal direction. For each bundle, the plane is cut into
 * tiles of 2 x 26 squares of 4 x 4 pixels that follow the rays, so that a tile spans little more
 * than 16 columns of a view. A block keeps a tile with all its slices in shared memory and goes
 * through the views of the bundle. Four warps have 16 columns each of four neighbouring views:
 * their weights over a square are a matrix of 64 x 16, which the tensor cores multiply by 16 pixels
 * x 128 slices. The sums of 16 columns stay in registers while all pairs of squares that contribute
 * are processed, and are then added to the projections. A scheduler warp finds those pairs ahead.
 * It is bound by the tensor cores: 128 updates per clock, less for pairs that span two groups of
 * columns.
 *
 * Where a column reads two of four pixels in a row across the rays, as in Joseph's method, sparse
 * products skip the zeros: a pair of squares is one matrix of 64 x 32. Slices are transposed
 * separately for rays along b and along a, so that the pixels of such a row are adjacent.
 *
 * With two parts, as in slices_back_wgmma.cu, sums of few squares are accumulated in float, and
 * pixel positions are a multiple of GRAIN, whose sums are exact, plus a remainder.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_FORWARD_TILE_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_FORWARD_TILE_H

#include "backend/cuda/kernels/tensor.h"

extern "C" {
#include "backend/device/bundle.h"
}

enum {
	GROUP = 16,   /* columns of a warp */
	TOGETHER = 4, /* warps, and views in a product */
	VIEWS = TOGETHER,
	WIDE = 2, /* squares of a tile, across rays and along them */
	LONGEST = 26,
	ITEMS = 32 / VIEWS, /* groups of columns in VIEWS views that are prepared together */
	BATCHES = 4,
	WORD = 16,
	FEW = 8 /* pairs accumulated by the tensor cores, with two parts */
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

/* A bundle, and its tiles across the rays. */
typedef struct {
	int64_t slope;
	int first, items; /* VIEWS views each */
	int low, tiles;
} Course;

/* Bundles along the same axis: u is the axis across the rays, v along. */
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

/* A group of columns in a view: distance of the tile's first pixel from its first column, in
 * columns, slopes per pixel, and their rounding errors; hat widths per column. Columns `first` up
 * to `end` are on the detector. */
typedef struct __align__(16)
{
	float x, xu, xv, inverse;
	float x_rest, xu_rest, xv_rest, weight;
	int first, end, view;
}
Strip;

/* Positions of two squares: their first pixels in the tile, and both in shared memory (first half
 * of group_matrix). The first pair of the table is empty and refers to zeros. */
typedef struct __align__(16)
{
	float u[2], v[2];
	unsigned place;
	int none;
}
Pair;

/* Layout of the shared memory of a block: [part][square][eight pixels][chunk], then zeros for the
 * empty pair. */
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

/* State common to the warps of a block; `full` and `empty` are the first barriers of each ring. */
typedef struct {
	Course course;
	Pair *pairs;
	Strip *strips;
	unsigned *met; /* bit mask of pairs */
	unsigned full, empty, ready;
	int across, along; /* the tile, in squares */
	int u;             /* its first square is at (u, along) */
} Ring;

/* ---- the squares of a tile ------------------------------------------------------------------- */

/* Copies the squares inside the plane, contiguously and asynchronously. Returns their number. */
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

/* Zeros after them and for the empty pair; then the table of pairs. */
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

/* Range of a square's pixels, relative to its first. */
static __device__ Range range_of_square(const HatView *hat)
{
	float a = (SQUARE_SIDE - 1) * (float)hat->ea, b = (SQUARE_SIDE - 1) * (float)hat->eb;
	return Range{fminf(0, a) + fminf(0, b), fmaxf(0, a) + fmaxf(0, b)};
}

/* Range of all squares, relative to the tile's first pixel. */
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

/* Bit mask of the pairs that meet the strip; a superset is harmless. */
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

/* Union over the views of a group of lanes. */
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

/* View of this lane in a batch; all first groups of columns precede the second ones, which are
 * rare. */
static __device__ int view_of(const Forward *s, const Ring *ring, int batch, int lane)
{
	int item = batch * ITEMS + lane / VIEWS;
	if (item >= items_of(s, ring))
		return -1;
	return s->order[(ring->course.first + item % ring->course.items) * VIEWS + lane % VIEWS];
}

/* The hat with its axes across and along the rays. */
static __device__ HatView hat_of(const Forward *s, int view)
{
	HatView hat = s->views[max(view, 0)];
	double ea = hat.ea;
	hat.ea = s->along_b ? ea : hat.eb;
	hat.eb = s->along_b ? hat.eb : ea;
	return hat;
}

/* A batch replaces another when all warps have finished with that. Its views are loaded long
 * before. */
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
