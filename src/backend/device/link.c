/* Functions of src/base and src/backend for device modules, forwarded to the library's table. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "backend/device_module.h"

extern const BackendType module_backend; /* the backend of this module */
TOMOS_API ModuleEntry tomos_module_open;

static const ModuleHost *host;

const void *tomos_module_open(const void *given)
{
	const ModuleHost *library = given;
	if (strcmp(library->version, TOMOS_VERSION) != 0)
		return NULL;
	host = library;
	return &module_backend;
}

#undef fail
tomos_status fail(tomos_status status, const char *format, ...)
{
	char message[1024];
	va_list list;
	va_start(list, format);
	vsnprintf(message, sizeof message, format, list);
	va_end(list);
	host->set_message(message);
	return status;
}

tomos_status mem_alloc(void *pointer_out, int64_t count, size_t size, const char *what)
{
	return host->alloc(pointer_out, count, size, what);
}

tomos_status mem_zeroed(void *pointer_out, int64_t count, size_t size, const char *what)
{
	return host->zeroed(pointer_out, count, size, what);
}

void mem_free(void *pointer)
{
	host->release(pointer);
}

void parallel_for(int64_t count, void (*task)(void *user, int64_t index), void *user)
{
	host->parallel_for(count, task, user);
}

const char *tune_wanted(const tomos_backend *backend, const ProjectRequest *what)
{
	return host->tune_wanted(backend, what);
}

#define KERNEL(id, name, family, weights, help) {name, FAMILY_##family, weights},
const KernelRow kernel_rows[KERNEL_COUNT] = {
#include "kernel/kernels.def"
};
#undef KERNEL
