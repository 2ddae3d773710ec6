/* Voxel-driven back projection of few views, as in SART, or of voxels that are several pixels wide.
 *
 * The volume is read and written once, which takes longest. A thread has a column of voxels and
 * reads pixels through the cache: copying parts of the views to shared memory, and the barriers
 * that this needs, take longer than the loads that they would save.
 */
#include "backend/cuda/kernels/affine.h"
#include "backend/cuda/kernels/update.h"
#include "backend/cuda/kernels/voxel_quanta.h"

enum {
	MOST_VIEWS = 4,
	COLUMN = 16, /* voxels of a thread, along z */
	WIDE = 32,   /* columns of a block: WIDE x HIGH */
	HIGH = 4,
	MOST = 12, /* pixels from voxel to voxel: positions in longer columns are inaccurate */
	BLOCK = 16 /* side of the blocks of kernels that copy tiles */
};

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to an integer */

/* Weight of a voxel: constant; 1 / depth^2; distance from the source / depth^3. */
typedef enum { EVEN, DEPTH, RAY } Weighting;

typedef struct {
	const KernelView *views;
	int count;
	unsigned rows, columns;
	bool weighed; /* EVEN: by the mass of the view */
	int64_t low[3];
	double step[3];
	int n[3];
	const float *projections, *rays;
	float *volume;
	VoxelUpdate update;
} Few;

/* A column of voxels in a view: voxel k has depth + k by_depth, and its projection is (u + k by_u,
 * v + k by_v) divided by that, relative to pixel (row, column); it is k step + away above the
 * source, and `square` is that of its horizontal distance. */
typedef struct {
	float u, v, depth, by_u, by_v, by_depth, away, step, square, weight;
	int row, column;
} Line;

/* The pixel before the middle of the column. */
static __device__ __forceinline__ int pixel_before(double position)
{
	return (int)fmin(fmax(position, -1e6), 1e6);
}

static __device__ __forceinline__ Line line_of(
	const Few &s, const KernelView &k, const double at[3])
{
	const double depth = affine(k.depth, at), half = 0.5 * COLUMN,
		     rate = 1 / (depth + half * k.depth[2]), u = affine(k.column, at),
		     v = affine(k.row, at);
	const int column = pixel_before((u + half * k.column[2]) * rate),
		  row = pixel_before((v + half * k.row[2]) * rate);
	const float x = (float)((at[0] - k.src[0]) * s.step[0]),
		    y = (float)((at[1] - k.src[1]) * s.step[1]);
	return Line{(float)(u - column * depth), (float)(v - row * depth), (float)depth,
		(float)(k.column[2] - column * k.depth[2]), (float)(k.row[2] - row * k.depth[2]),
		(float)k.depth[2], (float)((at[2] - k.src[2]) * s.step[2]), (float)s.step[2],
		fmaf(x, x, y * y), s.weighed ? (float)k.mass : 1.f, row, column};
}

template <Weighting W>
static __device__ __forceinline__ float weight_of(const Line &line, float k, float rate)
{
	if (W == EVEN)
		return line.weight;
	if (W == DEPTH)
		return rate * rate;
	const float away = fmaf(k, line.step, line.away);
	return (line.weight * rate) * (rate * rate) * root_nearly(fmaf(away, away, line.square));
}

/* The four pixels around a voxel: index of the first one in the view, which of them exist, and the
 * position of the voxel between them. */
typedef struct {
	int at;
	bool left, right, low, high;
	float x, y;
} Around;

/* INSIDE: all pixels of the column exist. */
template <bool INSIDE>
static __device__ __forceinline__ Around around_of(
	const Few &s, const Line &line, float k, float rate)
{
	const float u = fmaf(k, line.by_u, line.u), v = fmaf(k, line.by_v, line.v);
	const float near_u = __fmaf_rd(u, rate, MAGIC), near_v = __fmaf_rd(v, rate, MAGIC);
	const unsigned column = __float_as_uint(near_u) - __float_as_uint(MAGIC) + line.column,
		       row = __float_as_uint(near_v) - __float_as_uint(MAGIC) + line.row;
	return Around{(int)(row * s.columns + column), INSIDE || column < s.columns,
		INSIDE || column + 1 < s.columns, INSIDE || row < s.rows,
		INSIDE || row + 1 < s.rows, fmaf(u, rate, __fadd_rn(MAGIC, -near_u)),
		fmaf(v, rate, __fadd_rn(MAGIC, -near_v))};
}

/* Interpolates pixels, 0 where there are none. */
static __device__ __forceinline__ float value_of(const Few &s, const Around &a, const float *view)
{
	const float *at = view + a.at, *above = view + s.columns + a.at;
	const float one = a.left && a.low ? __ldg(at) : 0,
		    two = a.right && a.low ? __ldg(at + 1) : 0,
		    three = a.left && a.high ? __ldg(above) : 0,
		    four = a.right && a.high ? __ldg(above + 1) : 0;
	return interpolate(a.y, interpolate(a.x, one, two), interpolate(a.x, three, four));
}

/* The same of pixels that are all 1. */
static __device__ __forceinline__ float value_of_ones(const Around &a)
{
	return ((a.left ? 1 - a.x : 0) + (a.right ? a.x : 0)) *
	       ((a.low ? 1 - a.y : 0) + (a.high ? a.y : 0));
}

/* What is summed: values; values and weights of rays that are all 1, or not. */
typedef enum { VALUES, ONES, RAYS } Summed;

/* Adds a view to the sums of a column; pixels, rays: the view and the weights of its rays. */
template <Weighting W, Summed SUMMED, bool INSIDE>
static __device__ __forceinline__ void visit_view(
	const Few &s, const Line &line, const float *pixels, const float *rays, float2 *sum)
{
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float z = (float)k, rate = inverse_nearly(fmaf(z, line.by_depth, line.depth)),
			    weight = weight_of<W>(line, z, rate);
		const Around a = around_of<INSIDE>(s, line, z, rate);
		sum[k].x = fmaf(weight, value_of(s, a, pixels), sum[k].x);
		if (SUMMED == RAYS)
			sum[k].y = fmaf(weight, value_of(s, a, rays), sum[k].y);
		else if (SUMMED == ONES)
			sum[k].y += INSIDE ? weight : weight * value_of_ones(a);
	}
}

/* Whether the pixels around voxel k exist. */
static __device__ __forceinline__ bool is_inside(const Few &s, const Line &line, float k)
{
	const float rate = inverse_nearly(fmaf(k, line.by_depth, line.depth)),
		    u = fmaf(fmaf(k, line.by_u, line.u), rate, (float)line.column),
		    v = fmaf(fmaf(k, line.by_v, line.v), rate, (float)line.row);
	return rate > 0 && u > 0.01f && u < (float)s.columns - 1.01f && v > 0.01f &&
	       v < (float)s.rows - 1.01f;
}

template <Weighting W, Summed SUMMED>
static __global__ void __launch_bounds__(WIDE *HIGH, 6) few_back(const __grid_constant__ Few s)
{
	const int x = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * HIGH + threadIdx.y,
		  z = blockIdx.z * COLUMN;
	const double at[3] = {
		(double)(s.low[0] + x), (double)(s.low[1] + y), (double)(s.low[2] + z)};
	float2 sum[COLUMN] = {};
#pragma unroll 1
	for (int i = 0; i < s.count; i++) {
		const Line line = line_of(s, s.views[i], at);
		const int64_t first = (int64_t)i * s.rows * s.columns;
		const float *pixels = s.projections + first, *rays = s.rays + first;
		/* Between the ends of a column its projection is on a line between theirs. */
		const bool inside = is_inside(s, line, 0) && is_inside(s, line, COLUMN - 1);
		if (__all_sync(~0u, inside))
			visit_view<W, SUMMED, true>(s, line, pixels, rays, sum);
		else
			visit_view<W, SUMMED, false>(s, line, pixels, rays, sum);
	}
	const int64_t slice = (int64_t)s.n[0] * s.n[1];
	float *to = s.volume + z * slice + (int64_t)y * s.n[0] + x;
	const int count = x < s.n[0] && y < s.n[1] ? s.n[2] - z : 0;
	if (SUMMED == VALUES)
		update_voxels<COLUMN, COLUMN>(
			s.update, to, slice, count, [&](int k) { return sum[k].x; });
	else
		update_voxels<COLUMN, COLUMN>(
			s.update, to, slice, count, [&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Whether a rectangle around the projection of a block has more pixels than the largest tiles of
 * voxel_back_any. */
static bool is_large(const KernelView *k, const double at[3])
{
	const double depth = form_at(k->depth, at), column = form_at(k->column, at) / depth,
		     row = form_at(k->row, at) / depth;
	double wide = 0, high = 0;
	for (int a = 0; a < 3; a++) {
		wide += fabs(k->column[a] - column * k->depth[a]) / depth * (int)BLOCK;
		high += fabs(k->row[a] - row * k->depth[a]) / depth * (int)BLOCK;
	}
	return wide * high > 0.95 * 52 * 52;
}

/* Whether voxels are so large that many blocks of voxel_back_any do not fit into its tiles and read
 * the image: of eight blocks in the outer part, in all views. Upright detectors have a kernel
 * without tiles, which is faster until most of them do not. */
static bool are_large(const ProjectRequest *what)
{
	const double most = rays_are(&what->plan->rays, RAYS_IN_SHEET) ? 0.6 : 0.15;
	int64_t large = 0;
	for (int64_t i = 0; i < 8 * what->count; i++) {
		double at[3];
		for (int a = 0; a < 3; a++) {
			const double low = (double)what->box.low[a],
				     high = (double)(what->box.high[a] - 1);
			at[a] = i >> a & 1 ? 0.125 * low + 0.875 * high
					   : 0.875 * low + 0.125 * high;
		}
		large += is_large(&what->plan->views[what->first + i / 8], at);
	}
	return (double)large > most * 8 * (double)what->count;
}

/* Not for a fan per row, where the depth does not divide the row. */
static bool few_applies(const ProjectRequest *what, CudaNotes *)
{
	const Plan *plan = what->plan;
	const KernelModel *model = &plan->model;
	const int source = plan->rays.source;
	if (!(what->count <= MOST_VIEWS || are_large(what)) || model->clamp || model->nearest ||
		model->planar || model->rows * model->columns > 1 << 30 ||
		!(source == TOMOS_POINT || source == TOMOS_PARALLEL))
		return false;
	for (int64_t i = 0; i < what->count; i++) {
		const Bounds bounds = bounds_of(plan, &plan->views[what->first + i]);
		if (!(bounds.least > 1e-3) ||
			!(fmax(bounds.size[0], fmax(bounds.size[1], bounds.size[2])) < (int)MOST))
			return false;
	}
	return true;
}

static CudaFusion few_fuses(
	const tomos_backend *, const ProjectRequest *, const CudaNotes *, const FusedUpdate *)
{
	return FUSES;
}

typedef void (*FewKernel)(const Few s);

template <Summed SUMMED> static FewKernel kernel_of(const ProjectRequest *what)
{
	const int weight = what->plan->model.weight;
	const bool source = what->plan->rays.source == TOMOS_POINT;
	return weight == WEIGHT_RAY && source     ? few_back<RAY, SUMMED>
	       : weight == WEIGHT_DEPTH && source ? few_back<DEPTH, SUMMED>
						  : few_back<EVEN, SUMMED>;
}

static tomos_status few_run(tomos_backend *backend, const ProjectRequest *what, const CudaNotes *,
	const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	Few s = {.count = (int)what->count,
		.rows = (unsigned)plan->model.rows,
		.columns = (unsigned)plan->model.columns,
		.weighed = plan->model.weight == WEIGHT_RAY,
		.projections = what->projections,
		.volume = what->volume};
	TRY(update_open(backend, what, epilogue, &s.update));
	TRY(cuda_plan(backend, plan, &kept));
	s.views = kept->views + what->first;
	s.rays = s.update.with.rays;
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = plan->whole.step[a];
	}
	const FewKernel kernel = !s.update.with.average ? kernel_of<VALUES>(what)
				 : s.rays               ? kernel_of<RAYS>(what)
							: kernel_of<ONES>(what);
	kernel<<<dim3(cuda_blocks(s.n[0], WIDE, 1 << 30), cuda_blocks(s.n[1], HIGH, 65535),
			 cuda_blocks(s.n[2], COLUMN, 65535)),
		dim3(WIDE, HIGH), 0, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("back projecting a few views");
	return TOMOS_OK;
}

extern const CudaKernel cuda_voxel_back_few;
const CudaKernel cuda_voxel_back_few = {few_applies, few_run, few_fuses};
