/* The row of the midplane of an offset detector, which sees no plane as a whole.
 *
 * Opposite rays beside the midplane cross at the axis only, and lie above one another by an amount
 * that grows with their distance from it: they differ by that times what the projections change by
 * from row to row. The mean square of the differences, divided by that of the derivatives along the
 * rows, is therefore about a parabola of the row, least in the midplane. The differences alone are
 * least where the object changes least along its axis.
 */
#include <math.h>
#include "base/solve.h"
#include "prep/pose_search.h"

/* Places on either side of the row given, by steps of a third of the rows that are averaged on one
 * side; values of 2 BESIDE + 1 places are taken together. */
enum { PLACES = 12, BESIDE = 2, ALL = 2 * (PLACES + BESIDE) + 1, TERMS = 3, LEAST = 5 };
#define ALIKE 0.3    /* residual of rays that have something in common */
#define RANGE 8      /* places on either side of the least that the parabola is fitted to */
#define DISTINCT 0.5 /* its rise at the end of this range, relative to what noise makes of it */

typedef struct {
	double difference, noise, rise; /* mean squares; rise: 0 where rays are not alike */
} Place;

/* Mean square of the derivatives along the rows, in columns that are measured from both sides. */
static double rise_of(const Opposite *s, double axis)
{
	double at = (axis + 0.5) / (double)s->bin - 0.5, last = (double)(s->columns - 1), sum = 0;
	double half = fmin(at, last - at);
	int64_t first = (int64_t)fmax(ceil(at - half), 0),
		end = (int64_t)fmin(floor(at + half), last) + 1;
	for (int64_t i = first * s->views; i < end * s->views; i++)
		sum += (double)s->rises[i] * (double)s->rises[i];
	return end > first ? sum / (double)((end - first) * s->views) : 0;
}

static tomos_status look(const Search *s, const Line *line, Place *place)
{
	const Orbit *o = s->problem->orbit;
	AxisProblem rows = {.data = s->problem->band, .angles = o->angles, .orbit = o};
	PairFit fit = {.value = {s->pose[POSE_AXIS], o->mirror * s->pose[POSE_SWIVEL],
			       s->pose[POSE_SCALE]}};
	Opposite pairs;
	TRY(opposite_make(&pairs, &rows, line, POSE_COLUMNS));
	tomos_status status = opposite_fit(&pairs, o->detector / o->width,
		s->reversed ? -o->mirror : o->mirror, 1u << PAIR_AXIS, &fit);
	bool alike = status == TOMOS_OK && fit.solved && fit.residual < ALIKE;
	*place = (Place){.difference = 2 * fit.residual * fit.residual * fit.share * pairs.energy,
		.noise = 2 * pairs.noise,
		.rise = alike ? rise_of(&pairs, fit.value[PAIR_AXIS]) : 0};
	opposite_free(&pairs);
	return status;
}

/* The quotient at place i; NAN: rays beside it are not alike. noise: its part of that. */
static double quotient(const Place *places, int i, double *noise)
{
	double difference = 0, rise = 0;
	*noise = 0;
	for (int k = i - BESIDE; k <= i + BESIDE; k++) {
		if (!(places[k].rise > 0))
			return NAN;
		difference += fmax(places[k].difference - places[k].noise, 0);
		*noise += places[k].noise;
		rise += places[k].rise;
	}
	*noise /= rise;
	return difference / rise;
}

/* The least of the parabola, in places from the middle; NAN: there is none that is distinct. */
static double least_of(const Place places[ALL])
{
	double value[ALL], noise[ALL], m[TERMS][TERMS + 1] = {{0}}, level = 0;
	int best = -1, used = 0;
	for (int i = BESIDE; i < ALL - BESIDE; i++) {
		value[i] = quotient(places, i, &noise[i]);
		if (!isnan(value[i]) && (best < 0 || value[i] < value[best]))
			best = i;
	}
	for (int i = BESIDE; i < ALL - BESIDE && best >= 0; i++) {
		double x = i - best, terms[TERMS] = {x * x, x, 1}, size = value[i] + noise[i];
		if (isnan(value[i]) || fabs(x) > RANGE)
			continue;
		for (int a = 0; a < TERMS; a++) {
			for (int b = 0; b < TERMS; b++)
				m[a][b] += terms[a] * terms[b] / (size * size);
			m[a][TERMS] += terms[a] * value[i] / (size * size);
		}
		level += noise[i];
		used++;
	}
	if (used < LEAST || !solve_equations(m[0], TERMS, TERMS + 1))
		return NAN;
	double bend = m[0][TERMS], at = best - 0.5 * m[1][TERMS] / bend - (PLACES + BESIDE);
	bool distinct = bend * RANGE * RANGE > DISTINCT * level / used;
	return distinct && fabs(at) <= PLACES ? at : NAN;
}

tomos_status likely_row(Search *s)
{
	const PoseProblem *p = s->problem;
	Place places[ALL];
	Line line;
	axis_midplane(p->orbit, s->pose, &line);
	double step = fmax((double)line.reach / 3, 1), row = line.row - (double)p->row;
	double last = (double)(p->band->shape[1] - 1);
	for (int i = 0; i < ALL; i++) {
		line.row = row + step * (i - PLACES - BESIDE);
		places[i] = (Place){.rise = 0};
		double end = line.row + line.slope * (double)(p->orbit->columns - 1);
		if (fmin(line.row, end) >= 0 && fmax(line.row, end) <= last)
			TRY(look(s, &line, &places[i]));
	}
	s->likely = s->pose[POSE_ROW] + step * least_of(places);
	return TOMOS_OK;
}
