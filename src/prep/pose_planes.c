/* The pose of a detector from planes that views have in common, and from pairs on the midplane that
 * these give. */
#include <string.h>
#include "prep/pose_search.h"

#define UNLIKE 0.2         /* relative difference of planes that are mostly noise, or cut */
#define FALLING 0.97       /* relative to that of the step before */
#define CONTRADICT 2       /* standard errors between pairs and planes */
#define COMMON_PLANES 0.01 /* averaged pixels: error of what planes give */
#define COMMON_SLANT 0.001
#define COMMON_SWIVEL 0.001
#define FEW_PLANES 2         /* factor of variances in scans other than full turns */
#define LOOSE_SLANT 0.013    /* radians: as LOOSE_ANGLE, of the last step */
#define WITHOUT_SLANT 3      /* factor of errors of swivel and scale where the slant may be wrong */
#define OPEN_SLANT 1.5       /* the same in the last step, which allows for the slant */
#define COMMON_SCALE 25      /* divided by the square of the number of averaged columns */
#define COMMON_ROW_SHORT 0.3 /* rows, of scans other than full turns */

enum { MOST_STEPS = 12, FAR_STEPS = 3 };
enum { SWIVEL_COLUMNS = 100 }; /* planes of fewer do not show the swivel */
enum { LINES = 1u << POSE_AXIS | 1u << POSE_ROW | 1u << POSE_ROLL };

/* Standard errors of what a step has given, in pixels of the scan; values that it does not
 * determine are as given. Where pairs were taken as well, add_pairs has added the errors that
 * planes have in common. */
static void plane_errors(
	Search *s, const Coarse *c, const PoseStep *step, const double pairs[POSE_COUNT])
{
	double bin = (double)c->bin, n = (double)c->orbit.columns;
	const double common[POSE_COUNT] = {bin * COMMON_PLANES,
		s->few ? COMMON_ROW_SHORT : 10 * bin * COMMON_PLANES, 4 * COMMON_PLANES / n,
		COMMON_SLANT, COMMON_SWIVEL, COMMON_SCALE / (n * n)};
	for (int k = 0; k < POSE_COUNT; k++) {
		double by = deviation(step->covariance[k][k]);
		bool loose = (k == POSE_SWIVEL && by > LOOSE_ANGLE) ||
			     (k == POSE_SCALE && by > LOOSE_SCALE);
		if (k >= POSE_SWIVEL && !(s->by_planes >> k & 1))
			continue;
		s->error[k] = hypot(k <= POSE_ROW ? bin * by : by, isnan(pairs[k]) ? common[k] : 0);
		if (k >= POSE_SWIVEL && isnan(s->error[POSE_SLANT]) && is_unknown(s, POSE_SLANT) &&
			c != &s->problem->coarse[COARSE_FINE]) /* else they contain that */
			s->error[k] *= WITHOUT_SLANT;
		if (by > 0 && !loose)
			continue;
		s->error[k] = NAN;
		s->pose[k] = s->problem->orbit->pose[k];
	}
}

/* Whether a step from beside the row leads back. Where what planes differ by is noise, or errors of
 * the samples, steps are far too short, and so are their standard errors. A row that is known has
 * to come back as well, and to be determined: other values are not where it is not. */
static tomos_status row_answers(const Search *s, const Coarse *c, const double pose[POSE_COUNT],
	unsigned free, const PoseStep *given, bool *answers)
{
	double beside[POSE_COUNT], aside = ASIDE * (double)c->orbit.columns;
	PoseStep step = {.solved = false}, here = *given;
	memcpy(beside, pose, sizeof beside);
	beside[POSE_ROW] += aside;
	free |= 1u << POSE_ROW;
	if (!is_unknown(s, POSE_ROW))
		TRY(epipolar_step(c, pose, s->reversed, free, &here));
	if (here.covariance[POSE_SLANT][POSE_SLANT] > 0) /* else the two could not be compared */
		free |= POSE_KEEP;
	TRY(epipolar_step(c, beside, s->reversed, free, &step));
	double error = (double)c->bin * deviation(here.covariance[POSE_ROW][POSE_ROW]);
	*answers = step.solved && here.solved && error < LOOSE_ROW &&
		   here.step[POSE_ROW] - step.step[POSE_ROW] > LEAST_ANSWER * aside;
	return TOMOS_OK;
}

static void move_pose(const Coarse *c, const PoseStep *step, double pose[POSE_COUNT])
{
	for (int k = 0; k < POSE_COUNT; k++) {
		double most = search_largest_step(k, &c->orbit);
		pose[k] += fmin(fmax(step->step[k], -most), most);
	}
}

/* Combines a step with what pairs have given for swivel and scale, the values where it began, as
 * independent measurements of them (the update of a Kalman filter). error: of pairs; NAN: none.
 * Where the two contradict each other by more than CONTRADICT standard errors, those of swivel and
 * scale are as much larger. */
static void add_pairs(const double error[POSE_COUNT], const Coarse *c, PoseStep *step)
{
	double(*v)[NORMAL_MOST] = step->covariance, n = (double)c->orbit.columns, apart = 1;
	const double common[POSE_COUNT] = {
		[POSE_SWIVEL] = COMMON_SWIVEL, [POSE_SCALE] = COMMON_SCALE / (n * n)};
	for (int k = POSE_SWIVEL; k <= POSE_SCALE; k++) {
		if (!(v[k][k] > 0) || isnan(error[k]))
			continue;
		double gain[NORMAL_MOST], row[NORMAL_MOST], left = -step->step[k];
		v[k][k] += common[k] * common[k];
		double all = v[k][k] + error[k] * error[k];
		for (int i = 0; i < NORMAL_MOST; i++) {
			gain[i] = v[i][k] / all;
			row[i] = v[k][i];
		}
		for (int i = 0; i < NORMAL_MOST; i++) {
			step->step[i] += gain[i] * left;
			for (int j = 0; j < NORMAL_MOST; j++)
				v[i][j] -= gain[i] * row[j];
		}
		apart = fmax(apart, left * left / (CONTRADICT * CONTRADICT * all));
	}
	for (int k = POSE_SWIVEL; k <= POSE_SCALE; k++)
		v[k][k] *= apart;
}

/* A slant that is not determined stays as it is. The other values are those of the best slant all
 * the same, and their errors contain how far they follow it; a distance of few balls was off by 4.4
 * of these errors. */
static void leave_slant(PoseStep *step)
{
	if (step->covariance[POSE_SLANT][POSE_SLANT] < LOOSE_SLANT * LOOSE_SLANT)
		return;
	step->step[POSE_SLANT] = 0;
	for (int k = 0; k < POSE_COUNT; k++)
		step->covariance[k][POSE_SLANT] = step->covariance[POSE_SLANT][k] = 0;
	for (int k = POSE_SWIVEL; k <= POSE_SCALE; k++)
		step->covariance[k][k] *= OPEN_SLANT * OPEN_SLANT;
}

/* pairs: errors of what pairs have given; NAN: nothing. */
static void join_pairs(const Search *s, int scan, const double pairs[POSE_COUNT], PoseStep *step)
{
	for (int k = 0; k < NORMAL_MOST * NORMAL_MOST && s->few; k++)
		step->covariance[k / NORMAL_MOST][k % NORMAL_MOST] *= FEW_PLANES;
	add_pairs(pairs, &s->problem->coarse[scan], step);
	if (scan == COARSE_FINE)
		leave_slant(step);
}

/* The values in `free` from `steps` steps, or more while planes are not alike yet but become so:
 * few small parts of an object are alike only near the right pose. The other values stay as they
 * are; nothing where the views have too few planes in common that the detector sees as a whole.
 * pairs: errors of what pairs have given for values in `free`; NAN: nothing. */
static tomos_status fit_planes(
	Search *s, int scan, unsigned free, int steps, const double pairs[POSE_COUNT])
{
	const Coarse *c = &s->problem->coarse[scan];
	double pose[POSE_COUNT], start[POSE_COUNT], last = HUGE_VAL;
	const unsigned keep = scan == COARSE_FINE ? POSE_KEEP : 0;
	PoseStep step = {.solved = false};
	coarse_pose(c, s->pose, pose);
	for (int i = 0; i < MOST_STEPS; i++) {
		memcpy(start, pose, sizeof start);
		TRY(epipolar_step(c, pose, s->reversed, free | keep, &step));
		if (step.solved) {
			join_pairs(s, scan, pairs, &step);
			move_pose(c, &step, pose);
		}
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
	plane_errors(s, c, &step, pairs);
	for (int k = POSE_ROW; k <= POSE_ROLL && scan == COARSE_FINE; k++) {
		double unit = k == POSE_ROW ? (double)c->bin : 1; /* steps may be too short */
		s->error[k] = hypot(s->error[k], unit * (pose[k] - start[k]));
	}
	s->planes =
		scan == COARSE_REST || !is_unknown(s, POSE_ROW) || s->error[POSE_ROW] < LOOSE_ROW;
	return TOMOS_OK;
}

/* Swivel and scale from pairs, on the midplane that planes have given. The error of a slant that is
 * not determined, which no block of pairs shows, is about as large as those that blocks show. */
static tomos_status fit_fan(Search *s)
{
	static const int values[] = {POSE_SWIVEL, POSE_SCALE}, pairs[] = {PAIR_SWIVEL, PAIR_SCALE};
	static const double loose[] = {LOOSE_ANGLE, LOOSE_SCALE};
	double error[POSE_COUNT];
	unsigned asked = FAN_VALUES, free;
	for (int i = 0; i < 2; i++)
		if (!is_unknown(s, values[i]) || s->by_planes >> values[i] & 1)
			asked &= ~(1u << pairs[i]);
	free = asked;
	bool slanted = isnan(s->error[POSE_SLANT]) && is_unknown(s, POSE_SLANT);
	memcpy(error, s->error, sizeof error);
	TRY(fit_midplane(s, free, &s->after));
	for (int i = 0; i < 2; i++) {
		int k = values[i];
		if (!(asked >> pairs[i] & 1))
			continue;
		error[k] = s->error[k] * (slanted ? 2 : 1);
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

/* Swivel and scale of planes: where pairs do not determine them, and in the last scan together with
 * pairs, whose errors are then in `pairs`. */
static unsigned fan_by_planes(Search *s, int scan, double pairs[POSE_COUNT])
{
	bool many = s->problem->coarse[scan].orbit.columns >= SWIVEL_COLUMNS;
	unsigned by = s->by_planes;
	for (int k = 0; k < POSE_COUNT; k++)
		pairs[k] = NAN;
	for (int k = many ? POSE_SWIVEL : POSE_SCALE; k <= POSE_SCALE && scan > COARSE_REST; k++) {
		if (!is_unknown(s, k))
			continue;
		if (isnan(s->error[k]))
			by |= 1u << k;
		else if (scan == COARSE_FINE && !(by >> k & 1))
			pairs[k] = s->error[k];
	}
	return by;
}

/* Row, roll and slant from planes of the averaged scan, and what pairs do not determine of swivel
 * and scale as far as planes do. */
static tomos_status fit_scan(Search *s, int scan)
{
	static const int steps[COARSE_COUNT] = {3, 1, 1};
	double pairs[POSE_COUNT];
	unsigned by = fan_by_planes(s, scan, pairs), loose,
		 more = scan > COARSE_REST ? 1u << POSE_SLANT : 0;
	const Search start = *s;
	do {
		unsigned joint = 0;
		for (int k = POSE_SWIVEL; k <= POSE_SCALE; k++)
			joint |= isnan(pairs[k]) ? 0 : 1u << k;
		*s = start;
		s->by_planes = by | joint;
		bool far = scan == COARSE_PLANES && by >> POSE_SWIVEL & 1;
		TRY(fit_planes(s, scan, (LINES | more | by | joint) & s->problem->unknown,
			far ? FAR_STEPS : steps[scan], pairs));
		s->by_planes = by;
		loose = 0;
		for (int k = POSE_SWIVEL; k <= POSE_SCALE && s->planes; k++)
			if (by >> k & 1 && isnan(s->error[k]))
				loose |= 1u << k;
		by &= ~loose;
		for (int k = POSE_SWIVEL; k <= POSE_SCALE; k++)
			pairs[k] = loose >> k & 1 ? NAN : pairs[k];
	} while (loose);
	return TOMOS_OK;
}

/* A swivel from pairs that is beyond all reach is none. */
static void forget_wrong(Search *s)
{
	const double *given = s->problem->orbit->pose;
	if (fabs(s->pose[POSE_SWIVEL] - given[POSE_SWIVEL]) > MOST_ANGLE) {
		s->pose[POSE_SWIVEL] = given[POSE_SWIVEL];
		s->error[POSE_SWIVEL] = NAN;
	}
}

/* Row, roll and slant from planes; swivel and scale from pairs, in the end from both, and the axis
 * from what gives it better. From few pixels to many: what few of them give is off by more than
 * noise is. */
tomos_status refine_planes(Search *s)
{
	static const int rounds[COARSE_COUNT] = {1, 4, 1};
	Search before = *s, pairs = *s;
	forget_wrong(s);
	for (int scan = 0; scan < COARSE_COUNT; scan++) {
		double moved = 0; /* swivel from pairs and roll from planes follow each other */
		for (int i = 0; i < rounds[scan]; i++) {
			double swivel = s->pose[POSE_SWIVEL];
			TRY(fit_scan(s, scan));
			if (!s->planes) {
				*s = before;
				return TOMOS_OK;
			}
			if (scan == COARSE_FINE)
				break;
			TRY(fit_fan(s));
			moved = s->pose[POSE_SWIVEL] - swivel;
			if (!(fabs(moved) > s->error[POSE_SWIVEL]))
				break;
		}
		if (scan == COARSE_PLANES && !(s->by_planes >> POSE_SWIVEL & 1))
			s->error[POSE_SWIVEL] = hypot(s->error[POSE_SWIVEL], moved);
		if (scan == COARSE_PLANES)
			pairs = *s;
		TRY(search_report(s, scan + 1));
	}
	if (pairs.error[POSE_AXIS] < s->error[POSE_AXIS]) {
		s->pose[POSE_AXIS] = pairs.pose[POSE_AXIS];
		s->error[POSE_AXIS] = pairs.error[POSE_AXIS];
	}
	return TOMOS_OK;
}
