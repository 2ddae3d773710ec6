/* Weighting and filtering of detector rows, as the backends do it. */
#ifndef TOMOS_BACKEND_FILTER_H
#define TOMOS_BACKEND_FILTER_H

#include "base/base.h"

typedef enum { PADDING_ZERO, PADDING_EDGE, PADDING_SMOOTH } Padding;

/* Rows are set into wider ones, multiplied by weights, continued by `margin` samples on both sides
 * and convolved with the even kernel[|n|], |n| < taps, exactly: nothing wraps around, whatever
 * length a transform has. */
typedef struct {
	int64_t columns, margin, taps;
	int64_t seen, before; /* columns of the views, and columns filled with zeros before them */
	Padding padding;
	const double *kernel; /* NULL: weighting alone */
	bool direct;          /* tap by tap instead of by transforms */
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
	const float *column_weight; /* followed by those of the next view, where there is one */
	/* Where the detector is not aligned: pixel (column, row) of the aligned one takes its value
	 * from column (m0 c + m1 r + m2) / (m6 c + m7 r + m8), row (m3 c + m4 r + m5) / (m6 c + m7
	 * r + m8), which in fans is not divided. */
	bool mapped, fans;
	double map[9];
} FilterView;

typedef struct Filter Filter;

#endif
