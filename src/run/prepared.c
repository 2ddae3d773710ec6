/* Prepared projections for a reconstruction: opened with the settings of the file and the job. */
#include <stdio.h>
#include <string.h>
#include "base/vector3.h"
#include "prep/prep.h"
#include "run/run.h"

/* ---- opening ------------------------------------------------------------------------------ */

static tomos_status take_columns(tomos_prepared *p, const char *text)
{
	int64_t end;
	TRY(range_parse("columns", text, p->info.columns, &p->first_column, &end));
	p->columns = end - p->first_column;
	return TOMOS_OK;
}

/* Options that are not set are taken from the file. */
static tomos_status take_prep(tomos_prepared *p, const tomos_job *job)
{
	p->prep = tomos_prep_defaults();
	TRY(options_take(&p->prep, job->prep, "prep"));
	prepared_auto_begin(p);
	tomos_prep_options *o = &p->prep;
	bool phase = strcmp(o->phase, "none") != 0; /* only phase retrieval needs these */
	o->pixel = o->pixel > 0 ? o->pixel : p->info.pixel;
	o->distance = !phase || o->distance > 0 ? o->distance : p->info.distance;
	o->energy = !phase || o->energy > 0 ? o->energy : p->info.energy;
	if (p->info.has_shifts && !(o->shift_x && o->shift_y)) {
		const double **const lists[2] = {&o->shift_x, &o->shift_y};
		int64_t *const counts[2] = {&o->shift_x_count, &o->shift_y_count};
		for (int k = 0; k < 2; k++)
			TRY(mem_alloc(
				&p->shifts[k], p->info.views, sizeof(double), "shifts of views"));
		TRY(tomos_scan_shifts(p->scan, p->shifts[0], p->shifts[1]));
		for (int k = 0; k < 2; k++) {
			*counts[k] = *lists[k] ? *counts[k] : p->info.views;
			*lists[k] = *lists[k] ? *lists[k] : p->shifts[k];
		}
	}
	TRY(prepared_dark_views(p, job));
	const int64_t shape[3] = {p->info.views, p->info.rows, p->columns};
	int64_t prepared[3];
	TRY(tomos_prep_shape(o, shape, prepared));
	p->bin =
		prepared[2] < shape[2] ? o->bin : 1; /* the list of steps may not contain binning */
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
		"'%s' has numbers of type %s and no flats: name them with the option 'flats', give "
		"the option 'i0', or the option 'quantity' if they are no counts",
		p->scan->path, p->info.type);
}

/* The unit of lengths. Views with pixels of 1 may be in any. */
static void take_unit(tomos_prepared *p, const tomos_job *job, const tomos_geometry *raw)
{
	const char *said = p->scan->sets[TOMOS_VIEWS].file->units.length;
	bool listed = job->views || p->scan->geometry, one = true;
	for (int64_t i = 0; i < raw->count; i++)
		one &= norm3(raw->views[i].u) == 1 && norm3(raw->views[i].v) == 1;
	bool given = p->info.pixel > 0 || (job->geometry && job->geometry->pixel > 0);
	const char *unit = listed ? one ? "" : "mm" : given ? "mm" : "pixel";
	if (p->scan->geometry && !job->views && said[0])
		unit = said;
	snprintf(p->unit, sizeof p->unit, "%s", unit);
}

/* The views of the job, those of the scan file, or a geometry made from options. */
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
	TRY_OR_DONE(raw_geometry(p, job, &raw));
	take_unit(p, job, raw);
	TRY_OR_DONE(crop_geometry(p, raw));
	TRY_OR_DONE(tomos_prep_geometry(&p->geometry, raw, &p->prep));
	TRY_OR_DONE(prepared_axis_known(p, job, progress));
done:
	tomos_geometry_free(raw);
	return status;
}

bool prepared_has_step(const tomos_prepared *p, const char *name)
{
	size_t length = strlen(name);
	for (const char *at = p->prep.steps; *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
			return true;
	return false;
}

bool prepared_are_counts(const tomos_prepared *p)
{
	const char *quantity = p->prep.quantity;
	return strcmp(quantity, "auto") == 0 ? p->info.flats > 0 : strcmp(quantity, "counts") == 0;
}

bool prepared_are_integrals(const tomos_prepared *p)
{
	bool lines = !prepared_are_counts(p) && strcmp(p->prep.quantity, "transmission") != 0;
	return lines || prepared_has_step(p, "log");
}

/* Levels of ring removal by wavelets whose stripes are narrow beside the detector: at four times as
 * many columns as the widest stripe the projections change by 17 % without any rings, at eight by
 * 5 %, at 16 by 2.5 %, at 32 by 1.2 %. */
enum { LEAST_STRIPES = 32 };

static tomos_status say_wide_stripes(const tomos_prepared *p, const tomos_job *job)
{
	int64_t columns = p->columns, levels = p->prep.ring_levels, fewer = 1;
	if (strcmp(p->prep.rings, "wavelet") != 0 || levels < 1 || levels > 62 ||
		columns >> levels >= LEAST_STRIPES)
		return TOMOS_OK;
	while (columns >> (fewer + 1) >= LEAST_STRIPES)
		fewer++;
	return job_warn(job,
		"wavelet removes what is up to %lld columns wide, and of %lld columns "
		"that is also the object: its values change; the option 'ring-levels' %lld "
		"changes them less, and the option 'rings' vo the least",
		(long long)1 << levels, (long long)columns, (long long)fewer);
}

/* Warns about settings that are valid but seldom intended. */
static tomos_status say_unusual(const tomos_prepared *p, const tomos_job *job)
{
	const char *quantity = p->prep.quantity;
	bool automatic = strcmp(quantity, "auto") == 0;
	if (!prepared_are_counts(p) && !automatic && p->info.flats > 0)
		TRY(job_warn(job, "the option 'quantity' is %s, so the scan's flats are not used",
			quantity));
	TRY(say_wide_stripes(p, job));
	if (!prepared_are_integrals(p))
		return job_warn(job, "the option 'steps' has no log: the volume is made of "
				     "transmissions, not of "
				     "line integrals");
	return TOMOS_OK;
}

/* Warns about files missing from a folder: the views after a gap would get wrong angles. */
static tomos_status say_missing(const tomos_prepared *p, const tomos_job *job)
{
	for (int i = TOMOS_VIEWS; i <= TOMOS_DARKS; i++)
		TRY(job_say_gap(job, p->scan->sets[i].file));
	return TOMOS_OK;
}

/* The lines "note      ..." of what was read. */
static tomos_status say_notes(const tomos_prepared *p, const tomos_job *job)
{
	static const char name[] = "note ";
	const char *line = p->scan->setup.read;
	for (; line && *line; line += strcspn(line, "\n"), line += *line != 0)
		if (strncmp(line, name, strlen(name)) == 0) {
			const char *text = line + strlen(name);
			text += strspn(text, " ");
			TRY(job_note(job, "%.*s", (int)strcspn(text, "\n"), text));
		}
	return TOMOS_OK;
}

/* What a scanner's file leaves open. */
static tomos_status say_setup(const tomos_prepared *p, const tomos_job *job)
{
	const ScanSetup *s = &p->scan->setup;
	if (s->white > 0 && p->info.flats == 1)
		TRY(job_say(job, "white     %g counts without an object", s->white));
	TRY(say_notes(p, job));
	if (!s->geometry || job->views || s->direction_known || p->decided || p->by_reverse ||
		job->axis_later)
		return TOMOS_OK;
	return job_note(job,
		"'%s' does not say in which direction the stage rotates; if the volume is "
		"blurred, give the option 'reverse'",
		p->scan->path);
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
	TRY(scan_say_angle_unit(
		p->scan, job)); /* before the search for the axis, which depends on them */
	TRY(take_geometry(p, job, progress));
	TRY(job->axis_later ? prepared_auto_check(p) : prepared_auto_find(p, job, progress));
	TRY(say_unusual(p, job));
	TRY(say_setup(p, job));
	return say_missing(p, job);
}

tomos_status tomos_prepared_open(
	tomos_prepared **prepared, const tomos_job *given, const tomos_progress *progress)
{
	tomos_prepared *p;
	tomos_job job;
	*prepared = NULL;
	TRY(job_take(&job, given));
	TRY(mem_zeroed(&p, 1, sizeof *p, "a job's description"));
	p->info.bytes = sizeof p->info;
	p->reach.bytes = sizeof p->reach;
	tomos_status status = open_into(p, &job, progress);
	if (status == TOMOS_OK)
		*prepared = p;
	else
		tomos_prepared_close(p);
	return status;
}

tomos_status tomos_prepared_describe(const tomos_prepared *p, tomos_scan_info *info)
{
	*info = p->info;
	return TOMOS_OK;
}

const char *tomos_prepared_note(const tomos_prepared *p)
{
	return p->note;
}

const char *tomos_prepared_warning(const tomos_prepared *p)
{
	return p->warning;
}

const char *tomos_prepared_unit(const tomos_prepared *p)
{
	return p->unit;
}

tomos_status tomos_prepared_steps(const tomos_prepared *p, char *text, size_t size)
{
	const tomos_array none = {0};
	const tomos_fields fields = {.bytes = sizeof fields,
		.flats = p->info.flats > 0 ? &none : NULL,
		.flat_views = p->flat_places};
	return prep_describe(&p->prep, &fields, text, size);
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
	mem_free(p->bad_views);
	mem_free(p->note);
	mem_free(p->warning);
	mem_free(p->found);
	mem_free(p);
}

const tomos_geometry *tomos_prepared_geometry(const tomos_prepared *p)
{
	return p->geometry;
}

/* Restricts the geometry to rows [first, first + count). */
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
		return run_rows_rejected(rows);
	if (high - low < grid->n[2])
		crop_rows(p, row + low, high - low);
	if (first)
		*first = before + low + (stacked ? row : 0);
	grid->first[2] += (double)low * grid->step[2];
	grid->n[2] = high - low;
	return TOMOS_OK;
}

tomos_status prepared_read_raw(tomos_prepared *p, const RawRows *needs, int64_t rows, float *data,
	tomos_prep_report *report, const tomos_progress *progress)
{
	RawSlab slab;
	tomos_prep_report found = {.bytes = sizeof found};
	TRY(raw_alloc(&slab, p, needs->rows));
	tomos_status status = raw_read(&slab, p, needs);
	if (status == TOMOS_OK)
		status = raw_prepare(&slab, p, rows, data, &found, progress);
	if (status == TOMOS_OK)
		status = prepared_usable(p, &found, p->info.views * needs->rows * p->columns);
	if (status == TOMOS_OK)
		status = report_add(report, &found);
	raw_free(&slab);
	return status;
}

tomos_status tomos_prepared_read(tomos_prepared *p, int64_t row, int64_t rows, float *data,
	tomos_prep_report *report, const tomos_progress *progress)
{
	TRY(report_add(report, NULL));
	if (row < 0 || rows < 1 || row > p->geometry->rows - rows)
		return fail(TOMOS_BAD_VALUE, "'%s': %lld rows from row %lld, of %lld",
			p->scan->path, (long long)rows, (long long)row,
			(long long)p->geometry->rows);
	RawRows needs = prepared_needs(p, p->first_row + row, rows);
	return prepared_read_raw(p, &needs, rows, data, report, progress);
}
