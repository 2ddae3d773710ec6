/* Projections by optimised or reference kernels, and with powers of the matrix entries. */
#include <string.h>
#include "backend/opencl/slices.h"

#define BOTH(program, id) \
	{ \
		TASK_##program##_##id##_FORWARD, TASK_##program##_##id##_ADJOINT \
	}
#define KERNEL(id, name, family, weights, help) {BOTH(project, id), BOTH(power, id)},
static const int reference[KERNEL_COUNT][2][2] = {
#include "kernel/kernels.def"
};
#undef KERNEL

/* ---- the views of a plan, kept on the device ------------------------------------------------ */

static void plan_release(tomos_backend *backend, void *data)
{
	opencl_buffer_release(device_of(backend), data);
}

static tomos_status plan_send(tomos_backend *backend, const Plan *plan, cl_mem *views)
{
	OpenclDevice *d = device_of(backend);
	size_t bytes = (size_t)plan->scan->count * sizeof *plan->views;
	TRY(opencl_buffer(d, bytes, views, "the views"));
	d->counts.transfers++;
	cl_int code = clEnqueueWriteBuffer(
		d->queue, *views, CL_TRUE, 0, bytes, plan->views, 0, NULL, NULL);
	if (code == CL_SUCCESS)
		return TOMOS_OK;
	opencl_buffer_release(d, *views);
	return opencl_failed(code, "sending the views");
}

static tomos_status views_locked(tomos_backend *backend, const Plan *plan, cl_mem *views)
{
	PlanCache *cache = plan->cache;
	if (cache->data && cache->owner != backend) {
		cache->release(cache->owner, cache->data);
		cache->data = NULL;
	}
	if (!cache->data) {
		TRY(plan_send(backend, plan, views));
		*cache = (PlanCache){backend, *views, plan_release};
	}
	*views = cache->data;
	return TOMOS_OK;
}

/* Several threads may use one operator and therefore one plan. */
static tomos_status plan_views(tomos_backend *backend, const Plan *plan, cl_mem *views)
{
	pthread_mutex_lock(&device_of(backend)->plans);
	tomos_status status = views_locked(backend, plan, views);
	pthread_mutex_unlock(&device_of(backend)->plans);
	return status;
}

/* ---- rows -------------------------------------------------------------------------------- */

#define LIST_RAY(id) TASK_project_##id##_LIST
#define LIST_VOXEL(id) -1
#define KERNEL(id, name, family, weights, help) LIST_##family(id),
static const int lists[KERNEL_COUNT] = {
#include "kernel/kernels.def"
};
#undef KERNEL

static tomos_status opencl_list_rows(
	tomos_backend *backend, const Plan *plan, int kernel, const KernelBatch *batch)
{
	OpenclPlace ray, index, entries, weight;
	cl_mem views;
	TRY(plan_views(backend, plan, &views));
	TRY(opencl_place(backend, (const void *)batch->ray, &ray));
	TRY(opencl_place(backend, (const void *)batch->index, &index));
	TRY(opencl_place(backend, (const void *)batch->entries, &entries));
	TRY(opencl_place(backend, batch->weight, &weight));
	const OpenclArg args[] = {ARG(plan->whole), ARG(plan->model), ARG(views), ARG(batch->count),
		ARG(batch->most), ARG_PLACE(ray), ARG(index.memory), ARG(entries.memory),
		ARG(weight.memory)};
	return opencl_line(backend, lists[kernel], batch->count, args, COUNT(args));
}

/* ---- projecting --------------------------------------------------------------------------- */

static tomos_status run(tomos_backend *backend, const ProjectRequest *what, int task, int power)
{
	const Plan *plan = what->plan;
	const KernelGrid grid = request_grid(what);
	OpenclPlace volume, projections;
	cl_mem views;
	cl_int exponent = power;
	TRY(project_begin(backend, what));
	TRY(plan_views(backend, plan, &views));
	TRY(opencl_place(backend, what->volume, &volume));
	TRY(opencl_place(backend, what->projections, &projections));
	const OpenclArg args[] = {ARG(grid), ARG(plan->model), ARG(views), ARG(what->first),
		ARG(what->count), ARG_PLACE(volume), ARG_PLACE(projections), ARG(exponent)};
	int64_t rays[3] = {plan->model.columns, plan->model.rows, what->count}, voxels[3];
	for (int a = 0; a < 3; a++)
		voxels[a] = grid.high[a] - grid.low[a];
	bool ray = kernel_rows[what->kernel].family == FAMILY_RAY;
	return opencl_planes(backend, task, ray ? rays : voxels, args, COUNT(args));
}

static tomos_status opencl_project(tomos_backend *backend, const ProjectRequest *what)
{
	HatSlices slices;
	cl_mem views;
	bool optimised = slices_apply(what, &slices);
	backend->last_kernel = optimised ? "slices_shared" : NULL;
	if (optimised) {
		TRY(plan_views(backend, what->plan, &views));
		TRY(project_begin(backend, what));
		return slices_run(backend, what, &slices, views);
	}
	return run(backend, what, reference[what->kernel][0][what->direction], 1);
}

static tomos_status opencl_power(tomos_backend *backend, const ProjectRequest *what, int power)
{
	return run(backend, what, reference[what->kernel][1][what->direction], power);
}

const BackendProjector opencl_projector = {
	.apply = opencl_project,
	.apply_power = opencl_power,
	.list_rows = opencl_list_rows,
};
