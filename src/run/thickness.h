/* Thickness of the slabs of a run, from the times that its stages take. */
#ifndef TOMOS_RUN_THICKNESS_H
#define TOMOS_RUN_THICKNESS_H

#include "base/base.h"

/* Sums over the slabs that a stage has done, for a line through their times. */
typedef struct {
	double count, slices, squares, seconds, products;
} StageFit;

typedef struct {
	int64_t least, most; /* slices of a slab */
} ThicknessLimits;

void stage_fit_add(StageFit *fit, int64_t slices, double seconds);
/* Slices of the next slab: fits of reading, computing and writing, the last three slabs that were
 * begun, 0 where there are none, and the slices that are left. */
int64_t next_thickness(
	const ThicknessLimits *limits, const StageFit fits[3], const int64_t last[3], int64_t left);

#endif
