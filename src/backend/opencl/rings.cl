/* Preparation: ring removal 'vo' (prep/ring_vo.c has the paper), on a batch of sinograms. Each
 * kernel does what the function of a similar name there does. */
#include "backend/opencl/prep_tools.cl"

#define AIR 0.1f
#define USUAL 3.0f

static inline global float *at(
	const PrepVo *v, global float *data, long sinogram, long view, long c)
{
	return data + view * v->view + sinogram * v->columns + c;
}

static inline global float *list_of(const PrepVo *v, global float *lists, int which, long sinogram)
{
	return lists + which * v->list + sinogram * v->columns;
}

/* ---- medians --------------------------------------------------------------------------------- */

/* Difference between a value and the mean of its neighbours in time. */
static inline float fluctuation(const PrepVo *v, global float *data, long s, int view, long c)
{
	float before = *at(v, data, s, max(view - 1, 0), c);
	float after = *at(v, data, s, min(view + 1, v->views - 1), c);
	return fabs(*at(v, data, s, view, c) - 0.5f * (before + after));
}

/* Jump at column c. */
static inline float jump(const PrepVo *v, global float *data, long s, int view, long c)
{
	return *at(v, data, s, view, min(c + 1, (long)v->columns - 1)) -
	       *at(v, data, s, view, max(c - 2, 0L));
}

/* Over the views, of fluctuations or of jumps. */
PLANE do_vo_medians(PrepVo v, int jumps, global float *data, long data0, global float *lists,
	long lists0)
{
	data += data0;
	EACH(s, 1, v.count)
	EACH(c, 0, v.columns) {
		float median;
		if (jumps)
			MEDIAN(median, v.views, jump(&v, data, s, i, c));
		else
			MEDIAN(median, v.views, fluctuation(&v, data, s, i, c));
		list_of(&v, lists + lists0, VO_LEVEL, s)[c] = median;
	}
}

/* Of these across columns. */
PLANE do_vo_smooth(PrepVo v, global float *lists, long lists0)
{
	EACH(s, 1, v.count)
	EACH(c, 0, v.columns) {
		global const float *level = list_of(&v, lists + lists0, VO_LEVEL, s);
		int first = (int)c - v.large / 2;
		float median;
		MEDIAN(median, v.large, level[mirrored(first + i, v.columns)]);
		list_of(&v, lists + lists0, VO_SMOOTH, s)[c] = median;
	}
}

/* ---- broken columns -------------------------------------------------------------------------- */

static inline bool suspicious(const PrepVo *v, global float *lists, long s, int c)
{
	float level = list_of(v, lists, VO_LEVEL, s)[c];
	float smooth = list_of(v, lists, VO_SMOOTH, s)[c];
	return level > v->snr * smooth || v->snr * level < smooth;
}

static bool is_broken(
	const PrepVo *v, global float *data, long s, int from, int to, float noise)
{
	double far = 0, near = 0;
	for (int view = 0; view < v->views; view++) {
		global const float *row = at(v, data, s, view, 0);
		double left = row[from - 2], right = row[to + 1];
		for (int c = from; c < to; c++)
			far += fabs((double)row[c] - 0.5 * (left + right)) / (to - from);
		near += 0.5 * fabs(left - right);
	}
	return far > 2 * near + (double)v->snr * (double)noise * v->views;
}

/* Runs of suspicious columns that are broken, with their neighbours. */
PLANE do_vo_keep(PrepVo v, global float *data, long data0, global float *lists, long lists0,
	global uint *found, long found0)
{
	lists += lists0;
	global int *broken = (global int *)(lists + VO_LISTS * v.list);
	EACH(s, 1, v.count)
	EACH(from, 0, v.columns) {
		int to = (int)from;
		if (from < 2 || suspicious(&v, lists, s, (int)from - 1))
			continue;
		while (to < v.columns && suspicious(&v, lists, s, to))
			to++;
		if (to == from || to + 2 > v.columns ||
			!is_broken(&v, data + data0, s, (int)from, to,
				list_of(&v, lists, VO_SMOOTH, s)[from]))
			continue;
		for (long c = from - 1; c <= to; c++)
			list_of(&v, lists, VO_KEPT, s)[c] = 1;
		broken[s] = 1;
		count_more(found + found0, (uint)(to - from));
	}
}

/* The nearest good column in that direction, or the one after the last. */
static inline int next_good(
	const PrepVo *v, global const float *kept, global const float *row, int c, int step)
{
	while (c >= 0 && c < v->columns && (kept[c] > 0 || !isfinite(row[c])))
		c += step;
	return c;
}

/* Good values are read and bad ones written. */
PLANE do_vo_repair(PrepVo v, global float *data, long data0, global float *lists, long lists0)
{
	lists += lists0;
	global const int *broken = (global const int *)(lists + VO_LISTS * v.list);
	EACH(s, 2, v.count)
	EACH(view, 1, v.views)
	EACH(c, 0, v.columns) {
		global const float *kept = list_of(&v, lists, VO_KEPT, s);
		global float *row = at(&v, data + data0, s, view, 0);
		if (broken[s] == 0 || (kept[c] == 0 && isfinite(row[c])))
			continue;
		int before = next_good(&v, kept, row, (int)c, -1);
		int after = next_good(&v, kept, row, (int)c, 1);
		float left = before >= 0 ? row[before] : after < v.columns ? row[after] : 0;
		float right = after < v.columns ? row[after] : left;
		row[c] = left + (right - left) * (float)(c - before) / (float)(after - before);
	}
}

/* ---- large stripes --------------------------------------------------------------------------- */

/* The mean of each column over the views. */
PLANE do_vo_signal(PrepVo v, global float *data, long data0, global float *lists, long lists0)
{
	EACH(s, 1, v.count)
	EACH(c, 0, v.columns) {
		float sum = 0;
		for (int view = 0; view < v.views; view++)
			sum += *at(&v, data + data0, s, view, c) / (float)v.views;
		list_of(&v, lists + lists0, VO_SIGNAL, s)[c] = sum;
	}
}

/* Typical jump within the object. The list of smooth jumps is overwritten. */
static float usual_jump(const PrepVo *v, global float *lists, long s)
{
	global const float *signal = list_of(v, lists, VO_SIGNAL, s);
	global const float *level = list_of(v, lists, VO_LEVEL, s);
	global float *within = list_of(v, lists, VO_SMOOTH, s);
	float most = 0, median = 0;
	int used = 0;
	for (int c = 0; c < v->columns; c++)
		most = fmax(most, signal[c]);
	for (int c = 0; c < v->columns; c++)
		if (signal[c] >= AIR * most)
			within[used++] = fabs(level[c]);
	if (used > 0)
		MEDIAN(median, used, within[i]);
	return median;
}

static inline bool is_pair(const PrepVo *v, float first, float second, int width)
{
	float ratio = -second / first;
	return width >= max(v->small / 2 + 1, 4) && width <= v->large / 2 && ratio > 0.5f &&
	       ratio < 2;
}

/* Height of the stripe in columns from .. to - 1. */
static inline int level_run(global float *height, int from, int to, float first, float second)
{
	for (int c = from; c < to; c++) {
		float share = ((float)(c - from) + 0.5f) / (float)(to - from);
		height[c] = first + share * (-second - first);
	}
	return to - from;
}

/* Pairs of jumps, which are the edges of stripes. */
static int find_pairs(const PrepVo *v, global float *lists, long s, float least)
{
	global const float *level = list_of(v, lists, VO_LEVEL, s);
	global float *heights = list_of(v, lists, VO_HEIGHT, s);
	int n = v->columns, count = 0, last = 0;
	float height = 0;
	for (int c = 0, end; c < n; c = max(end, c + 1)) {
		float most = 0;
		for (end = c; end < n && fabs(level[end]) > least && most * level[end] >= 0; end++)
			most = fabs(level[end]) > fabs(most) ? level[end] : most;
		if (end == c)
			continue;
		int middle = (c + end) / 2;
		if (height != 0 && is_pair(v, height, most, middle - last))
			count += level_run(heights, last, middle, height, most);
		height = most;
		last = middle;
	}
	return count;
}

/* One sinogram per work-item. */
LINE do_vo_stripes(PrepVo v, global float *lists, long lists0, global uint *found, long found0)
{
	lists += lists0;
	EACH(s, 0, v.count) {
		global float *level = list_of(&v, lists, VO_LEVEL, s);
		global const float *smooth = list_of(&v, lists, VO_SMOOTH, s);
		for (int c = 0; c < v.columns; c++)
			level[c] -= smooth[c];
		float least = v.snr * USUAL * usual_jump(&v, lists, s);
		int count = find_pairs(&v, lists, s, least);
		if (count > 0)
			count_more(found + found0, (uint)count);
	}
}

PLANE do_vo_subtract(PrepVo v, global float *data, long data0, global float *lists, long lists0)
{
	EACH(s, 2, v.count)
	EACH(view, 1, v.views)
	EACH(c, 0, v.columns)
		*at(&v, data + data0, s, view, c) -= list_of(&v, lists + lists0, VO_HEIGHT, s)[c];
}

/* ---- small stripes: sorted columns ----------------------------------------------------------- */

/* Items [sinogram][column][rank]: the key in the upper half, then the view, so that all differ. */
PLANE do_vo_items(PrepVo v, global float *data, long data0, global float *lists, long lists0,
	global float *items, long items0)
{
	global ulong *to = (global ulong *)(items + items0);
	EACH(s, 2, v.count)
	EACH(view, 1, v.views)
	EACH(c, 0, v.columns) {
		float height = list_of(&v, lists + lists0, VO_HEIGHT, s)[c];
		ulong key = key_of(*at(&v, data + data0, s, view, c) - height);
		to[(s * v.columns + c) * v.views + view] = key << 32 | (ulong)view;
	}
}

/* Merges sorted runs of `width` items, two by two: the place of an item is its place in its own run
 * plus the number of smaller items in the other. */
PLANE do_vo_merge(PrepVo v, long width, global const float *items, long items0, global float *out,
	long out0)
{
	EACH(s, 2, v.count)
	EACH(c, 1, v.columns)
	EACH(i, 0, v.views) {
		long column = (s * v.columns + c) * v.views;
		global const ulong *in = (global const ulong *)(items + items0) + column;
		long start = i / (2 * width) * (2 * width);
		long middle = min(start + width, (long)v.views);
		long end = min(start + 2 * width, (long)v.views);
		bool first = i < middle;
		long low = first ? middle : start, high = first ? end : middle, before = low;
		ulong item = in[i];
		while (low < high) {
			long between = (low + high) / 2;
			bool smaller = in[between] < item;
			low = smaller ? between + 1 : low;
			high = smaller ? high : between;
		}
		long place = start + (i - (first ? start : middle)) + (low - before);
		((global ulong *)(out + out0))[column + place] = item;
	}
}

#define WINDOW 64 /* the widest sorted window in private memory */
#define PART 32   /* columns per work-item */

/* Place of a key in a sorted window. */
static inline int place_of(const uint *window, int count, uint key)
{
	int place = 0;
	for (int i = 0; i < count; i++)
		place += window[i] < key;
	return place;
}

static inline void insert(uint *window, int count, uint key)
{
	int place = place_of(window, count, key);
	for (int i = count; i > place; i--)
		window[i] = window[i - 1];
	window[place] = key;
}

static inline void take_out(uint *window, int count, uint key)
{
	for (int i = place_of(window, count, key); i + 1 < count; i++)
		window[i] = window[i + 1];
}

/* Key of that rank in a column, mirrored beyond the first and last. */
static inline uint key_at(const PrepVo *v, global const ulong *items, int c, long rank)
{
	return (uint)(items[(long)mirrored(c, v->columns) * v->views + rank] >> 32);
}

/* Medians across columns of the values of the same rank, put back to their views. */
PLANE do_vo_put(PrepVo v, global const float *items, long items0, global float *data, long data0)
{
	int size = v.small, reach = size / 2;
	EACH(s, 2, v.count)
	EACH(part, 1, (v.columns + PART - 1) / PART)
	EACH(rank, 0, v.views) {
		global const ulong *in =
			(global const ulong *)(items + items0) + s * v.columns * v.views;
		uint window[WINDOW];
		int first = (int)part * PART, end = min(first + PART, v.columns);
		for (int i = 0; size <= WINDOW && i < size; i++)
			insert(window, i, key_at(&v, in, first - reach + i, rank));
		for (int c = first; c < end; c++) {
			long view = (long)(in[(long)c * v.views + rank] & 0xffffffffu);
			float median;
			if (size > WINDOW) {
				MEDIAN(median, size,
					value_of(key_at(&v, in, c - reach + i, rank)));
			} else {
				median = value_of(window[reach]);
				take_out(window, size, key_at(&v, in, c - reach, rank));
				insert(window, size - 1, key_at(&v, in, c + reach + 1, rank));
			}
			*at(&v, data + data0, s, view, c) = median;
		}
	}
}
