/* Voxel-driven back projection of rays in sheets: circular cone beam, laminography and parallel
 * beam.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels in registers and visits all views. The part of a
 * view that the block needs is copied into shared memory while earlier views are processed. Where
 * neighbouring voxels along z project about one row apart, a column is processed in spans: a thread
 * interpolates the detector rows of a span across columns once, and the voxels between these rows
 * (points.h). Elsewhere each voxel reads its own two rows.
 */
#include "backend/cuda/kernels/voxel_back_cone.h"

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

/* Floats that are summed for a voxel; blocks per SM. */
template <class Pixel>
constexpr int LANES = (int)(sizeof(typename ValueOf<Pixel>::Value) / sizeof(float));
template <class Pixel> constexpr int BLOCKS = sizeof(Pixel) == sizeof(Pair) ? 4 : 2;

/* ---- images ---------------------------------------------------------------------------------- */

/* rays: weights of the rays; NULL: 1. */
typedef struct {
	const float *from, *rays;
	int rows, columns;
} Views;

/* A pixel and its ray weight; 0 outside the detector. */
static __device__ __forceinline__ float2 pixel_at(
	const Views &v, int64_t view, int64_t row, int column)
{
	const int64_t at = (view * v.rows + row) * v.columns + column;
	if (row < 0 || row >= v.rows || column < 0 || column >= v.columns)
		return float2{0, 0};
	return float2{v.from[at], v.rays ? v.rays[at] : 1};
}

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

/* Copies the views to images with a border of zeros. */
template <class Pixel>
static __global__ void make_images(const __grid_constant__ Tiles s, const __grid_constant__ Views v)
{
	const int c = blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.lines; line += gridDim.y)
		set_image(((Pixel *)s.images)[line * s.pitch + c], v, line / s.lines,
			line % s.lines - BORDER, c - BORDER);
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

static __device__ __forceinline__ void add_to(float *sum, int k, float weight, float value)
{
	sum[k] = fmaf(weight, value, sum[k]);
}

static __device__ __forceinline__ void add_to(float *sum, int k, float weight, float2 value)
{
	add_to(sum, k, weight, value.x);
	add_to(sum, COLUMN + k, weight, value.y);
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
	const float rate[3] = {foot.rate, foot.rate, foot.rate};
	const Weights w = weights_of<RAYS>(s, near, rate, dx, dy);
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

/* Sums of voxel k: of the data and, for Averaged, of the ray weights. */
template <class Pixel> static __device__ __forceinline__ auto result_of(const float *sum, int k)
{
	if constexpr (LANES<Pixel> == 1)
		return sum[k];
	else
		return make_float2(sum[k], sum[COLUMN + k]);
}

template <bool RAYS, int SIZE, class Pixel>
static __global__ void __launch_bounds__(THREADS, BLOCKS<Pixel>)
	tile_back(const __grid_constant__ Tiles s)
{
	constexpr int SUMS = LANES<Pixel> * COLUMN;
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	const int dx = place.x, dy = place.y;
	float sum[SUMS] = {0};
	const Visited list = {s.views, 0, (int)s.count};
	visit_views<Pixel, SIZE, SUMS, 1, false>(
		s, list, x0, y0, z0, sum,
		[&](const Near &near, const Pixel *tile, const Pixel *image) {
			visit_view<RAYS, SIZE>(s, near, tile, image, (float)dx, (float)dy, sum);
		},
		[] {});
	if (x0 + dx >= s.n[0] || y0 + dy >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y0 + dy) * s.n[0] + x0 + dx;
	update_voxels<COLUMN, LANES<Pixel> == 1 ? 4 : COLUMN>(s.update, to,
		(int64_t)s.n[0] * s.n[1], s.n[2] - z0,
		[&](int k) { return result_of<Pixel>(sum, k); });
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Extremes over all views. columns, rows: largest numbers that a block reads; low, high: rows per
 * voxel; nearest: least distance from the source, in voxels; mean: mean number of pixels that a
 * block reads. */
typedef struct {
	double columns, rows, low, high, nearest, mean;
	bool valid;
} Spread;

static void spread_corner(const KernelView *k, const double at[3], Spread *spread)
{
	double depth = k->depth[3], u = k->column[3], v = k->row[3];
	for (int a = 0; a < 3; a++) {
		depth += k->depth[a] * at[a];
		u += k->column[a] * at[a];
		v += k->row[a] * at[a];
	}
	u /= depth;
	v /= depth;
	spread->valid = spread->valid && depth > 1e-3 && fabs(u) < 9e5 && fabs(v) < 9e5;
	double climb = (k->row[2] - v * k->depth[2]) / depth,
	       drift = (k->column[2] - u * k->depth[2]) / depth;
	double columns =
		(fabs(k->column[0] - u * k->depth[0]) + fabs(k->column[1] - u * k->depth[1])) /
		depth;
	double rows =
		(fabs(k->row[0] - v * k->depth[0]) + fabs(k->row[1] - v * k->depth[1])) / depth;
	columns = columns * (SIDE - 1) + fabs(drift) * (COLUMN - 1) + 4;
	rows = rows * (SIDE - 1) + fabs(climb) * (COLUMN - 1) + 6;
	spread->low = fmin(spread->low, climb);
	spread->high = fmax(spread->high, climb);
	spread->columns = fmax(spread->columns, columns);
	spread->rows = fmax(spread->rows, rows);
	spread->mean += columns * rows;
}

/* Corners are taken one block beyond the box, since blocks may extend beyond it. */
static Spread spread_of(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	Spread spread = {.low = 1e9, .nearest = 1e9, .valid = true};
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		for (int corner = 0; corner < 8; corner++) {
			double at[3];
			for (int a = 0; a < 3; a++)
				at[a] = corner >> a & 1 ? (double)(what->box.high[a] + SIDE)
							: (double)what->box.low[a];
			spread_corner(k, at, &spread);
		}
		spread.nearest = fmin(spread.nearest, source_distance(what, k));
	}
	spread.mean /= 8 * (double)what->count;
	return spread;
}

TileSize tile_size(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	if (plan->model.clamp || plan->model.nearest || plan->model.planar ||
		(plan->model.rows + 2 * BORDER) * (plan->model.columns + 2 * BORDER) > 1 << 30)
		return NO_TILES;
	const RayClass *rays = &plan->rays;
	bool source = rays->source == TOMOS_POINT;
	if (!(source || rays->source == TOMOS_PARALLEL))
		return NO_TILES;
	const Spread spread = spread_of(what);
	if (!spread.valid || spread.mean >= 2 * TILE * TILE)
		return NO_TILES;
	if (!rays_are(rays, RAYS_IN_SHEET) || !(spread.low > 0))
		return TILTED_TILES;
	/* Points<4, 2, 2> fits these rates, and all tiles are large enough. */
	bool far = !source || plan->model.weight != WEIGHT_RAY || spread.nearest > 200 + SIDE;
	return far && spread.low > 0.68 && spread.high < 1.32 && spread.columns < (int)TILE &&
			       spread.rows < (int)TILE
		       ? SMALL_TILES
		       : LARGE_TILES;
}

/* Tilted detectors: voxel_back_tilted. */
static bool tile_applies(const ProjectRequest *what, CudaNotes *notes)
{
	TileSize *size = notes_of<TileSize>(notes);
	*size = tile_size(what);
	return *size == SMALL_TILES || *size == LARGE_TILES;
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

/* Back projects the views from `first` on. */
template <int SIZE, class Pixel>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Tiles *s, int64_t first)
{
	const KernelModel *model = &what->plan->model;
	cudaStream_t stream = device_of(backend)->stream;
	const int64_t at = first * model->rows * model->columns;
	const float *rays = s->update.with.rays;
	const Views views = {what->projections + at, rays ? rays + at : NULL, (int)model->rows,
		(int)model->columns};
	make_images<Pixel><<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				     cuda_blocks(s->count * s->lines, 1, 65535)),
		128, 0, stream>>>(*s, views);
	if (first + s->count == what->count)
		TRY(cuda_taken(backend));
	bool weights = model->weight == WEIGHT_RAY && what->plan->rays.source == TOMOS_POINT;
	auto kernel = weights ? tile_back<true, SIZE, Pixel> : tile_back<false, SIZE, Pixel>;
	const int bytes = tile_bytes<Pixel, SIZE>();
	TRY(tile_take(kernel, bytes));
	kernel<<<dim3(cuda_blocks(s->n[0], SIDE, 1 << 30), cuda_blocks(s->n[1], SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

template <class Pixel>
static tomos_status run_tiles(tomos_backend *backend, const ProjectRequest *what, const Tiles *s,
	int64_t first, TileSize size)
{
	return (size == SMALL_TILES ? run_views<TILE, Pixel>
				    : run_views<LARGE_TILE<Pixel>, Pixel>)(backend, what, s, first);
}

static tomos_status tile_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const CudaPlan *kept;
	float *pairs;
	VoxelUpdate update;
	Tiles s = tile_request(what);
	TRY(update_open(backend, what, epilogue, &update));
	int64_t image = view_floats(&what->plan->model, update.with.average);
	int64_t at_once = views_at_once(backend, what, image);
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, at_once * image, &pairs, "pairs of pixels"));
	s.images = pairs;
	return views_each(&update, what->count, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = kept->views + what->first + first;
			s.count = count;
			s.update = part;
			return (part.with.average ? run_tiles<Averaged> : run_tiles<Pair>)(backend,
				what, &s, first, *notes_of<TileSize>(notes));
		});
}

extern const CudaKernel cuda_voxel_back_cone;
const CudaKernel cuda_voxel_back_cone = {tile_applies, tile_run, tile_fuses};
