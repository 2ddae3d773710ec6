/* What the readers of scanners' files share. */
#ifndef TOMOS_RUN_SCANNER_SCANNER_H
#define TOMOS_RUN_SCANNER_SCANNER_H

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/keys.h"
#include "base/xml.h"
#include "geom/geom.h"
#include "run/scan.h"

#define PI 3.14159265358979323846
#define RADIANS (PI / 180)

/* A scanner at angle 0, in a right-handed frame of its own, in mm. Rows and columns are those of
 * the stored frames: u is the step from one column to the next, v from one row to the next. */
typedef struct {
	double source[3];
	double axis[3], along[3]; /* a point of the rotation axis, and its direction upwards */
	double detector[3], u[3], v[3];
} Pose;

/* The usual pose: the source at the origin, the beam along y, z upwards, x to the right as seen
 * from the source. Frames have their columns to the left (the picture is seen looking towards the
 * source) and their first row at the top. */
Pose pose_upright(double source_axis, double source_detector, const double pixel[2]);

/* Geometry, pixel size and order of rows and columns of the scan. The angles of the scan are those
 * by which source and detector rotate about `along`, anticlockwise seen from its end; an object
 * that rotates anticlockwise in front of them has the negative angles. */
tomos_status scan_pose(tomos_scan *scan, const Pose *pose);

/* Equal steps, in degrees. */
tomos_status scan_steps(tomos_scan *scan, double first, double step);

/* Notes the shifts of the views, the largest of which is given in pixels; if that is 0, there are
 * none. */
tomos_status scan_shifts(tomos_scan *scan, double largest);

/* Adds a line to what was read: its name, and text as of printf. */
tomos_status scan_note(tomos_scan *scan, const char *name, const char *format, ...)
	PRINTF_LIKE(3, 4);
/* The usual lines: distances, pixels, angles, white level. */
tomos_status scan_notes(tomos_scan *scan);

/* The counts without an object, as the file says them; a level that is not greater than 0 is noted
 * and not used. */
tomos_status scan_level(tomos_scan *scan, const Keys *k, const char *section, const char *name);

/* Notes a size in mm that the file says and that its distances and pixels contradict; 0: it is not
 * said. */
tomos_status scan_voxel(tomos_scan *scan, const char *name, double said, double made);

/* The folder of a path, with '/', or "": to be freed. */
tomos_status folder_of(char **folder, const char *path);
/* Notes that nothing says which way columns run, and with it which of two mirror images the volume
 * is. */
tomos_status scan_mirrored(tomos_scan *scan);
/* The name of a path without folder and ending, followed by `more`: to be freed. */
tomos_status stem_of(char **stem, const char *path, const char *more);

/* What to type for a scan without its file, whose frames begin with the top row. */
typedef struct {
	double source_axis, source_detector, pixel[2]; /* mm */
	double step, white;                            /* degrees; counts, 0: not known */
} TypedScan;

/* Numbered TIFF files "<prefix>0001.tif" of a folder, the first `views` of them; of two prefixes
 * (the second may be NULL) the first one that there are files of, which is prefixes[0] then. typed:
 * for files that are named after the scanner's file; NULL: that file says their name, and the
 * steps, so that a copy of it can say others. */
tomos_status numbered_tiffs(tomos_scan *scan, const char *folder, const char *prefixes[2],
	int64_t views, const TypedScan *typed);
/* Rejects frames of another size than the scanner's file says. */
tomos_status scan_size(const tomos_scan *scan, int64_t rows, int64_t columns);

/* Whether `head` contains the text, in any case. */
bool head_has(const char *head, const char *text);

#endif
