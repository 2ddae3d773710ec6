/* Stacks of slices with the same weights: index and weight of each sample are computed once for a
 * row of outputs; the slices, contiguous in memory, are summed in the SIMD lanes.
 *
 * Both directions are a sum over `terms`: views in the adjoint, planes of voxels across the rays in
 * the forward projection. In each term, an output is the sum of the samples around its position,
 * weighted by a hat function.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_STACK_H
#define TOMOS_BACKEND_CPU_LEVEL_STACK_H

#include "backend/cpu/level/simd.h"
#include "backend/cpu/level/slice.h"

enum {
	GROUP = 32,              /* slices processed together */
	FULL = GROUP / LANES,    /* vectors of these */
	LEAST_SLICES = 8,        /* fewer are left to the kernel for single slices */
	MOST_TAPS = 8,           /* samples under a hat */
	MOST_SAMPLES = 1 << 20,  /* of a term, so that offsets fit into 32 bits */
	TERMS = 16,              /* summed in registers */
	SCRATCH_FLOATS = 4 << 20 /* of transposed samples */
};

/* A view with one fan per slice; `axis`: dominant axis of the rays of columns below `cross`. */
typedef struct {
	const KernelView *k;
	int axis;
	int64_t cross;
} Fan;

/* In plane k, output o is at sample base + o per_output + k per_plane, under a hat of height 1 and
 * half width reach = 1 / pitch. `start` is `base` of the lowest lane minus, unless the hat is
 * linear interpolation, the reach. */
typedef struct {
	int axis; /* planes are across p (0) or q (1); adjoint: always q */
	double base, start, per_output, per_plane;
	float pitch, reach, weight; /* actual height of the hat */
	int taps;
	int64_t step; /* LANES outputs */
	Lanes lanes;
	Fan fan; /* used where positions are not linear; see stack_fan.h */
} Laying;

/* First sample and weights of LANES outputs in each of some terms. */
typedef struct {
	int32_t offset[TERMS][LANES];
	float weight[TERMS][MOST_TAPS][LANES];
} Entries;

/* Slices [first, first + count) of the frame; `wide` floats per sample. */
typedef struct {
	const ProjectRequest *what;
	Frame f;
	int64_t first, count, wide;
	bool linear; /* hats are linear interpolation */
	bool fans;
	double reach; /* fans: half width of the widest hat */
	int taps;     /* most of all views; also the number of zeros on both sides of a term */
} Stack;

/* Whether the request can be computed in stacks; if so, its frame and taps. */
bool LEVEL(stack_find)(const ProjectRequest *what, Stack *stack);
Laying LEVEL(stack_laying)(const Stack *stack, int64_t view);
/* The next group of slices; false after the last. */
bool LEVEL(stack_next)(Stack *stack);

INLINE int64_t stack_stride(const Stack *stack, int64_t samples)
{
	/* Offsets neighbouring terms in the L1 cache, whose sets repeat after 32 samples. */
	return ((samples + 2 * stack->taps + 31) / 32 * 32 + 9) * stack->wide;
}

/* ---- indices and weights --------------------------------------------------------------------- */

/* Start of LANES outputs from `output`, a multiple of LANES; the same bits as in slice.c. */
INLINE int64_t laying_start(const Laying *l, int64_t output, double plane)
{
	int64_t ahead = output / LANES % BLOCKS;
	double first = (double)(output - ahead * LANES);
	return position_of(l->start + first * l->per_output + plane * l->per_plane) +
	       ahead * l->step;
}

/* Entries of one term with n samples. `taps` and `linear` (pitch 1) are constants. */
INLINE void entries_set(Entries *e, int term, const Laying *l, int64_t start, int32_t n,
	const int taps, const bool linear, int32_t wide)
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
	for (int t = 0; t < taps; t++)
		vf_store(e->weight[term][t],
			vf_positive(1 - l->pitch * vf_abs((float)(t + 1) - away)));
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Adds to `vectors` vectors of each of `outputs` outputs, from `first` on. Loads are the
 * bottleneck, so for linear interpolation only the second weight is loaded. */
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

/* Sums of LANES outputs, [output][slice]; whole groups at once, else vector by vector. */
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

/* ---- transposing: from one row per slice to contiguous slices, and back ---------------------- */

/* Addresses of the same pixel in each slice of a vector, NULL where there is none; `step`: to the
 * next pixel. */
typedef struct {
	float *row[LANES];
	int64_t step;
} Rows;

/* Pixel (x, y) in slices v, v + 1, ... of the group. */
INLINE Rows rows_of_volume(const Stack *s, int64_t v, int64_t x, int64_t y)
{
	Rows rows = {.step = s->f.stride[0]};
	float *at = s->what->volume + (s->first + v) * s->f.per_slice + x * s->f.stride[0] +
		    y * s->f.stride[1];
	for (int64_t l = 0; l < min64(LANES, s->count - v); l++)
		rows.row[l] = at + l * s->f.per_slice;
	return rows;
}

/* The same for the detector rows of those slices, from `column` on. */
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

/* Transposes `count` pixels of the rows, times a weight, to [pixel][slice] with stride `apart`. */
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

/* Transposes [pixel][slice] back to `count` pixels of the rows: overwrites them, or adds weighted
 * values. */
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
