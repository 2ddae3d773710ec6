/* Joseph's projection of LANES rays from windows of voxels in registers, for AVX-512.
 *
 * Where the detector's rows run nearly along the rows of the planes, LANES neighbouring rays meet
 * voxels of three or four rows and WINDOW columns at most. These are loaded as vectors and
 * distributed to the rays by permutations, instead of one load per ray. With narrower vectors,
 * loads are faster.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_RAY_WINDOW_H
#define TOMOS_BACKEND_CPU_LEVEL_RAY_WINDOW_H

#include "backend/cpu/level/ray_pose.h"

#if defined TOMOS_LEVEL_avx512

/* The lane that has the lowest position along axes[i + 1] in every plane: the first or the last
 * one. -1: it is not the same lane in all planes, or the two lanes are less than `least` or more
 * than `most` apart. Positions are monotonous in the lane and linear in the plane, except for
 * rounding, so it is enough to check the first and last lane in the first and last plane. */
static inline int window_low(const Rays *r, int i, double least, double most)
{
	enum { END = LANES - 1 };
	const double last = (double)(r->to - 1 - r->from);
	double slope = (double)r->slope[i][END] - (double)r->slope[i][0];
	double near = (double)r->offset[i][END] - (double)r->offset[i][0] +
		      OFFSET_ONE * (double)(r->whole[i][END] - r->whole[i][0]);
	double far = near + last * slope;
	least *= OFFSET_ONE;
	most *= OFFSET_ONE;
	if (near >= least && far >= least && near <= most && far <= most)
		return 0;
	return near <= -least && far <= -least && near >= -most && far >= -most ? END : -1;
}

/* More than the rounding errors of positions: half a unit per plane, and that of the first one. */
#define ROUNDING 1e-5

typedef struct {
	int32_t whole, offset, slope;
} WindowEdge;

/* The lower edges of the windows of the planes, `rows` voxels high. Returns false if the rays do
 * not fit. */
static inline bool window_edges(const Rays *r, int rows, WindowEdge edges[2])
{
	static const double least[2] = {0, 1e-4};
	const double most[2] = {rows - 2 - ROUNDING, WINDOW - 3};
	for (int i = 0; i < 2; i++) {
		int lane = window_low(r, i, least[i], most[i]);
		if (lane < 0)
			return false;
		edges[i] = (WindowEdge){r->whole[i][lane], r->offset[i][lane], r->slope[i][lane]};
	}
	return true;
}

/* The voxel at or below the edge; advances to the next plane. */
INLINE int32_t edge_next(WindowEdge *e)
{
	int32_t at = e->whole + (e->offset >> OFFSET_BITS);
	e->offset += e->slope;
	return at;
}

/* Interpolated along a row of voxels, in lanes of the mask. */
INLINE __m512 window_row(const float *p, __mmask16 mask, __m512i j, __m512i next, __m512 fraction)
{
	__m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + LANES);
	__m512 low = _mm512_maskz_permutex2var_ps(mask, a, j, b);
	__m512 high = _mm512_maskz_permutex2var_ps(mask, a, next, b);
	return _mm512_fmadd_ps(fraction, _mm512_sub_ps(high, low), low);
}

INLINE __m512 window_fraction(__m512i offset)
{
	offset = _mm512_and_si512(offset, _mm512_set1_epi32(OFFSET_MASK));
	return _mm512_mul_ps(_mm512_cvtepi32_ps(offset), _mm512_set1_ps((float)(1 / OFFSET_ONE)));
}

/* Sums over the planes of the part; `inside`: all rays stay inside. */
INLINE vf sum_windows(const Forward *f, const Rays *rays, const WindowEdge edges[2], const int tall,
	const int inside)
{
	const RayPart *part = &f->part;
	const int64_t width = part->n[2] + 3, height = width * (part->n[1] + 3);
	const int32_t rows = (int32_t)part->n[1], columns = (int32_t)part->n[2];
	const __m512i one = _mm512_set1_epi32(1);
	WindowEdge edge[2] = {edges[0], edges[1]};
	__m512i whole[2], offset[2], slope[2];
	for (int i = 0; i < 2; i++) {
		whole[i] = (__m512i)rays->whole[i];
		offset[i] = (__m512i)rays->offset[i];
		slope[i] = (__m512i)rays->slope[i];
	}
	const float *plane = f->single + rays->from * height;
	__m512 sum = _mm512_setzero_ps();
	for (int64_t k = rays->from; k < rays->to; k++, plane += height) {
		int32_t b = edge_next(&edge[0]), c = edge_next(&edge[1]);
		__mmask16 valid = 0xffff;
		__m512i at = _mm512_add_epi32(whole[1], _mm512_srai_epi32(offset[1], OFFSET_BITS));
		if (!inside) {
			__m512i line = _mm512_add_epi32(
				whole[0], _mm512_srai_epi32(offset[0], OFFSET_BITS));
			b = (int32_t)limit(b, -1, rows);
			c = (int32_t)limit(c, -WINDOW, columns);
			valid = _mm512_cmple_epu32_mask(line, _mm512_set1_epi32(rows)) &
				_mm512_cmple_epu32_mask(at, _mm512_set1_epi32(columns));
		}
		/* Rounding may leave a ray a little below the window. */
		__m512i up = _mm512_max_epi32(_mm512_setzero_si512(),
			_mm512_sub_epi32(offset[0],
				_mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(b), whole[0]),
					OFFSET_BITS)));
		__m512 fraction[2] = {window_fraction(up), window_fraction(offset[1])};
		for (int i = 0; i < 2; i++)
			offset[i] = _mm512_add_epi32(offset[i], slope[i]);
		__m512i j = _mm512_sub_epi32(at, _mm512_set1_epi32(c));
		__m512i next = _mm512_add_epi32(j, one);
		const float *p = plane + (int64_t)b * width + c;
		__m512 v[4];
		for (int i = 0; i < tall; i++)
			v[i] = window_row(p + i * width, valid, j, next, fraction[1]);
		__m512 low = v[0], high = v[1];
		for (int i = 1; i < tall - 1; i++) {
			__mmask16 above =
				_mm512_cmpge_epi32_mask(up, _mm512_set1_epi32(i << OFFSET_BITS));
			low = _mm512_mask_blend_ps(above, low, v[i]);
			high = _mm512_mask_blend_ps(above, high, v[i + 1]);
		}
		sum = _mm512_add_ps(
			sum, _mm512_fmadd_ps(fraction[0], _mm512_sub_ps(high, low), low));
	}
	return (vf)sum * rays->step;
}

#endif

#endif
