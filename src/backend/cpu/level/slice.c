/* Parallel rays inside slices: Joseph's forward projection and that by exact lengths, their adjoints and
 * voxel-driven back projection, one slice at a time, with neighbouring rays or pixels in the lanes of a vector.
 *
 * Neighbours read neighbouring samples, so a lane's two samples are picked out of two loaded vectors.
 */
#include "backend/cpu/level/four.h"
#include "backend/cpu/level/stretch.h"

enum {
	BAND = 16, /* image rows per pass over the columns */
	BAND_FLOATS = 1 << 16,
	TOGETHER = 16, /* views that share image rows while these are in the cache */
	SUMS_FLOATS = 1 << 15,
	SHARES = 32,   /* tasks that there should be */
	TILE_ROWS = 8, /* image rows that share the views' samples */
	VIEWS_IN_CACHE = 64,
	SCRATCH_FLOATS = 4 << 20
};

/* Whether a row of the slice and a row of the detector fit into what a task has for them. */
static bool room_fits(const ProjectRequest *what, const Frame *f)
{
	return column_stride(max64(f->n[0], f->n[1])) <= BAND_FLOATS &&
	       what->plan->model.columns + LANES <= SUMS_FLOATS;
}

static bool frame_fits(const ProjectRequest *what, const Frame *f)
{
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const KernelView *k = &what->plan->views[i];
		double pitch = fabs(rays_of(what, f, k).per_ray);
		if (what->direction == FORWARD ? !lanes_fit(pitch, 1) || !room_fits(what, f)
					       : !lanes_fit(k->column[f->p], 2 / pitch + 2))
			return false;
	}
	return true;
}

static bool find_frame(const ProjectRequest *what, Frame *f)
{
	return find_slices(what, f) && frame_fits(what, f);
}

bool LEVEL(slice_applies)(const ProjectRequest *what)
{
	Frame f;
	return !what->plan->model.clamp && !what->plan->model.nearest && find_frame(what, &f);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* A task walks a stripe of the slice with some views. What the stripes give to a view is added up in
 * their order. */
typedef struct {
	const ProjectRequest *what;
	Frame f;
	int64_t views, groups, stripes; /* views of a task, groups of so many */
	float *partial;                 /* [stripe][slice][view][column]; NULL: one stripe */
} Walk;

/* Some rows (axis 1) or columns (axis 0) of the slice, side by side and padded with zeros. */
typedef struct {
	int axis;
	int64_t first, rows, width, stride;
	float samples[BAND_FLOATS];
} Band;

/* LANES rows of the band from columns of the slice, a square at a time. */
static void turn_columns(const float *from, int64_t next, Band *band, int64_t row)
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
		turn_columns(from, next, band, row);
	for (; row < band->rows; row++)
		copy_row(from + row * down, next, band, row);
}

/* The samples around a position, by exact lengths. */
static inline vf meet_lengths(
	const float *window, const Lanes *lanes, int64_t p, const SliceLengths *lengths)
{
	vf fraction;
	vi j = lanes_at(lanes, p, &fraction);
	vf low = vf_pick(window, j), high = vf_pick(window, j + 1);
	vf part = (fraction - (0.5F - lengths->nudge)) * lengths->steep + 0.5F;
	return low + vf_clamp(part, 0, 1) * (high - low);
}

/* What all rows of the band give to one vector of rays, the lowest of which crosses the first at p;
 * without lengths by Joseph's weights. */
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

/* The stripe's rows across one axis, with the views whose rays go along it. */
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

tomos_status LEVEL(slice_forward)(const ProjectRequest *what)
{
	int64_t columns = what->plan->model.columns;
	Walk w = {.what = what, .views = limit(SUMS_FLOATS / (columns + LANES), 1, TOGETHER)};
	if (!find_frame(what, &w.f))
		return fail(TOMOS_UNSUPPORTED, "the views do not stay in slices");
	w.groups = parts(what->count, w.views);
	w.stripes = parts(SHARES, w.groups * w.f.slices);
	if (w.stripes > 1)
		TRY(mem_zeroed(&w.partial, w.stripes * w.f.slices * what->count * columns,
			sizeof(float), "sums of stripes"));
	parallel_for(w.f.slices * w.groups * w.stripes, walk, &w);
	if (w.partial)
		parallel_for(w.f.slices * what->count, add_stripes, &w);
	mem_free(w.partial);
	return TOMOS_OK;
}

/* ---- back ------------------------------------------------------------------------------------ */

/* A pixel (x, y) of the slice falls on column c = origin + x per_x + y per_y, and takes from the pixels
 * around it by a hat of half width `reach` columns: 1 for voxel-driven, the distance of one voxel
 * across the ray's dominant axis for Joseph. */
typedef struct {
	double origin, per_x, per_y;
	float reach, pitch; /* pitch = 1 / reach */
	float top; /* exact lengths: where the sides of the hat would meet; 0: it is whole */
	int hats;  /* pixels a hat can cover, 0: voxel-driven */
	Lanes lanes;
} SliceHat;

typedef struct {
	const ProjectRequest *what;
	Frame f;
	int64_t slice, first, count; /* views of this pass */
	int64_t stride;
	float *samples; /* the views' rows, padded with zeros and weighted */
	SliceHat *hats;
	const FusedUpdate *step; /* what is done with the sums; NULL: they are added */
	float *under;            /* rows of what the sums are divided by; NULL: nothing */
	float least;
} Pass;

/* Exact lengths: a hat with steeper sides that is cut off at the top. */
static void cut_hat(SliceHat *hat, const SliceRays *rays)
{
	const SliceLengths lengths = lengths_of(rays);
	hat->pitch *= lengths.steep;
	hat->top = 0.5F * (lengths.steep + (lengths.nudge == 0));
	hat->origin -= lengths.nudge / rays->per_ray;
}

static SliceHat hat_of(const ProjectRequest *what, const Frame *f, const KernelView *k)
{
	SliceHat hat = {.reach = 1, .pitch = 1};
	columns_of(what, f, k, &hat.origin, &hat.per_x, &hat.per_y);
	if (what->kernel != KERNEL_voxel) {
		const SliceRays rays = rays_of(what, f, k);
		double pitch = fabs(rays.per_ray);
		hat.pitch = (float)pitch;
		hat.reach = (float)(1 / pitch);
		hat.hats = (int)floor(2 / pitch) + 1;
		if (what->kernel != KERNEL_joseph)
			cut_hat(&hat, &rays);
	}
	hat.origin += lowest_lane(hat.per_x) - (hat.hats ? hat.reach : 0);
	hat.lanes = lanes_of(hat.per_x);
	return hat;
}

/* A detector row among zeros, times a weight; NULL: ones. */
static void fill_row(float *to, int64_t stride, const float *from, int64_t columns, float weight)
{
	memset(to, 0, (size_t)stride * sizeof *to);
	for (int64_t c = 0; c < columns; c++)
		to[PAD + c] = from ? weight * from[c] : weight;
}

static void pass_fill(void *user, int64_t i)
{
	const Pass *pass = user;
	const ProjectRequest *what = pass->what;
	const Plan *plan = what->plan;
	const KernelView *k = &plan->views[what->first + pass->first + i];
	int64_t columns = plan->model.columns, row;
	float *to = pass->samples + i * pass->stride;
	pass->hats[i] = hat_of(what, &pass->f, k);
	bool there = row_of_slice(plan, &pass->f, k, what->box.low[pass->f.w] + pass->slice, &row);
	if (!there)
		columns = row = 0;
	int64_t from = ((pass->first + i) * plan->model.rows + row) * plan->model.columns;
	double weight = what->kernel != KERNEL_voxel       ? rays_of(what, &pass->f, k).step
			: plan->model.weight == WEIGHT_RAY ? k->mass
							   : 1;
	fill_row(to, pass->stride, what->projections + from, columns, (float)weight);
	if (pass->under)
		fill_row(pass->under + i * pass->stride, pass->stride,
			pass->step->rays ? pass->step->rays + from : NULL, columns, (float)weight);
}

static void find_least(Pass *pass)
{
	pass->least = 0;
	for (int64_t i = 0; pass->under && i < pass->count * pass->stride; i++)
		pass->least = fmaxf(pass->least, pass->step->least * pass->under[i]);
}

/* Adds what one view gives to one vector of pixels, the lowest sample of which is at p, and to what is
 * divided by; in the order of stack.h, so that a slice is the same to the bit with and without others
 * beside it. `hats` and `divide` are literals where it matters. */
static inline void take(const SliceHat *hat, const float *samples, const float *under, int64_t p,
	const int hats, const bool cut, const bool divide, vf *sum, vf *den)
{
	vf fraction;
	vi j = lanes_at(&hat->lanes, p, &fraction);
	vf away = hat->reach + fraction;
	for (int n = hats ? 1 : 0; n <= (hats ? hats : 1); n++) {
		vf apart = hat->pitch * vf_abs((float)n - away);
		vf share = cut      ? vf_clamp(hat->top - apart, 0, 1)
			   : hats   ? vf_positive(1 - apart)
			   : n == 0 ? 1 - fraction
				    : fraction;
		*sum += share * vf_pick(samples, j + n);
		if (divide)
			*den += share * vf_pick(under, j + n);
	}
}

/* `sum` has BLOCKS vectors, and as many more to divide by. */
static inline void take_blocks(const Pass *pass, int64_t view, double p, const int hats,
	const bool cut, const bool divide, vf *sum)
{
	const SliceHat *hat = &pass->hats[view];
	const float *samples = pass->samples + view * pass->stride + PAD;
	const float *under = divide ? pass->under + view * pass->stride + PAD : NULL;
	int64_t position = position_of(p), step = position_of(LANES * hat->per_x);
	int64_t columns = pass->what->plan->model.columns;
	for (int b = 0; b < BLOCKS; b++, position += step) {
		int64_t at = limit(position >> FRACTION_BITS, -PAD, columns);
		take(hat, samples + at, divide ? under + at : NULL, position, hats, cut, divide,
			&sum[b], &sum[BLOCKS + b]);
	}
}

static inline void take_views(const Pass *pass, int64_t x, int64_t y, int64_t first, int64_t count,
	const bool divide, vf *sum)
{
	for (int64_t v = first; v < first + count; v++) {
		const SliceHat *hat = &pass->hats[v];
		double p = hat->origin + (double)x * hat->per_x + (double)y * hat->per_y;
		if (hat->hats == 0)
			take_blocks(pass, v, p, 0, false, divide, sum);
		else if (hat->top > 0)
			take_blocks(pass, v, p, hat->hats, true, divide, sum);
		else if (hat->hats == 2)
			take_blocks(pass, v, p, 2, false, divide, sum);
		else
			take_blocks(pass, v, p, hat->hats, false, divide, sum);
	}
}

/* BLOCKS vectors of pixels from (x, y) on as sums, and back. */
static inline void row_load(const Pass *pass, int64_t x, int64_t y, vf *sum)
{
	const Frame *f = &pass->f;
	int64_t wide = min64(BLOCKS * LANES, f->n[0] - x), next = f->stride[0];
	const float *from =
		pass->what->volume + pass->slice * f->per_slice + y * f->stride[1] + x * next;
	if (next == 1 && wide == BLOCKS * LANES) {
		memcpy(sum, from, BLOCKS * sizeof *sum);
		return;
	}
	float pixels[BLOCKS * LANES] = {0};
	for (int64_t i = 0; i < wide; i++)
		pixels[i] = from[i * next];
	memcpy(sum, pixels, sizeof pixels);
}

static inline void row_store(const Pass *pass, int64_t x, int64_t y, const vf *sum)
{
	const Frame *f = &pass->f;
	int64_t wide = min64(BLOCKS * LANES, f->n[0] - x), next = f->stride[0];
	float *to = pass->what->volume + pass->slice * f->per_slice + y * f->stride[1] + x * next;
	if (next == 1 && wide == BLOCKS * LANES) {
		memcpy(to, sum, BLOCKS * sizeof *sum);
		return;
	}
	float pixels[BLOCKS * LANES];
	memcpy(pixels, sum, sizeof pixels);
	for (int64_t i = 0; i < wide; i++)
		to[i * next] = pixels[i];
}

/* Many views take turns with the rows of the tile. */
static void tile_back(const Pass *pass, int64_t x, int64_t y, int64_t rows)
{
	vf sums[TILE_ROWS][BLOCKS];
	for (int64_t r = 0; r < rows; r++)
		row_load(pass, x, y + r, sums[r]);
	for (int64_t v = 0; v < pass->count; v += VIEWS_IN_CACHE)
		for (int64_t r = 0; r < rows; r++) {
			vf sum[2 * BLOCKS];
			memcpy(sum, sums[r], BLOCKS * sizeof *sum);
			take_views(pass, x, y + r, v, min64(VIEWS_IN_CACHE, pass->count - v), false,
				sum);
			memcpy(sums[r], sum, BLOCKS * sizeof *sum);
		}
	for (int64_t r = 0; r < rows; r++)
		row_store(pass, x, y + r, sums[r]);
}

/* What the sums do to one vector of pixels. */
static inline vf change(const Pass *pass, vf pixels, vf sum, vf under)
{
	const FusedUpdate *step = pass->step;
	if (step->average)
		sum = vf_where(under > pass->least, sum / under);
	return vf_clamp(pixels + step->a * sum, step->low, step->high);
}

static void tile_step(const Pass *pass, int64_t x, int64_t y, int64_t rows)
{
	for (int64_t r = 0; r < rows; r++) {
		vf sum[2 * BLOCKS] = {{0}};
		if (pass->step->average)
			take_views(pass, x, y + r, 0, pass->count, true, sum);
		else
			take_views(pass, x, y + r, 0, pass->count, false, sum);
		vf pixels[BLOCKS];
		row_load(pass, x, y + r, pixels);
		for (int b = 0; b < BLOCKS; b++)
			pixels[b] = change(pass, pixels[b], sum[b], sum[BLOCKS + b]);
		row_store(pass, x, y + r, pixels);
	}
}

static void pass_back(void *user, int64_t index)
{
	const Pass *pass = user;
	int64_t y = index * TILE_ROWS;
	for (int64_t x = 0; x < pass->f.n[0]; x += BLOCKS * LANES)
		(pass->step ? tile_step : tile_back)(
			pass, x, y, min64(TILE_ROWS, pass->f.n[1] - y));
}

/* With a step, all views have to be there at once. */
static tomos_status back(const ProjectRequest *what, const FusedUpdate *step)
{
	Pass pass = {
		.what = what, .stride = what->plan->model.columns + 2 * PAD + LANES, .step = step};
	if (!find_frame(what, &pass.f))
		return fail(TOMOS_UNSUPPORTED, "the views do not stay in slices");
	if (!step && LEVEL(fours_apply)(what, &pass.f))
		return LEVEL(slice_fours)(what, &pass.f);
	int64_t most = step ? what->count : limit(SCRATCH_FLOATS / pass.stride, 1, what->count);
	int64_t rows = step && step->average ? 2 * most : most;
	TRY(mem_alloc(&pass.samples, rows * pass.stride, sizeof(float), "rows of the views"));
	if (rows > most)
		pass.under = pass.samples + most * pass.stride;
	tomos_status status = mem_alloc(&pass.hats, most, sizeof *pass.hats, "the views' hats");
	if (status == TOMOS_OK)
		for (pass.slice = 0; pass.slice < pass.f.slices; pass.slice++)
			for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
				pass.count = min64(most, what->count - pass.first);
				parallel_for(pass.count, pass_fill, &pass);
				find_least(&pass);
				parallel_for(parts(pass.f.n[1], TILE_ROWS), pass_back, &pass);
			}
	mem_free(pass.samples);
	mem_free(pass.hats);
	return status;
}

tomos_status LEVEL(slice_back)(const ProjectRequest *what)
{
	return back(what, NULL);
}

tomos_status LEVEL(slice_step)(const ProjectRequest *what, const FusedUpdate *step)
{
	return back(what, step);
}
