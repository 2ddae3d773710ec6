/* Hat functions (backend/device/hat.h) on the device. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_HAT_H
#define TOMOS_BACKEND_CUDA_KERNELS_HAT_H

#include "backend/cuda/cuda.h"

extern "C" {
#include "backend/device/hat.h"
}

/* All views of the plan, on the device. */
tomos_status hat_views(tomos_backend *backend, const ProjectRequest *what, const HatSlices *slices,
	const HatView **views);

/* Taps that a hat of half width `reach` can touch: 2, 3 or 4. */
static inline int hat_taps(double reach)
{
	return reach <= 1 ? 2 : reach <= 1.5 ? 3 : 4;
}

/* The first of T taps around p, and the hat function there. */
template <int T> static __device__ __forceinline__ float hat_first(float p)
{
	return T == 2 ? floorf(p) : T == 3 ? rintf(p) - 1 : floorf(p) - 1;
}

static __device__ __forceinline__ float hat_value(float distance, float slope)
{
	return fmaxf(1 - fabsf(distance) * slope, 0.f);
}

#endif
