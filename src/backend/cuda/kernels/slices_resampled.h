/* Stack kernels for a virtual detector with one row per slice (slices_plan). */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_RESAMPLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_RESAMPLED_H

#include "backend/cuda/kernels/transpose.h"

/* Slices from which on they are a stack: kernels for fewer project them one by one. */
enum { LEAST_STACK = 16 };

/* Slices from `low` on, and views from `first` on of the request. */
typedef struct {
	int64_t low, slices, first, count;
} StackPart;

/* Whether a kernel applies to the virtual stack of the request; fast: not only the slowest one. */
bool stack_has_kernel(const ProjectRequest *what, const Plan *slices, bool fast);
/* Projects a part of the request between its box and the projections of the virtual stack. */
tomos_status stack_run(tomos_backend *backend, const ProjectRequest *what, const Plan *slices,
	const StackPart *part, float *projections, const CudaEpilogue *epilogue);

#endif
