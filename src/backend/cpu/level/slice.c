/* Parallel rays inside slices: Joseph's forward projection, its adjoint and voxel-driven back
 * projection, one slice at a time, with neighbouring rays or pixels in the lanes of a vector.
 *
 * Neighbours read neighbouring samples, so a lane's two samples are picked out of two loaded vectors.
 */
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/stretch.h"

enum {
	GROUP = 4,     /* views that share image rows while these are in the cache */
	TILE = 512,    /* columns of sums held at a time */
	BAND = 8,      /* image rows per pass over the columns */
	BLOCKS = 4,    /* vectors of pixels per pass over the views */
	TILE_ROWS = 8, /* image rows that share the views' samples */
	VIEWS_IN_CACHE = 64,
	SCRATCH_FLOATS = 4 << 20
};

/* Slices across axis w, spanned by p and q; their voxels in the box's memory. */
typedef struct {
	int p, q, w;
	int64_t n[2], stride[2], slices, per_slice;
} Frame;

static Frame frame_across(const Projecting *what, int w)
{
	Frame f = {.p = w == 0 ? 1 : 0, .q = w == 2 ? 1 : 2, .w = w};
	int64_t n[3], stride[3] = {1, 0, 0};
	for (int a = 0; a < 3; a++)
		n[a] = what->box.high[a] - what->box.low[a];
	stride[1] = n[0];
	stride[2] = n[0] * n[1];
	f.n[0] = n[f.p], f.stride[0] = stride[f.p];
	f.n[1] = n[f.q], f.stride[1] = stride[f.q];
	f.slices = n[w], f.per_slice = stride[w];
	return f;
}

/* The detector row on which a slice falls. */
static bool row_of_slice(
	const Plan *plan, const Frame *f, const KernelView *k, int64_t slice, int64_t *row)
{
	double r = plan->model.planar ? 0 : k->row[f->w] * (double)slice + k->row[3];
	*row = (int64_t)floor(r + 0.5);
	return *row >= 0 && *row < plan->model.rows;
}

/* Whether a view's rays stay in the slices, and every slice falls on one detector row. */
static bool in_slices(const Plan *plan, const Frame *f, const KernelView *k)
{
	const double tiny = 1e-6;
	if (k->src[3] != 0)
		return false;
	if (plan->model.planar)
		return f->w == 2;
	double size = sqrt(k->src[0] * k->src[0] + k->src[1] * k->src[1] + k->src[2] * k->src[2]);
	double across = fabs(k->src[f->w]) / size + fabs(k->u[f->w]) + fabs(k->column[f->w]);
	across += fabs(k->row[f->p]) * (double)plan->grid.n[f->p] +
		  fabs(k->row[f->q]) * (double)plan->grid.n[f->q];
	double shift = k->row[3] - floor(k->row[3] + 0.5);
	double drift = (fabs(k->row[f->w]) - 1) * (double)plan->grid.n[f->w];
	return across < tiny && fabs(shift) < tiny && fabs(drift) < tiny;
}

/* A view's rays as Joseph sees them: rays cross image row k at base + column per_ray + k slope,
 * rows being along q (axis 1) or along p of the transposed image (axis 0). */
typedef struct {
	int axis;
	double base, per_ray, slope, step;
} SliceRays;

static SliceRays rays_of(const Projecting *what, const Frame *f, const KernelView *k)
{
	SliceRays rays = {.axis = fabs(k->src[f->p]) >= fabs(k->src[f->q]) ? 0 : 1};
	int a = rays.axis == 0 ? f->p : f->q, b = rays.axis == 0 ? f->q : f->p;
	const double *step = what->plan->whole.step;
	rays.slope = k->src[b] / k->src[a];
	rays.base = k->first[b] - (double)what->box.low[b] -
		    (k->first[a] - (double)what->box.low[a]) * rays.slope;
	rays.per_ray = k->u[b] - k->u[a] * rays.slope;
	rays.step = hypot(k->src[a] * step[a], k->src[b] * step[b]) / fabs(k->src[a]);
	return rays;
}

static bool frame_fits(const Projecting *what, const Frame *f)
{
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const KernelView *k = &what->plan->views[i];
		if (!in_slices(what->plan, f, k))
			return false;
		double pitch = fabs(rays_of(what, f, k).per_ray);
		if (what->direction == FORWARD ? !lanes_fit(pitch, 1)
					       : !lanes_fit(k->column[f->p], 2 / pitch + 2))
			return false;
	}
	return true;
}

static bool find_frame(const Projecting *what, Frame *f)
{
	for (int w = 2; w >= 0; w--) {
		*f = frame_across(what, w);
		if (frame_fits(what, f))
			return true;
	}
	return false;
}

bool LEVEL(slice_applies)(const Projecting *what)
{
	Frame f;
	return !what->plan->model.clamp && !what->plan->model.nearest && find_frame(what, &f);
}

/* ---- forward ---------------------------------------------------------------------------------- */

typedef struct {
	const Projecting *what;
	Frame f;
	int64_t slice;
	int axis; /* the strip's rows are rows (1) or columns (0) of the slice */
	int64_t first, count, width, stride;
	float *strip;
} Strip;

static void strip_fill(void *user, int64_t k)
{
	const Strip *s = user;
	int64_t step = s->f.stride[1 - s->axis];
	float *row = s->strip + k * s->stride;
	const float *from =
		s->what->volume + s->slice * s->f.per_slice + (s->first + k) * s->f.stride[s->axis];
	memset(row, 0, PAD * sizeof *row);
	for (int64_t i = 0; i < s->width; i++)
		row[PAD + i] = from[i * step];
	memset(row + PAD + s->width, 0, (size_t)(s->stride - PAD - s->width) * sizeof *row);
}

/* What rows [k, k + rows) of the strip give to one vector of rays, the lowest of which crosses row k
 * at p. */
static inline vf walk_rows(
	const Strip *s, int64_t k, int64_t rows, int64_t p, int64_t slope, const Lanes *lanes)
{
	vf sum = {0};
	for (int64_t end = k + rows; k < end; k++, p += slope) {
		int64_t i = limit(p >> FRACTION_BITS, -PAD, s->width);
		sum += vf_interpolate(s->strip + k * s->stride + PAD + i, lanes, p);
	}
	return sum;
}

static void view_band(const Strip *s, const SliceRays *rays, int64_t column, int64_t columns,
	int64_t k, int64_t rows, float *sums)
{
	double spread = (LANES - 1) * fabs(rays->per_ray), lowest = lowest_lane(rays->per_ray);
	int64_t slope = position_of(rays->slope);
	Lanes lanes = lanes_of(rays->per_ray);
	for (int64_t c = 0; c < columns; c += LANES) {
		double p = rays->base + (double)(column + c) * rays->per_ray + lowest +
			   (double)(s->first + k) * rays->slope;
		double q = p + (double)(rows - 1) * rays->slope, width = (double)s->width;
		if (fmax(p, q) + spread <= -1 || fmin(p, q) >= width)
			continue;
		vf sum = walk_rows(s, k, rows, position_of(p), slope, &lanes);
		vf_store(sums + c, vf_load(sums + c) + sum);
	}
}

static void strip_project(void *user, int64_t index)
{
	const Strip *s = user;
	const Plan *plan = s->what->plan;
	int64_t tiles = parts(plan->model.columns, TILE);
	int64_t view = index / tiles * GROUP, column = index % tiles * TILE;
	int64_t columns = min64(TILE, plan->model.columns - column);
	int64_t views = min64(GROUP, s->what->count - view);
	float sums[GROUP][TILE + LANES] = {{0}};
	SliceRays rays[GROUP];
	for (int64_t v = 0; v < views; v++)
		rays[v] = rays_of(s->what, &s->f, &plan->views[s->what->first + view + v]);
	for (int64_t k = 0; k < s->count; k += BAND)
		for (int64_t v = 0; v < views; v++)
			if (rays[v].axis == s->axis)
				view_band(s, &rays[v], column, columns, k,
					min64(BAND, s->count - k), sums[v]);
	for (int64_t v = 0; v < views; v++) {
		int64_t row;
		const KernelView *k = &plan->views[s->what->first + view + v];
		if (rays[v].axis != s->axis ||
			!row_of_slice(plan, &s->f, k, s->what->box.low[s->f.w] + s->slice, &row))
			continue;
		float *out = s->what->projections +
			     ((view + v) * plan->model.rows + row) * plan->model.columns + column;
		for (int64_t c = 0; c < columns; c++)
			out[c] += (float)rays[v].step * sums[v][c];
	}
}

tomos_status LEVEL(slice_joseph_forward)(const Projecting *what)
{
	int64_t tasks = parts(what->count, GROUP) * parts(what->plan->model.columns, TILE);
	Strip s = {.what = what};
	if (!find_frame(what, &s.f))
		return fail(TOMOS_UNSUPPORTED, "the views do not stay in slices");
	TRY(mem_alloc(&s.strip, max64(SCRATCH_FLOATS, max64(s.f.n[0], s.f.n[1]) + 3 * PAD),
		sizeof(float), "a strip of the slice"));
	for (s.slice = 0; s.slice < s.f.slices; s.slice++)
		for (s.axis = 0; s.axis < 2; s.axis++) {
			s.width = s.f.n[1 - s.axis];
			s.stride = column_stride(s.width);
			int64_t most = max64(1, SCRATCH_FLOATS / s.stride);
			for (s.first = 0; s.first < s.f.n[s.axis]; s.first += s.count) {
				s.count = min64(most, s.f.n[s.axis] - s.first);
				parallel_for(s.count, strip_fill, &s);
				parallel_for(tasks, strip_project, &s);
			}
		}
	mem_free(s.strip);
	return TOMOS_OK;
}

/* ---- back ------------------------------------------------------------------------------------- */

/* A pixel (x, y) of the slice falls on column c = origin + x per_x + y per_y, and takes from the pixels
 * around it by a hat of half width `reach` columns: 1 for voxel-driven, the distance of one voxel
 * across the ray's dominant axis for Joseph. */
typedef struct {
	double origin, per_x, per_y;
	float reach, pitch; /* pitch = 1 / reach */
	int hats;           /* pixels a hat can cover, 0: voxel-driven */
	Lanes lanes;
} SliceHat;

typedef struct {
	const Projecting *what;
	Frame f;
	int64_t slice, first, count; /* views of this pass */
	int64_t stride;
	float *samples; /* the views' rows, padded with zeros and weighted */
	SliceHat *hats;
} Pass;

static SliceHat hat_of(const Projecting *what, const Frame *f, const KernelView *k)
{
	SliceHat hat = {.per_x = k->column[f->p], .per_y = k->column[f->q], .reach = 1, .pitch = 1};
	hat.origin = k->column[3];
	for (int a = 0; a < 3; a++)
		hat.origin += k->column[a] * (double)what->box.low[a];
	if (what->kernel == KERNEL_joseph) {
		double pitch = fabs(rays_of(what, f, k).per_ray);
		hat.pitch = (float)pitch;
		hat.reach = (float)(1 / pitch);
		hat.hats = (int)floor(2 / pitch) + 1;
	}
	hat.origin += lowest_lane(hat.per_x) - (hat.hats ? hat.reach : 0);
	hat.lanes = lanes_of(hat.per_x);
	return hat;
}

static void pass_fill(void *user, int64_t i)
{
	const Pass *pass = user;
	const Projecting *what = pass->what;
	const Plan *plan = what->plan;
	const KernelView *k = &plan->views[what->first + pass->first + i];
	int64_t columns = plan->model.columns, row;
	float *to = pass->samples + i * pass->stride;
	memset(to, 0, (size_t)pass->stride * sizeof *to);
	pass->hats[i] = hat_of(what, &pass->f, k);
	if (!row_of_slice(plan, &pass->f, k, what->box.low[pass->f.w] + pass->slice, &row))
		return;
	const float *from =
		what->projections + ((pass->first + i) * plan->model.rows + row) * columns;
	double weight = what->kernel == KERNEL_joseph      ? rays_of(what, &pass->f, k).step
			: plan->model.weight == WEIGHT_RAY ? k->mass
							   : 1;
	for (int64_t c = 0; c < columns; c++)
		to[PAD + c] = (float)weight * from[c];
}

/* What one view gives to one vector of pixels, the lowest sample of which is at p. `hats` is a literal
 * where it matters. */
static inline vf take(
	const SliceHat *hat, const float *samples, int64_t columns, int64_t p, const int hats)
{
	const float *window = samples + PAD + limit(p >> FRACTION_BITS, -PAD, columns);
	if (hats == 0)
		return vf_interpolate(window, &hat->lanes, p);
	vf fraction, sum = {0};
	vi j = lanes_at(&hat->lanes, p, &fraction);
	vf away = hat->reach + fraction;
	for (int n = 1; n <= hats; n++)
		sum += vf_positive(1 - hat->pitch * vf_abs((float)n - away)) *
		       vf_pick(window, j + n);
	return sum;
}

static inline void take_blocks(const SliceHat *hat, const float *samples, int64_t columns, double p,
	const int hats, vf *sum)
{
	int64_t position = position_of(p), step = position_of(LANES * hat->per_x);
	for (int b = 0; b < BLOCKS; b++)
		sum[b] += take(hat, samples, columns, position + b * step, hats);
}

static void tile_row(
	const Pass *pass, int64_t x, int64_t y, int64_t first, int64_t count, float *sums)
{
	vf sum[BLOCKS];
	int64_t columns = pass->what->plan->model.columns;
	for (int b = 0; b < BLOCKS; b++)
		sum[b] = vf_load(sums + b * LANES);
	for (int64_t v = first; v < first + count; v++) {
		const SliceHat *hat = &pass->hats[v];
		const float *samples = pass->samples + v * pass->stride;
		double p = hat->origin + (double)x * hat->per_x + (double)y * hat->per_y;
		if (hat->hats == 0)
			take_blocks(hat, samples, columns, p, 0, sum);
		else if (hat->hats == 2)
			take_blocks(hat, samples, columns, p, 2, sum);
		else
			take_blocks(hat, samples, columns, p, hat->hats, sum);
	}
	for (int b = 0; b < BLOCKS; b++)
		vf_store(sums + b * LANES, sum[b]);
}

static void tile_back(const Pass *pass, int64_t x, int64_t y, int64_t rows)
{
	const Frame *f = &pass->f;
	float sums[TILE_ROWS][BLOCKS * LANES] = {{0}};
	for (int64_t v = 0; v < pass->count; v += VIEWS_IN_CACHE)
		for (int64_t r = 0; r < rows; r++)
			tile_row(
				pass, x, y + r, v, min64(VIEWS_IN_CACHE, pass->count - v), sums[r]);
	int64_t wide = min64(BLOCKS * LANES, f->n[0] - x);
	float *out = pass->what->volume + pass->slice * f->per_slice + y * f->stride[1] +
		     x * f->stride[0];
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < wide; i++)
			out[r * f->stride[1] + i * f->stride[0]] += sums[r][i];
}

static void pass_back(void *user, int64_t index)
{
	const Pass *pass = user;
	int64_t y = index * TILE_ROWS;
	for (int64_t x = 0; x < pass->f.n[0]; x += BLOCKS * LANES)
		tile_back(pass, x, y, min64(TILE_ROWS, pass->f.n[1] - y));
}

tomos_status LEVEL(slice_back)(const Projecting *what)
{
	Pass pass = {.what = what, .stride = what->plan->model.columns + 2 * PAD + LANES};
	if (!find_frame(what, &pass.f))
		return fail(TOMOS_UNSUPPORTED, "the views do not stay in slices");
	int64_t most = limit(SCRATCH_FLOATS / pass.stride, 1, what->count);
	TRY(mem_alloc(&pass.samples, most * pass.stride, sizeof(float), "rows of the views"));
	tomos_status status = mem_alloc(&pass.hats, most, sizeof *pass.hats, "the views' hats");
	if (status == TOMOS_OK)
		for (pass.slice = 0; pass.slice < pass.f.slices; pass.slice++)
			for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
				pass.count = min64(most, what->count - pass.first);
				parallel_for(pass.count, pass_fill, &pass);
				parallel_for(parts(pass.f.n[1], TILE_ROWS), pass_back, &pass);
			}
	mem_free(pass.samples);
	mem_free(pass.hats);
	return status;
}
