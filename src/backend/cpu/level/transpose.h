/* Transposed copies of arrays. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_TRANSPOSE_H
#define TOMOS_BACKEND_CPU_LEVEL_TRANSPOSE_H

#include "backend/cpu/level/simd.h"

/* Copies a square of LANES x LANES floats, transposed, between rows that are a stride apart. */
static inline void vf_transpose_square(
	const float *from, int64_t from_stride, float *to, int64_t to_stride)
{
	vf square[LANES];
	for (int l = 0; l < LANES; l++)
		square[l] = vf_load(from + l * from_stride);
	vf_transpose(square);
	for (int l = 0; l < LANES; l++)
		vf_store(to + l * to_stride, square[l]);
}

/* to[x][y] = from[y][x] for `high` rows of `wide` floats; rows of `from` have at least `there`
 * floats that may be read. */
static inline void transpose_rows(const float *from, int64_t from_stride, float *to,
	int64_t to_stride, int64_t high, int64_t wide, int64_t there)
{
	for (int64_t y = 0; y < high; y += LANES)
		for (int64_t x = 0; x < wide; x += LANES) {
			int64_t rows = min64(LANES, high - y), columns = min64(LANES, wide - x);
			const float *square = from + y * from_stride + x;
			float *target = to + x * to_stride + y;
			vf v[LANES];
			if (rows < LANES || there - x < LANES) {
				for (int64_t i = 0; i < columns * rows; i++)
					target[i / rows * to_stride + i % rows] =
						square[i % rows * from_stride + i / rows];
				continue;
			}
			for (int l = 0; l < LANES; l++)
				v[l] = vf_load(square + l * from_stride);
			vf_transpose(v);
			for (int64_t i = 0; i < columns; i++)
				vf_store(target + i * to_stride, v[i]);
		}
}

#endif
