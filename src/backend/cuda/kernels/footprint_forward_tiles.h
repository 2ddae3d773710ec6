/* Shared memory for the tiles of footprint_forward.h. Host code. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_TILES_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_TILES_H

#include "backend/cuda/kernels/footprint_blocks.h"

template <class Value> static int tile_bytes(const TileSize *size)
{
	return size->area * (int)sizeof(Value);
}

/* Bytes of a block for tiles, if `blocks` share the memory of an SM. fixed: bytes of a block for
 * voxels and for what is known about views. */
static inline int shared_bytes(int fixed, int blocks)
{
	return cuda_most_shared() / blocks - 1024 - fixed;
}

/* Gives this many blocks per SM as much memory as they have each, if that is enough for nearly all
 * tiles: the few blocks that see more of a view add to it directly. Tiles are enlarged for the
 * pitches of set_pitch, as far as there is memory. */
template <class Value> static bool share_memory(int fixed, int blocks, TileSize *size)
{
	const int most = shared_bytes(fixed, blocks) / (int)sizeof(Value);
	if (size->usual[2] > most)
		return false;
	size->area = min(max(size->area, size->padded), most);
	size->blocks = blocks;
	return true;
}

/* All of the memory for one block, however many blocks see more. */
static inline void take_memory(int fixed, TileSize *size)
{
	size->area = min(size->area, shared_bytes(fixed, 1) / (int)sizeof(float));
	size->blocks = 1;
}

/* Bytes for two of the largest tiles or, where these leave too little memory for other blocks, for
 * one, and what that leaves. */
template <class Value> static int pool_bytes(int fixed, const TileSize *size)
{
	const int one = tile_bytes<Value>(size);
	return max(one, min(2 * one, shared_bytes(fixed, size->blocks) / 16 * 16));
}

/* Whether blocks of the first kind of columns are enough for the GPU, and have few more voxels
 * outside the box than those of the second. */
template <class More, class Fewer> static bool has_many_blocks(const ProjectRequest *what)
{
	const int64_t enough = 500;
	int64_t n[3];
	for (int a = 0; a < 3; a++)
		n[a] = what->box.high[a] - what->box.low[a];
	return cuda_blocks(n[0] * n[1], THREADS, 1 << 30) * whole_columns<More>(n[2]) >=
		       enough * More::COUNT &&
	       4 * whole_columns<More>(n[2]) <= 5 * whole_columns<Fewer>(n[2]);
}

#endif
