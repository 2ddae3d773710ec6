/* Which values of a pose are taken as found. A value as given stays where the scan does not
 * contradict it: an error of the search must not make a right geometry worse. */
#include "prep/pose_search.h"

/* Standard errors that a value as given must be off; few pairs of rays, of short scans and offset
 * detectors, have more errors in common. */
#define SURELY 2
#define SURELY_FEW 4
/* Residual relative to that of the pose as given, of a pose that is rejected; of pairs in another
 * row, which see another part of the object. */
#define WORSE 1.005
#define WORSE_ROW 1.5
/* Factors of errors: of what planes give without a swivel, and of what pairs contradict. */
#define WITHOUT_SWIVEL 3
#define AGAINST_PAIRS 3
/* Of a pose that is taken: it has to lower one of the residuals. */
#define BETTER 0.995
#define CLEARLY 0.9 /* of all rows, in which case pairs in another row are not compared */
/* Of pairs, and of all rows that may then be worse: of a wide object, other planes count. */
#define HALVED 0.5
#define WORSE_HALVED 1.1
/* Residuals of projections that agree but for rounding, or that see nothing to compare. */
#define AGREEING 1e-5
#define NOTHING 0.5 /* of pairs that have nothing in common, */
#define ALIKE 0.1   /* and of those that confirm another row: few balls agree by chance */

/* What the projections contradict each other by: pairs of the midplane, and all rows (in planes, or
 * by what reconstruction leaves of them). The axis is fitted to the pairs. */
typedef struct {
	double pairs, rows; /* rows: 0 where they say nothing of the pose */
} Contradiction;

static tomos_status contradiction_of_rows(const Search *s, double *residual)
{
	const PoseProblem *p = s->problem;
	const Coarse *coarse = s->planes ? &p->coarse[COARSE_PLANES] : &p->coarse[COARSE_REST];
	double pose[POSE_COUNT];
	PoseStep step = {.residual = 0};
	tomos_status status = TOMOS_OK;
	if (s->planes || s->tilted)
		coarse_pose(coarse, s->pose, pose);
	if (s->planes)
		status = epipolar_step(coarse, pose, s->reversed, 1u << POSE_AXIS, &step);
	else if (s->tilted)
		status = pose_step(coarse, p->backend, pose, s->reversed, 0, &step);
	*residual = status == TOMOS_OK ? step.residual : 0;
	return status == TOMOS_UNSUPPORTED ? TOMOS_OK : status;
}

static tomos_status contradiction(Search *s, Contradiction *c)
{
	Search pairs = *s;
	TRY(fit_midplane(&pairs, 1u << PAIR_AXIS, &c->pairs));
	s->agree = pairs.agree;
	s->apart = pairs.apart;
	if (pairs.error[POSE_AXIS] <
		1.5 * s->error[POSE_AXIS]) { /* else planes gave a better one */
		s->pose[POSE_AXIS] = pairs.pose[POSE_AXIS];
		s->error[POSE_AXIS] = pairs.error[POSE_AXIS];
	}
	return contradiction_of_rows(s, &c->rows);
}

/* A value at the limit of the search may be anywhere beyond it. */
static bool too_far(const Search *s, int value, double off)
{
	double rows = MOST_ROWS * (double)s->problem->orbit->rows;
	double most = value == POSE_ROW ? rows : value == POSE_SCALE ? MOST_SCALE : MOST_ANGLE;
	return off > 0.99 * most;
}

/* Values that are not determined, or not off by much, are as given. The error of the latter
 * includes by how much. */
static bool keep_given(Search *s)
{
	const double *given = s->problem->orbit->pose;
	bool all = true;
	for (int k = POSE_ROW; k < POSE_COUNT; k++) {
		double off = fabs(s->pose[k] - given[k]), error = s->error[k];
		if (too_far(s, k, off)) {
			s->beyond |= isnan(error) ? 0 : 1u << k;
			off = error = NAN;
		}
		bool by_pairs =
			k == POSE_ROLL ? !s->planes : k >= POSE_SWIVEL && !(s->by_planes >> k & 1);
		if (off > (s->few && by_pairs ? SURELY_FEW : SURELY) * error) {
			all = false;
			continue;
		}
		s->pose[k] = given[k];
		s->error[k] = hypot(error, off);
		s->kept |= isnan(error) ? 0 : 1u << k;
	}
	return all;
}

/* The pose as given, with the axis that pairs have there; its values are not determined. */
static void take_given(Search *s)
{
	for (int k = POSE_ROW; k < POSE_COUNT; k++) {
		s->pose[k] = s->problem->orbit->pose[k];
		s->error[k] = NAN;
	}
	s->error[POSE_AXIS] = HUGE_VAL;
}

/* Whether the scan prefers what was found: one residual is lower, none is higher. Pairs in another
 * row see another part of the object, so there all rows decide. */
static bool is_better(const Search *s, const Search *given, const Contradiction *found,
	const Contradiction *nominal)
{
	bool rows = nominal->rows > AGREEING && found->rows > 0,
	     lower = rows && found->rows < BETTER * nominal->rows;
	if (!s->planes && !s->few && given->agree && !s->agree)
		return false;
	bool other_row = lower && fabs(s->pose[POSE_ROW] - given->pose[POSE_ROW]) > 1;
	if (other_row && found->rows < CLEARLY * nominal->rows)
		return true;
	if (nominal->pairs < AGREEING || found->pairs < AGREEING)
		return false;
	bool halved = found->pairs < HALVED * nominal->pairs;
	return found->pairs <= (other_row ? WORSE_ROW : WORSE) * nominal->pairs &&
	       found->rows <= (halved ? WORSE_HALVED : WORSE) * nominal->rows &&
	       (lower || found->pairs < BETTER * nominal->pairs);
}

/* What planes gave with a swivel that may be wrong is off by more than their blocks show, and so is
 * what pairs contradict that agreed before. */
static void enlarge_errors(Search *s, const Search *given)
{
	bool without = isnan(s->error[POSE_SWIVEL]) && is_unknown(s, POSE_SWIVEL);
	double by = without ? WITHOUT_SWIVEL : 1;
	by *= given->agree && !s->agree ? AGAINST_PAIRS : 1;
	for (int k = 0; k < POSE_COUNT && s->planes; k++)
		s->error[k] *= by;
}

/* The pose that was found, or the one given where the scan does not prefer it. */
static tomos_status choose(Search *s)
{
	Search given = *s;
	Contradiction found, nominal;
	bool all = keep_given(s);
	TRY(contradiction(s, &found));
	s->after = found.pairs;
	double moved = s->pose[POSE_AXIS] - given.pose[POSE_AXIS]; /* follows the other values */
	s->error[POSE_AXIS] = hypot(fmax(s->error[POSE_AXIS], given.error[POSE_AXIS]), moved);
	if (all)
		return TOMOS_OK;
	double alone = given.error[POSE_AXIS];
	take_given(&given);
	TRY(contradiction(&given, &nominal));
	s->better = is_better(s, &given, &found, &nominal);
	if (s->better) {
		enlarge_errors(s, &given);
		return TOMOS_OK;
	}
	given.after = nominal.pairs;
	given.beyond = s->beyond;
	/* Its row may have no pairs, or others than the rows beside it. */
	if (!isfinite(given.error[POSE_AXIS]) || (!s->planes && alone > given.error[POSE_AXIS]))
		given.error[POSE_AXIS] = alone;
	*s = given;
	return TOMOS_OK;
}

/* Where neither pairs nor planes agree, the axis is known no better than pairs are apart. Where the
 * search that all began from was not certain, perhaps of the direction either, and nothing confirms
 * it, the other values are not determined; if pairs are not alike at all, the axis is not either,
 * and is the likeliest one of the search. */
tomos_status search_accept(Search *s)
{
	TRY(choose(s));
	bool doubted = s->doubt && !s->planes && !s->better;
	bool unlike = !s->planes && s->before > NOTHING && !(s->after < ALIKE);
	bool confirmed = s->agree || (s->planes && (s->better || !s->doubt)) ||
			 (s->few && s->better && s->before < NOTHING);
	if (!doubted && !unlike && confirmed)
		return TOMOS_OK;
	unlike = unlike || s->after > NOTHING;
	s->error[POSE_AXIS] = unlike ? NAN : hypot(s->error[POSE_AXIS], s->apart);
	for (int k = POSE_ROW; k < POSE_COUNT && (doubted || unlike); k++) {
		s->pose[k] = s->problem->orbit->pose[k];
		s->error[k] = NAN;
		s->kept = 0;
	}
	return TOMOS_OK;
}
