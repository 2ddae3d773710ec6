/* Loads the modules that contain the GPU backends. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "backend/device_module.h"

enum { MOST = 8 };

typedef struct {
	char name[16];
	const BackendType *type;
} Loaded;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Loaded loaded[MOST];

static const ModuleHost host = {.version = TOMOS_VERSION,
	.set_message = module_set_message,
	.alloc = mem_alloc,
	.zeroed = mem_zeroed,
	.release = mem_free,
	.parallel_for = parallel_for,
	.tune_wanted = tune_wanted};

tomos_status module_load(const char *name, const BackendType **type)
{
	char what[64];
	snprintf(what, sizeof what, "the %s backend", name);
	return module_open(type, name, "tomos_module_open", &host, what, TOMOS_NO_DEVICE);
}

tomos_status module_sharing(const char *name, const ModuleSharing **sharing)
{
	char what[64];
	void *symbol;
	snprintf(what, sizeof what, "the %s backend", name);
	TRY(module_symbol(&symbol, name, "tomos_module_sharing", what, TOMOS_NO_DEVICE));
	*sharing = symbol;
	return TOMOS_OK;
}

/* Without the driver's library there can be no GPU: reported before the module and its dependencies
 * are loaded. It stays open, as the module does. */
static tomos_status check_driver(const char *name)
{
	static void *driver;
	if (strcmp(name, "cuda") != 0)
		return TOMOS_OK;
	driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (driver)
		return TOMOS_OK;
	return fail(TOMOS_NO_DEVICE, "there is no NVIDIA driver: %s", dlerror());
}

static tomos_status find_locked(const char *name, const BackendType **type)
{
	int i = 0;
	while (i < MOST && loaded[i].type && strcmp(loaded[i].name, name) != 0)
		i++;
	if (i == MOST || strlen(name) >= sizeof loaded[i].name)
		return fail(TOMOS_UNSUPPORTED, "'%s': there is no such module", name);
	if (!loaded[i].type) {
		TRY(check_driver(name));
		TRY(module_load(name, &loaded[i].type));
		snprintf(loaded[i].name, sizeof loaded[i].name, "%s", name);
	}
	*type = loaded[i].type;
	return TOMOS_OK;
}

tomos_status module_find(const char *name, const BackendType **type)
{
	pthread_mutex_lock(&lock);
	tomos_status status = find_locked(name, type);
	pthread_mutex_unlock(&lock);
	return status;
}
