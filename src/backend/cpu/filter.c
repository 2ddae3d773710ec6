/* Row filters by FFTW: a batch of rows per transform, one plan for all threads.
 *
 * Plans are estimated, not measured: measured ones differ from run to run, and so would the last
 * bits of a volume.
 */
#include <fftw3.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "backend/cpu/cpu.h"

enum { BATCH = 8 };

struct Filter {
	FilterSpec spec;
	int64_t length, stride; /* of the transform; of a row in the scratch */
	float *response;        /* of the kernel at each frequency, over the length */
	float *taps;            /* direct: kernel[0 .. taps-1] */
	float *scratch;         /* BATCH rows per worker */
	int workers;
	fftwf_plan forth, back;
};

static pthread_mutex_t planning =
	PTHREAD_MUTEX_INITIALIZER; /* FFTW plans in one thread at a time */

/* The next length that FFTW does fast: no prime factor above 7, and even. */
static int64_t fast_length(int64_t least)
{
	for (int64_t n = least + least % 2;; n += 2) {
		int64_t rest = n;
		static const int primes[] = {2, 3, 5, 7};
		for (int i = 0; i < COUNT(primes); i++)
			while (rest % primes[i] == 0)
				rest /= primes[i];
		if (rest == 1)
			return n;
	}
}

static tomos_status make_plans(Filter *f)
{
	int n = (int)f->length;
	fftwf_complex *spectrum = (fftwf_complex *)f->scratch;
	pthread_mutex_lock(&planning);
	f->forth = fftwf_plan_many_dft_r2c(1, &n, BATCH, f->scratch, NULL, 1, (int)f->stride,
		spectrum, NULL, 1, (int)f->stride / 2, FFTW_ESTIMATE);
	f->back = fftwf_plan_many_dft_c2r(1, &n, BATCH, spectrum, NULL, 1, (int)f->stride / 2,
		f->scratch, NULL, 1, (int)f->stride, FFTW_ESTIMATE);
	pthread_mutex_unlock(&planning);
	if (!f->forth || !f->back)
		return fail(TOMOS_NO_MEMORY, "no plan for transforms of length %d", n);
	return TOMOS_OK;
}

/* The kernel is even, so its transform is real: sum over n of kernel[n] cos(2 pi k n / length). */
static tomos_status make_response(Filter *f)
{
	int64_t half = f->length / 2 + 1;
	TRY(mem_alloc(&f->response, half, sizeof(float), "the filter's response"));
	int n = (int)half; /* a real even sequence of `length` has a cosine transform of `half` */
	double *even;
	TRY(mem_zeroed(&even, half, sizeof(double), "the filter's kernel"));
	for (int64_t i = 0; i < min64(f->spec.taps, half); i++)
		even[i] = f->spec.kernel[i];
	pthread_mutex_lock(&planning);
	fftw_plan plan = fftw_plan_r2r_1d(n, even, even, FFTW_REDFT00, FFTW_ESTIMATE);
	pthread_mutex_unlock(&planning);
	tomos_status status = TOMOS_OK;
	if (plan) {
		fftw_execute(plan);
		for (int64_t k = 0; k < half; k++)
			f->response[k] = (float)(even[k] / (double)f->length);
		pthread_mutex_lock(&planning);
		fftw_destroy_plan(plan);
		pthread_mutex_unlock(&planning);
	} else {
		status = fail(TOMOS_NO_MEMORY, "no plan for the filter's response");
	}
	mem_free(even);
	return status;
}

static tomos_status filter_fill(Filter *f, const FilterSpec *spec)
{
	f->spec = *spec;
	int64_t wide = spec->columns + spec->margin;
	f->length = spec->kernel && !spec->direct ? fast_length(2 * wide) : wide + spec->margin;
	if (f->length > 1 << 28)
		return fail(TOMOS_BAD_VALUE, "%lld columns are too many to filter",
			(long long)spec->columns);
	f->stride = (f->length + 2 + 15) / 16 * 16;
	f->workers = tomos_threads();
	TRY(mem_alloc(
		&f->scratch, f->workers * BATCH * f->stride, sizeof(float), "rows to filter"));
	if (!spec->kernel)
		return TOMOS_OK;
	if (!spec->direct) {
		TRY(make_plans(f));
		return make_response(f);
	}
	TRY(mem_alloc(&f->taps, spec->taps, sizeof(float), "the filter's taps"));
	for (int64_t i = 0; i < spec->taps; i++)
		f->taps[i] = (float)spec->kernel[i];
	return TOMOS_OK;
}

tomos_status cpu_filter_open(tomos_backend *backend, Filter **filter, const FilterSpec *spec)
{
	TRY(mem_zeroed(filter, 1, sizeof **filter, "a filter"));
	tomos_status status = filter_fill(*filter, spec);
	if (status != TOMOS_OK) {
		cpu_filter_close(backend, *filter);
		*filter = NULL;
	}
	return status;
}

void cpu_filter_close(tomos_backend *backend, Filter *f)
{
	(void)backend;
	if (!f)
		return;
	pthread_mutex_lock(&planning);
	if (f->forth)
		fftwf_destroy_plan(f->forth);
	if (f->back)
		fftwf_destroy_plan(f->back);
	pthread_mutex_unlock(&planning);
	mem_free(f->response);
	mem_free(f->taps);
	mem_free(f->scratch);
	mem_free(f);
}

typedef struct {
	const Filter *filter;
	int64_t rows; /* of all views */
	const FilterView *views;
	const float *in;
	float *out;
} Filtering;

/* A pixel between the pixels of an image, 0 beyond it. */
static float bilinear(const FilterSpec *spec, const float *image, double column, double row)
{
	if (!(column > -1 && row > -1 && column < (double)spec->seen && row < (double)spec->rows))
		return 0;
	double c0 = floor(column), r0 = floor(row), sum = 0;
	for (int j = 0; j < 4; j++) {
		int64_t c = (int64_t)c0 + (j & 1), r = (int64_t)r0 + (j >> 1);
		double share = (j & 1 ? column - c0 : 1 - (column - c0)) *
			       (j & 2 ? row - r0 : 1 - (row - r0));
		if (c >= 0 && r >= 0 && c < spec->seen && r < spec->rows)
			sum += share * image[r * spec->seen + c];
	}
	return (float)sum;
}

static void take_row(
	const Filter *f, const FilterView *view, int64_t row, const float *image, float *out)
{
	int64_t columns = f->spec.columns, seen = f->spec.seen, before = f->spec.before;
	if (!view->mapped) {
		memset(out, 0, (size_t)columns * sizeof *out);
		memcpy(out + before, image + row * seen, (size_t)seen * sizeof *out);
		return;
	}
	const double *m = view->map;
	double r = (double)row;
	for (int64_t i = 0; i < columns; i++) {
		double c = (double)i, depth = m[6] * c + m[7] * r + m[8];
		out[i] = bilinear(&f->spec, image, (m[0] * c + m[1] * r + m[2]) / depth,
			(m[3] * c + m[4] * r + m[5]) / depth);
	}
}

static void weigh_row(const Filter *f, const FilterView *view, int64_t row, float *out)
{
	int64_t columns = f->spec.columns;
	const float *weight = view->column_weight;
	if (view->distance == 0) {
		for (int64_t c = 0; c < columns; c++)
			out[c] *= weight[c];
		return;
	}
	double v = ((double)row - view->foot_row) * view->dv;
	float near2 = (float)((view->distance * view->distance + v * v) /
			      (view->distance * view->distance));
	float du = (float)(view->du / view->distance), foot = (float)view->foot_column;
	for (int64_t c = 0; c < columns; c++) {
		float u = ((float)c - foot) * du;
		out[c] *= weight[c] / sqrtf(near2 + u * u);
	}
}

/* Continues a row of `columns` samples at row[0] by the margin: to the right directly, to the left
 * at the end of the buffer, where a periodic transform looks for it. */
static void pad_row(const Filter *f, float *row)
{
	int64_t n = f->spec.columns, m = f->spec.margin;
	memset(row + n, 0, (size_t)(f->stride - n) * sizeof *row);
	float first = row[0], last = row[n - 1];
	for (int64_t i = 0; i < m; i++) {
		double fade = f->spec.padding == PADDING_EDGE
				      ? 1
				      : 0.5 * (1 + cos(M_PI * ((double)i + 1) / (double)(m + 1)));
		row[n + i] = (float)fade * last;
		row[f->length - 1 - i] = (float)fade * first;
	}
}

static void multiply(const Filter *f, float *row)
{
	for (int64_t k = 0; k <= f->length / 2; k++) {
		row[2 * k] *= f->response[k];
		row[2 * k + 1] *= f->response[k];
	}
}

/* `row` is padded as by pad_row, with the margin below it at the end of the buffer. */
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

static void give_row(const Filter *f, const float *row, float *out)
{
	int64_t columns = f->spec.columns, fine = f->spec.oversample;
	if (f->taps)
		convolve(f, row, out);
	else
		memcpy(out, row, (size_t)columns * sizeof *out);
	if (fine == 1)
		return;
	for (int64_t c = columns - 1; c >= 0; c--) { /* from the end, since it spreads in place */
		float here = out[c], next = c + 1 < columns ? out[(c + 1) * fine] : here;
		for (int64_t k = c + 1 < columns ? fine - 1 : 0; k >= 0; k--)
			out[c * fine + k] = here + (next - here) * (float)k / (float)fine;
	}
}

static void filter_batch(const Filtering *job, int64_t first, float *scratch)
{
	const Filter *f = job->filter;
	int64_t count = min64(BATCH, job->rows - first);
	for (int64_t i = 0; i < count; i++) {
		int64_t view = (first + i) / f->spec.rows, row = (first + i) % f->spec.rows;
		float *to = scratch + i * f->stride;
		take_row(f, &job->views[view], row, job->in + view * f->spec.rows * f->spec.seen,
			to);
		weigh_row(f, &job->views[view], row, to);
		pad_row(f, to);
	}
	if (f->response) {
		memset(scratch + count * f->stride, 0,
			(size_t)((BATCH - count) * f->stride) * sizeof(float));
		fftwf_execute_dft_r2c(f->forth, scratch, (fftwf_complex *)scratch);
		for (int64_t i = 0; i < count; i++)
			multiply(f, scratch + i * f->stride);
		fftwf_execute_dft_c2r(f->back, (fftwf_complex *)scratch, scratch);
	}
	for (int64_t i = 0; i < count; i++)
		give_row(f, scratch + i * f->stride,
			job->out + (first + i) * filter_columns(&f->spec));
}

static void filter_share(void *user, int64_t worker)
{
	const Filtering *job = user;
	float *scratch = job->filter->scratch + worker * BATCH * job->filter->stride;
	for (int64_t first = worker * BATCH; first < job->rows;
		first += job->filter->workers * BATCH)
		filter_batch(job, first, scratch);
}

tomos_status cpu_filter(tomos_backend *backend, const Filter *filter, int64_t count,
	const FilterView *views, const float *in, float *out)
{
	(void)backend;
	Filtering job = {filter, count * filter->spec.rows, views, in, out};
	parallel_for(filter->workers, filter_share, &job);
	return TOMOS_OK;
}
