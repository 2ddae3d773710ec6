/* Estimation of the rotation axis: declarations for its methods. */
#ifndef TOMOS_PREP_AXIS_H
#define TOMOS_PREP_AXIS_H

#include "prep/prep.h"

/* Line integrals of parallel rays, and the range in which the axis is searched. */
typedef struct {
	const tomos_array *data;
	const double *angles; /* radians, one per view */
	tomos_backend *backend;
	double low, high;          /* columns */
	const struct Orbit *orbit; /* of point sources; NULL: parallel rays */
	bool reversed;             /* the angles count against the rotation */
	bool repaired;             /* by constant_repair */
} AxisProblem;

typedef struct {
	double column, confidence; /* 0 .. 1 */
	double error;              /* standard error of the column; NAN: unknown */
	double likeness;           /* of what is compared, for the best column; 1: equal */
	bool at_edge;
	bool tilted;    /* as in tomos_axis */
	int64_t scores; /* of positions searched, as in tomos_axis */
	double score_first, score_step, score[TOMOS_AXIS_SCORES];
} AxisAnswer;

/* Views sorted by their angle modulo 360 degrees. */
typedef struct {
	double angle; /* 0 <= angle < 2 pi */
	int64_t view;
} AxisView;

/* All views, sorted (to be freed with mem_free), and the typical step between them. */
tomos_status axis_sort(const AxisProblem *p, AxisView **views, double *step);
/* Whether the views cover 360 degrees, to about a step. */
bool axis_full_turn(const AxisView *views, int64_t count, double step);

/* Views at even steps made of uneven or repeated ones, which the problem then has; half 1, 2: of
 * every other angle alone. */
typedef struct {
	float *data; /* or NULL: the views are even */
	double *angles;
	tomos_array array;
} AxisEven;
tomos_status axis_even(AxisProblem *p, int half, AxisEven *even);
void axis_even_free(AxisEven *even);

/* Difference between the best score (the largest) and the best one more than `apart` away, relative
 * to the spread of all scores. */
double axis_confidence(const double *scores, int64_t count, int64_t best, int64_t apart);
/* Keeps the scores of columns first + i step; where there are too many, the best of neighbours. */
void axis_scores(
	AxisAnswer *answer, const double *scores, int64_t count, double first, double step);
/* Standard error of the mean of some results; NAN for fewer than two. */
double axis_error(const double *answers, int64_t count);
/* Maximum of the parabola through three samples, relative to the middle one: -0.5 .. 0.5. */
double axis_top(double before, double here, double after);

/* Derivative of a row smoothed with binomial weights, to suppress structure of one pixel. */
void axis_slopes(const float *row, int64_t n, float *out);

/* Whether a column is at an end of the range; axis_settle clips a result to the range and sets
 * at_edge. */
bool axis_at_end(const AxisProblem *p, double column);
void axis_settle(const AxisProblem *p, AxisAnswer *answer);

/* As tomos_axis_find and, with an orbit, tomos_axis_find_scan. */
tomos_status axis_find(tomos_axis *axis, AxisProblem *p, const tomos_axis_options *options,
	const tomos_progress *progress);

/* Sums over the rows of a laminography scan, added some rows at a time. */
typedef struct {
	int64_t views, rows, columns;
	double middle, slope; /* row, and columns per row of the projected axis */
	double most, edge;
	float *sums; /* [even, tapered][view][column] */
} AxisSums;
tomos_status axis_sums_begin(AxisSums *s, const struct Orbit *orbit);
tomos_status axis_sums_add(AxisSums *s, const tomos_array *rows, int64_t first);
/* As tomos_axis_find. */
tomos_status axis_sums_find(const AxisSums *s, tomos_backend *backend, const double *angles,
	const tomos_axis_options *options, const tomos_progress *progress, tomos_axis *axis);
void axis_sums_free(AxisSums *s);

tomos_status axis_pairs(const AxisProblem *p, AxisAnswer *answer);
/* Fan and cone beams; reversed: the angles count against the direction of rotation. */
tomos_status axis_fan(const AxisProblem *p, bool decide, AxisAnswer *answer, bool *reversed);
tomos_status axis_wedge(const AxisProblem *p, AxisAnswer *answer);
tomos_status axis_sharpness(const AxisProblem *p, bool full_turn, AxisAnswer *answer);
/* The one of two columns with the sharper slice. */
tomos_status axis_sharper(
	const AxisProblem *p, bool full_turn, double one, double other, double *column);

#endif
