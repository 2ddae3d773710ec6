/* All kinds of stripes: broken columns, large ones, small ones.
 *
 * N. T. Vo, R. C. Atwood, M. Drakopoulos, Superior techniques for eliminating ring artifacts in X-ray
 * micro-tomography, Optics Express 26 (2018) 28396-28412, algorithms 3, 5 and 6. Each column is sorted
 * along the views: neighbours then differ by their response alone, a median across columns takes small
 * stripes out, and the values go back to their views. Which columns are broken or belong to large stripes is
 * decided otherwise than there, so that parts of the object are not taken for stripes: by medians over
 * views, which edges of the object do not move, of unrest and of steps up and down again.
 */
#include <string.h>
#include "prep/prep.h"

enum { BITS = 11, BUCKETS = 1 << BITS };
#define AIR 0.1    /* of the largest mean of a column: what is less may be air */
#define USUAL 3.0F /* times the usual step: what chance alone seldom makes */

/* Scratch: the sorted columns [rank][column] and the views they come from; keys and views of one column
 * while it is sorted; lists of one value per column. */
typedef struct {
	float *sorted, *level, *smooth, *kept, *signal, *window;
	int32_t *from;
	uint32_t *keys, *keys2;
	int32_t *index, *index2;
} Room;

/* Windows of 1 % and 3 % of the columns, as far as that makes sense. */
static int64_t small_size(const RingJob *job)
{
	int64_t given = job->options->ring_small;
	return given > 0 ? given : min64(max64(job->columns / 100, 7), 21) | 1;
}

static int64_t large_size(const RingJob *job)
{
	int64_t given = job->options->ring_large;
	return given > 0 ? given : min64(max64(job->columns * 3 / 100, 15), 61) | 1;
}

static int64_t widest(const RingJob *job)
{
	return max64(large_size(job), small_size(job));
}

int64_t ring_vo_floats(const RingJob *job)
{
	return 2 * job->views * job->columns + 4 * job->columns + 4 * job->views + widest(job);
}

static Room room_of(const RingJob *job, float *scratch)
{
	int64_t all = job->views * job->columns, n = job->columns;
	Room r = {.sorted = scratch, .from = (int32_t *)(void *)(scratch + all)};
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

/* ---- sorting columns ---------------------------------------------------------------------- */

/* Whole numbers in the order of the floats, and back. */
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

static void swap_lists(Room *r)
{
	uint32_t *keys = r->keys;
	int32_t *index = r->index;
	r->keys = r->keys2, r->keys2 = keys;
	r->index = r->index2, r->index2 = index;
}

/* By digits of the key, the last one first; equal values stay in the order of their views. */
static void sort_lists(Room *r, int64_t count)
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

static void sort_columns(const RingJob *job, const float *sinogram, Room *r)
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

/* Puts smoothed ranks back to their views. */
static void put_back(const RingJob *job, Room *r, int64_t size, float *sinogram)
{
	int64_t n = job->columns;
	for (int64_t rank = 0; rank < job->views; rank++) {
		median_row(r->sorted + rank * n, r->smooth, n, size, r->window);
		for (int64_t c = 0; c < n; c++)
			sinogram[r->from[rank * n + c] * n + c] = r->smooth[c];
	}
}

/* ---- columns that do not answer, or do so at random ---------------------------------------- */

/* The median over the views of how far a value is from the middle of those before and after. */
static float unrest(const RingJob *job, const float *sinogram, int64_t c, float *values)
{
	int64_t n = job->columns, views = job->views;
	for (int64_t v = 0; v < views; v++) {
		float before = sinogram[index_mirrored(v - 1, views) * n + c];
		float after = sinogram[index_mirrored(v + 1, views) * n + c];
		values[v] = fabsf(sinogram[v * n + c] - 0.5F * (before + after));
	}
	return median_of(values, views);
}

/* Marks columns from .. to-1 and those beside them, which may be touched too. */
static int64_t keep_run(Room *r, int64_t from, int64_t to)
{
	for (int64_t c = from - 1; c <= to; c++)
		r->kept[c] = 1;
	return to - from;
}

/* A broken run is farther from what its neighbours make of it than these are from each other. */
static bool is_broken(
	const RingJob *job, const Room *r, const float *sinogram, int64_t from, int64_t to)
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

/* Of the runs of columns marked in the list, keeps those that are broken, with the columns beside them;
 * returns how many columns. Runs at the very edge have no neighbours to be judged by. */
static int64_t keep_broken(const RingJob *job, Room *r, const float *sinogram)
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

/* Interpolated from the columns beside them. */
static int64_t mend_broken(const RingJob *job, Room *r, float *sinogram)
{
	int64_t n = job->columns;
	float snr = (float)job->options->ring_snr;
	for (int64_t c = 0; c < n; c++)
		r->level[c] = unrest(job, sinogram, c, r->sorted);
	median_row(r->level, r->smooth, n, large_size(job), r->window);
	for (int64_t c = 0; c < n; c++)
		r->level[c] = r->level[c] > snr * r->smooth[c] || snr * r->level[c] < r->smooth[c];
	int64_t found = keep_broken(job, r, sinogram);
	for (int64_t v = 0; found > 0 && v < job->views; v++) {
		for (int64_t c = 0; c < n; c++)
			if (r->kept[c] > 0)
				sinogram[v * n + c] = NAN;
		row_mend(sinogram + v * n, n, 0);
	}
	return found;
}

/* ---- columns that are brighter or darker, many or few -------------------------------------- */

/* The mean of each column over the views. */
static void find_signal(const RingJob *job, const float *sinogram, float *signal)
{
	int64_t n = job->columns;
	memset(signal, 0, (size_t)n * sizeof *signal);
	for (int64_t v = 0; v < job->views; v++)
		for (int64_t c = 0; c < n; c++)
			signal[c] += sinogram[v * n + c] / (float)job->views;
}

/* The median over views of the step about column c: edges of the object, which move from view to view,
 * are no steps of most views. */
static float step_at(const RingJob *job, const float *sinogram, int64_t c, float *values)
{
	int64_t n = job->columns, right = min64(c + 1, n - 1), left = max64(c - 2, 0);
	for (int64_t v = 0; v < job->views; v++)
		values[v] = sinogram[v * n + right] - sinogram[v * n + left];
	return median_of(values, job->views);
}

/* Those steps, less what the slopes of the object make of them. */
static void find_steps(const RingJob *job, Room *r, const float *sinogram)
{
	int64_t n = job->columns;
	for (int64_t c = 0; c < n; c++)
		r->level[c] = step_at(job, sinogram, c, r->sorted);
	median_row(r->level, r->smooth, n, large_size(job), r->window);
	for (int64_t c = 0; c < n; c++)
		r->level[c] -= r->smooth[c];
}

/* The usual size of a step where the object is: in air there is less to differ by. */
static float usual_step(const RingJob *job, Room *r)
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

/* Up at one column and down again by about as much not far from it, or the other way round. */
static bool is_pair(const RingJob *job, float first, float second, int64_t width)
{
	float ratio = -second / first;
	return width >= max64(small_size(job) / 2 + 1, 4) && width <= large_size(job) / 2 &&
	       ratio > 0.5F && ratio < 2;
}

/* Takes the height of its edges from a stripe in columns from .. to-1. */
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

/* One edge after the other; two that make a pair are a stripe. */
static int64_t mend_large(const RingJob *job, Room *r, float *sinogram)
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
	Room r = room_of(job, scratch);
	int64_t found = 0;
	if (large_size(job) > 1) {
		found += mend_broken(job, &r, sinogram);
		found += mend_large(job, &r, sinogram);
	}
	if (small_size(job) > 1) {
		sort_columns(job, sinogram, &r);
		put_back(job, &r, small_size(job), sinogram);
	}
	return found;
}
