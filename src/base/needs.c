/* Dependencies between options: the last column of options.def, checked and printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"

enum { LONGEST = 64 };

/* One alternative of a condition: name, name=a|b, name!=a|b or name~word, optionally followed by a
 * colon and a wording for messages. */
typedef struct {
	char name[LONGEST];
	char relation; /* 0: the option is set; else the operator, '=', '!' or '~' */
	const char *values, *words;
	int values_length, words_length;
} Alternative;

/* Input of a check: the options and their values. */
typedef struct {
	const tomos_option *rows;
	int count;
	const char *options, *facts;
} Known;

static const char separator[] = " or ";

/* Row i of a caller's list. */
static tomos_option row_at(const tomos_option *rows, int i)
{
	tomos_option row = {.bytes = sizeof row,
		.name = "",
		.fallback = "",
		.values = "",
		.help = "",
		.needs = ""};
	struct_take(&row, TOMOS_ROW(rows, i), "tomos_option");
	return row;
}

/* Parses the alternative at `at`. Returns the beginning of the next one, or the end of the text. */
static const char *alternative_read(const char *at, Alternative *a)
{
	const char *end = strstr(at, separator);
	size_t length = end ? (size_t)(end - at) : strlen(at);
	size_t name = strcspn(at, "=!~: "), rest;
	*a = (Alternative){.relation = 0, .values = "", .words = ""};
	snprintf(a->name, sizeof a->name, "%.*s", (int)(name < length ? name : length), at);
	rest = strlen(a->name);
	if (rest < length && at[rest] != ':') {
		a->relation = at[rest];
		rest += at[rest] == '!' ? 2 : 1;
		a->values = at + rest;
		a->values_length = (int)strcspn(a->values, ":");
		if (rest + (size_t)a->values_length > length)
			a->values_length = (int)(length - rest);
		rest += (size_t)a->values_length;
	}
	if (rest < length) {
		a->words = at + rest + 1;
		a->words_length = (int)(length - rest - 1);
	}
	return end ? end + sizeof separator - 1 : at + length;
}

/* Whether a list contains the word; `between`: the characters that separate its words. */
static bool in_list(const char *list, size_t length, const char *between, const char *word)
{
	size_t n = strlen(word);
	for (size_t at = 0; at < length; at++) {
		size_t item = strcspn(list + at, between);
		item = at + item < length ? item : length - at;
		if (item == n && memcmp(list + at, word, n) == 0)
			return true;
		at += item;
	}
	return false;
}

static bool is_list(tomos_option_kind kind)
{
	return kind == TOMOS_INTS || kind == TOMOS_REALS || kind == TOMOS_ANGLES ||
	       kind == TOMOS_LENGTHS;
}

static bool is_text(tomos_option_kind kind)
{
	return kind == TOMOS_TEXT || kind == TOMOS_CHOICE;
}

static const char *text_of(const tomos_option *row, const char *options)
{
	const char *text;
	memcpy(&text, options + row->offset, sizeof text);
	return text ? text : "";
}

/* Value of an option as a number; for lists their length, for arrays 1 if given, else 0. */
static double number_of(const tomos_option *row, const char *options)
{
	const char *field = options + (is_list(row->kind) ? row->count_offset : row->offset);
	int64_t whole;
	double real;
	memcpy(&whole, field, sizeof whole);
	memcpy(&real, field, sizeof real);
	if (row->kind == TOMOS_ARRAY || row->kind == TOMOS_HISTORY)
		return whole != 0;
	bool is_whole = row->kind == TOMOS_INT || row->kind == TOMOS_SIZE ||
			row->kind == TOMOS_FLAG || is_list(row->kind);
	return is_whole ? (double)whole : real;
}

static bool is_set(const tomos_option *row, const char *options)
{
	return is_text(row->kind) ? text_of(row, options)[0] != 0 : number_of(row, options) != 0;
}

static bool is_changed(const tomos_option *row, const char *options)
{
	if (is_text(row->kind))
		return strcmp(text_of(row, options), row->fallback) != 0;
	return number_of(row, options) != strtod(row->fallback, NULL);
}

/* Finds the value of a name in "name=value name=value"; false if it is missing. */
static bool fact_find(const char *facts, const char *name, char value[LONGEST])
{
	size_t length = strlen(name);
	for (const char *at = facts; at && *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");
		if (n > length && memcmp(at, name, length) == 0 && at[length] == '=') {
			snprintf(value, LONGEST, "%.*s", (int)(n - length - 1), at + length + 1);
			return true;
		}
		at += n;
	}
	return false;
}

static bool value_fits(const Alternative *a, const char *value)
{
	char word[LONGEST];
	bool listed = in_list(a->values, (size_t)a->values_length, "|", value);
	switch (a->relation) {
	case '=':
		return listed;
	case '!':
		return !listed;
	case '~':
		snprintf(word, sizeof word, "%.*s", a->values_length, a->values);
		return in_list(value, strlen(value), ", ", word);
	default:
		return value[0] && strcmp(value, "0") != 0;
	}
}

/* Whether the value is not one of the choices: this is reported by the function that reads the
 * option. */
static bool is_unknown(const tomos_option *row, const char *text)
{
	return row->kind == TOMOS_CHOICE && text[0] && row->values[0] != '=' &&
	       choice_index(row->values, text) < 0;
}

static bool alternative_met(const Alternative *a, const Known *k)
{
	char value[LONGEST];
	bool fact = fact_find(k->facts, a->name, value);
	if (fact && value_fits(a, value))
		return true;
	for (int i = 0; i < k->count; i++) {
		const tomos_option row = row_at(k->rows, i);
		const char *text = is_text(row.kind) ? text_of(&row, k->options) : "";
		if (strcmp(row.name, a->name) == 0)
			return is_unknown(&row, text) ||
			       (a->relation && is_text(row.kind) ? value_fits(a, text)
								 : is_set(&row, k->options));
	}
	return !fact; /* an unknown fact does not reject an option */
}

static bool need_met(const tomos_option *row, const Known *k)
{
	Alternative a;
	bool met = !row->needs[0];
	for (const char *at = row->needs; *at && !met;) {
		at = alternative_read(at, &a);
		met = alternative_met(&a, k);
	}
	return met;
}

int tomos_option_unmet(const tomos_option *rows, int count, const void *options,
	const uint64_t *given, const char *facts)
{
	const Known known = {rows, count, options, facts};
	for (int i = 0; i < count; i++) {
		const tomos_option row = row_at(rows, i);
		bool wanted = given ? *given >> i & 1 : is_changed(&row, options);
		if (wanted && !need_met(&row, &known))
			return i;
	}
	return -1;
}

static size_t put_name(char *text, size_t size, const Alternative *a, bool typed)
{
	size_t used = (size_t)snprintf(text, size, "%s%s", typed ? "--" : "", a->name);
	for (size_t i = 0; typed && i < used && i < size; i++)
		if (text[i] == '_')
			text[i] = '-';
	return used;
}

static size_t put_alternative(char *text, size_t size, const Alternative *a, bool typed)
{
	size_t used = 0;
	if (a->words_length)
		return (size_t)snprintf(text, size, "%.*s", a->words_length, a->words);
	if (a->relation == '~')
		used = (size_t)snprintf(text, size, "%.*s in ", a->values_length, a->values);
	used += put_name(used < size ? text + used : NULL, used < size ? size - used : 0, a, typed);
	if (!a->relation || a->relation == '~')
		return used;
	const char *between = a->relation == '!' ? " other than " : typed ? " " : "=";
	return used + (size_t)snprintf(used < size ? text + used : NULL,
			      used < size ? size - used : 0, "%s%.*s", between, a->values_length,
			      a->values);
}

void tomos_option_needs(const tomos_option *row, int typed, char *text, size_t size)
{
	Alternative a;
	size_t used = 0;
	const char *needs = row_at(row, 0).needs;
	if (size > 0)
		text[0] = 0;
	for (const char *at = needs; *at && used + 1 < size;) {
		bool first = at == needs;
		at = alternative_read(at, &a);
		if (!first)
			used += (size_t)snprintf(text + used, size - used, "%s", separator);
		if (used + 1 < size)
			used += put_alternative(text + used, size - used, &a, typed != 0);
	}
}

tomos_status options_need(const char *group, const void *options, const char *facts)
{
	int count;
	char needs[256];
	const tomos_option *rows = tomos_options(group, &count);
	int i = tomos_option_unmet(rows, count, options, NULL, facts);
	if (i < 0)
		return TOMOS_OK;
	tomos_option_needs(&rows[i], 0, needs, sizeof needs);
	return fail(TOMOS_BAD_VALUE, "%s has no effect without %s", rows[i].name, needs);
}
