/* The tuned kernels, in the order in which they are tried. */
#include "backend/cuda/cuda.h"

extern const CudaTuned stack_kernels[4], plane_kernels[4], column_kernels[1], ray_kernels[1],
	tile_kernels[1], sheet_kernels[1], few_kernels[4], gather_kernels[1], lattice_kernels[1],
	tensor_kernels[1];

static const struct {
	const CudaTuned *rows;
	int count;
} families[] = {{plane_kernels, 4}, {few_kernels, 4}, {tensor_kernels, 1}, {stack_kernels, 4},
	{tile_kernels, 1}, {column_kernels, 1}, {sheet_kernels, 1}, {gather_kernels, 1},
	{lattice_kernels, 1}, {ray_kernels, 1}};

static const CudaTuned *find(const Projecting *what, CudaNotes *notes)
{
	if (!cuda_fits_launch(what))
		return NULL;
	for (int f = 0; f < COUNT(families); f++)
		for (int i = 0; i < families[f].count; i++) {
			const CudaTuned *row = &families[f].rows[i];
			if (row->kernel == what->kernel && row->direction == what->direction &&
				row->applies(what, notes))
				return row;
		}
	return NULL;
}

static bool is_same(const CudaChoice *c, const Projecting *what)
{
	return c->used && c->kernel == what->kernel && c->direction == what->direction &&
	       c->first == what->first && c->count == what->count &&
	       memcmp(&c->box, &what->box, sizeof c->box) == 0;
}

/* Looking at every view again in each iteration would take longer than projecting a small slice. */
tomos_status cuda_choose(tomos_backend *backend, const Projecting *what, const CudaChoice **choice)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	for (int i = 0; i < CHOICES; i++)
		if (is_same(&kept->choices[i], what)) {
			*choice = &kept->choices[i];
			return TOMOS_OK;
		}
	CudaPlan *own = (CudaPlan *)kept;
	CudaChoice *fresh = &own->choices[own->next];
	own->next = (own->next + 1) % CHOICES;
	*fresh = (CudaChoice){.used = true,
		.kernel = what->kernel,
		.direction = what->direction,
		.box = what->box,
		.first = what->first,
		.count = what->count};
	fresh->tuned = what->plan->plain ? NULL : find(what, &fresh->notes);
	*choice = fresh;
	return TOMOS_OK;
}
