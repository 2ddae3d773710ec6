/* CPU backend: host memory, all cores. */
#include <stdio.h>
#include <string.h>
#include "backend/cpu/cpu.h"

static tomos_status cpu_open(tomos_backend *backend, const char *argument)
{
	const CpuLevel *level;
	if (*argument)
		return fail(TOMOS_BAD_VALUE, "the cpu backend takes no number, not '%s'", argument);
	TRY(cpu_level_choose(&level));
	backend->own = (void *)level;
	snprintf(backend->description, sizeof backend->description, "cpu (%s, %d thread%s)",
		level->name, tomos_threads(), tomos_threads() == 1 ? "" : "s");
	cpu_model(level, backend->model, sizeof backend->model);
	return TOMOS_OK;
}

static void cpu_close(tomos_backend *backend)
{
	(void)backend;
}

static tomos_status cpu_alloc(tomos_backend *b, float **data, int64_t count, const char *what)
{
	(void)b;
	return mem_alloc(data, count, sizeof **data, what);
}

static void cpu_release(tomos_backend *b, float *data)
{
	(void)b;
	mem_free(data);
}

static bool is_contiguous(const tomos_array *a)
{
	return a->stride[2] == 1 && a->stride[1] == a->shape[2] &&
	       a->stride[0] == a->shape[1] * a->shape[2];
}

typedef struct {
	float *data;
	const tomos_array *host;
	bool out;
} Transfer;

static void transfer_slab(void *user, int64_t i)
{
	const Transfer *t = user;
	const tomos_array *a = t->host;
	for (int64_t j = 0; j < a->shape[1]; j++) {
		float *packed = t->data + (i * a->shape[1] + j) * a->shape[2];
		float *host = a->data + i * a->stride[0] + j * a->stride[1];
		for (int64_t k = 0; k < a->shape[2]; k++) {
			float *one = &host[k * a->stride[2]];
			if (t->out)
				*one = packed[k];
			else
				packed[k] = *one;
		}
	}
}

static tomos_status cpu_upload(tomos_backend *b, float *data, const tomos_array *host)
{
	(void)b;
	Transfer t = {data, host, false};
	parallel_for(host->shape[0], transfer_slab, &t);
	return TOMOS_OK;
}

static tomos_status cpu_download(tomos_backend *b, const float *data, const tomos_array *host)
{
	(void)b;
	Transfer t = {(float *)data, host, true};
	parallel_for(host->shape[0], transfer_slab, &t);
	return TOMOS_OK;
}

static float *cpu_direct_pointer(tomos_backend *b, const tomos_array *array)
{
	(void)b;
	return is_contiguous(array) ? array->data : NULL;
}

static tomos_status cpu_sync(tomos_backend *b)
{
	(void)b;
	return TOMOS_OK;
}

static const BackendMemory cpu_memory = {BACKEND_MEMORY(cpu)};

const BackendType cpu_backend = {
	BACKEND_PARTS(cpu, 8 << 20), .machine = cpu_machine, .fourier = &cpu_fourier};
