/* Fields of directions: differences of a volume along its axes, and what is done with lengths. */
#include <math.h>
#include "backend/cpu/cpu.h"

enum { BLOCK = 1 << 14 };

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

static void shorten_block(void *user, int64_t block)
{
	const Lengths *l = user;
	int64_t end = min64((block + 1) * BLOCK, l->n);
	for (int64_t i = block * BLOCK; i < end; i++) {
		float length = sqrtf(length_of(l, i));
		if (length > l->bound)
			divide(l, i, length / l->bound);
	}
}

static void unit_block(void *user, int64_t block)
{
	const Lengths *l = user;
	int64_t end = min64((block + 1) * BLOCK, l->n);
	for (int64_t i = block * BLOCK; i < end; i++)
		divide(l, i, sqrtf(length_of(l, i) + l->bound * l->bound));
}

/* A bound of 0 leaves nothing. */
tomos_status cpu_clip_norm(tomos_backend *b, int64_t n, int parts, float longest, float *y)
{
	Lengths l = {n, parts, longest, y};
	if (!(longest > 0))
		return b->type->vector->fill(b, n * parts, 0, y);
	parallel_for((n + BLOCK - 1) / BLOCK, shorten_block, &l);
	return TOMOS_OK;
}

tomos_status cpu_normalise(tomos_backend *b, int64_t n, int parts, float least, float *y)
{
	(void)b;
	Lengths l = {n, parts, least, y};
	parallel_for((n + BLOCK - 1) / BLOCK, unit_block, &l);
	return TOMOS_OK;
}

typedef struct {
	const int64_t *shape;
	const float *from;
	float *to;
	int parts;
} Differences;

/* Lines along x, one task per [z]. The last difference along an axis is zero. */
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

/* The transpose, gathered: x_i takes what the difference before it gives, less its own. */
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

tomos_status cpu_gradient(tomos_backend *b, const int64_t shape[3], const float *x, float *field)
{
	(void)b;
	Differences d = {shape, x, field, shape[0] > 1 ? 3 : 2};
	parallel_for(shape[0], gradient_slice, &d);
	return TOMOS_OK;
}

tomos_status cpu_gradient_adjoint(
	tomos_backend *b, const int64_t shape[3], const float *field, float *x)
{
	(void)b;
	Differences d = {shape, field, x, shape[0] > 1 ? 3 : 2};
	parallel_for(shape[0], adjoint_slice, &d);
	return TOMOS_OK;
}
