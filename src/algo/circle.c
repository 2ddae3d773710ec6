/* Circular scans: integration weights of views, and weights of redundant rays.
 *
 * Short scans: D. L. Parker 1982, with the overscan spread over the whole sweep (M. D. Silver
 * 2000). Offset detectors: after P. S. Cho et al. 1995 and G. Wang 2002, weights w(s) + w(-s) = 1.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "algo/analytic.h"

static tomos_status reject(int64_t view, const char *why)
{
	return fail(TOMOS_UNSUPPORTED,
		"view %lld %s: filtered back projection and fdk need a circle about the z axis; "
		"use an "
		"algebraic method, for instance sirt",
		(long long)view, why);
}

static tomos_status look(CircleView *c, const tomos_geometry *scan, int64_t i)
{
	const tomos_view *view = &scan->views[i];
	bool point = view_has_source(view), fans = view_fans(view);
	double x = point ? -view->src[0] : view->src[0], y = point ? -view->src[1] : view->src[1];
	double length = hypot(x, y), beam[2] = {x / length, y / length};
	if (!point && !view_is_level(scan, view))
		return reject(i, "has rays that leave the plane");
	if (point && !fans && fabs(view->src[2] - scan->views[0].src[2]) > 1e-6 * length)
		return reject(i, "has its source at another height");
	if (view_has_source(&scan->views[0]) != point)
		return reject(i, "mixes parallel rays with a point source");
	if (view_fans(&scan->views[0]) != fans)
		return reject(i, "mixes point sources with a fan for each row");
	if (length == 0)
		return reject(i, "has its source on the axis");
	double side[2] = {-beam[1], beam[0]};
	double height = point ? view->src[2] : 0;
	c->angle = atan2(beam[0], -beam[1]);
	c->distance = point ? length : 0;
	c->detector = point ? beam[0] * (view->det[0] - view->src[0]) +
				      beam[1] * (view->det[1] - view->src[1])
			    : 0;
	if (point && c->detector <= 0)
		return reject(i, "has its detector behind the source");
	c->du = view->u[0] * side[0] + view->u[1] * side[1];
	c->dv = fans ? 0 : view->v[2];
	c->spacing = point ? c->du * c->distance / c->detector : c->du;
	c->axis = 0.5 * (double)(scan->columns - 1) -
		  (view->det[0] * side[0] + view->det[1] * side[1]) / c->du;
	c->row = fans ? 0 : 0.5 * (double)(scan->rows - 1) - (view->det[2] - height) / c->dv;
	return TOMOS_OK;
}

typedef struct {
	double angle;
	int64_t view;
} Place;

static int by_angle(const void *a, const void *b)
{
	double x = ((const Place *)a)->angle, y = ((const Place *)b)->angle;
	return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void sort_angles(Place *places, const Circle *circle, int64_t count, double period)
{
	for (int64_t i = 0; i < count; i++) {
		double angle = fmod(circle->views[i].angle, period);
		angle += angle < 0 ? period : 0;
		places[i] = (Place){angle >= period - 1e-7 ? 0 : angle, i};
	}
	qsort(places, (size_t)count, sizeof *places, by_angle);
}

/* The gap after each angle, 0 between equal ones; the median of the others, and the index of the
 * largest. */
static tomos_status measure_gaps(const Place *places, int64_t count, double period, double *gaps,
	double *median, int64_t *widest)
{
	double *sorted;
	int64_t distinct = 0;
	TRY(mem_alloc(&sorted, count, sizeof *sorted, "gaps between angles"));
	*widest = 0;
	for (int64_t i = 0; i < count; i++) {
		double next = i + 1 < count ? places[i + 1].angle : places[0].angle + period;
		gaps[i] = next - places[i].angle;
		gaps[i] = gaps[i] < 1e-7 ? 0 : gaps[i];
		if (gaps[i] > gaps[*widest])
			*widest = i;
		if (gaps[i] > 0)
			sorted[distinct++] = gaps[i];
	}
	qsort(sorted, (size_t)distinct, sizeof *sorted, by_value);
	*median = sorted[distinct / 2];
	mem_free(sorted);
	return TOMOS_OK;
}

/* Half the gap on either side, shared among equal angles. A gap that is many views wide and 15
 * degrees or more has no data: the views beside it do not extend into it. */
static void share_out(
	Circle *circle, const Place *places, const double *gaps, int64_t count, double median)
{
	double limit = fmax(8 * median, 15 * M_PI / 180);
	int64_t group = 0;
	while (group < count && gaps[(group + count - 1) % count] == 0 && count > 1)
		group++; /* start where a group of equal angles does */
	for (int64_t done = 0; done < count;) {
		int64_t first = (group + done) % count, size = 1;
		double before = gaps[(first + count - 1) % count];
		while (size < count && gaps[(first + size - 1) % count] == 0)
			size++;
		double after = gaps[(first + size - 1) % count];
		before = before > limit ? median : before;
		after = after > limit ? median : after;
		for (int64_t j = 0; j < size; j++)
			circle->views[places[(first + j) % count].view].share =
				0.5 * (before + after) / (double)size;
		done += size;
	}
}

static tomos_status measure_sides(Circle *circle, int64_t count, int64_t columns)
{
	double left = HUGE_VAL, right = HUGE_VAL;
	for (int64_t i = 0; i < count; i++) {
		const CircleView *c = &circle->views[i];
		double low = -c->axis * c->spacing,
		       high = ((double)(columns - 1) - c->axis) * c->spacing;
		left = fmin(left, -fmin(low, high));
		right = fmin(right, fmax(low, high));
	}
	circle->far_sign = right >= left ? 1 : -1;
	circle->near_side = fmin(left, right);
	circle->far_side = fmax(left, right);
	if (circle->near_side < -0.5 * fabs(circle->views[0].spacing))
		return fail(TOMOS_UNSUPPORTED,
			"the rotation axis falls %.4g columns beside the detector: the middle is "
			"in no view",
			-circle->near_side / fabs(circle->views[0].spacing));
	return TOMOS_OK;
}

static tomos_status check_short(const Circle *circle, int64_t count)
{
	double fan = 0;
	for (int64_t i = 0; i < count; i++)
		fan = fmax(fan, atan(circle->far_side / circle->views[i].distance));
	double needed = M_PI + 2 * fan, tolerance = 2 * circle->sweep / (double)count;
	if (circle->sweep + tolerance < needed)
		return fail(TOMOS_UNSUPPORTED,
			"the scan covers %.1f degrees; filtered back projection of this fan needs "
			"%.1f "
			"(180 and the fan's angle); use an algebraic method, for instance sirt",
			circle->sweep * 180 / M_PI, needed * 180 / M_PI);
	/* What lies within the shorter side is measured as a whole; less than half of the longer
	 * one is meant for a full turn. */
	if (circle->near_side < 0.5 * circle->far_side)
		return fail(TOMOS_UNSUPPORTED,
			"the detector is offset and the scan covers %.1f degrees; filtered back "
			"projection with an offset detector needs a full turn; use an "
			"algebraic method, for instance sirt",
			circle->sweep * 180 / M_PI);
	return TOMOS_OK;
}

/* Determines the part of the circle that is covered, and the share of each view. */
static tomos_status find_cover(Circle *circle, int64_t count, Place *places, double *gaps)
{
	bool parallel = circle->views[0].distance == 0;
	double median;
	int64_t widest;
	sort_angles(places, circle, count, 2 * M_PI);
	TRY(measure_gaps(places, count, 2 * M_PI, gaps, &median, &widest));
	double gap = gaps[widest];
	circle->sweep = 2 * M_PI - gap;
	circle->start = places[(widest + 1) % count].angle;
	if (gap <= fmax(4 * median, 5 * M_PI / 180) && gap < M_PI && count > 2) {
		circle->cover = COVER_FULL_TURN;
	} else if (parallel) {
		circle->cover = COVER_HALF_TURN;
		sort_angles(places, circle, count, M_PI);
		TRY(measure_gaps(places, count, M_PI, gaps, &median, &widest));
	} else {
		circle->cover = COVER_SHORT;
		TRY(check_short(circle, count));
	}
	share_out(circle, places, gaps, count, median);
	return TOMOS_OK;
}

tomos_status circle_make(Circle *circle, const tomos_geometry *scan)
{
	tomos_status status;
	Place *places = NULL;
	double *gaps = NULL;
	memset(circle, 0, sizeof *circle);
	TRY_OR_DONE(mem_zeroed(&circle->views, scan->count, sizeof *circle->views, "the views"));
	TRY_OR_DONE(mem_alloc(&places, scan->count, sizeof *places, "angles"));
	TRY_OR_DONE(mem_alloc(&gaps, scan->count, sizeof *gaps, "gaps between angles"));
	for (int64_t i = 0; i < scan->count; i++) {
		TRY_OR_DONE(look(&circle->views[i], scan, i));
		if (circle->views[i].du * circle->views[0].du < 0)
			TRY_OR_DONE(reject(i, "has its columns the other way round than view 0"));
	}
	TRY_OR_DONE(measure_sides(circle, scan->count, scan->columns));
	TRY_OR_DONE(find_cover(circle, scan->count, places, gaps));
done:
	mem_free(places);
	mem_free(gaps);
	if (status != TOMOS_OK)
		circle_free(circle);
	return status;
}

void circle_free(Circle *circle)
{
	mem_free(circle->views);
	circle->views = NULL;
}

tomos_status tomos_geometry_cover(const tomos_geometry *scan, double *covered, double *needed)
{
	tomos_geometry *aligned = NULL;
	double *maps = NULL;
	Circle circle = {0};
	tomos_status status;
	*covered = *needed = 0;
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "the scan is missing");
	TRY_OR_DONE(align_views(&aligned, &maps, scan));
	TRY_OR_DONE(circle_make(&circle, aligned));
	for (int64_t i = 0; i < scan->count; i++)
		*covered += circle.views[i].share;
	*needed = circle.cover == COVER_HALF_TURN ? M_PI : *covered;
done:
	circle_free(&circle);
	mem_free(maps);
	tomos_geometry_free(aligned);
	return status;
}

/* Weight of one of two opposite rays, at s and -s: 1/2 up to half of the range that both sides
 * cover, 1 where only one side is measured, with a smooth transition between. */
static double opposite_weight(const Circle *circle, double s, double spacing)
{
	if (circle->far_side - circle->near_side < 2 * fabs(spacing))
		return 0.5;
	double reach =
		fmax(circle->near_side, 1e-9 * circle->far_side); /* an axis on the edge: 0 */
	double x = circle->far_sign * s / reach, a = fabs(x);
	double step = a >= 1 ? 1 : a <= 0.5 ? 0 : sin(M_PI * (a - 0.5)) * sin(M_PI * (a - 0.5));
	return x > 0 ? 0.5 + 0.5 * step : 0.5 - 0.5 * step;
}

/* beta from the scan's first angle; the ray opposite to (beta, gamma) is (beta + pi + 2 gamma,
 * -gamma), and the two weights add up to 1. */
static double parker_weight(double beta, double gamma, double sweep)
{
	double spare = 0.5 * (sweep - M_PI);
	gamma = fmax(fmin(gamma, spare * 0.999999), -spare * 0.999999);
	double rise = 0.25 * M_PI * beta / (spare - gamma);
	double fall = 0.25 * M_PI * (sweep - beta) / (spare + gamma);
	double angle = fmin(fmin(rise, fall), M_PI_2);
	return angle <= 0 ? 0 : sin(angle) * sin(angle);
}

double circle_weight(const Circle *circle, int64_t i, double s)
{
	const CircleView *c = &circle->views[i];
	if (circle->cover == COVER_HALF_TURN)
		return c->share;
	if (circle->cover == COVER_FULL_TURN)
		return c->share * opposite_weight(circle, s, c->spacing);
	double beta = fmod(c->angle - circle->start, 2 * M_PI);
	beta += beta < -1e-9 ? 2 * M_PI : 0;
	return c->share * parker_weight(beta, atan(s / c->distance), circle->sweep);
}
