/* Comparison of numbers, and an ellipsoid test independent of the library's. */
#ifndef TOMOS_TESTS_TRUTH_TRUTH_TEST_H
#define TOMOS_TESTS_TRUTH_TRUTH_TEST_H

#include "truth/truth.h" /* first: cmocka makes a macro of fail() */
#include "base/base_test.h"
#include <math.h>

#define PI 3.14159265358979323846

static inline void assert_near(double value, double expected, double tolerance)
{
	if (!(fabs(value - expected) <= tolerance))
		fail_msg("%.12g, but should be %.12g within %g", value, expected, tolerance);
}

static inline void turn(double *a, double *b, double angle)
{
	double x = cos(angle) * *a - sin(angle) * *b, y = sin(angle) * *a + cos(angle) * *b;
	*a = x;
	*b = y;
}

/* Below 1 inside: the point is rotated back step by step into the ellipsoid's own frame. */
static inline double level_at(const tomos_ellipsoid *e, const double point[3])
{
	double p[3], sum = 0;
	for (int i = 0; i < 3; i++)
		p[i] = point[i] - e->centre[i];
	turn(&p[0], &p[1], -e->euler[0]);
	turn(&p[1], &p[2], -e->euler[1]);
	turn(&p[0], &p[1], -e->euler[2]);
	for (int i = 0; i < 3; i++)
		sum += e->axes[i] == INFINITY ? 0 : p[i] * p[i] / (e->axes[i] * e->axes[i]);
	return sum;
}

#endif
