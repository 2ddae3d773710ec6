/* Options of the preparation, and the order of the chosen steps: what each requires and gives. */
#include <stdio.h>
#include <string.h>
#include "prep/order.h"
#include "prep/prep.h"
#include "prep/views.h"

OPTION_VALUES(prep_values, TOMOS_PREP_OPTIONS);

const StepRow step_rows[PREP_STEPS] = {
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
	TRY(wedge_check(o));
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
	sum.views = max64(sum.views, found->views); /* the same in each part of a scan */
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
	case PREP_bad_views:
		return o->bad_views_count > 0;
	case PREP_zingers:
		return strcmp(o->zingers, "none") != 0;
	case PREP_rings:
		return strcmp(o->rings, "none") != 0;
	case PREP_shift:
		return o->shift_x_count > 0 || o->shift_y_count > 0;
	case PREP_phase:
		return strcmp(o->phase, "none") != 0;
	case PREP_scatter:
		return o->scatter != 0;
	case PREP_hardening:
		return o->hardening_count > 0 || o->wedge_count > 0;
	case PREP_bin:
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
		bool past = now > step_rows[step].takes && step_rows[step].takes != ANY &&
			    (step == PREP_normalize || step == PREP_log);
		if (past)
			continue;
		if (step_rows[step].takes != ANY && step_rows[step].takes != now)
			return fail(TOMOS_BAD_VALUE,
				"step '%s' is for %s, but the data are %s there; the option "
				"'quantity' says what they are at first",
				step_rows[step].name, names[step_rows[step].takes], names[now]);
		if (step_rows[step].gives != ANY)
			now = step_rows[step].gives;
		kept.step[kept.count++] = step;
	}
	*order = kept;
	return TOMOS_OK;
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

tomos_status order_make(
	Order *order, tomos_prep_options *o, const tomos_fields *fields, Quantity *now)
{
	TRY(automatic_check(o));
	TRY(order_choose(order, o));
	TRY(start_quantity(o, fields, now));
	TRY(prep_need(o, fields, o->quantity));
	return order_follow(order, *now);
}

bool order_has(const Order *order, int step)
{
	for (int i = 0; i < order->count; i++)
		if (order->step[i] == step)
			return true;
	return false;
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
	if (step == PREP_bad_views || step == PREP_rings)
		reach->all_views = 1;
	if (step == PREP_zingers && strcmp(o->zingers, "space") != 0)
		reach->all_views = 1;
	if (step == PREP_zingers && strcmp(o->zingers, "time") != 0)
		reach->rows += rows * (o->zinger_size / 2);
	if (step == PREP_rings && strcmp(o->rings, "pixels") == 0)
		reach->rows += rows * RING_PIXELS_REACH;
	if (step == PREP_shift)
		reach->rows += rows * furthest(o->shift_y, o->shift_y_count);
	if (step == PREP_phase)
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
		if (order.step[i] == PREP_bin)
			rows = max64(1, min64(o.bin, 1 << 20));
	}
	return struct_give(reach, &found, "tomos_reach");
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
	if (o.leave_out && order_has(&order, PREP_bad_views))
		prepared[0] -= found;
	if (!order_has(&order, PREP_bin))
		return TOMOS_OK;
	TRY(views_bin_check(o.bin, shape));
	prepared[1] /= o.bin;
	prepared[2] /= o.bin;
	return TOMOS_OK;
}
