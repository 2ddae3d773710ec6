/* Projections ready for a reconstruction: which rows of a scan they need, and their preparation. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "run/run.h"

#define MOST_AT_EDGE 0.03 /* of the largest value, where columns are left out */

enum { AXIS_ROWS = 4 }; /* around the middle, in which the axis is looked for */

tomos_status job_say(const tomos_job *job, const char *format, ...)
{
	char line[512];
	va_list list;
	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	if (job->say)
		job->say(job->user, line);
	return TOMOS_OK;
}

/* The digits up to `end`; none leave the value. */
static bool take_index(const char *text, const char *end, int64_t *value)
{
	for (int64_t number = 0; text < end; text++) {
		if (*text < '0' || *text > '9' || !size_mul(number, 10, &number) ||
			!size_add(number, *text - '0', &number))
			return false;
		*value = number;
	}
	return true;
}

tomos_status range_parse(
	const char *name, const char *text, int64_t count, int64_t *first, int64_t *end)
{
	*first = 0;
	*end = count;
	if (!text || !text[0])
		return TOMOS_OK;
	const char *colon = strchr(text, ':');
	if (colon && take_index(text, colon, first) &&
		take_index(colon + 1, text + strlen(text), end) && *first < *end && *end <= count)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE, "%s '%s': it must be FIRST:END with 0 <= FIRST < END <= %lld",
		name, text, (long long)count);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Margins are whole prepared rows, so that binning meets the same rows whatever the slab. */
RawRows prepared_needs(const tomos_prepared *p, int64_t row, int64_t rows)
{
	int64_t bin = p->bin, margin = (p->reach.rows + bin - 1) / bin;
	int64_t all = p->info.rows / bin;
	int64_t low = p->reach.all_rows ? 0 : max64(0, row - margin);
	int64_t high = p->reach.all_rows ? all : min64(all, row + rows + margin);
	RawRows needs = {low * bin, (high - low) * bin, row - low, high - low};
	if (high == all) /* rows left over by binning may still be in the reach of a step */
		needs.rows = p->info.rows - needs.row;
	return needs;
}

int64_t raw_row_bytes(const tomos_prepared *p)
{
	int64_t frames = p->info.views + p->info.flats + p->info.darks;
	return frames * p->info.columns * (int64_t)sizeof(float);
}

static tomos_status set_alloc(float **data, int64_t frames, int64_t rows, int64_t columns)
{
	int64_t count;
	*data = NULL;
	if (frames == 0)
		return TOMOS_OK;
	TRY(shape_count((int64_t[]){frames, rows, columns}, &count));
	return mem_alloc(data, count, sizeof **data, "rows of a scan");
}

tomos_status raw_alloc(RawSlab *slab, const tomos_prepared *p, int64_t rows)
{
	tomos_status status;
	*slab = (RawSlab){.views = NULL};
	TRY_OR_DONE(set_alloc(&slab->views, p->info.views, rows, p->info.columns));
	TRY_OR_DONE(set_alloc(&slab->flats, p->info.flats, rows, p->info.columns));
	TRY_OR_DONE(set_alloc(&slab->darks, p->info.darks, rows, p->info.columns));
done:
	if (status != TOMOS_OK)
		raw_free(slab);
	return status;
}

void raw_free(RawSlab *slab)
{
	mem_free(slab->views);
	mem_free(slab->flats);
	mem_free(slab->darks);
	*slab = (RawSlab){.views = NULL};
}

tomos_status raw_read(RawSlab *slab, tomos_prepared *p, const RawRows *rows)
{
	slab->rows = *rows;
	TRY(tomos_scan_read(
		p->scan, TOMOS_VIEWS, 0, p->info.views, rows->row, rows->rows, slab->views));
	if (p->info.flats)
		TRY(tomos_scan_read(p->scan, TOMOS_FLATS, 0, p->info.flats, rows->row, rows->rows,
			slab->flats));
	if (p->info.darks)
		TRY(tomos_scan_read(p->scan, TOMOS_DARKS, 0, p->info.darks, rows->row, rows->rows,
			slab->darks));
	return TOMOS_OK;
}

/* The columns in use of frames that have all of them. */
static tomos_array cropped(const tomos_prepared *p, float *data, int64_t frames, int64_t rows)
{
	tomos_array array = tomos_array_of(data, frames, rows, p->info.columns);
	array.data = data ? data + p->first_column : NULL;
	array.shape[2] = p->columns;
	return array;
}

static void copy_rows(const tomos_array *from, int64_t before, int64_t rows, float *data)
{
	int64_t columns = from->shape[2];
	for (int64_t v = 0; v < from->shape[0]; v++)
		for (int64_t r = 0; r < rows; r++)
			memcpy(data + (v * rows + r) * columns,
				from->data + v * from->stride[0] + (before + r) * from->stride[1],
				(size_t)columns * sizeof *data);
}

/* Prepared in place where the shape stays, else into an array of its own; then cut to size. */
static tomos_status prepare_into(RawSlab *slab, const tomos_prepared *p, const tomos_fields *fields,
	int64_t rows, float *data, tomos_prep_report *report, const tomos_progress *progress)
{
	tomos_array views = cropped(p, slab->views, p->info.views, slab->rows.rows), made = views;
	float *room = NULL;
	int64_t shape[3], count;
	TRY(tomos_prep_shape(&p->prep, views.shape, shape));
	if (memcmp(shape, views.shape, sizeof shape) != 0) {
		TRY(shape_count(shape, &count));
		TRY(mem_alloc(&room, count, sizeof *room, "prepared rows"));
		made = tomos_array_of(room, shape[0], shape[1], shape[2]);
	}
	tomos_status status = tomos_prepare(&views, fields, &p->prep, &made, report, progress);
	if (status == TOMOS_OK)
		copy_rows(&made, slab->rows.before, rows, data);
	mem_free(room);
	return status;
}

int64_t raw_values(const RawSlab *slab, const tomos_prepared *p)
{
	return p->info.views * slab->rows.rows * p->columns;
}

tomos_status prepared_usable(
	const tomos_prepared *p, const tomos_prep_report *report, int64_t values)
{
	if (values == 0 || report->mended < values)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s': none of %lld values is finite and has light, a flat above the dark",
		p->scan->path, (long long)values);
}

tomos_status raw_prepare(RawSlab *slab, const tomos_prepared *p, int64_t rows, float *data,
	tomos_prep_report *report, const tomos_progress *progress)
{
	tomos_array flats = cropped(p, slab->flats, p->info.flats, slab->rows.rows);
	tomos_array darks = cropped(p, slab->darks, p->info.darks, slab->rows.rows);
	const tomos_fields fields = {.flats = &flats,
		.darks = p->info.darks ? &darks : NULL,
		.flat_views = p->flat_places};
	return prepare_into(slab, p, p->info.flats ? &fields : NULL, rows, data, report, progress);
}

/* ---- the axis ----------------------------------------------------------------------------- */

static tomos_status prepared_angles(const tomos_prepared *p, double **angles)
{
	const tomos_geometry *g = p->geometry;
	TRY(mem_alloc(angles, g->count, sizeof **angles, "angles"));
	for (int64_t i = 0; i < g->count; i++)
		(*angles)[i] = atan2(g->views[i].u[1], g->views[i].u[0]);
	return TOMOS_OK;
}

/* Columns of the scan are given, as everywhere; the search is in those that preparation leaves. */
static tomos_status take_axis(
	const tomos_prepared *p, const tomos_job *job, tomos_axis_options *o, double range[2])
{
	*o = tomos_axis_defaults();
	TRY(options_take(o, job->axis, "axis"));
	for (int i = 0; i < 2 && o->axis_range_count == 2; i++)
		range[i] =
			(o->axis_range[i] - (double)p->first_column + 0.5) / (double)p->bin - 0.5;
	if (o->axis_range_count == 2)
		o->axis_range = range;
	return TOMOS_OK;
}

/* From a few rows around the middle; the answer is a column after preparation. */
static tomos_status find_axis(
	tomos_prepared *p, const tomos_job *job, double *column, const tomos_progress *progress)
{
	int64_t all = p->geometry->rows, rows = min64(AXIS_ROWS, all), row = (all - rows) / 2;
	int64_t shape[3] = {p->geometry->count, rows, p->geometry->columns};
	double *angles = NULL;
	float *data = NULL;
	char error[40] = "";
	tomos_axis axis;
	tomos_axis_options o;
	double range[2];
	tomos_status status;
	TRY_OR_DONE(take_axis(p, job, &o, range));
	TRY_OR_DONE(mem_alloc(
		&data, shape[0] * rows * shape[2], sizeof *data, "rows to find the axis in"));
	TRY_OR_DONE(prepared_angles(p, &angles));
	TRY_OR_DONE(tomos_prepared_read(p, row, rows, data, NULL, progress));
	tomos_array array = tomos_array_of(data, shape[0], rows, shape[2]);
	TRY_OR_DONE(tomos_axis_find(&axis, NULL, &array, angles, &o, progress));
	*column = axis.column;
	if (!isnan(axis.error))
		snprintf(error, sizeof error, "standard error %.2g, ", axis.error * (double)p->bin);
	TRY_OR_DONE(mem_printf(&p->note,
		"axis      column %.2f, found in rows %lld to %lld, %sconfidence %.2f%s",
		(axis.column + 0.5) * (double)p->bin - 0.5 + (double)p->first_column,
		(long long)(row * p->bin), (long long)((row + rows) * p->bin - 1), error,
		axis.confidence,
		axis.at_edge ? "; WARNING: it lies at the end of the range searched" : ""));
done:
	mem_free(data);
	mem_free(angles);
	return status;
}

/* The detectors moved along u so that the axis falls on that column. */
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

static bool is_parallel(const tomos_geometry *g)
{
	for (int64_t i = 0; i < g->count; i++)
		if (g->views[i].src[3] != 0 || g->views[i].src[2] != 0)
			return false;
	return true;
}

/* ---- opening ------------------------------------------------------------------------------ */

static tomos_status take_columns(tomos_prepared *p, const char *text)
{
	int64_t end;
	TRY(range_parse("columns", text, p->info.columns, &p->first_column, &end));
	p->columns = end - p->first_column;
	return TOMOS_OK;
}

/* What the file says goes into the options where these are silent. */
static tomos_status take_prep(tomos_prepared *p, const tomos_job *job)
{
	p->prep = tomos_prep_defaults();
	TRY(options_take(&p->prep, job->prep, "prep"));
	tomos_prep_options *o = &p->prep;
	bool phase = strcmp(o->phase, "none") != 0; /* nothing else needs these */
	o->pixel = o->pixel > 0 ? o->pixel : p->info.pixel;
	o->distance = !phase || o->distance > 0 ? o->distance : p->info.distance;
	o->energy = !phase || o->energy > 0 ? o->energy : p->info.energy;
	if (p->info.has_shifts && !o->shift_x && !o->shift_y) {
		int64_t views = p->info.views;
		TRY(mem_alloc(&p->shifts[0], views, sizeof(double), "shifts of views"));
		TRY(mem_alloc(&p->shifts[1], views, sizeof(double), "shifts of views"));
		TRY(tomos_scan_shifts(p->scan, p->shifts[0], p->shifts[1]));
		o->shift_x = p->shifts[0];
		o->shift_y = p->shifts[1];
		o->shift_x_count = o->shift_y_count = views;
	}
	const int64_t shape[3] = {p->info.views, p->info.rows, p->columns};
	int64_t prepared[3];
	TRY(tomos_prep_shape(o, shape, prepared));
	p->bin = prepared[2] < shape[2] ? o->bin : 1; /* the step may be left out */
	return tomos_prep_reach(o, &p->reach);
}

static tomos_status take_places(tomos_prepared *p)
{
	if (!p->info.has_places || p->info.flats == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&p->flat_places, p->info.flats, sizeof(double), "places of flats"));
	return tomos_scan_places(p->scan, TOMOS_FLATS, p->flat_places);
}

static tomos_status check_counts(const tomos_prepared *p)
{
	bool automatic = strcmp(p->prep.quantity, "auto") == 0;
	if (!automatic || !p->info.counts || p->info.flats > 0)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s' has numbers of type %s and no flats: name them with --flats, or say with "
		"--quantity that they are no counts",
		p->scan->path, p->info.type);
}

/* The scan's own geometry, one that is given, or one made of options, for the columns in use. */
static tomos_status raw_geometry(
	const tomos_prepared *p, const tomos_job *job, tomos_geometry **geometry)
{
	const tomos_geometry *views = job->views ? job->views : p->scan->geometry;
	if (!views)
		return tomos_scan_geometry(p->scan, geometry, job->geometry);
	TRY(scan_fits(p->scan, views));
	return tomos_geometry_views(
		geometry, views->rows, views->columns, views->views, views->count);
}

static tomos_status crop_geometry(const tomos_prepared *p, tomos_geometry *g)
{
	double shift = (double)p->first_column + 0.5 * (double)(p->columns - g->columns);
	g->columns = p->columns;
	for (int64_t i = 0; i < g->count; i++)
		view_slide(&g->views[i], shift, 0);
	return TOMOS_OK;
}

static tomos_status take_geometry(
	tomos_prepared *p, const tomos_job *job, const tomos_progress *progress)
{
	tomos_geometry *raw = NULL;
	tomos_status status;
	double column;
	bool said = job->views || p->scan->geometry || (job->geometry && job->geometry->axis);
	TRY_OR_DONE(raw_geometry(p, job, &raw));
	TRY_OR_DONE(crop_geometry(p, raw));
	TRY_OR_DONE(tomos_prep_geometry(&p->geometry, raw, &p->prep));
	if (!said && is_parallel(p->geometry)) {
		TRY_OR_DONE(find_axis(p, job, &column, progress));
		move_axis(p->geometry, column);
	}
done:
	tomos_geometry_free(raw);
	return status;
}

/* How much of the middle row's largest value is left at the edges where columns are left out. */
static double edge_share(const tomos_prepared *p, const float *row)
{
	const tomos_geometry *g = p->geometry;
	double first = 0, last = 0;
	float most = 0;
	for (int64_t i = 0; i < g->count * g->columns; i++)
		if (fabsf(row[i]) > most)
			most = fabsf(row[i]);
	for (int64_t view = 0; view < g->count; view++) {
		first += (double)row[view * g->columns];
		last += (double)row[(view + 1) * g->columns - 1];
	}
	double low = p->first_column > 0 ? first : 0;
	double high = p->first_column + p->columns < p->info.columns ? last : 0;
	return most > 0 ? fmax(low, high) / ((double)most * (double)g->count) : 0;
}

/* A detector that ends inside the object's shadow gives values that are too high, several times. */
static tomos_status say_truncated(tomos_prepared *p, const tomos_job *job, const char *columns,
	const tomos_progress *progress)
{
	const tomos_geometry *g = p->geometry;
	float *row;
	if (p->columns == p->info.columns || !job->say)
		return TOMOS_OK;
	TRY(mem_alloc(&row, g->count * g->columns, sizeof *row, "a row of all views"));
	tomos_status status = tomos_prepared_read(p, g->rows / 2, 1, row, NULL, progress);
	double share = status == TOMOS_OK ? edge_share(p, row) : 0;
	mem_free(row);
	TRY(status);
	if (share < MOST_AT_EDGE)
		return TOMOS_OK;
	return job_say(job,
		"warning: --columns %s cuts the object off: %.0f %% of the largest value is left "
		"at the "
		"edge, so that values will be too high; for a part of the object use all columns "
		"with "
		"--size and --centre, or --padding smooth",
		columns, 100 * share);
}

static bool has_step(const char *steps, const char *name)
{
	size_t length = strlen(name);
	for (const char *at = steps; *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
			return true;
	return false;
}

/* What was asked for, but is seldom meant. */
static tomos_status say_unusual(const tomos_prepared *p, const tomos_job *job)
{
	const char *quantity = p->prep.quantity;
	bool automatic = strcmp(quantity, "auto") == 0;
	bool counts = automatic ? p->info.flats > 0 : strcmp(quantity, "counts") == 0;
	if (!counts && !automatic && p->info.flats > 0)
		TRY(job_say(job, "warning: quantity is %s, so the scan's flats are not used",
			quantity));
	if ((counts || strcmp(quantity, "transmission") == 0) && !has_step(p->prep.steps, "log"))
		return job_say(job,
			"warning: steps have no log: the volume is made of transmissions, not of "
			"line integrals");
	return TOMOS_OK;
}

static tomos_status open_into(
	tomos_prepared *p, const tomos_job *job, const tomos_progress *progress)
{
	tomos_run_options run = tomos_run_defaults();
	TRY(options_take(&run, job->run, "run"));
	TRY(tomos_scan_open(&p->scan, job->scan, job->source));
	TRY(tomos_scan_describe(p->scan, &p->info));
	TRY(take_columns(p, run.columns));
	TRY(take_prep(p, job));
	TRY(take_places(p));
	TRY(check_counts(p));
	TRY(take_geometry(p, job, progress));
	TRY(say_unusual(p, job));
	return say_truncated(p, job, run.columns, progress);
}

tomos_status tomos_prepared_open(
	tomos_prepared **prepared, const tomos_job *job, const tomos_progress *progress)
{
	tomos_prepared *p;
	*prepared = NULL;
	if (!job || job->bytes != sizeof *job)
		return fail(
			TOMOS_BAD_VALUE, "a job must begin with its size, %zu bytes", sizeof *job);
	TRY(mem_zeroed(&p, 1, sizeof *p, "a job's description"));
	tomos_status status = open_into(p, job, progress);
	if (status == TOMOS_OK)
		*prepared = p;
	else
		tomos_prepared_close(p);
	return status;
}

const char *tomos_prepared_note(const tomos_prepared *p)
{
	return p->note;
}

void tomos_prepared_close(tomos_prepared *p)
{
	if (!p)
		return;
	tomos_scan_close(p->scan);
	tomos_geometry_free(p->geometry);
	mem_free(p->shifts[0]);
	mem_free(p->shifts[1]);
	mem_free(p->flat_places);
	mem_free(p->note);
	mem_free(p);
}

const tomos_geometry *tomos_prepared_geometry(const tomos_prepared *p)
{
	return p->geometry;
}

/* Detectors of fewer rows, where these are. */
static void crop_rows(tomos_prepared *p, int64_t first, int64_t count)
{
	tomos_geometry *g = p->geometry;
	double shift = (double)first + 0.5 * (double)(count - g->rows);
	p->first_row += first;
	g->rows = count;
	for (int64_t i = 0; i < g->count; i++)
		view_slide(&g->views[i], 0, shift);
}

tomos_status tomos_prepared_slices(tomos_prepared *p, const char *rows,
	const tomos_grid_options *options, tomos_grid *grid, int64_t *first)
{
	int64_t low, high, row = 0, before = p->first_row;
	TRY(tomos_grid_for(grid, p->geometry, options));
	TRY(range_parse("rows", rows, grid->n[2], &low, &high));
	bool stacked = run_stacked(p->geometry, grid, &row);
	if (!stacked && high - low < grid->n[2])
		return fail(TOMOS_BAD_VALUE,
			"rows '%s': slices are reconstructed alone by an algebraic method only "
			"where each has one detector row of parallel rays or of a fan, of its own "
			"height",
			rows);
	if (high - low < grid->n[2])
		crop_rows(p, row + low, high - low);
	if (first)
		*first = before + low + (stacked ? row : 0);
	grid->first[2] += (double)low * grid->step[2];
	grid->n[2] = high - low;
	return TOMOS_OK;
}

tomos_status tomos_prepared_read(tomos_prepared *p, int64_t row, int64_t rows, float *data,
	tomos_prep_report *report, const tomos_progress *progress)
{
	RawSlab slab;
	tomos_prep_report own = {0};
	report = report ? report : &own;
	int64_t before = report->mended;
	if (row < 0 || rows < 1 || row > p->geometry->rows - rows)
		return fail(TOMOS_BAD_VALUE, "'%s': %lld rows from row %lld, of %lld",
			p->scan->path, (long long)rows, (long long)row,
			(long long)p->geometry->rows);
	RawRows needs = prepared_needs(p, p->first_row + row, rows);
	TRY(raw_alloc(&slab, p, needs.rows));
	tomos_status status = raw_read(&slab, p, &needs);
	if (status == TOMOS_OK)
		status = raw_prepare(&slab, p, rows, data, report, progress);
	if (status == TOMOS_OK) {
		own.mended = report->mended - before;
		status = prepared_usable(p, &own, raw_values(&slab, p));
	}
	raw_free(&slab);
	return status;
}
