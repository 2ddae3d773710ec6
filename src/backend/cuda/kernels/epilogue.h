/* Epilogues of kernels of stacks, element by element. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_EPILOGUE_H
#define TOMOS_BACKEND_CUDA_KERNELS_EPILOGUE_H

#include "backend/cuda/cuda.h"

/* Loads what an epilogue needs besides the sum. value: the element at `place`, or the measured
 * data; factor: the weight of the voxel or of the ray. */
template <EpilogueKind EPILOGUE>
static __device__ __forceinline__ void load_operands(const CudaUpdate &update,
	const CudaResidual &residual, const float *place, float *value, float *factor)
{
	if (EPILOGUE == EPILOGUE_ACCUMULATE || EPILOGUE == EPILOGUE_UPDATE)
		*value = *place;
	if (EPILOGUE == EPILOGUE_UPDATE)
		*factor = update.voxels ? __ldcs(update.voxels + (place - update.volume)) : 1;
	if (EPILOGUE == EPILOGUE_RESIDUAL) {
		*value = __ldcs(residual.of.data + (place - residual.projections));
		*factor = __ldcs(residual.of.weights + (place - residual.projections));
	}
}

/* Applies the epilogue and stores the result; pixel: index in a slice, for the factors of an
 * update. */
template <EpilogueKind EPILOGUE>
static __device__ __forceinline__ void store_result(const CudaUpdate &update,
	const CudaResidual &residual, float *place, int64_t pixel, float value, float factor,
	float result)
{
	if (EPILOGUE == EPILOGUE_UPDATE)
		*place = cuda_updated(update, value,
			factor * (update.factors ? __ldg(update.factors + pixel) : update.a),
			result);
	else if (EPILOGUE == EPILOGUE_RESIDUAL)
		*place = value - result;
	else
		*place = EPILOGUE == EPILOGUE_OVERWRITE ? result : value + result;
	if (EPILOGUE == EPILOGUE_RESIDUAL)
		residual.of.weighted[place - residual.projections] = factor * (value - result);
}

#endif
