/* Point-wise steps of the preparation: conversion of stored numbers, flat-field correction, log and
 * beam hardening, in one pass where they follow each other. */
#include <cuda_fp16.h>
#include "backend/cuda/prep.h"

/* EACH columns of VIEWS views per thread, so that flats and darks are read once for these views. */
enum { EACH = 4, VIEWS = 16 };

/* ---- stored numbers -------------------------------------------------------------------------- */

static __device__ __forceinline__ uint8_t swapped(uint8_t v)
{
	return v;
}

static __device__ __forceinline__ uint16_t swapped(uint16_t v)
{
	return (uint16_t)__byte_perm(v, 0, 0x4401);
}

static __device__ __forceinline__ uint32_t swapped(uint32_t v)
{
	return __byte_perm(v, 0, 0x0123);
}

template <typename T, typename Bits> struct Number {
	typedef Bits Raw;
	static __device__ __forceinline__ float of(Bits raw)
	{
		T value;
		memcpy(&value, &raw, sizeof value);
		return (float)value;
	}
};

typedef Number<uint8_t, uint8_t> Uint8;
typedef Number<int8_t, uint8_t> Int8;
typedef Number<uint16_t, uint16_t> Uint16;
typedef Number<int16_t, uint16_t> Int16;
typedef Number<uint32_t, uint32_t> Uint32;
typedef Number<int32_t, uint32_t> Int32;
typedef Number<float, uint32_t> Float32;

struct Float16 {
	typedef uint16_t Raw;
	static __device__ __forceinline__ float of(uint16_t raw)
	{
		return __half2float(__ushort_as_half(raw));
	}
};

/* The number at an offset from the first. */
template <typename N>
static __device__ __forceinline__ float number(const StoredBlock &in, int64_t at)
{
	typename N::Raw raw = ((const typename N::Raw *)in.data)[at];
	float value = N::of(in.swapped ? swapped(raw) : raw);
	/* Compared as integers: many GPUs have few units for doubles. */
	bool plain = __double_as_longlong(in.scale) == __double_as_longlong(1.0) &&
		     __double_as_longlong(in.offset) == 0;
	return plain ? value : (float)(in.offset + in.scale * (double)value);
}

template <typename N>
static __device__ __forceinline__ float stored(
	const StoredBlock &in, int64_t frame, int64_t row, int64_t column)
{
	return number<N>(in, frame * in.stride[0] + row * in.stride[1] + column * in.stride[2]);
}

/* Calls KERNEL<number type> of a block with the launch configuration and arguments that follow. */
#define FOR_TYPE(block, kernel, ...) \
	switch ((block).type) { \
	case STORED_UINT8: \
		kernel<Uint8> __VA_ARGS__; \
		break; \
	case STORED_INT8: \
		kernel<Int8> __VA_ARGS__; \
		break; \
	case STORED_UINT16: \
		kernel<Uint16> __VA_ARGS__; \
		break; \
	case STORED_INT16: \
		kernel<Int16> __VA_ARGS__; \
		break; \
	case STORED_UINT32: \
		kernel<Uint32> __VA_ARGS__; \
		break; \
	case STORED_INT32: \
		kernel<Int32> __VA_ARGS__; \
		break; \
	case STORED_FLOAT16: \
		kernel<Float16> __VA_ARGS__; \
		break; \
	default: \
		kernel<Float32> __VA_ARGS__; \
	}

template <typename N>
static __global__ void convert_kernel(const StoredBlock in, const PrepData out)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= out.columns)
		return;
	for (int64_t v = blockIdx.z; v < out.views; v += gridDim.z)
		for (int64_t r = blockIdx.y; r < out.rows; r += gridDim.y)
			out.data[(v * out.rows + r) * out.columns + c] = stored<N>(in, v, r, c);
}

tomos_status cuda_prep_convert(tomos_backend *b, const StoredBlock *in, PrepData *out)
{
	dim3 grid = prep_grid(out->columns, out->rows, out->views);
	FOR_TYPE(*in, convert_kernel, <<<grid, PREP_THREADS, 0, device_of(b)->stream>>>(*in, *out))
	CUDA_LAUNCHED("converting counts");
	return TOMOS_OK;
}

/* ---- flats and darks ------------------------------------------------------------------------- */

template <typename N> static __global__ void average_kernel(const StoredBlock in, const PrepGroup g)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
	double sum = 0;
	if (c >= in.shape[2])
		return;
	auto value = [&](int64_t i) {
		int64_t at = g.begin + i;
		return stored<N>(in, g.order ? g.order[at] : at, r, c);
	};
	for (; r < in.shape[1]; r += gridDim.y) {
		sum = 0;
		for (int64_t i = 0; i < g.count; i++)
			sum += (double)value(i);
		float average = (float)(sum / (double)g.count);
		if (g.median && isfinite(sum))
			average = prep_median((int)g.count, [&](uint32_t limit) {
				int below = 0;
				for (int64_t i = 0; i < g.count; i++)
					below += prep_key(value(i)) < limit;
				return below;
			});
		g.image[r * in.shape[2] + c] = average;
	}
}

tomos_status cuda_prep_average(tomos_backend *b, const StoredBlock *in, const PrepGroup *g)
{
	dim3 grid = prep_grid(in->shape[2], in->shape[1], 1);
	FOR_TYPE(*in, average_kernel, <<<grid, PREP_THREADS, 0, device_of(b)->stream>>>(*in, *g))
	CUDA_LAUNCHED("averaging flats and darks");
	return TOMOS_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct {
	PrepPoints points;
	float floor;
	const double *hardening;
	int64_t hardening_count;
	const PrepLight *light;
	const float *flats, *dark; /* averaged */
	int32_t *bad;              /* number of rows to be repaired, and the list of these */
	unsigned char *marked;     /* rows that are in the list */
	unsigned long long *found;
} Pointwise;

/* A transmission without its lower limit, or line integral, finished. */
static __device__ __forceinline__ float finished(const Pointwise &p, float value)
{
	if (p.points.raise)
		value = fmaxf(value, p.floor);
	if (p.points.log)
		value = -logf(value);
	if (!p.points.harden)
		return value;
	double sum = 0;
	for (int64_t k = p.hardening_count - 1; k >= 0; k--)
		sum = (sum + p.hardening[k]) * (double)value;
	return (float)sum;
}

/* Roundings as in host memory: light of 0 must not become a little more than 0. */
static __device__ __forceinline__ float transmission(
	float count, float a, float b, float dark, float share)
{
	float light = __fsub_rn(__fadd_rn(a, __fmul_rn(share, __fsub_rn(b, a))), dark);
	return light > 0 ? (count - dark) / light : NAN;
}

/* The row is appended to the list by the first thread that finds it bad. */
static __device__ void mark_row(const Pointwise &p, int64_t row)
{
	unsigned shift = 8 * (unsigned)(row % 4);
	unsigned *word = (unsigned *)p.marked + row / 4;
	if (!(atomicOr(word, 1u << shift) >> shift & 1))
		p.bad[1 + atomicAdd(p.bad, 1)] = (int32_t)row;
}

/* Flats and dark of the columns of a thread. */
typedef struct {
	float a[EACH], b[EACH], dark[EACH];
	int group[2];
} Lights;

static __device__ void read_lights(
	const Pointwise &p, const PrepLight &light, int64_t plane, int64_t at, int end, Lights *l)
{
	if (light.group[0] == l->group[0] && light.group[1] == l->group[1])
		return;
	l->group[0] = light.group[0];
	l->group[1] = light.group[1];
#pragma unroll
	for (int k = 0; k < EACH; k++)
		if (k * PREP_THREADS < end) {
			l->a[k] = p.flats[l->group[0] * plane + at + k * PREP_THREADS];
			l->b[k] = p.flats[l->group[1] * plane + at + k * PREP_THREADS];
			l->dark[k] = p.dark[at + k * PREP_THREADS];
		}
}

template <typename N>
static __global__ __launch_bounds__(PREP_THREADS, 4) void normalize_kernel(
	const StoredBlock in, const Pointwise p, const PrepData out)
{
	int64_t first = (int64_t)blockIdx.x * PREP_THREADS * EACH + threadIdx.x;
	int64_t plane = out.rows * out.columns;
	int64_t v_end = min((int64_t)(blockIdx.z + 1) * VIEWS, out.views);
	int end = (int)(out.columns - first), raised = 0; /* columns from the first on */
	for (int64_t r = blockIdx.y; r < out.rows; r += gridDim.y) {
		Lights l = {.group = {-1, -1}};
		int64_t at = r * out.columns + first, step = PREP_THREADS * in.stride[2];
		for (int64_t v = (int64_t)blockIdx.z * VIEWS; v < v_end; v++) {
			const PrepLight light = p.light[v];
			int64_t from = v * in.stride[0] + r * in.stride[1] + first * in.stride[2];
			float *to = out.data + v * plane + at;
			read_lights(p, light, plane, at, end, &l);
			float value[EACH];
#pragma unroll
			for (int k = 0; k < EACH; k++)
				value[k] =
					k * PREP_THREADS < end ? number<N>(in, from + k * step) : 0;
#pragma unroll
			for (int k = 0; k < EACH; k++) {
				if (k * PREP_THREADS >= end)
					break;
				float t = transmission(
					value[k], l.a[k], l.b[k], l.dark[k], light.share);
				if (isfinite(t)) {
					raised += p.points.raise && t < p.floor;
					t = finished(p, t);
				} else if (p.bad)
					mark_row(p, v * out.rows + r);
				to[k * PREP_THREADS] = t;
			}
		}
	}
	prep_found(p.found + FOUND_RAISED, raised);
}

/* ---- rows with values that are not finite ---------------------------------------------------- */

/* The nearest good column before the segment of this thread and the nearest one after it; last and
 * next: within the segment. */
static __device__ void good_around(int *last, int *next, int columns)
{
	__shared__ int left[PREP_THREADS], right[PREP_THREADS];
	int t = threadIdx.x;
	__syncthreads();
	left[t] = *last;
	right[t] = *next;
	__syncthreads();
	for (int step = 1; step < PREP_THREADS; step *= 2) {
		int l = t >= step ? max(left[t - step], left[t]) : left[t];
		int r = t + step < PREP_THREADS ? min(right[t + step], right[t]) : right[t];
		__syncthreads();
		left[t] = l;
		right[t] = r;
		__syncthreads();
	}
	*last = t > 0 ? left[t - 1] : -1;
	*next = t + 1 < PREP_THREADS ? right[t + 1] : columns;
}

/* Columns from .. to-1 of a gap, of which this thread fills begin .. end-1. */
static __device__ void fill_gap(
	float *row, int columns, int from, int to, int begin, int end, float none)
{
	float left = from > 0 ? row[from - 1] : to < columns ? row[to] : none;
	float right = to < columns ? row[to] : left;
	for (int i = begin; i < end; i++)
		row[i] = left + (right - left) * (float)(i - from + 1) / (float)(to - from + 1);
}

/* Interpolates the values of a row that are not finite; the block's threads have a segment each,
 * write bad values only and read good ones. Counts those it filled, and those below the floor. */
static __device__ void repair_row(
	float *row, int columns, float none, float floor, int *repaired, int *raised)
{
	int each = (columns + PREP_THREADS - 1) / PREP_THREADS;
	int begin = min((int)threadIdx.x * each, columns), end = min(begin + each, columns);
	int last = -1, next = columns, own_last = -1, own_next = columns;
	for (int i = begin; i < end; i++)
		if (isfinite(row[i])) {
			own_last = i;
			own_next = min(own_next, i);
		}
	last = own_last;
	next = own_next;
	good_around(&last, &next, columns);
	for (int i = begin; i < end; i++) {
		int stop = i;
		while (stop < end && !isfinite(row[stop]))
			stop++;
		if (stop > i)
			fill_gap(row, columns, last + 1, stop < end ? stop : next, i, stop, none);
		*repaired += stop - i;
		for (; i < stop; i++)
			*raised += row[i] < floor;
		if (i < end)
			last = i;
	}
	__syncthreads();
}

template <typename N>
static __global__ void repair_marked(const StoredBlock in, const Pointwise p, const PrepData out)
{
	int64_t plane = out.rows * out.columns;
	int repaired = 0, raised = 0;
	for (int64_t i = blockIdx.x; i < p.bad[0]; i += gridDim.x) {
		int64_t v = p.bad[1 + i] / out.rows, r = p.bad[1 + i] % out.rows;
		float *row = out.data + v * plane + r * out.columns;
		PrepLight light = p.light[v];
		for (int64_t c = threadIdx.x; c < out.columns; c += PREP_THREADS) {
			int64_t at = r * out.columns + c;
			row[c] = transmission(stored<N>(in, v, r, c),
				p.flats[light.group[0] * plane + at],
				p.flats[light.group[1] * plane + at], p.dark[at], light.share);
		}
		__syncthreads();
		repair_row(row, (int)out.columns, 1, p.points.raise ? p.floor : -INFINITY,
			&repaired, &raised);
		for (int64_t c = threadIdx.x; c < out.columns; c += PREP_THREADS)
			row[c] = finished(p, row[c]);
		__syncthreads();
	}
	prep_found(p.found + FOUND_REPAIRED, repaired);
	prep_found(p.found + FOUND_RAISED, raised);
}

static __global__ void repair_kernel(const PrepData d, float none, unsigned long long *found)
{
	int repaired = 0, raised = 0;
	for (int64_t i = blockIdx.x; i < d.views * d.rows; i += gridDim.x) {
		float *row = d.data + i * d.columns;
		int bad = 0;
		for (int64_t c = threadIdx.x; c < d.columns; c += PREP_THREADS)
			bad |= !isfinite(row[c]);
		if (__syncthreads_or(bad))
			repair_row(row, (int)d.columns, none, -INFINITY, &repaired, &raised);
	}
	prep_found(found + FOUND_REPAIRED, repaired);
}

tomos_status cuda_prep_repair(
	tomos_backend *b, const PrepWork *w, float none, PrepData *d, int32_t *rows)
{
	(void)rows;
	unsigned blocks = cuda_blocks(d->views * d->rows, 1, 1 << 20);
	repair_kernel<<<blocks, PREP_THREADS, 0, device_of(b)->stream>>>(*d, none, w->found);
	CUDA_LAUNCHED("repairing values");
	return TOMOS_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static Pointwise pointwise(const PrepWork *w, PrepPoints points)
{
	return (Pointwise){.points = points,
		.floor = w->spec.floor,
		.hardening = w->spec.hardening,
		.hardening_count = w->spec.hardening_count,
		.light = w->spec.light,
		.found = w->found};
}

static __global__ void points_kernel(const Pointwise p, const PrepData d)
{
	int raised = 0;
	int64_t count = d.views * d.rows * d.columns, stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
		float value = d.data[i];
		raised += p.points.raise && value < p.floor;
		d.data[i] = finished(p, value);
	}
	prep_found(p.found + FOUND_RAISED, raised);
}

tomos_status cuda_prep_points(tomos_backend *b, const PrepWork *w, PrepPoints points, PrepData *d)
{
	unsigned blocks = cuda_blocks(prep_count(d), 8 * PREP_THREADS, 1 << 20);
	points_kernel<<<blocks, PREP_THREADS, 0, device_of(b)->stream>>>(pointwise(w, points), *d);
	CUDA_LAUNCHED("point-wise preparation");
	return TOMOS_OK;
}

int64_t cuda_prep_rows_floats(const PrepWork *w, int64_t rows)
{
	int64_t all = w->spec.views * rows;
	return w->spec.groups ? 1 + all + (all + 3) / 4 : 0;
}

/* In place, the counts of rows to be repaired are overwritten, so that values are finished in a
 * second pass. */
static tomos_status normalize_in_place(tomos_backend *b, const PrepWork *w, const StoredBlock *in,
	const Pointwise *p, PrepData *d, dim3 grid)
{
	Pointwise plain = *p;
	plain.points = (PrepPoints){.normalize = true};
	FOR_TYPE(*in, normalize_kernel,
		<<<grid, PREP_THREADS, 0, device_of(b)->stream>>>(*in, plain, *d))
	CUDA_LAUNCHED("flat-field correction");
	TRY(cuda_prep_repair(b, w, 1, d, NULL));
	return cuda_prep_points(b, w, p->points, d);
}

tomos_status cuda_prep_normalize(
	tomos_backend *b, const PrepWork *w, const PrepNormalize *n, PrepData *out)
{
	const StoredBlock *in = n->counts;
	cudaStream_t stream = device_of(b)->stream;
	int64_t all = out->views * out->rows;
	dim3 grid = prep_grid(
		(out->columns + EACH - 1) / EACH, out->rows, (out->views + VIEWS - 1) / VIEWS);
	Pointwise p = pointwise(w, n->points);
	p.flats = n->flats;
	p.dark = n->dark;
	if (in->data == out->data)
		return normalize_in_place(b, w, in, &p, out, grid);
	p.bad = n->rows;
	p.marked = (unsigned char *)(n->rows + 1 + all);
	CUDA_TRY(cudaMemsetAsync(
			 n->rows, 0, (size_t)(cuda_prep_rows_floats(w, out->rows) * 4), stream),
		"clearing a list");
	FOR_TYPE(*in, normalize_kernel, <<<grid, PREP_THREADS, 0, stream>>>(*in, p, *out))
	FOR_TYPE(*in, repair_marked,
		<<<(unsigned)min64(all, 2048), PREP_THREADS, 0, stream>>>(*in, p, *out))
	CUDA_LAUNCHED("flat-field correction");
	return TOMOS_OK;
}
