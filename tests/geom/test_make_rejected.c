/* Parameters that no scan can be made of are rejected; memory that runs out. */
#include "geom/check.h"

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

/* 360 instead of 2 pi: arcs this long are degrees. */
static void test_rejected_arcs(void **state)
{
	(void)state;
	reject("cone",
		"arc is 20626.5 degrees (360 radians); in equal steps it is at most 720 degrees",
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
	reject("parallel", "the option 'angles' is given, and the option 'arc' (180 degrees) too",
		(o.angles = good, o.angles_count = 4, o.arc = PI));
	reject("parallel", "the option 'angles' is given, and the option 'start' (90 degrees) too",
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

#define TESTS(T) \
	T(test_rejected_numbers), T(test_rejected_arcs), T(test_rejected_lists), \
		T(test_rejected_sources), T(test_memory)
TEST_MAIN(TESTS, NULL, NULL)
