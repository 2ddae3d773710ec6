/* Which pixels of a view a box of voxels can reach. */
#include "geom/parts.h"

/* A view made ready to project points: column and row are linear forms of the point where a ray
 * meets the detector's plane. */
typedef struct {
	const tomos_view *view;
	double normal[3];         /* u x v */
	double column[3], row[3]; /* dual to u and v */
	double reach;             /* of the normal: detector minus source, or the ray */
	double middle_column, middle_row;
} Plane;

static Plane plane_of(const tomos_geometry *scan, int64_t index)
{
	const tomos_view *w = &scan->views[index];
	Plane p = {.view = w,
		.middle_column = 0.5 * (double)(scan->columns - 1),
		.middle_row = 0.5 * (double)(scan->rows - 1)};
	double way[3], square;
	cross3(p.normal, w->u, w->v);
	square = dot3(p.normal, p.normal);
	cross3(p.column, w->v, p.normal);
	cross3(p.row, p.normal, w->u);
	for (int i = 0; i < 3; i++) {
		p.column[i] /= square;
		p.row[i] /= square;
	}
	add3(way, w->det, -1, w->src);
	p.reach = dot3(w->src[3] != 0 ? way : w->src, p.normal);
	if (view_fans(w)) { /* planes of fans follow each other by v */
		cross3(p.row, way, w->u);
		square = dot3(p.row, w->v);
		for (int i = 0; i < 3; i++)
			p.row[i] /= square;
	}
	return p;
}

/* Column and row of the shadow of a point; false where it is not safely on the detector's side of
 * the source. */
static bool project_point(const Plane *p, const double point[3], double pixel[2])
{
	const tomos_view *w = p->view;
	double from[3], hit[3], way[3];
	if (w->src[3] != 0) {
		add3(from, point, -1, w->src);
		double share = dot3(from, p->normal) / p->reach;
		if (share < 1e-6)
			return false;
		add3(hit, w->src, 1 / share, from);
		add3(hit, hit, -1, w->det);
	} else {
		add3(from, point, -1, w->det);
		add3(hit, from, -dot3(from, p->normal) / p->reach, w->src);
	}
	pixel[0] = dot3(hit, p->column) + p->middle_column;
	add3(way, point, -1, w->det);
	pixel[1] = dot3(view_fans(w) ? way : hit, p->row) + p->middle_row;
	return true;
}

static void corner_of(
	const tomos_grid *grid, const Box *box, double margin, int which, double corner[3])
{
	for (int i = 0; i < 3; i++) {
		double index = which >> i & 1 ? (double)box->high[i] - 0.5 + margin
					      : (double)box->low[i] - 0.5 - margin;
		corner[i] = grid->first[i] + index * grid->step[i];
	}
}

/* Pixels whose centre is less than one pixel from [low, high]: those that linear interpolation on
 * the detector reads or writes. */
static void cut(double low, double high, int64_t size, int64_t *first, int64_t *end)
{
	double slack = 1e-6 + 1e-12 * (fabs(low) + fabs(high));
	double a = floor(low - slack), b = floor(high + slack) + 2, n = (double)size;
	*first = a < 0 ? 0 : a > n ? size : (int64_t)a;
	*end = b > n ? size : b < (double)*first ? *first : (int64_t)b;
}

Window geom_window(const tomos_geometry *scan, int64_t view, const tomos_grid *grid, const Box *box,
	double margin)
{
	Window all = {{0, 0}, {scan->columns, scan->rows}}, window;
	Plane plane = plane_of(scan, view);
	double low[2] = {HUGE_VAL, HUGE_VAL}, high[2] = {-HUGE_VAL, -HUGE_VAL};
	for (int i = 0; i < 3; i++)
		if (box->low[i] >= box->high[i])
			return (Window){{0, 0}, {0, 0}};
	for (int which = 0; which < 8; which++) {
		double corner[3], pixel[2];
		corner_of(grid, box, margin, which, corner);
		if (!project_point(&plane, corner, pixel))
			return all;
		for (int i = 0; i < 2; i++) {
			low[i] = fmin(low[i], pixel[i]);
			high[i] = fmax(high[i], pixel[i]);
		}
	}
	for (int i = 0; i < 2; i++)
		cut(low[i], high[i], all.high[i], &window.low[i], &window.high[i]);
	return window;
}
