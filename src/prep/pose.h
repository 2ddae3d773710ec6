/* The pose of the detector of a cone beam scan, from all of its rows. */
#ifndef TOMOS_PREP_POSE_H
#define TOMOS_PREP_POSE_H

#include "prep/normal.h"
#include "prep/opposite.h"

/* A scan of few pixels: `bin` columns and rows are averaged, and views likewise. */
typedef struct {
	Orbit orbit; /* its own, in units of the averaged pixels */
	int64_t bin, together;
	int64_t *group; /* of each view of the scan; -1: left out */
	float *data;    /* [view][row][column] */
} Coarse;
/* columns, views: about how many it has. */
tomos_status coarse_begin(Coarse *c, const Orbit *scan, int64_t columns, int64_t views);
/* Adds rows [row, row + rows) of the scan. */
tomos_status coarse_add(Coarse *c, const tomos_array *data, int64_t row);
tomos_status coarse_finish(const Coarse *c); /* smooths it */
/* Takes the second moment of that smoothing away, which views would see differently in the planes
 * that they have in common. */
tomos_status coarse_sharpen(const Coarse *c);
/* Sets air around the object, smoothed as above, to 0. */
tomos_status coarse_clear_air(const Coarse *c);
void coarse_free(Coarse *c);
/* Between pixels of the scan and those of `c`. */
void coarse_pose(const Coarse *c, const double pose[POSE_COUNT], double out[POSE_COUNT]);
void fine_pose(const Coarse *c, const double pose[POSE_COUNT], double out[POSE_COUNT]);

/* Whether the axis is nearer to one edge of the detector by much. */
bool pose_offset(const Orbit *orbit, double axis);

/* One Gauss-Newton step on the values of the pose (of pixels of `c`) whose bits are set in `free`.
 * residual: before the step. */
typedef struct {
	double step[NORMAL_MOST], covariance[NORMAL_MOST][NORMAL_MOST], residual;
	bool solved, cut; /* cut: the object goes on beyond the rows (pose_step) */
} PoseStep;
tomos_status pose_step(const Coarse *c, tomos_backend *backend, const double pose[POSE_COUNT],
	bool reversed, unsigned free, PoseStep *result);

/* The bits of all values; and one of `free` by which epipolar_step keeps a slant in any case. */
enum { POSE_ALL = (1 << POSE_COUNT) - 1, POSE_KEEP = 1 << POSE_COUNT };
/* Likewise from planes that views have in common, which a scan of any arc has. A slant that they do
 * not determine is left out: its step and variance are 0. */
tomos_status epipolar_step(const Coarse *c, const double pose[POSE_COUNT], bool reversed,
	unsigned free, PoseStep *result);

/* The averaged scans that the pose is found from: one for pose_step, and finer ones for
 * epipolar_step. */
enum { COARSE_REST, COARSE_PLANES, COARSE_FINE, COARSE_COUNT };
tomos_status coarse_scans_begin(Coarse scans[COARSE_COUNT], const Orbit *scan);
tomos_status coarse_scans_add(Coarse scans[COARSE_COUNT], const tomos_array *data, int64_t row);
tomos_status coarse_scans_finish(Coarse scans[COARSE_COUNT]);
void coarse_scans_free(Coarse scans[COARSE_COUNT]);

/* The whole pose. band: rows of the scan from `row` on, around the midplane; coarse: NULL for a
 * single row. The angles and the pose of `orbit` are those given. */
typedef struct {
	const Orbit *orbit;
	const tomos_array *band;
	int64_t row;
	const Coarse *coarse; /* [COARSE_COUNT] */
	unsigned unknown;     /* bits of the values that are looked for; the others are held */
	tomos_backend *backend;
	const tomos_progress *progress;
} PoseProblem;
/* The bits of PoseProblem.unknown, from the option of this name. */
tomos_status pose_unknown(const tomos_axis_options *options, unsigned *bits);
/* kept: bits of the values that are as given because the scan agrees with them. */
tomos_status pose_find(
	const PoseProblem *p, const tomos_axis_options *options, tomos_pose *pose, unsigned *kept);
/* Rows [*row, *row + *rows) around the midplane that a detector of any likely roll needs. */
void pose_band(const Orbit *orbit, int64_t *row, int64_t *rows);
/* As many rows on both sides, up to `most`, for an object that is not in the midplane; false: there
 * are no more. */
bool pose_widen(const Orbit *orbit, int64_t most, int64_t *row, int64_t *rows);
/* The views in that pose. */
tomos_status pose_views(tomos_geometry **scan, const Orbit *orbit, const tomos_pose *found);

#endif
