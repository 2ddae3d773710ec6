/* Voxel-driven back projection where columns of voxels along z fall on detector columns, as in cone
 * beam with rows along z, helices and laminography (Okitsu et al., 5.2): column, depth and the step
 * from row to row are worked out once per (x, y), and the voxels of a column are the lanes.
 *
 * Views are held transposed, so that a detector column is contiguous; the two columns beside a voxel
 * column are mixed first, and each voxel then takes its two samples out of two loaded vectors.
 */
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"

enum {
	PAD = WINDOW,
	ACROSS = 16,   /* a tile: voxel columns along x */
	DEEP = 8,      /* and along y */
	TALL = 256,    /* voxels of a column held at a time */
	TOGETHER = 12, /* views whose samples for a tile stay in the second cache */
	MAX_ROWS = 8192,
	SCRATCH_FLOATS = 8 << 20
};

typedef struct {
	const Projecting *what;
	int64_t first, count; /* views of this pass */
	int64_t stride;       /* floats per detector column */
	float *samples;       /* [view][columns + 2][stride] */
} Pass;

static int64_t column_stride(const Plan *plan)
{
	return (plan->model.rows + 2 * PAD + LANES - 1) / LANES * LANES;
}

static int64_t view_floats(const Plan *plan)
{
	return (plan->model.columns + 2) * column_stride(plan);
}

static double corner(const double f[4], const Plan *plan, int i)
{
	return f[0] * (double)(i & 1 ? plan->grid.n[0] - 1 : 0) +
	       f[1] * (double)(i & 2 ? plan->grid.n[1] - 1 : 0) + f[3];
}

bool LEVEL(column_applies)(const Projecting *what)
{
	const Plan *plan = what->plan;
	double nz = (double)plan->grid.n[2];
	if (plan->model.planar || plan->model.clamp || plan->model.nearest ||
		plan->model.rows > MAX_ROWS || view_floats(plan) > SCRATCH_FLOATS)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const KernelView *k = &plan->views[i];
		if (fabs(k->column[2]) * nz > 1e-6 || fabs(k->depth[2]) * nz > 1e-7)
			return false;
		for (int c = 0; c < 4; c++) {
			double depth = corner(k->depth, plan, c);
			if (!(depth > 1e-3) ||
				(LANES - 1) * fabs(k->row[2]) / depth + 1 >= WINDOW - 2)
				return false;
		}
	}
	return true;
}

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

/* One view onto ACROSS columns of voxels side by side: for each, the detector column to its left (-2:
 * off the detector), the share of the next one, the row of the first voxel and the step from there. */
typedef struct {
	int64_t left[ACROSS];
	double row[ACROSS], step[ACROSS];
	float share[ACROSS], weight[ACROSS];
	float near2[ACROSS], z, dz; /* near2 + ((voxel - z) dz)^2: square of the distance to the source */
} Hits;

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

static void hit_columns(const Plan *plan, const KernelView *k, const int64_t at[3], Hits *hits)
{
	int weight = plan->model.weight;
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
		hits->step[i] = k->row[2] * nearer;
		hits->row[i] = (k->row[0] * x + row0) * nearer;
		hits->weight[i] = (float)(weight == WEIGHT_NONE ? 1
				: weight == WEIGHT_DEPTH ? nearer * nearer
				: k->src[3] == 0 ? k->mass : k->mass * nearer * nearer * nearer);
		hits->near2[i] = (float)(dx * dx + dy * dy);
	}
	hits->z = (float)(k->src[2] - z);
	hits->dz = (float)plan->whole.step[2];
}

/* Mixes the two detector columns beside voxel column i over the rows that its voxels can read. */
static void mix_columns(
	const Hits *hits, int i, int64_t count, int64_t stride, const float *columns, float *mixed)
{
	double start = hits->row[i], end = start + (double)count * hits->step[i];
	int64_t from = limit((int64_t)smaller(start, end) - LANES, -PAD, stride - PAD);
	int64_t to = limit((int64_t)larger(start, end) + WINDOW, -PAD, stride - PAD);
	const float *one = columns + (hits->left[i] + 1) * stride, *two = one + stride;
	/* The column that the next voxel column will read for the first time. */
	int64_t next = i + 1 < ACROSS ? hits->left[i + 1] : hits->left[i];
	const float *ahead = columns + (next + (next < hits->left[i] ? 1 : 2)) * stride;
	float right = hits->weight[i] * hits->share[i], left = hits->weight[i] - right;
	for (int64_t r = (from + PAD) / LANES * LANES; r < to + PAD; r += LANES) {
		__builtin_prefetch(ahead + r);
		vf_store(mixed + r, left * vf_load(one + r) + right * vf_load(two + r));
	}
}

static inline void add_column(const Hits *hits, int i, int64_t count, int64_t rows,
	const float *mixed, const int by_distance, float *sums)
{
	int64_t p = position_of(hits->row[i] + lowest_lane(hits->step[i]));
	int64_t step = position_of(LANES * hits->step[i]);
	Lanes lanes = lanes_of(hits->step[i]);
	vf away = (vf_lane() - hits->z) * hits->dz;
	for (int64_t n = 0; n < count; n += LANES, p += step) {
		const float *window = mixed + PAD + limit(p >> FRACTION_BITS, -PAD, rows);
		vf value = vf_interpolate(window, &lanes, p);
		if (by_distance) {
			value *= vf_sqrt(hits->near2[i] + away * away);
			away += LANES * hits->dz;
		}
		vf_store(sums + n, vf_load(sums + n) + value);
	}
}

static void add_view(const Pass *pass, int64_t view, const int64_t at[3], int64_t wide, int64_t tall,
	float *mixed, float (*sums)[TALL])
{
	const Plan *plan = pass->what->plan;
	const KernelView *k = &plan->views[pass->what->first + pass->first + view];
	const float *columns = pass->samples + view * view_floats(plan);
	Hits hits;
	hit_columns(plan, k, at, &hits);
	for (int i = 0; i < wide; i++) {
		if (hits.left[i] < -1)
			continue;
		mix_columns(&hits, i, tall, pass->stride, columns, mixed);
		if (plan->model.weight == WEIGHT_RAY && k->src[3] != 0)
			add_column(&hits, i, tall, plan->model.rows, mixed, 1, sums[i]);
		else
			add_column(&hits, i, tall, plan->model.rows, mixed, 0, sums[i]);
	}
}

/* One tile: its sums are kept [y][x][z] over all views of the pass, then added to the volume. */
typedef float TileSums[DEEP][ACROSS][TALL];

/* Through a small square, so that neither side is walked in long strides. */
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
			give_square(sums, y - tile->low[1], z, wide, min64(ACROSS, tall - z), nx * ny,
				pass->what->volume +
					((tile->low[2] + z - box->low[2]) * ny + y - box->low[1]) * nx +
					tile->low[0] - box->low[0]);
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	int64_t across = parts(box->high[0] - box->low[0], ACROSS);
	int64_t deep = parts(box->high[1] - box->low[1], DEEP);
	Box tile = {{box->low[0] + index % across * ACROSS, box->low[1] + index / across % deep * DEEP,
		box->low[2] + index / across / deep * TALL}, {0}};
	const int64_t size[3] = {ACROSS, DEEP, TALL};
	for (int a = 0; a < 3; a++)
		tile.high[a] = min64(tile.low[a] + size[a], box->high[a]);
	float mixed[MAX_ROWS + 3 * PAD] = {0};
	TileSums sums;
	memset(sums, 0, sizeof sums);
	for (int64_t first = 0; first < pass->count; first += TOGETHER)
		for (int64_t y = tile.low[1]; y < tile.high[1]; y++)
			for (int64_t v = first; v < min64(first + TOGETHER, pass->count); v++) {
				int64_t at[3] = {tile.low[0], y, tile.low[2]};
				add_view(pass, v, at, tile.high[0] - tile.low[0],
					tile.high[2] - tile.low[2], mixed, sums[y - tile.low[1]]);
			}
	give_tile(pass, &tile, (const float(*)[ACROSS][TALL])sums);
}

tomos_status LEVEL(column_back)(const Projecting *what)
{
	const Plan *plan = what->plan;
	Pass pass = {.what = what, .stride = column_stride(plan)};
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
