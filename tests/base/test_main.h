/* cmocka, and main() of a test program. Included after headers that declare tomos' own fail(),
 * of which cmocka makes a macro. */
#ifndef TOMOS_TESTS_BASE_TEST_MAIN_H
#define TOMOS_TESTS_BASE_TEST_MAIN_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#ifndef __has_feature
#define __has_feature(name) 0
#endif

/* Races show in one case of each kind. */
#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
enum { CASE_RACES = 1 };
#else
enum { CASE_RACES = 0 };
#endif

/* Set with sanitizers, which take ten times as long: tests are then smaller. */
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
enum { CASE_SLOW = 1 };
#else
enum { CASE_SLOW = CASE_RACES };
#endif

/* Also set for tools such as memcheck, through the environment variable TOMOS_TEST_SMALL. */
static inline int case_slow(void)
{
	const char *text = getenv("TOMOS_TEST_SMALL");
	return CASE_SLOW || (text && *text);
}

/* Runs the tests of a list, #define TESTS(T) T(test_a), T(test_b), ..., in this order; `begin` and
 * `end`, unless NULL, before the first and after the last. */
#define TEST_MAIN(list, begin, end) \
	int main(void) \
	{ \
		const struct CMUnitTest tests[] = {list(cmocka_unit_test)}; \
		return cmocka_run_group_tests(tests, begin, end); \
	}

#endif
