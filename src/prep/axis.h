/* The search for the rotation axis: what its three ways share. */
#ifndef TOMOS_PREP_AXIS_H
#define TOMOS_PREP_AXIS_H

#include "prep/prep.h"

/* What is searched: line integrals of parallel rays, and where the axis may be. */
typedef struct {
	const tomos_array *data;
	const double *angles; /* radians, one per view */
	tomos_backend *backend;
	double low, high; /* columns */
} AxisProblem;

typedef struct {
	double column, confidence; /* 0 .. 1 */
	double error;              /* of the column; NAN: not known */
	bool at_edge;
} AxisAnswer;

/* Views by their angle within one turn. */
typedef struct {
	double angle; /* 0 <= angle < 2 pi */
	int64_t view;
} AxisView;

/* All views, sorted (to be mem_freed), and the usual step from one to the next. */
tomos_status axis_sort(const AxisProblem *p, AxisView **views, double *step);
/* Whether the views cover a full turn, to a step or so. */
bool axis_full_turn(const AxisView *views, int64_t count, double step);

/* How much better the best of a list of scores (larger is better) is than any more than `apart` away,
 * as a share of their spread. */
double axis_confidence(const double *scores, int64_t count, int64_t best, int64_t apart);
/* Standard error of the mean of some answers; NAN of less than two. */
double axis_error(const double *answers, int64_t count);
/* Where between the samples a parabola through three of them has its top: -0.5 .. 0.5. */
double axis_top(double before, double here, double after);

/* Whether a column is at an end of the range; an answer, brought back into it, says so. */
bool axis_at_end(const AxisProblem *p, double column);
void axis_settle(const AxisProblem *p, AxisAnswer *answer);

tomos_status axis_pairs(const AxisProblem *p, AxisAnswer *answer);
tomos_status axis_wedge(const AxisProblem *p, AxisAnswer *answer);
tomos_status axis_sharpness(const AxisProblem *p, bool full_turn, AxisAnswer *answer);

#endif
