/* Voxel-driven back projection of parallel rays in any direction. Along a row of voxels, detector
 * column and row change by constant steps; the voxels are in the SIMD lanes, and each lane gathers
 * its four samples.
 *
 * Views are padded with a border of two zeros, from which voxels beside the detector read.
 */
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"

enum {
	EDGE = 2,
	TILE_ROWS = 8,             /* rows of voxels per task */
	MOST_ACROSS = 4096,        /* longest supported row of voxels */
	TOGETHER_FLOATS = 1 << 17, /* size of a group of views that stays in the L2 cache */
	SCRATCH_FLOATS = 4 << 20
};

typedef struct {
	const ProjectRequest *what;
	int64_t first, count;  /* views of this pass */
	int64_t width, floats; /* of a padded view: row length and size, in floats */
	float *samples;
} Pass;

static int64_t padded_floats(const KernelModel *model)
{
	return (model->rows + 2 * EDGE) * (model->columns + 2 * EDGE);
}

/* Whether the detector coordinate f(x, y, z) of all voxels fits into fixed point. */
static bool within_reach(const double f[4], const int64_t n[3])
{
	double farthest = fabs(f[3]) + LANES * fabs(f[0]);
	for (int a = 0; a < 3; a++)
		farthest += fabs(f[a]) * (double)n[a];
	return farthest < 0x1p24;
}

bool LEVEL(voxel_free_applies)(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	if (plan->rays.source != TOMOS_PARALLEL || plan->model.planar || plan->model.clamp ||
		plan->model.nearest || padded_floats(&plan->model) > SCRATCH_FLOATS ||
		plan->grid.n[0] > MOST_ACROSS)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const KernelView *k = &plan->views[i];
		if (!within_reach(k->column, plan->grid.n) || !within_reach(k->row, plan->grid.n))
			return false;
	}
	return true;
}

static void pad_view(void *user, int64_t view)
{
	const Pass *pass = user;
	const Plan *plan = pass->what->plan;
	int64_t rows = plan->model.rows, columns = plan->model.columns;
	const KernelView *k = &plan->views[pass->what->first + pass->first + view];
	float mass = plan->model.weight == WEIGHT_RAY ? (float)k->mass : 1;
	const float *from = pass->what->projections + (pass->first + view) * rows * columns;
	float *to = pass->samples + view * pass->floats;
	memset(to, 0, (size_t)pass->floats * sizeof *to);
	to += EDGE * pass->width + EDGE;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < columns; c++)
			to[r * pass->width + c] = mass * from[r * columns + c];
}

/* A detector coordinate (column or row) along a row of voxels: fixed-point position of the lowest
 * lane, and its step from one vector of voxels to the next. `size`: columns or rows of the
 * detector. */
typedef struct {
	int64_t position, step;
	Lanes lanes;
	int32_t size;
} Along;

static inline Along along_row(const double f[4], double x, double y, double z, int64_t size)
{
	double start = f[0] * x + f[1] * y + f[2] * z + f[3] + lowest_lane(f[0]);
	return (Along){
		position_of(start), position_of(LANES * f[0]), lanes_of(f[0]), (int32_t)size};
}

/* Returns the coordinates of LANES voxels, clamped to the padded detector, and proceeds to the next
 * vector. */
static inline vi along_next(Along *a, vf *fraction)
{
	int32_t low = (int32_t)(a->position >> FRACTION_BITS);
	vi at = lanes_at(&a->lanes, a->position, fraction) + low;
	a->position += a->step;
	vi below = at<-EDGE, above = at> a->size;
	return (at & ~below & ~above) | (-EDGE & below) | (a->size & above);
}

static void add_view(
	const Pass *pass, int64_t view, int64_t y, int64_t z, int64_t wide, float *sums)
{
	const Plan *plan = pass->what->plan;
	const KernelView *k = &plan->views[pass->what->first + pass->first + view];
	const double x = (double)pass->what->box.low[0];
	const float *samples = pass->samples + view * pass->floats + EDGE * pass->width + EDGE;
	int32_t width = (int32_t)pass->width;
	Along column = along_row(k->column, x, (double)y, (double)z, plan->model.columns);
	Along row = along_row(k->row, x, (double)y, (double)z, plan->model.rows);
	for (int64_t i = 0; i < wide; i += LANES) {
		vf right, up;
		vi at = along_next(&column, &right);
		at += along_next(&row, &up) * width;
		vf low = vf_gather(samples, at), high = vf_gather(samples + width, at);
		low += right * (vf_gather(samples + 1, at) - low);
		high += right * (vf_gather(samples + width + 1, at) - high);
		vf_store(sums + i, vf_load(sums + i) + low + up * (high - low));
	}
}

static void back_rows(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	int64_t tiles = parts(ny, TILE_ROWS), first = index % tiles * TILE_ROWS;
	int64_t z = index / tiles, rows = min64(TILE_ROWS, ny - first);
	int64_t together = max64(1, TOGETHER_FLOATS / pass->floats);
	float sums[TILE_ROWS][MOST_ACROSS + LANES];
	for (int64_t r = 0; r < rows; r++)
		memset(sums[r], 0, (size_t)(nx + LANES) * sizeof **sums);
	for (int64_t v = 0; v < pass->count; v += together)
		for (int64_t r = 0; r < rows; r++)
			for (int64_t i = v; i < min64(v + together, pass->count); i++)
				add_view(pass, i, box->low[1] + first + r, box->low[2] + z, nx,
					sums[r]);
	float *out = pass->what->volume + (z * ny + first) * nx;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t i = 0; i < nx; i++)
			out[r * nx + i] += sums[r][i];
}

tomos_status LEVEL(voxel_free_back)(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	const Box *box = &what->box;
	Pass pass = {
		.what = what, .width = model->columns + 2 * EDGE, .floats = padded_floats(model)};
	int64_t most = limit(SCRATCH_FLOATS / pass.floats, 1, what->count);
	int64_t tasks = parts(box->high[1] - box->low[1], TILE_ROWS) * (box->high[2] - box->low[2]);
	TRY(mem_alloc(&pass.samples, most * pass.floats, sizeof(float), "padded views"));
	for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
		pass.count = min64(most, what->count - pass.first);
		parallel_for(pass.count, pad_view, &pass);
		parallel_for(tasks, back_rows, &pass);
	}
	mem_free(pass.samples);
	return TOMOS_OK;
}
