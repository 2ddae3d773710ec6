/* Filtered back projection as an operator, chunk by chunk of views. */
#include <string.h>
#include "op/filtered.h"

enum { CHUNK_ROWS = 32 };

/* Memory for one chunk of views. */
typedef struct {
	tomos_backend *backend;
	int64_t views;   /* of a chunk */
	float *filtered; /* NULL where the backend filters and back projects in one pass */
	float *weights;
	FilterView *view;
} Chunk;

typedef struct {
	FilteredParts parts;
	Plan plan;
	Filter *filter;
	Fourier *fourier; /* projects all views at once; NULL: the kernels of the plan do it */
	Chunk chunk;      /* of the adjoint, kept from one call to the next */
	bool weighted;    /* it has the weights of all views */
} Filtered;

/* Sums over views are rounded chunk by chunk. With in-slice rays the number of views of a chunk
 * therefore does not depend on the number of rows, so that a slab gets the same values as the whole
 * volume. */
static int64_t chunk_views(const Filtered *own, const tomos_backend *backend)
{
	const tomos_geometry *scan = own->plan.scan;
	bool in_slice = scan->views[0].src[3] != (int)TOMOS_POINT && scan->rows > 1;
	if (own->fourier)
		return scan->count;
	int64_t image = (in_slice ? CHUNK_ROWS : scan->rows) * scan->columns;
	return max64(1, min64(backend->type->chunk / image, scan->count));
}

/* Limits the chunk to half of the free device memory; projection kernels need some, too. */
static tomos_status fit_chunk(Chunk *c, int64_t image)
{
	const BackendMemory *memory = c->backend->type->memory;
	int64_t free_bytes;
	if (!memory->free_bytes)
		return TOMOS_OK;
	TRY(memory->free_bytes(c->backend, &free_bytes));
	c->views = max64(1, min64(c->views, free_bytes / 2 / (int64_t)sizeof(float) / image));
	return TOMOS_OK;
}

static tomos_status chunk_take(Chunk *c, const Filtered *own, tomos_backend *backend, bool one_pass)
{
	const tomos_geometry *scan = own->plan.scan;
	int64_t image = scan->rows * scan->columns, columns = own->parts.spec.columns;
	*c = (Chunk){.backend = backend, .views = scan->count};
	if (!one_pass) {
		c->views = chunk_views(own, backend);
		if (!own->fourier)
			TRY(fit_chunk(c, image));
		TRY(backend->type->memory->alloc(
			backend, &c->filtered, c->views * image, "filtered views"));
	}
	TRY(mem_alloc(&c->weights, c->views * columns, sizeof(float), "weights of columns"));
	return mem_alloc(&c->view, c->views, sizeof *c->view, "weights of views");
}

static void chunk_free(Chunk *c)
{
	if (c->backend && c->filtered)
		c->backend->type->memory->release(c->backend, c->filtered);
	mem_free(c->weights);
	mem_free(c->view);
}

typedef struct {
	const Filtered *own;
	const Chunk *chunk;
	int64_t first;
} Weighing;

static void weigh_one(void *user, int64_t i)
{
	const Weighing *w = user;
	const FilteredParts *parts = &w->own->parts;
	FilterView *view = &w->chunk->view[i];
	parts->weigh(parts->user, w->first + i, view, w->chunk->weights + i * parts->spec.columns);
	if (w->own->plan.model.planar)
		view->of.dv = 0;
}

static void weigh_chunk(const Filtered *own, const Chunk *c, const ProjectRequest *what)
{
	parallel_for(what->count, weigh_one, &(Weighing){own, c, what->first});
}

static ProjectRequest request(
	const Filtered *own, Direction direction, float *volume, float *filtered)
{
	ProjectRequest what = {.plan = &own->plan,
		.kernel = KERNEL_voxel,
		.direction = direction,
		.volume = volume,
		.projections = filtered};
	memcpy(what.box.high, own->plan.grid.n, sizeof what.box.high);
	return what;
}

static tomos_status project(const Filtered *own, tomos_backend *backend, const ProjectRequest *what)
{
	const BackendType *type = backend->type;
	if (!own->fourier)
		return type->projector->apply(backend, what);
	backend_ran(backend, what->direction, "fourier");
	return type->fourier->apply(
		backend, own->fourier, what->direction, what->volume, what->projections);
}

static tomos_status chunk_done(const Filtered *own, const ProjectRequest *what)
{
	return progress_report(own->parts.progress, own->parts.name, what->first + what->count,
		own->plan.scan->count, 0);
}

static tomos_status filter_back(
	const Filtered *own, const Chunk *c, const float *in, const ProjectRequest *what)
{
	const BackendType *type = c->backend->type;
	tomos_status status;
	cancel_begin();
	if (!c->filtered) {
		status = type->filter->back_project(c->backend, own->filter, c->view, in, what);
	} else {
		status = type->filter->apply(c->backend, own->filter, what->count,
			own->plan.scan->rows, c->view, in, c->filtered);
		if (status == TOMOS_OK)
			status = project(own, c->backend, what);
	}
	return cancel_end(status, own->parts.name);
}

/* Takes the memory of the adjoint at its first call; `whole`: for all views, without filtered
 * ones. */
static tomos_status chunk_keep(Filtered *own, tomos_backend *backend, bool whole)
{
	if (own->chunk.views > 0)
		return TOMOS_OK;
	tomos_status status = chunk_take(&own->chunk, own, backend, whole);
	if (status != TOMOS_OK) {
		chunk_free(&own->chunk);
		own->chunk = (Chunk){.views = 0};
	}
	return status;
}

static tomos_status filtered_adjoint(const tomos_op *op, const float *y, float *x)
{
	Filtered *own = op->own;
	const tomos_geometry *scan = own->plan.scan;
	int64_t pixels = op->range.shape[1] * op->range.shape[2];
	Chunk *c = &own->chunk;
	TRY(chunk_keep(own, op->domain.backend,
		op->domain.backend->type->filter->back_project && !own->parts.mapped &&
			!own->fourier));
	ProjectRequest what = request(own, ADJOINT, x, c->filtered);
	for (; what.first < scan->count; what.first += what.count) {
		what.count = min64(c->views, scan->count - what.first);
		what.overwrite = what.first == 0;
		if (!own->weighted)
			weigh_chunk(own, c, &what);
		own->weighted = c->views == scan->count;
		TRY(filter_back(own, c, y + what.first * pixels, &what));
		TRY(chunk_done(own, &what));
	}
	return TOMOS_OK;
}

int64_t filtered_floats(const tomos_op *op)
{
	const tomos_geometry *scan = ((const Filtered *)op->own)->plan.scan;
	return scan->count * scan->rows * scan->columns;
}

tomos_status filtered_rows(const tomos_op *op, const float *y, float *filtered)
{
	Filtered *own = op->own;
	tomos_backend *backend = op->domain.backend;
	const Chunk *c = &own->chunk;
	TRY(chunk_keep(own, backend, true));
	if (!own->weighted)
		weigh_chunk(own, c, &(ProjectRequest){.count = c->views});
	own->weighted = true;
	return backend->type->filter->apply(
		backend, own->filter, c->views, own->plan.scan->rows, c->view, y, filtered);
}

tomos_status filtered_back(const tomos_op *op, const float *filtered, const Box *box, float *x)
{
	const Filtered *own = op->own;
	tomos_backend *backend = op->domain.backend;
	const tomos_geometry *scan = own->plan.scan;
	int64_t most = chunk_views(own, backend), image = scan->rows * scan->columns;
	ProjectRequest what = request(own, ADJOINT, x, NULL);
	what.box = *box;
	for (; what.first < scan->count; what.first += what.count) {
		what.count = min64(most, scan->count - what.first);
		what.overwrite = what.first == 0;
		what.projections = (float *)(uintptr_t)filtered + what.first * image;
		cancel_begin();
		TRY(cancel_end(project(own, backend, &what), own->parts.name));
		TRY(chunk_done(own, &what));
	}
	return TOMOS_OK;
}

/* Why the filter is not its own transpose; NULL: it is. */
static const char *not_symmetric(const FilteredParts *p)
{
	return p->aliases > 0                    ? "with aliases of the interpolation"
	       : p->mapped                       ? "with rotated detectors"
	       : p->spec.columns != p->spec.seen ? "with an offset detector"
	       : p->spec.padding != PADDING_ZERO ? "with padding other than zero"
	       : p->spec.oversample > 1          ? "with oversampled interpolation"
						 : NULL;
}

/* One chunk of views of y = W F A x: `weighting` is the filter without its kernel. */
static tomos_status forward_chunk(const Filtered *own, const Chunk *c, const Filter *weighting,
	const ProjectRequest *what, float *smooth, float *y)
{
	const BackendType *type = c->backend->type;
	int64_t rows = own->plan.scan->rows, columns = own->parts.spec.columns;
	cancel_begin();
	TRY(cancel_end(project(own, c->backend, what), own->parts.name));
	for (int64_t i = 0; i < what->count * columns; i++)
		c->weights[i] = 1;
	for (int64_t i = 0; i < what->count; i++)
		c->view[i] = (FilterView){.column_weight = c->weights + i * columns};
	TRY(type->filter->apply(
		c->backend, own->filter, what->count, rows, c->view, c->filtered, smooth));
	weigh_chunk(own, c, what);
	return type->filter->apply(c->backend, weighting, what->count, rows, c->view, smooth,
		y + what->first * rows * columns);
}

/* The kernel is even, so filter and weights are their own transposes. */
static tomos_status filtered_forward(const tomos_op *op, const float *x, float *y)
{
	const Filtered *own = op->own;
	const char *why = not_symmetric(&own->parts);
	tomos_backend *backend = op->domain.backend;
	int64_t count = own->plan.scan->count;
	if (why)
		return fail(TOMOS_UNSUPPORTED, "%s is not available for scans %s", own->parts.name,
			why);
	FilterSpec spec = own->parts.spec;
	Filter *weighting = NULL;
	float *smooth = NULL;
	Chunk c;
	tomos_status status;
	spec.kernel = NULL;
	TRY_OR_DONE(chunk_take(&c, own, backend, false));
	TRY_OR_DONE(backend->type->filter->open(backend, &weighting, &spec));
	TRY_OR_DONE(backend->type->memory->alloc(
		backend, &smooth, c.views * own->plan.scan->rows * spec.columns, "filtered views"));
	ProjectRequest what = request(own, FORWARD, (float *)(uintptr_t)x, c.filtered);
	what.overwrite = true;
	for (; what.first < count; what.first += what.count) {
		what.count = min64(c.views, count - what.first);
		TRY_OR_DONE(forward_chunk(own, &c, weighting, &what, smooth, y));
		TRY_OR_DONE(chunk_done(own, &what));
	}
done:
	if (smooth)
		backend->type->memory->release(backend, smooth);
	if (weighting)
		backend->type->filter->close(backend, weighting);
	chunk_free(&c);
	return status;
}

static void filtered_free(tomos_op *op)
{
	Filtered *own = op->own;
	chunk_free(&own->chunk);
	if (own->filter)
		op->domain.backend->type->filter->close(op->domain.backend, own->filter);
	if (own->fourier)
		op->domain.backend->type->fourier->close(op->domain.backend, own->fourier);
	plan_free(&own->plan);
}

static const OpType filtered_type = {
	.forward = filtered_forward, .adjoint = filtered_adjoint, .free = filtered_free};

/* The scan with the columns of filtered rows, spec.oversample for each one. */
static tomos_status make_plan(Filtered *own)
{
	const FilteredParts *p = &own->parts;
	const tomos_geometry *a = p->scan;
	tomos_geometry *scan;
	KernelModel model = {.nearest = p->nearest, .weight = WEIGHT_DEPTH};
	TRY(tomos_geometry_views(&scan, a->rows, filter_columns(&p->spec), a->views, a->count));
	for (int64_t i = 0; i < scan->count; i++)
		for (int j = 0; j < 3; j++)
			scan->views[i].u[j] /= p->spec.oversample;
	tomos_status status = plan_make(&own->plan, p->grid, scan, &model);
	own->plan.data = p->data;
	own->plan.plain = p->plain;
	tomos_geometry_free(scan);
	return status;
}

static tomos_status make_fourier(Filtered *own, tomos_backend *backend)
{
	return own->parts.fourier ? fourier_of_plan(&own->fourier, backend, &own->plan,
					    RESPONSE_LINEAR, FBP_ACCURACY, own->parts.aliases)
				  : TOMOS_OK;
}

tomos_status op_filtered(tomos_op **op, tomos_backend *backend, const FilteredParts *parts)
{
	const int64_t *n = parts->grid->n, domain[3] = {n[2], n[1], n[0]};
	const int64_t range[3] = {parts->scan->count, parts->scan->rows, parts->spec.seen};
	tomos_status status;
	TRY(op_make(op, &filtered_type, backend, domain, range, sizeof(Filtered)));
	Filtered *own = (*op)->own;
	own->parts = *parts;
	TRY_OR_DONE(make_plan(own));
	TRY_OR_DONE(make_fourier(own, backend));
	TRY_OR_DONE(backend->type->filter->open(backend, &own->filter, &own->parts.spec));
	own->parts.grid = NULL;
	own->parts.scan = NULL;
	(*op)->matched = !not_symmetric(parts);
	(*op)->entries = ENTRIES_SIGNED;
	memcpy((*op)->description, "filtered back projection", sizeof "filtered back projection");
done:
	return op_finish(op, *op, status);
}
