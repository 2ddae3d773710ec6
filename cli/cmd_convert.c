/* tomos convert: converts a file, with grid and geometry if the target format supports them. */
#include <math.h>
#include <string.h>
#include "cli.h"

typedef struct copy {
	tomos_file *from;
	output_file to;
	tomos_file_info info;
	tomos_grid grid;
	bool has_grid;
	tomos_geometry *scan;
	int64_t shape[3]; /* of the output */
	double low, high; /* of the values */
} copy;

static int copy_portion(void *user, int64_t first, int64_t count, float *data)
{
	const copy *c = user;
	int64_t ratio = c->shape[0] / c->info.shape[0];
	return lib(tomos_file_write(c->to.file, first * ratio, count * ratio, data));
}

static int range_portion(void *user, int64_t first, int64_t count, float *data)
{
	copy *c = user;
	(void)first;
	for (int64_t i = 0; i < count * c->info.shape[1] * c->info.shape[2]; i++) {
		c->low = fmin(c->low, (double)data[i]);
		c->high = fmax(c->high, (double)data[i]);
	}
	return DONE;
}

/* Integers without a window: reads the file once more, for the range of its values. */
static int copy_window(copy *c)
{
	c->low = HUGE_VAL, c->high = -HUGE_VAL;
	int code = c->to.no_window ? file_each(c->from, "range", range_portion, c) : DONE;
	return code == DONE ? output_set_window(&c->to, c->low, c->high, c->shape) : code;
}

/* Grid and geometry of the input: from the command line, otherwise from the file. */
static int copy_meaning(const settings *s, copy *c)
{
	int code = DONE;
	if (s->views.views_file[0])
		DO(load_views_of(s, c->info.shape, &c->scan));
	else if (c->info.has_geometry)
		DO(lib(tomos_file_geometry(c->from, &c->scan)));
	if (c->scan && s->input.voxel_count)
		DO(wrong_usage(
			"--voxel is for volumes, and '%s' holds projections", s->operands[0]));
	c->has_grid = c->info.has_grid || s->input.voxel_count;
	if (c->has_grid)
		DO(file_volume_grid(s, c->from, &c->info, &c->grid));
done:
	return code;
}

static tomos_content copy_content(const copy *c)
{
	return c->scan ? TOMOS_PROJECTIONS : c->has_grid ? TOMOS_VOLUME : c->info.content;
}

static int copy_shape(copy *c, const char *path)
{
	tomos_array data =
		tomos_array_of(NULL, c->info.shape[0], c->info.shape[1], c->info.shape[2]);
	int code = c->scan ? fit_views(path, c->scan, &data) : DONE;
	memcpy(c->shape, data.shape, sizeof c->shape);
	return code;
}

static int copy_geometry(const settings *s, const copy *c)
{
	static const char *const unused[] = {"type", "window", "compress", "first_number"};
	for (int i = 0; i < COUNT(unused); i++)
		if (settings_given(s, GROUP_file, unused[i])) {
			char shown[64];
			name_shown(unused[i], shown);
			return wrong_usage("--%s has no effect: '%s' holds views, not data", shown,
				s->operands[1]);
		}
	if (!c->scan)
		return failed(
			"'%s' has no geometry to write to '%s'", s->operands[0], s->operands[1]);
	int code = lib(tomos_geometry_write(c->scan, s->operands[1], &s->file));
	if (code == DONE)
		say("wrote %s: %lld views\n", s->operands[1],
			(long long)tomos_geometry_count(c->scan));
	return code;
}

static int copy_data(const settings *s, copy *c)
{
	const char *to = s->operands[1];
	char text[96];
	int code;
	DO(copy_shape(c, s->operands[0]));
	DO(output_open(&c->to, to, &s->file, copy_content(c), c->shape));
	DO(copy_window(c));
	/* Units of a grid or views from the command line are the usual ones. */
	bool own = !s->views.views_file[0] && !s->input.voxel_count;
	DO(lib(tomos_file_set_units(
		c->to.file, own ? c->info.length_unit : NULL, c->info.value_unit)));
	DO(output_describe(c->to.file, to, c->has_grid ? &c->grid : NULL, c->scan));
	DO(file_each(c->from, "converting", copy_portion, c));
	DO(lib(tomos_file_commit(c->to.file)));
	shape_text(c->shape, copy_content(c), text);
	say("wrote %s: %s\n", to, text);
done:
	return code;
}

int cmd_convert(const settings *s)
{
	const char *to = s->operands[1];
	copy c = {.from = NULL};
	int code;
	DO(file_open(s, s->operands[0], &c.from, &c.info));
	DO(copy_meaning(s, &c));
	DO(ends_with(to, ".json") || ends_with(to, ".txt") ? copy_geometry(s, &c)
							   : copy_data(s, &c));
done:
	output_close(&c.to);
	tomos_file_close(c.from);
	tomos_geometry_free(c.scan);
	return code;
}
