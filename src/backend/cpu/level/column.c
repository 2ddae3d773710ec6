/* Back projection where all voxels of a column along z project to the same detector column
 * position: upright cone beam, helix and laminography (Okitsu et al., 5.2). Detector column, depth
 * and step in detector rows are computed once per (x, y); the voxels of a column are in the SIMD
 * lanes.
 *
 * Views are stored transposed, so that a detector column is contiguous. The two detector columns
 * next to the voxel column are interpolated into one, which is then resampled at the rows of the
 * voxels (stretch.h).
 */
#include "backend/cpu/level/circle.h"
#include "backend/cpu/level/column.h"
#include "backend/cpu/level/density.h"
#include "base/team.h"

enum {
	DEEP = 16,    /* voxels of a tile along y */
	TALL = 256,   /* voxels of a tile along z */
	TOGETHER = 2, /* views whose samples for a tile stay in the L2 cache */
};
static const int64_t tile_size[3] = {ACROSS, DEEP, TALL};

typedef struct {
	const ProjectRequest *what;
	int64_t first, count; /* views of this pass */
	int64_t stride;       /* floats per padded detector column */
	float *samples;       /* [view][columns + 2][stride], with a zero column on either side */
} Pass;

static bool column_applies(const ProjectRequest *what)
{
	return what->direction == FORWARD ? LEVEL(column_forward_applies)(what)
					  : columns_apply(what);
}

/* Times (density.h): of a column of voxels; of each of its voxels, by how samples are read (back),
 * or with up to three voxels for a row, and with more (forward); and of other kernels for a voxel,
 * of parallel rays and of others, and what is added for each pixel that it covers (back), or for
 * the neighbours that add to the same pixels (forward). */
typedef struct {
	double column, voxel[READ_ANY + 1], other[2], more;
} Times;

static const Times times[] = {
	[FORWARD] = {BY_LANES(22, 15, 12), {BY_LANES(0.2, 0.6, 2.1), BY_LANES(0.7, 0.75, 2.1)},
		{BY_LANES(0.75, 0.75, 1.6), BY_LANES(0.95, 0.95, 2.2)}, 0.04},
	[ADJOINT] = {BY_LANES(33, 25, 30),
		{BY_LANES(0.15, 0.24, 1.6), BY_LANES(0.55, 0.7, 1.6), BY_LANES(1.2, 1.05, 1.9)},
		{BY_LANES(0.8, 0.8, 2.4), BY_LANES(0.8, 0.8, 2.4)}, BY_LANES(0.12, 0.12, 0.1)},
};
static const double circle_times[] = {BY_LANES(0.5, 0.45, 1.1), 0.06};

/* Kernels of circles set up strips for half of the volume. */
static const double short_time = 6;

static double column_slower_by(const ProjectRequest *what, const Density *d, bool circle)
{
	const Times *t = &times[what->direction];
	const bool forward = what->direction == FORWARD;
	const int reading = forward ? 3 * d->rows < 2 : (int)stretch_reading(d->rows);
	const double pixels = d->rows * d->columns, own = t->column + d->seen * t->voxel[reading];
	if (circle)
		return own - d->seen * (circle_times[0] + circle_times[1] * pixels +
					       short_time / (double)what->plan->grid.n[0]);
	const double each = t->other[what->plan->rays.source != TOMOS_PARALLEL] +
			    t->more * (forward ? 1 / (d->columns * d->columns) : pixels);
	return own - each * slices_in_blocks(what, d);
}

static bool column_slower(const ProjectRequest *what)
{
	bool circle = LEVEL(patch_circle_is_fast)(what);
	if (what->direction == FORWARD && circle)
		return true;
	return slower_in_sum(what, circle, column_slower_by);
}

/* Copies one detector column of a view to the samples. */
static void transpose_column(void *user, int64_t index)
{
	const Pass *pass = user;
	const KernelModel *model = &pass->what->plan->model;
	int64_t wide = model->columns + 2, view = index / wide, column = index % wide - 1;
	float *to = pass->samples + index * pass->stride;
	memset(to, 0, (size_t)pass->stride * sizeof *to);
	if (column < 0 || column >= model->columns)
		return;
	const float *from = pass->what->projections +
			    (pass->first + view) * model->rows * model->columns + column;
	for (int64_t r = 0; r < model->rows; r++)
		to[PAD + r] = from[r * model->columns];
}

/* Interpolates the two detector columns next to voxel column i, for `count` voxels. */
static void mix_columns(const Hits *hits, int i, int64_t count, int64_t stride,
	const float *columns, Stretch *ready)
{
	*ready = (Stretch){.start = hits->row[i],
		.step = hits->step[i],
		.mixed = ready->mixed,
		.near2 = hits->near2[i],
		.z = hits->z,
		.dz = hits->dz};
	const float *one = columns + (hits->left[i] + 1) * stride;
	float right = hits->weight[i] * hits->share[i];
	stretch_mix(ready, one, one + stride, hits->weight[i] - right, right, count, stride);
}

/* Resamples the columns of one or two views at the rows of those of `tall` voxels that they see,
 * and adds them. */
static void add_ready(const Pass *pass, const Stretch *ready, int views, int64_t tall, float *sums)
{
	const Plan *plan = pass->what->plan;
	int64_t rows = plan->model.rows;
	bool by_distance = plan->model.weight == WEIGHT_RAY && plan->rays.source != TOMOS_PARALLEL;
	Range seen[2];
	for (int v = 0; v < views; v++)
		seen[v] = stretch_range(ready[v].start, ready[v].step, 1, rows, tall, LANES);
	if (views == 2 && !by_distance && seen[0].from < seen[1].to && seen[1].from < seen[0].to) {
		const Range both = {
			min64(seen[0].from, seen[1].from), max64(seen[0].to, seen[1].to)};
		stretch_add(ready, 2, &both, rows, 0, sums);
		return;
	}
	for (int v = 0; v < views; v++) {
		if (by_distance)
			stretch_add(ready + v, 1, &seen[v], rows, 1, sums);
		else
			stretch_add(ready + v, 1, &seen[v], rows, 0, sums);
	}
}

/* Adds `count` (1 or 2) views to `wide` voxel columns of `tall` voxels from voxel `at` on. */
static void add_views(const Pass *pass, int64_t view, int count, const int64_t at[3], int64_t wide,
	int64_t tall, Stretch *ready, float (*sums)[TALL])
{
	const Plan *plan = pass->what->plan;
	Hits hits[2];
	for (int v = 0; v < count; v++)
		hit_columns(plan, &plan->views[pass->what->first + pass->first + view + v], at,
			tall, &hits[v]);
	for (int i = 0; i < wide; i++) {
		int found = 0;
		for (int v = 0; v < count; v++)
			if (hits[v].left[i] >= -1)
				mix_columns(&hits[v], i, tall, pass->stride,
					pass->samples + (view + v) * view_floats(plan),
					&ready[found++]);
		add_ready(pass, ready, found, tall, sums[i]);
	}
}

/* Sums of a tile over all views of a pass, [y][x][z]; added to the volume at the end. */
typedef float TileSums[DEEP][ACROSS][TALL];

/* Adds row y and voxels [z, z + tall) of the sums to the volume at `out`, whose slices are `slice`
 * floats apart. A small square buffer avoids long strides in both reads and writes. */
static void give_square(const TileSums sums, int64_t y, int64_t z, int64_t wide, int64_t tall,
	int64_t slice, float *out)
{
	float square[ACROSS][ACROSS];
	for (int64_t x = 0; x < wide; x++)
		for (int64_t k = 0; k < tall; k++)
			square[k][x] = sums[y][x][z + k];
	for (int64_t k = 0; k < tall; k++)
		for (int64_t x = 0; x < wide; x++)
			out[k * slice + x] += square[k][x];
}

static void give_tile(const Pass *pass, const Box *tile, const TileSums sums)
{
	const Box *box = &pass->what->box;
	int64_t slice = (box->high[0] - box->low[0]) * (box->high[1] - box->low[1]);
	int64_t wide = tile->high[0] - tile->low[0], tall = tile->high[2] - tile->low[2];
	for (int64_t z = 0; z < tall; z += ACROSS)
		for (int64_t y = tile->low[1]; y < tile->high[1]; y++)
			give_square(sums, y - tile->low[1], z, wide, min64(ACROSS, tall - z), slice,
				request_voxel(pass->what, tile->low[0], y, tile->low[2] + z));
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box tile = box_tile(&pass->what->box, tile_size, index);
	float mixed[2][MAX_COLUMN + 3 * PAD] = {{0}};
	Stretch ready[2] = {{.mixed = mixed[0]}, {.mixed = mixed[1]}};
	TileSums sums;
	memset(sums, 0, sizeof sums);
	for (int64_t first = 0; first < pass->count; first += TOGETHER)
		for (int64_t y = tile.low[1]; y < tile.high[1]; y++)
			for (int64_t v = first; v < min64(first + TOGETHER, pass->count); v += 2) {
				int64_t at[3] = {tile.low[0], y, tile.low[2]};
				int many = (int)min64(2, pass->count - v);
				add_views(pass, v, many, at, tile.high[0] - tile.low[0],
					tile.high[2] - tile.low[2], ready, sums[y - tile.low[1]]);
			}
	give_tile(pass, &tile, (const float(*)[ACROSS][TALL])sums);
}

static int64_t most_views(const ProjectRequest *what)
{
	return limit(SCRATCH_FLOATS / view_floats(what->plan), 1, what->count);
}

static int64_t back_floats(const ProjectRequest *what)
{
	return most_views(what) * view_floats(what->plan);
}

static tomos_status column_back(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	Pass pass = {.what = what, .stride = column_stride(plan->model.rows)};
	int64_t most = most_views(what);
	TRY(scratch_take(&pass.samples, back_floats(what), "transposed views"));
	for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
		pass.count = min64(most, what->count - pass.first);
		parallel_for(pass.count * (plan->model.columns + 2), transpose_column, &pass);
		parallel_for(box_tiles(&what->box, tile_size), tile_back, &pass);
	}
	scratch_give(pass.samples);
	return TOMOS_OK;
}

const CpuKernel LEVEL(cpu_column) = {
	.applies = column_applies,
	.run = {LEVEL(column_forward), column_back},
	.slower = column_slower,
	.team_floats = {NULL, back_floats},
};
