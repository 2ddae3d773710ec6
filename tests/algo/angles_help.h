/* Helpers for filtered back projection of irregular scans. */
#ifndef TOMOS_TESTS_ALGO_ANGLES_HELP_H
#define TOMOS_TESTS_ALGO_ANGLES_HELP_H

#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include "algo/scene.h"

enum { N = CASE_SLOW ? 64 : 96 };

#define MEAN (CASE_SLOW ? 0.002 : 0.0005) /* as test_analytic, with room for fewer columns */
static inline void check(const char *name, Scene *s)
{
	double spread, error;
	scene_reconstruct(s, NULL);
	error = scene_error(s, &spread);
	printf("  %-44s mean %+.5f, deviation %.4f\n", name, error, spread);
	if (!(fabs(error) <= MEAN && spread < 3 * MEAN))
		fail_msg("%s: mean off by %g, deviation %g", name, error, spread);
}

#endif
