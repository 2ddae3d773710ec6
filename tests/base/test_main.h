/* cmocka, and main() of a test program. Included after headers that declare tomos' own fail(),
 * of which cmocka makes a macro. */
#ifndef TOMOS_TESTS_BASE_TEST_MAIN_H
#define TOMOS_TESTS_BASE_TEST_MAIN_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* Runs the tests of a list, #define TESTS(T) T(test_a), T(test_b), ..., in this order; `begin` and
 * `end`, unless NULL, before the first and after the last. */
#define TEST_MAIN(list, begin, end) \
	int main(void) \
	{ \
		const struct CMUnitTest tests[] = {list(cmocka_unit_test)}; \
		return cmocka_run_group_tests(tests, begin, end); \
	}

#endif
