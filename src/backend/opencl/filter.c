/* Row filters: two rows form the real and imaginary part of one complex row, many of these at once,
 * transformed pass by pass. The filter kernels are even, so their responses are real and the two
 * rows stay separate; a second forward transform is the inverse up to the order of samples. */
#include <math.h>
#include <string.h>
#include "backend/opencl/fft.h"
#define KERNEL_REAL double /* on the host: once per filter, for its response */
#include "kernel/fft.h"

enum { BATCH_FLOATS = 8 << 20 };

struct Filter {
	KernelRows rows;
	int64_t batch;   /* pairs of rows per batch */
	OpenclFft fft;   /* no passes: convolution or weighting */
	float *response; /* at each frequency */
	float *taps;     /* for direct convolution; none: weighting only */
	float *fade;     /* of the padding, from the detector's edge outwards */
	float *pairs[2]; /* input and output of a pass */
	float *weights;  /* of columns, per view */
	cl_mem views;
	int64_t capacity; /* views */
};

/* ---- making ------------------------------------------------------------------------------- */

static tomos_status send(tomos_backend *b, float **device, const float *host, int64_t count)
{
	TRY(b->type->memory->alloc(b, device, count, "a filter"));
	return opencl_send(b, *device, host, (size_t)count * sizeof *host);
}

static void fill_turns(KernelComplex *twiddles, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		double angle = -2 * M_PI * (double)i / (double)n;
		twiddles[i] = (KernelComplex){cos(angle), sin(angle)};
	}
}

/* Transforms values[0], using values[1] as the second array; returns the result. */
static const KernelComplex *transform(
	const Filter *f, KernelComplex *values[2], const KernelComplex *twiddles)
{
	int64_t n = f->rows.length, span = 1;
	int at = 0;
	for (int i = 0; i < f->fft.passes; i++, at = 1 - at) {
		int radix = f->fft.radix[i];
		for (int64_t j = 0; j < n / radix; j++)
			fft_step_any(values[at], values[1 - at], twiddles, NULL, n, span, radix, j);
		span *= radix;
	}
	return values[at];
}

static tomos_status send_response(tomos_backend *b, Filter *f, const KernelComplex *spectrum)
{
	float *floats;
	int64_t n = f->rows.length;
	TRY(mem_alloc(&floats, n, sizeof *floats, "the filter's response"));
	for (int64_t k = 0; k < n; k++)
		floats[k] = (float)(spectrum[k].re / (double)n);
	tomos_status status = send(b, &f->response, floats, n);
	mem_free(floats);
	return status;
}

static tomos_status make_response(tomos_backend *b, Filter *f, const double *kernel)
{
	int64_t n = f->rows.length;
	KernelComplex *memory;
	TRY(mem_zeroed(&memory, 3 * n, sizeof *memory, "the filter's response"));
	KernelComplex *values[2] = {memory, memory + n}, *twiddles = memory + 2 * n;
	for (int64_t i = 0; i < min64(f->rows.taps, n / 2 + 1); i++)
		values[0][i].re = values[0][(n - i) % n].re = kernel[i];
	fill_turns(twiddles, n);
	tomos_status status = send_response(b, f, transform(f, values, twiddles));
	mem_free(memory);
	return status;
}

static tomos_status make_taps(tomos_backend *b, Filter *f, const double *kernel)
{
	float *taps;
	TRY(mem_alloc(&taps, f->rows.taps, sizeof *taps, "the filter's taps"));
	for (int64_t i = 0; i < f->rows.taps; i++)
		taps[i] = (float)kernel[i];
	tomos_status status = send(b, &f->taps, taps, f->rows.taps);
	mem_free(taps);
	return status;
}

static tomos_status make_fade(tomos_backend *b, Filter *f, const FilterSpec *spec)
{
	float *fade;
	TRY(mem_alloc(&fade, spec->margin + 1, sizeof *fade, "the padding"));
	filter_fade(spec, fade);
	tomos_status status = send(b, &f->fade, fade, spec->margin + 1);
	mem_free(fade);
	return status;
}

static tomos_status filter_fill(tomos_backend *b, Filter *f, const FilterSpec *spec)
{
	int64_t length;
	TRY(filter_length(spec, &length));
	f->rows = filter_packing(spec, length, 0);
	f->batch = max64(1, BATCH_FLOATS / (2 * length));
	TRY(make_fade(b, f, spec));
	TRY(b->type->memory->alloc(b, &f->pairs[0], 2 * f->batch * length, "rows to filter"));
	if (!spec->kernel)
		return TOMOS_OK;
	if (!filter_transforms(spec))
		return make_taps(b, f, spec->kernel);
	TRY(opencl_fft_open(b, &f->fft, length));
	TRY(b->type->memory->alloc(b, &f->pairs[1], 2 * f->batch * length, "rows to filter"));
	return make_response(b, f, spec->kernel);
}

static void opencl_filter_close(tomos_backend *backend, Filter *f)
{
	if (!f)
		return;
	float *held[] = {f->response, f->taps, f->fade, f->pairs[0], f->pairs[1], f->weights};
	for (int i = 0; i < COUNT(held); i++)
		opencl_release(backend, held[i]);
	opencl_fft_close(backend, &f->fft);
	opencl_buffer_release(device_of(backend), f->views);
	mem_free(f);
}

static tomos_status opencl_filter_open(
	tomos_backend *backend, Filter **filter, const FilterSpec *spec)
{
	TRY(mem_zeroed(filter, 1, sizeof **filter, "a filter"));
	tomos_status status = filter_fill(backend, *filter, spec);
	if (status != TOMOS_OK) {
		opencl_filter_close(backend, *filter);
		*filter = NULL;
	}
	return status;
}

/* ---- the views and their weights, which are the caller's ------------------------------------- */

static tomos_status take_room(tomos_backend *b, Filter *f, int64_t count)
{
	if (f->capacity >= count)
		return TOMOS_OK;
	opencl_buffer_release(device_of(b), f->views);
	opencl_release(b, f->weights);
	f->views = NULL;
	f->weights = NULL;
	f->capacity = 0;
	size_t bytes = (size_t)count * sizeof(KernelRowView);
	TRY(opencl_buffer(device_of(b), bytes, &f->views, "weights of views"));
	TRY(b->type->memory->alloc(b, &f->weights, count * f->rows.columns, "weights of views"));
	f->capacity = count;
	return TOMOS_OK;
}

static tomos_status send_views(tomos_backend *b, Filter *f, int64_t count, const FilterView *views)
{
	KernelRowView *list;
	size_t bytes = (size_t)(count * f->rows.columns) * sizeof(float);
	TRY(take_room(b, f, count));
	TRY(opencl_send(b, f->weights, views[0].column_weight, bytes));
	TRY(mem_alloc(&list, count, sizeof *list, "weights of views"));
	for (int64_t i = 0; i < count; i++)
		list[i] = views[i].of;
	cl_int code = clEnqueueWriteBuffer(device_of(b)->queue, f->views, CL_TRUE, 0,
		(size_t)count * sizeof *list, list, 0, NULL, NULL);
	mem_free(list);
	return code == CL_SUCCESS ? TOMOS_OK : opencl_failed(code, "sending weights");
}

/* ---- running ------------------------------------------------------------------------------ */

/* Rows first .. end - 1 of all views. */
typedef struct {
	int64_t first, end;
	KernelRows rows;
	OpenclPlace weights, fade, response, taps, in, out, pairs[2];
} Filtering;

static tomos_status find_places(tomos_backend *b, const Filter *f, Filtering *job)
{
	TRY(opencl_place(b, f->weights, &job->weights));
	TRY(opencl_place(b, f->fade, &job->fade));
	TRY(opencl_place(b, f->response, &job->response));
	TRY(opencl_place(b, f->taps, &job->taps));
	TRY(opencl_place(b, f->pairs[0], &job->pairs[0]));
	return opencl_place(b, f->pairs[1], &job->pairs[1]);
}

static tomos_status prepare(tomos_backend *b, const Filter *f, const Filtering *job, int64_t pairs)
{
	const OpenclArg args[] = {ARG(job->rows), ARG(f->views), ARG_PLACE(job->weights),
		ARG_PLACE(job->fade), ARG(job->first), ARG(job->end), ARG(pairs),
		ARG_PLACE(job->in), ARG_PLACE(job->pairs[0])};
	const int64_t n[3] = {f->rows.length, pairs, 1};
	return opencl_planes(b, TASK_filter_prepare_rows, n, args, COUNT(args));
}

static tomos_status extend(tomos_backend *b, const Filter *f, const Filtering *job, int64_t rows)
{
	const OpenclArg args[] = {ARG(job->rows), ARG(f->views), ARG_PLACE(job->weights),
		ARG(job->first), ARG(rows), ARG_PLACE(job->pairs[0])};
	const int64_t n[3] = {rows, 1, 1};
	return opencl_planes(b, TASK_filter_extend_rows, n, args, COUNT(args));
}

static tomos_status run_batch(tomos_backend *b, const Filter *f, const Filtering *job)
{
	int64_t rows = min64(2 * f->batch, job->end - job->first), pairs = (rows + 1) / 2;
	int at = 0;
	cl_int transformed = f->response != NULL;
	TRY(prepare(b, f, job, pairs));
	if (job->rows.fit)
		TRY(extend(b, f, job, rows));
	if (transformed) {
		TRY(opencl_fft_run(b, &f->fft, pairs, (OpenclPlace){NULL, 0}, job->pairs, &at));
		TRY(opencl_fft_run(b, &f->fft, pairs, job->response, job->pairs, &at));
	}
	const OpenclArg args[] = {ARG(job->rows), ARG_PLACE(job->taps), ARG(transformed),
		ARG(job->first), ARG(rows), ARG_PLACE(job->pairs[at]), ARG_PLACE(job->out)};
	const int64_t n[3] = {(f->rows.columns - 1) * f->rows.oversample + 1, rows, 1};
	return opencl_planes(b, TASK_filter_unpack_rows, n, args, COUNT(args));
}

static tomos_status opencl_filter_apply(tomos_backend *backend, const Filter *filter, int64_t count,
	int64_t rows, const FilterView *views, const float *in, float *out)
{
	Filtering job = {.end = count * rows, .rows = filter->rows};
	job.rows.rows = rows;
	TRY(send_views(backend, (Filter *)filter, count, views));
	TRY(find_places(backend, filter, &job));
	TRY(opencl_place(backend, in, &job.in));
	TRY(opencl_place(backend, out, &job.out));
	for (; job.first < job.end; job.first += 2 * filter->batch)
		TRY(run_batch(backend, filter, &job));
	return TOMOS_OK;
}

const BackendFilter opencl_filter = {
	.open = opencl_filter_open,
	.close = opencl_filter_close,
	.apply = opencl_filter_apply,
};
