/* tomos backproject: applies the adjoint of the projector to projections. */
#include "cli.h"

int cmd_backproject(const settings *s)
{
	tomos_array data = {0}, volume = {0};
	tomos_backend *backend = NULL;
	tomos_geometry *scan = NULL;
	output_file out = {.file = NULL};
	tomos_grid grid;
	int code;
	if (s->projector.back[0] && settings_given(s, GROUP_projector, "forward"))
		return wrong_usage(
			"--forward has no effect with --back: the adjoint is that of --back");
	DO(load_scan(s, s->operands[0], &data, &scan));
	DO(lib(tomos_grid_for(&grid, scan, &s->grid)));
	const int64_t shape[3] = {grid.n[2], grid.n[1], grid.n[0]};
	DO(array_new(&volume, shape, "the volume"));
	DO(output_open(&out, s->output.output, &s->file, TOMOS_VOLUME, shape));
	DO(lib(tomos_backend_open_with(&backend, s->backend.backend, &s->device)));
	DO(pieces_back(backend, &grid, scan, &s->projector, &data, &volume));
	DO(output_write(&out, &volume, &grid, NULL));
done:
	array_free(&data);
	array_free(&volume);
	output_close(&out);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	return code;
}
