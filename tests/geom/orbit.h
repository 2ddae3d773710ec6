/* Options of a small scan of any kind. */
#ifndef TOMOS_TESTS_GEOM_ORBIT_H
#define TOMOS_TESTS_GEOM_ORBIT_H

#include <string.h>
#include "tomos.h"

/* size: views, rows, columns; distances from a point source to the axis and the detector, which
 * must outlive the options. */
static inline tomos_scan_options orbit_options(
	const char *kind, const int64_t size[3], const double distances[2])
{
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = kind;
	o.views = size[0];
	o.rows = size[1];
	o.columns = size[2];
	if (strcmp(kind, "parallel") != 0 && strcmp(kind, "laminography") != 0) {
		o.source_axis = &distances[0], o.source_axis_count = 1;
		o.source_detector = &distances[1], o.source_detector_count = 1;
	}
	return o;
}

#endif
