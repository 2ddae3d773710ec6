/* Stacks of slices that are not as high as detector rows: parallel rays and fans in planes of
 * constant z. The weights are products of those within a plane and those along z. The slices are
 * projected as a stack with one detector row each (stack.h), which is then interpolated along z;
 * back projection does the reverse.
 */
#include "backend/cpu/level/simd.h"
#include "backend/cpu/level/stack.h"

enum {
	SLICES = 64,              /* projected together */
	HEIGHTS_FLOATS = 12 << 20 /* size of the buffer of projected slices */
};

typedef struct {
	const ProjectRequest *what;
	Plan plan;             /* of the stack: slice z projects to row z */
	ProjectRequest slices; /* of some slices and views, into `rows` */
	float *rows;           /* [view][slice][column] */
} Heights;

/* The request of `count` slices from z on (of the grid) in all views, without data. */
static void heights_take(Heights *h, int64_t z, int64_t count)
{
	h->plan.model.rows = count;
	h->slices.box.low[2] = z;
	h->slices.box.high[2] = z + count;
	for (int64_t i = 0; i < h->what->count; i++)
		h->plan.views[i].row[3] = -(double)z;
}

static void heights_make(Heights *h, const ProjectRequest *what, KernelView *views)
{
	*h = (Heights){.what = what, .plan = *what->plan, .slices = *what};
	h->plan.views = views;
	for (int64_t i = 0; i < what->count; i++) {
		views[i] = what->plan->views[what->first + i];
		views[i].row[0] = views[i].row[1] = 0;
		views[i].row[2] = 1;
	}
	h->plan.rays.all.families |= RAYS_IN_SLICE;
	h->plan.rays.all.axis = 2;
	h->slices.plan = &h->plan;
	h->slices.first = 0;
	h->slices.overwrite = false;
	heights_take(h, what->box.low[2], what->box.high[2] - what->box.low[2]);
}

/* View by view: with memory for all of them, the choice would depend on whether there is enough. */
static bool heights_applies(const ProjectRequest *what)
{
	const RayClass *rays = &what->plan->rays;
	const KernelModel *model = &what->plan->model;
	ProjectRequest one = *what;
	KernelView view;
	Heights h;
	Stack s;
	if (!rays_are(rays, RAYS_LEVEL | RAYS_IN_SHEET) || rays_are(rays, RAYS_IN_SLICE) ||
		rays->source < 0 || rays->source == TOMOS_POINT || model->planar || model->clamp ||
		model->nearest || what->count <= FEW_VIEWS)
		return false;
	one.count = 1;
	for (; one.first < what->first + what->count; one.first++) {
		heights_make(&h, &one, &view);
		if (!LEVEL(stack_find)(&h.slices, &s) || s.f.slices < LEAST_SLICES)
			return false;
	}
	return true;
}

/* ---- along z --------------------------------------------------------------------------------- */

/* Adds the slice to the row (forward) or the reverse, of view i of the buffer, times the weight. */
static void heights_add(const Heights *h, int64_t i, int64_t row, int64_t slice, double weight)
{
	const KernelModel *model = &h->what->plan->model;
	int64_t slices = h->plan.model.rows, columns = model->columns;
	if (!(weight > KERNEL_LEAST) || row < 0 || row >= model->rows || slice < 0 ||
		slice >= slices)
		return;
	int64_t view = h->slices.first + i;
	float *outer = h->what->projections + (view * model->rows + row) * columns;
	float *inner = h->rows + (i * slices + slice) * columns, factor = (float)weight;
	float *to = h->what->direction == FORWARD ? outer : inner;
	const float *from = h->what->direction == FORWARD ? inner : outer;
	for (int64_t c = 0; c < columns; c++)
		to[c] += factor * from[c];
}

/* Adds the part of each slice that projects onto a row. */
static void heights_overlap(void *user, int64_t i)
{
	const Heights *h = user;
	const double *f = h->what->plan->views[h->what->first + h->slices.first + i].row;
	const double low = (double)h->slices.box.low[2], high = fabs(f[2]),
		     reach = 0.5 * (1 + high);
	for (int64_t n = 0; n < h->plan.model.rows; n++) {
		const double at = f[2] * ((double)n + low) + f[3];
		const double first = fmax(ceil(at - reach), 0),
			     last = fmin(
				     floor(at + reach), (double)(h->what->plan->model.rows - 1));
		for (double row = first; row <= last; row++)
			heights_add(h, i, (int64_t)row, n,
				fmin(fmin(reach - fabs(row - at), 1), high) / high);
	}
}

/* Interpolates between the slices around each row (Joseph), or between the rows around each slice
 * (voxel-driven). */
static void heights_interpolate(void *user, int64_t i)
{
	const Heights *h = user;
	if (h->what->kernel == KERNEL_footprint) {
		heights_overlap(user, i);
		return;
	}
	bool joseph = h->what->kernel == KERNEL_joseph;
	const double *f = h->what->plan->views[h->what->first + h->slices.first + i].row;
	double low = (double)h->slices.box.low[2];
	int64_t rows = h->what->plan->model.rows, slices = h->plan.model.rows;
	for (int64_t n = 0; n < (joseph ? rows : slices); n++) {
		double at =
			joseph ? ((double)n - f[3]) / f[2] - low : f[2] * ((double)n + low) + f[3];
		if (!(at > -1 && at < (double)(joseph ? slices : rows)))
			continue;
		int64_t below = (int64_t)floor(at);
		double share = at - (double)below;
		for (int j = 0; j < 2; j++)
			heights_add(h, i, joseph ? n : below + j, joseph ? below + j : n,
				j ? share : 1 - share);
	}
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* `count` views from `first` on, and the slices taken. */
static tomos_status heights_views(Heights *h, int64_t first, int64_t count)
{
	bool forward = h->what->direction == FORWARD;
	h->slices.first = first;
	h->slices.count = count;
	h->slices.projections = h->rows;
	memset(h->rows, 0,
		(size_t)(count * h->plan.model.rows * h->plan.model.columns) * sizeof *h->rows);
	if (!forward)
		parallel_for(count, heights_interpolate, h);
	TRY((forward ? LEVEL(stack_forward) : LEVEL(stack_back))(&h->slices));
	if (forward)
		parallel_for(count, heights_interpolate, h);
	return TOMOS_OK;
}

/* Slices [*low, *high) of the box that some detector row meets, at least LEAST_SLICES. */
static void heights_range(const ProjectRequest *what, int64_t *low, int64_t *high)
{
	double from = HUGE_VAL, to = -HUGE_VAL;
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const double *f = what->plan->views[i].row;
		double first = (-1 - f[3]) / f[2];
		double last = ((double)what->plan->model.rows - f[3]) / f[2];
		from = fmin(from, fmin(first, last) - 1);
		to = fmax(to, fmax(first, last) + 2);
	}
	double least = (double)what->box.low[2], most = (double)what->box.high[2];
	*low = (int64_t)floor(fmin(fmax(from, least), most));
	*high = (int64_t)ceil(fmin(fmax(to, least), most));
	*low = max64(min64(*low, what->box.high[2] - LEAST_SLICES), what->box.low[2]);
	*high = min64(max64(*high, *low + LEAST_SLICES), what->box.high[2]);
}

/* Number of slices of the next part of `left` slices: none is smaller than a stack may be. */
static int64_t heights_next(int64_t left)
{
	return left <= SLICES ? left : left < SLICES + LEAST_SLICES ? left / 2 : SLICES;
}

static tomos_status heights_project(const ProjectRequest *what)
{
	Heights h;
	const Box *box = &what->box;
	int64_t low, high, columns = what->plan->model.columns;
	int64_t slice = (box->high[0] - box->low[0]) * (box->high[1] - box->low[1]);
	heights_range(what, &low, &high);
	int64_t tall = limit(high - low, 1, SLICES);
	int64_t most =
		limit(HEIGHTS_FLOATS / (tall * columns), min64(what->count, 16), what->count);
	KernelView *views;
	TRY(mem_alloc(&views, what->count, sizeof *views, "the views"));
	heights_make(&h, what, views);
	tomos_status status = mem_alloc(
		&h.rows, most * tall * columns, sizeof(float), "projections of the slices");
	for (int64_t z = low, count; z < high && status == TOMOS_OK; z += count) {
		count = heights_next(high - z);
		heights_take(&h, z, count);
		h.slices.volume = what->volume + (z - box->low[2]) * slice;
		for (int64_t v = 0; v < what->count && status == TOMOS_OK; v += most)
			status = heights_views(&h, v, min64(most, what->count - v));
	}
	mem_free(h.rows);
	mem_free(views);
	return status;
}

const CpuKernel LEVEL(cpu_stack_heights) = {
	.applies = heights_applies,
	.run = {heights_project, heights_project},
};
