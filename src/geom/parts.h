/* What the files of this room share: a scan under construction. */
#ifndef TOMOS_GEOM_PARTS_H
#define TOMOS_GEOM_PARTS_H

#include "base/vector3.h"
#include "geom/geom.h"

#define LARGEST 1e30 /* of any number of a view or grid: products of a few stay finite */

/* When the views of geom_new are filled in: checks them, and frees the scan if one is rejected. */
tomos_status geom_seal(tomos_geometry **scan);
tomos_status view_check(const tomos_view *view, int64_t index);
/* One row of pixels in the plane z = 0, as high as wide: ray or source, detector centre, u, each (x, y). */
void view_from_plane(tomos_view *view, const double row[6], int source);

/* The 3 * views numbers of one direction of each antipodal pair of a Lebedev rule. */
tomos_status lebedev_directions(double **directions, int64_t views);

#endif
