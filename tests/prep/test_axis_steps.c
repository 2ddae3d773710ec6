/* The search for the rotation axis in its parts: what they share by hand, and each way on scans
 * without noise, where the axis is known to a part of what a scan with noise allows. */
#include "prep/axis.h" /* first: cmocka makes a macro of fail() */
#include "prep/prep_test.h"

static void assert_value(const char *what, double value, double wanted, double within)
{
	if (!(fabs(value - wanted) <= within))
		fail_msg("%s: %.9g, not %.9g", what, value, wanted);
}

static void tops_and_errors(void **state)
{
	(void)state;
	for (double top = -0.5; top <= 0.5; top += 0.125) {
		double f[3];
		for (int i = 0; i < 3; i++)
			f[i] = 7 - 3 * (i - 1 - top) * (i - 1 - top);
		assert_value("top", axis_top(f[0], f[1], f[2]), top, 1e-12);
	}
	assert_value("a slope's top", axis_top(1, 2, 5), 0, 0);
	assert_value("a top beside it", axis_top(1, 2, 2.9), 0.5, 0);
	assert_value("error", axis_error((double[]){1, 2, 4}, 3), sqrt(7.0 / 9), 1e-12);
	assert_value("error of two", axis_error((double[]){1, 3}, 2), 1, 1e-12);
	assert_true(isnan(axis_error((double[]){1}, 1)));
}

/* (best - second) / (best - least), the second more than `apart` away. */
static void confidences(void **state)
{
	(void)state;
	static const double scores[] = {1, 4, 9, 10, 8, 6, 2, 7};
	assert_value("confidence", axis_confidence(scores, 8, 3, 1), 3.0 / 9, 1e-12);
	assert_value("confidence, near", axis_confidence(scores, 8, 3, 0), 1.0 / 9, 1e-12);
	assert_value("confidence, far", axis_confidence(scores, 8, 3, 3), 3.0 / 9, 1e-12);
	assert_value("nothing beside", axis_confidence(scores, 8, 3, 8), 1, 0);
	assert_value("all the same", axis_confidence((double[]){2, 2, 2}, 3, 1, 0), 0, 0);
}

static void ends(void **state)
{
	(void)state;
	AxisProblem p = {.low = 10, .high = 20};
	AxisAnswer low = {.column = 9}, inside = {.column = 10.3}, high = {.column = 19.8};
	axis_settle(&p, &low);
	axis_settle(&p, &inside);
	axis_settle(&p, &high);
	assert_true(low.column == 10 && low.at_edge);
	assert_true(inside.column == 10.3 && !inside.at_edge);
	assert_true(high.column == 19.8 && high.at_edge);
}

/* Whether angles with one gap count as a full turn: below 0.1 radians or four steps they do. */
static bool full_turn(double step, double gap)
{
	enum { MOST = 400 };
	double angles[MOST], usual;
	int64_t count = 1 + (int64_t)((2 * M_PI - gap) / step + 1e-9);
	tomos_array data = tomos_array_of(NULL, count, 1, 1);
	for (int64_t i = 0; i < count; i++) /* in any turn, in any order */
		angles[i] = (2 * M_PI - gap) * (double)(i * 7 % count) / (double)(count - 1) - 9;
	AxisProblem p = {.data = &data, .angles = angles};
	AxisView *views;
	OK(axis_sort(&p, &views, &usual));
	bool full = axis_full_turn(views, count, usual);
	for (int64_t i = 1; i < count; i++)
		assert_true(views[i].angle >= views[i - 1].angle && views[i].angle < 2 * M_PI);
	assert_value("step", usual, (2 * M_PI - gap) / (double)(count - 1), 1e-9);
	mem_free(views);
	return full;
}

static void turns(void **state)
{
	(void)state;
	assert_true(full_turn(0.02, 0.099) && !full_turn(0.02, 0.101));
	assert_true(full_turn(0.05, 0.195) && !full_turn(0.05, 0.21));
}

/* ---- scans without noise --------------------------------------------------------------------- */

enum { COLUMNS = 128 };

typedef struct {
	double arc; /* degrees */
	int64_t views;
	bool last; /* both ends of the arc */
	double axis, within;
} Scan;

static double find(const Scan *k, const char *method)
{
	Scene s = scene_make(k->views, 1, COLUMNS, k->axis, k->arc, 46);
	if (k->last) { /* as though there were one view less to share the arc */
		scene_free(&s);
		s = scene_make(k->views, 1, COLUMNS, k->axis,
			k->arc * (double)k->views / (double)(k->views - 1), 46);
	}
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_axis_options o = tomos_axis_defaults();
	o.axis_method = method;
	OK(tomos_axis_find(&axis, NULL, &s.array, s.angles, &o, NULL));
	double part = k->arc > 180 ? 0.04 : 0.25;
	if (strcmp(method, "sharpness") == 0) { /* eight columns about what the others say */
		assert_value("range", axis.high - axis.low, 16, 1e-9);
		assert_true(fabs(axis.pairs - k->axis) < 0.2);
	} else {
		assert_value("low", axis.low, part * 127, 1e-9);
		assert_value("high", axis.high, (1 - part) * 127, 1e-9);
	}
	scene_free(&s);
	return axis.column - k->axis;
}

static void each(const Scan *list, int count, const char *method)
{
	for (int i = 0; i < count; i++) {
		double off = find(&list[i], method);
		printf("  %s, %g degrees, %d views, axis %g: off by %+.4f\n", method, list[i].arc,
			(int)list[i].views, list[i].axis, off);
		if (!(fabs(off) <= list[i].within))
			fail_msg("off by %g", off);
	}
}

/* Of whole turns every view has its opposite, or two beside it; of half ones the first and the
 * last. */
static void pairs(void **state)
{
	(void)state;
	static const Scan list[] = {{360, 90, false, 63.5, 0.003}, {360, 90, false, 66.27, 0.003},
		{360, 90, false, 58.9, 0.003}, {360, 91, false, 66.27, 0.01},
		{360, 90, false, 15.3, 0.08}, {180, 91, true, 63.5, 0.02},
		{180, 91, true, 66.27, 0.03}, {180, 90, false, 66.27, 0.15}};
	each(list, COUNT(list), "pairs");
}

static void wedge(void **state)
{
	(void)state;
	static const Scan list[] = {{180, 90, false, 63.5, 0.05}, {180, 90, false, 66.27, 0.05},
		{180, 90, false, 58.9, 0.05}};
	each(list, CASE_SLOW ? 1 : COUNT(list), "vo");
}

static void pictures(void **state)
{
	(void)state;
	static const Scan list[] = {{180, 90, false, 66.27, 0.05}, {360, 90, false, 58.9, 0.05}};
	each(list, CASE_SLOW ? 1 : COUNT(list), "sharpness");
}

/* Beyond a quarter of the columns from either end it is half acquisition; 32 columns are enough. */
static void kinds_of_scans(void **state)
{
	(void)state;
	static const double axes[] = {31.5, 32, 95, 95.5};
	tomos_axis_options o = tomos_axis_defaults();
	tomos_axis axis = {.bytes = sizeof axis};
	o.axis_method = "pairs";
	for (int i = 0; i < 4; i++) {
		Scene s = scene_make(60, 1, COLUMNS, axes[i], 360, 30);
		OK(tomos_axis_find(&axis, NULL, &s.array, s.angles, &o, NULL));
		assert_value("axis", axis.column, axes[i], 0.1);
		assert_int_equal(axis.half, i % 3 == 0);
		scene_free(&s);
	}
	Scene s = scene_make(8, 1, 32, 15.5, 360, 12);
	OK(tomos_axis_find(&axis, NULL, &s.array, s.angles, &o, NULL));
	assert_value("of 8 views of 32 columns", axis.column, 15.5, 0.05);
	scene_free(&s);
}

/* Golden ratio, every angle three times, random angles, and views that are left out. */
static double uneven_angle(int kind, int64_t i, int64_t views, double arc)
{
	static uint32_t seed = 1;
	double even = arc * (double)i / (double)views, golden = 0.6180339887498949 * (double)i;
	seed = seed * 1664525 + 1013904223;
	switch (kind) {
	case 0:
		return arc * (golden - floor(golden));
	case 1:
		return arc * (double)(i / 3) / (double)(views / 3);
	case 2:
		return arc * (double)(seed >> 8) / (1 << 24);
	default:
		return even + (i % 5 == 4 ? 0.8 * arc / (double)views : 0);
	}
}

static void uneven_angles(void **state)
{
	(void)state;
	enum { MOST = 360, KINDS = 4 };
	for (int k = 0; k < 2 * KINDS; k++)
		for (int m = 0; m < 3; m++) {
			static const char *const methods[] = {"auto", "pairs", "vo"};
			tomos_axis_options o = tomos_axis_defaults();
			tomos_axis axis = {.bytes = sizeof axis};
			int64_t views = k % KINDS == 2 ? MOST / 2 : MOST;
			double *angles = malloc(MOST * sizeof *angles), arc = k < KINDS ? 180 : 360;
			for (int64_t i = 0; i < views; i++)
				angles[i] = M_PI / 180 * uneven_angle(k % KINDS, i, views, arc);
			Scene s = scene_at(angles, views, 1, COLUMNS, 61.3, arc, 46);
			o.axis_method = methods[m];
			tomos_status status =
				tomos_axis_find(&axis, NULL, &s.array, s.angles, &o, NULL);
			if (status == TOMOS_BAD_VALUE && m == 1 && k % KINDS == 2) {
				scene_free(&s); /* the ends of random angles need be no pair */
				continue;
			}
			OK(status);
			printf("  kind %d, %g degrees, %s: off by %+.4f, standard error %.4f\n",
				k % KINDS, arc, methods[m], axis.column - 61.3, axis.error);
			/* Few views at random angles of half a turn do not determine it better. */
			const double most = k == 2 ? 1 : 0.2;
			assert_value("axis", axis.column, 61.3, fmin(most, 3 * axis.error));
			assert_true(axis.error < most);
			scene_free(&s);
		}
}

#define TESTS(T) \
	T(tops_and_errors), T(confidences), T(ends), T(turns), T(pairs), T(kinds_of_scans), \
		T(wedge), T(pictures), T(uneven_angles)
TEST_MAIN(TESTS, NULL, NULL)
