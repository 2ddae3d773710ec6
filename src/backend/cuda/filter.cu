/* Filters detector rows by batched real FFTs (cuFFT), or by direct convolution. FFT plans are
 * kept with the filter. */
#include "backend/cuda/filter_rows.h"
#include <cufft.h>

/* A batch is small enough to stay in L2 cache between the kernels. */
enum { THREADS = 256, EACH = 8, MOST = 65535, BATCH_FLOATS = 8 << 20 };

struct Filter {
	FilterSpec spec;
	int64_t length; /* samples of a padded row, and length of the FFT */
	int64_t half;   /* number of frequencies of a row */
	int64_t batch;  /* rows per batch */
	cufftHandle forth, back;
	bool has_forth, has_back;
	float *response; /* value at each frequency; or taps, for direct convolution */
	float *fade;     /* weights of the padding, from the detector's edge outwards */
	float *rows;     /* a batch of rows, and their spectra in place */
	KernelRowView *views;
	float *weights;   /* weights of the columns of each view */
	int64_t capacity; /* number of views that `views` and `weights` have space for */
	FilterRows fused; /* instead of transforms by cuFFT, and of `rows`; length 0: not */
};

static tomos_status fft_failed(cufftResult result, int64_t length)
{
	return fail(result == CUFFT_ALLOC_FAILED ? TOMOS_NO_MEMORY : TOMOS_NO_DEVICE,
		"the GPU failed at transforms of length %lld (cuFFT code %d)", (long long)length,
		(int)result);
}

#define FFT_TRY(call, length) TRY_CODE(cufftResult, CUFFT_SUCCESS, call, fft_failed, length)

/* ---- making ---------------------------------------------------------------------------------- */

static tomos_status send(tomos_backend *b, float **device, const float *host, int64_t count)
{
	TRY(b->type->memory->alloc(b, device, count, "a filter"));
	CUDA_TRY(cudaMemcpyAsync(*device, host, (size_t)count * sizeof(float),
			 cudaMemcpyHostToDevice, device_of(b)->stream),
		"sending a filter");
	return TOMOS_OK;
}

static tomos_status transform_kernel(
	tomos_backend *b, const Filter *f, double *even, double *spectrum)
{
	cufftHandle plan;
	cudaStream_t stream = device_of(b)->stream;
	size_t bytes = (size_t)f->half * sizeof(cufftDoubleComplex);
	CUDA_TRY(cudaMemcpyAsync(spectrum, even, bytes, cudaMemcpyHostToDevice, stream),
		"sending a filter");
	FFT_TRY(cufftPlan1d(&plan, (int)f->length, CUFFT_D2Z, 1), f->length);
	cufftResult result = cufftSetStream(plan, stream);
	if (result == CUFFT_SUCCESS)
		result = cufftExecD2Z(plan, spectrum, (cufftDoubleComplex *)spectrum);
	cudaError_t error = cudaMemcpyAsync(even, spectrum,
		(size_t)f->half * sizeof(cufftDoubleComplex), cudaMemcpyDeviceToHost, stream);
	if (error == cudaSuccess)
		error = cudaStreamSynchronize(stream);
	cufftDestroy(plan);
	FFT_TRY(result, f->length);
	CUDA_TRY(error, "transforming a filter");
	return TOMOS_OK;
}

/* Frequency response of the filter's kernel, which is even, so that its FFT is real. */
static tomos_status make_response(tomos_backend *b, Filter *f)
{
	double *even, *spectrum = NULL;
	float *real = NULL;
	tomos_status status;
	TRY(mem_zeroed(&even, 2 * f->half, sizeof *even, "the filter's kernel"));
	for (int64_t i = 0; i < min64(f->spec.taps, f->half); i++) {
		even[i] = f->spec.kernel[i];
		even[(f->length - i) % f->length] = f->spec.kernel[i];
	}
	TRY_OR_DONE(mem_alloc(&real, f->half, sizeof *real, "the filter's kernel"));
	TRY_OR_DONE(
		b->type->memory->alloc(b, (float **)&spectrum, 4 * f->half, "the filter's kernel"));
	TRY_OR_DONE(transform_kernel(b, f, even, spectrum));
	for (int64_t k = 0; k < f->half; k++)
		real[k] = (float)(even[2 * k] / (double)f->length);
	TRY_OR_DONE(send(b, &f->response, real, f->half));
done:
	if (spectrum)
		b->type->memory->release(b, (float *)spectrum);
	mem_free(real);
	mem_free(even);
	return status;
}

static tomos_status make_taps(tomos_backend *b, Filter *f)
{
	float *taps;
	TRY(mem_alloc(&taps, f->spec.taps, sizeof *taps, "the filter's taps"));
	for (int64_t i = 0; i < f->spec.taps; i++)
		taps[i] = (float)f->spec.kernel[i];
	tomos_status status = send(b, &f->response, taps, f->spec.taps);
	mem_free(taps);
	return status;
}

static tomos_status make_fade(tomos_backend *b, Filter *f)
{
	float *fade;
	TRY(mem_alloc(&fade, f->spec.margin + 1, sizeof *fade, "the padding"));
	filter_fade(&f->spec, fade);
	tomos_status status = send(b, &f->fade, fade, f->spec.margin + 1);
	mem_free(fade);
	return status;
}

static tomos_status make_plans(Filter *f)
{
	int n = (int)f->length, batch = (int)f->batch;
	int real = n + 2, complex = (int)f->half;
	FFT_TRY(cufftPlanMany(&f->forth, 1, &n, &n, 1, real, &n, 1, complex, CUFFT_R2C, batch),
		f->length);
	f->has_forth = true;
	FFT_TRY(cufftPlanMany(&f->back, 1, &n, &n, 1, complex, &n, 1, real, CUFFT_C2R, batch),
		f->length);
	f->has_back = true;
	return TOMOS_OK;
}

static tomos_status filter_fill(tomos_backend *b, Filter *f, const FilterSpec *spec)
{
	f->spec = *spec;
	bool transforms = filter_transforms(spec);
	TRY(filter_length(spec, &f->length));
	f->half = f->length / 2 + 1;
	/* One third of the limit each for the rows and the work areas of the two FFTs. */
	int64_t floats = min64(device_of(b)->filter_most / 3, BATCH_FLOATS);
	f->batch = max64(1, min64(floats / (f->length + 2), MOST));
	TRY(make_fade(b, f));
	if (filter_rows_apply_to(spec))
		return filter_rows_open(b, &f->fused, spec);
	TRY(b->type->memory->alloc(b, &f->rows, f->batch * (f->length + 2), "rows to filter"));
	/* FFTs read the padding between rows, even if it is unused. */
	TRY(b->type->vector->fill(b, f->batch * (f->length + 2), 0, f->rows));
	if (!spec->kernel)
		return TOMOS_OK;
	if (!transforms)
		return make_taps(b, f);
	TRY(make_response(b, f));
	return make_plans(f);
}

static void cuda_filter_close(tomos_backend *backend, Filter *f)
{
	if (!f)
		return;
	(void)cudaSetDevice(device_of(backend)->number);
	void *held[] = {f->response, f->fade, f->rows, f->views, f->weights};
	for (int i = 0; i < COUNT(held); i++)
		cudaFree(held[i]);
	filter_rows_close(&f->fused);
	if (f->has_forth)
		cufftDestroy(f->forth);
	if (f->has_back)
		cufftDestroy(f->back);
	(void)cudaGetLastError();
	mem_free(f);
}

static tomos_status cuda_filter_open(
	tomos_backend *backend, Filter **filter, const FilterSpec *spec)
{
	TRY(cuda_use(backend));
	TRY(mem_zeroed(filter, 1, sizeof **filter, "a filter"));
	tomos_status status = filter_fill(backend, *filter, spec);
	if (status == TOMOS_OK && device_of(backend)->ahead) /* the filter will be used in
	                                                      * another stream */
		status = backend->type->memory->sync(backend);
	if (status != TOMOS_OK) {
		cuda_filter_close(backend, *filter);
		*filter = NULL;
	}
	return status;
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct {
	KernelRows rows;
	int64_t first, count, fine; /* rows of this batch, from `first` on */
	const KernelRowView *views;
	const float *weights, *fade, *taps, *in;
	float *packed; /* batch of rows, length + 2 floats each */
	float *out;
} Filtering;

/* Sample r of this thread. A block has THREADS * EACH samples of a row, so that few threads look up
 * its view. */
static __device__ __forceinline__ int64_t sample_of(int r)
{
	return ((int64_t)blockIdx.x * EACH + r) * THREADS + threadIdx.x;
}

static unsigned sample_blocks(int64_t samples)
{
	return cuda_blocks(samples, THREADS * EACH, 1 << 30);
}

static __global__ void prepare_rows(const __grid_constant__ Filtering f)
{
	int64_t index = f.first + blockIdx.y, view = index / f.rows.rows;
	int64_t row = index - view * f.rows.rows;
	/* Read once: the compiler must assume that stores change it. Rows after the last use any
	 * view. */
	const KernelRowView seen = f.views[min(view, (f.count - 1) / f.rows.rows)];
	const float *image = f.in + view * f.rows.rows * f.rows.seen;
	const float *weights = f.weights + view * f.rows.columns;
	float *to = f.packed + blockIdx.y * (f.rows.length + 2);
#pragma unroll 4
	for (int r = 0; r < EACH; r++) {
		int64_t i = sample_of(r);
		if (i < f.rows.length)
			to[i] = index < f.count ? rows_packed(&f.rows, &seen, image, weights,
							  f.fade, row, i)
						: 0;
	}
}

/* One thread per row: reading columns again is cheap compared with the FFTs. */
static __global__ void extend_rows(const __grid_constant__ Filtering f, int64_t rows)
{
	int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, index = f.first + at;
	if (at >= rows || index >= f.count)
		return;
	int64_t view = index / f.rows.rows;
	const KernelRowView seen = f.views[view];
	const KernelRowData of = {f.packed + at * (f.rows.length + 2),
		f.weights + view * f.rows.columns, 1, index - view * f.rows.rows};
	rows_extend(&f.rows, &seen, &of);
}

static __global__ void multiply_rows(int64_t half, const float *response, float2 *spectra)
{
	float2 *row = spectra + blockIdx.y * half;
#pragma unroll 4
	for (int r = 0; r < EACH; r++) {
		int64_t k = sample_of(r);
		if (k < half) {
			float2 value = row[k];
			row[k] = make_float2(value.x * response[k], value.y * response[k]);
		}
	}
}

/* Sample c of a packed row, convolved if the filter is direct. */
static __device__ float sample(const Filtering *f, const float *row, int64_t c)
{
	return f->taps ? rows_convolved(&f->rows, row, 1, f->taps, c) : row[c];
}

static __global__ void unpack_rows(const __grid_constant__ Filtering f)
{
	int64_t index = f.first + blockIdx.y;
	unsigned fine = (unsigned)f.rows.oversample;
	const float *row = f.packed + blockIdx.y * (f.rows.length + 2);
#pragma unroll 4
	for (int r = 0; r < EACH; r++) {
		int64_t i = sample_of(r);
		if (i >= f.fine)
			break;
		unsigned c = (unsigned)i / fine, k = (unsigned)i % fine;
		float here = sample(&f, row, c);
		if (k > 0)
			here += (sample(&f, row, c + 1) - here) * (float)k / (float)fine;
		f.out[index * f.fine + i] = here;
	}
}

static tomos_status take_room(tomos_backend *b, Filter *f, int64_t count)
{
	if (f->capacity >= count)
		return TOMOS_OK;
	cudaFree(f->views);
	cudaFree(f->weights);
	f->views = NULL;
	f->weights = NULL;
	f->capacity = 0;
	const int64_t capacity = 2 * count; /* freeing memory waits for all kernels, so it is
	                                     * enlarged rarely */
	int64_t floats = (int64_t)(sizeof(KernelRowView) / sizeof(float)) * capacity;
	TRY(b->type->memory->alloc(b, (float **)&f->views, floats, "weights of views"));
	TRY(b->type->memory->alloc(b, &f->weights, capacity * f->spec.columns, "weights of views"));
	f->capacity = capacity;
	return TOMOS_OK;
}

/* Uploads the views and the weights of their columns. */
static tomos_status send_views(tomos_backend *b, Filter *f, int64_t count, const FilterView *views)
{
	KernelRowView *moved;
	const int64_t n = count * f->spec.columns;
	const tomos_array weights = {(float *)views[0].column_weight, {1, 1, n}, {n, n, 1}, 0};
	TRY(take_room(b, f, count));
	TRY(b->type->memory->upload(b, f->weights, &weights));
	TRY(mem_alloc(&moved, count, sizeof *moved, "weights of views"));
	for (int64_t i = 0; i < count; i++)
		moved[i] = views[i].of;
	cudaError_t error = cudaMemcpyAsync(f->views, moved, (size_t)count * sizeof *moved,
		cudaMemcpyHostToDevice, device_of(b)->stream);
	mem_free(moved);
	CUDA_TRY(error, "sending weights");
	return TOMOS_OK;
}

static tomos_status run_batch(tomos_backend *b, const Filter *f, const Filtering *job)
{
	cudaStream_t stream = device_of(b)->stream;
	unsigned rows = (unsigned)min64(f->batch, job->count - job->first);
	prepare_rows<<<dim3(sample_blocks(f->length), f->has_forth ? (unsigned)f->batch : rows),
		THREADS, 0, stream>>>(*job);
	if (job->rows.fit)
		extend_rows<<<cuda_blocks(rows, 64, 1 << 30), 64, 0, stream>>>(*job, rows);
	if (f->has_forth) {
		cufftComplex *spectra = (cufftComplex *)f->rows;
		FFT_TRY(cufftSetStream(f->forth, stream), f->length);
		FFT_TRY(cufftSetStream(f->back, stream), f->length);
		FFT_TRY(cufftExecR2C(f->forth, f->rows, spectra), f->length);
		multiply_rows<<<dim3(sample_blocks(f->half), rows), THREADS, 0, stream>>>(
			f->half, f->response, spectra);
		FFT_TRY(cufftExecC2R(f->back, spectra, f->rows), f->length);
	}
	unpack_rows<<<dim3(sample_blocks(job->fine), rows), THREADS, 0, stream>>>(*job);
	CUDA_LAUNCHED("filtering");
	return TOMOS_OK;
}

static tomos_status cuda_filter_apply(tomos_backend *backend, const Filter *filter, int64_t count,
	int64_t rows, const FilterView *views, const float *in, float *out)
{
	TRY(cuda_use(backend));
	TRY(send_views(backend, (Filter *)filter, count, views));
	Filtering job = {.rows = filter_packing(&filter->spec, filter->length, rows),
		.count = count * rows,
		.fine = filter_columns(&filter->spec),
		.views = filter->views,
		.weights = filter->weights,
		.fade = filter->fade,
		.taps = filter->has_forth ? NULL : filter->response,
		.in = in,
		.packed = filter->rows,
		.out = out};
	if (filter->fused.length > 0) {
		const FilterRowsCall call = {
			filter_packing(&filter->spec, filter->fused.length, rows), count,
			filter->views, filter->weights, filter->fade, in, out};
		return filter_rows_run(backend, &filter->fused, &call);
	}
	for (; job.first < job.count; job.first += filter->batch)
		TRY(run_batch(backend, filter, &job));
	return TOMOS_OK;
}

static tomos_status cuda_filter_overlapped(tomos_backend *backend, const Filter *filter,
	int64_t count, int64_t rows, const FilterView *views, const float *in, float *out)
{
	if (!device_of(backend)->ahead)
		return cuda_filter_apply(backend, filter, count, rows, views, in, out);
	TRY(cuda_use(backend));
	tomos_status status = cuda_ahead_begin(backend, true);
	if (status == TOMOS_OK)
		status = cuda_filter_apply(backend, filter, count, rows, views, in, out);
	tomos_status ended = cuda_ahead_end(backend);
	return status == TOMOS_OK ? ended : status;
}

const BackendFilter cuda_filter = {
	.open = cuda_filter_open,
	.close = cuda_filter_close,
	.apply = cuda_filter_apply,
	.apply_overlapped = cuda_filter_overlapped,
};
