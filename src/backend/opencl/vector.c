/* Vector operations. Sums are added in a fixed order: the same bits every time. */
#include <math.h>
#include "backend/opencl/opencl.h"

typedef struct {
	int64_t n;
	float a, b, c;
	const float *w, *x;
	float *y;
} VectorArgs;

static tomos_status run(tomos_backend *backend, int task, const VectorArgs *v)
{
	OpenclPlace w, x, y;
	TRY(opencl_place(backend, v->w, &w));
	TRY(opencl_place(backend, v->x, &x));
	TRY(opencl_place(backend, v->y, &y));
	const OpenclArg args[] = {ARG(v->n), ARG(v->a), ARG(v->b), ARG(v->c), ARG_PLACE(w),
		ARG_PLACE(x), ARG_PLACE(y)};
	return opencl_line(backend, task, v->n, args, COUNT(args));
}

#define RUN(name, ...) run(b, TASK_vector_##name, &(VectorArgs){.n = n, __VA_ARGS__})

tomos_status opencl_fill(tomos_backend *b, int64_t n, float value, float *x)
{
	return RUN(fill, .a = value, .y = x);
}

static tomos_status opencl_copy(tomos_backend *b, int64_t n, const float *x, float *y)
{
	return RUN(copy, .x = x, .y = y);
}

static tomos_status opencl_axpy(tomos_backend *b, int64_t n, float a, const float *x, float *y)
{
	return RUN(axpy, .a = a, .x = x, .y = y);
}

static tomos_status opencl_xpay(tomos_backend *b, int64_t n, const float *x, float a, float *y)
{
	return RUN(xpay, .a = a, .x = x, .y = y);
}

static tomos_status opencl_mul(tomos_backend *b, int64_t n, const float *w, float *y)
{
	return RUN(mul, .w = w, .y = y);
}

static tomos_status opencl_mul_axpy(
	tomos_backend *b, int64_t n, float a, const float *w, const float *x, float *y)
{
	return RUN(mul_axpy, .a = a, .w = w, .x = x, .y = y);
}

static tomos_status opencl_invert(tomos_backend *b, int64_t n, float least, float *x)
{
	return RUN(invert, .a = least, .y = x);
}

static tomos_status opencl_clamp(tomos_backend *b, int64_t n, float low, float high, float *x)
{
	return RUN(clamp, .a = low, .b = high, .y = x);
}

static tomos_status opencl_scale(tomos_backend *b, int64_t n, float a, float *y)
{
	return RUN(scale, .a = a, .y = y);
}

static tomos_status opencl_sqrt(tomos_backend *b, int64_t n, float *y)
{
	return RUN(sqrt, .y = y);
}

static tomos_status opencl_indicator(tomos_backend *b, int64_t n, float *y)
{
	return RUN(indicator, .y = y);
}

static tomos_status opencl_ratio(tomos_backend *b, int64_t n, const float *x, float least, float *y)
{
	return RUN(ratio, .a = least, .x = x, .y = y);
}

static tomos_status opencl_soft_threshold(tomos_backend *b, int64_t n, float a, float *y)
{
	return RUN(soft_threshold, .a = a, .y = y);
}

static tomos_status opencl_axpy_clamp(tomos_backend *b, int64_t n, float a, const float *w,
	const float *x, float low, float high, float *y)
{
	const VectorArgs v = {.n = n, .a = low, .b = high, .c = a, .w = w, .x = x, .y = y};
	return run(b, w ? TASK_vector_mul_axpy_clamp : TASK_vector_axpy_clamp, &v);
}

/* ---- sums --------------------------------------------------------------------------------- */

static tomos_status partial_sums(tomos_backend *b, int task, int64_t n, const float *x,
	const float *y, double partial[SUM_GROUPS])
{
	OpenclPlace px, py;
	TRY(opencl_place(b, x, &px));
	TRY(opencl_place(b, y, &py));
	const OpenclArg args[] = {ARG(n), ARG_PLACE(px), ARG_PLACE(py), ARG(device_of(b)->partial)};
	return opencl_sums(b, task, args, COUNT(args), partial);
}

static tomos_status add_up(
	tomos_backend *b, int task, int64_t n, const float *x, const float *y, double *result)
{
	double partial[SUM_GROUPS];
	TRY(partial_sums(b, task, n, x, y, partial));
	*result = 0;
	for (int i = 0; i < SUM_GROUPS; i++)
		*result += partial[i];
	return TOMOS_OK;
}

static tomos_status opencl_dot(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result)
{
	return add_up(b, TASK_vector_dot, n, x, y, result);
}

static tomos_status opencl_distance(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result)
{
	TRY(add_up(b, TASK_vector_distance, n, x, y, result));
	*result = sqrt(*result);
	return TOMOS_OK;
}

static tomos_status opencl_max_abs(tomos_backend *b, int64_t n, const float *x, double *result)
{
	double partial[SUM_GROUPS];
	TRY(partial_sums(b, TASK_vector_largest, n, x, x, partial));
	*result = 0;
	for (int i = 0; i < SUM_GROUPS; i++)
		*result = fmax(*result, partial[i]);
	return TOMOS_OK;
}

/* ---- fields ------------------------------------------------------------------------------- */

static tomos_status lengths(
	tomos_backend *b, int64_t n, int parts, float bound, cl_int cut, float *y)
{
	OpenclPlace place;
	cl_int components = parts;
	TRY(opencl_place(b, y, &place));
	const OpenclArg args[] = {ARG(n), ARG(components), ARG(bound), ARG(cut), ARG_PLACE(place)};
	return opencl_line(b, TASK_vector_lengths, n, args, COUNT(args));
}

static tomos_status opencl_clip_norm(
	tomos_backend *b, int64_t n, int parts, float longest, float *y)
{
	return longest > 0 ? lengths(b, n, parts, longest, 1, y) : opencl_fill(b, n * parts, 0, y);
}

static tomos_status opencl_normalise(tomos_backend *b, int64_t n, int parts, float least, float *y)
{
	return lengths(b, n, parts, least, 0, y);
}

static tomos_status differences(tomos_backend *b, int task, const int64_t shape[3], int components,
	const float *from, float *to)
{
	OpenclPlace source, target;
	cl_int parts = components;
	TRY(opencl_place(b, from, &source));
	TRY(opencl_place(b, to, &target));
	const OpenclArg args[] = {ARG(shape[2]), ARG(shape[1]), ARG(shape[0]), ARG(parts),
		ARG_PLACE(source), ARG_PLACE(target)};
	return opencl_line(b, task, shape[0] * shape[1] * shape[2], args, COUNT(args));
}

static tomos_status opencl_gradient(
	tomos_backend *b, const int64_t shape[3], int parts, const float *x, float *field)
{
	return differences(b, TASK_vector_gradient, shape, parts, x, field);
}

static tomos_status opencl_gradient_adjoint(
	tomos_backend *b, const int64_t shape[3], int parts, const float *field, float *x)
{
	return differences(b, TASK_vector_gradient_adjoint, shape, parts, field, x);
}

const BackendVector opencl_vector = {BACKEND_VECTOR(opencl)};
