/* Weighting and filtering of detector rows. */
#ifndef TOMOS_BACKEND_FILTER_H
#define TOMOS_BACKEND_FILTER_H

#include "base/base.h"
#include "kernel/rows.h"

typedef enum { PADDING_ZERO, PADDING_EDGE, PADDING_SMOOTH, PADDING_ELLIPSE } Padding;

/* Rows are widened, multiplied by weights, padded by `margin` samples on both sides and convolved
 * with the even kernel[|n|], |n| < taps. The convolution is linear for every length of the
 * transform. */
typedef struct {
	int64_t columns, margin, taps;
	int64_t seen, before; /* columns of the views, and zero columns inserted before them */
	Padding padding;
	const double *kernel; /* NULL: weighting only */
	bool direct;          /* sum over taps instead of FFTs */
	int oversample;       /* samples per column in the result, by linear interpolation */
} FilterSpec;

/* Columns of a result with `oversample` samples per column. */
static inline int64_t filter_columns(const FilterSpec *spec)
{
	return (spec->columns - 1) * spec->oversample + 1;
}

/* FFTs are used, not sums over taps. */
static inline bool filter_transforms(const FilterSpec *spec)
{
	return spec->kernel && !spec->direct;
}

/* Samples of a packed row (KernelRows), and length of its transform. */
tomos_status filter_length(const FilterSpec *spec, int64_t *length);
/* `rows` rows per view, packed into `length` samples each. */
KernelRows filter_packing(const FilterSpec *spec, int64_t length, int64_t rows);
/* fade[0 .. margin]: factors of the padding from the detector's edge outwards, then a zero. */
void filter_fade(const FilterSpec *spec, float *fade);

/* A view; column_weight[column] are further weights, those of the next view follow in memory. */
typedef struct {
	KernelRowView of;
	const float *column_weight;
} FilterView;

typedef struct Filter Filter;

#endif
