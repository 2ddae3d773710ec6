/* Per-pixel factors of one slice, for updates that divide the back projection by the sum of the
 * weights. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FACTORS_H
#define TOMOS_BACKEND_CUDA_KERNELS_FACTORS_H

#include "backend/cuda/kernels/hat.h"

/* Computes the factors on the device and sets update->factors ([b][a], one slice). */
tomos_status find_factors(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *slices, CudaUpdate *update);

#endif
