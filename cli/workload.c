/* Measurement of one workload: scan, arrays, repeated runs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

#define PI 3.14159265358979323846

const workload *workload_list(int *count)
{
#define WORKLOAD(name, quick, scan, n, slices, views, rows, columns, task, forward, back, \
	iterations, samples, sums, volumes, scans, about) \
	{name, quick, scan, n, slices, views, rows, columns, task, forward, back, iterations, \
		samples, sums, volumes, scans, about},
	static const workload list[] = {
#include "workloads.def"
	};
#undef WORKLOAD
	*count = COUNT(list);
	return list;
}

const char *workload_names(void)
{
#define WORKLOAD(name, quick, scan, n, slices, views, rows, columns, task, forward, back, \
	iterations, samples, sums, volumes, scans, about) \
	"|" name
	static const char names[] =
#include "workloads.def"
		;
#undef WORKLOAD
	return names + 1;
}

typedef struct bench {
	const workload *work;
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_op *op;
	tomos_array volume, projections; /* on the device */
	tomos_projector_options options;
	tomos_analytic_options analytic;
	int repeat;
	double *times; /* seconds, of each repetition */
} bench;

/* Parallel rays of Nielsen's set-up 2, in the plane of axes a and b, with rotation axis c. */
static int plane_views(const workload *w, tomos_geometry **scan)
{
	static const int axes[3][3] = {[XY] = {0, 1, 2}, [XZ] = {0, 2, 1}, [YZ] = {1, 2, 0}};
	const int a = axes[w->scan][0], b = axes[w->scan][1], c = axes[w->scan][2];
	tomos_view *list = calloc((size_t)w->views, sizeof *list);
	if (!list)
		return failed("no memory for %lld views", (long long)w->views);
	for (int64_t i = 0; i < w->views; i++) {
		double angle = PI * (double)i / (double)w->views;
		list[i].src[a] = sin(angle);
		list[i].src[b] = -cos(angle);
		list[i].u[a] = cos(angle);
		list[i].u[b] = sin(angle);
		list[i].v[c] = 1;
	}
	int code = lib(tomos_geometry_views(scan, w->rows, w->columns, list, w->views));
	free(list);
	return code;
}

static int bench_views(const workload *w, tomos_geometry **scan)
{
	if (w->scan < LEBEDEV)
		return plane_views(w, scan);
	const double source = (w->scan == CONE ? 2.8 : 4.0) * (double)w->n;
	const double distances[2] = {source, 1.5 * source};
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = w->scan == LEBEDEV ? "lebedev" : w->scan == FAN ? "fan" : "cone";
	o.rows = w->rows;
	o.columns = w->columns;
	o.views = w->views;
	if (w->scan != LEBEDEV) {
		o.pixel = 1.5;
		o.source_axis = &distances[0];
		o.source_detector = &distances[1];
		o.source_axis_count = o.source_detector_count = 1;
	}
	return lib(tomos_geometry_make(scan, &o));
}

void bench_fill(const tomos_array *array)
{
	int64_t count = array->shape[0] * array->shape[1] * array->shape[2];
	uint32_t state = 1;
	for (int64_t i = 0; i < count; i++) {
		state = state * 1664525u + 1013904223u;
		array->data[i] = (float)(state >> 8) * 0x1p-24f;
	}
}

static bool on_host(const bench *b)
{
	return b->work->task == FDK_HOST || b->work->task == FBP_HOST;
}

/* Outputs are not initialised: for large volumes that takes longer than the work. */
static int make_array(
	const bench *b, tomos_array *array, const int64_t n[3], bool only_written, const char *what)
{
	tomos_array host;
	if (only_written && !on_host(b))
		return lib(tomos_array_create(array, b->backend, n[0], n[1], n[2]));
	int code = array_new(&host, n, what);
	if (code != DONE)
		return code;
	if (!only_written)
		bench_fill(&host);
	if (on_host(b)) {
		*array = host;
		return DONE;
	}
	DO(lib(tomos_array_create(array, b->backend, n[0], n[1], n[2])));
	DO(lib(tomos_array_copy(b->backend, &host, array)));
done:
	array_free(&host);
	return code;
}

static void free_array(const bench *b, tomos_array *array)
{
	if (on_host(b))
		array_free(array);
	else
		tomos_array_destroy(array, b->backend);
}

static int bench_matrix(bench *b)
{
	tomos_matrix_options o = tomos_matrix_defaults();
	o.storage = b->work->task < SCSR_FORWARD ? "csr" : "scsr";
	return lib(tomos_op_matrix(&b->op, b->backend, &b->grid, b->scan, &b->options, &o));
}

static int bench_prepare(const settings *s, bench *b)
{
	const workload *w = b->work;
	const int64_t x[3] = {w->slices, w->n, w->n}, y[3] = {w->views, w->rows, w->columns};
	int code;
	b->repeat = (int)s->bench.repeat;
	b->times = malloc((size_t)b->repeat * sizeof *b->times);
	if (!b->times)
		return failed("no memory for %d times", b->repeat);
	b->options = s->projector;
	b->options.forward = w->forward;
	b->options.back = w->back;
	b->analytic = tomos_analytic_defaults();
	b->analytic.data = s->projector.data;
	b->analytic.plain = s->projector.plain;
	DO(bench_views(w, &b->scan));
	DO(lib(tomos_grid_centred(&b->grid, w->n, w->n, w->slices, 1)));
	bool analytic = w->task >= FBP && w->task <= FDK_HOST;
	DO(make_array(b, &b->volume, x, analytic, "the volume"));
	DO(make_array(b, &b->projections, y, false, "the projections"));
	if (w->task >= CSR_FORWARD && w->task <= SCSR_ADJOINT)
		DO(bench_matrix(b));
	else if (*w->forward)
		DO(lib(tomos_op_projector(&b->op, b->backend, &b->grid, b->scan, &b->options)));
done:
	return code;
}

static int iterate(const bench *b, int64_t iterations)
{
	static const char *const methods[] = {
		[SIRT] = "sirt", [SART] = "sart", [BLOCK] = "block", [ART] = "art"};
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.iterations = iterations;
	if (b->work->task == BLOCK)
		o.blocks = BENCH_BLOCKS;
	return lib(tomos_reconstruct(
		b->op, methods[b->work->task], &b->projections, &b->volume, &o, progress_silent()));
}

static int bench_once(const bench *b)
{
	switch (b->work->task) {
	case FORWARD:
	case CSR_FORWARD:
	case SCSR_FORWARD:
		return lib(tomos_op_forward(b->op, &b->volume, &b->projections));
	case ADJOINT:
	case CSR_ADJOINT:
	case SCSR_ADJOINT:
		return lib(tomos_op_adjoint(b->op, &b->projections, &b->volume));
	case FBP:
	case FBP_HOST:
		return lib(tomos_fbp(b->backend, &b->grid, b->scan, &b->projections, &b->volume,
			&b->analytic, progress_silent()));
	case FDK:
	case FDK_HOST:
		return lib(tomos_fdk(b->backend, &b->grid, b->scan, &b->projections, &b->volume,
			&b->analytic, progress_silent()));
	default:
		return iterate(b, 1);
	}
}

/* Time per iteration: the difference between several iterations and one. */
static int measure(const bench *b, double *time)
{
	int64_t more = b->work->iterations;
	double start = seconds(), one;
	int code = bench_once(b);
	*time = one = seconds() - start;
	if (code != DONE || b->work->task < SIRT)
		return code;
	start = seconds();
	code = iterate(b, 1 + more);
	*time = (seconds() - start - one) / (double)more;
	return code;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double workload_updates(const workload *w)
{
	double one = (double)w->n * (double)w->n * (double)w->slices * (double)w->views;
	return w->task >= SIRT ? 2 * one : one;
}

void timing_of(double *times, int count, double updates, timing *t)
{
	qsort(times, (size_t)count, sizeof *times, by_size);
	t->median = 0.5 * (times[(count - 1) / 2] + times[count / 2]);
	t->least = times[0];
	t->most = times[count - 1];
	t->rate = updates / t->median * 1e-9;
}

/* Progress is shown under the name of the stage, unless that is NULL. */
static int bench_repeat(const bench *b, const char *stage, timing *t)
{
	int repeat = b->repeat, code;
	double *times = b->times;
	DO(bench_once(b));
	for (int i = 0; i < repeat; i++) {
		if (stage)
			DO(progress_step(stage, i, repeat));
		DO(measure(b, &times[i]));
	}
	timing_of(times, repeat, workload_updates(b->work), t);
done:
	return code;
}

static void bench_free(bench *b)
{
	tomos_op_free(b->op);
	tomos_geometry_free(b->scan);
	free_array(b, &b->volume);
	free_array(b, &b->projections);
	free(b->times);
}

int workload_run(const settings *s, tomos_backend *backend, const workload *w, timing *t)
{
	bench b = {.work = w, .backend = backend};
	int code;
	DO(bench_prepare(s, &b));
	DO(bench_repeat(&b, w->name, t));
done:
	bench_free(&b);
	return code;
}

/* Projects a single view, with the same arrays. */
static int measure_view(const bench *all, int64_t i, view_time *v)
{
	workload one = *all->work;
	bench b = *all;
	const tomos_view *view = &tomos_geometry_list(all->scan)[i];
	timing t;
	int code;
	one.views = 1;
	b.work = &one;
	b.scan = NULL;
	b.op = NULL;
	b.projections.shape[0] = 1;
	b.projections.data += i * one.rows * one.columns;
	DO(lib(tomos_geometry_views(&b.scan, one.rows, one.columns, view, 1)));
	DO(lib(tomos_op_projector(&b.op, b.backend, &b.grid, b.scan, &b.options)));
	DO(bench_repeat(&b, NULL, &t));
	v->seconds = t.median;
	for (int a = 0; a < 3; a++)
		v->direction[a] = view->src[a];
done:
	tomos_op_free(b.op);
	tomos_geometry_free(b.scan);
	return code;
}

int workload_views(const settings *s, tomos_backend *backend, const workload *w, view_time *list)
{
	bench b = {.work = w, .backend = backend};
	int code;
	DO(bench_prepare(s, &b));
	DO(bench_once(&b)); /* warm-up */
	for (int64_t i = 0; i < w->views; i++) {
		DO(progress_step(w->name, i, w->views));
		DO(measure_view(&b, i, &list[i]));
	}
done:
	bench_free(&b);
	return code;
}
