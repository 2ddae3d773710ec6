/* tomos show: the middle planes of an array side by side, as an image; with titles, a scale bar and
 * a colour bar, or bare. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sheet.h"

#define GAP 4 /* pixels between two planes */

typedef struct montage {
	const int64_t *shape;
	int64_t middle[3];
	int64_t width, height, left[3]; /* first column of each plane; -1: not shown */
	bool volume;                    /* draw with z upwards */
	float *pixels;
} montage;

/* Width and height of the plane across axis `axis` of the array (z, y, x). */
static int64_t plane_width(const montage *p, int axis)
{
	return axis == 2 ? p->shape[1] : p->shape[2];
}

static int64_t plane_height(const montage *p, int axis)
{
	return axis == 0 ? p->shape[1] : p->shape[0];
}

/* All three planes, or the one across axis `only`. */
static void lay_out(montage *p, int only)
{
	p->width = -GAP;
	for (int axis = 0; axis < 3; axis++) {
		bool drawn = only < 0 || axis == only;
		p->left[axis] = drawn ? p->width + GAP : -1;
		if (!drawn)
			continue;
		p->width += GAP + plane_width(p, axis);
		if (plane_height(p, axis) > p->height)
			p->height = plane_height(p, axis);
	}
}

static void draw_row(const montage *p, int axis, int64_t row, const float *from, int64_t stride)
{
	float *to = p->pixels + row * p->width + p->left[axis];
	for (int64_t i = 0; i < plane_width(p, axis); i++)
		to[i] = from[i * stride];
}

static int draw_portion(void *user, int64_t first, int64_t count, float *data)
{
	const montage *p = user;
	int64_t ny = p->shape[1], nx = p->shape[2];
	for (int64_t z = first; z < first + count; z++) {
		const float *values = data + (z - first) * ny * nx;
		int64_t row = p->volume ? p->shape[0] - 1 - z : z;
		for (int64_t y = 0; p->left[0] >= 0 && z == p->middle[0] && y < ny; y++)
			draw_row(p, 0, p->volume ? y : ny - 1 - y, values + y * nx, 1);
		if (p->left[1] >= 0)
			draw_row(p, 1, row, values + p->middle[1] * nx, 1);
		if (p->left[2] >= 0)
			draw_row(p, 2, row, values + p->middle[2], nx);
	}
	return DONE;
}

static int show_range(const settings *s, const montage *p, double *low, double *high)
{
	const show_options *o = &s->show;
	if (o->range_count == 0)
		return range_of(p->pixels, p->width * p->height, low, high);
	if (o->range_count != 2 || !(o->range[0] < o->range[1]))
		return wrong_usage("--range: two numbers LOW,HIGH with LOW < HIGH are needed");
	*low = o->range[0];
	*high = o->range[1];
	return DONE;
}

static int show_plan(const settings *s, const tomos_file_info *info, montage *p)
{
	int64_t slice = s->show.slice, count = info->shape[0];
	p->shape = info->shape;
	p->volume = info->content != TOMOS_PROJECTIONS;
	if (settings_given(s, GROUP_show, "slice") && (slice < 0 || slice >= count))
		return wrong_usage("--slice: %lld is not between 0 and %lld", (long long)slice,
			(long long)count - 1);
	for (int i = 0; i < 3; i++)
		p->middle[i] = info->shape[i] / 2;
	if (slice >= 0)
		p->middle[0] = slice;
	bool sinogram = !p->volume && slice < 0 && info->shape[1] == 1;
	lay_out(p, sinogram ? 1 : slice >= 0 || count == 1 ? 0 : -1);
	if (p->width > 0 && p->height > 0)
		p->pixels = malloc((size_t)(p->width * p->height) * sizeof *p->pixels);
	if (!p->pixels)
		return failed("no memory for an image of %lld x %lld", (long long)p->width,
			(long long)p->height);
	for (int64_t i = 0; i < p->width * p->height; i++)
		p->pixels[i] = NAN;
	return DONE;
}

/* Reads one slice, or the whole file in parts. */
static int show_draw(tomos_file *file, montage *p)
{
	if (p->left[1] >= 0)
		return file_each(file, "reading", draw_portion, p);
	float *values = malloc((size_t)(p->shape[1] * p->shape[2]) * sizeof *values);
	int code =
		values ? lib(tomos_file_read(file, p->middle[0], 1, values)) : failed("no memory");
	if (code == DONE)
		code = draw_portion(p, p->middle[0], 1, values);
	free(values);
	return code;
}

/* ---- what the planes are -------------------------------------------------------------- */

static void plane_title(const montage *p, int axis, const tomos_grid *grid,
	const tomos_file_info *info, char title[64])
{
	static const char *const planes[3] = {"xy", "xz", "yz"}, *const across[3] = {"z", "y", "x"};
	static const char *const frames[3] = {"view %lld", "sinogram, row %lld", "column %lld"};
	long long at = (long long)p->middle[axis];
	double place = grid->first[2 - axis] + (double)at * grid->step[2 - axis];
	if (!p->volume)
		snprintf(title, 64, frames[axis], at);
	else if (size_known(info))
		snprintf(title, 64, "%s, %s = %.4g %s", planes[axis], across[axis], place,
			info->length_unit);
	else
		snprintf(title, 64, "%s, %s %lld", planes[axis], across[axis], at);
}

/* The size of samples is that of a volume's grid; frames and plain arrays have square ones. */
static void make_sheet(
	const montage *p, const tomos_grid *grid, const tomos_file_info *info, sheet *to)
{
	for (int axis = 0; axis < 3; axis++) {
		plane *one = &to->planes[to->count];
		if (p->left[axis] < 0)
			continue;
		*one = (plane){p->pixels + p->left[axis], plane_width(p, axis),
			plane_height(p, axis), p->width, {1, 1}, ""};
		if (p->volume && info->has_grid) {
			one->step[0] = fabs(grid->step[axis == 2 ? 1 : 0]);
			one->step[1] = fabs(grid->step[axis == 0 ? 1 : 2]);
		}
		plane_title(p, axis, grid, info, one->title);
		to->count++;
	}
}

static int draw_sheet(const settings *s, const montage *p, const tomos_file *file,
	const tomos_file_info *info, const double range[2])
{
	tomos_grid grid = {.step = {1, 1, 1}};
	bool has_grid = p->volume && info->has_grid;
	int code = has_grid ? lib(tomos_file_grid(file, &grid)) : DONE;
	if (code != DONE)
		return code;
	const char *length = p->volume ? length_unit(info, grid.step) : "pixels";
	sheet all = {.low = range[0], .high = range[1], .length = length};
	canvas c;
	make_sheet(p, &grid, info, &all);
	all.unit = s->show.unit[0] ? s->show.unit : info->value_unit;
	int thin = sheet_drop_thin(&all);
	if (thin > 0)
		note("%d plane%s of less than an eighth of the others' size %s left out", thin,
			thin == 1 ? "" : "s", thin == 1 ? "is" : "are");
	sheet_lay_out(&all);
	canvas_open(&c, s->output.output, all.wide, all.high_all, 1);
	sheet_draw(&c, &all);
	code = canvas_write(&c, s->output.output, &s->file);
	if (code == DONE)
		say("wrote %s: %d x %d pixels, black %g, white %g\n", s->output.output,
			(int)ceil(all.wide), (int)ceil(all.high_all), range[0], range[1]);
	return code;
}

static int draw_bare(const settings *s, const montage *p, const double range[2])
{
	const char *path = s->output.output;
	for (int64_t i = 0; i < p->width * p->height; i++)
		if (!isfinite(p->pixels[i]))
			p->pixels[i] = (float)range[0];
	int code = lib(tomos_picture_write(
		path, p->pixels, p->width, p->height, range[0], range[1], &s->file));
	if (code == DONE)
		say("wrote %s: %lld x %lld pixels, black %g, white %g\n", path, (long long)p->width,
			(long long)p->height, range[0], range[1]);
	return code;
}

int cmd_show(const settings *s)
{
	tomos_file *file = NULL;
	tomos_file_info info = {0};
	montage p = {0};
	double range[2] = {0, 1};
	int code;
	if (s->show.bare && !ends_with(s->output.output, ".png"))
		return wrong_usage("--bare: '%s' must end in .png", s->output.output);
	DO(file_open(s, s->operands[0], &file, &info));
	DO(show_plan(s, &info, &p));
	DO(show_draw(file, &p));
	DO(show_range(s, &p, &range[0], &range[1]));
	DO(s->show.bare ? draw_bare(s, &p, range) : draw_sheet(s, &p, file, &info, range));
done:
	free(p.pixels);
	tomos_file_close(file);
	return code;
}
