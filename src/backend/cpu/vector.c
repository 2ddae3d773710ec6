/* Vector and vector-field operations of the CPU backend. */
#include <math.h>
#include "backend/cpu/cpu.h"

enum { BLOCK = 1 << 16 }; /* elements per task and per partial sum */

#define VECTOR_OP(name, statement) \
	static void name##_block(void *user, int64_t block) \
	{ \
		const VectorArgs *v = user; \
		const float a = v->a, b = v->b, c = v->c, *w = v->w, *x = v->x; \
		float *y = v->y; \
		int64_t end = min64((block + 1) * BLOCK, v->n); \
		for (int64_t i = block * BLOCK; i < end; i++) \
			statement; \
		(void)a, (void)b, (void)c, (void)w, (void)x; \
	}
#include "kernel/vector.def"

static tomos_status run_op(
	const tomos_backend *backend, void (*block)(void *, int64_t), VectorArgs args)
{
	(void)backend;
	parallel_for((args.n + BLOCK - 1) / BLOCK, block, &args);
	return TOMOS_OK;
}

#define VECTOR_NAME(name) cpu_##name
#define VECTOR_RUN(name, ...) run_op(b, name##_block, (VectorArgs){.n = n, __VA_ARGS__})
#include "backend/vector_calls.h"

static tomos_status cpu_copy(tomos_backend *b, int64_t n, const float *x, float *y)
{
	return VECTOR_RUN(copy, .x = x, .y = y);
}

static tomos_status cpu_gather(tomos_backend *backend, int64_t n, const int64_t *index,
	const float *w, const float *x, double *result)
{
	(void)backend;
	double sum[4] = {0}; /* four independent sums, so that additions overlap */
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
		value = value > low ? value
				    : low; /* fmaxf and fminf handle NaN and are not inlined */
		y[index[i]] = value < high ? value : high;
	}
	return TOMOS_OK;
}

typedef struct {
	int64_t n;
	const float *x, *y;
	double *partial;
} SumArgs;

#define SUM(name, type, statement) \
	static void name##_block(void *user, int64_t block) \
	{ \
		const SumArgs *v = user; \
		const float *x = v->x, *y = v->y; \
		type sum = 0; \
		int64_t end = min64((block + 1) * BLOCK, v->n); \
		for (int64_t i = block * BLOCK; i < end; i++) \
			statement; \
		v->partial[block] = sum; \
		(void)y; \
	}
SUM(dot, double, sum += (double)x[i] * y[i])
SUM(distance, double, sum += ((double)x[i] - y[i]) * ((double)x[i] - y[i]))
SUM(largest, float, sum = fmaxf(sum, fabsf(x[i])))

static double add(double a, double b)
{
	return a + b;
}

/* Block sums are added in order: the same bits for any number of threads. */
static tomos_status run_sum(void (*block)(void *, int64_t), double (*join)(double, double),
	int64_t n, const float *x, const float *y, double *result)
{
	int64_t blocks = (n + BLOCK - 1) / BLOCK;
	SumArgs args = {.n = n, .x = x, .y = y};
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

/* ---- vector fields: differences of a volume along its axes, and lengths ---- */

enum { FIELD_BLOCK = 1 << 14 };

typedef struct {
	int64_t n;
	int parts;
	float bound;
	float *y;
} Lengths;

static float length_of(const Lengths *l, int64_t i)
{
	float square = 0;
	for (int k = 0; k < l->parts; k++)
		square += l->y[k * l->n + i] * l->y[k * l->n + i];
	return square;
}

static void divide(const Lengths *l, int64_t i, float by)
{
	for (int k = 0; k < l->parts; k++)
		l->y[k * l->n + i] /= by;
}

static void clip_norm_block(void *user, int64_t block)
{
	const Lengths *l = user;
	int64_t end = min64((block + 1) * FIELD_BLOCK, l->n);
	for (int64_t i = block * FIELD_BLOCK; i < end; i++) {
		float length = sqrtf(length_of(l, i));
		if (length > l->bound)
			divide(l, i, length / l->bound);
	}
}

static void normalise_block(void *user, int64_t block)
{
	const Lengths *l = user;
	int64_t end = min64((block + 1) * FIELD_BLOCK, l->n);
	for (int64_t i = block * FIELD_BLOCK; i < end; i++)
		divide(l, i, sqrtf(length_of(l, i) + l->bound * l->bound));
}

/* For a bound of 0 all vectors become 0. */
static tomos_status cpu_clip_norm(tomos_backend *b, int64_t n, int parts, float longest, float *y)
{
	Lengths l = {n, parts, longest, y};
	if (!(longest > 0))
		return b->type->vector->fill(b, n * parts, 0, y);
	parallel_for((n + FIELD_BLOCK - 1) / FIELD_BLOCK, clip_norm_block, &l);
	return TOMOS_OK;
}

static tomos_status cpu_normalise(tomos_backend *b, int64_t n, int parts, float least, float *y)
{
	(void)b;
	Lengths l = {n, parts, least, y};
	parallel_for((n + FIELD_BLOCK - 1) / FIELD_BLOCK, normalise_block, &l);
	return TOMOS_OK;
}

typedef struct {
	const int64_t *shape;
	const float *from;
	float *to;
	int parts;
} Differences;

/* Gradient of slice z, row by row. The last difference along an axis is zero. */
static void gradient_slice(void *user, int64_t z)
{
	const Differences *d = user;
	int64_t nz = d->shape[0], ny = d->shape[1], nx = d->shape[2], n = nz * ny * nx;
	const int64_t stride[3] = {1, nx, nx * ny};
	for (int64_t y = 0; y < ny; y++)
		for (int part = 0; part < d->parts; part++) {
			int64_t first = (z * ny + y) * nx;
			const float *x = d->from + first;
			float *g = d->to + part * n + first;
			bool last = (part == 1 && y == ny - 1) || (part == 2 && z == nz - 1);
			int64_t end = last ? 0 : part == 0 ? nx - 1 : nx;
			for (int64_t i = 0; i < end; i++)
				g[i] = x[i + stride[part]] - x[i];
			for (int64_t i = end; i < nx; i++)
				g[i] = 0;
		}
}

/* The transpose as a gather: x_i receives the difference before it minus its own. */
static void adjoint_slice(void *user, int64_t z)
{
	const Differences *d = user;
	int64_t nz = d->shape[0], ny = d->shape[1], nx = d->shape[2], n = nz * ny * nx;
	for (int64_t y = 0; y < ny; y++) {
		int64_t first = (z * ny + y) * nx;
		float *x = d->to + first;
		const float *g = d->from + first;
		for (int64_t i = 0; i < nx; i++)
			x[i] = (i > 0 ? g[i - 1] : 0) - (i < nx - 1 ? g[i] : 0);
		g += n;
		for (int64_t i = 0; i < nx; i++)
			x[i] += (y > 0 ? g[i - nx] : 0) - (y < ny - 1 ? g[i] : 0);
		g += n;
		for (int64_t i = 0; d->parts > 2 && i < nx; i++)
			x[i] += (z > 0 ? g[i - nx * ny] : 0) - (z < nz - 1 ? g[i] : 0);
	}
}

static tomos_status differences(void (*slice)(void *user, int64_t z), const int64_t shape[3],
	int parts, const float *from, float *to)
{
	Differences d = {shape, from, to, parts};
	parallel_for(shape[0], slice, &d);
	return TOMOS_OK;
}

static tomos_status cpu_gradient(
	tomos_backend *b, const int64_t shape[3], int parts, const float *x, float *field)
{
	(void)b;
	return differences(gradient_slice, shape, parts, x, field);
}

static tomos_status cpu_gradient_adjoint(
	tomos_backend *b, const int64_t shape[3], int parts, const float *field, float *x)
{
	(void)b;
	return differences(adjoint_slice, shape, parts, field, x);
}

const BackendVector cpu_vector = {
	BACKEND_VECTOR(cpu), .gather = cpu_gather, .scatter = cpu_scatter};
