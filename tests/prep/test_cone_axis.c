/* Axis, direction of rotation and pose of the detector of simulated fan and cone beam scans; views
 * that are rejected; memory. */
#include "prep/cone_find.h"
#include "prep/normal.h"

enum { ROWS = 7 };

/* The axis to a tenth of a pixel and the direction of rotation, whichever the angles have. */
static void test_axis(void **state)
{
	(void)state;
	for (int i = 0; i < (CASE_SLOW ? 3 : 6); i++) {
		ConeScene s = scene((uint64_t)i + 3, (ConeArc)(i % 3), (ConeObject)(i % 2), ROWS);
		for (int reversed = 0; reversed < 2; reversed++) {
			tomos_geometry *nominal = cone_nominal(&s, 1, reversed);
			tomos_axis axis = find(&s, nominal, "auto");
			assert_true(fabs(axis.column - s.pose[POSE_AXIS]) < 0.1);
			assert_true(axis.error > 0 && axis.error < 0.1);
			assert_int_equal(axis.reversed, reversed);
			assert_int_equal(axis.full_turn, s.arc != ARC_SHORT);
			assert_true(axis.confidence > 0.1 && axis.confidence <= 1);
			assert_true(axis.pairs == axis.column && isnan(axis.vo));
			tomos_geometry_free(nominal);
		}
		cone_scene_free(&s);
	}
}

/* A detector that is rolled is noticed, unless the axis is uncertain then; one that is not is not,
 * with noise or without. */
static void test_tilted(void **state)
{
	int noticed = 0;
	(void)state;
	for (int i = 0; i < (CASE_SLOW ? 4 : 20); i++) {
		ConeScene s = {.seed = (uint64_t)i + 40,
			.size = COLUMNS,
			.rows = ROWS,
			.views = VIEWS,
			.arc = (ConeArc)(i / 2 % 3),
			.object = (ConeObject)(i / 4 % 2),
			.noise = i % 2 ? 0.02 : 0,
			.offset = 8};
		cone_scene(&s);
		tomos_geometry *nominal = cone_nominal(&s, 1, false);
		assert_int_equal(find(&s, nominal, "auto").tilted, 0);
		tomos_geometry_free(nominal);
		Orbit orbit;
		tomos_geometry *rolled;
		OK(orbit_take(&orbit, s.geometry));
		orbit.pose[POSE_ROLL] += (i & 2 ? 2 : -2) * M_PI / 180;
		OK(orbit_geometry(&rolled, &orbit, orbit.pose, false));
		if (i % 2 == 0 && s.arc == ARC_FULL) {
			tomos_axis axis = find(&s, rolled, "auto");
			assert_true(axis.tilted || axis.confidence < 0.1);
			noticed += axis.tilted != 0;
		}
		tomos_geometry_free(rolled);
		orbit_free(&orbit);
		cone_scene_free(&s);
	}
	assert_true(noticed > 0);
}

/* With the direction given, the angles are taken as they are. */
static void test_direction_given(void **state)
{
	(void)state;
	ConeScene s = scene(4, ARC_FULL, OBJECT_SOLIDS, 1);
	tomos_geometry *wrong = cone_nominal(&s, 1, true);
	assert_int_equal(find(&s, wrong, "given").reversed, 0);
	tomos_geometry_free(wrong);
	cone_scene_free(&s);
}

/* Columns that count the other way round: the same axis, counted from the other side. */
static void test_mirrored(void **state)
{
	(void)state;
	ConeScene s = scene(5, ARC_FULL, OBJECT_SOLIDS, 1);
	tomos_geometry *nominal = cone_nominal(&s, 1, false);
	for (int64_t i = 0; i < VIEWS; i++) {
		float *row = s.array.data + i * COLUMNS;
		for (int64_t c = 0; c < COLUMNS / 2; c++) {
			float kept = row[c];
			row[c] = row[COLUMNS - 1 - c];
			row[COLUMNS - 1 - c] = kept;
		}
		for (int a = 0; a < 3; a++)
			nominal->views[i].u[a] *= -1;
	}
	s.pose[POSE_AXIS] = COLUMNS - 1 - s.pose[POSE_AXIS];
	tomos_axis axis = find(&s, nominal, "auto");
	assert_true(fabs(axis.column - s.pose[POSE_AXIS]) < 0.1 && !axis.reversed);
	tomos_geometry_free(nominal);
	cone_scene_free(&s);
}

static void test_sharpness(void **state)
{
	(void)state;
	ConeScene s = scene(6, ARC_FULL, OBJECT_SOLIDS, 1);
	tomos_axis_options o = tomos_axis_defaults();
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_geometry *nominal = cone_nominal(&s, 1, true);
	o.axis_method = "sharpness";
	OK(tomos_axis_find_scan(&axis, NULL, &s.array, nominal, &o, NULL));
	assert_true(fabs(axis.sharpness - s.pose[POSE_AXIS]) < 0.3 && axis.reversed);
	o.axis_method = "vo";
	REJECTED(tomos_axis_find_scan(&axis, NULL, &s.array, nominal, &o, NULL), TOMOS_UNSUPPORTED,
		"parallel rays");
	tomos_geometry_free(nominal);
	cone_scene_free(&s);
}

/* A pose survives the way to views and back, in every orientation of the detector. */
static void test_orbit(void **state)
{
	(void)state;
	double angles[] = {0.3, 1.5, 4.0};
	for (int i = 0; i < 8; i++) {
		Orbit o = {.views = 3,
			      .rows = 5,
			      .columns = 7,
			      .angles = angles,
			      .source = 3,
			      .detector = 5,
			      .width = 0.1,
			      .height = 0.2,
			      .lift = i & 4 ? 0.7 : 0,
			      .mirror = i & 1 ? -1 : 1,
			      .upright = i & 2 ? -1 : 1,
			      .kind = TOMOS_POINT},
		      back;
		const double pose[POSE_COUNT] = {2.3, 1.9, 0.1, -0.2, 0.15, 1.1};
		const double pixel[2] = {4.25, 3.5};
		double counted[POSE_COUNT], at[2], place[3], ray[3];
		tomos_geometry *scan;
		OK(orbit_geometry(&scan, &o, pose, false));
		OK(orbit_take(&back, scan));
		for (int k = 0; k < POSE_SCALE; k++)
			assert_true(fabs(back.pose[k] - pose[k]) < 1e-9);
		assert_true(fabs(back.detector - 5.5) < 1e-9 && fabs(back.source - 3) < 1e-9);
		assert_true(back.mirror == o.mirror && back.upright == o.upright);
		assert_true(fabs(back.lift - o.lift) < 1e-12);
		/* the ray of a pixel, in the frame of the first view, comes back to the pixel */
		view_pixel(scan, 0, pixel[1], pixel[0], place, ray);
		double c = cos(0.3), sn = sin(0.3);
		double x = o.mirror * (ray[0] * c + ray[1] * sn), y = o.upright * ray[2];
		double z = ray[0] * sn - ray[1] * c;
		pose_counted(&o, pose, counted);
		pose_pixel(counted, 50, 2, 50 * x / z, 50 * y / z, at);
		assert_true(fabs(at[0] - pixel[0]) < 1e-9 && fabs(at[1] - pixel[1]) < 1e-9);
		orbit_free(&back);
		tomos_geometry_free(scan);
	}
}

/* Least squares with known noise: the solution, and its standard errors within their own error. */
static void test_normal(void **state)
{
	(void)state;
	Normal blocks[NORMAL_BLOCKS];
	double step[NORMAL_MOST], covariance[NORMAL_MOST][NORMAL_MOST], scatter = 0, claimed = 0;
	for (int trial = 0; trial < 200; trial++) {
		memset(blocks, 0, sizeof blocks);
		for (int i = 0; i < 320; i++) {
			Normal *b = &blocks[i % NORMAL_BLOCKS];
			double j[2] = {1, i / 100.0};
			double r =
				3 - 2 * j[1] + 0.1 * random_normal(7, (uint64_t)(trial * 320 + i));
			for (int k = 0; k < 2; k++) {
				b->g[2 * k] -= j[k] * r;
				for (int l = 0; l < 2; l++)
					b->h[2 * k][2 * l] += j[k] * j[l];
			}
		}
		assert_true(normal_solve(blocks, 5, step, covariance));
		assert_true(fabs(step[0] - 3) < 0.1 && fabs(step[2] + 2) < 0.05 && step[1] == 0);
		scatter += (step[0] - 3) * (step[0] - 3);
		claimed += covariance[0][0];
	}
	assert_true(claimed > 0.7 * scatter && claimed < 1.4 * scatter);
	assert_false(normal_solve(blocks, 7, step, covariance));
	normal_bound(blocks, 1, 9, step); /* residuals of 3 / sqrt(320) each, all of one sign */
	assert_true(fabs(step[0] - 3 / sqrt(320)) < 1e-9 && step[2] == 0);
}

static void test_rejected(void **state)
{
	(void)state;
	ConeScene s = scene(8, ARC_FULL, OBJECT_SOLIDS, 1);
	tomos_geometry *scan = cone_nominal(&s, 1, false);
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_pose pose = {.bytes = sizeof pose};
	REJECTED(tomos_axis_find_scan(&axis, NULL, &s.array, NULL, NULL, NULL), TOMOS_BAD_VALUE,
		"the scan is missing");
	REJECTED(tomos_pose_find(&pose, NULL, NULL, &s.array, NULL, NULL, NULL), TOMOS_BAD_VALUE,
		"the scan is missing");
	float *corner = s.array.data, kept = *corner;
	*corner = NAN;
	REJECTED(tomos_pose_find(&pose, NULL, NULL, &s.array, scan, NULL, NULL), TOMOS_BAD_VALUE,
		"the array of line integrals has 1 value that is not finite, the first at "
		"[0][0][0]");
	*corner = kept;
	scan->views[5].src[2] += 1;
	REJECTED(tomos_axis_find_scan(&axis, NULL, &s.array, scan, NULL, NULL), TOMOS_UNSUPPORTED,
		"view 5");
	tomos_geometry_free(scan);
	for (int64_t i = 0; i < VIEWS; i++) { /* 90 degrees: no ray is measured twice */
		double angle = 0.5 * M_PI * (double)i / VIEWS;
		s.geometry->views[i] =
			(tomos_view){{-3 * sin(angle), 3 * cos(angle), 0, TOMOS_POINT},
				{2 * sin(angle), -2 * cos(angle), 0},
				{0.001 * cos(angle), 0.001 * sin(angle), 0}, {0, 0, 0.001}};
	}
	REJECTED(tomos_axis_find_scan(&axis, NULL, &s.array, s.geometry, NULL, NULL),
		TOMOS_BAD_VALUE, "measured from both sides");
	cone_scene_free(&s);
}

/* The whole pose of a small detector, without noise: a step of the campaign in long_cone_pose.c. */
static void test_pose(void **state)
{
	(void)state;
	ConeScene s = {.seed = 1,
		.size = CASE_SLOW ? 40 : 64,
		.rows = CASE_SLOW ? 40 : 64,
		.views = CASE_SLOW ? 60 : 96,
		.object = OBJECT_SOLIDS,
		.offset = 4};
	cone_scene(&s);
	cone_scene_free(&s);
	s.tilted = true;
	cone_scene(&s);
	tomos_geometry *nominal = cone_nominal(&s, 1.02, true), *fitted;
	tomos_pose pose = {.bytes = sizeof pose};
	OK(tomos_pose_find(&pose, &fitted, NULL, &s.array, nominal, NULL, NULL));
	for (int k = 0; k < POSE_COUNT; k++)
		printf("  pose %d: %.4f, true %.4f, standard error %.4f\n", k, pose.value[k],
			s.pose[k] * (k == POSE_SCALE ? s.detector : 1), pose.error[k]);
	assert_int_equal(pose.reversed, 1);
	assert_true(fabs(pose.value[POSE_AXIS] - s.pose[POSE_AXIS]) < 0.1);
	assert_true(fabs(pose.value[POSE_ROW] - s.pose[POSE_ROW]) < 1.5);
	assert_true(fabs(pose.value[POSE_ROLL] - s.pose[POSE_ROLL]) < 0.003);
	assert_true(pose.after < pose.before);
	Orbit orbit;
	OK(orbit_take(&orbit, fitted));
	assert_true(fabs(orbit.pose[POSE_ROLL] - pose.value[POSE_ROLL]) < 1e-9);
	assert_true(fabs(orbit.detector - pose.value[POSE_SCALE]) < 1e-6 * orbit.detector);
	orbit_free(&orbit);
	tomos_geometry_free(nominal);
	tomos_geometry_free(fitted);
	cone_scene_free(&s);
}

/* Few balls, far from the pose as given: most rows have nothing in the midplane, and planes are
 * alike only near the right pose. What is reported is within four standard errors: nothing of the
 * first two, axis, row and roll of the third. */
static void test_few_balls(void **state)
{
	static const struct {
		int64_t seed, size, views;
		double noise, tilted;
		int64_t solids;
		bool determined;
	} cases[] = {{10020, 64, 180, 0.014, 1.5, 5, false}, {10034, 96, 150, 0.02, 1.5, 4, false},
		{10024, 64, 150, 0.01, 1, 6, true}};
	(void)state;
	for (int i = 0; i < COUNT(cases) && !CASE_SLOW; i++) {
		ConeScene s = {.seed = (uint64_t)cases[i].seed,
			.size = cases[i].size,
			.rows = cases[i].size,
			.views = cases[i].views,
			.object = OBJECT_BALLS,
			.noise = cases[i].noise,
			.tilted = cases[i].tilted,
			.solids = cases[i].solids,
			.offset = 8};
		cone_scene(&s);
		tomos_geometry *nominal = cone_nominal(&s, 1.02, false);
		tomos_pose pose = {.bytes = sizeof pose};
		OK(tomos_pose_find(&pose, NULL, NULL, &s.array, nominal, NULL, NULL));
		for (int k = POSE_AXIS; k <= POSE_SWIVEL; k++) {
			double value = pose.value[k];
			if (k == POSE_AXIS) /* in the row of the truth */
				value += (s.pose[POSE_ROW] - pose.value[POSE_ROW]) *
					 tan(pose.value[POSE_ROLL]);
			printf("  balls %d value %d: %.4f, true %.4f, standard error %.4f\n", i, k,
				value, s.pose[k], pose.error[k]);
			bool required = cases[i].determined && k <= POSE_ROLL;
			assert_true((!required && isnan(pose.error[k])) ||
				    fabs(value - s.pose[k]) <= 4 * pose.error[k]);
		}
		tomos_geometry_free(nominal);
		cone_scene_free(&s);
	}
}

/* Short scans and offset detectors with unknown row and roll: planes that views have in common,
 * and what reconstruction leaves of an object that ends within the rows, give both. */
static void test_pose_arcs(void **state)
{
	static const struct {
		ConeArc arc;
		ConeObject object;
		double roll, row;
	} cases[] = {{ARC_SHORT, OBJECT_SOLIDS, 0.003, 1.5}, {ARC_OFFSET, OBJECT_BALLS, 0.005, 3}};
	(void)state;
	for (int i = 0; i < COUNT(cases) && !CASE_SLOW; i++) {
		ConeScene s = {.seed = 1,
			.size = 64,
			.rows = 64,
			.views = 96,
			.arc = cases[i].arc,
			.object = cases[i].object,
			.tilted = true,
			.offset = 4};
		cone_scene(&s);
		tomos_geometry *nominal = cone_nominal(&s, 1, false);
		tomos_pose pose = {.bytes = sizeof pose};
		OK(tomos_pose_find(&pose, NULL, NULL, &s.array, nominal, NULL, NULL));
		for (int k = POSE_AXIS; k <= POSE_ROLL; k++)
			printf("  arc %d value %d: %.4f, true %.4f, standard error %.4f\n",
				(int)s.arc, k, pose.value[k], s.pose[k], pose.error[k]);
		printf("  contradiction %.3f, before %.3f\n", pose.after, pose.before);
		assert_true(fabs(pose.value[POSE_AXIS] - s.pose[POSE_AXIS]) < 0.05);
		assert_true(fabs(pose.value[POSE_ROW] - s.pose[POSE_ROW]) < cases[i].row);
		assert_true(fabs(pose.value[POSE_ROLL] - s.pose[POSE_ROLL]) < cases[i].roll);
		tomos_geometry_free(nominal);
		cone_scene_free(&s);
	}
}

/* A geometry that is right stays: phantoms of few edges determine little of the pose. */
static void test_right_pose(void **state)
{
	static const double arcs[] = {230, 360};
	tomos_phantom *phantom;
	(void)state;
	OK(tomos_phantom_named(&phantom, "shepp-logan", NULL));
	for (int i = 0; i < COUNT(arcs) && !CASE_SLOW; i++) {
		tomos_scan_options o = tomos_scan_defaults();
		double row = 30;
		o.geometry = "cone", o.columns = o.rows = 64, o.views = 120;
		o.arc = arcs[i] * M_PI / 180, o.source_axis = (double[]){6};
		o.source_axis_count = 1, o.source_detector = (double[]){9};
		o.source_detector_count = 1, o.pixel = 0.05;
		o.axis_row = &row, o.axis_row_count = 1;
		tomos_geometry *scan, *fitted;
		tomos_pose pose = {.bytes = sizeof pose};
		OK(tomos_geometry_make(&scan, &o));
		tomos_array data =
			tomos_array_of(malloc(sizeof(float) * 120 * 64 * 64), 120, 64, 64);
		OK(tomos_phantom_project(phantom, scan, 1, &data));
		OK(tomos_noise_gaussian(&data, 0.01, 5));
		OK(tomos_pose_find(&pose, &fitted, NULL, &data, scan, NULL, NULL));
		for (int k = 0; k < POSE_COUNT; k++)
			printf("  arc %g value %d: %.4f, standard error %.4f\n", arcs[i], k,
				pose.value[k], pose.error[k]);
		assert_true(fabs(pose.value[POSE_AXIS] - 31.5) < 0.03);
		assert_true(fabs(pose.value[POSE_ROW] - row) < 0.2);
		for (int k = POSE_ROLL; k <= POSE_SWIVEL; k++)
			assert_true(fabs(pose.value[k]) < 1e-9);
		assert_true(fabs(pose.value[POSE_SCALE] - 9) < 1e-6);
		free(data.data);
		tomos_geometry_free(scan);
		tomos_geometry_free(fitted);
	}
	tomos_phantom_free(phantom);
}

/* The scan of a named phantom, 64 columns wide, with the axis in this column and row. */
static tomos_array phantom_scan(
	const char *name, int64_t rows, double arc, double axis_row, tomos_geometry **scan)
{
	tomos_phantom *phantom;
	tomos_scan_options o = tomos_scan_defaults();
	OK(tomos_phantom_named(&phantom, name, NULL));
	o.geometry = "cone", o.columns = 64, o.rows = rows, o.views = 120;
	o.arc = arc * M_PI / 180, o.source_axis = (double[]){6}, o.source_axis_count = 1;
	o.source_detector = (double[]){9}, o.source_detector_count = 1, o.pixel = 0.05;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	OK(tomos_geometry_make(scan, &o));
	tomos_array data =
		tomos_array_of(malloc(sizeof(float) * (size_t)(120 * rows * 64)), 120, rows, 64);
	OK(tomos_phantom_project(phantom, *scan, 1, &data));
	tomos_phantom_free(phantom);
	return data;
}

/* The central row is off by 15 rows, and the object extends beyond the lowest one: values that the
 * scan does not determine stay as given, and the others are right within their standard errors. */
static void test_cut_object(void **state)
{
	static const double arcs[] = {360, 230};
	(void)state;
	for (int i = 0; i < (CASE_SLOW ? 1 : 2); i++) {
		tomos_geometry *scan, *nominal, *fitted;
		tomos_pose pose = {.bytes = sizeof pose};
		tomos_array data = phantom_scan("shepp-logan", 64, arcs[i], 46.5, &scan), other;
		other = phantom_scan("shepp-logan", 64, arcs[i], 31.5, &nominal);
		OK(tomos_noise_gaussian(&data, 0.005, 5));
		OK(tomos_pose_find(&pose, &fitted, NULL, &data, nominal, NULL, NULL));
		for (int k = 0; k < POSE_COUNT; k++) {
			const double truth[POSE_COUNT] = {31.5, 46.5, 0, 0, 0, 9};
			printf("  arc %g value %d: %.4f, standard error %.4f\n", arcs[i], k,
				pose.value[k], pose.error[k]);
			assert_true(isnan(pose.error[k]) ||
				    fabs(pose.value[k] - truth[k]) <= 4 * pose.error[k]);
		}
		assert_true(fabs(pose.value[POSE_SCALE] - 9) < 0.2);
		assert_true(isfinite(pose.error[POSE_AXIS]));
		free(data.data);
		free(other.data);
		tomos_geometry_free(scan);
		tomos_geometry_free(nominal);
		tomos_geometry_free(fitted);
	}
}

/* A round object looks the same in both directions: that of the angles stays. Slices with fans of
 * their own, two of them, are all that can be averaged. */
static void test_round_object(void **state)
{
	(void)state;
	tomos_geometry *scan;
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_array data = phantom_scan("ball", 9, 360, 4, &scan);
	for (int fans = 0; fans < 2; fans++) {
		OK(tomos_axis_find_scan(&axis, NULL, &data, scan, NULL, NULL));
		assert_int_equal(axis.reversed, 0);
		assert_true(fabs(axis.column - 31.5) < 0.05);
		data.shape[1] = scan->rows = 2;
		for (int64_t i = 0; i < scan->count; i++)
			scan->views[i].src[3] = TOMOS_FAN_PER_ROW;
	}
	free(data.data);
	tomos_geometry_free(scan);
}

static void test_memory(void **state)
{
	(void)state;
	ConeScene s = {.seed = 2, .size = 32, .rows = 4, .views = 24, .offset = 2};
	cone_scene(&s);
	tomos_geometry *nominal = cone_nominal(&s, 1, false);
	tomos_pose pose = {.bytes = sizeof pose};
	int64_t before = mem_live();
	for (int nth = 1; nth < 400; nth += CASE_SLOW ? 7 : 1) {
		mem_fail_nth(nth);
		tomos_status status =
			tomos_pose_find(&pose, NULL, NULL, &s.array, nominal, NULL, NULL);
		mem_fail_nth(0);
		assert_true(mem_live() == before);
		if (status != TOMOS_NO_MEMORY)
			break;
	}
	tomos_geometry_free(nominal);
	cone_scene_free(&s);
}

#define TESTS(T) \
	T(test_orbit), T(test_normal), T(test_axis), T(test_direction_given), T(test_tilted), \
		T(test_mirrored), T(test_sharpness), T(test_rejected), T(test_pose), \
		T(test_few_balls), T(test_pose_arcs), T(test_right_pose), T(test_cut_object), \
		T(test_round_object), T(test_memory)
TEST_MAIN(TESTS, NULL, NULL)
