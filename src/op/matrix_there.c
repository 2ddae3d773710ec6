/* Arrays of stored matrices in the memory of devices. */
#include <string.h>
#include "op/matrix.h"

static void set_pointer(void *place, const void *pointer)
{
	memcpy(place, &pointer, sizeof pointer);
}

tomos_status there_room(tomos_backend *backend, void *there_out, int64_t floats, const char *what)
{
	float *taken;
	set_pointer(there_out, NULL);
	TRY(backend->type->alloc(backend, &taken, floats, what));
	set_pointer(there_out, taken);
	return TOMOS_OK;
}

/* As floats, whose bits nobody looks at. */
tomos_status there_send(tomos_backend *backend, void *there_out, const void *here, int64_t count,
	size_t size, const char *what)
{
	float *taken;
	int64_t floats = count * (int64_t)(size / sizeof(float));
	TRY(there_room(backend, there_out, floats, what));
	memcpy(&taken, there_out, sizeof taken);
	tomos_array array = tomos_array_of((float *)(uintptr_t)here, 1, 1, floats);
	return backend->type->put(backend, taken, &array);
}

void there_free(tomos_backend *backend, void *there_in_out)
{
	float *taken;
	memcpy(&taken, there_in_out, sizeof taken);
	if (taken)
		backend->type->release(backend, taken);
	set_pointer(there_in_out, NULL);
}
