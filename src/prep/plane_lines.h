/* Integrals along the lines in which planes meet the detector, and their derivatives across. */
#ifndef TOMOS_PREP_PLANE_LINES_H
#define TOMOS_PREP_PLANE_LINES_H

#include "prep/pose.h"

typedef struct {
	double axes[3][3]; /* columns, rows, normal, in the frame of an upright detector */
	double foot[2];    /* pixel nearest to the source */
	double far;        /* distance to it, in pixel widths */
} Detector;

/* Lines of one direction, one pixel apart along the axis b of the detector that they cross more
 * steeply: those of all k meet a row of pixels at the same fraction of a pixel. */
typedef struct {
	int a, b;
	int64_t count[2];
	double across; /* distance from line to line; its sign is that of the normal along b */
	double at, by; /* line k, at pixel i of a: at + k + by i */
	float length;  /* of a line, for each pixel of a */
} Direction;

/* A row of pixels, as lines meet it: line 0 between pixels `shift` and shift + 1, with these
 * weights of four coefficients from shift - 1 on. */
enum { LINE_TAPS = 4 };
typedef struct {
	float weights[LINE_TAPS];
	int64_t shift;
} Crossing;

/* The pixels at both ends of a line; -1: it misses the detector. */
typedef struct {
	int32_t first, last;
} LineEnds;

typedef struct {
	const Coarse *coarse;
	double high; /* a row, in columns */
	Detector detector;
	int64_t angles, offsets; /* of lines */
	Direction *directions;   /* [angle] */
	Crossing *crossings;     /* [angle][pixel of a], as many of these as angles */
	LineEnds *ends;          /* [angle][offset] */
	double sense;            /* -1: angles count against the columns */
	float most;              /* largest value of the data */
	float *weights;          /* of the pixels */
	float *lines;            /* [view][angle][offset]: derivatives across, as coefficients of
				  * B-splines along the offset; NAN: cut */
} Lines;

/* The lines of all views; `detector` and `sense` are set before. lines_free in any case. */
tomos_status lines_take(Lines *l, const Coarse *c);
void lines_free(Lines *l);

/* Where a line is between those that were computed, for all views alike. False: beyond the
 * detector. */
typedef struct {
	int64_t from[4]; /* of four samples along the offset, at four angles */
	float weight[4][4], by_angle[4][4], by_offset[4][4];
} LinePlace;
bool line_place(const Lines *l, double angle, double offset, LinePlace *place);

/* The mean of two views on a line, NAN where one of them has it cut off by an edge of the detector,
 * and its derivatives by angle and offset. */
typedef struct {
	float value, by_angle, by_offset;
} LineValue;
LineValue line_value(const Lines *l, int64_t view, int64_t other, const LinePlace *place);

#endif
