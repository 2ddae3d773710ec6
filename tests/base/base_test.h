/* Assertions on a status and its message. */
#ifndef TOMOS_TESTS_BASE_BASE_TEST_H
#define TOMOS_TESTS_BASE_BASE_TEST_H

#include "base/base.h" /* first: cmocka makes a macro of fail() */
#include "base/test_main.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void assert_ok(tomos_status status)
{
	if (status != TOMOS_OK)
		fail_msg("%s: %s", tomos_status_name(status), tomos_message());
}

static inline void assert_rejected(tomos_status status, tomos_status expected, const char *words)
{
	assert_int_equal(status, expected);
	if (!strstr(tomos_message(), words))
		fail_msg("'%s' is not in '%s'", words, tomos_message());
}

#endif
