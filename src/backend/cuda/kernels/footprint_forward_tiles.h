/* Shared memory for the tiles of footprint_forward.h. Host code. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_TILES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_TILES_H

#include "backend/cuda/kernels/footprint_blocks.h"

template <class Value> static int tile_bytes(const TileSize *size)
{
	return size->area * (int)sizeof(Value);
}

/* Whether there is memory for the largest tile; fixed: bytes for voxels and for what is known about
 * views. */
template <class Value> static bool has_tiles(int fixed, const TileSize *size)
{
	return cuda_has_shared(tile_bytes<Value>(size) + fixed);
}

/* Bytes for tiles that leave as many to a second block, or to more. */
static inline int shared_bytes(int fixed, const TileSize *size)
{
	return cuda_most_shared() / (2 + size->more) - 1024 - fixed;
}

/* Lets a third block share the memory, where tiles are small enough. */
template <class Value> static void add_block(int fixed, TileSize *size)
{
	size->more = 1;
	if (size->padded > shared_bytes(fixed, size) / (int)sizeof(Value))
		size->more = 0;
}

/* Enlarges tiles for the pitches of set_pitch, as far as a second block has memory too. */
template <class Value> static void pad_tiles(int fixed, TileSize *size)
{
	const int most = shared_bytes(fixed, size) / (int)sizeof(Value);
	size->area = max(size->area, min(size->padded, most));
}

/* Limits tiles to the memory there is: blocks that see more of a view add to it directly. */
static inline void limit_tiles(int fixed, TileSize *size)
{
	size->area = min(size->area, (cuda_most_shared() - fixed) / (int)sizeof(float));
	size->direction = 0;
}

/* Bytes for two of the largest tiles or, where these leave too little memory for a second block,
 * for one, and what that leaves. */
template <class Value> static int pool_bytes(int fixed, const TileSize *size)
{
	const int one = tile_bytes<Value>(size);
	return max(one, min(2 * one, shared_bytes(fixed, size) / 16 * 16));
}

/* Limits tiles to what leaves memory for a second block, where the largest ones are not much
 * larger: few blocks see so much of a view, and add to it directly. */
template <class Value> static void share_memory(int fixed, TileSize *size)
{
	const int most = shared_bytes(fixed, size) / (int)sizeof(Value);
	if (2 * size->area <= 3 * most)
		size->area = min(size->area, most);
}

#endif
