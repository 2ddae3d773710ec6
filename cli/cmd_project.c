/* tomos project: simulates a scan of a volume, or of a phantom in closed form. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"

/* With --views-file, the detector size (for .txt) is the only scan option that has an effect. */
static int reject_scan_options(const settings *s)
{
	group g = group_get(GROUP_scan);
	for (int i = 0; i < g.count; i++) {
		const char *name = g.rows[i].name;
		bool size = strcmp(name, "rows") == 0 || strcmp(name, "columns") == 0;
		if ((s->given[GROUP_scan] >> i & 1) && !size)
			return wrong_usage("--%s has no effect with --views-file", name);
	}
	return DONE;
}

static int project_views(const settings *s, const extent *object, tomos_geometry **scan)
{
	if (!s->views.views_file[0])
		return scan_make(s, object, scan);
	int code = reject_scan_options(s);
	bool rows = settings_given(s, GROUP_scan, "rows");
	return code == DONE ? load_views(s, rows ? s->scan.rows : 0, s->scan.columns, scan) : code;
}

static int project_noise(const settings *s, const tomos_array *data)
{
	const noise_options *o = &s->noise;
	int code = DONE;
	if (o->photons < 0)
		return wrong_usage("--photons: %g is below 0 (0: no such noise)", o->photons);
	if (o->photons != 0)
		code = lib(tomos_noise_poisson(data, o->photons, (uint64_t)o->seed));
	/* A different stream, so that the two kinds of noise are independent. */
	if (code == DONE && o->noise != 0)
		code = lib(tomos_noise_gaussian(data, o->noise, (uint64_t)o->seed + (1u << 31)));
	return code;
}

enum { FEWEST_PIXELS = 3 };

static bool is_zero(const tomos_array *data)
{
	const int64_t count = data->shape[0] * data->shape[1] * data->shape[2];
	int64_t i = 0;
	while (i < count && data->data[i] == 0)
		i++;
	return i == count;
}

/* Warns where the detector sees a speck, or nothing. */
static void warn_small(
	const extent *object, const tomos_geometry *scan, bool phantom, const tomos_array *data)
{
	const char *how = phantom ? "; --radius makes the phantom larger" : "";
	tomos_grid seen;
	if (tomos_grid_for(&seen, scan, NULL) == TOMOS_OK &&
		2 * object->radius < FEWEST_PIXELS * fabs(seen.step[0]))
		warn("the object is %.3g wide, where a pixel of the detector sees %.3g%s",
			2 * object->radius, fabs(seen.step[0]), how);
	else if (is_zero(data))
		warn("all projections are 0: no ray meets the object, or it is empty");
}

/* Creates the output, projects the phantom or the volume, whose lengths have a unit ("": unknown),
 * adds noise, writes. */
static int project_into(const settings *s, const tomos_phantom *phantom, const tomos_grid *grid,
	const tomos_array *volume, const char *unit)
{
	const extent object = phantom ? extent_of_phantom(phantom) : extent_of_grid(grid);
	tomos_backend *backend = NULL;
	tomos_geometry *scan = NULL;
	output_file out = {.file = NULL};
	tomos_array data = {0};
	int code;
	DO(project_views(s, &object, &scan));
	const int64_t shape[3] = {tomos_geometry_count(scan), tomos_geometry_rows(scan),
		tomos_geometry_columns(scan)};
	DO(array_new(&data, shape, "the projections"));
	DO(output_open(&out, s->output.output, &s->file, TOMOS_PROJECTIONS, shape));
	if (phantom) {
		DO(pieces_phantom(phantom, scan, s->phantom.samples, &data));
	} else {
		DO(lib(tomos_backend_open_with(&backend, s->backend.backend, &s->device)));
		DO(pieces_forward(backend, grid, scan, &s->projector, volume, &data));
	}
	warn_small(&object, scan, phantom != NULL, &data);
	DO(project_noise(s, &data));
	if (unit)
		DO(lib(tomos_file_set_units(out.file, unit, NULL)));
	DO(output_write(&out, &data, NULL, scan));
done:
	array_free(&data);
	output_close(&out);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	return code;
}

/* A phantom is projected in closed form: options of files and devices have no effect. */
static int reject_projection(const settings *s)
{
	static const int groups[] = {GROUP_input, GROUP_projector, GROUP_backend, GROUP_device};
	int code = DONE;
	for (int i = 0; i < COUNT(groups); i++)
		DO(settings_reject(s, groups[i], -1, "on a named phantom"));
	if (s->file.dataset[0] || s->file.raw[0])
		DO(wrong_usage("--%s has no effect on a named phantom",
			s->file.raw[0] ? "raw" : "dataset"));
done:
	return code;
}

static int project_phantom(const settings *s)
{
	tomos_phantom *phantom = NULL;
	int code;
	DO(reject_projection(s));
	DO(lib(tomos_phantom_named(&phantom, s->operands[0], &s->phantom)));
	DO(project_into(s, phantom, NULL, NULL, NULL));
done:
	tomos_phantom_free(phantom);
	return code;
}

static int project_file(const settings *s)
{
	tomos_array volume = {0};
	tomos_grid grid;
	char unit[UNIT];
	int code;
	const char *path = s->operands[0],
		   *nearest = tomos_name_nearest(tomos_phantom_names(), path);
	DO(settings_reject(s, GROUP_phantom, GROUP_noise, "on a file, only on a named phantom"));
	if (nearest[0] && access(path, F_OK) != 0)
		DO(failed(
			"there is no file '%s', and it is no phantom; nearest: %s", path, nearest));
	DO(load_volume(s, s->operands[0], &volume, &grid, unit));
	DO(lengths_check(s, path, unit));
	DO(project_into(s, NULL, &grid, &volume, unit));
done:
	array_free(&volume);
	return code;
}

int cmd_project(const settings *s)
{
	return phantom_is_name(s->operands[0]) ? project_phantom(s) : project_file(s);
}
