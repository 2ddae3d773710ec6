/* The rotation axis: simulated scans of half a turn and a whole one, with noise and rings, off
 * centre and beside the edge; two measured scans; rejections; memory. */
#include "prep/prep_test.h"
#include <unistd.h>

enum { COLUMNS = 200 };

static void spoil(Scene *s, double noise, double rings)
{
	uint64_t random = (uint64_t)(1 + s->axis);
	float ring[COLUMNS] = {0};
	for (int64_t c = 0; c < s->columns; c++)
		ring[c] = c % 17 == 3 ? (float)(rings * noise_of(&random)) : 0;
	for (int64_t i = 0; i < s->count; i++)
		s->data[i] += ring[i % s->columns] + (float)(noise * noise_of(&random));
}

static tomos_axis find(const Scene *s, const char *method)
{
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_axis_options o = tomos_axis_defaults();
	o.axis_method = method;
	OK(tomos_axis_find(&axis, NULL, &s->array, s->angles, &o, NULL));
	printf("  %3.0f degrees, %3lld views, axis %7.2f: %-9s %8.3f (%+.3f), error %.3f, "
	       "confidence %.2f\n",
		s->arc, (long long)s->views, s->axis, method, axis.column, axis.column - s->axis,
		axis.error, axis.confidence);
	return axis;
}

/* What is asked of simulated scans: a tenth of a pixel; a quarter where they are cut off. */
static void test_simulated(void **state)
{
	(void)state;
	static const struct {
		int64_t views;
		double axis, arc, reach, noise, rings;
		int half;
		double within;
	} list[] = {
		{121, 99.5, 180, 75, 0, 0, 0, 0.1},
		{121, 104.27, 180, 75, 0.02, 0, 0, 0.1},
		{121, 82.7, 180, 60, 0.02, 0.05, 0, 0.1},
		{91, 99.0, 180, 140, 0.01, 0, 0, 0.25}, /* wider than the detector */
		{240, 104.27, 360, 75, 0.02, 0.05, 0, 0.1},
		{240, 75.1, 360, 60, 0.02, 0.05, 0, 0.1},
		{240, 24.3, 360, 160, 0.01, 0.05, 1, 0.1},
		{240, 178.8, 360, 160, 0.01, 0.05, 1, 0.1},
	};
	for (int i = CASE_SLOW; i < COUNT(list); i += CASE_RACES ? 6 : CASE_SLOW ? 3 : 1) {
		Scene s = scene_make(list[i].views, CASE_SLOW ? 1 : 2, COLUMNS, list[i].axis,
			list[i].arc, list[i].reach);
		spoil(&s, list[i].noise, list[i].rings);
		tomos_axis axis = find(&s, "auto");
		assert_true(fabs(axis.column - s.axis) < list[i].within);
		assert_true(axis.confidence > 0.1 && axis.confidence <= 1);
		assert_true(axis.error > 0 && axis.error < list[i].within);
		assert_int_equal(axis.half, list[i].half);
		assert_int_equal(axis.full_turn, list[i].arc > 180);
		assert_int_equal(axis.at_edge, 0);
		scene_free(&s);
	}
}

/* Each way on its own, and the same bits for any number of threads. */
static void test_methods(void **state)
{
	(void)state;
	static const char *const methods[] = {"pairs", "vo", "sharpness"};
	Scene s = scene_make(121, 1, COLUMNS, 103.3, 180, 75);
	spoil(&s, 0.01, 0);
	for (int i = 0; i < 3; i++) {
		OK(tomos_set_threads(3));
		tomos_axis three = find(&s, methods[i]);
		OK(tomos_set_threads(1));
		tomos_axis one = CASE_SLOW ? three : find(&s, methods[i]);
		OK(tomos_set_threads(0));
		assert_true(fabs(one.column - s.axis) < 0.2);
		assert_true(one.column == three.column && one.confidence == three.confidence);
	}
	scene_free(&s);
	if (CASE_SLOW) /* as above */
		return;
	s = scene_make(180, 1, COLUMNS, 103.3, 360, 75);
	assert_true(fabs(find(&s, "sharpness").column - s.axis) < 0.1);
	scene_free(&s);
}

/* The standard error is about the deviation that noise causes, and large where the axis is not
 * determined; one method applied to one row has none. */
static void test_error(void **state)
{
	(void)state;
	static const double noise[] = {0.02, 0.2, 1};
	double said[3] = {0}, off[3] = {0};
	for (int i = 0; i < 24; i++) {
		Scene s = scene_make(120, 1, COLUMNS, 99 + i / 3, 360, 75); /* other noise, too */
		spoil(&s, noise[i % 3], 0);
		tomos_axis axis = find(&s, "pairs");
		said[i % 3] += axis.error * axis.error / 8;
		off[i % 3] += (axis.column - s.axis) * (axis.column - s.axis) / 8;
		scene_free(&s);
	}
	for (int i = 0; i < 2; i++)
		assert_true(said[i] > 0.1 * off[i] && said[i] < 10 * off[i]);
	assert_true(said[2] > 25);
}

/* Half acquisition, without noise: fractions of a column, although wide overlaps are preferred to
 * narrow ones. */
static void test_half_fractions(void **state)
{
	static const double axes[] = {13.692, 14.2, 16.735, 20.1, 83.3};
	tomos_phantom_options some = tomos_phantom_defaults();
	tomos_scan_options o = tomos_scan_defaults();
	tomos_phantom *phantom;
	(void)state;
	some.count = 12;
	OK(tomos_phantom_named(&phantom, "random", &some));
	for (int i = 0; i < COUNT(axes); i++) {
		Scene s = scene_make(169, 2, 100, axes[i], 360, 80);
		tomos_geometry *scan;
		o.columns = 100, o.rows = 2, o.views = 169, o.arc = 2 * M_PI, o.pixel = 0.0118;
		o.axis = &axes[i], o.axis_count = 1;
		OK(tomos_geometry_make(&scan, &o));
		OK(tomos_phantom_project(phantom, scan, 1, &s.array));
		tomos_axis axis = find(&s, "auto");
		assert_true(fabs(axis.column - s.axis) < 0.01 && axis.error < 0.02);
		tomos_geometry_free(scan);
		scene_free(&s);
	}
	tomos_phantom_free(phantom);
}

/* Where no place stands out, the slices to be compared have the axis anywhere. */
static void test_doubt_is_wide(void **state)
{
	tomos_axis axis = {.bytes = sizeof axis,
		.column = 32.5,
		.confidence = 0.05,
		.full_turn = 1,
		.low = 2.76,
		.high = 66.24,
		.error = 0.2,
		.pairs = 32.5,
		.vo = NAN};
	double from, to, step;
	(void)state;
	assert_int_equal(tomos_axis_doubt(&axis, &from, &to, &step), 1);
	assert_true(from <= 1 && to >= 68 && step > 0);
	axis.confidence = 0.5, axis.vo = 29;
	assert_int_equal(tomos_axis_doubt(&axis, &from, &to, &step), 1);
	assert_true(from > 20 && from < 29 && to > 32.5 && to < 45);
}

/* Half a turn, with noise of 5 % of the largest value. */
static Scene noisy_scene(int64_t views, int64_t rows, double axis, double radius)
{
	Scene s = scene_make(views, rows, COLUMNS, axis, 180, radius);
	float most = 0;
	for (int64_t j = 0; j < s.count; j++)
		most = fmaxf(most, s.data[j]);
	spoil(&s, 0.05 * (double)most, 0);
	return s;
}

/* Half a turn, one row, few views: parts of the spectrum give an estimate of the axis error. */
static void test_error_one_row(void **state)
{
	(void)state;
	double ratio = 0, most_off = 0;
	int count = CASE_SLOW ? 3 : 24;
	for (int i = 0; i < count; i++) {
		Scene s = noisy_scene(60, 1, 90.3 + 0.83 * i, 75);
		tomos_axis axis = find(&s, "auto");
		double off = fabs(axis.column - s.axis) / axis.error;
		ratio += off * off / count;
		most_off = fmax(most_off, off);
		scene_free(&s);
	}
	printf("  errors relative to what is said: %.2f, at most %.2f\n", sqrt(ratio), most_off);
	assert_true(most_off < 3 && (CASE_SLOW || sqrt(ratio) > 0.2));
}

/* Estimates of three methods may agree by chance: the standard error of auto is at least the
 * smallest of theirs. */
static void test_error_together(void **state)
{
	(void)state;
	for (int i = 0; i < (CASE_SLOW ? 1 : 2); i++) {
		Scene s = scene_make(61, 3, COLUMNS, 105 + i, 180, 75);
		spoil(&s, 0.1, 0);
		double least = fmin(find(&s, "pairs").error, find(&s, "vo").error);
		assert_true(least > 0 && find(&s, "auto").error >= least);
		scene_free(&s);
	}
}

/* With noise of 5 % of the largest value the axis is found to a tenth of a column from four rows,
 * and the standard error is right on average; without noise, it includes an error that all rows
 * have in common. */
static void test_noisy(void **state)
{
	(void)state;
	double off = 0, said = 0;
	int count = CASE_SLOW ? 1 : 12;
	for (int i = 0; i < count; i++) {
		Scene s = noisy_scene(150, 4, 78.3 + 3.7 * i, 70);
		tomos_axis axis = find(&s, "auto");
		off += (axis.column - s.axis) * (axis.column - s.axis) / count;
		said += axis.error * axis.error / count;
		scene_free(&s);
	}
	printf("  off by %.3f, said %.3f\n", sqrt(off), sqrt(said));
	assert_true(off < 0.1 * 0.1 && said > 0.2 * off && said < 0.2 * 0.2);
	for (int i = 0; i < (CASE_SLOW ? 1 : 8); i++) {
		Scene s = scene_make(120, 8, COLUMNS, 90 + 2.3 * i, i % 2 ? 360 : 180, 70);
		tomos_axis axis = find(&s, "auto");
		assert_true(fabs(axis.column - s.axis) < 3 * axis.error);
		scene_free(&s);
	}
}

/* The more columns, the less of the object is in the differences between neighbours, and the more
 * noise. */
static void test_large(void **state)
{
	(void)state;
	static const double axes[] = {620.3, 400.6, 150.2}, arcs[] = {180, 180, 360};
	for (int i = CASE_SLOW ? 2 : 0; i < 3; i++) {
		Scene s = scene_make(CASE_SLOW ? 150 : 300, CASE_SLOW ? 2 : 4, 1200, axes[i],
			arcs[i], i == 2 ? 1000 : 380);
		uint64_t random = 5;
		float most = 0;
		for (int64_t j = 0; j < s.count; j++)
			most = fmaxf(most, s.data[j]);
		for (int64_t j = 0; j < s.count; j++)
			s.data[j] += (float)(0.05 * (double)most * noise_of(&random));
		tomos_axis axis = find(&s, "auto");
		assert_true(fabs(axis.column - s.axis) < fmax(0.3, 4 * axis.error));
		assert_true(axis.error < 0.5 && axis.confidence > 0.1);
		scene_free(&s);
	}
}

/* Rings of a full turn do not draw the axis to where they are mirror images of each other. */
static void test_strong_rings(void **state)
{
	(void)state;
	for (int i = 0; i < (CASE_SLOW ? 1 : 4); i++) {
		Scene s = scene_make(240, 1, COLUMNS, i % 2 ? 104.27 : 30.4, 360, i % 2 ? 75 : 150);
		spoil(&s, 0.01, i < 2 ? 0.3 : 1);
		tomos_axis axis = find(&s, "auto");
		assert_true(fabs(axis.column - s.axis) < 0.1);
		scene_free(&s);
	}
}

/* Doubt: methods that disagree, confidence below 0.1, the end of the range. */
static void test_doubt(void **state)
{
	(void)state;
	double from = 0, to = 0, step = 0;
	tomos_axis axis = {.bytes = sizeof axis, .column = 100, .confidence = 0.5, .pairs = 100};
	axis.vo = 101.5, axis.sharpness = NAN, axis.error = NAN;
	assert_false(tomos_axis_doubt(&axis, &from, &to, &step));
	axis.vo = 120;
	assert_true(tomos_axis_doubt(&axis, &from, &to, &step));
	assert_true(from == 94 && to == 126 && step == 2);
	axis.vo = NAN, axis.confidence = 0.05;
	assert_true(tomos_axis_doubt(&axis, &from, &to, &step));
	assert_true(from == 96 && to == 104 && step == 0.5);
	axis.confidence = 0.5, axis.at_edge = 1;
	assert_true(tomos_axis_doubt(&axis, &from, &to, &step));
	assert_false(tomos_axis_doubt(NULL, &from, &to, &step));
}

/* Every method says of a range without the axis that its result is at the end of it. */
static void test_ranges(void **state)
{
	static const char *const methods[] = {"auto", "pairs", "vo"};
	static const double ranges[][2] = {{60, 84}, {116, 140}, {52, 100}, {106, 114}};
	(void)state;
	for (int i = 0; i < 24; i++) {
		bool contains = i % 4 == 3;
		if (i / 12 == 1 && i / 4 % 3 == 2)
			continue; /* vo on full turns is less certain */
		Scene s = scene_make(181, 1, COLUMNS, 110.2, i < 12 ? 180 : 360, 75);
		tomos_axis axis = {.bytes = sizeof axis};
		tomos_axis_options o = tomos_axis_defaults();
		o.axis_method = methods[i / 4 % 3];
		o.axis_range = ranges[i % 4], o.axis_range_count = 2;
		OK(tomos_axis_find(&axis, NULL, &s.array, s.angles, &o, NULL));
		assert_true(axis.column >= ranges[i % 4][0] && axis.column <= ranges[i % 4][1]);
		assert_int_equal(axis.at_edge, !contains);
		scene_free(&s);
	}
}

/* If the axis is outside of the range, the result says that it is at the end of it. */
static void test_range(void **state)
{
	(void)state;
	Scene s = scene_make(181, 1, COLUMNS, 110.2, 180, 75);
	static const double low[] = {80, 100}, about[] = {105, 115};
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_axis_options o = tomos_axis_defaults();
	o.axis_method = "pairs";
	o.axis_range = low, o.axis_range_count = 2;
	OK(tomos_axis_find(&axis, NULL, &s.array, s.angles, &o, NULL));
	assert_true(axis.low == 80 && axis.high == 100);
	assert_true(axis.at_edge);
	static const double before[] = {104.3, 109.7}, after[] = {110.6, 116.3};
	static const char *const methods[] = {"auto", "pairs", "vo", "sharpness"};
	for (int i = 2 * CASE_SLOW; i < 8; i += CASE_SLOW ? 5 : 1) {
		o.axis_method = methods[i / 2];
		o.axis_range = i % 2 ? after : before;
		OK(tomos_axis_find(&axis, NULL, &s.array, s.angles, &o, NULL));
		assert_true(axis.at_edge);
		assert_true(axis.column >= o.axis_range[0] && axis.column <= o.axis_range[1]);
	}
	o.axis_method = "pairs";
	o.axis_range = about;
	OK(tomos_axis_find(&axis, NULL, &s.array, s.angles, &o, NULL));
	assert_true(fabs(axis.column - 110.2) < 0.1 && !axis.at_edge);
	scene_free(&s);
}

/* ---- measured scans -------------------------------------------------------------------------- */

static float *read_frames(
	tomos_scan *scan, tomos_frames which, int64_t count, const tomos_scan_info *info)
{
	float *data = malloc((size_t)(count * info->rows * info->columns) * sizeof *data);
	OK(tomos_scan_read(scan, which, 0, count, 0, info->rows, data));
	return data;
}

static void measured(const char *name, double truth)
{
	const char *folder = getenv("TOMOS_DATA");
	char path[512];
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_axis axis = {.bytes = sizeof axis};
	snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
	if (CASE_SLOW) {
		print_message("skipped: with sanitizers simulated scans will do\n");
		skip();
	}
	if (!folder || access(path, R_OK) != 0) {
		print_message("skipped: there is no %s (TOMOS_DATA is '%s')\n", name,
			folder ? folder : "");
		skip();
	}
	OK(tomos_scan_open(&scan, path, NULL));
	OK(tomos_scan_describe(scan, &info));
	float *views = read_frames(scan, TOMOS_VIEWS, info.views, &info);
	float *flats = read_frames(scan, TOMOS_FLATS, info.flats, &info);
	float *darks = read_frames(scan, TOMOS_DARKS, info.darks, &info);
	double *angles = malloc((size_t)info.views * sizeof *angles);
	OK(tomos_scan_angles(scan, angles));
	tomos_scan_close(scan);
	tomos_array data = tomos_array_of(views, info.views, info.rows, info.columns);
	tomos_array flat = tomos_array_of(flats, info.flats, info.rows, info.columns);
	tomos_array dark = tomos_array_of(darks, info.darks, info.rows, info.columns);
	tomos_fields fields = {sizeof fields, &flat, &dark, NULL, 0};
	OK(tomos_prepare(&data, &fields, NULL, &data, NULL, NULL));
	OK(tomos_axis_find(&axis, NULL, &data, angles, NULL, NULL));
	printf("  %s: %.3f (pairs %.3f, vo %.3f, sharpness %.3f), confidence %.2f\n", name,
		axis.column, axis.pairs, axis.vo, axis.sharpness, axis.confidence);
	assert_true(fabs(axis.column - truth) < 0.25);
	free(views), free(flats), free(darks), free(angles);
}

static void test_tooth(void **state)
{
	(void)state;
	measured("tooth/tooth.h5", 296);
}

static void test_wire(void **state)
{
	(void)state;
	measured("i13_24737_tiff", 86);
}

/* ---- rejections, memory ---------------------------------------------------------------------- */

static void test_rejected(void **state)
{
	(void)state;
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_axis_options o = tomos_axis_defaults();
	Scene s = scene_make(40, 1, 64, 31.5, 180, 25), turn = scene_make(80, 1, 64, 8, 360, 50);
	tomos_array few = tomos_array_of(s.data, 4, 1, 64);
	double wide[] = {-1, 40, 50}, bad[40] = {NAN};
#define NO(scene, given, words) \
	REJECTED(tomos_axis_find(&axis, NULL, &(scene).array, (scene).angles, given, NULL), \
		TOMOS_BAD_VALUE, words)
	REJECTED(tomos_axis_find(&axis, NULL, NULL, s.angles, NULL, NULL), TOMOS_BAD_VALUE,
		"no array for the line integrals");
	REJECTED(tomos_axis_find(&axis, NULL, &few, s.angles, NULL, NULL), TOMOS_BAD_VALUE,
		"4 views of 64 columns");
	REJECTED(tomos_axis_find(&axis, NULL, &s.array, NULL, NULL, NULL), TOMOS_BAD_VALUE,
		"the angle of view 0 is not known");
	REJECTED(tomos_axis_find(&axis, NULL, &s.array, bad, NULL, NULL), TOMOS_BAD_VALUE,
		"the angle of view 0 is not known");
	o.axis_range = wide, o.axis_range_count = 3;
	NO(s, &o, "axis-range has 3 numbers");
	o.axis_range_count = 2;
	NO(s, &o, "axis-range -1,40: it must lie within 0 to 63");
	o = tomos_axis_defaults(), o.axis_method = "eye";
	NO(s, &o, "axis-method 'eye' is not known");
	for (int i = 0; i < 40; i++)
		bad[i] = 0.01 * i; /* 23 degrees */
	o.axis_method = "pairs";
	REJECTED(tomos_axis_find(&axis, NULL, &s.array, bad, &o, NULL), TOMOS_BAD_VALUE,
		"no two of the 40 views are 180 degrees apart");
	REJECTED(tomos_axis_find(&axis, NULL, &s.array, bad, NULL, NULL), TOMOS_BAD_VALUE,
		"the views cover 22.92 of 180 degrees");
	o.axis_method = "sharpness";
	REJECTED(tomos_axis_find(&axis, NULL, &turn.array, turn.angles, &o, NULL),
		TOMOS_UNSUPPORTED, "sharpness cannot determine the axis of half acquisition");
	s.data[100] = NAN;
	NO(s, NULL, "the part to find the axis in has 1 value that is not finite");
#undef NO
	scene_free(&s);
	scene_free(&turn);
}

static void test_memory(void **state)
{
	(void)state;
	Scene s = scene_make(40, 1, 64, 31.5, 180, 25);
	tomos_axis axis = {.bytes = sizeof axis};
	int failures = 0, nth = 1;
	for (;; failures++, nth += CASE_SLOW ? 1 + nth / 8 : 1) {
		int64_t before = mem_live();
		mem_fail_nth(nth);
		tomos_status status = tomos_axis_find(&axis, NULL, &s.array, s.angles, NULL, NULL);
		mem_fail_nth(0);
		assert_int_equal(mem_live(), before);
		if (status == TOMOS_OK)
			break;
		assert_int_equal(status, TOMOS_NO_MEMORY);
		assert_true(failures < 5000);
	}
	assert_true(failures >= 15);
	scene_free(&s);
}

#define TESTS(T) \
	T(test_simulated), T(test_half_fractions), T(test_doubt_is_wide), T(test_methods), \
		T(test_error), T(test_error_one_row), T(test_error_together), T(test_noisy), \
		T(test_large), T(test_strong_rings), T(test_doubt), T(test_range), T(test_ranges), \
		T(test_tooth), T(test_wire), T(test_rejected), T(test_memory)
TEST_MAIN(TESTS, NULL, NULL)
