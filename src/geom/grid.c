/* Voxel grids: checks, centred grids, and grids derived from a scan. */
#include <string.h>
#include "geom/parts.h"

#define OFFSET 0.75 /* the shorter side of an offset detector, relative to the longer one */

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

/* The column that the z axis projects to, along the central ray. */
static double axis_column(const tomos_geometry *scan, const tomos_view *view)
{
	double normal[3], way[3], foot[3], point = view_has_source(view) ? 1 : 0;
	const double ray[3] = {point > 0 ? -view->src[0] : view->src[0],
		point > 0 ? -view->src[1] : view->src[1], 0};
	const double start[3] = {point * view->src[0], point * view->src[1], point * view->src[2]};
	cross3(normal, view->u, view->v);
	add3(way, start, -1, view->det);
	add3(foot, way, -dot3(way, normal) / dot3(ray, normal), ray);
	return 0.5 * (double)(scan->columns - 1) + dot3(foot, view->u) / dot3(view->u, view->u);
}

/* Views all around the z axis. */
static bool is_full_turn(const tomos_geometry *scan)
{
	enum { SECTORS = 24 };
	bool seen[SECTORS] = {false};
	int64_t count = 0;
	for (int64_t i = 0; i < scan->count; i++) {
		double turn = atan2(scan->views[i].src[1], scan->views[i].src[0]) / (2 * M_PI);
		seen[min64((int64_t)((turn + 0.5) * SECTORS), SECTORS - 1)] = true;
	}
	for (int k = 0; k < SECTORS; k++)
		count += seen[k];
	return count == SECTORS;
}

/* Columns of a detector in whose middle the axis would be: twice its wider side where it is offset
 * and a full turn makes up for the other one. */
static int64_t field_columns(const tomos_geometry *scan)
{
	double last = (double)(scan->columns - 1), left = HUGE_VAL, right = HUGE_VAL;
	for (int64_t i = 0; i < scan->count; i++) {
		double axis = axis_column(scan, &scan->views[i]);
		left = fmin(left, axis);
		right = fmin(right, last - axis);
	}
	bool offset = fmin(left, right) >= 0 && fmin(left, right) < OFFSET * fmax(left, right);
	return offset && is_full_turn(scan) ? 2 * (int64_t)ceil(fmax(left, right) + 0.5)
					    : scan->columns;
}

static tomos_status take_size(int64_t n[3], const tomos_geometry *scan, const tomos_grid_options *o)
{
	int64_t columns = o->size_count == 0 ? field_columns(scan) : 0;
	for (int64_t i = 0; i < o->size_count; i++)
		if (o->size[i] < 1)
			return fail(TOMOS_BAD_VALUE, "size %lld: it must be 1 voxel or more",
				(long long)o->size[i]);
	for (int i = 0; i < 3; i++)
		if (o->size_count > 0)
			n[i] = o->size[i < o->size_count ? i : 0];
		else
			n[i] = i == 2 ? scan->rows : columns;
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
