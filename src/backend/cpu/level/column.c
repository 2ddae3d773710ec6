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
	ACROSS = 16,   /* voxel columns per tile */
	TALL = 256,    /* voxels of a column held at a time */
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

/* One view onto one column of voxels: rows start at `row` for the first voxel and go on by `step`. */
typedef struct {
	const float *left, *right; /* the detector columns beside it */
	float share;               /* of the right one */
	double row, step;
	float weight;
	float near2, z, dz;        /* by distance: near2 + ((voxel - z) dz)^2 is its square */
} Hit;

static bool hit_column(const Pass *pass, int64_t view, int64_t x, int64_t y, int64_t z, Hit *hit)
{
	const Plan *plan = pass->what->plan;
	const KernelView *k = &plan->views[pass->what->first + pass->first + view];
	double at[2] = {(double)x, (double)y};
	double depth = k->depth[0] * at[0] + k->depth[1] * at[1] + k->depth[3];
	double column = (k->column[0] * at[0] + k->column[1] * at[1] + k->column[3]) / depth;
	if (!(column > -1 && column < (double)plan->model.columns))
		return false;
	int64_t left = (int64_t)floor(column);
	hit->share = (float)(column - (double)left);
	hit->left = pass->samples + view * view_floats(plan) + (left + 1) * pass->stride;
	hit->right = hit->left + pass->stride;
	hit->step = k->row[2] / depth;
	hit->row = (k->row[0] * at[0] + k->row[1] * at[1] + k->row[3]) / depth + (double)z * hit->step;
	int weight = plan->model.weight;
	hit->weight = (float)(weight == WEIGHT_NONE ? 1 : weight == WEIGHT_DEPTH ? 1 / (depth * depth)
			: k->src[3] == 0 ? k->mass : k->mass / (depth * depth * depth));
	double dx = (at[0] - k->src[0]) * plan->whole.step[0];
	double dy = (at[1] - k->src[1]) * plan->whole.step[1];
	hit->near2 = (float)(dx * dx + dy * dy);
	hit->z = (float)(k->src[2] - (double)z);
	hit->dz = (float)plan->whole.step[2];
	return true;
}

/* Mixes the two detector columns over the rows that the voxels can read. */
static void mix_columns(const Hit *hit, int64_t count, int64_t stride, float *mixed)
{
	double end = hit->row + (double)count * hit->step;
	int64_t from = limit((int64_t)floor(fmin(hit->row, end)) - LANES, -PAD, stride - PAD);
	int64_t to = limit((int64_t)floor(fmax(hit->row, end)) + WINDOW, -PAD, stride - PAD);
	from = (from + PAD) / LANES * LANES;
	float right = hit->weight * hit->share, left = hit->weight - right;
	for (int64_t r = from; r < to + PAD; r += LANES)
		vf_store(mixed + r, left * vf_load(hit->left + r) + right * vf_load(hit->right + r));
}

static inline void add_column(
	const Hit *hit, int64_t count, int64_t rows, const float *mixed, const int by_distance, float *sums)
{
	int64_t p = position_of(hit->row + lowest_lane(hit->step));
	int64_t step = position_of(LANES * hit->step);
	Lanes lanes = lanes_of(hit->step);
	vf away = (vf_lane() - hit->z) * hit->dz;
	for (int64_t i = 0; i < count; i += LANES, p += step) {
		const float *window = mixed + PAD + limit(p >> FRACTION_BITS, -PAD, rows);
		vf value = vf_interpolate(window, &lanes, p);
		if (by_distance) {
			value *= vf_sqrt(hit->near2 + away * away);
			away += LANES * hit->dz;
		}
		vf_store(sums + i, vf_load(sums + i) + value);
	}
}

static void tile_back(const Pass *pass, int64_t x, int64_t y, int64_t z, int64_t wide, int64_t tall,
	float *mixed, float (*sums)[TALL])
{
	const Plan *plan = pass->what->plan;
	memset(sums, 0, ACROSS * sizeof *sums);
	for (int64_t view = 0; view < pass->count; view++) {
		const KernelView *k = &plan->views[pass->what->first + pass->first + view];
		bool by_distance = plan->model.weight == WEIGHT_RAY && k->src[3] != 0;
		for (int64_t i = 0; i < wide; i++) {
			Hit hit;
			if (!hit_column(pass, view, x + i, y, z, &hit))
				continue;
			mix_columns(&hit, tall, pass->stride, mixed);
			if (by_distance)
				add_column(&hit, tall, plan->model.rows, mixed, 1, sums[i]);
			else
				add_column(&hit, tall, plan->model.rows, mixed, 0, sums[i]);
		}
	}
}

static void row_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	int64_t y = index % ny, z = index / ny * TALL;
	int64_t tall = min64(TALL, box->high[2] - box->low[2] - z);
	float sums[ACROSS][TALL];
	float mixed[MAX_ROWS + 3 * PAD] = {0};
	for (int64_t x = 0; x < nx; x += ACROSS) {
		int64_t wide = min64(ACROSS, nx - x);
		tile_back(pass, box->low[0] + x, box->low[1] + y, box->low[2] + z, wide, tall, mixed,
			sums);
		for (int64_t k = 0; k < tall; k++) {
			float *out = pass->what->volume + ((z + k) * ny + y) * nx + x;
			for (int64_t i = 0; i < wide; i++)
				out[i] += sums[i][k];
		}
	}
}

tomos_status LEVEL(column_back)(const Projecting *what)
{
	const Plan *plan = what->plan;
	Pass pass = {.what = what, .stride = column_stride(plan)};
	int64_t ny = what->box.high[1] - what->box.low[1];
	int64_t tasks = ny * ((what->box.high[2] - what->box.low[2] + TALL - 1) / TALL);
	int64_t most = limit(SCRATCH_FLOATS / view_floats(plan), 1, what->count);
	TRY(mem_alloc(&pass.samples, most * view_floats(plan), sizeof(float), "transposed views"));
	for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
		pass.count = min64(most, what->count - pass.first);
		parallel_for(pass.count * (plan->model.columns + 2), transpose_column, &pass);
		parallel_for(tasks, row_back, &pass);
	}
	mem_free(pass.samples);
	return TOMOS_OK;
}
