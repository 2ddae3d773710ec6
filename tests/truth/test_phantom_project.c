/* Closed-form projections against chords found by search, known shapes, mass and rejections. */
#include "truth/truth_test.h"

enum { MOST = 256 * 256 };
static float data[MOST], other[MOST];

static double level_on(const tomos_ellipsoid *e, const double p[3], const double d[3], double t)
{
	return level_at(e, (double[]){p[0] + t * d[0], p[1] + t * d[1], p[2] + t * d[2]});
}

/* The distance along a ray, between a point outside of an ellipsoid and one inside, of its surface,
 * where the level is 1. */
static double surface_on(
	const tomos_ellipsoid *e, const double p[3], const double d[3], double outer, double inner)
{
	for (int i = 0; i < 60; i++) {
		double middle = 0.5 * (outer + inner);
		*(level_on(e, p, d, middle) < 1 ? &inner : &outer) = middle;
	}
	return inner;
}

/* The level is convex along a line: its minimum is found by ternary search, the surface by
 * bisection. */
static double searched_chord(
	const tomos_ellipsoid *e, const double p[3], const double d[3], double low, double high)
{
	double a = low, b = high;
	for (int i = 0; i < 80; i++) {
		double third = (b - a) / 3;
		if (level_on(e, p, d, a + third) < level_on(e, p, d, b - third))
			b -= third;
		else
			a += third;
	}
	if (level_on(e, p, d, a) >= 1)
		return 0;
	double from = level_on(e, p, d, low) < 1 ? low : surface_on(e, p, d, low, a);
	return surface_on(e, p, d, high, a) - from;
}

static double searched_integral(const tomos_phantom *phantom, const tomos_geometry *scan,
	int64_t view, double row, double column)
{
	double p[3], d[3], sum = 0;
	int64_t count;
	const tomos_ellipsoid *list = tomos_phantom_list(phantom, &count);
	view_pixel(scan, view, row, column, p, d);
	double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
	double nearest = -(p[0] * d[0] + p[1] * d[1] + p[2] * d[2]) / (length * length);
	double low = nearest - 4 / length, high = nearest + 4 / length;
	if (scan->views[view].src[3] != 0)
		low = fmax(low, -1); /* the source */
	for (int64_t i = 0; i < count; i++)
		sum += list[i].value * length * searched_chord(&list[i], p, d, low, high);
	return sum;
}

static tomos_phantom *random_phantom(int64_t seed)
{
	tomos_phantom_options o = tomos_phantom_defaults();
	tomos_phantom *phantom;
	o.seed = seed;
	o.count = 12;
	assert_ok(tomos_phantom_named(&phantom, "random", &o));
	return phantom;
}

static void check_scan(const tomos_phantom *phantom, const tomos_geometry *scan)
{
	tomos_array a = tomos_array_of(data, scan->count, scan->rows, scan->columns);
	double largest = 0;
	assert_ok(tomos_phantom_project(phantom, scan, 1, &a));
	for (int64_t i = 0; i < scan->count * scan->rows * scan->columns; i++) {
		int64_t c = i % scan->columns, r = i / scan->columns % scan->rows;
		double expected = searched_integral(
			phantom, scan, i / scan->columns / scan->rows, (double)r, (double)c);
		assert_near(data[i], expected, 2e-6);
		largest = fmax(largest, expected);
	}
	assert_true(largest > 0.1);
}

typedef struct {
	const char *kind;
	int64_t rows, columns, views;
	double pixel, source_axis, source_detector, tilt, pitch, turns;
} Case;

static tomos_geometry *scan_of(const Case *c)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	o.geometry = c->kind;
	o.rows = c->rows;
	o.columns = c->columns;
	o.views = c->views;
	o.pixel = c->pixel;
	o.tilt = c->tilt;
	o.pitch = c->pitch;
	o.roll = 0.2 * c->turns;
	o.slant = 0.3 * c->turns;
	o.swivel = -0.4 * c->turns;
	o.source_axis = &c->source_axis;
	o.source_detector = &c->source_detector;
	o.source_axis_count = o.source_detector_count = c->source_axis > 0;
	if (c->source_axis == 0)
		o.source_axis = o.source_detector = NULL;
	assert_ok(tomos_geometry_make(&scan, &o));
	return scan;
}

static void test_every_geometry(void **state)
{
	(void)state;
	static const Case cases[] = {
		{"parallel", 3, 7, 5, 0.28, 0, 0, 0, 0, 0},
		{"parallel", 3, 7, 5, 0.28, 0, 0, 0, 0, 1},
		{"fan", 1, 7, 5, 0.4, 3, 4.5, 0, 0, 0},
		{"fan", 5, 7, 5, 0.4, 3, 4.5, 0, 0, 0},
		{"fan", 4, 7, 5, 0.4, 0.5, 1.2, 0, 0, 0}, /* sources in the object */
		{"cone", 3, 7, 5, 0.4, 3, 4.5, 0, 0, 0},
		{"cone", 3, 7, 5, 0.4, 0.5, 1.2, 0, 0, 1}, /* source in the object */
		{"laminography", 3, 7, 5, 0.28, 0, 0, 0.5, 0, 0},
		{"helix", 3, 7, 5, 0.4, 3, 4.5, 0, 0.6, 0},
		{"lebedev", 1, 4, 133, 0.4, 0, 0, 0, 0, 0},
	};
	for (int i = 0; i < COUNT(cases); i++) {
		tomos_geometry *scan = scan_of(&cases[i]);
		tomos_phantom *phantom = random_phantom(i);
		check_scan(phantom, scan);
		tomos_phantom_free(phantom);
		tomos_geometry_free(scan);
	}
}

static void test_free_views(void **state)
{
	(void)state;
	for (int seed = 0; seed < 10; seed++) {
		tomos_view views[4];
		tomos_geometry *scan;
		double *numbers = (double *)views;
		for (int i = 0; i < 4 * VIEW_NUMBERS; i++)
			numbers[i] = random_normal((uint64_t)seed, (uint64_t)i);
		for (int i = 0; i < 4; i++) {
			views[i].src[3] = i == 3 ? 2 : i % 2;
			for (int k = 0; k < 3; k++) {
				views[i].src[k] *= i % 2 ? 2 : 1;
				views[i].u[k] *= 0.2;
				views[i].v[k] *= 0.2;
				views[i].det[k] *= i % 2 ? 1 : 0.2;
			}
		}
		assert_ok(tomos_geometry_views(&scan, 3, 3, views, 4));
		tomos_phantom *phantom = random_phantom(seed);
		check_scan(phantom, scan);
		tomos_phantom_free(phantom);
		tomos_geometry_free(scan);
	}
}

/* A row of parallel rays along -y, columns along x from `first` in steps of `step`. */
static tomos_geometry *row_of_rays(int64_t columns, double first, double step, double distance)
{
	double middle = first + step * 0.5 * (double)(columns - 1);
	tomos_view view = {{0, -3, 0, 0}, {middle, distance, 0}, {step, 0, 0}, {0, 0, 1}};
	tomos_geometry *scan;
	assert_ok(tomos_geometry_views(&scan, 1, columns, &view, 1));
	return scan;
}

static void test_ball(void **state)
{
	(void)state;
	tomos_phantom_options o = tomos_phantom_defaults();
	tomos_phantom *ball;
	o.radius = 2.5;
	o.value = 0.02;
	assert_ok(tomos_phantom_named(&ball, "ball", &o));
	tomos_geometry *scan = row_of_rays(101, -3, 0.06, 7);
	tomos_array a = tomos_array_of(data, 1, 1, 101);
	assert_ok(tomos_phantom_project(ball, scan, 1, &a));
	for (int i = 0; i < 101; i++) {
		double d = -3 + 0.06 * i, h2 = 2.5 * 2.5 - d * d;
		assert_near(data[i], h2 > 0 ? 0.02 * 2 * sqrt(h2) : 0, 1e-8);
	}
	tomos_geometry_free(scan);
	tomos_phantom_free(ball);
}

/* Nearly tangent rays from far away, in an oblique direction: b^2 - 4ac would have no digit
 * left. */
static void test_far_tangents(void **state)
{
	(void)state;
	tomos_phantom *ball;
	double t = 0.7, far = 1e6;
	tomos_view view = {{sin(t), -cos(t), 0, 0}, {far * sin(t), -far * cos(t), 0},
		{1e-5 * cos(t), 1e-5 * sin(t), 0}, {0, 0, 1}};
	tomos_geometry *scan;
	tomos_array a = tomos_array_of(data, 1, 1, 5);
	for (int i = 0; i < 2; i++)
		view.det[i] += (1 - 1e-5) * view.u[i] / 1e-5;
	assert_ok(tomos_phantom_named(&ball, "ball", NULL));
	assert_ok(tomos_geometry_views(&scan, 1, 5, &view, 1));
	assert_ok(tomos_phantom_project(ball, scan, 1, &a));
	for (int i = 0; i < 5; i++) {
		double d = 1 - 1e-5 + 1e-5 * (i - 2);
		assert_near(data[i], d < 1 ? 2 * sqrt(1 - d * d) : 0, 2e-5);
	}
	tomos_geometry_free(scan);
	tomos_phantom_free(ball);
}

static void test_source_inside_and_behind(void **state)
{
	(void)state;
	tomos_phantom *ball;
	tomos_view views[3] = {{{0.5, 0, 0, 1}, {3, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		{{2, 0, 0, 1}, {3, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		{{-2, 0, 0, 1}, {-1.5, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
	tomos_geometry *scan;
	tomos_array a = tomos_array_of(data, 3, 1, 1);
	assert_ok(tomos_phantom_named(&ball, "ball", NULL));
	assert_ok(tomos_geometry_views(&scan, 1, 1, views, 3));
	assert_ok(tomos_phantom_project(ball, scan, 1, &a));
	assert_near(data[0], 0.5, 1e-7); /* from the source on */
	assert_near(data[1], 0, 0);      /* the ball lies behind the source */
	assert_near(data[2], 2, 1e-7);   /* and here beyond the detector */
	tomos_geometry_free(scan);
	tomos_phantom_free(ball);
}

/* The sum of a parallel projection times the pixel's area across the rays is the mass. */
static void test_mass(void **state)
{
	(void)state;
	tomos_ellipsoid list[2] = {{{0.1, -0.2, 0.15}, {0.7, 0.3, 0.5}, {0.4, 0.7, -0.9}, 2},
		{{-0.3, 0.2, 0}, {0.2, 0.4, 0.3}, {1.4, -0.2, 0.6}, -0.5}};
	double mass = 4 * PI / 3 * (2 * 0.7 * 0.3 * 0.5 - 0.5 * 0.2 * 0.4 * 0.3);
	double angles[3] = {0, 0.6, 2};
	tomos_phantom *phantom;
	tomos_geometry *scan;
	tomos_array a = tomos_array_of(data, 3, 140, 140);
	assert_ok(tomos_phantom_ellipsoids(&phantom, list, 2));
	assert_ok(tomos_geometry_parallel(&scan, 140, 140, 0.015, angles, 3));
	assert_ok(tomos_phantom_project(phantom, scan, 1, &a));
	for (int view = 0; view < 3; view++) {
		double sum = 0;
		for (int i = 0; i < 140 * 140; i++)
			sum += data[view * 140 * 140 + i];
		assert_near(sum * 0.015 * 0.015, mass, 5e-4 * mass);
	}
	tomos_geometry_free(scan);
	tomos_phantom_free(phantom);
}

static void test_cylinder(void **state)
{
	(void)state;
	tomos_ellipsoid rod = {.axes = {0.5, 0.5, INFINITY}, .value = 3};
	tomos_view views[2] = {{{1, 0, 1, 0}, {5, 0.3, 900}, {0, 1, 0}, {-1, 0, 1}},
		{{0, 0, 1, 0}, {0.6, 0, 0}, {1, 0, 0}, {0, 1, 0}}};
	tomos_phantom *phantom;
	tomos_geometry *scan;
	tomos_array a = tomos_array_of(data, 2, 1, 1);
	assert_ok(tomos_phantom_ellipsoids(&phantom, &rod, 1));
	assert_ok(tomos_geometry_views(&scan, 1, 1, views, 2));
	assert_ok(tomos_phantom_project(phantom, scan, 1, &a));
	assert_near(data[0], 3 * sqrt(2) * 0.8, 1e-6);
	assert_near(data[1], 0, 0); /* along the rod, but beside it */
	tomos_geometry_free(scan);
	views[1].det[0] = 0.4;
	assert_ok(tomos_geometry_views(&scan, 1, 1, views, 2));
	assert_rejected(tomos_phantom_project(phantom, scan, 1, &a), TOMOS_BAD_VALUE,
		"a ray of view 1 runs along a cylinder of the phantom, which has no end");
	tomos_geometry_free(scan);
	tomos_phantom_free(phantom);
}

/* Sub-rays are the rays of a detector with pixels a third as large. */
static void test_samples(void **state)
{
	(void)state;
	double angles[2] = {0.3, 4};
	tomos_geometry *scan, *fine;
	tomos_phantom *phantom = random_phantom(8);
	tomos_array a = tomos_array_of(data, 2, 5, 6), b = tomos_array_of(other, 2, 15, 18);
	assert_ok(tomos_geometry_cone(&scan, 5, 6, 0.3, 3, 4, angles, 2));
	assert_ok(tomos_geometry_cone(&fine, 15, 18, 0.1, 3, 4, angles, 2));
	assert_ok(tomos_phantom_project(phantom, scan, 3, &a));
	assert_ok(tomos_phantom_project(phantom, fine, 1, &b));
	for (int i = 0; i < 60; i++) {
		double sum = 0;
		for (int k = 0; k < 9; k++)
			sum += other[(i / 6 * 3 + k / 3) * 18 + i % 6 * 3 + k % 3];
		assert_near(data[i], sum / 9, 1e-6);
	}
	tomos_geometry_free(scan);
	tomos_geometry_free(fine);
	tomos_phantom_free(phantom);
}

static void test_threads_and_strides(void **state)
{
	(void)state;
	double angles[3] = {0, 1, 2};
	tomos_geometry *scan;
	tomos_phantom *phantom = random_phantom(9);
	tomos_array a = tomos_array_of(data, 3, 4, 5), b = tomos_array_of(other, 3, 4, 5);
	assert_ok(tomos_geometry_cone(&scan, 4, 5, 0.4, 3, 4, angles, 3));
	assert_ok(tomos_set_threads(1));
	assert_ok(tomos_phantom_project(phantom, scan, 2, &a));
	for (int threads = 2; threads <= 7; threads += 5) {
		assert_ok(tomos_set_threads(threads));
		assert_ok(tomos_phantom_project(phantom, scan, 2, &b));
		assert_memory_equal(other, data, 60 * sizeof *data);
	}
	assert_ok(tomos_set_threads(0));
	b = (tomos_array){other + 118, {3, 4, 5}, {-2, -6, -24}, 0};
	for (int i = 0; i < 120; i++)
		other[i] = -7;
	assert_ok(tomos_phantom_project(phantom, scan, 2, &b));
	for (int i = 0; i < 60; i++) {
		assert_near(b.data[i / 20 * -2 + i / 5 % 4 * -6 + i % 5 * -24], data[i], 0);
		assert_near(other[2 * i + 1], -7, 0);
	}
	tomos_geometry_free(scan);
	tomos_phantom_free(phantom);
}

static void test_rejections(void **state)
{
	(void)state;
	tomos_phantom *ball;
	tomos_geometry *scan = row_of_rays(4, 0, 1, 1);
	tomos_array a = tomos_array_of(data, 1, 4, 1), b = tomos_array_of(data, 1, 1, 4);
	assert_ok(tomos_phantom_named(&ball, "ball", NULL));
	assert_rejected(tomos_phantom_project(ball, scan, 1, &a), TOMOS_BAD_VALUE,
		"the shape of the phantom's projections is 1 x 4 x 1, expected 1 x 1 x 4");
	assert_rejected(tomos_phantom_project(ball, scan, 1001, &b), TOMOS_BAD_VALUE,
		"phantom: 1001 samples per direction, but must be 1 to 1000");
	assert_rejected(
		tomos_phantom_project(ball, NULL, 1, &b), TOMOS_BAD_VALUE, "there is no scan");
	assert_rejected(
		tomos_phantom_project(NULL, scan, 1, &b), TOMOS_BAD_VALUE, "there is no phantom");
	tomos_geometry_free(scan);
	tomos_phantom_free(ball);
}

#define TESTS(T) \
	T(test_every_geometry), T(test_free_views), T(test_ball), T(test_far_tangents), \
		T(test_source_inside_and_behind), T(test_mass), T(test_cylinder), T(test_samples), \
		T(test_threads_and_strides), T(test_rejections)
TEST_MAIN(TESTS, NULL, NULL)
