/* tomos prep: counts, flats and darks into line integrals. */
#include <string.h>
#include "cli.h"

static bool has_axis(const settings *s, const measured *m)
{
	return m->info.has_geometry || settings_given(s, GROUP_scan, "axis");
}

/* The scan as measured, with the axis that was given or found, counted in columns as measured. */
static int prep_geometry(
	const settings *s, const measured *m, const double *axis, tomos_geometry **prepared)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan = NULL;
	int code;
	o.pixel = s->prep.pixel;
	o.angles = m->angles, o.angles_count = m->info.views;
	o.replace_angles = s->scan.replace_angles;
	o.axis = s->scan.axis, o.axis_count = s->scan.axis_count;
	if (axis)
		o.axis = axis, o.axis_count = 1;
	DO(lib(tomos_scan_geometry(m->scan, &scan, m->info.has_geometry ? NULL : &o)));
	DO(lib(tomos_prep_geometry(prepared, scan, &m->prep)));
done:
	tomos_geometry_free(scan);
	return code;
}

/* Found from the prepared views, so it is counted in binned columns there. */
static int prep_axis(const settings *s, measured *m, double *column)
{
	tomos_backend *backend = NULL;
	tomos_axis axis;
	int64_t bin = m->info.columns / m->data.shape[2];
	int code;
	DO(lib(tomos_backend_open(&backend, s->backend.backend)));
	DO(measured_axis(s, m, backend, &axis));
	*column = axis.column * (double)bin + 0.5 * (double)(bin - 1);
done:
	tomos_backend_close(backend);
	return code;
}

int cmd_prep(const settings *s)
{
	measured m = {0};
	tomos_geometry *scan = NULL;
	output_file out = {.file = NULL};
	double column;
	int64_t shape[3];
	int code;
	DO(measured_open(s, s->operands[0], &m));
	DO(scan_options_check(s, &m.info));
	const int64_t whole[3] = {m.info.views, m.info.rows, m.info.columns};
	DO(lib(tomos_prep_shape(&m.prep, whole, shape)));
	DO(output_open(&out, s->output.output, &s->file, TOMOS_PROJECTIONS, shape));
	DO(measured_read(&m, 0, m.info.rows));
	DO(measured_prepare(&m, progress_shown()));
	bool find = m.angles && !has_axis(s, &m) && shape[0] == whole[0];
	if (find)
		DO(prep_axis(s, &m, &column));
	if (m.angles || m.info.has_geometry)
		DO(prep_geometry(s, &m, find ? &column : NULL, &scan));
	else
		note("note: '%s' does not say its angles, so the output is without geometry; give "
		     "them with --angles\n",
			s->operands[0]);
	DO(output_write(&out, &m.data, NULL, scan));
done:
	tomos_geometry_free(scan);
	output_close(&out);
	measured_close(&m);
	return code;
}
