/* Plots of curves with axes, on a canvas or as a file. */
#ifndef TOMOS_CLI_PLOT_H
#define TOMOS_CLI_PLOT_H

#include "canvas.h"

/* Values against 1, 2, ... or against the places of the plot; what is not finite is left out. */
typedef struct curve {
	const char *name;
	const double *values;
	int64_t count;
} curve;

typedef struct plot {
	const char *title;
	const curve *curves;
	int curve_count;
	const double *places;    /* NULL: 1, 2, ... */
	bool from_zero;          /* without places: 0, 1, ... */
	const char *notes;       /* lines of text below, or NULL */
	const char *across, *up; /* what the axes show, with units; NULL: nothing */
	bool linear;             /* no axis is logarithmic, however large the range */
	bool filled;             /* the area below the first curve, as of a histogram */
	bool straight;           /* the axis of places is not logarithmic */
	const double *marks;     /* places of vertical lines */
	int mark_count;
} plot;

/* An axis from low to high, `length` long on the canvas from `start` on (backwards if negative). */
typedef struct axis {
	double low, high, start, length;
	bool powers; /* logarithmic */
	bool whole;  /* integers only, for iterations */
} axis;

/* A mark at `value`; text is "" of small ones. */
typedef struct tick {
	double value;
	char text[24];
} tick;
enum { TICKS = 128 };
/* Marks at 1, 2 or 5 times powers of ten, about `wanted` of them with text; `factor` is set to
 * "×10ⁿ" if the texts are to be multiplied by that, otherwise to "". */
int axis_ticks(const axis *a, int wanted, tick list[TICKS], char factor[24]);
double axis_place(const axis *a, double value);
double nice_step(double range, int wanted); /* 1, 2 or 5 times a power of ten */

/* A PNG or an SVG, as the path ends. */
int plot_write(const char *path, const plot *p, const tomos_file_options *options);
/* An SVG element, to be freed; NULL: no memory. */
char *plot_svg(const plot *p, double wide, double high);
/* Likewise; `unit` of lengths. */
char *geometry_svg(const tomos_geometry *g, const char *unit);

#endif
