/* The backend that all tests of a program use, opened once. */
#ifndef TOMOS_TESTS_OPS_OPENED_H
#define TOMOS_TESTS_OPS_OPENED_H

#include "ops/cases.h"

static tomos_backend *backend;

static inline int open_backend(void **state)
{
	(void)state;
	if (tomos_backend_open(&backend, test_backend()) == TOMOS_OK)
		return 0;
	print_message("%s\n", tomos_message());
	return -1;
}

static inline int close_backend(void **state)
{
	(void)state;
	tomos_backend_close(backend);
	return 0;
}

#endif
