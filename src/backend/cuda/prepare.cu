/* Preparation on the GPU: the order of the steps, fused where they are point-wise, and their
 * memory. */
#include "backend/cuda/prep.h"

/* ---- lists ----------------------------------------------------------------------------------- */

/* Copies a list to the device; *list then points there. */
static tomos_status send(tomos_backend *b, const void *host, int64_t bytes, void *list)
{
	float *device;
	TRY(b->type->memory->alloc(b, &device, (bytes + 3) / 4, "lists of the preparation"));
	*(void **)list = device;
	CUDA_TRY(cudaMemcpyAsync(
			 device, host, (size_t)bytes, cudaMemcpyHostToDevice, device_of(b)->stream),
		"sending lists of the preparation");
	return TOMOS_OK;
}

static tomos_status send_flats(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	PrepSpec *s = &w->spec;
	const int64_t size = sizeof(int32_t), ends = given->groups + 1;
	s->flat_order = NULL;
	s->light = NULL;
	if (given->groups == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&w->begins, ends, sizeof *w->begins, "the groups of the flats"));
	memcpy(w->begins, given->begins, (size_t)(ends * size));
	TRY(send(b, given->flat_order, given->flats * size, &s->flat_order));
	return send(b, given->light, given->views * (int64_t)sizeof(PrepLight), &s->light);
}

static int64_t next_good(const PrepSpec *s, int64_t view, int64_t step)
{
	while (view >= 0 && view < s->views && s->bad[view])
		view += step;
	return view;
}

/* The views around each bad one, and the views that are not omitted. */
static tomos_status send_views(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	PrepBridge *bridges;
	int32_t *kept;
	int64_t bad = 0, good = 0;
	tomos_status status;
	if (given->bad_count == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&bridges, given->bad_count, sizeof *bridges, "the bad views"));
	TRY_OR_DONE(mem_alloc(&kept, given->views, sizeof *kept, "the good views"));
	for (int64_t v = 0; v < given->views; v++) {
		if (!given->bad[v]) {
			kept[good++] = (int32_t)v;
			continue;
		}
		int64_t left = next_good(given, v, -1), right = next_good(given, v, 1);
		int64_t from = left < 0 ? right : left, to = right < given->views ? right : left;
		float share = to > from ? (float)(v - from) / (float)(to - from) : 0;
		bridges[bad++] = (PrepBridge){(int32_t)v, (int32_t)from, (int32_t)to, share};
	}
	status = send(b, bridges, bad * (int64_t)sizeof *bridges, &w->bridges);
	if (status == TOMOS_OK && given->leave_out)
		status = send(b, kept, good * (int64_t)sizeof *kept, &w->kept);
	mem_free(kept);
done:
	mem_free(bridges);
	return status;
}

/* As weights_of in prep/shift.c. */
static void shift_weights(double t, bool cubic, float *weight)
{
	const double taps[SHIFT_TAPS] = {cubic ? t * (-0.5 + t * (1 - 0.5 * t)) : 0,
		cubic ? 1 + t * t * (-2.5 + 1.5 * t) : 1 - t,
		cubic ? t * (0.5 + t * (2 - 1.5 * t)) : t, cubic ? t * t * (-0.5 + 0.5 * t) : 0};
	for (int k = 0; k < SHIFT_TAPS; k++)
		weight[k] = (float)taps[k];
}

static double shift_of(const double *list, int64_t count, int64_t view)
{
	return count == 0 ? 0 : list[count == 1 ? 0 : view];
}

static tomos_status send_shifts(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	PrepShift *shifts;
	if (given->shift_x_count == 0 && given->shift_y_count == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&shifts, given->views, sizeof *shifts, "shifts of views"));
	for (int64_t v = 0; v < given->views; v++) {
		double x = shift_of(given->shift_x, given->shift_x_count, v);
		double y = shift_of(given->shift_y, given->shift_y_count, v);
		PrepShift *s = &shifts[v];
		/* A shift beyond the detector is rejected before it is used. */
		s->column = (int32_t)fmax(fmin(floor(x), 1e9), -1e9) - 1;
		s->row = (int32_t)fmax(fmin(floor(y), 1e9), -1e9) - 1;
		s->moved = x != 0 || y != 0;
		shift_weights(x - floor(x), given->shift_cubic, s->across);
		shift_weights(y - floor(y), given->shift_cubic, s->along);
	}
	tomos_status status = send(b, shifts, given->views * (int64_t)sizeof *shifts, &w->shifts);
	mem_free(shifts);
	return status;
}

/* Factors of the Thomas algorithm for the system of prep/ring_titarenko.c, whose matrix is the same
 * for all sinograms. */
static tomos_status send_pivots(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	double *pivots;
	int64_t n = w->ring_columns;
	if (given->rings != RINGS_TITARENKO)
		return TOMOS_OK;
	TRY(mem_alloc(&pivots, 2 * n, sizeof *pivots, "the equations of ring removal"));
	for (int64_t i = 0; i < n; i++) {
		double ends = n == 1 ? 0 : i == 0 || i == n - 1 ? 1 : 2;
		double pivot = ends + given->ring_alpha + (i > 0 ? pivots[i - 1] : 0);
		pivots[i] = i + 1 < n ? -1 / pivot : 0;
		pivots[n + i] = 1 / pivot;
	}
	tomos_status status = send(b, pivots, 2 * n * (int64_t)sizeof *pivots, &w->pivots);
	mem_free(pivots);
	return status;
}

static tomos_status send_lists(tomos_backend *b, PrepWork *w, const PrepSpec *given)
{
	PrepSpec *s = &w->spec;
	const int64_t bytes = FOUND_KINDS * (int64_t)sizeof *w->found;
	const unsigned long long none[FOUND_KINDS] = {0};
	TRY(send(b, none, bytes, &w->found));
	TRY(send_flats(b, w, given));
	TRY(send_views(b, w, given));
	TRY(send_shifts(b, w, given));
	TRY(send_pivots(b, w, given));
	s->hardening = NULL;
	if (given->hardening_count == 0)
		return TOMOS_OK;
	return send(b, given->hardening, given->hardening_count * (int64_t)sizeof(double),
		&s->hardening);
}

/* ---- opening --------------------------------------------------------------------------------- */

static tomos_status check(const PrepSpec *s)
{
	enum { MOST_VIEWS = 1 << 20, MOST_COLUMNS = 1 << 24, MOST_SORTED = 1 << 13 };
	if (s->views > MOST_VIEWS || s->columns > MOST_COLUMNS)
		return fail(TOMOS_UNSUPPORTED,
			"%lld views of %lld columns are too many to prepare on the GPU",
			(long long)s->views, (long long)s->columns);
	if (s->rings == RINGS_VO && s->views > MOST_SORTED)
		return fail(TOMOS_UNSUPPORTED,
			"ring removal 'vo' on the GPU is for up to %d views, not %lld", MOST_SORTED,
			(long long)s->views);
	return TOMOS_OK;
}

static void cuda_prep_close(tomos_backend *b, PrepWork *w)
{
	if (!w)
		return;
	(void)cudaSetDevice(device_of(b)->number);
	void *held[] = {(void *)w->spec.flat_order, (void *)w->spec.light,
		(void *)w->spec.hardening, w->found, w->bridges, w->kept, w->shifts, w->pivots,
		w->scratch, w->area};
	for (int i = 0; i < COUNT(held); i++)
		cudaFree(held[i]);
	if (w->has_forth)
		cufftDestroy(w->forth);
	if (w->has_back)
		cufftDestroy(w->back);
	(void)cudaGetLastError();
	mem_free(w->begins);
	mem_free(w);
}

static tomos_status cuda_prep_open(tomos_backend *b, PrepWork **work, const PrepSpec *spec)
{
	PrepWork *w;
	*work = NULL;
	TRY(check(spec));
	TRY(cuda_use(b));
	TRY(mem_zeroed(&w, 1, sizeof *w, "a preparation"));
	w->spec = *spec;
	w->spec.flat_order = w->spec.begins = NULL;
	w->spec.light = NULL;
	w->spec.bad = NULL;
	w->spec.hardening = w->spec.shift_x = w->spec.shift_y = NULL;
	w->ring_columns = spec->columns;
	for (int i = 0; i < spec->count && spec->step[i] != PREP_rings; i++)
		if (spec->step[i] == PREP_bin)
			w->ring_columns = spec->columns / spec->bin;
	tomos_status status = send_lists(b, w, spec);
	if (status != TOMOS_OK)
		cuda_prep_close(b, w);
	else
		*work = w;
	return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static const CudaPrepStep *step_of(const PrepSpec *s, int step)
{
	static const CudaPrepStep *const rings[] = {
		NULL, &cuda_prep_vo, &cuda_prep_wavelet, &cuda_prep_titarenko};
	switch (step) {
	case PREP_bad_views:
		return &cuda_prep_bad_views;
	case PREP_zingers:
		return &cuda_prep_zingers;
	case PREP_rings:
		return rings[s->rings];
	case PREP_shift:
		return &cuda_prep_shift;
	case PREP_phase:
		return &cuda_prep_phase;
	default:
		return NULL;
	}
}

/* Scratch memory of a slab, in floats: the views, unless they fit into the result; fields and the
 * list of rows to be repaired; binned views; the largest of the steps. */
typedef struct {
	int64_t views, fields, rows, binned, step;
	int64_t area; /* beside it: work area of FFTs, of the size of the frames of a batch */
} Layout;

static int64_t aligned(int64_t floats)
{
	return (floats + 63) / 64 * 64;
}

static Layout layout_of(const PrepWork *w, int64_t rows, bool in_result)
{
	const PrepSpec *s = &w->spec;
	PrepData d = {NULL, s->views, rows, s->columns};
	Layout l = {.views = in_result ? 0 : aligned(prep_count(&d)),
		.fields = aligned(prep_fields_floats(w, rows)),
		.rows = aligned(prep_rows_floats(w, rows))};
	for (int i = 0; i < s->count; i++) {
		const CudaPrepStep *step = step_of(s, s->step[i]);
		l.step = max64(l.step, step ? aligned(step->floats(w, &d)) : 0);
		if (s->step[i] == PREP_phase)
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

static int64_t cuda_prep_floats(tomos_backend *b, const PrepWork *w, int64_t rows)
{
	(void)b;
	Layout l = layout_of(w, rows, false);
	return layout_floats(&l) + l.area;
}

static tomos_status take_scratch(tomos_backend *b, PrepWork *w, int64_t floats)
{
	if (w->scratch_count >= floats)
		return TOMOS_OK;
	b->type->memory->release(b, w->scratch); /* waits for kernels that still use it */
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
	TRY(prep_convert(b, r->work, &r->slab->views, &r->data));
	if (!r->work->spec.integrals)
		return TOMOS_OK;
	r->finite = true;
	return prep_repair(b, r->work, 0, &r->data);
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

static tomos_status run_points(tomos_backend *b, Running *r, PrepPoints points)
{
	PrepSlab slab = *r->slab;
	if (points.normalize) {
		if (r->loaded)
			slab.views = as_stored(&r->data);
		r->loaded = r->finite = true;
		return prep_normalize(b, r->work, &slab, points, &r->data, r->fields, r->rows);
	}
	TRY(load(b, r));
	if (points.log && !r->finite)
		TRY(prep_repair(b, r->work, 1, &r->data));
	r->finite = r->finite || points.log;
	return prep_points(b, r->work, points, &r->data);
}

static tomos_status run_step(tomos_backend *b, Running *r, int step)
{
	PrepWork *w = r->work;
	TRY(load(b, r));
	if (step != PREP_bin)
		return step_of(&w->spec, step)->run(b, w, &r->data, r->scratch);
	const int64_t bin = w->spec.bin;
	PrepData binned = {r->binned, r->data.views, r->data.rows / bin, r->data.columns / bin};
	TRY(prep_bin(b, bin, &r->data, &binned));
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

static tomos_status cuda_prep_run(tomos_backend *b, PrepWork *w, const PrepSlab *slab)
{
	const int64_t rows = slab->views.shape[1];
	bool in_result = fits_result(w, slab);
	TRY(cuda_use(b));
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
		.rows = (int32_t *)list};
	TRY(run_steps(b, &r));
	w->bad_views += w->spec.bad_count;
	return in_result ? TOMOS_OK : prep_hand_over(b, w, &r.data, slab);
}

static tomos_status cuda_prep_report(tomos_backend *b, PrepWork *w, tomos_prep_report *report)
{
	unsigned long long found[FOUND_KINDS];
	cudaStream_t stream = device_of(b)->stream;
	TRY(cuda_use(b));
	CUDA_TRY(cudaMemcpyAsync(found, w->found, sizeof found, cudaMemcpyDeviceToHost, stream),
		"reading the report of the preparation");
	CUDA_TRY(cudaMemsetAsync(w->found, 0, sizeof found, stream), "clearing a list");
	CUDA_TRY(cudaStreamSynchronize(stream), "the preparation");
	device_of(b)->counts.waits++;
	report->repaired += (int64_t)found[FOUND_REPAIRED];
	report->raised += (int64_t)found[FOUND_RAISED];
	report->zingers += (int64_t)found[FOUND_ZINGERS];
	report->stripes += (int64_t)found[FOUND_STRIPES];
	report->views += w->bad_views;
	w->bad_views = 0;
	return TOMOS_OK;
}

const BackendPrepare cuda_prepare = {
	.open = cuda_prep_open,
	.close = cuda_prep_close,
	.floats = cuda_prep_floats,
	.run = cuda_prep_run,
	.report = cuda_prep_report,
};
