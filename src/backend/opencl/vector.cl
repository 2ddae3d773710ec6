/* Vector operations, sums, and gradient fields. Vectors are parts of buffers and start at x0, y0,
 * ... */
#include "backend/opencl/device.cl"

#define VECTOR_OP(name, statement) \
	LINE do_##name(long n, float a, float b, float c, global const float *w, long w0, \
		global const float *x, long x0, global float *y, long y0) \
	{ \
		w += w0; \
		x += x0; \
		y += y0; \
		EACH(i, 0, n) \
			statement; \
	}
#define fabsf fabs
#define fminf fmin
#define fmaxf fmax
#define sqrtf sqrt
#define copysignf copysign
#include "kernel/vector.def"

/* One partial sum per group; the host adds them in order. `more`: parameters before the others. */
#define SUM(name, more, term, join) \
	LINE do_##name(more long n, global const float *x, long x0, global const float *y, \
		long y0, global double *partial) \
	{ \
		local double values[GROUP]; \
		int own = get_local_id(0); \
		double sum = 0; \
		x += x0; \
		y += y0; \
		EACH(i, 0, n) \
			sum = join(sum, term); \
		values[own] = sum; \
		for (int pairs = GROUP / 2; pairs > 0; pairs /= 2) { \
			barrier(CLK_LOCAL_MEM_FENCE); \
			if (own < pairs) \
				values[own] = join(values[own], values[own + pairs]); \
		} \
		if (own == 0) \
			partial[get_group_id(0)] = values[0]; \
	}
#define ADD(a, b) ((a) + (b))
#define NONE
#define WINDOW double low, double high,
SUM(dot, NONE, (double)x[i] * y[i], ADD)
SUM(distance, NONE, ((double)x[i] - y[i]) * ((double)x[i] - y[i]), ADD)
SUM(largest, NONE, fabs((double)x[i]), fmax)
SUM(not_finite, NONE, !isfinite(x[i]), ADD)
SUM(outside, WINDOW, x[i] < low || x[i] > high, ADD)

/* As element_encode of src/io: the same bits. */
LINE do_encode(long n, int bytes, double scale, double offset, global const float *x, long x0,
	global float *stored, long stored0)
{
	double most = bytes == 1 ? 255 : 65535;
	x += x0;
	stored += stored0;
	EACH(i, 0, n) {
		double number = ((double)x[i] - offset) / scale;
		number = number >= 0 ? fmin(floor(number + 0.5), most) : 0;
		if (bytes == 1)
			((global uchar *)stored)[i] = (uchar)number;
		else
			((global ushort *)stored)[i] = (ushort)number;
	}
}

/* Clips vectors to the length `bound`, or divides them by |(y, bound)|. */
LINE do_lengths(long n, int parts, float bound, int cut, global float *y, long y0)
{
	y += y0;
	EACH(i, 0, n) {
		float square = 0;
		for (int k = 0; k < parts; k++)
			square += y[k * n + i] * y[k * n + i];
		float by = cut ? sqrt(square) / bound : sqrt(square + bound * bound);
		for (int k = 0; k < parts && (!cut || by > 1); k++)
			y[k * n + i] /= by;
	}
}

/* Index of element i along axis k, and the stride to its neighbour. */
#define AXES \
	const long extent[3] = {nx, ny, nz}, stride[3] = {1, nx, nx * ny}, count = nx * ny * nz; \
	from += from0; \
	to += to0

/* The last difference along an axis is zero. */
LINE do_gradient(long nx, long ny, long nz, int parts, global const float *from, long from0,
	global float *to, long to0)
{
	AXES;
	EACH(i, 0, count)
		for (int k = 0; k < parts; k++) {
			int last = i / stride[k] % extent[k] == extent[k] - 1;
			to[k * count + i] = last ? 0 : from[i + stride[k]] - from[i];
		}
}

LINE do_gradient_adjoint(long nx, long ny, long nz, int parts, global const float *from, long from0,
	global float *to, long to0)
{
	AXES;
	EACH(i, 0, count) {
		float sum = 0;
		for (int k = 0; k < parts; k++) {
			global const float *g = from + k * count + i;
			long at = i / stride[k] % extent[k];
			sum += (at > 0 ? g[-stride[k]] : 0) - (at < extent[k] - 1 ? g[0] : 0);
		}
		to[i] = sum;
	}
}
