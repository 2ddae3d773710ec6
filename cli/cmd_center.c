/* tomos center: where the rotation axis is, and pictures with the axis at several places. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "canvas.h"

enum { ROWS = 16, TILE = 256, GAP = 4, LABEL = 20, MOST_TILES = 400 };
#define MOST_FLOATS ((int64_t)64 << 20) /* of the rows that are looked at */

typedef struct sweep {
	double from, to, step;
	int64_t count, across, wide, high; /* tiles, tiles in a line, dots of the sheet */
	int64_t side;                      /* of a tile */
	canvas sheet;
} sweep;

/* ---- which rows ----------------------------------------------------------------------------- */

static int choose_rows(
	const settings *s, const tomos_prepared *prepared, int64_t *first, int64_t *count)
{
	const tomos_geometry *g = tomos_prepared_geometry(prepared);
	int64_t rows = tomos_geometry_rows(g), row = s->center.row;
	int64_t most = MOST_FLOATS / (tomos_geometry_count(g) * tomos_geometry_columns(g)) + 1;
	if (settings_given(s, GROUP_center, "row") && (row < 0 || row >= rows))
		return wrong_usage("--row: %lld is not between 0 and %lld", (long long)row,
			(long long)rows - 1);
	*first = row;
	*count = 1;
	if (row >= 0)
		return DONE;
	int code = lib(tomos_prepared_axis_rows(prepared, first, count));
	int64_t middle = 2 * *first + *count;
	if (tomos_geometry_list(g)[0].src[3] != TOMOS_POINT) /* each row is as good as another */
		*count = rows < ROWS ? rows : ROWS;
	*count = *count < most ? *count : most;
	*first = (middle - *count) / 2;
	return code;
}

/* ---- the sheet ------------------------------------------------------------------------------ */

static int sweep_parse(const char *text, int64_t columns, sweep *w)
{
	int used = 0;
	if (sscanf(text, "%lf:%lf:%lf%n", &w->from, &w->to, &w->step, &used) != 3 || text[used] ||
		!(w->step > 0) || !(w->to >= w->from))
		return wrong_usage(
			"--sweep: '%s' is not FROM:TO:STEP with FROM up to TO and a STEP "
			"above 0",
			text);
	double count = floor((w->to - w->from) / w->step + 1e-9) + 1;
	if (!(count <= MOST_TILES))
		return wrong_usage("--sweep: '%s' makes %g pictures; %d are the most", text, count,
			MOST_TILES);
	if (!(w->from >= 0 && w->to <= (double)columns - 1))
		return wrong_usage("--sweep: %g to %g is not within columns 0 to %lld", w->from,
			w->to, (long long)columns - 1);
	w->count = (int64_t)count;
	w->across = (int64_t)ceil(sqrt(count));
	w->side = columns < TILE ? columns : TILE;
	w->wide = w->across * (w->side + GAP) - GAP;
	w->high = (w->count + w->across - 1) / w->across * (w->side + LABEL + GAP) - GAP;
	return DONE;
}

/* Rows of all views, with their geometry; the axis is at column `axis`. */
typedef struct middle {
	tomos_array row; /* [view][row][column]; several rows of a cone beam */
	tomos_view *views;
	double axis;
} middle;

/* The slice z = 0, with as many pixels as a tile has. */
static int draw_tile(
	const middle *m, tomos_backend *backend, double axis, float *tile, int64_t side)
{
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	int64_t count = m->row.shape[0], columns = m->row.shape[2];
	int code;
	tomos_array picture = tomos_array_of(tile, 1, side, side);
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 3; a++)
			m->views[i].det[a] += (m->axis - axis) * m->views[i].u[a];
	DO(lib(tomos_geometry_views(&scan, m->row.shape[1], columns, m->views, count)));
	DO(lib(tomos_grid_for(&grid, scan, NULL)));
	double step = fabs(grid.step[0]) * (double)columns / (double)side;
	DO(lib(tomos_grid_centred(&grid, side, side, 1, step)));
	DO(lib(tomos_fbp(backend, &grid, scan, &m->row, &picture, NULL, progress_silent())));
done:
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 3; a++)
			m->views[i].det[a] -= (m->axis - axis) * m->views[i].u[a];
	tomos_geometry_free(scan);
	return code;
}

static int middle_views(middle *m, const tomos_geometry *g, int64_t row)
{
	int64_t count = tomos_geometry_count(g);
	m->views = calloc((size_t)count, sizeof *m->views);
	if (!m->views)
		return failed("no memory for %lld views", (long long)count);
	views_of_rows(g, row, m->row.shape[1], m->views);
	return DONE;
}

static int middle_read(
	tomos_prepared *prepared, const tomos_geometry *g, int64_t row, int64_t rows, middle *m)
{
	const int64_t shape[3] = {tomos_geometry_count(g), rows, tomos_geometry_columns(g)};
	int code;
	DO(array_new(&m->row, shape, "rows of all views"));
	DO(middle_views(m, g, row));
	DO(lib(tomos_prepared_read(prepared, row, rows, m->row.data, NULL, progress_silent())));
done:
	return code;
}

static void middle_free(middle *m)
{
	array_free(&m->row);
	free(m->views);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* Black and white of one tile, for all, so that they can be compared. */
static int tile_range(const float *tile, int64_t count, double *low, double *high)
{
	float *sorted = malloc((size_t)count * sizeof *sorted);
	if (!sorted)
		return failed("no memory for a picture");
	memcpy(sorted, tile, (size_t)count * sizeof *sorted);
	qsort(sorted, (size_t)count, sizeof *sorted, by_value);
	*low = (double)sorted[count / 200];
	*high = (double)sorted[count - 1 - count / 200];
	if (!(*high > *low))
		*high = *low + 1;
	free(sorted);
	return DONE;
}

static int place_tile(
	sweep *w, int64_t i, const char *label, const float *tile, double low, double high)
{
	double x = (double)(i % w->across * (w->side + GAP));
	double y = (double)(i / w->across * (w->side + LABEL + GAP));
	int64_t count = w->side * w->side;
	unsigned char *grey = malloc((size_t)count);
	if (!grey)
		return failed("no memory for a picture");
	for (int64_t j = 0; j < count; j++) {
		double value = 255 * ((double)tile[j] - low) / (high - low);
		grey[j] = (unsigned char)(fmin(fmax(value, 0), 255) + 0.5);
	}
	const bitmap image = {grey, w->side, w->side, 1};
	canvas_text(&w->sheet, x + 2, y + LABEL - 6, label, (lettering){13, 0, INK, false, false});
	canvas_image(&w->sheet, x, y + LABEL, (double)w->side, (double)w->side, &image);
	free(grey);
	return DONE;
}

static int sweep_draw(const settings *s, const middle *m, tomos_backend *backend, sweep *w)
{
	double low = 0, high = 1;
	char label[32];
	int code = DONE;
	float *tile = malloc((size_t)(w->side * w->side) * sizeof *tile);
	canvas_open(&w->sheet, s->center.sheet, (double)w->wide, (double)w->high, 1);
	double nearest = fmin(fmax(m->axis, w->from), w->from + (double)(w->count - 1) * w->step);
	if (!tile)
		DO(failed("no memory for a picture of %lld x %lld", (long long)w->wide,
			(long long)w->high));
	DO(draw_tile(m, backend, nearest, tile, w->side)); /* others have other values */
	DO(tile_range(tile, w->side * w->side, &low, &high));
	for (int64_t i = 0; i < w->count; i++) {
		double axis = w->from + (double)i * w->step;
		DO(draw_tile(m, backend, axis, tile, w->side));
		snprintf(label, sizeof label, "axis %.6g", axis);
		DO(place_tile(w, i, label, tile, low, high));
		DO(progress_step("drawing", i + 1, w->count));
	}
	progress_clear();
	DO(canvas_write(&w->sheet, s->center.sheet, &s->file));
	say("wrote %s: %lld slices with the axis at %g to %g\n", s->center.sheet,
		(long long)w->count, w->from, w->from + (double)(w->count - 1) * w->step);
done:
	free(tile);
	canvas_close(&w->sheet);
	return code;
}

/* ---- pictures before and after -------------------------------------------------------------- */

/* Rows that a slice z = 0 needs: of a cone beam those around the midplane. */
static int slice_rows(const tomos_prepared *prepared, int64_t *row, int64_t *rows)
{
	const tomos_geometry *g = tomos_prepared_geometry(prepared);
	int64_t all = tomos_geometry_rows(g), wide = tomos_geometry_columns(g) / 16;
	int code = lib(tomos_prepared_axis_rows(prepared, row, rows));
	if (code != DONE || tomos_geometry_list(g)[0].src[3] != TOMOS_POINT) {
		*row += *rows / 2;
		*rows = 1;
		return code;
	}
	int64_t end = *row + *rows + wide;
	*row = *row > wide ? *row - wide : 0;
	*rows = (end < all ? end : all) - *row;
	return DONE;
}

static int picture_draw(const settings *s, tomos_prepared *prepared, const tomos_geometry *given,
	tomos_backend *backend)
{
	static const char *const names[] = {"as given", "as found"};
	const tomos_geometry *found = tomos_prepared_geometry(prepared);
	sweep w = {.count = 2, .across = 2};
	double low = 0, high = 1;
	int64_t row, rows;
	int code;
	float *tile = NULL;
	w.side =
		tomos_geometry_columns(found) < 2 * TILE ? tomos_geometry_columns(found) : 2 * TILE;
	w.wide = 2 * (w.side + GAP) - GAP;
	w.high = w.side + LABEL;
	DO(slice_rows(prepared, &row, &rows));
	tile = malloc((size_t)(w.side * w.side) * sizeof *tile);
	canvas_open(&w.sheet, s->center.picture, (double)w.wide, (double)w.high, 1);
	if (!tile)
		DO(failed("no memory for a picture"));
	for (int i = 1; i >= 0; i--) { /* black and white are those of the result */
		middle m = {.views = NULL};
		code = middle_read(prepared, i ? found : given, row, rows, &m);
		if (code == DONE)
			code = draw_tile(&m, backend, 0, tile, w.side);
		middle_free(&m);
		DO(code);
		if (i == 1)
			DO(tile_range(tile, w.side * w.side, &low, &high));
		DO(place_tile(&w, i, names[i], tile, low, high));
	}
	DO(canvas_write(&w.sheet, s->center.picture, &s->file));
	say("wrote %s\n", s->center.picture);
done:
	free(tile);
	canvas_close(&w.sheet);
	return code;
}

/* ---- the search ----------------------------------------------------------------------------- */

#define DEGREES 57.29577951308232
#define REACH (TOMOS_POSE_REACH * DEGREES)

static const char *const pose_names[TOMOS_POSE_VALUES] = {
	"axis", "axis-row", "roll", "slant", "swivel", "source-detector"};

static bool is_angle(int value)
{
	return value >= TOMOS_POSE_ROLL && value <= TOMOS_POSE_SWIVEL;
}

static void pose_say_value(const tomos_pose *pose, int i, const char *length)
{
	const char *units[TOMOS_POSE_VALUES] = {
		"columns", "rows", "degrees", "degrees", "degrees", length};
	double unit = is_angle(i) ? DEGREES : 1;
	double value = pose->value[i] * unit;
	value = fabs(value) < 1e-9 ? 0 : value; /* rounding of the geometry as given, and no -0 */
	if (message_quiet())
		printf("%s %.6g %.2g\n", pose_names[i], value, pose->error[i] * unit);
	say("  %-16s %.6g", pose_names[i], value);
	if (pose->error[i] == 0)
		say(" (as given: not among the unknown values)\n");
	else if (isfinite(pose->error[i]))
		say(", standard error %.2g%s%s\n", pose->error[i] * unit, units[i][0] ? " " : "",
			units[i]);
	else if (i == TOMOS_POSE_AXIS)
		say(" (uncertain)\n");
	else if (pose->beyond >> i & 1)
		say(" (as given: it is further off than the search reaches)\n");
	else if (is_angle(i))
		say(" (as given: not determined by this scan, or over %.1f degrees off)\n", REACH);
	else
		say(" (as given: not determined by this scan)\n");
}

/* False: the values are uncertain. `length`: the unit of lengths. */
static bool pose_say(const tomos_pose *pose, const char *length)
{
	for (int i = 0; i < TOMOS_POSE_VALUES; i++)
		pose_say_value(pose, i, length);
	say("rays measured from both sides contradict each other by %.3g %% (with axis, swivel and "
	    "distance alone by %.3g %%)\n",
		100 * pose->after, 100 * pose->before);
	for (int i = 0; i < TOMOS_POSE_VALUES; i++)
		if (pose->beyond >> i & 1)
			warn("the scan has another %s than the one given, but further off than the "
			     "search reaches, so all values are uncertain: give --%s nearer to it",
				pose_names[i], pose_names[i]);
	int doubt = tomos_pose_doubt(pose);
	if (doubt == TOMOS_POSE_DISAGREES)
		warn("rays measured from both sides hardly agree, so the values are "
		     "uncertain, whatever their standard errors: compare slices with --sweep");
	else if (doubt == TOMOS_POSE_NO_BETTER)
		warn("projections agree no better with what was found than before, so it is "
		     "uncertain: give --roll, --slant and --swivel if they are above %.1f degrees, "
		     "or compare slices with --sweep",
			REACH);
	if (pose->reversed)
		note("opposite rays agree only if the rotation is reversed: the angles are negated "
		     "(--direction given keeps them)");
	return doubt == TOMOS_POSE_CERTAIN;
}

/* What a search has found; certain: enough to be written. */
typedef struct result {
	double column;
	bool certain;
} result;

/* Finds the axis in some rows about the middle, or in the one that was named. */
static int find_axis(
	const settings *s, tomos_prepared *prepared, tomos_backend *backend, result *found)
{
	tomos_axis axis = {.bytes = sizeof axis};
	int64_t first, count;
	double from, to, step;
	int code;
	DO(choose_rows(s, prepared, &first, &count));
	DO(lib(tomos_prepared_axis(prepared, backend, first, count, &axis, progress_shown())));
	axis_say(&axis, tomos_prepared_geometry(prepared));
	if (message_quiet())
		printf("%.3f\n", axis.column);
	*found = (result){axis.column, !tomos_axis_doubt(&axis, &from, &to, &step)};
done:
	return code;
}

static const char *length_shown(const char *unit)
{
	return strcmp(unit, "pixel") == 0 ? "pixels" : unit;
}

static int find_pose(tomos_prepared *prepared, tomos_backend *backend, result *found)
{
	tomos_pose pose = {.bytes = sizeof pose};
	int code = lib(tomos_prepared_pose(prepared, backend, &pose, progress_shown()));
	progress_clear();
	if (code == DONE) {
		const char *kept = tomos_prepared_note(prepared);
		bool certain = pose_say(&pose, length_shown(tomos_prepared_unit(prepared)));
		*found = (result){pose.value[TOMOS_POSE_AXIS], certain};
		if (kept)
			say("%s\n", kept);
	}
	return code;
}

static int draw_sweep(const settings *s, tomos_prepared *prepared, tomos_backend *backend,
	double column, sweep *w)
{
	middle m = {.views = NULL};
	int64_t row = s->center.row, rows = 1;
	int code;
	if (row < 0)
		DO(slice_rows(prepared, &row, &rows));
	DO(middle_read(prepared, tomos_prepared_geometry(prepared), row, rows, &m));
	m.axis = column;
	DO(sweep_draw(s, &m, backend, w));
done:
	middle_free(&m);
	return code;
}

/* Slices are reconstructed by filtered back projection. */
static int check_slices(const settings *s, const tomos_geometry *g)
{
	const tomos_view *view = tomos_geometry_list(g);
	const char *option = s->center.sweep[0] ? "sweep" : "picture";
	bool tilted = view->src[3] == 0 && fabs(view->src[2]) > 1e-6;
	if (!tilted || (!s->center.sweep[0] && !s->center.picture[0]))
		return DONE;
	return wrong_usage(
		"--%s: the rays of laminography leave the plane of a slice, which filtered "
		"back projection cannot reconstruct alone; compare volumes of 'tomos recon "
		"--method sirt --axis COLUMN' instead",
		option);
}

/* An uncertain axis, or a fit that the scan does not determine, is not written: recon would use it
 * without a word. */
static int save_views(const settings *s, const tomos_prepared *prepared, const result *found)
{
	const char *path = s->center.save;
	if (!found->certain)
		return failed("'%s' is not written, since the geometry is uncertain (see the "
			      "warning above); recon --axis sets the axis",
			path);
	int code = lib(tomos_geometry_write(tomos_prepared_geometry(prepared), path, &s->file));
	if (code == DONE)
		say("wrote %s, for recon --views-file\n", path);
	return code;
}

static int center(const settings *s, tomos_prepared *prepared, tomos_backend *backend)
{
	const tomos_geometry *g = tomos_prepared_geometry(prepared);
	tomos_geometry *given = NULL;
	result found = {.certain = false};
	sweep w = {0};
	int code;
	DO(lib(tomos_geometry_views(&given, tomos_geometry_rows(g), tomos_geometry_columns(g),
		tomos_geometry_list(g), tomos_geometry_count(g))));
	DO(check_slices(s, g));
	if (s->center.sweep[0])
		DO(sweep_parse(s->center.sweep, tomos_geometry_columns(g), &w));
	DO(s->center.fit ? find_pose(prepared, backend, &found)
			 : find_axis(s, prepared, backend, &found));
	if (s->center.picture[0])
		DO(picture_draw(s, prepared, given, backend));
	if (s->center.sweep[0])
		DO(draw_sweep(s, prepared, backend, found.column, &w));
	if (s->center.save[0])
		DO(save_views(s, prepared, &found));
done:
	tomos_geometry_free(given);
	return code;
}

int cmd_center(const settings *s)
{
	return job_prepared(s, true, center);
}
