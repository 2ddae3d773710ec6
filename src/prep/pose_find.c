/* The pose of the detector of a fan or cone beam: swivel and distance from opposite rays of the
 * midplane; axis, vertical centre, roll and slant from planes that views have in common, or, where
 * the object leaves none, all but the slant from opposite rays. What reconstruction leaves of all
 * rows gives the first estimate of the midplane. */
#include <math.h>
#include <string.h>
#include "prep/pose_search.h"

enum { ROUNDS = 2, MOST_STEPS = 5 };
#define LONGEST_AXIS 0.03 /* of the columns, of a step of the axis */
#define DOUBT 0.03        /* of the rows: error of a row that is not determined */
#define LIKELY 0.1 /* scale of a detector, from pairs of a row that may not be the midplane */
/* Errors of what all rows give, in averaged pixels: of the row, and at the edge of the detector. */
#define COMMON_REST 0.5
#define COMMON_REST_ROLL 0.1
#define EMPTY 0.3 /* residual of pairs that are mostly noise */
#define POOR 0.02 /* residual above which only axis and roll are found */
/* Errors that all parts of the data have in common, for residuals up to GOOD. */
#define GOOD 0.01
#define MOST_GROWN 4         /* further residuals are noise */
#define COMMON_AXIS 0.01     /* columns of the scan */
#define COMMON_ROLL 0.1      /* rows, at the edge of the detector */
#define COMMON_FAN 0.001     /* columns, of all rays: what they change swivel and scale by; */
#define COMMON_FAN_FEW 0.004 /* of few pairs */

/* ---- the midplane ---------------------------------------------------------------------------- */

/* The values among `free` that the pairs determine. */
static unsigned tight(const PairFit *fit, unsigned free)
{
	static const double loose[PAIR_COUNT] = {HUGE_VAL, LOOSE_ANGLE, LOOSE_SCALE, LOOSE_ANGLE};
	unsigned kept = 0;
	for (int k = 0; k < PAIR_COUNT; k++)
		if (free >> k & 1 && deviation(fit->covariance[k][k]) < loose[k])
			kept |= 1u << k;
	return kept;
}

/* Fits those of the values in `free` that the pairs determine; the others are as given. */
static tomos_status fit_pairs(const Search *s, const Opposite *pairs, unsigned free, PairFit *fit)
{
	const Orbit *o = s->problem->orbit;
	double distance = o->detector / o->width, sign = s->reversed ? -o->mirror : o->mirror;
	PairFit start = {.value = {s->pose[POSE_AXIS], o->mirror * s->pose[POSE_SWIVEL],
				 s->pose[POSE_SCALE]}};
	unsigned kept, asked = free;
	do {
		*fit = start;
		TRY(opposite_fit(pairs, distance, sign, free, fit));
		kept = fit->solved ? tight(fit, free) : 1u << PAIR_AXIS;
		if (kept == free || free == 1u << PAIR_AXIS)
			break;
		free = kept;
		unsigned left = asked & ~free;
		if (left >> PAIR_SWIVEL & 1)
			start.value[PAIR_SWIVEL] = o->mirror * o->pose[POSE_SWIVEL];
		if (left >> PAIR_SCALE & 1)
			start.value[PAIR_SCALE] = o->pose[POSE_SCALE];
	} while (true);
	for (int k = 0; k < PAIR_COUNT; k++)
		if (!(free >> k & 1))
			fit->covariance[k][k] = NAN;
	return TOMOS_OK;
}

/* The roll for which the midplane has a slope of one row per column more. */
static double roll_of_slope(const Search *s)
{
	double pose[POSE_COUNT], by = 1e-4;
	Line more, less;
	memcpy(pose, s->pose, sizeof pose);
	pose[POSE_ROLL] += by;
	axis_midplane(s->problem->orbit, pose, &more);
	pose[POSE_ROLL] -= 2 * by;
	axis_midplane(s->problem->orbit, pose, &less);
	return 2 * by / (more.slope - less.slope);
}

static void take_pairs(Search *s, const PairFit *fit)
{
	static const int values[PAIR_COUNT] = {POSE_AXIS, POSE_SWIVEL, POSE_SCALE, POSE_ROLL};
	const Orbit *o = s->problem->orbit;
	double roll = roll_of_slope(s),
	       grown = pow(fmin(fmax(1, fit->residual / GOOD), MOST_GROWN), 2);
	const double unit[PAIR_COUNT] = {1, o->mirror, 1, roll};
	double fan = s->few ? COMMON_FAN_FEW : COMMON_FAN;
	const double common[PAIR_COUNT] = {COMMON_AXIS, fan * fit->common[PAIR_SWIVEL],
		fan * fit->common[PAIR_SCALE], fabs(roll) * 2 * COMMON_ROLL / (double)o->columns};
	for (int k = 0; k < PAIR_COUNT; k++) {
		double value = unit[k] * fit->value[k];
		if (isnan(fit->covariance[k][k]) && k == PAIR_SLOPE)
			value = 0;
		s->error[values[k]] =
			hypot(unit[k] * sqrt(fit->covariance[k][k]), grown * common[k]);
		s->pose[values[k]] = k == PAIR_SLOPE ? s->pose[values[k]] + value : value;
		if ((k == PAIR_SWIVEL && s->error[values[k]] > LOOSE_ANGLE) ||
			(k == PAIR_SCALE && s->error[values[k]] > LOOSE_SCALE)) {
			s->pose[values[k]] = o->pose[values[k]];
			s->error[values[k]] = NAN;
		}
	}
}

/* The row in which pairs are compared. */
static double *pairs_row(Search *s)
{
	bool likely = isnan(s->error[POSE_ROW]) && !isnan(s->likely);
	return likely ? &s->likely : &s->pose[POSE_ROW];
}

/* Those of the values of pairs in `free` that are looked for. */
static unsigned unknown_pairs(const Search *s, unsigned free)
{
	static const int values[PAIR_COUNT] = {POSE_AXIS, POSE_SWIVEL, POSE_SCALE, POSE_ROLL};
	for (int k = 0; k < PAIR_COUNT; k++)
		if (!is_unknown(s, values[k]))
			free &= ~(1u << k);
	return free;
}

tomos_status fit_midplane(Search *s, unsigned free, double *residual)
{
	const PoseProblem *p = s->problem;
	const Orbit *o = p->orbit;
	AxisProblem rows = {.data = p->band, .angles = o->angles, .orbit = o};
	Opposite pairs;
	PairFit fit = {.apart = HUGE_VAL};
	Line line;
	free = unknown_pairs(s, free);
	axis_midplane(o, s->pose, &line);
	line.row += *pairs_row(s) - s->pose[POSE_ROW] - (double)p->row;
	if (p->band->shape[1] == 1)
		line = (Line){.row = 0};
	do { /* more rows where there is little in the midplane */
		TRY(opposite_make(&pairs, &rows, &line, POSE_COLUMNS));
		s->few = !pairs.full || pose_offset(o, s->pose[POSE_AXIS]);
		tomos_status status = fit_pairs(s, &pairs, free, &fit);
		s->agree = status == TOMOS_OK && opposite_agrees(&pairs, &fit);
		s->apart = fit.apart * (double)pairs.bin;
		opposite_free(&pairs);
		TRY(status);
		line.reach *= 2;
	} while (fit.residual > EMPTY && line.reach > 0 && 2 * line.reach < p->band->shape[1]);
	*residual = fit.residual;
	if (!fit.solved || fit.residual > EMPTY)
		return TOMOS_OK;
	take_pairs(s, &fit);
	return TOMOS_OK;
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* The largest step of a value, in averaged pixels and radians: the residual is far from linear in
 * the slant. */
double search_largest_step(int value, const Orbit *coarse)
{
	if (value == POSE_AXIS)
		return LONGEST_AXIS * (double)coarse->columns;
	return value == POSE_ROW ? 0.1 * (double)coarse->rows : value == POSE_ROLL ? 0.1 : 0.05;
}

/* What all rows say of row and roll where `value` is larger by `aside`, pixels or radians. */
static tomos_status step_rows(const Search *s, int value, double aside, PoseStep *step)
{
	const Coarse *c = &s->problem->coarse[COARSE_REST];
	double pose[POSE_COUNT];
	coarse_pose(c, s->pose, pose);
	pose[value] += aside;
	unsigned free = s->problem->unknown & (1u << POSE_ROW | 1u << POSE_ROLL);
	return pose_step(c, s->problem->backend, pose, s->reversed, free, step);
}

/* moved: by how much, in pixels of the scan. True: further than one step may lead. */
static bool take_rows(Search *s, const PoseStep *step, double moved[POSE_COUNT])
{
	const Coarse *c = &s->problem->coarse[COARSE_REST];
	bool far = false;
	for (int k = POSE_ROW; k <= POSE_ROLL && step->solved; k++) {
		double most = search_largest_step(k, &c->orbit);
		double unit = k == POSE_ROW ? (double)c->bin : 1;
		moved[k] = unit * fmin(fmax(step->step[k], -most), most);
		s->pose[k] += moved[k];
		far |= fabs(step->step[k]) > most;
	}
	return far;
}

tomos_status search_report(const Search *s, int done)
{
	const tomos_progress *progress = s->problem->progress;
	if (progress && progress->report &&
		progress->report(progress->user, "geometry", done, COARSE_COUNT + 2, s->after) != 0)
		return fail(TOMOS_CANCELLED, "cancelled during the search for the geometry");
	return TOMOS_OK;
}

/* Swivel and scale from pairs of a row that may not be the midplane. */
static tomos_status fit_likely(Search *s)
{
	double given = s->problem->orbit->pose[POSE_SCALE];
	TRY(fit_midplane(s, FAN_VALUES, &s->after));
	if (fabs(s->pose[POSE_SCALE] - given) > LIKELY * given)
		TRY(fit_midplane(s, FAN_VALUES & ~(1u << PAIR_SCALE), &s->after));
	return TOMOS_OK;
}

/* The part of the way that a step from beside a value leads back; 0: there is none, 1: the value is
 * known. */
static tomos_status rows_answer(
	const Search *s, int value, double aside, const PoseStep *here, double *answer)
{
	PoseStep beside;
	*answer = 1;
	if (!is_unknown(s, value))
		return TOMOS_OK;
	TRY(step_rows(s, value, aside, &beside));
	*answer = beside.solved ? (here->step[value] - beside.step[value]) / aside : 0;
	return TOMOS_OK;
}

/* Roll and row from all rows, where moving them changes what they are said to be: the step from
 * beside leads back only where more than noise and errors of the samples is left. The row not from
 * an object that is cut. */
static tomos_status find_midplane(Search *s)
{
	const Coarse *c = &s->problem->coarse[COARSE_REST];
	double bin = (double)c->bin, edge = 0.5 * (double)c->orbit.columns, aside = 2 * ASIDE;
	double moved[POSE_COUNT] = {0}, answer, tilts;
	PoseStep step;
	bool far = true;
	for (int i = 0; i < MOST_STEPS && far; i++) {
		TRY(fit_likely(s));
		TRY(step_rows(s, POSE_ROW, 0, &step));
		far = take_rows(s, &step, moved);
	}
	TRY(fit_likely(s));
	TRY(step_rows(s, POSE_ROW, 0, &step));
	TRY(rows_answer(s, POSE_ROW, aside * edge, &step, &answer));
	TRY(rows_answer(s, POSE_ROLL, aside, &step, &tilts));
	if (!step.solved || !(tilts > LEAST_ANSWER))
		return TOMOS_OK;
	take_rows(s, &step, moved); /* also what is left of the way, at most */
	s->tilted = true;
	if (is_unknown(s, POSE_ROLL))
		s->error[POSE_ROLL] = hypot(
			moved[POSE_ROLL], hypot(deviation(step.covariance[POSE_ROLL][POSE_ROLL]),
						  COMMON_REST_ROLL / edge));
	s->error[POSE_ROW] = hypot(moved[POSE_ROW],
		bin * hypot(deviation(step.covariance[POSE_ROW][POSE_ROW]), COMMON_REST) /
			fmin(answer, 1));
	if (is_unknown(s, POSE_ROW) && answer > LEAST_ANSWER && !step.cut)
		return TOMOS_OK;
	s->pose[POSE_ROW] = s->problem->orbit->pose[POSE_ROW];
	s->error[POSE_ROW] = NAN;
	return TOMOS_OK;
}

/* ---- without planes -------------------------------------------------------------------------- */

/* Adds to the errors of what pairs give how far it follows the row, and leaves values as given that
 * follow it too far. */
static tomos_status doubt_row(Search *s, unsigned *free)
{
	static const int values[] = {POSE_AXIS, POSE_ROLL, POSE_SWIVEL, POSE_SCALE};
	static const int pairs[] = {PAIR_AXIS, PAIR_SLOPE, PAIR_SWIVEL, PAIR_SCALE};
	static const double loose[] = {HUGE_VAL, LOOSE_ANGLE, LOOSE_ANGLE, LOOSE_SCALE};
	const Orbit *o = s->problem->orbit;
	double row = s->error[POSE_ROW], far[POSE_COUNT] = {0}, residual;
	if (!is_unknown(s, POSE_ROW))
		return TOMOS_OK;
	for (int side = -1; side <= 1; side += 2) {
		Search other = *s;
		*pairs_row(&other) += side * (isnan(row) ? DOUBT * (double)o->rows : row);
		TRY(fit_midplane(&other, *free, &residual));
		bool fitted = residual <= EMPTY;
		for (int k = 0; k < POSE_COUNT; k++)
			far[k] = fmax(far[k], fabs(other.pose[k] - s->pose[k]));
		for (int i = 1; i < COUNT(values) && !fitted; i++)
			far[values[i]] = HUGE_VAL; /* beside the row they are not determined */
	}
	for (int i = 0; i < COUNT(values); i++) {
		int k = values[i];
		if (!(*free >> pairs[i] & 1))
			continue;
		s->error[k] = hypot(s->error[k], far[k]);
		if (s->error[k] < loose[i])
			continue;
		s->pose[k] = o->pose[k];
		s->error[k] = NAN;
		*free &= ~(1u << pairs[i]);
	}
	return TOMOS_OK;
}

/* The roll that is known better, of pairs and of all rows; pairs are fitted again on its line. */
static tomos_status choose_roll(Search *s, const Search *rows, unsigned *free)
{
	if (!rows->tilted || !is_unknown(s, POSE_ROLL) ||
		s->error[POSE_ROLL] < rows->error[POSE_ROLL])
		return TOMOS_OK;
	s->pose[POSE_ROLL] = rows->pose[POSE_ROLL];
	*free &= ~(1u << PAIR_SLOPE);
	TRY(fit_midplane(s, *free, &s->after));
	s->error[POSE_ROLL] = rows->error[POSE_ROLL];
	return TOMOS_OK;
}

static tomos_status refine_pairs(Search *s)
{
	const Search rows = *s;
	unsigned free = unknown_pairs(s, FAN_VALUES | 1u << PAIR_SLOPE);
	double error[POSE_COUNT];
	for (int round = 0; round < ROUNDS; round++)
		TRY(fit_midplane(s, free, &s->after));
	if (s->after > POOR) { /* they are not much alike */
		free = unknown_pairs(s, 1u << PAIR_AXIS | 1u << PAIR_SLOPE);
		TRY(fit_midplane(s, free, &s->after));
	}
	TRY(choose_roll(s, &rows, &free));
	TRY(doubt_row(s, &free));
	memcpy(error, s->error, sizeof error);
	TRY(fit_midplane(s, free, &s->after));
	memcpy(s->error, error, sizeof error);
	return TOMOS_OK;
}

static tomos_status refine(Search *s)
{
	bool offset = pose_offset(s->problem->orbit, s->pose[POSE_AXIS]);
	if (s->problem->coarse && offset && is_unknown(s, POSE_ROW))
		TRY(likely_row(s));
	TRY(fit_likely(s));
	s->before = s->after;
	if (!s->problem->coarse)
		return TOMOS_OK;
	TRY(refine_planes(s));
	if (s->planes)
		return TOMOS_OK;
	tomos_status status = find_midplane(s);
	if (status != TOMOS_UNSUPPORTED)
		TRY(status);
	if (s->tilted)
		TRY(refine_planes(s));
	return s->planes ? TOMOS_OK : refine_pairs(s);
}

/* ---- the whole search ------------------------------------------------------------------------ */

static tomos_status start(Search *s, const tomos_axis_options *options)
{
	const PoseProblem *p = s->problem;
	tomos_axis axis = {.bytes = sizeof axis};
	Orbit band = *p->orbit;
	double sweep[3];
	band.rows = p->band->shape[1];
	band.pose[POSE_ROW] -= (double)p->row;
	memcpy(s->pose, p->orbit->pose, sizeof s->pose);
	for (int k = 0; k < POSE_COUNT; k++)
		s->error[k] = NAN;
	AxisProblem rows = {.data = p->band,
		.angles = band.angles,
		.backend = p->backend,
		.orbit = &band,
		.repaired = true};
	TRY(axis_find(&axis, &rows, options, NULL));
	if (axis.at_edge && options && options->axis_range_count > 0)
		return fail(TOMOS_BAD_VALUE,
			"the option 'axis-range' does not contain the axis, or ends at it, so that "
			"the pose of the detector cannot be found: widen it");
	s->doubt = tomos_axis_doubt(&axis, &sweep[0], &sweep[1], &sweep[2]);
	s->pose[POSE_AXIS] = axis.column;
	s->error[POSE_AXIS] = axis.error;
	s->reversed = axis.reversed;
	return TOMOS_OK;
}

tomos_status pose_find(
	const PoseProblem *p, const tomos_axis_options *options, tomos_pose *pose, unsigned *kept)
{
	Search s = {.problem = p, .likely = NAN, .before = NAN, .after = NAN};
	double detector = p->orbit->detector;
	TRY(start(&s, options));
	TRY(search_report(&s, 0));
	TRY(refine(&s));
	TRY(search_accept(&s));
	TRY(search_report(&s, COARSE_COUNT + 1));
	*pose = (tomos_pose){.bytes = sizeof *pose,
		.before = s.before,
		.after = s.after,
		.reversed = s.reversed,
		.beyond = s.beyond};
	*kept = s.kept;
	for (int k = 0; k < POSE_COUNT; k++) {
		double unit = k == POSE_SCALE ? detector : 1;
		pose->value[k] = unit * s.pose[k];
		pose->error[k] = p->unknown >> k & 1 ? unit * s.error[k] : 0;
	}
	return TOMOS_OK;
}
