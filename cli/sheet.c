/* Planes side by side, with titles, a scale bar and a colour bar. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plot.h"
#include "sheet.h"

#define SIZE 13.0 /* of letters */
enum {
	SMALL = 360,
	LARGE = 8192,
	THIN = 8,
	GAP = 16,
	TOP = 30,
	BOTTOM = 40,
	BAR = 18,
	SHADES = 256
};

/* ---- values to bytes ---------------------------------------------------------------------- */

/* The mean of the finite samples of a block; NAN: there are none. */
static double block_mean(const plane *p, int64_t x, int64_t y, int64_t by)
{
	double sum = 0;
	int64_t n = 0;
	for (int64_t j = y * by; j < (y + 1) * by && j < p->high; j++)
		for (int64_t i = x * by; i < (x + 1) * by && i < p->wide; i++)
			if (isfinite(p->data[j * p->stride + i])) {
				sum += (double)p->data[j * p->stride + i];
				n++;
			}
	return n ? sum / (double)n : NAN;
}

bool plane_bitmap(const plane *p, double low, double high, int64_t most, bitmap *image)
{
	int64_t longest = p->wide > p->high ? p->wide : p->high, by = (longest + most - 1) / most;
	int64_t wide = (p->wide + by - 1) / by, high_by = (p->high + by - 1) / by;
	unsigned char *bytes = malloc((size_t)(wide * high_by));
	for (int64_t i = 0; bytes && i < wide * high_by; i++) {
		double value = block_mean(p, i % wide, i / wide, by);
		value = isfinite(value) ? 255 * (value - low) / (high - low) : 0;
		bytes[i] = (unsigned char)(fmin(fmax(value, 0), 255) + 0.5);
	}
	*image = (bitmap){bytes, wide, high_by, 1};
	return bytes != NULL;
}

/* ---- layout ------------------------------------------------------------------------------- */

static double wide_of(const plane *p)
{
	return (double)p->wide * p->step[0];
}

static double high_of(const plane *p)
{
	return (double)p->high * p->step[1];
}

static double least_side(const plane *p)
{
	return fmin(wide_of(p), high_of(p));
}

static double longest(const sheet *s)
{
	double most = 0;
	for (int i = 0; i < s->count; i++)
		most = fmax(most, fmax(wide_of(&s->planes[i]), high_of(&s->planes[i])));
	return most;
}

/* The plane whose shorter side is the longest shows most, so it is never thin itself. */
int sheet_drop_thin(sheet *s)
{
	double most = 0;
	int kept = 0, all = s->count;
	for (int i = 0; i < all; i++)
		most = fmax(most, least_side(&s->planes[i]));
	for (int i = 0; i < all; i++)
		if (least_side(&s->planes[i]) * THIN >= most)
			s->planes[kept++] = s->planes[i];
	s->count = kept;
	return all - kept;
}

/* Units of the canvas per unit of length. */
static double scale_of(const sheet *s)
{
	double most = longest(s), finest = HUGE_VAL;
	if (s->side > 0)
		return s->side / most;
	for (int i = 0; i < s->count; i++)
		finest = fmin(finest, fmin(s->planes[i].step[0], s->planes[i].step[1]));
	double samples = most / finest;
	double enlarge = samples < SMALL ? ceil(SMALL / samples) : fmin(1, LARGE / samples);
	return enlarge / finest;
}

void sheet_lay_out(sheet *s)
{
	double scale = scale_of(s), x = s->side > 0 ? 1 : GAP, high = 0;
	for (int i = 0; i < s->count; i++) {
		double wide = wide_of(&s->planes[i]) * scale,
		       title = text_width(s->planes[i].title, SIZE);
		s->places[i][0] = x;
		s->places[i][1] = TOP;
		s->places[i][2] = fmax(wide, 1);
		s->places[i][3] = fmax(high_of(&s->planes[i]) * scale, 1);
		x += fmax(wide, 1.1 * title) + GAP;
		high = fmax(high, s->places[i][3]);
	}
	s->bar = x;
	s->wide = x + fmax(BAR + 78, 40 + 1.15 * text_width(s->unit, SIZE));
	s->bottom = s->length[0] || s->side == 0 ? BOTTOM : 8;
	s->high_all = TOP + fmax(high, 90) + s->bottom;
}

/* ---- drawing ------------------------------------------------------------------------------ */

static void draw_frame(canvas *c, double x, double y, double wide, double high)
{
	const double points[] = {x, y, x + wide, y, x + wide, y + high, x, y + high, x, y};
	canvas_line(c, points, 5, (stroke){SOFT, 1, 0});
}

/* Black to white with numbers, as high as the highest plane. */
static void draw_colours(canvas *c, const sheet *s)
{
	unsigned char greys[SHADES];
	double top = TOP, high = s->high_all - TOP - s->bottom;
	axis a = {.low = s->low, .high = s->high, .start = top + high, .length = -high};
	tick list[TICKS];
	char factor[24], label[64];
	for (int i = 0; i < SHADES; i++)
		greys[i] = (unsigned char)(SHADES - 1 - i);
	const bitmap image = {greys, 1, SHADES, 1};
	canvas_image(c, s->bar, top, BAR, high, &image);
	draw_frame(c, s->bar, top, BAR, high);
	int count = axis_ticks(&a, high > 240 ? 6 : 4, list, factor);
	for (int i = 0; i < count; i++) {
		double y = axis_place(&a, list[i].value);
		if (!list[i].text[0])
			continue;
		canvas_segment(c, s->bar + BAR, y, s->bar + BAR + 4, y, (stroke){SOFT, 1, 0});
		canvas_text(c, s->bar + BAR + 8, y + 0.32 * SIZE, list[i].text,
			(lettering){SIZE - 1, 0, SOFT, false, false});
	}
	snprintf(label, sizeof label, "%s%s%.*s", factor, factor[0] && s->unit[0] ? " " : "",
		utf8_cut(s->unit, 30), s->unit);
	canvas_text(c, s->bar, top - 10, label, (lettering){SIZE, 0, INK, false, false});
}

/* Below the first plane, up to a third of it long. */
static void draw_scale(canvas *c, const sheet *s)
{
	const plane *p = &s->planes[0];
	double unit = s->places[0][2] / wide_of(p), third = wide_of(p) / 3;
	double length = nice_step(third, 1), x = s->places[0][0];
	length = length > third ? nice_step(third / 2.5, 1) : length;
	double y = s->places[0][1] + s->places[0][3] + 14;
	char text[64];
	if (!s->length[0])
		return;
	snprintf(text, sizeof text, "%g %s", length, s->length);
	canvas_box(c, x, y, length * unit, 4, INK);
	canvas_text(c, x + length * unit + 8, y + 7, text, (lettering){SIZE, 0, INK, false, false});
}

void sheet_draw(canvas *c, const sheet *s)
{
	for (int i = 0; i < s->count; i++) {
		const double *at = s->places[i];
		int64_t most = s->side > 0 ? (int64_t)(2 * s->side) : LARGE;
		bitmap image;
		c->lost |= !plane_bitmap(&s->planes[i], s->low, s->high, most, &image);
		if (!image.pixels)
			return;
		canvas_text(c, at[0], at[1] - 10, s->planes[i].title,
			(lettering){SIZE, 0, INK, false, false});
		canvas_image(c, at[0], at[1], at[2], at[3], &image);
		if (s->side > 0) /* on a page, which a flat field is as white as */
			draw_frame(c, at[0] - 0.5, at[1] - 0.5, at[2] + 1, at[3] + 1);
		free((void *)(uintptr_t)image.pixels);
	}
	draw_scale(c, s);
	draw_colours(c, s);
}

char *sheet_svg(sheet *s)
{
	canvas c;
	sheet_lay_out(s);
	canvas_open(&c, NULL, s->wide, s->high_all, 1);
	sheet_draw(&c, s);
	return canvas_take(&c);
}
