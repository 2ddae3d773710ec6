/* Sixteen threads with a hundred jobs each; make test-long runs it under the thread sanitizer as
 * well. */
#include "thread_jobs.h"

static void beside_each_other(void **state)
{
	(void)state;
	run_threads(16, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(beside_each_other)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
