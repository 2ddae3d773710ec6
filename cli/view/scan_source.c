/* Scans: projections as line integrals where the file has flat fields, otherwise as they are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "source.h"

#define DEGREES 57.29577951308232
#define LEAST 1e-6 /* transmission of pixels that see no light */

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_volume(const view_source *s)
{
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	if (tomos_file_open(&file, s->path, &s->options) != TOMOS_OK)
		return false;
	bool volume =
		tomos_file_describe(file, &info) == TOMOS_OK && info.content != TOMOS_PROJECTIONS;
	tomos_file_close(file);
	return volume;
}

/* An option that only scans have was given, such as their geometry or flat fields. */
static bool is_described(const settings *given)
{
	uint64_t sources = given->given[GROUP_source];
	const group source = group_get(GROUP_source);
	for (int i = 0; i < source.count; i++) /* which files of any kind may need */
		if (strcmp(source.rows[i].name, "dataset") == 0 ||
			strcmp(source.rows[i].name, "raw") == 0)
			sources &= ~((uint64_t)1 << i);
	return sources || given->given[GROUP_scan] || given->given[GROUP_views] ||
	       given->given[GROUP_prep];
}

/* Whether the file is a scan, as `tomos info` decides; of files that tomos has written, those with
 * projections. */
static bool wanted(const view_source *s, const tomos_scan_info *i)
{
	if (strcmp(i->kind, "array") == 0)
		return false;
	if (strcmp(i->kind, "tomos") == 0)
		return i->has_geometry && !is_volume(s);
	return i->flats > 0 || i->darks > 0 || i->has_angles;
}

/* Those of the file, or those that options give; false: they are not known. */
static bool find_angles(const view_source *s, const tomos_scan_options *o)
{
	int64_t views = s->scan_info.views;
	if (s->scan_info.has_angles && !o->replace_angles)
		return tomos_scan_angles(s->scan, s->angles) == TOMOS_OK;
	for (int64_t i = 0; i < views; i++)
		s->angles[i] = o->angles_count == views
				       ? o->angles[i]
				       : o->start + o->arc * (double)i / (double)views;
	return o->angles_count == views || o->arc != 0;
}

static void take_angles(view_source *s, const tomos_scan_options *o)
{
	int64_t views = s->scan_info.views;
	s->angles = calloc((size_t)views, sizeof *s->angles);
	if (s->angles && !find_angles(s, o)) {
		free(s->angles);
		s->angles = NULL;
	}
	for (int64_t i = 0; s->angles && i < views; i++)
		s->angles[i] *= o->reverse ? -DEGREES : DEGREES;
}

static void take_axis(view_source *s)
{
	tomos_geometry *g = NULL;
	s->axis = 0.5 * (double)(s->scan_info.columns - 1);
	if (s->scan_info.has_geometry && tomos_scan_geometry(s->scan, &g, NULL) == TOMOS_OK)
		s->axis = axis_column(g);
	else if (isfinite(s->scan_info.axis) && s->scan_info.geometry[0])
		s->axis = s->scan_info.axis;
	tomos_geometry_free(g);
}

static void describe(view_source *s, const settings *given)
{
	tomos_scan_info *i = &s->scan_info;
	if (settings_given(given, GROUP_scan, "pixel"))
		i->pixel = i->pixel_height = given->scan.pixel;
	if (given->scan.pixel_height > 0)
		i->pixel_height = given->scan.pixel_height;
	s->content = "scan";
	snprintf(s->type, sizeof s->type, "%s", i->type);
	s->level_count = 1;
	s->levels[0] = (view_level){{i->views, i->rows, i->columns}, {1, 1, 1}};
	s->has_grid = i->pixel > 0;
	snprintf(s->unit, sizeof s->unit, "%s", s->has_grid ? "mm" : "");
	s->step[0] = 1;
	s->step[1] = i->pixel_height > 0 ? i->pixel_height : 1;
	s->step[2] = i->pixel > 0 ? i->pixel : 1;
	take_angles(s, &given->scan);
	take_axis(s);
}

int scan_try(view_source *s, const settings *given)
{
	tomos_scan *scan = NULL;
	tomos_scan_info info = {.bytes = sizeof info};
	bool described = is_described(given);
	if (!described && (given->file.raw[0] || given->file.dataset[0]))
		return DONE;
	tomos_status status = tomos_scan_open(&scan, s->path, &given->source);
	if (status != TOMOS_OK) /* it may be a file of another kind, which says what is wrong */
		return described ? lib(status) : DONE;
	status = tomos_scan_describe(scan, &info);
	if (status != TOMOS_OK || !(described || wanted(s, &info))) {
		tomos_scan_close(scan);
		return described ? lib(status) : DONE;
	}
	s->scan = scan;
	s->scan_info = info;
	describe(s, given);
	return DONE;
}

void scan_free(view_source *s)
{
	tomos_scan_close(s->scan);
	free(s->angles);
	free(s->bright);
	free(s->dark);
}

/* ---- flat and dark fields -------------------------------------------------------------------- */

enum { MOST_FRAMES = 8 }; /* averaged: enough for a picture, and soon read */

/* The mean of some frames, spread over all of them; *mean NULL: there are none. */
static tomos_status mean_frame(
	const view_source *s, tomos_frames which, int64_t count, float **mean)
{
	int64_t pixels = s->scan_info.rows * s->scan_info.columns;
	int64_t used = count < MOST_FRAMES ? count : MOST_FRAMES;
	const int64_t all[3] = {1, s->scan_info.rows, s->scan_info.columns}, ones[3] = {1, 1, 1};
	float *sum = used ? calloc((size_t)pixels, sizeof *sum) : NULL;
	float *frame = used ? malloc((size_t)pixels * sizeof *frame) : NULL;
	tomos_status status = !used || (sum && frame) ? TOMOS_OK : TOMOS_NO_MEMORY;
	for (int64_t i = 0; status == TOMOS_OK && i < used; i++) {
		const int64_t first[3] = {i * count / used, 0, 0};
		status = tomos_scan_read_box(s->scan, which, first, all, ones, frame);
		for (int64_t k = 0; status == TOMOS_OK && k < pixels; k++)
			sum[k] += frame[k] / (float)used;
	}
	free(frame);
	if (status != TOMOS_OK) {
		free(sum);
		sum = NULL;
	}
	*mean = sum;
	return status;
}

/* Fields that cannot be read are left out, but not those whose reading was cancelled: the next
 * request reads them. */
static tomos_status take_fields(view_source *s)
{
	tomos_status status = TOMOS_OK;
	if (s->looked || !s->scan_info.counts)
		return TOMOS_OK;
	if (!s->bright)
		status = mean_frame(s, TOMOS_FLATS, s->scan_info.flats, &s->bright);
	if (s->bright)
		status = mean_frame(s, TOMOS_DARKS, s->scan_info.darks, &s->dark);
	s->looked = status != TOMOS_CANCELLED;
	return s->looked ? TOMOS_OK : status;
}

/* Each sample on its own, so that it does not depend on the box it is in. */
static void to_integrals(const view_source *s, const view_request *r, float *data)
{
	for (int64_t i = 0; i < r->count[0] * r->count[1]; i++) {
		int64_t row = r->first[1] + i % r->count[1] * r->step[1];
		for (int64_t k = 0; k < r->count[2]; k++) {
			int64_t at = row * s->scan_info.columns + r->first[2] + k * r->step[2];
			float dark = s->dark ? s->dark[at] : 0, light = s->bright[at] - dark;
			float *value = data + i * r->count[2] + k;
			float through = (*value - dark) / light;
			*value = light > 0 ? -logf(fmaxf(through, (float)LEAST)) : NAN;
		}
	}
}

tomos_status scan_box(view_source *s, const view_request *r, float *data)
{
	pthread_mutex_lock(&s->scan_lock);
	tomos_status status = take_fields(s);
	if (status == TOMOS_OK)
		status = tomos_scan_read_box(
			s->scan, TOMOS_VIEWS, r->first, r->count, r->step, data);
	pthread_mutex_unlock(&s->scan_lock);
	if (status == TOMOS_OK && s->bright)
		to_integrals(s, r, data);
	return status;
}
