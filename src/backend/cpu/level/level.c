/* Kernels of one instruction set: the reference kernels, and the optimised ones in order of
 * preference. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"
#include "backend/optimised.h"

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

#define OPTIMISED_CPU(id, projectors, direction, ...) \
	{#id, projectors, direction, &LEVEL(cpu_##id)},
#define OPTIMISED(backend, id, ...) OPTIMISED_##backend(id, __VA_ARGS__)
static const CpuRow optimised[] = {
#include "backend/optimised.def"
};

#ifdef TOMOS_NARROW
#define NARROWER &JOIN(cpu_level, TOMOS_NARROW)
#else
#define NARROWER NULL
#endif

const CpuLevel LEVEL(cpu_level) = {TEXT(TOMOS_LEVEL), LEVEL(reference_kernels), optimised,
	COUNT(optimised), LANES, LEVEL(pose_row), LEVEL(ray_applies), LEVEL(ray_pose),
	&LEVEL(fft_kernels), &LEVEL(spread_kernels), NARROWER};
