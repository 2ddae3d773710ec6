/* The pixels of a canvas: lines and areas with smooth edges, images. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "canvas.h"

enum { LINES = 4 }; /* lines of samples in a pixel, for the edges of areas */

/* Pixels [x0, x1) x [y0, y1). */
typedef struct region {
	int64_t x0, y0, x1, y1;
} region;

static int64_t within(double value, int64_t most)
{
	return !(value > 0) ? 0 : value < (double)most ? (int64_t)value : most;
}

/* The pixels of a rectangle in units of the canvas, within the clip. */
static region region_of(const canvas *c, double x0, double y0, double x1, double y1)
{
	const double *k = c->clip, s = c->scale;
	return (region){within(floor(s * fmax(x0, k[0])), c->columns),
		within(floor(s * fmax(y0, k[1])), c->rows),
		within(ceil(s * fmin(x1, k[2])), c->columns),
		within(ceil(s * fmin(y1, k[3])), c->rows)};
}

static void blend(canvas *c, int64_t at, const unsigned char *rgb, double part)
{
	for (int i = 0; i < 3; i++) {
		unsigned char *to = &c->rgb[3 * at + i];
		*to = (unsigned char)(*to + (rgb[i] - *to) * part + 0.5);
	}
}

/* Puts the colour where something is covered, and clears that. */
static void fill_covered(canvas *c, region r, colour fill)
{
	for (int64_t y = r.y0; y < r.y1; y++)
		for (int64_t x = r.x0; x < r.x1; x++) {
			float *cover = &c->cover[y * c->columns + x];
			if (*cover > 0)
				blend(c, y * c->columns + x, colour_rgb(fill),
					fmin((double)*cover, 1));
			*cover = 0;
		}
}

/* ---- lines ----------------------------------------------------------------------------------- */

static double distance(const double a[2], const double b[2], double x, double y)
{
	double dx = b[0] - a[0], dy = b[1] - a[1], length = dx * dx + dy * dy;
	double t = length > 0 ? ((x - a[0]) * dx + (y - a[1]) * dy) / length : 0;
	t = fmin(fmax(t, 0), 1);
	return hypot(x - a[0] - t * dx, y - a[1] - t * dy);
}

/* A piece with round ends; where pieces overlap, the larger cover counts. */
static void cover_piece(canvas *c, const double a[2], const double b[2], double width)
{
	double s = c->scale, half = 0.5 * fmax(width * s, 0.9), reach = (half + 1) / s;
	const double from[2] = {a[0] * s, a[1] * s}, to[2] = {b[0] * s, b[1] * s};
	region r = region_of(c, fmin(a[0], b[0]) - reach, fmin(a[1], b[1]) - reach,
		fmax(a[0], b[0]) + reach, fmax(a[1], b[1]) + reach);
	for (int64_t y = r.y0; y < r.y1; y++)
		for (int64_t x = r.x0; x < r.x1; x++) {
			double away = distance(from, to, (double)x + 0.5, (double)y + 0.5);
			float part = (float)fmin(fmax(half + 0.5 - away, 0), 1);
			float *cover = &c->cover[y * c->columns + x];
			*cover = fmaxf(*cover, part);
		}
}

/* The dashes of one piece; `gone` is the length of the line before it. */
static double cover_dashes(
	canvas *c, const double a[2], const double b[2], const stroke *s, double gone)
{
	double length = hypot(b[0] - a[0], b[1] - a[1]), dash = s->dash;
	for (double at = 0; length > 0 && at < length;) {
		double phase = fmod(gone + at, 2 * dash),
		       end = fmin(length, at + dash - fmod(phase, dash));
		if (phase < dash) {
			const double from[2] = {a[0] + at / length * (b[0] - a[0]),
				a[1] + at / length * (b[1] - a[1])};
			const double to[2] = {a[0] + end / length * (b[0] - a[0]),
				a[1] + end / length * (b[1] - a[1])};
			cover_piece(c, from, to, s->width);
		}
		at = fmax(end, at + 1e-3 * dash);
	}
	return gone + length;
}

void dots_line(canvas *c, const double *points, int64_t count, stroke s)
{
	double gone = 0, low[2] = {HUGE_VAL, HUGE_VAL}, high[2] = {-HUGE_VAL, -HUGE_VAL};
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 2; a++) {
			low[a] = fmin(low[a], points[2 * i + a]);
			high[a] = fmax(high[a], points[2 * i + a]);
		}
	for (int64_t i = 0; i + 1 < count || (i == 0 && count == 1); i++) {
		const double *a = points + 2 * i, *b = count == 1 ? a : a + 2;
		if (s.dash > 0 && count > 1)
			gone = cover_dashes(c, a, b, &s, gone);
		else
			cover_piece(c, a, b, s.width);
	}
	double reach = 0.5 * s.width + 2 / c->scale;
	fill_covered(c,
		region_of(c, low[0] - reach, low[1] - reach, high[0] + reach, high[1] + reach),
		s.colour);
}

/* ---- areas ----------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Where the outline crosses the height y, in order. */
static int64_t crossings(const double *points, int64_t count, double y, double *list)
{
	int64_t found = 0;
	for (int64_t i = 0; i < count; i++) {
		const double *a = points + 2 * i, *b = points + 2 * ((i + 1) % count);
		if ((a[1] <= y) != (b[1] <= y))
			list[found++] = a[0] + (y - a[1]) / (b[1] - a[1]) * (b[0] - a[0]);
	}
	qsort(list, (size_t)found, sizeof *list, by_place);
	return found;
}

static void cover_span(canvas *c, region r, int64_t y, double from, double to)
{
	for (int64_t x = r.x0; x < r.x1; x++) {
		double part = fmin(to, (double)(x + 1)) - fmax(from, (double)x);
		if (part > 0)
			c->cover[y * c->columns + x] += (float)(part / LINES);
	}
}

void dots_area(canvas *c, const double *points, int64_t count, colour fill)
{
	double low = HUGE_VAL, high = -HUGE_VAL, *list = malloc((size_t)(count + 1) * sizeof *list);
	c->lost |= !list;
	for (int64_t i = 0; i < count; i++) {
		low = fmin(low, points[2 * i + 1]);
		high = fmax(high, points[2 * i + 1]);
	}
	region r = region_of(c, 0, low, c->wide, high);
	for (int64_t y = r.y0; list && y < r.y1; y++)
		for (int k = 0; k < LINES; k++) {
			double height = ((double)y + (k + 0.5) / LINES) / c->scale;
			int64_t found = crossings(points, count, height, list);
			for (int64_t i = 0; i + 1 < found; i += 2)
				cover_span(c, r, y, list[i] * c->scale, list[i + 1] * c->scale);
		}
	fill_covered(c, r, fill);
	free(list);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Samples of the image that a pixel averages along one direction. */
static void source(double from, double size, int64_t count, int64_t at, int64_t range[2])
{
	double step = (double)count / size, first = ((double)at - from) * step;
	range[0] = within(floor(step > 1 ? first : first + 0.5 * step), count - 1);
	range[1] = step > 1 ? within(ceil(first + step), count) : range[0] + 1;
	range[1] = range[1] > range[0] ? range[1] : range[0] + 1;
}

static void put_average(
	canvas *c, int64_t at, const bitmap *image, const int64_t across[2], const int64_t down[2])
{
	int64_t many = (across[1] - across[0]) * (down[1] - down[0]);
	for (int k = 0; k < 3; k++) {
		int64_t sum = 0, channel = image->channels == 3 ? k : 0;
		for (int64_t j = down[0]; j < down[1]; j++)
			for (int64_t i = across[0]; i < across[1]; i++)
				sum += image->pixels[(j * image->wide + i) * image->channels +
						     channel];
		c->rgb[3 * at + k] = (unsigned char)((2 * sum + many) / (2 * many));
	}
}

void dots_image(canvas *c, double x, double y, double wide, double high, const bitmap *image)
{
	double s = c->scale;
	region r = region_of(c, x, y, x + wide, y + high);
	for (int64_t j = r.y0; j < r.y1; j++)
		for (int64_t i = r.x0; i < r.x1; i++) {
			int64_t across[2], down[2];
			source(x * s, wide * s, image->wide, i, across);
			source(y * s, high * s, image->high, j, down);
			put_average(c, j * c->columns + i, image, across, down);
		}
}
