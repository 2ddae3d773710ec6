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

/* How the rays of one dominant axis are assigned to blocks. */
typedef struct {
	short group, along, most;
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
	const double across = RAYS * (WARP / shape->along) * (WARPS / shape->group);
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

/* Sizes of the rectangles that blocks of some views copy: most lines and voxels of a line; returns the
 * accesses to shared memory per ray and plane. */
static double sizes_of(
	const ProjectRequest *what, int a, const Shape *shape, int64_t blocks, double most[2])
{
	enum { RECTANGLES = 9 };
	const int b = a == 1 ? 0 : 1, c = a == 2 ? 0 : 2;
	const double n[2] = {(double)(what->box.high[b] - what->box.low[b]),
		(double)(what->box.high[c] - what->box.low[c])};
	const int64_t groups = (what->count + shape->group - 1) / shape->group;
	double area = 0;
	int used = 0;
	for (int64_t i = 0; i < blocks * RECTANGLES * 3; i++) {
		const int64_t first = groups * (i / 3 / RECTANGLES) / blocks * shape->group;
		const double plane =
			0.5 * (double)(i % 3) * (double)(what->box.high[a] - what->box.low[a] - 1);
		Extent e = {{1e300, 1e300}, {-1e300, -1e300}};
		double row[2], column[2];
		const KernelView *views = &what->plan->views[what->first];
		rectangle(what, shape, is_swapped(&views[first], c), (int)(i / 3 % RECTANGLES), row,
			column);
		for (int64_t v = first; v < min64(first + shape->group, what->count); v++)
			widen(what, &views[v], a, row, column, plane, &e);
		if (!(e.low[0] < n[0] && e.high[0] > -1 && e.low[1] < n[1] && e.high[1] > -1))
			continue;
		for (int m = 0; m < 2; m++)
			most[m] = fmax(most[m], e.high[m] - e.low[m] + 3 + (m ? COPIED - 1 : 0));
		area += (e.high[0] - e.low[0] + 3) * (e.high[1] - e.low[1] + 5);
		used++;
	}
	/* Lanes that are not side by side along c are mostly in the same banks. */
	return used ? area / used / (THREADS * RAYS) + 2.5 * (WARP / shape->along) : 1e9;
}

/* The shape with the fewest accesses to shared memory; false if none fits. */
static bool find_shape(const ProjectRequest *what, int a, Shape *best)
{
	enum { FEW = 16, MANY = 128 };
	double least = 1e300, most[2] = {0, 0};
	for (short along = 32; along >= 8; along /= 2)
		for (short group = 8; group >= 1; group /= 2) {
			most[0] = most[1] = 0;
			Shape shape = {group, along, 0};
			double cost = sizes_of(what, a, &shape, FEW, most);
			if (most[0] > (double)LINES_TWO || most[1] > (double)PITCH || cost >= least)
				continue;
			least = cost;
			*best = shape;
		}
	if (least == 1e300)
		return false;
	most[0] = 0;
	sizes_of(what, a, best, min64(MANY, (what->count + best->group - 1) / best->group), most);
	best->most = (short)(fmin(most[0] * 1.1 + 2, (double)LINES_TWO));
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
	if (model->clamp || model->planar || what->count > 65535)
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
	static const BundleKernel kernels[2][3] = {
		{bundle_forward<0, 2>, bundle_forward<1, 2>, bundle_forward<2, 2>},
		{bundle_forward<0, 4>, bundle_forward<1, 4>, bundle_forward<2, 4>}};
	const bool four = shape->most <= LINES_FOUR;
	const BundleKernel kernel = kernels[four][a];
	const int b = a == 1 ? 0 : 1,
		  across = RAYS * (WARP / shape->along) * (WARPS / shape->group);
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
		dim3(WARP, WARPS), bytes, device_of(backend)->stream>>>(*s);
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
