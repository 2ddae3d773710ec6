/* Projection of many slices at once, where every slice has the same weights (in-slice rays). Sample
 * index and weights are computed once per output and used for all slices; the slices are the
 * fastest index in memory and fill the SIMD lanes.
 *
 * Both directions have the same form. An output is a pixel of the slice (adjoint) or a ray (forward
 * projection). It is a sum over terms: over the views (adjoint), or over the planes of voxels that
 * the ray crosses (forward). A term has a line of samples: the columns of a view, or the voxels of
 * a plane. It contributes the samples near the output's position on that line, weighted by a hat
 * function (a triangle with its maximum at that position) or by the footprint of the voxel, a
 * trapezoid averaged over the detector column.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_STACK_H
#define TOMOS_BACKEND_CPU_LEVEL_STACK_H

#include "backend/cpu/level/simd.h"
#include "backend/cpu/level/slice.h"
#include "backend/cpu/level/trapezoid.h"

enum {
	GROUP = 32,              /* slices processed together */
	FULL = GROUP / LANES,    /* vectors per group */
	LEAST_SLICES = 8,        /* with fewer slices the kernel for single slices is used */
	MOST_TAPS = 16,          /* largest number of samples under a hat function */
	MOST_SAMPLES = 1 << 20,  /* largest number of samples of a term; offsets fit into 32 bits */
	TERMS = 16,              /* terms summed in registers before the sums are stored */
	SCRATCH_FLOATS = 4 << 20 /* size of the buffer of transposed samples */
};

/* A view whose rays form one fan per slice. The rays of columns [0, cross) have the dominant axis
 * `axis` (0: x, 1: y), those of the other columns the other axis. */
typedef struct {
	const KernelView *k;
	int axis;
	int64_t cross;
} Fan;

/* Positions of the outputs among the samples of a view. Output o is at sample base + o per_output +
 * k per_plane; k is the plane (forward) or the image row (adjoint). The hat function has the half
 * width reach = 1 / pitch samples. `start` is the position, for output 0 and k = 0, of the lowest
 * lane of a vector of LANES outputs; unless the hat is linear interpolation, minus reach. */
typedef struct {
	int axis; /* axis perpendicular to the planes; 0: p, 1: q (see Frame); adjoint: always 1 */
	double base, start, per_output, per_plane;
	float pitch, reach, weight; /* weight: factor of the whole view */
	int taps;
	Trapezoid trapezoid; /* footprints: of a voxel, in columns */
	float columns;       /* footprints: columns from one sample to the next */
	int64_t step;        /* change of the position over LANES outputs, in fixed point */
	Lanes lanes;
	Fan fan; /* used instead of the above for fans; see stack_fan.h */
} Laying;

/* For up to TERMS terms and LANES outputs: the offset in floats of the first sample, and the
 * weights of the samples from there on. */
typedef struct {
	int32_t offset[TERMS][LANES];
	float weight[TERMS][MOST_TAPS][LANES];
} Entries;

/* A request and its current group of slices, [first, first + count) of the frame. Samples are
 * stored as [term][sample][slice] with `wide` floats per sample: count, rounded up to whole
 * vectors. */
typedef struct {
	const ProjectRequest *what;
	Frame f;
	int64_t first, count, wide;
	bool linear; /* every hat has the half width 1: two samples per term */
	bool footprint, fans;
	double reach; /* fans: half width of the widest hat, in samples */
	int taps;     /* samples under the widest hat; also zeros at both ends of a term */
} Stack;

/* Whether this kernel supports the request; if so, fills in all fields but the slices. */
bool LEVEL(stack_find)(const ProjectRequest *what, Stack *stack);
/* Positions and weights of a view, numbered from the first view of the request. */
Laying LEVEL(stack_laying)(const Stack *stack, int64_t view);
/* Proceeds to the next group of slices; false after the last. */
bool LEVEL(stack_next)(Stack *stack);
tomos_status LEVEL(stack_forward)(const ProjectRequest *what);
tomos_status LEVEL(stack_back)(const ProjectRequest *what);

/* Floats from the samples of one term to those of the next. */
INLINE int64_t stack_stride(const Stack *stack, int64_t samples)
{
	/* An odd number of samples beyond a multiple of 32, so that the same sample of neighbouring
	 * terms is not in the same set of the L1 cache. */
	return ((samples + 2 * stack->taps + 31) / 32 * 32 + 9) * stack->wide;
}

/* ---- indices and weights --------------------------------------------------------------------- */

/* Fixed-point position (see position_of) of the lowest of LANES outputs from `output` on, a
 * multiple of LANES. Computed as in slice_back.c, so that both kernels give the same bits. */
INLINE int64_t laying_start(const Laying *l, int64_t output, double plane)
{
	int64_t ahead = output / LANES % BLOCKS;
	double first = (double)(output - ahead * LANES);
	return position_of(l->start + first * l->per_output + plane * l->per_plane) +
	       ahead * l->step;
}

/* Computes first sample and weights of LANES outputs in one term that has n samples of `wide`
 * floats. `start` is the result of laying_start. Samples outside [0, n) are in the zero padding.
 * `linear`: the hat is linear interpolation, and only the weight of the second sample is stored.
 * `taps` and `linear` are compile-time constants where speed matters. */
INLINE void entries_set(Entries *e, int term, const Laying *l, int64_t start, int32_t n,
	const int taps, const bool linear, const bool footprint, int32_t wide)
{
	vf fraction;
	vi at = lanes_at(&l->lanes, start, &fraction) +
		(int32_t)((start >> FRACTION_BITS) + !linear);
	at = vi_limit(at, -taps, n) + taps;
	vi offset = at * wide;
	memcpy(e->offset[term], &offset, sizeof offset);
	if (linear) {
		vf_store(e->weight[term][1], fraction);
		return;
	}
	vf away = l->reach + fraction;
	for (int t = 0; t < taps; t++) {
		vf d = (float)(t + 1) - away;
		vf_store(e->weight[term][t],
			footprint ? trapezoid_share(&l->trapezoid, l->columns * d)
				  : vf_positive(1 - l->pitch * vf_abs(d)));
	}
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Adds `terms` terms to `outputs` outputs from `first` on, for `vectors` vectors of slices.
 * `samples` is the first term, `stride` the floats to the next one; `sums` is [output][slice] with
 * `wide` floats per output. Loads are the bottleneck: for linear interpolation only the second
 * weight is loaded, and the first is 1 minus it. */
INLINE void gather_some(const Entries *e, int first, const float *samples, int64_t stride,
	int terms, int64_t wide, const int taps, const bool linear, const int vectors,
	const int outputs, float *sums)
{
	vf sum[8];
	for (int o = 0; o < outputs; o++)
		for (int v = 0; v < vectors; v++)
			sum[o * vectors + v] = vf_load(sums + (first + o) * wide + v * LANES);
	for (int t = 0; t < terms; t++, samples += stride)
		for (int o = 0; o < outputs; o++) {
			const float *at = samples + e->offset[t][first + o];
			for (int k = 0; k < taps; k++) {
				vf weight = vf_all(e->weight[t][linear ? 1 : k][first + o]);
				if (linear && k == 0)
					weight = 1 - weight;
				for (int v = 0; v < vectors; v++)
					sum[o * vectors + v] +=
						weight * vf_load(at + k * wide + v * LANES);
			}
		}
	for (int o = 0; o < outputs; o++)
		for (int v = 0; v < vectors; v++)
			vf_store(sums + (first + o) * wide + v * LANES, sum[o * vectors + v]);
}

/* Adds `terms` terms to LANES outputs and all slices of the group; sums: [output][slice]. A full
 * group is summed over all its slices at once, a smaller one vector by vector. */
INLINE void gather(const Entries *e, const float *samples, int64_t stride, int terms, int64_t wide,
	const int taps, const bool linear, float *sums)
{
	if (wide == GROUP) {
		for (int o = 0; o < LANES; o += 8 / FULL)
			gather_some(e, o, samples, stride, terms, GROUP, taps, linear, FULL,
				8 / FULL, sums);
		return;
	}
	for (int64_t v = 0; v < wide; v += LANES)
		for (int o = 0; o < LANES; o += 4)
			gather_some(e, o, samples + v, stride, terms, wide, taps, linear, 1, 4,
				sums + v);
}

/* ---- transposition between one row per slice and [pixel][slice] ---------------------------- */

/* The same pixel in each of LANES slices; NULL: the slice does not exist or is off the detector.
 * `step`: floats from one pixel of the row to the next. */
typedef struct {
	float *row[LANES];
	int64_t step;
} Rows;

/* Pixel (x, y) of the LANES slices from slice v of the group on. */
INLINE Rows rows_of_volume(const Stack *s, int64_t v, int64_t x, int64_t y)
{
	Rows rows = {.step = s->f.stride[0]};
	float *at = s->what->volume + (s->first + v) * s->f.per_slice + x * s->f.stride[0] +
		    y * s->f.stride[1];
	for (int64_t l = 0; l < min64(LANES, s->count - v); l++)
		rows.row[l] = at + l * s->f.per_slice;
	return rows;
}

/* Pixel `column` of the detector rows to which those slices project in a view. */
INLINE Rows rows_of_view(const Stack *s, int64_t v, int64_t view, int64_t column)
{
	Rows rows = {.step = 1};
	const Plan *plan = s->what->plan;
	const KernelView *k = &plan->views[s->what->first + view];
	int64_t low = s->what->box.low[s->f.w] + s->first + v, row;
	for (int64_t l = 0; l < min64(LANES, s->count - v); l++)
		if (row_of_slice(plan, &s->f, k, low + l, &row))
			rows.row[l] = s->what->projections +
				      (view * plan->model.rows + row) * plan->model.columns +
				      column;
	return rows;
}

/* Copies up to LANES pixels (at most `count`) of the rows, times the weight of each pixel, to
 * [pixel][slice] with `apart` floats per pixel. Missing slices become 0. */
INLINE void rows_transpose(const Rows *rows, int64_t count, vf weight, float *to, int64_t apart)
{
	vf m[LANES];
	for (int l = 0; l < LANES; l++) {
		m[l] = (vf){0};
		if (rows->row[l] && rows->step == 1 && count >= LANES)
			m[l] = vf_load(rows->row[l]);
		else if (rows->row[l])
			for (int64_t i = 0; i < min64(LANES, count); i++)
				m[l][i] = rows->row[l][i * rows->step];
	}
	vf_transpose(m);
	for (int64_t i = 0; i < min64(LANES, count); i++)
		vf_store(to + i * apart, weight[i] * m[i]);
}

/* Copies up to LANES pixels (at most `count`) from [pixel][slice] to the rows. `add`: adds them,
 * times the weight of each pixel; else overwrites. */
INLINE void rows_transpose_back(const Rows *rows, int64_t count, const bool add, vf weight,
	const float *from, int64_t apart)
{
	vf m[LANES];
	for (int i = 0; i < LANES; i++)
		m[i] = vf_load(from + i * apart);
	vf_transpose(m);
	for (int l = 0; l < LANES; l++) {
		float *row = rows->row[l];
		if (row && rows->step == 1 && count >= LANES)
			vf_store(row, add ? vf_load(row) + weight * m[l] : m[l]);
		else if (row)
			for (int64_t i = 0; i < min64(LANES, count); i++)
				row[i * rows->step] =
					add ? row[i * rows->step] + weight[i] * m[l][i] : m[l][i];
	}
}

#endif
