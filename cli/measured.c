/* Scans as measured, read and prepared for the commands that look at them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

#define DEGREES (180 / 3.14159265358979323846)
#define SAME_ANGLE 1e-6 /* radians */

static int list_new(double **list, int64_t count)
{
	*list = calloc((size_t)count, sizeof **list);
	return *list ? DONE : failed("no memory for %lld numbers", (long long)count);
}

/* Of a geometry of its own: the angle of parallel rays (sin t, -cos t, 0). */
static int angles_of_geometry(measured *m)
{
	tomos_geometry *scan = NULL;
	int code = lib(tomos_scan_geometry(m->scan, &scan, NULL));
	if (code != DONE)
		return code;
	const tomos_view *views = tomos_geometry_list(scan);
	for (int64_t i = 0; i < m->info.views; i++) {
		m->angles[i] = atan2(views[i].src[0], -views[i].src[1]);
		m->point_source |= views[i].src[3] != 0;
	}
	tomos_geometry_free(scan);
	return DONE;
}

/* The scan says its angles and --angles others. */
static int reject_angles(const settings *s, const double *own, const measured *m)
{
	const double *given = s->scan.angles;
	int64_t views = m->info.views, same = 0;
	while (same < views && fabs(own[same] - given[same]) <= SAME_ANGLE)
		same++;
	if (same == views)
		return DONE;
	return wrong_usage(
		"'%s' has angles of its own, %g to %g degrees, and --angles says others; "
		"leave that out, or give --replace-angles to use it instead",
		s->operands[0], own[0] * DEGREES, own[views - 1] * DEGREES);
}

static int check_angles(const settings *s, measured *m)
{
	const tomos_scan_options *o = &s->scan;
	double *own = NULL;
	int code = DONE;
	if (o->angles_count > 0 && o->angles_count != m->info.views)
		return wrong_usage("--angles: there are %lld, for %lld views",
			(long long)o->angles_count, (long long)m->info.views);
	if (o->replace_angles && !(m->info.has_angles && o->angles_count > 0))
		return wrong_usage("--replace-angles has no effect without %s",
			o->angles_count ? "a scan that has angles" : "--angles");
	if (!m->info.has_angles || o->angles_count == 0 || o->replace_angles)
		return DONE;
	DO(list_new(&own, m->info.views));
	DO(lib(tomos_scan_angles(m->scan, own)));
	DO(reject_angles(s, own, m));
done:
	free(own);
	return code;
}

static int take_angles(const settings *s, measured *m)
{
	const tomos_scan_options *o = &s->scan;
	int code = check_angles(s, m);
	if (code != DONE)
		return code;
	if (o->angles_count == 0 && !m->info.has_angles && !m->info.has_geometry)
		return DONE;
	DO(list_new(&m->angles, m->info.views));
	if (o->angles_count > 0)
		memcpy(m->angles, o->angles, (size_t)m->info.views * sizeof *m->angles);
	else if (m->info.has_geometry)
		DO(angles_of_geometry(m));
	else
		DO(lib(tomos_scan_angles(m->scan, m->angles)));
done:
	return code;
}

/* Lists per view and lengths that the file has and the command line has not. */
static int take_details(const settings *s, measured *m)
{
	const tomos_scan_info *i = &m->info;
	tomos_prep_options *o = &m->prep;
	int code = DONE;
	*o = s->prep;
	bool phase = strcmp(o->phase, "none") != 0; /* nothing else needs these */
	o->pixel = o->pixel > 0 ? o->pixel : i->pixel;
	o->distance = !phase || o->distance > 0 ? o->distance : i->distance;
	o->energy = !phase || o->energy > 0 ? o->energy : i->energy;
	if (!i->counts && strcmp(o->quantity, "auto") == 0)
		o->quantity = "integrals";
	if (i->has_places && i->flats > 0) {
		DO(list_new(&m->places, i->flats));
		DO(lib(tomos_scan_places(m->scan, TOMOS_FLATS, m->places)));
	}
	if (i->has_shifts && o->shift_x_count == 0 && o->shift_y_count == 0) {
		DO(list_new(&m->shift_x, i->views));
		DO(list_new(&m->shift_y, i->views));
		DO(lib(tomos_scan_shifts(m->scan, m->shift_x, m->shift_y)));
		o->shift_x = m->shift_x, o->shift_x_count = i->views;
		o->shift_y = m->shift_y, o->shift_y_count = i->views;
	}
done:
	return code;
}

/* A pixel may be meant for phase retrieval. */
int scan_options_check(const settings *s, const tomos_scan_info *info)
{
	bool phase = strcmp(s->prep.phase, "none") != 0;
	char why[512] = "";
	int code = DONE;
	if (s->views.views_file[0])
		snprintf(why, sizeof why, "the views are those of '%.400s'", s->views.views_file);
	else if (info->has_geometry)
		snprintf(why, sizeof why, "'%.400s' has a geometry of its own", s->operands[0]);
	if (why[0])
		DO(settings_contradict(s, GROUP_scan, phase ? GROUP_prep : -1, why));
	else if (settings_given(s, GROUP_scan, "axis"))
		snprintf(why, sizeof why, "--axis says where the axis is");
	else if (strcmp(s->scan.geometry, "parallel") != 0)
		snprintf(why, sizeof why, "the axis of a %s scan is not searched for",
			s->scan.geometry);
	if (why[0])
		DO(settings_contradict(s, GROUP_axis, -1, why));
	DO(needs_scan(s, info));
done:
	return code;
}

int measured_open(const settings *s, const char *path, measured *m)
{
	int code;
	DO(lib(tomos_scan_open(&m->scan, path, &s->source)));
	DO(lib(tomos_scan_describe(m->scan, &m->info)));
	DO(needs_scan(s, &m->info));
	DO(take_angles(s, m));
	DO(take_details(s, m));
done:
	return code;
}

static int read_frames(measured *m, tomos_frames which, const char *stage, int64_t count,
	int64_t row, int64_t rows, tomos_array *array)
{
	const int64_t shape[3] = {count, rows, m->info.columns};
	int64_t step = ((int64_t)4 << 20) / (rows * m->info.columns) + 1;
	int code;
	if (count == 0)
		return DONE;
	DO(array_new(array, shape, stage));
	for (int64_t first = 0; first < count; first += step) {
		int64_t some = count - first < step ? count - first : step;
		DO(lib(tomos_scan_read(m->scan, which, first, some, row, rows,
			array->data + first * array->stride[0])));
		DO(progress_step(stage, first + some, count));
	}
done:
	return code;
}

int measured_read(measured *m, int64_t row, int64_t rows)
{
	const tomos_scan_info *i = &m->info;
	int code;
	DO(read_frames(m, TOMOS_VIEWS, "reading views", i->views, row, rows, &m->data));
	DO(read_frames(m, TOMOS_FLATS, "reading flats", i->flats, row, rows, &m->flats));
	DO(read_frames(m, TOMOS_DARKS, "reading darks", i->darks, row, rows, &m->darks));
	m->fields = (tomos_fields){.flats = i->flats ? &m->flats : NULL,
		.darks = i->darks ? &m->darks : NULL,
		.flat_views = m->places};
done:
	return code;
}

static void say_report(const tomos_prep_report *r)
{
	const struct {
		int64_t count;
		const char *what;
	} list[] = {{r->repaired, "values without light or not finite, taken from beside them"},
		{r->raised, "values below --floor, raised to it"},
		{r->zingers, "zingers replaced by medians"},
		{r->stripes, "columns of sinograms repaired or levelled"},
		{r->views, "bad views interpolated or left out"}};
	for (int i = 0; i < COUNT(list); i++)
		if (list[i].count > 0)
			say("%lld %s\n", (long long)list[i].count, list[i].what);
}

int measured_prepare(measured *m, const tomos_progress *progress)
{
	tomos_prep_report report = {0};
	tomos_array prepared = {0};
	int64_t shape[3];
	int code;
	DO(lib(tomos_prep_shape(&m->prep, m->data.shape, shape)));
	bool same = memcmp(shape, m->data.shape, sizeof shape) == 0;
	if (!same)
		DO(array_new(&prepared, shape, "the line integrals"));
	DO(lib(tomos_prepare(
		&m->data, &m->fields, &m->prep, same ? &m->data : &prepared, &report, progress)));
	progress_clear();
	if (report.repaired >= m->data.shape[0] * m->data.shape[1] * m->data.shape[2])
		DO(failed("no value of the scan is finite and has light, a flat above the dark"));
	say_report(&report);
	if (!same) {
		array_free(&m->data);
		m->data = prepared;
		prepared.data = NULL;
	}
done:
	array_free(&prepared);
	return code;
}

void measured_close(measured *m)
{
	array_free(&m->data);
	array_free(&m->flats);
	array_free(&m->darks);
	free(m->angles);
	free(m->places);
	free(m->shift_x);
	free(m->shift_y);
	tomos_scan_close(m->scan);
}

static void say_opinion(const char *name, double column)
{
	if (!isnan(column))
		say("  %-10s %.3f\n", name, column);
}

int measured_axis(const settings *s, const measured *m, tomos_backend *backend, tomos_axis *axis)
{
	int code;
	if (m->point_source)
		return failed("'%s' has point sources; the axis is found from parallel rays only",
			s->operands[0]);
	if (!m->angles)
		return failed(
			"'%s' does not say its angles; give them with --angles", s->operands[0]);
	DO(lib(tomos_axis_find(axis, backend, &m->data, m->angles, &s->axis, progress_silent())));
	say("axis at column %.2f of %lld, ", axis->column, (long long)m->data.shape[2]);
	if (!isnan(axis->error))
		say("standard error %.2g columns, ", axis->error);
	say("confidence %.2f%s\n", axis->confidence, axis->half ? " (half acquisition)" : "");
	say_opinion("pairs", axis->pairs);
	say_opinion("vo", axis->vo);
	say_opinion("sharpness", axis->sharpness);
	if (axis->at_edge)
		note("warning: the axis lies at the end of the range %g to %g, and may lie beyond; "
		     "set --axis-range\n",
			axis->low, axis->high);
	else if (axis->confidence < 0.1)
		note("warning: the axis is not sure; look at it with tomos center --sweep\n");
done:
	return code;
}
