/* Which pixels of a view a box of voxels can reach. */
#include "geom/parts.h"

static double form_at(const double f[4], const double at[3])
{
	return dot3(f, at) + f[3];
}

bool geom_project_point(const GridView *k, const double at[3], double pixel[2])
{
	double depth = form_at(k->depth, at);
	if (depth < 1e-6)
		return false;
	pixel[0] = form_at(k->column, at) / depth;
	pixel[1] = form_at(k->row, at) / (k->src[3] == TOMOS_FAN_PER_ROW ? 1 : depth);
	return true;
}

static void corner_of(const Box *box, double margin, int which, double corner[3])
{
	for (int i = 0; i < 3; i++)
		corner[i] = which >> i & 1 ? (double)box->high[i] - 0.5 + margin
					   : (double)box->low[i] - 0.5 - margin;
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
	const GridView k = grid_view(scan, view, grid);
	double low[2] = {HUGE_VAL, HUGE_VAL}, high[2] = {-HUGE_VAL, -HUGE_VAL};
	for (int i = 0; i < 3; i++)
		if (box->low[i] >= box->high[i])
			return (Window){{0, 0}, {0, 0}};
	for (int which = 0; which < 8; which++) {
		double corner[3], pixel[2];
		corner_of(box, margin, which, corner);
		if (!geom_project_point(&k, corner, pixel))
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
