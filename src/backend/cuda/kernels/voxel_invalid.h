/* Voxels that are infinite or NaN, for forward projection by integer sums: they set no unit and are
 * projected by the reference kernel, so that they change only the pixels that they meet.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_INVALID_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_INVALID_H

#include "backend/cuda/kernels/voxel_scatter.h"
#include "kernel/voxel.h"

/* Largest absolute values, as the bits of floats. */
typedef struct {
	unsigned all, finite;
} Largest;

static __device__ __forceinline__ bool is_finite(float value)
{
	return fabsf(value) < INFINITY;
}

static __device__ __forceinline__ int64_t voxels_of(const Scatter &s)
{
	return (int64_t)s.n[0] * s.n[1] * s.n[2];
}

/* Reads the volume only where some of it is not finite. */
static __global__ void find_finite(const __grid_constant__ Scatter s, Largest *largest)
{
	const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (is_finite(__uint_as_float(largest->all))) {
		if (first == 0)
			largest->finite = largest->all;
		return;
	}
	unsigned most = 0;
	for (int64_t i = first; i < voxels_of(s); i += (int64_t)gridDim.x * blockDim.x)
		if (is_finite(s.volume[i]))
			most = max(most, __float_as_uint(fabsf(s.volume[i])));
	atomicMax(&largest->finite, most);
}

static __device__ void spread_voxel(const Scatter &s, int64_t i)
{
	KernelGrid grid = {};
	for (int a = 0; a < 3; a++)
		grid.step[a] = s.step[a];
	const int64_t row = i / s.n[0], slice = row / s.n[1];
	const int64_t at[3] = {
		s.low[0] + i - row * s.n[0], s.low[1] + row - slice * s.n[1], s.low[2] + slice};
	for (int view = 0; view < s.count; view++) {
		KernelMeet meet = {
			s.projections + view * s.model.rows * s.model.columns, s.volume[i]};
		voxel_voxel(&grid, &s.model, &s.views[view], at, MEET_SPREAD, &meet);
	}
}

static __global__ void add_invalid(const __grid_constant__ Scatter s, const Largest *largest)
{
	if (is_finite(__uint_as_float(largest->all)))
		return;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < voxels_of(s);
		i += (int64_t)gridDim.x * blockDim.x)
		if (!is_finite(s.volume[i]))
			spread_voxel(s, i);
}

#endif
