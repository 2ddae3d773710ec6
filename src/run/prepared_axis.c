/* The rotation axis of prepared projections: searched for in a few rows, and the geometry moved to
 * it. */
#include <stdio.h>
#include <string.h>
#include "run/run.h"

enum { AXIS_ROWS = 4 }; /* rows around the middle that are used to search for the axis */

static bool is_parallel(const tomos_geometry *g)
{
	for (int64_t i = 0; i < g->count; i++)
		if (view_has_source(&g->views[i]) || !view_is_level(g, &g->views[i]))
			return false;
	return true;
}

tomos_status tomos_prepared_angles(const tomos_prepared *p, double *angles)
{
	const tomos_geometry *g = p->geometry;
	if (!is_parallel(g))
		return fail(TOMOS_UNSUPPORTED,
			"'%s' has point sources or tilted rays; the axis is found from parallel "
			"rays only",
			p->scan->path);
	for (int64_t i = 0; i < g->count; i++)
		angles[i] = atan2(g->views[i].u[1], g->views[i].u[0]);
	return TOMOS_OK;
}

/* Columns before and after preparation, which crops and bins. */
static double column_prepared(const tomos_prepared *p, double column)
{
	return (column - (double)p->first_column + 0.5) / (double)p->bin - 0.5;
}

static double column_of_scan(const tomos_prepared *p, double column)
{
	return (column + 0.5) * (double)p->bin - 0.5 + (double)p->first_column;
}

/* Moves the detectors along u so that the axis projects to that column of the prepared data. */
static void move_axis(tomos_geometry *g, double column)
{
	double middle = 0.5 * (double)(g->columns - 1);
	for (int64_t i = 0; i < g->count; i++) {
		tomos_view *view = &g->views[i];
		double length = view->u[0] * view->u[0] + view->u[1] * view->u[1];
		double along = (view->det[0] * view->u[0] + view->det[1] * view->u[1]) / length;
		for (int a = 0; a < 2; a++)
			view->det[a] += (middle - column - along) * view->u[a];
	}
}

static void in_columns_of_scan(const tomos_prepared *p, tomos_axis *axis)
{
	double *const places[] = {
		&axis->column, &axis->low, &axis->high, &axis->pairs, &axis->vo, &axis->sharpness};
	for (int i = 0; i < COUNT(places); i++)
		*places[i] = column_of_scan(p, *places[i]);
	axis->error *= (double)p->bin;
}

static tomos_status search(tomos_prepared *p, tomos_backend *backend, const tomos_array *data,
	tomos_axis *axis, const tomos_progress *progress)
{
	tomos_axis_options o = p->axis;
	double range[2], *angles;
	for (int i = 0; i < 2 && o.axis_range_count == 2; i++)
		range[i] = column_prepared(p, p->axis_range[i]);
	o.axis_range = o.axis_range_count == 2 ? range : NULL;
	TRY(mem_alloc(&angles, p->geometry->count, sizeof *angles, "angles"));
	tomos_status status = tomos_prepared_angles(p, angles);
	if (status == TOMOS_OK)
		status = tomos_axis_find(axis, backend, data, angles, &o, progress);
	mem_free(angles);
	return status;
}

/* Rows for the search, in any order of memory. Where preparation needs all rows of the scan (phase
 * retrieval), each is prepared alone, as if the object were constant along the axis. */
static tomos_status read_rows(tomos_prepared *p, int64_t row, float *data, tomos_array *array,
	const tomos_progress *progress)
{
	int64_t rows = array->shape[1], size = array->shape[0] * array->shape[2];
	if (!p->reach.all_rows)
		return tomos_prepared_read(p, row, rows, data, NULL, progress);
	array->stride[0] = array->shape[2];
	array->stride[1] = size;
	for (int64_t r = 0; r < rows; r++) {
		RawRows needs = {(p->first_row + row + r) * p->bin, p->bin, 0, 1};
		TRY(prepared_read_raw(p, &needs, 1, data + r * size, NULL, progress));
	}
	return TOMOS_OK;
}

tomos_status tomos_prepared_axis(tomos_prepared *p, tomos_backend *backend, int64_t row,
	int64_t rows, tomos_axis *axis, const tomos_progress *progress)
{
	const int64_t shape[3] = {p->geometry->count, rows, p->geometry->columns};
	float *data = NULL;
	int64_t count;
	tomos_status status;
	TRY(shape_count(shape, &count));
	TRY_OR_DONE(mem_alloc(&data, count, sizeof *data, "rows to find the axis in"));
	tomos_array array = tomos_array_of(data, shape[0], rows, shape[2]);
	TRY_OR_DONE(read_rows(p, row, data, &array, progress));
	TRY_OR_DONE(search(p, backend, &array, axis, progress));
	move_axis(p->geometry, axis->column);
	in_columns_of_scan(p, axis);
done:
	mem_free(data);
	return status;
}

/* What to do about a result that is not certain, or "". */
static tomos_status advice(const tomos_prepared *p, const tomos_axis *axis, char **text)
{
	const double results[] = {axis->pairs, axis->vo, axis->sharpness};
	static const char *const names[] = {"pairs", "vo", "sharpness"};
	double from, to, step, last = (double)(p->info.columns - 1);
	char list[120] = "";
	if (!tomos_axis_doubt(axis, &from, &to, &step))
		return mem_printf(text, "%s", "");
	for (int i = 0; i < COUNT(results); i++)
		if (!isnan(results[i]))
			snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s %.2f",
				list[0] ? ", " : "", names[i], results[i]);
	return mem_printf(text,
		"; WARNING: %s (%s); compare slices with 'tomos center %s --sweep %g:%g:%g'",
		axis->at_edge ? "it is at the end of the range searched" : "it is uncertain", list,
		p->scan->path, from, fmin(to, last), step);
}

/* Searches for the axis in a few rows around the middle, and reports the result. */
static tomos_status find_axis(tomos_prepared *p, const tomos_progress *progress)
{
	int64_t all = p->geometry->rows, rows = min64(AXIS_ROWS, all), row = (all - rows) / 2;
	char error[40] = "", *warning;
	tomos_axis axis = {.bytes = sizeof axis};
	TRY(tomos_prepared_axis(p, NULL, row, rows, &axis, progress));
	if (!isnan(axis.error))
		snprintf(error, sizeof error, "standard error %.2g, ", axis.error);
	TRY(advice(p, &axis, &warning));
	tomos_status status = mem_printf(&p->note,
		"axis      column %.2f, found in rows %lld to %lld, %sconfidence %.2f%s",
		axis.column, (long long)(row * p->bin), (long long)((row + rows) * p->bin - 1),
		error, axis.confidence, warning);
	mem_free(warning);
	return status;
}

static tomos_status take_options(tomos_prepared *p, const tomos_job *job)
{
	p->axis = tomos_axis_defaults();
	TRY(options_take(&p->axis, job->axis, "axis"));
	if (p->axis.axis_range_count == 2)
		memcpy(p->axis_range, p->axis.axis_range, sizeof p->axis_range);
	return TOMOS_OK;
}

tomos_status prepared_axis_known(
	tomos_prepared *p, const tomos_job *job, const tomos_progress *progress)
{
	bool said = job->views || p->scan->geometry || (job->geometry && job->geometry->axis) ||
		    scan_axis_known(p->scan);
	TRY(take_options(p, job));
	return said || job->axis_later || !is_parallel(p->geometry) ? TOMOS_OK
								    : find_axis(p, progress);
}
