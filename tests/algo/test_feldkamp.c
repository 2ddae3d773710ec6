/* Feldkamp's method on the Shepp-Logan head: the error falls as everything gets finer. */
#include "algo/study.h"

static void errors_fall_with_size(void **state)
{
	(void)state;
	Errors last = {1, 1, 1, 1, 0};
	study_headline();
	for (int64_t n = 32; n <= (CASE_SLOW ? 64 : 128); n *= 2) {
		Errors now = study_run(n, 3 * n / 2);
		assert_true(now.all < 0.9 * last.all && now.head < 0.9 * last.head);
		assert_true(now.flat < 0.7 * last.flat);
		last = now;
	}
	assert_true(fabs(last.brain) < (CASE_SLOW ? 0.002 : 0.0005));
}

#define TESTS(T) T(errors_fall_with_size)
TEST_MAIN(TESTS, NULL, NULL)
