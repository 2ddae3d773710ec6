/* Affine functions of a position: column, row and depth of KernelView. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_AFFINE_H
#define TOMOS_BACKEND_CUDA_KERNELS_AFFINE_H

static __host__ __device__ __forceinline__ double affine(
	const double f[4], double x, double y, double z)
{
	return f[0] * x + f[1] * y + f[2] * z + f[3];
}

static __host__ __device__ __forceinline__ double affine(const double f[4], const double at[3])
{
	return affine(f, at[0], at[1], at[2]);
}

#endif
