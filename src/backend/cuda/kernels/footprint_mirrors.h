/* Sets of views that mirror images of the grid map onto each other (mirror.h). A block visits every
 * view for the voxels of a half or a quarter of the grid; their images are in the views that the
 * maps take that view to, with the same weights.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_MIRRORS_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_MIRRORS_H

#include "backend/cuda/kernels/footprint_blocks.h"

/* Maps of a request whose views are in no quarters: this many, or two. */
static inline Mirrors mirrors_of(const ProjectRequest *what, int most)
{
	return quarter_direction(what) != 0 ? Mirrors{} : mirrors_find(what, most);
}

/* Whether map i mirrors an axis. */
static __device__ __forceinline__ bool is_mirrored(const Footprints &s, int i, int axis)
{
	return s.mirrors.count > 1 && s.mirrors.flips[i] >> axis & 1;
}

/* Whether image i of a voxel at this place is in the middle of the grid, where it is visited
 * itself. */
static __device__ __forceinline__ bool is_twice(const Footprints &s, int i, int axis, int at)
{
	return is_mirrored(s, i, axis) && s.mirrors.halved >> axis & 1 && 2 * at == s.n[axis] - 1;
}

/* Whether image i of a voxel is another one, or i is 0. */
static __device__ __forceinline__ bool is_needed(const Footprints &s, int i, const int at[3])
{
	return !is_twice(s, i, 0, at[0]) && !is_twice(s, i, 1, at[1]) && !is_twice(s, i, 2, at[2]);
}

/* Image i of a voxel; without mirrors, it is rotated by `turns` quarters. */
static __device__ __forceinline__ int3 image_of(
	const Footprints &s, int i, int turns, int x, int y, int z)
{
	if (i == 0)
		return make_int3(x, y, z);
	if (s.mirrors.count > 1)
		return make_int3(is_mirrored(s, i, 0) ? s.n[0] - 1 - x : x,
			is_mirrored(s, i, 1) ? s.n[1] - 1 - y : y,
			is_mirrored(s, i, 2) ? s.n[2] - 1 - z : z);
	const int2 at = rotated(s.n[0], turns, x, y);
	return make_int3(at.x, at.y, z);
}

/* Place of a pixel in the view that a map takes its view to. */
static __device__ __forceinline__ int mirrored_pixel(
	const Footprints &s, int seen, int row, int column)
{
	const int r = seen & REVERSED_ROWS ? s.rows - 1 - row : row,
		  c = seen & REVERSED_COLUMNS ? s.columns - 1 - column : column;
	return r * s.columns + c;
}

/* Views that a Pixel or voxel is of; 0: one. */
static inline int images_of_size(const TileSize *size)
{
	return size->direction != 0 ? 4 : size->mirrors.count;
}

static inline void forget_images(TileSize *size)
{
	size->direction = 0;
	size->mirrors = Mirrors{};
}

/* Sets what is known about the mirror images of views. */
static inline tomos_status cuda_mirrors(tomos_backend *backend, const Plan *plan, Footprints *s)
{
	const int64_t count = plan->scan->count;
	MirrorView *views;
	float *device;
	if (s->mirrors.count < 2)
		return TOMOS_OK;
	TRY(cuda_scratch(backend, SCRATCH_ROWS, count * MIRROR_IMAGES, &device, "mirror images"));
	TRY(mem_alloc(&views, count, sizeof *views, "mirror images"));
	mirror_views(plan, &s->mirrors, views);
	const cudaError_t error = cudaMemcpyAsync(device, views, (size_t)count * sizeof *views,
		cudaMemcpyHostToDevice, device_of(backend)->stream);
	mem_free(views);
	CUDA_TRY(error, "sending the mirror images of views");
	s->mirrored = (const MirrorView *)device;
	s->part = count;
	return TOMOS_OK;
}

#endif
