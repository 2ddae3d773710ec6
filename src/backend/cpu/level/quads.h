/* Four neighbouring floats at each lane's own place in memory, by one load or store per lane:
 * faster than four gathers or scatters. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_QUADS_H
#define TOMOS_BACKEND_CPU_LEVEL_QUADS_H

#include "backend/cpu/level/simd.h"

/* 128 and 64 bits of a vector. */
typedef float quad __attribute__((vector_size(16)));
typedef float duo __attribute__((vector_size(8)));

static inline quad vf_quarter(vf v, const int q)
{
#if defined TOMOS_LEVEL_avx512
	return (quad)(q == 0   ? _mm512_castps512_ps128((__m512)v)
		      : q == 1 ? _mm512_extractf32x4_ps((__m512)v, 1)
		      : q == 2 ? _mm512_extractf32x4_ps((__m512)v, 2)
			       : _mm512_extractf32x4_ps((__m512)v, 3));
#elif defined TOMOS_LEVEL_avx2
	return (quad)(q == 0 ? _mm256_castps256_ps128((__m256)v)
			     : _mm256_extractf128_ps((__m256)v, 1));
#else
	(void)q;
	return v;
#endif
}

static inline quad quad_load(const float *p)
{
	quad v;
	memcpy(&v, p, sizeof v);
	return v;
}

/* The lanes as 64-bit integers. Extracting two at a time takes fewer instructions. */
static inline void vi_extract(vi v, int64_t each[LANES])
{
#if defined TOMOS_LEVEL_avx512 || defined TOMOS_LEVEL_avx2
	typedef int64_t two __attribute__((vector_size(16)));
	for (int q = 0; q < LANES / 4; q++) {
		two pairs = (two)vf_quarter((vf)v, q);
		for (int i = 0; i < 2; i++) {
			each[4 * q + 2 * i] = (int32_t)pairs[i];
			each[4 * q + 2 * i + 1] = pairs[i] >> 32;
		}
	}
#else
	for (int l = 0; l < LANES; l++)
		each[l] = v[l];
#endif
}

/* Quarters with the four floats at p[at[0] per], p[at[4] per] and so on. */
static inline vf vf_load_quarters(const float *p, const int64_t *at, const int per)
{
#if defined TOMOS_LEVEL_avx512
	__m512 v = _mm512_castps128_ps512(_mm_loadu_ps(p + per * at[0]));
	v = _mm512_insertf32x4(v, _mm_loadu_ps(p + per * at[4]), 1);
	v = _mm512_insertf32x4(v, _mm_loadu_ps(p + per * at[8]), 2);
	return (vf)_mm512_insertf32x4(v, _mm_loadu_ps(p + per * at[12]), 3);
#elif defined TOMOS_LEVEL_avx2
	__m256 v = _mm256_castps128_ps256(_mm_loadu_ps(p + per * at[0]));
	return (vf)_mm256_insertf128_ps(v, _mm_loadu_ps(p + per * at[4]), 1);
#else
	return quad_load(p + per * at[0]);
#endif
}

static inline void load_fours(const float *p, const int64_t *each, const int per, vf m[4])
{
	vf quarters[4];
	for (int i = 0; i < 4; i++)
		quarters[i] = vf_load_quarters(p, each + i, per);
	transpose_four(quarters, m);
}

/* m[j] = p[at + j] for j < 4, in each lane. */
static inline void vf_load_fours(const float *p, vi at, vf m[4])
{
	int64_t each[LANES];
	vi_extract(at, each);
	load_fours(p, each, 1, m);
}

/* m[j] = p[at per + j] for j < 4, in each lane; the places are the lower 16 bits of numbers in
 * memory. */
static inline void vf_load_fours_by(const float *p, const int32_t *at, const int per, vf m[4])
{
	int64_t each[LANES];
	for (int l = 0; l < LANES; l++)
		each[l] = (uint16_t)at[l];
	load_fours(p, each, per, m);
}

/* m[j] = p[at + j] likewise; the places are numbers in memory. */
static inline void vf_load_fours_at(const float *p, const int32_t *at, vf m[4])
{
	int64_t each[LANES];
	for (int l = 0; l < LANES; l++)
		each[l] = at[l];
	load_fours(p, each, 1, m);
}

/* The quads of the lanes of four vectors: each[l] has lane l of all of them. */
static inline void quads_of(const vf m[4], quad each[LANES])
{
	vf quarters[4];
	transpose_four(m, quarters);
	for (int i = 0; i < 4; i++)
		for (int q = 0; q < LANES / 4; q++)
			each[4 * q + i] = vf_quarter(quarters[i], q);
}

/* The reverse. */
static inline void quads_split(const quad each[LANES], vf m[4])
{
	vf quarters[4];
	int64_t at[LANES];
	for (int l = 0; l < LANES; l++)
		at[l] = 4 * l;
	for (int i = 0; i < 4; i++)
		quarters[i] = vf_load_quarters((const float *)each, at + i, 1);
	transpose_four(quarters, m);
}

static inline void add_fours(float *p, const int64_t *each, const int per, const vf m[4])
{
	vf quarters[4];
	transpose_four(m, quarters);
	for (int i = 0; i < 4; i++)
		for (int q = 0; q < LANES / 4; q++) {
			float *to = p + per * each[4 * q + i];
			quad sum = quad_load(to) + vf_quarter(quarters[i], q);
			memcpy(to, &sum, sizeof sum);
		}
}

/* p[at + j] += m[j] for j < 4, one lane after the other; the places are in memory. Neighbouring
 * lanes, which often add to the same place, are apart in this order. */
static inline void vf_add_fours_at(float *p, const int32_t *at, const vf m[4])
{
	int64_t each[LANES];
	for (int l = 0; l < LANES; l++)
		each[l] = at[l];
	add_fours(p, each, 1, m);
}

/* p[at per + j] += m[j], likewise; the places are the lower 16 bits of numbers in memory. */
static inline void vf_add_fours_by(float *p, const int32_t *at, const int per, const vf m[4])
{
	int64_t each[LANES];
	for (int l = 0; l < LANES; l++)
		each[l] = (uint16_t)at[l];
	add_fours(p, each, per, m);
}

/* p[2 l] = a[l], p[2 l + 1] = b[l] */
static inline void vf_store_pairs(float *p, vf a, vf b)
{
#if defined UNPACK
	const vf low = UNPACK(lo, ps, a, b), high = UNPACK(hi, ps, a, b);
	for (int q = 0; q < LANES / 4; q++) {
		quad two[2] = {vf_quarter(low, q), vf_quarter(high, q)};
		memcpy(p + 8 * q, two, sizeof two);
	}
#else
	for (int l = 0; l < LANES; l++) {
		p[2 * l] = a[l];
		p[2 * l + 1] = b[l];
	}
#endif
}

#if defined __SSE2__
/* p[a], p[a + 1], p[b], p[b + 1] */
static inline __m128 load_two_pairs(const float *p, int32_t a, int32_t b)
{
	__m128 v = _mm_loadl_pi(_mm_setzero_ps(), (const __m64 *)(const void *)(p + a));
	return _mm_loadh_pi(v, (const __m64 *)(const void *)(p + b));
}
#endif

/* Quarters of the pairs at each[0] and each[1], each[4] and each[5], and so on. */
static inline vf vf_load_pairs(const float *p, const int32_t *each)
{
#if defined TOMOS_LEVEL_avx512
	__m512 v = _mm512_castps128_ps512(load_two_pairs(p, each[0], each[1]));
	v = _mm512_insertf32x4(v, load_two_pairs(p, each[4], each[5]), 1);
	v = _mm512_insertf32x4(v, load_two_pairs(p, each[8], each[9]), 2);
	return (vf)_mm512_insertf32x4(v, load_two_pairs(p, each[12], each[13]), 3);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_set_m128(
		load_two_pairs(p, each[4], each[5]), load_two_pairs(p, each[0], each[1]));
#elif defined __SSE2__
	return (vf)load_two_pairs(p, each[0], each[1]);
#else
	return (vf){p[each[0]], p[each[0] + 1], p[each[1]], p[each[1] + 1]};
#endif
}

/* p[at] and p[at + 1] in each lane. */
static inline vf vf_load_twos(const float *p, const vi *at, vf *next)
{
	const int32_t *each = (const int32_t *)at;
	vf even = vf_load_pairs(p, each), odd = vf_load_pairs(p, each + 2);
#if defined TOMOS_LEVEL_avx512
	*next = (vf)_mm512_shuffle_ps((__m512)even, (__m512)odd, 0xdd);
	return (vf)_mm512_shuffle_ps((__m512)even, (__m512)odd, 0x88);
#elif defined TOMOS_LEVEL_avx2
	*next = (vf)_mm256_shuffle_ps((__m256)even, (__m256)odd, 0xdd);
	return (vf)_mm256_shuffle_ps((__m256)even, (__m256)odd, 0x88);
#else
	*next = (vf){even[1], even[3], odd[1], odd[3]};
	return (vf){even[0], even[2], odd[0], odd[2]};
#endif
}

/* p[at] += first, p[at + 1] += second, one lane after the other; the places are in memory. */
static inline void vf_add_twos(float *p, const int32_t *at, vf first, vf second)
{
	float pairs[LANES][2];
	vf_store_pairs(pairs[0], first, second);
	for (int l = 0; l < LANES; l++) {
		duo sum, more;
		memcpy(&sum, p + at[l], sizeof sum);
		memcpy(&more, pairs[l], sizeof more);
		sum += more;
		memcpy(p + at[l], &sum, sizeof sum);
	}
}

#endif
