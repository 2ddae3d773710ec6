/* Back projection where all voxels of a column along z project to the same detector column
 * position: upright cone beam, helix and laminography (Okitsu et al., 5.2). Detector column, depth
 * and step in detector rows are computed once per (x, y); the voxels of a column are in the SIMD
 * lanes.
 *
 * Views are stored transposed, so that a detector column is contiguous. The two detector columns
 * next to the voxel column are interpolated into one, which is then resampled at the rows of the
 * voxels (stretch.h).
 */
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/stretch.h"

enum {
	ACROSS = 16,  /* voxels of a tile along x */
	DEEP = 16,    /* voxels of a tile along y */
	TALL = 256,   /* voxels of a tile along z */
	TOGETHER = 8, /* views whose samples for a tile stay in the L2 cache */
	SCRATCH_FLOATS = 11 << 20
};

typedef struct {
	const ProjectRequest *what;
	int64_t first, count; /* views of this pass */
	int64_t stride;       /* floats per padded detector column */
	float *samples;       /* [view][columns + 2][stride], with a zero column on either side */
} Pass;

static int64_t view_floats(const Plan *plan)
{
	return (plan->model.columns + 2) * column_stride(plan->model.rows);
}

/* The linear function f(x, y) at corner i of the grid. */
static double corner(const double f[4], const Plan *plan, int i)
{
	return f[0] * (double)(i & 1 ? plan->grid.n[0] - 1 : 0) +
	       f[1] * (double)(i & 2 ? plan->grid.n[1] - 1 : 0) + f[3];
}

bool LEVEL(column_applies)(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	/* The formula of the weights depends on the kind of source, which must be the same in all
	 * views. In tilted fans the source differs between the voxels of a column. */
	bool fans = rays->source == TOMOS_FAN_PER_ROW;
	if (rays->source == SOURCES_MIXED || !rays_are(rays, RAYS_IN_SHEET) ||
		(fans && !rays_are(rays, RAYS_LEVEL)))
		return false;
	if (plan->model.planar || plan->model.clamp || plan->model.nearest ||
		plan->model.rows > MAX_COLUMN || view_floats(plan) > SCRATCH_FLOATS)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const KernelView *k = &plan->views[i];
		for (int c = 0; c < 4; c++) {
			double depth = corner(k->depth, plan, c);
			if (!(depth > 1e-3 && lanes_fit(k->row[2] / kernel_row_depth(k, depth), 1)))
				return false;
		}
	}
	return true;
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

/* Projection of ACROSS voxel columns, neighbours along x, in one view. Per voxel column: the
 * detector column to its left (-2: off the detector), the interpolation weight `share` of the next
 * one, the detector row of the first voxel, the rows per voxel, and the weight of the view. */
typedef struct {
	int64_t left[ACROSS];
	double row[ACROSS], step[ACROSS];
	float share[ACROSS], weight[ACROSS];
	float near2[ACROSS], z,
		dz; /* squared distance of voxel n to the source: near2 + ((n - z) dz)^2 */
} Hits;

/* Computes the hits of the voxel columns from voxel `at` on. */
static void hit_columns(const Plan *plan, const KernelView *k, const int64_t at[3], Hits *hits)
{
	int weight = plan->model.weight;
	bool fans = KERNEL_FANS(k);
	double columns = (double)plan->model.columns, y = (double)at[1], z = (double)at[2];
	double depth0 = k->depth[1] * y + k->depth[3], column0 = k->column[1] * y + k->column[3];
	double row0 = k->row[1] * y + k->row[2] * z + k->row[3];
	double dy = (y - k->src[1]) * plan->whole.step[1];
	for (int i = 0; i < ACROSS; i++) {
		double x = (double)(at[0] + i), nearer = 1 / (k->depth[0] * x + depth0);
		double column = (k->column[0] * x + column0) * nearer;
		bool inside = column > -1 && column < columns;
		double left = floor(inside ? column : -2);
		double dx = (x - k->src[0]) * plan->whole.step[0];
		hits->left[i] = (int64_t)left;
		hits->share[i] = (float)(column - left);
		double lower = fans ? 1 : nearer;
		hits->step[i] = k->row[2] * lower;
		hits->row[i] = (k->row[0] * x + row0) * lower;
		hits->weight[i] =
			(float)(weight == WEIGHT_NONE    ? 1
				: weight == WEIGHT_DEPTH ? nearer * nearer
				: !KERNEL_HAS_SOURCE(k)  ? k->mass
							 : k->mass * nearer * nearer * lower);
		hits->near2[i] = (float)(dx * dx + dy * dy);
	}
	hits->z = (float)(k->src[2] - z);
	hits->dz = fans ? 0 : (float)plan->whole.step[2];
}

/* Interpolates the two detector columns next to voxel column i, for `count` voxels. */
static void mix_columns(const Hits *hits, int i, int64_t count, int64_t stride,
	const float *columns, Stretch *ready)
{
	*ready = (Stretch){
		hits->row[i], hits->step[i], ready->mixed, hits->near2[i], hits->z, hits->dz};
	const float *one = columns + (hits->left[i] + 1) * stride;
	float right = hits->weight[i] * hits->share[i];
	stretch_mix(ready, one, one + stride, hits->weight[i] - right, right, count, stride);
}

/* Resamples the columns of one or two views at the rows of `tall` voxels and adds them. */
static void add_ready(const Pass *pass, const Stretch *ready, int views, int64_t tall, float *sums)
{
	const Plan *plan = pass->what->plan;
	int64_t rows = plan->model.rows;
	bool by_distance = plan->model.weight == WEIGHT_RAY && plan->rays.source != TOMOS_PARALLEL;
	if (views == 2 && !by_distance)
		stretch_add(ready, 2, tall, rows, 0, sums);
	else
		for (int v = 0; v < views; v++) {
			if (by_distance)
				stretch_add(ready + v, 1, tall, rows, 1, sums);
			else
				stretch_add(ready + v, 1, tall, rows, 0, sums);
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
			&hits[v]);
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
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	int64_t wide = tile->high[0] - tile->low[0], tall = tile->high[2] - tile->low[2];
	for (int64_t z = 0; z < tall; z += ACROSS)
		for (int64_t y = tile->low[1]; y < tile->high[1]; y++)
			give_square(sums, y - tile->low[1], z, wide, min64(ACROSS, tall - z),
				nx * ny,
				pass->what->volume +
					((tile->low[2] + z - box->low[2]) * ny + y - box->low[1]) *
						nx +
					tile->low[0] - box->low[0]);
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	int64_t across = parts(box->high[0] - box->low[0], ACROSS);
	int64_t deep = parts(box->high[1] - box->low[1], DEEP);
	Box tile = {
		{box->low[0] + index % across * ACROSS, box->low[1] + index / across % deep * DEEP,
			box->low[2] + index / across / deep * TALL},
		{0}};
	const int64_t size[3] = {ACROSS, DEEP, TALL};
	for (int a = 0; a < 3; a++)
		tile.high[a] = min64(tile.low[a] + size[a], box->high[a]);
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

tomos_status LEVEL(column_back)(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	Pass pass = {.what = what, .stride = column_stride(plan->model.rows)};
	int64_t tasks = parts(what->box.high[0] - what->box.low[0], ACROSS) *
			parts(what->box.high[1] - what->box.low[1], DEEP) *
			parts(what->box.high[2] - what->box.low[2], TALL);
	int64_t most = limit(SCRATCH_FLOATS / view_floats(plan), 1, what->count);
	TRY(mem_alloc(&pass.samples, most * view_floats(plan), sizeof(float), "transposed views"));
	for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
		pass.count = min64(most, what->count - pass.first);
		parallel_for(pass.count * (plan->model.columns + 2), transpose_column, &pass);
		parallel_for(tasks, tile_back, &pass);
	}
	mem_free(pass.samples);
	return TOMOS_OK;
}
