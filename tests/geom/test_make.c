/* Every constructor against formulas of its own, the orientation of slices, and all rejections. */
#include "geom/check.h"

static tomos_scan_options options(const char *kind, int64_t rows, int64_t columns, int64_t views)
{
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = kind;
	o.rows = rows;
	o.columns = columns;
	o.views = views;
	return o;
}

static tomos_geometry *made(const tomos_scan_options *o)
{
	tomos_geometry *scan;
	if (tomos_geometry_make(&scan, o) != TOMOS_OK)
		fail_msg("%s", tomos_message());
	return scan;
}

static void assert_same_scan(tomos_geometry *a, tomos_geometry *b)
{
	assert_int_equal(a->rows, b->rows);
	assert_int_equal(a->columns, b->columns);
	assert_int_equal(a->count, b->count);
	assert_memory_equal(a->views, b->views, (size_t)a->count * sizeof *a->views);
	tomos_geometry_free(a);
	tomos_geometry_free(b);
}

static void assert_vector(const double a[3], double x, double y, double z)
{
	assert_near(a[0], x, 1e-14);
	assert_near(a[1], y, 1e-14);
	assert_near(a[2], z, 1e-14);
}

static void test_parallel(void **state)
{
	(void)state;
	tomos_scan_options o = options("parallel", 3, 7, 11);
	o.pixel = 0.5;
	o.pixel_height = 0.25;
	o.start = 0.1;
	o.arc = 2;
	tomos_geometry *scan = made(&o);
	assert_int_equal(scan->count, 11);
	for (int i = 0; i < 11; i++) {
		double t = 0.1 + 2.0 * i / 11;
		const tomos_view *w = &scan->views[i];
		assert_vector(w->src, sin(t), -cos(t), 0);
		assert_true(w->src[3] == 0);
		assert_vector(w->det, 0, 0, 0);
		assert_vector(w->u, 0.5 * cos(t), 0.5 * sin(t), 0);
		assert_vector(w->v, 0, 0, 0.25);
	}
	tomos_geometry_free(scan);
}

static void test_default_arcs(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "laminography", "fan", "cone", "helix"};
	double near = 10, far = 20;
	for (int k = 0; k < COUNT(kinds); k++) {
		tomos_scan_options o = options(kinds[k], 1, 4, 4);
		if (k > 1) {
			o.source_axis = &near;
			o.source_detector = &far;
			o.source_axis_count = o.source_detector_count = 1;
		}
		tomos_geometry *scan = made(&o);
		double t = (k < 2 ? PI : 2 * PI) / 4;
		assert_vector(scan->views[0].u, 1, 0, 0);
		assert_vector(scan->views[1].u, cos(t), sin(t), 0);
		assert_vector(scan->views[3].u, cos(3 * t), sin(3 * t), 0);
		tomos_geometry_free(scan);
	}
}

/* A point seen by a source and detector that stand still while the object turns the other way. */
static void expect_cone(const tomos_scan_options *o, int64_t i, double t, double height,
	const double p[3], double *column, double *row)
{
	double x = p[0] * cos(t) + p[1] * sin(t), y = p[1] * cos(t) - p[0] * sin(t);
	double near = o->source_axis[o->source_axis_count == 1 ? 0 : i];
	double far = o->source_detector[o->source_detector_count == 1 ? 0 : i];
	double magnified = far / (near - y);
	*column = o->axis[o->axis_count == 1 ? 0 : i] + x * magnified / o->pixel;
	*row = o->axis_row[o->axis_row_count == 1 ? 0 : i] +
	       (p[2] - height) * magnified / (o->pixel_height > 0 ? o->pixel_height : o->pixel);
}

static void check_cone(const char *kind, int64_t rows, double pitch)
{
	enum { VIEWS = 5 };
	const double near[VIEWS] = {10, 11, 12, 9, 10}, far[VIEWS] = {20, 21, 15, 19.5, 30};
	const double axis[VIEWS] = {3, 3.5, -2, 11, 4.25}, angles[VIEWS] = {0.3, 7, -1, 2, 4};
	const double axis_row = 0.75;
	tomos_scan_options o = options(kind, rows, 8, 0);
	o.pixel = 0.5;
	o.pixel_height = rows == 1 ? 0 : 0.75;
	o.angles = angles, o.angles_count = VIEWS;
	o.source_axis = near, o.source_axis_count = VIEWS;
	o.source_detector = far, o.source_detector_count = VIEWS;
	o.axis = axis, o.axis_count = VIEWS;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	o.pitch = pitch;
	tomos_geometry *scan = made(&o);
	for (int i = 0; i < VIEWS; i++)
		for (int k = 0; k < 20; k++) {
			double p[3] = {
				uniform(-4, 4), uniform(-4, 4), rows == 1 ? 0 : uniform(-4, 4)};
			double column, row, c, r, height = pitch * (angles[i] - 3) / (2 * PI);
			expect_cone(&o, i, angles[i], height, p, &c, &r);
			shadow(scan, i, p, &column, &row);
			assert_near(column, c, 1e-11);
			assert_near(row, r, 1e-11);
			const double *s = scan->views[i].src;
			assert_near(hypot(s[0], s[1]), near[i], 1e-13);
			assert_near(s[2], height, 1e-13);
		}
	tomos_geometry_free(scan);
}

static void test_cone_fan_helix(void **state)
{
	(void)state;
	check_cone("cone", 5, 0);
	check_cone("fan", 1, 0);
	check_cone("helix", 5, 3);
	check_cone("helix", 5, -1.5);
}

/* Several rows: each sees the slice that it is level with, and columns as those of one row do. */
static void test_fans(void **state)
{
	(void)state;
	const double near = 10, far = 25, axis_row = 0.75;
	tomos_scan_options o = options("fan", 5, 8, 7);
	o.pixel = 0.5;
	o.source_axis = &near, o.source_axis_count = 1;
	o.source_detector = &far, o.source_detector_count = 1;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	tomos_geometry *scan = made(&o);
	o.rows = 1, o.axis_row = NULL, o.axis_row_count = 0;
	tomos_geometry *one = made(&o);
	assert_true(scan->views[0].src[3] == 2 && one->views[0].src[3] == 1);
	assert_vector(scan->views[0].v, 0, 0, 0.5 * near / far);
	for (int i = 0; i < 7; i++)
		for (int k = 0; k < 20; k++) {
			double p[3] = {uniform(-4, 4), uniform(-4, 4), uniform(-4, 4)};
			double flat[3] = {p[0], p[1], 0}, column, row, c, r;
			shadow(scan, i, p, &column, &row);
			shadow(one, i, flat, &c, &r);
			assert_near(column, c, 1e-11);
			assert_near(row, axis_row + p[2] / 0.2, 1e-11);
		}
	tomos_grid grid; /* of cubes */
	assert_int_equal(tomos_grid_for(&grid, scan, NULL), TOMOS_OK);
	assert_near(grid.step[0], 0.2, 1e-12);
	assert_near(grid.step[2], 0.2, 1e-12);
	assert_int_equal(grid.n[2], 5);
	tomos_geometry_free(scan);
	tomos_geometry_free(one);
}

static void test_cone_at_zero(void **state)
{
	(void)state;
	double angle = 0;
	tomos_geometry *scan;
	assert_int_equal(tomos_geometry_cone(&scan, 4, 6, 0.5, 10, 25, &angle, 1), TOMOS_OK);
	assert_vector(scan->views[0].src, 0, 10, 0);
	assert_true(scan->views[0].src[3] == 1);
	assert_vector(scan->views[0].det, 0, -15, 0);
	assert_vector(scan->views[0].u, 0.5, 0, 0);
	assert_vector(scan->views[0].v, 0, 0, 0.5);
	tomos_geometry_free(scan);
}

static void test_thin_fills(void **state)
{
	(void)state;
	const double angles[] = {0.1, 0.7, 2}, near = 10, far = 25;
	tomos_geometry *scan;
	tomos_scan_options o = options("parallel", 4, 6, 0);
	o.pixel = 0.5;
	o.angles = angles, o.angles_count = 3;
	assert_int_equal(tomos_geometry_parallel(&scan, 4, 6, 0.5, angles, 3), TOMOS_OK);
	assert_same_scan(scan, made(&o));
	o.source_axis = &near, o.source_axis_count = 1;
	o.source_detector = &far, o.source_detector_count = 1;
	o.geometry = "cone";
	assert_int_equal(tomos_geometry_cone(&scan, 4, 6, 0.5, near, far, angles, 3), TOMOS_OK);
	assert_same_scan(scan, made(&o));
	o.geometry = "fan", o.rows = 1;
	assert_int_equal(tomos_geometry_fan(&scan, 6, 0.5, near, far, angles, 3), TOMOS_OK);
	assert_same_scan(scan, made(&o));
}

static void test_laminography(void **state)
{
	(void)state;
	const double axis = 2.25, axis_row = 1.5;
	tomos_scan_options o = options("laminography", 5, 8, 9);
	o.tilt = 0.4;
	o.pixel = 0.5, o.pixel_height = 2;
	o.axis = &axis, o.axis_count = 1;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	tomos_geometry *scan = made(&o);
	for (int i = 0; i < 9; i++) {
		double t = PI * i / 9, a = 0.4, column, row;
		double p[3] = {uniform(-4, 4), uniform(-4, 4), uniform(-4, 4)};
		/* Across the beam: x' as in parallel; depth y' and height z mix by the tilt. */
		double x = p[0] * cos(t) + p[1] * sin(t), depth = p[0] * sin(t) - p[1] * cos(t);
		const tomos_view *w = &scan->views[i];
		assert_vector(w->src, sin(t) * cos(a), -cos(t) * cos(a), -sin(a));
		assert_vector(w->u, 0.5 * cos(t), 0.5 * sin(t), 0);
		assert_vector(w->v, 2 * sin(t) * sin(a), -2 * cos(t) * sin(a), 2 * cos(a));
		shadow(scan, i, p, &column, &row);
		assert_near(column, axis + x / 0.5, 1e-12);
		assert_near(row, axis_row + (p[2] * cos(a) + depth * sin(a)) / 2, 1e-12);
	}
	tomos_geometry_free(scan);
	o.tilt = 0;
	tomos_scan_options same = o;
	same.geometry = "parallel";
	assert_same_scan(made(&o), made(&same));
}

/* out = a b */
static void multiply(double out[3][3], double a[3][3], double b[3][3])
{
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++)
			out[i][j] = a[i][0] * b[0][j] + a[i][1] * b[1][j] + a[i][2] * b[2][j];
}

/* At angle 0 the frame is u = x, normal = -y, v = z, so the turns are plain matrices. */
static void test_detector_turns(void **state)
{
	(void)state;
	const double axis = 1.5, axis_row = 3, near = 10, far = 25, angle = 0;
	tomos_scan_options o = options("cone", 4, 6, 0);
	o.angles = &angle, o.angles_count = 1;
	o.source_axis = &near, o.source_axis_count = 1;
	o.source_detector = &far, o.source_detector_count = 1;
	o.axis = &axis, o.axis_count = 1;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	o.pixel = 0.5, o.pixel_height = 2;
	o.roll = 0.2, o.slant = -0.3, o.swivel = 0.5;
	double roll[3][3] = {{cos(.2), 0, -sin(.2)}, {0, 1, 0}, {sin(.2), 0, cos(.2)}};
	double slant[3][3] = {{1, 0, 0}, {0, cos(.3), sin(.3)}, {0, -sin(.3), cos(.3)}};
	double swivel[3][3] = {{cos(.5), -sin(.5), 0}, {sin(.5), cos(.5), 0}, {0, 0, 1}};
	double part[3][3], all[3][3];
	multiply(part, slant, roll);
	multiply(all, swivel, part);
	tomos_geometry *scan = made(&o);
	const tomos_view *w = &scan->views[0];
	assert_vector(w->u, 0.5 * all[0][0], 0.5 * all[1][0], 0.5 * all[2][0]);
	assert_vector(w->v, 2 * all[0][2], 2 * all[1][2], 2 * all[2][2]);
	for (int i = 0; i < 3; i++) /* the pivot pixel stays where the central ray meets it */
		assert_near(w->det[i] + (axis - 2.5) * w->u[i] + (axis_row - 1.5) * w->v[i],
			i == 1 ? -15 : 0, 1e-13);
	tomos_geometry_free(scan);
}

/* One turn at a time, told by where the edges of the detector go. */
static void test_turn_senses(void **state)
{
	(void)state;
	const double angle = 0;
	tomos_scan_options o = options("parallel", 4, 6, 0);
	o.angles = &angle, o.angles_count = 1;
	o.roll = 0.1; /* about the ray (0, -1, 0): u = x goes towards z */
	tomos_geometry *scan = made(&o);
	assert_vector(scan->views[0].u, cos(.1), 0, sin(.1));
	assert_vector(scan->views[0].v, -sin(.1), 0, cos(.1));
	tomos_geometry_free(scan);
	o.roll = 0, o.slant = 0.1; /* about x: v = z goes towards -y */
	scan = made(&o);
	assert_vector(scan->views[0].u, 1, 0, 0);
	assert_vector(scan->views[0].v, 0, -sin(.1), cos(.1));
	tomos_geometry_free(scan);
	o.slant = 0, o.swivel = 0.1; /* about z: u = x goes towards y */
	scan = made(&o);
	assert_vector(scan->views[0].u, cos(.1), sin(.1), 0);
	assert_vector(scan->views[0].v, 0, 0, 1);
	tomos_geometry_free(scan);
}

/* column - axis = (x_index - cx) cos t - (y_index - cy) sin t, in every kind that turns about z. */
static void test_orientation(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "laminography", "cone", "fan", "helix"};
	const double axis = 4.75, near = 1e9, far = 1e9 + 1;
	for (int k = 0; k < COUNT(kinds); k++) {
		tomos_scan_options o = options(kinds[k], 1, 12, 16);
		o.pixel = 0.3, o.arc = 2 * PI;
		o.axis = &axis, o.axis_count = 1;
		if (k > 1) { /* so far away that the rays are parallel */
			o.source_axis = &near, o.source_axis_count = 1;
			o.source_detector = &far, o.source_detector_count = 1;
		}
		tomos_geometry *scan = made(&o);
		tomos_grid grid;
		assert_int_equal(tomos_grid_centred(&grid, 12, 10, 1, 0.3), TOMOS_OK);
		for (int i = 0; i < 16; i++) {
			double column, row, t = 2 * PI * i / 16, x_index = 9, y_index = 2;
			double p[3] = {grid.first[0] + x_index * grid.step[0],
				grid.first[1] + y_index * grid.step[1], 0};
			shadow(scan, i, p, &column, &row);
			assert_near(column - axis,
				(x_index - 5.5) * cos(t) - (y_index - 4.5) * sin(t), 1e-6);
		}
		tomos_geometry_free(scan);
	}
}

static void test_lebedev(void **state)
{
	(void)state;
	const double axis = 1, axis_row = 2.5;
	tomos_scan_options o = options("lebedev", 4, 6, 133);
	o.pixel = 0.5, o.pixel_height = 0.25;
	o.axis = &axis, o.axis_count = 1;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	tomos_geometry *scan = made(&o);
	assert_int_equal(scan->count, 133);
	for (int i = 0; i < 133; i++) {
		const tomos_view *w = &scan->views[i];
		double d[3] = {w->src[0], w->src[1], w->src[2]}, column, row;
		/* The rotation matrix that takes (0,-1,0) to d: I + K + K^2 / (1 + cos), written out. */
		double h = 1 / (1 - d[1]);
		assert_vector(
			w->u, 0.5 * (1 - d[0] * d[0] * h), 0.5 * d[0], -0.5 * d[0] * d[2] * h);
		assert_vector(
			w->v, -0.25 * d[0] * d[2] * h, 0.25 * d[2], 0.25 * (1 - d[2] * d[2] * h));
		assert_near(determinant(w->u, w->v, d), 0.125, 1e-14);
		shadow(scan, i, (double[]){0, 0, 0}, &column, &row);
		assert_near(column, 1, 1e-13);
		assert_near(row, 2.5, 1e-13);
	}
	tomos_geometry_free(scan);
}

static void test_towards(void **state)
{
	(void)state;
	double u[3], v[3];
	view_towards((double[]){0, -3, 0}, u, v);
	assert_vector(u, 1, 0, 0);
	assert_vector(v, 0, 0, 1);
	view_towards((double[]){0, 5, 0}, u, v);
	assert_vector(u, -1, 0, 0);
	assert_vector(v, 0, 0, 1);
	view_towards((double[]){1e-9, 2, 1e-9}, u, v); /* all but opposite: still a rotation */
	assert_near(determinant(u, v, (double[]){0, 1, 0}), 1, 1e-9);
	view_towards((double[]){0, 0, 2}, u, v);
	assert_vector(u, 1, 0, 0);
	assert_vector(v, 0, 1, 0);
	for (int i = 0; i < 100; i++) {
		double d[3] = {uniform(-1, 1), uniform(-1, 1), uniform(-1, 1)};
		double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
		view_towards(d, u, v);
		assert_near(determinant(u, v, d) / length, 1, 1e-13);
	}
}

/* ---- rejections ----------------------------------------------------------------------------- */

static void assert_make_rejected(tomos_scan_options o, const char *part)
{
	tomos_geometry *scan = (tomos_geometry *)&o;
	int64_t live = mem_live();
	assert_rejected(tomos_geometry_make(&scan, &o), TOMOS_BAD_VALUE, part);
	assert_null(scan);
	assert_int_equal(mem_live(), live);
}

#define reject(kind, part, ...) \
	do { \
		tomos_scan_options o = options(kind, 1, 8, 4); \
		if (strstr("fan cone helix", kind)) { \
			o.source_axis = &near, o.source_axis_count = 1; \
			o.source_detector = &far, o.source_detector_count = 1; \
		} \
		__VA_ARGS__; \
		assert_make_rejected(o, part); \
	} while (0)

static const double near = 10, far = 25;
static const double list[5] = {1, 2, NAN, 4, 5}, good[5] = {11, 12, 13, 14, 15};

static void test_rejected_numbers(void **state)
{
	(void)state;
	reject("spiral", "geometry 'spiral' is not known", (void)0);
	reject("parallell", "did you mean 'parallel'", (void)0);
	reject("parallel", "0 rows", o.rows = 0);
	reject("parallel", "-1 columns", o.columns = -1);
	reject("parallel", "0 views", o.views = 0);
	reject("parallel", "-2 views", o.views = -2);
	reject("parallel", "too large", o.rows = o.columns = (int64_t)1 << 31);
	reject("parallel", "pixel is 0;", o.pixel = 0);
	reject("parallel", "pixel is nan;", o.pixel = NAN);
	reject("parallel", "pixel_height is -1;", o.pixel_height = -1);
	reject("parallel", "pixel_height is inf;", o.pixel_height = INFINITY);
	reject("parallel", "arc is nan degrees;", o.arc = NAN);
	reject("parallel", "start is inf degrees;", o.start = INFINITY);
	reject("parallel", "roll is nan degrees;", o.roll = NAN);
	reject("parallel", "slant is nan degrees;", o.slant = NAN);
	reject("parallel", "swivel is nan degrees;", o.swivel = NAN);
	reject("laminography", "tilt is nan degrees;", o.tilt = NAN);
	reject("helix", "pitch is nan; it must be between -1e+30 and 1e+30", o.pitch = NAN);
	reject("laminography", "tilt of 90 degrees", o.tilt = PI / 2);
	reject("laminography", "tilt of -90 degrees", o.tilt = -PI / 2);
	reject("laminography", "tilt of 100 degrees", o.tilt = PI / 1.8);
	reject("parallel", "view 0: rays along (0, -1, 0) run in", o.slant = PI / 2);
	reject("cone", "view 0: the source (0, 10, 0) lies in", o.swivel = PI / 2);
	reject("fan",
		"a fan scan of 2 rows with a roll of 90 degrees: each row must stay in its slice",
		(o.rows = 2, o.roll = PI / 2));
	reject("fan", "a fan scan of 3 rows with a slant of 45 degrees",
		(o.rows = 3, o.slant = PI / 4));
	reject("lebedev",
		"lebedev scan of 4 views: there are rules of 3, 7, 13, 19, 25, 37, 43, 55, "
		"73, 85, 97, 115, 133, 151, 175, 217, 295, 385, 487, 601 directions",
		(void)0);
	reject("parallel", "member bytes of a tomos_scan_options is 3", o.bytes = 3);
}

/* 360 for 2 pi: equal steps of so many turns are degrees. */
static void test_rejected_turns(void **state)
{
	(void)state;
	reject("cone", "arc is 20626.5 degrees (360 radians); equal steps take 2 turns at most",
		o.arc = 360);
	reject("parallel", "arc is -721.927 degrees", o.arc = -12.6);
	reject("parallel", "replace_angles has no effect without a scan that has angles",
		o.replace_angles = 1);
	tomos_scan_options o = options("helix", 1, 8, 4);
	tomos_geometry *scan;
	o.source_axis = &near, o.source_axis_count = 1;
	o.source_detector = &far, o.source_detector_count = 1;
	o.arc = 40 * PI, o.pitch = 1;
	assert_int_equal(tomos_geometry_make(&scan, &o), TOMOS_OK);
	tomos_geometry_free(scan);
	o = options("parallel", 1, 8, 4);
	o.arc = 4 * PI;
	assert_int_equal(tomos_geometry_make(&scan, &o), TOMOS_OK);
	tomos_geometry_free(scan);
}

/* A detector that stands on the axis, as some write virtual ones. */
static void test_virtual_detector(void **state)
{
	(void)state;
	static const char *const kinds[] = {"fan", "cone", "helix"};
	for (int i = 0; i < COUNT(kinds); i++) {
		tomos_scan_options o = options(kinds[i], 1, 8, 4);
		tomos_geometry *scan;
		o.source_axis = o.source_detector = &near;
		o.source_axis_count = o.source_detector_count = 1;
		assert_int_equal(tomos_geometry_make(&scan, &o), TOMOS_OK);
		for (int64_t v = 0; v < 4; v++) {
			const tomos_view *view = &scan->views[v];
			assert_true(hypot(view->det[0], view->det[1]) < 1e-12);
			assert_true(fabs(hypot(view->src[0], view->src[1]) - near) < 1e-12);
		}
		tomos_geometry_free(scan);
	}
}

static void test_rejected_lists(void **state)
{
	(void)state;
	reject("parallel", "angles has 5 values for 4 views; it takes one per view",
		(o.angles = good, o.angles_count = 5));
	reject("parallel", "angles has 1 values for 4 views",
		(o.angles = good, o.angles_count = 1));
	reject("parallel", "the list angles is empty", (o.angles = good, o.angles_count = 0));
	reject("parallel", "the list angles is empty (3 values)",
		(o.angles = NULL, o.angles_count = 3));
	reject("parallel", "view 2: its angle is nan degrees; it must be between",
		(o.angles = list, o.angles_count = 4));
	reject("parallel", "angles are given, and arc = 180 degrees too",
		(o.angles = good, o.angles_count = 4, o.arc = PI));
	reject("parallel", "angles are given, and start = 90 degrees too",
		(o.angles = good, o.angles_count = 4, o.start = PI / 2));
	reject("parallel", "axis has 3 values for 4 views; it takes one, or one per view",
		(o.axis = good, o.axis_count = 3));
	reject("parallel", "view 2: axis is nan", (o.axis = list, o.axis_count = 4));
	reject("parallel", "the list axis is empty (0 values)", (o.axis = good, o.axis_count = 0));
	reject("parallel", "axis_row has 2 values", (o.axis_row = good, o.axis_row_count = 2));
	reject("cone", "source_axis has 5 values", (o.source_axis = good, o.source_axis_count = 5));
	reject("cone", "source_detector has 5 values",
		(o.source_detector = good, o.source_detector_count = 5));
	reject("cone", "view 2: source_axis is nan",
		(o.source_axis = list, o.source_axis_count = 4));
}

static void test_rejected_sources(void **state)
{
	(void)state;
	const double bad[4] = {30, 30, 5, 30}, zero[4] = {9, 0, 9, 9};
	reject("cone", "a cone scan needs source_axis",
		(o.source_axis = NULL, o.source_axis_count = 0));
	reject("fan", "a fan scan needs source_detector",
		(o.source_detector = NULL, o.source_detector_count = 0));
	reject("cone", "view 1: source_axis is 0; it must be greater than 0",
		(o.source_axis = zero, o.source_axis_count = 4));
	reject("helix", "view 2: source_detector is 5; it must not be less than source_axis, 10",
		(o.source_detector = bad, o.source_detector_count = 4));
	reject("parallel", "source_axis has no effect without geometry=fan|cone|helix",
		(o.source_axis = &near, o.source_axis_count = 1));
	reject("laminography", "source_detector has no effect without geometry=fan|cone|helix",
		(o.source_detector = &near, o.source_detector_count = 1));
	reject("parallel", "tilt has no effect without geometry=laminography", o.tilt = 0.1);
	reject("cone", "pitch has no effect without geometry=helix", o.pitch = 1);
	reject("lebedev", "arc has no effect without geometry other than lebedev",
		(o.views = 3, o.arc = 1));
	reject("lebedev", "start has no effect without geometry other than lebedev",
		(o.views = 3, o.start = 1));
	reject("lebedev", "angles has no effect without geometry other than lebedev",
		(o.views = 3, o.angles = good, o.angles_count = 3));
	tomos_geometry *scan;
	assert_rejected(tomos_geometry_make(&scan, NULL), TOMOS_BAD_VALUE, "0 columns");
	assert_rejected(
		tomos_geometry_parallel(&scan, 1, 8, 1, NULL, 0), TOMOS_BAD_VALUE, "0 views");
	assert_rejected(tomos_geometry_fan(&scan, 8, 1, -1, 5, good, 3), TOMOS_BAD_VALUE,
		"view 0: source_axis is -1");
	assert_rejected(tomos_geometry_cone(&scan, 2, 8, 1, 5, 4, good, 3), TOMOS_BAD_VALUE,
		"view 0: source_detector is 4");
}

static void test_memory(void **state)
{
	(void)state;
	tomos_scan_options o = options("lebedev", 2, 8, 7);
	tomos_geometry *scan;
	int64_t live = mem_live(), n = 0;
	tomos_status status = TOMOS_NO_MEMORY;
	while (status != TOMOS_OK) {
		mem_fail_nth(++n);
		status = tomos_geometry_make(&scan, &o);
		mem_fail_nth(0);
		if (status != TOMOS_OK) {
			assert_rejected(status, TOMOS_NO_MEMORY, "no memory for");
			assert_null(scan);
			assert_int_equal(mem_live(), live);
		}
	}
	assert_int_equal(n, 4);
	tomos_geometry_free(scan);
	assert_int_equal(mem_live(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parallel),
		cmocka_unit_test(test_default_arcs), cmocka_unit_test(test_cone_fan_helix),
		cmocka_unit_test(test_fans), cmocka_unit_test(test_cone_at_zero),
		cmocka_unit_test(test_thin_fills), cmocka_unit_test(test_laminography),
		cmocka_unit_test(test_detector_turns), cmocka_unit_test(test_turn_senses),
		cmocka_unit_test(test_orientation), cmocka_unit_test(test_lebedev),
		cmocka_unit_test(test_towards), cmocka_unit_test(test_rejected_numbers),
		cmocka_unit_test(test_rejected_turns), cmocka_unit_test(test_virtual_detector),
		cmocka_unit_test(test_rejected_lists), cmocka_unit_test(test_rejected_sources),
		cmocka_unit_test(test_memory)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
