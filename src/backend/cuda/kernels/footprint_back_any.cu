/* Back projection of separable footprints for any detector: rolled, slanted, C-arms, free vectors.
 *
 * Every voxel has its own footprint, whose shares in both coordinates are evaluated at the edges
 * between the few pixels that it meets (footprint_shares.h). footprint_back.h says how blocks visit
 * the views.
 */
#include "backend/cuda/kernels/footprint_back.h"
#include "backend/cuda/kernels/footprint_tilted.h"

/* Voxels of a thread. */
template <class Pixel> constexpr int COLUMN = PARTS<Pixel> == 4 ? 8 : 16;

/* Those of four views have no memory beside their tiles. */
template <class Pixel> struct SumsOf {
	typedef RegisterSums<Pixel, COLUMN<Pixel>> Type;
};
template <> struct SumsOf<float> {
	typedef SharedSums<COLUMN<float>> Type;
};
template <class Pixel> using Mine = typename SumsOf<Pixel>::Type;

/* Those whose instructions follow each other: more are too long for the instruction cache. */
template <class Pixel> constexpr int UNROLLED = PARTS<Pixel> == 4 ? COLUMN<Pixel> : 4;

/* ---- voxels ---------------------------------------------------------------------------------- */

template <class Pixel, int PITCH, bool RAYS, int NC, int NR, bool ACROSS, bool ALONG>
static __device__ __forceinline__ void visit_column(
	const Footprints &s, const Column &c, const Pixel *tile, Mine<Pixel> &sum)
{
	constexpr int UNROLL = UNROLLED<Pixel>;
#pragma unroll UNROLL
	for (int k = 0; k < COLUMN<Pixel>; k++)
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

/* Of four views, which have the same weights. */
template <int NC, int NR>
static __device__ __forceinline__ void add_window(float4 &sum, const float4 (*pixel)[NC], int first,
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
template <class Pixel, int PITCH, bool RAYS, int N, int NC, int NR, bool EITHER>
static __device__ __forceinline__ void add_span(const Footprints &s, const Column &c,
	const Pixel *tile, float first, int to, Mine<Pixel> &sum)
{
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

template <class Pixel, int PITCH, bool RAYS, int N, int NC, int NR, bool EITHER>
static __device__ __forceinline__ void visit_spans(
	const Footprints &s, const Column &c, const Pixel *tile, Mine<Pixel> &sum)
{
	/* Unrolled, this would not fit into the instruction cache. */
#pragma unroll 1
	for (int first = 0; first < COLUMN<Pixel>; first += N) {
		if constexpr (PARTS<Pixel> == 4) {
			add_span<Pixel, PITCH, RAYS, N, NC, NR, EITHER>(
				s, c, tile, (float)first, 0, sum);
			sum.template rotate<N>();
		} else {
			add_span<Pixel, PITCH, RAYS, N, NC, NR, EITHER>(
				s, c, tile, (float)first, first, sum);
		}
	}
}

/* One voxel straight from the image. */
template <class Pixel, bool RAYS>
static __device__ __noinline__ void add_direct(const Footprints &s, const Near &near,
	const Column &c, const Pixel *image, float k, Pixel *sum)
{
	voxel_direct<RAYS>(s, near, c, s.pitch, k,
		[&](int64_t place, float share) { add_scaled(*sum, share, image[place]); });
}

template <class Pixel, bool RAYS>
static __device__ __forceinline__ void visit_direct(const Footprints &s, const Near &near,
	const Column &c, const Pixel *image, int count, Mine<Pixel> &sum)
{
#pragma unroll
	for (int k = 0; k < COLUMN<Pixel>; k++) {
		Pixel here = sum.at(k);
		if (k < count)
			add_direct<Pixel, RAYS>(s, near, c, image, (float)k, &here);
		sum.at(k) = here;
	}
}

/* The kind is the same for all threads of a block. */
template <class Pixel, int PITCH, bool RAYS>
static __device__ __forceinline__ void visit_view(const Footprints &s, const Near &near,
	const Pixel *tile, const Pixel *image, float dx, float dy, int count, Mine<Pixel> &sum)
{
	if (near.kind == UNSEEN)
		return;
	const Column c = column_of(s, near, dx, dy);
	switch (near.kind) {
#define KIND(number, NC, NR, ACROSS, ALONG) \
	case number: \
		visit_column<Pixel, PITCH, RAYS, NC, NR, ACROSS, ALONG>(s, c, tile, sum); \
		break;
		SHARE_KINDS(KIND)
#undef KIND
#define KIND(number, N, G, NC, NR, EITHER) \
	case number: \
		static_assert(G == 2, "windows move by a row per voxel"); \
		visit_spans<Pixel, PITCH, RAYS, N, NC, NR, EITHER>(s, c, tile, sum); \
		break;
		LONG_SPAN_KINDS(KIND)
		SPAN_KINDS(KIND)
#undef KIND
	default:
		visit_direct<Pixel, RAYS>(s, near, c, image, count, sum);
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

template <class Pixel, int PITCH, bool RAYS>
static __global__ void __launch_bounds__(THREADS, PARTS<Pixel> == 4 ? 2 : 3)
	footprint_back(const __grid_constant__ Footprints s)
{
	__shared__ Near near[VIEWS];
	back_block<Pixel, PITCH, COLUMN<Pixel>, Mine<Pixel>>(s, near,
		[&](const Near &v, const Pixel *tile, const Pixel *image, float dx, float dy,
			int count, Mine<Pixel> &sum) {
			visit_view<Pixel, PITCH, RAYS>(s, v, tile, image, dx, dy, count, sum);
		});
}

template <class Pixel> static bool measure(const ProjectRequest *what, TileSize *size)
{
	static const int block[3] = {SIDE, SIDE, COLUMN<Pixel>};
	*size = TileSize{.direction = quarter_direction(what)};
	for (int64_t i = 0; i < what->count * 8; i++)
		measure_corner(
			what, &what->plan->views[what->first + i / 8], (int)(i % 8), block, size);
	const int fixed = VIEWS * (int)sizeof(Near) + Mine<Pixel>::BYTES;
	limit_tiles<Pixel>(fixed, size);
	return cuda_has_shared(tile_bytes<Pixel>(size) + fixed);
}

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	TileSize *size = notes_of<TileSize>(notes);
	if (!tilted_applies(what))
		return false;
	if (measure<float4>(what, size) && size->direction)
		return true;
	const bool fits = measure<float>(what, size);
	size->direction = 0;
	return fits;
}

template <class Pixel>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const TileSize *size,
	const CudaEpilogue *epilogue)
{
	constexpr int N = NARROW<Pixel>, W = WIDE<Pixel>;
	static const BackKernel kernels[2][2] = {
		{footprint_back<Pixel, N, false>, footprint_back<Pixel, N, true>},
		{footprint_back<Pixel, W, false>, footprint_back<Pixel, W, true>}};
	return run_footprints<Pixel, COLUMN<Pixel>, Mine<Pixel>>(
		backend, what, size, epilogue, kernels[size->columns > N][has_rays(what)]);
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const TileSize *size = notes_of<TileSize>(notes);
	return (size->direction ? run<float4> : run<float>)(backend, what, size, epilogue);
}

extern const CudaKernel cuda_footprint_back_any;
const CudaKernel cuda_footprint_back_any = {any_applies, any_run, fuses_sums};
