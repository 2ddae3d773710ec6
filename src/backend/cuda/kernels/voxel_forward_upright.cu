/* Voxel-driven forward projection for upright detectors, the exact transpose of the back
 * projection: pixels gather from the voxels that project within one pixel of them.
 *
 * A thread visits the voxels between two detector columns, in every plane of the dominant axis of
 * the rays, and adds them to ROWS pixels of both columns. Sums of the right column are passed to
 * the next thread.
 */
#include "backend/cuda/kernels/affine.h"
#include "backend/cuda/kernels/voxel_columns.h"
#include "backend/cuda/kernels/voxel_choice.h"

enum {
	WARP = 32,
	PAIRS = WARP - 1, /* detector columns of a warp: the first thread only passes sums */
	GROUP = 8, /* views per block: they read nearly the same voxels, which are in L1 cache */
	SEGMENT = 16,
};

/* ---- the planes of a segment ----------------------------------------------------------------- */

/* Columns of voxels this near to a detector column, in voxels, are looked at by both threads. */
#define EDGE 1e-4f

/* A quantity that is affine in planes and columns from those of a Local on. */
typedef struct {
	float at, by_plane, by_column;
} Affine;

static __device__ __forceinline__ float value_of(const Affine &f, float plane, float column)
{
	return fmaf(f.by_plane, plane, fmaf(f.by_column, column, f.at));
}

/* What does not change along a ray. */
typedef struct {
	float w[3], turn[2],
		curve; /* weight at p rows above row -1 and u pixels from the middle of the two
	                             * columns: w[0] + p w[1] + p^2 w[2] + u (turn[0] + p turn[1]) +
	                             * u^2 curve */
	float once[2],
		twice[2];      /* times (once[0] + once[1] / depth) (twice[0] + twice[1] / depth) */
	float gap[2], rate[2]; /* gap[0] + gap[1] depth, rate[0] + rate[1] / depth */
	float step[2];
	int left; /* the left detector column */
} Ray;

/* A view around plane `plane` and column `column`, in the middle of a segment and near its rays:
 * U - c D, D, the height of row -1 (from `slice` on), and the horizontal distance from the
 * source. */
typedef struct {
	Affine aside, depth, z;
	float away[2];
	float low[2], high[2]; /* between the detector columns on plane k: low[0] + k low[1] .. */
	float least, most;     /* columns of the box */
	float first, end;      /* planes of the segment */
	Slices slices;
	int plane, column, slice;
} Local;

static __device__ double squared(const double a[3], const double b[3])
{
	return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* The length of the ray to a point of a detector at depth 1. */
static __device__ double length_of(
	const VoxelColumns *s, const KernelView *k, double row, double column)
{
	double to[3];
	for (int a = 0; a < 3; a++)
		to[a] = (k->first[a] + column * k->u[a] + row * k->v[a] - k->src[a]) *
			s->grid.step[a];
	return sqrt(squared(to, to));
}

/* A parabola through rows -1, WINDOW / 2 - 1 and WINDOW - 1, and one through both columns and the
 * middle. */
static __device__ void weigh(
	const VoxelColumns *s, const KernelView *k, double row, double column, Ray *ray)
{
	const double mass = k->mass, half = WINDOW / 2;
	double l[3][3];
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			l[i][j] = mass * length_of(s, k, KERNEL_FANS(k) ? 0 : row - 1 + i * half,
						 column + j * 0.5);
	ray->w[0] = (float)l[0][1];
	ray->w[1] = (float)((4 * l[1][1] - 3 * l[0][1] - l[2][1]) / (2 * half));
	ray->w[2] = (float)((l[0][1] - 2 * l[1][1] + l[2][1]) / (2 * half * half));
	ray->turn[0] = (float)(l[0][2] - l[0][0]);
	ray->turn[1] = (float)((l[2][2] - l[2][0] - (l[0][2] - l[0][0])) / WINDOW);
	ray->curve = (float)(2 * (l[1][0] - 2 * l[1][1] + l[1][2]));
}

template <Weighing WEIGHING>
static __device__ Ray ray_of(
	const VoxelColumns *s, const KernelView *k, int64_t row, int64_t column)
{
	const bool fans = KERNEL_FANS(k), source = KERNEL_HAS_SOURCE(k);
	const bool rays = s->model.weight == WEIGHT_RAY, deep = s->model.weight == WEIGHT_DEPTH;
	const float inverse = (float)(1 / k->row[2]), climb = (float)k->row[2];
	Ray ray = {.w = {rays ? (float)k->mass : 1},
		.once = {1, 0},
		.twice = {1, 0},
		.gap = {fans ? inverse : 0, fans ? 0 : inverse},
		.rate = {fans ? climb : 0, fans ? 0 : climb},
		.step = {(float)s->grid.step[s->a], (float)s->grid.step[1 - s->a]},
		.left = (int)column};
	if (deep || (rays && source)) {
		ray.once[0] = 0;
		ray.once[1] = 1;
	}
	if (deep || (rays && source && !fans)) {
		ray.twice[0] = 0;
		ray.twice[1] = 1;
	}
	if (rays && source && WEIGHING != ROOT)
		weigh(s, k, (double)row, (double)column, &ray);
	return ray;
}

static __device__ Local local_of(const VoxelColumns *s, const KernelView *k, const Path *path,
	int64_t row, int64_t column, int segment)
{
	const int k0 = segment + SEGMENT / 2;
	const int b0 = (int)fmin(fmax(floor(path->p + k0 * path->slope), 0.0), (double)(s->nb - 1));
	const int a = s->a, b = 1 - a;
	double at[3] = {0, 0, (double)s->grid.low[2]};
	at[a] = (double)(s->grid.low[a] + k0);
	at[b] = (double)(s->grid.low[b] + b0);
	const bool fans = KERNEL_FANS(k);
	const double c = (double)column, r = (double)(row - 1), inverse = 1 / k->row[2];
	const double depth = affine(k->depth, at), u = affine(k->column, at) - c * depth;
	const double z = (r * (fans ? 1 : depth) - affine(k->row, at)) * inverse;
	const double near = fmin(fmax(floor(z), -1e6), 1e6), lower = fans ? 0 : r;
	const double along = k->column[a] - c * k->depth[a],
		     across = k->column[b] - c * k->depth[b];
	const double c0 = across > 0 ? 0 : 1,
		     c1 = 1 - c0; /* the lines where U / D = c + c0, c + c1 */
	const double left = 1 / (across - c0 * k->depth[b]),
		     right = 1 / (across - c1 * k->depth[b]);
	const float step = fans ? 0 : (float)s->grid.step[2];
	return Local{.aside = {(float)u, (float)along, (float)across},
		.depth = {(float)depth, (float)k->depth[a], (float)k->depth[b]},
		.z = {(float)(z - near), (float)((lower * k->depth[a] - k->row[a]) * inverse),
			(float)((lower * k->depth[b] - k->row[b]) * inverse)},
		.away = {(float)((at[a] - k->src[a]) * s->grid.step[a]),
			(float)((at[b] - k->src[b]) * s->grid.step[b])},
		.low = {(float)((c0 * depth - u) * left),
			(float)((c0 * k->depth[a] - along) * left)},
		.high = {(float)((c1 * depth - u) * right + EDGE),
			(float)((c1 * k->depth[a] - along) * right)},
		.least = (float)-b0,
		.most = (float)(s->nb - 1 - b0),
		.first = -SEGMENT / 2,
		.end = (float)(min(segment + SEGMENT, s->na) - k0),
		.slices = {(float)(-near - BORDER), (float)(s->nz - near),
			fans ? 0 : (float)((at[2] + near - k->src[2]) * s->grid.step[2]), step},
		.plane = k0,
		.column = b0,
		.slice = (int)near};
}

template <Weighing WEIGHING>
static __device__ __forceinline__ Column column_of(
	const Ray &ray, const Local &l, float plane, float column)
{
	const float depth = value_of(l.depth, plane, column), near = inverse_nearly(depth);
	const float right = value_of(l.aside, plane, column) * near, u = right - 0.5f;
	const float share = __saturatef(right), once = fmaf(near, ray.once[1], ray.once[0]),
		    twice = fmaf(near, ray.twice[1], ray.twice[0]);
	const float level = fmaf(u, fmaf(u, ray.curve, ray.turn[0]), ray.w[0]);
	const float scale = once * twice *
			    (WEIGHING == PARABOLA      ? 1
				    : WEIGHING == EVEN ? level
						       : ray.w[0] * near);
	Column c = {.z = value_of(l.z, plane, column),
		.gap = fmaf(depth, ray.gap[1], ray.gap[0]),
		.rate = fmaf(near, ray.rate[1], ray.rate[0]),
		.left = (1 - share) * scale,
		.right = share * scale};
	if (WEIGHING == ROOT) {
		const float x = fmaf(plane, ray.step[0], l.away[0]),
			    y = fmaf(column, ray.step[1], l.away[1]);
		c.square = fmaf(x, x, y * y);
	} else if (WEIGHING == PARABOLA) {
		c.w[0] = level;
		c.w[1] = fmaf(u, ray.turn[1], ray.w[1]);
		c.w[2] = ray.w[2];
	}
	return c;
}

/* Whether a column of voxels is at or to the right of a detector column. Two threads evaluate this
 * for the same voxels: both have to compute the same bits. */
static __device__ __forceinline__ bool beyond(
	const VoxelColumns *s, const KernelView *k, int detector, int plane, int column)
{
	const int x = s->a == 0 ? plane : column, y = s->a == 0 ? column : plane;
	const double at[2] = {(double)(s->grid.low[0] + x), (double)(s->grid.low[1] + y)};
	const double u = __fma_rn(k->column[0], at[0], __fma_rn(k->column[1], at[1], k->column[3]));
	const double depth =
		__fma_rn(k->depth[0], at[0], __fma_rn(k->depth[1], at[1], k->depth[3]));
	return __fma_rn(-(double)detector, depth, u) >= 0;
}

/* Whether a column of voxels is between the two detector columns; exact where it is near one. */
static __device__ __forceinline__ bool between(
	const VoxelColumns *s, const KernelView *k, int left, float right, int plane, int column)
{
	if (fabsf(right - 0.5f) < 0.499f)
		return true;
	const int first = right < 0.5f ? 1 : 0;
	return beyond(s, k, first ? left : left + 1, plane, column) == (first == 1);
}

/* The first column of plane k. */
static __device__ __forceinline__ float first_column(const Local &l, float k)
{
	const float low = fmaxf(fmaf(k, l.low[1], l.low[0]), l.least);
	return __fadd_rn(__fadd_rn(low + (0.5f - EDGE), MAGIC), -MAGIC);
}

/* Calls use(column, from) for every column of voxels between the detector columns. Each thread goes
 * from column to column and from plane to plane on its own: numbers of columns differ. */
template <Weighing WEIGHING, class Use>
static __device__ __forceinline__ void each_column(const VoxelColumns *s, const KernelView *view,
	const Ray &ray, const Local &l, const Use &use)
{
	const int skip = (s->lines - 1) * STRIP, before = l.column - __float_as_int(MAGIC);
	const int64_t plane = (int64_t)s->strips * s->lines * STRIP;
	const float *from =
		s->columns + (l.plane - SEGMENT / 2) * plane + (l.slice + BORDER) * STRIP;
	float k = l.first, b = first_column(l, k),
	      end = fminf(fmaf(k, l.high[1], l.high[0]), l.most);
	while (k < l.end) {
		const int i = __float_as_int(__fadd_rn(b, MAGIC)) + before;
		const float right =
			value_of(l.aside, k, b) * inverse_nearly(value_of(l.depth, k, b));
		if (b <= end && between(s, view, ray.left, right, l.plane + (int)k, i))
			use(column_of<WEIGHING>(ray, l, k, b), from + (i + (i >> 5) * skip));
		b += 1;
		if (b > end) {
			k += 1;
			from += plane;
			b = first_column(l, k);
			end = fminf(fmaf(k, l.high[1], l.high[0]), l.most);
		}
	}
}

/* Range of the rates on a segment, and whether the voxels in the rows are in the box. */
typedef struct {
	float low, high;
	bool met;
} Range;

static __device__ Range range_of(const Ray &ray, const Local &l)
{
	float near = 1e30f, far = 0, bottom = 1e30f, top = -1e30f;
#pragma unroll
	for (int corner = 0; corner < 4; corner++) {
		const float k = corner & 1 ? l.end - 1 : l.first;
		const float line =
			corner & 2 ? fmaf(k, l.high[1], l.high[0]) : fmaf(k, l.low[1], l.low[0]);
		const float b = fminf(fmaxf(line, l.least), l.most);
		const float depth = value_of(l.depth, k, b), z = value_of(l.z, k, b);
		near = fminf(near, depth);
		far = fmaxf(far, depth);
		bottom = fminf(bottom, z);
		top = fmaxf(top, fmaf(fmaf(depth, ray.gap[1], ray.gap[0]), (float)WINDOW, z));
	}
	const float side = 1e-2f;
	const float right =
		fmaxf(fmaf(l.first, l.high[1], l.high[0]), fmaf(l.end, l.high[1], l.high[0]));
	const float left =
		fminf(fmaf(l.first, l.low[1], l.low[0]), fmaf(l.end, l.low[1], l.low[0]));
	return Range{fmaf(1 / far, ray.rate[1], ray.rate[0]) * 0.9999f,
		fmaf(1 / near, ray.rate[1], ray.rate[0]) * 1.0001f,
		top > l.slices.low + BORDER - 1 - side && bottom < l.slices.high + side &&
			right > l.least - side && left < l.most + side};
}

/* The kind of span for all threads of a warp that meet voxels. */
static __device__ int warp_kind(const Range &range)
{
	float low = range.met ? range.low : 1e30f, high = range.met ? range.high : 0;
#pragma unroll
	for (int apart = WARP / 2; apart > 0; apart /= 2) {
		low = fminf(low, __shfl_xor_sync(~0u, low, apart));
		high = fmaxf(high, __shfl_xor_sync(~0u, high, apart));
	}
	return span_kind(low, high);
}

template <Weighing WEIGHING>
static __device__ __forceinline__ void visit_segment(const VoxelColumns *s, const KernelView *view,
	const Ray &ray, const Local &l, int kind, Sums &sums)
{
#define KIND(number, ...) \
	if (kind == number) \
		each_column<WEIGHING>( \
			s, view, ray, l, [&](const Column &column, const float *at) { \
				climb<Span<__VA_ARGS__>, WEIGHING>(l.slices, column, at, sums); \
			});
	SPAN_KINDS(KIND)
#undef KIND
	if (kind >= 0)
		return;
	each_column<WEIGHING>(s, view, ray, l, [&](const Column &column, const float *at) {
		float rows[ROWS];
		climb_any<WEIGHING>(l.slices, column, at, rows);
#pragma unroll
		for (int row = 1; row <= ROWS; row++)
			add_row(sums, column, row, rows[row - 1]);
	});
}

/* Adds the sums of the right column to those of the next thread's left one. */
static __device__ __forceinline__ void store(
	const VoxelColumns *s, const Sums &sums, int64_t view, int64_t row, int64_t column)
{
#pragma unroll
	for (int j = 0; j < ROWS; j++) {
		const float sum = sums.left[j] + __shfl_up_sync(~0u, sums.right[j], 1);
		if (threadIdx.x > 0 && view < s->count && column < s->model.columns &&
			row + j < s->model.rows)
			s->projections[(view * s->model.rows + row + j) * s->model.columns +
				       column] += sum;
	}
}

template <Weighing WEIGHING>
static __global__ void __launch_bounds__(WARP *GROUP, 2)
	columns_forward(const __grid_constant__ VoxelColumns s)
{
	const int64_t column = (int64_t)blockIdx.x * PAIRS + threadIdx.x - 1;
	const int64_t view = (int64_t)blockIdx.y * GROUP + threadIdx.y;
	const int64_t row = (int64_t)blockIdx.z * ROWS;
	const KernelView *k = &s.views[min(view, s.count - 1)];
	const Path path = path_of(&s.grid, &s.model, k, row, column);
	const bool mine = view < s.count && column < s.model.columns && path.axis == s.a;
	const Ray ray = ray_of<WEIGHING>(&s, k, row, column);
	Sums sums = {};
	for (int k0 = 0; k0 < s.na; k0 += SEGMENT) {
		const Local l = local_of(&s, k, &path, row, column, k0);
		Range range = range_of(ray, l);
		range.met = range.met && mine;
		const int kind = warp_kind(range);
		if (range.met)
			visit_segment<WEIGHING>(&s, k, ray, l, kind, sums);
		__syncthreads(); /* views of a block stay in step */
	}
	store(&s, sums, view, row, column);
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool view_applies(const ProjectRequest *what, const KernelView *k)
{
	if (!(k->row[2] > 1e-3)) /* rays nearly parallel to z */
		return false;
	for (int corner = 0; corner < 4; corner++) {
		double x = (double)(corner & 1 ? what->box.high[0] : what->box.low[0] - 1);
		double y = (double)(corner & 2 ? what->box.high[1] : what->box.low[1] - 1);
		double depth = k->depth[0] * x + k->depth[1] * y + k->depth[3];
		double u = (k->column[0] * x + k->column[1] * y + k->column[3]) / depth, most = 0;
		for (int a = 0; a < 2; a++)
			most = fmax(most, fabs(k->column[a] - u * k->depth[a]) / depth);
		if (!(depth > 1e-3) || most < 0.1) /* most: pixels of more than ten voxels */
			return false;
	}
	return true;
}

static bool upright_applies(const ProjectRequest *what, CudaNotes *notes)
{
	(void)notes;
	const KernelModel *model = &what->plan->model;
	const RayClass *rays = &what->plan->rays;
	if (model->planar || model->clamp || model->nearest || what->count > 65535 ||
		rays->source == SOURCES_MIXED || !rays_are(rays, RAYS_IN_SHEET))
		return false;
	for (int a = 0; a < 3; a++)
		if (what->plan->grid.n[a] > 1 << 20)
			return false;
	const KernelView *views = &what->plan->views[what->first];
	for (int64_t i = 0; i < what->count; i++)
		if (!view_applies(what, &views[i]))
			return false;
	return !voxel_any_is_faster(what);
}

/* The largest error of a parabola through three rows of WINDOW, relative to the ray's length. */
static double bend_error(const KernelGrid *grid, const KernelView *k)
{
	double to[3], u[3], v[3];
	for (int a = 0; a < 3; a++) {
		to[a] = (k->first[a] - k->src[a]) * grid->step[a];
		u[a] = k->u[a] * grid->step[a];
		v[a] = k->v[a] * grid->step[a];
	}
	const double n[3] = {
		u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
	const double area = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]),
		     high = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
	const double far = fabs(n[0] * to[0] + n[1] * to[1] + n[2] * to[2]) / area;
	return 0.055 * pow(WINDOW / 2 * high / far, 3);
}

static Weighing weighing_of(const ProjectRequest *what)
{
	double error = 0;
	if (what->plan->model.weight != WEIGHT_RAY || what->plan->rays.source != TOMOS_POINT)
		return EVEN;
	for (int64_t i = 0; i < what->count; i++)
		error = fmax(
			error, bend_error(&what->plan->whole, &what->plan->views[what->first + i]));
	return error < 4e-7 ? PARABOLA : ROOT;
}

static tomos_status run_axis(
	tomos_backend *backend, const ProjectRequest *what, VoxelColumns s, int axis)
{
	typedef void (*ForwardKernel)(const VoxelColumns s);
	static const ForwardKernel kernels[] = {
		columns_forward<EVEN>, columns_forward<PARABOLA>, columns_forward<ROOT>};
	const int n[2] = {(int)(what->box.high[0] - what->box.low[0]),
		(int)(what->box.high[1] - what->box.low[1])};
	cudaStream_t stream = device_of(backend)->stream;
	float *columns;
	s.a = axis;
	s.na = n[axis];
	s.nb = n[1 - axis];
	s.strips = (int)cuda_blocks(s.nb, STRIP, 1 << 30);
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, (int64_t)s.na * s.strips * s.lines * STRIP,
		&columns, "columns of voxels"));
	s.columns = columns;
	make_columns<<<dim3((unsigned)s.strips, cuda_blocks(s.na, STRIP, 65535),
			       cuda_blocks(s.lines, 1, 65535)),
		dim3(STRIP, 8), 0, stream>>>(s, what->volume, columns);
	CUDA_LAUNCHED("projecting");
	kernels[weighing_of(what)]<<<dim3(cuda_blocks(s.model.columns, PAIRS, 1 << 30),
					     cuda_blocks(what->count, GROUP, 65535),
					     cuda_blocks(s.model.rows, ROWS, 65535)),
		dim3(WARP, GROUP), 0, stream>>>(s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status upright_run(
	tomos_backend *backend, const ProjectRequest *what, const CudaNotes *, const CudaEpilogue *)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	const int nz = (int)(what->box.high[2] - what->box.low[2]);
	VoxelColumns s = {.grid = what->plan->whole,
		.model = what->plan->model,
		.views = kept->views + what->first,
		.count = what->count,
		.nz = nz,
		.lines = nz + 2 * BORDER,
		.projections = what->projections};
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	for (int axis = 0; axis < 2; axis++)
		TRY(run_axis(backend, what, s, axis));
	return TOMOS_OK;
}

extern const CudaKernel cuda_voxel_forward_upright;
const CudaKernel cuda_voxel_forward_upright = {upright_applies, upright_run};
