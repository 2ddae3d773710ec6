/* Vectors of a space: transfers of arrays, and vector operations. */
#include <math.h>
#include "op/op.h"

tomos_status vector_borrow(Vector *vector, const Space *space, const tomos_array *array,
	VectorUse use, const char *name)
{
	*vector = (Vector){.array = array};
	TRY(array_check_on(space->backend->device, array, name, space->shape,
		use == VECTOR_IN ? ARRAY_READ : ARRAY_WRITTEN));
	vector->data = space->backend->type->memory->direct_pointer(space->backend, array);
	if (vector->data && array->device == 0 && space->backend->type->memory->pin)
		return space->backend->type->memory->pin(
			space->backend, vector->data, space->count);
	if (vector->data)
		return TOMOS_OK;
	if (array->device != 0)
		return fail(TOMOS_NO_DEVICE, "the array for %s cannot be reached on device %d",
			name, array->device);
	TRY(vector_new(&vector->data, space, name));
	vector->owned = true;
	if (use == VECTOR_OUT)
		return TOMOS_OK;
	tomos_status status = vector_upload(space, vector->data, array);
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
		if (use != VECTOR_IN) /* the result is complete when the call returns */
			status = vector_sync(space);
		if (vector->array->device == 0 && space->backend->type->memory->unpin)
			space->backend->type->memory->unpin(space->backend, vector->data);
		vector->data = NULL;
		return status;
	}
	if (use != VECTOR_IN)
		status = vector_download(space, vector->data, vector->array);
	vector_free(vector->data, space);
	*vector = (Vector){.array = vector->array};
	return status;
}

tomos_status vector_upload(const Space *space, float *x, const tomos_array *host)
{
	return space->backend->type->memory->upload(space->backend, x, host);
}

tomos_status vector_download(const Space *space, const float *x, const tomos_array *host)
{
	return space->backend->type->memory->download(space->backend, x, host);
}

tomos_status vector_sync(const Space *space)
{
	return space->backend->type->memory->sync(space->backend);
}

tomos_status vector_new(float **data, const Space *space, const char *what)
{
	return space->backend->type->memory->alloc(space->backend, data, space->count, what);
}

void vector_free(float *data, const Space *space)
{
	if (data)
		space->backend->type->memory->release(space->backend, data);
}

#define VECTOR_OP(name, parameters, ...) \
	tomos_status vector_##name parameters \
	{ \
		return space->backend->type->vector->name( \
			space->backend, space->count, __VA_ARGS__); \
	}

VECTOR_OP(fill, (const Space *space, float value, float *x), value, x)
VECTOR_OP(axpy, (const Space *space, float a, const float *x, float *y), a, x, y)
VECTOR_OP(xpay, (const Space *space, const float *x, float a, float *y), x, a, y)
VECTOR_OP(mul, (const Space *space, const float *w, float *y), w, y)
VECTOR_OP(mul_axpy, (const Space *space, float a, const float *w, const float *x, float *y), a, w,
	x, y)
VECTOR_OP(invert, (const Space *space, float least, float *x), least, x)
VECTOR_OP(clamp, (const Space *space, float low, float high, float *x), low, high, x)
VECTOR_OP(dot, (const Space *space, const float *x, const float *y, double *result), x, y, result)
VECTOR_OP(distance, (const Space *space, const float *x, const float *y, double *result), x, y,
	result)
VECTOR_OP(max_abs, (const Space *space, const float *x, double *result), x, result)
VECTOR_OP(copy, (const Space *space, const float *x, float *y), x, y)
VECTOR_OP(scale, (const Space *space, float a, float *y), a, y)
VECTOR_OP(sqrt, (const Space *space, float *y), y)
VECTOR_OP(indicator, (const Space *space, float *y), y)
VECTOR_OP(ratio, (const Space *space, const float *x, float least, float *y), x, least, y)
VECTOR_OP(soft_threshold, (const Space *space, float a, float *y), a, y)
VECTOR_OP(axpy_clamp,
	(const Space *space, float a, const float *w, const float *x, float low, float high,
		float *y),
	a, w, x, low, high, y)
VECTOR_OP(clip_norm, (const Space *space, int parts, float longest, float *field), parts, longest,
	field)
VECTOR_OP(
	normalise, (const Space *space, int parts, float least, float *field), parts, least, field)

tomos_status vector_gather(const Space *space, int64_t n, const int64_t *index, const float *w,
	const float *x, double *result)
{
	return space->backend->type->vector->gather(space->backend, n, index, w, x, result);
}

tomos_status vector_scatter(const Space *space, int64_t n, const int64_t *index, const float *w,
	float a, float low, float high, float *y)
{
	return space->backend->type->vector->scatter(space->backend, n, index, w, a, low, high, y);
}

tomos_status vector_residual(const Space *space, const float *x, const float *w, float *r, float *y)
{
	tomos_backend *backend = space->backend;
	if (backend->type->vector->residual)
		return backend->type->vector->residual(backend, space->count, x, w, r, y);
	TRY(vector_xpay(space, x, -1, r));
	TRY(vector_copy(space, r, y));
	return vector_mul(space, w, y);
}

tomos_status vector_combine(
	const Space *space, int count, const float *a, const float *const *x, float *y)
{
	tomos_backend *backend = space->backend;
	if (backend->type->vector->combine)
		return backend->type->vector->combine(backend, space->count, count, a, x, false, y);
	TRY(vector_copy(space, x[0], y));
	if (a[0] != 1)
		TRY(vector_scale(space, a[0], y));
	for (int i = 1; i < count; i++)
		TRY(vector_axpy(space, a[i], x[i], y));
	return TOMOS_OK;
}

tomos_status vector_remove(const Space *space, int count, const float *const *units, float *y)
{
	const BackendVector *of = space->backend->type->vector;
	double parts[VECTORS_LISTED];
	float factors[VECTORS_LISTED];
	for (int i = 0; i < count && !(of->dots && of->combine); i++) {
		TRY(vector_dot(space, units[i], y, parts));
		TRY(vector_axpy(space, -(float)parts[0], units[i], y));
	}
	if (count == 0 || !of->dots || !of->combine)
		return TOMOS_OK;
	TRY(of->dots(space->backend, space->count, count, units, y, parts));
	for (int i = 0; i < count; i++)
		factors[i] = -(float)parts[i];
	return of->combine(space->backend, space->count, count, factors, units, true, y);
}

tomos_status vector_norm(const Space *space, const float *x, double *result)
{
	TRY(vector_dot(space, x, x, result));
	*result = sqrt(*result);
	return TOMOS_OK;
}
