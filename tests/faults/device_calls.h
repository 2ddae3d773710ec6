/* Calls of a device's library that fail on demand. A second build of a backend's module, in
 * build/faults, has each call wrapped by the linker (--wrap); tests find these functions in the
 * module. */
#ifndef TOMOS_TESTS_FAULTS_DEVICE_CALLS_H
#define TOMOS_TESTS_FAULTS_DEVICE_CALLS_H

#include <stdbool.h>

#define DEVICE_PUBLIC __attribute__((visibility("default")))

/* Whether this call is to fail. */
bool device_due(const char *call);
/* Something was made (+1) or freed (-1) that has to be freed in the end. */
void device_count(int change);

/* The nth call from now on fails; 0: none. Returns how many there were since the last time. */
DEVICE_PUBLIC long device_arm(long nth);
/* What was made and not freed. */
DEVICE_PUBLIC long device_live(void);
/* The call that failed; "" if none did since device_arm. */
DEVICE_PUBLIC const char *device_failed(void);

/* Replaces a call that returns a code. `made`: number of objects that it creates; -1: it frees one,
 * which never fails, as with a driver that has lost its device. */
#define WRAP_RESULT(type, name, list, arguments, made, success, failure) \
	type __real_##name list; \
	type __wrap_##name list; \
	type __wrap_##name list \
	{ \
		bool due = device_due(#name); \
		if (due && (made) >= 0) \
			return failure; \
		type code = __real_##name arguments; \
		if (code == (success)) \
			device_count(made); \
		return due ? (failure) : code; \
	}

#endif
