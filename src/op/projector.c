/* The projector of a scan as an operator: a plan, a forward and a back projection kernel. */
#include <stdio.h>
#include <string.h>
#include "op/op.h"

OPTION_VALUES(projector_values, TOMOS_PROJECTOR_OPTIONS);

/* Names of projectors: the rows of kernels.def, then those of PAIRS(name, open, bytes). */
#define PAIRS(P) P("fourier", op_fourier, fourier_bytes)
#define KERNEL(id, name, family, weights, help) "|" name
#define PAIR_NAME(name, open, bytes) "|" name
static const char names[] =
#include "kernel/kernels.def"
	PAIRS(PAIR_NAME);
#undef KERNEL

const char *tomos_projector_names(void)
{
	return names + 1;
}

const ProjectorPair *projector_pair(const tomos_projector_options *o)
{
#define PAIR_ROW(name, open, bytes) {name, open, bytes},
	static const ProjectorPair pairs[] = {PAIRS(PAIR_ROW)};
	const char *back = o->back && *o->back ? o->back : o->forward;
	for (int i = 0; i < COUNT(pairs); i++)
		if (o->forward && strcmp(o->forward, pairs[i].name) == 0 &&
			strcmp(back, o->forward) == 0)
			return &pairs[i];
	return NULL;
}

typedef struct {
	Plan plan;
	int forward, back;
} Projector;

/* All views and voxels; the result is overwritten. */
static ProjectRequest request(
	const tomos_op *op, Direction direction, float *volume, float *projections)
{
	const Projector *own = op->own;
	ProjectRequest what = {.plan = &own->plan,
		.kernel = direction == FORWARD ? own->forward : own->back,
		.direction = direction,
		.count = own->plan.scan->count,
		.volume = volume,
		.projections = projections,
		.overwrite = true};
	memcpy(what.box.high, own->plan.grid.n, sizeof what.box.high);
	return what;
}

/* The name of the kernel that did it; several threads may use a backend. */
static tomos_status noted(tomos_backend *b, Direction direction, tomos_status status)
{
	__atomic_store_n(&b->kernel_of[direction],
		__atomic_load_n(&b->last_kernel, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	return status;
}

tomos_status project_power(tomos_backend *backend, const ProjectRequest *what, int power)
{
	const BackendProjector *projector = backend->type->projector;
	if (power == 1)
		return projector->apply(backend, what);
	if (!projector->apply_power)
		return fail(TOMOS_UNSUPPORTED, "the %s backend cannot measure rows and columns",
			backend->type->name);
	return projector->apply_power(backend, what, power);
}

static tomos_status projector_apply(
	const tomos_op *op, Direction direction, int power, const float *in, float *out)
{
	tomos_backend *backend = op->domain.backend;
	ProjectRequest what = direction == FORWARD ? request(op, FORWARD, (float *)in, out)
						   : request(op, ADJOINT, out, (float *)in);
	tomos_status status = project_power(backend, &what, power);
	return power == 1 ? noted(backend, direction, status) : status;
}

static tomos_status projector_adjoint_update(
	const tomos_op *op, const float *y, const FusedUpdate *step, float *x, bool *done)
{
	tomos_backend *backend = op->domain.backend;
	ProjectRequest what = request(op, ADJOINT, x, (float *)y);
	if (!backend->type->projector->back_update)
		return TOMOS_OK;
	TRY(backend->type->projector->back_update(backend, &what, step, done));
	return *done ? noted(backend, ADJOINT, TOMOS_OK) : TOMOS_OK;
}

static tomos_status projector_residual(
	const tomos_op *op, const float *x, const FusedResidual *fused, float *r, bool *done)
{
	tomos_backend *backend = op->range.backend;
	ProjectRequest what = request(op, FORWARD, (float *)x, r);
	if (!backend->type->projector->forward_residual)
		return TOMOS_OK;
	TRY(backend->type->projector->forward_residual(backend, &what, fused, done));
	return *done ? noted(backend, FORWARD, TOMOS_OK) : TOMOS_OK;
}

/* Views that are a quarter turn apart have the same sums. */
static tomos_status projector_row_sums(const tomos_op *op, const float *x, float *y)
{
	const Projector *own = op->own;
	tomos_backend *backend = op->range.backend;
	ProjectRequest what = request(op, FORWARD, (float *)x, y);
	if (own->plan.rays.quarter == 0 || own->plan.rays.source != TOMOS_POINT)
		return projector_apply(op, FORWARD, 1, x, y);
	what.count /= 4;
	TRY(noted(backend, FORWARD, backend->type->projector->apply(backend, &what)));
	int64_t floats = op->range.count / 4;
	for (int i = 1; i < 4; i++)
		TRY(backend->type->vector->copy(backend, floats, y, y + i * floats));
	return TOMOS_OK;
}

static void projector_free(tomos_op *op)
{
	Projector *own = op->own;
	plan_free(&own->plan);
}

static tomos_status projector_row(
	const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count)
{
	const Projector *own = op->own;
	tomos_backend *backend = op->domain.backend;
	return backend->type->projector->row(
		backend, &own->plan, own->forward, i, index, weight, count);
}

static tomos_status projector_list(const tomos_op *op, const KernelBatch *batch)
{
	const Projector *own = op->own;
	tomos_backend *backend = op->domain.backend;
	return backend->type->projector->list_rows(backend, &own->plan, own->forward, batch);
}

static tomos_status projector_pose(
	const tomos_op *op, const float *x, int64_t first, int64_t count, float *out)
{
	const Projector *own = op->own;
	tomos_backend *backend = op->domain.backend;
	ProjectRequest what = request(op, FORWARD, (float *)x, out);
	what.first = first;
	what.count = count;
	if (strcmp(kernel_rows[own->forward].name, "joseph") != 0)
		return fail(TOMOS_UNSUPPORTED,
			"the projector '%s' has no derivatives with respect to poses; 'joseph' has "
			"them",
			kernel_rows[own->forward].name);
	if (!backend->type->projector->pose)
		return fail(TOMOS_UNSUPPORTED,
			"the %s backend has no derivatives with respect to poses; cpu and cuda "
			"have them",
			backend->type->name);
	return backend->type->projector->pose(backend, &what);
}

static tomos_status projector_part(
	tomos_op *part, const tomos_op *op, const int64_t *views, int64_t count)
{
	const Projector *whole = op->own;
	Projector *own = part->own;
	own->forward = whole->forward;
	own->back = whole->back;
	return plan_part(&own->plan, &whole->plan, views, count);
}

static const OpType projector_type = {.apply = projector_apply,
	.free = projector_free,
	.part = projector_part,
	.row = projector_row,
	.adjoint_update = projector_adjoint_update,
	.residual = projector_residual,
	.row_sums = projector_row_sums,
	.list = projector_list,
	.pose = projector_pose};

/* A ray of every ray-driven kernel meets at most four voxels per plane of the longest axis. */
static int64_t row_most(const tomos_backend *backend, const tomos_grid *grid, KernelFamily family)
{
	int64_t longest = max64(grid->n[0], max64(grid->n[1], grid->n[2]));
	bool rows = backend->type->projector->row || backend->type->projector->list_rows;
	return family == FAMILY_RAY && rows ? 4 * (longest + 2) : 0;
}

static int64_t disjoint_in_all(const Plan *plan)
{
	int64_t apart = 0;
	for (int64_t i = 0; plan->model.planar && i < plan->scan->count; i++)
		apart = max64(apart, plan_disjoint_columns(plan, i));
	return apart;
}

tomos_status projector_choose(
	const tomos_projector_options *o, int *forward, int *back, KernelModel *model)
{
	int index;
	bool same = !o->back || !*o->back;
	TRY(choice_find("forward projector", tomos_projector_names(), o->forward, forward));
	TRY(choice_find(
		"back projector", tomos_projector_names(), same ? o->forward : o->back, back));
	if (*forward >= KERNEL_COUNT || *back >= KERNEL_COUNT)
		return fail(TOMOS_UNSUPPORTED,
			"the projector '%s' is a pair of its own, in one process and not as a "
			"stored matrix",
			*forward >= KERNEL_COUNT ? o->forward : o->back);
	TRY(choice_find("boundary", projector_values.boundary, o->boundary, &index));
	model->clamp = index == 1;
	TRY(choice_find("voxel_interpolation", projector_values.voxel_interpolation,
		o->voxel_interpolation, &index));
	model->nearest = index == 1;
	return TOMOS_OK;
}

tomos_status tomos_op_projector(tomos_op **op, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_projector_options *options)
{
	*op = NULL;
	if (!backend || !grid || !scan)
		return fail(TOMOS_BAD_VALUE, "a projector needs a backend, a grid and a geometry");
	tomos_projector_options o = tomos_projector_defaults();
	TRY(options_take(&o, options, "projector"));
	const ProjectorPair *pair = projector_pair(&o);
	if (pair) {
		TRY(options_need("projector", &o, NULL));
		return pair->open(op, backend, grid, scan, &o);
	}
	Projector choice = {.forward = 0};
	KernelModel model = {.weight = WEIGHT_RAY};
	int data;
	TRY(projector_choose(&o, &choice.forward, &choice.back, &model));
	TRY(choice_find("data", projector_values.data, o.data, &data));
	TRY(options_need("projector", &o, NULL));
	TRY(tomos_grid_check(grid));
	int64_t domain[3] = {grid->n[2], grid->n[1], grid->n[0]};
	int64_t range[3] = {scan->count, scan->rows, scan->columns};
	tomos_op *made;
	TRY(op_make(&made, &projector_type, backend, domain, range, sizeof(Projector)));
	Projector *own = made->own;
	*own = choice;
	tomos_status status = plan_make(&own->plan, grid, scan, &model);
	if (status != TOMOS_OK)
		return op_finish(op, made, status);
	own->plan.plain = o.plain != 0;
	own->plan.data = (PlanData)data;
	const KernelRow *forward = &kernel_rows[own->forward], *back = &kernel_rows[own->back];
	made->row_most = row_most(backend, grid, forward->family);
	made->disjoint_columns = disjoint_in_all(&own->plan);
	made->matched = strcmp(forward->weights, back->weights) == 0;
	snprintf(made->description, sizeof made->description, "%s forward, %s back: %s",
		forward->name, back->name, made->matched ? "a matched pair" : "not matched");
	op_place(made, grid, scan, &model);
	*op = made;
	return TOMOS_OK;
}
