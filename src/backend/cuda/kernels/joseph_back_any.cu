/* Joseph's back projection of rays in any direction.
 *
 * A thread has a column of voxels along an axis e, and gathers from the rays that pass each of them
 * within one voxel on the plane of the dominant axis a: e is z for rays along x and y, and y for
 * rays along z, in a second pass. There the ray of pixel (c, r) is at
 *
 *     b = L / A,  e = Z / A,  L = L0 + c Lu + r Lv,  Z = Z0 + c Zu + r Zv,  A = 1 + c Au + r Av
 *
 * from the column's first voxel, in voxels, with c and r counted from a pixel near the block's
 * projection and A the ray's direction along a, relative to that pixel's. A thread goes over the
 * columns of pixels near its own projection; for each of them a span of voxels reads the rows that
 * it meets once. Rows and columns of pixels are exchanged where the columns follow e.
 */
#include "backend/cuda/kernels/joseph_back_any.h"

/* Bits of Notes.axes, and what they need. */
enum { LEVEL = 1 | 2, UPRIGHT = 4 };

typedef struct {
	int axes;     /* dominant axes that occur: 1, 2, 4 for x, y, z */
	bool swapped; /* in some view rows and columns are exchanged */
	bool point;   /* some view has a source */
} Notes;

/* Lines and strips of an image. */
static void image_size(const KernelModel *model, bool swapped, int *lines, int *strips)
{
	const int64_t most = max64(model->rows, model->columns);
	*lines = (int)((swapped ? most : model->rows) + 2 * BORDER);
	*strips = (int)(((swapped ? most : model->columns) + STRIP - 1) / STRIP);
}

/* Floats that a view takes of scratch. */
static int64_t view_floats(const KernelModel *model, bool swapped, bool pairs)
{
	int lines, strips;
	image_size(model, swapped, &lines, &strips);
	return (int64_t)lines * strips * STRIP * (pairs ? 4 : 2);
}

/* ---- which views ----------------------------------------------------------------------------- */

static bool is_in_front(const ProjectRequest *what, const KernelView *k)
{
	bool in_front = true;
	for (int corner = 0; corner < 8; corner++) {
		double depth = k->depth[3];
		for (int a = 0; a < 3; a++)
			depth += k->depth[a] * (double)(corner >> a & 1 ? what->box.high[a]
									: what->box.low[a] - 1);
		in_front = in_front && depth > 1e-2;
	}
	return in_front;
}

static void direction_at(const KernelView *k, double row, double column, double d[3])
{
	for (int i = 0; i < 3; i++)
		d[i] = !KERNEL_HAS_SOURCE(k)
			       ? k->src[i]
			       : k->first[i] + column * k->u[i] + row * k->v[i] - k->src[i];
}

/* Whether all rays are within 60 degrees of the middle one. */
static bool is_narrow(const KernelModel *model, const KernelView *k)
{
	const double row = (double)(model->rows - 1), column = (double)(model->columns - 1);
	double middle[3];
	bool narrow = true;
	direction_at(k, 0.5 * row, 0.5 * column, middle);
	for (int corner = 0; corner < 4; corner++) {
		double d[3], dot = 0, square = 0, other = 0;
		direction_at(k, corner & 1 ? row : 0, corner & 2 ? column : 0, d);
		for (int i = 0; i < 3; i++) {
			dot += d[i] * middle[i];
			square += d[i] * d[i];
			other += middle[i] * middle[i];
		}
		narrow = narrow && dot > 0.5 * sqrt(square * other);
	}
	return narrow;
}

/* Finds which axes are dominant on the detector, and whether rows follow each other along the
 * columns of voxels for all rays of each. */
static bool axes_apply(const ProjectRequest *what, const KernelView *plain, Notes *found)
{
	enum { SIDE = 5 };
	for (int a = 0; a < 3; a++) {
		KernelModel model = what->plan->model;
		const int facing = facing_of(plain, &model, a), e = along_of(a);
		const KernelView k = facing_view(plain, &model, facing);
		bool used = false;
		for (int i = 0; i < SIDE * SIDE; i++) {
			double d[3], c = (double)(model.columns - 1) * (i % SIDE) / (SIDE - 1),
				     r = (double)(model.rows - 1) * (int)(i / SIDE) / (SIDE - 1);
			direction_at(&k, r, c, d);
			const double most = fmax(fabs(d[0]), fmax(fabs(d[1]), fabs(d[2])));
			/* Between these pixels rays may be nearer to the axis. */
			if (fabs(d[a]) < 0.8 * most)
				continue;
			const double gap = k.v[e] - k.v[a] * d[e] / d[a];
			if (!(gap > 0.05 * fmax(fabs(k.v[0]), fmax(fabs(k.v[1]), fabs(k.v[2])))))
				return false;
			used = true;
		}
		found->axes |= used ? 1 << a : 0;
		found->swapped = found->swapped || (used && facing & SWAPPED);
	}
	return true;
}

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const KernelModel *model = &what->plan->model;
	Notes *found = notes_of<Notes>(notes);
	*found = Notes{};
	if (model->planar || model->clamp || view_floats(model, true, true) > INT32_MAX / 2)
		return false;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		if (KERNEL_FANS(k) || (KERNEL_HAS_SOURCE(k) && !is_in_front(what, k)) ||
			!is_narrow(model, k) || !axes_apply(what, k, found))
			return false;
		found->point = found->point || KERNEL_HAS_SOURCE(k);
	}
	return true;
}

/* ---- a whole request ------------------------------------------------------------------------- */

template <int E, typename Pixel>
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, const Gathers *s,
	int64_t first, bool point)
{
	enum { LINES = 8 };
	const float *rays = s->update.with.rays;
	const int64_t at = first * s->model.rows * s->model.columns;
	cudaStream_t stream = device_of(backend)->stream;
	make_images<E, Pixel>
		<<<dim3((unsigned)s->strips, cuda_blocks(s->count * s->lines * 2, LINES, 65535)),
			dim3(STRIP, LINES), 0, stream>>>(
			*s, what->projections + at, rays ? rays + at : NULL, (Pixel *)s->images);
	CUDA_LAUNCHED("back projecting");
	const dim3 blocks(cuda_blocks(s->n[0], WIDE, 1 << 30),
		cuda_blocks(s->n[1], E == 2 ? HIGH : COLUMN, 65535),
		cuda_blocks(s->n[2], E == 2 ? COLUMN : HIGH, 65535));
	if (point)
		any_back<E, true, Pixel><<<blocks, THREADS, 0, stream>>>(*s);
	else
		any_back<E, false, Pixel><<<blocks, THREADS, 0, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

/* One pass: columns along E. last: no other pass follows, so that bounds are applied. */
template <int E>
static tomos_status run_pass(tomos_backend *backend, const ProjectRequest *what, Gathers s,
	VoxelUpdate update, bool last, const Notes *found)
{
	const int64_t floats = view_floats(&s.model, found->swapped, update.with.average);
	const int64_t at_once = views_at_once(backend, what, floats);
	const KernelView *views = s.views;
	float *images;
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, at_once * floats, &images, "images with a border"));
	s.images = images;
	if (!last) {
		update.with.low = -INFINITY;
		update.with.high = INFINITY;
	}
	return views_each(&update, what->count, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = views + first;
			s.count = count;
			s.update = part;
			return (part.with.average ? run_views<E, float2>
						  : run_views<E, float>)(backend, what, &s, first,
				found->point);
		});
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const Notes *found = notes_of<Notes>(notes);
	const CudaPlan *kept;
	VoxelUpdate update;
	TRY(update_open(backend, what, epilogue, &update));
	TRY(cuda_plan(backend, plan, &kept));
	Gathers s = {.grid = plan->whole,
		.model = plan->model,
		.views = kept->views + what->first,
		.volume = what->volume};
	image_size(&s.model, found->swapped, &s.lines, &s.strips);
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	for (int a = 0; a < 3; a++)
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
	if (found->axes & LEVEL)
		TRY(run_pass<2>(backend, what, s, update, !(found->axes & UPRIGHT), found));
	if (found->axes & UPRIGHT)
		TRY(run_pass<1>(backend, what, s, update, true, found));
	return TOMOS_OK;
}

/* Division by the sum of the weights needs all views, and both passes, at once. */
static CudaFusion any_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	const Notes *found = notes_of<Notes>(notes);
	const bool both = found->axes & LEVEL && found->axes & UPRIGHT;
	const int64_t most = views_at_once(
		backend, what, view_floats(&what->plan->model, found->swapped, step->average));
	return !step->average || (!both && most == what->count) ? FUSES : FUSES_NOT;
}

extern const CudaKernel cuda_joseph_back_any;
const CudaKernel cuda_joseph_back_any = {any_applies, any_run, any_fuses};
