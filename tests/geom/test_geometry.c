/* Lists of views: what is accepted, what is rejected and what can be asked of them. */
#include "geom/check.h"

static const tomos_view parallel = {{0, -1, 0, 0}, {0, 0, 0}, {1, 0, 0}, {0, 0, 1}};
static const tomos_view cone = {{0, 5, 0, 1}, {0, -3, 0}, {0.5, 0, 0}, {0, 0, 0.25}};

static tomos_status make(tomos_view bad)
{
	tomos_view views[3] = {parallel, cone, bad};
	tomos_geometry *scan = (tomos_geometry *)views;
	tomos_status status = tomos_geometry_views(&scan, 4, 6, views, 3);
	if (status != TOMOS_OK)
		assert_null(scan);
	else
		tomos_geometry_free(scan);
	return status;
}

static void test_views(void **state)
{
	(void)state;
	tomos_view views[2] = {parallel, cone};
	tomos_geometry *scan;
	int64_t live = mem_live();
	assert_int_equal(tomos_geometry_views(&scan, 4, 6, views, 2), TOMOS_OK);
	assert_int_equal(tomos_geometry_count(scan), 2);
	assert_int_equal(tomos_geometry_rows(scan), 4);
	assert_int_equal(tomos_geometry_columns(scan), 6);
	assert_memory_equal(tomos_geometry_list(scan), views, sizeof views);
	assert_ptr_not_equal(tomos_geometry_list(scan), views);
	tomos_geometry_free(scan);
	tomos_geometry_free(NULL);
	assert_int_equal(mem_live(), live);
}

static void test_sizes_rejected(void **state)
{
	(void)state;
	tomos_geometry *scan;
	assert_rejected(tomos_geometry_views(&scan, 0, 6, &cone, 1), TOMOS_BAD_VALUE, "0 rows");
	assert_rejected(tomos_geometry_views(&scan, -3, 6, &cone, 1), TOMOS_BAD_VALUE, "-3 rows");
	assert_rejected(tomos_geometry_views(&scan, 4, 0, &cone, 1), TOMOS_BAD_VALUE, "0 columns");
	assert_rejected(tomos_geometry_views(&scan, 4, 6, &cone, 0), TOMOS_BAD_VALUE, "0 views");
	assert_rejected(tomos_geometry_views(&scan, 4, 6, NULL, 3), TOMOS_BAD_VALUE, "0 views");
	assert_rejected(
		tomos_geometry_vectors(&scan, 4, 6, 1, NULL, 3), TOMOS_BAD_VALUE, "0 views");
	assert_rejected(geom_from_numbers(&scan, 4, 6, NULL, 3), TOMOS_BAD_VALUE, "0 views");
	assert_rejected(tomos_geometry_views(&scan, INT64_MAX / 2, 3, &cone, 1), TOMOS_BAD_VALUE,
		"1 views of 4611686018427387903 rows x 3 columns is too large");
	assert_rejected(tomos_geometry_views(&scan, (int64_t)1 << 31, (int64_t)1 << 30, &cone, 1),
		TOMOS_BAD_VALUE, "too large");
	assert_null(scan);
}

static void test_numbers_rejected(void **state)
{
	(void)state;
	static const char *const names[] = {"the source, x", "the source, y", "the source, z",
		"the fourth number of its source, src[3],", "the detector's centre, x",
		"the detector's centre, y", "the detector's centre, z", "u, one column step, x",
		"u, one column step, y", "u, one column step, z", "v, one row step, x",
		"v, one row step, y", "v, one row step, z"};
	static const double bad[] = {NAN, INFINITY, -INFINITY, 1e31};
	for (int i = 0; i < VIEW_NUMBERS; i++)
		for (int k = 0; k < COUNT(bad); k++) {
			char message[96];
			tomos_view view = cone;
			memcpy((double *)&view + i, &bad[k], sizeof bad[k]);
			snprintf(message, sizeof message, "view 2: %s is %g", names[i], bad[k]);
			assert_rejected(make(view), TOMOS_BAD_VALUE, message);
		}
}

static void test_shapes_rejected(void **state)
{
	(void)state;
	assert_rejected(make((tomos_view){{0, 5, 0, 0.5}, {0, -3, 0}, {1, 0, 0}, {0, 0, 1}}),
		TOMOS_BAD_VALUE,
		"view 2: the fourth number of its source, src[3], is 0.5; it must be 1");
	assert_rejected(make((tomos_view){{0, 5, 0, 1}, {0, -3, 0}, {0, 0, 0}, {0, 0, 1}}),
		TOMOS_BAD_VALUE, "view 2: u is (0, 0, 0)");
	assert_rejected(make((tomos_view){{0, 5, 0, 1}, {0, -3, 0}, {1, 0, 0}, {0, 0, 0}}),
		TOMOS_BAD_VALUE, "view 2: v is (0, 0, 0)");
	assert_rejected(make((tomos_view){{0, 5, 0, 1}, {0, -3, 0}, {1, 2, 3}, {-2, -4, -6}}),
		TOMOS_BAD_VALUE, "view 2: u (1, 2, 3) and v (-2, -4, -6) are parallel");
	assert_rejected(make((tomos_view){{0, 0, 0, 0}, {0, -3, 0}, {1, 0, 0}, {0, 0, 1}}),
		TOMOS_BAD_VALUE, "view 2: the direction of the rays is (0, 0, 0)");
	assert_rejected(make((tomos_view){{3, 0, 4, 0}, {0, -3, 0}, {1, 0, 0}, {0, 0, 1}}),
		TOMOS_BAD_VALUE, "view 2: rays along (3, 0, 4) run in the detector's plane");
	assert_rejected(make((tomos_view){{7, -3, 9, 1}, {0, -3, 0}, {1, 0, 0}, {0, 0, 1}}),
		TOMOS_BAD_VALUE, "view 2: the source (7, -3, 9) lies in the detector's plane");
	assert_rejected(make((tomos_view){{0, -3, 0, 1}, {0, -3, 0}, {1, 0, 0}, {0, 0, 1}}),
		TOMOS_BAD_VALUE, "view 2: the source (0, -3, 0) lies");
	/* Extreme, but sound. */
	assert_int_equal(
		make((tomos_view){{1e-20, 1e-9, 0, 0}, {1e29, -3, 0}, {1e-20, 0, 0}, {0, 0, 1e20}}),
		TOMOS_OK);
	assert_int_equal(make((tomos_view){{0, 1e29, 0, 1}, {0, -1e29, 0}, {1, 0, 0}, {0.5, 0, 1}}),
		TOMOS_OK);
}

static void test_vectors(void **state)
{
	(void)state;
	double rows[2][12];
	tomos_geometry *scan;
	for (int i = 0; i < 24; i++)
		rows[i / 12][i % 12] = uniform(-1, 1);
	for (int point = 0; point < 2; point++) {
		assert_int_equal(
			tomos_geometry_vectors(&scan, 3, 5, point ? 7 : 0, rows[0], 2), TOMOS_OK);
		const tomos_view *view = &tomos_geometry_list(scan)[1];
		assert_memory_equal(view->src, rows[1], 3 * sizeof(double));
		assert_true(view->src[3] == point);
		assert_memory_equal(view->det, rows[1] + 3, 3 * sizeof(double));
		assert_memory_equal(view->u, rows[1] + 6, 3 * sizeof(double));
		assert_memory_equal(view->v, rows[1] + 9, 3 * sizeof(double));
		tomos_geometry_free(scan);
	}
	rows[1][7] = NAN;
	assert_rejected(tomos_geometry_vectors(&scan, 3, 5, 1, rows[0], 2), TOMOS_BAD_VALUE,
		"view 1: u, one column step, y is nan; it must be between -1e+30 and 1e+30");
}

/* Positions of sources that are taken as directions of rays are further from the origin than unit
 * vectors. */
static void test_directions(void **state)
{
	(void)state;
	double rows[2][12] = {
		{0, 0.6, 0.8, 0, 0, 0, 1, 0, 0, 0, 0, 1}, {0, 1.9, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}};
	static const double last[] = {1.9, 3, 0.4};
	double low, high;
	for (int i = 0; i < 3; i++)
		for (int point = 0; point < 2; point++) {
			tomos_geometry *scan;
			rows[1][1] = last[i];
			assert_int_equal(
				tomos_geometry_vectors(&scan, 3, 5, point, rows[0], 2), TOMOS_OK);
			assert_int_equal(tomos_geometry_doubt(scan, &low, &high), !point && i > 0);
			tomos_geometry_free(scan);
		}
	assert_int_equal(tomos_geometry_doubt(NULL, &low, &high), 0);
}

/* One row of pixels from 6 numbers: the same as the 12 with z = 0 and square pixels. */
static void test_vectors_2d(void **state)
{
	(void)state;
	static const double six[2][6] = {{3, 4, -6, -8, 0.4, -0.3}, {0, 5, 1, -3, 0.5, 0}};
	static const double twelve[2][12] = {{3, 4, 0, -6, -8, 0, 0.4, -0.3, 0, 0, 0, 0.5},
		{0, 5, 0, 1, -3, 0, 0.5, 0, 0, 0, 0, 0.5}};
	tomos_geometry *plane, *space;
	for (int point = 0; point < 2; point++) {
		assert_int_equal(tomos_geometry_vectors_2d(&plane, 9, point, six[0], 2), TOMOS_OK);
		assert_int_equal(
			tomos_geometry_vectors(&space, 1, 9, point, twelve[0], 2), TOMOS_OK);
		assert_int_equal(plane->rows, 1);
		assert_memory_equal(plane->views, space->views, 2 * sizeof *plane->views);
		tomos_geometry_free(plane);
		tomos_geometry_free(space);
	}
	assert_rejected(
		tomos_geometry_vectors_2d(&plane, 9, 1, NULL, 2), TOMOS_BAD_VALUE, "0 views");
}

/* ASTRA angles (doc/conventions.md): those of parallel rays are the same here; of fans and cones
 * they are 180 degrees further here, and columns are counted in reverse. */
static void test_angles_of_astra(void **state)
{
	(void)state;
	const double origin = 50, detector = 30, pixel = 0.5, pi = 3.14159265358979323846;
	for (int i = 0; i < 7; i++) {
		double t = 0.3 + i, s = sin(t), c = cos(t), ours = t + pi;
		const double parallel_vec[6] = {s, -c, 0, 0, pixel * c, pixel * s};
		const double fanflat_vec[6] = {
			origin * s, -origin * c, -detector * s, detector * c, pixel * c, pixel * s};
		tomos_geometry *a, *b;
		assert_int_equal(tomos_geometry_vectors_2d(&a, 8, 0, parallel_vec, 1), TOMOS_OK);
		assert_int_equal(tomos_geometry_parallel(&b, 1, 8, pixel, &t, 1), TOMOS_OK);
		for (int k = 0; k < VIEW_NUMBERS; k++)
			assert_true(
				fabs(((double *)a->views)[k] - ((double *)b->views)[k]) < 1e-12);
		tomos_geometry_free(a);
		tomos_geometry_free(b);
		assert_int_equal(tomos_geometry_vectors_2d(&a, 8, 1, fanflat_vec, 1), TOMOS_OK);
		assert_int_equal(
			tomos_geometry_fan(&b, 8, pixel, origin, origin + detector, &ours, 1),
			TOMOS_OK);
		for (int k = 0; k < 3; k++) {
			assert_true(fabs(a->views->src[k] - b->views->src[k]) < 1e-12);
			assert_true(fabs(a->views->det[k] - b->views->det[k]) < 1e-12);
			assert_true(fabs(a->views->u[k] + b->views->u[k]) < 1e-12);
			assert_true(fabs(a->views->v[k] - b->views->v[k]) < 1e-12);
		}
		tomos_geometry_free(a);
		tomos_geometry_free(b);
	}
}

static void test_numbers(void **state)
{
	(void)state;
	tomos_view views[2] = {parallel, cone};
	double numbers[2 * VIEW_NUMBERS];
	tomos_geometry *scan, *again;
	assert_int_equal(tomos_geometry_views(&scan, 4, 6, views, 2), TOMOS_OK);
	geom_to_numbers(scan, numbers);
	assert_true(numbers[VIEW_NUMBERS + 1] == 5 && numbers[VIEW_NUMBERS + 3] == 1);
	assert_true(numbers[VIEW_NUMBERS + 5] == -3 && numbers[VIEW_NUMBERS + 7] == 0.5);
	assert_true(numbers[VIEW_NUMBERS + 12] == 0.25);
	assert_int_equal(geom_from_numbers(&again, 4, 6, numbers, 2), TOMOS_OK);
	assert_memory_equal(again->views, views, sizeof views);
	tomos_geometry_free(scan);
	tomos_geometry_free(again);
	numbers[3] = 3;
	assert_rejected(geom_from_numbers(&again, 4, 6, numbers, 2), TOMOS_BAD_VALUE,
		"view 0: the fourth number of its source, src[3], is 3; it must be 1 (point "
		"source), 0 (parallel rays) or 2 (a fan for each row)");
}

static void test_pixel(void **state)
{
	(void)state;
	tomos_view views[2] = {parallel, cone};
	double p[3], d[3];
	tomos_geometry *scan;
	assert_int_equal(tomos_geometry_views(&scan, 4, 6, views, 2), TOMOS_OK);
	view_pixel(scan, 0, 3, 0, p, d);
	assert_true(p[0] == -2.5 && p[1] == 0 && p[2] == 1.5);
	assert_true(d[0] == 0 && d[1] == -1 && d[2] == 0);
	view_pixel(scan, 1, 1.5, 2.5, p, d);
	assert_true(p[0] == 0 && p[1] == -3 && p[2] == 0);
	view_pixel(scan, 1, 0.25, 5, p, d);
	assert_true(p[0] == 1.25 && p[1] == -3 && p[2] == -0.3125);
	assert_true(d[0] == 1.25 && d[1] == -8 && d[2] == -0.3125);
	tomos_geometry_free(scan);
}

static void test_memory(void **state)
{
	(void)state;
	tomos_geometry *scan;
	int64_t live = mem_live(), n = 0;
	tomos_status status = TOMOS_NO_MEMORY;
	while (status != TOMOS_OK) {
		mem_fail_nth(++n);
		status = tomos_geometry_views(&scan, 4, 6, &cone, 1);
		mem_fail_nth(0);
		if (status != TOMOS_OK)
			assert_rejected(status, TOMOS_NO_MEMORY, "no memory for");
		assert_int_equal(mem_live(), status == TOMOS_OK ? live + 2 : live);
	}
	assert_int_equal(n, 3);
	tomos_geometry_free(scan);
}

#define TESTS(T) \
	T(test_views), T(test_sizes_rejected), T(test_numbers_rejected), T(test_shapes_rejected), \
		T(test_vectors), T(test_directions), T(test_vectors_2d), T(test_angles_of_astra), \
		T(test_numbers), T(test_pixel), T(test_memory)
TEST_MAIN(TESTS, NULL, NULL)
