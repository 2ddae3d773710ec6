/* Slabs of a run: which rows they need, how much memory, and how thick they are.
 *
 * Where the rays of each view stay inside slices, a slice needs one row, and slabs are computed in units
 * of rows, in which their places are whole numbers, and in pairs of rows, which the filter takes as one:
 * every slice then comes out the same to the bit, whatever slab it is in.
 */
#include <math.h>
#include "run/run_parts.h"

enum {
	PROGRAM_BYTES = 12 << 20,
	WORK_BYTES = 84 << 20, /* the most that a method keeps for itself, views by views */
	WORK_COPIES = 8,       /* rows filtered and rows laid out, four columns for each at most */
};

bool run_stacked(const tomos_geometry *g, const tomos_grid *grid, int64_t *first)
{
	const RayClass rays = rays_summary(g, grid);
	*first = rays.all.row;
	return rays.same_rows && rays.source != TOMOS_POINT && rays.all.axis == 2 &&
	       rays.all.sign > 0 && *first >= 0 && *first + grid->n[2] <= g->rows;
}

/* Where rows are level, a slab needs no others than its rays meet. */
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
	if (r->stacked) {
		int64_t first = slab->first + r->first_row, end = first + slab->count;
		slab->row = first / 2 * 2;
		slab->before = first - slab->row;
		slab->padded = (end + 1) / 2 * 2 - slab->row;
		slab->rows = min64(g->rows, slab->row + slab->padded) - slab->row;
	} else if (slab->count == r->grid.n[2] || !is_upright(g)) {
		slab->row = 0;
		slab->rows = g->rows;
	} else {
		window_rows(r, g, slab);
	}
}

/* What does not depend on the slabs. */
static double fixed_bytes(const FileRun *r)
{
	double nx = (double)r->grid.n[0], ny = (double)r->grid.n[1], nz = (double)r->slices;
	double planes = r->options.preview ? nx * ny + nx * nz + ny * nz : 0;
	return PROGRAM_BYTES + 2 * sizeof(float) * planes;
}

/* What a slab of that many slices takes, all buffers and the work of the method included. */
static double slab_bytes(const FileRun *r, int64_t count)
{
	const tomos_prepared *p = r->prepared;
	const tomos_geometry *g = p->geometry;
	int64_t before = (r->slices - count) / 4 * 2; /* slabs begin with a pair of rows */
	Slab slab = {.first = r->first_slice + before, .count = count};
	slab_rows(r, &slab);
	RawRows needs = prepared_needs(p, slab.row, slab.rows);
	double raw = (double)needs.rows * (double)raw_row_bytes(p);
	double row = (double)g->count * (double)g->columns * sizeof(float);
	double slice = (double)r->grid.n[0] * (double)r->grid.n[1] * sizeof(float);
	double binned = p->bin > 1 ? row * (double)needs.prepared_rows : 0;
	double rows = row * (double)max64(slab.rows, slab.padded);
	return 2 * raw + binned + rows + fmin(WORK_COPIES * rows, WORK_BYTES) +
	       2 * slice * (double)slab.padded;
}

/* As thick as memory allows, but several, so that the stages have something to do beside each other. */
static tomos_status choose_thickness(FileRun *r, int64_t *thick)
{
	double left = r->memory - fixed_bytes(r);
	int64_t low = 1, high = r->slices;
	if (slab_bytes(r, 1) > left)
		return fail(TOMOS_NO_MEMORY,
			"%.4g MiB of memory are too few: one slice alone needs %.4g MiB%s",
			r->memory / (1 << 20), (slab_bytes(r, 1) + fixed_bytes(r)) / (1 << 20),
			r->prepared->reach.all_rows
				? ", as phase retrieval looks at all rows at once"
				: "");
	while (low < high) { /* the thickest that fits */
		int64_t middle = low + (high - low + 1) / 2;
		if (slab_bytes(r, middle) <= left)
			low = middle;
		else
			high = middle - 1;
	}
	/* All rows in every slab: the fewer, the better. */
	bool again = r->prepared->reach.all_rows || (!r->stacked && low == r->slices);
	*thick = again ? low : min64(low, max64(THICK, (r->slices + SLABS - 1) / SLABS));
	return TOMOS_OK;
}

tomos_status run_plan(FileRun *r)
{
	int64_t thick = 1;
	TRY(choose_thickness(r, &thick));
	r->slab_count = (r->slices + thick - 1) / thick;
	r->thickest = (r->slices + r->slab_count - 1) / r->slab_count;
	if (r->stacked && r->thickest < r->slices) /* of whole pairs, as far as memory allows */
		r->thickest = min64((r->thickest + 1) / 2 * 2, max64(2, thick / 2 * 2));
	r->slab_count = (r->slices + r->thickest - 1) / r->thickest;
	r->planned = slab_bytes(r, r->thickest) + fixed_bytes(r);
	TRY(mem_zeroed(&r->slabs, r->slab_count, sizeof *r->slabs, "the slabs"));
	for (int64_t i = 0; i < r->slab_count; i++) {
		Slab *slab = &r->slabs[i];
		slab->first = r->first_slice + i * r->thickest;
		slab->count = min64(r->thickest, r->first_slice + r->slices - slab->first);
		slab_rows(r, slab);
		r->most_slices = max64(r->most_slices, slab->padded);
		RawRows needs = prepared_needs(r->prepared, slab->row, slab->rows);
		r->most_rows = max64(r->most_rows, needs.rows);
	}
	return TOMOS_OK;
}
