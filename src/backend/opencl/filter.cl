/* Row filters: two rows form the real and imaginary part of one complex row. */
#include "backend/opencl/device.cl"
#define KERNEL_ADD(pointer, value) (*(pointer) += (value))
#include "kernel/fft.h"
#include "kernel/rows.h"

/* Packs rows from `first` on of all views, two by two, into pairs[pair][length]; rows beyond the
 * last are zeros. */
PLANE do_prepare_rows(KernelRows rows, global const KernelRowView *views,
	global const float *weights,
	long weights0, global const float *fade, long fade0, long first, long count, long pairs,
	global const float *in, long in0, global float *out, long out0)
{
	EACH(pair, 1, pairs)
	EACH(i, 0, rows.length)
		for (int k = 0; k < 2; k++) {
			long index = first + 2 * pair + k, view = index / rows.rows;
			float value = 0;
			if (index < count) {
				KernelRowView seen = views[view];
				value = rows_packed(&rows, &seen,
					in + in0 + view * rows.rows * rows.seen,
					weights + weights0 + view * rows.columns, fade + fade0,
					index % rows.rows, i);
			}
			out[out0 + 2 * (pair * rows.length + i) + k] = value;
		}
}

/* Continues packed rows beyond the detector; one work item per row. */
PLANE do_extend_rows(KernelRows rows, global const KernelRowView *views,
	global const float *weights,
	long weights0, long first, long count, global float *packed, long packed0)
{
	EACH(one, 1, 1)
	EACH(k, 0, count) {
		long index = first + k, view = index / rows.rows;
		KernelRowView seen = views[view];
		KernelRowData of = {packed + packed0 + 2 * (k / 2 * rows.length) + k % 2,
			weights + weights0 + view * rows.columns, 2, index % rows.rows};
		rows_extend(&rows, &seen, &of);
	}
}

PLANE do_transform_rows(long length, long span, int radix, long pairs,
	global const KernelComplex *twiddles, long twiddles0, global const float *scale,
	long scale0,
	global const KernelComplex *from, long from0, global KernelComplex *to, long to0)
{
	EACH(pair, 1, pairs)
	EACH(j, 0, length / radix)
		fft_step_any(from + from0 / 2 + pair * length, to + to0 / 2 + pair * length,
			twiddles + twiddles0 / 2, scale ? scale + scale0 : 0, length, span, radix,
			j);
}

/* Sample c of one row of a pair: unchanged, convolved with taps, or from where a second forward
 * transform leaves it. */
static inline float sample(const KernelRows *rows, global const float *row,
	global const float *taps,
	int transformed, long c)
{
	if (taps)
		return rows_convolved(rows, row, 2, taps, c);
	return row[2 * (transformed && c > 0 ? rows->length - c : c)];
}

PLANE do_unpack_rows(KernelRows rows, global const float *taps, long taps0, int transformed,
	long first,
	long count, global const float *packed, long packed0, global float *out, long out0)
{
	long fine = (rows.columns - 1) * rows.oversample + 1;
	global const float *given = taps ? taps + taps0 : 0;
	EACH(index, 1, count)
	EACH(i, 0, fine) {
		global const float *row =
			packed + packed0 + 2 * (index / 2 * rows.length) + index % 2;
		long c = i / rows.oversample, k = i % rows.oversample;
		float here = sample(&rows, row, given, transformed, c);
		if (k > 0)
			here += (sample(&rows, row, given, transformed, c + 1) - here) * k /
				rows.oversample;
		out[out0 + (first + index) * fine + i] = here;
	}
}
