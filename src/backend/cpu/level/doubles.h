/* Vectors of doubles, for positions that are more exact than floats. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_DOUBLES_H
#define TOMOS_BACKEND_CPU_LEVEL_DOUBLES_H

#include "backend/cpu/level/simd.h"

/* LANES doubles, as two vectors: compilers process vectors longer than a register one element at a
 * time. */
typedef double vd __attribute__((vector_size(4 * LANES)));
typedef int64_t vl __attribute__((vector_size(4 * LANES)));
typedef struct {
	vd half[2];
} Doubles;

/* first + l step in lane l */
static inline Doubles doubles_line(double first, double step)
{
	Doubles d;
	for (int l = 0; l < LANES; l++)
		d.half[2 * l / LANES][l % (LANES / 2)] = l;
	for (int h = 0; h < 2; h++)
		d.half[h] = first + step * d.half[h];
	return d;
}

static inline Doubles doubles_load(const double *p)
{
	Doubles d;
	for (int h = 0; h < 2; h++)
		memcpy(&d.half[h], p + h * (LANES / 2), sizeof d.half[h]);
	return d;
}

static inline vf doubles_float(const Doubles *d)
{
#if defined TOMOS_LEVEL_avx512
	__m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)d->half[0]));
	return (vf)_mm512_insertf32x8(low, _mm512_cvtpd_ps((__m512d)d->half[1]), 1);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_set_m128(
		_mm256_cvtpd_ps((__m256d)d->half[1]), _mm256_cvtpd_ps((__m256d)d->half[0]));
#elif defined TOMOS_LEVEL_neon
	return (vf)vcvt_high_f32_f64(
		vcvt_f32_f64((float64x2_t)d->half[0]), (float64x2_t)d->half[1]);
#else
	return (vf){(float)d->half[0][0], (float)d->half[0][1], (float)d->half[1][0],
		(float)d->half[1][1]};
#endif
}

/* The lower 32 bits of each double. */
static inline vi doubles_low(const Doubles *d)
{
#if defined TOMOS_LEVEL_avx512
	const __m512i even =
		_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
	return (vi)_mm512_permutex2var_epi32((__m512i)d->half[0], even, (__m512i)d->half[1]);
#elif defined TOMOS_LEVEL_avx2
	__m256 even = _mm256_shuffle_ps((__m256)d->half[0], (__m256)d->half[1], 0x88);
	return (vi)_mm256_permute4x64_epi64((__m256i)even, 0xd8);
#else
	vl low = (vl)d->half[0], high = (vl)d->half[1];
	return (vi){(int32_t)low[0], (int32_t)low[1], (int32_t)high[0], (int32_t)high[1]};
#endif
}

static inline vd vd_abs(vd v)
{
	return (vd)((vl)v & INT64_MAX);
}

static inline vd vd_choose(vl mask, vd yes, vd no)
{
	return (vd)(((vl)yes & mask) | ((vl)no & ~mask));
}

static inline vd vd_least(vd a, vd b)
{
	return vd_choose(a < b, a, b);
}

static inline vd vd_most(vd a, vd b)
{
	return vd_choose(a > b, a, b);
}

/* The largest integer that is not above v, for numbers below 2^51. */
static inline vd vd_floor(vd v)
{
	const double shift = 0x1.8p52;
	vd nearest = (v + shift) - shift;
	return nearest - vd_choose(nearest > v, 1.0 + (vd){0}, (vd){0});
}

/* The nearest integer and what exceeds it, for numbers below 2^31. The last bits of a double of
 * this size have the value of the integer. */
static inline vi doubles_round(const Doubles *d, vf *fraction)
{
	const double shift = 0x1.8p52;
	Doubles sum, rest;
	for (int h = 0; h < 2; h++) {
		sum.half[h] = d->half[h] + shift;
		rest.half[h] = d->half[h] - (sum.half[h] - shift);
	}
	*fraction = doubles_float(&rest);
	return doubles_low(&sum);
}

#endif
