/* The element-wise functions of BackendVector, as calls of the rows of kernel/vector.def.
 *
 * A backend defines two macros, and includes this file once: VECTOR_NAME(name), its function of
 * that name, and VECTOR_RUN(name, ...), which runs a row on n elements on backend b with the given
 * members of VectorArgs. */
#ifndef TOMOS_BACKEND_VECTOR_CALLS_H
#define TOMOS_BACKEND_VECTOR_CALLS_H

static tomos_status VECTOR_NAME(fill)(tomos_backend *b, int64_t n, float value, float *x)
{
	return VECTOR_RUN(fill, .a = value, .y = x);
}

static tomos_status VECTOR_NAME(axpy)(
	tomos_backend *b, int64_t n, float a, const float *x, float *y)
{
	return VECTOR_RUN(axpy, .a = a, .x = x, .y = y);
}

static tomos_status VECTOR_NAME(xpay)(
	tomos_backend *b, int64_t n, const float *x, float a, float *y)
{
	return VECTOR_RUN(xpay, .a = a, .x = x, .y = y);
}

static tomos_status VECTOR_NAME(mul)(tomos_backend *b, int64_t n, const float *w, float *y)
{
	return VECTOR_RUN(mul, .w = w, .y = y);
}

static tomos_status VECTOR_NAME(mul_axpy)(
	tomos_backend *b, int64_t n, float a, const float *w, const float *x, float *y)
{
	return VECTOR_RUN(mul_axpy, .a = a, .w = w, .x = x, .y = y);
}

static tomos_status VECTOR_NAME(invert)(tomos_backend *b, int64_t n, float least, float *x)
{
	return VECTOR_RUN(invert, .a = least, .y = x);
}

static tomos_status VECTOR_NAME(clamp)(tomos_backend *b, int64_t n, float low, float high, float *x)
{
	return VECTOR_RUN(clamp, .a = low, .b = high, .y = x);
}

static tomos_status VECTOR_NAME(scale)(tomos_backend *b, int64_t n, float a, float *y)
{
	return VECTOR_RUN(scale, .a = a, .y = y);
}

static tomos_status VECTOR_NAME(sqrt)(tomos_backend *b, int64_t n, float *y)
{
	return VECTOR_RUN(sqrt, .y = y);
}

static tomos_status VECTOR_NAME(indicator)(tomos_backend *b, int64_t n, float *y)
{
	return VECTOR_RUN(indicator, .y = y);
}

static tomos_status VECTOR_NAME(ratio)(
	tomos_backend *b, int64_t n, const float *x, float least, float *y)
{
	return VECTOR_RUN(ratio, .a = least, .x = x, .y = y);
}

static tomos_status VECTOR_NAME(affine)(
	tomos_backend *b, int64_t n, float scale, float add, float *y)
{
	return VECTOR_RUN(affine, .a = scale, .b = add, .y = y);
}

static tomos_status VECTOR_NAME(soft_threshold)(tomos_backend *b, int64_t n, float a, float *y)
{
	return VECTOR_RUN(soft_threshold, .a = a, .y = y);
}

static tomos_status VECTOR_NAME(axpy_clamp)(tomos_backend *b, int64_t n, float a, const float *w,
	const float *x, float low, float high, float *y)
{
	if (!w)
		return VECTOR_RUN(axpy_clamp, .a = low, .b = high, .c = a, .x = x, .y = y);
	return VECTOR_RUN(mul_axpy_clamp, .a = low, .b = high, .c = a, .w = w, .x = x, .y = y);
}

#endif
