/* The detector rows that a slab of slices needs.
 *
 * If the rays are in slices, a slice needs one detector row. Slabs then consist of whole rows, and
 * of pairs of rows, since the filter transforms two rows at once. So every slice has the same bits
 * whatever the slab it belongs to.
 */
#include "run/run_parts.h"

bool run_stacked(const tomos_geometry *g, const tomos_grid *grid, int64_t *first)
{
	const RayClass rays = rays_summary(g, grid);
	*first = rays.all.row;
	return rays.same_rows && rays.source != TOMOS_POINT && rays.all.axis == 2 &&
	       rays.all.sign > 0 && *first >= 0 && *first + grid->n[2] <= g->rows;
}

/* Whether detector columns are parallel to z: a slab then needs only the rows that its rays
 * reach. */
static bool is_upright(const tomos_geometry *g)
{
	for (int64_t i = 0; i < g->count; i++)
		if (!view_is_upright(g, &g->views[i]))
			return false;
	return true;
}

static void window_rows(const FileRun *r, const tomos_geometry *g, Slab *slab)
{
	const Box box = {
		{0, 0, slab->first}, {r->grid.n[0], r->grid.n[1], slab->first + slab->count}};
	int64_t low = g->rows, high = 0;
	for (int64_t i = 0; i < g->count; i++) {
		Window w = geom_window(g, i, &r->grid, &box, 2);
		low = min64(low, w.low[1]);
		high = max64(high, w.high[1]);
	}
	slab->row = low < high ? low : 0;
	slab->rows = low < high ? high - low : 1;
}

void slab_rows(const FileRun *r, Slab *slab)
{
	const tomos_geometry *g = r->prepared->geometry;
	slab->before = 0;
	slab->padded = slab->count;
	bool all = r->rows_once || slab->count == r->grid.n[2] || r->metal;
	if (r->together && !r->stacked) {
		RowBand band;
		(void)ranked_rows(&r->bands, slab_number(&r->group), &band);
		slab->row = band.low;
		slab->rows = band.high - band.low;
	} else if (r->iterates) {
		slab->row = r->stacked ? slab->first + r->first_row : 0;
		slab->rows = r->stacked ? slab->count : g->rows;
	} else if (r->stacked && !r->rows_once) {
		int64_t first = slab->first + r->first_row, end = first + slab->count;
		slab->row = first / 2 * 2;
		slab->before = first - slab->row;
		slab->padded = (end + 1) / 2 * 2 - slab->row;
		slab->rows = min64(g->rows, slab->row + slab->padded) - slab->row;
	} else if (all || !is_upright(g)) {
		slab->row = 0;
		slab->rows = g->rows;
	} else {
		window_rows(r, g, slab);
	}
}
