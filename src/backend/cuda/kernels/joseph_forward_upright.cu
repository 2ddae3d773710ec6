/* Joseph's forward projection for upright detectors: circular cone beam, fan beams and parallel
 * beam.
 *
 * The rays of one detector column are in one plane parallel to z (a sheet). A thread follows the
 * rays of RAYS neighbouring rows in one column. In every plane of the dominant axis a (x or y)
 * these rays pass between the same two columns of voxels. So each row of voxels is interpolated
 * between the two once, and used for the rays above and below it; along z, rays are interpolated as
 * in points.h, without rounding.
 *
 * A block computes the same pixels of GROUP neighbouring views: their rays read nearly the same
 * voxels, which are in L1 cache. Views whose angles are in no order are sorted for that. Blocks of
 * the same rows run concurrently, so that their slab is in L2 cache. If views are so far apart that
 * their rays have few voxels in common, a block computes a patch of pixels of one view.
 */
#include "backend/cuda/kernels/points.h"
#include "backend/cuda/kernels/upright.h"

enum {
	WARP = 32,
	GROUP = 8,
	SIDE_BY_SIDE = 2, /* warps of a patch, along the row */
	ABOVE = GROUP / SIDE_BY_SIDE,
	RAYS = 8,
	SEGMENT = 32,
	FEW_VIEWS = 3
};

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int64_t count;
	const int *order;    /* OF_SORTED: of the views */
	const float *volume; /* [z][a][b]; b: the minor horizontal axis */
	int na, nb, nz;
	double tall; /* upper bound of the slices that the rays of a thread meet in one plane */
	float *projections;
} Sheets;

/* What may be outside the box: nothing, slices only, or slices and columns of voxels. */
typedef enum { INSIDE, SLICES_BEYOND, BEYOND } Where;

/* Value between voxels i (`at`) and i + 1 of a row along b; right: fraction of voxel i + 1. */
template <Where WHERE>
static __device__ __forceinline__ float mix(
	const float *at, float right, bool left_in, bool right_in, bool slice_in)
{
	float one = 0, two = 0;
	if (WHERE == INSIDE || (slice_in && (WHERE == SLICES_BEYOND || left_in)))
		one = __ldg(at);
	if (WHERE == INSIDE || (slice_in && (WHERE == SLICES_BEYOND || right_in)))
		two = __ldg(at + 1);
	return fmaf(right, two - one, one);
}

/* Adds one plane to P::N sums. z: first slice read, at `at`; t: height of the first ray relative to
 * it. */
template <class P, Where WHERE>
static __device__ __forceinline__ void plane(const Sheets *s, const float *at, float right, int i,
	int z, float t, float more, int64_t slice, float *sum)
{
	bool left_in = (unsigned)i < (unsigned)s->nb,
	     right_in = (unsigned)(i + 1) < (unsigned)s->nb;
	float q[P::SAMPLES];
#pragma unroll
	for (int k = 0; k < P::SAMPLES; k++)
		q[k] = mix<WHERE>(at + k * slice, right, left_in, right_in,
			(unsigned)(z + k) < (unsigned)s->nz);
	P::interpolate(q, t, more, [&](int k, float value) { sum[k] += value; });
}

/* Adds `planes` planes from k0 on to the sums of P::N rays from RAY on. */
template <class P, int RAY>
static __device__ __forceinline__ void segment(
	const Sheets *s, const Path *path, int k0, int planes, float *sum)
{
	const int64_t slice = (int64_t)s->na * s->nb;
	const double gap0 = path->gap + k0 * path->widen;
	double p = path->p + k0 * path->slope;
	double z = path->z + k0 * path->climb, climb_of_ray = path->climb;
	if (RAY > 0) { /* the compiler does not omit products with zero */
		z += RAY * gap0;
		climb_of_ray += RAY * path->widen;
	}
	double whole_p = floor(p), whole_z = floor(z);
	float fp = (float)(p - whole_p), fz = (float)(z - whole_z);
	float slope = (float)path->slope, climb = (float)climb_of_ray, widen = (float)path->widen;
	float more0 = (float)(gap0 - 0.5 * P::G);
	double p_end = p + (planes - 1) * path->slope, z_end = z + (planes - 1) * climb_of_ray;
	/* reach: slices from the height of the first ray to the last slice that the rays read.
	 * Slabs may be thin, so that limits are as tight as float rounding allows (near). */
	const double reach = P::LAST + P::S, near = 1e-2;
	if (fmax(p, p_end) < -1 || fmin(p, p_end) > s->nb || fmax(z, z_end) + reach < 0 ||
		fmin(z, z_end) > s->nz + near)
		return;
	bool columns = fmin(p, p_end) >= 1e-4 && fmax(p, p_end) < s->nb - 1 - 1e-4;
	bool slices = fmin(z, z_end) >= P::S && fmax(z, z_end) + reach < s->nz - 1 - near;
	const int i0 = (int)whole_p, z0 = (int)whole_z;
	const float *from = s->volume + i0 + (int64_t)k0 * s->nb + z0 * slice;
	for (int k = 0; k < planes; k++, from += s->nb) {
		float pp = fmaf((float)k, slope, fp), left = floorf(pp), right = pp - left;
		float zz = fmaf((float)k, climb, fz), more = fmaf((float)k, widen, more0);
		float first = P::first(zz, more);
		const float *at = from + (int)left + (int)first * slice;
		int i = i0 + (int)left, lowest = z0 + (int)first;
		if (columns && slices)
			plane<P, INSIDE>(s, at, right, i, lowest, zz - first, more, slice, sum);
		else if (columns)
			plane<P, SLICES_BEYOND>(
				s, at, right, i, lowest, zz - first, more, slice, sum);
		else
			plane<P, BEYOND>(s, at, right, i, lowest, zz - first, more, slice, sum);
	}
}

/* Adds planes k0 .. k0 + SEGMENT - 1, in shorter parts where the distance of rows changes so much
 * that no variant of Points fits all of them. */
template <int RANGE>
static __device__ __forceinline__ void segment_of_all(
	const Sheets *s, const Path *path, int k0, float sum[RAYS])
{
	const int end = min(k0 + SEGMENT, s->na);
	if constexpr (RANGE <= 1) {
		const float one = (float)(path->gap + k0 * path->widen);
		const float other = fmaf((float)(SEGMENT - 1), (float)path->widen, one);
		if (RANGE == 0 || Points<RAYS, 2, 2>::fit(fminf(one, other), fmaxf(one, other)))
			segment<Points<RAYS, 2, 2>, 0>(s, path, k0, end - k0, sum);
		else
			segment<Points<RAYS, 2, 3>, 0>(s, path, k0, end - k0, sum);
	} else
		for (int planes = SEGMENT; k0 < end; k0 += planes) {
			int kind;
			for (;; planes = planes > 8 ? 8 : 1) {
				float one = (float)(path->gap + k0 * path->widen);
				float other = fmaf((float)(planes - 1), (float)path->widen, one);
				kind = points_kind<RANGE>(fminf(one, other), fmaxf(one, other));
				if (kind >= 0 || planes == 1)
					break;
			}
			points_visit<RANGE>(kind, [&](auto points) {
				typedef decltype(points) P;
				static_assert(P::N == RAYS || 2 * P::N == RAYS, "one or two calls");
				segment<P, 0>(s, path, k0, min(planes, end - k0), sum);
				if constexpr (P::N < RAYS)
					segment<P, P::N>(
						s, path, k0, min(planes, end - k0), sum + P::N);
			});
		}
}

/* First and end of the planes, in whole segments, in which rays of the warp are between the
 * first and the last slice of the box. mine: whether this thread has rays. */
static __device__ int2 planes_between(const Sheets *s, const Path *path, bool mine)
{
	double below = -s->tall - path->z, above = s->nz + 1 - path->z, rate = 1 / path->climb;
	double low = path->climb > 0 ? below * rate : above * rate;
	double high = path->climb > 0 ? above * rate : below * rate;
	if (fabs(path->climb) < RAY_LEVEL) {
		low = below <= 0 && above >= 0 ? 0 : s->na;
		high = s->na;
	}
	int first = mine ? (int)fmin(fmax(low, 0.0), (double)s->na) : s->na;
	int end = mine ? (int)fmin(fmax(high + 1, 0.0), (double)s->na) : 0;
#pragma unroll
	for (int apart = WARP / 2; apart > 0; apart /= 2) {
		first = min(first, __shfl_xor_sync(~0u, first, apart));
		end = max(end, __shfl_xor_sync(~0u, end, apart));
	}
	return make_int2(first / SEGMENT * SEGMENT, end);
}

/* Pixels of a block: the same ones in GROUP neighbouring views, as they are given or sorted, or a
 * patch of one view. */
typedef enum { OF_VIEWS, OF_SORTED, OF_PIXELS } Group;

template <int A, int RANGE, Group OF>
static __global__ void __launch_bounds__(WARP *GROUP, 3)
	sheet_forward(const __grid_constant__ Sheets s)
{
	int64_t column = (int64_t)blockIdx.x * WARP + threadIdx.x;
	int64_t view = (int64_t)blockIdx.y * GROUP + threadIdx.y, row = (int64_t)blockIdx.z * RAYS;
	if (OF == OF_PIXELS) {
		column = ((int64_t)blockIdx.x * SIDE_BY_SIDE + threadIdx.y % SIDE_BY_SIDE) * WARP +
			 threadIdx.x;
		view = blockIdx.y;
		row = ((int64_t)blockIdx.z * ABOVE + threadIdx.y / SIDE_BY_SIDE) * RAYS;
	}
	bool mine = view < s.count && column < s.model.columns && row < s.model.rows;
	if (OF == OF_SORTED)
		view = s.order[min(view, s.count - 1)];
	Path path = path_of(&s.grid, &s.model, &s.views[min(view, s.count - 1)], row, column);
	mine = mine && path.axis == A;
	float sum[RAYS] = {0};
	const int2 planes = planes_between(&s, &path, mine);
	for (int k0 = planes.x;; k0 += SEGMENT) {
		bool goes_on = mine && k0 < planes.y;
		if (goes_on)
			segment_of_all<RANGE>(&s, &path, k0, sum);
		/* The views of a block advance together, to read the same voxels from L1 cache. */
		if (OF != OF_PIXELS ? !__syncthreads_or(goes_on) : !goes_on)
			break;
	}
	if (!mine)
		return;
#pragma unroll
	for (int j = 0; j < RAYS; j++)
		if (row + j < s.model.rows)
			s.projections[(view * s.model.rows + row + j) * s.model.columns + column] +=
				sum[j] * step_of(&s.grid, &s.views[view], row + j, column, A);
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Whether z may be the dominant axis of some ray of a point source. The larger of x and y is at
 * least 1 / sqrt(2) of the horizontal distance from the source to the detector. */
static bool is_steep(const KernelModel *model, const KernelView *k)
{
	const double last[2] = {k->first[0] + (double)(model->columns - 1) * k->u[0],
		k->first[1] + (double)(model->columns - 1) * k->u[1]};
	const double ends[2] = {k->first[2] - k->src[2],
		k->first[2] + (double)(model->rows - 1) * k->v[2] - k->src[2]};
	double a[2] = {k->first[0] - k->src[0], k->first[1] - k->src[1]};
	double d[2] = {last[0] - k->first[0], last[1] - k->first[1]};
	double square = d[0] * d[0] + d[1] * d[1];
	double at = square > 0 ? -(a[0] * d[0] + a[1] * d[1]) / square : 0;
	at = fmin(fmax(at, 0.0), 1.0);
	double least = hypot(a[0] + at * d[0], a[1] + at * d[1]);
	return fmax(fabs(ends[0]), fabs(ends[1])) * sqrt(2) * (1 + 1e-6) >= least;
}

static bool sheet_view(const ProjectRequest *what, const KernelView *k, double *low, double *high)
{
	const Plan *plan = what->plan;
	if (!plan->model.planar && !(k->v[2] > 0))
		return false;
	if (!KERNEL_HAS_SOURCE(k)) {
		const int a = fabs(k->src[0]) >= fabs(k->src[1]) ? 0 : 1;
		const double gap = k->v[2] - k->v[a] * k->src[2] / k->src[a];
		*low = fmin(*low, gap);
		*high = fmax(*high, gap);
		return gap > 0 && fabs(k->src[a]) > fabs(k->src[2]) * (1 + 1e-6);
	}
	for (int corner = 0; corner < 8; corner++) {
		double depth = k->depth[3];
		for (int a = 0; a < 3; a++)
			depth += k->depth[a] * (double)(corner >> a & 1 ? what->box.high[a]
									: what->box.low[a] - 1);
		double widened = (KERNEL_FANS(k) ? 1 : depth) * k->v[2];
		*low = fmin(*low, widened);
		*high = fmax(*high, widened);
		if (!(depth > 1e-3)) /* the source is too near: rays may start inside the box */
			return false;
	}
	if (KERNEL_FANS(k))
		return true;
	return plan->model.planar || !is_steep(&plan->model, k);
}

bool sheet_views(const ProjectRequest *what, double *least, double *most)
{
	const RayClass *rays = &what->plan->rays;
	const int families = rays->source == TOMOS_POINT      ? RAYS_UPRIGHT
			     : rays->source == TOMOS_PARALLEL ? RAYS_IN_SHEET
							      : RAYS_UPRIGHT | RAYS_LEVEL;
	if (what->plan->model.clamp || !rays_are(rays, families))
		return false;
	for (int a = 0; a < 3; a++)
		if (what->plan->grid.n[a] > 1 << 20)
			return false;
	*least = 1e300;
	*most = 0;
	for (int64_t i = 0; i < what->count; i++)
		if (!sheet_view(what, &what->plan->views[what->first + i], least, most))
			return false;
	return true;
}

double sheet_reach(const ProjectRequest *what, double *gap, double *most)
{
	double reach = 0;
	if (!sheet_views(what, gap, most))
		return 0;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		for (int corner = 0; corner < 4; corner++) {
			double x = (double)(corner & 1 ? what->box.high[0] : what->box.low[0] - 1);
			double y = (double)(corner & 2 ? what->box.high[1] : what->box.low[1] - 1);
			double depth = k->depth[0] * x + k->depth[1] * y + k->depth[3];
			double u = (k->column[0] * x + k->column[1] * y + k->column[3]) / depth;
			for (int a = 0; a < 2; a++)
				reach = fmax(reach, fabs(k->column[a] - u * k->depth[a]) / depth);
		}
	}
	*gap = what->plan->model.planar ? 1 : *gap;
	return reach * 1.1 < 8 ? reach * 1.1 : 0;
}

/* Direction and height of the ray in the middle of a view. */
typedef struct {
	double angle, height;
} Heading;

static __host__ __device__ Heading heading_of(const KernelModel *model, const KernelView *k)
{
	const double column = 0.5 * (double)model->columns, row = 0.5 * (double)model->rows;
	double at[3], d[2];
	for (int a = 0; a < 3; a++)
		at[a] = k->first[a] + column * k->u[a] + row * k->v[a];
	for (int a = 0; a < 2; a++)
		d[a] = KERNEL_HAS_SOURCE(k) ? at[a] - k->src[a] : k->src[a];
	return Heading{atan2(d[1], d[0]), KERNEL_HAS_SOURCE(k) ? k->src[2] : at[2]};
}

typedef struct {
	int range; /* of the distances of rows, see points.h */
	double tall;
	Group group;
} Notes;

static int by_angle(const void *a, const void *b)
{
	const double one = ((const Heading *)a)->angle, two = ((const Heading *)b)->angle;
	return (one > two) - (one < two);
}

/* How far the rays of consecutive views are apart, in voxels, at `radius` from the middle. */
static double mean_distance(const Heading *views, int64_t count, double radius)
{
	double sum = 0;
	for (int64_t i = 1; i < count; i++)
		sum += fmax(radius * fabs(remainder(views[i].angle - views[i - 1].angle, 2 * M_PI)),
			fabs(views[i].height - views[i - 1].height));
	return sum / (double)(count - 1);
}

/* Views share few voxels if the rays of neighbouring views are more than half a warp (in voxels)
 * apart at the border of the box. They are sorted if that brings them nearer to each other. */
static bool group_views(const ProjectRequest *what, Notes *notes)
{
	const Box *box = &what->box;
	const double radius =
		0.5 * (double)max64(box->high[0] - box->low[0], box->high[1] - box->low[1]);
	Heading *views;
	if (mem_alloc(&views, what->count, sizeof *views, "directions of views") != TOMOS_OK)
		return false;
	for (int64_t i = 0; i < what->count; i++)
		views[i] = heading_of(&what->plan->model, &what->plan->views[what->first + i]);
	const double given = mean_distance(views, what->count, radius);
	qsort(views, (size_t)what->count, sizeof *views, by_angle);
	const double least = fmin(given, mean_distance(views, what->count, radius));
	mem_free(views);
	notes->group = least > WARP / 2 ? OF_PIXELS : least < 0.5 * given ? OF_SORTED : OF_VIEWS;
	return true;
}

/* The place of each view in the order of angles: as many as are before it. */
static __global__ void sort_views(const __grid_constant__ Sheets s, int *order)
{
	const int64_t view = blockIdx.x;
	const double own = heading_of(&s.model, &s.views[view]).angle;
	int before = 0;
	for (int64_t i = threadIdx.x; i < s.count; i += WARP) {
		const double angle = heading_of(&s.model, &s.views[i]).angle;
		before += angle < own || (angle == own && i < view);
	}
	for (int lane = WARP / 2; lane > 0; lane /= 2)
		before += __shfl_xor_sync(~0u, before, lane);
	if (threadIdx.x == 0)
		order[before] = (int)view;
}

static tomos_status find_order(tomos_backend *backend, Sheets *s)
{
	float *order;
	TRY(cuda_scratch(backend, SCRATCH_LISTS, s->count, &order, "the order of views"));
	sort_views<<<(unsigned)s->count, WARP, 0, device_of(backend)->stream>>>(*s, (int *)order);
	CUDA_LAUNCHED("sorting views");
	s->order = (const int *)order;
	return TOMOS_OK;
}

static bool sheet_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const KernelModel *model = &what->plan->model;
	Notes *found = notes_of<Notes>(notes);
	double low, high;
	if (model->planar || what->count <= FEW_VIEWS || model->rows < RAYS ||
		what->count > 65535 || !sheet_views(what, &low, &high) || low < LEAST_RATE ||
		high > MOST_RATE)
		return false;
	found->range = points_range(low, high);
	found->tall = (RAYS - 1) * high + 4;
	return group_views(what, found);
}

template <Group OF>
static tomos_status run_axis(
	tomos_backend *backend, const ProjectRequest *what, Sheets s, int axis, int range)
{
	typedef void (*SheetKernel)(const Sheets s);
	static const SheetKernel kernels[2][POINT_RANGES] = {
		{sheet_forward<0, 0, OF>, sheet_forward<0, 1, OF>, sheet_forward<0, 2, OF>,
			sheet_forward<0, 3, OF>},
		{sheet_forward<1, 0, OF>, sheet_forward<1, 1, OF>, sheet_forward<1, 2, OF>,
			sheet_forward<1, 3, OF>}};
	cudaStream_t stream = device_of(backend)->stream;
	int nx = (int)(what->box.high[0] - what->box.low[0]);
	int ny = (int)(what->box.high[1] - what->box.low[1]);
	s.na = axis == 0 ? nx : ny;
	s.nb = axis == 0 ? ny : nx;
	s.volume = what->volume;
	if (axis == 0) {
		float *transposed;
		TRY(cuda_scratch(backend, SCRATCH_REORDERED, (int64_t)nx * ny * s.nz, &transposed,
			"a transposed volume"));
		const Transposed transposition =
			transposed_planes(what->volume, transposed, nx, ny, s.nz);
		TRY(transpose_in(backend, &transposition));
		s.volume = transposed;
	}
	const int views = OF == OF_PIXELS ? 1 : GROUP, rows = OF == OF_PIXELS ? ABOVE * RAYS : RAYS,
		  columns = OF == OF_PIXELS ? SIDE_BY_SIDE * WARP : WARP;
	kernels[axis][range]<<<dim3(cuda_blocks(s.model.columns, columns, 1 << 30),
				       cuda_blocks(what->count, views, 65535),
				       cuda_blocks(s.model.rows, rows, 65535)),
		dim3(WARP, GROUP), 0, stream>>>(s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status sheet_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	Sheets s = {.grid = what->plan->whole,
		.model = what->plan->model,
		.views = kept->views + what->first,
		.count = what->count,
		.nz = (int)(what->box.high[2] - what->box.low[2]),
		.projections = what->projections};
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	const Notes *found = notes_of<Notes>(notes);
	s.tall = found->tall;
	if (found->group == OF_SORTED)
		TRY(find_order(backend, &s));
	for (int axis = 0; axis < 2; axis++)
		TRY((found->group == OF_VIEWS ? run_axis<OF_VIEWS>
			: found->group == OF_SORTED
				? run_axis<OF_SORTED>
				: run_axis<OF_PIXELS>)(backend, what, s, axis, found->range));
	return TOMOS_OK;
}

extern const CudaKernel cuda_joseph_forward_upright;
const CudaKernel cuda_joseph_forward_upright = {sheet_applies, sheet_run};
