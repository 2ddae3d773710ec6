/* Letters on a canvas of pixels, drawn with strokes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "canvas.h"

#define UNIT 0.05  /* of the size: the grid on which letters are defined */
#define GAP 3.6    /* units between two letters */
#define SPACE 3.4  /* and of a space, besides */
#define SMALL 0.64 /* of superscripts, */
#define RAISED 6.5 /* which are this much higher */
enum { POINTS = 128, CURVE = 6 };

static const glyph font[] = {
#define G(code, width, strokes) {code, width, strokes},
#include "font.def"
#undef G
};

const glyph *glyph_find(unsigned code)
{
	static const glyph missing = {0, 7, "M0 0L0 12L7 12L7 0L0 0"};
	for (int i = 0; i < COUNT(font); i++)
		if (font[i].code == code)
			return &font[i];
	return &missing;
}

/* Bytes that are not UTF-8 count as a letter each. */
static unsigned decode(const char **text)
{
	const unsigned char *at = (const unsigned char *)*text;
	int more = at[0] >= 0xf0 ? 3 : at[0] >= 0xe0 ? 2 : at[0] >= 0xc0 ? 1 : 0;
	unsigned code = more ? at[0] & (0x3fU >> more) : at[0];
	for (int i = 1; i <= more; i++) {
		if ((at[i] & 0xc0) != 0x80) {
			*text += 1;
			return 0xfffd;
		}
		code = code << 6 | (at[i] & 0x3fU);
	}
	*text += 1 + more;
	return code;
}

unsigned letter_next(const char **text, bool *raised)
{
	*raised = true;
	if (!**text)
		return 0;
	unsigned code = decode(text);
	if (code == 0xb9 || code == 0xb2 || code == 0xb3)
		return code == 0xb9 ? '1' : code == 0xb2 ? '2' : '3';
	if (code == 0x2070 || (code >= 0x2074 && code <= 0x2079))
		return '0' + (code - 0x2070);
	if (code == 0x207b)
		return 0x2212;
	*raised = false;
	return code;
}

double text_width(const char *text, double size)
{
	double units = 0;
	bool raised;
	for (unsigned code; (code = letter_next(&text, &raised));)
		units += code == ' ' ? SPACE + GAP
				     : (glyph_find(code)->width + GAP) * (raised ? SMALL : 1);
	return fmax(units - GAP, 0) * UNIT * size;
}

/* ---- strokes --------------------------------------------------------------------------------- */

typedef struct pen {
	canvas *c;
	double x, y, unit; /* origin of the letter, and length of a unit */
	bool upwards;
	stroke stroke;
	double points[2 * POINTS], at[2];
	int count;
} pen;

static void pen_add(pen *p, double x, double y)
{
	if (p->count == POINTS)
		return;
	double *to = &p->points[2 * p->count++];
	to[0] = p->upwards ? p->x - p->unit * y : p->x + p->unit * x;
	to[1] = p->upwards ? p->y - p->unit * x : p->y - p->unit * y;
	p->at[0] = x;
	p->at[1] = y;
}

static void pen_end(pen *p)
{
	if (p->count > 0)
		dots_line(p->c, p->points, p->count, p->stroke);
	p->count = 0;
}

static void pen_curve(pen *p, const double by[2], const double to[2])
{
	const double from[2] = {p->at[0], p->at[1]};
	for (int i = 1; i <= CURVE; i++) {
		double t = (double)i / CURVE, a = (1 - t) * (1 - t), b = 2 * t * (1 - t), c = t * t;
		pen_add(p, a * from[0] + b * by[0] + c * to[0],
			a * from[1] + b * by[1] + c * to[1]);
	}
}

static void draw_glyph(pen *p, const char *strokes)
{
	while (*strokes) {
		char verb = *strokes;
		double numbers[4] = {0};
		char *end = (char *)(uintptr_t)strokes + 1;
		for (int i = 0; i < (verb == 'Q' ? 4 : 2); i++)
			numbers[i] = strtod(end, &end);
		strokes = end;
		if (verb == 'M')
			pen_end(p);
		if (verb == 'Q')
			pen_curve(p, numbers, numbers + 2);
		else
			pen_add(p, numbers[0], numbers[1]);
	}
	pen_end(p);
}

void font_draw(canvas *c, double x, double y, const char *text, lettering l)
{
	double before = l.anchor * text_width(text, l.size), unit = UNIT * l.size;
	pen p = {.c = c, .x = x, .y = y, .upwards = l.upwards};
	bool raised;
	*(l.upwards ? &p.y : &p.x) += l.upwards ? before : -before;
	for (unsigned code; (code = letter_next(&text, &raised));) {
		const glyph *g = glyph_find(code);
		double part = raised ? SMALL : 1, rise = raised ? RAISED * unit : 0;
		double step = (code == ' ' ? SPACE + GAP : (g->width + GAP) * part) * unit;
		pen one = p;
		one.unit = unit * part;
		one.stroke = (stroke){
			l.colour, l.size * (l.bold ? 0.115 : 0.08) * (raised ? 0.85 : 1), 0};
		*(l.upwards ? &one.x : &one.y) -= rise;
		if (code != ' ')
			draw_glyph(&one, g->strokes);
		*(l.upwards ? &p.y : &p.x) += l.upwards ? -step : step;
	}
}
