/* Gridding kernels: a cell with all its slices is a vector, or, where there are only two slices,
 * neighbouring cells of a row are. */
#include "backend/cpu/level/spread.h"
#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"

/* Eight floats on every instruction set: one cell of four slice pairs. */
typedef float Eight __attribute__((vector_size(32)));

enum { MOST_VECTORS = SPREAD_MOST };

/* The same anywhere in memory. */
typedef float EightAt __attribute__((vector_size(32), aligned(4), may_alias));
#define EIGHT_AT(p) (*(EightAt *)(p))
#define EIGHT_FROM(p) (*(const EightAt *)(p))

/* Weights of the taps at the fraction, by Horner's scheme. */
INLINE void window_at(const SpreadWindow *w, const int taps, float fraction, float *weights)
{
	const Eight t = (Eight){0} + (2 * fraction - 1);
	for (int part = 0; part < taps; part += 8) {
		Eight sum = EIGHT_FROM(w->polynomials[SPREAD_DEGREE_OF(taps)] + part);
#pragma GCC unroll 16
		for (int power = SPREAD_DEGREE_OF(taps) - 1; power >= 0; power--)
			sum = sum * t + EIGHT_FROM(w->polynomials[power] + part);
		EIGHT_AT(weights + part) = sum;
	}
}

/* A point: the weights along x as they multiply the vectors of a row, those along y, and the first
 * cell. */
typedef struct {
	Eight across[MOST_VECTORS];
	float down[SPREAD_PITCH];
	int64_t offset;
} Point;

/* The first cell of a point at `position`. Rounding, which differs between compilers, must not
 * place a point on the edge of a tile before it: that is outside of the tile's memory. */
INLINE double first_cell(const SpreadWindow *w, double position, double tile)
{
	double first = SPREAD_FIRST(w, position);
	return first > tile ? first : tile;
}

INLINE void point_at(const SpreadWindow *w, const SpreadLine *line, int64_t m, const int taps,
	const int lanes, Point *p)
{
	float weights[SPREAD_PITCH];
	double x = (double)m * line->x, y = (double)m * line->y;
	double first[2] = {
		first_cell(w, x, (double)line->first[0]), first_cell(w, y, (double)line->first[1])};
	window_at(w, taps, (float)(first[0] - (x - 0.5 * taps)), weights);
	window_at(w, taps, (float)(first[1] - (y - 0.5 * taps)), p->down);
	p->offset = ((int64_t)first[1] - line->first[1]) * line->stride +
		    ((int64_t)first[0] - line->first[0]) * 2 * lanes;
	if (lanes == SPREAD_LANES) {
		for (int i = 0; i < taps; i++)
			p->across[i] = (Eight){0} + weights[i];
		return;
	}
	for (int i = taps; i < (taps + 3) / 4 * 4; i++)
		weights[i] = 0;
	for (int i = 0; i < taps; i += 4) {
		const float *a = weights + i;
		p->across[i / 4] = (Eight){a[0], a[0], a[1], a[1], a[2], a[2], a[3], a[3]};
	}
}

INLINE void spread_taps(const SpreadWindow *w, const SpreadLine *line, const float *values,
	float *tile, const int taps, const int lanes)
{
	const int vectors = lanes == 1 ? (taps + 3) / 4 : taps;
	Point p;
	for (int64_t m = line->from; m < line->to; m++) {
		const float *v = values + m * 2 * lanes;
		Eight value = {v[0], v[1], v[0], v[1], v[0], v[1], v[0], v[1]};
		if (lanes > 1)
			value = EIGHT_FROM(v);
		point_at(w, line, m, taps, lanes, &p);
		float *row = tile + p.offset;
		for (int j = 0; j < taps; j++, row += line->stride) {
			const Eight part = value * p.down[j];
#pragma GCC unroll 12
			for (int i = 0; i < vectors; i++)
				EIGHT_AT(row + 8 * i) += part * p.across[i];
		}
	}
}

INLINE void collect_taps(const SpreadWindow *w, const SpreadLine *line, const float *tile,
	float *values, const int taps, const int lanes)
{
	const int vectors = lanes == 1 ? (taps + 3) / 4 : taps;
	Point p;
	for (int64_t m = line->from; m < line->to; m++) {
		float *v = values + m * 2 * lanes;
		point_at(w, line, m, taps, lanes, &p);
		const float *row = tile + p.offset;
		Eight sum = {0};
		for (int j = 0; j < taps; j++, row += line->stride) {
			Eight part = {0};
#pragma GCC unroll 12
			for (int i = 0; i < vectors; i++)
				part += EIGHT_FROM(row + 8 * i) * p.across[i];
			sum += part * p.down[j];
		}
		if (lanes == 1) {
			v[0] = (sum[0] + sum[2]) + (sum[4] + sum[6]);
			v[1] = (sum[1] + sum[3]) + (sum[5] + sum[7]);
		} else {
			EIGHT_AT(v) = sum;
		}
	}
}

/* The loops above with the numbers of taps and lanes as constants. */
#define TAPS_CASE(number, call, ...) \
	case number: \
		call(__VA_ARGS__, number, lanes); \
		break;
#define WITH_TAPS(call, ...) \
	switch (w->taps) { \
		TAPS_CASE(4, call, __VA_ARGS__) \
		TAPS_CASE(5, call, __VA_ARGS__) \
		TAPS_CASE(6, call, __VA_ARGS__) \
		TAPS_CASE(7, call, __VA_ARGS__) \
		TAPS_CASE(8, call, __VA_ARGS__) \
		TAPS_CASE(9, call, __VA_ARGS__) \
		TAPS_CASE(10, call, __VA_ARGS__) \
		TAPS_CASE(11, call, __VA_ARGS__) \
		TAPS_CASE(12, call, __VA_ARGS__) \
	}

INLINE void spread_lanes(const SpreadWindow *w, const SpreadLine *line, const float *values,
	float *tile, const int lanes)
{
	WITH_TAPS(spread_taps, w, line, values, tile)
}

static void spread(const SpreadWindow *w, const SpreadLine *line, const float *values, float *tile)
{
	if (w->lanes == 1)
		spread_lanes(w, line, values, tile, 1);
	else
		spread_lanes(w, line, values, tile, SPREAD_LANES);
}

INLINE void collect_lanes(const SpreadWindow *w, const SpreadLine *line, const float *tile,
	float *values, const int lanes)
{
	WITH_TAPS(collect_taps, w, line, tile, values)
}

static void collect(const SpreadWindow *w, const SpreadLine *line, const float *tile, float *values)
{
	if (w->lanes == 1)
		collect_lanes(w, line, tile, values, 1);
	else
		collect_lanes(w, line, tile, values, SPREAD_LANES);
}

INLINE void alias_lanes(const SpreadAlias *alias, int64_t from, int64_t count, const float *values,
	float *result, const int lanes)
{
	for (int64_t m = from; m < from + count; m++) {
		const float *v = values + m * 2 * lanes;
		const float ratio = (float)m / (float)(m + alias->shift);
		const float c = ratio * ratio * alias->phase[0],
			    s = ratio * ratio * alias->phase[1];
		float *to = result + (m - from) * 2 * lanes;
		for (int i = 0; i < lanes; i++) {
			to[i] = v[i] * c - v[lanes + i] * s;
			to[lanes + i] = v[i] * s + v[lanes + i] * c;
		}
	}
}

static void alias(const SpreadAlias *a, int lanes, int64_t from, int64_t count, const float *values,
	float *result)
{
	if (lanes == 1)
		alias_lanes(a, from, count, values, result, 1);
	else
		alias_lanes(a, from, count, values, result, SPREAD_LANES);
}

const SpreadKernels LEVEL(spread_kernels) = {spread, collect, alias};
