/* Functions of all operators: construction, application to arrays, description. */
#include <float.h>
#include <stdio.h>
#include <string.h>
#include "op/op.h"

static tomos_status space_make(Space *space, tomos_backend *backend, const int64_t shape[3])
{
	*space = (Space){.backend = backend};
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
	made->norms = made->norm_values;
	tomos_status status = mem_zeroed(&made->own, own_size, 1, "an operator");
	if (status != TOMOS_OK) {
		mem_free(made);
		return status;
	}
	made->type = type;
	made->domain = from;
	made->range = to;
	made->own_size = own_size;
	*op = made;
	return TOMOS_OK;
}

tomos_status op_finish(tomos_op **op, tomos_op *made, tomos_status status)
{
	*op = status == TOMOS_OK ? made : NULL;
	if (status != TOMOS_OK)
		tomos_op_free(made);
	return status;
}

void op_place(
	tomos_op *op, const tomos_grid *grid, const tomos_geometry *scan, const KernelModel *model)
{
	const double *step = grid->step, *first = grid->first;
	int64_t bytes = scan->count * (int64_t)sizeof *scan->views;
	snprintf(op->place, sizeof op->place,
		"voxels of %.9g x %.9g x %.9g;first voxel at %.9g, %.9g, %.9g;views of checksum "
		"%08x;boundary %s;voxel_interpolation %s",
		step[0], step[1], step[2], first[0], first[1], first[2],
		(unsigned)checksum_add(0, scan->views, bytes), model->clamp ? "clamp" : "expand",
		model->nearest ? "nearest" : "linear");
}

void op_resemble(tomos_op *op, const tomos_op *like)
{
	op->matched = like->matched;
	op->entries = like->entries;
	op->row_most = like->row_most;
	op->disjoint_columns = like->disjoint_columns;
	memcpy(op->description, like->description, sizeof op->description);
	memcpy(op->place, like->place, sizeof op->place);
}

void tomos_op_free(tomos_op *op)
{
	if (!op)
		return;
	if (op->type->free)
		op->type->free(op);
	for (int i = 0; i < COUNT(op->parts); i++)
		mem_free(op->parts[i].runs);
	mem_free(op->own);
	mem_free(op);
}

static tomos_status cannot(const tomos_op *op, const char *what)
{
	return fail(TOMOS_UNSUPPORTED, "the operator (%s) %s", op->description, what);
}

static tomos_status product(
	const tomos_op *op, Direction direction, int power, const float *in, float *out)
{
	const OpType *type = op->type;
	bool forward = direction == FORWARD;
	if (!type->apply && power != 1)
		return cannot(op, forward ? "has no row norms" : "has no column norms");
	cancel_begin();
	tomos_status status = type->apply ? type->apply(op, direction, power, in, out)
			      : forward   ? type->forward(op, in, out)
					  : type->adjoint(op, in, out);
	return cancel_end(status, forward ? "a projection" : "a back projection");
}

tomos_status op_forward(const tomos_op *op, const float *x, float *y)
{
	return product(op, FORWARD, 1, x, y);
}

tomos_status op_adjoint(const tomos_op *op, const float *y, float *x)
{
	return product(op, ADJOINT, 1, y, x);
}

tomos_status op_power(const tomos_op *op, int power, const float *x, float *y)
{
	return product(op, FORWARD, power, x, y);
}

tomos_status op_power_adjoint(const tomos_op *op, int power, const float *y, float *x)
{
	return product(op, ADJOINT, power, y, x);
}

tomos_status op_adjoint_update(
	const tomos_op *op, const float *y, const FusedUpdate *step, float *x, bool *done)
{
	*done = false;
	if (!op->type->adjoint_update)
		return TOMOS_OK;
	TRY(cancel_check("a back projection"));
	cancel_begin();
	return cancel_end(op->type->adjoint_update(op, y, step, x, done), "a back projection");
}

/* In one pass over the projections if the operator has a fused residual, else in two. */
tomos_status op_residual(
	const tomos_op *op, const float *x, const float *b, const float *w, float *r, float *y)
{
	const FusedResidual fused = {b, w, y};
	bool done = false;
	if (op->type->residual && w) {
		cancel_begin();
		TRY(cancel_end(op->type->residual(op, x, &fused, r, &done), "a projection"));
	}
	if (done)
		return TOMOS_OK;
	TRY(op_forward(op, x, r));
	return w ? vector_residual(&op->range, b, w, r, y) : vector_xpay(&op->range, b, -1, r);
}

tomos_status op_row_sums(const tomos_op *op, const float *x, float *y)
{
	if (!op->type->row_sums)
		return op_forward(op, x, y);
	cancel_begin();
	return cancel_end(op->type->row_sums(op, x, y), "a projection");
}

tomos_status op_part(const tomos_op *op, tomos_op **part, const int64_t *views, int64_t count)
{
	*part = NULL;
	if (!op->type->part)
		return cannot(op, "cannot be split into blocks of views");
	const int64_t range[3] = {count, op->range.shape[1], op->range.shape[2]};
	tomos_op *made;
	TRY(op_make(&made, op->type, op->domain.backend, op->domain.shape, range, op->own_size));
	op_resemble(made, op);
	return op_finish(part, made, op->type->part(made, op, views, count));
}

tomos_status op_row(const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count)
{
	if (op->row_most == 0)
		return cannot(
			op, "cannot give single rows, as ray-driven projectors and matrices can");
	return op->type->row(op, i, index, weight, count);
}

bool op_lists(const tomos_op *op)
{
	return op->domain.backend->type->matrix != NULL;
}

tomos_status op_list(const tomos_op *op, const KernelBatch *batch)
{
	return op->type->list(op, batch);
}

tomos_status op_sweeper(const tomos_op *op, RowSweeper **sweeper)
{
	*sweeper = NULL;
	return op->type->sweeper ? op->type->sweeper(op, sweeper) : TOMOS_OK;
}

static tomos_status negative_part(
	const Space *space, const float *sums, float *scratch, double *part)
{
	TRY(vector_copy(space, sums, scratch));
	TRY(vector_clamp(space, -FLT_MAX, 0, scratch));
	return vector_max_abs(space, scratch, part);
}

tomos_status op_check_sums(
	const tomos_op *op, const Space *space, const float *sums, const char *who)
{
	const double tiny = 1e-5; /* of the largest: rounding of sums that are 0 */
	double below = 0, largest = 0;
	float *scratch = NULL;
	tomos_status status;
	if (op->entries == ENTRIES_POSITIVE)
		return TOMOS_OK;
	if (op->entries == ENTRIES_SIGNED)
		return fail(TOMOS_UNSUPPORTED,
			"the operator (%s) has negative entries; %s needs entries of 0 and above",
			op->description, who);
	TRY_OR_DONE(vector_new(&scratch, space, "the sums of an operator"));
	TRY_OR_DONE(negative_part(space, sums, scratch, &below));
	TRY_OR_DONE(vector_max_abs(space, sums, &largest));
	if (below > tiny * largest)
		status = fail(TOMOS_UNSUPPORTED,
			"the operator (%s) has a row or column whose sum is %g; %s needs entries "
			"of 0 and "
			"above",
			op->description, -below, who);
done:
	vector_free(scratch, space);
	return status;
}

static tomos_status apply(const tomos_op *op, const tomos_array *in, const tomos_array *out,
	const Space *from, const Space *to, const char *in_name, const char *out_name,
	tomos_status (*function)(const tomos_op *, const float *, float *))
{
	Vector x = {0}, y = {0};
	tomos_status status, returned;
	TRY_OR_DONE(vector_borrow(&x, from, in, VECTOR_IN, in_name));
	TRY_OR_DONE(vector_borrow(&y, to, out, VECTOR_OUT, out_name));
	TRY_OR_DONE(arrays_apart(in, in_name, out, out_name));
	TRY_OR_DONE(function(op, x.data, y.data));
done:
	returned = vector_return(&y, to, status == TOMOS_OK ? VECTOR_OUT : VECTOR_IN);
	vector_return(&x, from, VECTOR_IN);
	return status != TOMOS_OK ? status : returned;
}

tomos_status tomos_op_forward(const tomos_op *op, const tomos_array *x, const tomos_array *y)
{
	if (!op)
		return fail(TOMOS_BAD_VALUE, "forward: the operator is missing");
	return apply(
		op, x, y, &op->domain, &op->range, "the volume", "the projections", op_forward);
}

tomos_status tomos_op_adjoint(const tomos_op *op, const tomos_array *y, const tomos_array *x)
{
	if (!op)
		return fail(TOMOS_BAD_VALUE, "adjoint: the operator is missing");
	return apply(
		op, y, x, &op->range, &op->domain, "the projections", "the volume", op_adjoint);
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
