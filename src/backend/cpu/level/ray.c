/* Joseph's method for rays of any kind: cone beams with tilted detectors, sources anywhere.
 *
 * The SIMD lanes are LANES rays of neighbouring detector rows, or of one row (ray_walk.h), which
 * advance together from plane to plane. The volume is processed in parts of PLANES planes. The
 * positions of a vector of rays in all planes are computed before voxels are read: a processor
 * overlaps more planes of two short loops than of one long loop. In the copy of a part, the four
 * voxels around a ray are consecutive (ray.h), so a ray needs one load per plane; loads of four
 * rays are transposed. The adjoint adds to the same four floats, and derivatives with respect to
 * poses (kernel/pose.h) are sums over them. In a single slice with in-slice rays, a ray has two
 * voxels instead of four.
 */
#include "base/team.h"
#include "backend/cpu/level/density.h"
#include "backend/cpu/level/ray_walk.h"
#include "backend/cpu/level/ray_window.h"
#include "backend/cpu/level/transpose.h"

enum {
	HIGH = 64,                                          /* rows of a part */
	WIDE = 96,                                          /* voxels of a row */
	PART_FLOATS = PLANES * (HIGH + 2) * 2 * (WIDE + 3), /* 1.7 MB */
	SLACK = WIDE + 3 + 2 * WINDOW, /* floats that windows read before and after `single` */
	SINGLE_FLOATS = LANES > 8 ? PLANES *(HIGH + 3) * (WIDE + 3) + 2 * SLACK : 0,
	LEAST_VIEWS = 16, /* that repay a second copy, with */
	LEAST_RAYS = 12,  /* of all of them for each voxel */
	LEAST_TILES = 64, /* back */
	LEAST_ROWS = 32,
	CLEARED = 1 << 14, /* floats of `single` that a task clears */
};
static const int64_t part_size[3] = {PLANES, HIGH, WIDE}, planar_size[3] = {PLANES, 1, 256};

bool LEVEL(ray_applies)(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	for (int a = 0; a < 3; a++)
		if (plan->grid.n[a] > (int64_t)(FAR / 2))
			return false;
	return !plan->model.clamp && plan->model.columns < (int64_t)FAR;
}

/* Voxels between neighbouring rays, beyond those that a window has (ray_window.h). */
static double window_lacks(const ProjectRequest *what, const Density *d, bool circle)
{
	(void)what, (void)circle;
	return LANES / d->columns - (WINDOW - 3);
}

static double rays_of_all(const ProjectRequest *what)
{
	const int64_t views = min64(SAMPLED_VIEWS, what->count);
	double rays = 0;
	for (int64_t i = 0; i < views; i++)
		rays += rays_per_voxel(what, i * what->count / views);
	return rays * (double)what->count / (double)views;
}

/* Without windows of voxels, which forward projection has in 3D, a load or store per lane takes
 * most of the time: vectors that are processed in halves have no advantage then. Windows need a
 * second copy of the volume. */
static bool ray_slower(const ProjectRequest *what)
{
	if (LANES <= 8)
		return false;
	if (what->direction == ADJOINT || what->plan->model.planar)
		return what->direction == ADJOINT || cpu_halves_vectors();
	return what->count < LEAST_VIEWS || rays_of_all(what) < LEAST_RAYS ||
	       (cpu_halves_vectors() && slower_in_sum(what, false, window_lacks));
}

/* ---- forward --------------------------------------------------------------------------------- */

static void fill_planar(const Forward *f)
{
	const RayPart *part = &f->part;
	const float *from = ray_voxels(part);
	memset(f->copy, 0, (size_t)(part->n[0] * part->plane) * sizeof *f->copy);
	for (int64_t k = 0; k < part->n[0]; k++)
		for (int64_t c = 0; c < part->n[2]; c++)
			f->copy[k * part->plane + c + 1] =
				from[k * part->stride[0] + c * part->stride[2]];
}

/* The voxels of a row in all planes, or zeros beside the part. */
typedef float RayLines[PLANES][WIDE];

static void take_row(const RayPart *part, int64_t row, RayLines lines)
{
	const float *from = ray_voxels(part) + row * part->stride[1];
	if (row < 0 || row >= part->n[1])
		memset(lines, 0, sizeof(RayLines));
	else if (part->stride[2] == 1)
		for (int64_t k = 0; k < part->n[0]; k++)
			memcpy(lines[k], from + k * part->stride[0],
				(size_t)part->n[2] * sizeof(float));
	else
		transpose_rows(from, part->stride[2], lines[0], WIDE, part->n[2], part->n[0],
			part->what->box.high[0] - part->box.low[0]);
}

/* Fills row `index` of all planes of `single`, the copy that has each voxel once. */
static void fill_single(const Forward *f, int64_t index, RayLines lines)
{
	const RayPart *part = &f->part;
	int64_t width = part->n[2] + 3;
	for (int64_t k = 0; k < part->n[0]; k++) {
		float *to = f->single + (k * (part->n[1] + 3) + index) * width;
		to[0] = to[width - 2] = to[width - 1] = 0;
		memcpy(to + 1, lines[k], (size_t)part->n[2] * sizeof *to);
	}
}

/* Fills row `index` of all planes of both copies; the last row exists in `single` only. */
static void fill_row(void *user, int64_t index)
{
	const Forward *f = user;
	const RayPart *part = &f->part;
	const int64_t wide = part->n[2];
	RayLines low, high;
	take_row(part, index - 1, low);
	if (f->single)
		fill_single(f, index, low);
	if (index == part->n[1] + 2)
		return;
	take_row(part, index, high);
	for (int64_t k = 0; k < part->n[0]; k++) {
		float *to = f->copy + k * part->plane + index * part->row + 2;
		int64_t c = 0;
		memset(to - 2, 0, 2 * sizeof *to);
		for (; c + LANES <= wide; c += LANES)
			vf_store_pairs(to + 2 * c, vf_load(low[k] + c), vf_load(high[k] + c));
		for (; c < wide; c++) {
			to[2 * c] = low[k][c];
			to[2 * c + 1] = high[k][c];
		}
		memset(to + 2 * wide, 0, 4 * sizeof *to);
	}
}

INLINE vf sum_path(
	const float *plane, int64_t stride, int64_t planes, const Path *path, const int planar)
{
	vf sum = {0};
	for (int64_t k = 0; k < planes; k++, plane += stride) {
		vf x[4], low, high;
		if (planar) {
			low = vf_load_twos(plane, &path->at[k], &high);
		} else {
			vf_load_fours_at(plane, (const int32_t *)&path->at[k], x);
			low = x[0] + path->across[k] * (x[1] - x[0]);
			high = x[2] + path->across[k] * (x[3] - x[2]);
		}
		sum += low + path->along[k] * (high - low);
	}
	return sum;
}

/* Sums of LANES rays over the planes of the part. */
INLINE vf sum_rays(const Forward *f, const RayPart *part, Rays *rays, const int planar)
{
	Path path;
	rays_path(part, rays, planar ? 1 : 2, &path);
	return rays->step * sum_path(f->copy + rays->from * part->plane, part->plane,
				    rays->to - rays->from, &path, planar);
}

static inline void add_pixels(float *pixels, const Rays *rays, vf sums)
{
	if (rays->pitch == 1)
		vf_add_some(pixels, rays->count, sums);
	for (int64_t l = 0; rays->pitch != 1 && l < rays->count; l++)
		pixels[l * rays->pitch] += sums[l];
}

static inline void forward_rays(void *user, const RayPart *part, float *image, Rays *rays)
{
#if defined TOMOS_LEVEL_avx512
	const Forward *f = user;
	WindowEdge edges[2];
	const bool three = rays->alike && window_edges(rays, 3, edges);
	if (three || (rays->alike && window_edges(rays, 4, edges))) {
		vf sums = !three         ? sum_windows(f, rays, edges, 4, 0)
			  : rays->inside ? sum_windows(f, rays, edges, 3, 1)
					 : sum_windows(f, rays, edges, 3, 0);
		add_pixels(image + rays->pixel, rays, sums);
		return;
	}
#endif
	add_pixels(image + rays->pixel, rays, sum_rays(user, part, rays, 0));
}

static inline void forward_planar(void *user, const RayPart *part, float *image, Rays *rays)
{
	add_pixels(image + rays->pixel, rays, sum_rays(user, part, rays, 1));
}

static inline void forward_pose(void *user, const RayPart *part, float *image, Rays *rays)
{
	const KernelModel *model = &part->what->plan->model;
	vf derivative[POSE_NUMBERS];
	pose_rays(user, rays, derivative);
	for (int n = 0; n < POSE_NUMBERS; n++)
		add_pixels(image + n * model->rows * model->columns + rays->pixel, rays,
			derivative[n]);
}

static void forward_side(const Forward *f, int64_t view, const Window *window, int side)
{
	const ProjectRequest *what = f->part.what;
	const KernelModel *model = &what->plan->model;
	const int64_t images = f->pose ? POSE_NUMBERS : 1;
	float *image = what->projections + view * images * model->rows * model->columns;
	if (f->pose)
		walk_rays(&f->part, view, window, side, image, forward_pose, (void *)f);
	else if (f->part.planar)
		walk_rays(&f->part, view, window, side, image, forward_planar, (void *)f);
	else
		walk_rays(&f->part, view, window, side, image, forward_rays, (void *)f);
}

static void find_window(void *user, int64_t view)
{
	const Forward *f = user;
	f->windows[view] = part_window(&f->part, view);
}

static void forward_band(void *user, int64_t index)
{
	const Forward *f = user;
	const ProjectRequest *what = f->part.what;
	int64_t view = index / f->bands;
	const KernelView *k = &what->plan->views[what->first + view];
	Window window = f->windows[view];
	window.low[1] += index % f->bands * BAND;
	window.high[1] = min64(window.high[1], window.low[1] + BAND);
	for (int side = -1; side <= 1; side += 2)
		if (window_has(&f->part, k, &window, side))
			forward_side(f, view, &window, side);
}

/* Size of the parts along axis i, as equal as possible: rays are set up once per part. Back, a
 * part is a task: small volumes have more parts, along axes[1], where it costs the least. */
static inline int64_t sub_size(const RayPart *whole, int i)
{
	const int64_t *most = whole->planar ? planar_size : part_size, *n = whole->n;
	int64_t many = parts(n[i], most[i]);
	if (i == 1 && whole->what->direction == ADJOINT) {
		int64_t others = max64(1, parts(n[0], most[0]) * parts(n[2], most[2]));
		many = max64(many, min64(parts(LEAST_TILES, others), n[1] / LEAST_ROWS));
	}
	return parts(n[i], max64(1, many));
}

static RayPart sub_part(const RayPart *whole, const int64_t at[3])
{
	Box box = whole->box;
	for (int i = 0; i < 3; i++) {
		int a = whole->axes[i];
		box.low[a] += at[i];
		box.high[a] = min64(box.low[a] + sub_size(whole, i), box.high[a]);
	}
	return ray_part(whole->what, whole->axes[0], &box, whole->planar);
}

static void forward_part(Forward *f)
{
	int64_t count = f->part.what->count, rows = 0;
	if (f->part.planar)
		fill_planar(f);
	else
		parallel_for(f->part.n[1] + 3, fill_row, f);
	parallel_for(count, find_window, f);
	for (int64_t i = 0; i < count; i++)
		rows = max64(rows, f->windows[i].high[1] - f->windows[i].low[1]);
	f->bands = parts(rows, BAND);
	parallel_for(count * f->bands, forward_band, f);
}

static void forward_axis(Forward *f, const ProjectRequest *what, int axis)
{
	bool planar = what->plan->model.planar && !f->pose;
	RayPart whole = ray_part(what, axis, &what->box, planar);
	int64_t at[3], size[3];
	for (int i = 0; i < 3; i++)
		size[i] = sub_size(&whole, i);
	for (at[0] = 0; at[0] < whole.n[0]; at[0] += size[0])
		for (at[1] = 0; at[1] < whole.n[1]; at[1] += size[1])
			for (at[2] = 0; at[2] < whole.n[2]; at[2] += size[2]) {
				f->part = sub_part(&whole, at);
				forward_part(f);
			}
}

#if defined TOMOS_LEVEL_avx512
/* Windows read beyond the ends of what is copied. */
static void clear_single(void *user, int64_t index)
{
	const Forward *f = user;
	const int64_t first = index * CLEARED, end = min64(first + CLEARED, SINGLE_FLOATS);
	memset(f->single - SLACK + first, 0, (size_t)(end - first) * sizeof *f->single);
}
#endif

static int64_t forward_floats(const ProjectRequest *what)
{
	return PART_FLOATS + SINGLE_FLOATS +
	       what->count * (int64_t)(sizeof(Window) / sizeof(float));
}

static tomos_status forward(const ProjectRequest *what, bool pose)
{
	Forward f = {.pose = pose};
	float *scratch;
	TRY(scratch_take(&scratch, forward_floats(what), "a part of the volume"));
	f.copy = scratch;
	f.windows = (Window *)(void *)(scratch + PART_FLOATS);
#if defined TOMOS_LEVEL_avx512
	f.single = (float *)(f.windows + what->count) + SLACK;
	parallel_for(parts(SINGLE_FLOATS, CLEARED), clear_single, &f);
#endif
	for (int axis = 0; axis < 3; axis++)
		if (axis_used(what, axis))
			forward_axis(&f, what, axis);
	scratch_give(scratch);
	return TOMOS_OK;
}

static tomos_status ray_forward(const ProjectRequest *what)
{
	return forward(what, false);
}

tomos_status LEVEL(ray_pose)(const ProjectRequest *what)
{
	return forward(what, true);
}

/* ---- adjoint --------------------------------------------------------------------------------- */

INLINE void spread_path(
	float *plane, int64_t stride, int64_t planes, const Path *path, vf value, const int planar)
{
	for (int64_t k = 0; k < planes; k++, plane += stride) {
		vf x[4], high = value * path->along[k], low = value - high;
		if (planar) {
			vf_add_twos(plane, (const int32_t *)&path->at[k], low, high);
			continue;
		}
		x[1] = low * path->across[k];
		x[0] = low - x[1];
		x[3] = high * path->across[k];
		x[2] = high - x[3];
		vf_add_fours_at(plane, (const int32_t *)&path->at[k], x);
	}
}

INLINE void spread_rays(
	float *copy, const RayPart *part, const float *image, Rays *rays, const int planar)
{
	Path path;
	vf value;
	for (int64_t l = 0; l < LANES; l++)
		value[l] = image[rays->pixel + min64(l, rays->count - 1) * rays->pitch];
	rays_path(part, rays, planar ? 1 : 2, &path);
	spread_path(copy + rays->from * part->plane, part->plane, rays->to - rays->from, &path,
		rays->step * value, planar);
}

static inline void back_rays(void *user, const RayPart *part, float *image, Rays *rays)
{
	spread_rays(user, part, image, rays, 0);
}

static inline void back_planar(void *user, const RayPart *part, float *image, Rays *rays)
{
	spread_rays(user, part, image, rays, 1);
}

static void back_side(
	const RayPart *part, int64_t view, const Window *window, int side, float *copy)
{
	const ProjectRequest *what = part->what;
	const KernelModel *model = &what->plan->model;
	float *image = what->projections + view * model->rows * model->columns;
	if (part->planar)
		walk_rays(part, view, window, side, image, back_planar, copy);
	else
		walk_rays(part, view, window, side, image, back_rays, copy);
}

/* Adds the copy of a part to the volume. */
static void give_part(const RayPart *part, const float *copy)
{
	float *voxels = ray_voxels(part);
	for (int64_t k = 0; k < part->n[0] && part->planar; k++)
		for (int64_t c = 0; c < part->n[2]; c++)
			voxels[k * part->stride[0] + c * part->stride[2]] +=
				copy[k * part->plane + c + 1];
	for (int64_t b = 0; b < part->n[1] && !part->planar; b++)
		for (int64_t k = 0; k < part->n[0]; k++) {
			const float *from = copy + k * part->plane + b * part->row + 2;
			float *to = voxels + k * part->stride[0] + b * part->stride[1];
			for (int64_t c = 0; c < part->n[2]; c++)
				to[c * part->stride[2]] +=
					from[part->row + 2 * c] + from[2 * c + 1];
		}
}

typedef struct {
	RayPart whole;
	float *copies; /* one for each thread */
} Back;

static void back_tile(void *user, int64_t index)
{
	const Back *back = user;
	const RayPart *whole = &back->whole;
	const ProjectRequest *what = whole->what;
	float *copy = back->copies + thread_number() * (int64_t)PART_FLOATS;
	int64_t at[3];
	for (int i = 2; i >= 0; i--) {
		int64_t many = parts(whole->n[i], sub_size(whole, i));
		at[i] = index % many * sub_size(whole, i);
		index /= many;
	}
	RayPart part = sub_part(whole, at);
	memset(copy, 0, (size_t)(part.n[0] * part.plane) * sizeof *copy);
	for (int64_t view = 0; view < what->count && !cancel_seen(); view++) {
		const KernelView *k = &what->plan->views[what->first + view];
		Window window = part_window(&part, view);
		for (int side = -1; side <= 1; side += 2)
			if (window_has(&part, k, &window, side))
				back_side(&part, view, &window, side, copy);
	}
	give_part(&part, copy);
}

/* Each process has copies of its own. */
static int64_t back_floats(const ProjectRequest *what)
{
	(void)what;
	return 1;
}

static tomos_status ray_back(const ProjectRequest *what)
{
	const int threads = tomos_threads();
	Back back = {.copies = NULL};
	/* Without memory too, since other ranks of a team would wait for this one. */
	const tomos_status status = mem_alloc(
		&back.copies, (int64_t)threads * PART_FLOATS, sizeof(float), "parts of the volume");
	for (int axis = 0; axis < 3; axis++) {
		if (!axis_used(what, axis))
			continue;
		back.whole = ray_part(what, axis, &what->box, what->plan->model.planar);
		int64_t tiles = 1;
		for (int i = 0; i < 3; i++)
			tiles *= parts(back.whole.n[i], sub_size(&back.whole, i));
		parallel_numbered(status == TOMOS_OK ? tiles : 0, threads, back_tile, &back);
	}
	mem_free(back.copies);
	return status;
}

const CpuKernel LEVEL(cpu_ray) = {
	.applies = LEVEL(ray_applies),
	.run = {ray_forward, ray_back},
	.slower = ray_slower,
	.by_width = true,
	.team_floats = {forward_floats, back_floats},
};
