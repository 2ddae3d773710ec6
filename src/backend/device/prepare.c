/* Preparation on devices: the order of the steps, fused where they are point-wise, and their
 * memory. */
#include "backend/device/prepare.h"

/* ---- opening --------------------------------------------------------------------------------- */

static tomos_status check(const PrepSpec *s)
{
	enum { MOST_VIEWS = 1 << 20, MOST_COLUMNS = 1 << 24 };
	const int64_t sorted = module_prepare.most_sorted;
	if (s->views > MOST_VIEWS || s->columns > MOST_COLUMNS)
		return fail(TOMOS_UNSUPPORTED,
			"%lld views of %lld columns are too many to prepare on the GPU",
			(long long)s->views, (long long)s->columns);
	if (s->rings == RINGS_VO && sorted > 0 && s->views > sorted)
		return fail(TOMOS_UNSUPPORTED,
			"ring removal 'vo' on the GPU is for up to %lld views, not %lld",
			(long long)sorted, (long long)s->views);
	return TOMOS_OK;
}

static void close_work(tomos_backend *b, PrepWork *w)
{
	if (!w)
		return;
	prep_lists_release(b, w);
	mem_free(w);
}

static tomos_status open_work(tomos_backend *b, PrepWork **work, const PrepSpec *spec)
{
	PrepWork *w;
	*work = NULL;
	TRY(check(spec));
	TRY(module_prepare.use(b));
	TRY(mem_zeroed(&w, 1, module_prepare.bytes, "a preparation"));
	w->spec = *spec;
	w->spec.flat_order = w->spec.begins = NULL;
	w->spec.light = NULL;
	w->spec.bad = NULL;
	w->spec.hardening = w->spec.shift_x = w->spec.shift_y = NULL;
	w->ring_columns = spec->columns;
	for (int i = 0; i < spec->count && spec->step[i] != PREP_rings; i++)
		if (spec->step[i] == PREP_bin)
			w->ring_columns = spec->columns / spec->bin;
	tomos_status status = prep_lists_send(b, w, spec);
	if (status != TOMOS_OK)
		close_work(b, w);
	else
		*work = w;
	return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static const PrepStep *step_of(const PrepSpec *s, int step)
{
	switch (step) {
	case PREP_bad_views:
		return &prep_bad_views;
	case PREP_zingers:
		return &prep_zingers;
	case PREP_rings:
		return module_prepare.rings[s->rings];
	case PREP_shift:
		return &prep_shift;
	case PREP_phase:
		return module_prepare.phase;
	default:
		return NULL;
	}
}

/* Scratch memory of a slab, in floats: the views, unless they fit into the result; fields and the
 * list of rows to be repaired; binned views; the largest of the steps. */
typedef struct {
	int64_t views, fields, rows, binned, step;
	int64_t area; /* beside it: phase_area */
} Layout;

static int64_t aligned(int64_t floats)
{
	return (floats + 63) / 64 * 64;
}

static int64_t fields_floats(const PrepSpec *s, int64_t rows)
{
	return s->groups ? (s->groups + 1) * rows * s->columns : 0;
}

static Layout layout_of(const PrepWork *w, int64_t rows, bool in_result)
{
	const PrepSpec *s = &w->spec;
	PrepData d = {NULL, s->views, rows, s->columns};
	Layout l = {.views = in_result ? 0 : aligned(prep_count(&d)),
		.fields = aligned(fields_floats(s, rows)),
		.rows = aligned(module_prepare.rows_floats(w, rows))};
	for (int i = 0; i < s->count; i++) {
		const PrepStep *step = step_of(s, s->step[i]);
		l.step = max64(l.step, step ? aligned(step->floats(w, &d)) : 0);
		if (s->step[i] == PREP_phase && module_prepare.phase_area)
			l.area = step->floats(w, &d);
		if (s->step[i] == PREP_bin) {
			d.rows /= s->bin;
			d.columns /= s->bin;
			l.binned = aligned(prep_count(&d));
		}
	}
	return l;
}

static int64_t layout_floats(const Layout *l)
{
	return l->views + l->fields + l->rows + l->binned + l->step;
}

static int64_t work_floats(tomos_backend *b, const PrepWork *w, int64_t rows)
{
	(void)b;
	Layout l = layout_of(w, rows, false);
	return layout_floats(&l) + l.area;
}

static tomos_status take_scratch(tomos_backend *b, PrepWork *w, int64_t floats)
{
	if (w->scratch_count >= floats)
		return TOMOS_OK;
	b->type->memory->release(b, w->scratch); /* kernels still use it, or are waited for */
	w->scratch = NULL;
	w->scratch_count = 0;
	TRY(b->type->memory->alloc(b, &w->scratch, floats, "the preparation"));
	w->scratch_count = floats;
	return TOMOS_OK;
}

/* Whether the prepared views are in the result without a copy. */
static bool fits_result(const PrepWork *w, const PrepSlab *slab)
{
	return w->spec.bin == 1 && !w->kept && slab->before == 0 &&
	       slab->rows == slab->views.shape[1] && slab->padded == slab->rows;
}

static StoredBlock as_stored(const PrepData *d)
{
	return (StoredBlock){.data = d->data,
		.type = STORED_FLOAT32,
		.shape = {d->views, d->rows, d->columns},
		.stride = {d->rows * d->columns, d->columns, 1},
		.scale = 1};
}

typedef struct {
	PrepWork *work;
	const PrepSlab *slab;
	PrepData data;
	float *fields, *binned, *scratch;
	int32_t *rows;
	bool loaded; /* the data are no longer as stored */
	bool finite; /* after flat-field correction, or a repair */
} Running;

static tomos_status load(tomos_backend *b, Running *r)
{
	if (r->loaded)
		return TOMOS_OK;
	r->loaded = true;
	TRY(module_prepare.convert(b, &r->slab->views, &r->data));
	if (!r->work->spec.integrals)
		return TOMOS_OK;
	r->finite = true;
	return module_prepare.repair(b, r->work, 0, &r->data, r->rows);
}

/* The point-wise steps from step i on, as far as they follow each other; returns their number. */
static int points_from(const PrepSpec *s, int i, PrepPoints *points)
{
	int first = i;
	*points = (PrepPoints){.normalize = false};
	if (s->step[i] == PREP_normalize) {
		points->normalize = points->raise = true;
		i++;
	}
	if (i < s->count && s->step[i] == PREP_log) {
		points->raise = points->log = true;
		i++;
	}
	if (i < s->count && s->step[i] == PREP_hardening) {
		points->harden = true;
		i++;
	}
	return i - first;
}

/* Averages of the groups of flats, then of the darks, or zeros. */
static tomos_status make_fields(
	tomos_backend *b, const PrepWork *w, const PrepSlab *slab, float *fields)
{
	const PrepSpec *s = &w->spec;
	int64_t plane = slab->views.shape[1] * slab->views.shape[2];
	for (int64_t g = 0; g < s->groups; g++) {
		PrepGroup group = {s->flat_order, w->begins[g], w->begins[g + 1] - w->begins[g],
			s->flat_median, fields + g * plane};
		TRY(module_prepare.average(b, &slab->flats, &group));
	}
	float *dark = fields + s->groups * plane;
	if (s->darks == 0)
		return b->type->vector->fill(b, plane, 0, dark);
	PrepGroup group = {NULL, 0, s->darks, s->flat_median, dark};
	return module_prepare.average(b, &slab->darks, &group);
}

static tomos_status run_normalize(tomos_backend *b, Running *r, PrepPoints points)
{
	const int64_t plane = r->data.rows * r->data.columns;
	StoredBlock counts = r->loaded ? as_stored(&r->data) : r->slab->views;
	const PrepNormalize n = {
		&counts, points, r->fields, r->fields + r->work->spec.groups * plane, r->rows};
	r->loaded = r->finite = true;
	TRY(make_fields(b, r->work, r->slab, r->fields));
	return module_prepare.normalize(b, r->work, &n, &r->data);
}

static tomos_status run_points(tomos_backend *b, Running *r, PrepPoints points)
{
	if (points.normalize)
		return run_normalize(b, r, points);
	TRY(load(b, r));
	if (points.log && !r->finite)
		TRY(module_prepare.repair(b, r->work, 1, &r->data, r->rows));
	r->finite = r->finite || points.log;
	return module_prepare.points(b, r->work, points, &r->data);
}

static tomos_status run_step(tomos_backend *b, Running *r, int step)
{
	PrepWork *w = r->work;
	TRY(load(b, r));
	if (step != PREP_bin)
		return step_of(&w->spec, step)->run(b, w, &r->data, r->scratch);
	const int64_t bin = w->spec.bin;
	PrepData binned = {r->binned, r->data.views, r->data.rows / bin, r->data.columns / bin};
	TRY(module_prepare.bin(b, bin, &r->data, &binned));
	r->data = binned;
	return TOMOS_OK;
}

static tomos_status run_steps(tomos_backend *b, Running *r)
{
	const PrepSpec *s = &r->work->spec;
	for (int i = 0; i < s->count;) {
		PrepPoints points;
		int count = points_from(s, i, &points);
		if (count > 0)
			TRY(run_points(b, r, points));
		else
			TRY(run_step(b, r, s->step[i]));
		i += max64(count, 1);
	}
	return load(b, r);
}

static tomos_status hand_over(
	tomos_backend *b, const PrepWork *w, const PrepData *in, const PrepSlab *slab)
{
	const PrepCopy to = {w->kept, in->views - (w->kept ? w->spec.bad_count : 0), slab->before,
		slab->rows, slab->padded, slab->out};
	return module_prepare.copy(b, &to, in);
}

static tomos_status run_work(tomos_backend *b, PrepWork *w, const PrepSlab *slab)
{
	const int64_t rows = slab->views.shape[1];
	bool in_result = fits_result(w, slab);
	TRY(module_prepare.use(b));
	if (rows > INT32_MAX / w->spec.views)
		return fail(TOMOS_UNSUPPORTED, "%lld rows of %lld views are too many for a slab",
			(long long)rows, (long long)w->spec.views);
	Layout l = layout_of(w, rows, in_result);
	TRY(take_scratch(b, w, layout_floats(&l)));
	float *fields = w->scratch + l.views, *list = fields + l.fields, *binned = list + l.rows;
	Running r = {.work = w,
		.slab = slab,
		.data = {in_result ? slab->out : w->scratch, w->spec.views, rows, w->spec.columns},
		.fields = fields,
		.binned = binned,
		.scratch = binned + l.binned,
		.rows = (int32_t *)(void *)list};
	TRY(run_steps(b, &r));
	w->bad_views = w->spec.bad_count;
	return in_result ? TOMOS_OK : hand_over(b, w, &r.data, slab);
}

static tomos_status report_work(tomos_backend *b, PrepWork *w, tomos_prep_report *report)
{
	unsigned long long found[FOUND_KINDS];
	TRY(module_prepare.use(b));
	TRY(module_prepare.collect(b, w, found));
	report->repaired += (int64_t)found[FOUND_REPAIRED];
	report->raised += (int64_t)found[FOUND_RAISED];
	report->zingers += (int64_t)found[FOUND_ZINGERS];
	report->stripes += (int64_t)found[FOUND_STRIPES];
	report->views = max64(report->views, w->bad_views); /* the same in each part */
	w->bad_views = 0;
	return TOMOS_OK;
}

const BackendPrepare device_prepare = {
	.open = open_work,
	.close = close_work,
	.floats = work_floats,
	.run = run_work,
	.report = report_work,
};
