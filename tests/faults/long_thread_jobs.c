/* Sixteen threads with a hundred jobs each; make test-long runs it under the thread sanitizer as
 * well. */
#include "thread_jobs.h"

static void beside_each_other(void **state)
{
	(void)state;
	run_threads(16, 100);
}

#define TESTS(T) T(beside_each_other)
TEST_MAIN(TESTS, NULL, NULL)
