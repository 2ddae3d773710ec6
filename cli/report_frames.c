/* Pictures of the scan on the page of recon --report: frames, and a row before and after
 * preparation. They are read from the file again, for a limited time: what would take longer is
 * thinned out or left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "report.h"

/* SIDE: of a picture. FEW: rows and views that are read to find out how long that takes. COARSE:
 * rows that a frame needs to be of use. */
enum { SIDE = 400, FEW = 8, COARSE = 32, SAMPLES = 1 << 17 };

static double time_left(const shown_scan *t)
{
	return t->limit - t->spent;
}

/* -> the time it took; negative: it failed. */
static double read_box(shown_scan *t, tomos_frames which, const int64_t first[3],
	const int64_t count[3], const int64_t step[3], float *data)
{
	double begun = seconds();
	tomos_status status = tomos_scan_read_box(t->scan, which, first, count, step, data);
	double taken = seconds() - begun;
	t->spent += taken;
	return status == TOMOS_OK ? taken : -1;
}

bool sampled_range(const float *values, int64_t count, double *low, double *high)
{
	int64_t step = count / SAMPLES + 1, n = 0;
	float *some = malloc((size_t)(count / step + 1) * sizeof *some);
	for (int64_t i = 0; some && i < count; i += step)
		some[n++] = values[i];
	bool good = some && range_of(some, n, low, high) == DONE;
	free(some);
	return good;
}

/* Thin pictures are stretched, as a detector of two rows would be invisible. */
static plane frame_plane(const float *data, int64_t wide, int64_t high, double least, double most)
{
	plane p = {data, wide, high, wide, {1, 1}, ""};
	double ratio = (double)high / (double)wide;
	p.step[1] = ratio < least ? least / ratio : ratio > most ? most / ratio : 1;
	return p;
}

/* ---- frames ------------------------------------------------------------------------------- */

/* Every `step`-th row and column of a frame. */
typedef struct frame_part {
	int64_t step, rows, columns;
} frame_part;

static frame_part part_of(const shown_scan *t, int64_t step)
{
	return (frame_part){step, (t->info.rows - 1) / step + 1, (t->info.columns - 1) / step + 1};
}

static bool read_part(
	shown_scan *t, tomos_frames which, int64_t frame, const frame_part *part, float *data)
{
	const int64_t first[3] = {frame, 0, 0}, count[3] = {1, part->rows, part->columns},
		      step[3] = {1, part->step, part->step};
	return read_box(t, which, first, count, step, data) >= 0;
}

/* Time to read some rows, all over a view; negative: it failed. */
static double rows_seconds(shown_scan *t, int64_t view, int64_t rows, float *data)
{
	const int64_t first[3] = {view, 0, 0}, count[3] = {1, rows, t->info.columns},
		      step[3] = {1, t->info.rows / rows, 1};
	return read_box(t, TOMOS_VIEWS, first, count, step, data);
}

/* The finest part of a frame that is read within `limit`; false: none, *needed is the time of the
 * coarsest. Two views are read for that, one row and FEW: files in chunks of whole frames take as
 * long for one row as for all. */
static bool choose_part(shown_scan *t, double limit, frame_part *part, double *needed)
{
	int64_t few = t->info.rows < FEW ? t->info.rows : FEW, middle = t->info.views / 2;
	float *data = malloc((size_t)(few * t->info.columns) * sizeof *data);
	double one = data ? rows_seconds(t, middle, 1, data) : -1;
	double all = one >= 0 ? rows_seconds(t, middle > 0 ? middle - 1 : 0, few, data) : -1;
	free(data);
	*needed = 0;
	if (all < 0)
		return false;
	double row = few > 1 ? fmax(all - one, 0) / (double)(few - 1) : 0;
	for (int64_t step = 1; step == 1 || t->info.rows / step >= COARSE; step++) {
		*part = part_of(t, step);
		*needed = one + row * (double)(part->rows - 1);
		if (*needed <= limit)
			return true;
	}
	return false;
}

static void add_frame(
	sheet *all, const float *data, const frame_part *part, const char *name, int64_t number)
{
	plane *one = &all->planes[all->count++];
	*one = frame_plane(data, part->columns, part->rows, 0.15, 2);
	snprintf(one->title, sizeof one->title, "%s %lld", name, (long long)number);
}

/* How the picture differs from the frame. */
static void note_part(page *p, const frame_part *part, const plane *shown)
{
	size_t used = 0;
	if (shown->step[1] != 1)
		used = (size_t)snprintf(p->frames_note, sizeof p->frames_note,
			" The detector is drawn %s than it is.",
			shown->step[1] > 1 ? "higher" : "lower");
	if (part->step > 1)
		snprintf(p->frames_note + used, sizeof p->frames_note - used,
			" Of the rows and columns, one in %lld is shown.", (long long)part->step);
}

/* Flat field and a view, with the same black and white. */
static void draw_frames(page *p, shown_scan *t)
{
	frame_part part;
	int64_t frames = t->info.flats > 0 ? 2 : 1, middle = t->info.views / 2;
	double needed, limit = 0.5 * time_left(t) / (double)frames;
	sheet all = {.length = "", .unit = t->info.counts ? "counts" : "", .side = SIDE};
	if (!choose_part(t, limit, &part, &needed)) {
		if (needed > 0) /* otherwise they cannot be read */
			snprintf(p->frames_missing, sizeof p->frames_missing,
				"The frames are left out: to read one again would take %.2g s.",
				needed);
		return;
	}
	int64_t size = part.rows * part.columns;
	float *data = malloc((size_t)(frames * size) * sizeof *data), *at = data;
	if (data && frames == 2 && read_part(t, TOMOS_FLATS, 0, &part, at)) {
		add_frame(&all, at, &part, "flat field", 0);
		at += size;
	}
	if (data && read_part(t, TOMOS_VIEWS, middle, &part, at)) {
		add_frame(&all, at, &part, "view", middle);
		at += size;
	}
	if (all.count > 0)
		note_part(p, &part, &all.planes[0]);
	p->frame_count = all.count;
	if (at > data && sampled_range(data, at - data, &all.low, &all.high))
		p->frames = sheet_svg(&all);
	free(data);
}

/* ---- sinograms ---------------------------------------------------------------------------- */

static char *sinogram_svg(
	const float *data, int64_t wide, int64_t high, const char *title, const char *unit)
{
	sheet one = {.count = 1, .length = "", .unit = unit, .side = SIDE};
	one.planes[0] = frame_plane(data, wide, high, 0.5, 1);
	snprintf(one.planes[0].title, sizeof one.planes[0].title, "%s", title);
	return sampled_range(data, wide * high, &one.low, &one.high) ? sheet_svg(&one) : NULL;
}

/* The row in `count` views from `first` on, `step` apart. */
static double read_views(shown_scan *t, int64_t first, int64_t count, int64_t step, float *data)
{
	const int64_t begin[3] = {first, t->look->scan_row, 0},
		      counts[3] = {count, 1, t->info.columns}, steps[3] = {step, 1, 1};
	return read_box(t, TOMOS_VIEWS, begin, counts, steps, data);
}

/* Time to read the row in all views, from one of them, and where that is soon done, from a few;
 * negative: it failed. */
static double row_seconds(shown_scan *t, float *data)
{
	int64_t views = t->info.views, count = 1;
	double taken = read_views(t, views / 2, 1, 1, data);
	if (taken >= 0 && views > FEW && FEW * taken < 0.25 * time_left(t)) {
		count = FEW;
		taken = read_views(t, 0, count, 1, data);
	}
	return taken * (double)views / (double)count;
}

static void draw_before(page *p, shown_scan *t, double row, float *data)
{
	int64_t views = t->info.views;
	double limit = 0.5 * time_left(t), step = row <= limit ? 1 : ceil(row / limit);
	char title[64];
	if (!(limit > 0 && step < (double)views))
		return;
	int64_t every = (int64_t)step, count = (views - 1) / every + 1;
	if (read_views(t, 0, count, every, data) < 0)
		return;
	snprintf(title, sizeof title, "as measured, row %lld", (long long)t->look->scan_row);
	if (every > 1)
		snprintf(p->before_note, sizeof p->before_note,
			" Of the views, one in %lld is shown.", (long long)every);
	p->before =
		sinogram_svg(data, t->info.columns, count, title, t->info.counts ? "counts" : "");
}

static void draw_after(page *p, const shown_scan *t, double row)
{
	const tomos_geometry *g = tomos_prepared_geometry(t->look->prepared);
	int64_t views = tomos_geometry_count(g), columns = tomos_geometry_columns(g);
	tomos_reach reach = {.bytes = sizeof reach};
	tomos_status status = tomos_prep_reach(&t->s->prep, &reach);
	double rows = status == TOMOS_OK && reach.all_rows ? (double)t->info.rows
							   : 2 * (double)reach.rows + 1;
	if (!(row * rows <= time_left(t))) {
		snprintf(p->after_missing, sizeof p->after_missing,
			"The prepared sinogram is left out: to read %g row%s again would take "
			"%.2g s.",
			rows, rows == 1 ? "" : "s", row * rows);
		return;
	}
	float *data = malloc((size_t)(views * columns) * sizeof *data);
	if (data && tomos_prepared_read(t->look->prepared, t->look->row, 1, data, NULL, NULL) ==
			    TOMOS_OK)
		p->after = sinogram_svg(data, columns, views, "prepared", "");
	free(data);
}

static void draw_sinograms(page *p, shown_scan *t)
{
	float *data = malloc((size_t)(t->info.views * t->info.columns) * sizeof *data);
	double row = data ? row_seconds(t, data) : -1;
	if (row >= 0) {
		draw_before(p, t, row, data);
		draw_after(p, t, row);
	}
	free(data);
}

void scan_pictures(page *p, shown_scan *t)
{
	draw_frames(p, t);
	draw_sinograms(p, t);
}
