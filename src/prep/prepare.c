/* Preprocessing: runs the chosen steps in their order. */
#include <stdatomic.h>
#include <string.h>
#include "prep/order.h"
#include "prep/prep.h"
#include "prep/views.h"

typedef struct {
	const tomos_array *data;
	const tomos_fields *fields;
	tomos_prep_options *options;
	tomos_prep_report *report;
	tomos_array now; /* the data, or the binned data */
	float *binned;
} Preparing;

static tomos_status bin(Preparing *p)
{
	const int64_t *n = p->now.shape;
	int64_t bin = p->options->bin, count;
	TRY(views_bin_check(bin, n));
	const int64_t shape[3] = {n[0], n[1] / bin, n[2] / bin};
	TRY(shape_count(shape, &count));
	TRY(mem_alloc(&p->binned, count, sizeof *p->binned, "the binned views"));
	tomos_array binned = tomos_array_of(p->binned, shape[0], shape[1], shape[2]);
	TRY(tomos_prep_bin(&p->now, bin, &binned));
	p->now = binned;
	p->options->pixel *= (double)bin; /* also used by a later phase retrieval */
	return TOMOS_OK;
}

static tomos_status run_step(Preparing *p, int step)
{
	static tomos_status (*const run[PREP_STEPS])(const tomos_array *data,
		const tomos_prep_options *options, tomos_prep_report *report) = {
		[PREP_bad_views] = tomos_prep_bad_views,
		[PREP_zingers] = tomos_prep_zingers,
		[PREP_scatter] = tomos_prep_scatter,
		[PREP_log] = tomos_prep_log,
		[PREP_rings] = tomos_prep_rings,
		[PREP_shift] = tomos_prep_shift,
		[PREP_phase] = tomos_prep_phase,
		[PREP_hardening] = tomos_prep_hardening,
	};
	if (step == PREP_normalize)
		return tomos_prep_normalize(&p->now, p->fields, p->options, p->report);
	if (step == PREP_bin)
		return bin(p);
	return run[step](&p->now, p->options, p->report);
}

/* Copies to the caller's array, without the omitted views. */
static tomos_status hand_over(const Preparing *p, const tomos_array *prepared)
{
	int64_t views = p->data->shape[0], found, to = 0;
	bool *bad, all = prepared->shape[0] == views;
	float *row;
	TRY(views_mark(p->options, views, &bad, &found));
	tomos_status status = mem_alloc(&row, p->now.shape[2], sizeof *row, "a row of a view");
	for (int64_t view = 0; status == TOMOS_OK && view < views; view++) {
		if (bad[view] && !all)
			continue;
		for (int64_t r = 0; r < p->now.shape[1]; r++) {
			row_get(&p->now, view, r, row);
			row_put(prepared, to, r, row);
		}
		to++;
	}
	if (status == TOMOS_OK)
		mem_free(row);
	mem_free(bad);
	return status;
}

typedef struct {
	const tomos_array *data;
	_Atomic int64_t *repaired;
} Repair;

static void repair_view(const void *user, int64_t view, float *values)
{
	const Repair *m = user;
	for (int64_t row = 0; row < m->data->shape[1]; row++) {
		row_get(m->data, view, row, values);
		int64_t repaired = row_repair(values, m->data->shape[2], 0);
		if (repaired > 0)
			row_put(m->data, view, row, values);
		*m->repaired += repaired;
	}
}

/* Repairs values of given line integrals that are not finite; for counts, normalize and log do
 * that. */
static tomos_status repair_integrals(const Preparing *p)
{
	_Atomic int64_t repaired = 0;
	const Repair job = {p->data, &repaired};
	TRY(pieces_each(p->data->shape[0], p->data->shape[2], repair_view, &job));
	return report_add(p->report, &(tomos_prep_report){.repaired = repaired});
}

static tomos_status report_step(const tomos_progress *progress, int step, int done, int total)
{
	if (progress && progress->report &&
		progress->report(progress->user, step_rows[step].name, done, total, 0) != 0)
		return fail(TOMOS_CANCELLED, "cancelled during step '%s' of the preparation",
			step_rows[step].name);
	return TOMOS_OK;
}

tomos_status tomos_prepare(const tomos_array *data, const tomos_fields *fields,
	const tomos_prep_options *options, const tomos_array *prepared, tomos_prep_report *report,
	const tomos_progress *progress)
{
	tomos_prep_options o;
	Order order;
	Quantity now;
	int64_t shape[3];
	tomos_status status;
	tomos_fields own = {.bytes = sizeof own};
	TRY(prep_take(&o, options));
	TRY(struct_take(&own, fields, "tomos_fields"));
	TRY(report_add(report, NULL));
	TRY(array_check(data, "the data", NULL, ARRAY_WRITTEN));
	TRY(order_make(&order, &o, &own, &now));
	TRY(tomos_prep_shape(&o, data->shape, shape));
	TRY(array_check(prepared, "the prepared data", shape, ARRAY_WRITTEN));
	Preparing p = {data, &own, &o, report, *data, NULL};
	if (now == INTEGRALS)
		TRY(repair_integrals(&p));
	for (int i = 0; i < order.count; i++) {
		TRY_OR_DONE(run_step(&p, order.step[i]));
		TRY_OR_DONE(report_step(progress, order.step[i], i + 1, order.count));
	}
	status = hand_over(&p, prepared);
done:
	mem_free(p.binned);
	return status;
}
