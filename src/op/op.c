/* What all operators share: making, applying to callers' arrays, describing. */
#include <string.h>
#include "op/op.h"

static tomos_status space_make(Space *space, tomos_backend *backend, const int64_t shape[3])
{
	space->backend = backend;
	memcpy(space->shape, shape, sizeof space->shape);
	return shape_count(shape, &space->count);
}

tomos_status op_make(tomos_op **op, const OpType *type, tomos_backend *backend,
	const int64_t domain[3], const int64_t range[3], int64_t own_size)
{
	*op = NULL;
	Space from, to;
	TRY(space_make(&from, backend, domain));
	TRY(space_make(&to, backend, range));
	tomos_op *made;
	TRY(mem_zeroed(&made, 1, sizeof *made, "an operator"));
	tomos_status status = mem_zeroed(&made->own, own_size, 1, "an operator");
	if (status != TOMOS_OK) {
		mem_free(made);
		return status;
	}
	made->type = type;
	made->domain = from;
	made->range = to;
	*op = made;
	return TOMOS_OK;
}

void tomos_op_free(tomos_op *op)
{
	if (!op)
		return;
	op->type->free(op);
	mem_free(op->own);
	mem_free(op);
}

tomos_status op_forward(const tomos_op *op, const float *x, float *y)
{
	return op->type->forward(op, x, y);
}

tomos_status op_adjoint(const tomos_op *op, const float *y, float *x)
{
	return op->type->adjoint(op, y, x);
}

static tomos_status apply(const tomos_op *op, const tomos_array *in, const tomos_array *out,
	const Space *from, const Space *to, const char *in_name, const char *out_name,
	tomos_status (*verb)(const tomos_op *, const float *, float *))
{
	Vector x, y;
	TRY(vector_borrow(&x, from, in, VECTOR_IN, in_name));
	tomos_status status = vector_borrow(&y, to, out, VECTOR_OUT, out_name), returned;
	if (status == TOMOS_OK) {
		status = verb(op, x.data, y.data);
		returned = vector_return(&y, to, status == TOMOS_OK ? VECTOR_OUT : VECTOR_IN);
		status = status != TOMOS_OK ? status : returned;
	}
	vector_return(&x, from, VECTOR_IN);
	return status;
}

tomos_status tomos_op_forward(const tomos_op *op, const tomos_array *x, const tomos_array *y)
{
	if (!op)
		return fail(TOMOS_BAD_VALUE, "forward: there is no operator");
	return apply(op, x, y, &op->domain, &op->range, "the volume", "the projections", op_forward);
}

tomos_status tomos_op_adjoint(const tomos_op *op, const tomos_array *y, const tomos_array *x)
{
	if (!op)
		return fail(TOMOS_BAD_VALUE, "adjoint: there is no operator");
	return apply(op, y, x, &op->range, &op->domain, "the projections", "the volume", op_adjoint);
}

void tomos_op_domain(const tomos_op *op, int64_t shape[3])
{
	memcpy(shape, op->domain.shape, sizeof op->domain.shape);
}

void tomos_op_range(const tomos_op *op, int64_t shape[3])
{
	memcpy(shape, op->range.shape, sizeof op->range.shape);
}

int tomos_op_matched(const tomos_op *op)
{
	return op->matched;
}

const char *tomos_op_describe(const tomos_op *op)
{
	return op->description;
}
