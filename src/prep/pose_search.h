/* The search for the pose of a detector: its state, and the parts it consists of. */
#ifndef TOMOS_PREP_POSE_SEARCH_H
#define TOMOS_PREP_POSE_SEARCH_H

#include <math.h>
#include "prep/pose.h"

/* Values whose standard error is larger are not determined by the scan: radians, parts, rows. */
#define LOOSE_ANGLE 0.01
#define LOOSE_SCALE 0.01
#define LOOSE_ROW 2
/* Values that are further from those given are errors of the search: the rows and columns that are
 * compared do not reach as far. Radians, parts, and of the rows. */
#define MOST_ANGLE TOMOS_POSE_REACH
#define MOST_SCALE 0.2
#define MOST_ROWS 0.4

/* By how much the row is moved to see whether it comes back, of the averaged columns, and the least
 * part of that way; what does not is 0 to 0.3 of it, what does 0.4 to 1. */
#define ASIDE 0.02
#define LEAST_ANSWER 0.35

enum { POSE_COLUMNS = 512 }; /* averaged ones of a midplane, at most */
enum { FAN_VALUES = 1u << PAIR_AXIS | 1u << PAIR_SWIVEL | 1u << PAIR_SCALE };

typedef struct {
	const PoseProblem *problem;
	double pose[POSE_COUNT], error[POSE_COUNT];
	double likely; /* row that pairs are of where it is not determined; NAN: as given */
	bool reversed;
	bool few;     /* pairs, which say little of swivel and scale */
	bool tilted;  /* all rows have given the roll, and perhaps the row */
	bool planes;  /* so have planes that views have in common */
	bool agree;   /* opposite rays of the midplane agree, with the pose as it is */
	double apart; /* their difference as a shift, in columns */
	bool better;  /* the scan prefers what was found to what was given */
	bool doubt;   /* the search for the axis, from which all begins, was not certain of it */
	unsigned by_planes;   /* bits of swivel and distance where planes give them: pairs do not */
	double before, after; /* residuals of pairs */
	unsigned kept;        /* values that are as given, and agree with the scan */
	unsigned beyond; /* values that are as given, and further off than the search reaches */
} Search;

/* Whether a value is looked for: otherwise it is known, and stays as given. */
static inline bool is_unknown(const Search *s, int value)
{
	return s->problem->unknown >> value & 1;
}

static inline double deviation(double variance)
{
	return variance > 0 ? sqrt(variance) : 0;
}

/* Fits the values whose bits are set in `free` to pairs of the midplane; residual: of the pairs. */
tomos_status fit_midplane(Search *s, unsigned free, double *residual);
/* The largest step of a value, in pixels of an averaged scan. */
double search_largest_step(int value, const Orbit *coarse);
tomos_status search_report(const Search *s, int done);

/* Sets the likely row of an offset detector. */
tomos_status likely_row(Search *s);

/* All that planes give, if s->planes is set then; otherwise nothing has changed. */
tomos_status refine_planes(Search *s);

/* Keeps the values as given that the scan does not contradict, or all where the result contradicts
 * itself more than they do. */
tomos_status search_accept(Search *s);

#endif
