/* The table of optimised kernels, for listings and for the performance model. */
#include "backend/optimised.h"
#include <string.h>

#define CPU "cpu"
#define CUDA "cuda"
#define OPENCL "opencl"
#define OPTIMISED(backend, id, projectors, direction, choice, cache, fma, fetch, tensor, rays, \
	applies, method) \
	{sizeof(tomos_kernel), backend, #id, #projectors, #direction, #choice, #rays, applies, \
		method, {0, 0, cache, fma, fetch, tensor}},
static const tomos_kernel rows[] = {
#include "backend/optimised.def"
};

const tomos_kernel *tomos_kernels(int *count)
{
	*count = COUNT(rows);
	return rows;
}

const double *optimised_demand(const char *kernel)
{
	for (int i = 0; i < COUNT(rows); i++)
		if (strcmp(rows[i].name, kernel) == 0)
			return rows[i].work;
	return NULL;
}
