/* Detector pixels that do not vary over the views, dead ones and those behind a frame: they are the
 * same in all views, so that any search for what opposite views have in common finds them. Columns
 * between others are interpolated; at the edges, where air does not vary either, those that differ
 * from it become air. */
#include <math.h>
#include <stdatomic.h>
#include "prep/constant.h"
#include "prep/prep.h"

#define CONSTANT 1e-5  /* of the largest variation in a row */
#define DIFFERENT 0.02 /* likewise: from air */
#define WIDEST 0.06    /* of the columns, that are interpolated */
#define ROUNDING 1e-5  /* of the largest value: variation that says nothing */

typedef struct {
	float low, high;
} Range;

/* Ranges of the pixels of a row over the views, and the largest; 0: all are but rounding, as of a
 * simulated object that is the same from all sides. */
static float take_ranges(const tomos_array *a, int64_t row, Range *ranges)
{
	float widest = 0, largest = 0;
	for (int64_t v = 0; v < a->shape[0]; v++) {
		const float *line = array_row(a, v, row);
		for (int64_t c = 0; c < a->shape[2]; c++) {
			float value = line[c * a->stride[2]];
			Range *r = &ranges[c];
			r->low = v && !(value < r->low) ? r->low : value;
			r->high = v && !(value > r->high) ? r->high : value;
		}
	}
	for (int64_t c = 0; c < a->shape[2]; c++) {
		widest = fmaxf(widest, ranges[c].high - ranges[c].low);
		largest = fmaxf(largest, fmaxf(fabsf(ranges[c].low), fabsf(ranges[c].high)));
	}
	return widest > (float)ROUNDING * largest ? widest : 0;
}

/* A run of constant columns, [first, end), in one row. */
typedef struct {
	int64_t row, first, end;
	bool only_look; /* instead of correcting it */
	bool some;      /* of the views are in the array: columns of air may vary in others */
} Run;

static void interpolate(const tomos_array *a, const Run *run)
{
	int64_t step = a->stride[2];
	for (int64_t v = 0; v < a->shape[0]; v++) {
		float *line = array_row(a, v, run->row);
		float left = line[(run->first - 1) * step], right = line[run->end * step];
		for (int64_t c = run->first; c < run->end; c++)
			line[c * step] = left + (right - left) * (float)(c - run->first + 1) /
							(float)(run->end - run->first + 1);
	}
}

static void set_column(const tomos_array *a, int64_t row, int64_t column, float value)
{
	for (int64_t v = 0; v < a->shape[0]; v++)
		array_row(a, v, row)[column * a->stride[2]] = value;
}

static bool is_air(float value, float widest)
{
	return fabsf(value) <= (float)DIFFERENT * widest;
}

/* Columns at the inner end of a run that reaches an edge that are the object: seen alike from all
 * sides, as the rim of a cylinder is, they go over into the columns that vary without a jump, as
 * those of a frame do not. */
static int64_t object_columns(const Run *run, int64_t n, const Range *ranges, float widest)
{
	int64_t by = run->first == 0 ? -1 : 1, count = 0, length = run->end - run->first;
	int64_t inner = by < 0 ? run->end - 1 : run->first;
	if (length < 2 || length == n)
		return 0;
	const Range *next = &ranges[inner - by];
	float value = ranges[inner].low, slope = 3 * fabsf(value - ranges[inner + by].low);
	if (value < next->low - slope || value > next->high + slope)
		return 0;
	while (count < length && !is_air(ranges[inner + count * by].low, widest))
		count++;
	return count;
}

/* Those of a run at an edge that are neither air nor the object become air. */
static int64_t repair_edge(const tomos_array *a, const Run *run, const Range *ranges, float widest,
	ConstantColumns *all)
{
	int64_t n = a->shape[2], found = 0, object = object_columns(run, n, ranges, widest);
	bool left = run->first == 0;
	int64_t first = left ? run->first : run->first + object;
	int64_t end = left ? run->end - object : run->end;
	float air = ranges[left ? run->end : run->first - 1].low;
	for (int64_t c = first; c < end; c++) {
		float value = ranges[c].low; /* 0 is air, also beside a column that has none */
		if (is_air(value, widest) || is_air(value - air, widest))
			continue;
		found++;
		all->first = left ? c + 1 : all->first;
		all->end = left ? all->end : min64(all->end, c);
		if (!run->only_look)
			set_column(a, run->row, c, air);
	}
	return found;
}

/* Corrects a run, and counts the columns of it that need it. */
static void repair_run(const tomos_array *a, const Run *run, const Range *ranges, float widest,
	ConstantColumns *all)
{
	int64_t n = a->shape[2], length = run->end - run->first;
	if (run->first == 0 || run->end == n) {
		all->edges += repair_edge(a, run, ranges, widest, all);
		return;
	}
	if (length > max64((int64_t)(WIDEST * (double)n), 1) ||
		(run->some && is_air(ranges[run->first].low, widest)))
		return;
	if (!run->only_look)
		interpolate(a, run);
	all->inside += length;
}

static ConstantColumns repair_row(
	const tomos_array *a, int64_t row, Range *ranges, bool only_look, bool some)
{
	float widest = take_ranges(a, row, ranges), least = (float)CONSTANT * widest;
	int64_t n = a->shape[2];
	ConstantColumns found = {.end = n};
	if (!(widest > 0 && isfinite(widest)))
		return found;
	for (int64_t c = 0; c < n; c++) {
		Run run = {row, c, c, only_look, some};
		while (run.end < n && ranges[run.end].high - ranges[run.end].low <= least)
			run.end++;
		if (run.end > run.first)
			repair_run(a, &run, ranges, widest, &found);
		c = run.end;
	}
	return found;
}

ConstantColumns constant_columns(const tomos_array *data, int64_t row, float *scratch)
{
	return repair_row(data, row, (Range *)scratch, true, true);
}

typedef struct {
	const tomos_array *data;
	_Atomic int64_t most; /* of a row */
	bool only_look;
} Repair;

static void take_row(const void *user, int64_t row, float *scratch)
{
	Repair *job = *(Repair *const *)user;
	ConstantColumns all = repair_row(job->data, row, (Range *)scratch, job->only_look, false);
	int64_t found = all.inside + all.edges;
	int64_t most = atomic_load(&job->most);
	while (found > most && !atomic_compare_exchange_weak(&job->most, &most, found))
		;
}

static tomos_status repair_rows(Repair *job)
{
	const int64_t *n = job->data->shape;
	return pieces_each(n[1], 2 * n[2], take_row, &job);
}

tomos_status constant_repair(tomos_array *data, float **copy, int64_t *most)
{
	const int64_t *n = data->shape;
	Repair look = {.data = data, .only_look = true};
	tomos_array own;
	*copy = NULL;
	TRY(repair_rows(&look));
	*most = look.most;
	if (look.most == 0)
		return TOMOS_OK;
	TRY(mem_alloc(copy, n[0] * n[1] * n[2], sizeof **copy, "corrected columns"));
	own = tomos_array_of(*copy, n[0], n[1], n[2]);
	for (int64_t i = 0; i < n[0] * n[1]; i++)
		row_get(data, i / n[1], i % n[1], *copy + i * n[2]);
	Repair repair = {.data = &own};
	tomos_status status = repair_rows(&repair);
	if (status != TOMOS_OK) {
		mem_free(*copy);
		*copy = NULL;
		return status;
	}
	*data = own;
	return TOMOS_OK;
}
