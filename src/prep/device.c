/* Preparation on a device: options resolved into numbers, and the checks that the steps do in host
 * memory. */
#include "prep/device.h"
#include <string.h>
#include "prep/flats.h"
#include "prep/order.h"
#include "prep/prep.h"
#include "prep/views.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

struct DevicePrep {
	tomos_backend *backend;
	PrepWork *work;
	tomos_prep_options options; /* as the steps see them */
	PrepScan scan;
	PrepSpec spec; /* its lists are freed after opening */
	double wedge[WEDGE_TERMS];
};

/* ---- numbers of the steps -------------------------------------------------------------------- */

/* Lists that belong to a spec until the backend has copied them. */
typedef struct {
	int32_t *order, *begins;
	PrepLight *light;
	bool *bad;
	unsigned char *marks;
} Lists;

static void lists_free(Lists *l)
{
	mem_free(l->order);
	mem_free(l->begins);
	mem_free(l->light);
	mem_free(l->bad);
	mem_free(l->marks);
}

static tomos_status fill_light(
	Lists *l, PrepSpec *s, const PrepScan *scan, const FlatGroups *f, int drift)
{
	TRY(mem_alloc(&l->order, f->count, sizeof *l->order, "the order of the flats"));
	TRY(mem_alloc(&l->begins, f->groups + 1, sizeof *l->begins, "the groups of the flats"));
	TRY(mem_alloc(&l->light, scan->views, sizeof *l->light, "the flats of each view"));
	for (int64_t i = 0; i < f->count; i++)
		l->order[i] = (int32_t)f->order[i].image;
	for (int64_t g = 0; g <= f->groups; g++)
		l->begins[g] = (int32_t)f->begins[g];
	for (int64_t view = 0; view < scan->views; view++) {
		int64_t group[2];
		float share;
		flats_between(f, (double)view, drift, group, &share);
		l->light[view] = (PrepLight){{(int32_t)group[0], (int32_t)group[1]}, share};
	}
	s->groups = f->groups;
	s->flat_order = l->order;
	s->begins = l->begins;
	s->light = l->light;
	return TOMOS_OK;
}

static tomos_status set_normalize(
	PrepSpec *s, Lists *l, const tomos_prep_options *o, const PrepScan *scan)
{
	int average, drift;
	FlatGroups groups;
	if (scan->flats == 0)
		return fail(TOMOS_BAD_VALUE, "there are no flats to normalize the counts with");
	if (max64(scan->flats, scan->darks) > INT32_MAX)
		return fail(TOMOS_UNSUPPORTED, "%lld flats and %lld darks are too many",
			(long long)scan->flats, (long long)scan->darks);
	TRY(choice_find("flat-average", prep_values.flat_average, o->flat_average, &average));
	TRY(choice_find("drift", prep_values.drift, o->drift, &drift));
	TRY(flats_check(scan->flat_views, scan->flats));
	s->flat_median = average == 1;
	TRY(flats_group(&groups, scan->flats, drift == 2 ? NULL : scan->flat_views));
	tomos_status status = fill_light(l, s, scan, &groups, drift);
	flats_free(&groups);
	return status;
}

static tomos_status set_bad_views(PrepSpec *s, Lists *l, const tomos_prep_options *o, int64_t views)
{
	TRY(views_mark(o, views, &l->bad, &s->bad_count));
	TRY(mem_alloc(&l->marks, views, sizeof *l->marks, "the list of bad views"));
	for (int64_t i = 0; i < views; i++)
		l->marks[i] = l->bad[i];
	s->bad = l->marks;
	s->leave_out = o->leave_out;
	return TOMOS_OK;
}

static tomos_status set_zingers(PrepSpec *s, const tomos_prep_options *o)
{
	int where;
	TRY(choice_find("zingers", prep_values.zingers, o->zingers, &where));
	TRY(zingers_check(o));
	s->zingers_space = where & 1;
	s->zingers_time = where & 2;
	s->zinger_size = o->zinger_size;
	s->zinger_level = (float)o->zinger_level;
	return TOMOS_OK;
}

static tomos_status set_rings(
	PrepSpec *s, const tomos_prep_options *o, int64_t views, int64_t columns)
{
	int method, moments;
	TRY(rings_check(o, views, columns, &method));
	if (strcmp(o->rings, "pixels") == 0)
		return fail(TOMOS_UNSUPPORTED, "rings 'pixels' are removed in host memory");
	TRY(choice_find("wavelet", prep_values.ring_wavelet, o->ring_wavelet, &moments));
	s->rings = (PrepRings)method;
	s->ring_large = ring_vo_large(o, columns);
	s->ring_small = ring_vo_small(o, columns);
	s->ring_snr = o->ring_snr;
	s->ring_taps = 2 * (moments + 1);
	s->ring_levels = (int)o->ring_levels;
	s->ring_sigma = o->ring_sigma;
	s->ring_alpha = o->ring_alpha;
	if (s->rings == RINGS_WAVELET)
		wavelet_make(moments + 1, s->ring_low, s->ring_high);
	return TOMOS_OK;
}

static tomos_status set_shift(PrepSpec *s, const tomos_prep_options *o)
{
	int by;
	TRY(shift_count_check("shift-x", o->shift_x_count, s->views));
	TRY(shift_count_check("shift-y", o->shift_y_count, s->views));
	TRY(choice_find("shift-by", prep_values.shift_by, o->shift_by, &by));
	s->shift_x = o->shift_x;
	s->shift_y = o->shift_y;
	s->shift_x_count = o->shift_x_count;
	s->shift_y_count = o->shift_y_count;
	s->shift_cubic = by == 1;
	return TOMOS_OK;
}

/* `bin`: of the steps before this one; updated. */
static tomos_status set_step(
	PrepSpec *s, Lists *l, tomos_prep_options *o, const PrepScan *scan, int step, int64_t *bin)
{
	switch (step) {
	case PREP_normalize:
		if (*bin > 1) /* whose message says so: flats are not binned */
			return fail(TOMOS_UNSUPPORTED, "binned counts are left to host memory");
		return set_normalize(s, l, o, scan);
	case PREP_bad_views:
		return set_bad_views(s, l, o, scan->views);
	case PREP_zingers:
		return set_zingers(s, o);
	case PREP_rings:
		return set_rings(s, o, scan->views, scan->columns / *bin);
	case PREP_shift:
		return set_shift(s, o);
	case PREP_phase:
		return phase_strength(o, &s->phase_strength);
	case PREP_hardening:
		s->hardening = o->hardening;
		s->hardening_count = o->hardening_count;
		return TOMOS_OK;
	case PREP_bin:
		*bin = s->bin = o->bin;
		o->pixel *= (double)o->bin;
		return views_bin_check(o->bin, (int64_t[]){1, o->bin, scan->columns});
	default:
		return TOMOS_OK;
	}
}

static tomos_status make_spec(PrepSpec *s, Lists *l, tomos_prep_options *o, const PrepScan *scan)
{
	const tomos_array some = tomos_array_of(NULL, scan->flats, 1, scan->columns);
	const tomos_fields fields = {.bytes = sizeof fields,
		.flats = scan->flats > 0 ? &some : NULL,
		.flat_views = scan->flat_views};
	Order order;
	Quantity now;
	int64_t bin = 1;
	TRY(order_make(&order, o, &fields, &now));
	*s = (PrepSpec){.views = scan->views,
		.columns = scan->columns,
		.count = order.count,
		.integrals = now == INTEGRALS,
		.floor = (float)o->floor,
		.flats = scan->flats,
		.darks = scan->darks,
		.bin = 1};
	memcpy(s->step, order.step, sizeof s->step);
	if (order_has(&order, PREP_scatter))
		return fail(TOMOS_UNSUPPORTED, "scatter is subtracted in host memory");
	for (int i = 0; i < order.count; i++)
		TRY(set_step(s, l, o, scan, order.step[i], &bin));
	return TOMOS_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static tomos_status open_into(
	DevicePrep *p, const tomos_prep_options *options, const BackendPrepare *backend)
{
	Lists lists = {.order = NULL};
	TRY(prep_take(&p->options, options));
	TRY(wedge_take(&p->options, p->wedge));
	tomos_status status = make_spec(&p->spec, &lists, &p->options, &p->scan);
	if (status == TOMOS_OK)
		status = backend->open(p->backend, &p->work, &p->spec);
	lists_free(&lists);
	return status;
}

tomos_status device_prep_open(DevicePrep **prep, tomos_backend *backend,
	const tomos_prep_options *options, const PrepScan *scan)
{
	const BackendPrepare *prepare = backend->type->prepare;
	DevicePrep *p;
	*prep = NULL;
	if (!prepare)
		return fail(TOMOS_UNSUPPORTED, "the %s backend has no preparation of its own",
			backend->type->name);
	TRY(mem_zeroed(&p, 1, sizeof *p, "a preparation"));
	p->backend = backend;
	p->scan = *scan;
	tomos_status status = open_into(p, options, prepare);
	if (status != TOMOS_OK)
		mem_free(p);
	else
		*prep = p;
	return status;
}

void device_prep_close(DevicePrep *p)
{
	if (!p)
		return;
	p->backend->type->prepare->close(p->backend, p->work);
	mem_free(p);
}

int64_t device_prep_floats(const DevicePrep *p, int64_t rows)
{
	return p->backend->type->prepare->floats(p->backend, p->work, rows);
}

static tomos_status check_block(
	const StoredBlock *b, int64_t frames, const int64_t shape[3], const char *what)
{
	if (frames == 0 || (b->data && b->shape[0] == frames && b->shape[1] == shape[1] &&
				   b->shape[2] == shape[2]))
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"the shape of %s is %lld x %lld x %lld, expected %lld x %lld x %lld", what,
		(long long)b->shape[0], (long long)b->shape[1], (long long)b->shape[2],
		(long long)frames, (long long)shape[1], (long long)shape[2]);
}

/* The shift is checked where its step is: binned rows are fewer. */
static tomos_status check_shift(const DevicePrep *p, int64_t rows)
{
	int64_t bin = 1;
	for (int i = 0; i < p->spec.count; i++) {
		const int64_t shape[3] = {p->scan.views, rows / bin, p->scan.columns / bin};
		if (p->spec.step[i] == PREP_shift)
			return shift_check(&p->options, shape);
		bin = p->spec.step[i] == PREP_bin ? p->spec.bin : bin;
	}
	return TOMOS_OK;
}

tomos_status device_prep_run(DevicePrep *p, const PrepSlab *slab)
{
	const PrepScan *scan = &p->scan;
	const int64_t rows = slab->views.shape[1], shape[3] = {scan->views, rows, scan->columns};
	bool fields = p->spec.groups > 0;
	TRY(check_block(&slab->views, scan->views, shape, "the views"));
	TRY(check_block(&slab->flats, fields ? scan->flats : 0, shape, "the flats"));
	TRY(check_block(&slab->darks, fields ? scan->darks : 0, shape, "the darks"));
	TRY(views_bin_check(p->spec.bin, shape));
	TRY(check_shift(p, rows));
	if (slab->before < 0 || slab->rows < 1 || slab->padded < slab->rows ||
		slab->before > rows / p->spec.bin - slab->rows)
		return fail(TOMOS_BAD_VALUE,
			"%lld of %lld rows after the first %lld, of %lld prepared ones",
			(long long)slab->rows, (long long)slab->padded, (long long)slab->before,
			(long long)(rows / p->spec.bin));
	return p->backend->type->prepare->run(p->backend, p->work, slab);
}

tomos_status device_prep_report(DevicePrep *p, tomos_prep_report *report)
{
	tomos_prep_report found = {.bytes = sizeof found};
	TRY(p->backend->type->prepare->report(p->backend, p->work, &found));
	return report_add(report, &found);
}
