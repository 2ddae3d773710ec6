/* The reference projectors of src/kernel as CUDA kernels: one launch per request. */
#ifndef TOMOS_BACKEND_CUDA_REFERENCE_H
#define TOMOS_BACKEND_CUDA_REFERENCE_H

#include "backend/cuda/cuda.h"

#define KERNEL_HEADERS
#include "kernel/kernels.def"
#undef KERNEL_HEADERS

enum { WIDE = 32, HIGH = 4, MOST = 65535 };

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views; /* views of the request */
	int64_t count;
	float *volume, *projections;
	int power; /* power of the matrix entries, used by KERNEL_WEIGHT */
} Request;

/* Grid-stride loop over one dimension: columns, rows and views, or x, y and z. */
#define EACH(variable, dimension, end) \
	for (int64_t variable = \
			(int64_t)blockIdx.dimension * blockDim.dimension + threadIdx.dimension; \
		variable < (end); variable += (int64_t)gridDim.dimension * blockDim.dimension)

#define LOOP_RAY(id, mode) \
	EACH(view, z, s.count) \
	EACH(r, y, s.model.rows) \
	EACH(c, x, s.model.columns) \
	{ \
		float *pixel = &s.projections[(view * s.model.rows + r) * s.model.columns + c]; \
		KernelRay ray = kernel_ray(&s.grid, &s.views[view], r, c); \
		KernelMeet meet = {s.volume, mode == MEET_SUM ? 0 : *pixel, NULL, NULL, s.power}; \
		id##_ray(&s.grid, &s.model, &ray, mode, &meet); \
		if (mode == MEET_SUM) \
			*pixel += (float)meet.value; \
	}

#define LOOP_VOXEL(id, mode) \
	int64_t nx = s.grid.high[0] - s.grid.low[0], ny = s.grid.high[1] - s.grid.low[1]; \
	int64_t pixels = s.model.rows * s.model.columns; \
	EACH(k, z, s.grid.high[2] - s.grid.low[2]) \
	EACH(j, y, ny) \
	EACH(i, x, nx) \
	{ \
		const int64_t at[3] = {i + s.grid.low[0], j + s.grid.low[1], k + s.grid.low[2]}; \
		float *voxel = &s.volume[(k * ny + j) * nx + i], value = *voxel; \
		for (int64_t view = 0; view < s.count; view++) { \
			KernelMeet meet = {s.projections + view * pixels, \
				mode == MEET_SUM ? 0 : value, NULL, NULL, s.power}; \
			id##_voxel(&s.grid, &s.model, &s.views[view], at, mode, &meet); \
			if (mode == MEET_SUM) \
				value += (float)meet.value; \
		} \
		if (mode == MEET_SUM) \
			*voxel = value; \
	}

#define DEFINE(id, family, direction) \
	static __global__ void __launch_bounds__(WIDE *HIGH) \
		id##_##direction(const __grid_constant__ Request s) \
	{ \
		LOOP_##family(id, direction##_##family) \
	}

#define KERNEL(id, name, family, weights, help) \
	DEFINE(id, family, FORWARD) \
	DEFINE(id, family, ADJOINT)
#include "kernel/kernels.def"
#undef KERNEL

typedef void (*ReferenceKernel)(const Request s);

#define KERNEL(id, name, family, weights, help) {id##_FORWARD, id##_ADJOINT},
static const ReferenceKernel reference_kernels[KERNEL_COUNT][2] = {
#include "kernel/kernels.def"
};
#undef KERNEL

static inline dim3 blocks_for(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	const Box *box = &what->box;
	if (kernel_rows[what->kernel].family == FAMILY_RAY)
		return dim3(cuda_blocks(model->columns, WIDE, 1 << 20),
			cuda_blocks(model->rows, HIGH, MOST), cuda_blocks(what->count, 1, MOST));
	return dim3(cuda_blocks(box->high[0] - box->low[0], WIDE, 1 << 20),
		cuda_blocks(box->high[1] - box->low[1], HIGH, MOST),
		cuda_blocks(box->high[2] - box->low[2], 1, MOST));
}

static inline tomos_status run_reference(
	tomos_backend *backend, const ProjectRequest *what, int power)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	Request s = {.grid = request_grid(what),
		.model = what->plan->model,
		.views = kept->views + what->first,
		.count = what->count,
		.volume = what->volume,
		.projections = what->projections,
		.power = power};
	reference_kernels[what->kernel][what->direction]<<<blocks_for(what), dim3(WIDE, HIGH), 0,
		device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

#endif
