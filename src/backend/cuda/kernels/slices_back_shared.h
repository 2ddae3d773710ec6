/* Back projection of in-slice rays from detector rows in shared memory.
 *
 * A block has 16 x 16 pixels and 32 to 128 slices. It copies the columns that its pixels need, a
 * few views at a time, into one of two buffers (stages) while the other is in use. A thread has a
 * square of 2 x 2 pixels and 4 to 16 slices. The square spans at most 4 columns: its pixel with the
 * lowest position reads the first two, the one with the highest position all four, the other two
 * pixels three. Each value is read once for all four pixels, which halves the shared memory traffic
 * and costs 12 instead of 8 FMAs. Both limits are then close: 32 updates per clock and SM by shared
 * memory, 43 by FMAs.
 *
 * S. Chilingaryan et al., Reviewing GPU architectures to build efficient back projection for
 * parallel geometries, J. Real-Time Image Process. 17 (2020), section 6, describes rows in shared
 * memory.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_BACK_SHARED_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_BACK_SHARED_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/transpose.h"

enum {
	ROWS_SIDE = 16,     /* side of a block, in pixels */
	ROWS_LANES = 8,     /* threads per square of pixels: 8 float4 of slices, 128 bytes */
	ROWS_THREADS = 512, /* one for each square and lane */
	ROWS_COLUMNS = 24,  /* columns copied for a block, per view */
	ROWS_MIDDLE = ROWS_COLUMNS / 2,
	ROWS_MARGIN = ROWS_COLUMNS + 1
};

/* Largest sum of the column changes per pixel along a and b: the 14 pixels between the first and
 * the last square, times this, plus 4 columns must fit into ROWS_COLUMNS. */
#define ROWS_SLOPE 1.428

typedef struct {
	const HatView *views;
	int count;
	int64_t columns;
	int na, nb;           /* pixels of the box */
	int64_t low_a, low_b; /* first pixel of the box */
	int quads;            /* number of float4, four slices each */
	const float4 *from;   /* [group][view][margin, columns, margin][quad of the group] */
	float4 *to;           /* [b][a][quad] */
} Rows;

/* A view relative to a block. e: position of the lowest pixel of the first square, relative to
 * the middle of the copied columns, so that floats are accurate to 5e-7 columns; ea, eb: its change
 * per pixel along a and b; inverse: reciprocal of the hat's half width. */
typedef struct __align__(16)
{
	float e, ea, eb, inverse;
}
RowsView;

/* QUADS: float4 (four slices) per thread. SLICES: slices per block. LINE, VIEW, STAGE: sizes in
 * float4 of one column, one view and one stage. */
template <int QUADS> struct RowsLayout {
	static constexpr int SLICES = 4 * QUADS * ROWS_LANES;
	/* Views per stage, such that two blocks fit into an SM, or one with QUADS = 4. */
	static constexpr int VIEWS = QUADS == 4 ? 8 : 16 / QUADS;
	static constexpr int LINE = SLICES / 4;
	static constexpr int VIEW = ROWS_COLUMNS * LINE;
	static constexpr int STAGE = VIEWS * VIEW;
	static constexpr int BYTES =
		2 * (STAGE * (int)sizeof(float4) + VIEWS * (int)sizeof(RowsView));
};

/* Whether the kernels apply to the request, with `bytes` bytes of shared memory per block; sets
 * *l. */
bool rows_fit(const ProjectRequest *what, HatSlices *l, int bytes);
/* Transposes `slices` slices of the projections from `slice` on into scratch memory, in groups
 * of `group` slices (those of a block), and sets up *s and the scratch for the result *x. */
tomos_status rows_fill(tomos_backend *backend, const ProjectRequest *what, const HatSlices *l,
	const HatView *views, int64_t slice, int64_t slices, int group, Rows *s, Transposed *x);

/* ---- on the GPU ------------------------------------------------------------------------------ */

/* Sets up a view for the block at pixel (a0, b0). *first: first column to copy, clamped off the
 * detector, where all copied columns are in the margin of zeros. */
static __device__ __forceinline__ RowsView rows_view(
	const Rows *s, const HatView *hat, int a0, int b0, int64_t *first)
{
	double e = hat->e0 + hat->ea * (double)(s->low_a + a0) + hat->eb * (double)(s->low_b + b0);
	double low = fmin(0., hat->ea) + fmin(0., hat->eb);
	double column = floor(e + (ROWS_SIDE - 1) * low);
	column = fmax(fmin(column, (double)s->columns), (double)-ROWS_COLUMNS);
	*first = (int64_t)column;
	return RowsView{(float)(e + low - column - ROWS_MIDDLE), (float)hat->ea, (float)hat->eb,
		1 / hat->h};
}

/* Pointer to the detector data that a block reads for one view, starting at the given column:
 * one line per column, *quads float4 each, four slices per float4. All groups of slices have `most`
 * float4 per line, except that the last may have fewer. */
static __device__ __forceinline__ const float4 *rows_from(
	const Rows *s, int view, int64_t column, int group, int most, int *quads)
{
	int64_t lines = s->columns + 2 * ROWS_MARGIN;
	*quads = min(most, s->quads - group * most);
	return s->from + (int64_t)group * s->count * lines * most +
	       (view * lines + ROWS_MARGIN + column) * *quads;
}

/* Copies lines of `quads` float4 into lines of L::LINE; address computation is cheaper where
 * both are equal. Slices after the last are not initialised: their results are never written. */
template <int QUADS>
static __device__ __forceinline__ void rows_copy(
	float4 *to, const float4 *from, int quads, int i, int step)
{
	typedef RowsLayout<QUADS> L;
	if (quads == L::LINE)
		for (; i < L::VIEW; i += step)
			__pipeline_memcpy_async(to + i, from + i, sizeof(float4));
	else
		for (; i < L::VIEW; i += step)
			if (i % L::LINE < quads)
				__pipeline_memcpy_async(to + i,
					from + i / L::LINE * quads + i % L::LINE, sizeof(float4));
}

/* Starts the copies of VIEWS views from `first` on to shared memory and sets up their RowsView;
 * each view is assigned to an equal number of threads. */
template <int QUADS>
static __device__ void rows_bring(
	const Rows *s, float4 *data, RowsView *table, int a0, int b0, int group, int first)
{
	typedef RowsLayout<QUADS> L;
	constexpr int EACH = ROWS_THREADS / L::VIEWS;
	int v = threadIdx.x / EACH, i = threadIdx.x % EACH, view = first + v, quads;
	if (view < s->count) {
		int64_t column;
		const RowsView seen = rows_view(s, &s->views[view], a0, b0, &column);
		const float4 *from = rows_from(s, view, column, group, L::LINE, &quads);
		if (i == 0)
			table[v] = seen;
		rows_copy<QUADS>(data + v * L::VIEW, from, quads, i, EACH);
	}
	__pipeline_commit();
}

/* Adds column C to the pixels that meet it. Pixels p are in the order of their positions; the
 * pixel with the lowest position is LOWEST, and position p belongs to sums[p ^ LOWEST]. */
template <int QUADS, int LOWEST, int C>
static __device__ __forceinline__ void rows_column(
	float4 sums[4][QUADS], const float at[4], float inverse, const float4 *from)
{
	constexpr int FIRST = C < 2 ? 0 : C == 2 ? 1 : 3;
	float4 x[QUADS];
#pragma unroll
	for (int q = 0; q < QUADS; q++)
		x[q] = from[C * RowsLayout<QUADS>::LINE + q * ROWS_LANES];
#pragma unroll
	for (int p = FIRST; p < 4; p++) {
		float w = __saturatef(1 - fabsf(at[p] - C * inverse));
#pragma unroll
		for (int q = 0; q < QUADS; q++)
			add_scaled(sums[p ^ LOWEST][q], w, x[q]);
	}
}

template <int QUADS, int LOWEST>
static __device__ __forceinline__ void rows_square(
	float4 sums[4][QUADS], const float at[4], float inverse, const float4 *from)
{
	rows_column<QUADS, LOWEST, 0>(sums, at, inverse, from);
	rows_column<QUADS, LOWEST, 1>(sums, at, inverse, from);
	rows_column<QUADS, LOWEST, 2>(sums, at, inverse, from);
	rows_column<QUADS, LOWEST, 3>(sums, at, inverse, from);
}

/* Adds one view to the square whose first pixel is (da, db) of the block. NARROW: half the width
 * of the triangular weights is less than one column. */
template <int QUADS, bool NARROW>
static __device__ __forceinline__ void rows_add_view(
	float4 sums[4][QUADS], const RowsView *table, const float4 *data, float da, float db)
{
	const RowsView v = *table;
	float low = fmaf(da, v.ea, fmaf(db, v.eb, v.e));
	float row = fminf(fmaxf(floorf(low), (float)-ROWS_MIDDLE), (float)(ROWS_MIDDLE - 4));
	const float4 *from = data + (int)row * RowsLayout<QUADS>::LINE;
	float inverse = NARROW ? v.inverse : 1;
	float ea = fabsf(v.ea) * inverse, eb = fabsf(v.eb) * inverse, e = (low - row) * inverse;
	const float at[4] = {e, e + ea, e + eb, e + ea + eb};
	if (v.ea >= 0 && v.eb >= 0)
		rows_square<QUADS, 0>(sums, at, inverse, from);
	else if (v.eb >= 0)
		rows_square<QUADS, 1>(sums, at, inverse, from);
	else if (v.ea >= 0)
		rows_square<QUADS, 2>(sums, at, inverse, from);
	else
		rows_square<QUADS, 3>(sums, at, inverse, from);
}

template <int QUADS>
static __device__ void rows_write(
	const Rows *s, const float4 sums[4][QUADS], int a, int b, int quad)
{
#pragma unroll
	for (int p = 0; p < 4; p++) {
		if (a + p % 2 >= s->na || b + p / 2 >= s->nb)
			continue;
		float4 *to = s->to + ((int64_t)(b + p / 2) * s->na + a + p % 2) * s->quads;
#pragma unroll
		for (int q = 0; q < QUADS; q++)
			if (quad + q * ROWS_LANES < s->quads)
				to[quad + q * ROWS_LANES] = sums[p][q];
	}
}

/* Back projects one block: 16 x 16 pixels from (a0, b0) on, one group of slices. memory:
 * RowsLayout::BYTES bytes of shared memory. */
template <int QUADS, bool NARROW>
static __device__ void rows_sum(const Rows *s, float4 *memory, int a0, int b0, int group)
{
	typedef RowsLayout<QUADS> L;
	RowsView *tables = (RowsView *)(memory + 2 * L::STAGE);
	int lane = threadIdx.x % ROWS_LANES, square = threadIdx.x / ROWS_LANES;
	int da = square % (ROWS_SIDE / 2) * 2, db = square / (ROWS_SIDE / 2) * 2, stage = 0;
	float4 sums[4][QUADS] = {};
	rows_bring<QUADS>(s, memory, tables, a0, b0, group, 0);
	for (int first = 0; first < s->count; first += L::VIEWS, stage ^= 1) {
		__pipeline_wait_prior(0);
		__syncthreads(); /* this stage is complete, and the other one is free */
		rows_bring<QUADS>(s, memory + (stage ^ 1) * L::STAGE,
			tables + (stage ^ 1) * L::VIEWS, a0, b0, group, first + L::VIEWS);
		const float4 *data = memory + stage * L::STAGE + ROWS_MIDDLE * L::LINE + lane;
		const RowsView *table = tables + stage * L::VIEWS;
		int views = min(L::VIEWS, s->count - first);
		for (int v = 0; v < views; v++, data += L::VIEW)
			rows_add_view<QUADS, NARROW>(sums, table + v, data, (float)da, (float)db);
	}
	rows_write<QUADS>(s, sums, a0 + da, b0 + db, group * L::LINE + lane);
}

#endif
