/* In-slice parallel rays: adjoints of Joseph's method and of intersection lengths, and voxel-driven
 * back projection, one slice at a time, with neighbouring pixels in the SIMD lanes. */
#include "backend/cpu/level/four.h"
#include "backend/cpu/level/stretch.h"

enum {
	TILE_ROWS = 8, /* image rows updated while samples are in the cache */
	VIEWS_IN_CACHE = 64,
	SCRATCH_FLOATS = 4 << 20
};

/* A view. Pixel (x, y) of the slice projects to column origin + x per_x + y per_y. Its value is the
 * sum of the samples around that column, weighted by a hat function of half width `reach` columns:
 * 1 for voxel-driven; for the ray-driven adjoints the number of columns per voxel across the
 * dominant axis. After set-up `origin` is that of the lowest lane, minus `reach` if hats > 0. */
typedef struct {
	double origin, per_x, per_y;
	float reach, pitch; /* pitch = 1 / reach */
	float top;          /* intersection lengths: height of the uncut hat; 0: not cut off */
	int hats;           /* largest number of columns under the hat; 0: voxel-driven */
	Lanes lanes;
} SliceHat;

typedef struct {
	const ProjectRequest *what;
	Frame f;
	int64_t slice, first, count; /* views of this pass */
	int64_t stride;
	float *samples; /* detector rows of the views, padded with zeros and weighted */
	SliceHat *hats;
	const FusedUpdate *step; /* update to apply; NULL: sums are added to the volume */
	float *under;            /* samples of the back projected divisor; NULL: none */
	float least;
} Pass;

/* Intersection lengths: the hat has steeper sides and is cut off at 1, so that it is a
 * trapezium. */
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

/* Copies a detector row, weighted and padded with zeros; from == NULL: a row of ones. */
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
	bool seen = row_of_slice(plan, &pass->f, k, what->box.low[pass->f.w] + pass->slice, &row);
	if (!seen)
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

/* Sets the value up to which the divisor of a pixel counts as 0; see FusedUpdate. */
static void find_least(Pass *pass)
{
	pass->least = 0;
	for (int64_t i = 0; pass->under && i < pass->count * pass->stride; i++)
		pass->least = fmaxf(pass->least, pass->step->least * pass->under[i]);
}

/* Adds one view to a vector of pixels and, with `divide`, to their divisors. `p`: fixed-point
 * position of the lowest lane; samples[0] and under[0] are the sample at or below it. The order of
 * additions is that of stack.h, so that a slice gets the same bits in either kernel. `hats`, `cut`
 * and `divide` are constants at most calls. */
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

/* Adds one view to BLOCKS vectors of pixels, from column position p on. sum[0 .. BLOCKS-1] are the
 * pixels, the next BLOCKS vectors their divisors. */
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

/* Adds views [first, first + count) to BLOCKS vectors of pixels from (x, y) on. */
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

/* Loads BLOCKS vectors of pixels from (x, y) on; beyond the image they are 0. */
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

/* Adds the views of a pass to a tile. Groups of views that fit into the cache are added to all rows
 * of the tile before the next group. */
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

/* Applies the fused update to one vector of pixels. */
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

/* Back projection, or (step != NULL) fused update, for which the samples of all views are needed at
 * once. */
static tomos_status back(const ProjectRequest *what, const FusedUpdate *step)
{
	Pass pass = {
		.what = what, .stride = what->plan->model.columns + 2 * PAD + LANES, .step = step};
	if (!find_slices(what, &pass.f))
		return fail(TOMOS_UNSUPPORTED, "the rays are not in slices");
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
