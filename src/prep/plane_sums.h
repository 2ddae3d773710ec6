/* Normal equations of planes that two views have in common. */
#ifndef TOMOS_PREP_PLANE_SUMS_H
#define TOMOS_PREP_PLANE_SUMS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include "prep/normal.h"

/* A plane in two views: its value in each, the second one NAN where a line is cut, and how their
 * difference changes with the pose, from the views themselves and from those beside them. */
typedef struct {
	float value[2], by[2][NORMAL_MOST];
} Sample;

static inline bool is_measured(const Sample *s)
{
	return !isnan(s->value[1]); /* the value that is taken last */
}

/* out = the sum of 2 aside + 1 planes, with these weights. */
void plane_average(const Sample *middle, int aside, const float *weights, Sample *out);

/* Differences may be sorted into groups, by how fast they vary from plane to plane (BANDS, an
 * octave each) and by the angle between the two views (CLASSES). Each group is then weighted by the
 * inverse of its mean square, since noise and errors of edges are larger in some than in others. */
enum { BANDS = 5, CLASSES = 4, GROUPS = BANDS * CLASSES };

typedef struct {
	Normal blocks[GROUPS][NORMAL_BLOCKS];
	double count[GROUPS];   /* of differences */
	double squares, energy; /* of the planes as they are */
} PlaneSums;

/* Adds `count` planes of two views, which count in the blocks of both. class: their angle's. free:
 * bits of the values; sorted: into groups. other: scratch for as many planes. */
void plane_sums_add(PlaneSums *sums, unsigned free, bool sorted, int class, const int block[2],
	Sample *planes, Sample *other, int64_t count);
/* The equations of all of them together. */
void plane_sums_join(const PlaneSums *sums, int64_t count, bool sorted, Normal out[NORMAL_BLOCKS]);

#endif
