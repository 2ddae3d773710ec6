/* Linear resampling of a column, and its transpose: target n is at position start + n step among
 * the samples. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_STRETCH_H
#define TOMOS_BACKEND_CPU_LEVEL_STRETCH_H

#include "backend/cpu/level/quads.h"

/* Columns are padded with PAD zeros at both ends, so that a window of WINDOW samples may begin
 * before the column or end after it. Columns longer than MAX_COLUMN are not supported. */
enum { PAD = WINDOW, MAX_COLUMN = 8192 };

typedef struct {
	double start, step;
	float *mixed;           /* sum of two weighted columns, the samples to be resampled */
	float near2, z, dz;     /* only with by_distance: target n is multiplied by
			     * sqrt(near2 + ((n - z) dz)^2) */
	const float *one, *two; /* the two columns and their weights */
	float left, right;
} Stretch;

/* Floats from one padded column of n samples to the next. */
static inline int64_t column_stride(int64_t n)
{
	return (n + 2 * PAD + LANES - 1) / LANES * LANES;
}

/* Whether LANES targets with this step read samples of one window only, with `more` samples to
 * spare. */
static inline bool lanes_fit(double step, double more)
{
	return (LANES - 1) * (step < 0 ? -step : step) + more < WINDOW - 2;
}

/* How samples are read, by the step: from one vector, from a window, one by one. */
typedef enum { READ_NEAR, READ_WINDOW, READ_ANY } Reading;

static inline Reading stretch_reading(double step)
{
	return step <= 1 && step >= -1 ? READ_NEAR : lanes_fit(step, 1) ? READ_WINDOW : READ_ANY;
}

/* mixed = left * one + right * two, for the samples that `count` targets read. `stride`: floats of
 * a padded column. With steps up to 1 the sum is computed where it is read: loads that overlap
 * recent stores are slow. */
static inline void stretch_mix(Stretch *s, const float *one, const float *two, float left,
	float right, int64_t count, int64_t stride)
{
	s->one = one, s->two = two, s->left = left, s->right = right;
	if (stretch_reading(s->step) == READ_NEAR)
		return;
	double start = s->start, end = start + (double)(count + LANES) * s->step;
	double low = start < end ? start : end, high = start < end ? end : start;
	int64_t from = limit((position_of(low) >> FRACTION_BITS) - 1, -PAD, stride - PAD);
	int64_t to = limit((position_of(high) >> FRACTION_BITS) + 3, -PAD, stride - PAD);
	float *mixed = s->mixed;
	for (int64_t r = (from + PAD) / LANES * LANES; r < to + PAD; r += LANES)
		vf_store(mixed + r, left * vf_load(one + r) + right * vf_load(two + r));
}

/* Linear interpolation of n samples at each lane, the lowest of which is at `position`. */
static inline vf stretch_read(
	const Stretch *s, const Lanes *lanes, int64_t position, int64_t n, const Reading reading)
{
	vf fraction;
	const float *samples = s->mixed + PAD;
	vi j = lanes_at(lanes, position, &fraction);
	int64_t whole = position >> FRACTION_BITS;
	const float *window = samples + limit(whole, -PAD, n);
	vf low, high;
	if (reading == READ_NEAR) {
		const float *one = s->one + (window - s->mixed),
			    *two = s->two + (window - s->mixed);
		low = vf_permute(s->left * vf_load(one) + s->right * vf_load(two), j);
		high = vf_permute(s->left * vf_load(one + 1) + s->right * vf_load(two + 1), j);
	} else if (reading == READ_WINDOW) {
		low = vf_pick(window, j);
		high = vf_pick(window, j + 1);
	} else {
		j = vi_limit(j + (int32_t)whole, -2, (int32_t)n);
		low = vf_load_twos(samples, &j, &high);
	}
	return low + fraction * (high - low);
}

/* Targets [from, to); `from` is a multiple of LANES. */
typedef struct {
	int64_t from, to;
} Range;

/* Those of `count` targets that are less than `beyond` away from n samples, in groups of `group`, a
 * multiple of LANES. */
static inline Range stretch_range(
	double start, double step, double beyond, int64_t n, int64_t count, int64_t group)
{
	if (!(step > 0 || step < 0))
		return (Range){0, count};
	double one = (-beyond - start) / step, two = ((double)n - 1 + beyond - start) / step;
	double low = one < two ? one : two, high = one < two ? two : one;
	low = low > 0 ? low : 0;
	high = high < (double)count ? high + 1 : (double)count;
	if (!(low < high))
		return (Range){0, 0};
	return (Range){(int64_t)low / group * group, min64((int64_t)high + 1, count)};
}

static inline void stretch_add_by(const Stretch *s, const int many, const Range *range, int64_t n,
	const int by_distance, const Reading reading, float *targets)
{
	int64_t p[2], step[2];
	Lanes lanes[2];
	vf away[2];
	for (int v = 0; v < many; v++) {
		step[v] = position_of(LANES * s[v].step);
		p[v] = position_of(s[v].start + lowest_lane(s[v].step)) +
		       range->from / LANES * step[v];
		lanes[v] = lanes_of(s[v].step);
		away[v] = ((float)range->from + vf_lane() - s[v].z) * s[v].dz;
	}
	for (int64_t t = range->from; t < range->to; t += LANES) {
		vf sum = vf_load(targets + t);
		for (int v = 0; v < many; v++) {
			vf value = stretch_read(&s[v], &lanes[v], p[v], n, reading);
			if (by_distance)
				value *= vf_root(s[v].near2 + away[v] * away[v]);
			away[v] += LANES * s[v].dz;
			sum += value;
			p[v] += step[v];
		}
		vf_store(targets + t, sum);
	}
}

static inline void stretch_add_one(
	const Stretch *s, const Range *range, int64_t n, const int by_distance, float *targets)
{
	Reading reading = stretch_reading(s->step);
	if (reading == READ_NEAR)
		stretch_add_by(s, 1, range, n, by_distance, READ_NEAR, targets);
	else if (reading == READ_WINDOW)
		stretch_add_by(s, 1, range, n, by_distance, READ_WINDOW, targets);
	else
		stretch_add_by(s, 1, range, n, by_distance, READ_ANY, targets);
}

/* Resamples the mixed columns of s[0 .. many-1], of n samples each, and adds them to a range of
 * targets. `many` (1 or 2) and `by_distance` are constants. */
static inline void stretch_add(const Stretch *s, const int many, const Range *range, int64_t n,
	const int by_distance, float *targets)
{
	Reading reading = stretch_reading(s[0].step);
	if (many == 2 && reading != stretch_reading(s[1].step)) {
		for (int v = 0; v < 2; v++)
			stretch_add_one(s + v, range, n, by_distance, targets);
	} else if (reading == READ_NEAR) {
		stretch_add_by(s, many, range, n, by_distance, READ_NEAR, targets);
	} else if (reading == READ_WINDOW) {
		stretch_add_by(s, many, range, n, by_distance, READ_WINDOW, targets);
	} else {
		stretch_add_by(s, many, range, n, by_distance, READ_ANY, targets);
	}
}

#endif
