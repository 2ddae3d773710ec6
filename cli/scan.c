/* A simulated scan from options; the detector defaults to covering the whole object. */
#include <math.h>
#include <string.h>
#include "cli.h"

#define COLUMNS 256          /* for a phantom, if neither columns nor pixel are given */
#define MOST_PIXELS 1000000. /* along one side of a detector chosen here */

extent extent_of_grid(const tomos_grid *grid)
{
	double corner[3];
	for (int i = 0; i < 3; i++) {
		double step = grid->step[i], low = grid->first[i] - 0.5 * step;
		double high = low + step * (double)grid->n[i];
		corner[i] = fmax(fabs(low), fabs(high));
	}
	return (extent){
		hypot(corner[0], corner[1]), corner[2], fabs(grid->step[0]), grid->n[2] == 1};
}

extent extent_of_phantom(const tomos_phantom *phantom)
{
	int64_t count;
	const tomos_ellipsoid *list = tomos_phantom_list(phantom, &count);
	extent object = {0, 0, 0, false};
	for (int64_t i = 0; i < count; i++) {
		const tomos_ellipsoid *e = &list[i];
		double longest = 0;
		for (int k = 0; k < 3; k++)
			longest = fmax(longest, isinf(e->axes[k]) ? 0 : e->axes[k]);
		object.flat |= isinf(e->axes[2]);
		object.radius = fmax(object.radius, hypot(e->centre[0], e->centre[1]) + longest);
		object.height = fmax(object.height, fabs(e->centre[2]) + longest);
	}
	return object;
}

static bool is_point_source(const tomos_scan_options *o)
{
	return strcmp(o->geometry, "fan") == 0 || strcmp(o->geometry, "cone") == 0 ||
	       strcmp(o->geometry, "helix") == 0;
}

/* Half width and height of the projected object on the detector. */
static void shadow(const tomos_scan_options *o, const extent *object, double half[2])
{
	bool point = is_point_source(o);
	bool rotated =
		strcmp(o->geometry, "laminography") == 0 || strcmp(o->geometry, "lebedev") == 0;
	double axis = o->source_axis_count ? o->source_axis[0] : 0;
	double detector = o->source_detector_count ? o->source_detector[0] : 0;
	half[0] = object->radius;
	half[1] = object->flat ? 0 : object->height;
	if (rotated && !object->flat)
		half[0] = half[1] = hypot(object->radius, object->height);
	if (point && axis > object->radius && detector > 0) {
		half[0] *= detector / sqrt(axis * axis - object->radius * object->radius);
		half[1] *= detector / (axis - object->radius);
	}
}

static double magnification(const tomos_scan_options *o)
{
	bool parallel =
		!o->source_axis_count || !o->source_detector_count || o->source_axis[0] <= 0;
	return parallel ? 1 : o->source_detector[0] / o->source_axis[0];
}

static int pixels(const char *name, double half, double pixel, int64_t *count)
{
	double wanted = ceil(2 * half / pixel * (1 - 1e-12));
	if (!(wanted <= MOST_PIXELS))
		return failed("the whole object would need %.3g %s of %g; set --%s and --pixel",
			wanted, name, pixel, name);
	*count = wanted < 1 ? 1 : (int64_t)wanted;
	return DONE;
}

/* No detector covers an object that contains the source. */
static int check_outside(const settings *s, const extent *object)
{
	const tomos_scan_options *o = &s->scan;
	double axis = o->source_axis_count ? o->source_axis[0] : 0;
	bool chosen =
		settings_given(s, GROUP_scan, "pixel") && settings_given(s, GROUP_scan, "columns");
	if (chosen || !is_point_source(o) || !(axis > 0) || axis > object->radius)
		return DONE;
	return failed(
		"the source, %g from the axis, is inside the object, which reaches %g from "
		"it: no detector shows all of it; set --source-axis, or --columns and --pixel",
		axis, object->radius);
}

int lengths_check(const settings *s, const char *path, const char *unit)
{
	static const int groups[] = {GROUP_grid, GROUP_scan};
	char option[64];
	if (unit && strcmp(unit, "mm") == 0)
		return DONE;
	for (int i = 0; i < COUNT(groups); i++)
		for (int k = 0; s->units[groups[i]] >> k; k++) {
			if (!(s->units[groups[i]] >> k & 1))
				continue;
			name_shown(group_get(groups[i]).rows[k].name, option);
			if (!unit)
				return failed("--%s is a length with a unit, but '%s' does not say "
					      "the size of its pixels; give --pixel, or a number "
					      "of pixels",
					option, path);
			return failed("--%s is a length with a unit, but the lengths of '%s' are "
				      "in %s%s; give a number without a unit",
				option, path, unit[0] ? "the unit " : "no known unit", unit);
		}
	return DONE;
}

int scan_make(const settings *s, const extent *object, tomos_geometry **scan)
{
	tomos_scan_options o = s->scan;
	bool rows_given = settings_given(s, GROUP_scan, "rows");
	bool sized = settings_given(s, GROUP_scan, "pixel");
	double half[2];
	int code;
	if (o.views == 0 && o.angles_count == 0 && strcmp(o.geometry, "lebedev") != 0)
		DO(wrong_usage("say how many views: --views N, or --angles"));
	DO(check_outside(s, object));
	shadow(&o, object, half);
	if (!sized) {
		if (object->step == 0 && o.columns <= 0)
			o.columns = COLUMNS;
		/* The outermost columns of a phantom's projections are air, as of a good scan. */
		double across = (double)(o.columns > 8 ? o.columns - 2 : o.columns);
		o.pixel =
			object->step == 0 ? 2 * half[0] / across : object->step * magnification(&o);
	}
	double height = o.pixel_height > 0 ? o.pixel_height : o.pixel;
	if (!settings_given(s, GROUP_scan, "columns") && o.pixel > 0 && (sized || object->step > 0))
		DO(pixels("columns", half[0], o.pixel, &o.columns));
	if (!rows_given && strcmp(o.geometry, "fan") != 0 && height > 0)
		DO(pixels("rows", half[1], height, &o.rows));
	DO(lib(tomos_geometry_make(scan, &o)));
done:
	return code;
}

void views_of_rows(const tomos_geometry *g, int64_t row, int64_t rows, tomos_view *views)
{
	double shift = (double)row + 0.5 * (double)(rows - tomos_geometry_rows(g));
	int64_t count = tomos_geometry_count(g);
	memcpy(views, tomos_geometry_list(g), (size_t)count * sizeof *views);
	for (tomos_view *view = views; view < views + count; view++) {
		for (int a = 0; a < 3; a++)
			view->det[a] += shift * view->v[a];
		if (view->src[3] != TOMOS_POINT)
			view->det[2] = 0;
		if (view->src[3] == TOMOS_FAN_PER_ROW)
			view->src[2] = 0;
	}
}

bool scan_point_source(const tomos_geometry *scan)
{
	return tomos_geometry_list(scan)[0].src[3] != 0;
}

/* Where the origin projects to, by Cramer's rule: det + a u + b v lies on the ray through it. */
double axis_column(const tomos_geometry *g)
{
	const tomos_view *w = &tomos_geometry_list(g)[0];
	const double *d = w->det, *u = w->u, *v = w->v, *s = w->src;
	double middle = 0.5 * (double)(tomos_geometry_columns(g) - 1);
	/* v x s, for the triple products (d, v, s) and (u, v, s) */
	const double c[3] = {
		v[1] * s[2] - v[2] * s[1], v[2] * s[0] - v[0] * s[2], v[0] * s[1] - v[1] * s[0]};
	double above = d[0] * c[0] + d[1] * c[1] + d[2] * c[2];
	double below = u[0] * c[0] + u[1] * c[1] + u[2] * c[2];
	double column = middle - above / below;
	return isfinite(column) ? column : middle;
}

double source_detector(const tomos_view *v)
{
	const double *a = v->u, *b = v->v;
	const double normal[3] = {
		a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
	double way = 0;
	for (int i = 0; i < 3; i++)
		way += (v->det[i] - v->src[i]) * normal[i];
	return fabs(way) /
	       sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
}
