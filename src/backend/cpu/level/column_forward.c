/* Voxel-driven projection where all voxels of a column along z project to the same detector column
 * position: the transpose of column.c.
 *
 * The detector rows are in the SIMD lanes. Each row sums the voxels of a column that are less than
 * one row away, by hat functions as in upright_back.c; the sum is then added to the two detector
 * columns. A task has a few views, which are stored transposed, and all voxels.
 */
#include "backend/cpu/level/column.h"

enum {
	DEEP = 4,   /* voxels of a tile along y */
	TALL = 256, /* voxels of a tile along z */
	MOST_HATS = 16,
	SIDE = 2 * WINDOW, /* zeros before and after the voxels of a column */
	TALL_STRIDE = TALL + 2 * SIDE + LANES,
	BESIDE = 4,  /* voxels that are read together */
	TOGETHER = 8 /* most views of a task */
};
static const int64_t tile_size[3] = {ACROSS, DEEP, TALL};

typedef struct {
	const ProjectRequest *what;
	int64_t first, count, together; /* views of this pass, and of a task */
	int64_t stride;                 /* floats per padded detector column */
	float *sums;                    /* [view][columns + 2][stride] */
} Pass;

/* Columns of a tile, [y][x][z], with zeros before and after the voxels. */
typedef float TileColumns[DEEP][ACROSS][TALL_STRIDE];

/* Largest number of voxels that are less than one row from a row, with `step` rows per voxel. */
static int hats_of(double step)
{
	return fabs(step) > 1.0 / MOST_HATS ? (int)(2 / fabs(step)) + 1 : 2 * MOST_HATS;
}

bool LEVEL(column_forward_applies)(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	if (!columns_apply(what))
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const KernelView *k = &plan->views[i];
		for (int c = 0; c < 4; c++)
			if (hats_of(k->row[2] / kernel_row_depth(k, corner(k->depth, plan, c))) >
				MOST_HATS)
				return false;
	}
	return true;
}

/* One voxel column in one view: detector row `row` + n `step` of voxel n; `low` .. `low + count`
 * are the detector rows that it meets. */
typedef struct {
	double row, step;
	int64_t low, count;
	float left, right;
} Spread;

INLINE vf hat(float k, vf away, float pitch)
{
	return vf_positive(1 - pitch * vf_abs(k - away));
}

/* Adds a column of n voxels to two detector columns. `hats`: see hats_of. `wide`: the voxels that
 * LANES rows sum are not in one window. */
INLINE void spread_add(const Spread *s, const float *voxels, int64_t n, const int hats,
	const int wide, float *one, float *two)
{
	double pace = 1 / s->step;
	float reach = (float)fabs(pace), pitch = 1 / reach;
	int64_t p = position_of(((double)s->low - s->row) * pace + lowest_lane(pace) - reach);
	int64_t step = position_of(LANES * pace);
	Lanes lanes = lanes_of(pace);
	for (int64_t r = s->low; r < s->low + s->count; r += LANES, p += step) {
		vf fraction, sum = {0};
		vi j = lanes_at(&lanes, p, &fraction);
		vf away = reach + fraction;
		if (wide) {
			vi at = vi_limit(j + (int32_t)(p >> FRACTION_BITS), -SIDE, (int32_t)n) + 1;
			for (int k = 1; k <= hats; k += 4, at += 4) {
				vf four[4];
				vf_load_fours(voxels, at, four);
				for (int i = 0; i < 4; i++)
					sum += hat((float)(k + i), away, pitch) * four[i];
			}
		} else {
			const float *window = voxels + limit(p >> FRACTION_BITS, -SIDE, n);
			for (int k = 1; k <= hats; k++)
				sum += hat((float)k, away, pitch) * vf_pick(window, j + k);
		}
		vf_store(one + r, vf_load(one + r) + s->left * sum);
		vf_store(two + r, vf_load(two + r) + s->right * sum);
	}
}

static void spread(const Spread *s, const float *voxels, int64_t n, float *one, float *two)
{
	int hats = hats_of(s->step);
	if (hats > 3 || !lanes_fit(1 / s->step, hats))
		spread_add(s, voxels, n, hats, 1, one, two);
	else if (hats == 1)
		spread_add(s, voxels, n, 1, 0, one, two);
	else if (hats == 2)
		spread_add(s, voxels, n, 2, 0, one, two);
	else
		spread_add(s, voxels, n, 3, 0, one, two);
}

/* Rows that n voxels meet, of a detector with `rows` rows. */
static void spread_rows(Spread *s, int64_t n, int64_t rows)
{
	double end = s->row + (double)(n - 1) * s->step;
	double low = fmax(fmin(s->row, end) - 1, -1),
	       high = fmin(fmax(s->row, end) + 1, (double)rows);
	s->low = max64(0, (int64_t)ceil(low));
	s->count = high < low ? 0 : min64(rows - 1, (int64_t)floor(high)) - s->low + 1;
}

/* The voxels of a column that add to some of `rows` rows, times their distances to the source, and
 * as many beside them as are read with a weight of 0. */
static void weigh(
	const Hits *hits, int i, const float *voxels, int64_t n, int64_t rows, float *weighted)
{
	const double start = hits->row[i], step = hits->step[i], end = start + (double)n * step;
	const double beside = 1 + BESIDE * fabs(step), top = (double)rows;
	Range seen = {0, n};
	if (start < -beside || end < -beside || start > top + beside || end > top + beside)
		seen = stretch_range(start, step, beside, rows, n, LANES);
	vf away = ((float)seen.from + vf_lane() - hits->z) * hits->dz;
	for (int64_t z = seen.from; z < seen.to; z += LANES, away += LANES * hits->dz)
		vf_store(weighted + z, vf_load(voxels + z) * vf_root(hits->near2[i] + away * away));
}

/* Adds `wide` voxel columns of n voxels from voxel `at` on to a view. */
static void add_columns(const Pass *pass, int64_t view, const int64_t at[3], int64_t wide,
	int64_t n, float (*columns)[TALL_STRIDE])
{
	const Plan *plan = pass->what->plan;
	bool by_distance = plan->model.weight == WEIGHT_RAY && plan->rays.source != TOMOS_PARALLEL;
	float *sums = pass->sums + view * view_floats(plan), weighted[TALL_STRIDE];
	Hits hits;
	hit_columns(plan, &plan->views[pass->what->first + pass->first + view], at, n, &hits);
	memset(weighted, 0, sizeof weighted);
	for (int i = 0; i < wide; i++) {
		if (hits.left[i] < -1)
			continue;
		float right = hits.weight[i] * hits.share[i], *one;
		Spread s = {hits.row[i], hits.step[i], 0, 0, hits.weight[i] - right, right};
		spread_rows(&s, n, plan->model.rows);
		if (by_distance)
			weigh(&hits, i, columns[i] + SIDE, n, plan->model.rows, weighted + SIDE);
		one = sums + (hits.left[i] + 1) * pass->stride + PAD;
		spread(&s, (by_distance ? weighted : columns[i]) + SIDE, n, one,
			one + pass->stride);
	}
}

/* Copies the columns of a tile of the volume. */
static void take_columns(const ProjectRequest *what, const Box *tile, TileColumns columns)
{
	int64_t wide = tile->high[0] - tile->low[0], tall = tile->high[2] - tile->low[2];
	memset(columns, 0, sizeof(TileColumns));
	for (int64_t y = tile->low[1]; y < tile->high[1]; y++)
		for (int64_t z = 0; z < tall; z++) {
			const float *row = request_voxel(what, tile->low[0], y, tile->low[2] + z);
			for (int64_t x = 0; x < wide; x++)
				columns[y - tile->low[1]][x][SIDE + z] = row[x];
		}
}

static void add_tile(
	const Pass *pass, int64_t first, int64_t end, const Box *tile, TileColumns columns)
{
	take_columns(pass->what, tile, columns);
	for (int64_t view = first; view < end; view++)
		for (int64_t y = tile->low[1]; y < tile->high[1]; y++)
			add_columns(pass, view, (int64_t[]){tile->low[0], y, tile->low[2]},
				tile->high[0] - tile->low[0], tile->high[2] - tile->low[2],
				columns[y - tile->low[1]]);
}

/* Adds the sums of a view to its pixels. */
static void give_view(const Pass *pass, int64_t view)
{
	const KernelModel *model = &pass->what->plan->model;
	const float *sums = pass->sums + view * view_floats(pass->what->plan) + pass->stride + PAD;
	float *pixels =
		pass->what->projections + (pass->first + view) * model->rows * model->columns;
	for (int64_t r0 = 0; r0 < model->rows; r0 += 16)
		for (int64_t c = 0; c < model->columns; c++)
			for (int64_t r = r0; r < min64(r0 + 16, model->rows); r++)
				pixels[r * model->columns + c] += sums[c * pass->stride + r];
}

static void forward_views(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	int64_t first = index * pass->together, end = min64(first + pass->together, pass->count);
	int64_t floats = view_floats(pass->what->plan);
	TileColumns columns;
	memset(pass->sums + first * floats, 0, (size_t)((end - first) * floats) * sizeof(float));
	for (int64_t i = 0; i < box_tiles(box, tile_size) && !cancel_seen(); i++) {
		const Box tile = box_tile(box, tile_size, i);
		add_tile(pass, first, end, &tile, columns);
	}
	for (int64_t view = first; view < end; view++)
		give_view(pass, view);
}

tomos_status LEVEL(column_forward)(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	Pass pass = {.what = what, .stride = column_stride(plan->model.rows)};
	int64_t most = limit(SCRATCH_FLOATS / view_floats(plan), 1, what->count);
	TRY(mem_alloc(&pass.sums, most * view_floats(plan), sizeof(float), "transposed views"));
	for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
		pass.count = min64(most, what->count - pass.first);
		pass.together = limit(pass.count / (2 * tomos_threads()), 1, TOGETHER);
		parallel_for(parts(pass.count, pass.together), forward_views, &pass);
	}
	mem_free(pass.sums);
	return TOMOS_OK;
}
