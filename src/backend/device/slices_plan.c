/* The plan of a virtual stack; see hat.h. */
#include "backend/device/hat.h"

/* Column c of the view becomes column `first` + `every` c of the original. */
static void view_thin(KernelView *k, int first, int every)
{
	for (int a = 0; a < 3; a++) {
		k->first[a] += first * k->u[a];
		k->u[a] *= every;
	}
	for (int a = 0; a < 4; a++)
		k->column[a] = (k->column[a] - first * k->depth[a]) / every;
}

tomos_status derived_plan_fill(
	Plan *plan, const Plan *whole, int64_t count, int64_t rows, int64_t columns)
{
	*plan = *whole;
	plan->scan = NULL;
	plan->views = NULL;
	plan->cache = NULL;
	plan->model.rows = rows;
	plan->model.columns = columns;
	TRY(mem_zeroed(&plan->scan, 1, sizeof *plan->scan, "the views"));
	plan->scan->rows = rows;
	plan->scan->columns = columns;
	plan->scan->count = count;
	TRY(mem_zeroed(&plan->cache, 1, sizeof *plan->cache, "the views"));
	return mem_alloc(&plan->views, count, sizeof *plan->views, "the views");
}

static tomos_status slices_fill(Plan *plan, const Plan *whole, int every)
{
	const int64_t count = whole->scan->count * every;
	const int axis = rays_are(&whole->rays, RAYS_IN_SLICE) ? whole->rays.all.axis : 2;
	TRY(derived_plan_fill(plan, whole, count, whole->grid.n[axis],
		(whole->model.columns + every - 1) / every));
	plan->every = every;
	plan->rays = (RayClass){.source = whole->rays.source,
		.all = {.families = whole->rays.all.families | RAYS_IN_SLICE,
			.axis = axis,
			.sign = 1},
		.same_rows = true};
	for (int64_t i = 0; i < count; i++) {
		plan->views[i] = whole->views[i / every];
		view_thin(&plan->views[i], (int)(i % every), every);
	}
	return TOMOS_OK;
}

tomos_status slices_plan(Plan **slices, const Plan *whole, int every)
{
	TRY(mem_zeroed(slices, 1, sizeof **slices, "the views"));
	tomos_status status = slices_fill(*slices, whole, every);
	if (status != TOMOS_OK) {
		slices_plan_free(*slices);
		*slices = NULL;
	}
	return status;
}

void slices_plan_free(Plan *slices)
{
	if (!slices)
		return;
	if (slices->cache && slices->cache->data)
		slices->cache->release(slices->cache->owner, slices->cache->data);
	mem_free(slices->cache);
	mem_free(slices->scan);
	mem_free(slices->views);
	mem_free(slices);
}
