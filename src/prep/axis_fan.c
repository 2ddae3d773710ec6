/* Rotation axis and direction of rotation of fan and cone beams, from opposite rays of the
 * midplane. */
#include <math.h>
#include "prep/opposite.h"

enum { MOST_COLUMNS = 512 };
#define BAND 0.012   /* of the columns: rows on either side of the midplane that are averaged */
#define LEAST_BAND 2 /* rows */
#define SURE 4       /* standard errors by which the other direction must be better, */
#define CLEAR 0.8    /* or its residual relative to that of the given one */
#define TILTED 0.8   /* likewise, of a detector that is rolled or swivelled */
#define SEEN 1e-3   /* residual by which it is better at least: that of round objects is rounding */
#define UNSURE 0.1  /* confidence */
#define COMMON 0.01 /* columns: error that parts of the data have in common */
/* How far rays measured from both sides may be apart, in columns and in standard deviations of
 * their noise, and their least share of the energy: others belong to no axis, or are in air. Rows
 * beside the midplane do not quite meet; the limit is stricter in short scans and with offset
 * detectors, where few rays agree by chance. */
#define FEW 0.3 /* of the columns, on the shorter side of an offset detector */
#define APART 0.8
#define APART_FEW 0.15
#define APART_NOISE 2
#define LEAST_SHARE 0.01
#define UNLIKE 0.8    /* residual of what is not alike, or noise */
#define ROUNDING 1e-5 /* of the largest value */

void axis_midplane(const Orbit *o, const double pose[POSE_COUNT], Line *line)
{
	double distance = o->detector / o->width, high = o->height / o->width, ends[2][2];
	double counted[POSE_COUNT];
	double reach = fmax(BAND * (double)o->columns, LEAST_BAND), half = 0.5 * (double)o->columns;
	pose_counted(o, pose, counted);
	for (int i = 0; i < 2; i++)
		pose_pixel(counted, distance, high, i ? half : -half, 0, ends[i]);
	line->slope = (ends[1][1] - ends[0][1]) / (ends[1][0] - ends[0][0]);
	line->row = ends[0][1] - line->slope * ends[0][0];
	line->reach = (int64_t)reach;
	line->alike = false;
}

/* Rows near the midplane; of fans that each have a slice of their own, all. */
static void choose_line(const AxisProblem *p, Line *line)
{
	const Orbit *o = p->orbit;
	int64_t rows = p->data->shape[1];
	axis_midplane(o, o->pose, line);
	if (o->kind == TOMOS_FAN_PER_ROW || rows == 1)
		*line = (Line){
			.row = 0.5 * (double)(rows - 1), .reach = (rows - 1) / 2, .alike = true};
}

static tomos_status try_direction(
	const Opposite *s, const AxisProblem *p, double sign, AxisAnswer *answer, PairFit *fit)
{
	const Orbit *o = p->orbit;
	double distance = o->detector / o->width;
	TRY(opposite_search(s, p, distance, sign, answer));
	*fit = (PairFit){.value = {answer->column, o->mirror * o->pose[POSE_SWIVEL], 1}};
	TRY(opposite_fit(s, distance, sign, 1u << PAIR_AXIS, fit));
	double reach = 2 * (double)s->bin; /* a fit that went astray keeps what was searched for */
	if (!fit->solved || !(fabs(fit->value[PAIR_AXIS] - answer->column) <= reach))
		return TOMOS_OK;
	answer->column = fit->value[PAIR_AXIS];
	answer->error = hypot(sqrt(fit->covariance[PAIR_AXIS][PAIR_AXIS]), COMMON);
	return TOMOS_OK;
}

/* Whether the pairs of `two` are clearly more alike than those of `one`. */
static bool better(const PairFit *one, const PairFit *two)
{
	double differences[NORMAL_BLOCKS], sum = 0;
	for (int b = 0; b < NORMAL_BLOCKS; b++) {
		differences[b] = one->blocks[b] - two->blocks[b];
		sum += differences[b];
	}
	double error = axis_error(differences, NORMAL_BLOCKS);
	if (one->solved && !(pow(one->residual, 2) - pow(two->residual, 2) > SEEN * SEEN))
		return false;
	return two->solved && (!one->solved || sum / NORMAL_BLOCKS > SURE * error ||
				      two->residual < CLEAR * one->residual);
}

static bool seen(const PairFit *fit)
{
	return fit->solved && fit->share > LEAST_SHARE;
}

bool opposite_agrees(const Opposite *s, const PairFit *fit)
{
	double axis = (fit->value[PAIR_AXIS] + 0.5) / (double)s->bin, wide = (double)s->columns;
	bool few = !s->full || fmin(axis, wide - axis) < FEW * wide;
	double apart = few ? APART_FEW : APART;
	return seen(fit) && fit->residual < UNLIKE &&
	       fit->apart < hypot(apart, APART_NOISE * fit->noise);
}

typedef struct {
	bool reversed;
	bool clear; /* one direction is better than the other */
	bool open;  /* neither can be told from the other, and they have different axes */
	bool none;  /* there is nothing to compare */
} Rotation;

/* Which of two directions rays agree for; where they do for both, the given one stays unless it is
 * clearly worse, both by its residual and in the search. */
static Rotation compare(const Opposite *s, const AxisAnswer found[2], const PairFit fits[2])
{
	bool agree[2] = {opposite_agrees(s, &fits[0]), opposite_agrees(s, &fits[1])};
	if (agree[0] != agree[1]) /* unless the other one has nothing to compare */
		return (Rotation){
			.reversed = agree[1], .clear = true, .open = !seen(&fits[agree[0]])};
	bool other = better(&fits[0], &fits[1]), likelier = found[1].likeness > found[0].likeness;
	bool clear = (other && likelier) || better(&fits[1], &fits[0]);
	double apart = fabs(found[0].column - found[1].column);
	bool same = apart <= fmax(4 * hypot(found[0].error, found[1].error), APART_FEW);
	return (Rotation){
		.reversed = other && likelier, .clear = clear, .open = !clear && (other || !same)};
}

/* Whether the rays agree far better with a detector that is rolled or swivelled further. */
static bool is_tilted(const Opposite *s, const AxisProblem *p, double sign, const PairFit *fit)
{
	static const unsigned ways[] = {
		1u << PAIR_AXIS | 1u << PAIR_SLOPE, 1u << PAIR_AXIS | 1u << PAIR_SWIVEL};
	double distance = p->orbit->detector / p->orbit->width;
	for (int i = 0; i < COUNT(ways) && opposite_agrees(s, fit); i++) {
		PairFit other = *fit;
		if (opposite_fit(s, distance, sign, ways[i], &other) == TOMOS_OK && other.solved &&
			other.residual < TILTED * fit->residual &&
			fit->residual - other.residual > SEEN)
			return true;
	}
	return false;
}

/* Both directions, or the one given. */
static tomos_status try_line(
	const AxisProblem *p, const Line *line, bool decide, AxisAnswer *answer, Rotation *found)
{
	Opposite s;
	PairFit fits[2];
	AxisAnswer both[2] = {{0}};
	tomos_status status;
	*found = (Rotation){.clear = !decide};
	TRY(opposite_make(&s, p, line, MOST_COLUMNS));
	for (int i = 0; i < (decide ? 2 : 1); i++)
		TRY_OR_DONE(try_direction(
			&s, p, i ? -p->orbit->mirror : p->orbit->mirror, &both[i], &fits[i]));
	if (decide)
		*found = compare(&s, both, fits);
	*answer = both[found->reversed];
	answer->tilted = is_tilted(&s, p, found->reversed ? -p->orbit->mirror : p->orbit->mirror,
		&fits[found->reversed]);
	if (!opposite_agrees(&s, &fits[found->reversed]) || isnan(answer->error) || found->open)
		answer->confidence *= UNSURE;
	found->none = !fits[found->reversed].solved;
done:
	opposite_free(&s);
	return status;
}

/* Whether the data vary by more than the rounding of sums over them, in which pairs would agree. */
static bool varies(const tomos_array *a)
{
	float low = INFINITY, high = -INFINITY;
	for (int64_t i = 0; i < a->shape[0] * a->shape[1]; i++) {
		const float *row = array_row(a, i / a->shape[1], i % a->shape[1]);
		for (int64_t c = 0; c < a->shape[2]; c++) {
			low = fminf(low, row[c * a->stride[2]]);
			high = fmaxf(high, row[c * a->stride[2]]);
		}
	}
	return high - low > (float)ROUNDING * fmaxf(fabsf(low), fabsf(high));
}

static tomos_status fail_without_pairs(const AxisProblem *p)
{
	return fail(TOMOS_BAD_VALUE,
		"no ray of the %lld views through the object is measured from both sides: the axis "
		"cannot be found from them",
		(long long)p->data->shape[0]);
}

/* Where there is little in the midplane, more rows are averaged: their rays do not quite meet, but
 * show the axis and the direction. */
tomos_status axis_fan(const AxisProblem *p, bool decide, AxisAnswer *answer, bool *reversed)
{
	Line line;
	Rotation found, wide;
	if (!varies(p->data))
		return fail_without_pairs(p);
	choose_line(p, &line);
	TRY(try_line(p, &line, decide, answer, &found));
	bool empty = found.none;
	while ((found.none || answer->confidence < UNSURE || !found.clear) && line.reach > 0 &&
		2 * line.reach < p->data->shape[1] - 1) {
		AxisAnswer wider;
		line.reach *= 2;
		TRY(try_line(p, &line, decide, &wider, &wide));
		bool other = !found.clear && wide.clear && wide.reversed != found.reversed;
		bool surer = wide.reversed == found.reversed && answer->confidence < UNSURE &&
			     wider.confidence > answer->confidence;
		if (found.none || other || surer)
			*answer = wider;
		if (found.none || (wide.clear && !found.clear))
			found = wide;
	}
	if (found.none)
		return fail_without_pairs(p);
	if (empty) /* rows far from the midplane may show the wrong direction */
		answer->confidence *= UNSURE;
	*reversed = found.reversed;
	axis_settle(p, answer);
	return TOMOS_OK;
}
