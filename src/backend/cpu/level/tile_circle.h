/* Tiles on full circles with views in sets 90 degrees apart (circle.h, tile.h): windows of quads.
 *
 * Back, the window has the quads of the pixels; those of two neighbouring columns are a vector.
 * Forward, it has two quads for each pixel: for its own column and for the next one. Voxels that
 * begin at different columns then add to different places, so that an addition need not wait for
 * another one that overlaps it.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_TILE_CIRCLE_H
#define TOMOS_BACKEND_CPU_LEVEL_TILE_CIRCLE_H

#include "backend/cpu/level/tile.h"

/* ---- pairs of columns ------------------------------------------------------------------------ */

/* Where zipped vectors have the pair of lane l. */
INLINE int pair_place(const int l)
{
	return l % 4 / 2 * LANES + l / 4 * 4 + l % 2 * 2;
}

static inline void vf_zip(vf a, vf b, vf pairs[2])
{
#if defined UNPACK
	pairs[0] = UNPACK(lo, ps, a, b);
	pairs[1] = UNPACK(hi, ps, a, b);
#else
	pairs[0] = (vf){a[0], b[0], a[1], b[1]};
	pairs[1] = (vf){a[2], b[2], a[3], b[3]};
#endif
}

/* The numbers of a pair in a first and a second quad. */
INLINE void pair_quads(const float *pair, Eight *both)
{
#if defined TOMOS_LEVEL_avx512 || defined TOMOS_LEVEL_avx2
	double bits;
	memcpy(&bits, pair, sizeof bits);
	__m256 twos = _mm256_castpd_ps(_mm256_set1_pd(bits));
	*both = (Eight)_mm256_permutevar_ps(twos, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
#else
	*both = (Eight){pair[0], pair[0], pair[0], pair[0], pair[1], pair[1], pair[1], pair[1]};
#endif
}

/* to += the sum of both quads of a, then of b. */
INLINE void add_two(float *to, const Eight *a, const Eight *b)
{
#if defined TOMOS_LEVEL_avx512 || defined TOMOS_LEVEL_avx2
	__m256 outer = _mm256_blend_ps((__m256)*a, (__m256)*b, 0xf0);
	__m256 inner = _mm256_permute2f128_ps((__m256)*a, (__m256)*b, 0x21);
	EIGHT_AT(to) += (Eight)outer + (Eight)inner;
#else
	quad sums[2] = {quad_load(to) + (eight_half(a, 0) + eight_half(a, 1)),
		quad_load(to + IMAGES) + (eight_half(b, 0) + eight_half(b, 1))};
	memcpy(to, sums, sizeof sums);
#endif
}

/* ---- windows --------------------------------------------------------------------------------- */

/* First column and row, and their numbers. */
typedef struct {
	int64_t low[2], size[2];
} QuadWindow;

enum { LINE = 16, AHEAD = 4 }; /* floats of a cache line; rows that are prefetched */

/* Views are larger than caches. */
static inline void window_prefetch(const TileView *t, const QuadWindow *w, int64_t r)
{
	const KernelModel *model = &t->what->plan->model;
	const int64_t row = w->low[1] + r, from = max64(w->low[0], 0);
	const int64_t to = min64(w->low[0] + w->size[0], model->columns);
	for (int k = 0; k < IMAGES && row >= 0 && row < model->rows; k++) {
		const float *pixels = view_row(t, circle_view(t->circle, t->view, k), row);
		for (int64_t c = from; c < to; c += LINE)
			__builtin_prefetch(pixels + c);
	}
}

static inline void window_load(const TileView *t, const QuadWindow *w)
{
	const KernelModel *model = &t->what->plan->model;
	const int64_t wide = w->size[0], last = w->low[0] + parts(wide, LANES) * LANES;
	float lines[IMAGES][MOST_WIDE + 1 + LANES], *to = t->window;
	memset(lines, 0, sizeof lines);
	for (int64_t r = 0; r < w->size[1]; r++, to += IMAGES * wide) {
		const int64_t row = w->low[1] + r;
		const bool inside =
			row >= 0 && row < model->rows && w->low[0] >= 0 && last <= model->columns;
		const float *from[IMAGES];
		window_prefetch(t, w, r + AHEAD);
		for (int k = 0; k < IMAGES; k++) {
			const int64_t view = circle_view(t->circle, t->view, k);
			from[k] = inside ? view_row(t, view, row) + w->low[0] : lines[k];
			if (!inside)
				load_view_line(t, view, row, w->low[0], wide, lines[k]);
		}
		for (int64_t c = 0; c < wide; c += LANES) {
			vf pixels[IMAGES];
			quad each[LANES];
			for (int k = 0; k < IMAGES; k++)
				pixels[k] = vf_load(from[k] + c);
			quads_of(pixels, each);
			memcpy(to + IMAGES * c, each, sizeof each);
		}
	}
}

/* The pixels from column c of a row of the window on, up to `count`, in the four views. */
INLINE void row_pixels(const float *row, int64_t c, int64_t count, vf pixels[IMAGES])
{
	quad each[LANES] = {{0}};
	for (int64_t l = 0; l < min64(count, LANES); l++) {
		const float *own = row + 2 * IMAGES * (c + l);
		each[l] = quad_load(own);
		if (c + l > 0)
			each[l] += quad_load(own - IMAGES);
	}
	quads_split(each, pixels);
}

/* Adds a row of the window to the four views. */
static inline void window_give(const TileView *t, const QuadWindow *w, int64_t r)
{
	const KernelModel *model = &t->what->plan->model;
	const int64_t row = w->low[1] + r, first = w->low[0];
	const int64_t from = max64(0, -first), to = min64(w->size[0], model->columns - first);
	float *views[IMAGES];
	if (row < 0 || row >= model->rows)
		return;
	for (int k = 0; k < IMAGES; k++)
		views[k] = view_row(t, circle_view(t->circle, t->view, k), row) + first;
	for (int64_t c = from; c < to; c += LANES) {
		vf pixels[IMAGES];
		row_pixels(t->window + 2 * IMAGES * w->size[0] * r, c, to - c, pixels);
		for (int k = 0; k < IMAGES; k++)
			vf_add_some(views[k] + c, to - c, pixels[k]);
	}
}

static inline void window_begin(const TileView *t, const QuadWindow *w)
{
	const int64_t floats = 2 * IMAGES * w->size[0] * w->size[1];
	if (t->what->direction == FORWARD)
		memset(t->window, 0, (size_t)floats * sizeof *t->window);
	else
		window_load(t, w);
}

static inline void window_end(const TileView *t, const QuadWindow *w)
{
	for (int64_t r = 0; t->what->direction == FORWARD && r < w->size[1]; r++)
		window_give(t, w, r);
}

#endif
