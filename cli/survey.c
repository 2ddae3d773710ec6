/* Makes the grids and scans of survey.def. */
#include "survey.h"
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define DEGREE (3.14159265358979323846 / 180)
#define LEAST_SCALED 16 /* sizes up to this are not scaled */

enum { RANDOM_ANGLES = 1, RANDOM_DIRECTIONS = 2 };

#define SURVEY(name, family, geometry, nx, ny, nz, views, rows, columns, ...) \
	{name, family, geometry, {nx, ny, nz}, views, rows, columns, __VA_ARGS__},
static const survey_row list[] = {
#include "survey.def"
};
#undef SURVEY

const survey_row *survey_list(int *count)
{
	*count = COUNT(list);
	return list;
}

const char *survey_names(void)
{
#define SURVEY(name, ...) "|" name
	static const char names[] =
#include "survey.def"
		;
#undef SURVEY
	return names + 1;
}

static int64_t scaled(int64_t size, double scale)
{
	if (size <= LEAST_SCALED)
		return size;
	int64_t near = llround((double)size * scale);
	near += size % 2 == 1 && near % 2 == 0;
	return near > LEAST_SCALED ? near : LEAST_SCALED + size % 2;
}

/* Between -1 and 1. */
static double noise(uint32_t *state)
{
	*state = *state * 1664525U + 1013904223U;
	return (double)(*state >> 8) * 0x1p-23 - 1;
}

/* Rotates a about a coordinate axis. */
static void rotate(double a[3], int about, double degrees)
{
	int i = (about + 1) % 3, j = (about + 2) % 3;
	double s = sin(degrees * DEGREE), c = cos(degrees * DEGREE), x = a[i];
	a[i] = c * x - s * a[j];
	a[j] = s * x + c * a[j];
}

static void rotate_view(tomos_view *view, int about, double degrees)
{
	rotate(view->src, about, degrees);
	rotate(view->det, about, degrees);
	rotate(view->u, about, degrees);
	rotate(view->v, about, degrees);
}

/* Like the sag and vibration of an arm: half a percent of the detector per degree. */
static void wobble_view(tomos_view *view, double degrees, double width, uint32_t *state)
{
	for (int a = 0; a < 3; a++) {
		double angle = degrees * noise(state);
		rotate(view->u, a, angle);
		rotate(view->v, a, angle);
		view->src[a] += 0.005 * degrees * width * noise(state);
		view->det[a] += 0.005 * degrees * width * noise(state);
	}
}

static void change_view(const survey_row *row, int64_t i, int64_t columns, int64_t views,
	tomos_view *view, uint32_t *state)
{
	double width = (double)columns;
	if (views > 1)
		view->src[0] += row->travel * width * ((double)i / (double)(views - 1) - 0.5);
	if (row->wobble > 0)
		wobble_view(view, row->wobble, width, state);
	for (int a = 0; a < 3 && row->random == RANDOM_DIRECTIONS; a++)
		rotate_view(view, a, 180 * noise(state));
	if (row->gantry != 0)
		rotate_view(view, 0, row->gantry);
}

/* Replaces the scan by one with changed views. */
static tomos_status change_views(const survey_row *row, tomos_geometry **scan)
{
	int64_t count = tomos_geometry_count(*scan), columns = tomos_geometry_columns(*scan);
	tomos_view *views = malloc((size_t)count * sizeof *views);
	tomos_geometry *made = *scan;
	uint32_t state = 7;
	if (!views)
		return TOMOS_NO_MEMORY;
	memcpy(views, tomos_geometry_list(made), (size_t)count * sizeof *views);
	for (int64_t i = 0; i < count; i++)
		change_view(row, i, columns, count, &views[i], &state);
	*scan = NULL;
	tomos_status status =
		tomos_geometry_views(scan, tomos_geometry_rows(made), columns, views, count);
	tomos_geometry_free(made);
	free(views);
	return status;
}

static double *special_angles(const survey_row *row, int64_t views)
{
	double *angles = malloc((size_t)views * sizeof *angles);
	uint32_t state = 5;
	for (int64_t i = 0; i < views && angles; i++)
		angles[i] = row->random == RANDOM_ANGLES ? 180 * DEGREE * noise(&state) : 0;
	return angles;
}

/* The pixel is 1 at the axis. */
static tomos_status make_scan(const survey_row *row, double scale, tomos_geometry **scan)
{
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = row->geometry;
	o.rows = scaled(row->rows, scale);
	o.columns = scaled(row->columns, scale);
	o.views = scaled(row->views, scale);
	const double width = (double)o.columns, height = (double)o.rows;
	const double source[2] = {row->source * width, row->source * row->magnification * width};
	const double axis = 0.5 * (width - 1) + row->axis * width;
	const double axis_row = 0.5 * (height - 1) + row->axis_row * height;
	bool point = row->source > 0, listed = row->travel > 0 || row->random == RANDOM_ANGLES;
	double *angles = listed ? special_angles(row, o.views) : NULL;
	if (listed && !angles)
		return TOMOS_NO_MEMORY;
	o.pixel = point ? row->magnification : 1;
	o.pixel_height = row->pixel_height * o.pixel;
	o.source_axis = point ? &source[0] : NULL;
	o.source_detector = point ? &source[1] : NULL;
	o.source_axis_count = o.source_detector_count = point;
	o.axis = row->axis != 0 ? &axis : NULL;
	o.axis_count = row->axis != 0;
	o.axis_row = row->axis_row != 0 ? &axis_row : NULL;
	o.axis_row_count = row->axis_row != 0;
	o.angles = angles;
	o.angles_count = listed ? o.views : 0;
	o.arc = row->arc * DEGREE;
	o.roll = row->roll * DEGREE;
	o.slant = row->slant * DEGREE;
	o.swivel = row->swivel * DEGREE;
	o.tilt = row->tilt * DEGREE;
	o.pitch = row->pitch * width;
	tomos_status status = tomos_geometry_make(scan, &o);
	free(angles);
	return status;
}

tomos_status survey_make(
	const survey_row *row, double scale, tomos_grid *grid, tomos_geometry **scan)
{
	tomos_status status = tomos_grid_centred(grid, scaled(row->n[0], scale),
		scaled(row->n[1], scale), scaled(row->n[2], scale), 1);
	*scan = NULL;
	for (int a = 0; a < 3 && status == TOMOS_OK; a++) {
		double step = row->voxel[a] > 0 ? row->voxel[a] : 1;
		grid->step[a] *= step;
		grid->first[a] *= step;
		grid->first[a] += row->centre[a] * (double)grid->n[a] * step;
	}
	if (status == TOMOS_OK)
		status = make_scan(row, scale, scan);
	bool changed = row->gantry != 0 || row->wobble > 0 || row->travel > 0 ||
		       row->random == RANDOM_DIRECTIONS;
	if (status == TOMOS_OK && changed)
		status = change_views(row, scan);
	return status;
}
