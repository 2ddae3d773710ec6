/* Grids: the default orientation, what a scan suggests, and rejections. */
#include "geom/check.h"

static void assert_grid(
	const tomos_grid *g, const int64_t n[3], const double first[3], const double step[3])
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(g->n[i], n[i]);
		assert_near(g->first[i], first[i], 1e-14);
		assert_near(g->step[i], step[i], 1e-14);
	}
}

static void test_centred(void **state)
{
	(void)state;
	tomos_grid g;
	assert_int_equal(tomos_grid_centred(&g, 4, 5, 1, 0.5), TOMOS_OK);
	assert_grid(&g, (int64_t[]){4, 5, 1}, (double[]){-0.75, 1, 0}, (double[]){0.5, -0.5, 0.5});
	assert_int_equal(tomos_grid_check(&g), TOMOS_OK);
	tomos_grid kept = g;
	assert_rejected(tomos_grid_centred(&g, 4, 0, 1, 0.5), TOMOS_BAD_VALUE, "4 x 0 x 1");
	assert_rejected(tomos_grid_centred(&g, 4, 4, 1, 0), TOMOS_BAD_VALUE,
		"voxel size along x is 0; it must be greater than 0");
	assert_rejected(tomos_grid_centred(&g, 4, 4, 1, -2), TOMOS_BAD_VALUE, "along x is -2");
	assert_rejected(tomos_grid_centred(&g, 4, 4, 1, NAN), TOMOS_BAD_VALUE, "along x is nan");
	assert_memory_equal(&g, &kept, sizeof g);
	/* More than 2^31 voxels are welcome. */
	assert_int_equal(tomos_grid_centred(&g, 5000, 5000, 5000, 1), TOMOS_OK);
}

static void test_check(void **state)
{
	(void)state;
	const tomos_grid good = {{3, 4, 5}, {1, 2, 3}, {1, -1, -2}};
	assert_int_equal(tomos_grid_check(&good), TOMOS_OK);
	assert_rejected(tomos_grid_check(NULL), TOMOS_BAD_VALUE, "there is no grid");
	tomos_grid g = good;
	g.n[2] = -1;
	assert_rejected(tomos_grid_check(&g), TOMOS_BAD_VALUE, "3 x 4 x -1 is empty or too large");
	g.n[0] = g.n[1] = g.n[2] = (int64_t)1 << 22;
	assert_rejected(tomos_grid_check(&g), TOMOS_BAD_VALUE, "too large");
	g = good;
	g.first[1] = INFINITY;
	assert_rejected(tomos_grid_check(&g), TOMOS_BAD_VALUE, "first voxel is at y = inf");
	g = good;
	g.step[2] = 0;
	assert_rejected(tomos_grid_check(&g), TOMOS_BAD_VALUE, "step along z is 0");
	g.step[2] = NAN;
	assert_rejected(tomos_grid_check(&g), TOMOS_BAD_VALUE, "step along z is nan");
}

static tomos_geometry *cone(int64_t rows, int64_t columns)
{
	static const double angles[] = {0, 1}, near = 10, far = 25;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = "cone";
	o.rows = rows, o.columns = columns;
	o.pixel = 0.5, o.pixel_height = 0.25;
	o.angles = angles, o.angles_count = 2;
	o.source_axis = &near, o.source_axis_count = 1;
	o.source_detector = &far, o.source_detector_count = 1;
	tomos_geometry *scan;
	assert_int_equal(tomos_geometry_make(&scan, &o), TOMOS_OK);
	return scan;
}

static void test_for_defaults(void **state)
{
	(void)state;
	tomos_grid g;
	double angle = 0;
	tomos_geometry *scan = cone(6, 8);
	assert_int_equal(tomos_grid_for(&g, scan, NULL), TOMOS_OK);
	assert_grid(
		&g, (int64_t[]){8, 8, 6}, (double[]){-0.7, 0.7, -0.25}, (double[]){0.2, -0.2, 0.1});
	tomos_geometry_free(scan);
	assert_int_equal(tomos_geometry_parallel(&scan, 1, 7, 0.5, &angle, 1), TOMOS_OK);
	assert_int_equal(tomos_grid_for(&g, scan, NULL), TOMOS_OK);
	assert_grid(&g, (int64_t[]){7, 7, 1}, (double[]){-1.5, 1.5, 0}, (double[]){0.5, -0.5, 0.5});
	tomos_geometry_free(scan);
}

/* Where rays stay in slices, no slice is beyond the centres of the outer rows. */
static void test_for_rows(void **state)
{
	(void)state;
	const struct {
		double voxel;
		int64_t slices;
	} of[] = {{1, 4}, {0.6, 6}, {0.5, 7}, {0.9, 4}, {2, 2}, {5, 1}};
	double angle = 0;
	tomos_geometry *scan;
	assert_int_equal(tomos_geometry_parallel(&scan, 4, 8, 1, &angle, 1), TOMOS_OK);
	for (int i = 0; i < COUNT(of); i++) {
		tomos_grid_options o = tomos_grid_defaults();
		tomos_grid g;
		o.voxel = &of[i].voxel;
		o.voxel_count = 1;
		assert_int_equal(tomos_grid_for(&g, scan, &o), TOMOS_OK);
		assert_int_equal(g.n[2], of[i].slices);
		assert_true(fabs(g.first[2]) <= 1.5 + 1e-9);
	}
	tomos_geometry_free(scan);
}

/* The grid of an offset detector is as wide as what a full turn sees; of other scans, as wide as
 * the detector. */
static void test_for_offset(void **state)
{
	(void)state;
	const double near = 10, far = 20, pi = 3.14159265358979323846;
	static const struct {
		const char *kind;
		double axis, arc;
		int64_t wide;
	} of[] = {{"cone", 2, 360, 28}, {"cone", 13, 360, 28}, {"cone", 7.5, 360, 16},
		{"cone", 2, 220, 16}, {"parallel", 3, 360, 26}, {"parallel", 3, 180, 16}};
	for (int i = 0; i < COUNT(of); i++) {
		tomos_scan_options s = tomos_scan_defaults();
		tomos_geometry *scan;
		tomos_grid g;
		s.geometry = of[i].kind;
		s.rows = 6, s.columns = 16, s.views = 48, s.arc = of[i].arc * pi / 180;
		s.pixel = 1, s.axis = &of[i].axis, s.axis_count = 1;
		if (strcmp(of[i].kind, "cone") == 0) {
			s.source_axis = &near, s.source_axis_count = 1;
			s.source_detector = &far, s.source_detector_count = 1;
		}
		assert_int_equal(tomos_geometry_make(&scan, &s), TOMOS_OK);
		assert_int_equal(tomos_grid_for(&g, scan, NULL), TOMOS_OK);
		assert_int_equal(g.n[0], of[i].wide);
		assert_int_equal(g.n[1], of[i].wide);
		tomos_geometry_free(scan);
	}
}

/* The grid of a helix covers the range between its ends, also where the middle is not at z = 0. */
static void test_for_helix(void **state)
{
	(void)state;
	const double near = 10, far = 20, voxel = 0.25, angles[] = {0, 6, 12, 18};
	const int64_t size[] = {4, 4};
	tomos_grid_options o = tomos_grid_defaults();
	tomos_scan_options s = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_grid g;
	s.geometry = "helix";
	s.rows = 6, s.columns = 8, s.pixel = 1;
	s.angles = angles, s.angles_count = 4;
	s.source_axis = &near, s.source_axis_count = 1;
	s.source_detector = &far, s.source_detector_count = 1;
	s.pitch = 2 * 3.14159265358979323846; /* a unit of length per radian: z from -9 to 9 */
	assert_int_equal(tomos_geometry_make(&scan, &s), TOMOS_OK);
	assert_int_equal(tomos_grid_for(&g, scan, NULL), TOMOS_OK);
	assert_grid(&g, (int64_t[]){8, 8, 36}, (double[]){-1.75, 1.75, -8.75},
		(double[]){0.5, -0.5, 0.5});
	o.size = size, o.size_count = 2;
	o.voxel = &voxel, o.voxel_count = 1;
	assert_int_equal(tomos_grid_for(&g, scan, &o), TOMOS_OK);
	assert_int_equal(g.n[2], 72);
	for (int64_t i = 0; i < scan->count; i++)
		scan->views[i].src[2] += 5, scan->views[i].det[2] += 5;
	assert_int_equal(tomos_grid_for(&g, scan, NULL), TOMOS_OK);
	assert_near(g.first[2], -3.75, 1e-12);
	tomos_geometry_free(scan);
	s.pitch = 0.5; /* less than the detector */
	assert_int_equal(tomos_geometry_make(&scan, &s), TOMOS_OK);
	assert_int_equal(tomos_grid_for(&g, scan, NULL), TOMOS_OK);
	assert_int_equal(g.n[2], 6);
	tomos_geometry_free(scan);
}

static void check_for(int64_t rows, tomos_grid_options o, const int64_t n[3], const double first[3],
	const double step[3])
{
	tomos_grid g;
	tomos_geometry *scan = cone(rows, 8);
	assert_int_equal(tomos_grid_for(&g, scan, &o), TOMOS_OK);
	assert_grid(&g, n, first, step);
	tomos_geometry_free(scan);
}

static void test_for_options(void **state)
{
	(void)state;
	const int64_t size[] = {5, 6, 7};
	const double voxel[] = {0.1, 0.4, 0.05}, coarse = 0.3, centre[] = {1, 2, 3};
	tomos_grid_options o = tomos_grid_defaults();
	o.size = size, o.size_count = 1;
	check_for(6, o, (int64_t[]){5, 5, 5}, (double[]){-0.4, 0.4, -0.2},
		(double[]){0.2, -0.2, 0.1});
	check_for(1, o, (int64_t[]){5, 5, 1}, (double[]){-0.4, 0.4, 0}, (double[]){0.2, -0.2, 0.1});
	o.size_count = 2; /* as many slices as rows */
	check_for(6, o, (int64_t[]){5, 6, 6}, (double[]){-0.4, 0.5, -0.25},
		(double[]){0.2, -0.2, 0.1});
	check_for(1, o, (int64_t[]){5, 6, 1}, (double[]){-0.4, 0.5, 0}, (double[]){0.2, -0.2, 0.1});
	o.size_count = 3;
	check_for(1, o, (int64_t[]){5, 6, 7}, (double[]){-0.4, 0.5, -0.3},
		(double[]){0.2, -0.2, 0.1});
	o.centre = centre, o.centre_count = 3;
	check_for(
		6, o, (int64_t[]){5, 6, 7}, (double[]){0.6, 2.5, 2.7}, (double[]){0.2, -0.2, 0.1});
	o = tomos_grid_defaults(); /* the extent is 1.6 x 1.6 x 0.6 */
	o.voxel = voxel, o.voxel_count = 3;
	check_for(6, o, (int64_t[]){16, 4, 12}, (double[]){-0.75, 0.6, -0.275},
		(double[]){0.1, -0.4, 0.05});
	check_for(1, o, (int64_t[]){16, 4, 1}, (double[]){-0.75, 0.6, 0},
		(double[]){0.1, -0.4, 0.05});
	o.voxel = &coarse, o.voxel_count = 1;
	check_for(6, o, (int64_t[]){6, 6, 2}, (double[]){-0.75, 0.75, -0.15},
		(double[]){0.3, -0.3, 0.3});
	o.size = size, o.size_count = 3;
	check_for(6, o, (int64_t[]){5, 6, 7}, (double[]){-0.6, 0.75, -0.9},
		(double[]){0.3, -0.3, 0.3});
}

static void reject_for(tomos_grid_options o, const char *part)
{
	tomos_grid g;
	tomos_geometry *scan = cone(6, 8);
	assert_rejected(tomos_grid_for(&g, scan, &o), TOMOS_BAD_VALUE, part);
	tomos_geometry_free(scan);
}

static void test_for_rejected(void **state)
{
	(void)state;
	const int64_t size[] = {5, 0, 7};
	const double voxel[] = {0.1, -0.4, 0.05}, tiny = 1e-25, centre[] = {1, NAN, 3};
	const tomos_grid_options plain = tomos_grid_defaults();
	tomos_grid_options o = plain;
	assert_rejected(tomos_grid_for(&(tomos_grid){.n = {0}}, NULL, NULL), TOMOS_BAD_VALUE,
		"there is no geometry to take a grid from");
	o.size = size, o.size_count = 4;
	reject_for(o, "the grid's size has 4 values; it takes 1, 2 or 3");
	o.size_count = 3;
	reject_for(o, "size 0: it must be 1 voxel or more");
	o.size = NULL;
	reject_for(o, "size has 3 values but no list is given");
	o.size = size, o.size_count = 0;
	reject_for(o, "size has 0 values but a list is given");
	o = plain, o.voxel = voxel, o.voxel_count = -1;
	reject_for(o, "the grid's voxel has -1 values");
	o.voxel_count = 3;
	reject_for(o, "voxel size along y is -0.4; it must be greater than 0");
	o.voxel = &tiny, o.voxel_count = 1;
	reject_for(o, "a voxel size of 1e-25 is too small for a width of 1.6");
	o = plain, o.centre = centre, o.centre_count = 1;
	reject_for(o, "the grid's centre has 1 values; it takes 3");
	o.centre_count = 3;
	reject_for(o, "first voxel is at y = nan");
	o = plain, o.bytes = 0;
	reject_for(o, "member bytes of a tomos_grid_options is 0");
}

static void test_origin_behind(void **state)
{
	(void)state;
	const tomos_view view = {{0, -5, 0, 1}, {0, -9, 0}, {1, 0, 0}, {0, 0, 1}};
	const double voxel = 1;
	tomos_grid g;
	tomos_geometry *scan;
	tomos_grid_options o = tomos_grid_defaults();
	const int64_t size = 4;
	assert_int_equal(tomos_geometry_views(&scan, 3, 3, &view, 1), TOMOS_OK);
	assert_rejected(tomos_grid_for(&g, scan, NULL), TOMOS_BAD_VALUE,
		"view 0: the origin is not in front of the source (0, -5, 0)");
	o.voxel = &voxel, o.voxel_count = 1;
	o.size = &size, o.size_count = 1;
	assert_int_equal(tomos_grid_for(&g, scan, &o), TOMOS_OK);
	tomos_geometry_free(scan);
}

#define TESTS(T) \
	T(test_centred), T(test_check), T(test_for_defaults), T(test_for_rows), \
		T(test_for_offset), T(test_for_helix), T(test_for_options), T(test_for_rejected), \
		T(test_origin_behind)
TEST_MAIN(TESTS, NULL, NULL)
