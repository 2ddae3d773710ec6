/* Scatter and beam hardening of prepared projections, where these are to be found from the scan. */
#include <stdio.h>
#include <string.h>
#include "run/run.h"

/* Takes `auto` out of the options, so that rows can be prepared without. */
void prepared_auto_begin(tomos_prepared *p)
{
	tomos_prep_options *o = &p->prep;
	p->find_scatter = isnan(o->scatter);
	p->find_hardening = o->hardening_count == 1 && o->hardening && isnan(o->hardening[0]);
	if (p->find_scatter)
		o->scatter = 0;
	if (p->find_hardening) {
		o->hardening = NULL;
		o->hardening_count = 0;
	}
}

/* One row of all views, and the scan that it is. */
typedef struct {
	float *data;
	tomos_geometry *scan;
} OneRow;

tomos_status prepared_read_row(
	tomos_prepared *p, int64_t row, float *data, const tomos_progress *progress)
{
	RawRows needs = prepared_needs(p, p->first_row + row, 1);
	if (p->reach.all_rows) /* as if the object were constant along the axis */
		needs = (RawRows){(p->first_row + row) * p->bin, p->bin, 0, 1};
	return prepared_read_raw(p, &needs, 1, data, NULL, progress);
}

static tomos_status read_row(tomos_prepared *p, OneRow *one, const tomos_progress *progress)
{
	const tomos_geometry *g = p->geometry;
	int64_t row = geom_source_row(g);
	if (!one->data)
		TRY(mem_alloc(&one->data, g->count * g->columns, sizeof(float), "a row"));
	if (!one->scan) {
		TRY(tomos_geometry_views(&one->scan, 1, g->columns, g->views, g->count));
		double shift = (double)row - 0.5 * (double)(g->rows - 1);
		for (int64_t i = 0; i < g->count; i++)
			view_slide(&one->scan->views[i], 0, shift);
	}
	return prepared_read_row(p, row, one->data, progress);
}

static tomos_status note(
	tomos_prepared *p, const char *format, const char *values, const double quality[2])
{
	char *text, *before = p->found;
	TRY(mem_printf(&text, format, values, 100 * quality[0], 100 * quality[1]));
	tomos_status status =
		mem_printf(&p->found, "%s%s%s", before ? before : "", before ? "\n" : "", text);
	mem_free(text);
	mem_free(before);
	return status;
}

static tomos_status find_scatter(tomos_prepared *p, const OneRow *one)
{
	const tomos_array data = tomos_array_of(one->data, one->scan->count, 1, one->scan->columns);
	double quality[2];
	char value[40];
	TRY(tomos_scatter_find(&p->prep.scatter, quality, NULL, one->scan, &data));
	snprintf(value, sizeof value, "%.4g", p->prep.scatter);
	return note(p,
		"scatter   %s of the intensity: deviation inside the object %.2f %%, then %.2f %%",
		value, quality);
}

static bool is_identity(const double *polynomial)
{
	for (int i = 0; i < HARDENING_TERMS; i++)
		if (polynomial[i] != (i == 0))
			return false;
	return true;
}

static tomos_status find_hardening(tomos_prepared *p, const OneRow *one, const tomos_job *job)
{
	const tomos_array data = tomos_array_of(one->data, one->scan->count, 1, one->scan->columns);
	double quality[2];
	char values[40 * HARDENING_TERMS] = "";
	TRY(tomos_hardening_find(p->hardening, HARDENING_TERMS, quality, NULL, one->scan, &data));
	if (is_identity(p->hardening)) {
		TRY(job_warn(job,
			"the option 'hardening' auto changes nothing: no correction that beam "
			"hardening could need makes the object clearly more uniform; it does not "
			"look like one material, or the beam does not harden"));
		return note(
			p, "hardening %s: deviation inside the object %.2f %%", "none", quality);
	}
	p->prep.hardening = p->hardening;
	p->prep.hardening_count = HARDENING_TERMS;
	for (int i = 0; i < HARDENING_TERMS; i++)
		snprintf(values + strlen(values), sizeof values - strlen(values), "%s%.6g",
			i ? "," : "", p->hardening[i]);
	return note(p, "hardening %s: deviation inside the object %.2f %%, then %.2f %%", values,
		quality);
}

tomos_status prepared_auto_find(
	tomos_prepared *p, const tomos_job *job, const tomos_progress *progress)
{
	OneRow one = {.data = NULL};
	tomos_status status = TOMOS_OK;
	bool light = prepared_are_counts(p) || strcmp(p->prep.quantity, "transmission") == 0;
	if (p->find_scatter && !light)
		return fail(TOMOS_BAD_VALUE,
			"scatter: it is found in counts or transmissions; '%s' has line integrals",
			p->scan->path);
	if (p->find_scatter) {
		tomos_prep_options all = p->prep;
		p->prep.hardening_count = p->prep.wedge_count = 0; /* they follow the logarithm */
		status = read_row(p, &one, progress);
		p->prep = all;
		TRY_OR_DONE(status);
		TRY_OR_DONE(find_scatter(p, &one));
	}
	if (p->find_hardening) {
		TRY_OR_DONE(read_row(p, &one, progress));
		TRY_OR_DONE(find_hardening(p, &one, job));
	}
done:
	mem_free(one.data);
	tomos_geometry_free(one.scan);
	return status;
}

tomos_status prepared_auto_check(const tomos_prepared *p)
{
	if (p->find_scatter || p->find_hardening)
		return fail(TOMOS_BAD_VALUE,
			"%s: 'auto' is found from a reconstructed slice, which needs the axis: "
			"give a value, or leave it out while the axis is looked for",
			p->find_hardening ? "hardening" : "scatter");
	return TOMOS_OK;
}
