/* Device side of hat functions (backend/device/hat.h): the weight of a detector column decreases
 * linearly with its distance from the projection of the pixel, to zero at the half width of the
 * hat. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_HAT_H
#define TOMOS_BACKEND_CUDA_KERNELS_HAT_H

#include "backend/cuda/cuda.h"

extern "C" {
#include "backend/device/hat.h"
}

/* Sets *views to device memory: one HatView per view of the request. */
tomos_status hat_views(tomos_backend *backend, const ProjectRequest *what, const HatSlices *slices,
	const HatView **views);

/* Most columns (taps) within a hat of half width `reach` columns: 2, 3 or 4. */
static inline int hat_taps(double reach)
{
	return reach <= 1 ? 2 : reach <= 1.5 ? 3 : 4;
}

/* Column of the first of the T taps around position p. */
template <int T> static __device__ __forceinline__ float hat_first(float p)
{
	return T == 2 ? floorf(p) : T == 3 ? rintf(p) - 1 : floorf(p) - 1;
}

static __device__ __forceinline__ float hat_value(float distance, float slope)
{
	return fmaxf(1 - fabsf(distance) * slope, 0.f);
}

#endif
