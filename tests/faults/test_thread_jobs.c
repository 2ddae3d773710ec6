/* Four threads with a few jobs each; long_thread_jobs has more. */
#include "thread_jobs.h"

static void beside_each_other(void **state)
{
	(void)state;
	run_threads(4, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(beside_each_other)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
