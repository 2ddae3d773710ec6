/* Linear resampling of a column, and its transpose: target n is at position start + n step among
 * the samples. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_STRETCH_H
#define TOMOS_BACKEND_CPU_LEVEL_STRETCH_H

#include "backend/cpu/level/simd.h"

/* Columns are padded with PAD zeros at both ends, so that a window of WINDOW samples may begin
 * before the column or end after it. Columns longer than MAX_COLUMN are not supported. */
enum { PAD = WINDOW, MAX_COLUMN = 8192 };

typedef struct {
	double start, step;
	float *mixed;       /* sum of two weighted columns, the samples to be resampled */
	float near2, z, dz; /* only with by_distance: target n is multiplied by */
} Stretch;                  /* sqrt(near2 + ((n - z) dz)^2) */

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

/* mixed = left * one + right * two, for the samples that `count` targets read. `stride`: floats of
 * a padded column. */
static inline void stretch_mix(const Stretch *s, const float *one, const float *two, float left,
	float right, int64_t count, int64_t stride)
{
	double start = s->start, end = start + (double)(count + LANES) * s->step;
	double low = start < end ? start : end, high = start < end ? end : start;
	int64_t from = limit((position_of(low) >> FRACTION_BITS) - 1, -PAD, stride - PAD);
	int64_t to = limit((position_of(high) >> FRACTION_BITS) + 3, -PAD, stride - PAD);
	float *mixed = s->mixed;
	for (int64_t r = (from + PAD) / LANES * LANES; r < to + PAD; r += LANES)
		vf_store(mixed + r, left * vf_load(one + r) + right * vf_load(two + r));
}

/* Resamples the mixed columns of s[0 .. many-1], of n samples each, and adds them to `count`
 * targets. `many` (1 or 2) and `by_distance` are constants. */
static inline void stretch_add(const Stretch *s, const int many, int64_t count, int64_t n,
	const int by_distance, float *targets)
{
	int64_t p[2], step[2];
	Lanes lanes[2];
	vf away[2];
	for (int v = 0; v < many; v++) {
		p[v] = position_of(s[v].start + lowest_lane(s[v].step));
		step[v] = position_of(LANES * s[v].step);
		lanes[v] = lanes_of(s[v].step);
		away[v] = (vf_lane() - s[v].z) * s[v].dz;
	}
	for (int64_t t = 0; t < count; t += LANES) {
		vf sum = vf_load(targets + t);
		for (int v = 0; v < many; v++) {
			int64_t i = limit(p[v] >> FRACTION_BITS, -PAD, n);
			vf value = vf_interpolate(s[v].mixed + PAD + i, &lanes[v], p[v]);
			if (by_distance)
				value *= vf_sqrt(s[v].near2 + away[v] * away[v]);
			away[v] += LANES * s[v].dz;
			sum += value;
			p[v] += step[v];
		}
		vf_store(targets + t, sum);
	}
}

/* The transpose of resampling with the inverse step. Sample r is at (r - start) / step among the
 * targets; target n receives the samples closer than one target, weighted by a hat function of half
 * width one target and by `weight`. `hats`: largest number of samples under a hat. */
static inline void stretch_gather(const Stretch *s, const float *column, float weight,
	int64_t count, int64_t n, const int hats, float *targets)
{
	float reach = (float)(s->step < 0 ? -s->step : s->step), pitch = 1 / reach;
	int64_t p = position_of(s->start + lowest_lane(s->step) - reach);
	int64_t step = position_of(LANES * s->step);
	Lanes lanes = lanes_of(s->step);
	for (int64_t t = 0; t < count; t += LANES, p += step) {
		const float *window = column + PAD + limit(p >> FRACTION_BITS, -PAD, n);
		vf fraction, sum = {0};
		vi j = lanes_at(&lanes, p, &fraction);
		vf away = reach + fraction;
		for (int k = 1; k <= hats; k++)
			sum += vf_positive(1 - pitch * vf_abs((float)k - away)) *
			       vf_pick(window, j + k);
		vf_store(targets + t, vf_load(targets + t) + weight * sum);
	}
}

#endif
