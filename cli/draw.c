/* A drawing of a geometry: sources, axis and detector seen from above and from the side, with the
 * direction of rotation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plot.h"

enum { SIDE = 440, WIDE = 2 * SIDE, HIGH = SIDE + 60, MARGIN = 40 };

/* One panel: the plane of two axes of space, seen with the second one upwards. */
typedef struct panel {
	canvas *c;
	double left;
	int across[2];
	double middle[2], scale; /* units of the canvas per unit of length */
} panel;

static void place(const panel *p, const double point[3], double at[2])
{
	at[0] = p->left + SIDE / 2.0 + p->scale * (point[p->across[0]] - p->middle[0]);
	at[1] = SIDE / 2.0 - p->scale * (point[p->across[1]] - p->middle[1]);
}

static void segment(const panel *p, const double a[3], const double b[3], stroke s)
{
	double from[2], to[2];
	place(p, a, from);
	place(p, b, to);
	canvas_segment(p->c, from[0], from[1], to[0], to[1], s);
}

static void spot(const panel *p, const double point[3], double radius, colour fill)
{
	double at[2];
	place(p, point, at);
	canvas_spot(p->c, at[0], at[1], radius, fill);
}

/* The name is beside the point, within the panel; to the left of points that are left of the axis
 * if `outwards`, where no ray is. */
static void mark(const panel *p, const double point[3], double radius, double below,
	const char *name, colour fill, bool outwards)
{
	double at[2], origin[2];
	place(p, point, at);
	place(p, (const double[3]){0, 0, 0}, origin);
	bool left = outwards && at[0] < origin[0] - 1;
	double wide = 1.15 * text_width(name, 13); /* fonts of browsers are wider */
	double begin = left ? at[0] - 8 - wide : at[0] + 8;
	begin = fmax(fmin(begin, p->left + SIDE - wide), p->left);
	spot(p, point, radius, fill);
	canvas_text(p->c, left ? begin + wide : begin, at[1] + 4 + below, name,
		(lettering){13, left ? 1 : 0, INK, false, false});
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

/* The places of all sources; those of the first eighth, which show the direction, are larger. */
static void draw_sources(const panel *p, const tomos_geometry *g)
{
	const tomos_view *list = tomos_geometry_list(g);
	int64_t count = tomos_geometry_count(g), step = count > 720 ? count / 720 : 1;
	double row = 0.5 * (double)(tomos_geometry_rows(g) - 1), pixel[3], start[3];
	double column = 0.5 * (double)(tomos_geometry_columns(g) - 1);
	for (int64_t i = 0; i < count; i += step) {
		pixel_of(g, &list[i], row, column, pixel, start);
		spot(p, start, i * 8 < count ? 2 : 0.8, i * 8 < count ? SERIES + 1 : SOFT);
	}
}

/* The detector and the rays at the edges of the first view. */
static void draw_views(const panel *p, const tomos_geometry *g)
{
	const tomos_view *list = tomos_geometry_list(g);
	double rows = (double)(tomos_geometry_rows(g) - 1),
	       columns = (double)(tomos_geometry_columns(g) - 1);
	double pixel[4][3], start[4][3];
	int64_t later = tomos_geometry_count(g) / 8;
	char name[32];
	draw_sources(p, g);
	for (int k = 0; k < 4; k++) {
		bool high = k == 1 || k == 2;
		pixel_of(g, &list[0], k < 2 ? 0 : rows, high ? columns : 0, pixel[k], start[k]);
		segment(p, start[k], pixel[k], (stroke){SERIES + 4, 1, 0});
	}
	for (int k = 0; k < 4; k++)
		segment(p, pixel[k], pixel[(k + 1) % 4], (stroke){SERIES, 2.5, 0});
	pixel_of(g, &list[0], rows / 2, columns / 2, pixel[0], start[0]);
	mark(p, start[0], 4, p->across[1] == 2 ? 18 : -10, list[0].src[3] != 0 ? "source" : "rays",
		SERIES + 1, true);
	pixel_of(g, &list[0], 0, 0, pixel[0], start[0]);
	mark(p, pixel[0], 3, 18, "detector, pixel 0,0", SERIES, false);
	pixel_of(g, &list[later], rows / 2, columns / 2, pixel[0], start[0]);
	snprintf(name, sizeof name, "view %lld", (long long)later);
	if (later > 0)
		mark(p, start[0], 3, p->across[1] == 2 ? -12 : -10, name, SERIES + 1, true);
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
	canvas *c, const tomos_geometry *g, int number, const double low[3], const double high[3])
{
	static const int planes[2][2] = {{0, 1}, {1, 2}};
	static const char *const titles[] = {
		"from above: x to the right, y up", "from the side: y to the right, z up"};
	panel p = {.c = c, .left = (double)number * SIDE};
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
	segment(&p, end[0], end[1], (stroke){SERIES + 2, 1.5, 4});
	const double origin[3] = {0, 0, 0};
	spot(&p, origin, 3, SERIES + 2);
	mark(&p, number ? end[0] : origin, number ? 0 : 3, number ? 12 : 0, "axis", SERIES + 2,
		false); /* from the side below the sources, which have names of their own */
	canvas_text(
		c, p.left + 12, SIDE + 16, titles[number], (lettering){13, 0, INK, false, true});
}

/* A length of 1, 2 or 5 times a power of ten, to compare with. */
static void draw_scale(canvas *c, const double low[3], const double high[3], const char *unit)
{
	double size = 0;
	for (int i = 0; i < 3; i++)
		size = fmax(size, high[i] - low[i]);
	if (!(size > 0))
		return;
	double length = nice_step(size / 4, 1), wide = length * (SIDE - 2 * MARGIN) / size;
	char text[80];
	snprintf(text, sizeof text, "%g %s", length, unit);
	canvas_segment(c, SIDE + 12, SIDE + 36, SIDE + 12 + wide, SIDE + 36, (stroke){INK, 2.5, 0});
	canvas_text(c, SIDE + 20 + wide, SIDE + 40, text, (lettering){12, 0, SOFT, false, false});
}

static void draw(canvas *c, const tomos_geometry *g, const char *unit)
{
	double low[3], high[3];
	find_limits(g, low, high);
	for (int number = 0; number < 2; number++)
		draw_panel(c, g, number, low, high);
	canvas_text(c, 12, SIDE + 40, "larger dots: the first eighth of the views",
		(lettering){12, 0, SOFT, false, false});
	draw_scale(c, low, high, unit);
}

int geometry_draw(const settings *s, const tomos_geometry *g, const char *unit)
{
	canvas c;
	if (!s->info.draw[0])
		return DONE;
	canvas_open(&c, s->info.draw, WIDE, HIGH, 2);
	draw(&c, g, unit ? unit : "(unit of the scan, by convention mm)");
	return canvas_write(&c, s->info.draw, &s->file);
}

char *geometry_svg(const tomos_geometry *g, const char *unit)
{
	canvas c;
	canvas_open(&c, NULL, WIDE, HIGH, 1);
	draw(&c, g, unit);
	return canvas_take(&c);
}
