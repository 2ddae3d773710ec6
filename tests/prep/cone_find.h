/* Small scans of fan and cone beams, and the axis that is found in them. */
#ifndef TOMOS_TESTS_PREP_CONE_FIND_H
#define TOMOS_TESTS_PREP_CONE_FIND_H

#include "prep/cone_scenes.h"

enum { COLUMNS = 96, VIEWS = 120 };

static ConeScene scene(uint64_t seed, ConeArc arc, ConeObject object, int64_t rows)
{
	ConeScene s = {.seed = seed,
		.size = COLUMNS,
		.rows = rows,
		.views = VIEWS,
		.arc = arc,
		.object = object,
		.noise = 0.02,
		.offset = 8};
	cone_scene(&s);
	return s;
}

static tomos_axis find(const ConeScene *s, const tomos_geometry *scan, const char *direction)
{
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_axis_options o = tomos_axis_defaults();
	o.direction = direction;
	OK(tomos_axis_find_scan(&axis, NULL, &s->array, scan, &o, NULL));
	printf("  arc %d, axis %7.2f: %7.3f (%+.3f), standard error %.3f, confidence %.2f%s\n",
		(int)s->arc, s->pose[POSE_AXIS], axis.column, axis.column - s->pose[POSE_AXIS],
		axis.error, axis.confidence, axis.reversed ? ", reversed" : "");
	return axis;
}

#endif
