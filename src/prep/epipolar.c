/* A Gauss-Newton step on the pose of a detector, from planes that two views have in common.
 *
 * A plane through two sources meets each detector in a line. The derivative across such a line of
 * the integral along it, of projections divided by the length of their rays, is up to a factor that
 * of the object's integral over the plane (Grangeat), and therefore the same in both views: in full
 * and short scans alike, for any two views. A line counts if the object ends before both of its
 * ends, so that objects that are longer than the field of view leave some.
 *
 * A change of the pose moves most lines alike in both views, and the plane may be tilted with them;
 * only what is left of the move counts. Derivatives that multiply the differences come from the
 * views beside: noise of the same view would be taken for what the pose does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/vector3.h"
#include "prep/plane_lines.h"
#include "prep/plane_sums.h"

enum { LEAST_VIEWS = 8, COMPARED = 16 }; /* views that a view is compared with, at most */
enum { PARTS = 64 };                     /* of the pairs of views, each with sums of its own */
/* Views this far apart, in radians, show the slant: planes of nearer ones hardly depend on it, and
 * those of opposite ones, all through the middle of the detectors, give wrong rows. */
#define LEAST_APART (110 * M_PI / 180)
#define MOST_APART (168 * M_PI / 180)
enum { MANY_VIEWS = 100 }; /* of fewer, too few are: a slant was off by 11 standard errors */
#define APART_STEP 2       /* pixels from plane to plane */
/* Weights of neighbouring planes of two views, which are averaged: a Gaussian of 2 pixels. Unlike
 * blur on the detectors, which is wider for parts of the object near the source, it is the same for
 * both views. */
enum { BESIDE = 3 };
static const float beside_weights[BESIDE + 1] = {0.3991F, 0.2420F, 0.0540F, 0.0044F};
/* A pair counts in the blocks of both views, and the noise of a view is in all of its pairs: the
 * scatter between blocks has half of it. */
enum { SHARE = 4 };
#define LOOSE_SLANT 0.009 /* radians: standard error of a slant that is not determined */

static void detector_at(const Orbit *o, const double pose[POSE_COUNT], Detector *d)
{
	double counted[POSE_COUNT], far = o->detector / o->width * pose[POSE_SCALE];
	pose_counted(o, pose, counted);
	pose_axes(counted, d->axes);
	d->far = far * d->axes[2][2];
	d->foot[0] = pose[POSE_AXIS] - far * d->axes[0][2];
	d->foot[1] = pose[POSE_ROW] - far * d->axes[1][2] * o->width / o->height;
}

/* Derivative of the detector by a value of the pose. */
static void detector_moves(const Orbit *o, const double pose[POSE_COUNT], int value, Detector *d)
{
	double by = 1e-4, moved[POSE_COUNT];
	Detector more, less;
	memcpy(moved, pose, sizeof moved);
	moved[value] = pose[value] + by;
	detector_at(o, moved, &more);
	moved[value] = pose[value] - by;
	detector_at(o, moved, &less);
	for (int a = 0; a < 3; a++)
		for (int b = 0; b < 3; b++)
			d->axes[a][b] = (more.axes[a][b] - less.axes[a][b]) / (2 * by);
	for (int a = 0; a < 2; a++)
		d->foot[a] = (more.foot[a] - less.foot[a]) / (2 * by);
	d->far = (more.far - less.far) / (2 * by);
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* Two views that are compared. Those with the same key, the angle from the first view to the second
 * in units of 1e-9 radians, have the same planes. */
typedef struct {
	int64_t key, views[2];
} ViewPair;

typedef struct {
	const Lines *lines;
	unsigned free;
	bool keep;                      /* also a slant that is not determined */
	bool apart;                     /* only views LEAST_APART to MOST_APART from each other */
	Detector moves[POSE_COUNT + 1]; /* derivatives by the values of the pose; the last is 0 */
	ViewPair *pairs;                /* sorted by key, then by the first view */
	int64_t count;                  /* of pairs */
	PlaneSums *sums;                /* [part]: added in this order */
} Planes;

static void mul3(const double m[3][3], const double v[3], double out[3])
{
	for (int a = 0; a < 3; a++)
		out[a] = dot3(m[a], v);
}

/* Changes of a plane's line: by each value of the pose, and by the tilt of the plane. */
enum { BY_TILT = POSE_COUNT, CHANGES };

/* A plane as a line of the detector, and how that changes. */
typedef struct {
	double sign, factor, angle, offset;
	double turns[CHANGES], slides[CHANGES], gains[CHANGES];
} Trace;

/* normal: of the plane, in the upright frame of the view. */
static void trace_of(const Planes *p, const double normal[3], const double tilted[3], Trace *t)
{
	const Lines *l = p->lines;
	const Orbit *o = &l->coarse->orbit;
	const Detector *d = &l->detector;
	double n[3], dn[3];
	mul3(d->axes, normal, n);
	t->sign = n[1] < 0 ? -1 : 1; /* angles from 0 to pi */
	double size = t->sign * sqrt(n[0] * n[0] + n[1] * n[1]),
	       offset = -d->far * n[2] / size; /* from the foot */
	double x = d->foot[0] - 0.5 * (double)(o->columns - 1);
	double y = (d->foot[1] - 0.5 * (double)(o->rows - 1)) * l->high;
	double shift = (x * n[0] + y * n[1]) / size, square = d->far * d->far;
	t->angle = atan2(t->sign * n[1], t->sign * n[0]);
	t->offset = offset + shift;
	t->factor = square + offset * offset;
	for (int k = 0; k < CHANGES; k++) {
		const Detector *m = &p->moves[k];
		if (k == BY_TILT)
			mul3(d->axes, tilted, dn);
		else
			mul3(m->axes, normal, dn);
		double grows = (n[0] * dn[0] + n[1] * dn[1]) / (size * size);
		double by = -(m->far * n[2] + d->far * dn[2]) / size - offset * grows;
		t->turns[k] = (n[0] * dn[1] - n[1] * dn[0]) / (size * size);
		t->slides[k] =
			by +
			(m->foot[0] * n[0] + m->foot[1] * l->high * n[1] + x * dn[0] + y * dn[1]) /
				size -
			shift * grows;
		t->gains[k] = 2 * (d->far * m->far + offset * by);
	}
}

/* The normal cos(tilt) z + sin(tilt) p, p the direction `across`, in the upright frame of a view;
 * and its derivative by the tilt. tilt: its cosine and sine. */
static void normal_at(const double across[2], const double tilt[2], double out[2][3])
{
	const double made[2][3] = {{tilt[1] * across[0], tilt[0], tilt[1] * across[1]},
		{tilt[0] * across[0], -tilt[1], tilt[0] * across[1]}};
	memcpy(out, made, sizeof made);
}

/* By how much to tilt the plane for a change of the pose, so that its lines move least: what both
 * views then see alike has no part in the difference. */
static double tilt_for(const Planes *p, const Trace t[2], int change)
{
	double reach = 0.25 * (double)p->lines->coarse->orbit.columns, both = 0, own = 0;
	for (int k = 0; k < 2; k++) {
		double turns = reach * t[k].turns[BY_TILT], slides = t[k].slides[BY_TILT];
		both += turns * reach * t[k].turns[change] + slides * t[k].slides[change];
		own += turns * turns + slides * slides;
	}
	return own > 0 ? -both / own : 0;
}

/* A plane in one of two views: where its line is, the factor of the line's value, and how the
 * difference of the two views changes with each value of the pose, for the line's value and its
 * derivatives. Values of planes are derivatives by their direction. Of the lengths of rays only the
 * part counts that is common to all, the distance of the detector. */
typedef struct {
	LinePlace place;
	float factor, by_value[POSE_COUNT], by_angle[POSE_COUNT], by_offset[POSE_COUNT];
} PlaneSide;

/* The same for all pairs of views with the same angle between them. */
typedef struct {
	PlaneSide sides[2];
} Plane;

static double gain_of(const Planes *p, const Trace *t, int change)
{
	return t->gains[change] - t->factor * p->moves[change].far / p->lines->detector.far;
}

/* sign: of the view in the difference. */
static void side_changes(const Planes *p, const Trace *t, const double tilts[POSE_COUNT],
	double sign, PlaneSide *out)
{
	double by = sign * t->factor;
	for (int a = 0; a < POSE_COUNT; a++) {
		double c = tilts[a];
		out->by_value[a] = (float)(sign * (gain_of(p, t, a) + c * gain_of(p, t, BY_TILT)));
		out->by_angle[a] = (float)(by * (t->turns[a] + c * t->turns[BY_TILT]));
		out->by_offset[a] = (float)(by * (t->slides[a] + c * t->slides[BY_TILT]));
	}
}

/* across: in each view, the direction perpendicular to the baseline of the sources, in the midplane
 * of its upright frame: its parts along the columns and along the central ray. False: the plane is
 * beyond a detector, as are those further away. */
static bool plane_make(const Planes *p, double across[2][2], double tilt, Plane *out)
{
	const double parts[2] = {cos(tilt), sin(tilt)};
	double tilts[POSE_COUNT];
	Trace trace[2];
	for (int k = 0; k < 2; k++) {
		Trace *t = &trace[k];
		double normal[2][3];
		normal_at(across[k], parts, normal);
		trace_of(p, normal[0], normal[1], t);
		if (!line_place(p->lines, t->angle, t->offset, &out->sides[k].place))
			return false;
		out->sides[k].factor = (float)(t->sign * t->factor);
	}
	for (int a = 0; a < POSE_COUNT; a++)
		tilts[a] = tilt_for(p, trace, a);
	for (int k = 0; k < 2; k++)
		side_changes(p, &trace[k], tilts, k == 0 ? trace[k].sign : -trace[k].sign,
			&out->sides[k]);
	return true;
}

static void add_changes(const PlaneSide *side, const LineValue *line, float change[POSE_COUNT])
{
	for (int a = 0; a < POSE_COUNT; a++)
		change[a] += side->by_value[a] * line->value + side->by_angle[a] * line->by_angle +
			     side->by_offset[a] * line->by_offset;
}

/* A plane in the views of a pair, with changes of their own. */
static bool take_own(const Planes *p, const Plane *plane, const int64_t views[2], Sample *s)
{
	memset(s, 0, sizeof *s);
	for (int k = 0; k < 2; k++) {
		const PlaneSide *side = &plane->sides[k];
		const LineValue line = line_value(p->lines, views[k], views[k], &side->place);
		s->value[k] = side->factor * line.value;
		add_changes(side, &line, s->by[0]);
	}
	return !isnan(s->value[0]) && !isnan(s->value[1]);
}

/* Adds changes from the views before and after each, whose noise is not that of the values. */
static bool take_beside(const Planes *p, const Plane *plane, const int64_t views[2], Sample *s)
{
	const int64_t last = p->lines->coarse->orbit.views - 1;
	bool measured = true;
	for (int k = 0; k < 2; k++) {
		int64_t before = views[k] > 0 ? views[k] - 1 : 1,
			after = views[k] < last ? views[k] + 1 : last - 1;
		const LineValue line = line_value(p->lines, before, after, &plane->sides[k].place);
		measured = measured && !isnan(line.value);
		add_changes(&plane->sides[k], &line, s->by[1]);
	}
	return measured;
}

static void take_plane(const Planes *p, const Plane *plane, const int64_t views[2], Sample *s)
{
	bool measured = take_own(p, plane, views, s);
	if (measured && s->value[0] == 0 && s->value[1] == 0)
		memset(s, 0, sizeof *s); /* air */
	else if (!measured || !take_beside(p, plane, views, s))
		s->value[1] = NAN;
}

/* Planes that may be in the scratch of a thread: lines of a detector, and twice as many. */
static int64_t most_planes(const Orbit *o)
{
	return 4 * (o->columns + o->rows);
}

/* Planes through the sources of views that are this far apart, by steps that move lines by about a
 * pixel, or APART_STEP: to planes[first] and up to planes[end], in their order. */
static void make_planes(const Planes *p, double turn, Plane *planes, int64_t range[2])
{
	const Orbit *o = &p->lines->coarse->orbit;
	double on = 0.5 * (M_PI + turn), back = 0.5 * (M_PI - turn);
	double across[2][2] = {{cos(on), -sin(on)}, {cos(back), -sin(back)}};
	double apart = fabs(remainder(turn, 2 * M_PI));
	double half = 0.5 * (double)max64(o->columns, o->rows), pixels = p->apart ? APART_STEP : 1;
	double step = pixels / (p->lines->detector.far * fabs(cos(0.5 * apart)) +
				       half * fabs(sin(0.5 * apart)));
	int64_t middle = most_planes(o) / 2;
	range[0] = range[1] = middle;
	for (int64_t i = middle; i < 2 * middle; i++, range[1]++) {
		double tilt = step * ((double)(i - middle) + 0.5);
		if (!(tilt < 0.5 * M_PI) || !plane_make(p, across, tilt, &planes[i]))
			break;
	}
	for (int64_t i = middle - 1; i >= 0; i--, range[0]--) {
		double tilt = step * ((double)(i - middle) + 0.5);
		if (!(tilt > -0.5 * M_PI) || !plane_make(p, across, tilt, &planes[i]))
			break;
	}
}

/* ---- pairs of views -------------------------------------------------------------------------- */

static double turn_of(const Planes *p, int64_t i, int64_t j)
{
	const double *angles = p->lines->coarse->orbit.angles;
	return p->lines->sense * (angles[j] - angles[i]);
}

static bool is_compared(const Planes *p, int64_t i, int64_t j)
{
	double apart = fabs(remainder(turn_of(p, i, j), 2 * M_PI));
	return !p->apart || (apart > LEAST_APART && apart < MOST_APART);
}

static int by_key(const void *a, const void *b)
{
	const ViewPair *x = a, *y = b;
	int order = (x->key > y->key) - (x->key < y->key);
	return order ? order : (x->views[0] > y->views[0]) - (x->views[0] < y->views[0]);
}

/* Lists the pairs, or counts them where there is no list. */
static void list_pairs(Planes *p)
{
	int64_t views = p->lines->coarse->orbit.views;
	int64_t stride = p->apart ? 1 : max64(views / COMPARED, 1);
	p->count = 0;
	for (int64_t i = 0; i < views; i++)
		for (int64_t j = i + stride; j < views; j += stride)
			if (is_compared(p, i, j)) {
				int64_t key = llround(1e9 * turn_of(p, i, j));
				if (p->pairs)
					p->pairs[p->count] = (ViewPair){key, {i, j}};
				p->count++;
			}
	if (p->pairs)
		qsort(p->pairs, (size_t)p->count, sizeof *p->pairs, by_key);
}

/* The range, of CLASSES, that the angle between two views is in. */
static int class_of(const Planes *p, double turn)
{
	double low = p->apart ? LEAST_APART : 0, high = p->apart ? MOST_APART : M_PI;
	int at = (int)(CLASSES * (fabs(remainder(turn, 2 * M_PI)) - low) / (high - low));
	return at < 0 ? 0 : at >= CLASSES ? CLASSES - 1 : at;
}

/* samples: scratch for those of most_planes() and of their averages. */
static void add_pair(const Planes *p, const ViewPair *pair, const Plane *planes,
	const int64_t range[2], Sample *samples, PlaneSums *sums)
{
	static const float alone[] = {1};
	const Orbit *o = &p->lines->coarse->orbit;
	int64_t i = pair->views[0], j = pair->views[1], count = 0;
	int aside = p->apart ? BESIDE : 0, class = class_of(p, turn_of(p, i, j));
	const int block[] = {
		(int)(i * NORMAL_BLOCKS / o->views), (int)(j * NORMAL_BLOCKS / o->views)};
	Sample *average = samples + most_planes(o);
	for (int64_t k = range[0]; k < range[1]; k++)
		take_plane(p, &planes[k], pair->views, &samples[k]);
	for (int64_t k = range[0] + aside; k < range[1] - aside; k++)
		plane_average(
			&samples[k], aside, aside > 0 ? beside_weights : alone, &average[count++]);
	plane_sums_add(sums, p->free, p->apart, class, block, average, samples, count);
}

static int64_t scratch_floats(const Orbit *o)
{
	return most_planes(o) * (int64_t)((sizeof(Plane) + 2 * sizeof(Sample)) / sizeof(float));
}

static void take_planes(const void *user, int64_t part, float *scratch)
{
	const Planes *p = user;
	Plane *planes = (Plane *)scratch;
	Sample *samples = (Sample *)(planes + most_planes(&p->lines->coarse->orbit));
	int64_t first = p->count * part / PARTS, end = p->count * (part + 1) / PARTS;
	int64_t range[2] = {0, 0};
	memset(&p->sums[part], 0, sizeof p->sums[part]);
	for (int64_t i = first; i < end; i++) {
		const ViewPair *pair = &p->pairs[i];
		if (i == first || pair->key != pair[-1].key)
			make_planes(p, turn_of(p, pair->views[0], pair->views[1]), planes, range);
		add_pair(p, pair, planes, range, samples, &p->sums[part]);
	}
}

static tomos_status take_step(Planes *p, const double pose[POSE_COUNT], PoseStep *result)
{
	const Orbit *o = &p->lines->coarse->orbit;
	Normal blocks[NORMAL_BLOCKS];
	for (int k = 0; k < POSE_COUNT; k++)
		detector_moves(o, pose, k, &p->moves[k]);
	list_pairs(p);
	TRY(mem_alloc(&p->pairs, max64(p->count, 1), sizeof *p->pairs, "pairs of views"));
	list_pairs(p);
	tomos_status status = pieces_each(PARTS, scratch_floats(o), take_planes, p);
	mem_free(p->pairs);
	p->pairs = NULL;
	TRY(status);
	plane_sums_join(p->sums, PARTS, p->apart, blocks);
	unsigned free = p->free, slant = free & 1u << POSE_SLANT;
	result->solved = normal_solve(blocks, free, result->step, result->covariance);
	double variance = SHARE * result->covariance[POSE_SLANT][POSE_SLANT];
	bool loose = !(result->solved && variance < LOOSE_SLANT * LOOSE_SLANT);
	if (slant && loose && !p->keep)
		result->solved =
			normal_solve(blocks, free & ~slant, result->step, result->covariance);
	for (int i = 0; i < NORMAL_MOST; i++)
		for (int j = 0; j < NORMAL_MOST; j++)
			result->covariance[i][j] *= SHARE;
	result->residual = normal_residual(blocks);
	return TOMOS_OK;
}

tomos_status epipolar_step(const Coarse *c, const double pose[POSE_COUNT], bool reversed,
	unsigned free, PoseStep *result)
{
	const Orbit *o = &c->orbit;
	Lines l = {.sense = reversed ? -o->mirror : o->mirror};
	bool half = o->views >= MANY_VIEWS && o->angles[o->views - 1] - o->angles[0] > M_PI - 1e-6;
	Planes p = {.lines = &l,
		.free = free & POSE_ALL,
		.keep = free & POSE_KEEP,
		.apart = half && free >> POSE_SLANT & 1};
	tomos_status status;
	*result = (PoseStep){.solved = false};
	if (o->views < LEAST_VIEWS)
		return TOMOS_OK;
	detector_at(o, pose, &l.detector);
	TRY_OR_DONE(lines_take(&l, c));
	TRY_OR_DONE(mem_alloc(&p.sums, PARTS, sizeof *p.sums, "sums over planes"));
	TRY_OR_DONE(take_step(&p, pose, result));
	if (p.apart && !(result->covariance[POSE_SLANT][POSE_SLANT] > 0)) {
		p.apart = false; /* of wide objects, nearer views may have more planes that count */
		TRY_OR_DONE(take_step(&p, pose, result));
	}
done:
	lines_free(&l);
	mem_free(p.sums);
	return status;
}
