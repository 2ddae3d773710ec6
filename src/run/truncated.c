/* What the prepared rows of slabs say about the scan, reported once: objects wider than the
 * detector, flats that are darker than the projections, and columns that do not vary. */
#include <string.h>
#include "backend/backend.h"
#include "prep/constant.h"
#include "run/run_parts.h"

#define MOST_AT_EDGE 0.06 /* of the largest value: less is taken for air */
#define MOST_VIEWS 0.05   /* of the views may have more */
#define MOST_BEYOND 0.005 /* of the columns, that the object may go on */
#define LEAST_MEAN -0.1   /* of line integrals; noise and a beam that changes have means near 0 */

enum { VIEWS = 40, EDGE = 4 }; /* views looked at; most columns that an edge is the mean of */

/* Views in which the object reaches the first column, and the last. */
typedef struct {
	int64_t views, reached[2];
	double most, edge; /* largest value, and largest mean at an edge that counts */
} Edges;

/* Whether the object may reach that side (0: first columns): of an offset detector and a full turn
 * the short side is covered by the opposite views. */
static bool side_counts(const tomos_geometry *g, int side)
{
	double covered, needed, offset = view_axis_offset(&g->views[0]);
	if (tomos_geometry_cover(g, &covered, &needed) != TOMOS_OK || covered < 6)
		return true;
	return !offset_is_meant(offset, g->columns) || (offset < 0) == (side == 1);
}

static double edge_mean(const float *row, int64_t columns, int side, int64_t skipped, int64_t count)
{
	int64_t first = side ? columns - skipped - count : skipped;
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += (double)row[first + i];
	return sum / (double)count;
}

/* The mean of the outermost columns, 0 where the object ends with them: beside the end of a round
 * object, the square of a line integral grows in proportion to the distance from it, so two means
 * say how far the object goes on. */
static double edge_value(const float *row, int64_t columns, int side)
{
	int64_t count = max64(1, min64(EDGE, columns / 64));
	double outer = edge_mean(row, columns, side, 0, count);
	double inner = 2 * count < columns ? edge_mean(row, columns, side, count, count) : outer;
	double squares = inner * inner - outer * outer;
	if (!(outer > 0) || !(inner > outer))
		return outer;
	double beyond = (double)count * (outer * outer / squares - 0.5); /* in columns */
	return beyond > fmax(1, MOST_BEYOND * (double)columns) ? outer : 0;
}

/* rows: one row of each view. */
static Edges find_edges(const tomos_geometry *g, const float *rows, int64_t views)
{
	Edges e = {.views = views};
	const bool counts[2] = {side_counts(g, 0), side_counts(g, 1)};
	for (int64_t i = 0; i < views * g->columns; i++)
		e.most = (double)rows[i] > e.most ? (double)rows[i] : e.most;
	for (int side = 0; side < 2; side++)
		for (int64_t i = 0; i < views && counts[side]; i++) {
			double mean = edge_value(rows + i * g->columns, g->columns, side);
			e.reached[side] += mean > MOST_AT_EDGE * e.most;
			e.edge = fmax(e.edge, mean);
		}
	return e;
}

static tomos_status say(const FileRun *r, const Edges *e)
{
	double share = 100 * e->edge / e->most;
	if (r->prepared->columns < r->prepared->info.columns)
		return job_warn(r->job,
			"the option 'columns' %s cuts the object off: up to %.0f %% of "
			"the "
			"largest value is left at the edge, so that values will be too high; for a "
			"part of the object use all columns with the option 'size' and the option "
			"'centre'%s",
			r->options.columns, share,
			r->iterates ? "" : ", or the option 'padding' ellipse");
	return job_warn(r->job,
		"the object is wider than the detector: up to %.0f %% of the largest "
		"value "
		"is left at the edge, so that values will be too high, most of all towards the "
		"rim; "
		"the option 'padding' ellipse continues the rows to the end of the object",
		share);
}

/* Filtered back projection without continued rows, or columns that were left out by an option. */
static tomos_status wanted(const FileRun *r, bool *yes)
{
	tomos_analytic_options analytic = tomos_analytic_defaults();
	TRY(options_take(&analytic, r->job->analytic, "analytic"));
	bool zero = strcmp(analytic.padding, "zero") == 0 && strcmp(analytic.filter, "none") != 0;
	bool cut = r->prepared->columns < r->prepared->info.columns;
	*yes = r->job->say && !r->truncated && (r->iterates ? cut : zero);
	return TOMOS_OK;
}

/* The middle row of some views, to host memory. */
static tomos_status take_rows(const FileRun *r, const float *data, int64_t lines, int64_t line,
	int64_t count, float *rows)
{
	const tomos_geometry *g = r->prepared->geometry;
	for (int64_t i = 0; i < count; i++) {
		const float *from = data + ((g->count * i / count) * lines + line) * g->columns;
		float *to = rows + i * g->columns;
		const tomos_array row = tomos_array_of(to, 1, 1, g->columns);
		if (r->resident)
			TRY(r->backend->type->memory->download(r->backend, from, &row));
		else
			memcpy(to, from, (size_t)g->columns * sizeof *to);
	}
	return TOMOS_OK;
}

static tomos_status say_edges(FileRun *r, const float *rows, int64_t count)
{
	Edges e = find_edges(r->prepared->geometry, rows, count);
	double limit = fmax(1, MOST_VIEWS * (double)count);
	r->truncated = (double)max64(e.reached[0], e.reached[1]) > limit;
	return r->truncated ? say(r, &e) : TOMOS_OK;
}

/* Where projections are brighter than the flat field, the flats are not those of the scan. */
static tomos_status say_bright(FileRun *r, const float *rows, int64_t count)
{
	int64_t numbers = count * r->prepared->geometry->columns;
	double sum = 0;
	for (int64_t i = 0; i < numbers; i++)
		sum += (double)rows[i];
	r->compared_flats = true;
	if (!(sum < LEAST_MEAN * (double)numbers))
		return TOMOS_OK;
	return job_warn(r->job,
		"the projections are %.3g times as bright as the flats on average, so "
		"that values will be too low; are the flats those of this scan?",
		exp(-sum / (double)numbers));
}

/* Dead columns, and those behind a frame; ring removal replaces them. */
static tomos_status say_constant(FileRun *r, float *rows, int64_t count)
{
	int64_t columns = r->prepared->geometry->columns;
	const tomos_array array = tomos_array_of(rows, count, 1, columns);
	float *scratch;
	TRY(mem_alloc(&scratch, 2 * columns, sizeof *scratch, "ranges of columns"));
	int64_t found = constant_columns(&array, 0, scratch);
	mem_free(scratch);
	r->compared_columns = true;
	if (found == 0)
		return TOMOS_OK;
	return job_warn(r->job,
		"%lld of %lld columns have the same value in %lld views (dead pixels, or a "
		"frame) and will make rings; the option 'rings' vo replaces them",
		(long long)found, (long long)columns, (long long)count);
}

tomos_status run_say_truncated(FileRun *r, const Slab *slab, const float *data, int64_t lines)
{
	const tomos_geometry *g = r->prepared->geometry;
	int64_t count = min64(VIEWS, g->count);
	float *rows;
	bool yes;
	TRY(wanted(r, &yes));
	bool flats = r->job->say && !r->compared_flats && r->prepared->info.flats > 0 &&
		     prepared_are_counts(r->prepared) && prepared_are_integrals(r->prepared);
	bool constant = r->job->say && !r->compared_columns;
	if (!yes && !flats && !constant)
		return TOMOS_OK;
	TRY(mem_alloc(&rows, count * g->columns, sizeof *rows, "rows of some views"));
	tomos_status status = take_rows(r, data, lines, slab->rows / 2, count, rows);
	if (status == TOMOS_OK && flats)
		status = say_bright(r, rows, count);
	if (status == TOMOS_OK && yes)
		status = say_edges(r, rows, count);
	if (status == TOMOS_OK && constant)
		status = say_constant(r, rows, count);
	mem_free(rows);
	return status;
}

/* ---- angles -------------------------------------------------------------------------------- */

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

/* Views that are all the same determine no depth. Filtered back projection of a limited angular
 * range has artefacts and values that are too low. */
tomos_status run_say_angles(const FileRun *r)
{
	double covered, needed, degrees = 180 / 3.14159265358979323846;
	const tomos_geometry *g = r->whole->geometry;
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
