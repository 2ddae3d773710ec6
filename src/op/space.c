/* Vectors of a space: callers' arrays brought there, and the verbs on them. */
#include <math.h>
#include "op/op.h"

tomos_status vector_borrow(Vector *vector, const Space *space, const tomos_array *array,
	VectorUse use, const char *name)
{
	*vector = (Vector){.array = array};
	TRY(array_check_on(space->backend->device, array, name, space->shape,
		use == VECTOR_IN ? ARRAY_READ : ARRAY_WRITTEN));
	vector->data = space->backend->type->in_place(space->backend, array);
	if (vector->data && array->device == 0 && space->backend->type->hold)
		return space->backend->type->hold(space->backend, vector->data, space->count);
	if (vector->data)
		return TOMOS_OK;
	if (array->device != 0)
		return fail(TOMOS_NO_DEVICE, "the array for %s cannot be reached on device %d",
			name, array->device);
	TRY(vector_new(&vector->data, space, name));
	vector->owned = true;
	if (use == VECTOR_OUT)
		return TOMOS_OK;
	tomos_status status = space->backend->type->put(space->backend, vector->data, array);
	if (status != TOMOS_OK)
		vector_return(vector, space, VECTOR_IN);
	return status;
}

tomos_status vector_return(Vector *vector, const Space *space, VectorUse use)
{
	tomos_status status = TOMOS_OK;
	if (!vector->data)
		return status;
	if (!vector->owned) {
		if (use != VECTOR_IN) /* on a card, the result is there when the call returns */
			status = space->backend->type->sync(space->backend);
		if (vector->array->device == 0 && space->backend->type->let_go)
			space->backend->type->let_go(space->backend, vector->data);
		vector->data = NULL;
		return status;
	}
	if (use != VECTOR_IN)
		status = space->backend->type->get(space->backend, vector->data, vector->array);
	vector_free(vector->data, space);
	*vector = (Vector){.array = vector->array};
	return status;
}

tomos_status vector_new(float **data, const Space *space, const char *what)
{
	return space->backend->type->alloc(space->backend, data, space->count, what);
}

void vector_free(float *data, const Space *space)
{
	if (data)
		space->backend->type->release(space->backend, data);
}

#define VERB(name, parameters, ...) \
	tomos_status vector_##name parameters \
	{ \
		return space->backend->type->name(space->backend, space->count, __VA_ARGS__); \
	}

VERB(fill, (const Space *space, float value, float *x), value, x)
VERB(axpy, (const Space *space, float a, const float *x, float *y), a, x, y)
VERB(xpay, (const Space *space, const float *x, float a, float *y), x, a, y)
VERB(mul, (const Space *space, const float *w, float *y), w, y)
VERB(mul_axpy, (const Space *space, float a, const float *w, const float *x, float *y), a, w, x, y)
VERB(invert, (const Space *space, float least, float *x), least, x)
VERB(clamp, (const Space *space, float low, float high, float *x), low, high, x)
VERB(dot, (const Space *space, const float *x, const float *y, double *result), x, y, result)
VERB(distance, (const Space *space, const float *x, const float *y, double *result), x, y, result)
VERB(largest, (const Space *space, const float *x, double *result), x, result)
VERB(copy, (const Space *space, const float *x, float *y), x, y)
VERB(scale, (const Space *space, float a, float *y), a, y)
VERB(root, (const Space *space, float *y), y)
VERB(inside, (const Space *space, float *y), y)
VERB(ratio, (const Space *space, const float *x, float least, float *y), x, least, y)
VERB(soft, (const Space *space, float a, float *y), a, y)
VERB(step,
	(const Space *space, float a, const float *w, const float *x, float low, float high,
		float *y),
	a, w, x, low, high, y)
VERB(shorten, (const Space *space, int parts, float longest, float *field), parts, longest, field)
VERB(unit, (const Space *space, int parts, float least, float *field), parts, least, field)

tomos_status vector_gather(const Space *space, int64_t n, const int64_t *index, const float *w,
	const float *x, double *result)
{
	return space->backend->type->gather(space->backend, n, index, w, x, result);
}

tomos_status vector_scatter(const Space *space, int64_t n, const int64_t *index, const float *w,
	float a, float low, float high, float *y)
{
	return space->backend->type->scatter(space->backend, n, index, w, a, low, high, y);
}

tomos_status vector_residual(const Space *space, const float *x, const float *w, float *r, float *y)
{
	tomos_backend *backend = space->backend;
	if (backend->type->residual)
		return backend->type->residual(backend, space->count, x, w, r, y);
	TRY(vector_xpay(space, x, -1, r));
	TRY(vector_copy(space, r, y));
	return vector_mul(space, w, y);
}

tomos_status vector_norm(const Space *space, const float *x, double *result)
{
	TRY(vector_dot(space, x, x, result));
	*result = sqrt(*result);
	return TOMOS_OK;
}

tomos_status vector_checksum(const Space *space, const float *x, uint32_t *sum)
{
	float *host;
	TRY(mem_alloc(&host, space->count, sizeof *host, "a vector to be checked"));
	const tomos_array array =
		tomos_array_of(host, space->shape[0], space->shape[1], space->shape[2]);
	tomos_status status = space->backend->type->get(space->backend, x, &array);
	if (status == TOMOS_OK)
		*sum = checksum_add(0, host, space->count * (int64_t)sizeof *host);
	mem_free(host);
	return status;
}
