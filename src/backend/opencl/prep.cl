/* Preparation: stored counts to line integrals, and steps on whole views. Addresses are parts of
 * buffers and start at data0, out0, ... floats; those of stored numbers at counts0 bytes. */
#include "backend/opencl/prep_tools.cl"

/* ---- stored numbers -------------------------------------------------------------------------- */

static inline ushort swap2(ushort v)
{
	return (ushort)(v << 8 | v >> 8);
}

static inline uint swap4(uint v)
{
	return v << 24 | (v << 8 & 0xff0000u) | (v >> 8 & 0xff00u) | v >> 24;
}

/* Without cl_khr_fp16. */
static inline float half_value(ushort bits)
{
	uint exponent = bits >> 10 & 31, part = bits & 1023;
	float value = as_float((exponent + 112) << 23 | part << 13);
	if (exponent == 0)
		value = (float)part * 0x1p-24f;
	if (exponent == 31)
		value = part ? NAN : INFINITY;
	return bits & 0x8000 ? -value : value;
}

static inline float number1(uchar raw, int type)
{
	return type == STORED_INT8 ? (float)as_char(raw) : (float)raw;
}

static inline float number2(ushort raw, int type)
{
	if (type == STORED_FLOAT16)
		return half_value(raw);
	return type == STORED_INT16 ? (float)as_short(raw) : (float)raw;
}

static inline float number4(uint raw, int type)
{
	if (type == STORED_FLOAT32)
		return as_float(raw);
	return type == STORED_INT32 ? (float)as_int(raw) : (float)raw;
}

static inline float stored(
	const PrepCounts *in, global const uchar *counts, long frame, long row, long column)
{
	long at = frame * in->stride[0] + row * in->stride[1] + column * in->stride[2];
	float value;
	if (in->type == STORED_UINT8 || in->type == STORED_INT8) {
		value = number1(counts[at], in->type);
	} else if (in->type == STORED_UINT16 || in->type == STORED_INT16 ||
		   in->type == STORED_FLOAT16) {
		ushort raw = ((global const ushort *)counts)[at];
		value = number2(in->swapped ? swap2(raw) : raw, in->type);
	} else {
		uint raw = ((global const uint *)counts)[at];
		value = number4(in->swapped ? swap4(raw) : raw, in->type);
	}
	bool plain = in->scale == 1 && in->offset == 0;
	return plain ? value : (float)(in->offset + in->scale * (double)value);
}

PLANE do_convert(PrepCounts in, global const uchar *counts, long counts0, PrepShape n,
	global float *out, long out0)
{
	EACH(v, 2, n.views)
	EACH(r, 1, n.rows)
	EACH(c, 0, n.columns)
		out[out0 + (v * n.rows + r) * n.columns + c] =
			stored(&in, counts + counts0, v, r, c);
}

/* ---- flat-field correction ------------------------------------------------------------------- */

/* One image of frames order[begin ..], or begin .. without an order. */
PLANE do_average(PrepCounts in, global const uchar *counts, long counts0, PrepShape n,
	global const int *order, long order0, long begin, long count, int median,
	global float *out, long out0)
{
	counts += counts0;
	EACH(r, 1, n.rows)
	EACH(c, 0, n.columns) {
#define VALUE(i) \
	stored(&in, counts, order ? (long)order[order0 + begin + (i)] : begin + (i), r, c)
		double sum = 0;
		for (long k = 0; k < count; k++)
			sum += (double)VALUE(k);
		float average = (float)(sum / (double)count);
		if (median && isfinite(sum))
			MEDIAN(average, (int)count, VALUE(i));
		out[out0 + r * n.columns + c] = average;
#undef VALUE
	}
}

/* Marks rows with values that are not finite. */
PLANE do_normalize(PrepCounts in, global const uchar *counts, long counts0, PrepShape n,
	global const float *flats, long flats0, global const float *darks, long darks0,
	global const float *lights, long lights0, global float *out, long out0,
	global int *marks, long marks0)
{
	long plane = n.rows * n.columns;
	EACH(v, 2, n.views) {
		const PrepLight light = ((global const PrepLight *)(lights + lights0))[v];
		EACH(r, 1, n.rows)
		EACH(c, 0, n.columns) {
			long at = r * n.columns + c;
			float a = flats[flats0 + light.group[0] * plane + at];
			float b = flats[flats0 + light.group[1] * plane + at];
			float dark = darks[darks0 + at];
			float bright = a + light.share * (b - a) - dark;
			float count = stored(&in, counts + counts0, v, r, c);
			float value = bright > 0 ? (count - dark) / bright : NAN;
			if (!isfinite(value))
				marks[marks0 + v * n.rows + r] = 1;
			out[out0 + v * plane + at] = value;
		}
	}
}

PLANE do_mark(long rows, long columns, global const float *data, long data0, global int *marks,
	long marks0)
{
	EACH(r, 1, rows)
	EACH(c, 0, columns)
		if (!isfinite(data[data0 + r * columns + c]))
			marks[marks0 + r] = 1;
}

/* Interpolates columns from .. to - 1 between the good values beside them, or repeats the only
 * one. */
static inline void fill_gap(global float *row, long columns, long from, long to, float none)
{
	float left = from > 0 ? row[from - 1] : to < columns ? row[to] : none;
	float right = to < columns ? row[to] : left;
	for (long i = from; i < to; i++)
		row[i] = left + (right - left) * (float)(i - from + 1) / (float)(to - from + 1);
}

/* Marked rows, one per work-item: few rows have values that are not finite. */
LINE do_repair(long rows, long columns, float none, global float *data, long data0,
	global const int *marks, long marks0, global uint *found, long found0)
{
	local uint sum;
	uint repaired = 0;
	EACH(r, 0, rows) {
		global float *row = data + data0 + r * columns;
		for (long i = 0; marks[marks0 + r] && i < columns; i++) {
			long from = i;
			while (i < columns && !isfinite(row[i]))
				i++;
			if (i > from)
				fill_gap(row, columns, from, i, none);
			repaired += i - from;
		}
	}
	count_group(found + found0, repaired, &sum);
}

/* The floor (-INFINITY: none), -log, and the polynomial of beam hardening. */
LINE do_points(long n, float floor, int to_log, global const float *terms, long terms0,
	long term_count, global float *data, long data0, global uint *found, long found0)
{
	local uint sum;
	uint raised = 0;
	global const double *hardening = (global const double *)(terms + terms0);
	EACH(i, 0, n) {
		float value = data[data0 + i];
		raised += value < floor;
		value = value < floor ? floor : value;
		if (to_log)
			value = -log(value);
		if (term_count > 0) {
			double total = 0;
			for (long k = term_count - 1; k >= 0; k--)
				total = (total + hardening[k]) * (double)value;
			value = (float)total;
		}
		data[data0 + i] = value;
	}
	count_group(found + found0, raised, &sum);
}

/* ---- zingers --------------------------------------------------------------------------------- */

/* Neighbours of a pixel: `rows` lines of `columns` values, or one column of several views. */
typedef struct {
	global const float *first;
	int rows, columns;
	long stride; /* between lines */
} Neighbours;

static inline Neighbours around(const PrepSearch *z, const PrepShape *n, global const float *copy,
	bool time, long v, long r, long c)
{
	long plane = n->rows * n->columns, h = z->reach;
	Neighbours of;
	copy -= z->from * plane;
	if (time) {
		long low = max(v - h, 0L), high = min(v + h, n->views - 1);
		of.first = copy + low * plane + r * n->columns + c;
		of.rows = (int)(high - low + 1);
		of.columns = 1;
		of.stride = plane;
		return of;
	}
	long top = max(r - h, 0L), bottom = min(r + h, n->rows - 1);
	long left = max(c - h, 0L), right = min(c + h, n->columns - 1);
	of.first = copy + v * plane + top * n->columns + left;
	of.rows = (int)(bottom - top + 1);
	of.columns = (int)(right - left + 1);
	of.stride = n->columns;
	return of;
}

static float window_median(const Neighbours *n)
{
	float median;
	MEDIAN(median, n->rows * n->columns,
		n->first[i / n->columns * n->stride + i % n->columns]);
	return median;
}

/* By counting: see prep/zinger.c. */
static inline bool exceeds(const Neighbours *n, float here, float level)
{
	int above = 0, count = n->rows * n->columns;
	for (int r = 0; r < n->rows; r++)
		for (int c = 0; c < n->columns; c++)
			above += here > n->first[r * n->stride + c] + level;
	if (above != count / 2 || count % 2)
		return above > count / 2;
	return here > window_median(n) + level; /* between the two values in the middle */
}

PLANE do_zingers(PrepSearch z, PrepShape n, global const float *copy, long copy0,
	global float *data, long data0, global uint *found, long found0)
{
	local uint sum;
	uint count = 0;
	copy += copy0;
	EACH(k, 2, z.count)
	EACH(r, 1, n.rows)
	EACH(c, 0, n.columns) {
		long v = z.first + k, at = (v * n.rows + r) * n.columns + c;
		float here = copy[at - z.from * n.rows * n.columns];
		Neighbours time = around(&z, &n, copy, true, v, r, c);
		Neighbours space = around(&z, &n, copy, false, v, r, c);
		if (z.time && !exceeds(&time, here, z.level))
			continue;
		if (z.space && !exceeds(&space, here, z.level))
			continue;
		data[data0 + at] = z.time ? window_median(&time) : window_median(&space);
		count++;
	}
	count_group(found + found0, count, &sum);
}

/* ---- whole views ----------------------------------------------------------------------------- */

PLANE do_bridge(global const float *list, long list0, long count, long plane, global float *data,
	long data0)
{
	data += data0;
	EACH(k, 1, count) {
		const PrepBridge at = ((global const PrepBridge *)(list + list0))[k];
		EACH(i, 0, plane) {
			float before = data[at.from * plane + i], after = data[at.to * plane + i];
			data[at.view * plane + i] = before + at.share * (after - before);
		}
	}
}

/* Views first .. first + count - 1, from their copy. */
PLANE do_shift(global const float *list, long list0, PrepShape n, long first, long count,
	global const float *copy, long copy0, global float *data, long data0)
{
	int columns = (int)n.columns, rows = (int)n.rows;
	EACH(v, 2, count) {
		const PrepShift s = ((global const PrepShift *)(list + list0))[first + v];
		global const float *in = copy + copy0 + v * n.rows * n.columns;
		global float *out = data + data0 + (first + v) * n.rows * n.columns;
		if (!s.moved)
			continue;
		EACH(r, 1, rows)
		EACH(c, 0, columns) {
			float sum = 0;
			for (int j = 0; j < SHIFT_TAPS; j++) {
				long row = clamp((int)r + s.row + j, 0, rows - 1);
				float line = 0;
				for (int i = 0; i < SHIFT_TAPS; i++)
					line += s.across[i] * in[row * columns +
						clamp((int)c + s.column + i, 0, columns - 1)];
				sum += s.along[j] * line;
			}
			out[r * columns + c] = sum;
		}
	}
}

PLANE do_bin(long bin, PrepShape n, global const float *data, long data0, PrepShape to,
	global float *out, long out0)
{
	double share = 1 / ((double)bin * (double)bin);
	EACH(v, 2, to.views)
	EACH(r, 1, to.rows)
	EACH(c, 0, to.columns) {
		global const float *corner =
			data + data0 + (v * n.rows + r * bin) * n.columns + c * bin;
		double sum = 0;
		for (long j = 0; j < bin; j++)
			for (long i = 0; i < bin; i++)
				sum += (double)corner[j * n.columns + i];
		out[out0 + (v * to.rows + r) * to.columns + c] = (float)(sum * share);
	}
}

/* The rows of the result, without margins and omitted views. */
PLANE do_copy(global const int *kept, long kept0, PrepShape n, long views, long before, long rows,
	long padded, global const float *data, long data0, global float *out, long out0)
{
	EACH(v, 2, views) {
		long from = kept ? kept[kept0 + v] : v;
		EACH(r, 1, padded)
		EACH(c, 0, n.columns) {
			long at = (from * n.rows + before + r) * n.columns + c;
			out[out0 + (v * padded + r) * n.columns + c] =
				r < rows ? data[data0 + at] : 0;
		}
	}
}
