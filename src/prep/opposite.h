/* Opposite rays of a fan beam: the sinogram of the midplane, and what its pairs say of the pose. */
#ifndef TOMOS_PREP_OPPOSITE_H
#define TOMOS_PREP_OPPOSITE_H

#include "prep/axis.h"
#include "prep/normal.h"
#include "prep/orbit.h"

/* A sinogram at equal steps of the angle, some columns averaged; lines are columns, so that a pair
 * of rays at all angles is two lines against each other. */
typedef struct {
	int64_t views, columns, bin;
	double step;   /* radians from view to view */
	bool full;     /* the views cover a full turn, and the last is followed by the first */
	float *lines;  /* [column][view], smoothed */
	float *slopes; /* likewise: derivatives along the columns */
	float *rises;  /* likewise, smoothed: derivatives along the rows */
	double noise;  /* variance of a value of `lines`, as far as columns show it */
	double energy; /* mean square of the values */
} Opposite;

/* The line in which a plane meets the detector: at row `row` in column 0, and `slope` rows further
 * from column to column. Rows up to `reach` on either side of it are averaged; alike: with one
 * weight. */
typedef struct {
	double row, slope;
	int64_t reach;
	bool alike;
} Line;
tomos_status opposite_make(
	Opposite *s, const AxisProblem *p, const Line *line, int64_t most_columns);
void opposite_free(Opposite *s);

/* Steps from a view to the one rotated by `angle`, whole and a fraction. A scan that is not a full
 * turn has two ways there (`way` 0 and 1), for different views; false: no view has that one. */
bool opposite_shift(const Opposite *s, double angle, int way, int64_t *by, double *part);

/* The result of a fit to pairs of opposite rays: the axis in columns of the data, swivel, scale,
 * and how the line has to be rotated, in rows per column. `sign` is -1 where
 * columns and angles increase in opposite directions. */
enum { PAIR_AXIS, PAIR_SWIVEL, PAIR_SCALE, PAIR_SLOPE, PAIR_COUNT };
typedef struct {
	double value[PAIR_COUNT];
	double covariance[NORMAL_MOST][NORMAL_MOST];
	double common[PAIR_COUNT]; /* largest change by errors of an averaged column */
	double residual;           /* norm of the differences, relative to that of the rays */
	double apart; /* shift in (averaged) columns that would cause this difference */
	double noise; /* what noise makes of that */
	double share; /* mean square of the rays, relative to that of all rays */
	double blocks[NORMAL_BLOCKS]; /* its square in sectors of the half turn */
	bool solved;                  /* false: there are no pairs, or they say nothing */
} PairFit;

/* The best axis of the range, to half a column: answer->column is the result. */
tomos_status opposite_search(
	const Opposite *s, const AxisProblem *p, double distance, double sign, AxisAnswer *answer);
/* Gauss-Newton on the values whose bits are set in `free`, from those in `fit`. */
tomos_status opposite_fit(
	const Opposite *s, double distance, double sign, unsigned free, PairFit *fit);

/* Whether the pairs are alike enough to be those of an axis. */
bool opposite_agrees(const Opposite *s, const PairFit *fit);

/* The midplane on a detector in that pose. */
void axis_midplane(const Orbit *o, const double pose[POSE_COUNT], Line *line);

#endif
