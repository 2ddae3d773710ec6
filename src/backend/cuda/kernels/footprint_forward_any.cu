/* Forward projection of separable footprints for any detector, the transpose of
 * footprint_back_any.cu: rolled, slanted, C-arms, free vectors. footprint_forward.h says how blocks
 * visit the views.
 */
#include "backend/cuda/kernels/footprint_forward.h"
#include "backend/cuda/kernels/footprint_tilted.h"

/* Voxels of a thread. */
template <class Value> constexpr int COLUMN = PARTS<Value> == 4 ? 8 : 16;

template <class Value> using Mine = Voxels<Value, COLUMN<Value>>;

/* Those whose instructions follow each other: more are too long for the instruction cache. */
template <class Value> constexpr int UNROLLED = PARTS<Value> == 4 ? COLUMN<Value> : 4;

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

template <class Value, bool RAYS, int NC, int NR, bool ACROSS, bool ALONG>
static __device__ __forceinline__ void visit_column(
	const Footprints &s, const Column &c, int *tile, int apart, const Mine<Value> &voxels)
{
	const int pitch = c.pitch;
	const unsigned origin = origin_of<NC, NR>(pitch);
	constexpr int UNROLL = UNROLLED<Value>;
#pragma unroll UNROLL
	for (int k = 0; k < COLUMN<Value>; k++) {
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

/* The pixels of one view in a window that moves by a row per voxel. */
template <int NC, int NR> struct MovingWindow {
	float sum[NR][NC]; /* plus MAGIC; a row of the image is number row % NR */

	/* Adds voxel i, times the shares of columns and rows. */
	__device__ __forceinline__ void add(int i, float x, const float *a, const float *b)
	{
#pragma unroll
		for (int r = 0; r < NR; r++) {
			const float line = x * b[r];
#pragma unroll
			for (int c = 0; c < NC; c++)
				put(i, r, c, a[c], line);
		}
	}

	/* The same with products of these shares, for several views. */
	__device__ __forceinline__ void add(int i, float x, const float weight[NR][NC])
	{
#pragma unroll
		for (int r = 0; r < NR; r++)
#pragma unroll
			for (int c = 0; c < NC; c++)
				put(i, r, c, weight[r][c], x);
	}

	__device__ __forceinline__ void put(int i, int r, int c, float a, float x)
	{
		float &to = sum[(i + r) % NR][c];
		to = fmaf(a, x, i == 0 || r == NR - 1 ? MAGIC : to);
	}

	/* Adds its first row, number i of the image, to the tile. */
	__device__ __forceinline__ void flush(int i, int *at) const
	{
#pragma unroll
		for (int c = 0; c < NC; c++)
			atomicAdd(at + c, __float_as_int(sum[i % NR][c]) - __float_as_int(MAGIC));
	}
};

/* Voxel i of a span, in the windows of one view or of four. */
template <int NC, int NR>
static __device__ __forceinline__ void add_voxel(
	int i, float x, const float *a, const float *b, float scale, MovingWindow<NC, NR> *window)
{
	window[0].add(i, x * scale, a, b);
}

template <int NC, int NR>
static __device__ __forceinline__ void add_voxel(int i, const float4 &x, const float *a,
	const float *b, float scale, MovingWindow<NC, NR> *window)
{
	float weight[NR][NC];
#pragma unroll
	for (int r = 0; r < NR; r++)
#pragma unroll
		for (int c = 0; c < NC; c++)
			weight[r][c] = scale * b[r] * a[c];
#pragma unroll
	for (int part = 0; part < 4; part++)
		window[part].add(i, part_of(x, part), weight);
}

/* Voxels first .. first + N - 1 of a column; these are number `from` on of `voxels`. */
template <class Value, bool RAYS, int N, int NC, int NR, bool EITHER>
static __device__ __forceinline__ void add_span(const Footprints &s, const Column &c, int *tile,
	float first, int from, const Mine<Value> &voxels)
{
	constexpr int P = PARTS<Value>, STRIDE = P * SPAN_PITCH;
	MovingWindow<NC, NR> window[P];
	int *at;
	const auto flush = [&](int i) {
#pragma unroll
		for (int part = 0; part < P; part++)
			window[part].flush(i, at + (i * STRIDE + part * SPAN_PITCH));
	};
	visit_span<RAYS, N, NC, NR, EITHER>(
		s.weighting, c, STRIDE, origin_of<NC, NR>(STRIDE), first,
		[&](int place) { at = tile + place; },
		[&](int i, const float *a, const float *b, float scale) {
			add_voxel<NC, NR>(i, voxels.at(from + i), a, b, scale, window);
			flush(i);
		});
#pragma unroll
	for (int i = N; i < N + NR - 1; i++)
		flush(i);
}

template <class Value, bool RAYS, int N, int NC, int NR, bool EITHER>
static __device__ __forceinline__ void visit_spans(
	const Footprints &s, const Column &c, int *tile, Mine<Value> &voxels)
{
	/* Unrolled, this would not fit into the instruction cache. */
#pragma unroll 1
	for (int first = 0; first < COLUMN<Value>; first += N) {
		if constexpr (PARTS<Value> == 4) {
			add_span<Value, RAYS, N, NC, NR, EITHER>(
				s, c, tile, (float)first, 0, voxels);
			voxels.template rotate<N>();
		} else {
			add_span<Value, RAYS, N, NC, NR, EITHER>(
				s, c, tile, (float)first, first, voxels);
		}
	}
}

/* The kind is the same for all threads of a block. */
template <class Value, bool RAYS>
static __device__ __forceinline__ void visit_view(
	const Footprints &s, const Near &near, int *tile, float dx, float dy, Mine<Value> &voxels)
{
	const Column c = column_of(s, near, dx, dy);
	const int apart = tile_pixels(near);
	switch (near.kind) {
#define KIND(number, NC, NR, ACROSS, ALONG) \
	case number: \
		visit_column<Value, RAYS, NC, NR, ACROSS, ALONG>(s, c, tile, apart, voxels); \
		break;
		SHARE_KINDS(KIND)
#undef KIND
#define KIND(number, N, NC, NR, EITHER) \
	case number: \
		visit_spans<Value, RAYS, N, NC, NR, EITHER>(s, c, tile, voxels); \
		break;
		SPAN_KINDS(KIND)
#undef KIND
#define KIND(number, N, NC, NR, EITHER) \
	case number: \
		if constexpr (PARTS<Value> == 4) \
			visit_spans<Value, RAYS, N, NC, NR, EITHER>(s, c, tile, voxels); \
		break;
		LARGE_SPAN_KINDS(KIND)
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
	for (int k = 0; k < line.count; k++) {
		const Value x = voxel_of<Value>(s, line, k);
		voxel_direct<RAYS>(
			s, near, c, s.columns, (float)k, [&](int64_t place, float share) {
				add_rounded(image + place, apart, share, x);
			});
	}
}

/* ---- a block --------------------------------------------------------------------------------- */

static __device__ void set_near(const Footprints &s, int view, const int first[3], Near *near)
{
	near->kind = UNSEEN;
	if (s.quanta[view].axis != s.axis[0])
		return;
	near_block(s, &s.views[view], first, MOST_SIDE, 1, near);
	if (near->kind >= SHARE_COUNT)
		near->pitch = SPAN_PITCH;
	else
		set_pitch(s, near->u.x - near->u.w * near->d.x, near->v.x - near->v.w * near->d.x,
			near);
	/* As many voxels of a span as its window has rows meet one of these. */
	const float most = span_voxels(near->kind) > 1 ? (float)share_pixels(near->kind, 1) : 1;
	set_units(s, &s.views[view], s.quanta[view], first, most, near);
}

template <class Value, bool RAYS>
static __global__ void __launch_bounds__(THREADS, PARTS<Value> == 4 ? 2 : 3)
	footprint_forward(const __grid_constant__ Footprints s)
{
	extern __shared__ float4 memory[];
	__shared__ Near near[VIEWS];
	visit_block<Value, COLUMN<Value>>(
		s, near, (int *)memory,
		[&](int view, const int first[3], Near *to) { set_near(s, view, first, to); },
		[&](const Near &v, int *tile, float dx, float dy, Mine<Value> &voxels) {
			visit_view<Value, RAYS>(s, v, tile, dx, dy, voxels);
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

template <class Value> static TileSize measure(const ProjectRequest *what, int axes)
{
	TileSize size = {.direction = quarter_direction(what), .axes = axes};
	for (int64_t i = 0; i < what->count * 8; i++) {
		const KernelView *k = &what->plan->views[what->first + i / 8];
		int axis[3], block[3];
		order_axes(footprint_lanes(what->plan, k), axis);
		block[axis[0]] = LANES;
		block[axis[1]] = WARPS;
		block[axis[2]] = COLUMN<Value>;
		measure_corner(what, k, (int)(i % 8), block, &size);
	}
	return size;
}

enum { NEAR_BYTES = VIEWS * (int)sizeof(Near) };

template <class Value> constexpr int FIXED = NEAR_BYTES + Mine<Value>::BYTES;

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	int axes;
	if (!tilted_applies(what) || !quanta_apply(what, &axes) ||
		what->plan->model.columns * what->plan->model.rows > 1 << 28)
		return false;
	TileSize *size = notes_of<TileSize>(notes);
	*size = measure<float4>(what, axes);
	share_memory<float4>(FIXED<float4>, size);
	pad_tiles<float4>(FIXED<float4>, size);
	if (size->direction != 0 && has_tiles<float4>(FIXED<float4>, size))
		return true;
	*size = measure<float>(what, axes);
	pad_tiles<float>(FIXED<float>, size);
	limit_tiles(FIXED<float>, size);
	return true;
}

template <class Value>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const TileSize *size)
{
	auto kernel =
		has_rays(what) ? footprint_forward<Value, true> : footprint_forward<Value, false>;
	return run_footprints<Value>(backend, what, size, NEAR_BYTES, Mine<Value>::BYTES, kernel,
		COLUMN<Value>, order_axes);
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const TileSize *size = notes_of<TileSize>(notes);
	return (size->direction ? run<float4> : run<float>)(backend, what, size);
}

extern const CudaKernel cuda_footprint_forward_any;
const CudaKernel cuda_footprint_forward_any = {any_applies, any_run};
