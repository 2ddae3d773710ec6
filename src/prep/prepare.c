/* Preprocessing: checks the order of the chosen steps, plans their memory and runs them. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "prep/prep.h"
#include "prep/views.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

/* In the order of the values of the option `quantity`, with ANY for auto. */
typedef enum { ANY, COUNTS, TRANSMISSION, INTEGRALS } Quantity;

#define STEP(id, name, takes, gives) STEP_##id,
enum {
#include "prep/steps.def"
	STEP_COUNT
};
#undef STEP

static const struct {
	const char *name;
	Quantity takes, gives;
} steps[STEP_COUNT] = {
#define STEP(id, name, takes, gives) {name, takes, gives},
#include "prep/steps.def"
#undef STEP
};

static const char step_names[] =
#define STEP(id, name, takes, gives) "|" name
#include "prep/steps.def"
#undef STEP
	;

const char *tomos_prep_steps(void)
{
	return step_names + 1;
}

/* A polynomial of zeros would set all data to 0. */
static tomos_status check_hardening(const tomos_prep_options *o)
{
	for (int64_t i = 0; i < o->hardening_count; i++)
		if (o->hardening[i] != 0)
			return TOMOS_OK;
	return o->hardening_count == 0
		       ? TOMOS_OK
		       : fail(TOMOS_BAD_VALUE, "hardening: all %lld coefficients are 0",
				 (long long)o->hardening_count);
}

tomos_status prep_take(tomos_prep_options *o, const tomos_prep_options *given)
{
	*o = tomos_prep_defaults();
	TRY(options_take(o, given, "prep"));
	if (!(o->floor > 0 && o->floor < 1))
		return fail(TOMOS_BAD_VALUE, "floor %g: it must be above 0 and below 1", o->floor);
	TRY(check_hardening(o));
	return options_need("prep", o, NULL);
}

tomos_status report_add(tomos_prep_report *report, const tomos_prep_report *found)
{
	tomos_prep_report sum = {.bytes = sizeof sum};
	if (!report)
		return TOMOS_OK;
	TRY(struct_take(&sum, report, "tomos_prep_report"));
	if (!found)
		return TOMOS_OK;
	sum.repaired += found->repaired;
	sum.raised += found->raised;
	sum.zingers += found->zingers;
	sum.stripes += found->stripes;
	sum.views += found->views;
	return struct_give(report, &sum, "tomos_prep_report");
}

tomos_status prep_begin(tomos_prep_options *o, const tomos_prep_options *given,
	tomos_prep_report *report, const tomos_array *data, const char *what)
{
	TRY(prep_take(o, given));
	TRY(report_add(report, NULL));
	return array_check(data, what, NULL, ARRAY_WRITTEN);
}

tomos_status prep_need(
	const tomos_prep_options *o, const tomos_fields *fields, const char *quantity)
{
	tomos_prep_options known = *o;
	char facts[64];
	bool flats = fields && fields->flats;
	known.quantity = quantity;
	snprintf(facts, sizeof facts, "flats=%d places=%d shifts=0", flats,
		flats && fields->flat_views);
	return options_need("prep", &known, facts);
}

tomos_status prep_size(const char *name, int64_t size)
{
	if (size >= 1 && size % 2 == 1)
		return TOMOS_OK;
	return fail(
		TOMOS_BAD_VALUE, "%s %lld: it must be odd and at least 1", name, (long long)size);
}

/* ---- choice and order of the steps ----------------------------------------------------------- */

typedef struct {
	int step[STEP_COUNT], count;
} Order;

static tomos_status add_step(Order *order, const char *name, size_t length)
{
	char word[32];
	int step;
	if (length >= sizeof word)
		return fail(TOMOS_BAD_VALUE, "step '%.*s' is not known",
			(int)min64((int64_t)length, 60), name);
	memcpy(word, name, length);
	word[length] = 0;
	TRY(choice_find("step", tomos_prep_steps(), word, &step));
	for (int i = 0; i < order->count; i++)
		if (order->step[i] == step)
			return fail(TOMOS_BAD_VALUE, "steps: step '%s' stands there twice", word);
	order->step[order->count++] = step;
	return TOMOS_OK;
}

static tomos_status order_read(Order *order, const char *text)
{
	order->count = 0;
	for (const char *at = text; *at;) {
		size_t length = strcspn(at, ", ");
		if (length > 0)
			TRY(add_step(order, at, length));
		at += length + (at[length] != 0);
	}
	return TOMOS_OK;
}

static bool is_chosen(const tomos_prep_options *o, int step)
{
	switch (step) {
	case STEP_bad_views:
		return o->bad_views_count > 0;
	case STEP_zingers:
		return strcmp(o->zingers, "none") != 0;
	case STEP_rings:
		return strcmp(o->rings, "none") != 0;
	case STEP_shift:
		return o->shift_x_count > 0 || o->shift_y_count > 0;
	case STEP_phase:
		return strcmp(o->phase, "none") != 0;
	case STEP_hardening:
		return o->hardening_count > 0;
	case STEP_bin:
		return o->bin != 1;
	default:
		return true;
	}
}

/* Removes steps without effect. */
static tomos_status order_choose(Order *order, const tomos_prep_options *o)
{
	Order all;
	TRY(order_read(&all, o->steps ? o->steps : ""));
	order->count = 0;
	for (int i = 0; i < all.count; i++)
		if (is_chosen(o, all.step[i]))
			order->step[order->count++] = all.step[i];
	return TOMOS_OK;
}

/* Skips normalize and log if the data are beyond them; rejects any other step that does not fit the
 * quantity. */
static tomos_status order_follow(Order *order, Quantity now)
{
	static const char *const names[] = {"", "counts", "transmission", "line integrals"};
	Order kept = {.count = 0};
	for (int i = 0; i < order->count; i++) {
		int step = order->step[i];
		bool past = now > steps[step].takes && steps[step].takes != ANY &&
			    (step == STEP_normalize || step == STEP_log);
		if (past)
			continue;
		if (steps[step].takes != ANY && steps[step].takes != now)
			return fail(TOMOS_BAD_VALUE, "steps: step '%s' is for %s, but has %s",
				steps[step].name, names[steps[step].takes], names[now]);
		if (steps[step].gives != ANY)
			now = steps[step].gives;
		kept.step[kept.count++] = step;
	}
	*order = kept;
	return TOMOS_OK;
}

/* ---- requirements and output of the steps ---------------------------------------------------- */

static int64_t furthest(const double *list, int64_t count)
{
	double most = 0;
	for (int64_t i = 0; i < count; i++)
		most = fmax(most, fabs(list[i]));
	return most > 0 ? (int64_t)fmin(ceil(most), 1e9) + 2 : 0;
}

/* `rows`: rows of the scan in one row that the step receives (binning). */
static void add_reach(const tomos_prep_options *o, int step, int64_t rows, tomos_reach *reach)
{
	if (step == STEP_bad_views || step == STEP_rings)
		reach->all_views = 1;
	if (step == STEP_zingers && strcmp(o->zingers, "space") != 0)
		reach->all_views = 1;
	if (step == STEP_zingers && strcmp(o->zingers, "time") != 0)
		reach->rows += rows * (o->zinger_size / 2);
	if (step == STEP_shift)
		reach->rows += rows * furthest(o->shift_y, o->shift_y_count);
	if (step == STEP_phase)
		reach->all_rows = 1;
}

tomos_status tomos_prep_reach(const tomos_prep_options *options, tomos_reach *reach)
{
	tomos_prep_options o;
	Order order;
	TRY(prep_take(&o, options));
	TRY(order_choose(&order, &o));
	tomos_reach found = {.bytes = sizeof found};
	int64_t rows = 1;
	for (int i = 0; i < order.count; i++) {
		add_reach(&o, order.step[i], rows, &found);
		if (order.step[i] == STEP_bin)
			rows = max64(1, min64(o.bin, 1 << 20));
	}
	return struct_give(reach, &found, "tomos_reach");
}

static bool has_step(const Order *order, int step)
{
	for (int i = 0; i < order->count; i++)
		if (order->step[i] == step)
			return true;
	return false;
}

tomos_status tomos_prep_shape(
	const tomos_prep_options *options, const int64_t shape[3], int64_t prepared[3])
{
	tomos_prep_options o;
	Order order;
	bool *bad;
	int64_t found;
	TRY(prep_take(&o, options));
	TRY(order_choose(&order, &o));
	TRY(views_mark(&o, shape[0], &bad, &found));
	mem_free(bad);
	memcpy(prepared, shape, 3 * sizeof *prepared);
	if (o.leave_out && has_step(&order, STEP_bad_views))
		prepared[0] -= found;
	if (!has_step(&order, STEP_bin))
		return TOMOS_OK;
	TRY(views_bin_check(o.bin, shape));
	prepared[1] /= o.bin;
	prepared[2] /= o.bin;
	return TOMOS_OK;
}

/* ---- running the steps ----------------------------------------------------------------------- */

typedef struct {
	const tomos_array *data;
	const tomos_fields *fields;
	tomos_prep_options *options;
	tomos_prep_report *report;
	tomos_array now; /* the data, or the binned data */
	float *binned;
} Preparing;

static tomos_status bin(Preparing *p)
{
	const int64_t *n = p->now.shape;
	int64_t bin = p->options->bin, count;
	TRY(views_bin_check(bin, n));
	const int64_t shape[3] = {n[0], n[1] / bin, n[2] / bin};
	TRY(shape_count(shape, &count));
	TRY(mem_alloc(&p->binned, count, sizeof *p->binned, "the binned views"));
	tomos_array binned = tomos_array_of(p->binned, shape[0], shape[1], shape[2]);
	TRY(tomos_prep_bin(&p->now, bin, &binned));
	p->now = binned;
	p->options->pixel *= (double)bin; /* also used by a later phase retrieval */
	return TOMOS_OK;
}

static tomos_status run_step(Preparing *p, int step)
{
	static tomos_status (*const run[STEP_COUNT])(const tomos_array *data,
		const tomos_prep_options *options, tomos_prep_report *report) = {
		[STEP_bad_views] = tomos_prep_bad_views,
		[STEP_zingers] = tomos_prep_zingers,
		[STEP_log] = tomos_prep_log,
		[STEP_rings] = tomos_prep_rings,
		[STEP_shift] = tomos_prep_shift,
		[STEP_phase] = tomos_prep_phase,
		[STEP_hardening] = tomos_prep_hardening,
	};
	if (step == STEP_normalize)
		return tomos_prep_normalize(&p->now, p->fields, p->options, p->report);
	if (step == STEP_bin)
		return bin(p);
	return run[step](&p->now, p->options, p->report);
}

/* Copies to the caller's array, without the omitted views. */
static tomos_status hand_over(const Preparing *p, const tomos_array *prepared)
{
	int64_t views = p->data->shape[0], found, to = 0;
	bool *bad, all = prepared->shape[0] == views;
	float *row;
	TRY(views_mark(p->options, views, &bad, &found));
	tomos_status status = mem_alloc(&row, p->now.shape[2], sizeof *row, "a row of a view");
	for (int64_t view = 0; status == TOMOS_OK && view < views; view++) {
		if (bad[view] && !all)
			continue;
		for (int64_t r = 0; r < p->now.shape[1]; r++) {
			row_get(&p->now, view, r, row);
			row_put(prepared, to, r, row);
		}
		to++;
	}
	if (status == TOMOS_OK)
		mem_free(row);
	mem_free(bad);
	return status;
}

/* Replaces `auto` in the options. */
static tomos_status start_quantity(tomos_prep_options *o, const tomos_fields *fields, Quantity *now)
{
	int quantity;
	if (strcmp(o->quantity, "auto") == 0)
		o->quantity = fields && fields->flats ? "counts" : "integrals";
	TRY(choice_find("quantity", prep_values.quantity, o->quantity, &quantity));
	*now = (Quantity)quantity;
	return TOMOS_OK;
}

typedef struct {
	const tomos_array *data;
	_Atomic int64_t *repaired;
} Repair;

static void repair_view(const void *user, int64_t view, float *values)
{
	const Repair *m = user;
	for (int64_t row = 0; row < m->data->shape[1]; row++) {
		row_get(m->data, view, row, values);
		int64_t repaired = row_repair(values, m->data->shape[2], 0);
		if (repaired > 0)
			row_put(m->data, view, row, values);
		*m->repaired += repaired;
	}
}

/* Repairs values of given line integrals that are not finite; for counts, normalize and log do
 * that. */
static tomos_status repair_integrals(const Preparing *p)
{
	_Atomic int64_t repaired = 0;
	const Repair job = {p->data, &repaired};
	TRY(pieces_each(p->data->shape[0], p->data->shape[2], repair_view, &job));
	return report_add(p->report, &(tomos_prep_report){.repaired = repaired});
}

static tomos_status report_step(const tomos_progress *progress, int step, int done, int total)
{
	if (progress && progress->report &&
		progress->report(progress->user, steps[step].name, done, total, 0) != 0)
		return fail(TOMOS_CANCELLED, "cancelled during step '%s' of the preparation",
			steps[step].name);
	return TOMOS_OK;
}

tomos_status tomos_prepare(const tomos_array *data, const tomos_fields *fields,
	const tomos_prep_options *options, const tomos_array *prepared, tomos_prep_report *report,
	const tomos_progress *progress)
{
	tomos_prep_options o;
	Order order;
	Quantity now;
	int64_t shape[3];
	tomos_status status;
	tomos_fields own = {.bytes = sizeof own};
	TRY(prep_take(&o, options));
	TRY(struct_take(&own, fields, "tomos_fields"));
	TRY(report_add(report, NULL));
	TRY(array_check(data, "the data", NULL, ARRAY_WRITTEN));
	TRY(order_choose(&order, &o));
	TRY(start_quantity(&o, &own, &now));
	TRY(prep_need(&o, &own, o.quantity));
	TRY(order_follow(&order, now));
	TRY(tomos_prep_shape(&o, data->shape, shape));
	TRY(array_check(prepared, "the prepared data", shape, ARRAY_WRITTEN));
	Preparing p = {data, &own, &o, report, *data, NULL};
	if (now == INTEGRALS)
		TRY(repair_integrals(&p));
	for (int i = 0; i < order.count; i++) {
		TRY_OR_DONE(run_step(&p, order.step[i]));
		TRY_OR_DONE(report_step(progress, order.step[i], i + 1, order.count));
	}
	status = hand_over(&p, prepared);
done:
	mem_free(p.binned);
	return status;
}
