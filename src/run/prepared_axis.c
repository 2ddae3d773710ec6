/* The rotation axis of prepared projections: searched for in a few rows, and the geometry moved to
 * it. */
#include <stdio.h>
#include <string.h>
#include "prep/axis.h"
#include "prep/pose.h"
#include "run/run.h"

enum { AXIS_ROWS = 4 }; /* rows around the middle that are used to search for the axis */
#define CONE_ROWS 0.03  /* of the columns: rows around the midplane of a cone beam */
#define UNSURE 0.1      /* confidence */
#define MOST_COLUMNS 1  /* between the axis that a file says and the one that rays say, */
#define MOST_ERRORS 5   /* and in standard errors of the latter */
#define CONSTANT 1e-5   /* of the largest value: rows that vary less are the same everywhere */
#define ROUNDING 1e-6   /* of line integrals made of counts */
#define MOST_FLOATS ((int64_t)64 << 20)

static bool is_parallel(const tomos_geometry *g)
{
	for (int64_t i = 0; i < g->count; i++)
		if (view_has_source(&g->views[i]) || !view_is_level(g, &g->views[i]))
			return false;
	return true;
}

/* Columns before and after preparation, which crops and bins. */
static double column_prepared(const tomos_prepared *p, double column)
{
	return (column - (double)p->first_column + 0.5) / (double)p->bin - 0.5;
}

double prepared_column(const tomos_prepared *p, double column)
{
	return (column + 0.5) * (double)p->bin - 0.5 + (double)p->first_column;
}

/* Moves the detectors of parallel rays along u, whatever their rows. */
static void slide_axis(tomos_geometry *g, double column)
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

/* Moves the detectors so that the axis projects to that column of the prepared data. */
static tomos_status move_axis(tomos_prepared *p, double column, bool reversed)
{
	Orbit orbit;
	tomos_geometry *moved = NULL;
	if (is_parallel(p->geometry)) {
		slide_axis(p->geometry, column);
		return TOMOS_OK;
	}
	TRY(orbit_take(&orbit, p->geometry));
	orbit.pose[POSE_AXIS] = column;
	tomos_status status = orbit_geometry(&moved, &orbit, orbit.pose, reversed);
	if (status == TOMOS_OK) {
		tomos_geometry_free(p->geometry);
		p->geometry = moved;
		p->reversed ^= reversed;
	}
	orbit_free(&orbit);
	return status;
}

/* Whether the views are a circle whose axis can be searched for. */
static bool is_circle(const tomos_geometry *g)
{
	Orbit orbit;
	if (is_parallel(g))
		return true;
	if (orbit_take(&orbit, g) != TOMOS_OK)
		return false;
	orbit_free(&orbit);
	return true;
}

/* Laminography: all rows are summed. */
bool prepared_is_tilted(const tomos_prepared *p)
{
	return !view_has_source(&p->geometry->views[0]) && !is_parallel(p->geometry);
}

/* Rows [*row, *row + *rows) in which the axis is best searched for. */
tomos_status tomos_prepared_axis_rows(const tomos_prepared *p, int64_t *row, int64_t *rows)
{
	const tomos_geometry *g = p->geometry;
	Orbit orbit;
	*rows = min64(AXIS_ROWS, g->rows);
	*row = (g->rows - *rows) / 2;
	if (is_parallel(g) || view_fans(&g->views[0]))
		return TOMOS_OK;
	if (prepared_is_tilted(p)) {
		*row = 0;
		*rows = g->rows;
		return TOMOS_OK;
	}
	TRY(orbit_take(&orbit, g));
	double middle = fmin(fmax(orbit.pose[POSE_ROW], 0), (double)(g->rows - 1));
	orbit_free(&orbit);
	int64_t reach = max64((int64_t)(0.5 * CONE_ROWS * (double)g->columns), 2);
	*row = max64((int64_t)(middle + 0.5) - reach, 0);
	*rows = min64((int64_t)(middle + 0.5) + reach + 1, g->rows) - *row;
	return TOMOS_OK;
}

static void in_columns_of_scan(const tomos_prepared *p, tomos_axis *axis)
{
	double *const places[] = {
		&axis->column, &axis->low, &axis->high, &axis->pairs, &axis->vo, &axis->sharpness};
	for (int i = 0; i < COUNT(places); i++)
		*places[i] = prepared_column(p, *places[i]);
	axis->error *= (double)p->bin;
	axis->score_first = prepared_column(p, axis->score_first);
	axis->score_step *= (double)p->bin;
}

/* The geometry of the rows that are searched in. */
static tomos_status rows_geometry(
	const tomos_prepared *p, int64_t row, int64_t rows, tomos_geometry **part)
{
	const tomos_geometry *g = p->geometry;
	double shift = (double)row + 0.5 * (double)(rows - g->rows);
	TRY(tomos_geometry_views(part, rows, g->columns, g->views, g->count));
	for (int64_t i = 0; i < g->count; i++)
		view_slide(&(*part)->views[i], 0, shift);
	return TOMOS_OK;
}

/* The options of the search, in columns of the prepared data. */
static tomos_axis_options options_prepared(const tomos_prepared *p, double range[2])
{
	tomos_axis_options o = p->axis;
	for (int i = 0; i < 2 && o.axis_range_count == 2; i++)
		range[i] = column_prepared(p, p->axis_range[i]);
	o.axis_range = o.axis_range_count == 2 ? range : NULL;
	return o;
}

/* Parallel rays: `sums` of laminography, otherwise NULL. */
static tomos_status search_parallel(const tomos_geometry *g, tomos_backend *backend,
	const tomos_array *data, const AxisSums *sums, const tomos_axis_options *o,
	tomos_axis *axis, const tomos_progress *progress)
{
	double *angles;
	TRY(mem_alloc(&angles, g->count, sizeof *angles, "angles"));
	for (int64_t i = 0; i < g->count; i++)
		angles[i] = atan2(g->views[i].u[1], g->views[i].u[0]);
	tomos_status status = sums ? axis_sums_find(sums, backend, angles, o, progress, axis)
				   : tomos_axis_find(axis, backend, data, angles, o, progress);
	mem_free(angles);
	bool hopeless = status == TOMOS_BAD_VALUE || status == TOMOS_UNSUPPORTED;
	if (!hopeless || o->axis_range_count > 0)
		return status;
	char reason[400];
	snprintf(reason, sizeof reason, "%s", tomos_message());
	return fail(status, "the axis cannot be found: %s; the option 'axis' sets it", reason);
}

static tomos_status search(tomos_prepared *p, tomos_backend *backend, int64_t row,
	const tomos_array *data, tomos_axis *axis, const tomos_progress *progress)
{
	double range[2];
	tomos_axis_options o = options_prepared(p, range);
	tomos_geometry *part;
	if (is_parallel(p->geometry))
		return search_parallel(p->geometry, backend, data, NULL, &o, axis, progress);
	TRY(rows_geometry(p, row, data->shape[1], &part));
	tomos_status status = tomos_axis_find_scan(axis, backend, data, part, &o, progress);
	tomos_geometry_free(part);
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

/* Whether the rows show anything: those of an empty beam are the same everywhere. */
static bool rows_vary(const tomos_prepared *p, const float *data, int64_t count)
{
	float low = INFINITY, high = -INFINITY;
	for (int64_t i = 0; i < count; i++) {
		low = isfinite(data[i]) ? fminf(low, data[i]) : low;
		high = isfinite(data[i]) ? fmaxf(high, data[i]) : high;
	}
	double rounding = prepared_are_counts(p) ? ROUNDING : 0; /* of logarithms near 0 */
	double largest = fmax(fabs((double)low), fabs((double)high));
	return (double)high - (double)low > fmax(rounding, CONSTANT * largest);
}

static tomos_status check_rows(
	tomos_prepared *p, int64_t row, int64_t rows, const float *data, int64_t count)
{
	p->blank = !rows_vary(p, data, count);
	if (!p->blank)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"'%s': there is nothing to find the axis from: rows %lld to %lld have the same "
		"value in all columns and views, as without an object",
		p->scan->path, (long long)(row * p->bin), (long long)((row + rows) * p->bin - 1));
}

/* The axis in rows that fit into memory together. */
static tomos_status search_rows(tomos_prepared *p, tomos_backend *backend, int64_t row,
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
	TRY_OR_DONE(check_rows(p, row, rows, data, count));
	TRY_OR_DONE(search(p, backend, row, &array, axis, progress));
done:
	mem_free(data);
	return status;
}

/* Sums over all rows of a laminography scan, some rows at a time. */
static tomos_status sum_rows(tomos_prepared *p, AxisSums *sums, const tomos_progress *progress)
{
	const tomos_geometry *g = p->geometry;
	int64_t most = MOST_FLOATS / (g->count * g->columns) + 1;
	float *data;
	tomos_status status = TOMOS_OK;
	TRY(mem_alloc(&data, g->count * g->columns * min64(most, g->rows), sizeof *data,
		"rows to find the axis in"));
	for (int64_t row = 0; row < g->rows && status == TOMOS_OK; row += most) {
		tomos_array part =
			tomos_array_of(data, g->count, min64(most, g->rows - row), g->columns);
		status = read_rows(p, row, data, &part, progress);
		if (status == TOMOS_OK)
			status = axis_sums_add(sums, &part, row);
	}
	mem_free(data);
	return status;
}

static tomos_status search_sums(
	tomos_prepared *p, tomos_backend *backend, tomos_axis *axis, const tomos_progress *progress)
{
	Orbit orbit;
	AxisSums sums = {.sums = NULL};
	double range[2];
	tomos_axis_options o = options_prepared(p, range);
	tomos_status status;
	TRY(orbit_take(&orbit, p->geometry));
	TRY_OR_DONE(axis_sums_begin(&sums, &orbit));
	TRY_OR_DONE(sum_rows(p, &sums, progress));
	TRY_OR_DONE(search_parallel(p->geometry, backend, NULL, &sums, &o, axis, progress));
done:
	axis_sums_free(&sums);
	orbit_free(&orbit);
	return status;
}

/* In columns of the scan, which is what the user gave. */
static tomos_status check_range(const tomos_prepared *p)
{
	const double *range = p->axis_range, least = 2 * (double)p->bin;
	double first = prepared_column(p, 0);
	double last = prepared_column(p, (double)(p->geometry->columns - 1));
	if (p->axis.axis_range_count != 2 ||
		(range[0] >= first && range[1] <= last && range[1] - range[0] >= least))
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"axis-range %g,%g: it must lie within %g to %g and be %g columns wide at least",
		range[0], range[1], first, last, least);
}

/* A search of opposite rays that found nothing in the range that was given says so. */
static tomos_status name_range(const tomos_prepared *p, const tomos_axis *axis, tomos_status status)
{
	char why[400];
	bool searched = axis->high > axis->low && view_has_source(&p->geometry->views[0]);
	if (status != TOMOS_BAD_VALUE || p->axis.axis_range_count != 2 || !searched)
		return status;
	snprintf(why, sizeof why, "%s", tomos_message());
	return fail(status, "%s; columns %g to %g were searched, as the option 'axis-range' says",
		why, p->axis_range[0], p->axis_range[1]);
}

static tomos_status search_any(tomos_prepared *p, tomos_backend *backend, int64_t row, int64_t rows,
	tomos_axis *axis, const tomos_progress *progress)
{
	tomos_status status = prepared_is_tilted(p)
				      ? search_sums(p, backend, axis, progress)
				      : search_rows(p, backend, row, rows, axis, progress);
	return name_range(p, axis, status);
}

/* A direction that the scanner's file says is kept, whatever the rays say. */
tomos_status tomos_prepared_axis(tomos_prepared *p, tomos_backend *backend, int64_t row,
	int64_t rows, tomos_axis *axis, const tomos_progress *progress)
{
	tomos_axis found = {.bytes = sizeof found};
	TRY(struct_give(axis, &found, "tomos_axis"));
	TRY(check_range(p));
	TRY(search_any(p, backend, row, rows, &found, progress));
	if (found.reversed && p->keeps_direction) {
		bool sure = found.confidence >= UNSURE;
		tomos_axis_options asked = p->axis;
		p->axis.direction = "given";
		tomos_status status = search_any(p, backend, row, rows, &found, progress);
		p->axis = asked;
		TRY(status);
		found.contradicted = sure;
	}
	TRY(move_axis(p, found.column, found.reversed));
	in_columns_of_scan(p, &found);
	p->searched = found;
	return struct_give(axis, &found, "tomos_axis");
}

int tomos_prepared_searched(const tomos_prepared *p, tomos_axis *axis)
{
	tomos_axis found = p->searched;
	bool used = found.bytes > 0;
	if (!used)
		found = (tomos_axis){.bytes = sizeof found, .confidence = p->assumed ? 0 : 1};
	found.reversed = p->reversed;
	return struct_give(axis, &found, "tomos_axis") == TOMOS_OK && used;
}

/* Where the midplane of a cone beam is empty, rows further away show the axis. `status` is that of
 * the search there, whose result stays, unsure as it is, if they do not. */
static tomos_status search_wider(tomos_prepared *p, int64_t *row, int64_t *rows, tomos_axis *axis,
	tomos_status status, const tomos_progress *progress)
{
	const tomos_geometry *g = p->geometry;
	int64_t most = MOST_FLOATS / (g->count * g->columns) + 1, wide = min64(8 * *rows, most);
	tomos_axis wider = {.bytes = sizeof wider};
	if (axis->confidence >= UNSURE || axis->contradicted || *rows >= g->rows || wide <= *rows ||
		g->views[0].src[3] != TOMOS_POINT || (status != TOMOS_OK && !p->blank))
		return status;
	int64_t first = min64(max64(*row + *rows / 2 - wide / 2, 0), max64(g->rows - wide, 0));
	wide = min64(wide, g->rows);
	tomos_status found = tomos_prepared_axis(p, NULL, first, wide, &wider, progress);
	if (found == TOMOS_BAD_VALUE && status == TOMOS_OK)
		return TOMOS_OK;
	TRY(found);
	*row = first;
	*rows = wide;
	*axis = wider;
	axis->reversed = p->reversed; /* relative to the angles as given */
	return TOMOS_OK;
}

/* Searches for the axis in a few rows around the middle, and reports the result. An empty scan, or
 * one of point sources in which no ray is measured twice, has it in the middle, with a warning. */
static tomos_status find_axis(tomos_prepared *p, const tomos_progress *progress)
{
	int64_t rows, row;
	tomos_axis axis = {.bytes = sizeof axis};
	TRY(tomos_prepared_axis_rows(p, &row, &rows));
	tomos_status status = tomos_prepared_axis(p, NULL, row, rows, &axis, progress);
	status = search_wider(p, &row, &rows, &axis, status, progress);
	bool middle = p->blank || (!is_parallel(p->geometry) && p->axis.axis_range_count == 0);
	if (status == TOMOS_BAD_VALUE && middle)
		return axis_say_not_found(p);
	TRY(status);
	return axis_say_found(p, row, rows, &axis);
}

static tomos_status take_options(tomos_prepared *p, const tomos_job *job)
{
	const ScanSetup *setup = &p->scan->setup;
	bool user = job->views || p->scan->geometry;
	bool reverse = job->geometry && job->geometry->reverse;
	p->axis = tomos_axis_defaults();
	TRY(options_take(&p->axis, job->axis, "axis"));
	if (p->axis.axis_range_count == 2)
		memcpy(p->axis_range, p->axis.axis_range, sizeof p->axis_range);
	TRY(pose_unknown(&p->axis, &p->unknown));
	p->axis.unknown = "";
	bool checks = strcmp(p->axis.direction, "check") == 0;
	if (job->views && !checks && !view_has_source(&job->views->views[0]))
		return fail(TOMOS_BAD_VALUE,
			"the option 'direction' has no effect: the rays are parallel");
	p->by_views = checks && job->views;
	if (checks && user && !p->by_views)
		p->axis.direction = "given";
	p->keeps_direction =
		p->by_views ||
		(checks && !user && (reverse || (setup->geometry && setup->direction_known)));
	p->by_reverse = reverse;
	return TOMOS_OK;
}

static bool is_elsewhere(const tomos_axis *found, double column)
{
	double apart = fabs(found->column - column);
	return apart > MOST_COLUMNS && apart > MOST_ERRORS * found->error;
}

/* The axis is given: the rays decide the direction alone. Angles are kept where no ray is measured
 * from both sides, and where rays are not sure, unless it is open: the scanner's file leaves it
 * so. */
static tomos_status find_direction(
	tomos_prepared *p, bool open, bool of_file, const tomos_progress *progress)
{
	tomos_axis axis = {.bytes = sizeof axis};
	int64_t row, rows;
	Orbit given;
	TRY(orbit_take(&given, p->geometry));
	double column = given.pose[POSE_AXIS];
	orbit_free(&given);
	TRY(tomos_prepared_axis_rows(p, &row, &rows));
	tomos_status status = tomos_prepared_axis(p, NULL, row, rows, &axis, progress);
	status = search_wider(p, &row, &rows, &axis, status, progress);
	if (status == TOMOS_BAD_VALUE || status == TOMOS_UNSUPPORTED)
		return strcmp(p->axis.direction, "auto") == 0 ? axis_say_no_direction(p) : TOMOS_OK;
	TRY(status);
	bool sure = axis.confidence >= UNSURE;
	TRY(move_axis(p, column, axis.reversed && !sure && !open));
	p->searched.bytes = 0;
	if (axis.contradicted)
		return axis_warn_contradicted(p);
	if (of_file && sure && is_elsewhere(&axis, prepared_column(p, column)))
		TRY(axis_warn_elsewhere(p, axis.column, prepared_column(p, column)));
	else if (sure && axis.tilted && !p->by_views)
		TRY(axis_warn_tilted(p));
	if (!open && !(sure && axis.reversed))
		return TOMOS_OK;
	if (!sure)
		TRY(mem_printf(&p->warning, "the direction of rotation is uncertain"));
	return mem_printf(&p->note, "direction %s, found from rays measured from both sides",
		axis.reversed ? "opposite to the angles, which are negated (keep them with the "
				"option 'direction' given)"
			      : "that of the angles");
}

/* Views of a file of their own may be those of another scan: what rays say against them is a
 * warning. The views stay as they are. */
static tomos_status check_views(tomos_prepared *p, const tomos_progress *progress)
{
	tomos_geometry *given;
	TRY(tomos_geometry_views(&given, p->geometry->rows, p->geometry->columns,
		p->geometry->views, p->geometry->count));
	tomos_status status = find_direction(p, false, true, progress);
	tomos_geometry_free(p->geometry);
	p->geometry = given;
	return status;
}

static tomos_status known_axis(tomos_prepared *p, const tomos_job *job, bool said, bool of_file,
	const tomos_progress *progress)
{
	const ScanSetup *setup = &p->scan->setup;
	bool point = view_has_source(&p->geometry->views[0]);
	if (!is_circle(p->geometry))
		return said ? TOMOS_OK : axis_say_middle(p, job);
	if (!said) {
		TRY(find_axis(p, progress));
		p->decided = !p->assumed;
		return TOMOS_OK;
	}
	if (point && p->by_views)
		return check_views(p, progress);
	if (point && strcmp(p->axis.direction, "given") != 0) {
		bool open = setup->geometry && !setup->direction_known && !p->keeps_direction;
		TRY(find_direction(p, open, of_file, progress));
		p->decided = p->note != NULL;
	}
	return of_file ? axis_say_of_file(p) : TOMOS_OK;
}

tomos_status prepared_axis_known(
	tomos_prepared *p, const tomos_job *job, const tomos_progress *progress)
{
	bool given = job->views || p->scan->geometry || (job->geometry && job->geometry->axis);
	bool of_file = !given && scan_axis_known(p->scan);
	TRY(take_options(p, job));
	if (job->axis_later)
		return TOMOS_OK;
	return known_axis(p, job, given || of_file, of_file, progress);
}
