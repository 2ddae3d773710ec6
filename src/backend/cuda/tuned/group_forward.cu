/* Forward projection of slices that share their weights by tensor cores, four warps together: cards of 9.0.
 *
 * Views come in bundles whose rays run nearly alike. For each bundle, the plane is cut into tiles of 2 x 26
 * squares of 4 x 4 pixels that follow the rays, so that a tile meets hardly more than 16 columns of a view. A
 * block keeps a tile with all its slices in shared memory and goes through the views of a bundle. Four warps
 * have 16 columns each of four neighbouring views: their hats over a square are a matrix of 64 x 16, which the
 * cores multiply with the square's 16 pixels x 128 slices. The sums of 16 columns stay in registers while all
 * pairs of squares that they meet pass by, and are then added to the projections. One more warp runs ahead
 * and finds out which pairs that are. It is bound by the cores: 128 updates a clock, less what pairs cost that
 * meet two groups of columns.
 *
 * Where hats are no wider than a pixel, as Joseph's are, a column meets two of four pixels in a row across the
 * rays, and the cores need not multiply by the other zeros: a pair of squares is one matrix of 64 x 32. Slices
 * are turned for rays along b and for those along a, so that it is the row that lies together.
 *
 * With two parts, as in group_back.cu, the sums of few squares are added up in floats, and the place of a
 * pixel is a multiple of GRAIN, whose sums are exact, and a rest.
 */
#include "backend/cuda/tuned/tensor.h"

extern "C" {
#include "backend/module/bundle.h"
}

enum {
	GROUP = 16,   /* columns of a warp */
	TOGETHER = 4, /* warps, and views in a product */
	VIEWS = TOGETHER,
	WIDE = 2, /* squares of a tile, across rays and along them */
	LONGEST = 26,
	ITEMS = 32 / VIEWS, /* groups of columns, each in VIEWS views, prepared together */
	BATCHES = 4,
	WORD = 16,
	FEW = 8 /* pairs whose sums in two parts the cores add up */
};

/* The warps of a block and the registers of their threads. Halves do best with many; sums of two have to be
 * kept twice. */
template <int SLICES, int PARTS> struct Crew {
	static constexpr int TEAMS = PARTS == 1 ? 4 : SLICES == 64 ? 3 : 2; /* four warps each */
	static constexpr int TAKERS = TEAMS * TOGETHER * 32;
	static constexpr int THREADS = TAKERS + 128;
	static constexpr int TAKER_REGISTERS = TEAMS == 4 ? 104 : TEAMS == 3 ? 144 : 216;
	static constexpr int BRINGER_REGISTERS = TEAMS == 4 ? 64 : TEAMS == 3 ? 80 : 72;
};

static_assert((int)VIEWS == (int)BUNDLE_VIEWS);

/* Of a column: up to 4096 columns, whole multiples are floats. */
#define GRAIN 0x1p-12f

/* A float between 0 and FIND, added to MAGIC and rounded down, has its whole part in its last bits. */
#define FIND 2.5f
#define MAGIC 0x1.8p23f
#define MAGIC_BITS 0x4b400000u

/* A bundle, and the tiles across its rays. */
typedef struct {
	int64_t slope;
	int first, items; /* VIEWS views each */
	int low, tiles;
} Course;

/* Bundles that run along the same axis: u is the axis across, v along. */
typedef struct {
	const HatView *views;
	const Course *courses;
	const int *order;
	bool along_b;
	int columns;
	int64_t low_u, low_v; /* where the box begins */
	int nu, nv;           /* squares of the plane */
	int pitch;            /* of the sums, in slices */
	int groups;           /* of columns that a tile can meet */
	int bundles, tiles;   /* the latter across, at most */
	const uint4 *data;    /* as TurnSquares says */
	float *to;            /* [view][column][slice], added to */
} Forward;

/* A group of columns in a view: the distance of the tile's first pixel from its first column, in columns, the
 * slopes for a pixel, and what these are short of; the hats of a column. Columns from `first` up to `end` are
 * there to be added to. */
typedef struct __align__(16)
{
	float x, xu, xv, inverse;
	float x_rest, xu_rest, xv_rest, weight;
	int first, end, view;
}
Strip;

/* Where two squares are: their first pixels in the tile, and both in shared memory, the first half of
 * group_matrix. The first pair in the table is none at all and holds zeros. */
typedef struct __align__(16)
{
	float u[2], v[2];
	unsigned place;
	int none;
}
Pair;

/* How the shared memory of a block is used: [part][square][eight pixels][chunk], then zeros for no pair. */
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

/* How far the tiles have moved across, so far along; in squares. */
static __host__ __device__ int shift_of(const Course *course, int64_t along)
{
	return (int)((along * course->slope + ((int64_t)1 << (BUNDLE_SHIFT - 1))) >> BUNDLE_SHIFT);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* What the warps of a block share; `full` and `empty` are the first barrier of each ring. */
typedef struct {
	Course course;
	Pair *pairs;
	Strip *strips;
	unsigned *met; /* pairs, as bits */
	unsigned full, empty, ready;
	int across, along; /* the tile, in squares */
	int u;             /* its first square is at (u, along) */
} Ring;

/* ---- the squares of a tile ---------------------------------------------------------------- */

/* Those that are there, one after the other, with their data on the way. Returns their number. */
template <int SLICES, int PARTS>
static __device__ int lay_squares(const Forward *s, const Ring *ring, unsigned data, int lane)
{
	typedef Layout<SLICES, PARTS> L;
	int count = 0;
	for (int first = 0; first < L::SQUARES; first += 32) {
		int n = first + lane, v = ring->along + n / WIDE;
		int u = ring->across + n % WIDE + shift_of(&ring->course, v);
		bool there = n < L::SQUARES && u >= 0 && u < s->nu && v < s->nv;
		unsigned all = __ballot_sync(0xffffffffu, there);
		int number = count + __popc(all & ((1u << lane) - 1));
		count += __popc(all);
		if (!there)
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

/* After them, and for no pair, zeros; then where all pairs are. */
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

/* ---- what a view sees of them ------------------------------------------------------------- */

typedef struct {
	float low, high;
} Range;

/* Of a square's pixels, from its first one. */
static __device__ Range range_of_square(const HatView *hat)
{
	float a = (SQUARE_SIDE - 1) * (float)hat->ea, b = (SQUARE_SIDE - 1) * (float)hat->eb;
	return Range{fminf(0, a) + fminf(0, b), fmaxf(0, a) + fmaxf(0, b)};
}

/* Of all squares, from the tile's first pixel. */
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

/* What sums to the value, first a multiple of GRAIN. */
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

/* The pairs that meet the strip; one more does no harm. */
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

/* Those that any of the views of a group of lanes meets. */
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

/* The view of this lane in a batch; all first groups come before all second ones, which are rare. */
static __device__ int view_of(const Forward *s, const Ring *ring, int batch, int lane)
{
	int item = batch * ITEMS + lane / VIEWS;
	if (item >= items_of(s, ring))
		return -1;
	return s->order[(ring->course.first + item % ring->course.items) * VIEWS + lane % VIEWS];
}

/* As it is seen across and along rays. */
static __device__ HatView hat_of(const Forward *s, int view)
{
	HatView hat = s->views[max(view, 0)];
	double ea = hat.ea;
	hat.ea = s->along_b ? ea : hat.eb;
	hat.eb = s->along_b ? hat.eb : ea;
	return hat;
}

/* A batch takes the place of another, once all have done with that. Its views are read long before. */
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

/* ---- products ----------------------------------------------------------------------------- */

/* What a lane needs to weigh a square for columns g and g + 8: where it is, in hats with one part, in columns as
 * Strip has it with two; hats of a pixel across, of two along, what finds the first of two pixels in a row. */
typedef struct {
	float x, xu, xv, far;
	float x_rest, xu_rest, xv_rest, inverse;
	float next, down, find;
} Lane;

/* Dense: pixels 2 t and 2 t + 1 and the same two rows on. Sparse: row t. */
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

/* In hats, from column g and from column g + 8. */
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

/* The first of two neighbours of four pixels in a row that begins at x, in the last bits of a sum with MAGIC; and
 * both of them weighed. */
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

/* Both squares; which weights are kept, as group_multiply_sparse wants it. While lanes tell each other that, they
 * weigh. */
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

/* Pairs that are still to come, as bits, and the number of the next, -1 if there is none. */
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

/* The number of the one after it is found long before it is needed. */
static __device__ __forceinline__ Pair next_pair(const Ring *ring, Left *left)
{
	const Pair pair = ring->pairs[1 + left->next];
	*left = left_of(left->met & (left->met - 1));
	return pair;
}

/* The products of a square, or of a pair. */
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

/* The weights are made while the cores multiply those before. */
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
	*pair = next_pair(ring, left); /* long before it is needed */
	group_fence();
	multiply<SLICES, PARTS, true>(sums, w, rest, kept, place, add);
}

/* Up to `most` pairs; their products may be still under way. */
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

/* Those of the first few are under way while the next begin. */
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

/* Column g or, of the other half, g + 8; two pairs of neighbours are four slices in a row, as TurnSquares has them. */
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

/* Without a question between them where all slices are there: a register that is to be added must not be needed
 * again before the card has read it, and so there are several. */
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

/* Teams take turns with those that meet anything. */
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

/* Blocks that run at the same time stand along rays, so that they add to the same columns. */
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
		barrier_init(ring->full + 8 * i, 32); /* who bring */
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

template <int SLICES, int PARTS, bool SPARSE>
static tomos_status launch(tomos_backend *backend, const Forward *s, int64_t groups)
{
	const int bytes = Layout<SLICES, PARTS>::BYTES, length = Layout<SLICES, PARTS>::LONG;
	CUDA_TRY(cudaFuncSetAttribute((const void *)group_forward<SLICES, PARTS, SPARSE>,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"asking for shared memory");
	int64_t tiles = (s->nv + length - 1) / length * (int64_t)s->tiles;
	dim3 blocks((unsigned)tiles, (unsigned)s->bundles, (unsigned)groups);
	group_forward<SLICES, PARTS, SPARSE>
		<<<blocks, Crew<SLICES, PARTS>::THREADS, bytes, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

template <bool SPARSE>
static tomos_status launch_fitting(
	tomos_backend *backend, const Forward *s, const TurnSquares *squares, int parts)
{
	if (squares->chunks == 128 / (int)CHUNK)
		return parts == 1 ? launch<128, 1, SPARSE>(backend, s, squares->groups)
				  : launch<128, 2, SPARSE>(backend, s, squares->groups);
	return parts == 1 ? launch<64, 1, SPARSE>(backend, s, squares->groups)
			  : launch<64, 2, SPARSE>(backend, s, squares->groups);
}

/* What is the same for all slices: bundles along b, and along a. */
typedef struct {
	Forward along[2];
	bool sparse;
} Request;

static int squares_across(int64_t pixels)
{
	return (int)((pixels + SQUARE_SIDE - 1) / SQUARE_SIDE);
}

static tomos_status run_slices(tomos_backend *backend, const Projecting *what, const HatSlices *l,
	const Request *r, const HatView *views, int64_t slice, int64_t slices)
{
	Turning x = turn_volume(what, l, slice, slices, CHUNK);
	Turning y = turn_views(what, l, slice, slices, CHUNK);
	int parts = tensor_parts(what->plan), wide = slices > 64 ? 128 : 64;
	TurnSquares squares = {.nj = squares_across(x.nj),
		.nk = squares_across(x.nk),
		.groups = (slices + wide - 1) / wide,
		.chunks = wide / CHUNK};
	int64_t words =
		squares.groups * squares.nk * squares.nj * parts * squares.chunks * SQUARE_PIXELS;
	int ways = (r->along[0].bundles > 0) + (r->along[1].bundles > 0);
	int64_t sums = y.pitch * y.nj * y.nk;
	float *head;
	TRY(cuda_scratch(backend, 0, TENSOR_HEAD + ways * words * (WORD / (int)sizeof(float)),
		&head, "slices"));
	TRY(cuda_scratch(backend, 1, sums, &y.inside, "rows of slices"));
	uint4 *data = (uint4 *)(head + TENSOR_HEAD);
	TurnHalves to = {.parts = parts, .largest = (unsigned *)head};
	if (r->along[0].bundles)
		squares.along_j = data;
	if (r->along[1].bundles)
		squares.along_k = data + (ways - 1) * words;
	TRY(turn_in_squares(backend, &x, &to, squares));
	CUDA_TRY(cudaMemsetAsync(
			 y.inside, 0, (size_t)sums * sizeof(float), device_of(backend)->stream),
		"clearing rows of slices");
	for (int i = 0; i < 2; i++) {
		Forward s = r->along[i];
		if (!s.bundles)
			continue;
		s.views = views;
		s.pitch = (int)y.pitch;
		s.data = i == 0 ? squares.along_j : squares.along_k;
		s.to = y.inside;
		TRY(r->sparse ? launch_fitting<true>(backend, &s, &squares, parts)
			      : launch_fitting<false>(backend, &s, &squares, parts));
	}
	y.largest = to.largest;
	return turn_out(backend, &y);
}

/* Tiles across cover the plane, however far they move along it. */
static Course course_of(const Bundle *bundle, int nu, int nv)
{
	Course c = {
		.slope = bundle->slope, .first = (int)bundle->first, .items = (int)bundle->count};
	int end = shift_of(&c, nv - 1), most = end > 0 ? end : 0, least = end < 0 ? end : 0;
	c.low = -(most + WIDE - 1) / WIDE;
	c.tiles = (nu - least + WIDE - 1) / WIDE - c.low;
	return c;
}

/* Columns that a tile meets: WIDE squares, which may be half a square off the line that rays follow, and what
 * rays move away from that line. */
static double span_of(const Projecting *what, const HatSlices *l, const Bundles *bundles)
{
	double most = 0;
	for (int64_t i = 0; i < bundles->count; i++) {
		const Bundle *b = &bundles->list[i];
		double slope = ldexp((double)b->slope, -BUNDLE_SHIFT);
		for (int64_t k = 0; k < b->count * BUNDLE_VIEWS; k++) {
			int view = bundles->order[b->first * BUNDLE_VIEWS + k];
			if (view < 0)
				continue;
			const double *column = what->plan->views[what->first + view].column;
			double across = column[b->along_b ? l->a : l->b];
			double along = column[b->along_b ? l->b : l->a];
			double away = fabs(along + slope * across) * (double)LONGEST;
			double wide = fabs(across) * ((double)WIDE + 1 + fabs(slope));
			most = fmax(most, (double)SQUARE_SIDE * (wide + away));
		}
	}
	return most + 2 * fmax(l->width, 1) + 1;
}

/* Those of all bundles along one axis, which follow each other. */
static Forward find_courses(const Projecting *what, const HatSlices *l, const Bundles *bundles,
	bool along_b, const Course *there, Course *courses)
{
	const Box *box = &what->box;
	int u = along_b ? l->a : l->b, v = along_b ? l->b : l->a;
	Forward s = {.along_b = along_b,
		.columns = (int)what->plan->model.columns,
		.low_u = box->low[u],
		.low_v = box->low[v],
		.nu = squares_across(box->high[u] - box->low[u]),
		.nv = squares_across(box->high[v] - box->low[v]),
		.groups = (int)ceil(span_of(what, l, bundles) / (double)GROUP)};
	for (int64_t i = 0; i < bundles->count; i++) {
		if (bundles->list[i].along_b != along_b)
			continue;
		if (!s.bundles++)
			s.courses = there + i;
		courses[i] = course_of(&bundles->list[i], s.nu, s.nv);
		s.tiles = courses[i].tiles > s.tiles ? courses[i].tiles : s.tiles;
	}
	return s;
}

/* The courses, then the order, are sent to the card. */
static tomos_status send_courses(tomos_backend *backend, const Projecting *what, const HatSlices *l,
	const Bundles *bundles, Course *courses, Request *r)
{
	cudaStream_t stream = device_of(backend)->stream;
	size_t bytes = (size_t)bundles->count * sizeof *courses;
	size_t order = (size_t)bundles->places * sizeof *bundles->order;
	float *there;
	TRY(cuda_scratch(backend, 2, (int64_t)((bytes + order) / sizeof(float)), &there,
		"bundles of views"));
	int *order_there = (int *)((unsigned char *)there + bytes);
	for (int i = 0; i < 2; i++) {
		r->along[i] =
			find_courses(what, l, bundles, i == 0, (const Course *)there, courses);
		r->along[i].order = order_there;
	}
	CUDA_TRY(cudaMemcpyAsync(there, courses, bytes, cudaMemcpyHostToDevice, stream),
		"sending bundles of views");
	CUDA_TRY(
		cudaMemcpyAsync(order_there, bundles->order, order, cudaMemcpyHostToDevice, stream),
		"sending bundles of views");
	return TOMOS_OK;
}

static tomos_status group_run(
	tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	const HatSlices *l = notes_of<HatSlices>(notes);
	tomos_status status = TOMOS_OK;
	Course *courses = NULL;
	Bundles bundles;
	Request r = {.sparse = l->reach <= 1};
	auto run_part = [&r](tomos_backend *b, const Projecting *w, const HatSlices *slices,
				const HatView *views, int64_t first, int64_t count) {
		return run_slices(b, w, slices, &r, views, first, count);
	};
	TRY_OR_DONE(bundles_make(&bundles, what, l));
	TRY_OR_DONE(mem_alloc(&courses, bundles.count, sizeof *courses, "bundles of views"));
	TRY_OR_DONE(send_courses(backend, what, l, &bundles, courses, &r));
	TRY_OR_DONE(turn_each(backend, what, notes, TurnKeeps{64, 2, 1, 0}, run_part));
done:
	bundles_free(&bundles);
	mem_free(courses);
	return status;
}

extern const CudaTuned group_forward_kernels[4];
const CudaTuned group_forward_kernels[4] = {
	{"tensor", KERNEL_voxel, FORWARD, half_applies, group_run, false, false, NULL, turn_fills},
	{"tensor", KERNEL_joseph, FORWARD, half_applies, group_run, false, false, NULL, turn_fills},
	{"tensor-split", KERNEL_voxel, FORWARD, split_applies, group_run, false, false, NULL,
		turn_fills},
	{"tensor-split", KERNEL_joseph, FORWARD, split_applies, group_run, false, false, NULL,
		turn_fills},
};
