/* Kernels of one instruction set: the reference kernels, and the optimised ones in order of
 * preference. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)

static const OptimisedKernel optimised[] = {
	{"stack", KERNEL_joseph, FORWARD, LEVEL(stack_applies), LEVEL(stack_forward), NULL},
	{"stack", KERNEL_joseph, ADJOINT, LEVEL(stack_applies), LEVEL(stack_back), NULL},
	{"stack", KERNEL_voxel, FORWARD, LEVEL(stack_applies), LEVEL(stack_forward), NULL},
	{"stack", KERNEL_voxel, ADJOINT, LEVEL(stack_applies), LEVEL(stack_back), NULL},
	{"stack_heights", KERNEL_joseph, FORWARD, LEVEL(heights_applies), LEVEL(heights_project),
		NULL},
	{"stack_heights", KERNEL_joseph, ADJOINT, LEVEL(heights_applies), LEVEL(heights_project),
		NULL},
	{"stack_heights", KERNEL_voxel, FORWARD, LEVEL(heights_applies), LEVEL(heights_project),
		NULL},
	{"stack_heights", KERNEL_voxel, ADJOINT, LEVEL(heights_applies), LEVEL(heights_project),
		NULL},
	{"slice", KERNEL_joseph, FORWARD, LEVEL(slice_applies), LEVEL(slice_forward), NULL},
	{"slice", KERNEL_joseph, ADJOINT, LEVEL(slice_applies), LEVEL(slice_back),
		LEVEL(slice_step)},
	{"slice", KERNEL_line, FORWARD, LEVEL(slice_applies), LEVEL(slice_forward), NULL},
	{"slice", KERNEL_line, ADJOINT, LEVEL(slice_applies), LEVEL(slice_back), LEVEL(slice_step)},
	{"slice", KERNEL_line_march, FORWARD, LEVEL(slice_applies), LEVEL(slice_forward), NULL},
	{"slice", KERNEL_line_march, ADJOINT, LEVEL(slice_applies), LEVEL(slice_back),
		LEVEL(slice_step)},
	{"slice", KERNEL_voxel, ADJOINT, LEVEL(slice_applies), LEVEL(slice_back),
		LEVEL(slice_step)},
	{"upright", KERNEL_joseph, FORWARD, LEVEL(upright_applies), LEVEL(upright_forward), NULL},
	{"upright", KERNEL_joseph, ADJOINT, LEVEL(upright_applies), LEVEL(upright_back), NULL},
	{"column", KERNEL_voxel, FORWARD, LEVEL(column_forward_applies), LEVEL(column_forward),
		NULL},
	{"column", KERNEL_voxel, ADJOINT, LEVEL(column_applies), LEVEL(column_back), NULL},
	{"patch", KERNEL_voxel, FORWARD, LEVEL(patch_applies), LEVEL(patch_project), NULL},
	{"patch", KERNEL_voxel, ADJOINT, LEVEL(patch_applies), LEVEL(patch_project), NULL},
	{"oblique", KERNEL_joseph, FORWARD, LEVEL(oblique_applies), LEVEL(oblique_forward), NULL},
	{"oblique", KERNEL_joseph, ADJOINT, LEVEL(oblique_applies), LEVEL(oblique_back), NULL},
	{"ray", KERNEL_joseph, FORWARD, LEVEL(ray_applies), LEVEL(ray_forward), NULL},
	{"ray", KERNEL_joseph, ADJOINT, LEVEL(ray_applies), NARROW(ray_back), NULL},
	{"footprint_upright", KERNEL_footprint, FORWARD, LEVEL(footprint_upright_applies),
		LEVEL(footprint_upright_project), NULL},
	{"footprint_upright", KERNEL_footprint, ADJOINT, LEVEL(footprint_upright_applies),
		LEVEL(footprint_upright_project), NULL},
	{"footprint_any", KERNEL_footprint, FORWARD, LEVEL(footprint_applies),
		LEVEL(footprint_project), NULL},
	{"footprint_any", KERNEL_footprint, ADJOINT, LEVEL(footprint_applies),
		LEVEL(footprint_project), NULL},
};

const CpuLevel LEVEL(cpu_level) = {TEXT(TOMOS_LEVEL), LEVEL(reference_kernels), optimised,
	COUNT(optimised), LANES, LEVEL(pose_row), LEVEL(ray_applies), LEVEL(ray_pose),
	&LEVEL(fft_kernels), &LEVEL(spread_kernels)};
