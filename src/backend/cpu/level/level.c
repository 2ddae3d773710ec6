/* What one instruction set offers: the shared kernels, and the tuned ones in order of preference. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

static const TunedKernel tuned[] = {
	{"slice", KERNEL_joseph, FORWARD, LEVEL(slice_applies), LEVEL(slice_joseph_forward)},
	{"slice", KERNEL_joseph, ADJOINT, LEVEL(slice_applies), LEVEL(slice_back)},
	{"slice", KERNEL_voxel, ADJOINT, LEVEL(slice_applies), LEVEL(slice_back)},
	{"fan", KERNEL_voxel, ADJOINT, LEVEL(fan_applies), LEVEL(fan_back)},
	{"upright", KERNEL_joseph, FORWARD, LEVEL(upright_applies), LEVEL(upright_forward)},
	{"upright", KERNEL_joseph, ADJOINT, LEVEL(upright_applies), LEVEL(column_back)},
	{"column", KERNEL_voxel, ADJOINT, LEVEL(column_applies), LEVEL(column_back)},
	{"oblique", KERNEL_joseph, FORWARD, LEVEL(oblique_applies), LEVEL(oblique_forward)},
	{"oblique", KERNEL_joseph, ADJOINT, LEVEL(oblique_applies), LEVEL(oblique_back)},
};

const CpuLevel LEVEL(cpu_level) = {
	TEXT(TOMOS_LEVEL), LEVEL(shared_kernels), tuned, COUNT(tuned), LANES};
