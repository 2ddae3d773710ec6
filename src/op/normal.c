/* Least squares by the normal operator N = A'A of an operator A, without projections.
 *
 * All projections that methods for least squares compute are sums a b + A z, with the data b. This
 * operator has them as its range in another form: the volumes z and N z, and the number a. Products
 * with the transpose and inner products follow from these and from g = A'b,
 *
 *   A'(a b + A z) = a g + N z,   (a b + A z)'(c b + A y) = a c b'b + a y'g + c z'g + z'N y,
 *
 * so that methods run unchanged, with one product with N where they project. The squared norm of
 * a residual is a difference of such sums, which are as accurate as g and N are: its error is
 * about 2e-7 of the squared norm of the data, 0.1 % of the norm of a residual that is 1 % of the
 * data, 1 % of one that is 0.4 %. Residuals below 0.05 % are not seen.
 */
#include <math.h>
#include <stdio.h>
#include "op/op.h"

/* The backend of the range, with the inner products above. */
typedef struct {
	tomos_backend base;
	BackendCopy copy;
	const tomos_op *op;
} NormalBackend;

typedef struct {
	NormalBackend backend;
	tomos_op *normal;
	Space volume, number;
	const float *mask;
	float *gradient; /* g */
	float *data;     /* b in the range */
	float *scratch;  /* of the range */
	double square;   /* b'b */
} Normal;

/* ---- vectors of the range -------------------------------------------------------------------- */

/* z is at the beginning, N z follows, and a is the last element. */
static const float *product_of(const Normal *own, const float *y)
{
	return y + own->volume.count;
}

static tomos_status data_share(const Normal *own, const float *y, double *a)
{
	float value;
	const tomos_array array = tomos_array_of(&value, 1, 1, 1);
	TRY(vector_download(&own->number, y + 2 * own->volume.count, &array));
	*a = value;
	return TOMOS_OK;
}

/* The norm of a vector that rounding makes negative is 0. */
static tomos_status normal_dot(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result)
{
	const Normal *own = ((const NormalBackend *)b)->op->own;
	double a, c, zNy, zg = 0, yg = 0;
	(void)n;
	TRY(data_share(own, x, &a));
	TRY(data_share(own, y, &c));
	TRY(vector_dot(&own->volume, x, product_of(own, y), &zNy));
	if (c != 0)
		TRY(vector_dot(&own->volume, x, own->gradient, &zg));
	if (x == y)
		yg = zg;
	else if (a != 0)
		TRY(vector_dot(&own->volume, y, own->gradient, &yg));
	*result = a * c * own->square + a * yg + c * zg + zNy;
	if (x == y && *result < 0)
		*result = 0;
	return TOMOS_OK;
}

static tomos_status normal_distance(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result)
{
	const NormalBackend *backend = (const NormalBackend *)b;
	const Normal *own = backend->op->own;
	const Space *range = &backend->op->range;
	TRY(vector_copy(range, x, own->scratch));
	TRY(vector_axpy(range, -1, y, own->scratch));
	TRY(normal_dot(b, n, own->scratch, own->scratch, result));
	*result = sqrt(*result);
	return TOMOS_OK;
}

/* ---- operator -------------------------------------------------------------------------------- */

static tomos_status apply_mask(const Normal *own, float *x)
{
	return own->mask ? vector_mul(&own->volume, own->mask, x) : TOMOS_OK;
}

static tomos_status normal_forward(const tomos_op *op, const float *x, float *y)
{
	const Normal *own = op->own;
	float *product = y + own->volume.count;
	TRY(vector_copy(&own->volume, x, y));
	TRY(own->normal->type->forward(own->normal, x, product));
	TRY(apply_mask(own, product));
	return vector_fill(&own->number, 0, y + 2 * own->volume.count);
}

static tomos_status normal_adjoint(const tomos_op *op, const float *y, float *x)
{
	const Normal *own = op->own;
	double a;
	TRY(data_share(own, y, &a));
	const float *const parts[] = {product_of(own, y), own->gradient}, factors[] = {1, (float)a};
	return vector_combine(&own->volume, a != 0 ? 2 : 1, factors, parts, x);
}

static void normal_free(tomos_op *op)
{
	Normal *own = op->own;
	vector_free(own->gradient, &own->volume);
	vector_free(own->data, &op->range);
	vector_free(own->scratch, &op->range);
	tomos_op_free(own->normal);
}

static const OpType normal_type = {
	.forward = normal_forward, .adjoint = normal_adjoint, .free = normal_free};

static tomos_status fill(tomos_op *op, const tomos_op *A, const float *b)
{
	Normal *own = op->own;
	NormalBackend *backend = &own->backend;
	backend->base = *op->domain.backend;
	backend->op = op;
	backend_copy(&backend->copy, op->domain.backend->type);
	backend->base.type = &backend->copy.type;
	backend->copy.vector.dot = normal_dot;
	backend->copy.vector.distance = normal_distance;
	backend->copy.vector.dots = NULL;
	op->range.backend = &backend->base;
	own->volume = op->domain;
	own->number = (Space){.backend = op->domain.backend, .shape = {1, 1, 1}, .count = 1};
	TRY(vector_new(&own->gradient, &own->volume, "the back projection of the data"));
	TRY(vector_new(&own->scratch, &op->range, "a difference"));
	TRY(vector_new(&own->data, &op->range, "the data"));
	TRY(vector_dot(&A->range, b, b, &own->square));
	TRY(op_adjoint(A, b, own->gradient));
	TRY(apply_mask(own, own->gradient));
	TRY(vector_fill(&op->range, 0, own->data));
	return vector_fill(&own->number, 1, own->data + 2 * own->volume.count);
}

tomos_status op_normal(tomos_op **made, const float **data, const tomos_op *A, const float *b,
	NormalRequest *request)
{
	tomos_op *normal = NULL;
	*made = NULL;
	if (A->type->normal)
		TRY(A->type->normal(A, request, &normal));
	else
		snprintf(request->why, sizeof request->why,
			"A'A of the operator (%s) is not known without projections; that of "
			"--forward fourier is",
			A->description);
	if (!normal)
		return TOMOS_OK;
	const int64_t range[3] = {1, 1, 2 * A->domain.count + 1};
	tomos_op *op;
	tomos_status status = op_make(
		&op, &normal_type, A->domain.backend, A->domain.shape, range, sizeof(Normal));
	if (status != TOMOS_OK) {
		tomos_op_free(normal);
		return status;
	}
	Normal *own = op->own;
	own->normal = normal;
	own->mask = request->mask;
	op_resemble(op, A);
	status = fill(op, A, b);
	if (status != TOMOS_OK) {
		tomos_op_free(op);
		return status;
	}
	*data = own->data;
	*made = op;
	return TOMOS_OK;
}
