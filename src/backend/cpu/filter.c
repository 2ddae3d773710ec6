/* Row filters: two rows form the real and imaginary part of one complex sequence, and several of
 * these are transformed at once.
 *
 * The filter kernels are even, so their responses are real and the two rows stay separate.
 */
#include <math.h>
#include <string.h>
#include "backend/cpu/cpu.h"
#include "backend/fft.h"

struct Filter {
	FilterSpec spec;
	int64_t length;  /* of the transform */
	int64_t stride;  /* floats from one row to the next in the scratch */
	int batch;       /* rows filtered together */
	Fft *fft;        /* NULL: sums over taps */
	float *response; /* of the kernel at each position of the spectrum, divided by the length */
	float *taps;     /* direct: kernel[0 .. taps-1] */
	float *fade;     /* of the padding, from the detector's edge outwards */
	float *scratch;  /* per thread: a batch of rows, and the data of a transform */
	int64_t share;   /* floats of a worker's scratch */
	int workers;
};

/* The kernel is even, so its transform is real: sum over n of kernel[n] cos(2 pi k n / length). */
static tomos_status make_response(Filter *f)
{
	int64_t half = f->length / 2 + 1;
	double *even;
	TRY(mem_alloc(&f->response, f->length, sizeof(float), "the filter's response"));
	TRY(mem_zeroed(&even, half, sizeof(double), "the filter's kernel"));
	memcpy(even, f->spec.kernel, (size_t)min64(f->spec.taps, half) * sizeof *even);
	tomos_status status = fft_even(even, f->length);
	for (int64_t k = 0; k < f->length && status == TOMOS_OK; k++)
		f->response[fft_position(f->fft, k)] =
			(float)(even[min64(k, f->length - k)] / (double)f->length);
	mem_free(even);
	return status;
}

static tomos_status make_transform(Filter *f)
{
	TRY(fft_open(&f->fft, f->length));
	f->batch = 2 * fft_lanes(f->fft);
	return make_response(f);
}

static tomos_status filter_fill(Filter *f, const FilterSpec *spec)
{
	f->spec = *spec;
	f->batch = 1;
	f->workers = tomos_threads();
	TRY(filter_length(spec, &f->length));
	f->stride = (f->length + 15) / 16 * 16;
	if (filter_transforms(spec))
		TRY(make_transform(f));
	f->share = f->batch * f->stride + (f->fft ? fft_floats(f->fft) : 0);
	TRY(mem_alloc(&f->scratch, f->workers * f->share, sizeof(float), "rows to filter"));
	TRY(mem_alloc(&f->fade, spec->margin + 1, sizeof(float), "the padding"));
	filter_fade(spec, f->fade);
	if (f->fft || !spec->kernel)
		return TOMOS_OK;
	TRY(mem_alloc(&f->taps, spec->taps, sizeof(float), "the filter's taps"));
	for (int64_t i = 0; i < spec->taps; i++)
		f->taps[i] = (float)spec->kernel[i];
	return TOMOS_OK;
}

static void cpu_filter_close(tomos_backend *backend, Filter *f)
{
	(void)backend;
	if (!f)
		return;
	fft_close(f->fft);
	mem_free(f->response);
	mem_free(f->taps);
	mem_free(f->fade);
	mem_free(f->scratch);
	mem_free(f);
}

static tomos_status cpu_filter_open(tomos_backend *backend, Filter **filter, const FilterSpec *spec)
{
	TRY(mem_zeroed(filter, 1, sizeof **filter, "a filter"));
	tomos_status status = filter_fill(*filter, spec);
	if (status != TOMOS_OK) {
		cpu_filter_close(backend, *filter);
		*filter = NULL;
	}
	return status;
}

typedef struct {
	const Filter *filter;
	KernelRows rows;
	int64_t all; /* rows of all views */
	const FilterView *views;
	const float *in;
	float *out;
} Filtering;

static void take_row(const Filtering *job, int64_t number, int64_t row, float *out)
{
	const Filter *f = job->filter;
	const KernelRowView *view = &job->views[number].of;
	const float *image = job->in + number * job->rows.rows * f->spec.seen;
	int64_t columns = f->spec.columns, seen = f->spec.seen, before = f->spec.before;
	if (!view->mapped) {
		memset(out, 0, (size_t)before * sizeof *out);
		memcpy(out + before, image + row * seen, (size_t)seen * sizeof *out);
		memset(out + before + seen, 0, (size_t)(columns - before - seen) * sizeof *out);
		return;
	}
	for (int64_t i = 0; i < columns; i++)
		out[i] = rows_pixel(&job->rows, view, image, row, i);
}

static void weigh_row(const Filter *f, const FilterView *of, int64_t row, float *out)
{
	/* An int: the loop below converts vectors of it to floats. */
	int columns = (int)f->spec.columns;
	const KernelRowView *view = &of->of;
	const float *weight = of->column_weight;
	if (view->distance == 0) {
		for (int c = 0; c < columns; c++)
			out[c] *= weight[c];
		return;
	}
	double v = ((double)row - view->foot_row) * view->dv;
	float near2 = (float)((view->distance * view->distance + v * v) /
			      (view->distance * view->distance));
	float du = (float)(view->du / view->distance), foot = (float)view->foot_column;
	for (int c = 0; c < columns; c++) {
		float u = ((float)c - foot) * du;
		out[c] *= weight[c] / sqrtf(near2 + u * u);
	}
}

/* Extrapolates a row of `columns` samples at row[0] by the margin: on the right directly, on the
 * left at the end of the buffer, since the transform is periodic. The samples between are not
 * changed. */
static void pad_row(const Filter *f, float *row)
{
	int64_t n = f->spec.columns, m = f->spec.margin;
	float first = row[0], last = row[n - 1];
	for (int64_t i = 0; i < m; i++) {
		row[n + i] = f->fade[i] * last;
		row[f->length - 1 - i] = f->fade[i] * first;
	}
}

/* `row` is padded by pad_row, with the left margin at the end of the buffer. */
static void convolve(const Filter *f, const float *row, float *out)
{
	int64_t n = f->spec.columns, m = f->spec.margin;
	for (int64_t c = 0; c < n; c++)
		out[c] = f->taps[0] * row[c];
	for (int64_t t = 1; t < f->spec.taps; t++) {
		float tap = f->taps[t];
		for (int64_t c = 0; c < n; c++) {
			int64_t left = c - t, right = c + t;
			float sum = right < n + m ? row[right] : 0;
			if (left >= 0)
				sum += row[left];
			else if (left >= -m)
				sum += row[f->length + left];
			out[c] += tap * sum;
		}
	}
}

/* Interpolates `oversample` samples per column, in place and therefore from the end. */
static void spread_row(const FilterSpec *spec, float *row)
{
	int64_t columns = spec->columns, fine = spec->oversample;
	if (fine == 1)
		return;
	for (int64_t c = columns - 1; c >= 0; c--) {
		float here = row[c], next = c + 1 < columns ? row[(c + 1) * fine] : here;
		for (int64_t k = c + 1 < columns ? fine - 1 : 0; k >= 0; k--)
			row[c * fine + k] = here + (next - here) * (float)k / (float)fine;
	}
}

/* Reads row `index` of all views, weights and pads it. Rows beyond the last are zeros. */
static void prepare_row(const Filtering *job, int64_t index, float *to)
{
	const Filter *f = job->filter;
	int64_t view = index / job->rows.rows, row = index % job->rows.rows;
	if (index >= job->all) {
		memset(to, 0, (size_t)f->length * sizeof *to);
		return;
	}
	take_row(job, view, row, to);
	weigh_row(f, &job->views[view], row, to);
	pad_row(f, to);
	if (job->rows.fit)
		rows_extend(&job->rows, &job->views[view].of,
			&(KernelRowData){to, job->views[view].column_weight, 1, row});
}

static float *row_out(const Filtering *job, int64_t index)
{
	return job->out + index * filter_columns(&job->filter->spec);
}

/* Rows of a batch: rows[0] are the even ones, real parts of the sequences, and rows[1] the odd
 * ones, imaginary parts. So the pairs, and with them the last bits, do not depend on the batch. */
typedef float *BatchRows[2][FFT_MOST_LANES];

/* Copies the rows into the sequences. The samples between the two margins are zero. */
static void gather(const Filter *f, BatchRows rows, float *data)
{
	int64_t end = f->spec.columns + f->spec.margin, again = f->length - f->spec.margin;
	for (int part = 0; part < 2; part++) {
		const float *const *from = (const float *const *)rows[part];
		fft_gather(f->fft, from, 0, end, part, data);
		fft_gather(f->fft, from, again, f->length, part, data);
	}
	memset(data + end * f->batch, 0, (size_t)((again - end) * f->batch) * sizeof *data);
}

static void multiply(const Filter *f, float *data)
{
	for (int64_t i = 0; i < f->length; i++)
		for (int l = 0; l < f->batch; l++)
			data[i * f->batch + l] *= f->response[i];
}

static void transform_batch(const Filtering *job, int64_t first, float *scratch)
{
	const Filter *f = job->filter;
	float *data = scratch + f->batch * f->stride;
	BatchRows rows;
	for (int i = 0; i < f->batch; i++) {
		rows[i % 2][i / 2] = scratch + i * f->stride;
		prepare_row(job, first + i, rows[i % 2][i / 2]);
	}
	gather(f, rows, data);
	fft_forward(f->fft, data);
	multiply(f, data);
	fft_inverse(f->fft, data);
	for (int i = 0; i < f->batch; i++)
		if (first + i < job->all)
			rows[i % 2][i / 2] = row_out(job, first + i);
	for (int part = 0; part < 2; part++)
		fft_scatter(f->fft, data, 0, f->spec.columns, part, rows[part]);
}

static void filter_batch(const Filtering *job, int64_t first, float *scratch)
{
	const Filter *f = job->filter;
	if (f->fft) {
		transform_batch(job, first, scratch);
	} else {
		prepare_row(job, first, scratch);
		if (f->taps)
			convolve(f, scratch, row_out(job, first));
		else
			memcpy(row_out(job, first), scratch,
				(size_t)f->spec.columns * sizeof *scratch);
	}
	for (int64_t i = first; i < min64(first + f->batch, job->all); i++)
		spread_row(&f->spec, row_out(job, i));
}

static void filter_share(void *user, int64_t worker)
{
	const Filtering *job = user;
	float *scratch = job->filter->scratch + worker * job->filter->share;
	const int64_t batch = job->filter->batch, step = job->filter->workers * batch;
	for (int64_t first = worker * batch; first < job->all && !cancel_seen(); first += step)
		filter_batch(job, first, scratch);
}

static tomos_status cpu_filter_apply(tomos_backend *backend, const Filter *filter, int64_t count,
	int64_t rows, const FilterView *views, const float *in, float *out)
{
	(void)backend;
	Filtering job = {filter, filter_packing(&filter->spec, filter->length, rows), count * rows,
		views, in, out};
	parallel_for(filter->workers, filter_share, &job);
	return TOMOS_OK;
}

const BackendFilter cpu_filter = {
	.open = cpu_filter_open,
	.close = cpu_filter_close,
	.apply = cpu_filter_apply,
};
