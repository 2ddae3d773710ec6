/* Footprints of views that are mirror images (mirror_images.h): images of voxels and of views. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_MIRRORS_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_MIRRORS_H

#include "backend/cuda/kernels/footprint_blocks.h"

/* Maps of a request whose views are in no quarters: this many, or two. */
static inline Mirrors mirrors_of(const ProjectRequest *what, int most)
{
	return quarter_direction(what) != 0 ? Mirrors{} : mirrors_find(what, most);
}

/* The middle of an axis of which half is visited, if map i mirrors it and the number of voxels is
 * odd: images of voxels there are visited themselves. Else -1. */
static __device__ __forceinline__ int middle_of(const Footprints &s, int i, int axis)
{
	const bool halved = is_flipped(s.mirrors, i, axis) && s.mirrors.halved >> axis & 1;
	return halved && s.n[axis] % 2 == 1 ? s.n[axis] / 2 : -1;
}

/* Image i of a voxel; without mirrors, it is rotated by `turns` quarters. */
static __device__ __forceinline__ int3 image_of(
	const Footprints &s, int i, int turns, int x, int y, int z)
{
	if (i == 0)
		return make_int3(x, y, z);
	if (s.mirrors.count > 1)
		return make_int3(is_flipped(s.mirrors, i, 0) ? s.n[0] - 1 - x : x,
			is_flipped(s.mirrors, i, 1) ? s.n[1] - 1 - y : y,
			is_flipped(s.mirrors, i, 2) ? s.n[2] - 1 - z : z);
	const int2 at = rotated(s.n[0], turns, x, y);
	return make_int3(at.x, at.y, z);
}

/* Tiles of four views, or of two, where views are in such sets and there is memory: four(), two()
 * set the size of these tiles. */
template <class Four, class Two>
static bool choose_images(
	const ProjectRequest *what, TileSize *size, const Four &four, const Two &two)
{
	const Mirrors mirrors = mirrors_of(what, 4);
	if ((quarter_direction(what) != 0 || mirrors.count == 4) && four())
		size->mirrors = mirrors;
	else if (mirrors.count > 0 && two())
		size->mirrors = mirrors_of(what, 2);
	else
		return false;
	return true;
}

static inline void forget_images(TileSize *size)
{
	size->direction = 0;
	size->mirrors = Mirrors{};
}

/* The function for tiles of four views, of two, of one, and of one with fewer voxels. */
template <class Run>
static Run run_of_size(const TileSize *size, Run four, Run two, Run one, Run fewer, int column)
{
	const int images = size->direction != 0 ? 4 : size->mirrors.count;
	return images == 4 ? four : images == 2 ? two : size->column == column ? one : fewer;
}

/* Sets what is known about the mirror images of views. */
static inline tomos_status cuda_mirrors(tomos_backend *backend, const Plan *plan, Footprints *s)
{
	if (s->mirrors.count < 2)
		return TOMOS_OK;
	s->part = plan->scan->count;
	return send_mirrors(backend, plan, &s->mirrors, &s->mirrored);
}

#endif
