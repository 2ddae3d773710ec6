/* Every constructor against its own formulas, and the orientation of slices. */
#include "geom/check.h"

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

/* A point as seen by a fixed source and detector, with the object rotating the opposite way. */
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
			project_point(scan, i, p, &column, &row);
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

/* Several rows: each sees the slice at its height, with the columns of a single row. */
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
			project_point(scan, i, p, &column, &row);
			project_point(one, i, flat, &c, &r);
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
		project_point(scan, i, p, &column, &row);
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

/* At angle 0 the frame is u = x, normal = -y, v = z, so the rotations are elementary matrices. */
static void test_detector_rotations(void **state)
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

/* One rotation at a time, checked by where the edges of the detector move. */
static void test_rotation_senses(void **state)
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

/* column - axis = (x_index - cx) cos t - (y_index - cy) sin t, for every kind that rotates about
 * z. */
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
			project_point(scan, i, p, &column, &row);
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
		/* The rotation matrix that takes (0,-1,0) to d: I + K + K^2 / (1 + cos), written
		 * out. */
		double h = 1 / (1 - d[1]);
		assert_vector(
			w->u, 0.5 * (1 - d[0] * d[0] * h), 0.5 * d[0], -0.5 * d[0] * d[2] * h);
		assert_vector(
			w->v, -0.25 * d[0] * d[2] * h, 0.25 * d[2], 0.25 * (1 - d[2] * d[2] * h));
		assert_near(determinant(w->u, w->v, d), 0.125, 1e-14);
		project_point(scan, i, (double[]){0, 0, 0}, &column, &row);
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

/* A virtual detector on the rotation axis. */
static void test_virtual_detector(void **state)
{
	(void)state;
	static const char *const kinds[] = {"fan", "cone", "helix"};
	const double radius = 10;
	for (int i = 0; i < COUNT(kinds); i++) {
		tomos_scan_options o = options(kinds[i], 1, 8, 4);
		tomos_geometry *scan;
		o.source_axis = o.source_detector = &radius;
		o.source_axis_count = o.source_detector_count = 1;
		assert_int_equal(tomos_geometry_make(&scan, &o), TOMOS_OK);
		for (int64_t v = 0; v < 4; v++) {
			const tomos_view *view = &scan->views[v];
			assert_true(hypot(view->det[0], view->det[1]) < 1e-12);
			assert_true(fabs(hypot(view->src[0], view->src[1]) - radius) < 1e-12);
		}
		tomos_geometry_free(scan);
	}
}

#define TESTS(T) \
	T(test_parallel), T(test_default_arcs), T(test_cone_fan_helix), T(test_fans), \
		T(test_cone_at_zero), T(test_thin_fills), T(test_laminography), \
		T(test_detector_rotations), T(test_rotation_senses), T(test_orientation), \
		T(test_lebedev), T(test_towards), T(test_virtual_detector)
TEST_MAIN(TESTS, NULL, NULL)
