/* Vector operations on the GPU. Sums are added in a fixed order, so that results are
 * reproducible bit by bit. */
#include "backend/cuda/cuda.h"

enum { THREADS = 256, MOST_BLOCKS = 1 << 16 };

#define VECTOR_OP(name, statement) \
	static __global__ void name##_kernel(const VectorArgs v) \
	{ \
		[[maybe_unused]] const float a = v.a, b = v.b, c = v.c, *w = v.w, *x = v.x; \
		float *y = v.y; \
		int64_t stride = (int64_t)gridDim.x * blockDim.x; \
		for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < v.n; \
			i += stride) \
			statement; \
	}
#include "kernel/vector.def"
VECTOR_OP(residual, y[i] = w[i] * (v.r[i] = x[i] - v.r[i]))

static tomos_status run_op(tomos_backend *backend, void (*kernel)(const VectorArgs),
	const char *name, const VectorArgs &v)
{
	if (v.n == 0)
		return TOMOS_OK;
	TRY(cuda_use(backend));
	kernel<<<cuda_blocks(v.n, THREADS, MOST_BLOCKS), THREADS, 0, device_of(backend)->stream>>>(
		v);
	CUDA_LAUNCHED(name);
	return TOMOS_OK;
}

#define VECTOR_NAME(name) cuda_##name
#define VECTOR_RUN(name, ...) run_op(b, name##_kernel, #name, (VectorArgs){.n = n, __VA_ARGS__})
#include "backend/vector_calls.h"

static tomos_status cuda_copy(tomos_backend *backend, int64_t n, const float *x, float *y)
{
	TRY(cuda_use(backend));
	CUDA_TRY(cudaMemcpyAsync(y, x, (size_t)n * sizeof(float), cudaMemcpyDeviceToDevice,
			 device_of(backend)->stream),
		"copy");
	return TOMOS_OK;
}

static tomos_status cuda_residual(
	tomos_backend *b, int64_t n, const float *x, const float *w, float *r, float *y)
{
	return VECTOR_RUN(residual, .w = w, .x = x, .y = y, .r = r);
}

/* ---- sums ------------------------------------------------------------------------------------ */

struct Add {
	static __device__ double join(double a, double b)
	{
		return a + b;
	}
};

struct Dot : Add {
	static __device__ double term(float x, float y)
	{
		return (double)x * y;
	}
};

struct Distance : Add {
	static __device__ double term(float x, float y)
	{
		double d = (double)x - y;
		return d * d;
	}
};

struct Largest {
	static __device__ double term(float x, float)
	{
		return fabs((double)x);
	}

	static __device__ double join(double a, double b)
	{
		return fmax(a, b);
	}
};

/* Reduces the values of a block's threads into thread 0. */
template <typename Sum> static __device__ double join_block(double value)
{
	__shared__ double values[SUM_THREADS];
	values[threadIdx.x] = value;
	for (unsigned half = SUM_THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			values[threadIdx.x] =
				Sum::join(values[threadIdx.x], values[threadIdx.x + half]);
	}
	return values[0];
}

template <typename Sum>
static __global__ void sum_blocks(int64_t n, const float *x, const float *y, double *partial)
{
	double sum = 0;
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
		sum = Sum::join(sum, Sum::term(x[i], y[i]));
	sum = join_block<Sum>(sum);
	if (threadIdx.x == 0)
		partial[blockIdx.x] = sum;
}

/* One block for each of the sums. */
template <typename Sum> static __global__ void sum_total(const double *partial, double *total)
{
	double sum = 0;
	for (int i = threadIdx.x; i < SUM_BLOCKS; i += SUM_THREADS)
		sum = Sum::join(sum, partial[blockIdx.x * SUM_BLOCKS + i]);
	sum = join_block<Sum>(sum);
	if (threadIdx.x == 0)
		total[blockIdx.x] = sum;
}

/* The number of blocks is fixed, so that the order of additions depends on n alone. */
template <typename Sum>
static tomos_status sum_locked(
	CudaDevice *d, int64_t n, const float *x, const float *y, double *result)
{
	sum_blocks<Sum><<<SUM_BLOCKS, SUM_THREADS, 0, d->stream>>>(n, x, y, d->partial);
	sum_total<Sum><<<1, SUM_THREADS, 0, d->stream>>>(d->partial, d->total_device);
	CUDA_LAUNCHED("a sum");
	d->counts.waits++;
	CUDA_TRY(cudaStreamSynchronize(d->stream), "a sum");
	*result = *d->total;
	return TOMOS_OK;
}

/* There is one buffer for partial sums and total, so that the lock is kept until the result has
 * been read. */
template <typename Sum>
static tomos_status run_sum(
	tomos_backend *backend, int64_t n, const float *x, const float *y, double *result)
{
	CudaDevice *d = device_of(backend);
	TRY(cuda_use(backend));
	pthread_mutex_lock(&d->lock);
	tomos_status status = sum_locked<Sum>(d, n, x, y, result);
	pthread_mutex_unlock(&d->lock);
	return status;
}

/* Several vectors, read together. */
typedef struct {
	int64_t n;
	int count;
	bool add;
	float a[VECTORS_LISTED];
	const float *list[VECTORS_LISTED];
} VectorList;

template <int COUNT>
static __global__ void dots_blocks(
	const __grid_constant__ VectorList v, const float *x, double *partial)
{
	double sums[COUNT] = {};
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
#pragma unroll 4
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < v.n; i += stride) {
		const float value = x[i];
#pragma unroll
		for (int k = 0; k < COUNT; k++)
			sums[k] += (double)v.list[k][i] * value;
	}
#pragma unroll
	for (int k = 0; k < COUNT; k++) {
		const double sum = join_block<Add>(sums[k]);
		if (threadIdx.x == 0)
			partial[k * SUM_BLOCKS + blockIdx.x] = sum;
		__syncthreads();
	}
}

template <int COUNT>
static __global__ void combine_kernel(const __grid_constant__ VectorList v, float *__restrict__ y)
{
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
#pragma unroll 4
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < v.n; i += stride) {
		float sum = v.add ? y[i] : 0;
#pragma unroll
		for (int k = 0; k < COUNT; k++)
			sum = fmaf(v.a[k], __ldg(v.list[k] + i), sum);
		y[i] = sum;
	}
}

static VectorList list_of(int64_t n, int count, const float *a, const float *const *list)
{
	VectorList v = {.n = n, .count = count};
	for (int k = 0; k < count; k++) {
		v.a[k] = a ? a[k] : 1;
		v.list[k] = list[k];
	}
	return v;
}

static tomos_status dots_locked(CudaDevice *d, const VectorList &v, const float *x, double *results)
{
	static void (*const kernels[VECTORS_LISTED])(const VectorList, const float *, double *) = {
		dots_blocks<1>, dots_blocks<2>, dots_blocks<3>, dots_blocks<4>};
	kernels[v.count - 1]<<<SUM_BLOCKS, SUM_THREADS, 0, d->stream>>>(v, x, d->partial);
	sum_total<Add>
		<<<(unsigned)v.count, SUM_THREADS, 0, d->stream>>>(d->partial, d->total_device);
	CUDA_LAUNCHED("a sum");
	d->counts.waits++;
	CUDA_TRY(cudaStreamSynchronize(d->stream), "a sum");
	memcpy(results, d->total, (size_t)v.count * sizeof *results);
	return TOMOS_OK;
}

static tomos_status cuda_dots(tomos_backend *b, int64_t n, int count, const float *const *list,
	const float *x, double *results)
{
	CudaDevice *d = device_of(b);
	TRY(cuda_use(b));
	pthread_mutex_lock(&d->lock);
	tomos_status status = dots_locked(d, list_of(n, count, NULL, list), x, results);
	pthread_mutex_unlock(&d->lock);
	return status;
}

static tomos_status cuda_combine(tomos_backend *b, int64_t n, int count, const float *a,
	const float *const *list, bool add, float *y)
{
	static void (*const kernels[VECTORS_LISTED])(const VectorList, float *) = {
		combine_kernel<1>, combine_kernel<2>, combine_kernel<3>, combine_kernel<4>};
	VectorList v = list_of(n, count, a, list);
	v.add = add;
	if (n == 0)
		return TOMOS_OK;
	TRY(cuda_use(b));
	kernels[count -
		1]<<<cuda_blocks(n, THREADS, MOST_BLOCKS), THREADS, 0, device_of(b)->stream>>>(
		v, y);
	CUDA_LAUNCHED("a combination");
	return TOMOS_OK;
}

static tomos_status cuda_dot(
	tomos_backend *backend, int64_t n, const float *x, const float *y, double *result)
{
	return run_sum<Dot>(backend, n, x, y, result);
}

static tomos_status cuda_distance(
	tomos_backend *backend, int64_t n, const float *x, const float *y, double *result)
{
	TRY(run_sum<Distance>(backend, n, x, y, result));
	*result = sqrt(*result);
	return TOMOS_OK;
}

static tomos_status cuda_max_abs(tomos_backend *backend, int64_t n, const float *x, double *result)
{
	return run_sum<Largest>(backend, n, x, x, result);
}

/* ---- numbers of a file ----------------------------------------------------------------------- */

static __device__ void store_number(float x, const Encoding &how, void *stored, int64_t i)
{
	double number = ((double)x - how.offset) / how.scale;
	number = number >= 0 ? fmin(floor(number + 0.5), how.bytes == 1 ? 255. : 65535.) : 0;
	if (how.bytes == 1)
		((unsigned char *)stored)[i] = (unsigned char)number;
	else
		((unsigned short *)stored)[i] = (unsigned short)number;
}

/* As element_encode of src/io: the same bits. counts: values that are not finite, and of integers
 * those outside the window. */
static __global__ void encode_kernel(
	int64_t n, const float *x, const Encoding how, void *stored, unsigned long long *counts)
{
	const bool integers = how.bytes < (int)sizeof(float);
	int bad = 0, cut = 0;
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		float value = x[i];
		bad += !isfinite(value);
		cut += integers && (value < how.low || value > how.high);
		if (integers)
			store_number(value, how, stored, i);
	}
	if (bad)
		atomicAdd(&counts[0], (unsigned long long)bad);
	if (cut)
		atomicAdd(&counts[1], (unsigned long long)cut);
}

/* The counts use the memory of partial sums. */
static tomos_status encode_locked(CudaDevice *d, int64_t n, const float *x, const Encoding *how,
	void *stored, int64_t counts[2])
{
	unsigned long long found[2], *device = (unsigned long long *)(void *)d->partial;
	CUDA_TRY(cudaMemsetAsync(device, 0, sizeof found, d->stream), "numbers of a file");
	encode_kernel<<<cuda_blocks(n, THREADS, MOST_BLOCKS), THREADS, 0, d->stream>>>(
		n, x, *how, stored, device);
	CUDA_LAUNCHED("numbers of a file");
	d->counts.waits++;
	TRY(cuda_read_small(d, device, sizeof found, found, "numbers of a file"));
	counts[0] = (int64_t)found[0];
	counts[1] = (int64_t)found[1];
	return TOMOS_OK;
}

static tomos_status cuda_encode(tomos_backend *b, int64_t n, const float *x, const Encoding *how,
	void *stored, int64_t counts[2])
{
	CudaDevice *d = device_of(b);
	counts[0] = counts[1] = 0;
	if (n == 0)
		return cuda_sync(b);
	TRY(cuda_use(b));
	pthread_mutex_lock(&d->lock);
	tomos_status status = encode_locked(d, n, x, how, stored, counts);
	pthread_mutex_unlock(&d->lock);
	return status;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static __device__ float field_square(const float *y, int64_t n, int parts, int64_t i)
{
	float square = 0;
	for (int k = 0; k < parts; k++)
		square += y[k * n + i] * y[k * n + i];
	return square;
}

/* For each vector y[0 .. parts - 1] of a field. cut: clips its length to `bound`; else divides
 * it by sqrt(|y|^2 + bound^2). */
static __global__ void lengths_kernel(int64_t n, int parts, float bound, bool cut, float *y)
{
	int64_t stride = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
		float square = field_square(y, n, parts, i);
		float by = cut ? sqrtf(square) / bound : sqrtf(square + bound * bound);
		for (int k = 0; k < parts && (!cut || by > 1); k++)
			y[k * n + i] /= by;
	}
}

static tomos_status run_lengths(
	tomos_backend *b, int64_t n, int parts, float bound, bool cut, float *y)
{
	if (n == 0)
		return TOMOS_OK;
	TRY(cuda_use(b));
	lengths_kernel<<<cuda_blocks(n, THREADS, MOST_BLOCKS), THREADS, 0, device_of(b)->stream>>>(
		n, parts, bound, cut, y);
	CUDA_LAUNCHED("lengths of a field");
	return TOMOS_OK;
}

static tomos_status cuda_clip_norm(tomos_backend *b, int64_t n, int parts, float longest, float *y)
{
	return longest > 0 ? run_lengths(b, n, parts, longest, true, y)
			   : cuda_fill(b, n * parts, 0, y);
}

static tomos_status cuda_normalise(tomos_backend *b, int64_t n, int parts, float least, float *y)
{
	return run_lengths(b, n, parts, least, false, y);
}

typedef struct {
	int64_t n[3], stride[3], count; /* along x, y, z */
	int parts;
	const float *from;
	float *to;
} Differences;

/* Forward differences along x, y, z; the last one along each axis is zero. */
static __global__ void gradient_kernel(const Differences d)
{
	int64_t step = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < d.count; i += step)
		for (int k = 0; k < d.parts; k++) {
			bool last = i / d.stride[k] % d.n[k] == d.n[k] - 1;
			d.to[k * d.count + i] = last ? 0 : d.from[i + d.stride[k]] - d.from[i];
		}
}

static __global__ void gradient_adjoint_kernel(const Differences d)
{
	int64_t step = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < d.count; i += step) {
		float sum = 0;
		for (int k = 0; k < d.parts; k++) {
			const float *g = d.from + k * d.count + i;
			int64_t at = i / d.stride[k] % d.n[k];
			sum += (at > 0 ? g[-d.stride[k]] : 0) - (at < d.n[k] - 1 ? g[0] : 0);
		}
		d.to[i] = sum;
	}
}

static tomos_status run_differences(tomos_backend *b, void (*kernel)(const Differences),
	const int64_t shape[3], int parts, const float *from, float *to)
{
	const Differences d = {.n = {shape[2], shape[1], shape[0]},
		.stride = {1, shape[2], shape[1] * shape[2]},
		.count = shape[0] * shape[1] * shape[2],
		.parts = parts,
		.from = from,
		.to = to};
	TRY(cuda_use(b));
	kernel<<<cuda_blocks(d.count, THREADS, MOST_BLOCKS), THREADS, 0, device_of(b)->stream>>>(d);
	CUDA_LAUNCHED("a gradient");
	return TOMOS_OK;
}

static tomos_status cuda_gradient(
	tomos_backend *b, const int64_t shape[3], int parts, const float *x, float *field)
{
	return run_differences(b, gradient_kernel, shape, parts, x, field);
}

static tomos_status cuda_gradient_adjoint(
	tomos_backend *b, const int64_t shape[3], int parts, const float *field, float *x)
{
	return run_differences(b, gradient_adjoint_kernel, shape, parts, field, x);
}

const BackendVector cuda_vector = {BACKEND_VECTOR(cuda), .residual = cuda_residual,
	.encode = cuda_encode, .dots = cuda_dots, .combine = cuda_combine};
