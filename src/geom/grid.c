/* Voxel grids: checks, centred grids, and grids derived from a scan. */
#include <string.h>
#include "geom/parts.h"

#define TURN 6.28318530717958647693

tomos_status tomos_grid_check(const tomos_grid *grid)
{
	int64_t count;
	if (!grid)
		return fail(TOMOS_BAD_VALUE, "there is no grid");
	TRY(shape_count(grid->n, &count));
	for (int i = 0; i < 3; i++) {
		char axis = "xyz"[i];
		if (!(fabs(grid->first[i]) <= LARGEST))
			return fail(TOMOS_BAD_VALUE,
				"the grid's first voxel is at %c = %g; it must be between %g and "
				"%g",
				axis, grid->first[i], -LARGEST, LARGEST);
		double step = fabs(grid->step[i]);
		if (!(step <= LARGEST && step >= 1 / LARGEST))
			return fail(TOMOS_BAD_VALUE,
				"the grid's step along %c is %g; its size must be between %g and "
				"%g",
				axis, grid->step[i], 1 / LARGEST, LARGEST);
	}
	return TOMOS_OK;
}

/* The default orientation: the y index runs downwards. */
static tomos_status grid_around(
	tomos_grid *grid, const int64_t n[3], const double voxel[3], const double centre[3])
{
	tomos_grid made;
	for (int i = 0; i < 3; i++) {
		made.n[i] = n[i];
		made.step[i] = i == 1 ? -voxel[i] : voxel[i];
		made.first[i] = centre[i] - 0.5 * (double)(n[i] - 1) * made.step[i];
		if (!(voxel[i] > 0))
			return fail(TOMOS_BAD_VALUE,
				"the voxel size along %c is %g; it must be greater than 0",
				"xyz"[i], voxel[i]);
	}
	TRY(tomos_grid_check(&made));
	*grid = made;
	return TOMOS_OK;
}

tomos_status tomos_grid_centred(tomos_grid *grid, int64_t nx, int64_t ny, int64_t nz, double voxel)
{
	return grid_around(grid, (int64_t[]){nx, ny, nz}, (double[]){voxel, voxel, voxel},
		(double[]){0, 0, 0});
}

/* `counts`: the numbers of values allowed, "1 or 3". */
static tomos_status check_count(
	const char *name, const void *list, int64_t count, const char *counts)
{
	if (count != 0 && (count < 0 || count > 3 || !strchr(counts, '0' + (int)count)))
		return fail(TOMOS_BAD_VALUE, "the grid's %s has %lld values; it takes %s", name,
			(long long)count, counts);
	if ((count != 0) != (list != NULL))
		return fail(TOMOS_BAD_VALUE, "the grid's %s has %lld values but %s", name,
			(long long)count, list ? "a list is given" : "no list is given");
	return TOMOS_OK;
}

/* Size of a pixel of the first view, scaled from the detector to the origin. */
static tomos_status pixel_at_origin(const tomos_geometry *scan, double pixel[3])
{
	const tomos_view *view = &scan->views[0];
	double normal[3], way[3], share = 1;
	if (view_has_source(view)) {
		cross3(normal, view->u, view->v);
		add3(way, view->det, -1, view->src);
		share = -dot3(view->src, normal) / dot3(way, normal);
	}
	if (!(share > 0))
		return fail(TOMOS_BAD_VALUE,
			"view 0: the origin is not in front of the source (%g, %g, %g), so the "
			"voxel "
			"size must be given",
			view->src[0], view->src[1], view->src[2]);
	pixel[0] = pixel[1] = share * norm3(view->u);
	pixel[2] = (view_fans(view) ? 1 : share) * norm3(view->v);
	return TOMOS_OK;
}

double view_axis_offset(const tomos_view *view)
{
	const double *u = view->u;
	double length = u[0] * u[0] + u[1] * u[1], x = -view->det[0], y = -view->det[1];
	if (view_has_source(view)) { /* from the source through the axis to the detector */
		double rx = -view->src[0], ry = -view->src[1], across = u[0] * ry - u[1] * rx;
		double t = (u[0] * (view->det[1] - view->src[1]) -
				   u[1] * (view->det[0] - view->src[0])) /
			   across;
		x = view->src[0] + t * rx - view->det[0];
		y = view->src[1] + t * ry - view->det[1];
	}
	return (x * u[0] + y * u[1]) / length;
}

bool offset_is_meant(double offset, int64_t columns)
{
	return fabs(offset) >= 0.05 * (double)(columns - 1);
}

enum { SECTORS = 36 }; /* of a turn */

/* Whether views look from all around the axis. */
static bool turns_fully(const tomos_geometry *scan)
{
	int sectors = (int)min64(SECTORS, scan->count / 4), seen = 0;
	bool sector[SECTORS] = {false};
	for (int64_t i = 0; i < scan->count && sectors > 2; i++) {
		const double *u = scan->views[i].u;
		double turn = atan2(u[1], u[0]) / TURN + 1;
		int at = (int)(turn * sectors) % sectors;
		seen += !sector[at];
		sector[at] = true;
	}
	return sectors > 2 && seen == sectors;
}

/* Columns that the field of view has: of a full turn with an offset detector (half acquisition),
 * those of the long side twice. */
static int64_t field_columns(const tomos_geometry *scan)
{
	double offset = view_axis_offset(&scan->views[0]);
	bool same = offset_is_meant(offset, scan->columns) &&
		    fabs(offset) < 0.5 * (double)scan->columns;
	for (int64_t i = 1; i < scan->count && same; i++)
		same = fabs(view_axis_offset(&scan->views[i]) - offset) < 1;
	if (!same || !turns_fully(scan))
		return scan->columns;
	return scan->columns + 2 * (int64_t)floor(fabs(offset) + 0.5);
}

/* Number of voxels that cover `pixels` pixels of the default size. */
static tomos_status cover(int64_t *n, int64_t pixels, double pixel, double voxel)
{
	double count = ceil((double)pixels * pixel / voxel - 1e-6);
	if (!(count < 0x1p62))
		return fail(TOMOS_BAD_VALUE, "a voxel size of %g is too small for a width of %g",
			voxel, (double)pixels * pixel);
	*n = count < 1 ? 1 : (int64_t)count;
	return TOMOS_OK;
}

/* Rays within slices: a slice whose centre is above the last row, or below the first, would be
 * interpolated between that row and nothing. */
static bool rays_level(const tomos_geometry *scan)
{
	for (int64_t i = 0; i < scan->count; i++)
		if (scan->views[i].src[3] == TOMOS_POINT ||
			fabs(scan->views[i].src[2]) > 1e-9 * norm3(scan->views[i].src))
			return false;
	return true;
}

static tomos_status cover_rows(int64_t *n, const tomos_geometry *scan, double pixel, double voxel)
{
	int64_t rows = *n;
	TRY(cover(n, rows, pixel, voxel));
	if (rays_level(scan))
		*n = min64(*n, (int64_t)floor((double)(rows - 1) * pixel / voxel + 1e-6) + 1);
	return TOMOS_OK;
}

/* The lowest and the highest source of a helix: point sources that move along z together with the
 * detector. Between them, every point of the axis is seen from both sides. */
static bool helix_range(const tomos_geometry *scan, double range[2])
{
	const tomos_view *first = &scan->views[0];
	double apart = first->det[2] - first->src[2];
	range[0] = HUGE_VAL, range[1] = -HUGE_VAL;
	for (int64_t i = 0; i < scan->count; i++) {
		const tomos_view *view = &scan->views[i];
		double near = 1e-6 * norm3(view->v);
		if (view->src[3] != TOMOS_POINT || fabs(view->det[2] - view->src[2] - apart) > near)
			return false;
		range[0] = fmin(range[0], view->src[2]);
		range[1] = fmax(range[1], view->src[2]);
	}
	return true;
}

/* A helix that moves further than the slices reach scans what lies between its ends. */
static tomos_status take_helix(const tomos_geometry *scan, const tomos_grid_options *o,
	const double voxel[3], int64_t *slices, double centre[3])
{
	double range[2];
	if (scan->rows == 1 || o->size_count == 3 || !helix_range(scan, range))
		return TOMOS_OK;
	double travel = range[1] - range[0];
	if (travel <= (double)*slices * voxel[2])
		return TOMOS_OK;
	centre[2] = o->centre_count ? centre[2] : 0.5 * (range[0] + range[1]);
	return o->size_count == 1 ? TOMOS_OK : cover(slices, 1, travel, voxel[2]);
}

static tomos_status take_size(int64_t n[3], const tomos_geometry *scan, const tomos_grid_options *o)
{
	for (int64_t i = 0; i < o->size_count; i++)
		if (o->size[i] < 1)
			return fail(TOMOS_BAD_VALUE, "size %lld: it must be 1 voxel or more",
				(long long)o->size[i]);
	for (int i = 0; i < 3; i++)
		if (o->size_count > 0)
			n[i] = o->size[i < o->size_count ? i : 0];
		else
			n[i] = i == 2 ? scan->rows : field_columns(scan);
	if ((o->size_count == 1 && scan->rows == 1) || o->size_count == 2)
		n[2] = scan->rows;
	return TOMOS_OK;
}

tomos_status tomos_grid_for(
	tomos_grid *grid, const tomos_geometry *scan, const tomos_grid_options *options)
{
	tomos_grid_options o = tomos_grid_defaults();
	int64_t n[3];
	double pixel[3] = {0}, voxel[3], centre[3] = {0, 0, 0};
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "there is no geometry to take a grid from");
	TRY(options_take(&o, options, "grid"));
	TRY(check_count("size", o.size, o.size_count, "1, 2 or 3"));
	TRY(check_count("voxel", o.voxel, o.voxel_count, "1 or 3"));
	TRY(check_count("centre", o.centre, o.centre_count, "3"));
	TRY(take_size(n, scan, &o));
	if (o.size_count == 0 || o.voxel_count == 0)
		TRY(pixel_at_origin(scan, pixel));
	for (int i = 0; i < 3; i++) {
		voxel[i] = o.voxel_count ? o.voxel[o.voxel_count == 3 ? i : 0] : pixel[i];
		if (o.size_count == 0 && voxel[i] > 0 && i < 2)
			TRY(cover(&n[i], n[i], pixel[i], voxel[i]));
		else if (o.size_count == 0 && voxel[i] > 0 && n[i] > 1)
			TRY(cover_rows(&n[i], scan, pixel[i], voxel[i]));
	}
	if (o.centre_count)
		memcpy(centre, o.centre, sizeof centre);
	TRY(take_helix(scan, &o, voxel, &n[2], centre));
	return grid_around(grid, n, voxel, centre);
}
