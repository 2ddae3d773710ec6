/* Estimation of the rotation axis: choice of the methods, and combination of their results. */
#include <string.h>
#include "prep/axis.h"
#include "prep/constant.h"
#include "prep/orbit.h"

OPTION_VALUES(axis_values, TOMOS_AXIS_OPTIONS);

enum { AUTO, PAIRS, VO, SHARPNESS };

#define AGREE 2.0  /* columns: results closer than this are the same axis */
#define UNSURE 0.1 /* confidence */
#define BESIDE \
	0.05 /* of the range searched: to where opposite views overlap too little to be compared */
#define TRIALS 8.0 /* columns on either side of the other results searched by sharpness */
/* Errors in columns that parts of the data have in common, so that their scatter does not show
 * them: of interpolated views and parabolas, and of sinograms mirrored. */
#define COMMON 0.005
#define COMMON_HALF_TURN 0.01

static tomos_status check_input(const AxisProblem *p)
{
	TRY(array_check(p->data, "the line integrals", NULL, ARRAY_READ));
	TRY(array_finite(p->data, "the part to find the axis in", ""));
	const int64_t *n = p->data->shape;
	if (n[0] < 8 || n[2] < 32)
		return fail(TOMOS_BAD_VALUE,
			"%lld view%s of %lld column%s: finding the axis takes at least 8 views of "
			"32 columns",
			(long long)n[0], n[0] == 1 ? "" : "s", (long long)n[2],
			n[2] == 1 ? "" : "s");
	if (n[2] > 1 << 20)
		return fail(TOMOS_BAD_VALUE, "%lld columns are too many to find the axis in",
			(long long)n[2]);
	for (int64_t i = 0; i < n[0]; i++)
		if (!p->angles || !isfinite(p->angles[i]))
			return fail(TOMOS_BAD_VALUE, "the angle of view %lld is not known",
				(long long)i);
	return TOMOS_OK;
}

static tomos_status take_range(AxisProblem *p, bool full_turn, const tomos_axis_options *o)
{
	double last = (double)(p->data->shape[2] - 1);
	p->low = full_turn ? 0.04 * last : 0.25 * last;
	p->high = last - p->low;
	if (o->axis_range_count == 0)
		return TOMOS_OK;
	if (o->axis_range_count != 2)
		return fail(TOMOS_BAD_VALUE, "axis-range has %lld numbers; LOW,HIGH are needed",
			(long long)o->axis_range_count);
	p->low = o->axis_range[0];
	p->high = o->axis_range[1];
	if (p->low >= 0 && p->high <= last && p->high - p->low >= 2)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"axis-range %g,%g: it must lie within 0 to %g and be 2 columns wide at least",
		p->low, p->high, last);
}

static void take(tomos_axis *axis, const AxisAnswer *answer)
{
	axis->column = answer->column;
	axis->confidence = fmin(fmax(answer->confidence, 0), 1);
	axis->at_edge = answer->at_edge;
	axis->error = hypot(answer->error, COMMON);
	axis->scores = answer->scores;
	axis->score_first = answer->score_first;
	axis->score_step = answer->score_step;
	memcpy(axis->score, answer->score, sizeof axis->score);
}

/* The range around a column, clipped to that of the problem. */
static AxisProblem around(const AxisProblem *p, double column, double reach)
{
	AxisProblem near = *p;
	near.low = fmax(fmin(column - reach, p->high - 2 * reach), p->low);
	near.high = fmin(near.low + 2 * reach, p->high);
	return near;
}

/* Both use the views at the ends of the half turn, but `vo` also what is next to them, and is twice
 * as accurate: half the difference is another estimate of its error. */
static void combine_agreeing(const AxisAnswer *pairs, const AxisAnswer *wedge, tomos_axis *axis)
{
	double apart = 0.5 * fabs(pairs->column - wedge->column);
	take(axis, wedge);
	axis->error = hypot(fmax(apart, wedge->error), COMMON_HALF_TURN); /* fmax ignores NAN */
	axis->confidence = fmin(fmax(fmax(pairs->confidence, wedge->confidence), 0), 1);
}

/* Where the two disagree, the sharper slice decides. */
static tomos_status combine_half_turn(
	const AxisProblem *p, const AxisAnswer *pairs, const AxisAnswer *wedge, tomos_axis *axis)
{
	AxisAnswer sharp;
	double column;
	if (fabs(pairs->column - wedge->column) <= AGREE) {
		combine_agreeing(pairs, wedge, axis);
	} else {
		TRY(axis_sharper(p, false, pairs->column, wedge->column, &column));
		AxisProblem near = around(p, column, AGREE);
		TRY(axis_sharpness(&near, false, &sharp));
		take(axis, column == pairs->column ? pairs : wedge);
		axis->sharpness = sharp.column;
		axis->confidence *= 0.5;
		axis->column = sharp.at_edge ? column : sharp.column;
		axis->error = axis_error((double[]){pairs->column, wedge->column, sharp.column}, 3);
	}
	axis->at_edge = axis_at_end(p, axis->column);
	return TOMOS_OK;
}

static tomos_status find_auto(const AxisProblem *p, bool full_turn, tomos_axis *axis)
{
	AxisAnswer pairs = {0}, wedge = {0};
	tomos_status paired = axis_pairs(p, &pairs);
	if (paired != TOMOS_OK && paired != TOMOS_BAD_VALUE)
		return paired;
	if (paired == TOMOS_OK)
		axis->pairs = pairs.column;
	if (full_turn &&
		paired == TOMOS_OK) { /* as many pairs as views: the most reliable method */
		take(axis, &pairs);
		return TOMOS_OK;
	}
	TRY(axis_wedge(p, &wedge));
	axis->vo = wedge.column;
	if (paired == TOMOS_OK)
		return combine_half_turn(p, &pairs, &wedge, axis);
	take(axis, &wedge);
	return TOMOS_OK;
}

/* Far from the axis the measures of sharpness fail, so only the neighbourhood of the other results
 * is searched. */
static tomos_status find_sharpest(
	const AxisProblem *p, bool full_turn, bool given, tomos_axis *axis, AxisAnswer *answer)
{
	AxisProblem near = *p;
	if (!given) {
		TRY(find_auto(p, full_turn, axis));
		near = around(p, axis->column, TRIALS);
	}
	double last = (double)(p->data->shape[2] - 1), middle = 0.5 * (near.low + near.high);
	if (full_turn && (middle < 0.25 * last || middle > 0.75 * last))
		return fail(TOMOS_UNSUPPORTED,
			"sharpness cannot determine the axis of half acquisition (near column %g "
			"of %g); use axis-method pairs",
			middle, last);
	TRY(axis_sharpness(&near, full_turn, answer));
	axis->low = near.low;
	axis->high = near.high;
	axis->sharpness = answer->column;
	return TOMOS_OK;
}

/* Point sources: opposite rays, or trial slices near their result. */
static tomos_status find_fan(const AxisProblem *p, int method, bool decide, tomos_axis *axis)
{
	AxisAnswer answer = {0}, sharp;
	bool reversed;
	if (method == VO)
		return fail(TOMOS_UNSUPPORTED,
			"axis-method vo is for parallel rays; of a fan or cone beam the axis is "
			"found by pairs or sharpness");
	TRY(axis_fan(p, decide, &answer, &reversed));
	take(axis, &answer);
	axis->pairs = answer.column;
	axis->reversed = reversed;
	axis->tilted = answer.tilted;
	if (method != SHARPNESS)
		return TOMOS_OK;
	AxisProblem near = around(p, answer.column, TRIALS);
	near.reversed = reversed;
	TRY(axis_sharpness(&near, axis->full_turn, &sharp));
	take(axis, &sharp);
	axis->sharpness = sharp.column;
	axis->low = near.low;
	axis->high = near.high;
	return TOMOS_OK;
}

static tomos_status find_by(
	const AxisProblem *p, int method, bool full_turn, bool given, tomos_axis *axis)
{
	AxisAnswer answer = {0};
	switch (method) {
	case PAIRS:
		TRY(axis_pairs(p, &answer));
		axis->pairs = answer.column;
		break;
	case VO:
		TRY(axis_wedge(p, &answer));
		axis->vo = answer.column;
		answer.error = hypot(answer.error, COMMON_HALF_TURN);
		break;
	case SHARPNESS:
		TRY(find_sharpest(p, full_turn, given, axis, &answer));
		break;
	default:
		return find_auto(p, full_turn, axis);
	}
	take(axis, &answer);
	return TOMOS_OK;
}

/* Steps of 1, 2 or 5 times a power of ten, about 20 of them. */
static double sweep_step(double width)
{
	double unit = pow(10, floor(log10(width / 20))), many = width / 20 / unit;
	return unit * (many > 5 ? 10 : many > 2 ? 5 : many > 1 ? 2 : 1);
}

int tomos_axis_doubt(const tomos_axis *given, double *from, double *to, double *step)
{
	tomos_axis axis = {.bytes = sizeof axis, .pairs = NAN, .vo = NAN, .error = NAN};
	if (!given || struct_take(&axis, given, "tomos_axis") != TOMOS_OK)
		return 0;
	double low = fmin(axis.column, fmin(axis.pairs, axis.vo)); /* fmin ignores NAN */
	double high = fmax(axis.column, fmax(axis.pairs, axis.vo));
	if (high - low <= AGREE && axis.confidence >= UNSURE && !axis.at_edge)
		return 0;
	double margin = fmax(0.25 * (high - low), isnan(axis.error) ? 4 : 4 * axis.error);
	margin = fmax(margin, 4);
	if (axis.confidence < UNSURE && axis.high > axis.low) { /* it may be anywhere */
		low = fmin(low, axis.low);
		high = fmax(high, axis.high);
		margin = axis.full_turn ? BESIDE * (high - low) : 0;
	}
	*step = sweep_step(high - low + 2 * margin);
	*from = fmax(floor((low - margin) / *step) * *step, 0);
	*to = ceil((high + margin) / *step) * *step;
	return 1;
}

static tomos_status search(
	const AxisProblem *given, const tomos_axis_options *o, int method, tomos_axis *axis)
{
	AxisView *views;
	AxisProblem whole = *given, *p = &whole;
	double step, last = (double)(p->data->shape[2] - 1);
	TRY(axis_sort(p, &views, &step));
	bool full_turn = axis_full_turn(views, p->data->shape[0], step);
	mem_free(views);
	TRY(take_range(p, full_turn, o));
	*axis = (tomos_axis){.bytes = sizeof *axis,
		.full_turn = full_turn,
		.low = p->low,
		.high = p->high,
		.error = NAN,
		.pairs = NAN,
		.vo = NAN,
		.sharpness = NAN};
	if (p->orbit)
		TRY(find_fan(p, method, strcmp(o->direction, "given") != 0, axis));
	else
		TRY(find_by(p, method, full_turn, o->axis_range_count > 0, axis));
	axis->half = full_turn && (axis->column < 0.25 * last || axis->column > 0.75 * last);
	return TOMOS_OK;
}

/* A range that was given may not contain the axis: it does not where all columns have a certain one
 * elsewhere. */
static tomos_status look_outside(
	const AxisProblem *p, const tomos_axis_options *given, int method, tomos_axis *axis)
{
	tomos_axis_options o = *given;
	tomos_axis all;
	double from, to, step;
	o.axis_range_count = 0;
	tomos_status status = search(p, &o, method == SHARPNESS ? AUTO : method, &all);
	if (status == TOMOS_BAD_VALUE || status == TOMOS_UNSUPPORTED)
		return TOMOS_OK;
	TRY(status);
	if (!tomos_axis_doubt(&all, &from, &to, &step) &&
		(all.column < given->axis_range[0] || all.column > given->axis_range[1]))
		axis->at_edge = 1;
	return TOMOS_OK;
}

static tomos_status find_in(
	const AxisProblem *p, const tomos_axis_options *o, int method, tomos_axis *axis)
{
	TRY(search(p, o, method, axis));
	return o->axis_range_count > 0 ? look_outside(p, o, method, axis) : TOMOS_OK;
}

/* What the ends of uneven views leave out of half a turn puts the two ends beside each other that
 * ought to be mirror images: an error of about this angle times the distance of parts of the object
 * from the axis. */
static double ends_error(const AxisProblem *even)
{
	int64_t n = even->data->shape[0];
	double arc = (even->angles[n - 1] - even->angles[0]) * (double)n / (double)(n - 1);
	return fmax(M_PI - arc, 0) * (double)even->data->shape[2] / 8;
}

static tomos_status find_half(const AxisProblem *p, const tomos_axis_options *o, int method,
	int half, tomos_axis *axis, bool *uneven)
{
	AxisProblem part = *p;
	AxisEven even;
	tomos_status status = axis_even(&part, half, &even);
	if (status == TOMOS_OK)
		status = find_in(&part, o, method, axis);
	*uneven = even.data != NULL;
	if (status == TOMOS_OK && *uneven)
		axis->error = fmax(axis->error, ends_error(&part));
	axis_even_free(&even);
	return status;
}

/* Of uneven views the error is at least what the results of every other view differ by: what is
 * interpolated between them is not in the scatter of parts of the data. */
static tomos_status find_evenly(
	const AxisProblem *p, const tomos_axis_options *o, int method, tomos_axis *axis)
{
	tomos_axis halves[2];
	bool uneven;
	if (p->orbit)
		return find_in(p, o, method, axis);
	TRY(find_half(p, o, method, 0, axis, &uneven));
	for (int i = 0; i < 2 && uneven; i++) {
		tomos_status status = find_half(p, o, method, i + 1, &halves[i], &uneven);
		if (status == TOMOS_BAD_VALUE)
			return TOMOS_OK;
		TRY(status);
		if (i == 1)
			axis->error = fmax(axis->error, fabs(halves[0].column - halves[1].column));
	}
	return TOMOS_OK;
}

/* The search in data whose pixels that do not vary are replaced. */
static tomos_status find_repaired(
	const AxisProblem *p, const tomos_axis_options *o, int method, tomos_axis *axis)
{
	tomos_array data = *p->data;
	AxisProblem problem = *p;
	float *repaired = NULL;
	int64_t constant = 0;
	if (!p->repaired)
		TRY(constant_repair(&data, &repaired, &constant));
	problem.data = &data;
	tomos_status status = find_evenly(&problem, o, method, axis);
	axis->constant = constant;
	mem_free(repaired);
	return status;
}

tomos_status axis_find(tomos_axis *axis, AxisProblem *p, const tomos_axis_options *options,
	const tomos_progress *progress)
{
	tomos_axis_options o = tomos_axis_defaults();
	tomos_backend *own = NULL;
	tomos_axis found = {.bytes = sizeof found};
	int method, direction;
	TRY(struct_give(axis, &found, "tomos_axis"));
	TRY(options_take(&o, options, "axis"));
	TRY(choice_find("axis-method", axis_values.axis_method, o.axis_method, &method));
	TRY(choice_find("direction", axis_values.direction, o.direction, &direction));
	TRY(check_input(p));
	if (!p->backend)
		TRY(tomos_backend_open(&own, "cpu"));
	p->backend = p->backend ? p->backend : own;
	tomos_status status = find_repaired(p, &o, method, &found);
	tomos_backend_close(own);
	if (status == TOMOS_OK && progress && progress->report &&
		progress->report(progress->user, "axis", 1, 1, found.column) != 0)
		status = fail(TOMOS_CANCELLED, "cancelled during the search for the axis");
	if (status != TOMOS_OK)
		found = (tomos_axis){.bytes = sizeof found, .low = found.low, .high = found.high};
	TRY(struct_give(axis, &found, "tomos_axis"));
	return status;
}

tomos_status tomos_axis_find(tomos_axis *axis, tomos_backend *backend, const tomos_array *integrals,
	const double *angles, const tomos_axis_options *options, const tomos_progress *progress)
{
	AxisProblem p = {.data = integrals, .angles = angles, .backend = backend};
	return axis_find(axis, &p, options, progress);
}

static tomos_status find_tilted(tomos_axis *axis, const AxisProblem *p, const Orbit *orbit,
	const tomos_axis_options *options, const tomos_progress *progress)
{
	AxisSums sums;
	tomos_axis found = {.bytes = sizeof found};
	TRY(struct_give(axis, &found, "tomos_axis"));
	TRY(axis_sums_begin(&sums, orbit));
	tomos_status status = axis_sums_add(&sums, p->data, 0);
	if (status == TOMOS_OK)
		status = axis_sums_find(&sums, p->backend, p->angles, options, progress, &found);
	axis_sums_free(&sums);
	return status == TOMOS_OK ? struct_give(axis, &found, "tomos_axis") : status;
}

tomos_status tomos_axis_find_scan(tomos_axis *axis, tomos_backend *backend,
	const tomos_array *integrals, const tomos_geometry *scan, const tomos_axis_options *options,
	const tomos_progress *progress)
{
	Orbit orbit;
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "the scan is missing");
	TRY(array_check(integrals, "the line integrals",
		(int64_t[]){scan->count, scan->rows, scan->columns}, ARRAY_READ));
	TRY(orbit_take(&orbit, scan));
	AxisProblem p = {.data = integrals, .angles = orbit.angles, .backend = backend};
	p.orbit = orbit.source > 0 ? &orbit : NULL;
	tomos_status status = orbit.tilt != 0 ? find_tilted(axis, &p, &orbit, options, progress)
					      : axis_find(axis, &p, options, progress);
	orbit_free(&orbit);
	return status;
}
