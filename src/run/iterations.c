/* Residuals and errors of slabs, stored as squares, and combined for the whole volume. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "run/iterative.h"

#define HEAD "iterations %lld %lld %lld %.17g %.17g"

void iterations_free(Iterations *i)
{
	mem_free(i->residual);
	mem_free(i->error);
	*i = (Iterations){.first = 0};
}

typedef struct {
	Iterations **list;
	int64_t *count, *capacity;
} Growing;

static tomos_status add(const Growing *to, Iterations *one)
{
	TRY(mem_grow(
		to->list, *to->count, to->capacity, sizeof **to->list, "the iterations of slabs"));
	(*to->list)[(*to->count)++] = *one;
	*one = (Iterations){.first = 0};
	return TOMOS_OK;
}

/* ---- in the journal ----------------------------------------------------------------------- */

tomos_status iterations_text(char **text, const Iterations *i)
{
	enum { NUMBER = 26 };
	int64_t size = 160 + 2 * NUMBER * i->iterations + (int64_t)strlen(i->ended), used;
	TRY(mem_alloc(text, size, 1, "a line of a journal"));
	used = snprintf(*text, (size_t)size, HEAD, (long long)i->first, (long long)i->count,
		(long long)i->iterations, i->data, i->error ? i->truth : -1);
	for (int64_t k = 0; k < i->iterations; k++) {
		used += snprintf(*text + used, (size_t)(size - used), " %.17g", i->residual[k]);
		if (i->error)
			used += snprintf(
				*text + used, (size_t)(size - used), " %.17g", i->error[k]);
	}
	snprintf(*text + used, (size_t)(size - used), " %s", i->ended);
	return TOMOS_OK;
}

/* The next number of a line; false at its end. */
static bool next_number(const char **at, double *value)
{
	char *end;
	while (**at == ' ')
		(*at)++;
	if (**at == 0 || **at == '\n')
		return false;
	*value = strtod(*at, &end);
	bool any = end != *at;
	*at = end;
	return any;
}

/* The last word of a line. */
static bool read_ended(const Iterative *it, const char *at, const char **ended)
{
	const char *const words[] = {
		"iterations", "converged", "accuracy", "cancelled", it->o.stop};
	const size_t length = strcspn(at, "\n");
	for (size_t i = 0; i < COUNT(words); i++)
		if (length == strlen(words[i]) + 1 && memcmp(at + 1, words[i], length - 1) == 0) {
			*ended = words[i];
			return true;
		}
	return false;
}

static bool read_lists(const Iterative *it, const char *at, Iterations *i)
{
	for (int64_t k = 0; k < i->iterations; k++)
		if (!next_number(&at, &i->residual[k]) ||
			(i->error && !next_number(&at, &i->error[k])))
			return false;
	return read_ended(it, at, &i->ended);
}

static bool read_line(const Iterative *it, const Growing *to, const char *line)
{
	const int64_t most = (int64_t)strcspn(line, "\n");
	const char *at = strchr(line, ' ');
	double n[5];
	Iterations i = {.first = 0};
	for (int k = 0; k < 5; k++)
		if (!at || !next_number(&at, &n[k]))
			return false;
	if (!(n[0] >= 0 && n[1] >= 1 && n[2] >= 0 && n[2] <= (double)most))
		return false;
	i.first = (int64_t)n[0], i.count = (int64_t)n[1], i.iterations = (int64_t)n[2];
	i.data = n[3], i.truth = n[4];
	bool good =
		mem_alloc(&i.residual, i.iterations + 1, sizeof(double), "residuals") == TOMOS_OK;
	if (good && i.truth >= 0)
		good = mem_alloc(&i.error, i.iterations + 1, sizeof(double), "errors") == TOMOS_OK;
	good = good && read_lists(it, at, &i) && add(to, &i) == TOMOS_OK;
	iterations_free(&i);
	return good;
}

bool iterations_read(Iterative *it, const char *line)
{
	const Growing to = {&it->earlier, &it->earlier_count, &it->earlier_capacity};
	return read_line(it, &to, line);
}

tomos_status iterations_list(char **text, const Iterative *it)
{
	char *all, *line, *longer;
	TRY(mem_text(&all, ""));
	for (int64_t i = 0; i < it->slab_count; i++) {
		if (it->slabs[i].count == 0)
			continue;
		tomos_status status = iterations_text(&line, &it->slabs[i]);
		if (status == TOMOS_OK) {
			status = mem_printf(&longer, "%s%s\n", all, line);
			mem_free(line);
		}
		mem_free(all);
		TRY(status);
		all = longer;
	}
	*text = all;
	return TOMOS_OK;
}

void iterations_add_list(Iterative *it, const char *text)
{
	const Growing to = {&it->slabs, &it->slab_count, &it->slab_capacity};
	for (const char *line = text; *line; line = strchr(line, '\n') + 1)
		(void)read_line(it, &to, line);
}

/* ---- all slabs together ------------------------------------------------------------------- */

/* The value after iteration k, or after the last iteration if the slab ended earlier. */
static double square_at(const Iterations *i, const double *list, int64_t k)
{
	return list && i->iterations > 0 ? list[min64(k, i->iterations - 1)] : 0;
}

static double relative(double square, double of)
{
	return sqrt(of > 0 ? square / of : square);
}

typedef struct {
	double residual, data, error, truth;
	bool no_truth;
} Squares;

static void add_squares(Squares *s, const Iterations *one, int64_t k)
{
	s->no_truth = s->no_truth || !one->error;
	s->residual += square_at(one, one->residual, k);
	s->data += one->data;
	s->error += square_at(one, one->error, k);
	s->truth += one->truth;
}

/* Whether slices of an earlier run were computed again: its values are then ignored. */
static bool is_replaced(const Iterative *it, const Iterations *earlier)
{
	for (int64_t i = 0; i < it->slab_count; i++) {
		const Iterations *now = &it->slabs[i];
		if (now->count > 0 && now->first < earlier->first + earlier->count &&
			earlier->first < now->first + now->count)
			return true;
	}
	return false;
}

static Squares sum_at(const Iterative *it, int64_t k)
{
	Squares s = {.data = 0};
	for (int64_t i = 0; i < it->slab_count; i++)
		if (it->slabs[i].count > 0)
			add_squares(&s, &it->slabs[i], k);
	for (int64_t i = 0; i < it->earlier_count; i++)
		if (!is_replaced(it, &it->earlier[i]))
			add_squares(&s, &it->earlier[i], k);
	return s;
}

int64_t iterations_most(const Iterative *it)
{
	int64_t most = 0;
	for (int64_t i = 0; i < it->slab_count; i++)
		most = max64(most, it->slabs[i].iterations);
	for (int64_t i = 0; i < it->earlier_count; i++)
		most = max64(most, it->earlier[i].iterations);
	return most;
}

static bool ended_later(const Iterations *one, const Iterations *last)
{
	return one->count > 0 && strcmp(one->ended, "iterations") != 0 &&
	       (!last || one->first > last->first);
}

const char *iterations_ended(const Iterative *it)
{
	const Iterations *last = NULL;
	for (int64_t i = 0; i < it->slab_count; i++)
		if (ended_later(&it->slabs[i], last))
			last = &it->slabs[i];
	for (int64_t i = 0; i < it->earlier_count; i++)
		if (ended_later(&it->earlier[i], last) && !is_replaced(it, &it->earlier[i]))
			last = &it->earlier[i];
	return last ? last->ended : "iterations";
}

void iterations_sum(const Iterative *it, tomos_run_report *report)
{
	tomos_history history = {.bytes = sizeof history}, *h = &history;
	double least = HUGE_VAL;
	struct_take(h, it->o.history, "tomos_history");
	report->iterations = iterations_most(it);
	report->best = 0;
	for (int64_t k = 0; k < report->iterations; k++) {
		Squares s = sum_at(it, k);
		report->residual = relative(s.residual, s.data);
		report->error = s.no_truth ? NAN : relative(s.error, s.truth);
		if (k < h->capacity && h->residual)
			h->residual[k] = report->residual;
		if (k < h->capacity && h->error)
			h->error[k] = report->error;
		if (report->error < least) {
			least = report->error;
			report->best = k + 1;
		}
	}
	h->count = report->iterations;
	h->best = report->best;
	h->ended = report->ended = iterations_ended(it);
	report->before = it->before;
	if (it->o.history)
		struct_give(it->o.history, h, "tomos_history");
}
