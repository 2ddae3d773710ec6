/* Voxel-driven back projection of rays in sheets: circular cone beam, laminography and parallel
 * beam.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels in registers and visits all views. The part of a
 * view that the block needs is copied into shared memory while earlier views are processed. Where
 * neighbouring voxels along z project about one row apart, a column is processed in spans: a thread
 * interpolates the detector rows of a span across columns once, and the voxels between these rows
 * (points.h). Elsewhere each voxel reads its own two rows.
 */
#include "backend/cuda/kernels/voxel_back_run.h"

/* Pair: a value and the difference to the next column. Averaged: the same, and the same of the
 * ray weights, for updates that divide by the sum of the weights. */
typedef float2 Pair;
typedef float4 Averaged;

template <class Pixel> struct ValueOf {
	typedef float Value;
};
template <> struct ValueOf<Averaged> {
	typedef float2 Value;
};

template <class Pixel> constexpr int BLOCKS = sizeof(Pixel) == sizeof(Pair) ? 4 : 2; /* per SM */

/* ---- images ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ void set_image(
	Pair &pixel, const Views &v, int64_t view, int64_t row, int column)
{
	const float here = pixel_at(v, view, row, column).x;
	pixel = Pair{here, pixel_at(v, view, row, column + 1).x - here};
}

static __device__ __forceinline__ void set_image(
	Averaged &pixel, const Views &v, int64_t view, int64_t row, int column)
{
	const float2 here = pixel_at(v, view, row, column),
		     next = pixel_at(v, view, row, column + 1);
	pixel = Averaged{here.x, next.x - here.x, here.y, next.y - here.y};
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Value between two neighbouring columns of a row; right: fraction of the second. */
static __device__ __forceinline__ float mix(const Pair &pixel, float right)
{
	return fmaf(right, pixel.y, pixel.x);
}

static __device__ __forceinline__ float2 mix(const Averaged &pixel, float right)
{
	return make_float2(fmaf(right, pixel.y, pixel.x), fmaf(right, pixel.w, pixel.z));
}

/* Value at (x, y) from the centre of four pixels. */
template <class Pixel>
static __device__ __forceinline__ auto value_at(const Pixel *at, int pitch, float x, float y)
{
	auto value = mix(at[0], x + 0.5f);
	add_between(value, y + 0.5f, value, mix(at[pitch], x + 0.5f));
	return value;
}

template <class P, bool RAYS, int SIZE, class Pixel>
static __device__ __forceinline__ void visit_spans(
	const Foot &foot, const Weights &w, const Pixel *tile, float *sum)
{
	typedef typename ValueOf<Pixel>::Value Value;
#pragma unroll
	for (int first = 0; first < COLUMN; first += P::N) {
		const float row = fmaf((float)first, foot.more, foot.row + (float)first),
			    whole = P::first(row, foot.more);
		const Pixel *at = tile + (int)whole * PITCH<Pixel, SIZE> + foot.column;
		Value q[P::SAMPLES];
#pragma unroll
		for (int k = 0; k < P::SAMPLES; k++)
			q[k] = mix(at[k * PITCH<Pixel, SIZE>], foot.right);
		P::interpolate(q, row - whole, foot.more, [&](int k, const Value &value) {
			add_to(sum, first + k, weight_at<RAYS>(w, first + k), value);
		});
	}
}

/* near.kind is the same for all threads of a block. */
template <bool RAYS, int SIZE, class Pixel>
static __device__ __forceinline__ void visit_view(const Tiles &s, const Near &near,
	const Pixel *tile, const Pixel *image, float dx, float dy, float *sum)
{
	if (near.kind == UNSEEN)
		return;
	if (SIZE > TILE && (near.kind < 0 || near.kind > SINGLE)) {
		visit_points<RAYS, false>(s, near, tile, image, dx, dy,
			[&](int k, const Pixel *at, int pitch, float x, float y, float weight) {
				add_to(sum, k, weight, value_at(at, pitch, x, y));
			});
		return;
	}
	const Foot foot = foot_of(near, dx, dy);
	const Weights w = weights_of<RAYS>(s, near, foot.rate, 0, dx, dy);
	if (near.kind == SPANS_OF_8)
		visit_spans<Points<8, 2, 2>, RAYS, SIZE>(foot, w, tile, sum);
	else if (near.kind == SPANS_OF_4)
		visit_spans<Points<4, 2, 2>, RAYS, SIZE>(foot, w, tile, sum);
	else if (SIZE > TILE)
		visit_singles(foot, tile + foot.column, near.pitch,
			[&](int k, const Pixel *at, float up) {
				auto value = mix(at[0], foot.right);
				add_between(value, up, value, mix(at[near.pitch], foot.right));
				add_to(sum, k, weight_at<RAYS>(w, k), value);
			});
}

template <bool RAYS, int SIZE, class Pixel>
static __global__ void __launch_bounds__(THREADS, BLOCKS<Pixel>)
	tile_back(const __grid_constant__ Tiles s)
{
	back_block<Pixel, typename ValueOf<Pixel>::Value, SIZE, false, 1>(s,
		[&](const Near &near, const Pixel *tile, const Pixel *image, float dx, float dy,
			float *sum) { visit_view<RAYS, SIZE>(s, near, tile, image, dx, dy, sum); });
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* A block at a point: pixels that it reads, rows per voxel along z. */
typedef struct {
	double columns, rows, climb;
	bool valid;
} Seen;

static Seen seen_block(const KernelView *k, const double at[3])
{
	double depth = k->depth[3], u = k->column[3], v = k->row[3];
	for (int a = 0; a < 3; a++) {
		depth += k->depth[a] * at[a];
		u += k->column[a] * at[a];
		v += k->row[a] * at[a];
	}
	u /= depth;
	v /= depth;
	double columns[3], rows[3];
	for (int a = 0; a < 3; a++) {
		columns[a] = (k->column[a] - u * k->depth[a]) / depth;
		rows[a] = (k->row[a] - v * k->depth[a]) / depth;
	}
	return Seen{(fabs(columns[0]) + fabs(columns[1])) * (SIDE - 1) +
			    fabs(columns[2]) * (COLUMN - 1) + 4,
		(fabs(rows[0]) + fabs(rows[1])) * (SIDE - 1) + fabs(rows[2]) * (COLUMN - 1) + 6,
		rows[2], depth > 1e-3 && fabs(u) < 9e5 && fabs(v) < 9e5};
}

/* Extremes over all views. columns, rows: largest numbers that a block reads; low, high: rows per
 * voxel; nearest: least distance from the source, in voxels; large, huge: fractions of the blocks
 * that do not fit into a large or huge tile, among some in the outer part. */
typedef struct {
	double columns, rows, low, high, nearest, large, huge;
	bool valid;
} Spread;

static void add_extremes(const Seen *seen, Spread *spread)
{
	spread->valid = spread->valid && seen->valid;
	spread->low = fmin(spread->low, seen->climb);
	spread->high = fmax(spread->high, seen->climb);
	spread->columns = fmax(spread->columns, seen->columns);
	spread->rows = fmax(spread->rows, seen->rows);
}

/* Extremes are at the corners, one block beyond the box, since blocks may extend beyond it. Blocks
 * are counted between these and the middle. */
static Spread spread_of(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	Spread spread = {.low = 1e9, .nearest = 1e9, .valid = true};
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		for (int corner = 0; corner < 8; corner++) {
			double at[3], inner[3];
			for (int a = 0; a < 3; a++) {
				const double low = (double)what->box.low[a],
					     high = (double)what->box.high[a];
				const bool end = corner >> a & 1;
				at[a] = end ? high + (int)SIDE : low;
				inner[a] = 0.25 * 0.5 * (low + high) + 0.75 * (end ? high : low);
			}
			const Seen here = seen_block(k, at), there = seen_block(k, inner);
			add_extremes(&here, &spread);
			const double pixels = there.columns * there.rows;
			spread.large += pixels > 0.95 * 34 * 34;
			spread.huge += pixels > 0.95 * (int)HUGE_TILE * (int)HUGE_TILE;
		}
		spread.nearest = fmin(spread.nearest, source_distance(what, k));
	}
	spread.large /= 8 * (double)what->count;
	spread.huge /= 8 * (double)what->count;
	return spread;
}

static TileSize size_of(const ProjectRequest *what, const Spread *spread)
{
	const Plan *plan = what->plan;
	const bool source = plan->rays.source == TOMOS_POINT;
	if (!spread->valid || spread->huge > 0.5)
		return NO_TILES;
	if (spread->large > 0.5)
		return HUGE_TILES;
	if (!rays_are(&plan->rays, RAYS_IN_SHEET) || !(spread->low > 0))
		return TILTED_TILES;
	/* Points<4, 2, 2> fits these rates, and all tiles are large enough. */
	const bool far =
		!source || plan->model.weight != WEIGHT_RAY || spread->nearest > 200 + SIDE;
	return far && spread->low > 0.68 && spread->high < 1.32 && spread->columns < (int)TILE &&
			       spread->rows < (int)TILE
		       ? SMALL_TILES
		       : LARGE_TILES;
}

TileSize tile_size(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const int source = plan->rays.source;
	if (plan->model.clamp || plan->model.nearest || plan->model.planar ||
		!tile_fits_int(&plan->model) ||
		!(source == TOMOS_POINT || source == TOMOS_PARALLEL))
		return NO_TILES;
	const Spread spread = spread_of(what);
	return size_of(what, &spread);
}

/* Tilted detectors, and voxels of about two pixels: voxel_back_any. A few slices would be a small
 * part of a block: voxel_back_upright. */
static bool tile_applies(const ProjectRequest *what, CudaNotes *notes)
{
	enum { FEW = 4 };
	TileSize *size = notes_of<TileSize>(notes);
	*size = tile_size(what);
	return what->box.high[2] - what->box.low[2] > FEW &&
	       (*size == SMALL_TILES || *size == LARGE_TILES);
}

/* Floats of scratch memory per view; pairs: with ray weights. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	return (int64_t)tile_lines(model) * tile_pitch(model) * (pairs ? 4 : 2);
}

static CudaFusion tile_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	if (step->average && !cuda_has_shared(tile_bytes<Averaged, LARGE_TILE<Averaged>>()))
		return FUSES_NOT;
	return update_fuses<view_floats>(backend, what, notes, step);
}

template <int SIZE, class Pixel>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Tiles *s, int64_t first)
{
	static const TileKernel kernels[2] = {
		tile_back<false, SIZE, Pixel>, tile_back<true, SIZE, Pixel>};
	return tile_views<Pixel, SIZE, false>(backend, what, s, first, kernels);
}

static tomos_status tile_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const bool small = *notes_of<TileSize>(notes) == SMALL_TILES;
	const auto run = small ? run_views<TILE, Pair> : run_views<LARGE_TILE<Pair>, Pair>;
	const auto run_average =
		small ? run_views<TILE, Averaged> : run_views<LARGE_TILE<Averaged>, Averaged>;
	return tile_passes(backend, what, epilogue, view_floats, false,
		[&](const Tiles *s, int64_t first, bool average) {
			return (average ? run_average : run)(backend, what, s, first);
		});
}

extern const CudaKernel cuda_voxel_back_cone;
const CudaKernel cuda_voxel_back_cone = {tile_applies, tile_run, tile_fuses};
