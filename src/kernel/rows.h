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
	int64_t fit; /* rows are continued by the ellipse that fits them */
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

/* ---- objects wider than the detector --------------------------------------------------------- */

/* The squares of the line integrals through a uniform ellipse are a parabola, so a parabola fitted
 * to the squares of a row ends where the object does. x is -1 at the first column, 1 at the
 * last. */
typedef struct {
	double count, x[5], y[3]; /* sums of powers of x, and of these times the squares */
	double most;              /* the largest line integral */
} KernelRowFit;

/* A packed row, and what its line integrals were multiplied by. */
typedef struct {
	KERNEL_GLOBAL float *packed;
	KERNEL_GLOBAL const float *weights;
	int64_t stride, row;
} KernelRowData;

KERNEL_FN double rows_place(const KernelRows *rows, int64_t c)
{
	return 2.0 * (double)c / (double)(rows->columns - 1) - 1;
}

/* The line integral of a column, divided by the cosine: of a fan, the squares of these are a
 * parabola for a disc. */
KERNEL_FN double rows_plain(const KernelRowView *view, const KernelRowData *of, int64_t c)
{
	double cosine = (double)rows_cosine(view, of->row, c);
	double weight = (double)of->weights[c] * cosine * cosine;
	return weight != 0 ? (double)of->packed[c * of->stride] / weight : 0;
}

/* Sums over the columns that the object covers: above a tenth of the largest. */
KERNEL_FN void rows_sum(const KernelRows *rows, const KernelRowView *view, const KernelRowData *of,
	KernelRowFit *fit)
{
	double least, power[5];
	fit->count = fit->most = 0;
	for (int i = 0; i < 5; i++)
		fit->x[i] = fit->y[i % 3] = 0;
	for (int64_t c = 0; c < rows->columns; c++)
		fit->most = fmax(fit->most, rows_plain(view, of, c));
	least = 0.1 * fit->most;
	for (int64_t c = 0; c < rows->columns; c++) {
		double p = rows_plain(view, of, c), x = rows_place(rows, c);
		if (!(p > least))
			continue;
		power[0] = 1;
		for (int i = 0; i < 5; i++) {
			fit->x[i] += power[i];
			if (i < 3)
				fit->y[i] += power[i] * p * p;
			if (i < 4)
				power[i + 1] = power[i] * x;
		}
		fit->count += 1;
	}
}

/* q[0] + q[1] x + q[2] x^2 by least squares; zeros where there are too few columns. */
KERNEL_FN void rows_parabola(const KernelRowFit *fit, double q[3])
{
	const double a = fit->x[0], b = fit->x[1], c = fit->x[2], d = fit->x[3], e = fit->x[4];
	const double A = c * e - d * d, B = c * d - b * e, C = b * d - c * c;
	const double D = a * e - c * c, E = b * c - a * d, F = a * c - b * b;
	const double det = a * A + b * B + c * C;
	int usable = fit->count >= 8 && det > 1e-12 * a * a * a;
	q[0] = usable ? (A * fit->y[0] + B * fit->y[1] + C * fit->y[2]) / det : 0;
	q[1] = usable ? (B * fit->y[0] + D * fit->y[1] + E * fit->y[2]) / det : 0;
	q[2] = usable ? (C * fit->y[0] + E * fit->y[1] + F * fit->y[2]) / det : 0;
}

/* The squares beyond one end at distance d, level + slope d + bend d^2 up to `reach`. */
typedef struct {
	double level, slope, bend, reach;
} KernelRowEnd;

/* The parabola, through the mean of the last columns; side: -1 or 1. One that does not end within
 * the margin is bent down to do so. */
KERNEL_FN KernelRowEnd rows_end(const KernelRows *rows, const KernelRowView *view,
	const KernelRowData *of, const double q[3], int side)
{
	int64_t n = rows->columns, few = n / 32 > 4 ? n / 32 : 4;
	double mean = 0, apart = 0, most = 2.0 * (double)rows->margin / (double)(n - 1);
	KernelRowEnd end = {0, side * q[1] + 2 * q[2], q[2], 0};
	for (int64_t i = 0; i < few; i++) {
		int64_t c = side < 0 ? i : n - 1 - i;
		double p = rows_plain(view, of, c), x = rows_place(rows, c);
		mean += p / (double)few;
		apart += (p * fabs(p) - q[0] - (q[1] + q[2] * x) * x) / (double)few;
	}
	if (!(mean > 0))
		return end;
	end.level = q[0] + side * q[1] + q[2] + apart;
	end.level = fmin(fmax(end.level, 0.5 * mean * mean), 2 * mean * mean);
	double under = end.slope * end.slope - 4 * end.bend * end.level;
	double root = under >= 0 ? 2 * end.level / (sqrt(under) - end.slope) : 0;
	end.reach = root > 0 ? root : 2 * most;
	if (end.reach <= most)
		return end;
	end.slope = fmin(fmax(end.slope, -2 * end.level / most), end.level / most);
	end.bend = -(end.level + end.slope * most) / (most * most);
	end.reach = most;
	return end;
}

/* Continues a packed row beyond both ends of the detector. */
KERNEL_FN void rows_extend(
	const KernelRows *rows, const KernelRowView *view, const KernelRowData *of)
{
	KernelRowFit fit;
	double q[3];
	if (rows->columns < 8)
		return;
	rows_sum(rows, view, of, &fit);
	rows_parabola(&fit, q);
	for (int side = -1; side <= 1; side += 2) {
		int64_t edge = side < 0 ? 0 : rows->columns - 1;
		KernelRowEnd end = rows_end(rows, view, of, q, side);
		double weight = (double)of->weights[edge];
		for (int64_t i = 0; i < rows->margin; i++) {
			double d = 2.0 * (double)(i + 1) / (double)(rows->columns - 1);
			double square = end.level + (end.slope + end.bend * d) * d;
			double cosine = (double)rows_cosine(view, of->row, edge + side * (i + 1));
			int64_t at = side < 0 ? rows->length - 1 - i : rows->columns + i;
			of->packed[at * of->stride] =
				d < end.reach && square > 0
					? (float)(weight * cosine * cosine * sqrt(square))
					: 0;
		}
	}
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
