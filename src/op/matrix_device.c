/* Arrays of stored matrices in device memory. */
#include <string.h>
#include "op/matrix.h"

static void set_pointer(void *place, const void *pointer)
{
	memcpy(place, &pointer, sizeof pointer);
}

tomos_status device_reserve(
	tomos_backend *backend, void *device_out, int64_t floats, const char *what)
{
	float *taken;
	set_pointer(device_out, NULL);
	TRY(backend->type->memory->alloc(backend, &taken, floats, what));
	set_pointer(device_out, taken);
	return TOMOS_OK;
}

/* Transferred as floats, whose bits are not interpreted. */
tomos_status device_send(tomos_backend *backend, void *device_out, const void *host, int64_t count,
	size_t size, const char *what)
{
	float *taken;
	int64_t floats = count * (int64_t)(size / sizeof(float));
	TRY(device_reserve(backend, device_out, floats, what));
	memcpy(&taken, device_out, sizeof taken);
	tomos_array array = tomos_array_of((float *)(uintptr_t)host, 1, 1, floats);
	return backend->type->memory->upload(backend, taken, &array);
}

void device_free(tomos_backend *backend, void *device_in_out)
{
	float *taken;
	memcpy(&taken, device_in_out, sizeof taken);
	if (taken)
		backend->type->memory->release(backend, taken);
	set_pointer(device_in_out, NULL);
}
