/* tomos prep: counts, flats and darks into line integrals. */
#include <math.h>
#include <string.h>
#include "cli.h"

/* Whether the angles of the views are known. If not, the output has no geometry, and any is used
 * here. */
static bool has_views(const settings *s, const scan_job *j)
{
	return j->info.has_angles || j->info.has_geometry || s->views.views_file[0] ||
	       s->scan.angles_count > 0 || s->scan.arc != 0;
}

static void without_views(const settings *s, scan_job *j)
{
	j->scan.arc = 1;
	j->job.axis_later = 1;
	note("'%s' does not say its angles, so the output is without geometry; give them "
	     "with --angles or --arc",
		s->operands[0]);
}

static int prepare_all(tomos_prepared *prepared, tomos_array *data)
{
	const tomos_geometry *scan = tomos_prepared_geometry(prepared);
	const int64_t shape[3] = {tomos_geometry_count(scan), tomos_geometry_rows(scan),
		tomos_geometry_columns(scan)};
	tomos_prep_report report = {.bytes = sizeof report};
	int code;
	DO(array_new(data, shape, "the line integrals"));
	DO(lib(tomos_prepared_read(prepared, 0, shape[1], data->data, &report, progress_shown())));
	progress_clear();
	prep_say(&report);
done:
	return code;
}

int cmd_prep(const settings *s)
{
	scan_job j = {.views = NULL};
	tomos_prepared *prepared = NULL;
	tomos_array data = {0};
	output_file out = {.file = NULL};
	int code;
	DO(job_make(s, &j));
	bool views = has_views(s, &j);
	if (!views)
		without_views(s, &j);
	DO(lib(tomos_prepared_open(&prepared, &j.job, progress_shown())));
	const tomos_geometry *scan = tomos_prepared_geometry(prepared);
	const int64_t shape[3] = {tomos_geometry_count(scan), tomos_geometry_rows(scan),
		tomos_geometry_columns(scan)};
	DO(output_open(&out, s->output.output, &s->file, TOMOS_PROJECTIONS, shape));
	prepared_say(prepared);
	DO(prepare_all(prepared, &data));
	DO(output_range(&out, &data));
	DO(lib(tomos_file_set_units(out.file, tomos_prepared_unit(prepared), NULL)));
	DO(output_write(&out, &data, NULL, views ? scan : NULL));
done:
	output_close(&out);
	array_free(&data);
	tomos_prepared_close(prepared);
	job_free(&j);
	return code;
}
