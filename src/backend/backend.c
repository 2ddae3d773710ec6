/* The kinds of backends, opened by name. */
#include <string.h>
#include "backend/module.h"

/* "auto" takes the first that opens; the cpu, which is built in, always does. */
#define BACKENDS(B) B("cuda", NULL) B("cpu", &cpu_backend) B("opencl", NULL)
#define BACKEND_TYPE(name, type) {name, type},
#define BACKEND_NAME(name, type) "|" name
static const struct {
	const char *name;
	const BackendType *type; /* NULL: a module */
} backends[] = {BACKENDS(BACKEND_TYPE)};

#define KERNEL(id, name, family, weights, help) {name, FAMILY_##family, weights},
const KernelRow kernel_rows[KERNEL_COUNT] = {
#include "kernel/kernels.def"
};
#undef KERNEL

#define KERNEL(id, name, family, weights, help) "|" name
static const char kernel_list[] =
#include "kernel/kernels.def"
	;
#undef KERNEL

const char *tomos_projector_names(void)
{
	return kernel_list + 1;
}

const char *tomos_backend_names(void)
{
	return "auto" BACKENDS(BACKEND_NAME);
}

static tomos_status open_type(tomos_backend **backend, int index, const char *argument)
{
	const BackendType *type = backends[index].type;
	if (!type)
		TRY(module_find(backends[index].name, &type));
	TRY(mem_zeroed(backend, 1, sizeof **backend, "a backend"));
	(*backend)->type = type;
	tomos_status status = type->open(*backend, argument);
	if (status != TOMOS_OK) {
		mem_free(*backend);
		*backend = NULL;
	}
	return status;
}

static tomos_status open_auto(tomos_backend **backend)
{
	tomos_status status = TOMOS_NO_DEVICE;
	for (int i = 0; i < COUNT(backends) && status != TOMOS_OK; i++)
		status = open_type(backend, i, "");
	return status;
}

/* "cpu", or "cpu:..." with what the backend makes of the rest. */
tomos_status tomos_backend_open(tomos_backend **backend, const char *name)
{
	*backend = NULL;
	if (!name || strcmp(name, "auto") == 0)
		return open_auto(backend);
	size_t length = strcspn(name, ":");
	for (int i = 0; i < COUNT(backends); i++)
		if (strlen(backends[i].name) == length &&
			memcmp(backends[i].name, name, length) == 0)
			return open_type(backend, i, name[length] ? name + length + 1 : "");
	int index;
	return choice_find("backend", tomos_backend_names(), name, &index);
}

void tomos_backend_close(tomos_backend *backend)
{
	if (!backend)
		return;
	backend->type->close(backend);
	mem_free(backend);
}

const char *tomos_backend_describe(const tomos_backend *backend)
{
	return backend->description;
}
