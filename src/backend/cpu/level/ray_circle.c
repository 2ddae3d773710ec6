/* Joseph's method on full circles with views in sets 90 degrees apart (circle.h).
 *
 * As in ray.c, LANES rays are followed through the planes of a part of the volume. Here their
 * positions in all planes are computed first. Then each ray is followed by itself, with the quads
 * of two neighbouring voxels as vectors of eight floats.
 */
#include "base/team.h"
#include "backend/cpu/level/circle.h"
#include "backend/cpu/level/ray_parts.h"

enum {
	DEEP = 24,       /* planes of a part */
	HIGH = 32,       /* rows of a part */
	WIDE = 64,       /* voxels of a row */
	LINE = 16,       /* floats of a cache line */
	SOME_VIEWS = 64, /* whose windows are found by one task */
	PART_FLOATS = IMAGES * DEEP * (HIGH + 3) * (WIDE + 3), /* 0.9 MB */
};

static bool ray_circle_applies(const ProjectRequest *what)
{
	Circle circle;
	return LEVEL(ray_applies)(what) && circle_of(what, &circle);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Planes of a row side by side: few pages of memory for a ray. */
static RayPart circle_part(const ProjectRequest *what, int axis, const Box *box)
{
	RayPart part = ray_part(what, axis, box, false);
	part.per = IMAGES;
	part.plane = IMAGES * (part.n[2] + 3);
	part.row = part.n[0] * part.plane;
	return part;
}

static int64_t part_size(const RayPart *whole, int i)
{
	static const int64_t most[3] = {DEEP, HIGH, WIDE};
	const int64_t many = parts(whole->n[i], most[i]);
	return max64(1, parts(whole->n[i], max64(1, many)));
}

static int64_t part_count(const RayPart *whole)
{
	int64_t count = 1;
	for (int i = 0; i < 3; i++)
		count *= parts(whole->n[i], part_size(whole, i));
	return count;
}

static RayPart part_at(const RayPart *whole, int64_t index)
{
	Box box = whole->box;
	for (int i = 2; i >= 0; i--) {
		const int a = whole->axes[i];
		const int64_t size = part_size(whole, i), many = parts(whole->n[i], size);
		box.low[a] += index % many * size;
		box.high[a] = min64(box.low[a] + size, box.high[a]);
		index /= many;
	}
	return circle_part(whole->what, whole->axes[0], &box);
}

/* Floats between neighbours of the copy along x, y and z; returns the place of the first voxel. */
static int64_t part_strides(const RayPart *part, int64_t stride[3])
{
	stride[part->axes[0]] = part->plane;
	stride[part->axes[1]] = part->row;
	stride[part->axes[2]] = part->per;
	return part->row + part->per;
}

/* ---- rays ------------------------------------------------------------------------------------ */

static __attribute__((noinline)) void path_of(const RayPart *part, Rays *rays, Path *path)
{
	rays_path(part, rays, IMAGES, path);
}

static inline float lane(const vf *v, int l)
{
	return ((const float *)v)[l];
}

/* The samples of two rays and their fractions, summed; additions to the sums of one ray wait for
 * each other. */
#if defined TOMOS_LEVEL_avx512
typedef struct {
	__m512 samples, along;
} TwoSums;

INLINE __m512 two_eights(const float *one, const float *two)
{
	return _mm512_insertf32x8(
		_mm512_castps256_ps512(_mm256_loadu_ps(one)), _mm256_loadu_ps(two), 1);
}

/* Lanes l and l + 1 of a vector, eight times each. */
INLINE __m512 two_lanes(const vf *v, int l)
{
	const __m512i which = _mm512_inserti32x8(_mm512_setzero_si512(), _mm256_set1_epi32(1), 1);
	double bits;
	memcpy(&bits, (const float *)v + l, sizeof bits);
	return _mm512_permutevar_ps(_mm512_castpd_ps(_mm512_set1_pd(bits)), which);
}

INLINE void add_samples(
	const float *copy, int64_t row, const Path *path, int64_t k, int l, TwoSums *sum)
{
	const int32_t *at = (const int32_t *)&path->at[k] + l;
	__m512 low = two_eights(copy + at[0], copy + at[1]);
	__m512 high = two_eights(copy + row + at[0], copy + row + at[1]);
	__m512 value =
		_mm512_fmadd_ps(two_lanes(&path->across[k], l), _mm512_sub_ps(high, low), low);
	sum->samples = _mm512_add_ps(sum->samples, value);
	sum->along = _mm512_fmadd_ps(two_lanes(&path->along[k], l), value, sum->along);
}

static inline void give_sums(const TwoSums *sum, quad each[2])
{
	const vf low = (vf)_mm512_sub_ps(sum->samples, sum->along), high = (vf)sum->along;
	each[0] = vf_quarter(low, 0) + vf_quarter(high, 1);
	each[1] = vf_quarter(low, 2) + vf_quarter(high, 3);
}
#else
typedef struct {
	Eight samples[2], along[2];
} TwoSums;

INLINE void add_samples(
	const float *copy, int64_t row, const Path *path, int64_t k, int l, TwoSums *sum)
{
	for (int i = 0; i < 2; i++) {
		const float *at = copy + ((const int32_t *)&path->at[k])[l + i];
		Eight low = EIGHT_FROM(at), high = EIGHT_FROM(at + row);
		Eight value = low + lane(&path->across[k], l + i) * (high - low);
		sum->samples[i] += value;
		sum->along[i] += lane(&path->along[k], l + i) * value;
	}
}

static inline void give_sums(const TwoSums *sum, quad each[2])
{
	for (int i = 0; i < 2; i++) {
		const Eight low = sum->samples[i] - sum->along[i];
		each[i] = eight_half(&low, 0) + eight_half(&sum->along[i], 1);
	}
}
#endif

/* The first `count` rays. */
static __attribute__((noinline)) void sum_path(const RayPart *part, const float *copy,
	int64_t planes, const Path *path, int64_t count, quad each[LANES])
{
	const int64_t row = part->row, plane = part->plane;
	for (int l = 0; l < count; l += 2) {
		const float *at = copy;
		TwoSums sum;
		memset(&sum, 0, sizeof sum);
		for (int64_t k = 0; k < planes; k++, at += plane)
			add_samples(at, row, path, k, l, &sum);
		give_sums(&sum, each + l);
	}
}

/* ---- forward --------------------------------------------------------------------------------- */

typedef struct {
	RayPart part;
	float *copy;
	Window *windows; /* of the part in each view */
} Copied;

/* While rays are followed through one part, the next is copied, so that threads wait for each other
 * once for each part. */
typedef struct {
	Circle circle;
	Copied now, next;
	int64_t bands;
	int64_t rows, fills; /* tasks for the next part: rows of its copy, and all */
} Forward;

/* The rows of the four views that have the rays of row `row` of a view. */
static void image_rows(const ProjectRequest *what, const Circle *circle, int64_t view, int64_t row,
	float *rows[IMAGES])
{
	const KernelModel *model = &what->plan->model;
	for (int k = 0; k < IMAGES; k++)
		rows[k] = what->projections +
			  (circle_view(circle, view, k) * model->rows + row) * model->columns;
}

/* Pixels that will be needed: views are larger than caches. */
static void rows_prefetch(float *const rows[IMAGES], int64_t first, int64_t end)
{
	for (int k = 0; k < IMAGES; k++)
		for (int64_t c = first; c < end; c += LINE)
			__builtin_prefetch(rows[k] + c, 1);
}

static void forward_rays(const Forward *f, Rays *rays, float *const images[IMAGES])
{
	const int64_t planes = rays->to - rays->from;
	const int64_t count = rays->count;
	Path path;
	quad each[LANES] = {{0}};
	vf sums[IMAGES];
	path_of(&f->now.part, rays, &path);
	sum_path(&f->now.part, f->now.copy + rays->from * f->now.part.plane, planes, &path, count,
		each);
	quads_split(each, sums);
	for (int k = 0; k < IMAGES; k++)
		vf_add_some(images[k] + rays->column, count, rays->step * sums[k]);
}

static void forward_side(const Forward *f, int64_t view, const Window *window, int side)
{
	const ProjectRequest *what = f->now.part.what;
	for (int64_t r = window->low[1]; r < window->high[1]; r++) {
		RayRow row = ray_row(&f->now.part, &what->plan->views[view], r, side);
		int64_t first = window->low[0], end = window->high[0];
		float *images[IMAGES];
		ray_clip(&f->now.part, &row, &first, &end);
		image_rows(what, &f->circle, view, r, images);
		rows_prefetch(images, first, end);
		while (first < end) {
			Rays rays[TOGETHER];
			int many = rays_some(&f->now.part, &row, &first, end, rays);
			for (int i = 0; i < many; i++)
				forward_rays(f, &rays[i], images);
		}
	}
}

/* One band of the four views of a set, each with its images. */
static void forward_band(const Forward *f, int64_t index)
{
	const ProjectRequest *what = f->now.part.what;
	for (int k = 0; k < IMAGES; k++) {
		const int64_t view = index / f->bands + k * f->circle.views;
		Window window = f->now.windows[view];
		window.low[1] = max64(window.low[1], index % f->bands * BAND);
		window.high[1] = min64(window.high[1], (index % f->bands + 1) * BAND);
		for (int side = -1; side <= 1; side += 2)
			if (window_has(&f->now.part, &what->plan->views[view], &window, side))
				forward_side(f, view, &window, side);
	}
}

static void find_windows(const Forward *f, int64_t some)
{
	const RayPart *part = &f->next.part;
	const int64_t end = min64((some + 1) * SOME_VIEWS, part->what->count);
	for (int64_t view = some * SOME_VIEWS; view < end; view++)
		f->next.windows[view] = part_window(part, view);
}

static void fill_row(const Forward *f, int64_t index)
{
	const RayPart *part = &f->next.part;
	float *copy = f->next.copy;
	int64_t stride[3], at = part_strides(part, stride), row = index - 1;
	const int a = part->axes[1];
	Box box = part->box;
	memset(copy + index * part->row, 0, (size_t)part->row * sizeof *copy);
	if (row < 0 || row >= part->n[1])
		return;
	box.low[a] += row;
	box.high[a] = box.low[a] + 1;
	LEVEL(circle_take)(part->what, &f->circle, &box, copy + at + row * part->row, stride);
}

static void forward_task(void *user, int64_t index)
{
	const Forward *f = user;
	if (index < f->rows)
		fill_row(f, index);
	else if (index < f->fills)
		find_windows(f, index - f->rows);
	else
		forward_band(f, index - f->fills);
}

static void forward_axis(Forward *f, const ProjectRequest *what, int axis)
{
	const RayPart whole = circle_part(what, axis, &f->circle.box);
	const int64_t count = part_count(&whole);
	for (int64_t i = 0; i <= count && !cancel_seen(); i++) {
		f->rows = f->fills = 0;
		if (i < count) {
			f->next.part = part_at(&whole, i);
			f->rows = f->next.part.n[1] + 3;
			f->fills = f->rows + parts(what->count, SOME_VIEWS);
		}
		parallel_for(f->fills + (i > 0 ? f->circle.views * f->bands : 0), forward_task, f);
		const Copied filled = f->next;
		f->next = f->now;
		f->now = filled;
	}
}

static int64_t forward_floats(const ProjectRequest *what)
{
	return 2 * (PART_FLOATS + what->count * (int64_t)(sizeof(Window) / sizeof(float)));
}

static tomos_status ray_circle_forward(const ProjectRequest *what)
{
	Forward f = {.bands = parts(what->plan->model.rows, BAND)};
	float *scratch;
	circle_of(what, &f.circle);
	TRY(scratch_take(&scratch, forward_floats(what), "parts of the volume"));
	f.now.copy = scratch;
	f.next.copy = scratch + PART_FLOATS;
	f.now.windows = (Window *)(void *)(scratch + 2 * PART_FLOATS);
	f.next.windows = f.now.windows + what->count;
	for (int axis = 0; axis < 3; axis++)
		if (axis_used(what, axis))
			forward_axis(&f, what, axis);
	scratch_give(scratch);
	return TOMOS_OK;
}

/* ---- adjoint --------------------------------------------------------------------------------- */

/* Adds the values of the first `count` rays. Rays that follow each other are apart: a load that
 * overlaps a recent store is slow. Two planes at a time: the speed of a shorter loop depends on
 * where its instructions are. */
static __attribute__((noinline)) void spread_path(const RayPart *part, float *copy, int64_t planes,
	const Path *path, int64_t count, const quad values[LANES])
{
	const int64_t row = part->row, plane = part->plane;
	for (int i = 0; i < LANES; i++) {
		const int l = i * (LANES > 8 ? 5 : 3) % LANES;
		if (l >= count)
			continue;
		const quad v = values[l];
		const Eight left = {v[0], v[1], v[2], v[3]};
		const Eight right = {-v[0], -v[1], -v[2], -v[3], v[0], v[1], v[2], v[3]};
		float *at = copy;
#pragma GCC unroll 2
		for (int64_t k = 0; k < planes; k++, at += plane) {
			float *to = at + ((const int32_t *)&path->at[k])[l];
			Eight both = left + lane(&path->along[k], l) * right;
			Eight high = lane(&path->across[k], l) * both;
			EIGHT_AT(to) += both - high;
			EIGHT_AT(to + row) += high;
		}
	}
}

typedef struct {
	const ProjectRequest *what;
	Circle circle;
	RayPart whole;
	float *copies; /* one for each thread */
} Back;

/* The pixels of some rays in the four views, times their steps. */
static void load_values(
	float *const images[IMAGES], const Rays *rays, int64_t count, quad each[LANES])
{
	vf values[IMAGES];
	for (int k = 0; k < IMAGES; k++) {
		const float *pixels = images[k] + rays->column;
		values[k] = (vf){0};
		if (count >= LANES)
			values[k] = vf_load(pixels);
		for (int64_t l = 0; count < LANES && l < count; l++)
			values[k][l] = pixels[l];
		values[k] *= rays->step;
	}
	quads_of(values, each);
}

static void spread_rays(const RayPart *part, Rays *rays, float *const images[IMAGES], float *copy)
{
	const int64_t planes = rays->to - rays->from, count = rays->count;
	Path path;
	quad each[LANES];
	path_of(part, rays, &path);
	load_values(images, rays, count, each);
	spread_path(part, copy + rays->from * part->plane, planes, &path, count, each);
}

static void spread_side(const Back *back, const RayPart *part, int64_t view, const Window *window,
	int side, float *copy)
{
	const ProjectRequest *what = back->what;
	for (int64_t r = window->low[1]; r < window->high[1]; r++) {
		RayRow row = ray_row(part, &what->plan->views[view], r, side);
		int64_t first = window->low[0], end = window->high[0];
		float *images[IMAGES];
		ray_clip(part, &row, &first, &end);
		image_rows(what, &back->circle, view, r, images);
		rows_prefetch(images, first, end);
		while (first < end) {
			Rays rays[TOGETHER];
			int many = rays_some(part, &row, &first, end, rays);
			for (int i = 0; i < many; i++)
				spread_rays(part, &rays[i], images, copy);
		}
	}
}

static void back_tile(void *user, int64_t index)
{
	const Back *back = user;
	const ProjectRequest *what = back->what;
	float *copy = back->copies + thread_number() * (int64_t)PART_FLOATS;
	const RayPart part = part_at(&back->whole, index);
	int64_t stride[3], at = part_strides(&part, stride);
	memset(copy, 0, (size_t)((part.n[1] + 3) * part.row) * sizeof *copy);
	for (int64_t view = 0; view < what->count && !cancel_seen(); view++) {
		Window window = part_window(&part, view);
		for (int side = -1; side <= 1; side += 2)
			if (window_has(&part, &what->plan->views[view], &window, side))
				spread_side(back, &part, view, &window, side, copy);
	}
	LEVEL(circle_give)(what, &back->circle, &part.box, copy + at, stride);
}

/* Each process has copies of its own. */
static int64_t back_floats(const ProjectRequest *what)
{
	(void)what;
	return 1;
}

static tomos_status ray_circle_back(const ProjectRequest *what)
{
	const int threads = tomos_threads();
	Back back = {.what = what};
	circle_of(what, &back.circle);
	/* Without memory too, since other ranks of a team would wait for this one. */
	const tomos_status status = mem_alloc(
		&back.copies, (int64_t)threads * PART_FLOATS, sizeof(float), "parts of the volume");
	for (int axis = 0; axis < 3; axis++) {
		if (!axis_used(what, axis))
			continue;
		back.whole = circle_part(what, axis, &back.circle.box);
		parallel_numbered(status == TOMOS_OK ? part_count(&back.whole) : 0, threads,
			back_tile, &back);
	}
	mem_free(back.copies);
	return status;
}

const CpuKernel LEVEL(cpu_ray_circle) = {
	.applies = ray_circle_applies,
	.run = {ray_circle_forward, ray_circle_back},
	.team_floats = {forward_floats, back_floats},
};
