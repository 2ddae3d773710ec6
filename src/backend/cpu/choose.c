/* Chooses the instruction set: the best of the processor, or that of TOMOS_CPU. */
#include <stdlib.h>
#include <string.h>
#include "backend/cpu/cpu.h"

static const CpuLevel *const levels[] = {
#ifdef TOMOS_HAS_LEVEL_avx512
	&cpu_level_avx512,
#endif
#ifdef TOMOS_HAS_LEVEL_avx2
	&cpu_level_avx2,
#endif
#ifdef TOMOS_HAS_LEVEL_neon
	&cpu_level_neon,
#endif
	&cpu_level_base,
};

static bool processor_has(const char *name)
{
#if defined __x86_64__
	if (strcmp(name, "avx512") == 0)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
		       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		       __builtin_cpu_supports("fma");
	if (strcmp(name, "avx2") == 0)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
	(void)name;
	return true;
}

bool cpu_halves_vectors(void)
{
#if defined __x86_64__
	return __builtin_cpu_is("amdfam19h");
#else
	return false;
#endif
}

tomos_status cpu_level_choose(const CpuLevel **level)
{
	const char *wanted = getenv("TOMOS_CPU");
	for (int i = 0; i < COUNT(levels); i++) {
		if (wanted && *wanted && strcmp(wanted, levels[i]->name) != 0)
			continue;
		if (processor_has(levels[i]->name)) {
			*level = levels[i];
			return TOMOS_OK;
		}
	}
	return fail(TOMOS_BAD_VALUE,
		"TOMOS_CPU is '%s', which this processor or build does not have "
		"(known: base, avx2, avx512, neon)",
		wanted);
}
