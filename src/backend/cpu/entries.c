/* Entries of the projection matrix: single matrix rows, and products with powers of the entries. */
#include <stdatomic.h>
#include <string.h>
#include "backend/cpu/cpu.h"

#define KERNEL_HEADERS
#include "kernel/kernels.def"
#undef KERNEL_HEADERS

enum { SLABS = 16 };

/* Lists the matrix entries of one ray (at[0], at[1]: column and row of its pixel), or of one voxel
 * `at`, in one view. */
typedef void (*ListKernel)(const Plan *plan, const KernelGrid *grid, int64_t view,
	const int64_t at[3], KernelMeet *meet);

#define LIST_RAY(id) \
	KernelRay ray = kernel_ray(grid, &plan->views[view], at[1], at[0]); \
	id##_ray(grid, &plan->model, &ray, MEET_LIST, meet);
#define LIST_VOXEL(id) id##_voxel(grid, &plan->model, &plan->views[view], at, MEET_LIST, meet);

#define KERNEL(id, name, family, weights, help) \
	static void id##_list(const Plan *plan, const KernelGrid *grid, int64_t view, \
		const int64_t at[3], KernelMeet *meet) \
	{ \
		LIST_##family(id) \
	}
#include "kernel/kernels.def"
#undef KERNEL

#define KERNEL(id, name, family, weights, help) id##_list,
static const ListKernel list_kernels[KERNEL_COUNT] = {
#include "kernel/kernels.def"
};
#undef KERNEL

tomos_status cpu_row(tomos_backend *backend, const Plan *plan, int kernel, int64_t ray,
	int64_t *index, float *weight, int64_t *count)
{
	(void)backend;
	int64_t columns = plan->model.columns, pixels = plan->model.rows * columns;
	const int64_t at[3] = {ray % columns, ray % pixels / columns, 0};
	KernelMeet meet = {.index = index, .weight = weight};
	list_kernels[kernel](plan, &plan->whole, ray / pixels, at, &meet);
	*count = meet.count;
	return TOMOS_OK;
}

/* A list that grows as needed. */
typedef struct {
	KernelMeet meet;
	int64_t capacity;
} List;

typedef struct {
	const ProjectRequest *what;
	KernelGrid grid;
	int power;
	_Atomic int status;
} Powers;

static tomos_status list_fill(
	List *list, const Powers *p, const KernelGrid *grid, int64_t view, const int64_t at[3])
{
	ListKernel kernel = list_kernels[p->what->kernel];
	KernelMeet count = {.index = NULL};
	kernel(p->what->plan, grid, view, at, &count);
	if (count.count > list->capacity) {
		mem_free(list->meet.index);
		mem_free(list->meet.weight);
		list->meet = (KernelMeet){.index = NULL};
		list->capacity = 0;
		TRY(mem_alloc(&list->meet.index, 2 * count.count, sizeof(int64_t), "a row"));
		TRY(mem_alloc(&list->meet.weight, 2 * count.count, sizeof(float), "a row"));
		list->capacity = 2 * count.count;
	}
	list->meet.count = 0;
	kernel(p->what->plan, grid, view, at, &list->meet);
	return TOMOS_OK;
}

/* takes: adds to *own the sum of entry^power times the listed elements of `others`. Else: adds
 * entry^power times *own to each of them. */
static void list_apply(const KernelMeet *list, int power, bool takes, float *own, float *others)
{
	double sum = 0;
	for (int64_t i = 0; i < list->count; i++) {
		float w = power == 0 ? 1 : list->weight[i] * list->weight[i];
		if (takes)
			sum += (double)w * others[list->index[i]];
		else
			others[list->index[i]] += w * *own;
	}
	if (takes)
		*own += (float)sum;
}

static tomos_status rays_power(const Powers *p, List *list, const KernelGrid *grid, int64_t view,
	float *volume, float *image)
{
	const Plan *plan = p->what->plan;
	Box box;
	memcpy(box.low, grid->low, sizeof box.low);
	memcpy(box.high, grid->high, sizeof box.high);
	Window window = geom_window(plan->scan, view, &plan->grid, &box, 1.5);
	int64_t at[3] = {0};
	for (at[1] = window.low[1]; at[1] < window.high[1] && !cancel_seen(); at[1]++)
		for (at[0] = window.low[0]; at[0] < window.high[0]; at[0]++) {
			TRY(list_fill(list, p, grid, view, at));
			list_apply(&list->meet, p->power, p->what->direction == FORWARD,
				&image[at[1] * plan->model.columns + at[0]], volume);
		}
	return TOMOS_OK;
}

static tomos_status voxels_power(const Powers *p, List *list, const KernelGrid *grid, int64_t view,
	float *volume, float *image)
{
	int64_t at[3], i = 0;
	for (at[2] = grid->low[2]; at[2] < grid->high[2]; at[2]++)
		for (at[1] = grid->low[1]; at[1] < grid->high[1] && !cancel_seen(); at[1]++)
			for (at[0] = grid->low[0]; at[0] < grid->high[0]; at[0]++, i++) {
				TRY(list_fill(list, p, grid, view, at));
				list_apply(&list->meet, p->power, p->what->direction == ADJOINT,
					&volume[i], image);
			}
	return TOMOS_OK;
}

static void power_task(Powers *p, const KernelGrid *grid, int64_t first, int64_t count)
{
	const ProjectRequest *what = p->what;
	int64_t pixels = what->plan->model.rows * what->plan->model.columns;
	int64_t nx = what->box.high[0] - what->box.low[0],
		ny = what->box.high[1] - what->box.low[1];
	int64_t before =
		((grid->low[2] - what->box.low[2]) * ny + grid->low[1] - what->box.low[1]) * nx;
	bool rays = kernel_rows[what->kernel].family == FAMILY_RAY;
	List list = {.capacity = 0};
	tomos_status status = TOMOS_OK;
	for (int64_t view = first; status == TOMOS_OK && view < first + count; view++)
		status = (rays ? rays_power : voxels_power)(p, &list, grid, what->first + view,
			what->volume + before, what->projections + view * pixels);
	mem_free(list.meet.index);
	mem_free(list.meet.weight);
	if (status != TOMOS_OK)
		atomic_store(&p->status, (int)status);
}

static void power_view(void *user, int64_t view)
{
	Powers *p = user;
	power_task(p, &p->grid, view, 1);
}

/* One task: the voxels of one slab (whole slices, or rows of one slice), so that no two threads
 * write the same voxel. */
static void power_slab(void *user, int64_t index)
{
	Powers *p = user;
	KernelGrid grid = p->grid;
	int axis = grid.high[2] - grid.low[2] > 1 ? 2 : 1;
	int64_t low = grid.low[axis], n = grid.high[axis] - low;
	grid.low[axis] = low + n * index / SLABS;
	grid.high[axis] = low + n * (index + 1) / SLABS;
	if (grid.low[axis] < grid.high[axis])
		power_task(p, &grid, 0, p->what->count);
}

tomos_status cpu_power(tomos_backend *backend, const ProjectRequest *what, int power)
{
	TRY(project_begin(backend, what));
	Powers p = {.what = what, .grid = request_grid(what), .power = power};
	if (what->direction == FORWARD)
		parallel_for(what->count, power_view, &p);
	else
		parallel_for(SLABS, power_slab, &p);
	tomos_status status = (tomos_status)atomic_load(&p.status);
	return status == TOMOS_OK ? status : fail(status, "no memory for the rows of a projector");
}
