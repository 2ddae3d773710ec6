/* The cpu backend, open while a group of tests runs. */
#ifndef TOMOS_TESTS_OPS_CPU_BACKEND_H
#define TOMOS_TESTS_OPS_CPU_BACKEND_H

#include "ops/cases.h"

static tomos_backend *cpu;

static inline int set_up(void **state)
{
	(void)state;
	return tomos_backend_open(&cpu, "cpu") != TOMOS_OK;
}

static inline int tear_down(void **state)
{
	(void)state;
	tomos_backend_close(cpu);
	return 0;
}

#endif
