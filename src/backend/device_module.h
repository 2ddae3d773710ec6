/* Backends opened at run time: what the library lends a module, and what it asks of it. */
#ifndef TOMOS_BACKEND_DEVICE_MODULE_H
#define TOMOS_BACKEND_DEVICE_MODULE_H

#include "backend/backend.h"

/* A module shares no symbol with the library: it has these instead. */
typedef struct {
	const char *version; /* of the library: modules go with the one they were built with */
	void (*say)(const char *sentence);
	tomos_status (*alloc)(void *pointer_out, int64_t count, size_t size, const char *what);
	tomos_status (*zeroed)(void *pointer_out, int64_t count, size_t size, const char *what);
	void (*release)(void *pointer);
	void (*parallel_for)(int64_t count, void (*task)(void *user, int64_t index), void *user);
	const char *(*tune_wanted)(const tomos_backend *backend, const ProjectRequest *what);
} ModuleHost;

/* The one symbol of a module, tomos_module_open; NULL: it belongs to another version. */
typedef const BackendType *ModuleOpen(const ModuleHost *host);

/* The backend of libtomos_NAME.so, which lies beside the library or in the folder that
 * TOMOS_MODULES names; the first call opens it, and it stays open. */
tomos_status module_find(const char *name, const BackendType **type);

#endif
