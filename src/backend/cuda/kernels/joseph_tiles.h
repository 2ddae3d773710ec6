/* Rays of any direction through tiles of voxels in shared memory. Used by joseph_back_any.cu and
 * joseph_forward_any.cu.
 *
 * A block has a tile and goes over all views; its threads follow the rays that meet the tile from
 * plane to plane of their dominant axis a. A ray that passes between tiles is in all of them, which
 * share its four voxels.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_TILES_H
#define TOMOS_BACKEND_CUDA_KERNELS_JOSEPH_TILES_H

#include "backend/cuda/kernels/joseph_seen.h"
#include "backend/cuda/kernels/sheets.h"

/* ---- rays ------------------------------------------------------------------------------------ */

/* Narrows the planes from *first to *last to those where base + k slope is between low and high, as
 * kernel_clip does. Where the slope is zero, a minimum or maximum with NaN is the other value. */
static __device__ __forceinline__ void clip(
	float base, float slope, float low, float high, float *first, float *last)
{
	const float rate = inverse_nearly(slope);
	const float one = (low - base) * rate, two = (high - base) * rate;
	*first = fmaxf(*first, fminf(one, two));
	*last = fminf(*last, fmaxf(one, two));
}

/* Quotient and remainder; rate: 2^32 / by, rounded down. */
static __device__ __forceinline__ int2 divided(int i, int by, unsigned rate)
{
	const int whole = (int)__umulhi((unsigned)i, rate), rest = i - whole * by;
	return rest >= by ? make_int2(whole + 1, rest - by) : make_int2(whole, rest);
}

/* The integer nearest to x y. */
static __device__ __forceinline__ int nearest(float x, float y)
{
	return __float_as_int(fmaf(x, y, MAGIC)) - __float_as_int(MAGIC);
}

/* A pixel in the parallelogram of those that may meet the tile: its line, and its place or that in
 * the order of lanes. */
typedef struct {
	int line, place;
} Cursor;

/* The pixel of this lane in a warp of rays. */
static __device__ __forceinline__ Cursor cursor_of(const Seen &seen, int warp)
{
	const int2 at = divided(warp * LANES + threadIdx.x % LANES, seen.width, seen.rate);
	return Cursor{at.x, at.y};
}

static __device__ __forceinline__ Cursor next_of(const Seen &seen, Cursor at)
{
	at.line += seen.next.x;
	at.place += seen.next.y;
	return at.place >= seen.width ? Cursor{at.line + 1, at.place - seen.width} : at;
}

/* The pixel on the detector: line and place from the middle ones, and its number from the first one
 * of the middle line; exists: it is one of those that may meet the tile. */
typedef struct {
	float line, place;
	int at;
	bool exists;
} Place;

template <class Tile>
static __device__ __forceinline__ Place place_of(const Seen &seen, const Cursor &of)
{
	int line = of.line, place = of.place;
	bool exists = line < seen.high;
	if (Tile::ADDS && seen.stride > 1) {
		const int2 lane = divided(place, seen.strided, seen.strided_rate);
		place = lane.y * seen.stride + lane.x;
		exists &= place < seen.places;
	}
	place += seen.place + nearest(seen.shear, (float)line);
	const float r = (float)(place - seen.middle);
	line += seen.line + nearest(seen.skew, r);
	exists &= (unsigned)place < (unsigned)seen.pitch;
	exists &= (unsigned)(line - seen.edge) < (unsigned)seen.lines;
	return Place{(float)line, r, line * seen.pitch + place, exists};
}

/* A ray at b + k b_k and e + k e_k in plane k, counted from the middle of the tile as positions
 * are. planes: those in which it meets the tile, as bits from the first plane of the tile on. */
typedef struct {
	float b, e, b_k, e_k;
	unsigned planes;
} Path;

template <class Tile, int A>
static __device__ __forceinline__ Path path_of(
	const Seen &seen, const Place &place, const int size[3])
{
	constexpr int B = across_of(A), E = along_of(A), MIDDLE_A = Tile::size(A) / 2,
		      MIDDLE_B = Tile::size(B) / 2, MIDDLE_E = Tile::size(E) / 2;
	static_assert(Tile::size(A) <= 32, "as many bits");
	const float line = place.line, column = place.place;
	/* In double: positions are differences of larger numbers. */
	const double c = line, r = column;
	const float along = (float)fma(c, seen.a[1], fma(r, seen.a[2], seen.a[0]));
	const float nearly = inverse_nearly(along),
		    rate = fmaf(nearly, fmaf(-nearly, along, 1), nearly);
	Path p = {.b = (float)fma(c, seen.l[1], fma(r, seen.l[2], seen.l[0])) * rate,
		.e = (float)fma(c, seen.z[1], fma(r, seen.z[2], seen.z[0])) * rate,
		.b_k = fmaf(line, seen.l_a[1], fmaf(column, seen.l_a[2], seen.l_a[0])) * rate,
		.e_k = fmaf(line, seen.z_a[1], fmaf(column, seen.z_a[2], seen.z_a[0])) * rate};
	float first = -MIDDLE_A, last = (float)(size[A] - 1 - MIDDLE_A);
	clip(p.b, p.b_k, -1 - MIDDLE_B, (float)(size[B] - MIDDLE_B), &first, &last);
	clip(p.e, p.e_k, -1 - MIDDLE_E, (float)(size[E] - MIDDLE_E), &first, &last);
	constexpr float ROUND = MAGIC + MIDDLE_A; /* to bits of planes */
	const unsigned from = __float_as_uint(__fadd_ru(first, ROUND)),
		       to = __float_as_uint(__fadd_rd(last, ROUND));
	p.planes = first <= last ? (~0u << (from & 31)) & (~0u >> (~to & 31)) : 0;
	return p;
}

/* A sample of a ray: what it has of the upper voxels along b and e, its position along e, and the
 * address of the first voxel in shared memory. */
typedef struct {
	float right, up, e;
	unsigned at;
} Sample;

template <class Tile, int A>
static __device__ __forceinline__ Sample sample_of(float b, float e, unsigned origin)
{
	constexpr unsigned SB = Tile::BYTES * Tile::stride(across_of(A)),
			   SE = Tile::BYTES * Tile::stride(along_of(A));
	const float low_b = __fadd_rd(b, MAGIC), low_e = __fadd_rd(e, MAGIC);
	return Sample{b - __fadd_rn(low_b, -MAGIC), e - __fadd_rn(low_e, -MAGIC), e,
		__float_as_uint(low_b) * SB + (__float_as_uint(low_e) * SE + origin)};
}

/* A constant, as a type. */
template <int VALUE_> struct Constant {
	static constexpr int VALUE = VALUE_;
};

static __device__ __forceinline__ unsigned warp_or(unsigned value)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_or_sync(~0u, value);
#else
	for (int lane = LANES / 2; lane > 0; lane /= 2)
		value |= __shfl_xor_sync(~0u, value, lane);
	return value;
#endif
}

/* Calls use(sample, Constant, has) for the samples in four planes, with the number of the plane.
 * k: the first plane; planes: those of this ray, as bits; has: not zero if that is one of them. */
template <class Tile, int A, class Use>
static __device__ __forceinline__ void four_samples(
	const Path &p, float k, unsigned origin, unsigned planes, const Use &use)
{
	const float b = fmaf(k, p.b_k, p.b), e = fmaf(k, p.e_k, p.e);
	use(sample_of<Tile, A>(b, e, origin), Constant<0>(), planes & 1);
	use(sample_of<Tile, A>(b + p.b_k, e + p.e_k, origin), Constant<1>(), planes & 2);
	use(sample_of<Tile, A>(fmaf(2, p.b_k, b), fmaf(2, p.e_k, e), origin), Constant<2>(),
		planes & 4);
	use(sample_of<Tile, A>(fmaf(3, p.b_k, b), fmaf(3, p.e_k, e), origin), Constant<3>(),
		planes & 8);
}

/* Calls use(sample, Constant, has) for all planes in which a lane of the warp has a sample. All
 * lanes call it together and are in the same plane at the same time, so that neighbours are in
 * different banks. The address of a sample is that in the first of four planes. memory: address of
 * the tile. */
template <class Tile, int A, class Use>
static __device__ __forceinline__ void each_sample(const Path &p, unsigned memory, const Use &use)
{
	constexpr int B = across_of(A), E = along_of(A);
	constexpr unsigned SA = Tile::BYTES * Tile::stride(A),
			   MIDDLE = Tile::ORIGIN + Tile::size(B) / 2 * Tile::stride(B) +
				    Tile::size(E) / 2 * Tile::stride(E),
			   BIAS = __builtin_bit_cast(unsigned, MAGIC) *
				  (Tile::stride(B) + Tile::stride(E));
	const unsigned all = warp_or(p.planes);
	const int first = all ? __ffs((int)all) - 1 : 0;
	int n = LANES - __clz((int)all) - first;
	unsigned planes = p.planes >> first,
		 origin = memory + Tile::BYTES * (MIDDLE - BIAS) + (unsigned)first * SA;
	float k = (float)(first - Tile::size(A) / 2);
#pragma unroll 1
	for (; n > 0; n -= 4) {
		four_samples<Tile, A>(p, k, origin, planes, use);
		k += 4;
		origin += 4 * SA;
		planes >>= 4;
	}
}

/* Takes the next one of the units that the warps of a block share. */
static __device__ __forceinline__ int take_unit(int *next)
{
	int unit = 0;
	if (threadIdx.x % LANES == 0)
		asm volatile("atom.shared.add.u32 %0, [%1], 1;"
			     : "=r"(unit)
			     : "r"((unsigned)__cvta_generic_to_shared(next))
			     : "memory");
	return __shfl_sync(~0u, unit, 0);
}

/* The number of units of a view: sets of rays that a warp takes at once. */
static __device__ __forceinline__ int units_of(const Seen &seen)
{
	return (seen.warps + AT_ONCE - 1) / AT_ONCE;
}

/* Calls use(Constant, seen, cursor) for the rays in a list, with the axis and the pixel;
 * neighbouring lanes have neighbouring pixels, some of them beyond the last one. Warps take the
 * next rays when they have finished others; next: units taken. */
template <class Tile, class Use>
static __device__ __forceinline__ void each_ray(
	const Seen *list, int count, int *next, const Use &use)
{
	int before = 0;
	for (int v = 0; v < count;) {
		const int unit = take_unit(next);
		for (; v < count && unit >= before + units_of(list[v]); v++)
			before += units_of(list[v]);
		if (v == count)
			break;
		const Seen &seen = list[v];
		const int axis = seen.axis, first = AT_ONCE * (unit - before),
			  end = min(first + AT_ONCE, seen.warps);
		const auto follow = [&](auto constant) {
			Cursor at = cursor_of(seen, first);
#pragma unroll 1
			for (int i = first; i < end; i++, at = next_of(seen, at))
				use(constant, seen, at);
		};
		if constexpr (Tile::AXES == UPRIGHT)
			follow(Constant<2>());
		else if (axis == 0)
			follow(Constant<0>());
		else if (Tile::AXES == LEVEL || axis == 1)
			follow(Constant<1>());
		else if constexpr (Tile::AXES == ALL)
			follow(Constant<2>());
	}
}

/* ---- rotations ------------------------------------------------------------------------------- */

/* Voxel (x, y) rotated i times: a quarter of a circle moves it to (n - 1 - y, x). */
static __device__ __forceinline__ int2 rotated(const Tiles *s, int i, int x, int y)
{
	const int across = s->n[0] - 1 - x, down = s->n[1] - 1 - y;
	switch (i * s->quarters & 3) {
	case 1:
		return make_int2(down, x);
	case 2:
		return make_int2(across, down);
	case 3:
		return make_int2(y, across);
	default:
		return make_int2(x, y);
	}
}

/* Whether voxel (x, y) of the region, rotated i times, is no other one: rotations coincide in the
 * middle of odd grids. */
template <int PARTS>
static __device__ __forceinline__ bool is_own(const Tiles *s, int i, int x, int y)
{
	return PARTS == 1 || 2 * y + 1 != s->n[1] ||
	       (i == 0 && (PARTS == 2 || 2 * x + 1 == s->n[0]));
}

/* From the pixel of a view to that of the view rotated i times. */
template <int PARTS>
static __device__ __forceinline__ int64_t rotated_view(const Tiles *s, const Seen &seen, int i)
{
	return i == 0 ? 0
		      : (((seen.part + i) % PARTS) - seen.part) *
				(s->part * s->model.rows * s->model.columns);
}

/* Axis A after i rotations. */
template <int PARTS> static __device__ __forceinline__ constexpr int rotated_axis(int a, int i)
{
	return PARTS == 4 && i % 2 == 1 && a < 2 ? 1 - a : a;
}

/* ---- a block --------------------------------------------------------------------------------- */

static __device__ __forceinline__ Own own_tile(const Tiles *s)
{
	const int block[3] = {(int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z};
	Own own;
	for (int a = 0; a < 3; a++) {
		own.first[a] = block[a] * s->step[a];
		own.size[a] = min(s->step[a], s->region[a] - own.first[a]);
	}
	return own;
}

/* Goes over all views, some at a time: calls begin(largest pixel), use(Constant, seen, cursor) for
 * their rays and end(last). memory: the tile, and behind it room for a list of rays. */
template <class Tile, class Begin, class Use, class End>
static __device__ __forceinline__ void each_view(const Tiles *s, const Own &own, void *memory,
	const Begin &begin, const Use &use, const End &end)
{
	__shared__ Found found;
	Seen *list = (Seen *)((char *)memory + Tile::COPIES * Tile::SIZE * Tile::BYTES);
	for (int64_t done = 0; done < s->count; done += s->at_once) {
		const int count = Tile::LISTS * (int)min((int64_t)s->at_once, s->count - done);
		__syncthreads();
		if (threadIdx.x == 0)
			found = Found{};
		__syncthreads();
		for (int i = threadIdx.x; i < count; i += Tile::THREADS)
			see<Tile>(s, done + i / Tile::LISTS, own,
				Tile::AXES == UPRIGHT ? 2 : i % Tile::LISTS, list, &found);
		__syncthreads();
		begin(found.largest);
		each_ray<Tile>(list, found.count, &found.taken, use);
		__syncthreads();
		end(done + s->at_once >= s->count);
	}
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Bytes of shared memory of a block. */
template <class Tile> static constexpr int tile_bytes()
{
	return (int)(Tile::COPIES * Tile::SIZE * Tile::BYTES +
		     Tile::VIEWS * Tile::LISTS * sizeof(Seen));
}

/* The region that remains when rotated tiles are projected together. */
template <int PARTS> static void rotate_tiles(const ProjectRequest *what, Tiles *s)
{
	s->quarters = PARTS == 4 ? what->plan->rays.quarter : PARTS == 2 ? 2 : 0;
	s->apart = what->count / PARTS;
	s->region[0] = PARTS == 4 ? (s->n[0] + 1) / 2 : s->n[0];
	s->region[1] = PARTS > 1 ? (s->n[1] + 1) / 2 : s->n[1];
	s->region[2] = s->n[2];
}

/* The views from `first` on of each part. */
template <int PARTS>
static void take_views(const KernelView *views, int64_t first, int64_t count, Tiles *s)
{
	s->views = views + first;
	s->part = count;
	s->count = PARTS * count;
}

/* Divides the box into tiles of nearly the same size, and the views; the number of blocks. */
template <class Tile> static dim3 tile_blocks(Tiles *s)
{
	unsigned blocks[3];
	const int64_t most = min(s->at_once, (int)Tile::VIEWS),
		      times = (s->count + most - 1) / most;
	s->at_once = (int)((s->count + times - 1) / times);
	for (int a = 0; a < 3; a++) {
		blocks[a] = cuda_blocks(s->region[a], Tile::size(a), 65535);
		s->step[a] = (int)cuda_blocks(s->region[a], blocks[a], 1 << 30);
	}
	return dim3(blocks[0], blocks[1], blocks[2]);
}

/* Whether a GPU has the shared memory for large tiles, and they keep most of it busy until the last
 * one is done: one tile at a time on each SM. Rays are short in small tiles, which take twice the
 * time or more. */
template <class Tile> static bool tiles_are_large(const tomos_backend *backend, Tiles s)
{
	const dim3 blocks = tile_blocks<Tile>(&s);
	const int64_t tiles = (int64_t)blocks.x * blocks.y * blocks.z,
		      sms = device_of(backend)->sms, times = (tiles + sms - 1) / sms;
	return cuda_has_shared(tile_bytes<Tile>()) && 5 * tiles >= 3 * times * sms;
}

/* The fraction of the voxels that a view sees, from some of them in some views. */
static inline double seen_fraction(const ProjectRequest *what)
{
	enum { SIDE = 4, POINTS = SIDE * SIDE * SIDE, VIEWS = 64 };
	const KernelModel *model = &what->plan->model;
	const int64_t count = min64(what->count, VIEWS);
	int64_t seen = 0;
	for (int64_t i = 0; i < count * POINTS; i++) {
		const int64_t view = what->first + i / POINTS * what->count / count;
		const KernelView *k = &what->plan->views[view];
		const int64_t part[3] = {i % SIDE, i / SIDE % SIDE, i / (SIDE * SIDE) % SIDE};
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = (double)what->box.low[a] +
				(double)(what->box.high[a] - what->box.low[a]) *
					((double)part[a] + 0.5) / (double)SIDE;
		const double depth = affine(k->depth, at), column = affine(k->column, at) / depth,
			     row = affine(k->row, at) / depth;
		seen += column > -1 && column < (double)model->columns && row > -1 &&
			row < (double)model->rows;
	}
	return (double)seen / (double)(count * POINTS);
}

/* Where the kernel of rays in sheets is faster: the distance of neighbouring rows, in voxels, is
 * less than `least` everywhere, or varies at most by the factor `ratio`, with the given sum of
 * extremes, and then a view sees at least the fraction `seen` of the slices. Not where the mean of
 * the extremes is between the values of `slow`; never where it is less than `dense`, or where views
 * see less than the fraction `voxels` of the voxels, or where there are enough tiles and views are
 * more than `apart` voxels from each other at the border (0: at any distance). */
typedef struct {
	double least, ratio, sum, seen, dense, slow[2], voxels, apart;
} Rows;

/* The distance of neighbouring views that are all around a circle, in voxels at the border of the
 * box: rays of near ones read the same voxels from L1 cache. */
static inline double views_apart(const ProjectRequest *what)
{
	const Box *box = &what->box;
	const int64_t wide = max64(box->high[0] - box->low[0], box->high[1] - box->low[1]);
	return M_PI * (double)wide / (double)what->count;
}

/* Whether rays are in sheets, of which `kernel` makes use, and that is faster: there are few tiles
 * or few views for each of them, or tiles have to be small, or rows are everywhere nearly as far
 * apart as voxels, or much nearer. */
template <class Tile>
static bool sheets_are_faster(
	const ProjectRequest *what, const CudaKernel *kernel, const Rows &rows)
{
	const int64_t enough = 400, many = 24; /* tiles, views */
	CudaNotes notes;
	double least, most;
	Tiles s = tiles_of(what);
	rotate_tiles<Tile::PARTS>(what, &s);
	s.count = what->count;
	const dim3 blocks = tile_blocks<Tile>(&s);
	if (!kernel->applies(what, &notes) || !sheet_views(what, &least, &most))
		return false;
	const double mean = 0.5 * (least + most);
	const int64_t tiles = (int64_t)blocks.x * blocks.y * blocks.z;
	if (rows.apart > 0 && tiles >= enough && views_apart(what) > rows.apart)
		return false;
	if (what->count >= many &&
		(mean < rows.dense || (rows.voxels > 0 && seen_fraction(what) < rows.voxels)))
		return false;
	if (tiles < enough || least < rows.least || !cuda_has_shared(tile_bytes<Tile>()) ||
		(Tile::PARTS == 1 && what->count < many))
		return true;
	return most <= rows.ratio * least && 2 * mean <= rows.sum &&
	       !(mean > rows.slow[0] && mean < rows.slow[1]) &&
	       mean * (double)s.model.rows >= rows.seen * s.n[2];
}

#endif
