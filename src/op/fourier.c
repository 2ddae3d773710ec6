/* The projector of parallel rays in slices by Fourier transforms, as an operator. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "op/op.h"

/* ---- from a plan ----------------------------------------------------------------------------- */

/* Why the scan has no such projector; NULL: it has. */
static const char *not_in_planes(const RayClass *rays, bool planar)
{
	if (rays->source != TOMOS_PARALLEL)
		return "its rays are not parallel";
	if (planar)
		return NULL;
	if (rays_are(rays, RAYS_IN_SLICE))
		return rays->all.axis == 2 ? NULL : "its rays stay in slices across x or y, not z";
	return rays_are(rays, RAYS_LEVEL | RAYS_IN_SHEET)
		       ? NULL
		       : "its rays do not stay in planes of constant z";
}

const char *fourier_rejects(const tomos_backend *backend, const RayClass *rays, bool planar)
{
	return backend->type->fourier ? not_in_planes(rays, planar) : "this backend has none";
}

bool fourier_has_aliases(const tomos_backend *backend)
{
	return backend->type->fourier && backend->type->fourier->aliases;
}

static tomos_status check(const tomos_backend *backend, const Plan *plan, double accuracy)
{
	const char *why = not_in_planes(&plan->rays, plan->model.planar);
	if (why)
		return fail(TOMOS_UNSUPPORTED,
			"Fourier transforms project parallel rays in slices, but of this scan %s; "
			"direct projection is possible",
			why);
	if (!backend->type->fourier)
		return fail(TOMOS_UNSUPPORTED,
			"the %s backend does not project by Fourier transforms; the cpu, cuda and "
			"opencl backends do",
			backend->type->name);
	if (!(accuracy >= FOURIER_FINEST && accuracy <= FOURIER_COARSEST))
		return fail(TOMOS_BAD_VALUE,
			"the accuracy of the projector 'fourier' is from %g to %g, not %g",
			FOURIER_FINEST, FOURIER_COARSEST, accuracy);
	return TOMOS_OK;
}

/* Between slices that are not as high as rows, line integrals are interpolated as by `joseph`, and
 * rows as by voxel-driven back projection. */
static void fill_heights(const Plan *plan, int64_t i, FourierResponse response, FourierView *view)
{
	const double *row = plan->views[i].row;
	const RayView *rays = &plan->rays.views[i];
	view->reach = view->step = 1;
	if (plan->model.planar)
		return;
	if (rays_are(&plan->rays, RAYS_IN_SLICE)) {
		view->row = (double)rays->row;
		view->step = rays->sign;
	} else {
		view->row = row[3];
		view->step = row[2];
		view->reach = response == RESPONSE_LINE ? fabs(row[2]) : 1;
	}
}

/* The weight of a line integral is the area of a voxel over the distance of the rays. */
static void fill_views(const Plan *plan, FourierResponse response, FourierView *views)
{
	const double *step = plan->whole.step;
	for (int64_t i = 0; i < plan->scan->count; i++) {
		const KernelView *k = &plan->views[i];
		views[i] = (FourierView){.column = {k->column[0], k->column[1], k->column[3]},
			.weight = response == RESPONSE_LINEAR
					  ? 1
					  : hypot(k->column[0] * step[1], k->column[1] * step[0])};
		fill_heights(plan, i, response, &views[i]);
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
	FourierResponse response, double accuracy, int aliases)
{
	FourierSpec spec;
	TRY(check(backend, plan, accuracy));
	if (aliases > 0 && !fourier_has_aliases(backend))
		return fail(TOMOS_UNSUPPORTED,
			"the %s backend has no aliases in back projection by Fourier transforms; "
			"the cpu backend has",
			backend->type->name);
	TRY(make_spec(&spec, plan, response, accuracy));
	spec.aliases = aliases;
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
	backend_ran(backend, direction, "fourier");
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

static tomos_status open_transform(tomos_op *op, double accuracy)
{
	FourierOp *own = op->own;
	own->accuracy = accuracy;
	return fourier_of_plan(
		&own->fourier, op->domain.backend, &own->plan, RESPONSE_LINE, accuracy, 0);
}

static tomos_status fourier_part(
	tomos_op *part, const tomos_op *op, const int64_t *views, int64_t count)
{
	const FourierOp *whole = op->own;
	FourierOp *own = part->own;
	TRY(plan_part(&own->plan, &whole->plan, views, count));
	return open_transform(part, whole->accuracy);
}

/* Weights of rays become factors of the views, unless they differ within a view. */
static tomos_status weigh_view(
	const Space *image, const float *rays, float *host, FourierView *view, bool *same)
{
	const tomos_array array = tomos_array_of(host, 1, 1, image->count);
	TRY(vector_download(image, rays, &array));
	for (int64_t i = 1; i < image->count && *same; i++)
		*same = host[i] == host[0];
	view->weight *= host[0];
	return TOMOS_OK;
}

static tomos_status weigh_views(const tomos_op *op, NormalRequest *request, FourierSpec *spec)
{
	FourierView *views = (FourierView *)(uintptr_t)spec->views;
	const int64_t pixels = spec->rows * spec->columns;
	const Space image = {
		.backend = op->range.backend, .shape = {1, 1, pixels}, .count = pixels};
	float *host;
	bool same = true;
	tomos_status status = TOMOS_OK;
	TRY(mem_alloc(&host, pixels, sizeof *host, "the weights of a view"));
	for (int64_t i = 0; i < spec->count && same && status == TOMOS_OK; i++)
		status = weigh_view(&image, request->rays + i * pixels, host, &views[i], &same);
	mem_free(host);
	if (!same)
		snprintf(request->why, sizeof request->why,
			"with --ray-weights that differ within a view A'A is no convolution");
	return status;
}

static tomos_status fourier_normal(const tomos_op *op, NormalRequest *request, tomos_op **normal)
{
	const FourierOp *own = op->own;
	FourierSpec spec;
	tomos_status status = TOMOS_OK;
	TRY(make_spec(&spec, &own->plan, RESPONSE_LINE, own->accuracy));
	if (request->rays)
		status = weigh_views(op, request, &spec);
	if (status == TOMOS_OK)
		status = op_convolution(normal, &op->domain, &spec, request);
	free_spec(&spec);
	return status;
}

static tomos_status fourier_adjoint_accurate(const tomos_op *op, const float *y, float *x)
{
	const FourierOp *own = op->own;
	tomos_backend *backend = op->domain.backend;
	Fourier *fourier;
	TRY(fourier_of_plan(&fourier, backend, &own->plan, RESPONSE_LINE, FOURIER_FINEST, 0));
	tomos_status status =
		backend->type->fourier->apply(backend, fourier, ADJOINT, x, (float *)(uintptr_t)y);
	backend->type->fourier->close(backend, fourier);
	return status;
}

static const OpType fourier_type = {.forward = fourier_forward,
	.adjoint = fourier_adjoint,
	.free = fourier_free,
	.part = fourier_part,
	.normal = fourier_normal,
	.adjoint_accurate = fourier_adjoint_accurate};

tomos_status op_fourier(tomos_op **op, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_projector_options *options)
{
	KernelModel model = {.weight = WEIGHT_RAY};
	tomos_op *made;
	TRY(tomos_grid_check(grid));
	const int64_t *n = grid->n, domain[3] = {n[2], n[1], n[0]};
	const int64_t range[3] = {scan->count, scan->rows, scan->columns};
	TRY(op_make(&made, &fourier_type, backend, domain, range, sizeof(FourierOp)));
	FourierOp *own = made->own;
	made->matched = true;
	made->entries = ENTRIES_SIGNED;
	snprintf(made->description, sizeof made->description,
		"fourier forward, fourier back: a matched pair");
	op_place(made, grid, scan, &model);
	tomos_status status = plan_make(&own->plan, grid, scan, &model);
	if (status == TOMOS_OK)
		status = open_transform(made, options->accuracy);
	return op_finish(op, made, status);
}
