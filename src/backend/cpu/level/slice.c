/* In-slice parallel rays: forward projection by Joseph's method and by intersection lengths, one
 * slice at a time, with neighbouring rays in the SIMD lanes.
 *
 * Neighbouring rays read neighbouring pixels, so the two pixels of each lane are selected from two
 * loaded vectors instead of gathered.
 */
#include "backend/cpu/level/density.h"
#include "backend/cpu/level/four.h"
#include "backend/cpu/level/stretch.h"

enum {
	BAND = 16, /* image rows that are copied and projected together */
	BAND_FLOATS = 1 << 16,
	TOGETHER = 16, /* views processed while a band is in the cache */
	SUMS_FLOATS = 1 << 15,
	TASKS = 32 /* least number of tasks; a slice is divided into stripes for this */
};

/* Whether a row of the slice and a row of the detector fit into the buffers of a task. */
static bool buffers_fit(const ProjectRequest *what, const Frame *f)
{
	return column_stride(max64(f->n[0], f->n[1])) <= BAND_FLOATS &&
	       what->plan->model.columns + LANES <= SUMS_FLOATS;
}

static bool frame_fits(const ProjectRequest *what, const Frame *f)
{
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const KernelView *k = &what->plan->views[i];
		double pitch = fabs(rays_of(what, f, k).per_ray);
		if (what->direction == FORWARD ? !lanes_fit(pitch, 1) || !buffers_fit(what, f)
					       : !lanes_fit(k->column[f->p], 2 / pitch + 2))
			return false;
	}
	return true;
}

bool LEVEL(slice_applies)(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	Frame f;
	return (what->kernel != KERNEL_voxel || what->direction == ADJOINT) && !model->clamp &&
	       !model->nearest && find_slices(what, &f) && frame_fits(what, &f);
}

/* Positive where voxels are narrower than 0.9 pixels: the adjoint of ray.c is faster there. */
static double pixels_below(const ProjectRequest *what, const Density *d, bool circle)
{
	(void)what, (void)circle;
	return 0.9 - d->columns;
}

/* The adjoint takes a time for each voxel, that of ray.c for each ray, which voxels smaller than
 * pixels have fewer of. */
static bool slice_slower(const ProjectRequest *what)
{
	return LANES == 8 && what->kernel == KERNEL_joseph && what->direction == ADJOINT &&
	       what->plan->model.planar && what->count > FEW_VIEWS &&
	       slower_in_sum(what, false, pixels_below);
}

/* A task projects one stripe of a slice (some rows of the image) in some views. The sums of the
 * stripes are added in a fixed order, so that results do not depend on the number of threads. */
typedef struct {
	const ProjectRequest *what;
	Frame f;
	int64_t views, groups,
		stripes; /* views per task; number of such groups; stripes per slice */
	float *partial;  /* [stripe][slice][view][column]; NULL: one stripe */
} Walk;

/* Rows of the slice (axis 1), or columns (axis 0), copied to contiguous rows padded with zeros. */
typedef struct {
	int axis;
	int64_t first, rows, width, stride;
	float samples[BAND_FLOATS];
} Band;

/* Copies LANES columns of the slice to rows [row, row + LANES) of the band. `next`: floats between
 * the pixels of a column. */
static void transpose_columns(const float *from, int64_t next, Band *band, int64_t row)
{
	float *to = band->samples + row * band->stride + PAD;
	int64_t i = 0;
	for (; i + LANES <= band->width; i += LANES) {
		vf square[LANES];
		for (int l = 0; l < LANES; l++)
			square[l] = vf_load(from + row + (i + l) * next);
		vf_transpose(square);
		for (int l = 0; l < LANES; l++)
			vf_store(to + l * band->stride + i, square[l]);
	}
	for (; i < band->width; i++)
		for (int l = 0; l < LANES; l++)
			to[l * band->stride + i] = from[row + l + i * next];
}

static void copy_row(const float *from, int64_t next, Band *band, int64_t row)
{
	float *to = band->samples + row * band->stride + PAD;
	if (next == 1)
		memcpy(to, from, (size_t)band->width * sizeof *to);
	else
		for (int64_t i = 0; i < band->width; i++)
			to[i] = from[i * next];
}

static void band_fill(const Walk *w, int64_t slice, Band *band)
{
	int64_t next = w->f.stride[1 - band->axis], down = w->f.stride[band->axis], row = 0;
	const float *from = w->what->volume + slice * w->f.per_slice + band->first * down;
	for (int64_t r = 0; r < band->rows; r++) {
		memset(band->samples + r * band->stride, 0, PAD * sizeof(float));
		memset(band->samples + r * band->stride + PAD + band->width, 0,
			PAD * sizeof(float));
	}
	for (; down == 1 && row + LANES <= band->rows; row += LANES)
		transpose_columns(from, next, band, row);
	for (; row < band->rows; row++)
		copy_row(from + row * down, next, band, row);
}

/* Like vf_interpolate, with the intersection lengths of the ray in the two pixels as weights. */
static inline vf meet_lengths(
	const float *window, const Lanes *lanes, int64_t p, const SliceLengths *lengths)
{
	vf fraction;
	vi j = lanes_at(lanes, p, &fraction);
	vf low = vf_pick(window, j), high = vf_pick(window, j + 1);
	vf part = (fraction - (0.5F - lengths->nudge)) * lengths->steep + 0.5F;
	return low + vf_clamp(part, 0, 1) * (high - low);
}

/* Sum over all rows of the band for LANES rays. `p`: fixed-point position at which the lowest of
 * them crosses the first row; `slope`: its change per row. Weights are intersection lengths, or
 * Joseph's for lengths == NULL. */
static inline vf walk_rows(
	const Band *band, int64_t p, int64_t slope, const Lanes *lanes, const SliceLengths *lengths)
{
	vf sum = {0};
	const float *row = band->samples + PAD;
	for (int64_t k = 0; k < band->rows; k++, p += slope, row += band->stride) {
		int64_t i = limit(p >> FRACTION_BITS, -PAD, band->width);
		sum += lengths ? meet_lengths(row + i, lanes, p, lengths)
			       : vf_interpolate(row + i, lanes, p);
	}
	return sum;
}

/* Adds one band to all rays of one detector row; `line`: intersection lengths. */
static void walk_band(
	const Band *band, const SliceRays *rays, bool line, int64_t columns, float *sums)
{
	const SliceLengths lengths = lengths_of(rays);
	double spread = (LANES - 1) * fabs(rays->per_ray), lowest = lowest_lane(rays->per_ray);
	int64_t slope = position_of(rays->slope);
	Lanes lanes = lanes_of(rays->per_ray);
	for (int64_t c = 0; c < columns; c += LANES) {
		double p = rays->base + (double)c * rays->per_ray + lowest +
			   (double)band->first * rays->slope;
		double q = p + (double)(band->rows - 1) * rays->slope;
		if (fmax(p, q) + spread <= -1 || fmin(p, q) >= (double)band->width)
			continue;
		vf sum = line ? walk_rows(band, position_of(p), slope, &lanes, &lengths)
			      : walk_rows(band, position_of(p), slope, &lanes, NULL);
		vf_store(sums + c, vf_load(sums + c) + sum);
	}
}

/* Adds one stripe to the sums of the views that have this dominant axis, band by band. sums:
 * [view][columns + LANES]. */
static void walk_stripe(const Walk *w, int64_t slice, int64_t stripe, int axis,
	const SliceRays *rays, int64_t views, float *sums)
{
	Band band;
	int64_t columns = w->what->plan->model.columns, n = w->f.n[axis];
	int64_t size = parts(parts(n, BAND), w->stripes) * BAND;
	int64_t high = min64(n, (stripe + 1) * size);
	band.axis = axis;
	band.width = w->f.n[1 - axis];
	band.stride = column_stride(band.width);
	int64_t most = min64(BAND, BAND_FLOATS / band.stride);
	for (band.first = stripe * size; band.first < high; band.first += band.rows) {
		band.rows = min64(most, high - band.first);
		band_fill(w, slice, &band);
		for (int64_t v = 0; v < views; v++)
			if (rays[v].axis == axis)
				walk_band(&band, &rays[v], w->what->kernel != KERNEL_joseph,
					columns, sums + v * (columns + LANES));
	}
}

static void give_sums(
	const Walk *w, int64_t slice, int64_t stripe, int64_t view, float step, const float *sums)
{
	const Plan *plan = w->what->plan;
	int64_t columns = plan->model.columns, row;
	const KernelView *k = &plan->views[w->what->first + view];
	if (!row_of_slice(plan, &w->f, k, w->what->box.low[w->f.w] + slice, &row))
		return;
	float *out = w->what->projections + (view * plan->model.rows + row) * columns;
	if (w->partial)
		out = w->partial +
		      ((stripe * w->f.slices + slice) * w->what->count + view) * columns;
	for (int64_t c = 0; c < columns; c++)
		out[c] += step * sums[c];
}

static void walk(void *user, int64_t index)
{
	const Walk *w = user;
	int64_t stripe = index % w->stripes, group = index / w->stripes % w->groups;
	int64_t slice = index / w->stripes / w->groups, view = group * w->views;
	int64_t views = min64(w->views, w->what->count - view), along[2] = {0};
	int64_t each = w->what->plan->model.columns + LANES;
	float sums[SUMS_FLOATS];
	SliceRays rays[TOGETHER];
	memset(sums, 0, (size_t)(views * each) * sizeof *sums);
	for (int64_t v = 0; v < views; v++) {
		const KernelView *k = &w->what->plan->views[w->what->first + view + v];
		rays[v] = rays_of(w->what, &w->f, k);
		along[rays[v].axis]++;
	}
	for (int axis = 0; axis < 2; axis++)
		if (along[axis] > 0)
			walk_stripe(w, slice, stripe, axis, rays, views, sums);
	for (int64_t v = 0; v < views; v++)
		give_sums(w, slice, stripe, view + v, (float)rays[v].step, sums + v * each);
}

static void add_stripes(void *user, int64_t index)
{
	const Walk *w = user;
	const Plan *plan = w->what->plan;
	int64_t slice = index / w->what->count, view = index % w->what->count;
	int64_t columns = plan->model.columns, row, next = w->f.slices * w->what->count * columns;
	const KernelView *k = &plan->views[w->what->first + view];
	if (!row_of_slice(plan, &w->f, k, w->what->box.low[w->f.w] + slice, &row))
		return;
	float *out = w->what->projections + (view * plan->model.rows + row) * columns;
	for (int64_t s = 0; s < w->stripes; s++)
		for (int64_t c = 0; c < columns; c++)
			out[c] += w->partial[s * next + index * columns + c];
}

static tomos_status slice_forward(const ProjectRequest *what)
{
	int64_t columns = what->plan->model.columns;
	Walk w = {.what = what, .views = limit(SUMS_FLOATS / (columns + LANES), 1, TOGETHER)};
	if (!find_slices(what, &w.f))
		return fail(TOMOS_UNSUPPORTED, "the rays are not in slices");
	w.groups = parts(what->count, w.views);
	w.stripes = parts(TASKS, w.groups * w.f.slices);
	if (w.stripes > 1)
		TRY(mem_zeroed(&w.partial, w.stripes * w.f.slices * what->count * columns,
			sizeof(float), "sums of stripes"));
	parallel_for(w.f.slices * w.groups * w.stripes, walk, &w);
	if (w.partial)
		parallel_for(w.f.slices * what->count, add_stripes, &w);
	mem_free(w.partial);
	return TOMOS_OK;
}

const CpuKernel LEVEL(cpu_slice) = {
	.applies = LEVEL(slice_applies),
	.run = {slice_forward, LEVEL(slice_back)},
	.step = LEVEL(slice_step),
	.slower = slice_slower,
};
