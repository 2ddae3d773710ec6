/* What the files of this room share: a scan under construction. */
#ifndef GEOM_PARTS_H
#define GEOM_PARTS_H

#include "base/vector3.h"
#include "geom/geom.h"

#define LARGEST 1e30 /* of any number of a view or grid: products of a few stay finite */

/* A scan with room for `count` views; when they are filled in, geom_seal checks them, and frees the
 * scan if one is refused. */
tomos_status geom_new(tomos_geometry **scan, int64_t rows, int64_t columns, int64_t count);
tomos_status geom_seal(tomos_geometry **scan);
tomos_status view_check(const tomos_view *view, int64_t index);

/* The 3 * views numbers of one direction of each antipodal pair of a Lebedev rule. */
tomos_status lebedev_directions(double **directions, int64_t views);

#endif
