/* The calls of a wrapped module (device_calls.h), found by name in the module that the backend
 * under test has loaded from TOMOS_MODULES. */
#ifndef TOMOS_TESTS_FAULTS_DEVICE_FOUND_H
#define TOMOS_TESTS_FAULTS_DEVICE_FOUND_H

#include <dlfcn.h>
#include "ops/cases.h"

typedef struct {
	long (*arm)(long nth), (*live)(void);
	const char *(*failed)(void);
} DeviceCalls;

/* Whether the backend under test can be used; if not, says that the test is skipped. */
static inline bool device_opens(void)
{
	tomos_backend *backend;
	bool opens = tomos_backend_open(&backend, test_backend()) == TOMOS_OK;
	if (opens)
		tomos_backend_close(backend);
	else
		printf("skipped: %s\n", tomos_message());
	return opens;
}

/* Whether the module is a wrapped one. */
static inline bool device_find(DeviceCalls *calls)
{
	static const char *const names[] = {"device_arm", "device_live", "device_failed"};
	void *const targets[] = {&calls->arm, &calls->live, &calls->failed};
	const char *folder = getenv("TOMOS_MODULES");
	char path[1024];
	snprintf(path, sizeof path, "%s/libtomos_%.*s.so", folder ? folder : "",
		(int)strcspn(test_backend(), ":"), test_backend());
	void *module = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	for (int i = 0; module && i < 3; i++) {
		void *found = dlsym(module, names[i]);
		if (!found)
			return false;
		memcpy(targets[i], &found, sizeof found);
	}
	return module != NULL;
}

#endif
