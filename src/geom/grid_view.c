/* Views in voxel indices of a grid: rays, and the pixels onto which voxels project. */
#include <string.h>
#include "geom/parts.h"

static void set_rays(GridView *k, const tomos_geometry *scan, int64_t index, const tomos_grid *grid)
{
	const tomos_view *view = &scan->views[index];
	double row = -0.5 * (double)(scan->rows - 1);
	double column = -0.5 * (double)(scan->columns - 1);
	for (int a = 0; a < 3; a++) {
		double first = grid->first[a], step = grid->step[a];
		double corner = view->det[a] + column * view->u[a] + row * view->v[a];
		k->first[a] = (corner - first) / step;
		k->u[a] = view->u[a] / step;
		k->v[a] = view->v[a] / step;
		double source = view_fans(view) ? view->src[a] + row * view->v[a] : view->src[a];
		k->src[a] = (view_has_source(view) ? source - first : source) / step;
	}
	k->src[3] = view->src[3];
}

/* One pixel coordinate of a point x, where n is the normal of the detector and w the vector in its
 * plane that measures this coordinate. The ray from s through x meets the detector at s + (x - s) h
 * / n.(x - s) with h = n.(first - s); a parallel ray along s at x - s n.(x - first) / n.s. */
static void set_coordinate(double f[4], const GridView *k, const double w[3], const double n[3])
{
	if (k->src[3] != TOMOS_PARALLEL) {
		double away[3];
		for (int a = 0; a < 3; a++)
			away[a] = k->src[a] - k->first[a];
		double scale = -1 / dot3(n, away), offset = dot3(w, away);
		for (int a = 0; a < 3; a++)
			f[a] = w[a] + scale * offset * n[a];
		f[3] = -dot3(f, k->src);
	} else {
		double slope = dot3(w, k->src) / dot3(n, k->src);
		for (int a = 0; a < 3; a++)
			f[a] = w[a] - slope * n[a];
		f[3] = -dot3(f, k->first);
	}
}

/* The plane of the first row's fan, and those of the other rows at multiples of v from it. */
static void set_fan_row(double f[4], const GridView *k)
{
	double away[3], m[3];
	for (int a = 0; a < 3; a++)
		away[a] = k->first[a] - k->src[a];
	cross3(m, away, k->u);
	double scale = 1 / dot3(m, k->v);
	for (int a = 0; a < 3; a++)
		f[a] = scale * m[a];
	f[3] = -dot3(f, k->first);
}

static void set_depth(GridView *k, const double n[3])
{
	memset(k->depth, 0, sizeof k->depth);
	k->depth[3] = 1;
	if (k->src[3] == TOMOS_PARALLEL)
		return;
	double away[3] = {
		k->first[0] - k->src[0], k->first[1] - k->src[1], k->first[2] - k->src[2]};
	for (int a = 0; a < 3; a++)
		k->depth[a] = n[a] / dot3(n, away);
	k->depth[3] = -dot3(k->depth, k->src);
}

/* Along a x b, scaled so that the product with c is 1. */
static void set_dual(double w[3], const double a[3], const double b[3], const double c[3])
{
	cross3(w, a, b);
	double scale = 1 / dot3(w, c);
	for (int i = 0; i < 3; i++)
		w[i] *= scale;
}

GridView grid_view(const tomos_geometry *scan, int64_t view, const tomos_grid *grid)
{
	GridView k;
	double n[3], w[3];
	set_rays(&k, scan, view, grid);
	cross3(n, k.u, k.v);
	set_dual(w, k.v, n, k.u);
	set_coordinate(k.column, &k, w, n);
	set_dual(w, n, k.u, k.v);
	if (k.src[3] == TOMOS_FAN_PER_ROW)
		set_fan_row(k.row, &k);
	else
		set_coordinate(k.row, &k, w, n);
	set_depth(&k, n);
	return k;
}
