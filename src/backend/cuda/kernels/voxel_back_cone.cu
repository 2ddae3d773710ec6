/* Voxel-driven back projection for upright detectors where neighbouring voxels along z project
 * about one row apart: circular cone beam and parallel beam.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels in registers and visits all views. The part of a
 * view that the block needs is copied into shared memory while earlier views are processed. A
 * column is processed in spans of SPAN voxels. For each span, a thread interpolates the detector
 * rows across columns once: q[0], q[1], ... Only the start of a span is rounded to an integer:
 * voxel k of the span is between rows k and k + S, and its value is
 *
 *     q[k] + sum over s < S of saturate(t - s) (q[k + s + 1] - q[k + s]), t = t0 + k (climb - 1),
 *
 * where t0 is the position of voxel 0 relative to row 0 and climb the rows per voxel. This is
 * linear interpolation in two FMAs for each s. S is 2 or 3, depending on how far the block's
 * magnification is from one row per voxel.
 */
#include "backend/cuda/kernels/voxel_back_cone.h"

/* Pair: a value and the difference to the next column. Averaged: the same, and the same of the
 * ray weights, for updates that divide by the sum of the weights. */
typedef float2 Pair;
typedef float4 Averaged;

template <class Pixel> constexpr int LANES = (int)(sizeof(Pixel) / sizeof(Pair));
template <class Pixel> constexpr int BLOCKS = LANES<Pixel> == 1 ? 4 : 2; /* per SM */

/* ---- pairs ----------------------------------------------------------------------------------- */

static __device__ __forceinline__ void set_next(Pair &pixel, float here, float next, float, float)
{
	pixel = make_float2(here, next - here);
}

static __device__ __forceinline__ void set_next(
	Averaged &pixel, float here, float next, float counts, float counts_next)
{
	pixel = make_float4(here, next - here, counts, counts_next - counts);
}

/* Copies the views to images with a border of zeros. rays: weights of the rays; NULL: 1. */
template <class Pixel>
static __global__ void make_pairs(const __grid_constant__ Tiles s, const float *from,
	const float *rays, Pixel *to, int rows, int columns)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.lines; line += gridDim.y) {
		int64_t view = line / s.lines, row = line % s.lines - TILE_ROWS;
		const int64_t at = (view * rows + row) * columns + column;
		bool inside = row >= 0 && row < rows;
		bool one = inside && column >= 0 && column < columns;
		bool two = inside && column >= -1 && column < columns - 1;
		set_next(to[line * s.pitch + c], one ? from[at] : 0, two ? from[at + 1] : 0,
			one ? rays ? rays[at] : 1 : 0, two ? rays ? rays[at + 1] : 1 : 0);
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

template <int S, bool RAYS, class Pixel>
static __device__ __forceinline__ void visit_span(
	const Foot &foot, const Weights &w, const Pixel *tile, int first, float *sum)
{
	const Span span = span_of(foot, first);
	const Pixel *at = tile + span.row * PITCH<Pixel> + foot.column;
	float q[SPAN + S][LANES<Pixel>];
#pragma unroll
	for (int k = 0; k < SPAN + S; k++) {
		const Pixel pixel = at[k * PITCH<Pixel>];
#pragma unroll
		for (int lane = 0; lane < LANES<Pixel>; lane++)
			q[k][lane] = fmaf(foot.right, ((const Pair *)&pixel)[lane].y,
				((const Pair *)&pixel)[lane].x);
	}
#pragma unroll
	for (int k = 0; k < SPAN; k++) {
		const float z = (float)(first + k);
		const float weight = RAYS ? fmaf(z, fmaf(z, w.w2, w.w1), w.w0) : w.w0;
#pragma unroll
		for (int lane = 0; lane < LANES<Pixel>; lane++) {
			float value = q[k][lane], *to = &sum[lane * COLUMN + first + k];
#pragma unroll
			for (int i = 0; i < S; i++)
				value = fmaf(fma_saturate((float)k, foot.more, span.t0 - (float)i),
					q[k + i + 1][lane] - q[k + i][lane], value);
			*to = fmaf(weight, value, *to);
		}
	}
}

/* Sums of voxel k: of the data and, for Averaged, of the ray weights. */
static __device__ __forceinline__ float result_of(const Pair *, const float *sum, int k)
{
	return sum[k];
}

static __device__ __forceinline__ float2 result_of(const Averaged *, const float *sum, int k)
{
	return make_float2(sum[k], sum[COLUMN + k]);
}

template <bool RAYS, class Pixel>
static __global__ void __launch_bounds__(THREADS, BLOCKS<Pixel>)
	tile_back(const __grid_constant__ Tiles s)
{
	constexpr int SUMS = LANES<Pixel> * COLUMN;
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	const int dx = place.x, dy = place.y;
	float sum[SUMS] = {0};
	const Visited list = {s.views, 0, (int)s.count};
	visit_views<Pixel, SUMS, 1>(
		s, list, x0, y0, z0, sum,
		[&](const Near &near, const Pixel *tile) {
			visit_view<RAYS>(&s, near, tile, (float)dx, (float)dy, sum);
		},
		[] {});
	if (x0 + dx >= s.n[0] || y0 + dy >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y0 + dy) * s.n[0] + x0 + dx;
	update_voxels<COLUMN, LANES<Pixel> == 1 ? 4 : COLUMN>(s.update, to,
		(int64_t)s.n[0] * s.n[1], s.n[2] - z0,
		[&](int k) { return result_of((const Pixel *)NULL, sum, k); });
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Extremes over all views. columns, rows: largest differences between the voxel columns of a
 * block; low, high: rows per voxel; nearest: least distance from the source, in voxels. */
typedef struct {
	double columns, rows, low, high, nearest;
} Spread;

static void spread_corner(const Plan *plan, const KernelView *k, const double at[3], Spread *spread)
{
	double depth = k->depth[3], u = k->column[3], v = k->row[3], away = 0;
	for (int a = 0; a < 3; a++) {
		depth += k->depth[a] * at[a];
		u += k->column[a] * at[a];
		v += k->row[a] * at[a];
	}
	if (!(depth > 1e-3)) {
		spread->columns = 1e9;
		return;
	}
	u /= depth;
	v /= depth;
	if (fabs(u) > 9e5 || fabs(v) > 9e5) /* limit of near_block */
		spread->columns = 1e9;
	double climb = k->row[2] / depth;
	double columns =
		(fabs(k->column[0] - u * k->depth[0]) + fabs(k->column[1] - u * k->depth[1])) /
		depth;
	double rows =
		(fabs(k->row[0] - v * k->depth[0]) + fabs(k->row[1] - v * k->depth[1])) / depth;
	for (int a = 0; a < 2; a++)
		away += pow((at[a] - k->src[a]) * plan->whole.step[a], 2);
	spread->columns = fmax(spread->columns, columns * (SIDE - 1));
	spread->low = fmin(spread->low, climb);
	spread->high = fmax(spread->high, climb);
	spread->rows = fmax(spread->rows, rows * (SIDE - 1));
	spread->nearest = fmin(spread->nearest, sqrt(away) / plan->whole.step[2]);
}

/* Corners are taken one block beyond the box, since blocks may extend beyond it. */
bool tile_views(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	Spread spread = {.low = 1e9, .nearest = 1e9};
	if (plan->model.clamp || plan->model.nearest || plan->model.planar ||
		(plan->model.rows + 80) * (plan->model.columns + 80) > 1 << 30)
		return false;
	const RayClass *rays = &plan->rays;
	bool source = rays->source == TOMOS_POINT;
	if (!(source || rays->source == TOMOS_PARALLEL) || !rays_are(rays, RAYS_IN_SHEET))
		return false;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		for (int corner = 0; corner < 8; corner++) {
			double at[3];
			for (int a = 0; a < 3; a++)
				at[a] = corner >> a & 1 ? (double)(what->box.high[a] + SIDE)
							: (double)what->box.low[a];
			spread_corner(plan, k, at, &spread);
		}
	}
	double differ = fmax(spread.high - 1, 1 - spread.low) * (COLUMN - 1);
	/* The rows at which threads start differ by spread.rows; each reads up to COLUMN + S + 1
	 * rows further. */
	bool fits = differ < 3.98 && spread.columns < (double)(TILE_COLUMNS - 4) &&
		    spread.rows + floor(differ) < (double)(TILE_ROWS - COLUMN - 6);
	return fits && (!source || plan->model.weight != WEIGHT_RAY || spread.nearest > 200);
}

static bool tile_applies(const ProjectRequest *what, CudaNotes *notes)
{
	(void)notes;
	return tile_views(what);
}

/* Floats of scratch memory per view; pairs: with ray weights. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	return (int64_t)tile_lines(model) * tile_pitch(model) * (pairs ? 4 : 2);
}

static CudaFusion tile_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	if (step->average && !cuda_has_shared(tile_bytes<Averaged>()))
		return FUSES_NOT;
	return update_fuses<view_floats>(backend, what, notes, step);
}

/* Back projects the views from `first` on. */
template <class Pixel>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Tiles *s, int64_t first)
{
	const KernelModel *model = &what->plan->model;
	cudaStream_t stream = device_of(backend)->stream;
	const int64_t at = first * model->rows * model->columns;
	const float *rays = s->update.with.rays;
	make_pairs<Pixel><<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				    cuda_blocks(s->count * s->lines, 1, 65535)),
		128, 0, stream>>>(*s, what->projections + at, rays ? rays + at : NULL,
		(Pixel *)s->images, (int)model->rows, (int)model->columns);
	if (first + s->count == what->count)
		TRY(cuda_taken(backend));
	bool weights = model->weight == WEIGHT_RAY && what->plan->rays.source == TOMOS_POINT;
	auto kernel = weights ? tile_back<true, Pixel> : tile_back<false, Pixel>;
	const int bytes = tile_bytes<Pixel>();
	TRY(tile_take(kernel, bytes));
	kernel<<<dim3(cuda_blocks(s->n[0], SIDE, 1 << 30), cuda_blocks(s->n[1], SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status tile_run(tomos_backend *backend, const ProjectRequest *what, const CudaNotes *,
	const CudaEpilogue *epilogue)
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
			return (part.with.average ? run_views<Averaged> : run_views<Pair>)(backend,
				what, &s, first);
		});
}

extern const CudaKernel cuda_voxel_back_cone;
const CudaKernel cuda_voxel_back_cone = {tile_applies, tile_run, tile_fuses};
