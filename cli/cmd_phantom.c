/* tomos phantom: writes a phantom as a volume. */
#include <math.h>
#include <string.h>
#include "cli.h"

#define SIZE 256 /* default number of voxels along an axis */

bool phantom_is_name(const char *text)
{
	return name_in(tomos_phantom_names(), text, strlen(text));
}

static int phantom_unknown(const char *name)
{
	const char *nearest = tomos_name_nearest(tomos_phantom_names(), name);
	return wrong_usage("unknown phantom '%s'; %s%s", name, nearest[0] ? "nearest: " : "one of ",
		nearest[0] ? nearest : tomos_phantom_names());
}

static int phantom_grid(const settings *s, bool flat, tomos_grid *grid)
{
	const field_options *f = &s->field;
	int64_t n[3] = {SIZE, SIZE, flat ? 1 : SIZE};
	int code;
	if (f->size_count > 3)
		return wrong_usage("--size: one number, two or three are needed, not %lld",
			(long long)f->size_count);
	for (int i = 0; i < 3 && f->size_count; i++)
		n[i] = f->size[i < f->size_count ? i : 0];
	if ((f->size_count == 1 && flat) || f->size_count == 2)
		n[2] = 1;
	if (n[0] < 1)
		return wrong_usage("--size: %lld is not a number of voxels", (long long)n[0]);
	double span = 2 * s->phantom.radius / (double)n[0];
	DO(f->voxel_count ? grid_centred(grid, n, f->voxel, f->voxel_count)
			  : grid_centred(grid, n, &span, 1));
	if (f->centre_count != 0 && f->centre_count != 3)
		return wrong_usage(
			"--centre: three lengths are needed, not %lld", (long long)f->centre_count);
	for (int i = 0; i < 3 && f->centre_count; i++)
		grid->first[i] += f->centre[i];
done:
	return code;
}

int cmd_phantom(const settings *s)
{
	const char *name = s->operands[0];
	tomos_phantom *phantom = NULL;
	output_file out = {.file = NULL};
	tomos_array volume = {0};
	tomos_grid grid;
	int code;
	if (!phantom_is_name(name))
		return phantom_unknown(name);
	DO(lib(tomos_phantom_named(&phantom, name, &s->phantom)));
	DO(phantom_grid(s, extent_of_phantom(phantom).flat, &grid));
	const int64_t shape[3] = {grid.n[2], grid.n[1], grid.n[0]};
	DO(array_new(&volume, shape, "the volume"));
	DO(output_open(&out, s->output.output, &s->file, TOMOS_VOLUME, shape));
	DO(pieces_volume(phantom, &grid, s->phantom.samples, &volume));
	DO(output_range(&out, &volume));
	bool sized = fabs(grid.step[0]) != 1 || fabs(grid.step[1]) != 1 || fabs(grid.step[2]) != 1;
	DO(lib(tomos_file_set_units(out.file, NULL, sized ? "1/mm" : NULL)));
	DO(output_write(&out, &volume, &grid, NULL));
done:
	array_free(&volume);
	tomos_phantom_free(phantom);
	output_close(&out);
	return code;
}
