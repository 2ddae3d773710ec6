/* Forward differences of a volume as an operator, with its exact adjoint. */
#include <stdio.h>
#include <string.h>
#include "op/op.h"

static int parts_of(const tomos_op *op)
{
	return (int)(op->range.shape[0] / op->domain.shape[0]);
}

static tomos_status gradient_forward(const tomos_op *op, const float *x, float *y)
{
	tomos_backend *backend = op->domain.backend;
	return backend->type->vector->gradient(backend, op->domain.shape, parts_of(op), x, y);
}

static tomos_status gradient_adjoint(const tomos_op *op, const float *y, float *x)
{
	tomos_backend *backend = op->domain.backend;
	return backend->type->vector->gradient_adjoint(
		backend, op->domain.shape, parts_of(op), y, x);
}

static const OpType gradient_type = {.forward = gradient_forward, .adjoint = gradient_adjoint};

tomos_status op_gradient(tomos_op **op, const Space *space, int parts)
{
	int64_t range[3];
	memcpy(range, space->shape, sizeof range);
	if (!size_mul(range[0], parts, &range[0]))
		return fail(TOMOS_BAD_VALUE, "%lld slices are too many for a gradient",
			(long long)space->shape[0]);
	TRY(op_make(op, &gradient_type, space->backend, space->shape, range, 1));
	(*op)->matched = true;
	(*op)->entries = ENTRIES_SIGNED;
	snprintf((*op)->description, sizeof(*op)->description, "gradient");
	if (!space->parts)
		return TOMOS_OK;
	return op_finish(
		op, *op, space_repeat(&(*op)->range, &(*op)->parts[1], space->parts, parts));
}
