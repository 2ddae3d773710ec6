/* A drawing of a geometry: sources, axis and detector seen from above and from the side, with the
 * direction of rotation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

enum { SIDE = 440, WIDE = 2 * SIDE, HIGH = SIDE + 60, MARGIN = 30, TEXT = 16 };

/* One panel: the plane of two axes of space, seen with the second one upwards. */
typedef struct panel {
	float *dots;
	int64_t left;
	int across[2];
	double middle[2], scale; /* dots per unit of length */
} panel;

static void dot_at(const panel *p, double x, double y, double size, float grey)
{
	for (double j = -size; j <= size; j++)
		for (double i = -size; i <= size; i++) {
			int64_t column = llround(x + i), row = llround(y + j);
			if (column >= p->left && column < p->left + SIDE && row >= 0 && row < SIDE)
				p->dots[row * WIDE + column] = grey;
		}
}

static void place(const panel *p, const double point[3], double at[2])
{
	at[0] = (double)p->left + SIDE / 2.0 + p->scale * (point[p->across[0]] - p->middle[0]);
	at[1] = SIDE / 2.0 - p->scale * (point[p->across[1]] - p->middle[1]);
}

static void segment(const panel *p, const double a[3], const double b[3], double size, float grey)
{
	double from[2], to[2];
	place(p, a, from);
	place(p, b, to);
	double steps = ceil(hypot(to[0] - from[0], to[1] - from[1])) + 1;
	for (double i = 0; i <= steps; i++)
		dot_at(p, from[0] + i / steps * (to[0] - from[0]),
			from[1] + i / steps * (to[1] - from[1]), size, grey);
}

static void mark(
	const panel *p, const double point[3], double size, int64_t below, const char *name)
{
	double at[2];
	place(p, point, at);
	dot_at(p, at[0], at[1], size, 0);
	picture_text(p->dots, WIDE, HIGH, llround(at[0]) + 8, llround(at[1]) - 5 + below, name, 0);
}

/* Position of a pixel, and where its ray comes from: the source, or a point as far before the
 * origin as the detector is wide. */
static void pixel_of(const tomos_geometry *g, const tomos_view *v, double row, double column,
	double pixel[3], double start[3])
{
	double middle[2] = {0.5 * (double)(tomos_geometry_columns(g) - 1),
		0.5 * (double)(tomos_geometry_rows(g) - 1)};
	double length = sqrt(v->src[0] * v->src[0] + v->src[1] * v->src[1] + v->src[2] * v->src[2]);
	double wide = middle[0] * sqrt(v->u[0] * v->u[0] + v->u[1] * v->u[1] + v->u[2] * v->u[2]);
	for (int i = 0; i < 3; i++) {
		pixel[i] = v->det[i] + (column - middle[0]) * v->u[i] + (row - middle[1]) * v->v[i];
		start[i] = v->src[3] != 0 ? v->src[i] : pixel[i] - 2 * wide * v->src[i] / length;
		if (v->src[3] == 0)
			pixel[i] += wide * v->src[i] / length;
	}
}

/* The sources, detectors and rays at the edges of the first view, and the way of the source. */
static void draw_views(const panel *p, const tomos_geometry *g)
{
	const tomos_view *list = tomos_geometry_list(g);
	int64_t count = tomos_geometry_count(g);
	double rows = (double)(tomos_geometry_rows(g) - 1),
	       columns = (double)(tomos_geometry_columns(g) - 1);
	double pixel[4][3], start[4][3];
	for (int64_t i = 0; i < count; i++) {
		pixel_of(g, &list[i], rows / 2, columns / 2, pixel[0], start[0]);
		segment(p, start[0], start[0], i * 8 < count ? 1.5 : 0.5,
			i * 8 < count ? 0.2F : 0.6F);
	}
	for (int k = 0; k < 4; k++) {
		bool high = k == 1 || k == 2;
		pixel_of(g, &list[0], k < 2 ? 0 : rows, high ? columns : 0, pixel[k], start[k]);
		segment(p, start[k], pixel[k], 0, 0.5F);
	}
	for (int k = 0; k < 4; k++)
		segment(p, pixel[k], pixel[(k + 1) % 4], 1, 0);
	pixel_of(g, &list[0], rows / 2, columns / 2, pixel[0], start[0]);
	mark(p, start[0], 3, 0, list[0].src[3] != 0 ? "source" : "rays");
	mark(p, pixel[0], 1, 0, "detector");
	pixel_of(g, &list[0], 0, 0, pixel[0], start[0]);
	mark(p, pixel[0], 2, 14, "0,0");
	pixel_of(g, &list[count / 8], rows / 2, columns / 2, pixel[0], start[0]);
	mark(p, start[0], 2, -14, "later");
}

static void widen(double low[3], double high[3], const double point[3])
{
	for (int i = 0; i < 3; i++) {
		low[i] = fmin(low[i], point[i]);
		high[i] = fmax(high[i], point[i]);
	}
}

/* Limits of all sources and detector corners. */
static void find_limits(const tomos_geometry *g, double low[3], double high[3])
{
	const tomos_view *list = tomos_geometry_list(g);
	for (int i = 0; i < 3; i++)
		low[i] = high[i] = 0;
	for (int64_t i = 0; i < tomos_geometry_count(g); i++)
		for (int k = 0; k < 4; k++) {
			double pixel[3], start[3];
			pixel_of(g, &list[i], k & 1 ? (double)tomos_geometry_rows(g) - 1 : 0,
				k & 2 ? (double)tomos_geometry_columns(g) - 1 : 0, pixel, start);
			widen(low, high, pixel);
			widen(low, high, start);
		}
}

static void draw_panel(
	float *dots, const tomos_geometry *g, int number, const double low[3], const double high[3])
{
	static const int planes[2][2] = {{0, 1}, {1, 2}};
	static const char *const titles[] = {
		"from above: x to the right, y up", "from the side: y to the right, z up"};
	panel p = {.dots = dots, .left = (int64_t)number * SIDE};
	double size = 0;
	for (int i = 0; i < 2; i++) {
		p.across[i] = planes[number][i];
		p.middle[i] = 0.5 * (low[p.across[i]] + high[p.across[i]]);
	}
	for (int i = 0; i < 3; i++)
		size = fmax(size, high[i] - low[i]);
	p.scale = size > 0 ? (SIDE - 2 * MARGIN) / size : 1;
	draw_views(&p, g);
	double end[2][3] = {{0, 0, low[2]}, {0, 0, high[2]}};
	segment(&p, end[0], end[1], 0, 0.3F);
	mark(&p, (const double[3]){0, 0, 0}, 2, 0, "axis");
	picture_text(dots, WIDE, HIGH, p.left + 8, SIDE + 8, titles[number], 0);
}

int geometry_draw(const settings *s, const tomos_geometry *g)
{
	double low[3], high[3];
	if (!s->info.draw[0])
		return DONE;
	float *dots = malloc(sizeof(float) * WIDE * HIGH);
	if (!dots)
		return failed("no memory for an image");
	for (int i = 0; i < WIDE * HIGH; i++)
		dots[i] = 1;
	find_limits(g, low, high);
	for (int number = 0; number < 2; number++)
		draw_panel(dots, g, number, low, high);
	picture_text(dots, WIDE, HIGH, 8, SIDE + 8 + TEXT,
		"thick dots: the first eighth of the views, which shows the direction", 0);
	int code = lib(tomos_picture_write(s->info.draw, dots, WIDE, HIGH, 0, 1, &s->file));
	free(dots);
	return code;
}
