/* Which family the rays of every kind of scan belong to, and that each family ends at the
 * tolerance. */
#include "geom/rays.h"
#include "geom/check.h"

enum {
	LEVEL = RAYS_LEVEL,
	SLICE = RAYS_IN_SLICE,
	SHEET = RAYS_IN_SHEET,
	UPRIGHT = RAYS_UPRIGHT,
	ALL = LEVEL | SLICE | SHEET | UPRIGHT
};

typedef struct {
	const char *what, *geometry;
	int64_t rows, slices; /* slices: of the grid */
	int families, source, planar, half, quarter;
	double roll, slant, swivel, tilt, pitch;
	double height; /* of a detector row; 0: that of a voxel */
	double row;    /* of the axis, from the middle */
	int64_t axis;  /* exchanged with z */
	double far;    /* the detector of parallel rays */
	int rounded;   /* to float: 1 the views, 2 with a grid that is not */
	double arc;    /* 0: the kind's own */
	int64_t views; /* 0: 8 */
} Row;

static const Row table[] = {
	{"parallel", "parallel", 16, 16, ALL, TOMOS_PARALLEL, .row = 0},
	{"parallel, one slice", "parallel", 1, 1, ALL, TOMOS_PARALLEL, .planar = 1},
	{"parallel, one row above a slice", "parallel", 1, 1, LEVEL | SHEET | UPRIGHT,
		TOMOS_PARALLEL, .row = 0.25},
	{"parallel, one slice of several rows", "parallel", 5, 1, ALL, TOMOS_PARALLEL, .row = 0},
	{"parallel, half a row off", "parallel", 16, 16, LEVEL | SHEET | UPRIGHT, TOMOS_PARALLEL,
		.row = 0.5},
	{"parallel, a whole row off", "parallel", 16, 16, ALL, TOMOS_PARALLEL, .row = 3},
	{"parallel, rows of another height", "parallel", 16, 16, LEVEL | SHEET | UPRIGHT,
		TOMOS_PARALLEL, .height = 1.2},
	{"parallel, upside down", "parallel", 16, 16, ALL, TOMOS_PARALLEL, .height = -1},
	{"parallel, rolled", "parallel", 16, 16, 0, TOMOS_PARALLEL, .roll = 0.01},
	{"parallel, slanted", "parallel", 16, 16, LEVEL | SHEET, TOMOS_PARALLEL, .slant = 0.01},
	{"parallel, swivelled", "parallel", 16, 16, ALL, TOMOS_PARALLEL, .swivel = 0.1},
	{"parallel, far detector", "parallel", 16, 16, ALL, TOMOS_PARALLEL, .far = 1e6},
	{"parallel across y", "parallel", 16, 16, SLICE, TOMOS_PARALLEL, .axis = 1},
	{"parallel across x", "parallel", 16, 16, SLICE, TOMOS_PARALLEL, .axis = 0},
	{"parallel, rounded to float", "parallel", 16, 16, ALL, TOMOS_PARALLEL, .rounded = 1},
	{"parallel, rounded to float beside a grid that is not", "parallel", 2000, 2000,
		LEVEL | SHEET | UPRIGHT, TOMOS_PARALLEL, .rounded = 2},
	{"fan", "fan", 1, 1, ALL, TOMOS_POINT, .planar = 1, .half = 1, .quarter = 3},
	{"fan above a slice", "fan", 1, 1, SHEET | UPRIGHT, TOMOS_POINT, .row = 0.25, .half = 1,
		.quarter = 3},
	{"fans", "fan", 16, 16, ALL, TOMOS_FAN_PER_ROW, .row = 0},
	{"fans, half a row off", "fan", 16, 16, LEVEL | SHEET | UPRIGHT, TOMOS_FAN_PER_ROW,
		.row = 0.5},
	{"fans, rows of another height", "fan", 16, 16, LEVEL | SHEET | UPRIGHT, TOMOS_FAN_PER_ROW,
		.height = 1.2},
	{"fans, rounded to float", "fan", 16, 16, ALL, TOMOS_FAN_PER_ROW, .rounded = 1},
	{"cone", "cone", 16, 16, SHEET | UPRIGHT, TOMOS_POINT, .half = 1, .quarter = 3},
	{"cone, clockwise", "cone", 16, 16, SHEET | UPRIGHT, TOMOS_POINT, .half = 1, .quarter = 1,
		.arc = -2 * PI},
	{"cone, views in pairs", "cone", 16, 16, SHEET | UPRIGHT, TOMOS_POINT, .half = 1,
		.views = 6},
	{"cone, odd number of views", "cone", 16, 16, SHEET | UPRIGHT, TOMOS_POINT, .views = 7},
	{"cone, part of a circle", "cone", 16, 16, SHEET | UPRIGHT, TOMOS_POINT, .arc = 4},
	{"cone, rolled", "cone", 16, 16, 0, TOMOS_POINT, .roll = 0.01, .half = 1, .quarter = 3},
	{"cone, slanted", "cone", 16, 16, 0, TOMOS_POINT, .slant = 0.01, .half = 1, .quarter = 3},
	{"cone, swivelled", "cone", 16, 16, SHEET | UPRIGHT, TOMOS_POINT, .swivel = 0.1, .half = 1,
		.quarter = 3},
	{"cone, rounded to float", "cone", 16, 16, SHEET | UPRIGHT, TOMOS_POINT, .rounded = 1,
		.half = 1, .quarter = 3},
	{"laminography", "laminography", 16, 16, SHEET, TOMOS_PARALLEL, .tilt = 0.3},
	{"laminography on a full circle", "laminography", 16, 16, SHEET, TOMOS_PARALLEL,
		.tilt = 0.3, .half = 1, .quarter = 3, .arc = 2 * PI},
	{"laminography, rolled", "laminography", 16, 16, 0, TOMOS_PARALLEL, .tilt = 0.3,
		.roll = 0.01},
	{"helix", "helix", 16, 16, SHEET | UPRIGHT, TOMOS_POINT, .pitch = 4},
	{"lebedev", "lebedev", 16, 16, 0, TOMOS_PARALLEL, .views = 7},
};

static void exchange(double a[3], int64_t axis)
{
	double z = a[2];
	a[2] = a[axis];
	a[axis] = z;
}

static void round_view(tomos_view *view)
{
	double *numbers = (double *)view;
	for (int i = 0; i < VIEW_NUMBERS; i++)
		numbers[i] = (float)numbers[i];
}

/* What no constructor makes. */
static void change_views(const Row *row, tomos_geometry *scan, bool axes)
{
	for (int64_t i = 0; i < scan->count; i++) {
		tomos_view *w = &scan->views[i];
		for (int a = 0; a < 3; a++) {
			w->det[a] += row->far * w->src[a];
			w->v[a] *= row->height < 0 ? -1 : 1;
		}
		if (row->rounded)
			round_view(w);
		if (axes) {
			exchange(w->src, row->axis);
			exchange(w->det, row->axis);
			exchange(w->u, row->axis);
			exchange(w->v, row->axis);
		}
	}
}

static tomos_geometry *scan_of(const Row *row, bool axes)
{
	double axis = 200, detector = 300, middle = 0.5 * (double)(row->rows - 1) + row->row;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	o.geometry = row->geometry;
	o.rows = row->rows;
	o.columns = 20;
	o.views = row->views ? row->views : 8;
	o.pixel = 0.1;
	o.pixel_height = row->height > 0 ? 0.1 * row->height : 0;
	o.roll = row->roll, o.slant = row->slant, o.swivel = row->swivel;
	o.tilt = row->tilt, o.pitch = row->pitch;
	o.arc = row->arc;
	o.axis_row = &middle, o.axis_row_count = 1;
	if (row->source != TOMOS_PARALLEL) {
		o.source_axis = &axis, o.source_axis_count = 1;
		o.source_detector = &detector, o.source_detector_count = 1;
	}
	if (tomos_geometry_make(&scan, &o) != TOMOS_OK)
		fail_msg("%s: %s", row->what, tomos_message());
	change_views(row, scan, axes);
	return scan;
}

/* Voxels of the size of a pixel without a height of its own, about the origin. */
static tomos_grid grid_of(const Row *row, bool axes)
{
	Row plain = *row;
	plain.height = 0;
	plain.rounded = row->rounded == 1;
	tomos_geometry *scan = scan_of(&plain, false);
	tomos_grid_options o = tomos_grid_defaults();
	const int64_t size[3] = {18, 18, row->slices};
	tomos_grid grid;
	o.size = size, o.size_count = 3;
	assert_int_equal(tomos_grid_for(&grid, scan, &o), TOMOS_OK);
	tomos_geometry_free(scan);
	if (axes) {
		exchange(grid.first, row->axis);
		exchange(grid.step, row->axis);
		int64_t n = grid.n[2];
		grid.n[2] = grid.n[row->axis];
		grid.n[row->axis] = n;
	}
	return grid;
}

static bool has_axis(const Row *row)
{
	return strstr(row->what, "across") != NULL;
}

static void check_slices(const Row *row, const RayClass *rays)
{
	if (!(row->families & SLICE))
		return;
	assert_int_equal(rays->all.axis, has_axis(row) ? row->axis : 2);
	assert_true(rays->same_rows);
	int64_t first = (row->rows - row->slices) / 2 + (int64_t)row->row;
	bool down = row->height < 0;
	assert_int_equal(rays->all.sign, down ? -1 : 1);
	assert_int_equal(rays->all.row, down ? row->rows - 1 - first : first);
}

static void constructors(void **state)
{
	(void)state;
	for (int i = 0; i < (int)(sizeof table / sizeof table[0]); i++) {
		const Row *row = &table[i];
		tomos_geometry *scan = scan_of(row, has_axis(row));
		tomos_grid grid = grid_of(row, has_axis(row));
		RayClass rays;
		assert_int_equal(rays_make(&rays, scan, &grid), TOMOS_OK);
		if (rays.all.families != row->families || rays.source != row->source ||
			rays.planar != row->planar || rays.half != row->half ||
			rays.quarter != row->quarter)
			fail_msg("%s: families %d, source %d, planar %d, half %d, quarter %d",
				row->what, rays.all.families, rays.source, rays.planar, rays.half,
				rays.quarter);
		check_slices(row, &rays);
		rays_free(&rays);
		tomos_geometry_free(scan);
	}
}

/* ---- tolerances ------------------------------------------------------------------------------ */

typedef struct {
	const char *what, *geometry;
	int lost; /* families beyond the tolerance */
	/* Changes a view so that something moves by `by` pixels or voxels somewhere; all are of
	 * size 1. */
	void (*change)(tomos_view *view, double by);
} Change;

enum { N = 12, COLUMNS = 20, ROWS = 12, DEEP = 400 };

static void shift_rows(tomos_view *w, double by)
{
	w->det[2] += by;
	w->src[2] += w->src[3] == TOMOS_PARALLEL ? 0 : by;
}

static void grow_rows(tomos_view *w, double by)
{
	w->v[2] *=
		1 /
		(1 - by / N); /* the middle of the detector stays: half of it from the row, too */
}

static void roll(tomos_view *w, double by)
{
	w->u[2] += by / COLUMNS;
}

static void lean_sideways(tomos_view *w, double by)
{
	for (int a = 0; a < 2; a++)
		w->v[a] += by / ROWS * w->u[a];
}

static const Change changes[] = {
	{"rows between slices", "parallel", SLICE, shift_rows},
	{"fans between slices", "fan", SLICE, shift_rows},
	{"height of rows", "parallel", SLICE, grow_rows},
	{"height of fans", "fan", SLICE, grow_rows},
	{"roll", "cone", UPRIGHT, roll},
	{"rows displaced against each other", "parallel", SLICE | SHEET | UPRIGHT, lean_sideways},
	{"rows of a cone displaced against each other", "cone", SHEET | UPRIGHT, lean_sideways},
};

static int families_of(const Change *change, double by)
{
	double axis = DEEP, detector = DEEP;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_grid grid;
	RayClass rays;
	o.geometry = change->geometry;
	o.rows = ROWS, o.columns = COLUMNS, o.views = 5;
	if (strcmp(change->geometry, "parallel") != 0) {
		o.source_axis = &axis, o.source_axis_count = 1;
		o.source_detector = &detector, o.source_detector_count = 1;
	}
	assert_int_equal(tomos_geometry_make(&scan, &o), TOMOS_OK);
	assert_int_equal(tomos_grid_centred(&grid, N, N, N, 1), TOMOS_OK);
	change->change(&scan->views[3], by);
	assert_int_equal(rays_make(&rays, scan, &grid), TOMOS_OK);
	int families = rays.all.families;
	rays_free(&rays);
	tomos_geometry_free(scan);
	return families;
}

/* One view of five that is displaced by less than a third of the tolerance, or by three times as
 * much. */
static void families_end_at_the_tolerance(void **state)
{
	(void)state;
	for (int i = 0; i < (int)(sizeof changes / sizeof changes[0]); i++) {
		const Change *change = &changes[i];
		int exact = families_of(change, 0);
		int near = families_of(change, RAY_TOLERANCE / 3);
		int beyond = families_of(change, RAY_TOLERANCE * 3);
		if (near != exact || (exact & ~beyond) != change->lost)
			fail_msg("%s: families %d, %d near and %d beyond the tolerance",
				change->what, exact, near, beyond);
	}
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Views of two families: the whole has neither, its parts have their own. */
static void parts_have_their_own(void **state)
{
	(void)state;
	const Row flat = {"level", "parallel", 16, 16, ALL, TOMOS_PARALLEL, .row = 0};
	tomos_geometry *scan = scan_of(&flat, false), *part;
	tomos_grid grid = grid_of(&flat, false);
	RayClass whole, rays;
	const int64_t level[] = {0, 3, 7}, rolled[] = {2, 1};
	roll(&scan->views[1], 1);
	shift_rows(&scan->views[2], 0.1);
	assert_int_equal(rays_make(&whole, scan, &grid), TOMOS_OK);
	assert_int_equal(whole.all.families & SLICE, 0);
	const struct {
		const int64_t *views;
		int64_t count, row;
		int families;
	} parts[] = {
		{level, 3, 0, ALL}, {level, 1, 5, ALL}, {rolled, 2, 0, 0}, {rolled, 1, 2, ALL}};
	for (int i = 0; i < 4; i++) {
		assert_int_equal(geom_new(&part, 16, 20, parts[i].count), TOMOS_OK);
		for (int64_t k = 0; k < parts[i].count; k++)
			part->views[k] = scan->views[parts[i].views[k]];
		assert_int_equal(
			rays_part(&rays, &whole, parts[i].views, parts[i].row, part, &grid),
			TOMOS_OK);
		assert_int_equal(rays.all.families & parts[i].families, parts[i].families);
		if (parts[i].families)
			assert_int_equal(
				rays.all.row, whole.views[parts[i].views[0]].row - parts[i].row);
		assert_int_equal(rays.same_rows, parts[i].families != 0);
		rays_free(&rays);
		tomos_geometry_free(part);
	}
	rays_free(&whole);
	tomos_geometry_free(scan);
}

static void views_in_different_rows(void **state)
{
	(void)state;
	const Row flat = {"level", "parallel", 16, 16, ALL, TOMOS_PARALLEL, .row = 0};
	tomos_geometry *scan = scan_of(&flat, false);
	tomos_grid grid = grid_of(&flat, false);
	RayClass rays;
	shift_rows(&scan->views[2], 0.2); /* two rows of 0.1 */
	assert_int_equal(rays_make(&rays, scan, &grid), TOMOS_OK);
	assert_int_equal(rays.all.families, ALL);
	assert_false(rays.same_rows);
	assert_int_equal(rays.views[0].row - rays.views[2].row, 2);
	scan->views[1].src[3] = TOMOS_FAN_PER_ROW;
	scan->views[1].src[1] = 50;
	rays_free(&rays);
	assert_int_equal(rays_make(&rays, scan, &grid), TOMOS_OK);
	assert_int_equal(rays.source, SOURCES_MIXED);
	rays_free(&rays);
	tomos_geometry_free(scan);
}

#define TESTS(T) \
	T(constructors), T(families_end_at_the_tolerance), T(parts_have_their_own), \
		T(views_in_different_rows)
TEST_MAIN(TESTS, NULL, NULL)
