/* How fast rows are filtered beside bare FFTW: transforms of the same length, there and back, for
 * the same number of rows, with nothing read, weighted, multiplied or written. */
#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include <fftw3.h>
#include "ops/cases.h"

enum { BATCH = 8, REPEATS = 15 };

/* Plans of one kind: real transforms in place, estimated or measured; or pairs of rows as complex
 * ones, as the filter has them. */
typedef enum { ESTIMATED, MEASURED, PAIRED, KINDS } Kind;

typedef struct {
	Kind kind;
	int64_t rows, share; /* share: floats of a thread's scratch */
	fftwf_plan forth, back;
	float *scratch;
} Bare;

static Bare bare_make(Kind kind, int length, int64_t rows)
{
	int stride = (length + 2 + 15) / 16 * 16;
	unsigned flags = kind == MEASURED ? FFTW_MEASURE : FFTW_ESTIMATE;
	Bare b = {.kind = kind, .rows = rows, .share = 2 * BATCH * (int64_t)stride};
	size_t floats = (size_t)(tomos_threads() * b.share);
	float *a = b.scratch = fftwf_alloc_real(floats);
	fftwf_complex *z = (fftwf_complex *)a, *to = (fftwf_complex *)(a + b.share / 2);
	if (kind == PAIRED) {
		b.forth = fftwf_plan_many_dft(1, &length, BATCH / 2, z, NULL, 1, stride, to, NULL,
			1, stride, FFTW_FORWARD, flags);
		b.back = fftwf_plan_many_dft(1, &length, BATCH / 2, to, NULL, 1, stride, z, NULL, 1,
			stride, FFTW_BACKWARD, flags);
	} else {
		b.forth = fftwf_plan_many_dft_r2c(
			1, &length, BATCH, a, NULL, 1, stride, z, NULL, 1, stride / 2, flags);
		b.back = fftwf_plan_many_dft_c2r(
			1, &length, BATCH, z, NULL, 1, stride / 2, a, NULL, 1, stride, flags);
	}
	memset(b.scratch, 0, floats * sizeof *b.scratch);
	return b;
}

static void bare_free(Bare *b)
{
	fftwf_destroy_plan(b->forth);
	fftwf_destroy_plan(b->back);
	fftwf_free(b->scratch);
}

static void bare_share(void *user, int64_t worker)
{
	const Bare *b = user;
	float *a = b->scratch + worker * b->share;
	fftwf_complex *z = (fftwf_complex *)a, *to = (fftwf_complex *)(a + b->share / 2);
	for (int64_t first = worker * BATCH; first < b->rows; first += tomos_threads() * BATCH)
		if (b->kind == PAIRED) {
			fftwf_execute_dft(b->forth, z, to);
			fftwf_execute_dft(b->back, to, z);
		} else {
			fftwf_execute_dft_r2c(b->forth, a, z);
			fftwf_execute_dft_c2r(b->back, z, a);
		}
}

typedef struct {
	tomos_backend *backend;
	Filter *filter;
	FilterView *views;
	int64_t count;
	float *in, *out;
	double *kernel;
	float *weights;
} Ours;

static Ours ours_make(int64_t count, int64_t rows, int64_t columns, const char *padding)
{
	Ours o = {.count = count};
	int margin = strcmp(padding, "zero") != 0;
	OK(tomos_backend_open(&o.backend, "cpu"));
	FilterSpec spec = {.columns = columns, .seen = columns, .oversample = 1};
	spec.margin = margin ? columns : 0;
	spec.padding = margin ? PADDING_SMOOTH : PADDING_ZERO;
	spec.taps = columns + spec.margin;
	o.kernel = malloc((size_t)spec.taps * sizeof *o.kernel);
	tomos_analytic_options a = tomos_analytic_defaults();
	OK(window_kernel(o.kernel, spec.taps, &a));
	spec.kernel = o.kernel;
	OK(o.backend->type->filter->open(o.backend, &o.filter, &spec));
	o.weights = malloc((size_t)(count * columns) * sizeof *o.weights);
	for (int64_t i = 0; i < count * columns; i++)
		o.weights[i] = 1;
	o.views = malloc((size_t)count * sizeof *o.views);
	for (int64_t i = 0; i < count; i++)
		o.views[i] = (FilterView){.of = {.distance = 5 * (double)columns,
						  .foot_column = 0.5 * (double)columns,
						  .foot_row = 0.5 * (double)rows,
						  .du = 1,
						  .dv = 1},
			.column_weight = o.weights + i * columns};
	o.in = calloc((size_t)(count * rows * columns), sizeof *o.in);
	o.out = malloc((size_t)(count * rows * columns) * sizeof *o.out);
	return o;
}

static void ours_free(Ours *o)
{
	o->backend->type->filter->close(o->backend, o->filter);
	tomos_backend_close(o->backend);
	free(o->views), free(o->in), free(o->out), free(o->kernel), free(o->weights);
}

/* The best of repeats that take turns, so that a slow moment of the machine meets everybody. */
static void compare(int64_t count, int64_t rows, int64_t columns, int length, const char *padding)
{
	double best[KINDS + 1] = {0}, us = 1e6 / (double)(count * rows);
	Ours ours = ours_make(count, rows, columns, padding);
	Bare bare[KINDS];
	for (int k = 0; k < KINDS; k++)
		bare[k] = bare_make((Kind)k, length, count * rows);
	for (int i = 0; i < REPEATS; i++)
		for (int k = 0; k <= KINDS; k++) {
			double begin = now();
			if (k < KINDS)
				parallel_for(tomos_threads(), bare_share, &bare[k]);
			else
				OK(ours.backend->type->filter->apply(ours.backend, ours.filter,
					count, rows, ours.views, ours.in, ours.out));
			double took = (now() - begin) * us;
			best[k] = i == 0 ? took : fmin(best[k], took);
		}
	printf("  %5lld %-6s %5.2f", (long long)columns, padding, best[KINDS]);
	for (int k = 0; k < KINDS; k++) {
		printf(" %12.2f (%3.0f %%)", best[k], 100 * best[k] / best[KINDS]);
		bare_free(&bare[k]);
	}
	printf("\n");
	ours_free(&ours);
	assert_true(best[KINDS] < best[ESTIMATED] / 0.8);
}

static void filtering_beside_bare_fftw(void **state)
{
	(void)state;
	printf("microseconds a row, %d threads; FFTW in the cache and nothing else, and our speed "
	       "beside it\n"
	       "  columns      ours       real transforms     measured plans     pairs of rows\n",
		tomos_threads());
	compare(64, 256, 256, 512, "zero");
	compare(16, 512, 512, 1024, "zero");
	compare(8, 256, 2048, 4096, "zero");
	compare(16, 512, 487, 980, "zero");
	compare(16, 512, 512, 2048, "smooth");
}

#define TESTS(T) T(filtering_beside_bare_fftw)
TEST_MAIN(TESTS, NULL, NULL)
