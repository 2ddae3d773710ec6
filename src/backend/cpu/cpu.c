/* The CPU as a backend: host memory, all cores. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "backend/cpu/cpu.h"

enum { BLOCK = 1 << 16 }; /* elements per task of a vector args, and per partial sum of dot */

static tomos_status cpu_open(tomos_backend *backend, const char *argument)
{
	const CpuLevel *level;
	if (*argument)
		return fail(TOMOS_BAD_VALUE, "the cpu backend takes no number, not '%s'", argument);
	TRY(cpu_level_choose(&level));
	backend->own = (void *)level;
	snprintf(backend->description, sizeof backend->description, "cpu (%s, %d thread%s)",
		level->name, tomos_threads(), tomos_threads() == 1 ? "" : "s");
	cpu_model(level, backend->model, sizeof backend->model);
	return TOMOS_OK;
}

static void cpu_close(tomos_backend *backend)
{
	(void)backend;
}

static tomos_status cpu_alloc(tomos_backend *b, float **data, int64_t count, const char *what)
{
	(void)b;
	return mem_alloc(data, count, sizeof **data, what);
}

static void cpu_release(tomos_backend *b, float *data)
{
	(void)b;
	mem_free(data);
}

static bool is_contiguous(const tomos_array *a)
{
	return a->stride[2] == 1 && a->stride[1] == a->shape[2] &&
	       a->stride[0] == a->shape[1] * a->shape[2];
}

typedef struct {
	float *data;
	const tomos_array *host;
	bool out;
} Transfer;

static void transfer_slab(void *user, int64_t i)
{
	const Transfer *t = user;
	const tomos_array *a = t->host;
	for (int64_t j = 0; j < a->shape[1]; j++) {
		float *packed = t->data + (i * a->shape[1] + j) * a->shape[2];
		float *host = a->data + i * a->stride[0] + j * a->stride[1];
		for (int64_t k = 0; k < a->shape[2]; k++) {
			float *one = &host[k * a->stride[2]];
			if (t->out)
				*one = packed[k];
			else
				packed[k] = *one;
		}
	}
}

static tomos_status cpu_upload(tomos_backend *b, float *data, const tomos_array *host)
{
	(void)b;
	Transfer t = {data, host, false};
	parallel_for(host->shape[0], transfer_slab, &t);
	return TOMOS_OK;
}

static tomos_status cpu_download(tomos_backend *b, const float *data, const tomos_array *host)
{
	(void)b;
	Transfer t = {(float *)data, host, true};
	parallel_for(host->shape[0], transfer_slab, &t);
	return TOMOS_OK;
}

static float *cpu_direct_pointer(tomos_backend *b, const tomos_array *array)
{
	(void)b;
	return is_contiguous(array) ? array->data : NULL;
}

static tomos_status cpu_do_project(tomos_backend *backend, const ProjectRequest *what)
{
	TRY(project_begin(backend, what));
	return cpu_project(backend->own, what, tune_wanted(backend, what));
}

static tomos_status cpu_sync(tomos_backend *b)
{
	(void)b;
	return TOMOS_OK;
}

/* A args over blocks: y = f(a, b, w, x, y). */
typedef struct {
	int64_t n;
	float a, b, c;
	const float *w, *x;
	float *y;
	double *partial;
} VectorArgs;

#define VECTOR_OP(name, statement) \
	static void name##_block(void *user, int64_t block) \
	{ \
		const VectorArgs *v = user; \
		const float a = v->a, b = v->b, *w = v->w, *x = v->x; \
		float *y = v->y; \
		int64_t end = min64((block + 1) * BLOCK, v->n); \
		for (int64_t i = block * BLOCK; i < end; i++) \
			statement; \
		(void)a, (void)b, (void)w, (void)x; \
	}

VECTOR_OP(fill, y[i] = a)
VECTOR_OP(axpy, y[i] += a * x[i])
VECTOR_OP(xpay, y[i] = x[i] + a * y[i])
VECTOR_OP(mul, y[i] *= w[i])
VECTOR_OP(mul_axpy, y[i] += a * w[i] * x[i])
VECTOR_OP(invert, y[i] = fabsf(y[i]) > a ? 1 / y[i] : 0)
VECTOR_OP(clamp, y[i] = fminf(fmaxf(y[i], a), b))
VECTOR_OP(copy, y[i] = x[i])
VECTOR_OP(scale, y[i] *= a)
VECTOR_OP(sqrt, y[i] = sqrtf(y[i]))
VECTOR_OP(indicator, y[i] = y[i] != 0)
VECTOR_OP(ratio, y[i] = fabsf(y[i]) > a ? fmaxf(x[i], 0) / y[i] : 0)
VECTOR_OP(soft_threshold, y[i] = copysignf(fmaxf(fabsf(y[i]) - a, 0), y[i]))
VECTOR_OP(axpy_clamp, y[i] = fminf(fmaxf(y[i] + v->c * x[i], a), b))
VECTOR_OP(mul_axpy_clamp, y[i] = fminf(fmaxf(y[i] + v->c * w[i] * x[i], a), b))

static tomos_status run_op(void (*block)(void *, int64_t), VectorArgs args)
{
	parallel_for((args.n + BLOCK - 1) / BLOCK, block, &args);
	return TOMOS_OK;
}

static tomos_status cpu_fill(tomos_backend *backend, int64_t n, float value, float *x)
{
	(void)backend;
	return run_op(fill_block, (VectorArgs){.n = n, .a = value, .y = x});
}

static tomos_status cpu_axpy(tomos_backend *backend, int64_t n, float a, const float *x, float *y)
{
	(void)backend;
	return run_op(axpy_block, (VectorArgs){.n = n, .a = a, .x = x, .y = y});
}

static tomos_status cpu_xpay(tomos_backend *backend, int64_t n, const float *x, float a, float *y)
{
	(void)backend;
	return run_op(xpay_block, (VectorArgs){.n = n, .a = a, .x = x, .y = y});
}

static tomos_status cpu_mul(tomos_backend *backend, int64_t n, const float *w, float *y)
{
	(void)backend;
	return run_op(mul_block, (VectorArgs){.n = n, .w = w, .y = y});
}

static tomos_status cpu_mul_axpy(
	tomos_backend *backend, int64_t n, float a, const float *w, const float *x, float *y)
{
	(void)backend;
	return run_op(mul_axpy_block, (VectorArgs){.n = n, .a = a, .w = w, .x = x, .y = y});
}

static tomos_status cpu_invert(tomos_backend *backend, int64_t n, float least, float *x)
{
	(void)backend;
	return run_op(invert_block, (VectorArgs){.n = n, .a = least, .y = x});
}

static tomos_status cpu_clamp(tomos_backend *backend, int64_t n, float low, float high, float *x)
{
	(void)backend;
	return run_op(clamp_block, (VectorArgs){.n = n, .a = low, .b = high, .y = x});
}

static tomos_status cpu_copy(tomos_backend *backend, int64_t n, const float *x, float *y)
{
	(void)backend;
	return run_op(copy_block, (VectorArgs){.n = n, .x = x, .y = y});
}

static tomos_status cpu_scale(tomos_backend *backend, int64_t n, float a, float *y)
{
	(void)backend;
	return run_op(scale_block, (VectorArgs){.n = n, .a = a, .y = y});
}

static tomos_status cpu_sqrt(tomos_backend *backend, int64_t n, float *y)
{
	(void)backend;
	return run_op(sqrt_block, (VectorArgs){.n = n, .y = y});
}

static tomos_status cpu_indicator(tomos_backend *backend, int64_t n, float *y)
{
	(void)backend;
	return run_op(indicator_block, (VectorArgs){.n = n, .y = y});
}

static tomos_status cpu_ratio(
	tomos_backend *backend, int64_t n, const float *x, float least, float *y)
{
	(void)backend;
	return run_op(ratio_block, (VectorArgs){.n = n, .a = least, .x = x, .y = y});
}

static tomos_status cpu_soft_threshold(tomos_backend *backend, int64_t n, float a, float *y)
{
	(void)backend;
	return run_op(soft_threshold_block, (VectorArgs){.n = n, .a = a, .y = y});
}

static tomos_status cpu_axpy_clamp(tomos_backend *backend, int64_t n, float a, const float *w,
	const float *x, float low, float high, float *y)
{
	(void)backend;
	return run_op(w ? mul_axpy_clamp_block : axpy_clamp_block,
		(VectorArgs){.n = n, .a = low, .b = high, .c = a, .w = w, .x = x, .y = y});
}

static tomos_status cpu_gather(tomos_backend *backend, int64_t n, const int64_t *index,
	const float *w, const float *x, double *result)
{
	(void)backend;
	double sum[4] = {0}; /* one alone would wait for each addition */
	int64_t i = 0;
	for (; i + 4 <= n; i += 4)
		for (int k = 0; k < 4; k++)
			sum[k] += (double)w[i + k] * x[index[i + k]];
	for (; i < n; i++)
		sum[0] += (double)w[i] * x[index[i]];
	*result = sum[0] + sum[1] + (sum[2] + sum[3]);
	return TOMOS_OK;
}

static tomos_status cpu_scatter(tomos_backend *backend, int64_t n, const int64_t *index,
	const float *w, float a, float low, float high, float *y)
{
	(void)backend;
	for (int64_t i = 0; i < n; i++) {
		float value = y[index[i]] + a * w[i];
		value = value > low ? value : low; /* fmaxf and fminf are calls, for NaN's sake */
		y[index[i]] = value < high ? value : high;
	}
	return TOMOS_OK;
}

static void dot_block(void *user, int64_t block)
{
	const VectorArgs *v = user;
	double sum = 0;
	int64_t end = min64((block + 1) * BLOCK, v->n);
	for (int64_t i = block * BLOCK; i < end; i++)
		sum += (double)v->w[i] * v->x[i];
	v->partial[block] = sum;
}

static void distance_block(void *user, int64_t block)
{
	const VectorArgs *v = user;
	double sum = 0;
	int64_t end = min64((block + 1) * BLOCK, v->n);
	for (int64_t i = block * BLOCK; i < end; i++) {
		double d = (double)v->w[i] - v->x[i];
		sum += d * d;
	}
	v->partial[block] = sum;
}

static void largest_block(void *user, int64_t block)
{
	const VectorArgs *v = user;
	float most = 0;
	int64_t end = min64((block + 1) * BLOCK, v->n);
	for (int64_t i = block * BLOCK; i < end; i++)
		most = fmaxf(most, fabsf(v->w[i]));
	v->partial[block] = most;
}

static double add(double a, double b)
{
	return a + b;
}

/* Sums of blocks, added in order: the same bits for any number of threads. */
static tomos_status run_sum(void (*block)(void *, int64_t), double (*join)(double, double),
	int64_t n, const float *x, const float *y, double *result)
{
	int64_t blocks = (n + BLOCK - 1) / BLOCK;
	VectorArgs args = {.n = n, .w = x, .x = y};
	TRY(mem_alloc(&args.partial, blocks, sizeof(double), "partial sums"));
	parallel_for(blocks, block, &args);
	*result = 0;
	for (int64_t i = 0; i < blocks; i++)
		*result = join(*result, args.partial[i]);
	mem_free(args.partial);
	return TOMOS_OK;
}

static tomos_status cpu_dot(
	tomos_backend *backend, int64_t n, const float *x, const float *y, double *result)
{
	(void)backend;
	return run_sum(dot_block, add, n, x, y, result);
}

static tomos_status cpu_distance(
	tomos_backend *backend, int64_t n, const float *x, const float *y, double *result)
{
	(void)backend;
	TRY(run_sum(distance_block, add, n, x, y, result));
	*result = sqrt(*result);
	return TOMOS_OK;
}

static tomos_status cpu_max_abs(tomos_backend *backend, int64_t n, const float *x, double *result)
{
	(void)backend;
	return run_sum(largest_block, fmax, n, x, NULL, result);
}

static const BackendMemory cpu_memory_table = {
	.alloc = cpu_alloc,
	.release = cpu_release,
	.upload = cpu_upload,
	.download = cpu_download,
	.direct_pointer = cpu_direct_pointer,
	.sync = cpu_sync,
};

static const BackendProjector cpu_projector_table = {
	.apply = cpu_do_project,
	.apply_power = cpu_power,
	.back_update = cpu_back_update,
	.row = cpu_row,
	.candidates = cpu_candidates,
	.has_kernel = cpu_has_kernel,
};

static const BackendVector cpu_vector_table = {
	.fill = cpu_fill,
	.axpy = cpu_axpy,
	.xpay = cpu_xpay,
	.mul = cpu_mul,
	.mul_axpy = cpu_mul_axpy,
	.invert = cpu_invert,
	.clamp = cpu_clamp,
	.dot = cpu_dot,
	.copy = cpu_copy,
	.scale = cpu_scale,
	.sqrt = cpu_sqrt,
	.indicator = cpu_indicator,
	.ratio = cpu_ratio,
	.soft_threshold = cpu_soft_threshold,
	.axpy_clamp = cpu_axpy_clamp,
	.distance = cpu_distance,
	.clip_norm = cpu_clip_norm,
	.normalise = cpu_normalise,
	.max_abs = cpu_max_abs,
	.gather = cpu_gather,
	.scatter = cpu_scatter,
	.gradient = cpu_gradient,
	.gradient_adjoint = cpu_gradient_adjoint,
};

static const BackendFilter cpu_filter_table = {
	.open = cpu_filter_open,
	.close = cpu_filter_close,
	.apply = cpu_filter,
};

const BackendType cpu_backend = {
	.name = "cpu",
	.chunk = 8 << 20,
	.open = cpu_open,
	.close = cpu_close,
	.machine = cpu_machine,
	.memory = &cpu_memory_table,
	.projector = &cpu_projector_table,
	.vector = &cpu_vector_table,
	.filter = &cpu_filter_table,
};
