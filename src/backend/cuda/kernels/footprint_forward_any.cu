/* Forward projection of separable footprints for any detector, the transpose of
 * footprint_back_any.cu: rolled, slanted, C-arms, free vectors. footprint_forward.h says how blocks
 * visit the views.
 */
#include "backend/cuda/kernels/footprint_forward.h"
#include "backend/cuda/kernels/footprint_tilted.h"

/* Voxels of a thread: of four views; of two; of one; of one if voxels appear large. */
typedef RegisterValues<float4, 8> Four;
typedef RegisterValues<float2, 8> Two;
typedef SharedValues<16> One;
typedef SharedValues<8> Large;

/* Those whose instructions follow each other: more are too long for the instruction cache. */
template <class Mine> constexpr int UNROLLED = PARTS<typename Mine::Value> != 1 ? Mine::COUNT : 4;

/* ---- voxels ---------------------------------------------------------------------------------- */

/* Adds x times the shares to NC x NR pixels from `at` on. */
template <int NC, int NR>
static __device__ __forceinline__ void add_shares(
	int *at, int pitch, const float a[NC], const float b[NR], float x)
{
#pragma unroll
	for (int r = 0; r < NR; r++, at += pitch) {
		const float line = x * b[r];
#pragma unroll
		for (int i = 0; i < NC; i++)
			add_quanta(at + i, a[i], line);
	}
}

template <class Mine, bool RAYS, int NC, int NR, bool ACROSS, bool ALONG>
static __device__ __forceinline__ void visit_column(
	const Footprints &s, const Column &c, int *tile, int apart, const Mine &voxels)
{
	typedef typename Mine::Value Value;
	const int pitch = c.pitch;
	const unsigned origin = origin_of<NC, NR>(pitch);
	constexpr int UNROLL = UNROLLED<Mine>;
#pragma unroll UNROLL
	for (int k = 0; k < Mine::COUNT; k++) {
		const Value x = voxels.at(k); /* loaded before anything is added */
		visit_voxel<RAYS, NC, NR, ACROSS, ALONG>(s.weighting, c, pitch, origin, (float)k,
			[&](int place, const float *a, const float *b, float weight) {
#pragma unroll
				for (int part = 0; part < PARTS<Value>; part++)
					add_shares<NC, NR>(tile + (place + part * apart), pitch, a,
						b, weight * part_of(x, part));
			});
	}
}

/* Footprints of any size. */
template <class Mine, bool RAYS>
static __device__ __noinline__ void visit_loop(
	const Footprints &s, const Near &near, float dx, float dy, int *tile, Mine voxels)
{
	const Column c = column_of(s, near, dx, dy);
	const int pitch = near.pitch, apart = tile_pixels(near);
	const int2 high = make_int2(near.columns - (int)GROUP, near.rows - 1);
	voxels_each(s, voxels, [&](int k, const typename Mine::Value &x) {
		voxel_loop<RAYS>(s, c, (float)k, make_int2(0, 0), high,
			[&](int row, int column, const float *a, float share) {
				int place[GROUP];
#pragma unroll
				for (int i = 0; i < GROUP; i++)
					place[i] = place_of_column(LOOP_SHIFT, pitch, column + i);
				add_group(tile + row * pitch, place, apart, a, share, x);
			});
	});
}

/* Where a window is on the tile: its columns of even and odd number, the first one being even. */
template <int G> struct WindowPlace {
	int *even, *odd;

	/* row: the place of its first row; column: the first one. */
	__device__ __forceinline__ void set(int *row, unsigned column)
	{
		constexpr int HALF = span_pitch(G) / 2;
		even = row + ((column >> 1) + (column & 1) * HALF);
		odd = row + (((column + 1) >> 1) + ((column + 1) & 1) * HALF);
	}

	__device__ __forceinline__ int *at(int c, int offset) const
	{
		if (!span_split(G))
			return even + (c + offset);
		return (c % 2 ? odd : even) + (c / 2 + offset);
	}
};

/* The pixels of one view in a window that moves by G / 2 rows per voxel. */
template <int G, int NC, int NR> struct MovingWindow {
	float sum[NR][NC]; /* plus MAGIC; a row of the image is number row % NR */

	/* Adds voxel i, times the shares of columns and rows. */
	__device__ __forceinline__ void add(int i, float x, const float *a, const float *b)
	{
#pragma unroll
		for (int r = 0; r < NR; r++) {
			const int row = span_row(G, i) + r;
			const bool begins = i == 0 || row >= span_row(G, i - 1) + NR;
			const float line = x * b[r];
#pragma unroll
			for (int c = 0; c < NC; c++) {
				float &to = sum[row % NR][c];
				to = fmaf(a[c], line, begins ? MAGIC : to);
			}
		}
	}

	/* Adds rows first .. end - 1 of the image to the tile; pitch: from one to the next. */
	__device__ __forceinline__ void flush(
		int first, int end, const WindowPlace<G> &place, int pitch, int offset) const
	{
#pragma unroll
		for (int row = first; row < end; row++)
#pragma unroll
			for (int c = 0; c < NC; c++)
				atomicAdd(place.at(c, row * pitch + offset),
					__float_as_int(sum[row % NR][c]) - __float_as_int(MAGIC));
	}
};

/* column, row: of middle_pixel. */
template <int P, int G, int NC, int NR>
static __device__ __forceinline__ WindowPlace<G> place_window(int *tile, float column, float row)
{
	constexpr int PITCH = P * span_pitch(G);
	WindowPlace<G> place;
	if (span_split(G)) {
		const unsigned first = __float_as_uint(column) - __float_as_uint(MAGIC);
		const int rows = window_at(
			0.f, row, PITCH, origin_of<1, NR>(PITCH) + __float_as_uint(MAGIC));
		place.set(tile + rows, first - BEFORE<NC>);
	} else {
		place.even = tile + window_at(column, row, PITCH, origin_of<NC, NR>(PITCH));
	}
	return place;
}

/* Adds voxels first .. first + N - 1 of a column; voxel(i, part): the value of number i of them. */
template <int P, bool RAYS, int N, int G, int NC, int NR, bool EITHER, class Voxel>
static __device__ __forceinline__ void add_span(
	const Footprints &s, const Column &c, int *tile, float first, const Voxel &voxel)
{
	constexpr int PITCH = span_pitch(G);
	WindowPlace<G> place;
	MovingWindow<G, NC, NR> window;
	const auto add = [&](int i, int part, float x, const float *a, const float *b) {
		window.add(i, x, a, b);
		const int row = span_row(G, i), end = i + 1 < N ? span_row(G, i + 1) : row + NR;
		window.flush(row, end, place, P * PITCH, part * PITCH);
	};
	float a[N][NC], b[N][NR]; /* of several views, which have the same shares */
	visit_span<RAYS, N, G, NC, NR, EITHER>(
		s.weighting, c, first,
		[&](float column, float row) {
			place = place_window<P, G, NC, NR>(tile, column, row);
		},
		[&](int i, const float *across, const float *along, float scale) {
			if (P == 1)
				add(i, 0, scale * voxel(i, 0), across, along);
#pragma unroll
			for (int r = 0; r < NR; r++)
				b[i][r] = scale * along[r];
#pragma unroll
			for (int k = 0; k < NC; k++)
				a[i][k] = across[k];
		});
#pragma unroll
	for (int part = 0; P > 1 && part < P; part++)
#pragma unroll
		for (int i = 0; i < N; i++)
			add(i, part, voxel(i, part), a[i], b[i]);
}

/* a, or b where `which` is 0, without a branch, which would be chosen for the code that follows. */
static __device__ __forceinline__ float chosen(int which, float a, float b)
{
	float result;
	asm("{ .reg .pred p; setp.ne.s32 p, %3, 0; selp.f32 %0, %1, %2, p; }"
		: "=f"(result)
		: "f"(a), "f"(b), "r"(which));
	return result;
}

template <class Mine, bool RAYS, int N, int G, int NC, int NR, bool EITHER>
static __device__ __forceinline__ void visit_spans(
	const Footprints &s, const Near &near, float dx, float dy, int *tile, const Mine &voxels)
{
	constexpr int P = PARTS<typename Mine::Value>, LATER = Mine::COUNT - N;
	static_assert(P == 1 || LATER <= N, "halves of a column in registers");
	const Column whole = column_of(s, near, dx, dy);
	/* Unrolled, this would not fit into the instruction cache. */
#pragma unroll 1
	for (int first = 0; first < Mine::COUNT; first += N) {
		if constexpr (P == 1) {
			add_span<P, RAYS, N, G, NC, NR, EITHER>(s, whole, tile, (float)first,
				[&](int i, int) { return voxels.at(first + i); });
		} else {
			int none = 0; /* unknown: there are no registers to keep the column in */
			asm volatile("" : "+r"(none));
			const Column c = column_of(s, (&near)[none], dx, dy);
			add_span<P, RAYS, N, G, NC, NR, EITHER>(
				s, c, tile, (float)first, [&](int i, int part) {
					return chosen(first, part_of(voxels.at(LATER + i), part),
						part_of(voxels.at(i), part));
				});
		}
	}
}

/* The kind is the same for all threads of a block. LARGE: footprints of any size, which take
 * registers and time of the others too. */
template <class Mine, bool RAYS, bool LARGE>
static __device__ __forceinline__ void visit_view(
	const Footprints &s, const Near &near, int *tile, float dx, float dy, Mine &voxels)
{
	const Column c = column_of(s, near, dx, dy);
	const int apart = tile_pixels(near);
	switch (near.kind) {
#define KIND(number, NC, NR, ACROSS, ALONG) \
	case number: \
		if constexpr (!LARGE || number < FORWARD_SHARES) \
			visit_column<Mine, RAYS, NC, NR, ACROSS, ALONG>( \
				s, c, tile, apart, voxels); \
		break;
		SHARE_KINDS(KIND)
#undef KIND
	case LOOP:
		if constexpr (LARGE)
			visit_loop<Mine, RAYS>(s, near, dx, dy, tile, voxels);
		break;
#define KIND(number, N, G, NC, NR, EITHER) \
	case number: \
		if constexpr (PARTS<typename Mine::Value> != 1 ? N == 4 : NC * NR == 9 || G > 2) \
			visit_spans<Mine, RAYS, N, G, NC, NR, EITHER>( \
				s, near, dx, dy, tile, voxels); \
		break;
		ALL_SPAN_KINDS(KIND)
#undef KIND
	default:
		break;
	}
}

template <bool RAYS, class Value>
static __device__ __noinline__ void visit_direct(
	const Footprints &s, const Near &near, int *image, const Line &line, float dx, float dy)
{
	const Column c = column_of(s, near, dx, dy);
	const int64_t apart = s.count * s.rows * s.columns;
	line_each<Value>(s, line, [&](int k, const Value &x) {
		voxel_direct<RAYS>(
			s, near, c, s.columns, (float)k, [&](int64_t place, float share) {
				add_rounded(image + place, apart, share, x);
			});
	});
}

/* ---- a block --------------------------------------------------------------------------------- */

static __device__ void set_near(const Footprints &s, int view, const int first[3], Near *near)
{
	near->kind = UNSEEN;
	if (s.quanta[view].axis != s.axis[0])
		return;
	const float share = near_block(s, &s.views[view], first, MOST_SIDE, 1, near);
	/* Units of a tile would be coarse for the voxels far from the source. */
	if (near->kind == LOOP &&
		(!s.large || is_deep(1, s.size[0] * near->d.x, s.size[1] * near->d.y,
				     s.size[2] * near->d.z)))
		near->kind = DIRECT;
	const KindSize span = kind_size(near->kind);
	if (near->kind >= SHARE_COUNT) {
		near->pitch = span_pitch(span.step);
		near->shift = span_split(span.step);
	} else {
		set_pitch(s, near->u.x - near->u.w * near->d.x, near->v.x - near->v.w * near->d.x,
			near->kind == LOOP ? LOOP_SHIFT : 0, near);
	}
	/* As many voxels of a span as its window has steps meet one of its rows. */
	const float most = span.voxels > 1 ? (float)((2 * span.rows + span.step - 1) / span.step)
			   : near->kind == LOOP ? share
						: 1;
	set_units(s, &s.views[view], s.quanta[view], first, most, near);
}

/* BLOCKS: per SM. */
template <class Mine, bool RAYS, bool LARGE, int BLOCKS>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
	footprint_forward(const __grid_constant__ Footprints s)
{
	typedef typename Mine::Value Value;
	extern __shared__ float4 memory[];
	__shared__ Near near[VIEWS];
	visit_block<Mine>(
		s, near, (int *)memory,
		[&](int view, const int first[3], Near *to) { set_near(s, view, first, to); },
		[&](const Near &v, int *tile, float dx, float dy, Mine &voxels) {
			visit_view<Mine, RAYS, LARGE>(s, v, tile, dx, dy, voxels);
		},
		[&](const Near &v, int *image, const Line &line, float dx, float dy) {
			visit_direct<RAYS, Value>(s, v, image, line, dx, dy);
		});
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Axes of a block: lanes, warps, columns. */
static void order_axes(int lanes, int axis[3])
{
	axis[0] = lanes;
	axis[2] = lanes == 2 ? 0 : 2;
	axis[1] = 3 - lanes - axis[2];
}

enum { NEAR_BYTES = VIEWS * (int)sizeof(Near) };

template <class Mine> static TileSize measure(const ProjectRequest *what, int axes)
{
	TileSize size = tile_size(what, span_pitch(2), [&](const KernelView *k, int block[3]) {
		int axis[3];
		order_axes(footprint_lanes(what->plan, k), axis);
		block[axis[0]] = LANES;
		block[axis[1]] = WARPS;
		block[axis[2]] = Mine::COUNT;
	});
	size.axes = axes;
	size.column = Mine::COUNT;
	return size;
}

template <class Mine> static bool has_tiles(int blocks, TileSize *size)
{
	return share_memory<typename Mine::Value>(NEAR_BYTES + Mine::BYTES, blocks, size);
}

/* Tiles of several views, with three blocks per SM if all fit. */
template <class Mine> static bool has_some(const ProjectRequest *what, int axes, TileSize *size)
{
	*size = measure<Mine>(what, axes);
	const bool small =
		size->padded <= shared_bytes(NEAR_BYTES, 3) / (int)sizeof(typename Mine::Value);
	return (small && has_tiles<Mine>(3, size)) || has_tiles<Mine>(2, size) ||
	       has_tiles<Mine>(1, size);
}

/* Tiles of four views, of two or of one; of fewer voxels, where these appear large or few blocks
 * would have more. */
static void choose_tiles(const ProjectRequest *what, int axes, TileSize *size)
{
	if (choose_images(
		    what, size, [&] { return has_some<Four>(what, axes, size); },
		    [&] { return has_some<Two>(what, axes, size); }))
		return;
	*size = measure<One>(what, axes);
	if (!has_many_blocks<One, Large>(what) || !has_tiles<One>(3, size)) {
		*size = measure<Large>(what, axes);
		if (!has_tiles<Large>(3, size) && !has_tiles<Large>(2, size))
			take_memory(NEAR_BYTES + Large::BYTES, size);
	}
	forget_images(size);
}

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	int axes;
	if (!tilted_applies(what) || !quanta_apply(what, &axes) ||
		what->plan->model.columns * what->plan->model.rows > 1 << 28)
		return false;
	choose_tiles(what, axes, notes_of<TileSize>(notes));
	return true;
}

template <class Mine, bool LARGE>
static tomos_status run_sized(
	tomos_backend *backend, const ProjectRequest *what, const TileSize *size)
{
	/* Fewer blocks have more registers. */
	constexpr int FEW = PARTS<typename Mine::Value> != 1 ? 2 : 3;
	const bool many = size->blocks > 2, rays = has_rays(what);
	auto kernel = many   ? rays ? footprint_forward<Mine, true, LARGE, 3>
				    : footprint_forward<Mine, false, LARGE, 3>
			: rays ? footprint_forward<Mine, true, LARGE, FEW>
			     : footprint_forward<Mine, false, LARGE, FEW>;
	return run_footprints<Mine>(backend, what, size, NEAR_BYTES, kernel, order_axes);
}

template <class Mine>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const TileSize *size)
{
	return (has_large_footprints(what) ? run_sized<Mine, true>
					   : run_sized<Mine, false>)(backend, what, size);
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const TileSize *size = notes_of<TileSize>(notes);
	return run_of_size(size, run<Four>, run<Two>, run<One>, run<Large>, One::COUNT)(
		backend, what, size);
}

extern const CudaKernel cuda_footprint_forward_any;
const CudaKernel cuda_footprint_forward_any = {any_applies, any_run};
