/* Filtered back projection: parallel rays, fan beam, and cone beam after Feldkamp.
 *
 * A. C. Kak, M. Slaney 1988, ch. 3; L. A. Feldkamp, L. C. Davis, J. W. Kress 1984; Okitsu et al.,
 * eqs. (1)-(8). For each view: rows weighted by the cosine of the ray, by the view's share of the
 * circle and by the redundancy of the ray, filtered, and back projected with 1 / depth^2.
 */
#include <math.h>
#include <string.h>
#include "algo/analytic.h"
#include "algo/metal.h"

OPTION_VALUES(analytic_values, TOMOS_ANALYTIC_OPTIONS);

/* Everything known before the first view is filtered. */
struct Analytic {
	tomos_geometry *aligned;
	double *maps;
	int64_t before; /* columns that widen() has put before the first */
	Circle circle;
	FilteredParts parts;
	double *kernel;
	tomos_op *op;
	tomos_progress progress; /* of the data set being computed */
	Metal *metal;            /* NULL: none is looked for */
	tomos_backend *backend;
	tomos_grid grid;
};

/* An offset detector extends farther on one side of the axis. Its filtered rows are not zero beyond
 * the short side, and contribute to the image there, so rows are widened to be symmetric. */
static void widen(Analytic *w)
{
	tomos_geometry *a = w->aligned;
	const Circle *circle = &w->circle;
	double spacing = circle->views[0].spacing;
	if (circle->cover != COVER_FULL_TURN)
		return;
	double wider = (circle->far_side - circle->near_side) / fabs(spacing);
	int64_t more = (int64_t)ceil(wider - 1e-6); /* none for an axis in the middle to rounding */
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

static tomos_status choose(Analytic *w, int64_t seen, const tomos_analytic_options *o)
{
	int padding, interpolation, data, by;
	const tomos_geometry *a = w->aligned;
	FilterSpec *spec = &w->parts.spec;
	TRY(choice_find("padding", analytic_values.padding, o->padding, &padding));
	TRY(choice_find(
		"interpolation", analytic_values.interpolation, o->interpolation, &interpolation));
	TRY(choice_find("data", analytic_values.data, o->data, &data));
	TRY(choice_find("by", analytic_values.by, o->by, &by));
	if (by == 1 && (interpolation > 0 || o->plain))
		return fail(TOMOS_UNSUPPORTED,
			"back projection by Fourier transforms has linear interpolation only, and "
			"no reference kernel; use 'by' direct");
	*spec = (FilterSpec){.columns = a->columns,
		.seen = seen,
		.before = w->before,
		.padding = (Padding)padding,
		.margin = padding == PADDING_ZERO ? 0 : a->columns,
		.direct = o->filter_taps > 0,
		.oversample = interpolation == 2 ? 4 : 1};
	spec->taps = a->columns + spec->margin;
	if (o->filter_taps > 0)
		spec->taps = min64(spec->taps, o->filter_taps + 1);
	TRY(mem_alloc(&w->kernel, spec->taps, sizeof *w->kernel, "the filter's kernel"));
	TRY(window_kernel(w->kernel, spec->taps, o));
	spec->kernel = w->kernel[0] == 0 && !o->response ? NULL : w->kernel;
	w->parts.nearest = interpolation > 0;
	w->parts.data = (PlanData)data;
	w->parts.plain = o->plain != 0;
	w->parts.fourier = by == 1;
	w->parts.aliases = by == 1 ? (int)o->aliases : 0;
	return TOMOS_OK;
}

/* The filter kernel is for pixels of width 1, so filtered rows are scaled by 1 / spacing. Back
 * projection weights by 1 / depth^2 with depth 1 at the detector; the factor (distance /
 * detector)^2 makes it Feldkamp's weight. */
static void weigh(const void *user, int64_t i, FilterView *view, float *weights)
{
	const Analytic *w = user;
	const CircleView *c = &w->circle.views[i];
	double scale = w->parts.spec.kernel ? 1 / fabs(c->spacing) : 1;
	if (c->distance > 0)
		scale *= c->distance * c->distance / (c->detector * c->detector);
	for (int64_t j = 0; j < w->parts.spec.columns; j++)
		weights[j] = (float)(scale * circle_weight(&w->circle, i,
						     ((double)j - c->axis) * c->spacing));
	view->column_weight = weights;
	view->of = (KernelRowView){.distance = c->detector,
		.foot_column = c->axis,
		.foot_row = c->row,
		.du = c->du,
		.dv = c->dv,
		.mapped = w->maps != NULL,
		.fans = view_fans(&w->aligned->views[i])};
	if (w->maps)
		memcpy(view->of.map, w->maps + 9 * i, sizeof view->of.map);
}

/* Leaves out other views, when the weights of all are known. */
static void keep_views(Analytic *w, const ViewRange *views)
{
	int64_t first = views->first;
	w->aligned->count = views->count;
	memmove(w->aligned->views, w->aligned->views + first,
		(size_t)views->count * sizeof *w->aligned->views);
	memmove(w->circle.views, w->circle.views + first,
		(size_t)views->count * sizeof *w->circle.views);
	if (w->maps)
		memmove(w->maps, w->maps + 9 * first, (size_t)views->count * 9 * sizeof *w->maps);
}

static tomos_status prepare(Analytic *w, tomos_backend *backend, const tomos_geometry *scan,
	const ViewRange *views, const tomos_analytic_options *o)
{
	TRY(align_views(&w->aligned, &w->maps, scan));
	TRY(circle_make(&w->circle, w->aligned));
	widen(w);
	TRY(choose(w, scan->columns, o));
	if (views)
		keep_views(w, views);
	w->parts.scan = w->aligned;
	w->parts.mapped = w->maps != NULL;
	w->parts.weigh = weigh;
	w->parts.user = w;
	w->parts.progress = &w->progress;
	return op_filtered(&w->op, backend, &w->parts);
}

static tomos_status check_sources(const char *method, const tomos_geometry *scan)
{
	if (strcmp(method, "fdk") == 0 && !view_has_source(&scan->views[0]))
		return fail(
			TOMOS_UNSUPPORTED, "fdk is for point sources; parallel rays go with fbp");
	return TOMOS_OK;
}

tomos_status analytic_open(Analytic **analytic, const char *method, tomos_backend *backend,
	const tomos_grid *grid, const tomos_geometry *scan, const ViewRange *views,
	const tomos_analytic_options *options)
{
	Analytic *made;
	*analytic = NULL;
	if (!backend || !grid || !scan)
		return fail(TOMOS_BAD_VALUE, "%s needs a backend, a grid and a geometry", method);
	TRY(check_sources(method, scan));
	TRY(tomos_grid_check(grid));
	tomos_analytic_options o = tomos_analytic_defaults();
	TRY(options_take(&o, options, "analytic"));
	TRY(options_need("analytic", &o, NULL));
	TRY(mem_zeroed(&made, 1, sizeof *made, "an analytic method"));
	made->parts = (FilteredParts){.grid = grid, .name = method};
	made->backend = backend;
	made->grid = *grid;
	tomos_status status = prepare(made, backend, scan, views, &o);
	int metal = 0;
	if (status == TOMOS_OK)
		status = choice_find("metal", analytic_values.metal, o.metal, &metal);
	if (status == TOMOS_OK && metal > 0)
		status = metal_open(&made->metal, method, backend, scan, &o);
	if (status == TOMOS_OK)
		*analytic = made;
	else
		analytic_close(made);
	return status;
}

void analytic_add_metal(const Analytic *w, MetalFound *sum)
{
	if (w->metal)
		metal_add_found(w->metal, sum);
}

void analytic_close(Analytic *w)
{
	if (!w)
		return;
	metal_close(w->metal);
	tomos_op_free(w->op);
	mem_free(w->kernel);
	mem_free(w->maps);
	circle_free(&w->circle);
	tomos_geometry_free(w->aligned);
	mem_free(w);
}

static void set_progress(Analytic *w, const tomos_progress *progress)
{
	w->progress = progress ? *progress : (tomos_progress){.report = NULL};
}

/* ---- metal ----------------------------------------------------------------------------------- */

/* Between an array of any kind and contiguous host memory. */
static tomos_status array_move(const Analytic *w, const tomos_array *array, float *host, bool out)
{
	const int64_t *n = array->shape;
	const tomos_array whole = tomos_array_of(host, n[0], n[1], n[2]);
	if (array->device != 0)
		return out ? tomos_array_copy(w->backend, &whole, array)
			   : tomos_array_copy(w->backend, array, &whole);
	for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
		float *value = array->data + i / (n[1] * n[2]) * array->stride[0] +
			       i / n[2] % n[1] * array->stride[1] + i % n[2] * array->stride[2];
		*(out ? value : &host[i]) = *(out ? &host[i] : value);
	}
	return TOMOS_OK;
}

/* The volume of corrected line integrals, with the metal of the uncorrected one. */
static tomos_status apply_metal(Analytic *w, float *p, float *plain, float *volume)
{
	const int64_t *n = w->grid.n;
	int64_t range[3];
	tomos_op_range(w->op, range);
	const tomos_array data = tomos_array_of(p, range[0], range[1], range[2]);
	const tomos_array first = tomos_array_of(plain, n[2], n[1], n[0]);
	const tomos_array second = tomos_array_of(volume, n[2], n[1], n[0]);
	TRY(tomos_op_adjoint(w->op, &data, &first));
	TRY(metal_reduce(w->metal, p));
	TRY(tomos_op_adjoint(w->op, &data, &second));
	metal_insert(w->metal, &w->grid, plain, volume);
	return TOMOS_OK;
}

static tomos_status without_metal(
	Analytic *w, const tomos_array *projections, const tomos_array *volume)
{
	int64_t range[3], domain[3], rays, voxels;
	float *p = NULL, *plain = NULL, *result = NULL;
	tomos_status status;
	tomos_op_range(w->op, range);
	tomos_op_domain(w->op, domain);
	TRY(shape_count(range, &rays));
	TRY(shape_count(domain, &voxels));
	TRY(array_check_on(w->backend->device, projections, "the projections", range, ARRAY_READ));
	TRY(array_check_on(w->backend->device, volume, "the volume", domain, ARRAY_WRITTEN));
	TRY_OR_DONE(mem_alloc(&p, rays, sizeof *p, "the projections"));
	TRY_OR_DONE(mem_alloc(&plain, voxels, sizeof *plain, "the volume with its artefacts"));
	TRY_OR_DONE(mem_alloc(&result, voxels, sizeof *result, "the volume"));
	TRY_OR_DONE(array_move(w, projections, p, false));
	TRY_OR_DONE(apply_metal(w, p, plain, result));
	TRY_OR_DONE(array_move(w, volume, result, true));
done:
	mem_free(p);
	mem_free(plain);
	mem_free(result);
	return status;
}

/* ---- running --------------------------------------------------------------------------------- */

tomos_status analytic_apply(Analytic *w, const tomos_array *projections, const tomos_array *volume,
	const tomos_progress *progress)
{
	set_progress(w, progress);
	return w->metal ? without_metal(w, projections, volume)
			: tomos_op_adjoint(w->op, projections, volume);
}

int64_t analytic_floats(const Analytic *w)
{
	return filtered_floats(w->op);
}

tomos_status analytic_filter(Analytic *w, const float *projections, float *filtered)
{
	return filtered_rows(w->op, projections, filtered);
}

tomos_status analytic_back(Analytic *w, const float *filtered, const Box *box, float *volume,
	const tomos_progress *progress)
{
	set_progress(w, progress);
	return filtered_back(w->op, filtered, box, volume);
}

/* ---- --by auto ------------------------------------------------------------------------------- */

typedef struct {
	tomos_backend *backend;
	const tomos_array *projections;
} RowOfArray;

static tomos_status read_row(void *user, int64_t row, float *data)
{
	const RowOfArray *from = user;
	const tomos_array *p = from->projections;
	const int64_t *stride = p->stride, columns = p->shape[2];
	for (int64_t i = 0; i < p->shape[0]; i++, data += columns) {
		float *line = p->data + i * stride[0] + row * stride[1];
		const tomos_array to = tomos_array_of(data, 1, 1, columns);
		tomos_array of = tomos_array_of(line, 1, 1, columns);
		of.device = p->device;
		if (p->device != 0)
			TRY(tomos_array_copy(from->backend, &of, &to));
		for (int64_t c = 0; p->device == 0 && c < columns; c++)
			data[c] = line[c * stride[2]];
	}
	return TOMOS_OK;
}

/* Replaces `auto` by the faster way. */
static tomos_status resolve_by(tomos_analytic_options *o, const char *method,
	tomos_backend *backend, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_array *projections)
{
	ByChoice choice = {.fourier = false};
	RowOfArray row = {backend, projections};
	if (!o->by || strcmp(o->by, "auto") != 0)
		return TOMOS_OK;
	TRY(options_need("analytic", o, NULL));
	if (backend && grid && scan && strcmp(method, "fbp") == 0) {
		const int64_t shape[3] = {scan->count, scan->rows, scan->columns};
		TRY(array_check_on(
			backend->device, projections, "the projections", shape, ARRAY_READ));
		TRY(fbp_choose_by(&choice, backend, grid, scan, o, read_row, &row));
	}
	o->by = choice.fourier ? "fourier" : "direct";
	o->aliases = choice.aliases;
	return TOMOS_OK;
}

static tomos_status analytic(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *projections, const tomos_array *volume,
	const tomos_analytic_options *options, const char *name, const tomos_progress *progress,
	bool transposed)
{
	Analytic *w;
	tomos_status status;
	tomos_analytic_options o = tomos_analytic_defaults();
	TRY(options_take(&o, options, "analytic"));
	TRY(resolve_by(&o, name, backend, grid, scan, projections));
	TRY(analytic_open(&w, name, backend, grid, scan, NULL, &o));
	set_progress(w, progress);
	if (transposed && w->metal)
		status = fail(TOMOS_UNSUPPORTED,
			"%s is not available with the reduction of metal artefacts", name);
	else if (transposed)
		status = tomos_op_forward(w->op, volume, projections);
	else
		status = analytic_apply(w, projections, volume, progress);
	analytic_close(w);
	return status;
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
	return analytic(backend, grid, scan, projections, volume, options, "fdk", progress, false);
}

tomos_status tomos_fbp_transpose(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *volume, const tomos_array *projections,
	const tomos_analytic_options *options, const tomos_progress *progress)
{
	return analytic(backend, grid, scan, projections, volume, options, "the transpose of fbp",
		progress, true);
}

const char *analytic_names(void)
{
#define ANALYTIC(name) "|" #name
	static const char names[] =
#include "algo/analytic.def"
		;
#undef ANALYTIC
	return names + 1;
}
