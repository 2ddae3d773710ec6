/* The survey: geometries of `tomos bench --survey` and `tomos tune --survey`. The test that every
 * one of them has an optimised kernel uses the same table. */
#ifndef TOMOS_CLI_SURVEY_H
#define TOMOS_CLI_SURVEY_H

#include "tomos.h"

/* One row of survey.def. Lengths are in pixels at the rotation axis, except where others are
 * named; angles are in degrees; 0 is the default of every member after the sizes. */
typedef struct survey_row {
	const char *name;
	const char *family;   /* cases whose rates are compared: "cone", ... */
	const char *geometry; /* kind of scan, as in tomos_scan_options */
	int64_t n[3], views, rows, columns;
	const char *about;
	double source;         /* from the source to the axis, in detector widths */
	double magnification;  /* point sources; required */
	double voxel[3];       /* default: 1 */
	double pixel_height;   /* relative to the width; default: 1 */
	double axis, axis_row; /* from the middle, as a fraction of columns or rows */
	double centre[3];      /* of the volume, as a fraction of its extent */
	double arc;            /* default: that of the kind of scan */
	double roll, slant, swivel, tilt;
	double pitch;  /* helix: in detector widths per rotation */
	double gantry; /* the whole scan rotated about x */
	double wobble; /* each detector rotated by at most this, source and detector moved */
	double travel; /* detector at rest, source moves along it, in detector widths */
	int random;    /* 1: random angles; 2: random directions in space */
} survey_row;

const survey_row *survey_list(int *count);
const char *survey_names(void); /* "a|b|c" */
/* Grid and scan with all sizes above 16 multiplied by `scale`; odd sizes stay odd. */
tomos_status survey_make(
	const survey_row *row, double scale, tomos_grid *grid, tomos_geometry **scan);

#endif
