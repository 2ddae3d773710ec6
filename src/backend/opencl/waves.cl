/* Preparation: ring removal by wavelets and by one offset per column (prep/ring_wavelet.c and
 * prep/ring_titarenko.c have the papers), and phase retrieval (prep/phase.c). */
#include "backend/opencl/prep_tools.cl"
#include "kernel/fft.h"

/* ---- one offset per column ------------------------------------------------------------------- */

/* Mean over the views of each pixel, [column][row] so that the solvers read consecutive values. */
PLANE do_means(PrepShape n, global const float *data, long data0, global float *means, long means0)
{
	EACH(r, 1, n.rows)
	EACH(c, 0, n.columns) {
		double sum = 0;
		for (long v = 0; v < n.views; v++)
			sum += (double)data[data0 + (v * n.rows + r) * n.columns + c];
		((global double *)(means + means0))[c * n.rows + r] = sum / (double)n.views;
	}
}

/* (D'D + alpha) q = D'D m by the Thomas algorithm, one sinogram per work-item. The matrix is
 * factorised: pivots has the upper diagonal and the inverse pivots. */
LINE do_solve(PrepShape of, global const float *list, long list0, global const float *means,
	long means0, global float *offsets, long offsets0)
{
	global const double *pivots = (global const double *)(list + list0);
	global const double *mean = (global const double *)(means + means0);
	global double *offset = (global double *)(offsets + offsets0);
	long n = of.columns;
	EACH(r, 0, of.rows) {
		double before = 0, here = mean[r], left = here;
		for (long c = 0; c < n; c++) {
			double right = c + 1 < n ? mean[(c + 1) * of.rows + r] : here;
			before = ((here - left) + (here - right) + before) * pivots[n + c];
			offset[c * of.rows + r] = before;
			left = here;
			here = right;
		}
		for (long c = n - 2; c >= 0; c--) {
			before = offset[c * of.rows + r] - pivots[c] * before;
			offset[c * of.rows + r] = before;
		}
	}
}

PLANE do_subtract(PrepShape n, global const float *offsets, long offsets0, global float *data,
	long data0)
{
	global const double *offset = (global const double *)(offsets + offsets0);
	EACH(v, 2, n.views)
	EACH(r, 1, n.rows)
	EACH(c, 0, n.columns)
		data[data0 + (v * n.rows + r) * n.columns + c] -= (float)offset[c * n.rows + r];
}

/* ---- wavelets -------------------------------------------------------------------------------- */

PLANE do_pad(PrepImages m, PrepShape n, global const float *data, long data0, global float *image,
	long image0)
{
	EACH(s, 2, m.count)
	EACH(v, 1, m.views)
	EACH(c, 0, m.columns) {
		long view = mirrored((int)v, (int)n.views);
		long column = mirrored((int)(c - m.margin), (int)n.columns);
		image[image0 + (s * m.views + v) * m.columns + c] =
			data[data0 + (view * n.rows + m.first + s) * n.columns + column];
	}
}

PLANE do_crop(PrepImages m, PrepShape n, global const float *image, long image0, global float *data,
	long data0)
{
	EACH(s, 2, m.count)
	EACH(v, 1, n.views)
	EACH(c, 0, n.columns)
		data[data0 + (v * n.rows + m.first + s) * n.columns + c] =
			image[image0 + (s * m.views + v) * m.columns + c + m.margin];
}

/* A line of `count` values with that stride: pair i of averages and details. */
static inline void forth(const PrepTaps *t, global const float *in, global float *out, long count,
	long stride, long i)
{
	float average = 0, detail = 0;
	long from = 2 * i;
	for (int k = 0; k < t->taps; k++) {
		float value = in[from * stride];
		average += t->low[k] * value;
		detail += t->high[k] * value;
		from = from + 1 < count ? from + 1 : 0;
	}
	out[i * stride] = average;
	out[(count / 2 + i) * stride] = detail;
}

/* Values 2 i and 2 i + 1. */
static inline void back(const PrepTaps *t, global const float *in, global float *out, long count,
	long stride, long i)
{
	float even = 0, odd = 0;
	long half_count = count / 2, from = i;
	for (int k = 0; k < t->taps; k += 2) {
		float average = in[from * stride], detail = in[(half_count + from) * stride];
		even += t->low[k] * average + t->high[k] * detail;
		odd += t->low[k + 1] * average + t->high[k + 1] * detail;
		from = from > 0 ? from - 1 : half_count - 1;
	}
	out[2 * i * stride] = even;
	out[(2 * i + 1) * stride] = odd;
}

PLANE do_along_columns(PrepTaps t, PrepImages m, long views, long columns, global const float *in,
	long in0, global float *out, long out0)
{
	EACH(s, 2, m.count)
	EACH(v, 1, views)
	EACH(i, 0, columns / 2) {
		long row = (s * m.views + v) * m.columns;
		if (t.forth)
			forth(&t, in + in0 + row, out + out0 + row, columns, 1, i);
		else
			back(&t, in + in0 + row, out + out0 + row, columns, 1, i);
	}
}

PLANE do_along_views(PrepTaps t, PrepImages m, long views, long columns, global const float *in,
	long in0, global float *out, long out0)
{
	EACH(s, 2, m.count)
	EACH(i, 1, views / 2)
	EACH(c, 0, columns) {
		long from = s * m.views * m.columns + c;
		if (t.forth)
			forth(&t, in + in0 + from, out + out0 + from, views, m.columns, i);
		else
			back(&t, in + in0 + from, out + out0 + from, views, m.columns, i);
	}
}

/* Cosine and sine of each view of a band, for one wave per scan. */
LINE do_circle(long count, global float *circle, long circle0)
{
	EACH(v, 0, count) {
		circle[circle0 + 2 * v] = (float)cospi(2.0 * v / count);
		circle[circle0 + 2 * v + 1] = (float)sinpi(2.0 * v / count);
	}
}

/* Fourier sums over the views: sums[sinogram][wave][column]. */
PLANE do_wave_sums(PrepImages m, PrepBand band, global const float *circle, long circle0,
	global const float *image, long image0, global float *sums, long sums0)
{
	EACH(s, 2, m.count)
	EACH(k, 1, band.count)
	EACH(c, 0, band.columns) {
		global const float *in =
			image + image0 + s * m.views * m.columns + band.columns + c;
		long by = (band.first + k) % band.views, angle = 0;
		double re = 0, im = 0;
		for (long v = 0; v < band.views; v++) {
			float value = in[v * m.columns];
			re += value * circle[circle0 + 2 * angle];
			im += value * circle[circle0 + 2 * angle + 1];
			angle = angle + by < band.views ? angle + by : angle + by - band.views;
		}
		global float *out = sums + sums0 + 2 * ((s * WAVES + k) * m.columns + c);
		out[0] = (float)(band.factor[k] * re);
		out[1] = (float)(band.factor[k] * im);
	}
}

PLANE do_subtract_waves(PrepImages m, PrepBand band, global const float *circle, long circle0,
	global const float *sums, long sums0, global float *image, long image0)
{
	EACH(s, 2, m.count)
	EACH(v, 1, band.views)
	EACH(c, 0, band.columns) {
		long place = (s * m.views + v) * m.columns + band.columns + c;
		float value = image[image0 + place];
		for (long k = 0; k < band.count; k++) {
			long angle = (band.first + k) * v % band.views;
			global const float *wave = circle + circle0 + 2 * angle;
			global const float *sum =
				sums + sums0 + 2 * ((s * WAVES + k) * m.columns + c);
			value -= sum[0] * wave[0] + sum[1] * wave[1];
		}
		image[image0 + place] = value;
	}
}

/* ---- phase retrieval ------------------------------------------------------------------------- */

/* Views from `first` on as transmissions, padded with their edge values; two are the real and the
 * imaginary part of one frame, the last of an odd number is alone, with zeros. */
PLANE do_frames(PrepFrame f, PrepShape n, long first, long pairs, global const float *data,
	long data0, global float *out, long out0)
{
	EACH(pair, 2, pairs)
	EACH(r, 1, f.rows)
	EACH(c, 0, f.columns)
		for (int k = 0; k < 2; k++) {
			long view = first + 2 * pair + k;
			long row = clamp(r - f.before[0], 0L, n.rows - 1);
			long column = clamp(c - f.before[1], 0L, n.columns - 1);
			long from = data0 + (view * n.rows + row) * n.columns + column;
			out[out0 + 2 * ((pair * f.rows + r) * f.columns + c) + k] =
				view < n.views ? exp(-data[from]) : 0;
		}
}

PLANE do_transpose(long rows, long columns, long pairs, global const float *in, long in0,
	global float *out, long out0)
{
	global const KernelComplex *from = (global const KernelComplex *)(in + in0);
	global KernelComplex *to = (global KernelComplex *)(out + out0);
	EACH(pair, 2, pairs)
	EACH(r, 1, rows)
	EACH(c, 0, columns)
		to[(pair * columns + c) * rows + r] = from[(pair * rows + r) * columns + c];
}

static inline double wave_square(long k, long count)
{
	double wave = 2 * M_PI * (double)min(k, count - k) / (double)count;
	return wave * wave;
}

/* Frames are transposed. */
PLANE do_damp(PrepFrame f, double strength, long pairs, global float *frames, long frames0)
{
	double share = 1 / ((double)f.rows * (double)f.columns);
	EACH(pair, 2, pairs)
	EACH(c, 1, f.columns)
	EACH(r, 0, f.rows) {
		double square = wave_square(c, f.columns) + wave_square(r, f.rows);
		float by = (float)(share / (1 + strength * square));
		long place = frames0 + 2 * ((pair * f.columns + c) * f.rows + r);
		frames[place] *= by;
		frames[place + 1] *= by;
	}
}

/* A second forward transform is the inverse up to the order of samples. */
PLANE do_retrieved(PrepFrame f, PrepShape n, long first, long count, float floor,
	global const float *frames, long frames0, global float *data, long data0)
{
	EACH(v, 2, count)
	EACH(r, 1, n.rows)
	EACH(c, 0, n.columns) {
		long row = (f.rows - r - f.before[0]) % f.rows;
		long column = (f.columns - c - f.before[1]) % f.columns;
		float value = frames[frames0 +
				     2 * ((v / 2 * f.rows + row) * f.columns + column) + v % 2];
		data[data0 + ((first + v) * n.rows + r) * n.columns + c] =
			-log(fmax(value, floor));
	}
}
