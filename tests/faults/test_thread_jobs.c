/* Four threads with a few jobs each; long_thread_jobs has more. */
#include "thread_jobs.h"

static void beside_each_other(void **state)
{
	(void)state;
	run_threads(4, 6);
}

#define TESTS(T) T(beside_each_other)
TEST_MAIN(TESTS, NULL, NULL)
