/* Internal functions of src/geom. */
#ifndef TOMOS_GEOM_PARTS_H
#define TOMOS_GEOM_PARTS_H

#include "base/vector3.h"
#include "geom/geom.h"

#define LARGEST 1e30 /* for any number of a view or grid: products of a few stay finite */

/* Column and row of a point; false where it is too near to the source, or behind it. */
bool geom_project_point(const GridView *view, const double at[3], double pixel[2]);

/* Checks the views of a scan made by geom_new; frees the scan if one is rejected. */
tomos_status geom_seal(tomos_geometry **scan);
tomos_status view_check(const tomos_view *view, int64_t index);
/* One row of square pixels in the plane z = 0, from six numbers: ray or source, detector centre, u,
 * each (x, y). */
void view_from_plane(tomos_view *view, const double row[6], int source);

/* The directions of a Lebedev rule, 3 numbers per view: one of each antipodal pair. */
tomos_status lebedev_directions(double **directions, int64_t views);

#endif
