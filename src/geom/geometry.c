/* Scans as lists of views: construction, checks and access. */
#include <math.h>
#include <string.h>
#include "base/vector3.h"
#include "geom/parts.h"

/* Directions closer to parallel than this (sine of the angle) are rejected: rounding errors would
 * dominate. */
#define PARALLEL 1e-9

static tomos_status check_size(int64_t rows, int64_t columns, int64_t count)
{
	int64_t pixels;
	if (rows < 1)
		return fail(TOMOS_BAD_VALUE, "a detector of %lld rows: at least 1 is needed",
			(long long)rows);
	if (columns < 1)
		return fail(TOMOS_BAD_VALUE, "a detector of %lld columns: at least 1 is needed",
			(long long)columns);
	if (count < 1)
		return fail(TOMOS_BAD_VALUE, "a scan of %lld views: at least 1 is needed",
			(long long)count);
	if (!size_mul(rows, columns, &pixels) || !size_mul(pixels, count, &pixels) ||
		pixels > INT64_MAX / 16)
		return fail(TOMOS_BAD_VALUE,
			"a scan of %lld views of %lld rows x %lld columns is too large",
			(long long)count, (long long)rows, (long long)columns);
	return TOMOS_OK;
}

tomos_status geom_new(tomos_geometry **scan, int64_t rows, int64_t columns, int64_t count)
{
	*scan = NULL;
	TRY(check_size(rows, columns, count));
	tomos_geometry *g;
	TRY(mem_zeroed(&g, 1, sizeof *g, "a scan"));
	tomos_status status = mem_alloc(&g->views, count, sizeof *g->views, "the views of a scan");
	if (status != TOMOS_OK) {
		mem_free(g);
		return status;
	}
	g->rows = rows;
	g->columns = columns;
	g->count = count;
	*scan = g;
	return TOMOS_OK;
}

static tomos_status check_numbers(const double *numbers, int count, const char *name, int64_t index)
{
	for (int i = 0; i < count; i++)
		if (!(fabs(numbers[i]) <= LARGEST))
			return fail(TOMOS_BAD_VALUE,
				"view %lld: %s, %c is %g; it must be between %g and %g",
				(long long)index, name, "xyz"[i], numbers[i], -LARGEST, LARGEST);
	return TOMOS_OK;
}

static tomos_status check_length(const double a[3], const char *name, int64_t index)
{
	if (norm3(a) < 1 / LARGEST)
		return fail(TOMOS_BAD_VALUE,
			"view %lld: %s is (%g, %g, %g); its length must not be 0", (long long)index,
			name, a[0], a[1], a[2]);
	return TOMOS_OK;
}

static tomos_status check_source(const tomos_view *view, const double normal[3], int64_t index)
{
	const double *s = view->src;
	if (s[3] == 0) {
		TRY(check_length(s, "the direction of the rays", index));
		if (fabs(dot3(s, normal)) <= PARALLEL * norm3(s) * norm3(normal))
			return fail(TOMOS_BAD_VALUE,
				"view %lld: rays along (%g, %g, %g) run in the detector's plane",
				(long long)index, s[0], s[1], s[2]);
		return TOMOS_OK;
	}
	double way[3];
	add3(way, view->det, -1, s);
	double scale = fmax(norm3(way), fmax(norm3(view->u), norm3(view->v)));
	if (fabs(dot3(way, normal)) <= PARALLEL * scale * norm3(normal))
		return fail(TOMOS_BAD_VALUE,
			"view %lld: the source (%g, %g, %g) lies in the detector's plane",
			(long long)index, s[0], s[1], s[2]);
	return TOMOS_OK;
}

tomos_status view_check(const tomos_view *view, int64_t index)
{
	const double *u = view->u, *v = view->v;
	double normal[3];
	if (view_has_source(view) && view->src[3] != TOMOS_POINT && !view_fans(view))
		return fail(TOMOS_BAD_VALUE,
			"view %lld: the fourth number of its source, src[3], is %g; it must be 1 "
			"(point source), 0 (parallel rays) or 2 (a fan for each row)",
			(long long)index, view->src[3]);
	TRY(check_numbers(view->src, 3,
		view_has_source(view) ? "the source" : "the direction of the rays", index));
	TRY(check_numbers(view->det, 3, "the detector's centre", index));
	TRY(check_numbers(u, 3, "u, one column step", index));
	TRY(check_numbers(v, 3, "v, one row step", index));
	TRY(check_length(u, "u", index));
	TRY(check_length(v, "v", index));
	cross3(normal, u, v);
	if (norm3(normal) <= PARALLEL * norm3(u) * norm3(v))
		return fail(TOMOS_BAD_VALUE,
			"view %lld: u (%g, %g, %g) and v (%g, %g, %g) are parallel",
			(long long)index, u[0], u[1], u[2], v[0], v[1], v[2]);
	return check_source(view, normal, index);
}

tomos_status geom_seal(tomos_geometry **scan)
{
	for (int64_t i = 0; i < (*scan)->count; i++) {
		tomos_status status = view_check(&(*scan)->views[i], i);
		if (status != TOMOS_OK) {
			tomos_geometry_free(*scan);
			*scan = NULL;
			return status;
		}
	}
	return TOMOS_OK;
}

tomos_status tomos_geometry_views(tomos_geometry **scan, int64_t rows, int64_t columns,
	const tomos_view *views, int64_t count)
{
	TRY(geom_new(scan, rows, columns, views ? count : 0));
	memcpy((*scan)->views, views, (size_t)count * sizeof *views);
	return geom_seal(scan);
}

tomos_status tomos_geometry_vectors(tomos_geometry **scan, int64_t rows, int64_t columns,
	int point_source, const double *vectors, int64_t count)
{
	TRY(geom_new(scan, rows, columns, vectors ? count : 0));
	for (int64_t i = 0; i < count; i++) {
		tomos_view *view = &(*scan)->views[i];
		const double *row = vectors + 12 * i;
		memcpy(view->src, row, 3 * sizeof *row);
		memcpy(view->det, row + 3, 3 * sizeof *row);
		memcpy(view->u, row + 6, 3 * sizeof *row);
		memcpy(view->v, row + 9, 3 * sizeof *row);
		view->src[3] = point_source ? TOMOS_POINT : TOMOS_PARALLEL;
	}
	return geom_seal(scan);
}

int tomos_geometry_doubt(const tomos_geometry *scan, double *low, double *high)
{
	*low = HUGE_VAL;
	*high = 0;
	for (int64_t i = 0; scan && i < scan->count; i++) {
		double length = norm3(scan->views[i].src);
		if (scan->views[i].src[3] != TOMOS_PARALLEL)
			return 0;
		*low = fmin(*low, length);
		*high = fmax(*high, length);
	}
	return *high > 2 || (*low < 0.5 && *high > 0);
}

void view_from_plane(tomos_view *view, const double row[6], int source)
{
	*view = (tomos_view){{row[0], row[1], 0, source}, {row[2], row[3], 0}, {row[4], row[5], 0},
		{0, 0, hypot(row[4], row[5])}};
}

tomos_status tomos_geometry_vectors_2d(tomos_geometry **scan, int64_t columns, int point_source,
	const double *vectors, int64_t count)
{
	TRY(geom_new(scan, 1, columns, vectors ? count : 0));
	for (int64_t i = 0; i < count; i++)
		view_from_plane(&(*scan)->views[i], vectors + 6 * i, point_source != 0);
	return geom_seal(scan);
}

_Static_assert(sizeof(tomos_view) == VIEW_NUMBERS * sizeof(double), "a view is its numbers");

tomos_status geom_from_numbers(
	tomos_geometry **scan, int64_t rows, int64_t columns, const double *numbers, int64_t count)
{
	TRY(geom_new(scan, rows, columns, numbers ? count : 0));
	memcpy((*scan)->views, numbers, (size_t)count * sizeof(tomos_view));
	return geom_seal(scan);
}

void geom_to_numbers(const tomos_geometry *scan, double *numbers)
{
	memcpy(numbers, scan->views, (size_t)scan->count * sizeof(tomos_view));
}

void tomos_geometry_free(tomos_geometry *scan)
{
	if (scan)
		mem_free(scan->views);
	mem_free(scan);
}

int64_t tomos_geometry_count(const tomos_geometry *scan)
{
	return scan->count;
}

int64_t tomos_geometry_rows(const tomos_geometry *scan)
{
	return scan->rows;
}

int64_t tomos_geometry_columns(const tomos_geometry *scan)
{
	return scan->columns;
}

const tomos_view *tomos_geometry_list(const tomos_geometry *scan)
{
	return scan->views;
}

void view_slide(tomos_view *view, double columns, double rows)
{
	add3(view->det, view->det, columns, view->u);
	add3(view->det, view->det, rows, view->v);
	if (view_fans(view))
		add3(view->src, view->src, rows, view->v);
}

int64_t geom_source_row(const tomos_geometry *scan)
{
	const tomos_view *view = &scan->views[0];
	double row = 0.5 * (double)(scan->rows - 1);
	if (view_has_source(view) && !view_fans(view) && view->v[2] != 0)
		row += (view->src[2] - view->det[2]) / view->v[2];
	return (int64_t)fmin(fmax(floor(row + 0.5), 0), (double)(scan->rows - 1));
}

void view_pixel(const tomos_geometry *scan, int64_t view, double row, double column,
	double position[3], double direction[3])
{
	const tomos_view *w = &scan->views[view];
	double middle[3];
	add3(middle, w->det, column - 0.5 * (double)(scan->columns - 1), w->u);
	add3(position, middle, row - 0.5 * (double)(scan->rows - 1), w->v);
	if (view_has_source(w))
		add3(direction, view_fans(w) ? middle : position, -1, w->src);
	else
		memcpy(direction, w->src, 3 * sizeof *direction);
}
