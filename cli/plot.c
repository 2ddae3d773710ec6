/* Plots of curves: axes with marks, labels and units, a legend, notes below. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plot.h"

#define SIZE 13.0                 /* of letters */
#define LINE 18.0                 /* from one line of text to the next */
#define KEY 33.0                  /* of a legend: the line before a name */
enum { MARKED = 40, NOTES = 32 }; /* points up to which each is marked; lines of notes */

static const lettering small = {SIZE - 1, 0.5, SOFT, false, false};

/* The parts of a plot on its canvas. */
typedef struct layout {
	canvas *c;
	const plot *p;
	axis x, y;
	tick across[TICKS], up[TICKS];
	int across_count, up_count;
	char x_factor[24], y_factor[24];
} layout;

/* ---- ranges ------------------------------------------------------------------------------ */

static double place_of(const plot *p, int64_t i)
{
	return p->places ? p->places[i] : (double)(p->from_zero ? i : i + 1);
}

static void axis_widen(axis *a, double value)
{
	if (!isfinite(value))
		return;
	a->low = fmin(a->low, value);
	a->high = fmax(a->high, value);
}

/* Some room at the ends, so that curves do not lie on the frame. */
static void axis_finish(axis *a, bool may_have_powers, double room)
{
	if (!(a->low <= a->high)) {
		a->low = 0;
		a->high = 1;
	}
	a->powers = may_have_powers && a->low > 0 && a->high > 10 * a->low;
	if (!(a->high > a->low)) {
		double more = a->low != 0 ? 0.1 * fabs(a->low) : 1;
		a->low -= more;
		a->high += more;
	}
	double ratio = pow(a->high / a->low, room), more = room * (a->high - a->low);
	a->low = a->powers ? a->low / ratio : a->low >= 0 ? fmax(a->low - more, 0) : a->low - more;
	a->high = a->powers ? a->high * ratio : a->high + more;
}

static void fit_axes(layout *l)
{
	const plot *p = l->p;
	l->x = l->y = (axis){.low = HUGE_VAL, .high = -HUGE_VAL};
	for (int k = 0; k < p->curve_count; k++)
		for (int64_t i = 0; i < p->curves[k].count; i++) {
			axis_widen(&l->x, place_of(p, i));
			axis_widen(&l->y, p->curves[k].values[i]);
		}
	for (int i = 0; i < p->mark_count; i++)
		axis_widen(&l->x, p->marks[i]);
	l->x.whole = p->places == NULL;
	axis_finish(&l->x, p->places && !p->linear && !p->straight, 0);
	axis_finish(&l->y, !p->linear, 0.04);
}

/* ---- axes -------------------------------------------------------------------------------- */

static double widest(const tick *list, int count)
{
	double most = 0;
	for (int i = 0; i < count; i++)
		most = fmax(most, text_width(list[i].text, SIZE - 1));
	return most;
}

static bool has_legend(const plot *p)
{
	return p->curve_count > 1 || (p->curve_count == 1 && !p->up);
}

/* Sets *x to where the entry of a curve ends; -> where it begins, in the next line if this one is
 * full. */
static double legend_place(const layout *l, int number, double *x, int *line)
{
	double wide = KEY + 1.15 * text_width(l->p->curves[number].name, SIZE), begin = *x;
	if (begin > l->x.start && begin + wide > l->x.start + l->x.length) {
		begin = l->x.start;
		++*line;
	}
	*x = begin + wide + 22;
	return begin;
}

static int legend_lines(const layout *l)
{
	double x = l->x.start;
	int line = 0;
	for (int k = 0; k < l->p->curve_count; k++)
		(void)legend_place(l, k, &x, &line);
	return has_legend(l->p) ? line + 1 : 0;
}

/* The frame: its margins follow from the texts around it. */
static void lay_out(layout *l, double x, double y, double wide, double high)
{
	const plot *p = l->p;
	fit_axes(l);
	l->up_count = axis_ticks(&l->y, 6, l->up, l->y_factor);
	double left = widest(l->up, l->up_count) + 14 + (p->up ? LINE : 0);
	l->x.start = x + left;
	l->x.length = wide - left - 22;
	double top = (p->title ? LINE + 8 : 6) + (has_legend(p) ? LINE * legend_lines(l) + 4 : 0) +
		     (l->y_factor[0] ? LINE - 6 : 0);
	double bottom = LINE + 12 + (p->across ? LINE : 0);
	l->y.start = y + high - bottom;
	l->y.length = -(high - top - bottom);
	l->across_count = axis_ticks(&l->x, 8, l->across, l->x_factor);
}

static void draw_across(const layout *l)
{
	double bottom = l->y.start, top = l->y.start + l->y.length, last = -HUGE_VAL;
	for (int i = 0; i < l->across_count; i++) {
		const tick *t = &l->across[i];
		double x = axis_place(&l->x, t->value), half = 0.5 * text_width(t->text, SIZE - 1);
		if (t->text[0])
			canvas_segment(l->c, x, bottom, x, top, (stroke){FAINT, 0.8, 0});
		canvas_segment(
			l->c, x, bottom, x, bottom + (t->text[0] ? 6 : 3), (stroke){SOFT, 1, 0});
		if (t->text[0] && x - half > last + 6) { /* texts do not overlap */
			canvas_text(l->c, x, bottom + LINE + 2, t->text, small);
			last = x + half;
		}
	}
	lettering name = {SIZE, 0.5, INK, false, false};
	char label[128];
	snprintf(label, sizeof label, "%s%s%s", l->p->across ? l->p->across : "",
		l->x_factor[0] ? "  " : "", l->x_factor);
	canvas_text(l->c, l->x.start + 0.5 * l->x.length, bottom + 2 * LINE + 4, label, name);
}

static void draw_up(const layout *l, double x)
{
	double left = l->x.start, right = left + l->x.length;
	lettering end = small, name = {SIZE, 0.5, INK, true, false};
	end.anchor = 1;
	for (int i = 0; i < l->up_count; i++) {
		double y = axis_place(&l->y, l->up[i].value);
		if (l->up[i].text[0])
			canvas_segment(l->c, left, y, right, y, (stroke){FAINT, 0.8, 0});
		canvas_segment(
			l->c, left - (l->up[i].text[0] ? 6 : 3), y, left, y, (stroke){SOFT, 1, 0});
		canvas_text(l->c, left - 9, y + 0.32 * SIZE, l->up[i].text, end);
	}
	end.anchor = 0;
	canvas_text(l->c, left - 6, l->y.start + l->y.length - 7, l->y_factor, end);
	if (l->p->up)
		canvas_text(l->c, x + SIZE, l->y.start + 0.5 * l->y.length, l->p->up, name);
}

static void draw_frame(const layout *l)
{
	double left = l->x.start, bottom = l->y.start;
	const stroke line = {SOFT, 1.2, 0};
	canvas_segment(l->c, left, bottom, left + l->x.length, bottom, line);
	canvas_segment(l->c, left, bottom, left, bottom + l->y.length, line);
}

/* ---- curves ------------------------------------------------------------------------------- */

static stroke stroke_of(int number)
{
	static const double dashes[] = {0, 7, 3, 0, 7, 3, 0};
	return (stroke){(colour)(SERIES + number % 7), 2, dashes[number % 7]};
}

static bool drawable(const layout *l, double value)
{
	return isfinite(value) && (!l->y.powers || value > 0);
}

static void draw_filled(const layout *l, const double *points, int64_t count)
{
	double *all = malloc((size_t)(count + 2) * 2 * sizeof *all);
	l->c->lost |= !all;
	if (!all)
		return;
	memcpy(all, points, (size_t)count * 2 * sizeof *all);
	for (int i = 0; i < 2; i++) {
		all[2 * (count + i)] = points[i ? 0 : 2 * (count - 1)];
		all[2 * (count + i) + 1] = l->y.start;
	}
	canvas_area(l->c, all, count + 2, FAINT);
	free(all);
}

/* Pieces between values that are left out. */
static void draw_curve(const layout *l, int number, double *points)
{
	const curve *one = &l->p->curves[number];
	stroke s = stroke_of(number);
	for (int64_t i = 0, n = 0; i < one->count; i++) {
		bool last = i + 1 == one->count || !drawable(l, one->values[i + 1]);
		if (!drawable(l, one->values[i]))
			continue;
		points[2 * n] = axis_place(&l->x, place_of(l->p, i));
		points[2 * n + 1] = axis_place(&l->y, one->values[i]);
		n++;
		if (last && l->p->filled && number == 0)
			draw_filled(l, points, n);
		if (last)
			canvas_line(l->c, points, n, s);
		for (int64_t k = 0; last && one->count <= MARKED && k < n; k++)
			canvas_spot(l->c, points[2 * k], points[2 * k + 1], 3, s.colour);
		n = last ? 0 : n;
	}
}

static void draw_legend(const layout *l, double y)
{
	double x = l->x.start;
	int line = 0;
	for (int k = 0; k < l->p->curve_count; k++) {
		double begin = legend_place(l, k, &x, &line), at = y + LINE * line;
		canvas_segment(l->c, begin, at - 4, begin + KEY - 7, at - 4, stroke_of(k));
		canvas_text(l->c, begin + KEY, at, l->p->curves[k].name,
			(lettering){SIZE, 0, INK, false, false});
	}
}

static void draw_curves(const layout *l)
{
	const plot *p = l->p;
	double top = l->y.start + l->y.length;
	const double box[4] = {
		l->x.start - 4, top - 4, l->x.start + l->x.length + 4, l->y.start + 1};
	int64_t most = 0;
	for (int k = 0; k < p->curve_count; k++)
		most = p->curves[k].count > most ? p->curves[k].count : most;
	double *points = malloc((size_t)(most + 1) * 2 * sizeof *points);
	l->c->lost |= !points;
	canvas_clip(l->c, box);
	for (int k = 0; points && k < p->curve_count; k++)
		draw_curve(l, k, points);
	for (int i = 0; i < p->mark_count; i++) {
		double x = axis_place(&l->x, p->marks[i]);
		canvas_segment(l->c, x, l->y.start, x, top, (stroke){SERIES + 1, 1.5, 5});
	}
	canvas_clip(l->c, NULL);
	free(points);
}

static void plot_draw(canvas *c, const plot *p, double wide, double high)
{
	layout l = {.c = c, .p = p};
	lay_out(&l, 4, 0, wide - 4, high);
	draw_across(&l);
	draw_up(&l, 4);
	draw_curves(&l);
	draw_frame(&l);
	if (p->title)
		canvas_text(
			c, l.x.start, LINE, p->title, (lettering){SIZE + 1, 0, INK, false, true});
	if (has_legend(p))
		draw_legend(&l, (p->title ? LINE + 8 : 6) + LINE - 4);
}

static void draw_notes(canvas *c, const char *notes, double y)
{
	char words[160];
	for (int i = 0; *notes && i < NOTES; i++, y += LINE) {
		int length = (int)strcspn(notes, "\n");
		int most = utf8_cut(notes, sizeof words - 1);
		snprintf(words, sizeof words, "%.*s", length < most ? length : most, notes);
		char *rest = strstr(words, "  "); /* the second column of a table */
		if (rest)
			*rest++ = 0;
		canvas_text(c, 24, y, words, (lettering){SIZE, 0, INK, false, false});
		if (rest)
			canvas_text(c, 170, y, rest + strspn(rest, " "),
				(lettering){SIZE, 0, INK, false, false});
		notes += length + (notes[length] == '\n');
	}
}

int plot_write(const char *path, const plot *p, const tomos_file_options *options)
{
	const char *notes = p->notes ? p->notes : "";
	int lines = notes[0] ? 1 : 0;
	canvas c;
	for (const char *at = notes; *at && lines < NOTES; at++)
		lines += *at == '\n';
	canvas_open(&c, path, 720, 440 + LINE * lines, 2);
	plot_draw(&c, p, 720, 440);
	draw_notes(&c, notes, 440 + 12);
	return canvas_write(&c, path, options);
}

char *plot_svg(const plot *p, double wide, double high)
{
	canvas c;
	canvas_open(&c, NULL, wide, high, 1);
	plot_draw(&c, p, wide, high);
	return canvas_take(&c);
}
