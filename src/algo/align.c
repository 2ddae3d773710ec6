/* Resampling of tilted detectors to untilted ones: projections are filtered along detector rows,
 * which must be perpendicular to the rotation axis. */
#include <math.h>
#include <string.h>
#include "algo/analytic.h"
#include "base/vector3.h"

/* Perpendicular to the central ray and to z: the row direction of an untilted detector. */
static void across(const tomos_view *view, double direction[3])
{
	double towards = view_has_source(view) ? -1 : 1;
	double x = towards * view->src[0], y = towards * view->src[1];
	double length = hypot(x, y);
	direction[0] = -y / length;
	direction[1] = x / length;
	direction[2] = 0;
}

/* By how much the outermost pixels are displaced against a detector that is not tilted, in pixels.
 * The rays of a parallel beam do not change where the detector is tilted along them. */
static double displacement(const tomos_geometry *scan, const tomos_view *view)
{
	double side[3], u = norm3(view->u), v = norm3(view->v);
	double columns = (double)scan->columns, rows = (double)scan->rows;
	across(view, side);
	double roll = fmax(fabs(view->u[2]) * columns / v, fabs(dot3(view->v, side)) * rows / u);
	if (!view_has_source(view))
		return roll;
	double narrowed = fmax(fabs(fabs(dot3(view->u, side)) / u - 1) * columns,
		fabs(fabs(view->v[2]) / v - 1) * rows);
	return fmax(roll, narrowed);
}

static tomos_view align(const tomos_view *view)
{
	tomos_view made = *view;
	double side[3], u = norm3(view->u), v = norm3(view->v);
	across(view, side);
	double mirrored = dot3(view->u, side) < 0 ? -1 : 1, upside_down = view->v[2] < 0 ? -1 : 1;
	for (int a = 0; a < 3; a++) {
		made.u[a] = mirrored * u * side[a];
		made.v[a] = a == 2 ? upside_down * v : 0;
	}
	return made;
}

/* pixel of `aligned` -> point in space -> pixel of the scan, the latter by the kernels' own affine
 * functions on a grid whose indices are positions. */
static void pixel_map(
	double m[9], const tomos_geometry *scan, const tomos_view *aligned, const KernelView *k)
{
	double first[3], c = 0.5 * (double)(scan->columns - 1), r = 0.5 * (double)(scan->rows - 1);
	for (int a = 0; a < 3; a++)
		first[a] = aligned->det[a] - c * aligned->u[a] - r * aligned->v[a];
	const double *forms[3] = {k->column, k->row, k->depth};
	for (int i = 0; i < 3; i++) {
		m[3 * i] = dot3(forms[i], aligned->u);
		m[3 * i + 1] = dot3(forms[i], aligned->v);
		m[3 * i + 2] = dot3(forms[i], first) + forms[i][3];
	}
}

static tomos_status make_maps(
	double **maps, const tomos_geometry *scan, const tomos_geometry *aligned)
{
	Plan plan;
	tomos_grid space = {{2, 2, 2}, {0, 0, 0}, {1, 1, 1}};
	KernelModel model = {.weight = WEIGHT_NONE};
	TRY(plan_make(&plan, &space, scan, &model));
	tomos_status status = mem_alloc(maps, scan->count, 9 * sizeof(double), "the views' maps");
	for (int64_t i = 0; i < scan->count && status == TOMOS_OK; i++)
		pixel_map(*maps + 9 * i, scan, &aligned->views[i], &plan.views[i]);
	plan_free(&plan);
	return status;
}

/* Fans are filtered and back projected slice by slice, so their rows must be in slices. */
static tomos_status check_fans(const tomos_geometry *scan)
{
	for (int64_t i = 0; i < scan->count; i++) {
		const tomos_view *w = &scan->views[i];
		if (view_fans(w) && !(view_is_level(scan, w) && view_is_upright(scan, w)))
			return fail(TOMOS_UNSUPPORTED,
				"view %lld has fans that do not lie in slices across z: filtered "
				"back projection needs that; use an algebraic method, for "
				"instance sirt",
				(long long)i);
	}
	return TOMOS_OK;
}

tomos_status align_views(tomos_geometry **aligned, double **maps, const tomos_geometry *scan)
{
	bool all = true;
	*maps = NULL;
	*aligned = NULL;
	TRY(check_fans(scan));
	TRY(tomos_geometry_views(aligned, scan->rows, scan->columns, scan->views, scan->count));
	for (int64_t i = 0; i < scan->count; i++)
		if (!(displacement(scan, &scan->views[i]) <= RAY_TOLERANCE)) {
			(*aligned)->views[i] = align(&scan->views[i]);
			all = false;
		}
	tomos_status status = all ? TOMOS_OK : make_maps(maps, scan, *aligned);
	if (status != TOMOS_OK) {
		tomos_geometry_free(*aligned);
		*aligned = NULL;
	}
	return status;
}
