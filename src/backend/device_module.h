/* Backends loaded at run time: what the library provides to them, and their symbol. */
#ifndef TOMOS_BACKEND_DEVICE_MODULE_H
#define TOMOS_BACKEND_DEVICE_MODULE_H

#include "backend/backend.h"

/* Functions of the library that modules call; they do not link with it. */
typedef struct {
	const char *version; /* of the library; a module must be of the same */
	void (*set_message)(const char *message);
	tomos_status (*alloc)(void *pointer_out, int64_t count, size_t size, const char *what);
	tomos_status (*zeroed)(void *pointer_out, int64_t count, size_t size, const char *what);
	void (*release)(void *pointer);
	void (*parallel_for)(int64_t count, void (*task)(void *user, int64_t index), void *user);
	const char *(*tune_wanted)(const tomos_backend *backend, const ProjectRequest *what);
} ModuleHost;

/* Devices of a module that several processes of a machine use: its symbol tomos_module_sharing. */
typedef struct {
	int (*count)(void); /* devices that this process sees */
	/* The same name in all processes, also where each sees other devices. */
	void (*place)(const tomos_backend *backend, char *name, size_t size);
	/* This many processes, this one included, divide the memory that is free. */
	void (*share)(const tomos_backend *backend, int processes);
} ModuleSharing;

tomos_status module_sharing(const char *name, const ModuleSharing **sharing);

/* The backend of libtomos_NAME.so in the folder TOMOS_MODULES, or else in that of the library. The
 * module is loaded by the first call and stays open. */
tomos_status module_find(const char *name, const BackendType **type);
/* The same without a device: its kernels can be listed, not run. */
tomos_status module_load(const char *name, const BackendType **type);

#endif
