/* Rows of four pixels, for voxel-driven back projection of in-slice parallel rays.
 *
 * The row is along the axis on which the column of a pixel changes least, by `pitch` up to 1. Where
 * the first pixel falls f beyond column j, linear interpolation of samples s gives pixel k the
 * value s[j] + (f + k pitch) d[j] + sum over i >= 1 of max(0, f + k pitch - i) (d[j + i] - d[j + i
 * - 1]) with d[j] = s[j + 1] - s[j]: the line through the first two columns, plus a bend at each
 * column after them. Lines, slopes and bends are summed over several views and only then evaluated
 * at the pixels. This takes three to five samples and five to eight FMAs instead of eight and
 * eight.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FOUR_H
#define TOMOS_BACKEND_CPU_LEVEL_FOUR_H

#include "backend/cpu/level/simd.h"
#include "backend/cpu/level/slice.h"

enum {
	FOUR = 4,
	FOUR_KINDS = 4,
	FOUR_COLUMNS = 5, /* that a row of four can meet, at most */
	FOUR_BENDS = FOUR_COLUMNS - 2,
	FOUR_WEIGHTS = 7,
	FOUR_VIEWS = 12 /* summed before pixels are evaluated */
};

/* Largest column step along the other axis for which the windows of all instruction sets
 * suffice. */
#define FOUR_WIDEST 1.25

/* A pixel falls on column start + a per_other + b per_row, where rows of four are along b: p (axis
 * 0) or q (1). `start` is for the lowest of LANES pixels along a. Where columns decrease along b,
 * samples are stored in reverse (`flip`), so that they always increase. */
typedef struct {
	int axis, kind;
	bool flip;
	double start, per_other, per_row;
	float pitch, weight; /* weight: of the view's samples */
	Lanes lanes;
} Fours;

/* Whether all views of the request can be processed so, and there are enough of them to pay. */
bool LEVEL(fours_apply)(const ProjectRequest *what, const Frame *f);
/* The views of the request, sorted by axis and kind. */
tomos_status LEVEL(fours_order)(const ProjectRequest *what, const Frame *f, int64_t **order);
/* Set-up of the views from `first` on in that order. Returns their number: `most`, or up to
 * FOUR_VIEWS fewer, since views that are summed together are not split. */
int64_t LEVEL(fours_next)(const ProjectRequest *what, const Frame *f, const int64_t *order,
	int64_t first, int64_t most, Fours *views);
/* Voxel-driven back projection slice by slice. */
tomos_status LEVEL(slice_fours)(const ProjectRequest *what, const Frame *f);

/* Calls a function with the kind as a constant last argument, so that loops over bends are
 * unrolled. */
#define FOUR_BY_KIND(kind, function, ...) \
	do { \
		const int own_kind = (kind); \
		if (own_kind == 0) \
			function(__VA_ARGS__, 0); \
		else if (own_kind == 1) \
			function(__VA_ARGS__, 1); \
		else if (own_kind == 2) \
			function(__VA_ARGS__, 2); \
		else \
			function(__VA_ARGS__, 3); \
	} while (0)

/* Number of bends of pixel k = 1 .. 3: one more than the whole columns that k pitch can pass. */
INLINE int four_bends(const int kind, const int k)
{
	return 1 + (k == 2 && kind >= 2) + (k == 3 && kind >= 1) + (k == 3 && kind >= 3);
}

INLINE int four_columns(const int kind)
{
	return 2 + four_bends(kind, 3);
}

INLINE int four_weights(const int kind)
{
	return 1 + four_bends(kind, 1) + four_bends(kind, 2) + four_bends(kind, 3);
}

INLINE int64_t fours_start(const Fours *l, int64_t other, int64_t row)
{
	return position_of(l->start + (double)other * l->per_other + (double)row * l->per_row);
}

/* First columns of LANES rows of four, relative to that of `start`; fractions and weights of
 * bends. */
INLINE vi fours_weigh(const Fours *l, int64_t start, const int kind, vf *weight)
{
	vi at = lanes_at(&l->lanes, start, &weight[0]);
	for (int k = 1, n = 1; k < FOUR; k++)
		for (int i = 1; i <= four_bends(kind, k); i++)
			weight[n++] = vf_positive(weight[0] + ((float)k * l->pitch - (float)i));
	return at;
}

typedef struct {
	vf line, slope, bend[FOUR - 1];
} FourSums;

/* Adds the line and its slope, and computes the bends. */
INLINE void four_line(
	FourSums *sum, const vf *sample, vf fraction, vf pitch, const int kind, vf *bend)
{
	vf d = sample[1] - sample[0];
	sum->line += sample[0] + fraction * d;
	sum->slope += pitch * d;
	for (int i = 2; i < four_columns(kind); i++) {
		vf next = sample[i] - sample[i - 1];
		bend[i - 2] = next - d;
		d = next;
	}
}

/* Value of pixel k. */
INLINE vf four_pixel(const FourSums *sum, const int k)
{
	return k == 0 ? sum->line : sum->line + (float)k * sum->slope + sum->bend[k - 1];
}

/* Number of views in [first, end) that are summed with the first. */
INLINE int64_t fours_alike(const Fours *views, int64_t first, int64_t end)
{
	int64_t v = first;
	while (v < end && v - first < FOUR_VIEWS && views[v].axis == views[first].axis &&
		views[v].kind == views[first].kind)
		v++;
	return v - first;
}

#endif
