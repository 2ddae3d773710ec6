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

typedef struct {
	const Lines *lines;
	unsigned free;
	bool keep;                      /* also a slant that is not determined */
	bool apart;                     /* only views LEAST_APART to MOST_APART from each other */
	Detector moves[POSE_COUNT + 1]; /* derivatives by the values of the pose; the last is 0 */
	PlaneSums *sums;                /* [view]: added in this order */
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

/* The derivative by the direction of the plane, and how it changes with the pose. Of the lengths of
 * rays only the part counts that is common to all, the distance of the detector. */
static LineState plane_in(const Planes *p, const Trace *t, const LinePlace *place, int64_t view,
	double *value, double change[CHANGES])
{
	LineValue s;
	LineState found = line_value(p->lines, view, place, &s);
	if (found != LINE_MEASURED)
		return found;
	double here = (double)s.value, by_angle = t->factor * (double)s.by_angle,
	       by_offset = t->factor * (double)s.by_offset;
	*value = t->sign * t->factor * here;
	for (int k = 0; k < CHANGES; k++) {
		double gain = t->gains[k] - t->factor * p->moves[k].far / p->lines->detector.far;
		change[k] =
			t->sign * (by_angle * t->turns[k] + by_offset * t->slides[k] + gain * here);
	}
	return LINE_MEASURED;
}

/* Derivatives likewise, from the views before and after: their noise is not that of the value. */
static LineState plane_beside(const Planes *p, const Trace *t, const LinePlace *place, int64_t view,
	double change[CHANGES])
{
	int64_t last = p->lines->coarse->orbit.views - 1;
	int64_t beside[2] = {view > 0 ? view - 1 : 1, view < last ? view + 1 : last - 1};
	memset(change, 0, CHANGES * sizeof *change);
	for (int i = 0; i < 2; i++) {
		double value, one[CHANGES];
		LineState found = plane_in(p, t, place, beside[i], &value, one);
		if (found != LINE_MEASURED)
			return found;
		for (int k = 0; k < CHANGES; k++)
			change[k] += 0.5 * one[k];
	}
	return LINE_MEASURED;
}

/* Two views, and the direction perpendicular to the baseline of their sources, in the midplane of
 * their upright frames: its parts along the columns and along the central ray. */
typedef struct {
	int64_t views[2];
	double across[2][2];
} ViewPair;

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

/* What the derivatives of the difference of two views in a plane are from. */
typedef struct {
	Trace trace[2];
	LinePlace place[2];
	double change[2][CHANGES];
} PlaneSides;

/* False: it is beyond a detector, as are those further away. */
static bool take_values(
	const Planes *p, const ViewPair *pair, double tilt, PlaneSides *sides, Sample *s)
{
	const Lines *l = p->lines;
	const double parts[2] = {cos(tilt), sin(tilt)};
	double normal[2][3], value;
	s->value[1] = NAN;
	for (int k = 0; k < 2; k++) {
		Trace *trace = &sides->trace[k];
		normal_at(pair->across[k], parts, normal);
		trace_of(p, normal[0], normal[1], trace);
		LineState found = line_place(l, trace->angle, trace->offset, &sides->place[k]);
		if (found == LINE_MEASURED)
			found = plane_in(p, trace, &sides->place[k], pair->views[k], &value,
				sides->change[k]);
		if (found != LINE_MEASURED)
			return found == LINE_CUT;
		s->value[k] = (float)value;
	}
	return true;
}

/* Likewise. */
static bool take_plane(const Planes *p, const ViewPair *pair, double tilt, Sample *s)
{
	PlaneSides at;
	double beside[2][CHANGES];
	if (!take_values(p, pair, tilt, &at, s))
		return false;
	if (isnan(s->value[1]))
		return true;
	if (s->value[0] == 0 && s->value[1] == 0) { /* air */
		memset(s, 0, sizeof *s);
		return true;
	}
	for (int k = 0; k < 2; k++) {
		LineState found =
			plane_beside(p, &at.trace[k], &at.place[k], pair->views[k], beside[k]);
		if (found != LINE_MEASURED) {
			s->value[1] = NAN;
			return found == LINE_CUT;
		}
	}
	for (int a = 0; a < POSE_COUNT; a++) {
		double c = tilt_for(p, at.trace, a);
		s->by[0][a] = (float)(at.change[0][a] - at.change[1][a] +
				      c * (at.change[0][BY_TILT] - at.change[1][BY_TILT]));
		s->by[1][a] = (float)(beside[0][a] - beside[1][a] +
				      c * (beside[0][BY_TILT] - beside[1][BY_TILT]));
	}
	return true;
}

/* Planes that may be in the scratch of a thread: lines of a detector, and twice as many. */
static int64_t most_planes(const Orbit *o)
{
	return 4 * (o->columns + o->rows);
}

/* Planes through the sources of two views, by steps that move lines by about a pixel, or
 * APART_STEP: to planes[first] and up to planes[end], in their order. */
static void take_pair(const Planes *p, const int64_t views[2], Sample *planes, int64_t range[2])
{
	const Orbit *o = &p->lines->coarse->orbit;
	double first = p->lines->sense * o->angles[views[0]];
	double second = p->lines->sense * o->angles[views[1]];
	double apart = fabs(remainder(second - first, 2 * M_PI));
	double across = 0.5 * (first + second) + 0.5 * M_PI; /* perpendicular to the baseline */
	const ViewPair pair = {
		{views[0], views[1]}, {{cos(across - first), -sin(across - first)},
					      {cos(across - second), -sin(across - second)}}};
	double half = 0.5 * (double)max64(o->columns, o->rows), pixels = p->apart ? APART_STEP : 1;
	double step = pixels / (p->lines->detector.far * fabs(cos(0.5 * apart)) +
				       half * fabs(sin(0.5 * apart)));
	int64_t middle = most_planes(o) / 2;
	range[0] = range[1] = middle;
	for (int64_t i = middle; i < 2 * middle; i++, range[1]++) {
		double tilt = step * ((double)(i - middle) + 0.5);
		if (!(tilt < 0.5 * M_PI) || !take_plane(p, &pair, tilt, &planes[i]))
			break;
	}
	for (int64_t i = middle - 1; i >= 0; i--, range[0]--) {
		double tilt = step * ((double)(i - middle) + 0.5);
		if (!(tilt > -0.5 * M_PI) || !take_plane(p, &pair, tilt, &planes[i]))
			break;
	}
}

static double apart_of(const Planes *p, int64_t i, int64_t j)
{
	const double *angles = p->lines->coarse->orbit.angles;
	return fabs(remainder(angles[j] - angles[i], 2 * M_PI));
}

/* The range, of CLASSES, that the angle between two views is in. */
static int class_of(const Planes *p, double apart)
{
	double low = p->apart ? LEAST_APART : 0, high = p->apart ? MOST_APART : M_PI;
	int at = (int)(CLASSES * (apart - low) / (high - low));
	return at < 0 ? 0 : at >= CLASSES ? CLASSES - 1 : at;
}

static void add_pair(const Planes *p, int64_t i, int64_t j, Sample *planes, PlaneSums *sums)
{
	static const float alone[] = {1};
	int64_t views = p->lines->coarse->orbit.views, range[2], count = 0;
	int aside = p->apart ? BESIDE : 0;
	const int block[] = {(int)(i * NORMAL_BLOCKS / views), (int)(j * NORMAL_BLOCKS / views)};
	Sample *average = planes + most_planes(&p->lines->coarse->orbit);
	take_pair(p, (const int64_t[]){i, j}, planes, range);
	for (int64_t k = range[0] + aside; k < range[1] - aside; k++)
		plane_average(
			&planes[k], aside, aside > 0 ? beside_weights : alone, &average[count++]);
	plane_sums_add(sums, p->free, p->apart, class_of(p, apart_of(p, i, j)), block, average,
		planes, count);
}

static bool is_compared(const Planes *p, int64_t i, int64_t j)
{
	double apart = apart_of(p, i, j);
	return !p->apart || (apart > LEAST_APART && apart < MOST_APART);
}

static void take_planes(const void *user, int64_t view, float *scratch)
{
	const Planes *p = user;
	int64_t views = p->lines->coarse->orbit.views;
	int64_t stride = p->apart ? 1 : max64(views / COMPARED, 1);
	memset(&p->sums[view], 0, sizeof p->sums[view]);
	for (int64_t j = view + stride; j < views; j += stride)
		if (is_compared(p, view, j))
			add_pair(p, view, j, (Sample *)scratch, &p->sums[view]);
}

static tomos_status take_step(Planes *p, const double pose[POSE_COUNT], PoseStep *result)
{
	const Orbit *o = &p->lines->coarse->orbit;
	Normal blocks[NORMAL_BLOCKS];
	for (int k = 0; k < POSE_COUNT; k++)
		detector_moves(o, pose, k, &p->moves[k]);
	int64_t floats = 2 * most_planes(o) * (int64_t)(sizeof(Sample) / sizeof(float));
	TRY(pieces_each(o->views, floats, take_planes, p));
	plane_sums_join(p->sums, o->views, p->apart, blocks);
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
	TRY_OR_DONE(mem_alloc(&p.sums, o->views, sizeof *p.sums, "sums over planes"));
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
