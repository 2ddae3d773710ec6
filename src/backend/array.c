/* Arrays in the memory of a backend, and copies to and from host memory. */
#include "backend/backend.h"

tomos_status tomos_array_create(
	tomos_array *array, tomos_backend *backend, int64_t n0, int64_t n1, int64_t n2)
{
	const int64_t shape[3] = {n0, n1, n2};
	int64_t count;
	if (!array || !backend)
		return fail(TOMOS_BAD_VALUE, "tomos_array_create needs an array and a backend");
	*array = (tomos_array){.data = NULL};
	TRY(shape_count(shape, &count));
	*array = tomos_array_of(NULL, n0, n1, n2);
	array->device = backend->device;
	return backend->type->memory->alloc(backend, &array->data, count, "an array");
}

void tomos_array_destroy(tomos_array *array, tomos_backend *backend)
{
	if (array && array->data)
		backend->type->memory->release(backend, array->data);
	if (array)
		array->data = NULL;
}

tomos_status tomos_array_copy(
	tomos_backend *backend, const tomos_array *from, const tomos_array *to)
{
	if (!backend)
		return fail(TOMOS_BAD_VALUE, "a copy needs a backend");
	TRY(array_check_on(backend->device, from, "the copy's source", NULL, ARRAY_READ));
	TRY(array_check_on(
		backend->device, to, "the copy's destination", from->shape, ARRAY_WRITTEN));
	float *there = backend->type->memory->direct_pointer(backend, to);
	if (there && from->device == 0) {
		TRY(backend->type->memory->upload(backend, there, from));
		return backend->type->memory->sync(backend);
	}
	there = backend->type->memory->direct_pointer(backend, from);
	if (there && to->device == 0)
		return backend->type->memory->download(backend, there, to);
	return fail(TOMOS_UNSUPPORTED, "copies go between the host's memory and a backend's");
}
