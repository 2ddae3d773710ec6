/* Filtered back projection: parallel rays, fan beam, and cone beam after Feldkamp.
 *
 * A. C. Kak, M. Slaney 1988, ch. 3; L. A. Feldkamp, L. C. Davis, J. W. Kress 1984; Okitsu et al.,
 * eqs. (1)-(8). For each view: rows weighted by the cosine of the ray, by the view's share of the
 * circle and by the redundancy of the ray, filtered, and back projected with 1 / depth^2.
 */
#include <math.h>
#include <string.h>
#include "algo/analytic.h"

OPTION_VALUES(analytic_values, TOMOS_ANALYTIC_OPTIONS);

/* Everything known before the first view is touched. */
typedef struct {
	tomos_backend *backend;
	tomos_geometry *aligned;
	double *maps;
	int64_t before; /* columns that widen() put before the first */
	Circle circle;
	Plan plan;
	FilterSpec spec;
	Filter *filter;
	double *kernel;
	bool at_once;  /* filtered and back projected by one verb */
	int64_t chunk; /* views at a time */
	float *filtered, *weights;
	FilterView *views;
	Filter *weighting; /* transpose: the weights by themselves, after the filter */
	float *smooth;
} Work;

/* The detector that the filtered rows belong to: `fine` columns for each one. */
static tomos_status make_plan(
	Work *w, const tomos_grid *grid, bool nearest, int fine, PlanData data)
{
	const tomos_geometry *a = w->aligned;
	tomos_geometry *scan;
	KernelModel model = {.nearest = nearest, .weight = WEIGHT_DEPTH};
	TRY(tomos_geometry_views(&scan, a->rows, filter_columns(&w->spec), a->views, a->count));
	for (int64_t i = 0; i < scan->count; i++)
		for (int j = 0; j < 3; j++)
			scan->views[i].u[j] /= fine;
	tomos_status status = plan_make(&w->plan, grid, scan, &model);
	w->plan.data = data;
	tomos_geometry_free(scan);
	return status;
}

/* An offset detector sees one side of the axis farther than the other. What its filtered rows hold
 * beyond the short side belongs to the image too, so they are made as wide on both. */
static void widen(Work *w)
{
	tomos_geometry *a = w->aligned;
	const Circle *circle = &w->circle;
	double spacing = circle->views[0].spacing;
	if (circle->cover != COVER_FULL_TURN)
		return;
	double wider = (circle->far_side - circle->near_side) / fabs(spacing);
	int64_t more = (int64_t)ceil(wider - 1e-6); /* an axis in the middle to rounding: none */
	w->before = (circle->far_sign > 0) == (spacing > 0) ? more : 0;
	double shift = w->before > 0 ? -0.5 * (double)more : 0.5 * (double)more;
	a->columns += more;
	for (int64_t i = 0; i < a->count; i++) {
		for (int j = 0; j < 3; j++)
			a->views[i].det[j] += shift * a->views[i].u[j];
		w->circle.views[i].axis += (double)w->before;
		if (w->maps) /* its columns are counted from the new first one */
			for (int j = 0; j < 9; j += 3)
				w->maps[9 * i + j + 2] -= (double)w->before * w->maps[9 * i + j];
	}
}

static tomos_status choose(
	Work *w, const tomos_grid *grid, int64_t seen, const tomos_analytic_options *o)
{
	int padding, interpolation, data;
	const tomos_geometry *a = w->aligned;
	TRY(choice_find("padding", analytic_values.padding, o->padding, &padding));
	TRY(choice_find(
		"interpolation", analytic_values.interpolation, o->interpolation, &interpolation));
	TRY(choice_find("data", analytic_values.data, o->data, &data));
	w->spec = (FilterSpec){.columns = a->columns,
		.seen = seen,
		.before = w->before,
		.padding = (Padding)padding,
		.margin = padding == PADDING_ZERO ? 0 : a->columns,
		.direct = o->filter_taps > 0,
		.oversample = interpolation == 2 ? 4 : 1};
	w->spec.taps = a->columns + w->spec.margin;
	if (o->filter_taps > 0)
		w->spec.taps = min64(w->spec.taps, o->filter_taps + 1);
	TRY(mem_alloc(&w->kernel, w->spec.taps, sizeof *w->kernel, "the filter's kernel"));
	TRY(window_kernel(w->kernel, w->spec.taps, o));
	w->spec.kernel = w->kernel[0] == 0 && !o->response ? NULL : w->kernel;
	return make_plan(w, grid, interpolation > 0, w->spec.oversample, (PlanData)data);
}

enum { CHUNK_ROWS = 32 };

/* Views filtered at a time. Sums over views are rounded chunk by chunk, so where rows stay in their
 * slices the chunk does not depend on how many rows there are: a slab comes out as the whole does. */
static int64_t chunk_views(const Work *w, const tomos_geometry *scan)
{
	if (w->at_once)
		return scan->count;
	bool apart = scan->views[0].src[3] != (int)TOMOS_POINT && w->aligned->rows > 1;
	int64_t image = (apart ? CHUNK_ROWS : w->aligned->rows) * filter_columns(&w->spec);
	return max64(1, min64(w->backend->type->chunk / image, scan->count));
}

/* The same on a device that has no room for them: half of what is free, since kernels that project them
 * keep something, too. */
static tomos_status fit_views(Work *w, int64_t image)
{
	const BackendType *type = w->backend->type;
	int64_t free_bytes;
	if (w->at_once || !type->memory->free_bytes)
		return TOMOS_OK;
	TRY(type->memory->free_bytes(w->backend, &free_bytes));
	w->chunk = max64(1, min64(w->chunk, free_bytes / 2 / (int64_t)sizeof(float) / image));
	return TOMOS_OK;
}

static tomos_status prepare(Work *w, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_analytic_options *o, bool transposed)
{
	TRY(align_views(&w->aligned, &w->maps, scan));
	TRY(circle_make(&w->circle, w->aligned));
	widen(w);
	TRY(choose(w, grid, scan->columns, o));
	TRY(w->backend->type->filter->open(w->backend, &w->filter, &w->spec));
	int64_t image = w->aligned->rows * filter_columns(&w->spec);
	w->at_once = w->backend->type->filter->back_project && !w->maps && !transposed;
	w->chunk = chunk_views(w, scan);
	TRY(fit_views(w, image));
	if (!w->at_once)
		TRY(w->backend->type->memory->alloc(
			w->backend, &w->filtered, w->chunk * image, "filtered views"));
	TRY(mem_alloc(
		&w->weights, w->chunk * w->spec.columns, sizeof(float), "weights of columns"));
	return mem_alloc(&w->views, w->chunk, sizeof *w->views, "weights of views");
}

static void finish(Work *w)
{
	if (w->filtered)
		w->backend->type->memory->release(w->backend, w->filtered);
	if (w->smooth)
		w->backend->type->memory->release(w->backend, w->smooth);
	if (w->filter)
		w->backend->type->filter->close(w->backend, w->filter);
	if (w->weighting)
		w->backend->type->filter->close(w->backend, w->weighting);
	mem_free(w->weights);
	mem_free(w->views);
	mem_free(w->kernel);
	mem_free(w->maps);
	plan_free(&w->plan);
	circle_free(&w->circle);
	tomos_geometry_free(w->aligned);
}

/* The kernel is for pixels of width 1, so the filter brings 1 / spacing; depth is 1 at the detector,
 * where Feldkamp's weight is (distance / detector)^2. */
static void weigh(Work *w, int64_t i, FilterView *view, float *weights)
{
	const CircleView *c = &w->circle.views[i];
	double scale = w->spec.kernel ? 1 / fabs(c->spacing) : 1;
	if (c->distance > 0)
		scale *= c->distance * c->distance / (c->detector * c->detector);
	for (int64_t j = 0; j < w->spec.columns; j++)
		weights[j] = (float)(scale * circle_weight(&w->circle, i,
						     ((double)j - c->axis) * c->spacing));
	*view = (FilterView){.distance = c->detector,
		.foot_column = c->axis,
		.foot_row = c->row,
		.du = c->du,
		.dv = w->plan.model.planar ? 0 : c->dv,
		.column_weight = weights,
		.mapped = w->maps != NULL,
		.fans = view_fans(&w->aligned->views[i])};
	if (w->maps)
		memcpy(view->map, w->maps + 9 * i, sizeof view->map);
}

typedef struct {
	Work *work;
	int64_t first;
} Weighing;

static void weigh_one(void *user, int64_t i)
{
	const Weighing *weighing = user;
	Work *w = weighing->work;
	weigh(w, weighing->first + i, &w->views[i], w->weights + i * w->spec.columns);
}

static void weigh_chunk(Work *w, int64_t first, int64_t count)
{
	parallel_for(count, weigh_one, &(Weighing){w, first});
}

static tomos_status filter_back(
	Work *w, const float *in, const ProjectRequest *what, const char *name)
{
	const BackendType *type = w->backend->type;
	tomos_status status = TOMOS_OK;
	cancel_begin();
	if (w->at_once) {
		status = type->filter->back_project(w->backend, w->filter, w->views, in, what);
	} else {
		status = type->filter->apply(w->backend, w->filter, what->count, w->aligned->rows,
			w->views, in, w->filtered);
		if (status == TOMOS_OK)
			status = type->projector->apply(w->backend, what);
	}
	return cancel_end(status, name);
}

static tomos_status reconstruct(
	Work *w, const float *projections, float *volume, const char *name, const tomos_progress *p)
{
	int64_t count = w->aligned->count, pixels = w->aligned->rows * w->spec.seen;
	ProjectRequest what = {.plan = &w->plan,
		.kernel = KERNEL_voxel,
		.direction = ADJOINT,
		.volume = volume,
		.projections = w->filtered};
	memcpy(what.box.high, w->plan.grid.n, sizeof what.box.high);
	for (what.first = 0; what.first < count; what.first += what.count) {
		what.count = min64(w->chunk, count - what.first);
		weigh_chunk(w, what.first, what.count);
		what.overwrite = what.first == 0;
		TRY(filter_back(w, projections + what.first * pixels, &what, name));
		TRY(progress_report(p, name, what.first + what.count, count, 0));
	}
	return TOMOS_OK;
}

/* What makes the filter another matrix than its transpose. */
static tomos_status check_transpose(const Work *w)
{
	const char *why = w->maps                           ? "with turned detectors"
			  : w->spec.columns != w->spec.seen ? "with an offset detector"
			  : w->spec.padding != PADDING_ZERO ? "with padding other than zero"
			  : w->spec.oversample > 1          ? "with oversampled interpolation"
							    : NULL;
	return why ? fail(TOMOS_UNSUPPORTED, "the transpose of fbp is not there for scans %s", why)
		   : TOMOS_OK;
}

static tomos_status prepare_transpose(Work *w)
{
	FilterSpec weighting = w->spec;
	TRY(check_transpose(w));
	weighting.kernel = NULL;
	TRY(w->backend->type->filter->open(w->backend, &w->weighting, &weighting));
	return w->backend->type->memory->alloc(w->backend, &w->smooth,
		w->chunk * w->aligned->rows * w->spec.columns, "filtered views");
}

/* The kernel is even, so each step but the back projection is its own transpose: the steps in turn. */
static tomos_status transpose(
	Work *w, float *projections, float *volume, const char *name, const tomos_progress *p)
{
	const BackendType *type = w->backend->type;
	int64_t count = w->aligned->count, pixels = w->aligned->rows * w->spec.columns;
	FilterView *views = w->views;
	ProjectRequest what = {.plan = &w->plan,
		.kernel = KERNEL_voxel,
		.direction = FORWARD,
		.volume = volume,
		.projections = w->filtered,
		.overwrite = true};
	memcpy(what.box.high, w->plan.grid.n, sizeof what.box.high);
	for (what.first = 0; what.first < count; what.first += what.count) {
		what.count = min64(w->chunk, count - what.first);
		cancel_begin();
		TRY(cancel_end(type->projector->apply(w->backend, &what), name));
		for (int64_t i = 0; i < what.count * w->spec.columns; i++)
			w->weights[i] = 1;
		for (int64_t i = 0; i < what.count; i++)
			views[i] = (FilterView){.column_weight = w->weights + i * w->spec.columns};
		TRY(type->filter->apply(w->backend, w->filter, what.count, w->aligned->rows, views,
			w->filtered, w->smooth));
		weigh_chunk(w, what.first, what.count);
		TRY(type->filter->apply(w->backend, w->weighting, what.count, w->aligned->rows,
			views, w->smooth, projections + what.first * pixels));
		TRY(progress_report(p, name, what.first + what.count, count, 0));
	}
	return TOMOS_OK;
}

static tomos_status analytic(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *projections, const tomos_array *volume,
	const tomos_analytic_options *options, const char *name, const tomos_progress *progress,
	bool transposed)
{
	VectorUse data = transposed ? VECTOR_OUT : VECTOR_IN;
	VectorUse image = transposed ? VECTOR_IN : VECTOR_OUT;
	if (!backend || !grid || !scan)
		return fail(TOMOS_BAD_VALUE, "%s needs a backend, a grid and a geometry", name);
	TRY(tomos_grid_check(grid));
	tomos_analytic_options o = tomos_analytic_defaults();
	TRY(options_take(&o, options, "analytic"));
	TRY(options_need("analytic", &o, NULL));
	Space from = {backend, {scan->count, scan->rows, scan->columns}, 0};
	Space to = {backend, {grid->n[2], grid->n[1], grid->n[0]}, 0};
	TRY(shape_count(from.shape, &from.count));
	TRY(shape_count(to.shape, &to.count));
	Work w = {.backend = backend};
	Vector b = {0}, x = {0};
	tomos_status status, returned;
	TRY_OR_DONE(prepare(&w, grid, scan, &o, transposed));
	TRY_OR_DONE(vector_borrow(&b, &from, projections, data, "the projections"));
	TRY_OR_DONE(vector_borrow(&x, &to, volume, image, "the volume"));
	TRY_OR_DONE(arrays_apart(projections, "the projections", volume, "the volume"));
	if (transposed) {
		TRY_OR_DONE(prepare_transpose(&w));
		TRY_OR_DONE(transpose(&w, b.data, x.data, name, progress));
	} else {
		TRY_OR_DONE(reconstruct(&w, b.data, x.data, name, progress));
	}
done:
	returned = vector_return(&x, &to, status == TOMOS_OK ? image : VECTOR_IN);
	tomos_status kept = vector_return(&b, &from, status == TOMOS_OK ? data : VECTOR_IN);
	finish(&w);
	return status != TOMOS_OK ? status : returned != TOMOS_OK ? returned : kept;
}

tomos_status tomos_fbp(tomos_backend *backend, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_array *projections, const tomos_array *volume,
	const tomos_analytic_options *options, const tomos_progress *progress)
{
	return analytic(backend, grid, scan, projections, volume, options, "fbp", progress, false);
}

tomos_status tomos_fdk(tomos_backend *backend, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_array *projections, const tomos_array *volume,
	const tomos_analytic_options *options, const tomos_progress *progress)
{
	if (scan && !view_has_source(&scan->views[0]))
		return fail(
			TOMOS_UNSUPPORTED, "fdk is for point sources; parallel rays go with fbp");
	return analytic(backend, grid, scan, projections, volume, options, "fdk", progress, false);
}

tomos_status tomos_fbp_transpose(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *volume, const tomos_array *projections,
	const tomos_analytic_options *options, const tomos_progress *progress)
{
	return analytic(backend, grid, scan, projections, volume, options, "the transpose of fbp",
		progress, true);
}
