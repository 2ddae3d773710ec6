/* Converts scan and grid to what kernels read, with all lengths in voxel indices. */
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "backend/backend.h"
#include "base/vector3.h"

_Static_assert(offsetof(KernelView, mass) == sizeof(GridView), "KernelView begins with GridView");
_Static_assert((int)SOURCE_PARALLEL == (int)TOMOS_PARALLEL &&
		       (int)SOURCE_POINT == (int)TOMOS_POINT &&
		       (int)SOURCE_FAN_PER_ROW == (int)TOMOS_FAN_PER_ROW,
	"kinds of sources are numbered alike");

/* The constant of voxel_weight. Gradients are per voxel here, so they contain the volume of a
 * voxel. */
static void view_mass(KernelView *k, const Plan *plan)
{
	double c[3];
	const double *step = plan->whole.step;
	if (KERNEL_HAS_SOURCE(k)) {
		if (plan->model.planar) {
			k->mass = fabs(k->column[0] * k->depth[1] - k->column[1] * k->depth[0]);
			return;
		}
		cross3(c, k->row, k->depth);
		k->mass = fabs(dot3(k->column, c));
	} else if (plan->model.planar) {
		k->mass = hypot(k->column[0] * step[1], k->column[1] * step[0]);
	} else {
		cross3(c, k->column, k->row);
		for (int a = 0; a < 3; a++)
			c[a] *= step[a];
		k->mass = norm3(c);
	}
}

tomos_status plan_make(
	Plan *plan, const tomos_grid *grid, const tomos_geometry *scan, const KernelModel *model)
{
	memset(plan, 0, sizeof *plan);
	TRY(tomos_grid_check(grid));
	plan->grid = *grid;
	plan->model = *model;
	plan->model.rows = scan->rows;
	plan->model.columns = scan->columns;
	for (int a = 0; a < 3; a++) {
		plan->whole.n[a] = plan->whole.high[a] = grid->n[a];
		plan->whole.step[a] = fabs(grid->step[a]);
	}
	tomos_status status;
	TRY_OR_DONE(tomos_geometry_views(
		&plan->scan, scan->rows, scan->columns, scan->views, scan->count));
	TRY_OR_DONE(mem_alloc(&plan->views, scan->count, sizeof *plan->views, "the views"));
	TRY_OR_DONE(mem_zeroed(&plan->cache, 1, sizeof *plan->cache, "the views"));
	TRY_OR_DONE(rays_make(&plan->rays, scan, grid));
	plan->model.planar = plan->rays.planar;
	for (int64_t i = 0; i < scan->count; i++) {
		const GridView view = grid_view(scan, i, grid);
		memcpy(&plan->views[i], &view, sizeof view);
		view_mass(&plan->views[i], plan);
	}
	return TOMOS_OK;
done:
	plan_free(plan);
	return status;
}

/* A plan of the same kind for `count` views of `rows` x `columns`, which are not filled in. */
static tomos_status plan_like(
	Plan *part, const Plan *whole, int64_t rows, int64_t columns, int64_t count)
{
	*part = *whole;
	part->scan = NULL;
	part->views = NULL;
	part->cache = NULL;
	part->rays.views = NULL;
	part->model.rows = rows;
	part->model.columns = columns;
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&part->views, count, sizeof *part->views, "the views"));
	TRY_OR_DONE(mem_zeroed(&part->cache, 1, sizeof *part->cache, "the views"));
	TRY_OR_DONE(geom_new(&part->scan, rows, columns, count));
done:
	if (status != TOMOS_OK)
		plan_free(part);
	return status;
}

static tomos_status classify_part(Plan *part, const Plan *whole, const int64_t *views, int64_t row)
{
	tomos_status status =
		rays_part(&part->rays, &whole->rays, views, row, part->scan, &part->grid);
	if (status != TOMOS_OK)
		plan_free(part);
	return status;
}

tomos_status plan_part(Plan *part, const Plan *whole, const int64_t *views, int64_t count)
{
	TRY(plan_like(part, whole, whole->scan->rows, whole->scan->columns, count));
	for (int64_t i = 0; i < count; i++) {
		part->scan->views[i] = whole->scan->views[views[i]];
		part->views[i] = whole->views[views[i]];
	}
	return classify_part(part, whole, views, 0);
}

/* Pixels are numbered from the corner of the window. A voxel projects to (U / D, V / D), so U and V
 * become U - corner D and V - corner D. */
static void view_crop(KernelView *k, const double corner[2])
{
	bool fans = KERNEL_FANS(k);
	for (int a = 0; a < 3; a++) {
		k->first[a] += corner[0] * k->u[a] + corner[1] * k->v[a];
		k->src[a] += fans ? corner[1] * k->v[a] : 0;
	}
	for (int a = 0; a < 4; a++) {
		k->column[a] -= corner[0] * k->depth[a];
		k->row[a] -= corner[1] * (fans ? a == 3 : k->depth[a]);
	}
}

tomos_status plan_crop(
	Plan *part, const Plan *whole, const int64_t *views, int64_t count, const Window *window)
{
	int64_t columns = window->high[0] - window->low[0], rows = window->high[1] - window->low[1];
	const double corner[2] = {(double)window->low[0], (double)window->low[1]};
	TRY(plan_like(part, whole, rows, columns, count));
	double right = corner[0] - 0.5 * (double)(whole->scan->columns - columns);
	double up = corner[1] - 0.5 * (double)(whole->scan->rows - rows);
	for (int64_t i = 0; i < count; i++) {
		tomos_view *view = &part->scan->views[i];
		*view = whole->scan->views[views[i]];
		view_slide(view, right, up);
		part->views[i] = whole->views[views[i]];
		view_crop(&part->views[i], corner);
	}
	return classify_part(part, whole, views, window->low[1]);
}

void plan_free(Plan *plan)
{
	if (plan->cache && plan->cache->data)
		plan->cache->release(plan->cache->owner, plan->cache->data);
	mem_free(plan->cache);
	tomos_geometry_free(plan->scan);
	rays_free(&plan->rays);
	mem_free(plan->views);
	memset(plan, 0, sizeof *plan);
}

/* A ray-driven kernel reaches less than one voxel on either side of the ray, a footprint half the
 * projection of a voxel and half a column. */
int64_t plan_disjoint_columns(const Plan *plan, int64_t view)
{
	const KernelView *k = &plan->views[view];
	double nearest = HUGE_VAL, rate[2] = {0, 0};
	for (int corner = 0; corner < 4; corner++) {
		double x = corner & 1 ? (double)plan->grid.n[0] : -1;
		double y = corner & 2 ? (double)plan->grid.n[1] : -1;
		double depth = k->depth[0] * x + k->depth[1] * y + k->depth[3];
		double column = k->column[0] * x + k->column[1] * y + k->column[3];
		nearest = fmin(nearest, depth);
		if (depth <= 0)
			continue;
		for (int a = 0; a < 2; a++)
			rate[a] = fmax(
				rate[a], fabs(k->column[a]) + fabs(column / depth * k->depth[a]));
	}
	if (!(nearest > 0)) /* the source is among the voxels: all rays may share one */
		return plan->model.columns;
	double x = rate[0] / nearest, y = rate[1] / nearest;
	double reach = fmax(2 * fmax(x, y), fmax(x + y + 1, 2));
	return reach < (double)plan->model.columns ? (int64_t)floor(reach + 1e-6) + 1
						   : plan->model.columns;
}
