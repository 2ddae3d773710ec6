/* Joseph's forward projection for upright detectors: circular cone beam, fan beams and parallel
 * beam.
 *
 * The rays of one detector column are in one plane parallel to z (a sheet). A thread follows the
 * rays of RAYS neighbouring rows in one column. In every plane of the dominant axis a (x or y)
 * these rays pass between the same two columns of voxels. So each row of voxels is interpolated
 * between the two once, and used for the rays above and below it; along z, rays are interpolated as
 * in voxel_back_cone.cu, without rounding.
 *
 * A block computes the same pixels of GROUP neighbouring views: their rays read nearly the same
 * voxels, which are in L1 cache. Blocks of the same rows run concurrently, so that their slab is in
 * L2 cache. If views are so far apart that their rays have few voxels in common, a block computes a
 * patch of pixels of one view.
 */
#include "backend/cuda/kernels/upright.h"
#include "backend/cuda/kernels/transpose.h"

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
	const float *volume; /* [z][a][b]; b: the minor horizontal axis */
	int na, nb, nz;
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

template <int S, Where WHERE>
static __device__ __forceinline__ void plane(const Sheets *s, const float *at, float right, int i,
	int z, float t0, float more, int64_t slice, float sum[RAYS])
{
	bool left_in = (unsigned)i < (unsigned)s->nb,
	     right_in = (unsigned)(i + 1) < (unsigned)s->nb;
	float q[RAYS + S + 1];
#pragma unroll
	for (int k = 0; k < RAYS + S; k++)
		q[k] = mix<WHERE>(at + k * slice, right, left_in, right_in,
			(unsigned)(z + k) < (unsigned)s->nz);
#pragma unroll
	for (int k = 0; k < RAYS; k++) {
		float value = q[k];
#pragma unroll
		for (int j = 0; j < S; j++)
			value = fmaf(fma_saturate((float)k, more, t0 - (float)j),
				q[k + j + 1] - q[k + j], value);
		sum[k] += value;
	}
}

/* Adds planes k0 .. k0 + SEGMENT - 1 to the sums of the thread's rays. S: see sheet_segments. */
template <int S>
static __device__ void segment(const Sheets *s, const Path *path, int k0, float sum[RAYS])
{
	const int64_t slice = (int64_t)s->na * s->nb;
	double p = path->p + k0 * path->slope, z = path->z + k0 * path->climb;
	double whole_p = floor(p), whole_z = floor(z);
	float fp = (float)(p - whole_p), fz = (float)(z - whole_z);
	float slope = (float)path->slope, climb = (float)path->climb, widen = (float)path->widen;
	float more0 = (float)(path->gap + k0 * path->widen - 1);
	double p_end = p + (SEGMENT - 1) * path->slope, z_end = z + (SEGMENT - 1) * path->climb;
	/* reach: slices from the height of the first ray to the last slice that the rays read
	 * (see sheet_segments). Slabs may be thin, so that limits are as tight as float rounding
	 * allows (near). */
	const double reach = RAYS + S - 1, near = 1e-2;
	int planes = min(SEGMENT, s->na - k0);
	if (fmax(p, p_end) < -1 || fmin(p, p_end) > s->nb || fmax(z, z_end) + reach < 0 ||
		fmin(z, z_end) > s->nz + near)
		return;
	bool columns = fmin(p, p_end) >= 1e-4 && fmax(p, p_end) < s->nb - 1 - 1e-4;
	bool slices = fmin(z, z_end) >= S && fmax(z, z_end) + reach < s->nz - 1 - near;
	const int i0 = (int)whole_p, z0 = (int)whole_z;
	const float *from = s->volume + i0 + (int64_t)k0 * s->nb + z0 * slice;
	for (int k = 0; k < planes; k++, from += s->nb) {
		float pp = fmaf((float)k, slope, fp), left = floorf(pp), right = pp - left;
		float zz = fmaf((float)k, climb, fz), more = fmaf((float)k, widen, more0);
		float first = floorf(fminf(zz, fmaf((float)(RAYS - 1), more, zz)));
		const float *at = from + (int)left + (int)first * slice;
		int i = i0 + (int)left, lowest = z0 + (int)first;
		if (columns && slices)
			plane<S, INSIDE>(s, at, right, i, lowest, zz - first, more, slice, sum);
		else if (columns)
			plane<S, SLICES_BEYOND>(
				s, at, right, i, lowest, zz - first, more, slice, sum);
		else
			plane<S, BEYOND>(s, at, right, i, lowest, zz - first, more, slice, sum);
	}
}

/* First and end of the planes, in whole segments, in which rays of the warp are between the
 * first and the last slice of the box. mine: whether this thread has rays. */
template <int S> static __device__ int2 planes_between(const Sheets *s, const Path *path, bool mine)
{
	double below = -(RAYS + S) - path->z, above = s->nz + 1 - path->z, rate = 1 / path->climb;
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

/* Whether, in all planes of the segment, the distance of rows is so close to one voxel that S =
 * 2 suffices. */
static __device__ __forceinline__ bool is_near(const Path *path, int k0)
{
	double one = path->gap + k0 * path->widen - 1, other = one + (SEGMENT - 1) * path->widen;
	return fmax(fabs(one), fabs(other)) * (RAYS - 1) < 0.98;
}

/* Pixels of a block: the same ones in GROUP neighbouring views, or a patch of one view. */
typedef enum { OF_VIEWS, OF_PIXELS } Group;

template <int A, int S, Group OF>
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
	Path path = path_of(&s.grid, &s.model, &s.views[min(view, s.count - 1)], row, column);
	mine = mine && path.axis == A;
	float sum[RAYS] = {0};
	const int2 planes = planes_between<S>(&s, &path, mine);
	for (int k0 = planes.x;; k0 += SEGMENT) {
		bool goes_on = mine && k0 < planes.y;
		if (goes_on && S > 2 && is_near(&path, k0))
			segment<2>(&s, &path, k0, sum);
		else if (goes_on)
			segment<S>(&s, &path, k0, sum);
		/* The views of a block advance together, to read the same voxels from L1 cache. */
		if (OF == OF_VIEWS ? !__syncthreads_or(goes_on) : !goes_on)
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

static bool sheet_view(const ProjectRequest *what, const KernelView *k, double *low, double *high)
{
	const Plan *plan = what->plan;
	if (!plan->model.planar && !(k->v[2] > 0))
		return false;
	if (!KERNEL_HAS_SOURCE(k)) {
		*low = fmin(*low, k->v[2]);
		*high = fmax(*high, k->v[2]);
		return true;
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
	/* The dominant axis must be x or y for every ray. */
	double least = 1e300, most = 0;
	for (int corner = 0; corner < 4; corner++) {
		double c = corner & 1 ? (double)(plan->model.columns - 1) : 0;
		double r = corner & 2 ? (double)(plan->model.rows - 1) : 0;
		most = fmax(most, fabs(k->first[2] + r * k->v[2] - k->src[2]));
		least = fmin(least, hypot(k->first[0] + c * k->u[0] - k->src[0],
					    k->first[1] + c * k->u[1] - k->src[1]));
	}
	/* Between the corners rays are shorter than at them, by at most half the width of the
	 * detector. */
	least -= (double)plan->model.columns * hypot(k->u[0], k->u[1]) / 2;
	return plan->model.planar || most < least / 2;
}

bool sheet_views(const ProjectRequest *what, double *least, double *most)
{
	const RayClass *rays = &what->plan->rays;
	if (what->plan->model.clamp || !rays_are(rays, RAYS_UPRIGHT) ||
		(rays->source != TOMOS_POINT && !rays_are(rays, RAYS_LEVEL)))
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

double sheet_reach(const ProjectRequest *what, double *gap)
{
	double least, most, reach = 0;
	if (!sheet_views(what, &least, &most))
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
	*gap = what->plan->model.planar ? 1 : least;
	return reach * 1.1 < 8 ? reach * 1.1 : 0;
}

/* Number S of intervals between slices: ray k of a thread is between slices k and k + S, counted
 * from the lowest slice that its rays read. 2 or 3, by how far the distance of rows is from one
 * voxel; 0 where this kernel does not apply. */
static int sheet_segments(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	double low, high;
	if (model->planar || what->count <= FEW_VIEWS || model->rows < RAYS ||
		what->count > 65535 || !sheet_views(what, &low, &high))
		return 0;
	double differ = fmax(high - 1, 1 - low) * (RAYS - 1);
	return differ < 0.98 ? 2 : differ < 1.98 ? 3 : 0;
}

typedef struct {
	int segments;
	Group group;
} Notes;

/* Mean angle between consecutive views, in radians. */
static double view_angle(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	double sum = 0, last[2] = {0, 0};
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		double ray[2];
		for (int a = 0; a < 2; a++)
			ray[a] = !KERNEL_HAS_SOURCE(k)
					 ? k->src[a]
					 : k->first[a] - k->src[a] +
						   0.5 * (double)model->columns * k->u[a];
		if (i > 0)
			sum += fabs(atan2(last[0] * ray[1] - last[1] * ray[0],
				last[0] * ray[0] + last[1] * ray[1]));
		memcpy(last, ray, sizeof last);
	}
	return sum / (double)(what->count - 1);
}

/* Views share few voxels if the rays of neighbouring views are more than half a warp (in voxels)
 * apart at the border of the box. */
static Group group_of(const ProjectRequest *what)
{
	const Box *box = &what->box;
	int64_t wide = max64(box->high[0] - box->low[0], box->high[1] - box->low[1]);
	return view_angle(what) * 0.5 * (double)wide > WARP / 2 ? OF_PIXELS : OF_VIEWS;
}

static bool sheet_applies(const ProjectRequest *what, CudaNotes *notes)
{
	Notes *found = notes_of<Notes>(notes);
	found->segments = sheet_segments(what);
	if (found->segments > 0)
		found->group = group_of(what);
	return found->segments > 0;
}

template <Group OF>
static tomos_status run_axis(
	tomos_backend *backend, const ProjectRequest *what, Sheets s, int axis, int segments)
{
	typedef void (*SheetKernel)(const Sheets s);
	static const SheetKernel kernels[2][2] = {
		{sheet_forward<0, 2, OF>, sheet_forward<0, 3, OF>},
		{sheet_forward<1, 2, OF>, sheet_forward<1, 3, OF>}};
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
	const int views = OF == OF_VIEWS ? GROUP : 1, rows = OF == OF_PIXELS ? ABOVE * RAYS : RAYS,
		  columns = OF == OF_PIXELS ? SIDE_BY_SIDE * WARP : WARP;
	kernels[axis][segments - 2]<<<dim3(cuda_blocks(s.model.columns, columns, 1 << 30),
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
	for (int axis = 0; axis < 2; axis++)
		TRY((found->group == OF_VIEWS ? run_axis<OF_VIEWS> : run_axis<OF_PIXELS>)(backend,
			what, s, axis, found->segments));
	return TOMOS_OK;
}

extern const CudaKernel cuda_joseph_forward_upright;
const CudaKernel cuda_joseph_forward_upright = {sheet_applies, sheet_run};
