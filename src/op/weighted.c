/* An operator with weights of rays and a mask of voxels. */
#include "op/op.h"

typedef struct {
	const tomos_op *inner;
	tomos_op *part; /* the inner operator and the rays, where they are this operator's own */
	float *part_rays;
	const float *rays, *voxels;
	float *scratch, *squares; /* of the range */
} Weighted;

/* y times the weights of the rays, in a new vector. */
static tomos_status weigh(const tomos_op *op, const float **y)
{
	const Weighted *own = op->own;
	if (!own->rays)
		return TOMOS_OK;
	TRY(vector_copy(&op->range, *y, own->scratch));
	TRY(vector_mul(&op->range, own->rays, own->scratch));
	*y = own->scratch;
	return TOMOS_OK;
}

static tomos_status forward(const tomos_op *op, int power, const float *x, float *y)
{
	const Weighted *own = op->own;
	TRY(op_power(own->inner, power, x, y));
	for (int i = 0; own->rays && i < power; i++)
		TRY(vector_mul(&op->range, own->rays, y));
	return TOMOS_OK;
}

static tomos_status adjoint(const tomos_op *op, int power, const float *y, float *x)
{
	const Weighted *own = op->own;
	for (int i = 0; i < power; i++)
		TRY(weigh(op, &y));
	TRY(op_power_adjoint(own->inner, power, y, x));
	return own->voxels ? vector_mul(&op->domain, own->voxels, x) : TOMOS_OK;
}

static tomos_status weighted_apply(
	const tomos_op *op, Direction direction, int power, const float *in, float *out)
{
	return (direction == FORWARD ? forward : adjoint)(op, power, in, out);
}

/* Masked voxels are 0 and stay 0. */
static tomos_status weighted_adjoint_update(
	const tomos_op *op, const float *y, const FusedUpdate *step, float *x, bool *done)
{
	const Weighted *own = op->own;
	FusedUpdate inner = *step;
	TRY(weigh(op, &y));
	if (own->rays && step->average) {
		TRY(vector_copy(&op->range, own->rays, own->squares));
		if (step->rays)
			TRY(vector_mul(&op->range, step->rays, own->squares));
		inner.rays = own->squares;
	}
	TRY(op_adjoint_update(own->inner, y, &inner, x, done));
	return *done && own->voxels ? vector_mul(&op->domain, own->voxels, x) : TOMOS_OK;
}

static tomos_status weighted_row(
	const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count)
{
	const Weighted *own = op->own;
	int64_t kept = 0;
	TRY(op_row(own->inner, i, index, weight, count));
	for (int64_t k = 0; k < *count; k++)
		if (!own->voxels || own->voxels[index[k]] != 0) {
			index[kept] = index[k];
			weight[kept++] = weight[k] * (own->rays ? own->rays[i] : 1);
		}
	*count = kept;
	return TOMOS_OK;
}

static tomos_status weighted_list(const tomos_op *op, const KernelBatch *batch)
{
	const Weighted *own = op->own;
	tomos_backend *backend = op->domain.backend;
	TRY(op_list(own->inner, batch));
	return backend->type->matrix->weight_rows(backend, batch, own->rays, own->voxels);
}

static void weighted_free(tomos_op *op)
{
	Weighted *own = op->own;
	tomos_op_free(own->part);
	vector_free(own->part_rays, &op->range);
	vector_free(own->scratch, &op->range);
	vector_free(own->squares, &op->range);
}

static tomos_status make_scratch(tomos_op *op)
{
	Weighted *own = op->own;
	if (!own->rays)
		return TOMOS_OK;
	TRY(vector_new(&own->scratch, &op->range, "weighted projections"));
	return vector_new(&own->squares, &op->range, "weights of rays");
}

/* The weights of the rays of a subset of views. */
static tomos_status take_views(
	const tomos_op *op, const tomos_op *part, const int64_t *views, float *taken)
{
	const Weighted *own = op->own;
	Space one = part->range;
	one.shape[0] = 1;
	one.count = part->range.count / part->range.shape[0];
	for (int64_t i = 0; i < part->range.shape[0]; i++)
		TRY(vector_copy(&one, own->rays + views[i] * one.count, taken + i * one.count));
	return TOMOS_OK;
}

static tomos_status weighted_part(
	tomos_op *part, const tomos_op *op, const int64_t *views, int64_t count)
{
	const Weighted *whole = op->own;
	Weighted *own = part->own;
	TRY(op_part(whole->inner, &own->part, views, count));
	own->inner = own->part;
	own->voxels = whole->voxels;
	if (!whole->rays)
		return TOMOS_OK;
	TRY(vector_new(&own->part_rays, &part->range, "weights of rays"));
	TRY(take_views(op, part, views, own->part_rays));
	own->rays = own->part_rays;
	return make_scratch(part);
}

static const OpType weighted_type = {.apply = weighted_apply,
	.free = weighted_free,
	.part = weighted_part,
	.row = weighted_row,
	.adjoint_update = weighted_adjoint_update,
	.list = weighted_list};

tomos_status op_weighted(
	tomos_op **op, const tomos_op *inner, const float *rays, const float *voxels)
{
	*op = NULL;
	tomos_op *made;
	TRY(op_make(&made, &weighted_type, inner->domain.backend, inner->domain.shape,
		inner->range.shape, sizeof(Weighted)));
	*(Weighted *)made->own = (Weighted){.inner = inner, .rays = rays, .voxels = voxels};
	op_resemble(made, inner);
	made->domain.parts = inner->domain.parts;
	made->range.parts = inner->range.parts;
	return op_finish(op, made, make_scratch(made));
}
