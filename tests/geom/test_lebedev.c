/* The directions of every Lebedev rule: how many, all different, symmetric, one of each pair. */
#include "geom/check.h"
#include "geom/parts.h"

enum { MOST = 601 };

static const int counts[] = {
	3, 7, 13, 19, 25, 37, 43, 55, 73, 85, 97, 115, 133, 151, 175, 217, 295, 385, 487, 601};

/* Both ends of each direction. */
static int whole_rule(int views, double points[2 * MOST][3])
{
	double *directions = NULL;
	assert_int_equal(lebedev_directions(&directions, views), TOMOS_OK);
	for (int i = 0; i < 2 * views; i++)
		for (int k = 0; k < 3; k++)
			points[i][k] = directions[3 * (i / 2) + k] * (i % 2 ? -1 : 1);
	mem_free(directions);
	return 2 * views;
}

static int times_in(double points[2 * MOST][3], int count, const double p[3])
{
	int times = 0;
	for (int i = 0; i < count; i++) {
		double x = points[i][0] - p[0], y = points[i][1] - p[1], z = points[i][2] - p[2];
		times += x * x + y * y + z * z < 1e-20;
	}
	return times;
}

/* Different, and no two opposite: each point of both ends together is there once. */
static void test_once(void **state)
{
	(void)state;
	static double points[2 * MOST][3];
	for (int r = 0; r < COUNT(counts); r++) {
		int count = whole_rule(counts[r], points);
		for (int i = 0; i < count; i++) {
			assert_near(norm3(points[i]), 1, 1e-15);
			assert_int_equal(times_in(points, count, points[i]), 1);
			if (i % 2 == 0)
				assert_true(points[i][1] <= 0);
		}
	}
}

/* The group of the octahedron is made by two quarter turns and one mirror. */
static void test_symmetric(void **state)
{
	(void)state;
	static double points[2 * MOST][3];
	for (int r = 0; r < COUNT(counts); r++) {
		int count = whole_rule(counts[r], points);
		for (int i = 0; i < count; i++) {
			double x = points[i][0], y = points[i][1], z = points[i][2];
			assert_int_equal(times_in(points, count, (double[]){-y, x, z}), 1);
			assert_int_equal(times_in(points, count, (double[]){x, -z, y}), 1);
			assert_int_equal(times_in(points, count, (double[]){-x, y, z}), 1);
		}
	}
}

/* Values known in closed form: 38 points have p^2, q^2 = (3 +- sqrt 3) / 6, 50 points (1, 1, 3). */
static void test_known(void **state)
{
	(void)state;
	static double points[2 * MOST][3];
	double a = 1 / sqrt(11), p = sqrt((3 + sqrt(3)) / 6), q = sqrt((3 - sqrt(3)) / 6);
	int count = whole_rule(25, points);
	assert_int_equal(times_in(points, count, (double[]){a, -3 * a, a}), 1);
	assert_int_equal(times_in(points, count, (double[]){3 * a, a, a}), 1);
	count = whole_rule(19, points);
	assert_int_equal(times_in(points, count, (double[]){0, p, -q}), 1);
}

/* Gauss: one weight per orbit must integrate x^2 y^2 and others of the degree; 26 points, degree 7,
 * weights 40/840, 32/840 and 27/840. */
static void test_integrates(void **state)
{
	(void)state;
	static double points[2 * MOST][3];
	double x4 = 0, xy = 0, x6 = 0;
	int count = whole_rule(13, points);
	for (int i = 0; i < count; i++) {
		int zeros = 0;
		for (int k = 0; k < 3; k++)
			zeros += points[i][k] == 0;
		double w = (zeros == 2 ? 40 : zeros == 1 ? 32 : 27) / 840.0;
		x4 += w * pow(points[i][0], 4);
		x6 += w * pow(points[i][0], 6);
		xy += w * pow(points[i][0] * points[i][1], 2);
	}
	assert_near(x4, 1 / 5.0, 1e-15);
	assert_near(x6, 1 / 7.0, 1e-15);
	assert_near(xy, 1 / 15.0, 1e-15);
}

static void test_no_rule(void **state)
{
	(void)state;
	double *directions;
	for (int views = -1, r = 0; views < 700; views++)
		if (r < COUNT(counts) && views == counts[r])
			r++;
		else
			assert_rejected(lebedev_directions(&directions, views), TOMOS_BAD_VALUE,
				"there are rules of 3, 7, 13");
	assert_rejected(lebedev_directions(&directions, INT64_MAX / 2 + 2), TOMOS_BAD_VALUE,
		"scan of 4611686018427387905 views");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_once),
		cmocka_unit_test(test_symmetric), cmocka_unit_test(test_known),
		cmocka_unit_test(test_integrates), cmocka_unit_test(test_no_rule)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
