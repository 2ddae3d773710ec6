/* Reference kernels in both directions; with POWERS, powers of the entries: 1 for each entry, or
 * its square. */
#include "backend/opencl/device.cl"
#include "backend/opencl/atomic.cl"

#ifdef POWERS
#define KERNEL_WEIGHT(meet, weight) ((meet)->count == 0 ? 1 : (weight) * (weight))
#endif

#define KERNEL_HEADERS
#include "kernel/kernels.def"
#undef KERNEL_HEADERS

#define LOOP_RAY(id, mode) \
	EACH(view, 2, count) { \
		KernelView seen = views[view]; \
		EACH(r, 1, model.rows) \
		EACH(c, 0, model.columns) { \
			global float *pixel = \
				&projections[(view * model.rows + r) * model.columns + c]; \
			KernelRay ray = kernel_ray(&grid, &seen, r, c); \
			KernelMeet meet = {volume, mode == MEET_SUM ? 0 : *pixel, 0, 0, power}; \
			id##_ray(&grid, &model, &ray, mode, &meet); \
			if (mode == MEET_SUM) \
				*pixel += (float)meet.value; \
		} \
	}

#define LOOP_VOXEL(id, mode) \
	long nx = grid.high[0] - grid.low[0], ny = grid.high[1] - grid.low[1]; \
	long pixels = model.rows * model.columns; \
	EACH(k, 2, grid.high[2] - grid.low[2]) \
	EACH(j, 1, ny) \
	EACH(i, 0, nx) { \
		const long at[3] = {i + grid.low[0], j + grid.low[1], k + grid.low[2]}; \
		global float *voxel = &volume[(k * ny + j) * nx + i]; \
		float value = *voxel; \
		for (long view = 0; view < count; view++) { \
			KernelView seen = views[view]; \
			KernelMeet meet = {projections + view * pixels, \
				mode == MEET_SUM ? 0 : value, 0, 0, power}; \
			id##_voxel(&grid, &model, &seen, at, mode, &meet); \
			if (mode == MEET_SUM) \
				value += (float)meet.value; \
		} \
		if (mode == MEET_SUM) \
			*voxel = value; \
	}

#define DEFINE(id, family, direction) \
	PLANE do_##id##_##direction(KernelGrid grid, KernelModel model, \
		global const KernelView *views, long first, long count, global float *volume, \
		long volume0, global float *projections, long projections0, int power) \
	{ \
		views += first; \
		volume += volume0; \
		projections += projections0; \
		LOOP_##family(id, direction##_##family) \
	}

#define KERNEL(id, name, family, weights, help) \
	DEFINE(id, family, FORWARD) \
	DEFINE(id, family, ADJOINT)
#include "kernel/kernels.def"
#undef KERNEL

/* Rows of a batch, one work-item each. */
#define LIST_RAY(id) \
	LINE do_##id##_LIST(KernelGrid grid, KernelModel model, global const KernelView *views, \
		long count, long most, global const long *ray, long ray0, global long *index, \
		global long *entries, global float *weight) \
	{ \
		long pixels = model.rows * model.columns; \
		EACH(i, 0, count) { \
			long at = ray[ray0 / 2 + i], pixel = at % pixels; \
			KernelView seen = views[at / pixels]; \
			KernelRay line = kernel_ray( \
				&grid, &seen, pixel / model.columns, pixel % model.columns); \
			KernelMeet meet = {0, 0, index + i * most, weight + i * most, 0}; \
			id##_ray(&grid, &model, &line, MEET_LIST, &meet); \
			entries[i] = meet.count; \
		} \
	}
#define LIST_VOXEL(id)
#ifndef POWERS
#define KERNEL(id, name, family, weights, help) LIST_##family(id)
#include "kernel/kernels.def"
#endif
