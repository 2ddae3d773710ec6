/* Factors of the sums of each pixel of a slice, in an update that divides by the sum of the
 * weights. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FACTORS_H
#define TOMOS_BACKEND_CUDA_KERNELS_FACTORS_H

#include "backend/cuda/kernels/hat.h"

/* Sets update->factors. */
tomos_status find_factors(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *slices, CudaUpdate *update);

#endif
