/* Joseph's forward projection of rays in any direction, from pieces of planes in shared memory.
 *
 * a is the dominant axis of a ray; each has its own launch. Of the other two, c is contiguous in
 * memory (z in a transposed copy or, for rays along z, x) and b is not. A block computes the pixels
 * of a rectangle in one or several neighbouring views: the lanes of a warp are along the detector
 * direction that is nearest to c, a thread has RAYS neighbours in the other direction. The block
 * advances along a by PLANES planes at a time. First it copies the voxels that its rays can read,
 * a rectangle of every plane, with zeros outside the box; then each thread samples its rays.
 *
 * In a plane, positions are integers in units of 2^-FRACTION voxels, modulo 2^32: that is exact
 * enough for any volume, and a ray advances by one addition.
 */
#include "backend/cuda/kernels/joseph_forward_any.h"

/* ---- a whole request ------------------------------------------------------------------------- */

/* So few views are too few blocks for a GPU. */
enum { FEW_VIEWS = 3 };

/* How the rays of one dominant axis are assigned to blocks. */
typedef struct {
	short warps, group, along, most;
} Shape;

typedef struct {
	int axes;
	Shape of[3];
} Notes;

/* Positions along b and c of the ray of a pixel in plane k of the box; false if a is not its
 * dominant axis. */
static bool position_of(const ProjectRequest *what, const KernelView *k, int a, double row,
	double column, double plane, double at[2])
{
	double d[3], start[3];
	direction_of(k, row, column, d);
	if (fabs(d[a]) < fmax(fabs(d[0]), fmax(fabs(d[1]), fabs(d[2]))))
		return false;
	for (int i = 0; i < 3; i++) {
		double own = KERNEL_FANS(k) ? row * k->v[i] : 0;
		start[i] = KERNEL_HAS_SOURCE(k) ? k->src[i] + own
						: k->first[i] + column * k->u[i] + row * k->v[i];
	}
	const int b = a == 1 ? 0 : 1, c = a == 2 ? 0 : 2;
	const double ahead = (plane + (double)what->box.low[a] - start[a]) / d[a];
	at[0] = start[b] + ahead * d[b] - (double)what->box.low[b];
	at[1] = start[c] + ahead * d[c] - (double)what->box.low[c];
	return true;
}

typedef struct {
	double low[2], high[2];
} Extent;

/* Widens an extent by the corners of a rectangle of pixels. */
static void widen(const ProjectRequest *what, const KernelView *k, int a, const double row[2],
	const double column[2], double plane, Extent *extent)
{
	for (int corner = 0; corner < 4; corner++) {
		double at[2];
		if (!position_of(what, k, a, row[corner & 1], column[corner >> 1], plane, at))
			continue;
		for (int i = 0; i < 2; i++) {
			extent->low[i] = fmin(extent->low[i], at[i]);
			extent->high[i] = fmax(extent->high[i], at[i]);
		}
	}
}

static bool is_swapped(const KernelView *k, int c)
{
	double u = fabs(k->u[0]) + fabs(k->u[1]) + fabs(k->u[2]);
	double v = fabs(k->v[0]) + fabs(k->v[1]) + fabs(k->v[2]);
	return fabs(k->u[c]) * v > fabs(k->v[c]) * u;
}

/* Rows and columns of rectangle number n of 9, spread over the detector. */
static void rectangle(const ProjectRequest *what, const Shape *shape, bool swap, int n,
	double row[2], double column[2])
{
	const KernelModel *model = &what->plan->model;
	const double across = RAYS * (WARP / shape->along) * (shape->warps / shape->group);
	const double sizes[2] = {swap ? across : shape->along, swap ? shape->along : across};
	const double all[2] = {(double)model->rows, (double)model->columns};
	double *of[2] = {row, column};
	for (int i = 0; i < 2; i++) {
		const int third = i == 0 ? n % 3 : n / 3;
		double size = fmin(sizes[i], all[i]);
		of[i][0] = floor(0.5 * third * (all[i] - size));
		of[i][1] = of[i][0] + size - 1;
	}
}

/* What a sample costs, in accesses to shared memory by a warp; if it is not there, and if lanes are
 * not side by side along c, which are mostly in the same banks. */
#define COST_BEYOND 100
#define COST_LANES 5.

static double cost_of(const Shape *shape, const Extent *e)
{
	const double lines = e->high[0] - e->low[0] + 3, wide = e->high[1] - e->low[1] + 6;
	const double most = shape->warps == MOST_WARPS ? (double)LINES_TWO : (double)LINES_FOUR;
	if (lines > most || wide > (double)PITCH)
		return COST_BEYOND;
	return COST_LANES * (WARP / shape->along) + 3 * lines * wide / (shape->warps * WARP * RAYS);
}

/* The rectangle of number `at` that a block copies: of a group of views, spread over `groups` of
 * them, a place on the detector and a plane of voxels. False if it is outside the box. */
static bool extent_of(const ProjectRequest *what, int a, const Shape *shape, int64_t groups,
	int64_t at, Extent *e)
{
	enum { RECTANGLES = 9, PARTS = RECTANGLES * 3 };
	const int b = a == 1 ? 0 : 1, c = a == 2 ? 0 : 2;
	const int64_t all = (what->count + shape->group - 1) / shape->group;
	const int64_t first = all * (at / PARTS) / groups * shape->group;
	const double plane =
		0.5 * (double)(at % 3) * (double)(what->box.high[a] - what->box.low[a] - 1);
	const KernelView *views = &what->plan->views[what->first];
	double row[2], column[2];
	rectangle(
		what, shape, is_swapped(&views[first], c), (int)(at / 3 % RECTANGLES), row, column);
	*e = Extent{{1e300, 1e300}, {-1e300, -1e300}};
	for (int64_t v = first; v < min64(first + shape->group, what->count); v++)
		widen(what, &views[v], a, row, column, plane, e);
	return e->low[0] < (double)(what->box.high[b] - what->box.low[b]) && e->high[0] > -1 &&
	       e->low[1] < (double)(what->box.high[c] - what->box.low[c]) && e->high[1] > -1;
}

/* Mean cost of a sample, and most lines of a rectangle that fits. */
static double shape_cost(
	const ProjectRequest *what, int a, const Shape *shape, int64_t groups, double *lines)
{
	double cost = 0;
	int used = 0;
	*lines = 0;
	for (int64_t i = 0; i < groups * 27; i++) {
		Extent e;
		if (!extent_of(what, a, shape, groups, i, &e))
			continue;
		const double own = cost_of(shape, &e);
		cost += own;
		used++;
		if (own < COST_BEYOND)
			*lines = fmax(*lines, e.high[0] - e.low[0] + 3);
	}
	return used ? cost / used : 0;
}

/* The shape with the least cost; false if few rectangles fit. */
static bool find_shape(const ProjectRequest *what, int a, Shape *best)
{
	enum { FEW = 40, MANY = 128 };
	double least = 16, lines;
	best->group = 0;
	for (int i = 0; i < 24; i++) {
		const Shape shape = {(short)(i < 12 ? MOST_WARPS : MOST_WARPS / 2),
			(short)(1 << i % 4), (short)(32 >> i / 4 % 3), 0};
		if (shape.group > shape.warps)
			continue;
		const double cost = shape_cost(what, a, &shape, FEW, &lines);
		if (cost < least)
			*best = shape;
		least = fmin(cost, least);
	}
	if (best->group == 0)
		return false;
	shape_cost(
		what, a, best, min64(MANY, (what->count + best->group - 1) / best->group), &lines);
	const double most = best->warps == MOST_WARPS ? (double)LINES_TWO : (double)LINES_FOUR;
	best->most = (short)fmin(lines * 1.1 + 2, most);
	return true;
}

static bool view_applies(const ProjectRequest *what, const KernelView *k)
{
	for (int corner = 0; corner < 8 && KERNEL_HAS_SOURCE(k); corner++) {
		double depth = k->depth[3];
		for (int a = 0; a < 3; a++)
			depth += k->depth[a] * (double)(corner >> a & 1 ? what->box.high[a]
									: what->box.low[a] - 1);
		if (!(depth > 1e-3)) /* rays may start inside the box */
			return false;
	}
	return true;
}

static bool bundle_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const KernelModel *model = &what->plan->model;
	Notes *found = notes_of<Notes>(notes);
	*found = Notes{};
	if (model->clamp || model->planar || what->count > 65535 || what->count <= FEW_VIEWS)
		return false;
	for (int a = 0; a < 3; a++)
		if (what->plan->grid.n[a] > MOST_VOXELS)
			return false;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		if (!view_applies(what, k))
			return false;
		found->axes |= axes_of(model, k);
	}
	for (int a = 0; a < 3; a++)
		if (found->axes >> a & 1 && !find_shape(what, a, &found->of[a]))
			return false;
	return cuda_has_shared(4 * LINES_FOUR * PITCH * (int)sizeof(float));
}

/* The volume with lines along c that are a multiple of COPIED: a copy, for a = x and y with z
 * contiguous, unless it is so already. */
static tomos_status bundle_volume(
	tomos_backend *backend, const ProjectRequest *what, int a, Bundles *s)
{
	const int64_t nx = what->box.high[0] - what->box.low[0],
		      ny = what->box.high[1] - what->box.low[1],
		      nz = what->box.high[2] - what->box.low[2];
	const int64_t n = a == 2 ? nx : nz, pitch = (n + COPIED - 1) / COPIED * COPIED;
	const bool plain = a == 2 && pitch == nx && (uintptr_t)what->volume % 16 == 0;
	float *copy;
	s->stride[0] = a == 2 ? pitch * ny : a == 1 ? pitch * nx : pitch;
	s->stride[1] = a == 0 ? pitch * nx : pitch;
	s->n[2] = (int)n;
	s->volume = what->volume;
	if (plain)
		return TOMOS_OK;
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, pitch * ny * (a == 2 ? nz : nx), &copy,
		"a transposed volume"));
	const Transposed upright = {.outside = what->volume,
		.inside = copy,
		.slices = nz,
		.pitch = pitch,
		.nj = nx,
		.nk = ny,
		.si = nx * ny,
		.sj = 1,
		.sk = nx};
	const Transposed padded = {.outside = what->volume,
		.inside = copy,
		.slices = nx,
		.pitch = pitch,
		.nj = ny,
		.nk = nz,
		.si = 1,
		.sj = nx,
		.sk = nx * ny};
	s->volume = copy;
	return transpose_in(backend, a == 2 ? &padded : &upright);
}

static tomos_status run_axis(
	tomos_backend *backend, const ProjectRequest *what, Bundles *s, int a, const Shape *shape)
{
	typedef void (*BundleKernel)(const Bundles s);
	static const BundleKernel kernels[3][3] = {
		{bundle_forward<0, 4, 2>, bundle_forward<1, 4, 2>, bundle_forward<2, 4, 2>},
		{bundle_forward<0, 8, 2>, bundle_forward<1, 8, 2>, bundle_forward<2, 8, 2>},
		{bundle_forward<0, 8, 4>, bundle_forward<1, 8, 4>, bundle_forward<2, 8, 4>}};
	const bool half = shape->warps < MOST_WARPS, four = !half && shape->most <= LINES_FOUR;
	const BundleKernel kernel = kernels[half ? 0 : four ? 2 : 1][a];
	const int b = a == 1 ? 0 : 1,
		  across = RAYS * (WARP / shape->along) * (shape->warps / shape->group);
	s->n[0] = (int)(what->box.high[a] - what->box.low[a]);
	s->n[1] = (int)(what->box.high[b] - what->box.low[b]);
	s->group = shape->group;
	s->along = shape->along;
	s->most = shape->most;
	TRY(bundle_volume(backend, what, a, s));
	TRY(cuda_take_shared((const void *)kernel));
	/* Enough blocks for rows along either direction of the detector. */
	const int64_t most = max64(s->model.rows, s->model.columns);
	const size_t bytes = (size_t)(four ? 4 : 2) * shape->most * PITCH * sizeof(float);
	kernel<<<dim3(cuda_blocks(most, across, 1 << 30),
			 cuda_blocks(what->count, shape->group, 65535),
			 cuda_blocks(most, shape->along, 65535)),
		dim3(WARP, (unsigned)shape->warps), bytes, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status bundle_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const Notes *found = notes_of<Notes>(notes);
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	Bundles s = {.grid = what->plan->whole,
		.model = what->plan->model,
		.views = kept->views + what->first,
		.count = (int)what->count,
		.projections = what->projections};
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	memcpy(s.grid.high, what->box.high, sizeof s.grid.high);
	for (int a = 0; a < 3; a++)
		if (found->axes >> a & 1)
			TRY(run_axis(backend, what, &s, a, &found->of[a]));
	return TOMOS_OK;
}

extern const CudaKernel cuda_joseph_forward_any;
const CudaKernel cuda_joseph_forward_any = {bundle_applies, bundle_run};
