/* The projector of parallel rays in slices by Fourier transforms, as an operator. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "op/op.h"

/* ---- from a plan ----------------------------------------------------------------------------- */

/* Why the scan has no such projector; NULL: it has. */
static const char *not_in_slices(const Plan *plan)
{
	const RayClass *rays = &plan->rays;
	if (rays->source != TOMOS_PARALLEL)
		return "its rays are not parallel";
	if (plan->model.planar)
		return NULL;
	if (!rays_are(rays, RAYS_IN_SLICE))
		return "its rays do not stay in slices that are as high as detector rows";
	return rays->all.axis == 2 ? NULL : "its rays stay in slices across x or y, not z";
}

static tomos_status check(const tomos_backend *backend, const Plan *plan, double accuracy)
{
	const char *why = not_in_slices(plan);
	if (why)
		return fail(TOMOS_UNSUPPORTED,
			"Fourier transforms project parallel rays in slices, but of this scan %s; "
			"direct projection is possible",
			why);
	if (!backend->type->fourier)
		return fail(TOMOS_UNSUPPORTED,
			"the %s backend does not project by Fourier transforms; the cpu and cuda "
			"backends do",
			backend->type->name);
	if (!(accuracy >= FOURIER_FINEST && accuracy <= FOURIER_COARSEST))
		return fail(TOMOS_BAD_VALUE,
			"the accuracy of the projector 'fourier' is from %g to %g, not %g",
			FOURIER_FINEST, FOURIER_COARSEST, accuracy);
	return TOMOS_OK;
}

/* The weight of a line integral is the area of a voxel over the distance of the rays. */
static void fill_views(const Plan *plan, FourierResponse response, FourierView *views)
{
	const double *step = plan->whole.step;
	bool planar = plan->model.planar;
	for (int64_t i = 0; i < plan->scan->count; i++) {
		const KernelView *k = &plan->views[i];
		const RayView *rays = &plan->rays.views[i];
		views[i] = (FourierView){.column = {k->column[0], k->column[1], k->column[3]},
			.weight = response == RESPONSE_LINEAR
					  ? 1
					  : hypot(k->column[0] * step[1], k->column[1] * step[0]),
			.row = planar ? 0 : rays->row,
			.sign = planar ? 1 : rays->sign};
	}
}

/* The views are the caller's to free. */
static tomos_status make_spec(
	FourierSpec *spec, const Plan *plan, FourierResponse response, double accuracy)
{
	FourierView *views;
	TRY(mem_alloc(&views, plan->scan->count, sizeof *views, "the views"));
	fill_views(plan, response, views);
	*spec = (FourierSpec){.rows = plan->scan->rows,
		.columns = plan->scan->columns,
		.count = plan->scan->count,
		.views = views,
		.response = response,
		.accuracy = accuracy};
	memcpy(spec->n, plan->grid.n, sizeof spec->n);
	return TOMOS_OK;
}

static void free_spec(FourierSpec *spec)
{
	mem_free((FourierView *)(uintptr_t)spec->views);
}

tomos_status fourier_of_plan(Fourier **fourier, tomos_backend *backend, const Plan *plan,
	FourierResponse response, double accuracy)
{
	FourierSpec spec;
	TRY(check(backend, plan, accuracy));
	TRY(make_spec(&spec, plan, response, accuracy));
	tomos_status status = backend->type->fourier->open(backend, fourier, &spec);
	free_spec(&spec);
	return status;
}

/* ---- operator -------------------------------------------------------------------------------- */

typedef struct {
	Fourier *fourier;
	Plan plan;
	double accuracy;
} FourierOp;

static tomos_status fourier_apply(
	const tomos_op *op, Direction direction, float *volume, float *projections)
{
	const FourierOp *own = op->own;
	tomos_backend *backend = op->domain.backend;
	__atomic_store_n(&backend->kernel_of[direction], "fourier", __ATOMIC_RELAXED);
	return backend->type->fourier->apply(backend, own->fourier, direction, volume, projections);
}

static tomos_status fourier_forward(const tomos_op *op, const float *x, float *y)
{
	return fourier_apply(op, FORWARD, (float *)(uintptr_t)x, y);
}

static tomos_status fourier_adjoint(const tomos_op *op, const float *y, float *x)
{
	return fourier_apply(op, ADJOINT, x, (float *)(uintptr_t)y);
}

static void fourier_free(tomos_op *op)
{
	FourierOp *own = op->own;
	if (own->fourier)
		op->domain.backend->type->fourier->close(op->domain.backend, own->fourier);
	plan_free(&own->plan);
}

static tomos_status fourier_part(
	const tomos_op *op, tomos_op **part, const int64_t *views, int64_t count);

static tomos_status fourier_normal(const tomos_op *op, NormalRequest *request, tomos_op **normal)
{
	const FourierOp *own = op->own;
	FourierSpec spec;
	TRY(make_spec(&spec, &own->plan, RESPONSE_LINE, own->accuracy));
	tomos_status status = op_convolution(normal, &op->domain, &spec, request);
	free_spec(&spec);
	return status;
}

static const OpType fourier_type = {.forward = fourier_forward,
	.adjoint = fourier_adjoint,
	.free = fourier_free,
	.part = fourier_part,
	.normal = fourier_normal};

/* Takes the plan over, also if it fails. */
static tomos_status make(tomos_op **op, tomos_backend *backend, Plan *plan, double accuracy)
{
	const int64_t *n = plan->grid.n, domain[3] = {n[2], n[1], n[0]};
	const int64_t range[3] = {plan->scan->count, plan->scan->rows, plan->scan->columns};
	tomos_status status = op_make(op, &fourier_type, backend, domain, range, sizeof(FourierOp));
	if (status != TOMOS_OK) {
		plan_free(plan);
		return status;
	}
	FourierOp *own = (*op)->own;
	own->plan = *plan;
	own->accuracy = accuracy;
	status = fourier_of_plan(&own->fourier, backend, &own->plan, RESPONSE_LINE, accuracy);
	if (status != TOMOS_OK) {
		tomos_op_free(*op);
		*op = NULL;
		return status;
	}
	(*op)->matched = true;
	(*op)->entries = ENTRIES_SIGNED;
	snprintf((*op)->description, sizeof(*op)->description,
		"fourier forward, fourier back: a matched pair");
	return TOMOS_OK;
}

static tomos_status fourier_part(
	const tomos_op *op, tomos_op **part, const int64_t *views, int64_t count)
{
	const FourierOp *whole = op->own;
	Plan plan;
	TRY(plan_part(&plan, &whole->plan, views, count));
	TRY(make(part, op->domain.backend, &plan, whole->accuracy));
	op_resemble(*part, op);
	return TOMOS_OK;
}

tomos_status op_fourier(tomos_op **op, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, double accuracy)
{
	Plan plan;
	KernelModel model = {.weight = WEIGHT_RAY};
	TRY(plan_make(&plan, grid, scan, &model));
	TRY(make(op, backend, &plan, accuracy));
	op_place(*op, grid, scan, &model);
	return TOMOS_OK;
}
