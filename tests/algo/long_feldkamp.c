/* The data set of Okitsu et al., 512^3 voxels from 360 views of 512^2, and smaller ones on the
 * way. */
#include "algo/study.h"

/* With 360 views throughout, the head gets sharper; the corners of the cube, which no view sees
 * whole, do not. */
static void errors_fall_with_size(void **state)
{
	(void)state;
	Errors last = {1, 1, 1, 1, 0};
	study_headline();
	for (int64_t n = 64; n <= 512; n *= 2) {
		Errors now = study_run(n, 360);
		assert_true(now.head < 0.95 * last.head);
		last = now;
	}
	assert_true(fabs(last.brain) < 0.005);
}

#define TESTS(T) T(errors_fall_with_size)
TEST_MAIN(TESTS, NULL, NULL)
