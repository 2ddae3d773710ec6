/* The steps that prepare a scan, with the options that have an effect on them, as text. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "prep/order.h"
#include "prep/prep.h"

/* Options of each step. */
static const char *const step_options[PREP_STEPS] = {
	[PREP_normalize] = "flat_average|drift",
	[PREP_bad_views] = "bad_views|leave_out",
	[PREP_zingers] = "zingers|zinger_level|zinger_size",
	[PREP_scatter] = "scatter",
	[PREP_log] = "floor",
	[PREP_rings] = ("rings|ring_snr|ring_large|ring_small|ring_wavelet|ring_levels|"
			"ring_sigma|ring_alpha"),
	[PREP_shift] = "shift_x|shift_y|shift_by",
	[PREP_phase] = "phase|pixel|distance|energy|delta_beta",
	[PREP_hardening] = "hardening|wedge",
	[PREP_bin] = "bin",
};

typedef struct {
	char *text;
	size_t size, used;
} Line;

static void add(Line *l, const char *format, ...) PRINTF_LIKE(2, 3);
static void add(Line *l, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int length = vsnprintf(l->text + l->used, l->size - l->used, format, values);
	va_end(values);
	l->used += length > 0 ? (size_t)length : 0;
	l->used = l->used < l->size ? l->used : l->size - 1;
}

/* Long lists, such as those of one number per view, by their length. */
static void add_list(Line *l, const tomos_option *row, const char *options)
{
	enum { MOST = 8 };
	const void *list;
	int64_t count, whole;
	double real;
	memcpy(&list, options + row->offset, sizeof list);
	memcpy(&count, options + row->count_offset, sizeof count);
	for (int64_t i = 0; i < count && count <= MOST; i++) {
		memcpy(&whole, (const char *)list + i * 8, sizeof whole);
		memcpy(&real, (const char *)list + i * 8, sizeof real);
		if (row->kind == TOMOS_INTS)
			add(l, "%s%lld", i ? "," : "", (long long)whole);
		else
			add(l, "%s%.6g", i ? "," : "", real);
	}
	if (count > MOST)
		add(l, "%lld values", (long long)count);
}

static void add_value(Line *l, const tomos_option *row, const char *options)
{
	const char *text;
	int64_t whole;
	double real;
	memcpy(&text, options + row->offset, sizeof text);
	memcpy(&whole, options + row->offset, sizeof whole);
	memcpy(&real, options + row->offset, sizeof real);
	if (row->kind == TOMOS_CHOICE)
		add(l, "%s", text);
	else if (row->kind == TOMOS_INTS || row->kind == TOMOS_REALS)
		add_list(l, row, options);
	else if (row->kind == TOMOS_FLAG)
		add(l, "%s", whole ? "yes" : "no");
	else if (row->kind == TOMOS_INT)
		add(l, "%lld", (long long)whole);
	else
		add(l, "%.6g%s", real,
			row->kind == TOMOS_LENGTH   ? " mm"
			: row->kind == TOMOS_ENERGY ? " keV"
						    : "");
}

static bool is_empty(const tomos_option *row, const char *options)
{
	int64_t count = 1;
	if (row->kind == TOMOS_INTS || row->kind == TOMOS_REALS)
		memcpy(&count, options + row->count_offset, sizeof count);
	return count == 0;
}

static void add_step(Line *l, int step, const tomos_prep_options *o, const char *facts)
{
	int count;
	const tomos_option *rows = tomos_options("prep", &count);
	const char *before = ": ";
	add(l, "%s", step_rows[step].name);
	for (int i = 0; i < count; i++) {
		const uint64_t given = UINT64_C(1) << i;
		if (choice_index(step_options[step], rows[i].name) < 0 ||
			tomos_option_unmet(rows, count, o, &given, facts) >= 0 ||
			is_empty(&rows[i], (const char *)o))
			continue;
		add(l, "%s", before);
		if (strcmp(rows[i].name, step_rows[step].name) != 0)
			for (const char *at = rows[i].name; *at; at++)
				add(l, "%c", *at == '_' ? '-' : *at);
		if (strcmp(rows[i].name, step_rows[step].name) != 0)
			add(l, " ");
		add_value(l, &rows[i], (const char *)o);
		before = ", ";
	}
	add(l, "\n");
}

tomos_status prep_describe(
	const tomos_prep_options *given, const tomos_fields *fields, char *text, size_t size)
{
	tomos_prep_options o = *given;
	Line line = {text, size, 0};
	Quantity now;
	Order order;
	char facts[64];
	bool flats = fields && fields->flats;
	if (size == 0)
		return TOMOS_OK;
	text[0] = 0;
	TRY(order_make(&order, &o, fields, &now));
	snprintf(facts, sizeof facts, "flats=%d places=%d shifts=1", flats,
		flats && fields->flat_views);
	for (int i = 0; i < order.count; i++)
		add_step(&line, order.step[i], &o, facts);
	return TOMOS_OK;
}
