/* Plots of curves with axes as a greyscale image, with letters of three by five dots. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

enum { WIDE = 760, HIGH = 480, LEFT = 84, RIGHT = 24, TOP = 40, BOTTOM = 40, DOT = 2, TICKS = 5 };
enum { LINE = 16, NOTES = 32 }; /* lines of text below */

/* The letters, as rows of three dots, top row first. */
static const struct {
	char letter;
	unsigned short dots;
} font[] = {{'0', 075557}, {'1', 026227}, {'2', 071747}, {'3', 071717}, {'4', 055711},
	{'5', 074717}, {'6', 074757}, {'7', 071222}, {'8', 075757}, {'9', 075717}, {'.', 000002},
	{'-', 000700}, {'+', 002720}, {'A', 025755}, {'B', 065656}, {'C', 034443}, {'D', 065556},
	{'E', 074647}, {'F', 074644}, {'G', 034553}, {'H', 055755}, {'I', 072227}, {'J', 011152},
	{'K', 055655}, {'L', 044447}, {'M', 057755}, {'N', 065555}, {'O', 025552}, {'P', 065644},
	{'Q', 025563}, {'R', 065655}, {'S', 034216}, {'T', 072222}, {'U', 055557}, {'V', 055552},
	{'W', 055775}, {'X', 055255}, {'Y', 055222}, {'Z', 071247}, {',', 000024}};

typedef struct canvas {
	float *dots;
	long high;
} canvas;

static void dot(canvas *c, double x, double y, float grey)
{
	long i = lround(x), j = lround(y);
	if (i >= 0 && i < WIDE && j >= 0 && j < c->high)
		c->dots[j * WIDE + i] = grey;
}

static unsigned dots_of(char sign)
{
	for (int k = 0; k < COUNT(font); k++)
		if (font[k].letter == toupper((unsigned char)sign))
			return font[k].dots;
	return 0;
}

void picture_text(float *dots, int64_t wide, int64_t high, int64_t x, int64_t y, const char *words,
	float grey)
{
	for (; *words; words++, x += 4 * DOT)
		for (int i = 0; i < 15 * DOT * DOT; i++) {
			int bit = i / (DOT * DOT), d = i % (DOT * DOT);
			int64_t column = x + bit % 3 * DOT + d % DOT,
				row = y + bit / 3 * DOT + d / DOT;
			if ((dots_of(*words) >> (14 - bit) & 1) && column >= 0 && column < wide &&
				row >= 0 && row < high)
				dots[row * wide + column] = grey;
		}
}

/* Aligned left at x, or right. */
static void text(canvas *c, int x, int y, const char *words, bool right)
{
	x -= right ? 4 * DOT * (int)strlen(words) : 0;
	picture_text(c->dots, WIDE, c->high, x, y, words, 0);
}

static void line(canvas *c, double x0, double y0, double x1, double y1, float grey, int dash)
{
	double length = fmax(fabs(x1 - x0), fabs(y1 - y0));
	for (int i = 0; i <= (int)length; i++) {
		double t = length > 0 ? i / length : 0, x = x0 + t * (x1 - x0);
		if (dash == 0 || (int)x / dash % 2 == 0)
			for (int d = 0; d < (grey == 0 ? 2 : 1); d++)
				dot(c, x, y0 + t * (y1 - y0) + d, grey);
	}
}

/* An axis from low to high, logarithmic if the values span a large range. */
typedef struct axis {
	double low, high;
	bool powers;
	bool whole; /* integers only, for iterations */
} axis;

static double part(const axis *a, double value)
{
	if (a->powers)
		return (log10(value) - log10(a->low)) / (log10(a->high) - log10(a->low));
	return (value - a->low) / (a->high - a->low);
}

static double at_part(const axis *a, double share)
{
	return a->powers ? pow(10, log10(a->low) + share * (log10(a->high) - log10(a->low)))
			 : a->low + share * (a->high - a->low);
}

static void axis_widen(axis *a, double value)
{
	if (!isfinite(value))
		return;
	a->low = fmin(a->low, value);
	a->high = fmax(a->high, value);
}

static void axis_finish(axis *a, bool may_have_powers)
{
	if (!(a->low <= a->high))
		*a = (axis){.low = 0, .high = 1};
	a->powers = may_have_powers && a->low > 0 && a->high > 10 * a->low;
	if (!(a->high > a->low)) {
		double room = a->low != 0 ? 0.1 * fabs(a->low) : 1;
		a->low -= room;
		a->high += room;
	}
}

static double place_x(const axis *a, double value)
{
	return LEFT + part(a, value) * (WIDE - LEFT - RIGHT);
}

static double place_y(const axis *a, double value)
{
	return HIGH - BOTTOM - part(a, value) * (HIGH - TOP - BOTTOM);
}

static void mark_x(canvas *c, const axis *x, double at)
{
	char words[32];
	line(c, place_x(x, at), TOP, place_x(x, at), HIGH - BOTTOM, 0.8F, 0);
	snprintf(words, sizeof words, x->whole ? "%.0f" : "%.4g", at);
	text(c, (int)place_x(x, at) + 2 * DOT * (int)strlen(words), HIGH - BOTTOM + 10, words,
		true);
}

/* Step of 1, 2 or 5 times a power of ten. */
static double whole_step(const axis *a)
{
	static const double steps[] = {1, 2, 5};
	for (double ten = 1;; ten *= 10)
		for (int i = 0; i < COUNT(steps); i++)
			if ((a->high - a->low) / (ten * steps[i]) <= TICKS + 1)
				return ten * steps[i];
}

static void draw_axes(canvas *c, const axis *x, const axis *y)
{
	char words[32];
	double step = x->whole ? whole_step(x) : 1;
	for (double at = ceil(x->low / step) * step; x->whole && at <= x->high; at += step)
		mark_x(c, x, at);
	for (int i = 0; i <= TICKS; i++) {
		double v = at_part(y, (double)i / TICKS);
		if (!x->whole)
			mark_x(c, x, at_part(x, (double)i / TICKS));
		line(c, LEFT, place_y(y, v), WIDE - RIGHT, place_y(y, v), 0.8F, 0);
		snprintf(words, sizeof words, "%.3g", v);
		text(c, LEFT - 6, (int)place_y(y, v) - 5, words, true);
	}
	line(c, LEFT, HIGH - BOTTOM, WIDE - RIGHT, HIGH - BOTTOM, 0.3F, 0);
	line(c, LEFT, TOP, LEFT, HIGH - BOTTOM, 0.3F, 0);
}

static double place_of(const double *places, int64_t i)
{
	return places ? places[i] : (double)(i + 1);
}

static void draw_curve(
	canvas *c, const axis *x, const axis *y, const curve *one, int number, const double *places)
{
	const int64_t count = one->count;
	static const int dashes[] = {0, 12, 4, 24};
	int dash = dashes[number % COUNT(dashes)], name = LEFT + 220 * (number % 3);
	int height = TOP - 8 - 12 * (number / 3);
	for (int64_t i = 0; i < count; i++) {
		double u = place_x(x, place_of(places, i));
		if (!isfinite(one->values[i]) || (y->powers && !(one->values[i] > 0)))
			continue;
		double v = place_y(y, one->values[i]);
		if (count <= 40)
			for (int d = 0; d < 25; d++)
				dot(c, u + d % 5 - 2, v + d / 5 - 2, 0);
		if (i + 1 < count && isfinite(one->values[i + 1]))
			line(c, u, v, place_x(x, place_of(places, i + 1)),
				place_y(y, one->values[i + 1]), 0, dash);
	}
	line(c, name, height, name + 36, height, 0, dash);
	text(c, name + 44, height - 5, one->name, false);
}

/* Ranges that contain all curves. */
static void fit_axes(axis *x, axis *y, const plot *p)
{
	*x = *y = (axis){.low = HUGE_VAL, .high = -HUGE_VAL};
	for (int k = 0; k < p->curve_count; k++)
		for (int64_t i = 0; i < p->curves[k].count; i++) {
			axis_widen(x, place_of(p->places, i));
			axis_widen(y, p->curves[k].values[i]);
		}
	axis_finish(x, p->places != NULL);
	x->whole = p->places == NULL;
	axis_finish(y, true);
}

static void draw_notes(canvas *c, const char *notes)
{
	char words[128];
	for (int y = HIGH; *notes && y < c->high; y += LINE) {
		int length = (int)strcspn(notes, "\n");
		snprintf(words, sizeof words, "%.*s", length, notes);
		text(c, LEFT, y, words, false);
		notes += length + (notes[length] == '\n');
	}
}

int plot_write(const char *path, const plot *p, const tomos_file_options *options)
{
	const char *notes = p->notes ? p->notes : "";
	long lines = notes[0] ? 1 : 0;
	axis x, y;
	for (const char *at = notes; *at && lines < NOTES; at++)
		lines += *at == '\n';
	canvas c = {
		malloc(sizeof(float) * WIDE * (size_t)(HIGH + LINE * lines)), HIGH + LINE * lines};
	if (!c.dots)
		return failed("no memory for an image");
	for (long i = 0; i < WIDE * c.high; i++)
		c.dots[i] = 1;
	fit_axes(&x, &y, p);
	draw_axes(&c, &x, &y);
	text(&c, LEFT, 8, p->title, false);
	for (int k = 0; k < p->curve_count; k++)
		draw_curve(&c, &x, &y, &p->curves[k], k, p->places);
	draw_notes(&c, notes);
	int code = lib(tomos_picture_write(path, c.dots, WIDE, c.high, 0, 1, options));
	free(c.dots);
	return code;
}
