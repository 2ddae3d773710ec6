/* The plan for a part of the detector; see window_plan.h. */
#include <math.h>
#include "backend/device/hat.h"
#include "backend/device/window_plan.h"

#define MARGIN 2 /* voxels beyond the outermost voxel centres: no projector reaches farther */

static double form_at(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

/* The pixels of a view between the projections of the corners of the grid; false: a corner is not
 * in front of the source. */
static bool find_window(const Plan *plan, const KernelView *k, Window *window)
{
	double low[2] = {HUGE_VAL, HUGE_VAL}, high[2] = {-HUGE_VAL, -HUGE_VAL};
	const int64_t size[2] = {plan->model.columns, plan->model.rows};
	for (int corner = 0; corner < 8; corner++) {
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = corner >> a & 1 ? (double)plan->grid.n[a] - 1 + MARGIN : -MARGIN;
		const double depth = form_at(k->depth, at);
		const double pixel[2] = {
			form_at(k->column, at) / depth, form_at(k->row, at) / depth};
		if (!(depth > 1e-6))
			return false;
		for (int i = 0; i < 2; i++) {
			low[i] = fmin(low[i], pixel[i]);
			high[i] = fmax(high[i], pixel[i]);
		}
	}
	for (int i = 0; i < 2; i++) {
		const double n = (double)size[i];
		window->low[i] = (int64_t)fmin(fmax(floor(low[i]) - 1, 0), n);
		window->high[i] = (int64_t)fmin(fmax(ceil(high[i]) + 2, 0), n);
	}
	return true;
}

/* Kernels for slices have detector rows of their own; slices may be across any axis. */
static bool is_meant(const Plan *plan)
{
	bool level = false;
	for (int a = 0; a < 3 && plan->rays.source == TOMOS_PARALLEL; a++) {
		const double *d = plan->views[0].src,
			     *last = plan->views[plan->scan->count - 1].src;
		const double most = fmax(fabs(d[(a + 1) % 3]), fabs(d[(a + 2) % 3])),
			     last_most = fmax(fabs(last[(a + 1) % 3]), fabs(last[(a + 2) % 3]));
		level = level || (fabs(d[a]) < 1e-3 * most && fabs(last[a]) < 1e-3 * last_most);
	}
	return !plan->model.planar && !plan->model.clamp && !plan->model.nearest &&
	       (plan->rays.source == TOMOS_POINT ||
		       (plan->rays.source == TOMOS_PARALLEL && !level));
}

/* Windows of all views, as large as the largest of them: their corners and *size. Views that are
 * rotations of each other have the same window, as kernels expect. false: no windows, or they have
 * more than half of the pixels. */
static bool find_windows(const Plan *plan, int *corners, int64_t size[2])
{
	const int64_t whole[2] = {plan->model.columns, plan->model.rows};
	const bool same = plan->rays.half || plan->rays.quarter;
	int64_t least[2] = {whole[0], whole[1]}, most[2] = {0, 0};
	size[0] = size[1] = 0;
	for (int64_t i = 0; i < plan->scan->count; i++) {
		Window w;
		if (!find_window(plan, &plan->views[i], &w))
			return false;
		for (int k = 0; k < 2; k++) {
			corners[2 * i + k] = (int)w.low[k];
			size[k] = max64(size[k], w.high[k] - w.low[k]);
			least[k] = min64(least[k], w.low[k]);
			most[k] = max64(most[k], w.high[k]);
		}
	}
	for (int k = 0; k < 2; k++) {
		size[k] = same ? most[k] - least[k] : size[k];
		for (int64_t i = 0; i < plan->scan->count; i++)
			corners[2 * i + k] =
				(int)(same ? least[k]
					   : min64(corners[2 * i + k], whole[k] - size[k]));
	}
	return size[0] > 0 && size[1] > 0 &&
	       2 * (double)size[0] * (double)size[1] <= (double)whole[0] * (double)whole[1];
}

/* Pixels are numbered from the corner of the window: voxels project to (U / D, V / D), so that U
 * and V become U - corner D and V - corner D. */
static KernelView cropped_view(const KernelView *whole, const int corner[2])
{
	KernelView k = *whole;
	const double column = (double)corner[0], row = (double)corner[1];
	for (int a = 0; a < 3; a++)
		k.first[a] += column * k.u[a] + row * k.v[a];
	for (int a = 0; a < 4; a++) {
		k.column[a] -= column * k.depth[a];
		k.row[a] -= row * k.depth[a];
	}
	return k;
}

static tomos_status fill_plan(
	Plan *plan, const Plan *whole, const int *corners, const int64_t size[2])
{
	const int64_t count = whole->scan->count;
	TRY(derived_plan_fill(plan, whole, count, size[1], size[0]));
	plan->rays.views = NULL;
	for (int64_t i = 0; i < count; i++)
		plan->views[i] = cropped_view(&whole->views[i], corners + 2 * i);
	return TOMOS_OK;
}

tomos_status window_plan(Plan **part, const Plan *whole, int **corners)
{
	int64_t size[2];
	tomos_status status;
	*part = NULL;
	*corners = NULL;
	if (!is_meant(whole))
		return TOMOS_OK;
	TRY(mem_alloc(corners, 2 * whole->scan->count, sizeof **corners, "the views"));
	if (!find_windows(whole, *corners, size)) {
		status = TOMOS_OK;
		goto done;
	}
	TRY_OR_DONE(mem_zeroed(part, 1, sizeof **part, "the views"));
	TRY_OR_DONE(fill_plan(*part, whole, *corners, size));
	return TOMOS_OK;
done:
	slices_plan_free(*part);
	mem_free(*corners);
	*part = NULL;
	*corners = NULL;
	return status;
}
