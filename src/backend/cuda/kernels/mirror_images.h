/* Sets of views that mirror images of the grid map onto each other (mirror.h): what kernels have in
 * common. A block visits every view for the voxels of a half or a quarter of the grid; their images
 * are in the views that the maps take that view to, with the same weights.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_MIRROR_IMAGES_H
#define TOMOS_BACKEND_CUDA_KERNELS_MIRROR_IMAGES_H

#include "backend/cuda/cuda.h"

extern "C" {
#include "backend/device/mirror.h"
}

/* Whether map i mirrors an axis. */
static __device__ __forceinline__ bool is_flipped(const Mirrors &mirrors, int i, int axis)
{
	return mirrors.flips[i] >> axis & 1;
}

/* Place of a pixel in the view that a map takes its view to. */
static __device__ __forceinline__ int mirrored_pixel(
	int seen, int rows, int columns, int row, int column)
{
	const int r = seen & REVERSED_ROWS ? rows - 1 - row : row,
		  c = seen & REVERSED_COLUMNS ? columns - 1 - column : column;
	return r * columns + c;
}

/* Sends the views that maps take views to. */
static inline tomos_status send_mirrors(tomos_backend *backend, const Plan *plan,
	const Mirrors *mirrors, const MirrorView **mirrored)
{
	const int64_t count = plan->scan->count;
	MirrorView *views;
	float *device;
	TRY(cuda_scratch(backend, SCRATCH_ROWS, count * MIRROR_IMAGES, &device, "mirror images"));
	TRY(mem_alloc(&views, count, sizeof *views, "mirror images"));
	mirror_views(plan, mirrors, views);
	const cudaError_t error = cudaMemcpyAsync(device, views, (size_t)count * sizeof *views,
		cudaMemcpyHostToDevice, device_of(backend)->stream);
	mem_free(views);
	CUDA_TRY(error, "sending the mirror images of views");
	*mirrored = (const MirrorView *)device;
	return TOMOS_OK;
}

#endif
