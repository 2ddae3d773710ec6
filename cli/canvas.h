/* Drawings: lines, areas, text and images on a canvas that becomes an SVG or a PNG file. */
#ifndef TOMOS_CLI_CANVAS_H
#define TOMOS_CLI_CANVAS_H

#include "cli.h"

/* Colours by their purpose; a report shows the first ones differently in the dark. SERIES to
 * SERIES + 6 are told apart by colour-blind readers, too. */
typedef enum colour { PAPER, INK, SOFT, FAINT, SERIES, COLOURS = SERIES + 7 } colour;

/* A line: its width, and the lengths of dashes and gaps; 0: no gaps. */
typedef struct stroke {
	colour colour;
	double width, dash;
} stroke;

/* Text: (x, y) is on the baseline, at `anchor` of the length: 0 begin, 0.5 middle, 1 end. */
typedef struct lettering {
	double size, anchor;
	colour colour;
	bool upwards; /* rotated by a quarter turn, read from below */
	bool bold;
} lettering;

/* Pixels [row][column][channel] of 1 (grey) or 3 (RGB) bytes. */
typedef struct bitmap {
	const unsigned char *pixels;
	int64_t wide, high, channels;
} bitmap;

/* Lengths and places are in units that a PNG has `scale` pixels of; y points downwards. */
typedef struct canvas {
	double wide, high, scale;
	double clip[4]; /* left, top, right, bottom */
	bool clipped;
	bool lost; /* no memory: reported when it is written */
	FILE *svg; /* SVG: its text, */
	char *text;
	size_t bytes;
	unsigned char *rgb; /* otherwise pixels, */
	float *cover;       /* and how much of each is covered by the present line or area */
	int64_t columns, rows;
} canvas;

/* An SVG file where the path ends in .svg, or NULL for text only; otherwise a PNG file. */
void canvas_open(canvas *c, const char *path, double wide, double high, double scale);
void canvas_close(canvas *c);
int canvas_write(canvas *c, const char *path, const tomos_file_options *options);
/* The SVG element, to be freed; NULL: no memory. */
char *canvas_take(canvas *c);

/* Limits what follows to a rectangle; NULL: no limit. */
void canvas_clip(canvas *c, const double box[4]);
/* Through the points (x, y); a single point is a spot of the line's width. */
void canvas_line(canvas *c, const double *points, int64_t count, stroke s);
void canvas_segment(canvas *c, double x0, double y0, double x1, double y1, stroke s);
void canvas_area(canvas *c, const double *points, int64_t count, colour fill);
void canvas_box(canvas *c, double x, double y, double wide, double high, colour fill);
void canvas_spot(canvas *c, double x, double y, double radius, colour fill);
void canvas_text(canvas *c, double x, double y, const char *text, lettering l);
/* Into a rectangle; enlarged pixels stay squares, reduced ones are averaged. */
void canvas_image(canvas *c, double x, double y, double wide, double high, const bitmap *image);

double text_width(const char *text, double size);
const unsigned char *colour_rgb(colour c);
/* A file of this name appears when it is complete; says what is wrong otherwise. */
int text_write(const char *path, const char *text, bool overwrite);
/* The same with what is printed to `lines` between the two calls. */
typedef struct {
	FILE *lines;
	char *text;
	size_t bytes;
} text_file;
int text_begin(text_file *file, const char *path);
int text_end(text_file *file, const char *path, bool overwrite);
/* "data:image/png;base64,..." */
bool image_uri(FILE *out, const bitmap *image);

/* ---- how the pixels of a PNG are drawn, and the letters on them ----------------------- */

void dots_line(canvas *c, const double *points, int64_t count, stroke s);
void dots_area(canvas *c, const double *points, int64_t count, colour fill);
void dots_image(canvas *c, double x, double y, double wide, double high, const bitmap *image);

/* The strokes of a letter, a unit is a twentieth of the size, y upwards from the baseline: "M" and
 * "L" as in SVG, "Q" a parabola. Letters that are missing are drawn as a box. */
typedef struct glyph {
	unsigned code;
	double width;
	const char *strokes;
} glyph;
const glyph *glyph_find(unsigned code);
/* The next character of UTF-8 text, 0 at its end; superscripts become their letter, with `raised`
 * set. */
unsigned letter_next(const char **text, bool *raised);
void font_draw(canvas *c, double x, double y, const char *text, lettering l);

#endif
