/* tomos matrix: writes the system matrix to a file. */
#include "cli.h"

/* The views of a scan file or geometry file. */
static int matrix_scan_file(const settings *s, tomos_geometry **scan)
{
	const char *path = s->operands[0];
	tomos_file *file = NULL;
	tomos_file_info info = {.bytes = sizeof info};
	int code;
	DO(settings_reject(s, GROUP_scan, -1, "with a file that has the scan"));
	DO(settings_reject(s, GROUP_views, -1, "with a file that has the scan"));
	if (ends_with(path, ".json"))
		return lib(tomos_geometry_read(scan, path, 0, 0, 0));
	DO(lib(tomos_file_open(&file, path, &s->file)));
	DO(lib(tomos_file_describe(file, &info)));
	if (!info.has_geometry)
		DO(failed("'%s' has no geometry; name one with --views-file", path));
	DO(lib(tomos_file_geometry(file, scan)));
done:
	tomos_file_close(file);
	return code;
}

static int matrix_scan(const settings *s, tomos_geometry **scan)
{
	tomos_scan_options o = s->scan;
	if (s->operand_count > 0)
		return matrix_scan_file(s, scan);
	if (s->views.views_file[0])
		return load_views(
			s, settings_given(s, GROUP_scan, "rows") ? o.rows : 0, o.columns, scan);
	if (!settings_given(s, GROUP_scan, "pixel") && s->scan.source_axis_count > 0)
		return wrong_usage(
			"a %s scan needs the size of its pixels: give --pixel, in the unit "
			"of --source-axis",
			s->scan.geometry);
	if (!settings_given(s, GROUP_scan, "columns") && s->grid.size_count > 0)
		o.columns = s->grid.size[0];
	return lib(tomos_geometry_make(scan, &o));
}

int cmd_matrix(const settings *s)
{
	tomos_geometry *scan = NULL;
	tomos_backend *backend = NULL;
	tomos_op *op = NULL;
	tomos_matrix arrays = {.bytes = sizeof arrays};
	tomos_grid grid;
	int code;
	DO(matrix_scan(s, &scan));
	DO(lib(tomos_grid_for(&grid, scan, &s->grid)));
	DO(lib(tomos_backend_open_with(&backend, s->backend.backend, &s->device)));
	DO(lib(tomos_op_matrix(&op, backend, &grid, scan, &s->projector, NULL)));
	DO(lib(tomos_matrix_arrays(op, &arrays)));
	DO(progress_step("writing", 0, 1));
	DO(lib(tomos_matrix_write(op, s->output.output, &s->file)));
	progress_clear();
	say("wrote %s: %lld rows x %lld columns, %lld entries\n", s->output.output,
		(long long)arrays.rows, (long long)arrays.columns, (long long)arrays.count);
done:
	tomos_op_free(op);
	tomos_backend_close(backend);
	tomos_geometry_free(scan);
	return code;
}
