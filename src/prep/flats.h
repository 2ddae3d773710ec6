/* Flats that were taken at several times: their groups, and those around a view. */
#ifndef TOMOS_PREP_FLATS_H
#define TOMOS_PREP_FLATS_H

#include "base/base.h"

typedef struct {
	double position; /* in views */
	int64_t image;
} Taken;

typedef struct {
	int64_t count, groups;
	Taken *order;    /* all images, sorted by position */
	int64_t *begins; /* start of each group in that order, and the end */
} FlatGroups;

/* Rejects positions that are not finite. */
tomos_status flats_check(const double *positions, int64_t count);
/* positions NULL: one group. */
tomos_status flats_group(FlatGroups *f, int64_t count, const double *positions);
void flats_free(FlatGroups *f);
/* The two groups around a view, and the weight of the second; drift: value of that option. */
void flats_between(const FlatGroups *f, double view, int drift, int64_t group[2], float *share);

#endif
