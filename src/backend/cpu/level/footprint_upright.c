/* Projection with separable footprints where all voxels of a column along z fall on the same
 * detector columns (RAYS_IN_SHEET: cone beam, fans, laminography without roll), both directions.
 * The shares of the detector columns are computed once for a column of voxels, which are in the
 * SIMD lanes.
 *
 * Views are stored transposed, so that a detector column is contiguous. Back projection: the
 * detector columns are summed into one line of rows, weighted by their shares, from which every
 * voxel takes its rows. Forward projection does the reverse.
 */
#include "backend/cpu/level/density.h"
#include "backend/cpu/level/footprint_upright.h"

enum {
	ACROSS = 16,            /* voxels of a tile along x */
	DEEP = 8,               /* along y */
	TALL = 256,             /* along z */
	TOGETHER = 8,           /* views whose samples for a tile stay in the L2 cache */
	LEAST_TALL = 2 * LANES, /* fewer slices do not repay the work per column */
	LEAST_TASKS = 32,
	SLAB_FLOATS =
		1 << 20, /* forward: transposed volume that stays in the cache for all views */
	SCRATCH_FLOATS = 11 << 20,
	LINES = 4, /* see column_give */
	LINE_FLOATS = MAX_COLUMN + 4 * PAD
};

typedef struct {
	const ProjectRequest *what;
	int64_t first, count;   /* views of this pass */
	int64_t copies;         /* forward: images per view, each of a part of the slab */
	int64_t stride, floats; /* of a detector column and of a view, padded */
	float *samples;         /* [view][columns + 2 MOST_PIXELS][stride] */
	int64_t y, deep, tall;  /* forward: rows of voxels of the slab; floats of a column in it */
	float *slab;            /* [y][x][z] */
} Pass;

/* Sums of detector rows. */
typedef float Lines[LINES][LINE_FLOATS];

static bool footprint_upright_applies(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	if (!rays_are(&plan->rays, RAYS_IN_SHEET) || plan->model.planar ||
		what->box.high[2] - what->box.low[2] < LEAST_TALL ||
		plan->model.rows > MAX_COLUMN || plan->model.columns >= MOST_PLACE - MOST_PIXELS)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++)
		for (int corner = 0; corner < 4; corner++) {
			const int64_t at[3] = {corner & 1 ? plan->grid.n[0] - 1 : 0,
				corner & 2 ? plan->grid.n[1] - 1 : 0, 0};
			if (!(voxel_affine(plan->views[i].depth, at) > 1e-3))
				return false;
		}
	return true;
}

/* Times (density.h): of a column; of each of its voxels, and what each further row adds; of other
 * kernels for a voxel, and what each further pixel adds. */
typedef struct {
	double column, voxel, row, other, pixel;
} Times;

static const Times times[] = {
	[FORWARD] = {BY_LANES(52, 45, 75), BY_LANES(1.7, 2.6, 6.8), BY_LANES(3.5, 3.5, 6.5),
		BY_LANES(3.2, 3.8, 9.9), BY_LANES(1.75, 1.75, 3)},
	[ADJOINT] = {BY_LANES(28, 30, 40), BY_LANES(1, 1.85, 6.5), BY_LANES(3.8, 3.8, 6),
		BY_LANES(3, 3.4, 9.6), BY_LANES(1.75, 1.75, 3)},
};

static double slower_by(const ProjectRequest *what, const Density *d, bool circle)
{
	const Times *t = &times[what->direction];
	const double voxels = ceil(d->seen / (2 * LANES)) * 2 * LANES;
	(void)circle;
	return t->column + voxels * (t->voxel + t->row * fmax(0, d->rows - 1)) -
	       slices_in_blocks(what, d) *
		       (t->other + t->pixel * fmax(0, d->rows * d->columns - 1));
}

static bool footprint_upright_slower(const ProjectRequest *what)
{
	return slower_in_sum(what, false, slower_by);
}

static const KernelView *view_of(const Pass *pass, int64_t view)
{
	return &pass->what->plan->views[pass->what->first + pass->first + view];
}

/* ---- one column of voxels -------------------------------------------------------------------- */

/* Four rows of one voxel. */
typedef float v4 __attribute__((vector_size(16)));

INLINE v4 four_load(const float *p)
{
	v4 v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* Transposes four vectors: the four values of lane l become fours[four_of(l)]. */
INLINE void fours_store(const vf m[4], float (*fours)[4])
{
	vf square[4];
	transpose_four(m, square);
	for (int c = 0; c < 4; c++)
		vf_store(fours[c * (LANES / 4)], square[c]);
}

INLINE int four_of(int l)
{
	return l % 4 * (LANES / 4) + l / 4;
}

/* A voxel whose footprint has any number of pixels: adds its back projection to *voxel, or its
 * projection to the view at `image`, with this number of floats from column to column. */
static void project_large(const Plan *plan, const KernelView *k, const int64_t at[3],
	Direction direction, float *voxel, float *image, int64_t column_stride)
{
	double depth = voxel_affine(k->depth, at), sum = 0;
	if (!(depth > 0))
		return;
	double weight = voxel_weight(&plan->whole, &plan->model, k, at, depth);
	FootprintProfile across = footprint_profile(k->column, k, at, depth, 1), along = across;
	int64_t c0, c1, r0, r1;
	footprint_range(&across, plan->model.columns, &c0, &c1);
	along = footprint_profile(
		k->row, k, at, kernel_row_depth(k, depth), KERNEL_FANS(k) ? 0 : 1);
	footprint_range(&along, plan->model.rows, &r0, &r1);
	for (int64_t r = r0; r <= r1; r++) {
		double row_share = footprint_share(&along, r);
		for (int64_t c = c0; c <= c1; c++) {
			double share = row_share * footprint_share(&across, c);
			float *pixel = &image[r + c * column_stride];
			if (direction == FORWARD && share > KERNEL_LEAST)
				*pixel += (float)(share * weight * *voxel);
			else if (share > KERNEL_LEAST)
				sum += share * weight * *pixel;
		}
	}
	if (direction == ADJOINT)
		*voxel += (float)sum;
}

/* Shares of LANES voxels from voxel n on. */
typedef struct {
	vf shares[MOST_PIXELS], scale;
	vi first;
	int64_t whole;
} Some;

/* Adds the rows of `line` to the voxels that are seen. `window`: the rows of
 * LANES voxels are in one window.
 * Two vectors at a time, since each of them is a long chain of operations. */
INLINE void column_take(const Sight *s, const float *line, int64_t size, const Range *seen,
	const int rows, const bool distance, const bool window, float *sums)
{
	int64_t step = position_of(LANES * s->step);
	int64_t p = position_of(s->row + lowest_lane(s->step)) + seen->from / LANES * step;
	Lanes lanes = lanes_of(s->step);
	for (int64_t n = seen->from; n < seen->to; n += 2 * LANES) {
		Some some[2];
#pragma GCC unroll 2
		for (int v = 0; v < 2; v++, p += step) {
			some[v].first = sight_shares(s, &lanes, p, n + v * LANES, rows, distance,
				some[v].shares, &some[v].scale);
			some[v].whole = p >> FRACTION_BITS;
		}
		for (int v = 0; v < 2; v++) {
			vf sum = {0};
			if (window) {
				const float *at =
					line + limit(some[v].whole - s->below, -PAD, size);
				for (int i = 0; i < rows; i++)
					sum += some[v].shares[i] *
					       vf_pick(at, some[v].first + (s->below + i));
			} else {
				vi at = vi_limit(some[v].first + (int32_t)some[v].whole, -PAD,
					(int32_t)size);
				for (int i = 0; i < rows; i++)
					sum += some[v].shares[i] * vf_gather(line + i, at);
			}
			float *to = sums + n + v * LANES;
			vf_store(to, vf_load(to) + (distance ? sum * some[v].scale : sum));
		}
	}
}

/* Adds the voxels that are seen to the rows of LINES lines, whose sum is the result. Neighbours use
 * different lines: an addition would have to wait for the one before at the same rows. */
INLINE void column_give(const Sight *s, const float *voxels, int64_t size, const Range *seen,
	const int rows, const bool distance, Lines lines)
{
	int64_t step = position_of(LANES * s->step);
	int64_t p = position_of(s->row + lowest_lane(s->step)) + seen->from / LANES * step;
	Lanes lanes = lanes_of(s->step);
	for (int64_t n = seen->from; n < seen->to; n += 2 * LANES) {
		float fours[2][MOST_PIXELS / 4][LANES][4];
		int32_t at[2][LANES];
#pragma GCC unroll 2
		for (int v = 0; v < 2; v++, p += step) {
			vf shares[MOST_PIXELS] = {{0}}, value = vf_load(voxels + n + v * LANES),
			   scale;
			vi first = sight_shares(
				s, &lanes, p, n + v * LANES, rows, distance, shares, &scale);
			value = distance ? value * scale : value;
			first = vi_limit(
				first + (int32_t)(p >> FRACTION_BITS), -PAD, (int32_t)size);
			memcpy(at[v], &first, sizeof first);
			for (int i = 0; i < rows; i++)
				shares[i] *= value;
			for (int j = 0; j < rows; j += 4)
				fours_store(shares + j, fours[v][j / 4]);
		}
		for (int v = 0; v < 2; v++)
			for (int l = 0; l < LANES; l++)
				for (int j = 0; j < rows; j += 4) {
					float *to = &lines[l % LINES][PAD + at[v][l] + j];
					v4 sum = four_load(to) +
						 four_load(fours[v][j / 4][four_of(l)]);
					memcpy(to, &sum, sizeof sum);
				}
	}
}

INLINE void column_rows(const Sight *s, int64_t size, const Range *seen, const Direction direction,
	const int rows, const bool distance, Lines lines, float *voxels)
{
	bool window = lanes_fit(s->step, s->below + rows);
	if (direction == FORWARD)
		column_give(s, voxels, size, seen, rows, distance, lines);
	else if (window)
		column_take(s, lines[0] + PAD, size, seen, rows, distance, true, voxels);
	else
		column_take(s, lines[0] + PAD, size, seen, rows, distance, false, voxels);
}

INLINE void column_by_rows(const Sight *s, int64_t size, const Range *seen,
	const Direction direction, const bool distance, Lines lines, float *voxels)
{
	if (s->rows <= 2)
		column_rows(s, size, seen, direction, 2, distance, lines, voxels);
	else if (s->rows == 3)
		column_rows(s, size, seen, direction, 3, distance, lines, voxels);
	else if (s->rows == 4)
		column_rows(s, size, seen, direction, 4, distance, lines, voxels);
	else
		column_rows(s, size, seen, direction, s->rows, distance, lines, voxels);
}

/* line = sum of the detector columns, weighted. */
INLINE void line_mix(const Sight *s, const float *columns, int64_t stride, int64_t from, int64_t to,
	const int count, float *line)
{
	for (int64_t r = from; r < to; r += LANES) {
		vf sum = {0};
		for (int i = 0; i < count; i++)
			sum += s->share[i] * vf_load(columns + i * stride + r);
		vf_store(line + r, sum);
	}
}

/* Adds the lines to the detector columns, weighted, and clears them for the next column of voxels.
 * What clipped voxels add beside the detector may stay: no pixel reads it. */
INLINE void line_spread(const Sight *s, float *columns, int64_t stride, int64_t from, int64_t to,
	const int count, Lines lines)
{
	for (int64_t r = from; r < to; r += LANES) {
		vf value = {0};
		for (int i = 0; i < LINES; i++) {
			value += vf_load(lines[i] + r);
			vf_store(lines[i] + r, vf_all(0));
		}
		for (int i = 0; i < count; i++) {
			float *at = columns + i * stride + r;
			vf_store(at, vf_load(at) + s->share[i] * value);
		}
	}
}

/* Projects `tall` voxels in one direction; view: pixel (0, 0) of the transposed view. */
INLINE void column_project(const Sight *s, const KernelModel *model, int64_t stride, int64_t tall,
	const Direction direction, float *view, Lines lines, float *voxels)
{
	/* A footprint has rows up to `below` away from its middle. */
	const Range seen = stretch_range(
		s->row, s->step, (double)s->below + 1, model->rows, tall, (int64_t)2 * LANES);
	int64_t from, to;
	float *columns = view - PAD + s->column * stride;
	if (seen.from >= seen.to)
		return;
	sight_range(s, tall, stride, &from, &to);
	if (direction == ADJOINT && s->columns <= 3)
		line_mix(s, columns, stride, from, to, 3, lines[0]);
	else if (direction == ADJOINT)
		line_mix(s, columns, stride, from, to, s->columns, lines[0]);
	if (s->distance)
		column_by_rows(s, model->rows, &seen, direction, true, lines, voxels);
	else
		column_by_rows(s, model->rows, &seen, direction, false, lines, voxels);
	if (direction == FORWARD && s->columns <= 3)
		line_spread(s, columns, stride, from, to, 3, lines);
	else if (direction == FORWARD)
		line_spread(s, columns, stride, from, to, s->columns, lines);
}

/* Projects `wide` (at most LANES) columns of `tall` voxels, `apart` floats from each other, from
 * voxel `at` on. */
INLINE void columns_project(const Pass *pass, const KernelView *k, const int64_t at[3],
	int64_t wide, int64_t tall, const Direction direction, float *view, Lines lines,
	float *voxels, int64_t apart)
{
	const Plan *plan = pass->what->plan;
	const double first[3] = {(double)at[0], (double)at[1], (double)at[2]};
	Sight sights[LANES];
	sights_of(plan, k, first, wide, tall, sights);
	for (int64_t i = 0; i < wide; i++) {
		float *column = voxels + i * apart;
		if (sight_misses(&sights[i], &plan->model))
			continue;
		if (sights[i].fits)
			column_project(&sights[i], &plan->model, pass->stride, tall, direction,
				view, lines, column);
		for (int64_t z = 0; !sights[i].fits && z < tall; z++) {
			const int64_t here[3] = {at[0] + i, at[1], at[2] + z};
			project_large(plan, k, here, direction, column + z, view, pass->stride);
		}
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Pixel (0, 0) of image i of the scratch memory. */
static float *view_origin(const Pass *pass, int64_t i)
{
	return pass->samples + i * pass->floats + MOST_PIXELS * pass->stride + PAD;
}

static void transpose_view(void *user, int64_t view)
{
	const Pass *pass = user;
	const KernelModel *model = &pass->what->plan->model;
	const float *from =
		pass->what->projections + (pass->first + view) * model->rows * model->columns;
	float *to = view_origin(pass, view);
	memset(pass->samples + view * pass->floats, 0, (size_t)pass->floats * sizeof *to);
	for (int64_t c = 0; c < model->columns; c++)
		for (int64_t r = 0; r < model->rows; r++)
			to[c * pass->stride + r] = from[r * model->columns + c];
}

static const int64_t tile_size[3] = {ACROSS, DEEP, TALL};

/* Sums of a tile over the views of a pass, [y][x][z]. */
typedef float TileSums[DEEP][ACROSS][TALL + 2 * LANES];

static void tile_give(const Pass *pass, const Box *tile, TileSums sums)
{
	for (int64_t z = tile->low[2]; z < tile->high[2]; z++)
		for (int64_t y = tile->low[1]; y < tile->high[1]; y++) {
			float *row = request_voxel(pass->what, tile->low[0], y, z);
			for (int64_t x = 0; x < tile->high[0] - tile->low[0]; x++)
				row[x] += sums[y - tile->low[1]][x][z - tile->low[2]];
		}
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box tile = box_tile(&pass->what->box, tile_size, index);
	TileSums sums;
	Lines lines;
	memset(sums, 0, sizeof sums);
	memset(lines, 0, sizeof lines); /* columns that no row sees read pads only */
	for (int64_t first = 0; first < pass->count && !cancel_seen(); first += TOGETHER)
		for (int64_t y = tile.low[1]; y < tile.high[1]; y++)
			for (int64_t v = first; v < min64(first + TOGETHER, pass->count); v++)
				for (int64_t x = tile.low[0]; x < tile.high[0]; x += LANES) {
					const int64_t at[3] = {x, y, tile.low[2]};
					columns_project(pass, view_of(pass, v), at,
						min64(LANES, tile.high[0] - x),
						tile.high[2] - tile.low[2], ADJOINT,
						view_origin(pass, v), lines,
						sums[y - tile.low[1]][x - tile.low[0]],
						TALL + 2 * LANES);
				}
	tile_give(pass, &tile, sums);
}

static void pass_back(Pass *pass)
{
	parallel_for(pass->count, transpose_view, pass);
	parallel_for(box_tiles(&pass->what->box, tile_size), tile_back, pass);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Copies a row of voxels, all slices of it, to the slab. */
static void slab_fill(void *user, int64_t y)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	int64_t nz = box->high[2] - box->low[2];
	float *to = pass->slab + y * nx * pass->tall;
	const float *from = pass->what->volume + (pass->y + y) * nx;
	for (int64_t x = 0; x < nx; x++)
		for (int64_t z = 0; z < pass->tall; z++)
			to[x * pass->tall + z] = z < nz ? from[z * nx * ny + x] : 0;
}

static void slab_forward(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	const KernelView *k = view_of(pass, index / pass->copies);
	int64_t part = index % pass->copies, nx = box->high[0] - box->low[0];
	int64_t low = part * pass->deep / pass->copies;
	int64_t high = (part + 1) * pass->deep / pass->copies;
	Lines lines;
	memset(lines, 0, sizeof lines);
	for (int64_t y = low; y < high && !cancel_seen(); y++)
		for (int64_t x = 0; x < nx; x += LANES) {
			const int64_t at[3] = {
				box->low[0] + x, box->low[1] + pass->y + y, box->low[2]};
			columns_project(pass, k, at, min64(LANES, nx - x),
				box->high[2] - box->low[2], FORWARD, view_origin(pass, index),
				lines, pass->slab + (y * nx + x) * pass->tall, pass->tall);
		}
}

/* Adds the images of a view to the projections. */
static void give_view(void *user, int64_t view)
{
	const Pass *pass = user;
	const KernelModel *model = &pass->what->plan->model;
	float *to = pass->what->projections + (pass->first + view) * model->rows * model->columns;
	for (int64_t i = 0; i < pass->copies; i++) {
		const float *from = view_origin(pass, view * pass->copies + i);
		for (int64_t r = 0; r < model->rows; r++)
			for (int64_t c = 0; c < model->columns; c++)
				to[r * model->columns + c] += from[c * pass->stride + r];
	}
}

static void pass_forward(Pass *pass)
{
	const Box *box = &pass->what->box;
	int64_t row = (box->high[0] - box->low[0]) * pass->tall, ny = box->high[1] - box->low[1];
	memset(pass->samples, 0,
		(size_t)(pass->count * pass->copies * pass->floats) * sizeof *pass->samples);
	for (pass->y = 0; pass->y < ny; pass->y += pass->deep) {
		pass->deep = min64(max64(1, SLAB_FLOATS / row), ny - pass->y);
		parallel_for(pass->deep, slab_fill, pass);
		parallel_for(pass->count * pass->copies, slab_forward, pass);
	}
	parallel_for(pass->count, give_view, pass);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static tomos_status footprint_upright_project(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	const Box *box = &what->box;
	bool forward = what->direction == FORWARD;
	Pass pass = {.what = what, .stride = column_stride(model->rows)};
	pass.floats = (model->columns + 2 * MOST_PIXELS) * pass.stride;
	pass.copies = forward ? parts(LEAST_TASKS, limit(what->count, 1, LEAST_TASKS)) : 1;
	pass.tall = parts(box->high[2] - box->low[2], 2 * LANES) * 2 * LANES;
	int64_t views = limit(SCRATCH_FLOATS / (pass.copies * pass.floats), 1, what->count);
	int64_t row = (box->high[0] - box->low[0]) * pass.tall;
	tomos_status status = TOMOS_OK;
	TRY(mem_alloc(&pass.samples, views * pass.copies * pass.floats, sizeof(float),
		"transposed views"));
	if (forward)
		status = mem_alloc(
			&pass.slab, max64(row, SLAB_FLOATS), sizeof(float), "a slab of the volume");
	for (pass.first = 0; status == TOMOS_OK && pass.first < what->count;
		pass.first += pass.count) {
		pass.count = min64(views, what->count - pass.first);
		(forward ? pass_forward : pass_back)(&pass);
	}
	mem_free(pass.samples);
	mem_free(pass.slab);
	return status;
}

const CpuKernel LEVEL(cpu_footprint_upright) = {
	.applies = footprint_upright_applies,
	.run = {footprint_upright_project, footprint_upright_project},
	.slower = footprint_upright_slower,
};
