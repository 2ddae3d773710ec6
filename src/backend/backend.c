/* The kinds of backends, opened by name. */
#include <string.h>
#include "backend/backend.h"

/* The first is what "auto" opens. */
#define BACKENDS(B) B(cpu)
#define BACKEND_TYPE(name) &name##_backend,
#define BACKEND_NAME(name) "|" #name
static const BackendType *const types[] = {BACKENDS(BACKEND_TYPE)};

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

/* "cpu", or "cpu:..." with what the backend makes of the rest; "auto" is the first. */
static const BackendType *find_type(const char *name, size_t length)
{
	for (int i = 0; i < COUNT(types); i++)
		if (strlen(types[i]->name) == length && memcmp(types[i]->name, name, length) == 0)
			return types[i];
	return strcmp(name, "auto") == 0 ? types[0] : NULL;
}

tomos_status tomos_backend_open(tomos_backend **backend, const char *name)
{
	*backend = NULL;
	if (!name)
		name = "auto";
	size_t length = strcspn(name, ":");
	const BackendType *type = find_type(name, length);
	if (!type) {
		int index;
		return choice_find("backend", tomos_backend_names(), name, &index);
	}
	TRY(mem_zeroed(backend, 1, sizeof **backend, "a backend"));
	(*backend)->type = type;
	tomos_status status = type->open(*backend, name[length] ? name + length + 1 : "");
	if (status != TOMOS_OK) {
		mem_free(*backend);
		*backend = NULL;
	}
	return status;
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
