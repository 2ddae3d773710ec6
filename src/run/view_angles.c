/* What the views' angles and rays say about the scan: all the same, a limited range, or an opening
 * that no scanner has. */
#include <math.h>
#include "base/vector3.h"
#include "run/run_parts.h"

#define WIDEST 70 /* degrees from the middle of the detector to a corner */

static bool views_are_equal(const tomos_geometry *g)
{
	const tomos_view *first = &g->views[0];
	for (int64_t i = 1; i < g->count; i++) {
		const tomos_view *v = &g->views[i];
		for (int a = 0; a < 3; a++)
			if (v->src[a] != first->src[a] || v->det[a] != first->det[a] ||
				v->u[a] != first->u[a] || v->v[a] != first->v[a])
				return false;
	}
	return g->count > 1;
}

/* The largest angle between the ray to the middle of the detector and one to a corner. */
static double opening(const tomos_geometry *g, const tomos_view *view, const double middle[3])
{
	double corner[3], widest = 0;
	for (int i = 0; i < 4; i++) {
		double along = (i & 1 ? 0.5 : -0.5) * (double)(g->columns - 1);
		double up = (i & 2 ? 0.5 : -0.5) * (double)(g->rows - 1);
		add3(corner, middle, along, view->u);
		if (!view_fans(view)) /* the rays of a row stay in its plane */
			add3(corner, corner, up, view->v);
		double cosine = dot3(middle, corner) / (norm3(middle) * norm3(corner));
		widest = fmax(widest, acos(fmax(-1, fmin(1, cosine))));
	}
	return widest;
}

/* Lengths in different units make a detector that no scanner has. */
static tomos_status say_opening(const FileRun *r)
{
	const tomos_view *view = &r->whole->geometry->views[0];
	double middle[3], degrees = 180 / 3.14159265358979323846;
	if (!view_has_source(view))
		return TOMOS_OK;
	add3(middle, view->det, -1, view->src);
	double half = opening(r->whole->geometry, view, middle);
	if (half * degrees < WIDEST)
		return TOMOS_OK;
	return job_warn(r->job,
		"the rays of a view open to %.4g degrees: the detector's pixels are %g wide, and "
		"its middle is %g from the source; are both in the same unit?",
		2 * half * degrees, norm3(view->u), norm3(middle));
}

/* Views that are all the same determine no depth. Filtered back projection of a limited angular
 * range has artefacts and values that are too low. */
tomos_status run_say_angles(const FileRun *r)
{
	double covered, needed, degrees = 180 / 3.14159265358979323846;
	const tomos_geometry *g = r->whole->geometry;
	TRY(say_opening(r));
	if (views_are_equal(g))
		return job_warn(r->job,
			"all %lld views have the same angle: nothing tells how deep in "
			"the object a value belongs",
			(long long)g->count);
	if (r->iterates)
		return TOMOS_OK;
	TRY(tomos_geometry_cover(g, &covered, &needed));
	if (covered >= 0.99 * needed)
		return TOMOS_OK;
	return job_warn(r->job,
		"the views cover %.4g of %.4g degrees: values will be too low and edges "
		"smeared; an algebraic method may do better",
		covered * degrees, needed * degrees);
}
