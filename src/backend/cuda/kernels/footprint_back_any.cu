/* Back projection of separable footprints for any detector: rolled, slanted, C-arms, free vectors.
 *
 * Every voxel has its own footprint, whose shares in both coordinates are evaluated at the edges
 * between the few pixels that it meets (footprint_shares.h). footprint_back.h says how blocks visit
 * the views.
 */
#include "backend/cuda/kernels/footprint_back.h"
#include "backend/cuda/kernels/footprint_tilted.h"

/* Voxels of a thread: of four views or two, which have no memory beside their tiles; of one; of one
 * if voxels appear large. */
typedef RegisterValues<float4, 8> Four;
typedef RegisterValues<float2, 8> Two;
typedef SharedValues<16> One;
typedef SharedValues<8> Large;

/* Those whose instructions follow each other: more are too long for the instruction cache. */
template <class Mine> constexpr int UNROLLED = PARTS<typename Mine::Value> != 1 ? Mine::COUNT : 4;

/* ---- voxels ---------------------------------------------------------------------------------- */

template <class Mine, int PITCH, bool RAYS, int NC, int NR, bool ACROSS, bool ALONG>
static __device__ __forceinline__ void visit_column(
	const Footprints &s, const Column &c, const typename Mine::Value *tile, Mine &sum)
{
	typedef typename Mine::Value Pixel;
	constexpr int UNROLL = UNROLLED<Mine>;
#pragma unroll UNROLL
	for (int k = 0; k < Mine::COUNT; k++)
		visit_voxel<RAYS, NC, NR, ACROSS, ALONG>(s.weighting, c, PITCH,
			origin_of<NC, NR>(PITCH), (float)k,
			[&](int place, const float *a, const float *b, float weight) {
				const Pixel *at = tile + place;
				Pixel all = {};
#pragma unroll
				for (int r = 0; r < NR; r++) {
					Pixel line = scaled(a[0], at[r * PITCH]);
#pragma unroll
					for (int i = 1; i < NC; i++)
						add_scaled(line, a[i], at[r * PITCH + i]);
					add_scaled(all, b[r], line);
				}
				add_scaled(sum.at(k), weight, all);
			});
}

/* Adds the pixels of a window, times the weights, to a sum. */
template <int NC, int NR>
static __device__ __forceinline__ void add_window(float &sum, const float (*pixel)[NC], int first,
	const float *a, const float *b, float scale)
{
	float all = 0;
#pragma unroll
	for (int r = 0; r < NR; r++) {
		float line = a[0] * pixel[(first + r) % NR][0];
#pragma unroll
		for (int i = 1; i < NC; i++)
			line = fmaf(a[i], pixel[(first + r) % NR][i], line);
		all = fmaf(b[r], line, all);
	}
	sum = fmaf(scale, all, sum);
}

/* Of several views, which have the same weights. */
template <int NC, int NR, class Pixel>
static __device__ __forceinline__ void add_window(Pixel &sum, const Pixel (*pixel)[NC], int first,
	const float *a, const float *b, float scale)
{
#pragma unroll
	for (int r = 0; r < NR; r++)
#pragma unroll
		for (int i = 0; i < NC; i++)
			add_scaled(sum, scale * b[r] * a[i], pixel[(first + r) % NR][i]);
}

/* Voxels first .. first + N - 1 of a column, whose sums are number `to` on of `sum`: a window of
 * pixels moves by a row per voxel; row r of the first voxel's window is number r % NR. */
template <class Mine, int PITCH, bool RAYS, int N, int NC, int NR, bool EITHER>
static __device__ __forceinline__ void add_span(const Footprints &s, const Column &c,
	const typename Mine::Value *tile, float first, int to, Mine &sum)
{
	typedef typename Mine::Value Pixel;
	const Pixel *at;
	Pixel pixel[NR][NC];
	const auto load = [&](int r) {
#pragma unroll
		for (int i = 0; i < NC; i++)
			pixel[r % NR][i] = at[r * PITCH + i];
	};
	visit_span<RAYS, N, 2, NC, NR, EITHER>(
		s.weighting, c, first,
		[&](float column, float row) {
			at = tile + window_at(column, row, PITCH, origin_of<NC, NR>(PITCH));
#pragma unroll
			for (int r = 0; r < NR - 1; r++)
				load(r);
		},
		[&](int i, const float *a, const float *b, float scale) {
			load(i + NR - 1);
			add_window<NC, NR>(sum.at(to + i), pixel, i, a, b, scale);
		});
}

template <class Mine, int PITCH, bool RAYS, int N, int NC, int NR, bool EITHER>
static __device__ __forceinline__ void visit_spans(
	const Footprints &s, const Column &c, const typename Mine::Value *tile, Mine &sum)
{
	/* Unrolled, this would not fit into the instruction cache. */
#pragma unroll 1
	for (int first = 0; first < Mine::COUNT; first += N) {
		if constexpr (PARTS<typename Mine::Value> != 1) {
			add_span<Mine, PITCH, RAYS, N, NC, NR, EITHER>(
				s, c, tile, (float)first, 0, sum);
			sum.template rotate<N>();
		} else {
			add_span<Mine, PITCH, RAYS, N, NC, NR, EITHER>(
				s, c, tile, (float)first, first, sum);
		}
	}
}

/* Footprints of any size. */
template <class Mine, int PITCH, bool RAYS>
static __device__ __forceinline__ void visit_loop(const Footprints &s, const Near &near,
	const Column &c, const typename Mine::Value *tile, int count, Mine &sum)
{
	const int2 high = make_int2(near.columns - (int)GROUP, near.rows - 1);
	sums_each(sum, count, [&](int k, typename Mine::Value &to) {
		typename Mine::Value all = {};
		voxel_loop<RAYS>(s, c, (float)k, make_int2(0, 0), high,
			[&](int row, int column, const float *a, float share) {
				add_group(all, tile + (row * PITCH + column), a, share);
			});
		add_scaled(to, 1.f, all);
	});
}

/* One voxel straight from the image. */
template <class Pixel, bool RAYS>
static __device__ __noinline__ void add_direct(const Footprints &s, const Near &near,
	const Column &c, const Pixel *image, float k, Pixel *sum)
{
	voxel_direct<RAYS>(s, near, c, s.pitch, k,
		[&](int64_t place, float share) { add_scaled(*sum, share, image[place]); });
}

template <class Mine, bool RAYS>
static __device__ __forceinline__ void visit_direct(const Footprints &s, const Near &near,
	const Column &c, const typename Mine::Value *image, int count, Mine &sum)
{
	typedef typename Mine::Value Pixel;
#pragma unroll
	for (int k = 0; k < Mine::COUNT; k++) {
		Pixel here = sum.at(k);
		if (k < count)
			add_direct<Pixel, RAYS>(s, near, c, image, (float)k, &here);
		sum.at(k) = here;
	}
}

/* The kind is the same for all threads of a block. */
template <class Mine, int PITCH, bool RAYS>
static __device__ __forceinline__ void visit_view(const Footprints &s, const Near &near,
	const typename Mine::Value *tile, const typename Mine::Value *image, float dx, float dy,
	int count, Mine &sum)
{
	if (near.kind == UNSEEN)
		return;
	const Column c = column_of(s, near, dx, dy);
	switch (near.kind) {
#define KIND(number, NC, NR, ACROSS, ALONG) \
	case number: \
		visit_column<Mine, PITCH, RAYS, NC, NR, ACROSS, ALONG>(s, c, tile, sum); \
		break;
		SHARE_KINDS(KIND)
#undef KIND
	case LOOP:
		visit_loop<Mine, PITCH, RAYS>(s, near, c, tile, count, sum);
		break;
#define KIND(number, N, G, NC, NR, EITHER) \
	case number: \
		static_assert(G == 2, "windows move by a row per voxel"); \
		visit_spans<Mine, PITCH, RAYS, N, NC, NR, EITHER>(s, c, tile, sum); \
		break;
		LONG_SPAN_KINDS(KIND)
		SPAN_KINDS(KIND)
#undef KIND
	default:
		visit_direct<Mine, RAYS>(s, near, c, image, count, sum);
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

template <class Mine, int PITCH, bool RAYS>
static __global__ void __launch_bounds__(THREADS, PARTS<typename Mine::Value> != 1 ? 2 : 3)
	footprint_back(const __grid_constant__ Footprints s)
{
	typedef typename Mine::Value Pixel;
	__shared__ Near near[VIEWS];
	back_block<Mine, PITCH>(s, near,
		[&](const Near &v, const Pixel *tile, const Pixel *image, float dx, float dy,
			int count, Mine &sum) {
			visit_view<Mine, PITCH, RAYS>(s, v, tile, image, dx, dy, count, sum);
		});
}

enum { NEAR_BYTES = VIEWS * (int)sizeof(Near) };

template <class Mine> static bool has_tiles(const ProjectRequest *what, int blocks, TileSize *size)
{
	*size = tile_size(what, 1, [](const KernelView *, int block[3]) {
		block[0] = block[1] = SIDE;
		block[2] = Mine::COUNT;
	});
	size->column = Mine::COUNT;
	return share_memory<Mine>(NEAR_BYTES, blocks, size);
}

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	if (!tilted_applies(what))
		return false;
	TileSize *size = notes_of<TileSize>(notes);
	choose_tiles<Four, Two, One, Large>(what, NEAR_BYTES, size, [&](auto sums, int blocks) {
		return has_tiles<typename decltype(sums)::Sums>(what, blocks, size);
	});
	return true;
}

template <class Mine>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const TileSize *size,
	const CudaEpilogue *epilogue)
{
	constexpr int N = NARROW<Mine>, W = WIDE<Mine>;
	static const BackKernel kernels[2][2] = {
		{footprint_back<Mine, N, false>, footprint_back<Mine, N, true>},
		{footprint_back<Mine, W, false>, footprint_back<Mine, W, true>}};
	return run_footprints<Mine>(
		backend, what, size, epilogue, kernels[!is_narrow<Mine>(size)][has_rays(what)]);
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const TileSize *size = notes_of<TileSize>(notes);
	return run_of_size(size, run<Four>, run<Two>, run<One>, run<Large>, One::COUNT)(
		backend, what, size, epilogue);
}

extern const CudaKernel cuda_footprint_back_any;
const CudaKernel cuda_footprint_back_any = {any_applies, any_run, fuses_sums};
