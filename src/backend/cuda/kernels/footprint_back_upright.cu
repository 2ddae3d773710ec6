/* Back projection of separable footprints for upright detectors: circular cone beam, stacks of
 * fans, parallel beam and laminography without roll.
 *
 * All voxels of a column have the same footprint along detector rows, so a thread first adds the
 * detector columns of that footprint, which leaves a line of pixels, and then integrates the line
 * between the boundaries of its voxels (footprint.h). footprint_back.h says how blocks visit the
 * views.
 */
#include "backend/cuda/kernels/footprint_back.h"
#include "backend/cuda/kernels/footprint_upright.h"

/* Voxels of a thread: of four views; of two; of one; of one if voxels appear large. */
typedef RegisterValues<float4, 8> Four;
typedef RegisterValues<float2, 16> Two;
typedef RegisterValues<float, 32> One;
typedef RegisterValues<float, 8> Large;

/* ---- a column of voxels ---------------------------------------------------------------------- */

/* The pixels from `at` on, added over the detector columns of the footprint. */
template <int SAMPLES, int PITCH, class Pixel>
static __device__ __forceinline__ void add_columns(
	const Near &near, const Foot &foot, const Pixel *at, Pixel line[SAMPLES])
{
#pragma unroll
	for (int i = 0; i < SAMPLES; i++) {
		line[i] = scaled(foot.a[0], at[i * PITCH]);
#pragma unroll
		for (int c = 1; c < TAPS; c++)
			add_scaled(line[i], foot.a[c], at[i * PITCH + c]);
	}
	/* Beyond the tile the weights of narrower footprints are zero, and memory is undefined. */
	for (int c = TAPS; c < near.taps && foot.column + c < near.columns; c++) {
		const float a = tap_of(foot, c);
#pragma unroll
		for (int i = 0; i < SAMPLES; i++)
			add_scaled(line[i], a, at[i * PITCH + c]);
	}
}

/* Adds the line between two boundaries, whose first edges are D samples apart. step: differences of
 * each sample to the one before. */
template <int S, int D>
static __device__ __forceinline__ float between(const float low[S + 1], const float high[S + 1],
	float climb, const float *line, const float *step)
{
	float sum = climb * line[0];
#pragma unroll
	for (int e = 1; e < D + S; e++)
		add_scaled(sum, part_beyond<S, D>(low, high, climb, e), step[e]);
	return sum;
}

/* Several views. */
template <int S, int D, class Pixel>
static __device__ __forceinline__ Pixel between(
	const float low[S + 1], const float high[S + 1], float, const Pixel *line, const Pixel *)
{
	Pixel sum = scaled(weight_between<S, D>(low, high, 0), line[0]);
#pragma unroll
	for (int i = 1; i < D + S; i++)
		add_scaled(sum, weight_between<S, D>(low, high, i), line[i]);
	return sum;
}

static __device__ __forceinline__ float difference(float a, float b)
{
	return a - b;
}

template <class Pixel>
static __device__ __forceinline__ Pixel difference(const Pixel &, const Pixel &)
{
	return Pixel{}; /* not used */
}

template <class B, bool RAYS, int PITCH, class Mine>
static __device__ __forceinline__ void visit_span(const Footprints &s, const Near &near,
	const Foot &foot, const typename Mine::Value *tile, int first, Mine &sum)
{
	typedef typename Mine::Value Pixel;
	const Span span = span_of<B>(foot, first);
	Pixel line[B::SAMPLES], step[B::SAMPLES];
	add_columns<B::SAMPLES, PITCH>(
		near, foot, tile + (int)span.whole * PITCH + foot.column, line);
#pragma unroll
	for (int i = 1; i < B::SAMPLES; i++)
		step[i] = difference(line[i], line[i - 1]);
	span_visit<B>(foot, span, [&](int k, const float *from, const float *to) {
		const Pixel *at = line + B::edge(k), *by = step + B::edge(k);
		const Pixel value =
			is_longer<B>(k)
				? between<B::S, (B::G + 1) / 2>(from, to, foot.climb, at, by)
				: between<B::S, B::G / 2>(from, to, foot.climb, at, by);
		add_scaled(sum.at(first + k), far_weight<RAYS>(s, near, foot, first + k), value);
	});
}

/* Footprints of any size. */
template <bool RAYS, int PITCH, class Mine>
static __device__ __forceinline__ void visit_loop(const Footprints &s, const Near &near,
	const Foot &foot, const typename Mine::Value *tile, int count, Mine &sum)
{
	const int end = near.rows - 1;
	visit_columns(near, foot, [&](int column, const float *a) {
		sums_each(sum, count, [&](int k, typename Mine::Value &to) {
			const float weight = far_weight<RAYS>(s, near, foot, k);
			visit_rows(near, foot, k, 0, end, [&](int r, float share) {
				add_group(to, tile + (r * PITCH + column), a, weight * share);
			});
		});
	});
}

/* One voxel straight from the image. */
template <class Pixel>
static __device__ __noinline__ void add_direct(const Footprints &s, const Near &near,
	const Foot &foot, const Pixel *image, int k, float weight, Pixel *sum)
{
	voxel_direct(s, near, foot, s.pitch, k, weight,
		[&](int64_t place, float share) { add_scaled(*sum, share, __ldg(image + place)); });
}

template <bool RAYS, class Mine>
static __device__ __forceinline__ void visit_direct(const Footprints &s, const Near &near,
	const Foot &foot, const typename Mine::Value *image, Mine &sum)
{
#pragma unroll
	for (int k = 0; k < Mine::COUNT; k++) {
		typename Mine::Value here = sum.at(k);
		add_direct(s, near, foot, image, k, far_weight<RAYS>(s, near, foot, k), &here);
		sum.at(k) = here;
	}
}

/* The kind is the same for all threads of a block. */
template <bool RAYS, int PITCH, class Mine>
static __device__ __forceinline__ void visit_view(const Footprints &s, const Near &near,
	const typename Mine::Value *tile, const typename Mine::Value *image, float dx, float dy,
	int count, Mine &sum)
{
	if (near.kind == UNSEEN)
		return;
	const Foot foot = foot_of<RAYS>(s, near, dx, dy);
	if (near.kind == DIRECT)
		visit_direct<RAYS>(s, near, foot, image, sum);
	if (near.kind == LOOP)
		visit_loop<RAYS, PITCH>(s, near, foot, tile, count, sum);
	boundary_visit(near.kind, [&](auto boundaries) {
		typedef Short<decltype(boundaries), typename Mine::Value> B;
#pragma unroll
		for (int first = 0; first < Mine::COUNT; first += B::N)
			visit_span<B, RAYS, PITCH>(s, near, foot, tile, first, sum);
	});
}

template <class Mine, int PITCH, bool RAYS>
static __global__ void __launch_bounds__(
	THREADS, Mine::COUNT *PARTS<typename Mine::Value> > 8 ? 2 : 3)
	footprint_back(const __grid_constant__ Footprints s)
{
	typedef typename Mine::Value Pixel;
	__shared__ Near near[VIEWS];
	back_block<Mine, PITCH>(s, near,
		[&](const Near &v, const Pixel *tile, const Pixel *image, float dx, float dy,
			int count, Mine &sum) {
			visit_view<RAYS, PITCH>(s, v, tile, image, dx, dy, count, sum);
		});
}

/* ---- a whole request ------------------------------------------------------------------------- */

enum { NEAR_BYTES = VIEWS * (int)sizeof(Near) };

template <class Mine> static bool has_tiles(const ProjectRequest *what, int blocks, TileSize *size)
{
	*size = tile_size(what, BlockSize{SIDE, SIDE, Mine::COUNT});
	return share_memory<Mine>(NEAR_BYTES, blocks, size);
}

static bool upright_applies(const ProjectRequest *what, CudaNotes *notes)
{
	if (what->plan->model.columns * what->plan->model.rows > 1 << 28 ||
		!footprint_upright(what))
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

static tomos_status upright_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const TileSize *size = notes_of<TileSize>(notes);
	return run_of_size(size, run<Four>, run<Two>, run<One>, run<Large>, One::COUNT)(
		backend, what, size, epilogue);
}

extern const CudaKernel cuda_footprint_back_upright;
const CudaKernel cuda_footprint_back_upright = {upright_applies, upright_run, fuses_sums};
