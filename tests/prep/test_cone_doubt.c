/* Scans of fan and cone beams that say little of their geometry, or wrong things: what is found is
 * right, or doubted. */
#include "prep/cone_find.h"

/* Few views of short scans and arcs in which few rays are measured twice: axis and direction are
 * right, or doubted. */
static void test_few_views(void **state)
{
	static const double degrees[] = {0, 190, 170};
	(void)state;
	int sure = 0, scans = CASE_SLOW ? 12 : 90;
	for (int i = 0; i < scans; i++) {
		ConeScene s = {.seed = (uint64_t)i + 500,
			.size = 64,
			.rows = i % 2 ? 5 : 1,
			.views = 44 + i % 30,
			.arc = ARC_SHORT,
			.object = (ConeObject)(i % 5),
			.noise = i % 4 < 2 ? 0.01 : 0,
			.offset = 6,
			.degrees = degrees[i % 3],
			.fan = i % 3 ? 25 : 8};
		cone_scene(&s);
		tomos_geometry *nominal = cone_nominal(&s, 1, i % 7 < 3);
		tomos_axis axis = {.bytes = sizeof axis};
		double sweep[3];
		if (tomos_axis_find_scan(&axis, NULL, &s.array, nominal, NULL, NULL) == TOMOS_OK &&
			!tomos_axis_doubt(&axis, &sweep[0], &sweep[1], &sweep[2])) {
			double off = fabs(axis.column - s.pose[POSE_AXIS]);
			printf("  scan %d: %.3f, true %.3f, standard error %.3f%s\n", i,
				axis.column, s.pose[POSE_AXIS], axis.error,
				axis.reversed != (i % 7 < 3) ? ", DIRECTION" : "");
			assert_true(off < fmax(4 * axis.error, 0.1));
			assert_int_equal(axis.reversed, i % 7 < 3);
			sure++;
		}
		tomos_geometry_free(nominal);
		cone_scene_free(&s);
	}
	printf("  %d of %d are certain\n", sure, scans);
	assert_true(5 * sure > scans);
}

static void set_columns(const ConeScene *s, int64_t first, int64_t count, float value)
{
	for (int64_t i = 0; i < s->views * s->rows; i++)
		for (int64_t c = first; c < first + count; c++)
			s->array.data[i * s->size + c] = value;
}

/* Columns without a signal, within the object and at the edges of the detector: they do not draw
 * the axis to their middle. */
static void test_dead_columns(void **state)
{
	static const int64_t within[][2] = {{30, 1}, {60, 2}, {41, 1}, {71, 3}};
	(void)state;
	for (int i = 0; i < 6; i++) {
		ConeScene s = scene((uint64_t)i + 30, (ConeArc)(i % 3), OBJECT_SOLIDS, 3);
		float value = s.array.data[s.size / 2] * (i % 2 ? 0 : 3);
		for (int k = 0; k < COUNT(within); k++)
			set_columns(&s, within[k][0], within[k][1], value);
		if (s.arc != ARC_OFFSET) { /* whose object reaches one of them */
			set_columns(&s, 0, 2, value);
			set_columns(&s, s.size - 3, 3, value);
		}
		tomos_geometry *nominal = cone_nominal(&s, 1, false);
		tomos_axis axis = find(&s, nominal, "auto");
		assert_true(fabs(axis.column - s.pose[POSE_AXIS]) < 0.1 && !axis.reversed);
		assert_true(axis.confidence > 0.1 || s.arc == ARC_SHORT); /* few rays are left */
		tomos_geometry_free(nominal);
		cone_scene_free(&s);
	}
}

/* Ranges beside the axis, also those that have no best place at an end, are reported as such. */
static void test_other_range(void **state)
{
	static const double beside[][2] = {{3, 9}, {6, 20}, {-12, -4}, {-25, -5}, {2, 30}};
	(void)state;
	for (int i = 0; i < 2 * COUNT(beside); i++) {
		ConeScene s =
			scene((uint64_t)i + 60, i % 2 ? ARC_SHORT : ARC_FULL, OBJECT_SOLIDS, 1);
		tomos_geometry *nominal = cone_nominal(&s, 1, false);
		tomos_axis_options o = tomos_axis_defaults();
		tomos_axis axis = {.bytes = sizeof axis};
		double range[2], sweep[3], column = s.pose[POSE_AXIS];
		o.axis_range = range;
		o.axis_range_count = 2;
		range[0] = column + beside[i / 2][0];
		range[1] = column + beside[i / 2][1];
		OK(tomos_axis_find_scan(&axis, NULL, &s.array, nominal, &o, NULL));
		assert_true(axis.column >= range[0] && axis.column <= range[1] && axis.at_edge);
		assert_true(tomos_axis_doubt(&axis, &sweep[0], &sweep[1], &sweep[2]));
		range[0] = column - 4;
		range[1] = column + 3;
		OK(tomos_axis_find_scan(&axis, NULL, &s.array, nominal, &o, NULL));
		assert_true(fabs(axis.column - column) < 0.1 && !axis.at_edge);
		tomos_geometry_free(nominal);
		cone_scene_free(&s);
	}
}

/* Balls above and below a midplane in which there is nothing but noise: what is said is true, or
 * nothing is said. */
static void test_empty_midplane(void **state)
{
	(void)state;
	for (int i = 0; i < (CASE_SLOW ? 1 : 4); i++) {
		ConeScene s = {.seed = (uint64_t)i + 70,
			.size = 64,
			.rows = 64,
			.views = 80,
			.tilted = true,
			.object = OBJECT_BALLS,
			.offset = 8};
		cone_scene(&s);
		double r = 20 * s.source / s.detector, ball = 0.12 * r;
		const tomos_ellipsoid list[] = {
			{{0.5 * r, 0, 0.5 * r}, {ball, ball, ball}, {0, 0, 0}, 1},
			{{-0.2 * r, 0.4 * r, 0.7 * r}, {ball, ball, ball}, {0, 0, 0}, 0.7},
			{{-0.3 * r, -0.3 * r, -0.8 * r}, {ball, ball, ball}, {0, 0, 0}, 1}};
		tomos_phantom *phantom;
		OK(tomos_phantom_ellipsoids(&phantom, list, COUNT(list)));
		OK(tomos_phantom_project(phantom, s.geometry, 1, &s.array));
		tomos_phantom_free(phantom);
		OK(tomos_noise_gaussian(&s.array, 1e-3, 5));
		tomos_geometry *nominal = cone_nominal(&s, 1, false);
		tomos_pose pose = {.bytes = sizeof pose};
		OK(tomos_pose_find(&pose, NULL, NULL, &s.array, nominal, NULL, NULL));
		for (int k = 0; k < POSE_COUNT; k++) {
			double truth = s.pose[k] * (k == POSE_SCALE ? s.detector : 1);
			printf("  scan %d value %d: %.4f, true %.4f, standard error %.4f\n", i, k,
				pose.value[k], truth, pose.error[k]);
			assert_true(isnan(pose.error[k]) ||
				    fabs(pose.value[k] - truth) <= 4 * pose.error[k]);
		}
		tomos_geometry_free(nominal);
		cone_scene_free(&s);
	}
}

/* Of numbers that are the same everywhere, rounding is no axis. */
static void test_constant(void **state)
{
	enum { SOME = 130, HIGH = 3, WIDE = 301 };
	static float data[SOME * HIGH * WIDE];
	const tomos_array array = tomos_array_of(data, SOME, HIGH, WIDE);
	const double distances[2] = {150, 200};
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_pose pose = {.bytes = sizeof pose};
	(void)state;
	o.geometry = "cone";
	o.views = SOME, o.rows = HIGH, o.columns = WIDE;
	o.source_axis = &distances[0], o.source_axis_count = 1;
	o.source_detector = &distances[1], o.source_detector_count = 1;
	OK(tomos_geometry_make(&scan, &o));
	for (int i = 0; i < SOME * HIGH * WIDE; i++)
		data[i] = 1;
	REJECTED(tomos_pose_find(&pose, NULL, NULL, &array, scan, NULL, NULL), TOMOS_BAD_VALUE,
		"measured from both sides");
	tomos_geometry_free(scan);
}

/* Contradictions that interpolation alone can make are no doubt, nor are values as given. */
static void test_words(void **state)
{
	static const struct {
		double axis, before, after;
		int64_t beyond;
		int doubt;
	} poses[] = {
		{0.01, 0.1, 0.02, 0, TOMOS_POSE_CERTAIN},
		{0, 0.1, 0.02, 0, TOMOS_POSE_CERTAIN},
		{0.01, 1e-4, 5e-4, 0, TOMOS_POSE_CERTAIN},
		{0.01, 0.02, 0.0201, 0, TOMOS_POSE_CERTAIN},
		{0.01, 0.02, 0.021, 0, TOMOS_POSE_NO_BETTER},
		{0.01, 0.5, 0.31, 0, TOMOS_POSE_DISAGREES},
		{9.5, 0.202, 0.2, 0, TOMOS_POSE_DISAGREES},
		{NAN, 0.1, 0.02, 0, TOMOS_POSE_DISAGREES},
		{HUGE_VAL, 0.1, 0.02, 0, TOMOS_POSE_DISAGREES},
		{0.01, 0.1, 0.02, 1 << TOMOS_POSE_SLANT, TOMOS_POSE_BEYOND},
	};
	(void)state;
	for (int i = 0; i < COUNT(poses); i++) {
		const tomos_pose pose = {.bytes = sizeof pose,
			.error = {poses[i].axis, NAN, NAN, NAN, NAN, NAN},
			.before = poses[i].before,
			.after = poses[i].after,
			.beyond = poses[i].beyond};
		assert_int_equal(tomos_pose_doubt(&pose), poses[i].doubt);
	}
}

#define TESTS(T) \
	T(test_few_views), T(test_dead_columns), T(test_other_range), T(test_empty_midplane), \
		T(test_constant), T(test_words)
TEST_MAIN(TESTS, NULL, NULL)
