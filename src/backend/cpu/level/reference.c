/* Reference kernels: every row of kernels.def in both directions. */
#include <string.h>
#include "backend/cpu/cpu.h"
#include "kernel/pose.h"

#define KERNEL_HEADERS
#include "kernel/kernels.def"
#undef KERNEL_HEADERS

#define LOOP_RAY(id, mode) \
	for (int64_t r = window->low[1]; r < window->high[1] && !cancel_seen(); r++) \
		for (int64_t c = window->low[0]; c < window->high[0]; c++) { \
			float *pixel = &image[r * plan->model.columns + c]; \
			KernelRay ray = kernel_ray(grid, &plan->views[view], r, c); \
			KernelMeet meet = { \
				.data = volume, .value = mode == MEET_SUM ? 0 : *pixel}; \
			id##_ray(grid, &plan->model, &ray, mode, &meet); \
			if (mode == MEET_SUM) \
				*pixel += (float)meet.value; \
		} \
	(void)part;

#define LOOP_VOXEL(id, mode) \
	int64_t at[3], nx = grid->high[0] - grid->low[0], ny = grid->high[1] - grid->low[1]; \
	for (at[2] = part->low[2]; at[2] < part->high[2]; at[2]++) \
		for (at[1] = part->low[1]; at[1] < part->high[1] && !cancel_seen(); at[1]++) { \
			float *row = volume + \
				     ((at[2] - grid->low[2]) * ny + at[1] - grid->low[1]) * nx; \
			for (at[0] = part->low[0]; at[0] < part->high[0]; at[0]++) { \
				float *voxel = &row[at[0] - grid->low[0]]; \
				KernelMeet meet = { \
					.data = image, .value = mode == MEET_SUM ? 0 : *voxel}; \
				id##_voxel( \
					grid, &plan->model, &plan->views[view], at, mode, &meet); \
				if (mode == MEET_SUM) \
					*voxel += (float)meet.value; \
			} \
		} \
	(void)window;

#define DEFINE(id, family, direction) \
	static void id##_##direction(const Plan *plan, const KernelGrid *grid, int64_t view, \
		const Window *window, const Box *part, float *volume, float *image) \
	{ \
		LOOP_##family(id, direction##_##family) \
	}

#define KERNEL(id, name, family, weights, help) \
	DEFINE(id, family, FORWARD) DEFINE(id, family, ADJOINT)
#include "kernel/kernels.def"
#undef KERNEL

#define KERNEL(id, name, family, weights, help) {id##_FORWARD, id##_ADJOINT},
const ReferenceKernel LEVEL(reference_kernels)[KERNEL_COUNT][2] = {
#include "kernel/kernels.def"
};

void LEVEL(pose_row)(const ProjectRequest *what, int64_t view, int64_t row)
{
	const Plan *plan = what->plan;
	const KernelGrid grid = request_grid(what);
	KernelSpace space;
	int64_t columns = plan->model.columns, pixels = plan->model.rows * columns;
	float *image = what->projections + view * POSE_NUMBERS * pixels + row * columns;
	memcpy(space.first, plan->grid.first, sizeof space.first);
	memcpy(space.step, plan->grid.step, sizeof space.step);
	for (int64_t c = 0; c < columns; c++) {
		double derivative[POSE_NUMBERS];
		KernelRay ray = kernel_ray(&grid, &plan->views[what->first + view], row, c);
		pose_ray(&grid, &space, &plan->model, &ray, what->volume, derivative);
		for (int64_t n = 0; n < POSE_NUMBERS; n++)
			image[n * pixels + c] += (float)derivative[n];
	}
}
