/* A circular scan as a few numbers: angles, distances, and one pose of the detector. */
#ifndef TOMOS_PREP_ORBIT_H
#define TOMOS_PREP_ORBIT_H

#include "geom/geom.h"

/* The pose: column and row in which the central ray meets the detector, its rotations (radians, as
 * in doc/conventions.md), and the distance from the source relative to `Orbit.detector`. */
enum { POSE_AXIS, POSE_ROW, POSE_ROLL, POSE_SLANT, POSE_SWIVEL, POSE_SCALE, POSE_COUNT };

typedef struct Orbit {
	int64_t views, rows, columns;
	double *angles;          /* of the views, radians */
	double source, detector; /* distances from the source; 0: parallel rays */
	double tilt;             /* of parallel rays */
	double lift;             /* z of the point source */
	double width, height;    /* of a pixel */
	double mirror, upright;  /* -1: columns, rows count in the opposite direction */
	int kind;                /* of the source */
	double pose[POSE_COUNT];
} Orbit;

/* Rejects views that are not on a circle about z, or whose detectors differ in their pose. */
tomos_status orbit_take(Orbit *orbit, const tomos_geometry *scan);
void orbit_free(Orbit *orbit);
/* The same scan with another pose, and the angles negated where `reversed`. */
tomos_status orbit_geometry(
	tomos_geometry **scan, const Orbit *orbit, const double pose[POSE_COUNT], bool reversed);

/* The pose as pixels count: rotations with the sign they have along the columns and rows. */
void pose_counted(const Orbit *orbit, const double pose[POSE_COUNT], double out[POSE_COUNT]);

/* Directions of columns, rows and normal of a detector in a (counted) pose, in the frame of an
 * upright one: columns, rows, central ray. */
void pose_axes(const double pose[POSE_COUNT], double axes[3][3]);

/* The pixel (column, row) of a detector in a counted pose that is met by the ray through (x, y) of
 * an upright detector, from the central ray; all lengths and the height of a pixel in pixel
 * widths. */
void pose_pixel(const double pose[POSE_COUNT], double distance, double height, double x, double y,
	double pixel[2]);

#endif
