/* Ring removal: table of the methods, applied to all sinograms in parallel. */
#include <stdatomic.h>
#include "prep/prep.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

/* For one sinogram after the other, or `all` for all rows together. */
typedef struct {
	tomos_status (*open)(RingJob *job);
	int64_t (*floats)(const RingJob *job);
	int64_t (*run)(const RingJob *job, float *sinogram, float *scratch);
	void (*close)(RingJob *job);
	tomos_status (*all)(const tomos_array *data);
} RingMethod;

typedef struct {
	RingJob job;
	const RingMethod *method;
	const tomos_array *data;
	_Atomic int64_t *stripes;
} Rings;

static void clean_row(const void *user, int64_t row, float *scratch)
{
	const Rings *r = user;
	int64_t size = (r->job.views * r->job.columns + 15) / 16 * 16;
	sinogram_get(r->data, row, scratch);
	*r->stripes += r->method->run(&r->job, scratch, scratch + size);
	sinogram_put(r->data, row, scratch);
}

static tomos_status window_check(const char *name, int64_t size)
{
	return size == 0 ? TOMOS_OK : prep_size(name, size);
}

static tomos_status vo_open(RingJob *job)
{
	const tomos_prep_options *o = job->options;
	TRY(window_check("ring-large", o->ring_large));
	TRY(window_check("ring-small", o->ring_small));
	if (!(o->ring_snr > 0))
		return fail(TOMOS_BAD_VALUE, "ring-snr %g: it must be above 0", o->ring_snr);
	if (job->views > INT32_MAX)
		return fail(
			TOMOS_BAD_VALUE, "%lld views are too many to sort", (long long)job->views);
	return TOMOS_OK;
}

static tomos_status open_nothing(RingJob *job)
{
	(void)job;
	return TOMOS_OK;
}

static void close_nothing(RingJob *job)
{
	(void)job;
}

/* In the order of the option's values, after "none". */
static const RingMethod methods[] = {
	{vo_open, ring_vo_floats, ring_vo, close_nothing, NULL},
	{ring_wavelet_open, ring_wavelet_floats, ring_wavelet, ring_wavelet_close, NULL},
	{open_nothing, ring_titarenko_floats, ring_titarenko, close_nothing, NULL},
	{open_nothing, NULL, NULL, close_nothing, ring_pixels},
};

tomos_status rings_check(const tomos_prep_options *o, int64_t views, int64_t columns, int *method)
{
	RingJob job = {o, views, columns, NULL};
	TRY(choice_find("rings", prep_values.rings, o->rings, method));
	if (*method == 0)
		return TOMOS_OK;
	TRY(methods[*method - 1].open(&job));
	methods[*method - 1].close(&job);
	return TOMOS_OK;
}

tomos_status tomos_prep_rings(
	const tomos_array *data, const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	int method;
	_Atomic int64_t stripes = 0;
	TRY(prep_begin(&o, options, report, data, "the line integrals"));
	TRY(choice_find("rings", prep_values.rings, o.rings, &method));
	if (method == 0)
		return TOMOS_OK;
	if (methods[method - 1].all)
		return methods[method - 1].all(data);
	Rings r = {
		{&o, data->shape[0], data->shape[2], NULL}, &methods[method - 1], data, &stripes};
	TRY(r.method->open(&r.job));
	int64_t size = (r.job.views * r.job.columns + 15) / 16 * 16;
	tomos_status status =
		pieces_each(data->shape[1], size + r.method->floats(&r.job), clean_row, &r);
	r.method->close(&r.job);
	if (status != TOMOS_OK)
		return status;
	return report_add(report, &(tomos_prep_report){.stripes = stripes});
}
