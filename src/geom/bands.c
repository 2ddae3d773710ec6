/* Detector rows that the slabs of a distributed reconstruction own and reach. */
#include <math.h>
#include "geom/bands.h"
#include "geom/parts.h"

/* Voxels around a slab that the interpolation of kernels may reach. */
#define MARGIN 2

/* The row to which the lower boundary of a slice projects, on the axis of the volume. */
static bool project_edge(const Bands *b, const GridView *view, int64_t slice, double *row)
{
	const tomos_grid *g = b->grid;
	const double at[3] = {
		0.5 * (double)(g->n[0] - 1), 0.5 * (double)(g->n[1] - 1), (double)slice - 0.5};
	double pixel[2];
	bool seen = geom_project_point(view, at, pixel);
	*row = pixel[1] + 0.5;
	return seen && isfinite(*row);
}

/* The row where a slab begins, if rows grow with z. */
static int64_t edge_row(const Bands *b, int64_t view, int slab)
{
	const GridView k = grid_view(b->scan, view, b->grid);
	int64_t rows = b->scan->rows;
	double low = 0, high = 0, row = 0;
	bool seen = project_edge(b, &k, bands_slice(b, 0), &low) &&
		    project_edge(b, &k, bands_slice(b, b->slabs), &high) &&
		    project_edge(b, &k, bands_slice(b, slab), &row);
	/* Where z is hardly seen, or from behind the source, rows are divided evenly. */
	if (!seen || fabs(high - low) < b->slabs)
		return rows * slab / b->slabs;
	row = fmin(fmax(floor(row + 0.5), 0), (double)rows);
	return high > low ? (int64_t)row : rows - (int64_t)row;
}

/* Whether rows grow with decreasing z. */
static bool is_downward(const Bands *b, int64_t view)
{
	const GridView k = grid_view(b->scan, view, b->grid);
	double low, high;
	return project_edge(b, &k, bands_slice(b, 0), &low) &&
	       project_edge(b, &k, bands_slice(b, b->slabs), &high) && high - low <= -b->slabs;
}

RowBand bands_own(const Bands *b, int slab, int64_t view)
{
	int64_t rows = b->scan->rows;
	int64_t low = slab == 0 ? 0 : edge_row(b, view, slab);
	int64_t high = slab + 1 == b->slabs ? rows : edge_row(b, view, slab + 1);
	return is_downward(b, view) ? (RowBand){rows - high, rows - low} : (RowBand){low, high};
}

RowBand bands_reach(const Bands *b, int slab, int64_t view)
{
	const int64_t *n = b->grid->n;
	const Box box = {{0, 0, bands_slice(b, slab)}, {n[0], n[1], bands_slice(b, slab + 1)}};
	const Window w = geom_window(b->scan, view, b->grid, &box, MARGIN);
	return w.low[1] < w.high[1] ? (RowBand){w.low[1], w.high[1]} : (RowBand){0, 0};
}

RowBand band_meet(RowBand a, RowBand b)
{
	int64_t low = max64(a.low, b.low), high = min64(a.high, b.high);
	return low < high ? (RowBand){low, high} : (RowBand){0, 0};
}

int64_t bands_sent(const Bands *b, int slab)
{
	int64_t rows = 0;
	for (int64_t i = 0; i < b->scan->count; i++) {
		RowBand reach = bands_reach(b, slab, i);
		RowBand kept = band_meet(reach, bands_own(b, slab, i));
		rows += reach.high - reach.low - (kept.high - kept.low);
	}
	return rows * b->scan->columns;
}
