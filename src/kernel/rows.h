/* Preparation of detector rows for filtering (resampling, weights, extrapolation beyond the
 * detector), and direct convolution. */
#ifndef TOMOS_KERNEL_ROWS_H
#define TOMOS_KERNEL_ROWS_H

#include "kernel/portable.h"

/* FilterSpec for devices. A row is packed into `length` samples: its columns, the margin to their
 * right, zeros, and at the end the margin to their left, since the transform is periodic. */
typedef struct {
	int64_t rows, columns, seen, before, margin, length, taps;
	int hold; /* the outermost columns are repeated beyond the detector */
	int oversample;
} KernelRows;

/* Pixel (row, column) of a view is weighted by the cosine of its ray,
 * distance / sqrt(distance^2 + ((column - foot_column) du)^2 + ((row - foot_row) dv)^2);
 * distance 0: parallel rays, no cosine. For tilted detectors (mapped), pixel (c, r) of the aligned
 * detector is interpolated at column (m0 c + m1 r + m2) / d and row (m3 c + m4 r + m5) / d of the
 * view, with d = m6 c + m7 r + m8; for fans the row is not divided. */
typedef struct {
	double distance, foot_column, foot_row, du, dv;
	double map[9];
	int64_t mapped, fans;
} KernelRowView;

/* Bilinear interpolation in an image; 0 outside. */
KERNEL_FN float rows_between(
	const KernelRows *rows, KERNEL_GLOBAL const float *image, double column, double row)
{
	if (!(column > -1 && row > -1 && column < (double)rows->seen && row < (double)rows->rows))
		return 0;
	double c0 = floor(column), r0 = floor(row), sum = 0;
	for (int j = 0; j < 4; j++) {
		int64_t c = (int64_t)c0 + (j & 1), r = (int64_t)r0 + (j >> 1);
		double share = (j & 1 ? column - c0 : 1 - (column - c0)) *
			       (j & 2 ? row - r0 : 1 - (row - r0));
		if (c >= 0 && r >= 0 && c < rows->seen && r < rows->rows)
			sum += share * image[r * rows->seen + c];
	}
	return (float)sum;
}

/* Column i of a row of the untilted detector (algo/align.c). */
KERNEL_FN float rows_pixel(const KernelRows *rows, const KernelRowView *view,
	KERNEL_GLOBAL const float *image, int64_t row, int64_t i)
{
	if (!view->mapped) {
		int64_t c = i - rows->before;
		return c >= 0 && c < rows->seen ? image[row * rows->seen + c] : 0;
	}
	double c = (double)i, r = (double)row;
	double depth = view->map[6] * c + view->map[7] * r + view->map[8];
	double column = (view->map[0] * c + view->map[1] * r + view->map[2]) / depth;
	if (rows->hold)
		column = fmin(fmax(column, 0.0), (double)(rows->seen - 1));
	return rows_between(rows, image, column,
		(view->map[3] * c + view->map[4] * r + view->map[5]) / (view->fans ? 1 : depth));
}

/* Cosine of the angle between a pixel's ray and the central ray; 1 for parallel rays. */
KERNEL_FN float rows_cosine(const KernelRowView *view, int64_t row, int64_t column)
{
	if (view->distance == 0)
		return 1;
	double u = ((double)column - view->foot_column) * view->du / view->distance;
	double v = ((double)row - view->foot_row) * view->dv / view->distance;
	return (float)(1 / sqrt(1 + u * u + v * v));
}

/* Sample i of a packed row. `weights`: of the view's columns; `fade`: of the margin, from the edge
 * of the detector outwards. */
KERNEL_FN float rows_packed(const KernelRows *rows, const KernelRowView *view,
	KERNEL_GLOBAL const float *image, KERNEL_GLOBAL const float *weights,
	KERNEL_GLOBAL const float *fade, int64_t row, int64_t i)
{
	int64_t n = rows->columns, m = rows->margin, c = i;
	float scale = 1;
	if (i >= n) {
		int right = i < n + m, left = i >= rows->length - m;
		c = right ? n - 1 : 0;
		scale = right ? fade[i - n] : left ? fade[rows->length - 1 - i] : 0;
	}
	if (scale == 0)
		return 0;
	return scale * weights[c] * rows_cosine(view, row, c) *
	       rows_pixel(rows, view, image, row, c);
}

/* Sample c of a packed row with stride `stride`, convolved with `taps`. */
KERNEL_FN float rows_convolved(const KernelRows *rows, KERNEL_GLOBAL const float *packed,
	int64_t stride, KERNEL_GLOBAL const float *taps, int64_t c)
{
	float sum = taps[0] * packed[c * stride];
	for (int64_t t = 1; t < rows->taps; t++) {
		int64_t left = c - t, right = c + t;
		float both = right < rows->columns + rows->margin ? packed[right * stride] : 0;
		if (left >= 0)
			both += packed[left * stride];
		else if (left >= -rows->margin)
			both += packed[(rows->length + left) * stride];
		sum += taps[t] * both;
	}
	return sum;
}

#endif
