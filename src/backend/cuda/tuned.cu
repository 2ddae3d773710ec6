/* The tuned kernels, in the order in which they are tried. */
#include <stdlib.h>
#include "backend/cuda/cuda.h"

extern const CudaTuned stack_kernels[4], plane_kernels[8], column_kernels[1], ray_kernels[3],
	brick_kernels[1], tile_kernels[1], sheet_kernels[1], few_kernels[4], shadow_kernels[1],
	gather_kernels[3], lattice_kernels[1], group_back_kernels[4], group_forward_kernels[4],
	warp_back_kernels[2], texture_kernels[3], rows_kernels[8], hybrid_kernels[3],
	oversampled_kernels[1], quarter_kernels[2];

static const struct {
	const CudaTuned *rows;
	int count;
} families[] = {{plane_kernels, 8}, {few_kernels, 4}, {group_back_kernels, 4},
	{group_forward_kernels, 4}, {warp_back_kernels, 2}, {rows_kernels, 8}, {texture_kernels, 3},
	{hybrid_kernels, 3}, {oversampled_kernels, 1}, {stack_kernels, 4}, {quarter_kernels, 2},
	{tile_kernels, 1}, {column_kernels, 1}, {sheet_kernels, 1}, {shadow_kernels, 1},
	{gather_kernels, 3}, {lattice_kernels, 1}, {brick_kernels, 1}, {ray_kernels, 3}};

typedef struct {
	const Projecting *what;
	CudaNotes *notes;
	const char *name; /* NULL: whatever needs not be named */
} Wanted;

static bool fits(const CudaTuned *row, const Wanted *w)
{
	bool meant = w->name ? strcmp(row->name, w->name) == 0 : !row->by_choice;
	return meant && row->kernel == w->what->kernel && row->direction == w->what->direction &&
	       row->applies(w->what, w->notes);
}

static const CudaTuned *find(const Wanted *w)
{
	for (int f = 0; f < COUNT(families); f++)
		for (int i = 0; i < families[f].count; i++)
			if (fits(&families[f].rows[i], w))
				return &families[f].rows[i];
	return NULL;
}

bool cuda_knows(const tomos_backend *backend, const char *kernel)
{
	(void)backend;
	for (int f = 0; f < COUNT(families); f++)
		for (int i = 0; i < families[f].count; i++)
			if (strcmp(families[f].rows[i].name, kernel) == 0)
				return true;
	return false;
}

/* The kernel that is named, or that measuring found to be the fastest, where it applies, or else the first
 * that does. */
static tomos_status choose(const tomos_backend *backend, const Projecting *what, CudaNotes *notes,
	const CudaTuned **row)
{
	const char *name = getenv("TOMOS_KERNEL");
	if (name && *name && !cuda_knows(backend, name))
		return fail(TOMOS_BAD_VALUE,
			"TOMOS_KERNEL is '%s', which is no kernel of this build", name);
	*row = NULL;
	if (what->plan->plain || !cuda_fits_launch(what))
		return TOMOS_OK;
	if (!name || !*name)
		name = tune_wanted(backend, what);
	const Wanted named = {what, notes, name}, any = {what, notes, NULL};
	if (name)
		*row = find(&named);
	if (!*row)
		*row = find(&any);
	return TOMOS_OK;
}

int cuda_choices(tomos_backend *backend, const Projecting *what, KernelChoice *list)
{
	CudaNotes notes;
	int count = 0;
	if (what->plan->plain || !cuda_fits_launch(what) || cuda_use(backend) != TOMOS_OK)
		return 0;
	for (int f = 0; f < COUNT(families); f++)
		for (int i = 0; i < families[f].count && count < MOST_CHOICES; i++) {
			const CudaTuned *row = &families[f].rows[i];
			const Wanted named = {what, &notes, row->name};
			if (fits(row, &named))
				list[count++] =
					(KernelChoice){row->name, !row->by_choice, row->coarse};
		}
	return count;
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
	*fresh = (CudaChoice){.kernel = what->kernel,
		.direction = what->direction,
		.box = what->box,
		.first = what->first,
		.count = what->count};
	*choice = fresh;
	tomos_status status = choose(backend, what, &fresh->notes, &fresh->tuned);
	fresh->used = status == TOMOS_OK;
	return status;
}
