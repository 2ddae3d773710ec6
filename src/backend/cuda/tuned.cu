/* The tuned kernels, in the order in which they are tried. */
#include "backend/cuda/cuda.h"

extern const CudaTuned stack_kernels[4], plane_kernels[4], column_kernels[1], ray_kernels[1],
	tile_kernels[1], sheet_kernels[1], few_kernels[4], gather_kernels[1], lattice_kernels[1];

static const struct {
	const CudaTuned *rows;
	int count;
} families[] = {{plane_kernels, 4}, {few_kernels, 4}, {stack_kernels, 4}, {tile_kernels, 1},
	{column_kernels, 1}, {sheet_kernels, 1}, {gather_kernels, 1}, {lattice_kernels, 1},
	{ray_kernels, 1}};

const CudaTuned *cuda_choose(const Projecting *what)
{
	for (int f = 0; f < COUNT(families); f++)
		for (int i = 0; i < families[f].count; i++) {
			const CudaTuned *row = &families[f].rows[i];
			if (row->kernel == what->kernel && row->direction == what->direction &&
				row->applies(what))
				return row;
		}
	return NULL;
}
