/* tomos center: where the rotation axis is, and pictures with the axis at several places. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

enum { ROWS = 16, TILE = 256, GAP = 4, LABEL = 14, MOST_TILES = 400 };
#define MOST_FLOATS ((int64_t)64 << 20) /* of the rows that are looked at */

typedef struct sweep {
	double from, to, step;
	int64_t count, across, wide, high; /* tiles, tiles in a line, dots of the sheet */
	int64_t side;                      /* of a tile */
	float *dots;
} sweep;

/* ---- which rows ----------------------------------------------------------------------------- */

static int choose_rows(const settings *s, const tomos_geometry *g, int64_t *first, int64_t *count)
{
	int64_t rows = tomos_geometry_rows(g), row = s->center.row;
	int64_t most = MOST_FLOATS / (tomos_geometry_count(g) * tomos_geometry_columns(g)) + 1;
	if (settings_given(s, GROUP_center, "row") && (row < 0 || row >= rows))
		return wrong_usage("--row: %lld is not between 0 and %lld", (long long)row,
			(long long)rows - 1);
	*count = rows < ROWS ? rows : ROWS;
	*count = row >= 0 ? 1 : *count < most ? *count : most;
	*first = row >= 0 ? row : (rows - *count) / 2;
	return DONE;
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

/* The middle row of all views, and their angles. */
typedef struct middle {
	tomos_array row; /* [view][1][column] */
	double *angles;
} middle;

/* A slice of the middle row, with as many pixels as a tile has. */
static int draw_tile(
	const middle *m, tomos_backend *backend, double axis, float *tile, int64_t side)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	int code;
	o.columns = m->row.shape[2];
	o.angles = m->angles, o.angles_count = m->row.shape[0];
	o.axis = &axis, o.axis_count = 1;
	tomos_array picture = tomos_array_of(tile, 1, side, side);
	DO(lib(tomos_geometry_make(&scan, &o)));
	DO(lib(tomos_grid_centred(&grid, side, side, 1, (double)o.columns / (double)side)));
	DO(lib(tomos_fbp(backend, &grid, scan, &m->row, &picture, NULL, progress_silent())));
done:
	tomos_geometry_free(scan);
	return code;
}

static int middle_read(tomos_prepared *prepared, int64_t row, middle *m)
{
	const tomos_geometry *g = tomos_prepared_geometry(prepared);
	const int64_t shape[3] = {tomos_geometry_count(g), 1, tomos_geometry_columns(g)};
	int code;
	DO(array_new(&m->row, shape, "a row of all views"));
	m->angles = calloc((size_t)shape[0], sizeof *m->angles);
	if (!m->angles)
		DO(failed("no memory for %lld angles", (long long)shape[0]));
	DO(lib(tomos_prepared_angles(prepared, m->angles)));
	DO(lib(tomos_prepared_read(prepared, row, 1, m->row.data, NULL, progress_silent())));
done:
	return code;
}

static void middle_free(middle *m)
{
	array_free(&m->row);
	free(m->angles);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* Black and white from the first tile, the same for all, so that they can be compared. */
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

static void place_tile(sweep *w, int64_t i, const float *tile, double low, double high)
{
	int64_t x = i % w->across * (w->side + GAP);
	int64_t y = i / w->across * (w->side + LABEL + GAP);
	char label[32];
	snprintf(label, sizeof label, "%.6g", w->from + (double)i * w->step);
	picture_text(w->dots, w->wide, w->high, x + 2, y + 2, label, 1);
	for (int64_t j = 0; j < w->side * w->side; j++)
		w->dots[(y + LABEL + j / w->side) * w->wide + x + j % w->side] =
			(float)(((double)tile[j] - low) / (high - low));
}

static int sweep_draw(const settings *s, const middle *m, tomos_backend *backend, sweep *w)
{
	double low = 0, high = 1;
	int code = DONE;
	float *tile = malloc((size_t)(w->side * w->side) * sizeof *tile);
	w->dots = calloc((size_t)(w->wide * w->high), sizeof *w->dots);
	if (!tile || !w->dots)
		DO(failed("no memory for a picture of %lld x %lld", (long long)w->wide,
			(long long)w->high));
	for (int64_t i = 0; i < w->count; i++) {
		double axis = w->from + (double)i * w->step;
		DO(draw_tile(m, backend, axis, tile, w->side));
		if (i == 0)
			DO(tile_range(tile, w->side * w->side, &low, &high));
		place_tile(w, i, tile, low, high);
		DO(progress_step("drawing", i + 1, w->count));
	}
	progress_clear();
	DO(lib(tomos_picture_write(s->center.sheet, w->dots, w->wide, w->high, 0, 1, &s->file)));
	say("wrote %s: %lld slices with the axis at %g to %g\n", s->center.sheet,
		(long long)w->count, w->from, w->from + (double)(w->count - 1) * w->step);
done:
	free(tile);
	free(w->dots);
	return code;
}

/* Finds the axis in some rows about the middle, or in the one that was named. */
static int find_axis(const settings *s, tomos_prepared *prepared, tomos_backend *backend)
{
	const tomos_geometry *scan = tomos_prepared_geometry(prepared);
	tomos_axis axis = {.bytes = sizeof axis};
	sweep w = {0};
	middle m = {.angles = NULL};
	int64_t first, count;
	int code;
	if (s->center.sweep[0])
		DO(sweep_parse(s->center.sweep, tomos_geometry_columns(scan), &w));
	DO(choose_rows(s, scan, &first, &count));
	DO(lib(tomos_prepared_axis(prepared, backend, first, count, &axis, progress_shown())));
	axis_say(&axis, tomos_geometry_columns(scan));
	if (message_quiet())
		printf("%.3f\n", axis.column);
	if (s->center.sweep[0]) {
		DO(middle_read(prepared, first + count / 2, &m));
		DO(sweep_draw(s, &m, backend, &w));
	}
done:
	middle_free(&m);
	return code;
}

int cmd_center(const settings *s)
{
	scan_job j = {.views = NULL};
	tomos_prepared *prepared = NULL;
	tomos_backend *backend = NULL;
	int code;
	DO(job_make(s, &j));
	j.job.axis_later = 1;
	DO(lib(tomos_backend_open(&backend, s->backend.backend)));
	DO(lib(tomos_prepared_open(&prepared, &j.job, progress_shown())));
	DO(find_axis(s, prepared, backend));
done:
	tomos_prepared_close(prepared);
	tomos_backend_close(backend);
	job_free(&j);
	return code;
}
