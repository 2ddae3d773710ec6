/* Planes side by side, with titles, a scale bar and a colour bar. */
#ifndef TOMOS_CLI_SHEET_H
#define TOMOS_CLI_SHEET_H

#include "canvas.h"

/* Values [row][column], rows `stride` apart; step: size of a sample across and down. */
typedef struct plane {
	const float *data;
	int64_t wide, high, stride;
	double step[2];
	char title[64];
} plane;

typedef struct sheet {
	plane planes[3];
	int count;
	double low, high;          /* black and white */
	const char *unit, *length; /* of the values and of the steps; "": none */
	double side; /* length of the longest side of a plane, about; 0: a pixel per sample, or
	              * several where there are few samples */
	double places[3][4], wide, high_all, bar, bottom; /* set by sheet_lay_out */
} sheet;

/* Leaves out planes so thin beside the others that there is nothing to see; -> how many. */
int sheet_drop_thin(sheet *s);
void sheet_lay_out(sheet *s);
void sheet_draw(canvas *c, const sheet *s);
/* Lay out, and an SVG element, to be freed; NULL: no memory. */
char *sheet_svg(sheet *s);

/* The grey bytes of a plane, reduced to `most` samples along its longer side; to be freed. */
bool plane_bitmap(const plane *p, double low, double high, int64_t most, bitmap *image);

#endif
