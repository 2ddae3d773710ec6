/* Smoothing of a volume as an operator: (1, 4, 6, 4, 1) / 16 along each axis. Neighbours are those
 * in memory, where the last voxel of a line is beside the first one of the next: it is for volumes
 * that end in air. Each axis is its own adjoint; the adjoint of all takes them in opposite order,
 * which matters at the ends of the volume. */
#include <stdio.h>
#include "op/op.h"

/* y = (1, 2, 1) / 4 of x, with neighbours `stride` apart. */
static tomos_status smooth_once(const Space *space, int64_t stride, const float *x, float *y)
{
	int64_t count = space->count - stride;
	Space part = {space->backend, {1, 1, count}, count, NULL};
	TRY(vector_copy(space, x, y));
	TRY(vector_scale(space, 0.5F, y));
	TRY(vector_axpy(&part, 0.25F, x + stride, y));
	return vector_axpy(&part, 0.25F, x, y + stride);
}

static tomos_status smooth_axes(const Space *space, bool adjoint, float *y, float *between)
{
	const int64_t *n = space->shape;
	const int64_t strides[3] = {n[1] * n[2], n[2], 1};
	for (int i = 0; i < 3; i++) {
		int axis = adjoint ? 2 - i : i;
		if (n[axis] > 1) {
			TRY(smooth_once(space, strides[axis], y, between));
			TRY(smooth_once(space, strides[axis], between, y));
		}
	}
	return TOMOS_OK;
}

static tomos_status smooth(const tomos_op *op, bool adjoint, const float *x, float *y)
{
	const Space *space = &op->domain;
	float *between;
	TRY(vector_new(&between, space, "smoothing"));
	tomos_status status = vector_copy(space, x, y);
	if (status == TOMOS_OK)
		status = smooth_axes(space, adjoint, y, between);
	vector_free(between, space);
	return status;
}

static tomos_status smooth_forward(const tomos_op *op, const float *x, float *y)
{
	return smooth(op, false, x, y);
}

static tomos_status smooth_adjoint(const tomos_op *op, const float *y, float *x)
{
	return smooth(op, true, y, x);
}

static const OpType smooth_type = {.forward = smooth_forward, .adjoint = smooth_adjoint};

tomos_status op_smooth(tomos_op **op, const Space *space)
{
	TRY(op_make(op, &smooth_type, space->backend, space->shape, space->shape, 1));
	(*op)->matched = true;
	(*op)->entries = ENTRIES_POSITIVE;
	snprintf((*op)->description, sizeof(*op)->description, "smoothing");
	return TOMOS_OK;
}
