/* What the files of this room share: vectors of three, and a scan under construction. */
#ifndef GEOM_PARTS_H
#define GEOM_PARTS_H

#include <math.h>
#include "geom/geom.h"

#define LARGEST 1e30 /* of any number of a view or grid: products of a few stay finite */

static inline double dot3(const double a[3], const double b[3])
{
	return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline double norm3(const double a[3])
{
	return sqrt(dot3(a, a));
}

/* out = a x b */
static inline void cross3(double out[3], const double a[3], const double b[3])
{
	out[0] = a[1] * b[2] - a[2] * b[1];
	out[1] = a[2] * b[0] - a[0] * b[2];
	out[2] = a[0] * b[1] - a[1] * b[0];
}

/* out = a + k b; out may be a */
static inline void add3(double out[3], const double a[3], double k, const double b[3])
{
	for (int i = 0; i < 3; i++)
		out[i] = a[i] + k * b[i];
}

/* A scan with room for `count` views; when they are filled in, geom_seal checks them, and frees the
 * scan if one is refused. */
tomos_status geom_new(tomos_geometry **scan, int64_t rows, int64_t columns, int64_t count);
tomos_status geom_seal(tomos_geometry **scan);
tomos_status view_check(const tomos_view *view, int64_t index);

/* The 3 * views numbers of one direction of each antipodal pair of a Lebedev rule. */
tomos_status lebedev_directions(double **directions, int64_t views);

#endif
