/* Row filters by FFTW: two rows form the real and imaginary part of one complex row, several of
 * these per transform, with one plan for all threads.
 *
 * The filter kernels are even, so their responses are real and the two rows stay separate; one
 * complex transform is about twice as fast as two real ones. Plans are estimated, not measured:
 * measured plans differ from run to run, and with them the last bits of a volume.
 */
#include <fftw3.h>
#include <math.h>
#include <string.h>
#include "backend/cpu/cpu.h"
#include "base/fft.h"

enum { PAIRS = 4, BATCH = 2 * PAIRS };

struct Filter {
	FilterSpec spec;
	int64_t length;  /* of the transform */
	int64_t stride;  /* floats from one row, or pair of rows, to the next in the scratch */
	float *response; /* of the kernel at each frequency, divided by the length */
	float *taps;     /* direct: kernel[0 .. taps-1] */
	float *fade;     /* of the padding, from the detector's edge outwards */
	float *scratch;  /* per thread: two rows; pairs of rows before and after a transform */
	int64_t share;   /* floats of a worker's scratch */
	int workers;
	fftwf_plan forth, back;
};

static fftwf_plan make_plan(const Filter *f, float *from, float *to, int sign)
{
	int n = (int)f->length, stride = (int)f->stride;
	return fftwf_plan_many_dft(1, &n, PAIRS, (fftwf_complex *)from, NULL, 1, stride,
		(fftwf_complex *)to, NULL, 1, stride, sign, FFTW_ESTIMATE);
}

static tomos_status make_plans(Filter *f)
{
	float *pairs = f->scratch + 2 * f->stride, *spectra = pairs + BATCH * f->stride;
	fft_lock();
	f->forth = make_plan(f, pairs, spectra, FFTW_FORWARD);
	f->back = make_plan(f, spectra, pairs, FFTW_BACKWARD);
	fft_unlock();
	if (!f->forth || !f->back)
		return fail(TOMOS_NO_MEMORY, "no plan for transforms of length %lld",
			(long long)f->length);
	return TOMOS_OK;
}

/* The kernel is even, so its transform is real: sum over n of kernel[n] cos(2 pi k n / length). */
static tomos_status make_response(Filter *f)
{
	int64_t half = f->length / 2 + 1;
	TRY(mem_alloc(&f->response, f->length, sizeof(float), "the filter's response"));
	int n = (int)half; /* a real even sequence of `length` has a cosine transform of `half` */
	double *even;
	TRY(mem_zeroed(&even, half, sizeof(double), "the filter's kernel"));
	for (int64_t i = 0; i < min64(f->spec.taps, half); i++)
		even[i] = f->spec.kernel[i];
	fft_lock();
	fftw_plan plan = fftw_plan_r2r_1d(n, even, even, FFTW_REDFT00, FFTW_ESTIMATE);
	fft_unlock();
	tomos_status status = TOMOS_OK;
	if (plan) {
		fftw_execute(plan);
		for (int64_t k = 0; k < f->length; k++)
			f->response[k] = (float)(even[min64(k, f->length - k)] / (double)f->length);
		fft_lock();
		fftw_destroy_plan(plan);
		fft_unlock();
	} else {
		status = fail(TOMOS_NO_MEMORY, "no plan for the filter's response");
	}
	mem_free(even);
	return status;
}

static tomos_status filter_fill(Filter *f, const FilterSpec *spec)
{
	f->spec = *spec;
	bool transforms = filter_transforms(spec);
	TRY(filter_length(spec, &f->length));
	f->stride = (f->length + 2 + 15) / 16 * 16;
	f->share = (transforms ? 2 + 2 * BATCH : 2) * f->stride;
	f->workers = tomos_threads();
	TRY(mem_alloc(&f->scratch, f->workers * f->share, sizeof(float), "rows to filter"));
	TRY(mem_alloc(&f->fade, spec->margin + 1, sizeof(float), "the padding"));
	filter_fade(spec, f->fade);
	if (transforms) {
		TRY(make_plans(f));
		return make_response(f);
	}
	if (!spec->kernel)
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
	fft_lock();
	if (f->forth)
		fftwf_destroy_plan(f->forth);
	if (f->back)
		fftwf_destroy_plan(f->back);
	fft_unlock();
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

static void interleave(const float *a, const float *b, int64_t from, int64_t to, float *pair)
{
	for (int64_t i = from; i < to; i++) {
		pair[2 * i] = a[i];
		pair[2 * i + 1] = b[i];
	}
}

static void multiply(const Filter *f, float *pair)
{
	const float *response = f->response;
	for (int64_t k = 0; k < f->length; k++) {
		pair[2 * k] *= response[k];
		pair[2 * k + 1] *= response[k];
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

static void pair_rows(const Filtering *job, int64_t index, float *rows, float *pair)
{
	const Filter *f = job->filter;
	int64_t end = f->spec.columns + f->spec.margin, again = f->length - f->spec.margin;
	float *second = rows + f->stride;
	prepare_row(job, index, rows);
	prepare_row(job, index + 1, second);
	interleave(rows, second, 0, end, pair);
	memset(pair + 2 * end, 0, (size_t)(again - end) * 2 * sizeof *pair);
	interleave(rows, second, again, f->length, pair);
}

static void part_rows(const Filtering *job, int64_t index, const float *pair)
{
	for (int k = 0; k < 2 && index + k < job->all; k++) {
		float *out = row_out(job, index + k);
		for (int64_t c = 0; c < job->filter->spec.columns; c++)
			out[c] = pair[2 * c + k];
	}
}

static void transform_batch(const Filtering *job, int64_t first, float *scratch)
{
	const Filter *f = job->filter;
	float *pairs = scratch + 2 * f->stride, *spectra = pairs + BATCH * f->stride;
	for (int64_t i = 0; i < PAIRS; i++)
		pair_rows(job, first + 2 * i, scratch, pairs + 2 * i * f->stride);
	fftwf_execute_dft(f->forth, (fftwf_complex *)pairs, (fftwf_complex *)spectra);
	for (int64_t i = 0; i < PAIRS; i++)
		multiply(f, spectra + 2 * i * f->stride);
	fftwf_execute_dft(f->back, (fftwf_complex *)spectra, (fftwf_complex *)pairs);
	for (int64_t i = 0; i < PAIRS; i++)
		part_rows(job, first + 2 * i, pairs + 2 * i * f->stride);
}

static void filter_batch(const Filtering *job, int64_t first, float *scratch)
{
	const Filter *f = job->filter;
	int64_t end = min64(first + BATCH, job->all);
	if (f->response)
		transform_batch(job, first, scratch);
	for (int64_t i = first; i < end && !f->response; i++) {
		prepare_row(job, i, scratch);
		if (f->taps)
			convolve(f, scratch, row_out(job, i));
		else
			memcpy(row_out(job, i), scratch, (size_t)f->spec.columns * sizeof *scratch);
	}
	for (int64_t i = first; i < end; i++)
		spread_row(&f->spec, row_out(job, i));
}

static void filter_share(void *user, int64_t worker)
{
	const Filtering *job = user;
	float *scratch = job->filter->scratch + worker * job->filter->share;
	for (int64_t first = worker * BATCH; first < job->all && !cancel_seen();
		first += job->filter->workers * BATCH)
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
