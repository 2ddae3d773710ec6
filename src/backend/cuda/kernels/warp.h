/* Reductions over the lanes of a warp. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_WARP_H
#define TOMOS_BACKEND_CUDA_KERNELS_WARP_H

/* The least value of a warp. */
static __device__ __forceinline__ int warp_min(int value)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_min_sync(~0u, value);
#else
	for (int lane = 16; lane > 0; lane /= 2)
		value = min(value, __shfl_xor_sync(~0u, value, lane));
	return value;
#endif
}

#endif
