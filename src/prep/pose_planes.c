/* The pose of a detector from planes that views have in common, and from pairs on the midplane that
 * these give. */
#include <string.h>
#include "prep/pose_search.h"

#define UNLIKE 0.2         /* relative difference of planes that are mostly noise, or cut */
#define FALLING 0.97       /* relative to that of the step before */
#define COMMON_PLANES 0.01 /* averaged pixels: error of what planes give */
#define COMMON_SLANT 0.0015
#define COMMON_SLANT_SHORT 0.003 /* of scans other than full turns */
#define COMMON_SCALE 160         /* divided by the square of the number of averaged columns */
#define COMMON_ROW_SHORT 0.6     /* rows, of scans other than full turns */

enum { MOST_STEPS = 12 };
enum { LINES = 1u << POSE_AXIS | 1u << POSE_ROW | 1u << POSE_ROLL };

/* Standard errors of what a step has given, in pixels of the scan; values that it does not
 * determine are as given. */
static void plane_errors(Search *s, const Coarse *c, const PoseStep *step)
{
	static const int values[] = {POSE_AXIS, POSE_ROW, POSE_ROLL, POSE_SLANT, POSE_SCALE};
	double bin = (double)c->bin, n = (double)c->orbit.columns;
	const double unit[] = {bin, bin, 1, 1, 1};
	const double common[] = {bin * COMMON_PLANES,
		s->few ? COMMON_ROW_SHORT : 10 * bin * COMMON_PLANES, 4 * COMMON_PLANES / n,
		s->few ? COMMON_SLANT_SHORT : COMMON_SLANT, COMMON_SCALE / (n * n)};
	for (int i = 0; i < COUNT(values); i++) {
		int k = values[i];
		double variance = step->covariance[k][k];
		if (k == POSE_SCALE && !s->far)
			continue;
		s->error[k] = hypot(unit[i] * deviation(variance), common[i]);
		if (variance > 0 && !(k == POSE_SCALE && s->error[k] > LOOSE_SCALE))
			continue;
		s->error[k] = NAN;
		s->pose[k] = s->problem->orbit->pose[k];
	}
}

/* Whether a step from beside the row leads back. Where what planes differ by is noise, or errors of
 * the samples, steps are far too short, and so are their standard errors. */
static tomos_status row_answers(const Search *s, const Coarse *c, const double pose[POSE_COUNT],
	unsigned free, const PoseStep *here, bool *answers)
{
	double beside[POSE_COUNT], aside = ASIDE * (double)c->orbit.columns;
	PoseStep step = {.solved = false};
	memcpy(beside, pose, sizeof beside);
	beside[POSE_ROW] += aside;
	TRY(epipolar_step(c, beside, s->reversed, free, &step));
	*answers = step.solved && here->step[POSE_ROW] - step.step[POSE_ROW] > LEAST_ANSWER * aside;
	return TOMOS_OK;
}

/* One step; step->residual is that before it. */
static tomos_status step_planes(
	const Search *s, const Coarse *c, unsigned free, double pose[POSE_COUNT], PoseStep *step)
{
	TRY(epipolar_step(c, pose, s->reversed, free, step));
	for (int k = 0; k < POSE_COUNT && step->solved; k++) {
		double most = search_largest_step(k, &c->orbit);
		pose[k] += fmin(fmax(step->step[k], -most), most);
	}
	return TOMOS_OK;
}

/* The values in `free` from `steps` steps, or more while planes are not alike yet but become so:
 * few small parts of an object are alike only near the right pose. The other values stay as they
 * are; nothing where the views have too few planes in common that the detector sees as a whole. */
static tomos_status fit_planes(Search *s, int scan, unsigned free, int steps)
{
	const Coarse *c = &s->problem->coarse[scan];
	double pose[POSE_COUNT], start[POSE_COUNT], last = HUGE_VAL;
	PoseStep step = {.solved = false};
	coarse_pose(c, s->pose, pose);
	for (int i = 0; i < MOST_STEPS; i++) {
		memcpy(start, pose, sizeof start);
		TRY(step_planes(s, c, free, pose, &step));
		s->planes = step.solved && step.residual < UNLIKE;
		if (i + 1 >= steps && (s->planes || scan != COARSE_REST))
			break;
		if (!s->planes && !(step.solved && step.residual < FALLING * last))
			break;
		last = step.residual;
	}
	if (!s->planes)
		return TOMOS_OK;
	if (scan == COARSE_PLANES)
		TRY(row_answers(s, c, start, free, &step, &s->planes));
	if (!s->planes)
		return TOMOS_OK;
	fine_pose(c, pose, s->pose);
	plane_errors(s, c, &step);
	s->planes = scan == COARSE_REST || s->error[POSE_ROW] < LOOSE_ROW;
	return TOMOS_OK;
}

/* Swivel and scale from pairs, on the midplane that planes have given. The error of a slant that is
 * not determined, which no block of pairs shows, is about as large as those that blocks show. */
static tomos_status fit_fan(Search *s)
{
	static const int values[] = {POSE_SWIVEL, POSE_SCALE}, pairs[] = {PAIR_SWIVEL, PAIR_SCALE};
	static const double loose[] = {LOOSE_ANGLE, LOOSE_SCALE};
	double error[POSE_COUNT];
	unsigned asked = s->far ? FAN_VALUES & ~(1u << PAIR_SCALE) : FAN_VALUES, free = asked;
	memcpy(error, s->error, sizeof error);
	TRY(fit_midplane(s, free, &s->after));
	for (int i = 0; i < 2; i++) {
		int k = values[i];
		if (!(asked >> pairs[i] & 1))
			continue;
		error[k] = s->error[k] * (isnan(error[POSE_SLANT]) ? 2 : 1);
		if (error[k] < loose[i])
			continue;
		s->pose[k] = s->problem->orbit->pose[k];
		error[k] = NAN;
		free &= ~(1u << pairs[i]);
	}
	if (free != asked)
		TRY(fit_midplane(s, free, &s->after));
	s->error[POSE_SWIVEL] = error[POSE_SWIVEL];
	s->error[POSE_SCALE] = error[POSE_SCALE];
	return TOMOS_OK;
}

/* Row, roll and slant from planes; swivel and scale from pairs, and the axis from what gives it
 * better. From few pixels to many: what few of them give is off by more than noise is. */
tomos_status refine_planes(Search *s)
{
	static const int steps[COARSE_COUNT] = {3, 1, 1};
	Search planes = *s, before = *s;
	for (int scan = 0; scan < COARSE_COUNT; scan++) {
		unsigned more = scan > COARSE_REST ? 1u << POSE_SLANT : 0;
		s->far = scan > COARSE_REST && (s->far || isnan(s->error[POSE_SCALE]));
		more |= s->far ? 1u << POSE_SCALE : 0;
		TRY(fit_planes(s, scan, LINES | more, steps[scan]));
		if (!s->planes) {
			*s = before;
			return TOMOS_OK;
		}
		planes = *s;
		TRY(fit_fan(s));
		TRY(search_report(s, scan + 1));
	}
	for (int k = POSE_AXIS; k <= POSE_SLANT; k++)
		if (k != POSE_AXIS || !(s->error[k] < planes.error[k])) {
			s->pose[k] = planes.pose[k];
			s->error[k] = planes.error[k];
		}
	return TOMOS_OK;
}
