/* The tuning results of a backend and the kernel chosen for a request: the fastest one of the
 * measurement of the same kind whose sizes and distances are nearest, within a factor of two. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "backend/optimised.h"
#include "backend/tune.h"

#define SET(field, text) snprintf(field, sizeof(field), "%s", text)

/* The axis perpendicular to the slices of in-slice parallel rays; -1: none. */
static int slice_axis(const ProjectRequest *what)
{
	const RayClass *rays = &what->plan->rays;
	bool slices = rays->source == TOMOS_PARALLEL &&
		      (what->plan->model.planar || rays_are(rays, RAYS_IN_SLICE));
	return slices ? rays->all.axis : -1;
}

static const char *rays_name(const ProjectRequest *what)
{
	static const char *const names[] = {
		[TOMOS_PARALLEL] = "free", [TOMOS_POINT] = "cone", [TOMOS_FAN_PER_ROW] = "fans"};
	const RayClass *rays = &what->plan->rays;
	if (rays->source == TOMOS_POINT && what->plan->model.planar)
		return "fan";
	if (rays->source == TOMOS_POINT && !rays_are(rays, RAYS_UPRIGHT))
		return "tilted";
	return names[rays->source == SOURCES_MIXED ? TOMOS_PARALLEL : rays->source];
}

/* Voxel size and distance of the source of the first view, at the middle of the grid. */
static void describe_view(const ProjectRequest *what, tomos_tuned *row)
{
	const Plan *plan = what->plan;
	const KernelView *k = &plan->views[what->first];
	double middle[3], depth = k->depth[3], column = k->column[3], rate = 0, away = 0, wide = 0;
	for (int a = 0; a < 3; a++) {
		middle[a] = 0.5 * (double)(plan->grid.n[a] - 1);
		depth += k->depth[a] * middle[a];
		column += k->column[a] * middle[a];
		wide = fmax(wide, (double)plan->grid.n[a] * plan->whole.step[a]);
	}
	for (int a = 0; a < 3; a++) {
		double along = (k->column[a] - column / depth * k->depth[a]) / depth;
		double distance = (k->src[a] - middle[a]) * plan->whole.step[a];
		rate += along * along;
		away += distance * distance;
	}
	row->voxel = isfinite(rate) && rate > 0 ? sqrt(rate) : 1;
	row->source = KERNEL_HAS_SOURCE(k) ? sqrt(away) / wide : 0;
}

static const char *data_name(PlanData data)
{
	return data == DATA_HALF ? "half" : "float";
}

void tune_describe(const ProjectRequest *what, tomos_tuned *row)
{
	int axis = slice_axis(what), across = axis < 0 ? 2 : axis;
	int64_t n[3];
	for (int a = 0; a < 3; a++)
		n[a] = what->box.high[a] - what->box.low[a];
	*row = (tomos_tuned){.bytes = sizeof *row,
		.size = max64(n[(across + 1) % 3], n[(across + 2) % 3]),
		.slices = n[across],
		.views = what->count,
		.columns = what->plan->scan->columns};
	SET(row->projector, kernel_rows[what->kernel].name);
	SET(row->direction, what->direction == FORWARD ? "forward" : "back");
	SET(row->data, data_name(what->plan->data));
	SET(row->rays, axis < 0 ? rays_name(what) : "slices");
	describe_view(what, row);
}

static bool same_kind(const tomos_tuned *a, const tomos_tuned *b)
{
	return strcmp(a->projector, b->projector) == 0 && strcmp(a->direction, b->direction) == 0 &&
	       strcmp(a->data, b->data) == 0 && strcmp(a->rays, b->rays) == 0;
}

static bool is_close(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fabs(a);
}

bool tune_same(const tomos_tuned *a, const tomos_tuned *b)
{
	return same_kind(a, b) && a->size == b->size && a->slices == b->slices &&
	       a->views == b->views && a->columns == b->columns && is_close(a->voxel, b->voxel) &&
	       is_close(a->source, b->source);
}

/* The sum of log2 of the ratios; infinite if one ratio exceeds 2. */
static double distance(const tomos_tuned *a, const tomos_tuned *b)
{
	const bool sources = a->source > 0 && b->source > 0;
	const double pairs[][2] = {{(double)a->size, (double)b->size},
		{(double)a->slices, (double)b->slices}, {(double)a->views, (double)b->views},
		{(double)a->columns, (double)b->columns}, {a->voxel, b->voxel},
		{sources ? a->source : 1, sources ? b->source : 1}};
	double sum = 0;
	for (int i = 0; i < COUNT(pairs); i++) {
		double difference = fabs(log2(pairs[i][0] / pairs[i][1]));
		if (!(difference <= 1))
			return HUGE_VAL;
		sum += difference;
	}
	return sum;
}

const char *tune_wanted(const tomos_backend *backend, const ProjectRequest *what)
{
	const Tuning *t = &backend->tuning;
	const char *wanted = NULL;
	double nearest = HUGE_VAL;
	tomos_tuned asked;
	if (t->forced || t->count == 0)
		return t->forced;
	tune_describe(what, &asked);
	for (int64_t i = 0; i < t->count; i++) {
		const tomos_tuned *row = &t->rows[i];
		if (!row->chosen || row->unknown || !same_kind(row, &asked))
			continue;
		double difference = distance(row, &asked);
		if (difference < nearest) {
			nearest = difference;
			wanted = row->kernel;
		}
	}
	return wanted;
}

static bool is_among(const tomos_tuned *row, const tomos_tuned *rows, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (tune_same(row, &rows[i]))
			return true;
	return false;
}

tomos_status tune_add(tomos_backend *backend, const tomos_tuned *rows, int64_t count)
{
	Tuning *t = &backend->tuning;
	tomos_tuned *joined;
	int64_t kept = 0;
	TRY(mem_alloc(&joined, t->count + count, sizeof *joined, "tuning results"));
	for (int64_t i = 0; i < t->count; i++)
		if (!is_among(&t->rows[i], rows, count))
			joined[kept++] = t->rows[i];
	for (int64_t i = 0; i < count; i++) {
		joined[kept + i] = rows[i];
		joined[kept + i].unknown =
			backend->type->projector->has_kernel &&
			!backend->type->projector->has_kernel(backend, rows[i].kernel);
	}
	mem_free(t->rows);
	t->rows = joined;
	t->count = kept + count;
	return TOMOS_OK;
}

void tune_clear(tomos_backend *backend)
{
	mem_free(backend->tuning.rows);
	backend->tuning = (Tuning){.count = 0};
}

tomos_status tomos_tuned_list(tomos_tuned **list, int64_t *count, const tomos_backend *backend)
{
	const Tuning *t = &backend->tuning;
	*list = NULL;
	*count = 0;
	TRY(mem_alloc(list, t->count, sizeof **list, "tuning results"));
	if (t->count > 0)
		memcpy(*list, t->rows, (size_t)t->count * sizeof **list);
	*count = t->count;
	return TOMOS_OK;
}

void tomos_tuned_free(void *list)
{
	mem_free(list);
}

double tomos_tuned_bound(const tomos_tuned *row, const tomos_machine *machine, tomos_rate *part)
{
	double work[TOMOS_RATES];
	tomos_tuned known = {.bytes = sizeof known};
	tomos_status taken = struct_take(&known, row, "tomos_tuned");
	const double *demand = optimised_demand(known.kernel);
	if (taken != TOMOS_OK || !demand)
		return 0;
	memcpy(work, demand, sizeof work);
	/* Volume and projections are each read or written once. */
	work[TOMOS_RATE_MEMORY] =
		sizeof(float) *
		(1 / (double)known.views +
			(double)known.columns / ((double)known.size * (double)known.size));
	double time = tomos_machine_bound(machine, work, part);
	return time > 0 ? 1 / time : 0;
}
