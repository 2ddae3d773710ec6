/* Voxel-driven back projection for any detector: rolled, slanted, laminography, tilted axis, free
 * vectors.
 *
 * Blocks of voxel columns and tiles as in voxel_back_cone.cu. Each pixel is stored with the
 * differences to its neighbours, so that the four pixels around the projection of a voxel are one
 * load and three FMAs.
 */
#include "backend/cuda/kernels/voxel_back_run.h"

/* The value at (x, y) from the centre of four pixels is middle + x right + y (up + x both). Value:
 * float, or a pair of value and ray weight for updates that divide by the sum of the weights. */
template <typename Value> struct alignas(16) Quad {
	Value middle, right, up, both;
};

/* Side of the tiles: of most, of pairs, of mirrored views. */
enum { SIZE = 34, PAIRS = 40, MIRRORED = 31 };

/* Blocks per SM. Three with tiles of side 42 are slower, although fewer blocks read the image. */
template <int SIDES> constexpr int BLOCKS = SIDES == SIZE ? 4 : SIDES == MIRRORED ? 3 : 2;

template <typename Value> constexpr int VIEWS<Quad<Value>> = LANES<Value> == 2 ? 32 : 64;
template <typename Value, int SIDES> constexpr int AT_ONCE<Quad<Value>, SIDES> = 1;

/* ---- images ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ Quad<float> quad_of(
	float here, float next, float above, float last)
{
	const float low = next - here, high = last - above;
	return Quad<float>{0.25f * ((here + next) + (above + last)), 0.5f * (low + high),
		0.5f * ((above - here) + (last - next)), high - low};
}

static __device__ __forceinline__ void set_quad(
	Quad<float> &quad, float2 here, float2 next, float2 above, float2 last)
{
	quad = quad_of(here.x, next.x, above.x, last.x);
}

static __device__ __forceinline__ void set_quad(
	Quad<float2> &quad, float2 here, float2 next, float2 above, float2 last)
{
	const Quad<float> value = quad_of(here.x, next.x, above.x, last.x),
			  weight = quad_of(here.y, next.y, above.y, last.y);
	quad = Quad<float2>{{value.middle, weight.middle}, {value.right, weight.right},
		{value.up, weight.up}, {value.both, weight.both}};
}

template <typename Value>
static __device__ __forceinline__ void set_image(
	Quad<Value> &quad, const Views &v, int64_t view, int64_t row, int column)
{
	set_quad(quad, pixel_at(v, view, row, column), pixel_at(v, view, row, column + 1),
		pixel_at(v, view, row + 1, column), pixel_at(v, view, row + 1, column + 1));
}

/* ---- back ------------------------------------------------------------------------------------ */

/* By an address of 32 bits, whose terms the compiler leaves in their order. */
static __device__ __forceinline__ float4 load_shared(unsigned address)
{
	float4 four;
	asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
		     : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
		     : "r"(address));
	return four;
}

/* PLANES: bytes between the two halves of a pixel of 32 bytes. */
template <int PLANES>
static __device__ __forceinline__ void load_quad(Quad<float> &quad, unsigned address)
{
	const float4 four = load_shared(address);
	quad = Quad<float>{four.x, four.y, four.z, four.w};
}

template <int PLANES>
static __device__ __forceinline__ void load_quad(Quad<float2> &quad, unsigned address)
{
	const float4 one = load_shared(address), two = load_shared(address + PLANES);
	quad = Quad<float2>{{one.x, one.y}, {one.z, one.w}, {two.x, two.y}, {two.z, two.w}};
}

template <typename Value>
static __device__ __forceinline__ Value value_at(const Quad<Value> &quad, float x, float y)
{
	Value value = quad.middle, slope = quad.up;
	accumulate(value, x, quad.right);
	accumulate(slope, x, quad.both);
	accumulate(value, y, slope);
	return value;
}

/* A tile by addresses of shared memory: row pitch in bytes, and the place of pixel (0, 0) for sums
 * of positions and MAGIC, as bits. */
typedef struct {
	unsigned row, origin;
} Pixels;

template <class Pixel>
static __device__ __forceinline__ Pixels pixels_of(const Near &n, const Pixel *tile)
{
	const unsigned row = (unsigned)n.pitch * CELL<Pixel>;
	return Pixels{row, (unsigned)__cvta_generic_to_shared(tile) +
				   (unsigned)n.origin * CELL<Pixel> -
				   __float_as_uint(MAGIC) * (row + CELL<Pixel>)};
}

/* In this order, which is two instructions: the compiler would make three of it. */
static __device__ __forceinline__ unsigned address_of(
	const Pixels &p, unsigned row, unsigned column)
{
	unsigned address;
	asm("mad.lo.u32 %0, %1, 16, %2;" : "=r"(address) : "r"(column), "r"(p.origin));
	asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(address) : "r"(row), "r"(p.row), "r"(address));
	return address;
}

/* KIND: LEVEL, SLOPED or CLOSE. */
template <int KIND, bool RAYS, int SIDES, typename Value>
static __device__ __forceinline__ void visit_column(
	const Tiles &s, const Near &n, const Quad<Value> *tile, float dx, float dy, float *sum)
{
	typedef Quad<Value> Pixel;
	static_assert(CELL<Pixel> == 16, "see address_of");
	const Pixels pixels = pixels_of(n, tile);
	visit_drift<KIND, RAYS>(s, n, dx, dy,
		[&](int k, unsigned column, unsigned row, float x, float y, float weight) {
			Pixel quad;
			load_quad<PLANE<Pixel, SIDES>>(quad, address_of(pixels, row, column));
			add_to(sum, k, weight, value_at(quad, x, y));
		});
}

/* near.kind is the same for all threads of a block. */
template <bool RAYS, int SIDES, typename Value>
static __device__ __forceinline__ void visit_view(const Tiles &s, const Near &near,
	const Quad<Value> *tile, const Quad<Value> *image, float dx, float dy, float *sum)
{
	if (near.kind == LEVEL)
		visit_column<LEVEL, RAYS, SIDES>(s, near, tile, dx, dy, sum);
	else if (near.kind == SLOPED)
		visit_column<SLOPED, RAYS, SIDES>(s, near, tile, dx, dy, sum);
	else if (near.kind == CLOSE)
		visit_column<CLOSE, RAYS, SIDES>(s, near, tile, dx, dy, sum);
	else if (near.kind != UNSEEN)
		visit_points<RAYS, false>(s, near, tile, image, dx, dy,
			[&](int k, const Quad<Value> *at, int, float x, float y, float weight) {
				add_to(sum, k, weight, value_at(*at, x, y));
			});
}

/* PARTS: 2 for mirrored views. */
template <bool RAYS, int SIDES, typename Value, int PARTS>
static __global__ void __launch_bounds__(THREADS, BLOCKS<SIDES>)
	any_back(const __grid_constant__ Tiles s)
{
	typedef Quad<Value> Pixel;
	back_block<Pixel, Value, SIDES, true, PARTS>(
		s, [&](const Near &near, const Pixel *tile, const Pixel *image, float dx, float dy,
			   float *sum) {
			visit_view<RAYS, SIDES>(s, near, tile, image, dx, dy, sum);
		});
}

/* ---- a whole request ------------------------------------------------------------------------- */

typedef struct {
	bool huge;     /* tiles */
	bool mirrored; /* see mirrors_opposite */
} Notes;

/* Not for a fan per row, where the depth does not divide the row. */
static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const KernelModel *model = &what->plan->model;
	const int source = what->plan->rays.source;
	if (model->clamp || model->nearest || model->planar || !tile_fits_int(model) ||
		!(source == TOMOS_POINT || source == TOMOS_PARALLEL) ||
		!cuda_has_shared(tile_bytes<Quad<float>, SIZE>()))
		return false;
	*notes_of<Notes>(notes) = Notes{
		tile_size(what) == HUGE_TILES &&
			cuda_has_shared(tile_bytes<Quad<float>, HUGE_TILE>()),
		mirrors_opposite(what) && cuda_has_shared(tile_bytes<Quad<float2>, MIRRORED>())};
	return true;
}

/* Floats of scratch memory per view; pairs: with ray weights or a mirrored view. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	return (int64_t)tile_lines(model) * tile_pitch(model) * (pairs ? 8 : 4);
}

static CudaFusion any_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	if (step->average && !cuda_has_shared(tile_bytes<Quad<float2>, PAIRS>()))
		return FUSES_NOT;
	return update_fuses<view_floats>(backend, what, notes, step);
}

template <int SIDES, typename Value, int PARTS>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Tiles *s, int64_t first)
{
	static const TileKernel kernels[2] = {
		any_back<false, SIDES, Value, PARTS>, any_back<true, SIDES, Value, PARTS>};
	return tile_views<Quad<Value>, SIDES, true>(backend, what, s, first, kernels);
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Notes *found = notes_of<Notes>(notes);
	const auto run = found->huge ? run_views<HUGE_TILE, float, 1> : run_views<SIZE, float, 1>;
	return tile_passes(backend, what, epilogue, view_floats, found->mirrored,
		[&](const Tiles *s, int64_t first, bool average) {
			return (average       ? run_views<PAIRS, float2, 1>
				: s->part > 0 ? run_views<MIRRORED, float2, 2>
					      : run)(backend, what, s, first);
		});
}

extern const CudaKernel cuda_voxel_back_any;
const CudaKernel cuda_voxel_back_any = {any_applies, any_run, any_fuses};
