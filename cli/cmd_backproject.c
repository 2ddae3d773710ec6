/* tomos backproject: the adjoint of the projector, applied to projections. */
#include "cli.h"

int cmd_backproject(const settings *s)
{
	tomos_array data = {0}, volume = {0};
	tomos_backend *backend = NULL;
	tomos_geometry *scan = NULL;
	tomos_file *file = NULL;
	tomos_grid grid;
	int code;
	DO(load_scan(s, s->operands[0], &data, &scan));
	DO(lib(tomos_grid_for(&grid, scan, &s->grid)));
	const int64_t shape[3] = {grid.n[2], grid.n[1], grid.n[0]};
	DO(array_new(&volume, shape, "the volume"));
	DO(output_open(&file, s, TOMOS_VOLUME, shape));
	DO(lib(tomos_backend_open_with(&backend, s->backend.backend, &s->device)));
	DO(pieces_back(backend, &grid, scan, &s->projector, &data, &volume));
	DO(output_write(file, s->output.output, &volume, &grid, NULL));
done:
	array_free(&data);
	array_free(&volume);
	tomos_file_close(file);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	return code;
}
