/* Vector operations. Sums are added in a fixed order: the same bits every time. */
#include <math.h>
#include "backend/opencl/opencl.h"

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

#define VECTOR_NAME(name) opencl_##name
#define VECTOR_RUN(name, ...) run(b, TASK_vector_##name, &(VectorArgs){.n = n, __VA_ARGS__})
#include "backend/vector_calls.h"

static tomos_status opencl_copy(tomos_backend *b, int64_t n, const float *x, float *y)
{
	return VECTOR_RUN(copy, .x = x, .y = y);
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

/* The sum of the partial results, or the largest of them. */
static tomos_status add_up(
	tomos_backend *b, int task, int64_t n, const float *x, const float *y, double *result)
{
	double partial[SUM_GROUPS];
	TRY(partial_sums(b, task, n, x, y, partial));
	*result = 0;
	for (int i = 0; i < SUM_GROUPS; i++)
		*result = task == TASK_vector_largest ? fmax(*result, partial[i])
						      : *result + partial[i];
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
	return add_up(b, TASK_vector_largest, n, x, x, result);
}

/* ---- numbers of a file --------------------------------------------------------------------- */

/* Number of values outside the window. */
static tomos_status count_outside(
	tomos_backend *b, int64_t n, const float *x, const Encoding *how, double *count)
{
	double partial[SUM_GROUPS];
	OpenclPlace place;
	TRY(opencl_place(b, x, &place));
	const OpenclArg args[] = {ARG(how->low), ARG(how->high), ARG(n), ARG_PLACE(place),
		ARG_PLACE(place), ARG(device_of(b)->partial)};
	TRY(opencl_sums(b, TASK_vector_outside, args, COUNT(args), partial));
	for (int i = 0; i < SUM_GROUPS; i++)
		*count += partial[i];
	return TOMOS_OK;
}

static tomos_status opencl_encode(tomos_backend *b, int64_t n, const float *x, const Encoding *how,
	void *stored, int64_t counts[2])
{
	OpenclPlace from, to;
	cl_int bytes = how->bytes;
	double bad, cut = 0;
	TRY(add_up(b, TASK_vector_not_finite, n, x, x, &bad));
	if (bytes < (int)sizeof(float)) {
		TRY(opencl_place(b, x, &from));
		TRY(opencl_place(b, stored, &to));
		const OpenclArg args[] = {ARG(n), ARG(bytes), ARG(how->scale), ARG(how->offset),
			ARG_PLACE(from), ARG_PLACE(to)};
		TRY(count_outside(b, n, x, how, &cut));
		TRY(opencl_line(b, TASK_vector_encode, n, args, COUNT(args)));
	}
	counts[0] = (int64_t)bad;
	counts[1] = (int64_t)cut;
	return b->type->memory->sync(b);
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

const BackendVector opencl_vector = {BACKEND_VECTOR(opencl), .encode = opencl_encode};
