/* tomos show: the middle planes of an array side by side, as an image. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

#define GAP 4      /* pixels between two planes */
#define TAIL 0.001 /* fraction of the pixels clipped at black and at white */

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
		const float *plane = data + (z - first) * ny * nx;
		int64_t row = p->volume ? p->shape[0] - 1 - z : z;
		for (int64_t y = 0; p->left[0] >= 0 && z == p->middle[0] && y < ny; y++)
			draw_row(p, 0, p->volume ? y : ny - 1 - y, plane + y * nx, 1);
		if (p->left[1] >= 0)
			draw_row(p, 1, row, plane + p->middle[1] * nx, 1);
		if (p->left[2] >= 0)
			draw_row(p, 2, row, plane + p->middle[2], nx);
	}
	return DONE;
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* Range from the pixels, without a few outliers. */
static int find_range(const montage *p, double *low, double *high)
{
	float *sorted = malloc((size_t)(p->width * p->height) * sizeof *sorted);
	int64_t count = 0;
	if (!sorted)
		return failed("no memory for %lld pixels", (long long)(p->width * p->height));
	for (int64_t i = 0; i < p->width * p->height; i++)
		if (isfinite(p->pixels[i]))
			sorted[count++] = p->pixels[i];
	qsort(sorted, (size_t)count, sizeof *sorted, by_value);
	*low = count ? (double)sorted[(int64_t)(TAIL * (double)(count - 1))] : 0;
	*high = count ? (double)sorted[(int64_t)ceil((1 - TAIL) * (double)(count - 1))] : 0;
	if (count && *low == *high) {
		*low = (double)sorted[0];
		*high = (double)sorted[count - 1];
	}
	if (*low == *high) /* a single value: any range that contains it */
		*high += 1;
	free(sorted);
	return DONE;
}

static int show_range(const settings *s, const montage *p, double *low, double *high)
{
	const show_options *o = &s->show;
	if (o->range_count == 0)
		return find_range(p, low, high);
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
	float *plane = malloc((size_t)(p->shape[1] * p->shape[2]) * sizeof *plane);
	int code = plane ? lib(tomos_file_read(file, p->middle[0], 1, plane)) : failed("no memory");
	if (code == DONE)
		code = draw_portion(p, p->middle[0], 1, plane);
	free(plane);
	return code;
}

int cmd_show(const settings *s)
{
	const char *path = s->output.output;
	tomos_file *file = NULL;
	tomos_file_info info = {.bytes = sizeof info};
	montage p = {0};
	double low = 0, high = 1;
	int code;
	DO(lib(tomos_file_open(&file, s->operands[0], &s->file)));
	DO(lib(tomos_file_describe(file, &info)));
	DO(show_plan(s, &info, &p));
	DO(show_draw(file, &p));
	DO(show_range(s, &p, &low, &high));
	for (int64_t i = 0; i < p.width * p.height; i++)
		if (!isfinite(p.pixels[i]))
			p.pixels[i] = (float)low;
	DO(lib(tomos_picture_write(path, p.pixels, p.width, p.height, low, high, &s->file)));
	say("wrote %s: %lld x %lld pixels, black %g, white %g\n", path, (long long)p.width,
		(long long)p.height, low, high);
done:
	free(p.pixels);
	tomos_file_close(file);
	return code;
}
