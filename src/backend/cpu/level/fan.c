/* Voxel-driven back projection of a fan beam in a single slice; neighbouring pixels of a row are in
 * the SIMD lanes. */
#include "backend/cpu/level/fan.h"

/* BELOW: samples that a window includes below the column of its lowest lane, since columns deviate
 * from a straight line to either side. */
enum { BELOW = LANES == 16 ? 5 : 2, TILE_ROWS = 8, VIEWS_IN_CACHE = 32, SCRATCH_FLOATS = 4 << 20 };

typedef struct {
	const ProjectRequest *what;
	int64_t first, count, stride; /* views of this pass; floats per view */
	float *samples;
} Pass;

/* Whether the columns of LANES pixels are always within one window. */
static bool fits(const Plan *plan, const KernelView *k)
{
	double step, curve = fan_curve(plan, k, &step);
	return curve < BELOW - 0.4 && lanes_fit(step, BELOW + 3 + curve);
}

bool LEVEL(fan_applies)(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	if (!plan->model.planar || plan->model.clamp || plan->model.nearest ||
		plan->rays.source <= TOMOS_PARALLEL)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++)
		if (!fits(plan, &plan->views[i]))
			return false;
	return true;
}

static void pass_fill(void *user, int64_t i)
{
	const Pass *pass = user;
	int64_t columns = pass->what->plan->model.columns;
	float *to = pass->samples + i * pass->stride;
	memset(to, 0, (size_t)pass->stride * sizeof *to);
	memcpy(to + PAD, pass->what->projections + (pass->first + i) * columns,
		(size_t)columns * sizeof *to);
}

/* Contribution of one view to the vector of pixels from (x, y) on. */
static inline vf take(
	const Plan *plan, const KernelView *k, const float *samples, double x, double y)
{
	Look look = look_from(k, x, y);
	Hits hits = fan_hits(&look);
	const float *window = samples + PAD + limit(hits.first - BELOW, -PAD, plan->model.columns);
	vf low = vf_pick(window, hits.at + BELOW), high = vf_pick(window, hits.at + (BELOW + 1));
	vf value = low + hits.fraction * (high - low);
	return value * fan_weights(plan, k, &hits, x, y);
}

static void add_row(
	const Pass *pass, int64_t first, int64_t count, double y, int64_t nx, float *row)
{
	const Plan *plan = pass->what->plan;
	const KernelView *views = plan->views + pass->what->first + pass->first;
	for (int64_t x = 0; x < nx; x += LANES) {
		vf sum = {0};
		double at = (double)(x + pass->what->box.low[0]);
		for (int64_t v = first; v < first + count; v++)
			sum += take(plan, &views[v], pass->samples + v * pass->stride, at, y);
		for (int64_t l = 0; l < min64(LANES, nx - x); l++)
			row[x + l] += sum[l];
	}
}

static void pass_back(void *user, int64_t index)
{
	const Pass *pass = user;
	const Box *box = &pass->what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	int64_t end = min64((index + 1) * TILE_ROWS, ny);
	for (int64_t v = 0; v < pass->count; v += VIEWS_IN_CACHE)
		for (int64_t y = index * TILE_ROWS; y < end; y++)
			add_row(pass, v, min64(VIEWS_IN_CACHE, pass->count - v),
				(double)(y + box->low[1]), nx, pass->what->volume + y * nx);
}

tomos_status LEVEL(fan_back)(const ProjectRequest *what)
{
	Pass pass = {.what = what, .stride = what->plan->model.columns + 2 * PAD + LANES};
	int64_t ny = what->box.high[1] - what->box.low[1];
	int64_t most = limit(SCRATCH_FLOATS / pass.stride, 1, what->count);
	TRY(mem_alloc(&pass.samples, most * pass.stride, sizeof(float), "rows of the views"));
	for (pass.first = 0; pass.first < what->count; pass.first += pass.count) {
		pass.count = min64(most, what->count - pass.first);
		parallel_for(pass.count, pass_fill, &pass);
		parallel_for(parts(ny, TILE_ROWS), pass_back, &pass);
	}
	mem_free(pass.samples);
	return TOMOS_OK;
}
