/* SIMD vectors of floats (vf) and integers (vi, vu) of the instruction set's width, LANES, by the
 * compiler's vector types, and operations that these lack. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_SIMD_H
#define TOMOS_BACKEND_CPU_LEVEL_SIMD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#if defined TOMOS_LEVEL_avx512
#include <immintrin.h>
enum { LANES = 16, WINDOW = 32 };
#elif defined TOMOS_LEVEL_avx2
#include <immintrin.h>
enum { LANES = 8, WINDOW = 16 };
#else
#if defined TOMOS_LEVEL_neon
#include <arm_neon.h>
#elif defined __SSE2__
#include <emmintrin.h>
#endif
enum { LANES = 4, WINDOW = 16 };
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));

static inline vf vf_load(const float *p)
{
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline void vf_store(float *p, vf v)
{
	memcpy(p, &v, sizeof v);
}

/* p[l] += v[l] for l < count */
static inline void vf_add_some(float *p, int64_t count, vf v)
{
	if (count >= LANES)
		vf_store(p, vf_load(p) + v);
	for (int64_t l = 0; count < LANES && l < count; l++)
		p[l] += v[l];
}

/* Broadcasts a scalar. For scalar plus zero vector, compilers generate an addition. */
static inline vf vf_all(float x)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_set1_ps(x);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_set1_ps(x);
#else
	return (vf){0} + x;
#endif
}

/* Forces a loaded vector to stay in a register: compilers load it again at each use, which is
 * slower where loads are the bottleneck. Only for AVX-512; 16 registers are too few. */
static inline vf vf_keep(vf v)
{
#if defined TOMOS_LEVEL_avx512
	__asm__("" : "+v"(v));
#endif
	return v;
}

static inline vf vf_lane(void)
{
	vf v;
	for (int l = 0; l < LANES; l++)
		v[l] = (float)l;
	return v;
}

static inline vi vf_truncate(vf v)
{
	return __builtin_convertvector(v, vi);
}

static inline vf vi_float(vi v)
{
	return __builtin_convertvector(v, vf);
}

static inline vi vi_limit(vi v, int32_t low, int32_t high)
{
#if defined TOMOS_LEVEL_avx512
	return (vi)_mm512_min_epi32(
		_mm512_max_epi32((__m512i)v, _mm512_set1_epi32(low)), _mm512_set1_epi32(high));
#elif defined TOMOS_LEVEL_avx2
	return (vi)_mm256_min_epi32(
		_mm256_max_epi32((__m256i)v, _mm256_set1_epi32(low)), _mm256_set1_epi32(high));
#else
	vi below = v < low;
	vi above = v > high;
	return (below & low) | (above & high) | (~(below | above) & v);
#endif
}

/* (a >> 24) m + (b >> 24) n; m and n have 15 bits. */
static inline vi vi_sum_tops(vi a, int32_t m, vi b, int32_t n)
{
#if defined TOMOS_LEVEL_avx512
	__m512i tops = _mm512_mask_blend_epi16(
		0xaaaaaaaa, _mm512_srai_epi32((__m512i)a, 24), _mm512_srai_epi32((__m512i)b, 8));
	return (vi)_mm512_madd_epi16(tops, _mm512_set1_epi32(n << 16 | m));
#elif defined TOMOS_LEVEL_avx2
	__m256i tops = _mm256_blend_epi16(
		_mm256_srai_epi32((__m256i)a, 24), _mm256_srai_epi32((__m256i)b, 8), 0xaa);
	return (vi)_mm256_madd_epi16(tops, _mm256_set1_epi32(n << 16 | m));
#else
	return (a >> 24) * m + (b >> 24) * n;
#endif
}

/* The smaller of two unsigned integers. */
static inline vi vi_least_unsigned(vi v, int32_t high)
{
#if defined TOMOS_LEVEL_avx512
	return (vi)_mm512_min_epu32((__m512i)v, _mm512_set1_epi32(high));
#elif defined TOMOS_LEVEL_avx2
	return (vi)_mm256_min_epu32((__m256i)v, _mm256_set1_epi32(high));
#else
	vi above = (vi)((vu)v > (vu)((vi){0} + high));
	return (above & high) | (~above & v);
#endif
}

static inline vf vf_abs(vf v)
{
	return (vf)((vi)v & 0x7fffffff);
}

static inline vf vf_min(vf a, vf b)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
	return (vf)(((vi)a & (a < b)) | ((vi)b & ~(a < b)));
#endif
}

static inline vf vf_max(vf a, vf b)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
	return (vf)(((vi)a & (a > b)) | ((vi)b & ~(a > b)));
#endif
}

/* v where it is positive, else 0 */
static inline vf vf_positive(vf v)
{
	return vf_max(v, (vf){0});
}

/* Whether the mask is set in any lane. */
static inline bool vi_any(vi mask)
{
#if defined TOMOS_LEVEL_avx512
	return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined TOMOS_LEVEL_avx2
	return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined TOMOS_LEVEL_neon
	return vmaxvq_u32((uint32x4_t)mask) != 0;
#else
	return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

/* v where the mask is set, else 0 */
static inline vf vf_where(vi mask, vf v)
{
	return (vf)((vi)v & mask);
}

/* `negative` where the sign of s is set, else `positive` */
static inline vf vf_by_sign(vf s, vf negative, vf positive)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_mask_blend_ps(
		_mm512_movepi32_mask((__m512i)s), (__m512)positive, (__m512)negative);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_blendv_ps((__m256)positive, (__m256)negative, (__m256)s);
#else
	vi mask = (vi)s >> 31;
	return (vf)(((vi)negative & mask) | ((vi)positive & ~mask));
#endif
}

/* v clamped to [low, high]; NaN becomes low */
static inline vf vf_clamp(vf v, float low, float high)
{
	return vf_min(vf_max(v, vf_all(low)), vf_all(high));
}

static inline vf vf_floor(vf v)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_roundscale_ps((__m512)v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_floor_ps((__m256)v);
#elif defined TOMOS_LEVEL_neon
	return (vf)vrndmq_f32((float32x4_t)v);
#else
	vf whole = vi_float(vf_truncate(v));
	return whole - vf_where(whole > v, vf_all(1));
#endif
}

static inline vf vf_sqrt(vf v)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_sqrt_ps((__m512)v);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_sqrt_ps((__m256)v);
#elif defined TOMOS_LEVEL_neon
	return (vf)vsqrtq_f32((float32x4_t)v);
#elif defined __SSE2__
	return (vf)_mm_sqrt_ps((__m128)v);
#else
	for (int l = 0; l < LANES; l++)
		v[l] = __builtin_sqrtf(v[l]);
	return v;
#endif
}

/* sqrt(v) and 1 / sqrt(v) of v > 0, by an approximation and a step of Newton's method where that
 * is faster than the instruction. */
#if defined TOMOS_LEVEL_avx512 || defined TOMOS_LEVEL_avx2
static inline vf vf_estimate_inverse_root(vf v)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_rsqrt14_ps((__m512)v);
#else
	return (vf)_mm256_rsqrt_ps((__m256)v);
#endif
}

static inline vf vf_root(vf v)
{
	vf inverse = vf_estimate_inverse_root(v), root = v * inverse;
	return root + 0.5F * inverse * (v - root * root);
}

static inline vf vf_inverse_root(vf v)
{
	vf inverse = vf_estimate_inverse_root(v);
	return inverse + inverse * (0.5F - 0.5F * v * inverse * inverse);
}
#else
static inline vf vf_root(vf v)
{
	return vf_sqrt(v);
}

static inline vf vf_inverse_root(vf v)
{
	return 1 / vf_sqrt(v);
}
#endif

/* p[index] for 0 <= index < WINDOW, by permutations of loaded vectors: faster than a gather. */
static inline vf vf_pick(const float *p, vi index)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_permutex2var_ps(
		_mm512_loadu_ps(p), (__m512i)index, _mm512_loadu_ps(p + LANES));
#elif defined TOMOS_LEVEL_avx2
	__m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(p), (__m256i)index);
	__m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(p + LANES), (__m256i)index);
	return (vf)_mm256_blendv_ps(
		low, high, _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 28)));
#elif defined TOMOS_LEVEL_neon
	const uint8_t *bytes = (const uint8_t *)p;
	uint8x16x4_t table = {{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32),
		vld1q_u8(bytes + 48)}};
	uint32x4_t at = vmlaq_n_u32(vdupq_n_u32(0x03020100), (uint32x4_t)index, 0x04040404);
	return (vf)vqtbl4q_u8(table, vreinterpretq_u8_u32(at));
#else
	vf v;
	for (int l = 0; l < LANES; l++)
		v[l] = p[index[l]];
	return v;
#endif
}

/* Lane index[l] of v in lane l. */
static inline vf vf_permute(vf v, vi index)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_permutexvar_ps((__m512i)index, (__m512)v);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_permutevar8x32_ps((__m256)v, (__m256i)index);
#elif defined TOMOS_LEVEL_neon
	uint32x4_t at = vmlaq_n_u32(vdupq_n_u32(0x03020100), (uint32x4_t)index, 0x04040404);
	return (vf)vqtbl1q_u8((uint8x16_t)v, vreinterpretq_u8_u32(at));
#else
	float lanes[LANES];
	vf_store(lanes, v);
	return vf_pick(lanes, index);
#endif
}

/* p[index] by a gather instruction, for any index. */
static inline vf vf_gather(const float *p, vi index)
{
#if defined TOMOS_LEVEL_avx512
	return (vf)_mm512_i32gather_ps((__m512i)index, p, 4);
#elif defined TOMOS_LEVEL_avx2
	return (vf)_mm256_i32gather_ps(p, (__m256i)index, 4);
#else
	vf v;
	for (int l = 0; l < LANES; l++)
		v[l] = p[index[l]];
	return v;
#endif
}

#if defined TOMOS_LEVEL_avx512
#define UNPACK(half, kind, a, b) ((vf)_mm512_unpack##half##_##kind(CAST_##kind(a), CAST_##kind(b)))
#define CAST_ps(v) ((__m512)(v))
#define CAST_pd(v) ((__m512d)(v))
#elif defined TOMOS_LEVEL_avx2
#define UNPACK(half, kind, a, b) ((vf)_mm256_unpack##half##_##kind(CAST_##kind(a), CAST_##kind(b)))
#define CAST_ps(v) ((__m256)(v))
#define CAST_pd(v) ((__m256d)(v))
#elif defined __SSE2__
#define UNPACK(half, kind, a, b) ((vf)_mm_unpack##half##_##kind(CAST_##kind(a), CAST_##kind(b)))
#define CAST_ps(v) ((__m128)(v))
#define CAST_pd(v) ((__m128d)(v))
#endif

/* Transposes the 4 x 4 squares of four rows: afterwards 128-bit quarter q of vector c holds column
 * 4q + c. */
static inline void transpose_four(const vf m[4], vf fours[4])
{
#if defined UNPACK
	vf low[2] = {UNPACK(lo, ps, m[0], m[1]), UNPACK(lo, ps, m[2], m[3])};
	vf high[2] = {UNPACK(hi, ps, m[0], m[1]), UNPACK(hi, ps, m[2], m[3])};
	fours[0] = UNPACK(lo, pd, low[0], low[1]);
	fours[1] = UNPACK(hi, pd, low[0], low[1]);
	fours[2] = UNPACK(lo, pd, high[0], high[1]);
	fours[3] = UNPACK(hi, pd, high[0], high[1]);
#elif defined TOMOS_LEVEL_neon
	float32x4x2_t low = vtrnq_f32((float32x4_t)m[0], (float32x4_t)m[1]);
	float32x4x2_t high = vtrnq_f32((float32x4_t)m[2], (float32x4_t)m[3]);
	for (int i = 0; i < 2; i++) {
		fours[i] = (vf)vcombine_f32(vget_low_f32(low.val[i]), vget_low_f32(high.val[i]));
		fours[2 + i] =
			(vf)vcombine_f32(vget_high_f32(low.val[i]), vget_high_f32(high.val[i]));
	}
#else
	for (int i = 0; i < 4; i++)
		fours[i] = (vf){m[0][i], m[1][i], m[2][i], m[3][i]};
#endif
}

/* Transposes a square: lane j of vector i is exchanged with lane i of vector j. */
static inline void vf_transpose(vf m[LANES])
{
#if defined TOMOS_LEVEL_avx512
	vf fours[LANES];
	for (int g = 0; g < LANES; g += 4)
		transpose_four(m + g, fours + g);
	for (int c = 0; c < 4; c++) {
		__m512 a = (__m512)fours[c], b = (__m512)fours[4 + c];
		__m512 d = (__m512)fours[8 + c], e = (__m512)fours[12 + c];
		__m512 even[2] = {
			_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(d, e, 0x88)};
		__m512 odd[2] = {
			_mm512_shuffle_f32x4(a, b, 0xdd), _mm512_shuffle_f32x4(d, e, 0xdd)};
		m[c] = (vf)_mm512_shuffle_f32x4(even[0], even[1], 0x88);
		m[4 + c] = (vf)_mm512_shuffle_f32x4(odd[0], odd[1], 0x88);
		m[8 + c] = (vf)_mm512_shuffle_f32x4(even[0], even[1], 0xdd);
		m[12 + c] = (vf)_mm512_shuffle_f32x4(odd[0], odd[1], 0xdd);
	}
#elif defined TOMOS_LEVEL_avx2
	vf fours[LANES];
	for (int g = 0; g < LANES; g += 4)
		transpose_four(m + g, fours + g);
	for (int c = 0; c < 4; c++) {
		__m256 a = (__m256)fours[c], b = (__m256)fours[4 + c];
		m[c] = (vf)_mm256_permute2f128_ps(a, b, 0x20);
		m[4 + c] = (vf)_mm256_permute2f128_ps(a, b, 0x31);
	}
#else
	vf rows[LANES];
	memcpy(rows, m, sizeof rows);
	transpose_four(rows, m);
#endif
}

/* Sample positions are fixed-point numbers with 31 fractional bits. Additions are exact, and the
 * sample index and the fraction are separated without a rounding instruction. */
enum { FRACTION_BITS = 31 };
#define FRACTION_MASK 0x7fffffff
#define FRACTION_UNIT 0x1p-31F

/* Fixed-point number of a position, clamped to +-2^30 samples, which is beyond every detector. */
static inline int64_t position_of(double p)
{
	p = p < -0x1p30 ? -0x1p30 : p > 0x1p30 ? 0x1p30 : p;
	return (int64_t)(p * 0x1p31);
}

/* Distance of each lane from the lane with the lowest position, as whole samples and fixed-point
 * fractions. Lane l is at position l * step from lane 0; for negative steps the last lane is the
 * lowest. */
typedef struct {
	vi whole;
	vu fraction;
} Lanes;

static inline Lanes lanes_of(double step)
{
	uint64_t size = (uint64_t)position_of(step < 0 ? -step : step);
	uint32_t fraction = (uint32_t)size & FRACTION_MASK;
	vi lane = vf_truncate(step < 0 ? (float)(LANES - 1) - vf_lane() : vf_lane());
	/* lane * fraction has up to 36 bits: computed from two 16-bit products */
	vu low = (vu)lane * (fraction & 0xffff), high = (vu)lane * (fraction >> 16) + (low >> 16);
	Lanes lanes = {.whole = lane * (int32_t)(size >> FRACTION_BITS) + (vi)(high >> 15)};
	lanes.fraction = (high & 0x7fff) << 16 | (low & 0xffff);
	return lanes;
}

/* Distance of the lowest lane from lane 0, at most 0. */
static inline double lowest_lane(double step)
{
	return step < 0 ? (LANES - 1) * step : 0;
}

/* For the lowest lane at `position`: the sample at or below each lane, relative to the sample at or
 * below `position`, and the fraction beyond it. */
static inline vi lanes_at(const Lanes *lanes, int64_t position, vf *fraction)
{
	vu sum = lanes->fraction + ((uint32_t)position & FRACTION_MASK);
	*fraction = vi_float((vi)(sum & FRACTION_MASK)) * FRACTION_UNIT;
	return lanes->whole + (vi)(sum >> FRACTION_BITS);
}

/* Linear interpolation at each lane; window[0] is the sample at or below `position`, that of the
 * lowest lane. */
static inline vf vf_interpolate(const float *window, const Lanes *lanes, int64_t position)
{
	vf fraction;
	vi j = lanes_at(lanes, position, &fraction);
	vf low = vf_pick(window, j), high = vf_pick(window, j + 1);
	return low + fraction * (high - low);
}

static inline int64_t limit(int64_t i, int64_t low, int64_t high)
{
	return i < low ? low : i > high ? high : i;
}

#endif
