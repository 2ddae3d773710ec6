/* Forward projection of slices that share their weights by tensor cores, four warps together: cards of 9.0.
 *
 * Views come in bundles whose rays run nearly alike. For each bundle, the plane is cut into tiles of 2 x 26
 * squares of 4 x 4 pixels that follow the rays, so that a tile meets hardly more than 16 columns of a view. A
 * block keeps a tile with all its slices in shared memory and goes through the views of a bundle. Four warps
 * have 16 columns each of four neighbouring views: their hats over a square are a matrix of 64 x 16, which the
 * cores multiply with the square's 16 pixels x 128 slices. The sums of 16 columns stay in registers while all
 * squares that they meet pass by, and are then added to the projections. One more warp runs ahead and finds
 * out which squares that are. It is bound by the cores: 128 updates a clock, less what squares cost that meet
 * two groups of columns.
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
	ITEMS = 32 /
		VIEWS, /* groups of columns in VIEWS views, prepared together: a view for each lane */
	BATCHES = 4,
	WORD = 16,
	FEW = 10 /* squares whose sums in two parts the cores add up */
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

/* A bundle, and the tiles across its rays. */
typedef struct {
	bool along_b;
	int64_t slope;
	int first, items; /* VIEWS views each */
	int low, tiles;
} Course;

typedef struct {
	const HatView *views;
	const Course *courses;
	const int *order;
	int columns;
	int64_t low_a, low_b; /* where the box begins */
	int na, nb;           /* squares of the plane */
	int pitch;            /* of the sums, in slices */
	int groups;           /* of columns that a tile can meet */
	int bundles;
	int most_a, most_b; /* tiles of a bundle across rays that run along a, along b */
	const uint4 *data;  /* as TurnSquares says */
	float *to;          /* [view][column][slice], added to */
} Forward;

/* A group of columns in a view: the distance of the tile's first pixel from its first column, in columns, the
 * slopes for a pixel, and what these are short of; the hats of a column. Columns from `first` up to `end` are
 * there to be added to. */
typedef struct __align__(16)
{
	float x, xa, xb, inverse;
	float x_rest, xa_rest, xb_rest, weight;
	int first, end, view;
}
Strip;

/* Squares as bits, the first 32 and the others. */
typedef struct {
	unsigned low, high;
} Squares;

/* Where a square is: its first pixel in the tile and in shared memory, the first half of group_matrix. The
 * first in the table is none at all and holds zeros. */
typedef struct __align__(16)
{
	float a, b;
	int none;
	unsigned place;
}
Square;

/* How the shared memory of a block is used. */
template <int SLICES, int PARTS> struct Layout {
	static constexpr int CHUNK_BYTES = (int)SQUARE_PIXELS * WORD;
	static constexpr int PART = SLICES / CHUNK * CHUNK_BYTES;
	static constexpr int SQUARE = PARTS * PART;
	static constexpr int LONG = SLICES * PARTS > 128 ? LONGEST / 2 : LONGEST;
	static constexpr int SQUARES = WIDE * LONG; /* at most 64 */
	static constexpr int TILE = (SQUARES + 1) * SQUARE;
	static constexpr int STRIPS = BATCHES * ITEMS * VIEWS * (int)sizeof(Strip);
	static constexpr int BYTES = TILE + STRIPS + (SQUARES + 1) * (int)sizeof(Square) +
				     BATCHES * ITEMS * (int)sizeof(Squares);
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
	Square *squares;
	Strip *strips;
	Squares *met;
	unsigned full, empty, ready;
	int across, along; /* the tile, in squares */
	int a, b;          /* its first square in the plane */
} Ring;

/* ---- the squares of a tile ---------------------------------------------------------------- */

static __device__ int2 place_of(const Course *course, int across, int along)
{
	across += shift_of(course, along);
	return course->along_b ? make_int2(across, along) : make_int2(along, across);
}

/* Those that are there, one after the other, with their data on the way. Returns their number. */
template <int SLICES, int PARTS>
static __device__ int lay_squares(const Forward *s, const Ring *ring, unsigned data, int lane)
{
	typedef Layout<SLICES, PARTS> L;
	int count = 0;
	for (int first = 0; first < L::SQUARES; first += 32) {
		int n = first + lane;
		int2 at = place_of(&ring->course, ring->across + n % WIDE, ring->along + n / WIDE);
		bool there =
			n < L::SQUARES && at.x >= 0 && at.x < s->na && at.y >= 0 && at.y < s->nb;
		unsigned all = __ballot_sync(0xffffffffu, there);
		int number = count + __popc(all & ((1u << lane) - 1));
		unsigned to = data + number * L::SQUARE;
		count += __popc(all);
		if (!there)
			continue;
		int64_t from = ((int64_t)blockIdx.z * s->nb + at.y) * s->na + at.x;
		ring->squares[1 + number] = Square{(float)((at.x - ring->a) * SQUARE_SIDE),
			(float)((at.y - ring->b) * SQUARE_SIDE), 0,
			(unsigned)group_matrix(to, L::CHUNK_BYTES)};
		bulk_copy_plain(to, s->data + from * (L::SQUARE / WORD), L::SQUARE, ring->ready);
	}
	__syncwarp();
	if (lane == 0) {
		unsigned zeros = data + L::SQUARES * L::SQUARE;
		ring->squares[0] = Square{0, 0, 1, (unsigned)group_matrix(zeros, L::CHUNK_BYTES)};
		bulk_expect(ring->ready, count * L::SQUARE);
	}
	return count;
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
static __device__ Range range_of_tile(const HatView *hat, const Square *squares, int count)
{
	float a = (float)hat->ea, b = (float)hat->eb;
	Range own = range_of_square(hat), all = {1e30f, -1e30f};
#pragma unroll 4
	for (int i = 0; i < count; i++) {
		float at = fmaf(squares[1 + i].a, a, squares[1 + i].b * b);
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
	double e = hat->e0 + hat->ea * (double)(s->low_a + (int64_t)ring->a * SQUARE_SIDE) +
		   hat->eb * (double)(s->low_b + (int64_t)ring->b * SQUARE_SIDE);
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
	part_of(hat->ea, &strip.xa, &strip.xa_rest);
	part_of(hat->eb, &strip.xb, &strip.xb_rest);
	if (view < 0 || strip.first + GROUP <= 0)
		strip.end = strip.first;
	return strip;
}

/* The squares that meet the strip; one more does no harm. */
static __device__ Squares squares_met(
	const Strip *strip, const HatView *hat, const Square *squares, int count)
{
	const float slack = 1.001f * hat->h;
	Range own = range_of_square(hat);
	float low = -slack - own.high - strip->x, high = GROUP - 1 + slack - own.low - strip->x;
	float a = (float)hat->ea, b = (float)hat->eb;
	unsigned long long met = 0;
	if (strip->first >= strip->end)
		return Squares{0, 0};
#pragma unroll 4
	for (int i = 0; i < count; i++) {
		float at = fmaf(squares[1 + i].a, a, squares[1 + i].b * b);
		met |= (unsigned long long)(at > low && at < high) << i;
	}
	return Squares{(unsigned)met, (unsigned)(met >> 32)};
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

/* A batch takes the place of another, once all have done with that. Its views are read long before. */
static __device__ void bring(const Forward *s, const Ring *ring, int count, int lane)
{
	int view = view_of(s, ring, 0, lane);
	HatView next = s->views[max(view, 0)];
	for (int i = 0; i * ITEMS < items_of(s, ring); i++) {
		const HatView hat = next;
		int slot = i % BATCHES, now = view;
		view = view_of(s, ring, i + 1, lane);
		next = s->views[max(view, 0)];
		const Strip strip =
			see_strip(s, ring, &hat, range_of_tile(&hat, ring->squares, count), now,
				(i * ITEMS + lane / VIEWS) / ring->course.items);
		const Squares met = squares_of_any(squares_met(&strip, &hat, ring->squares, count));
		if (i >= BATCHES)
			barrier_wait(ring->empty + 8 * slot, (i / BATCHES & 1) ^ 1);
		ring->strips[slot * ITEMS * VIEWS + lane] = strip;
		if (lane % VIEWS == 0)
			ring->met[slot * ITEMS + lane / VIEWS] = met;
		__syncwarp();
		if (lane == 0)
			barrier_arrive(ring->full + 8 * slot);
	}
}

/* ---- products ----------------------------------------------------------------------------- */

/* What a lane needs to weigh a square: columns g and g + 8, pixels 2 t and 2 t + 1 and the same two rows on.
 * One part: in hats. Two: places in columns as Strip has them, steps in hats. */
typedef struct {
	float x, xa, xb, far;
	float x_rest, xa_rest, xb_rest, inverse;
	float next, down;
} Lane;

template <int PARTS> static __device__ Lane lane_of(const Strip *strip, int lane)
{
	int g = lane / 4, pixel = lane % 4 * 2;
	float a = (float)(pixel % SQUARE_SIDE), b = (float)(pixel / SQUARE_SIDE);
	float inverse = strip->inverse, scale = PARTS == 1 ? inverse : 1;
	float x = fmaf(a, strip->xa, fmaf(b, strip->xb, strip->x - (float)g));
	float rest = fmaf(a, strip->xa_rest, fmaf(b, strip->xb_rest, strip->x_rest));
	float xa = strip->xa + strip->xa_rest, xb = strip->xb + strip->xb_rest;
	Lane l = {.far = 8 * scale,
		.x_rest = rest,
		.xa_rest = strip->xa_rest,
		.xb_rest = strip->xb_rest,
		.inverse = inverse,
		.next = xa * inverse,
		.down = 2 * xb * inverse};
	l.x = PARTS == 1 ? (x + rest) * scale : x;
	l.xa = PARTS == 1 ? xa * scale : strip->xa;
	l.xb = PARTS == 1 ? xb * scale : strip->xb;
	return l;
}

template <int PARTS>
static __device__ __forceinline__ void weigh_square(
	const Lane *l, const Square *square, unsigned w[4], unsigned rest[4])
{
	float a = square->a, b = square->b, x, far;
	if constexpr (PARTS == 1) {
		x = fmaf(a, l->xa, fmaf(b, l->xb, l->x));
		far = x - l->far;
	} else {
		float whole = fmaf(a, l->xa, fmaf(b, l->xb, l->x));
		float less = fmaf(a, l->xa_rest, fmaf(b, l->xb_rest, l->x_rest));
		x = (whole + less) * l->inverse;
		far = (whole - l->far + less) * l->inverse;
	}
	tensor_weigh<PARTS>(x, x + l->next, &w[0], &rest[0]);
	tensor_weigh<PARTS>(far, far + l->next, &w[1], &rest[1]);
	x += l->down;
	far += l->down;
	tensor_weigh<PARTS>(x, x + l->next, &w[2], &rest[2]);
	tensor_weigh<PARTS>(far, far + l->next, &w[3], &rest[3]);
}

static __device__ __forceinline__ Square next_square(const Ring *ring, Squares *left)
{
	int first = left->low ? 0 : 32;
	unsigned bits = left->low ? left->low : left->high, others = bits & (bits - 1);
	left->high = left->low ? left->high : others;
	left->low = left->low ? others : 0;
	return ring->squares[bits ? first + __ffs((int)bits) : 0];
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void multiply(float (&sums)[SLICES / 2], const unsigned w[4],
	const unsigned rest[4], unsigned place, bool add)
{
	uint64_t from = group_matrix(0, Layout<SLICES, PARTS>::CHUNK_BYTES) | place;
	if constexpr (PARTS == 2) {
		group_multiply_add<SLICES>(sums, w, from + Layout<SLICES, PARTS>::PART / WORD, add);
		group_multiply_add<SLICES>(sums, rest, from, true);
		group_multiply_add<SLICES>(sums, w, from, true);
	} else {
		group_multiply_add<SLICES>(sums, w, from, add);
	}
}

/* The weights of a square are made while the cores multiply the square before. */
template <int SLICES, int PARTS>
static __device__ __forceinline__ void add_square(float (&sums)[SLICES / 2], const Ring *ring,
	const Lane *own, Square *square, Squares *left, unsigned w[4], unsigned rest[4], bool add)
{
	unsigned place = square->place;
	weigh_square<PARTS>(own, square, w, rest);
	*square = next_square(ring, left); /* long before it is needed */
	group_fence();
	multiply<SLICES, PARTS>(sums, w, rest, place, add);
	group_commit();
	group_wait<1>();
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void add_squares(float (&sums)[SLICES / 2], const Ring *ring,
	const Lane *own, Square *square, Squares *left, int most)
{
	unsigned w[2][4], rest[2][4];
	int count = 0;
	do {
		add_square<SLICES, PARTS>(sums, ring, own, square, left, w[0], rest[0], count > 0);
		add_square<SLICES, PARTS>(sums, ring, own, square, left, w[1], rest[1], true);
		count += 2;
	} while (count < most && !square->none);
	group_wait<0>();
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void add_all(
	float (&sums)[SLICES / 2], const Ring *ring, const Lane *own, Squares left)
{
	Square square = next_square(ring, &left);
	add_squares<SLICES, PARTS>(sums, ring, own, &square, &left, PARTS == 1 ? 64 : FEW);
	if constexpr (PARTS == 2)
		while (!square.none) {
			float part[SLICES / 2];
			add_squares<SLICES, PARTS>(part, ring, own, &square, &left, FEW);
#pragma unroll
			for (int i = 0; i < SLICES / 2; i++)
				sums[i] += part[i];
		}
}

static __device__ __forceinline__ void add_four(float *to, const float *x, const float *y)
{
	asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to),
		     "f"(x[0]), "f"(x[1]), "f"(y[0]), "f"(y[1])
		     : "memory");
}

/* Scaled where they are: a register that is to be added must not be needed again before the card has read
 * it. Two pairs of neighbours are four slices in a row, as TurnSquares has them. */
template <int N>
static __device__ __forceinline__ void write_sums(
	const Forward *s, const Strip *strip, float (&sums)[N], int lane)
{
	int slice = blockIdx.z * N * 2 + lane % 4 * 4, column = strip->first + lane / 4;
	bool whole = (int)(blockIdx.z + 1) * N * 2 <= s->pitch;
	float *to = s->to + ((int64_t)strip->view * s->columns + column) * s->pitch + slice;
#pragma unroll
	for (int i = 0; i < N; i++)
		sums[i] *= strip->weight;
#pragma unroll
	for (int half = 0; half < 2; half++, column += 8, to += 8 * s->pitch)
		if (column >= 0 && column < strip->end) {
#pragma unroll
			for (int n = 0; n < N / 4; n += 2)
				if (whole || slice + n * CHUNK < s->pitch)
					add_four(to + n * CHUNK, &sums[4 * n + 2 * half],
						&sums[4 * n + 4 + 2 * half]);
		}
}

template <int SLICES, int PARTS>
static __device__ __forceinline__ void take(const Forward *s, const Ring *ring)
{
	constexpr int teams = Crew<SLICES, PARTS>::TEAMS;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % TOGETHER, team = threadIdx.x / 128;
	int items = items_of(s, ring);
	for (int batch = 0, item = team; batch * ITEMS < items; batch++) {
		int slot = batch % BATCHES;
		barrier_wait(ring->full + 8 * slot, batch / BATCHES & 1);
		for (; item < min(items, (batch + 1) * ITEMS); item += teams) {
			int i = slot * ITEMS + item % ITEMS;
			const Squares met = ring->met[i];
			if (!(met.low | met.high))
				continue;
			const Strip *strip = ring->strips + i * VIEWS + warp;
			const Lane own = lane_of<PARTS>(strip, lane);
			float sums[SLICES / 2];
			add_all<SLICES, PARTS>(sums, ring, &own, met);
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
	const Course *course = &ring->course;
	int tiles = ((course->along_b ? s->nb : s->na) + L::LONG - 1) / L::LONG;
	ring->across = ((int)blockIdx.x / tiles + course->low) * WIDE;
	ring->along = (int)blockIdx.x % tiles * L::LONG;
	const int2 at = place_of(course, ring->across, ring->along);
	ring->a = at.x;
	ring->b = at.y;
	return (int)blockIdx.x / tiles < course->tiles;
}

static __device__ void start_barriers(const Ring *ring, int takers)
{
	for (int i = 0; i < BATCHES; i++) {
		barrier_init(ring->full + 8 * i, 1);
		barrier_init(ring->empty + 8 * i, takers);
	}
	barrier_init(ring->ready, 1);
	bulk_fence();
}

template <int SLICES, int PARTS> static __device__ void work(const Forward *s)
{
	extern __shared__ __align__(128) unsigned char memory[];
	__shared__ __align__(8) uint64_t barriers[2 * BATCHES + 1];
	__shared__ int count;
	typedef Layout<SLICES, PARTS> L;
	typedef Crew<SLICES, PARTS> C;
	int lane = threadIdx.x % 32;
	bool brings = threadIdx.x / 32 == C::TAKERS / 32;
	Ring ring = {.course = s->courses[blockIdx.y],
		.squares = (Square *)(memory + L::TILE + L::STRIPS),
		.strips = (Strip *)(memory + L::TILE),
		.full = shared_address(barriers),
		.empty = shared_address(barriers + BATCHES),
		.ready = shared_address(barriers + 2 * BATCHES)};
	ring.met = (Squares *)(ring.squares + L::SQUARES + 1);
	if (!find_tile<L>(s, &ring))
		return;
	if (brings) {
		if (lane == 0)
			start_barriers(&ring, C::TAKERS / 32);
		__syncwarp();
		count = lay_squares<SLICES, PARTS>(s, &ring, shared_address(memory), lane);
	}
	for (int i = threadIdx.x; i < L::SQUARE / WORD; i += C::THREADS)
		((uint4 *)(memory + L::SQUARES * L::SQUARE))[i] = make_uint4(0, 0, 0, 0);
	bulk_fence();
	__syncthreads();
	if (!count)
		return;
	if (threadIdx.x < C::TAKERS) {
		group_more_registers<C::TAKER_REGISTERS>();
		barrier_wait(ring.ready, 0);
		take<SLICES, PARTS>(s, &ring);
	} else {
		group_fewer_registers<C::BRINGER_REGISTERS>();
		if (brings)
			bring(s, &ring, count, lane);
	}
}

#endif

template <int SLICES, int PARTS>
static __global__ void __launch_bounds__(Crew<SLICES, PARTS>::THREADS, 1)
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
static tomos_status launch(tomos_backend *backend, const Forward *s, const TurnSquares *squares)
{
	const int bytes = Layout<SLICES, PARTS>::BYTES;
	CUDA_TRY(cudaFuncSetAttribute((const void *)group_forward<SLICES, PARTS>,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"asking for shared memory");
	const int length = Layout<SLICES, PARTS>::LONG;
	int64_t tiles = max64((s->nb + length - 1) / length * (int64_t)s->most_b,
		(s->na + length - 1) / length * (int64_t)s->most_a);
	dim3 blocks((unsigned)tiles, (unsigned)s->bundles, (unsigned)squares->groups);
	group_forward<SLICES, PARTS>
		<<<blocks, Crew<SLICES, PARTS>::THREADS, bytes, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

static tomos_status launch_fitting(
	tomos_backend *backend, const Forward *s, const TurnSquares *squares)
{
	if (squares->chunks == 128 / (int)CHUNK)
		return squares->parts == 1 ? launch<128, 1>(backend, s, squares)
					   : launch<128, 2>(backend, s, squares);
	return squares->parts == 1 ? launch<64, 1>(backend, s, squares)
				   : launch<64, 2>(backend, s, squares);
}

static tomos_status run_slices(tomos_backend *backend, const Projecting *what, const HatSlices *l,
	Forward s, const HatView *views, int64_t slice, int64_t slices)
{
	Turning x = turn_volume(what, l, slice, slices, CHUNK);
	Turning y = turn_views(what, l, slice, slices, CHUNK);
	int parts = tensor_parts(what->plan), wide = slices > 64 ? 128 : 64;
	TurnSquares squares = {.nj = s.na,
		.nk = s.nb,
		.groups = (slices + wide - 1) / wide,
		.chunks = wide / CHUNK,
		.parts = parts};
	int64_t words =
		squares.groups * squares.nk * squares.nj * parts * squares.chunks * SQUARE_PIXELS;
	int64_t sums = y.pitch * y.nj * y.nk;
	float *head;
	TRY(cuda_scratch(
		backend, 0, TENSOR_HEAD + words * (WORD / (int)sizeof(float)), &head, "slices"));
	TRY(cuda_scratch(backend, 1, sums, &y.inside, "rows of slices"));
	TurnHalves to = {
		.data = (uint4 *)(head + TENSOR_HEAD), .parts = parts, .largest = (unsigned *)head};
	s.views = views;
	s.pitch = (int)y.pitch;
	s.data = to.data;
	s.to = y.inside;
	TRY(turn_in_squares(backend, &x, &to, squares));
	CUDA_TRY(cudaMemsetAsync(
			 y.inside, 0, (size_t)sums * sizeof(float), device_of(backend)->stream),
		"clearing rows of slices");
	TRY(launch_fitting(backend, &s, &squares));
	y.largest = to.largest;
	return turn_out(backend, &y);
}

/* Tiles across cover the plane, however far they move along it. */
static Course course_of(const Bundle *bundle, int na, int nb)
{
	int across = bundle->along_b ? na : nb, along = bundle->along_b ? nb : na;
	Course c = {.along_b = bundle->along_b,
		.slope = bundle->slope,
		.first = (int)bundle->first,
		.items = (int)bundle->count};
	int end = shift_of(&c, along - 1), most = end > 0 ? end : 0, least = end < 0 ? end : 0;
	c.low = -(most + WIDE - 1) / WIDE;
	c.tiles = (across - least + WIDE - 1) / WIDE - c.low;
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

/* Bundles and courses on the card: the courses, then the order. */
static tomos_status send_courses(
	tomos_backend *backend, Forward *s, const Bundles *bundles, Course *courses)
{
	cudaStream_t stream = device_of(backend)->stream;
	size_t bytes = (size_t)bundles->count * sizeof *courses;
	size_t order = (size_t)bundles->places * sizeof *bundles->order;
	float *there;
	for (int64_t i = 0; i < bundles->count; i++) {
		Course *c = &courses[i];
		*c = course_of(&bundles->list[i], s->na, s->nb);
		int *most = c->along_b ? &s->most_b : &s->most_a;
		*most = c->tiles > *most ? c->tiles : *most;
	}
	TRY(cuda_scratch(backend, 2, (int64_t)((bytes + order) / sizeof(float)), &there,
		"bundles of views"));
	s->bundles = (int)bundles->count;
	s->courses = (const Course *)there;
	s->order = (const int *)((const unsigned char *)there + bytes);
	CUDA_TRY(cudaMemcpyAsync(there, courses, bytes, cudaMemcpyHostToDevice, stream),
		"sending bundles of views");
	CUDA_TRY(cudaMemcpyAsync(
			 (void *)s->order, bundles->order, order, cudaMemcpyHostToDevice, stream),
		"sending bundles of views");
	return TOMOS_OK;
}

static int squares_across(const Box *box, int axis)
{
	return (int)((box->high[axis] - box->low[axis] + SQUARE_SIDE - 1) / SQUARE_SIDE);
}

static tomos_status run_bundles(tomos_backend *backend, const Projecting *what,
	const CudaNotes *notes, const Bundles *bundles, Course *courses)
{
	const HatSlices *l = notes_of<HatSlices>(notes);
	const Box *box = &what->box;
	Forward s = {.columns = (int)what->plan->model.columns,
		.low_a = box->low[l->a],
		.low_b = box->low[l->b],
		.na = squares_across(box, l->a),
		.nb = squares_across(box, l->b),
		.groups = (int)ceil(span_of(what, l, bundles) / (double)GROUP)};
	TRY(send_courses(backend, &s, bundles, courses));
	auto run_part = [s](tomos_backend *b, const Projecting *w, const HatSlices *slices,
				const HatView *views, int64_t first, int64_t count) {
		return run_slices(b, w, slices, s, views, first, count);
	};
	return turn_each(backend, what, notes, TurnKeeps{64, 1, 1, 0}, run_part);
}

static tomos_status group_run(
	tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	tomos_status status = TOMOS_OK;
	Course *courses = NULL;
	Bundles bundles;
	TRY_OR_DONE(bundles_make(&bundles, what, notes_of<HatSlices>(notes)));
	TRY_OR_DONE(mem_alloc(&courses, bundles.count, sizeof *courses, "bundles of views"));
	TRY_OR_DONE(run_bundles(backend, what, notes, &bundles, courses));
done:
	bundles_free(&bundles);
	mem_free(courses);
	return status;
}

extern const CudaTuned group_forward_kernels[4];
const CudaTuned group_forward_kernels[4] = {
	{"tensor", KERNEL_voxel, FORWARD, half_applies, group_run},
	{"tensor", KERNEL_joseph, FORWARD, half_applies, group_run},
	{"tensor-split", KERNEL_voxel, FORWARD, split_applies, group_run},
	{"tensor-split", KERNEL_joseph, FORWARD, split_applies, group_run},
};
