/* Filtering of detector rows: by taps and by FFT, with weights and padding. */
#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include "ops/opened.h"

/* ---- rows ------------------------------------------------------------------------------------ */

enum { VIEW_ROWS = 5 };

typedef struct {
	FilterSpec spec;
	FilterView view;
	float *weights, *in, *out;
	double *kernel;
	int64_t views;
} Rows;

static Rows rows_make(Case *c, int64_t columns, int64_t taps, Padding padding)
{
	int64_t margin = padding == PADDING_ZERO ? 0 : columns;
	Rows r = {.views = 3,
		.spec = {.columns = columns,
			.seen = columns,
			.margin = margin,
			.padding = padding,
			.oversample = 1}};
	r.spec.taps = taps < columns + margin ? taps : columns + margin;
	r.kernel = malloc((size_t)r.spec.taps * sizeof *r.kernel);
	tomos_analytic_options o = tomos_analytic_defaults();
	OK(window_kernel(r.kernel, r.spec.taps, &o));
	r.spec.kernel = r.kernel;
	r.weights = malloc((size_t)(r.views * columns) * sizeof *r.weights);
	for (int64_t i = 0; i < r.views * columns; i++)
		r.weights[i] = 1;
	r.view = (FilterView){.column_weight = r.weights};
	r.in = case_data(c, r.views * VIEW_ROWS * columns);
	r.out = NULL;
	return r;
}

static void rows_free(Rows *r)
{
	free(r->kernel), free(r->weights), free(r->in), free(r->out);
}

static float *rows_filter(const Rows *r, bool direct)
{
	FilterSpec spec = r->spec;
	spec.direct = direct;
	Filter *filter;
	int64_t live = mem_live();
	FilterView views[3] = {r->view, r->view, r->view};
	for (int i = 1; i < 3; i++)
		views[i].column_weight = r->weights + i * spec.columns;
	float *out = malloc((size_t)(r->views * VIEW_ROWS * filter_columns(&spec)) * sizeof *out);
	OK(backend->type->filter->open(backend, &filter, &spec));
	tomos_array from = tomos_array_of(r->in, r->views, VIEW_ROWS, spec.seen);
	tomos_array to = tomos_array_of(out, r->views, VIEW_ROWS, filter_columns(&spec));
	float *in_there, *out_there;
	OK(backend->type->memory->alloc(
		backend, &in_there, r->views * VIEW_ROWS * spec.seen, "rows"));
	OK(backend->type->memory->alloc(
		backend, &out_there, r->views * VIEW_ROWS * filter_columns(&spec), "rows"));
	OK(backend->type->memory->upload(backend, in_there, &from));
	OK(backend->type->filter->apply(
		backend, filter, r->views, VIEW_ROWS, views, in_there, out_there));
	OK(backend->type->memory->download(backend, out_there, &to));
	backend->type->memory->release(backend, in_there);
	backend->type->memory->release(backend, out_there);
	backend->type->filter->close(backend, filter);
	assert_int_equal(mem_live(), live);
	return out;
}

static double padded(const Rows *r, const float *row, int64_t i)
{
	int64_t n = r->spec.columns, beyond = i < 0 ? -i : i >= n ? i - n + 1 : 0;
	if (beyond == 0)
		return (double)row[i] * r->weights[i];
	if (beyond > r->spec.margin)
		return 0;
	double edge =
		i < 0 ? (double)row[0] * r->weights[0] : (double)row[n - 1] * r->weights[n - 1];
	if (r->spec.padding == PADDING_EDGE)
		return edge;
	return edge * 0.5 * (1 + cos(M_PI * (double)beyond / (double)(r->spec.margin + 1)));
}

/* The definition, in double precision. */
static double convolved(const Rows *r, const float *row, int64_t c)
{
	double sum = 0;
	for (int64_t t = -r->spec.taps + 1; t < r->spec.taps; t++)
		sum += r->kernel[llabs(t)] * padded(r, row, c - t);
	return sum;
}

/* By transforms and tap by tap, for lengths with large prime factors, kernels longer and shorter
 * than the rows, and every padding: both are the definition to rounding, so nothing wraps
 * around. */
static void taps_and_transforms_agree(void **state)
{
	(void)state;
	static const int64_t widths[] = {1, 2, 3, 7, 31, 64, 97, 128, 251};
	Case c = {.state = 5};
	double worst[3] = {0};
	for (int w = 0; w < (CASE_SLOW ? 7 : 9); w++)
		for (int padding = 0; padding < 3; padding++)
			for (int64_t taps = 1; taps < 4 * widths[w]; taps = taps * 3 + 1) {
				int64_t n = widths[w];
				Rows r = rows_make(&c, n, taps, (Padding)padding);
				float *fast = rows_filter(&r, false);
				float *direct = rows_filter(&r, true);
				for (int64_t i = 0; i < r.views * VIEW_ROWS * n; i++) {
					double wanted = convolved(&r, r.in + i / n * n, i % n);
					worst[0] = fmax(worst[0], fabs(fast[i] - wanted));
					worst[1] = fmax(worst[1], fabs(direct[i] - wanted));
					worst[2] =
						fmax(worst[2], fabs((double)fast[i] - direct[i]));
				}
				free(fast), free(direct);
				rows_free(&r);
			}
	printf("largest error of values up to 1: transforms %.1e, taps %.1e, between them %.1e\n",
		worst[0], worst[1], worst[2]);
	for (int i = 0; i < 3; i++)
		assert_true(worst[i] < 1e-6);
}

/* The same row in wider and wider ones filled up with zeros, so that the transforms differ. */
static void transforms_length_does_not_matter(void **state)
{
	(void)state;
	enum { WIDTH = 61, KERNEL = 40 };
	Case c = {.state = 6};
	Rows r = rows_make(&c, WIDTH, KERNEL, PADDING_ZERO);
	float *wanted = rows_filter(&r, false);
	for (int64_t n = WIDTH + 1; n < 4 * WIDTH; n += 7) {
		Rows wide = rows_make(&c, n, KERNEL, PADDING_ZERO);
		memset(wide.in, 0, (size_t)(wide.views * VIEW_ROWS * n) * sizeof(float));
		for (int64_t i = 0; i < r.views * VIEW_ROWS; i++)
			memcpy(wide.in + i * n, r.in + i * WIDTH, WIDTH * sizeof(float));
		float *out = rows_filter(&wide, false);
		for (int64_t i = 0; i < r.views * VIEW_ROWS * WIDTH; i++)
			if (fabs((double)out[i / WIDTH * n + i % WIDTH] - wanted[i]) > 1e-6)
				fail_msg("%lld columns: %g, not %g", (long long)n,
					(double)out[i / WIDTH * n + i % WIDTH], (double)wanted[i]);
		free(out);
		rows_free(&wide);
	}
	free(wanted);
	rows_free(&r);
}

/* Weights of columns and the cosine of the ray, without a kernel. */
static void rows_are_weighted(void **state)
{
	(void)state;
	Case c = {.state = 7};
	Rows r = rows_make(&c, 37, 1, PADDING_ZERO);
	r.spec.kernel = NULL;
	for (int64_t i = 0; i < 3 * 37; i++)
		r.weights[i] = (float)case_between(&c, 0, 2);
	r.view.of.distance = 50;
	r.view.of.foot_column = 11.3, r.view.of.foot_row = 1.7;
	r.view.of.du = 1.3, r.view.of.dv = -0.9;
	r.out = rows_filter(&r, false);
	for (int64_t i = 0; i < 3 * 5 * 37; i++) {
		double u = ((double)(i % 37) - 11.3) * 1.3, v = ((double)(i / 37 % 5) - 1.7) * 0.9;
		float weight = r.weights[i / (5 * 37) * 37 + i % 37];
		double wanted = r.in[i] * weight * 50 / sqrt(2500 + u * u + v * v);
		assert_true(fabs(r.out[i] - wanted) < 1e-6);
	}
	rows_free(&r);
}

/* Columns set into wider rows, four samples per column, and a detector moved by whole pixels. */
static void rows_are_placed(void **state)
{
	(void)state;
	enum { SEEN = 20, BEFORE = 7, WIDE = 33 };
	Case c = {.state = 8};
	Rows r = rows_make(&c, WIDE, 1, PADDING_ZERO);
	r.spec.kernel = NULL;
	r.spec.seen = SEEN, r.spec.before = BEFORE;
	r.spec.oversample = 4;
	float *placed = rows_filter(&r, false);
	r.view.of.mapped = true;
	double map[9] = {1, 0, -BEFORE, 0, 1, 0, 0, 0, 1};
	memcpy(r.view.of.map, map, sizeof map);
	r.out = rows_filter(&r, false);
	int64_t fine = filter_columns(&r.spec);
	assert_int_equal(fine, 4 * (WIDE - 1) + 1);
	for (int64_t row = 0; row < 15; row++)
		for (int64_t i = 0; i < fine; i++) {
			double p = (double)i / 4 - BEFORE, low = floor(p), wanted = 0;
			for (int j = 0; j < 2; j++)
				if (low + j >= 0 && low + j < SEEN)
					wanted += (j ? p - low : 1 - (p - low)) *
						  r.in[row * SEEN + (int64_t)low + j];
			assert_true(fabs(placed[row * fine + i] - wanted) < 1e-6);
			assert_true(fabs(r.out[row * fine + i] - wanted) < 1e-6);
		}
	free(placed);
	rows_free(&r);
}

static void too_many_columns_are_rejected(void **state)
{
	(void)state;
	double kernel = 1;
	FilterSpec spec = {.columns = (int64_t)1 << 28,
		.seen = 1,
		.taps = 1,
		.kernel = &kernel,
		.oversample = 1};
	Filter *filter;
	REJECTED(backend->type->filter->open(backend, &filter, &spec), TOMOS_BAD_VALUE,
		"268435456 columns are too many to filter");
	assert_null(filter);
}

#define TESTS(T) \
	T(taps_and_transforms_agree), T(transforms_length_does_not_matter), T(rows_are_weighted), \
		T(rows_are_placed), T(too_many_columns_are_rejected)
TEST_MAIN(TESTS, open_backend, close_backend)
