/* Measures the rates of a run on this machine: parts of the work, each for a fraction of a second.
 *
 * Reading and preparation: some rows of all views; reading of large scans: some views, with the
 * rows of a slab. Filter, back
 * projection and iterations: slabs in the middle, with as many views as the time allows. Writing:
 * a file beside the output, which is discarded.
 */
#include <stdio.h>
#include <string.h>
#include "run/cost.h"

#define ENOUGH 0.25 /* seconds of a measurement of the projector */

/* SCAN_BYTES: as large as the slabs of many runs, since reading and preparation write to memory
 * that is new to the process, whose pages take different times; a smaller sample was too fast. */
enum { SAMPLE_BYTES = 64 << 20, SCAN_BYTES = 128 << 20, VOLUME_BYTES = 256 << 20 };
/* Kernels of back projection are chosen by the number of views, up to 64. */
enum { FIRST_VIEWS = 16, FIRST_VIEWS_ANALYTIC = 64, GROWTH = 4 };
enum { THICK_SAMPLE = 128, THIN_SAMPLE = THICK }; /* slices; those of a run's slab, if these fit */

/* A slab in the middle of the volume, and some of the views. */
typedef struct {
	FileRun *run;
	tomos_geometry *scan;
	tomos_grid grid;
	double updates, values; /* voxels times views; projection values */
} Sample;

static Slab middle_slab(const FileRun *r, int64_t most)
{
	int64_t count = max64(1, min64(most, r->slices));
	Slab slab = {.first = r->first_slice + (r->slices - count) / 4 * 2, .count = count};
	slab_rows(r, &slab);
	return slab;
}

/* ---- files ----------------------------------------------------------------------------------- */

static tomos_status measure_read(const FileRun *r, double *rate)
{
	tomos_prepared *p = r->prepared;
	const Slab slab = middle_slab(r, r->thickest);
	const RawRows needs = prepared_needs(p, slab.row, slab.rows);
	int64_t image = needs.rows * p->info.columns, bytes = image * (int64_t)sizeof(float);
	int64_t views = max64(1, min64(p->info.views, SCAN_BYTES / max64(1, bytes)));
	float *data;
	TRY(mem_alloc(&data, views * image, sizeof *data, "rows of a scan"));
	double start = run_now();
	tomos_status status = tomos_scan_read(p->scan, TOMOS_VIEWS, (p->info.views - views) / 2,
		views, needs.row, needs.rows, data);
	double stored = (double)(views * image) * p->scan->sets[TOMOS_VIEWS].file->element.bytes;
	*rate = stored / (run_now() - start);
	mem_free(data);
	return status;
}

static tomos_status prepare_sample(Stages *s)
{
	const Turn *turn = turn_at(s, 0);
	stage_begin(s, TOMOS_STAGE_READ);
	TRY(slab_read(s, turn));
	stage_end(s, TOMOS_STAGE_READ);
	return slab_prepare(s, turn, NULL);
}

/* A slab that is small enough is read as a run reads it; of others, `read` is measured alone. */
static tomos_status measure_prepare(FileRun *r, tomos_rates *rates)
{
	int64_t rows = SCAN_BYTES / max64(1, raw_row_bytes(r->prepared));
	Slab slab = middle_slab(r, rows);
	tomos_run_report report;
	double window[2];
	TRY(run_probe(r, "rates", &slab, 1, prepare_sample, window, &report));
	const double *bytes = report.stage_bytes, *seconds = report.stage_seconds;
	rates->prepare = bytes[TOMOS_STAGE_PREPARE] / seconds[TOMOS_STAGE_PREPARE];
	rates->read = bytes[TOMOS_STAGE_READ] / seconds[TOMOS_STAGE_READ];
	return slab.count < r->thickest ? measure_read(r, &rates->read) : TOMOS_OK;
}

/* As a run does it: checked, written, and on the disk. */
static tomos_status write_slices(tomos_file *file, const tomos_array *slices)
{
	TRY(tomos_result_check(slices, 0, "the volume"));
	TRY(tomos_file_write(file, 0, slices->shape[0], slices->data));
	return io_sync(file);
}

/* An output and the slices for it: made before other work and written after it, as in a run, since
 * memory that was just freed or filled is faster, and a thread allocates the pages of the file. */
typedef struct {
	tomos_file *file; /* without a name, as it is not committed */
	tomos_array slices;
} WriteSample;

static tomos_status sample_file(const FileRun *r, WriteSample *s)
{
	static const double window[2] = {0, 2};
	int64_t slice = r->grid.n[0] * r->grid.n[1], bytes = slice * (int64_t)sizeof(float);
	int64_t count = max64(1, min64(r->thickest, SAMPLE_BYTES / bytes));
	const int64_t shape[3] = {count, r->grid.n[1], r->grid.n[0]};
	tomos_file_options o = r->file_options;
	float *data;
	o.overwrite = 1;
	if (o.window_count == 0 && strcmp(o.type, "float32") != 0) {
		o.window = window;
		o.window_count = 2;
	}
	TRY(mem_alloc(&data, count * slice, sizeof *data, "slices"));
	for (int64_t i = 0; i < count * slice; i++)
		data[i] = (float)(i * 7919 % 4096) / 4096;
	s->slices = tomos_array_of(data, shape[0], shape[1], shape[2]);
	return tomos_file_create(&s->file, r->output, TOMOS_VOLUME, shape, &o);
}

static tomos_status measure_write(const WriteSample *s, double *rate)
{
	const int64_t *n = s->slices.shape;
	double start = run_now();
	s->file->kept = true; /* resumable, as in a run: with checksums */
	tomos_status status = write_slices(s->file, &s->slices);
	s->file->kept = false;
	*rate = (double)(n[0] * n[1] * n[2]) * s->file->element.bytes / (run_now() - start);
	return status;
}

/* ---- the projector -------------------------------------------------------------------------- */

/* Evenly spread; of views in sets a quarter turn apart, whole sets, for which there are kernels. */
static int64_t sample_view(int64_t i, int64_t views, int64_t all)
{
	const int64_t turns = views % 4 == 0 && all % 4 == 0 ? 4 : 1;
	const int64_t few = views / turns, many = all / turns;
	return i / few * many + i % few * many / few;
}

/* Rows of the slab, from some of the views. */
static tomos_status sample_make(Sample *s, FileRun *r, int64_t slices, int64_t views)
{
	const tomos_geometry *g = r->prepared->geometry;
	FileRun direct = *r;
	direct.iterates = direct.rows_once = false; /* the rows that the slab reaches */
	const Slab slab = middle_slab(&direct, slices);
	double middle = (double)slab.row + 0.5 * (double)(slab.rows - g->rows);
	*s = (Sample){.run = r, .grid = r->grid};
	s->grid.n[2] = slab.count;
	s->grid.first[2] += (double)slab.first * s->grid.step[2];
	TRY(tomos_geometry_views(&s->scan, g->rows, g->columns, g->views, views));
	s->scan->rows = slab.rows;
	for (int64_t i = 0; i < views; i++) {
		s->scan->views[i] = g->views[sample_view(i, views, g->count)];
		view_slide(&s->scan->views[i], 0, middle);
	}
	s->values = (double)(views * slab.rows * g->columns);
	s->updates = (double)(s->grid.n[0] * s->grid.n[1] * slab.count * views);
	return TOMOS_OK;
}

/* Filter and back projection, after a first pass that allocates. */
static tomos_status analytic_times(
	const Sample *s, Analytic *work, float *const data[3], double seconds[2])
{
	tomos_backend *b = s->run->backend;
	const BackendMemory *memory = b->type->memory;
	const Box box = {{0, 0, 0}, {s->grid.n[0], s->grid.n[1], s->grid.n[2]}};
	TRY(b->type->vector->fill(b, (int64_t)s->values, 1, data[0]));
	TRY(analytic_filter(work, data[0], data[1]));
	TRY(memory->sync(b));
	double start = run_now();
	TRY(analytic_filter(work, data[0], data[1]));
	TRY(memory->sync(b));
	seconds[0] = run_now() - start;
	start = run_now();
	TRY(analytic_back(work, data[1], &box, data[2], NULL));
	TRY(memory->sync(b));
	seconds[1] = run_now() - start;
	return TOMOS_OK;
}

static tomos_status measure_analytic(const Sample *s, tomos_rates *rates, double *taken)
{
	tomos_backend *b = s->run->backend;
	const BackendMemory *memory = b->type->memory;
	int64_t voxels = s->grid.n[0] * s->grid.n[1] * s->grid.n[2];
	float *data[3] = {NULL, NULL, NULL};
	double seconds[2] = {0, 0};
	Analytic *work;
	tomos_status status;
	TRY(analytic_open(
		&work, s->run->method, b, &s->grid, s->scan, NULL, s->run->job->analytic));
	TRY_OR_DONE(memory->alloc(b, &data[0], (int64_t)s->values, "projections"));
	TRY_OR_DONE(memory->alloc(b, &data[1], analytic_floats(work), "filtered projections"));
	TRY_OR_DONE(memory->alloc(b, &data[2], voxels, "the volume"));
	TRY_OR_DONE(analytic_times(s, work, data, seconds));
	rates->filter = s->values / seconds[0];
	rates->back = s->updates / seconds[1];
	*taken = seconds[1];
done:
	for (int i = 0; i < COUNT(data); i++)
		if (data[i])
			memory->release(b, data[i]);
	analytic_close(work);
	return status;
}

static tomos_status iterate(const Sample *s, const tomos_op *op, float *const data[2],
	int64_t iterations, double *taken)
{
	const tomos_geometry *g = s->scan;
	const int64_t *n = s->grid.n;
	tomos_array x = tomos_array_of(data[0], n[2], n[1], n[0]);
	tomos_array b = tomos_array_of(data[1], g->count, g->rows, g->columns);
	tomos_algebraic_options o = s->run->iterative.o;
	o.iterations = iterations;
	o.stop = "iterations";
	o.checkpoint = "";
	o.resume = o.keep_best = 0;
	o.history = NULL;
	o.blocks = min64(o.blocks, g->count);
	memset(data[0], 0, (size_t)(n[0] * n[1] * n[2]) * sizeof(float));
	double start = run_now();
	TRY(tomos_reconstruct(op, s->run->method, &b, &x, &o, NULL));
	*taken = run_now() - start;
	return TOMOS_OK;
}

/* Two iterations more take the time of two iterations; what comes before the first cancels. */
static tomos_status measure_iterations(const Sample *s, tomos_rates *rates, double *taken)
{
	int64_t voxels = s->grid.n[0] * s->grid.n[1] * s->grid.n[2];
	float *data[2] = {NULL, NULL};
	double one = 0, three = 0;
	tomos_op *op = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&data[0], voxels, sizeof(float), "the volume"));
	TRY_OR_DONE(mem_alloc(&data[1], (int64_t)s->values, sizeof(float), "projections"));
	for (int64_t i = 0; i < (int64_t)s->values; i++)
		data[1][i] = (float)(1 + i % 5);
	TRY_OR_DONE(tomos_op_projector(
		&op, s->run->backend, &s->grid, s->scan, s->run->job->projector));
	TRY_OR_DONE(iterate(s, op, data, 1, &one));
	TRY_OR_DONE(iterate(s, op, data, 1, &one));
	TRY_OR_DONE(iterate(s, op, data, 3, &three));
	*taken = three;
	rates->iterate = 4 * s->updates / (three > one ? three - one : three);
done:
	tomos_op_free(op);
	mem_free(data[0]);
	mem_free(data[1]);
	return status;
}

/* As many views as take long enough. */
static tomos_status measure_slab(FileRun *r, int64_t slices, tomos_rates *rates)
{
	int64_t all = r->prepared->geometry->count;
	int64_t first = r->iterates ? FIRST_VIEWS : FIRST_VIEWS_ANALYTIC;
	for (int64_t views = min64(first, all);; views = min64(all, GROWTH * views)) {
		double taken = 0;
		Sample s;
		tomos_status status = sample_make(&s, r, slices, views);
		if (status == TOMOS_OK)
			status = (r->iterates ? measure_iterations : measure_analytic)(
				&s, rates, &taken);
		tomos_geometry_free(s.scan);
		TRY(status);
		if (taken >= ENOUGH || views == all)
			return TOMOS_OK;
	}
}

/* The time of a slab grows linearly with its slices, from that of the `half` slices that it seems
 * to have besides its own. The rate is that of thick slabs. */
static void fit_slices(double n, double thick, double m, double thin, double *rate, double *half)
{
	double slope = n > m ? (n / thick - m / thin) / (n - m) : 0;
	*half = 0;
	*rate = thick;
	if (!(slope > 0) || !(n / thick > slope * n))
		return;
	*half = n / thick / slope - n;
	*rate = 1 / slope;
}

static tomos_status measure_projector(FileRun *r, tomos_rates *rates)
{
	int64_t slice = r->grid.n[0] * r->grid.n[1] * (int64_t)sizeof(float);
	int64_t most = min64(max64(THICK_SAMPLE, r->thickest), max64(THICK, VOLUME_BYTES / slice));
	int64_t n = min64(most, r->slices), m = min64(THIN_SAMPLE, r->slices);
	tomos_rates thin = *rates;
	TRY(measure_slab(r, m, &thin));
	TRY(measure_slab(r, n, rates));
	if (!r->iterates)
		fit_slices((double)n, rates->back, (double)m, thin.back, &rates->back,
			&rates->back_half);
	else
		fit_slices((double)n, rates->iterate, (double)m, thin.iterate, &rates->iterate,
			&rates->iterate_half);
	return TOMOS_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Messages inside a node are copied into shared memory and out of it. */
static tomos_status measure_memory(double *rate)
{
	char *from, *to;
	tomos_status status;
	TRY(mem_zeroed(&from, SAMPLE_BYTES, 1, "bytes to copy"));
	TRY_OR_DONE(mem_zeroed(&to, SAMPLE_BYTES, 1, "bytes to copy"));
	memcpy(to, from, SAMPLE_BYTES);
	double start = run_now();
	memcpy(from, to, SAMPLE_BYTES);
	*rate = 0.5 * SAMPLE_BYTES / (run_now() - start);
	mem_free(to);
done:
	mem_free(from);
	return status;
}

const char *rates_rays(const FileRun *r)
{
	const RayClass rays = rays_summary(r->prepared->geometry, &r->grid);
	bool slices =
		rays.source == TOMOS_PARALLEL && (rays.planar || rays_are(&rays, RAYS_IN_SLICE));
	if (slices)
		return "slices";
	if (rays.source == TOMOS_POINT && rays.planar)
		return "fan";
	if (rays.source == TOMOS_POINT)
		return rays_are(&rays, RAYS_UPRIGHT) ? "cone" : "tilted";
	return rays.source == TOMOS_FAN_PER_ROW ? "fans" : "free";
}

tomos_status rates_measure(FileRun *r, tomos_rates *rates)
{
	tomos_machine machine = {.bytes = sizeof machine};
	*rates = tomos_rates_defaults();
	snprintf(rates->rays, sizeof rates->rays, "%s", rates_rays(r));
	snprintf(rates->method, sizeof rates->method, "%s", r->method);
	rates->start = r->report->start_seconds;
	WriteSample sample = {.file = NULL};
	tomos_status status = sample_file(r, &sample);
	if (status == TOMOS_OK)
		status = measure_prepare(r, rates);
	if (status == TOMOS_OK)
		status = measure_projector(r, rates);
	if (status == TOMOS_OK)
		status = measure_write(&sample, &rates->write);
	tomos_file_close(sample.file);
	mem_free(sample.slices.data);
	TRY(status);
	TRY(measure_memory(&rates->memory));
	if (r->backend->device == 0)
		return TOMOS_OK;
	TRY(tomos_backend_machine(r->backend, &machine));
	rates->link = machine.rates[TOMOS_RATE_LINK];
	return TOMOS_OK;
}
