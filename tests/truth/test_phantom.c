/* Phantoms by name and by list: tables, scaling, rejections, memory. */
#include <stdio.h>
#include "truth/truth_test.h"

static double value_at(const tomos_phantom *phantom, double x, double y, double z)
{
	int64_t count;
	const tomos_ellipsoid *list = tomos_phantom_list(phantom, &count);
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		if (level_at(&list[i], (double[]){x, y, z}) < 1)
			sum += list[i].value;
	return sum;
}

static double named_value(const char *name, double x, double y, double z)
{
	tomos_phantom *phantom;
	assert_ok(tomos_phantom_named(&phantom, name, NULL));
	double value = value_at(phantom, x, y, z);
	tomos_phantom_free(phantom);
	return value;
}

static void test_tables(void **state)
{
	(void)state;
	assert_near(named_value("ball", 0.5, 0.5, 0.5), 1, 0);
	assert_near(named_value("ball", 0.6, 0.6, 0.6), 0, 0);
	assert_near(named_value("shepp-logan", 0, 0.9, 0), 2, 1e-12);
	assert_near(named_value("shepp-logan", 0, -0.4, 0), 1.02, 1e-12);
	assert_near(named_value("shepp-logan", 0, 0.35, -0.25), 1.04, 1e-12);
	assert_near(named_value("shepp-logan", -0.22, 0, -0.25), 1.0, 1e-12);
	assert_near(named_value("shepp-logan-modified", 0, 0.1, 0.625), 0, 1e-12);
	assert_near(named_value("shepp-logan-modified", 0.22, 0, -0.25), 0, 1e-12);
	assert_near(named_value("shepp-logan-2d", 0, 0.35, 17), 1.03, 1e-12);
	assert_near(named_value("shepp-logan-2d-modified", 0, 0.35, -1e6), 0.3, 1e-12);
	assert_near(named_value("shepp-logan-2d-modified", 0, -0.605, 0), 0.3, 1e-12);
	assert_near(named_value("defrise", 0.5, 0.5, 0.24), 1, 0);
	assert_near(named_value("defrise", 0.5, 0.5, 0.12), 0, 0);
}

/* The long axes of the dark ventricles lean outwards at the top: a turn the other way shows
 * here. */
static void test_turn(void **state)
{
	(void)state;
	double s = sin(18 * PI / 180), c = cos(18 * PI / 180);
	for (int side = -1; side <= 1; side += 2) {
		double lean = side * 0.3 * s, up = 0.3 * c, x = side * 0.22;
		assert_near(named_value("shepp-logan-2d-modified", x + lean, -up, 0), 0.2, 1e-12);
		assert_near(named_value("shepp-logan-2d-modified", x + lean, up, 0), 0, 1e-12);
		assert_near(named_value("shepp-logan-modified", x + lean, up, -0.25), 0, 1e-12);
	}
}

static void test_scaling(void **state)
{
	(void)state;
	tomos_phantom_options o = tomos_phantom_defaults();
	tomos_phantom *phantom, *unit;
	int64_t count, same;
	o.radius = 20;
	o.value = 0.02;
	assert_ok(tomos_phantom_named(&phantom, "shepp-logan-2d", &o));
	assert_ok(tomos_phantom_named(&unit, "shepp-logan-2d", NULL));
	const tomos_ellipsoid *e = tomos_phantom_list(phantom, &count);
	const tomos_ellipsoid *f = tomos_phantom_list(unit, &same);
	assert_int_equal(count, 10);
	assert_int_equal(same, 10);
	for (int i = 0; i < 10; i++) {
		assert_near(e[i].axes[1], 20 * f[i].axes[1], 1e-12);
		assert_near(e[i].centre[0], 20 * f[i].centre[0], 1e-12);
		assert_near(e[i].value, 0.02 * f[i].value, 1e-15);
		assert_true(e[i].axes[2] == INFINITY);
	}
	tomos_phantom_free(phantom);
	tomos_phantom_free(unit);
}

static void test_every_name_fits_its_box(void **state)
{
	(void)state;
	char names[256], *rest, *name;
	snprintf(names, sizeof names, "%s", tomos_phantom_names());
	assert_non_null(strstr(names, "shepp-logan-2d-modified"));
	int found = 0;
	for (name = strtok_r(names, "|", &rest); name; name = strtok_r(NULL, "|", &rest), found++) {
		tomos_phantom *phantom;
		assert_ok(tomos_phantom_named(&phantom, name, NULL));
		for (int i = 0; i < 300; i++) {
			double a = i * 0.7, b = i * 0.013 * PI, far = 1.02;
			double x = far * cos(a), y = far * sin(a), z = 1.8 * cos(b);
			assert_near(value_at(phantom, x, y, z), 0, 0);
		}
		tomos_phantom_free(phantom);
	}
	assert_int_equal(found, 7);
}

static void test_random(void **state)
{
	(void)state;
	tomos_phantom_options o = tomos_phantom_defaults();
	tomos_phantom *few, *many, *other;
	int64_t n;
	assert_ok(tomos_phantom_named(&few, "random", &o));
	o.count = 500;
	assert_ok(tomos_phantom_named(&many, "random", &o));
	o.seed = 2;
	assert_ok(tomos_phantom_named(&other, "random", &o));
	const tomos_ellipsoid *e = tomos_phantom_list(many, &n);
	assert_int_equal(n, 500);
	assert_memory_equal(e, tomos_phantom_list(few, &n), 20 * sizeof *e);
	assert_int_equal(n, 20);
	assert_memory_not_equal(e, tomos_phantom_list(other, &n), sizeof *e);
	for (int i = 0; i < 500; i++) {
		double away =
			sqrt(e[i].centre[0] * e[i].centre[0] + e[i].centre[1] * e[i].centre[1] +
				e[i].centre[2] * e[i].centre[2]);
		double longest = fmax(e[i].axes[0], fmax(e[i].axes[1], e[i].axes[2]));
		assert_true(away + longest <= 1 + 1e-12);
		assert_true(e[i].value >= 0.1 && e[i].value <= 1);
	}
	tomos_phantom_free(few);
	tomos_phantom_free(many);
	tomos_phantom_free(other);
}

static void reject_list(tomos_ellipsoid e, const char *words)
{
	tomos_ellipsoid good = {.axes = {1, 1, 1}, .value = 1}, list[2] = {good, e};
	tomos_phantom *phantom = (void *)1;
	assert_rejected(tomos_phantom_ellipsoids(&phantom, list, 2), TOMOS_BAD_VALUE, words);
	assert_null(phantom);
}

static void test_rejected_lists(void **state)
{
	(void)state;
	tomos_phantom *phantom;
	tomos_ellipsoid e = {.axes = {1, 1, 1}};
	assert_rejected(tomos_phantom_ellipsoids(&phantom, &e, 0), TOMOS_BAD_VALUE,
		"a phantom of 0 ellipsoids: there must be at least one");
	assert_rejected(tomos_phantom_ellipsoids(&phantom, NULL, 3), TOMOS_BAD_VALUE,
		"a phantom of 0 ellipsoids");
	reject_list((tomos_ellipsoid){.axes = {1, 0, 1}},
		"ellipsoid 1: half axis 1 is 0, but must be 1e-30 to 1e+30, or infinite");
	reject_list((tomos_ellipsoid){.axes = {1, 1, -2}}, "ellipsoid 1: half axis 2 is -2");
	reject_list((tomos_ellipsoid){.axes = {NAN, 1, 1}}, "ellipsoid 1: half axis 0 is nan");
	reject_list((tomos_ellipsoid){.axes = {INFINITY, INFINITY, INFINITY}},
		"ellipsoid 1: all half axes are infinite");
	reject_list((tomos_ellipsoid){.axes = {1, 1, 1}, .centre = {0, INFINITY, 0}},
		"ellipsoid 1: a coordinate of the centre is inf");
	reject_list((tomos_ellipsoid){.axes = {1, 1, 1}, .euler = {0, 0, NAN}},
		"ellipsoid 1: an angle is nan");
	reject_list((tomos_ellipsoid){.axes = {1, 1, 1}, .value = 1e31},
		"ellipsoid 1: the value is 1e+31, but must be within +-1e+30");
}

static void reject_options(
	const char *name, double radius, double value, int64_t count, const char *words)
{
	tomos_phantom_options o = tomos_phantom_defaults();
	tomos_phantom *phantom;
	o.radius = radius;
	o.value = value;
	o.count = count;
	assert_rejected(tomos_phantom_named(&phantom, name, &o), TOMOS_BAD_VALUE, words);
	assert_null(phantom);
}

static void test_rejected_names(void **state)
{
	(void)state;
	tomos_phantom_options old = {.bytes = 2};
	tomos_phantom *phantom;
	reject_options("shep-logan", 1, 1, 1,
		"phantom 'shep-logan' is not known; did you mean 'shepp-logan'?");
	reject_options("ball", 0, 1, 1, "phantom: the radius is 0, but must be 1e-20 to 1e20");
	reject_options("ball", NAN, 1, 1, "phantom: the radius is nan");
	reject_options(
		"ball", 1, INFINITY, 1, "phantom: the value is inf, but must be within +-1e20");
	reject_options("random", 1, 1, 0, "phantom: the count is 0, but must be 1 to 1000000");
	assert_rejected(tomos_phantom_named(&phantom, "ball", &old), TOMOS_BAD_VALUE,
		"the member bytes of a tomos_phantom_options is 2");
}

static void test_memory(void **state)
{
	(void)state;
	tomos_phantom *phantom;
	int64_t before = mem_live();
	int failures = 0;
	for (;; failures++) {
		mem_fail_nth(failures + 1);
		tomos_status status = tomos_phantom_named(&phantom, "defrise", NULL);
		mem_fail_nth(0);
		if (status == TOMOS_OK)
			break;
		assert_rejected(status, TOMOS_NO_MEMORY, "phantom");
		assert_null(phantom);
		assert_int_equal(mem_live(), before);
	}
	assert_int_equal(failures, 3);
	tomos_phantom_free(phantom);
	tomos_phantom_free(NULL);
	assert_int_equal(mem_live(), before);
}

#define TESTS(T) \
	T(test_tables), T(test_turn), T(test_scaling), T(test_every_name_fits_its_box), \
		T(test_random), T(test_rejected_lists), T(test_rejected_names), T(test_memory)
TEST_MAIN(TESTS, NULL, NULL)
