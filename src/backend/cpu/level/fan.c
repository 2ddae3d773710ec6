/* Fan beam inside one slice: voxel-driven back projection with neighbouring pixels in the lanes.
 *
 * Along a row of pixels the column is a quotient of two linear functions: from the first lane it goes
 * on by lane step / (1 + lane bend). That is lane step, exact in whole numbers as for parallel rays,
 * less lane^2 step bend / (1 + lane bend), which is small.
 */
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/stretch.h"

/* BELOW: samples below the lowest lane that the curve may lead to. */
enum { BELOW = LANES == 16 ? 5 : 2, TILE_ROWS = 8, VIEWS_IN_CACHE = 32, SCRATCH_FLOATS = 4 << 20 };

typedef struct {
	const Projecting *what;
	int64_t first, count, stride; /* views of this pass; floats per view */
	float *samples;
} Pass;

/* A view from one pixel: columns per pixel along x, and how much nearer each next one is. */
typedef struct {
	double column, depth, step, bend;
} Look;

static inline Look look_from(const KernelView *k, double x, double y)
{
	Look look = {.depth = k->depth[0] * x + k->depth[1] * y + k->depth[3]};
	double nearer = 1 / look.depth;
	look.column = (k->column[0] * x + k->column[1] * y + k->column[3]) * nearer;
	look.step = (k->column[0] - look.column * k->depth[0]) * nearer;
	look.bend = k->depth[0] * nearer;
	return look;
}

static bool look_fits(const Look *look)
{
	double step = fabs(look->step), bend = LANES * fabs(look->bend);
	double curve = LANES * step * bend / (1 - bend);
	return look->depth > 0.01 && bend < 0.3 && curve < BELOW - 0.4 &&
	       lanes_fit(step, BELOW + 3 + curve);
}

/* Along a row of pixels the step goes with 1 / depth^2, so it is largest at one of the row's ends. */
static bool fits(const Plan *plan, const KernelView *k)
{
	for (int64_t y = 0; y < plan->grid.n[1]; y++) {
		Look first = look_from(k, 0, (double)y);
		Look last = look_from(k, (double)(plan->grid.n[0] - 1 + LANES), (double)y);
		if (!look_fits(&first) || !look_fits(&last))
			return false;
	}
	return true;
}

bool LEVEL(fan_applies)(const Projecting *what)
{
	const Plan *plan = what->plan;
	if (!plan->model.planar || plan->model.clamp || plan->model.nearest)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++)
		if (plan->views[i].src[3] == 0 || !fits(plan, &plan->views[i]))
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

/* One view onto one vector of pixels from (x, y) on. */
static inline vf take(
	const Plan *plan, const KernelView *k, const float *samples, double x, double y)
{
	Look look = look_from(k, x, y);
	vf lane = vf_lane(), turn = lane * (float)look.bend, inverse = 1 / (1 + turn), fraction;
	Lanes lanes = lanes_of(look.step);
	int64_t p = position_of(look.column + lowest_lane(look.step));
	vi j = lanes_at(&lanes, p, &fraction);
	vf t = BELOW + fraction - lane * (float)look.step * turn * inverse;
	vi whole = vf_truncate(t);
	const float *window =
		samples + PAD + limit((p >> FRACTION_BITS) - BELOW, -PAD, plan->model.columns);
	j += whole;
	vf low = vf_pick(window, j), high = vf_pick(window, j + 1);
	vf value = low + (t - vi_float(whole)) * (high - low);
	vf nearer = inverse * (float)(1 / look.depth);
	if (plan->model.weight == WEIGHT_NONE)
		return value;
	if (plan->model.weight == WEIGHT_DEPTH)
		return value * nearer * nearer;
	vf dx = ((float)(x - k->src[0]) + lane) * (float)plan->whole.step[0];
	float dy = (float)((y - k->src[1]) * plan->whole.step[1]);
	return value * nearer * nearer * (float)k->mass * vf_sqrt(dx * dx + dy * dy);
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

tomos_status LEVEL(fan_back)(const Projecting *what)
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
