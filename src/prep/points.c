/* Point-wise steps: constant scatter, -log, and the polynomial of beam hardening correction. */
#include <stdatomic.h>
#include "prep/prep.h"

typedef struct {
	const tomos_array *data;
	const tomos_prep_options *options;
	_Atomic int64_t *repaired, *raised;
} Points;

static void log_row(const Points *job, float *values)
{
	int64_t columns = job->data->shape[2];
	*job->repaired += row_repair(values, columns, 1);
	*job->raised += row_raise(values, columns, (float)job->options->floor);
	for (int64_t c = 0; c < columns; c++)
		values[c] = -logf(values[c]);
}

static void log_view(const void *user, int64_t view, float *values)
{
	const Points *job = user;
	for (int64_t row = 0; row < job->data->shape[1]; row++) {
		row_get(job->data, view, row, values);
		log_row(job, values);
		row_put(job->data, view, row, values);
	}
}

tomos_status tomos_prep_log(
	const tomos_array *data, const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	_Atomic int64_t repaired = 0, raised = 0;
	TRY(prep_begin(&o, options, report, data, "the transmissions"));
	Points job = {data, &o, &repaired, &raised};
	TRY(pieces_each(data->shape[0], data->shape[2], log_view, &job));
	return report_add(report, &(tomos_prep_report){.repaired = repaired, .raised = raised});
}

static void scatter_view(const void *user, int64_t view, float *values)
{
	const Points *job = user;
	float scatter = (float)job->options->scatter, scale = 1 / (1 - scatter);
	for (int64_t row = 0; row < job->data->shape[1]; row++) {
		row_get(job->data, view, row, values);
		for (int64_t c = 0; c < job->data->shape[2]; c++)
			values[c] = (values[c] - scatter) * scale;
		row_put(job->data, view, row, values);
	}
}

tomos_status tomos_prep_scatter(
	const tomos_array *data, const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	TRY(prep_begin(&o, options, report, data, "the transmissions"));
	TRY(automatic_check(&o));
	Points job = {.data = data, .options = &o};
	if (o.scatter == 0)
		return TOMOS_OK;
	return pieces_each(data->shape[0], data->shape[2], scatter_view, &job);
}

static void harden_view(const void *user, int64_t view, float *values)
{
	const Points *job = user;
	const tomos_prep_options *o = job->options;
	for (int64_t row = 0; row < job->data->shape[1]; row++) {
		row_get(job->data, view, row, values);
		for (int64_t c = 0; c < job->data->shape[2]; c++) {
			double sum = 0;
			for (int64_t k = o->hardening_count - 1; k >= 0; k--)
				sum = (sum + o->hardening[k]) * (double)values[c];
			values[c] = (float)sum;
		}
		row_put(job->data, view, row, values);
	}
}

tomos_status tomos_prep_hardening(
	const tomos_array *data, const tomos_prep_options *options, tomos_prep_report *report)
{
	tomos_prep_options o;
	double wedge[WEDGE_TERMS];
	TRY(prep_begin(&o, options, report, data, "the line integrals"));
	TRY(automatic_check(&o));
	TRY(wedge_take(&o, wedge));
	Points job = {.data = data, .options = &o};
	if (o.hardening_count == 0)
		return TOMOS_OK;
	return pieces_each(data->shape[0], data->shape[2], harden_view, &job);
}
