/* Rows of four pixels, for voxel-driven back projection of in-slice parallel rays.
 *
 * A row is along the axis on which the detector column changes least, by `pitch` <= 1 columns per
 * pixel. Let pixel 0 be at column j + f with 0 <= f < 1, s the samples, and d[j] = s[j + 1] - s[j].
 * Linear interpolation gives pixel k the value s[j] + (f + k pitch) d[j] + sum over i >= 1 of
 * max(0, f + k pitch - i) (d[j + i] - d[j + i - 1]): the line through the first two samples, plus a
 * change of slope ("bend") at each further column. Value and slope of the line, and the bends, are
 * summed over several views and only then evaluated at the pixels. A row takes three to five
 * samples and five to eight FMAs per view; four separate interpolations take eight and eight.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FOUR_H
#define TOMOS_BACKEND_CPU_LEVEL_FOUR_H

#include "backend/cpu/level/simd.h"
#include "backend/cpu/level/slice.h"

enum {
	FOUR = 4,
	FOUR_KINDS = 4,
	FOUR_COLUMNS = 5, /* samples that a row of four pixels can use, at most */
	FOUR_BENDS = FOUR_COLUMNS - 2,
	FOUR_WEIGHTS = 7,
	FOUR_VIEWS = 12 /* views summed before pixels are evaluated */
};

/* Largest change of the column per pixel across the rows for which LANES rows read within one
 * window (WINDOW samples) with every instruction set. */
#define FOUR_WIDEST 1.25

/* A view. The pixel with index a across the rows of four and index b along them is at column start
 * + a per_other + b per_row. Rows are along p (axis 0) or q (axis 1). `start` is for the lane with
 * the lowest column among LANES pixels across. If columns decrease along b, the samples are stored
 * in reverse order (`flip`) and the column numbers are reversed as well, so that per_row >= 0.
 * `kind`: class of the pitch, which determines the number of bends; see four_bends. */
typedef struct {
	int axis, kind;
	bool flip;
	double start, per_other, per_row;
	float pitch, weight; /* weight: factor of the view's samples */
	Lanes lanes;
} Fours;

/* Whether rows of four pixels can be used for all views of the request, and are worth it. */
bool LEVEL(fours_apply)(const ProjectRequest *what, const Frame *f);
/* Indices of the request's views, sorted by axis and kind; to be freed by the caller. */
tomos_status LEVEL(fours_order)(const ProjectRequest *what, const Frame *f, int64_t **order);
/* Sets up the views at positions first, first + 1, ... of the order. Returns their number: `most`
 * or all that remain, or up to FOUR_VIEWS fewer, so that views which are summed together are in the
 * same call. */
int64_t LEVEL(fours_next)(const ProjectRequest *what, const Frame *f, const int64_t *order,
	int64_t first, int64_t most, Fours *views);
/* Voxel-driven back projection slice by slice. */
tomos_status LEVEL(slice_fours)(const ProjectRequest *what, const Frame *f);

/* Calls a function with `kind` as a compile-time constant last argument, so that its loops over
 * bends are unrolled. */
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

/* Number of bends that can affect pixel k = 1 .. 3: k pitch rounded up to whole columns. */
INLINE int four_bends(const int kind, const int k)
{
	return 1 + (k == 2 && kind >= 2) + (k == 3 && kind >= 1) + (k == 3 && kind >= 3);
}

/* Number of samples used by a row of four pixels. */
INLINE int four_columns(const int kind)
{
	return 2 + four_bends(kind, 3);
}

/* Number of weights: the fraction f, and one per pixel and bend. */
INLINE int four_weights(const int kind)
{
	return 1 + four_bends(kind, 1) + four_bends(kind, 2) + four_bends(kind, 3);
}

/* Fixed-point column of the lowest of LANES rows that begin at the pixel with index `other` across
 * and `row` along the rows. */
INLINE int64_t fours_start(const Fours *l, int64_t other, int64_t row)
{
	return position_of(l->start + (double)other * l->per_other + (double)row * l->per_row);
}

/* For LANES rows of four pixels: returns the first column j relative to that of `start`; weight[0]
 * is the fraction f, followed by max(0, f + k pitch - i) for every pixel k and bend i. */
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

/* Adds value and slope per pixel of the line through the first two samples, and computes the
 * changes of slope at the further ones. */
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

/* Evaluates the sums at pixel k of the row. */
INLINE vf four_pixel(const FourSums *sum, const int k)
{
	return k == 0 ? sum->line : sum->line + (float)k * sum->slope + sum->bend[k - 1];
}

/* Number of consecutive views from `first` on with the same axis and kind, at most FOUR_VIEWS:
 * these are summed together. */
INLINE int64_t fours_alike(const Fours *views, int64_t first, int64_t end)
{
	int64_t v = first;
	while (v < end && v - first < FOUR_VIEWS && views[v].axis == views[first].axis &&
		views[v].kind == views[first].kind)
		v++;
	return v - first;
}

#endif
