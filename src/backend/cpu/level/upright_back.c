/* Joseph's adjoint for upright detectors: the transpose of upright.c.
 *
 * Views are stored transposed and multiplied by the lengths of their rays, so that a detector
 * column is contiguous. In each plane of a tile of the volume, a detector column is resampled along
 * z by the transpose of linear interpolation, where a voxel gathers from the rows whose rays pass
 * within one voxel, and is added to the two voxel columns that it passes.
 */
#include "backend/cpu/level/upright.h"
#include "base/team.h"

enum {
	SIDE = 16,         /* voxels of a tile along x and y */
	TALL = 256,        /* along z */
	EDGE = 2 * WINDOW, /* zeros before and after a detector column */
	SCRATCH_FLOATS = 11 << 20
};

typedef struct {
	const ProjectRequest *what;
	int64_t first, count; /* views of this pass */
	int64_t stride;       /* floats per padded detector column */
	float *samples;       /* [view][column][stride] */
} Pass;

static int64_t padded_rows(const Plan *plan)
{
	return parts(plan->model.rows + 2 * EDGE, LANES) * LANES;
}

/* Copies up to SIDE detector columns of a view, times the ray lengths. */
static void transpose_columns(void *user, int64_t index)
{
	const Pass *pass = user;
	const Plan *plan = pass->what->plan;
	int64_t rows = plan->model.rows, columns = plan->model.columns;
	int64_t groups = parts(columns, SIDE), first = index % groups * SIDE, view = index / groups;
	int64_t count = min64(SIDE, columns - first);
	const KernelView *k = &plan->views[pass->what->first + pass->first + view];
	const float *from = pass->what->projections + (pass->first + view) * rows * columns + first;
	float *to = pass->samples + (view * columns + first) * pass->stride;
	for (int64_t c = 0; c < count; c++) {
		float *column = to + c * pass->stride;
		memset(column, 0, EDGE * sizeof *to);
		memset(column + EDGE + rows, 0, (size_t)(pass->stride - EDGE - rows) * sizeof *to);
	}
	transpose_rows(from, columns, to + EDGE, pass->stride, rows, count, columns - first);
	for (int64_t c = 0; c < count; c++)
		upright_lengths(plan, k, first + c, 0, rows, to + c * pass->stride + EDGE);
}

static inline Reading reading_of(double step)
{
	return step <= 1                                     ? READ_NEAR
	       : (LANES - 1) * step + 1 < WINDOW && step < 4 ? READ_WINDOW
							     : READ_ANY;
}

/* Adds a detector column, whose row (z - start) / step is at voxel z, to voxels [from, to) of two
 * voxel columns. `hats`: most rows within one voxel; `from` is a multiple of LANES. */
static inline void add_column(const Stretch *s, const float *column, int64_t rows, const int hats,
	const Reading reading, int64_t from, int64_t to, const float share[2], float *const sums[2])
{
	float reach = (float)fabs(s->step), pitch = 1 / reach;
	int64_t step = position_of(LANES * s->step);
	int64_t p = position_of(
		s->start + (double)from * s->step + lowest_lane(s->step) - (double)reach);
	Lanes lanes = lanes_of(s->step);
	for (int64_t z = from; z < to; z += LANES, p += step) {
		int64_t i = p >> FRACTION_BITS;
		vf fraction, sum = {0};
		vi j = lanes_at(&lanes, p, &fraction);
		vf away = reach + fraction;
		for (int k = 1; k <= hats; k++) {
			vf weight = vf_positive(1 - pitch * vf_abs((float)k - away));
			sum += weight *
			       (reading == READ_NEAR ? vf_permute(vf_load(column + i + k), j)
				       : reading == READ_WINDOW
					       ? vf_pick(column + i + k, j)
					       : vf_gather(column, vi_limit(j + (int32_t)(i + k),
									   -1, (int32_t)rows)));
		}
		for (int n = 0; n < 2; n++)
			vf_store(sums[n] + z, vf_load(sums[n] + z) + share[n] * sum);
	}
}

/* A tile, and the sums of its voxels [y][x][z]. */
typedef struct {
	const Pass *pass;
	Box box;
	float sums[SIDE][SIDE][TALL], none[TALL]; /* none: for voxels outside the tile */
} Tile;

/* The rays of a detector column in the planes of a tile, which are across their dominant axis. In
 * plane i they pass between voxel columns left[i] and left[i] + 1, the latter with weight share[i].
 * Voxel z, in [from[i], to[i]), is at detector row start[i] + z step[i]. */
typedef struct {
	double left[SIDE], share[SIDE], start[SIDE], step[SIDE], from[SIDE], to[SIDE];
} Planes;

static inline void set_planes(const Tile *tile, const Upright *up, Planes *p)
{
	const Uprights same = upright_set(up, 0);
	const double last_row = (double)(tile->pass->what->plan->model.rows - 1);
	const double tall = (double)(tile->box.high[2] - tile->box.low[2]);
	for (int i = 0; i < SIDE; i += SET) {
		vd k = doubles_line((double)(tile->box.low[up->axis] + i), 1).half[0];
		const Crossings c = upright_cross(&same, k, &tile->box, up->axis);
		vd end = c.q + last_row * c.climb, step = 1.0 / c.climb, start = -c.q * step;
		vd from = vd_most(vd_floor(vd_least(c.q, end)), (vd){0});
		vd to = vd_least(vd_floor(vd_most(c.q, end)) + 2.0, tall + (vd){0});
		to = vd_choose(c.inside, to, -1.0 + (vd){0});
		memcpy(&p->left[i], &c.left, sizeof c.left);
		memcpy(&p->share[i], &c.share, sizeof c.share);
		memcpy(&p->start[i], &start, sizeof start);
		memcpy(&p->step[i], &step, sizeof step);
		memcpy(&p->from[i], &from, sizeof from);
		memcpy(&p->to[i], &to, sizeof to);
	}
}

/* Adds a detector column in plane i of a tile across its axis. */
static void add_plane(Tile *tile, int axis, const Planes *p, int i, const float *column)
{
	const int64_t *low = tile->box.low, *high = tile->box.high;
	int64_t rows = tile->pass->what->plan->model.rows, left = (int64_t)p->left[i];
	int64_t from = (int64_t)p->from[i] / LANES * LANES, to = (int64_t)p->to[i];
	float *sums[2];
	const float share[2] = {(float)(1 - p->share[i]), (float)p->share[i]};
	for (int n = 0; n < 2; n++) {
		int64_t k = left + n;
		sums[n] = k < 0 || k >= high[1 - axis] - low[1 - axis] ? tile->none
			  : axis == 1                                  ? tile->sums[i][k]
								       : tile->sums[k][i];
	}
	Stretch s = {.start = p->start[i], .step = p->step[i]};
	int hats = (int)(2 * fabs(s.step)) + 1;
	Reading reading = reading_of(fabs(s.step));
	if (reading == READ_NEAR && hats <= 2)
		add_column(&s, column, rows, 2, READ_NEAR, from, to, share, sums);
	else if (reading == READ_ANY)
		add_column(&s, column, rows, hats, READ_ANY, from, to, share, sums);
	else if (hats == 3)
		add_column(&s, column, rows, 3, READ_WINDOW, from, to, share, sums);
	else if (hats == 4)
		add_column(&s, column, rows, 4, READ_WINDOW, from, to, share, sums);
	else
		add_column(&s, column, rows, hats, READ_WINDOW, from, to, share, sums);
}

/* The columns of a view whose rays may pass within one voxel of the tile. */
static void tile_columns(const Tile *tile, const KernelView *k, int64_t range[2])
{
	double low = HUGE_VAL, high = -HUGE_VAL,
	       columns = (double)tile->pass->what->plan->model.columns;
	for (int corner = 0; corner < 4; corner++) {
		double x = (double)(corner & 1 ? tile->box.high[0] : tile->box.low[0] - 1);
		double y = (double)(corner & 2 ? tile->box.high[1] : tile->box.low[1] - 1);
		double depth = k->depth[0] * x + k->depth[1] * y + k->depth[3];
		double column = (k->column[0] * x + k->column[1] * y + k->column[3]) / depth;
		low = depth > 1e-6 ? fmin(low, column) : -HUGE_VAL;
		high = depth > 1e-6 ? fmax(high, column) : HUGE_VAL;
		if (!(depth > 1e-6))
			break;
	}
	range[0] = (int64_t)ceil(fmin(fmax(low - 1e-3, 0), columns));
	range[1] = (int64_t)floor(fmin(fmax(high + 1e-3, -1), columns - 1)) + 1;
}

static void add_view(Tile *tile, int64_t view)
{
	const Pass *pass = tile->pass;
	const Plan *plan = pass->what->plan;
	const KernelView *k = &plan->views[pass->what->first + pass->first + view];
	int64_t range[2];
	tile_columns(tile, k, range);
	for (int64_t c = range[0]; c < range[1]; c++) {
		Upright up = upright_column(k, (double)c);
		const float *column =
			pass->samples + (view * plan->model.columns + c) * pass->stride + EDGE;
		Planes planes;
		set_planes(tile, &up, &planes);
		for (int i = 0; i < tile->box.high[up.axis] - tile->box.low[up.axis]; i++)
			if (planes.from[i] < planes.to[i])
				add_plane(tile, up.axis, &planes, i, column);
	}
}

static void give_tile(const Tile *tile)
{
	const Box *box = &tile->pass->what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	const int64_t *low = tile->box.low, *high = tile->box.high;
	bool add = tile->pass->first > 0 || !tile->pass->what->overwrite;
	float rows[SIDE][SIDE]; /* [z][x] */
	for (int64_t first = low[2]; first < high[2]; first += SIDE)
		for (int64_t y = low[1]; y < high[1]; y++) {
			transpose_rows(&tile->sums[y - low[1]][0][first - low[2]], TALL, rows[0],
				SIDE, SIDE, SIDE, SIDE);
			for (int64_t z = first; z < min64(first + SIDE, high[2]); z++) {
				float *to = tile->pass->what->volume +
					    ((z - box->low[2]) * ny + y - box->low[1]) * nx -
					    box->low[0];
				for (int64_t x = low[0]; x < high[0]; x++)
					to[x] = (add ? to[x] : 0) + rows[z - first][x - low[0]];
			}
		}
}

static void tile_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	const int64_t size[3] = {SIDE, SIDE, TALL};
	Tile tile = {.pass = pass};
	for (int a = 0; a < 3; a++) {
		int64_t many = parts(box->high[a] - box->low[a], size[a]);
		tile.box.low[a] = box->low[a] + index % many * size[a];
		tile.box.high[a] = min64(tile.box.low[a] + size[a], box->high[a]);
		index /= many;
	}
	for (int64_t view = 0; view < pass->count && !cancel_seen(); view++)
		add_view(&tile, view);
	give_tile(&tile);
}

static int64_t most_views(const ProjectRequest *what)
{
	return limit(SCRATCH_FLOATS / (what->plan->model.columns * padded_rows(what->plan)), 1,
		what->count);
}

int64_t LEVEL(upright_back_floats)(const ProjectRequest *what)
{
	return most_views(what) * what->plan->model.columns * padded_rows(what->plan);
}

tomos_status LEVEL(upright_back)(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	Pass pass = {.what = what, .stride = padded_rows(what->plan)};
	int64_t most = most_views(what);
	int64_t tasks = parts(what->box.high[0] - what->box.low[0], SIDE) *
			parts(what->box.high[1] - what->box.low[1], SIDE) *
			parts(what->box.high[2] - what->box.low[2], TALL);
	TRY(scratch_take(&pass.samples, LEVEL(upright_back_floats)(what), "transposed views"));
	for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
		pass.count = min64(most, what->count - pass.first);
		parallel_for(pass.count * parts(model->columns, SIDE), transpose_columns, &pass);
		parallel_for(tasks, tile_back, &pass);
	}
	scratch_give(pass.samples);
	return TOMOS_OK;
}
