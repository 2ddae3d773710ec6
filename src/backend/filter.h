/* Weighting and filtering of detector rows. */
#ifndef TOMOS_BACKEND_FILTER_H
#define TOMOS_BACKEND_FILTER_H

#include "base/base.h"

typedef enum { PADDING_ZERO, PADDING_EDGE, PADDING_SMOOTH } Padding;

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

/* Pixel (row, column) of a view is weighted by column_weight[column] and by the cosine of its ray,
 * distance / sqrt(distance^2 + ((column - foot_column) du)^2 + ((row - foot_row) dv)^2). */
typedef struct {
	double distance; /* 0: parallel rays, no cosine */
	double foot_column, foot_row, du, dv;
	const float *column_weight; /* those of the next view follow in memory */
	/* For tilted detectors: pixel (c, r) of the aligned detector is interpolated at column
	 * (m0 c + m1 r + m2) / d and row (m3 c + m4 r + m5) / d of the view, with
	 * d = m6 c + m7 r + m8; for fans the row is not divided. */
	bool mapped, fans;
	double map[9];
} FilterView;

typedef struct Filter Filter;

#endif
