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

enum { BITS = 11, BUCKETS = 1 << BITS };
#define AIR 0.1    /* fraction of the largest column mean; below it may be air */
#define USUAL 3.0F /* times the typical jump: seldom reached by noise */

/* Scratch memory: the sorted columns [rank][column] and their view indices; keys and view indices
 * of one column while it is sorted; lists with one value per column. */
typedef struct {
	float *sorted, *level, *smooth, *kept, *signal, *window;
	int32_t *from;
	uint32_t *keys, *keys2;
	int32_t *index, *index2;
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
	return 2 * job->views * job->columns + 4 * job->columns + 4 * job->views + widest(job);
}

static Workspace room_of(const RingJob *job, float *scratch)
{
	int64_t all = job->views * job->columns, n = job->columns;
	Workspace r = {.sorted = scratch, .from = (int32_t *)(void *)(scratch + all)};
	r.level = scratch + 2 * all;
	r.smooth = r.level + n;
	r.kept = r.smooth + n;
	r.signal = r.kept + n;
	r.window = r.signal + n;
	r.keys = (uint32_t *)(void *)(r.window + widest(job));
	r.keys2 = r.keys + job->views;
	r.index = (int32_t *)(void *)(r.keys2 + job->views);
	r.index2 = r.index + job->views;
	return r;
}

/* ---- sorting columns ------------------------------------------------------------------------- */

/* Maps floats to integers of the same order, and back. */
static uint32_t key_of(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float value_of(uint32_t key)
{
	uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static void swap_lists(Workspace *r)
{
	uint32_t *keys = r->keys;
	int32_t *index = r->index;
	r->keys = r->keys2, r->keys2 = keys;
	r->index = r->index2, r->index2 = index;
}

/* Radix sort by digits of the key, stable: equal values stay in the order of their views. */
static void sort_lists(Workspace *r, int64_t count)
{
	for (int shift = 0; shift < 32; shift += BITS) {
		int64_t begins[BUCKETS] = {0}, sum = 0;
		for (int64_t i = 0; i < count; i++)
			begins[r->keys[i] >> shift & (BUCKETS - 1)]++;
		for (int b = 0; b < BUCKETS; b++) {
			int64_t here = begins[b];
			begins[b] = sum;
			sum += here;
		}
		for (int64_t i = 0; i < count; i++) {
			int64_t to = begins[r->keys[i] >> shift & (BUCKETS - 1)]++;
			r->keys2[to] = r->keys[i];
			r->index2[to] = r->index[i];
		}
		swap_lists(r);
	}
}

static void sort_columns(const RingJob *job, const float *sinogram, Workspace *r)
{
	int64_t n = job->columns;
	for (int64_t c = 0; c < n; c++) {
		for (int64_t v = 0; v < job->views; v++) {
			r->keys[v] = key_of(sinogram[v * n + c]);
			r->index[v] = (int32_t)v;
		}
		sort_lists(r, job->views);
		for (int64_t v = 0; v < job->views; v++) {
			r->sorted[v * n + c] = value_of(r->keys[v]);
			r->from[v * n + c] = r->index[v];
		}
	}
}

/* Puts the smoothed values back to their views. */
static void put_back(const RingJob *job, Workspace *r, int64_t size, float *sinogram)
{
	int64_t n = job->columns;
	for (int64_t rank = 0; rank < job->views; rank++) {
		median_row(r->sorted + rank * n, r->smooth, n, size, r->window);
		for (int64_t c = 0; c < n; c++)
			sinogram[r->from[rank * n + c] * n + c] = r->smooth[c];
	}
}

/* ---- broken columns: unresponsive or fluctuating --------------------------------------------- */

/* Median over the views of the difference between a value and the mean of its neighbours in
 * time. */
static float fluctuation(const RingJob *job, const float *sinogram, int64_t c, float *values)
{
	int64_t n = job->columns, views = job->views;
	for (int64_t v = 0; v < views; v++) {
		float before = sinogram[index_mirrored(v - 1, views) * n + c];
		float after = sinogram[index_mirrored(v + 1, views) * n + c];
		values[v] = fabsf(sinogram[v * n + c] - 0.5F * (before + after));
	}
	return median_of(values, views);
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
static bool is_broken(
	const RingJob *job, const Workspace *r, const float *sinogram, int64_t from, int64_t to)
{
	double far = 0, near = 0, noise = (double)r->smooth[from];
	for (int64_t v = 0; v < job->views; v++) {
		const float *row = sinogram + v * job->columns;
		double left = (double)row[from - 2], right = (double)row[to + 1];
		for (int64_t c = from; c < to; c++)
			far += fabs((double)row[c] - 0.5 * (left + right)) / (double)(to - from);
		near += 0.5 * fabs(left - right);
	}
	return far > 2 * near + job->options->ring_snr * noise * (double)job->views;
}

/* Of the runs of marked columns, keeps the broken ones and their neighbours; returns the number of
 * columns. Runs at the edge are not corrected, because they have a neighbour on one side only. */
static int64_t keep_broken(const RingJob *job, Workspace *r, const float *sinogram)
{
	int64_t n = job->columns, found = 0;
	memset(r->kept, 0, (size_t)n * sizeof *r->kept);
	for (int64_t from = 0; from < n; from++) {
		int64_t to = from;
		while (to < n && r->level[to] > 0)
			to++;
		if (from >= 2 && to > from && to + 2 <= n && is_broken(job, r, sinogram, from, to))
			found += keep_run(r, from, to);
		from = max64(from, to - 1);
	}
	return found;
}

/* Interpolates broken columns from their neighbours. */
static int64_t repair_broken(const RingJob *job, Workspace *r, float *sinogram)
{
	int64_t n = job->columns;
	float snr = (float)job->options->ring_snr;
	for (int64_t c = 0; c < n; c++)
		r->level[c] = fluctuation(job, sinogram, c, r->sorted);
	median_row(r->level, r->smooth, n, large_size(job), r->window);
	for (int64_t c = 0; c < n; c++)
		r->level[c] = r->level[c] > snr * r->smooth[c] || snr * r->level[c] < r->smooth[c];
	int64_t found = keep_broken(job, r, sinogram);
	for (int64_t v = 0; found > 0 && v < job->views; v++) {
		for (int64_t c = 0; c < n; c++)
			if (r->kept[c] > 0)
				sinogram[v * n + c] = NAN;
		row_repair(sinogram + v * n, n, 0);
	}
	return found;
}

/* ---- large stripes: brighter or darker columns ----------------------------------------------- */

/* The mean of each column over the views. */
static void find_signal(const RingJob *job, const float *sinogram, float *signal)
{
	int64_t n = job->columns;
	memset(signal, 0, (size_t)n * sizeof *signal);
	for (int64_t v = 0; v < job->views; v++)
		for (int64_t c = 0; c < n; c++)
			signal[c] += sinogram[v * n + c] / (float)job->views;
}

/* Median over views of the jump at column c: edges of the object move from view to view, so most
 * views have no jump there. */
static float step_at(const RingJob *job, const float *sinogram, int64_t c, float *values)
{
	int64_t n = job->columns, right = min64(c + 1, n - 1), left = max64(c - 2, 0);
	for (int64_t v = 0; v < job->views; v++)
		values[v] = sinogram[v * n + right] - sinogram[v * n + left];
	return median_of(values, job->views);
}

/* These jumps, minus the contribution of slopes of the object. */
static void find_steps(const RingJob *job, Workspace *r, const float *sinogram)
{
	int64_t n = job->columns;
	for (int64_t c = 0; c < n; c++)
		r->level[c] = step_at(job, sinogram, c, r->sorted);
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
	const RingJob *job, float *sinogram, int64_t from, int64_t to, float first, float second)
{
	for (int64_t c = from; c < to; c++) {
		float share = ((float)(c - from) + 0.5F) / (float)(to - from);
		float height = first + share * (-second - first);
		for (int64_t v = 0; v < job->views; v++)
			sinogram[v * job->columns + c] -= height;
	}
	return to - from;
}

/* Finds pairs of jumps, which are the edges of stripes, and corrects these. */
static int64_t correct_large(const RingJob *job, Workspace *r, float *sinogram)
{
	int64_t n = job->columns, found = 0, last = 0;
	float height = 0;
	find_signal(job, sinogram, r->signal);
	find_steps(job, r, sinogram);
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
			found += level_run(job, sinogram, last, at, height, most);
		height = most;
		last = at;
	}
	return found;
}

int64_t ring_vo(const RingJob *job, float *sinogram, float *scratch)
{
	Workspace r = room_of(job, scratch);
	int64_t found = 0;
	if (large_size(job) > 1) {
		found += repair_broken(job, &r, sinogram);
		found += correct_large(job, &r, sinogram);
	}
	if (small_size(job) > 1) {
		sort_columns(job, sinogram, &r);
		put_back(job, &r, small_size(job), sinogram);
	}
	return found;
}
