/* The pose of the detector of a fan or cone beam: swivel and distance from opposite rays of the
 * midplane; axis, vertical centre, roll and slant from planes that views have in common, or, where
 * the object leaves none, all but the slant from opposite rays. What reconstruction leaves of all
 * rows gives the first estimate of the midplane. */
#include <math.h>
#include <string.h>
#include "prep/pose_search.h"

enum { ROUNDS = 4, ROW_STEPS = 4, MOST_COLUMNS = 512 };
#define ROW_STEP 0.012 /* of the rows */
#define CLEARLY 0.95   /* residual of a row that is preferred to one nearer to the middle */
#define MOST_NOISE 0.7 /* share in the derivatives by the row */
#define DOUBT 0.015    /* of the rows: error of a row that is not determined */
#define POOR 0.02      /* residual above which only axis and roll are found */
#define EMPTY 0.3      /* residual of pairs that are mostly noise */
/* Errors that all parts of the data have in common, for residuals up to GOOD. */
#define GOOD 0.01
#define COMMON_AXIS 0.01 /* columns of the scan */
#define COMMON_ROW 0.5   /* rows */
#define COMMON_ROLL 0.1  /* rows, at the edge of the detector */
#define COMMON_SWIVEL 0.0005
#define COMMON_SCALE 0.001

enum { LINE_VALUES = 1u << PAIR_ROW | 1u << PAIR_SLOPE };

/* ---- the midplane ---------------------------------------------------------------------------- */

/* The values among `free` that the pairs determine. */
static unsigned tight(const PairFit *fit, unsigned free)
{
	static const double loose[PAIR_COUNT] = {
		HUGE_VAL, LOOSE_ANGLE, LOOSE_SCALE, LOOSE_ROW, LOOSE_ANGLE};
	unsigned kept = 0;
	for (int k = 0; k < PAIR_COUNT; k++)
		if (free >> k & 1 && deviation(fit->covariance[k][k]) < loose[k])
			kept |= 1u << k;
	if (fit->noise > MOST_NOISE)
		kept &= ~(1u << PAIR_ROW);
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
	static const int values[PAIR_COUNT] = {
		POSE_AXIS, POSE_SWIVEL, POSE_SCALE, POSE_ROW, POSE_ROLL};
	const Orbit *o = s->problem->orbit;
	double roll = roll_of_slope(s), grown = pow(fmax(1, fit->residual / GOOD), 2);
	const double unit[PAIR_COUNT] = {1, o->mirror, 1, 1, roll};
	const double common[PAIR_COUNT] = {COMMON_AXIS, COMMON_SWIVEL, COMMON_SCALE, COMMON_ROW,
		fabs(roll) * 2 * COMMON_ROLL / (double)o->columns};
	for (int k = 0; k < PAIR_COUNT; k++) {
		double value = unit[k] * fit->value[k];
		if (isnan(fit->covariance[k][k]) && k >= PAIR_ROW)
			value = 0;
		s->error[values[k]] =
			hypot(unit[k] * sqrt(fit->covariance[k][k]), grown * common[k]);
		s->pose[values[k]] = k >= PAIR_ROW ? s->pose[values[k]] + value : value;
		if ((k == PAIR_SWIVEL && s->error[values[k]] > LOOSE_ANGLE) ||
			(k == PAIR_SCALE && s->error[values[k]] > LOOSE_SCALE)) {
			s->pose[values[k]] = o->pose[values[k]];
			s->error[values[k]] = NAN;
		}
	}
}

tomos_status fit_midplane(Search *s, unsigned free, double *residual)
{
	const PoseProblem *p = s->problem;
	const Orbit *o = p->orbit;
	AxisProblem rows = {.data = p->band, .angles = o->angles, .orbit = o};
	Opposite pairs;
	PairFit fit;
	Line line;
	axis_midplane(o, s->pose, &line);
	line.row -= (double)p->row;
	if (p->band->shape[1] == 1)
		line = (Line){.row = 0};
	do { /* more rows where there is little in the midplane */
		TRY(opposite_make(&pairs, &rows, &line, MOST_COLUMNS));
		s->few = !pairs.full || pose_offset(o, s->pose[POSE_AXIS]);
		tomos_status status = fit_pairs(s, &pairs, free, &fit);
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

/* The row around which pairs are most alike. */
static tomos_status search_row(Search *s)
{
	Search best = *s;
	double least = NAN, height = ROW_STEP * (double)s->problem->orbit->rows;
	for (int k = 0; k <= 2 * ROW_STEPS; k++) { /* from the middle outwards */
		int step = k % 2 ? (k + 1) / 2 : -k / 2;
		Search here = *s;
		double residual = NAN;
		here.pose[POSE_ROW] += height * step;
		for (int i = 0; i < 2; i++)
			TRY(fit_midplane(&here, FAN_VALUES | 1u << PAIR_SLOPE, &residual));
		s->before = k == 0 ? residual : s->before;
		if (k == 0 || residual < CLEARLY * least) {
			best = here;
			least = residual;
		}
	}
	best.before = s->before;
	*s = best;
	return TOMOS_OK;
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* The largest step of a value: the residual is far from linear in the slant. */
double search_largest_step(int value, const Orbit *coarse)
{
	return value == POSE_ROW ? 0.1 * (double)coarse->rows : value == POSE_ROLL ? 0.1 : 0.05;
}

static tomos_status fit_rows(Search *s, unsigned free)
{
	const Coarse *c = &s->problem->coarse[COARSE_REST];
	double pose[POSE_COUNT];
	PoseStep step;
	coarse_pose(c, s->pose, pose);
	TRY(pose_step(c, s->problem->backend, pose, s->reversed, free, &step));
	for (int k = 0; k < POSE_COUNT; k++) {
		double most = search_largest_step(k, &c->orbit);
		if (free >> k & 1 && step.solved)
			pose[k] += fmin(fmax(step.step[k], -most), most);
	}
	fine_pose(c, pose, s->pose);
	return TOMOS_OK;
}

tomos_status search_report(const Search *s, int done)
{
	const tomos_progress *progress = s->problem->progress;
	if (progress && progress->report &&
		progress->report(progress->user, "geometry", done, COARSE_COUNT + 2,
			s->pose[POSE_AXIS]) != 0)
		return fail(TOMOS_CANCELLED, "cancelled during the search for the geometry");
	return TOMOS_OK;
}

/* Error of a row that pairs do not determine. */
static double row_doubt(const Search *s)
{
	return DOUBT * (double)s->problem->orbit->rows;
}

/* Where pairs do not determine the row: errors of the other values are how far they follow it, and
 * those that follow it too far are as given. */
static tomos_status doubt_row(Search *s)
{
	static const int values[] = {POSE_SWIVEL, POSE_SCALE, POSE_AXIS, POSE_ROLL};
	static const double loose[] = {LOOSE_ANGLE, LOOSE_SCALE, HUGE_VAL, LOOSE_ANGLE};
	double residual, error[POSE_COUNT];
	unsigned free = FAN_VALUES | 1u << PAIR_SLOPE;
	Search other = *s;
	other.pose[POSE_ROW] += row_doubt(s);
	TRY(fit_midplane(&other, free, &residual));
	memcpy(error, s->error, sizeof error);
	for (int i = 0; i < COUNT(values); i++) {
		int k = values[i];
		error[k] = hypot(error[k], other.pose[k] - s->pose[k]);
		if (error[k] < loose[i] || k == POSE_AXIS)
			continue;
		error[k] = NAN;
		s->pose[k] = s->problem->orbit->pose[k];
		free &= ~(1u << (k == POSE_SWIVEL   ? PAIR_SWIVEL
				  : k == POSE_SCALE ? PAIR_SCALE
						    : PAIR_SLOPE));
	}
	error[POSE_ROW] = s->tilted ? row_doubt(s) : NAN;
	if (!s->tilted)
		s->pose[POSE_ROW] = s->problem->orbit->pose[POSE_ROW];
	TRY(fit_midplane(s, free, &s->after));
	memcpy(s->error, error, sizeof error);
	return TOMOS_OK;
}

/* Where pairs are not much alike: only axis and roll. */
static tomos_status keep_sure(Search *s)
{
	static const int unsure[] = {POSE_SLANT, POSE_SWIVEL, POSE_SCALE};
	for (int i = 0; i < COUNT(unsure); i++) {
		s->pose[unsure[i]] = s->problem->orbit->pose[unsure[i]];
		s->error[unsure[i]] = NAN;
	}
	if (!s->tilted)
		s->pose[POSE_ROW] = s->problem->orbit->pose[POSE_ROW];
	TRY(fit_midplane(s, 1u << PAIR_AXIS | 1u << PAIR_SLOPE, &s->after));
	s->error[POSE_ROW] = s->tilted ? row_doubt(s) : NAN;
	return TOMOS_OK;
}

/* A first estimate of the midplane. */
static tomos_status find_midplane(Search *s)
{
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < 2 && status == TOMOS_OK; i++) {
		TRY(fit_midplane(s, FAN_VALUES, &s->after));
		status = fit_rows(s, 1u << POSE_ROW | 1u << POSE_ROLL);
	}
	s->tilted = status == TOMOS_OK;
	return status == TOMOS_UNSUPPORTED ? TOMOS_OK : status;
}

/* Without planes. */
static tomos_status refine_pairs(Search *s)
{
	if (!s->tilted)
		TRY(search_row(s));
	for (int round = 0; round < ROUNDS; round++)
		TRY(fit_midplane(s, FAN_VALUES | LINE_VALUES, &s->after));
	if (s->after > POOR)
		return keep_sure(s);
	if (s->few || isnan(s->error[POSE_ROW]))
		return doubt_row(s);
	s->error[POSE_ROW] = fmax(s->error[POSE_ROW], row_doubt(s));
	return TOMOS_OK;
}

static tomos_status refine(Search *s)
{
	TRY(fit_midplane(s, FAN_VALUES, &s->after));
	s->before = s->after;
	if (!s->problem->coarse)
		return TOMOS_OK;
	TRY(refine_planes(s));
	if (s->planes)
		return TOMOS_OK;
	TRY(find_midplane(s));
	if (s->tilted)
		TRY(refine_planes(s));
	return s->planes ? TOMOS_OK : refine_pairs(s);
}

/* ---- the whole search ------------------------------------------------------------------------ */

static tomos_status start(Search *s, const tomos_axis_options *options)
{
	const PoseProblem *p = s->problem;
	tomos_geometry *rows;
	tomos_axis axis = {.bytes = sizeof axis};
	Orbit band = *p->orbit;
	band.rows = p->band->shape[1];
	band.pose[POSE_ROW] -= (double)p->row;
	memcpy(s->pose, p->orbit->pose, sizeof s->pose);
	for (int k = 0; k < POSE_COUNT; k++)
		s->error[k] = NAN;
	TRY(orbit_geometry(&rows, &band, band.pose, false));
	tomos_status status = tomos_axis_find_scan(&axis, p->backend, p->band, rows, options, NULL);
	tomos_geometry_free(rows);
	s->pose[POSE_AXIS] = axis.column;
	s->error[POSE_AXIS] = axis.error;
	s->reversed = axis.reversed;
	return status;
}

tomos_status pose_find(
	const PoseProblem *p, const tomos_axis_options *options, tomos_pose *pose, unsigned *kept)
{
	Search s = {.problem = p, .before = NAN};
	double detector = p->orbit->detector;
	TRY(start(&s, options));
	TRY(search_report(&s, 0));
	TRY(refine(&s));
	TRY(search_accept(&s));
	TRY(search_report(&s, COARSE_COUNT + 1));
	*pose = (tomos_pose){.bytes = sizeof *pose,
		.before = s.before,
		.after = s.after,
		.reversed = s.reversed};
	*kept = s.kept;
	for (int k = 0; k < POSE_COUNT; k++) {
		double unit = k == POSE_SCALE ? detector : 1;
		pose->value[k] = unit * s.pose[k];
		pose->error[k] = unit * s.error[k];
	}
	return TOMOS_OK;
}
