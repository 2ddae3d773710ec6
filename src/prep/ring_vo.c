/* Ring removal for all types of stripes: broken columns, large stripes, small stripes.
 *
 * N. T. Vo, R. C. Atwood, M. Drakopoulos, Superior techniques for eliminating ring artifacts in
 * X-ray micro-tomography, Optics Express 26 (2018) 28396-28412, algorithms 3, 5 and 6. Each column
 * is sorted along the views: neighbouring columns then differ only by their response, a median
 * across columns removes small stripes, and the values are put back to their views. The detection
 * of broken columns and large stripes differs from the paper, so that parts of the object are not
 * taken for stripes: it uses medians over views, which edges of the object hardly change, of the
 * fluctuation along the views and of the jumps between columns.
 */
#include <string.h>
#include "prep/prep.h"

enum { BITS = 11, BUCKETS = 1 << BITS, PASSES = 3, TILE = 16 };
#define AIR 0.1    /* fraction of the largest column mean; below it may be air */
#define USUAL 3.0F /* times the typical jump: seldom reached by noise */

/* Scratch memory: the sinogram as [column][view], where columns are processed one after the other;
 * the sorted columns [column][rank] and the views of their values; one column while it is sorted;
 * lists with one value per column. */
typedef struct {
	float *transposed, *sorted, *level, *smooth, *kept, *signal, *window, *values;
	int32_t *from;
	uint64_t *items, *items2;
} Workspace;

int64_t ring_vo_small(const tomos_prep_options *o, int64_t columns)
{
	return o->ring_small > 0 ? o->ring_small : min64(max64(columns / 100, 7), 21) | 1;
}

int64_t ring_vo_large(const tomos_prep_options *o, int64_t columns)
{
	return o->ring_large > 0 ? o->ring_large : min64(max64(columns * 3 / 100, 15), 61) | 1;
}

static int64_t small_size(const RingJob *job)
{
	return ring_vo_small(job->options, job->columns);
}

static int64_t large_size(const RingJob *job)
{
	return ring_vo_large(job->options, job->columns);
}

static int64_t widest(const RingJob *job)
{
	return max64(large_size(job), small_size(job));
}

int64_t ring_vo_floats(const RingJob *job)
{
	return 3 * job->views * job->columns + 4 * job->columns + 6 * job->views + widest(job) + 1;
}

static Workspace room_of(const RingJob *job, float *scratch)
{
	int64_t all = job->views * job->columns, n = job->columns;
	Workspace r = {.transposed = scratch, .sorted = scratch + all};
	r.from = (int32_t *)(void *)(r.sorted + all);
	r.items = (uint64_t *)(void *)(scratch + (3 * all + 1) / 2 * 2);
	r.items2 = r.items + job->views;
	r.values = (float *)(void *)(r.items2 + job->views);
	r.level = r.values + 2 * job->views;
	r.smooth = r.level + n;
	r.kept = r.smooth + n;
	r.signal = r.kept + n;
	r.window = r.signal + n;
	return r;
}

/* out[column][row] = in[row][column]; tiles, because a power of two of columns would use few cache
 * sets. */
static void transpose(const float *in, int64_t rows, int64_t columns, float *out)
{
	for (int64_t r = 0; r < rows; r += TILE)
		for (int64_t c = 0; c < columns; c += TILE)
			for (int64_t i = c; i < min64(c + TILE, columns); i++)
				for (int64_t j = r; j < min64(r + TILE, rows); j++)
					out[i * rows + j] = in[j * columns + i];
}

/* ---- small stripes: sorted columns ----------------------------------------------------------- */

static uint64_t digit_of(uint64_t item, int pass)
{
	return item >> (32 + pass * BITS) & (BUCKETS - 1);
}

/* Radix sort by digits of the key, the upper half of an item; stable: equal values stay in the
 * order of their views. Digits that all keys share need no pass. */
static void sort_items(Workspace *r, int64_t count)
{
	int32_t begins[PASSES][BUCKETS] = {{0}};
	for (int64_t i = 0; i < count; i++)
		for (int p = 0; p < PASSES; p++)
			begins[p][digit_of(r->items[i], p)]++;
	for (int p = 0; p < PASSES; p++) {
		int32_t sum = 0;
		if (begins[p][digit_of(r->items[0], p)] == count)
			continue;
		for (int b = 0; b < BUCKETS; b++) {
			int32_t here = begins[p][b];
			begins[p][b] = sum;
			sum += here;
		}
		for (int64_t i = 0; i < count; i++)
			r->items2[begins[p][digit_of(r->items[i], p)]++] = r->items[i];
		uint64_t *items = r->items;
		r->items = r->items2, r->items2 = items;
	}
}

static void sort_columns(const RingJob *job, Workspace *r)
{
	int64_t views = job->views;
	for (int64_t c = 0; c < job->columns; c++) {
		const float *column = r->transposed + c * views;
		for (int64_t v = 0; v < views; v++)
			r->items[v] = (uint64_t)key_of(column[v]) << 32 | (uint64_t)v;
		sort_items(r, views);
		for (int64_t v = 0; v < views; v++) {
			r->sorted[c * views + v] = value_of((uint32_t)(r->items[v] >> 32));
			r->from[c * views + v] = (int32_t)(uint32_t)r->items[v];
		}
	}
}

/* The same for wide medians, which are better computed along the columns. */
static void put_back_ranks(const RingJob *job, Workspace *r, int64_t size)
{
	int64_t views = job->views, n = job->columns;
	for (int64_t rank = 0; rank < views; rank++) {
		for (int64_t c = 0; c < n; c++)
			r->signal[c] = r->sorted[c * views + rank];
		median_row(r->signal, r->smooth, n, size, r->window);
		for (int64_t c = 0; c < n; c++)
			r->transposed[c * views + r->from[c * views + rank]] = r->smooth[c];
	}
}

static void put_column(const RingJob *job, Workspace *r, int64_t c, const float *values)
{
	float *column = r->transposed + c * job->views;
	const int32_t *from = r->from + c * job->views;
	for (int64_t v = 0; v < job->views; v++)
		column[from[v]] = values[v];
}

/* Medians across columns of the values of the same rank, put back to their views. */
static void put_back(const RingJob *job, Workspace *r, int64_t size)
{
	int64_t views = job->views, n = job->columns;
	float *next = r->values + views;
	for (int64_t c = 0; c < n; c += 2) {
		if (!median_lines(r->sorted, n, views, c, size, r->values, next)) {
			put_back_ranks(job, r, size);
			return;
		}
		put_column(job, r, c, r->values);
		if (c + 1 < n)
			put_column(job, r, c + 1, next);
	}
}

/* ---- broken columns: unresponsive or fluctuating --------------------------------------------- */

/* Median over the views of the difference between a value and the mean of its neighbours in
 * time. */
static float fluctuation(const float *column, int64_t views, float *values)
{
	for (int64_t v = 1; v + 1 < views; v++)
		values[v] = fabsf(column[v] - 0.5F * (column[v - 1] + column[v + 1]));
	for (int64_t v = 0; v < views; v += max64(views - 1, 1)) {
		float before = column[max64(v - 1, 0)], after = column[min64(v + 1, views - 1)];
		values[v] = fabsf(column[v] - 0.5F * (before + after));
	}
	return median_many(values, views);
}

/* Marks columns from .. to-1 and their neighbours, which may be affected, too. */
static int64_t keep_run(Workspace *r, int64_t from, int64_t to)
{
	for (int64_t c = from - 1; c <= to; c++)
		r->kept[c] = 1;
	return to - from;
}

/* A run is broken if it differs from the interpolation of its neighbours by more than these
 * differ. */
static bool is_broken(const RingJob *job, const Workspace *r, int64_t from, int64_t to)
{
	int64_t views = job->views;
	double far = 0, near = 0, noise = (double)r->smooth[from];
	const float *before = r->transposed + (from - 2) * views,
		    *after = r->transposed + (to + 1) * views;
	for (int64_t v = 0; v < views; v++) {
		double left = (double)before[v], right = (double)after[v];
		for (int64_t c = from; c < to; c++)
			far += fabs((double)r->transposed[c * views + v] - 0.5 * (left + right)) /
			       (double)(to - from);
		near += 0.5 * fabs(left - right);
	}
	return far > 2 * near + job->options->ring_snr * noise * (double)views;
}

/* Of the runs of marked columns, keeps the broken ones and their neighbours; returns the number of
 * columns. Runs at the edge are not corrected, because they have a neighbour on one side only. */
static int64_t keep_broken(const RingJob *job, Workspace *r)
{
	int64_t n = job->columns, found = 0;
	memset(r->kept, 0, (size_t)n * sizeof *r->kept);
	for (int64_t from = 0; from < n; from++) {
		int64_t to = from;
		while (to < n && r->level[to] > 0)
			to++;
		if (from >= 2 && to > from && to + 2 <= n && is_broken(job, r, from, to))
			found += keep_run(r, from, to);
		from = max64(from, to - 1);
	}
	return found;
}

/* Interpolates broken columns from their neighbours. */
static int64_t repair_broken(const RingJob *job, Workspace *r)
{
	int64_t n = job->columns, views = job->views;
	float snr = (float)job->options->ring_snr;
	for (int64_t c = 0; c < n; c++)
		r->level[c] = fluctuation(r->transposed + c * views, views, r->values);
	median_row(r->level, r->smooth, n, large_size(job), r->window);
	for (int64_t c = 0; c < n; c++)
		r->level[c] = r->level[c] > snr * r->smooth[c] || snr * r->level[c] < r->smooth[c];
	int64_t found = keep_broken(job, r);
	for (int64_t v = 0; found > 0 && v < views; v++) {
		for (int64_t c = 0; c < n; c++)
			r->signal[c] = r->kept[c] > 0 ? NAN : r->transposed[c * views + v];
		row_repair(r->signal, n, 0);
		for (int64_t c = 0; c < n; c++)
			r->transposed[c * views + v] = r->signal[c];
	}
	return found;
}

/* ---- large stripes: brighter or darker columns ----------------------------------------------- */

/* The mean of each column over the views. */
static void find_signal(const RingJob *job, const Workspace *r)
{
	for (int64_t c = 0; c < job->columns; c++) {
		const float *column = r->transposed + c * job->views;
		r->signal[c] = 0;
		for (int64_t v = 0; v < job->views; v++)
			r->signal[c] += column[v] / (float)job->views;
	}
}

/* Median over views of the jump at column c: edges of the object move from view to view, so most
 * views have no jump there. */
static float step_at(const RingJob *job, const Workspace *r, int64_t c)
{
	int64_t n = job->columns, views = job->views;
	const float *right = r->transposed + min64(c + 1, n - 1) * views;
	const float *left = r->transposed + max64(c - 2, 0) * views;
	for (int64_t v = 0; v < views; v++)
		r->values[v] = right[v] - left[v];
	return median_many(r->values, views);
}

/* These jumps, minus the contribution of slopes of the object. */
static void find_steps(const RingJob *job, Workspace *r)
{
	int64_t n = job->columns;
	for (int64_t c = 0; c < n; c++)
		r->level[c] = step_at(job, r, c);
	median_row(r->level, r->smooth, n, large_size(job), r->window);
	for (int64_t c = 0; c < n; c++)
		r->level[c] -= r->smooth[c];
}

/* Typical jump within the object; in air the jumps are smaller. */
static float usual_step(const RingJob *job, Workspace *r)
{
	int64_t n = job->columns, used = 0;
	float most = 0;
	for (int64_t c = 0; c < n; c++)
		most = fmaxf(most, r->signal[c]);
	for (int64_t c = 0; c < n; c++)
		if (r->signal[c] >= (float)AIR * most)
			r->smooth[used++] = fabsf(r->level[c]);
	return used > 0 ? median_of(r->smooth, used) : 0;
}

/* Whether two jumps are opposite, of similar size and close to each other. */
static bool is_pair(const RingJob *job, float first, float second, int64_t width)
{
	float ratio = -second / first;
	return width >= max64(small_size(job) / 2 + 1, 4) && width <= large_size(job) / 2 &&
	       ratio > 0.5F && ratio < 2;
}

/* Subtracts the height of its edges from the stripe in columns from .. to-1. */
static int64_t level_run(
	const RingJob *job, const Workspace *r, int64_t from, int64_t to, float first, float second)
{
	for (int64_t c = from; c < to; c++) {
		float share = ((float)(c - from) + 0.5F) / (float)(to - from);
		float height = first + share * (-second - first);
		for (int64_t v = 0; v < job->views; v++)
			r->transposed[c * job->views + v] -= height;
	}
	return to - from;
}

/* Finds pairs of jumps, which are the edges of stripes, and corrects these. */
static int64_t correct_large(const RingJob *job, Workspace *r)
{
	int64_t n = job->columns, found = 0, last = 0;
	float height = 0;
	find_signal(job, r);
	find_steps(job, r);
	float least = (float)job->options->ring_snr * USUAL * usual_step(job, r);
	for (int64_t c = 0, end; c < n; c = max64(end, c + 1)) {
		float most = 0;
		for (end = c; end < n && fabsf(r->level[end]) > least && most * r->level[end] >= 0;
			end++)
			most = fabsf(r->level[end]) > fabsf(most) ? r->level[end] : most;
		if (end == c)
			continue;
		int64_t at = (c + end) / 2;
		if (height != 0 && is_pair(job, height, most, at - last))
			found += level_run(job, r, last, at, height, most);
		height = most;
		last = at;
	}
	return found;
}

int64_t ring_vo(const RingJob *job, float *sinogram, float *scratch)
{
	Workspace r = room_of(job, scratch);
	int64_t found = 0;
	transpose(sinogram, job->views, job->columns, r.transposed);
	if (large_size(job) > 1) {
		found += repair_broken(job, &r);
		found += correct_large(job, &r);
	}
	if (small_size(job) > 1) {
		sort_columns(job, &r);
		put_back(job, &r, small_size(job));
	}
	transpose(r.transposed, job->columns, job->views, sinogram);
	return found;
}
