/* The stages of a run: reading and writing have a thread of their own each; preparation and
 * reconstruction share the caller's, as both use all cores. Between two stages there are two
 * buffers, one being filled and one being emptied.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "backend/backend.h"
#include "run/run_parts.h"

double run_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void gate_make(Gate *g)
{
	*g = (Gate){.put = 0};
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->moved, NULL);
}

static void gate_free(Gate *g)
{
	pthread_cond_destroy(&g->moved);
	pthread_mutex_destroy(&g->lock);
}

/* Waits until there is a free (ahead 2) or a full (ahead 0) buffer; false when the other side
 * ended. */
static bool gate_wait(Gate *g, bool filling)
{
	pthread_mutex_lock(&g->lock);
	while (!g->ended && (filling ? g->put - g->taken == 2 : g->put == g->taken))
		pthread_cond_wait(&g->moved, &g->lock);
	bool there = filling ? !g->ended : g->put > g->taken;
	pthread_mutex_unlock(&g->lock);
	return there;
}

static void gate_move(Gate *g, bool filling)
{
	pthread_mutex_lock(&g->lock);
	*(filling ? &g->put : &g->taken) += 1;
	pthread_cond_broadcast(&g->moved);
	pthread_mutex_unlock(&g->lock);
}

static void gate_end(Gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->ended = true;
	pthread_cond_broadcast(&g->moved);
	pthread_mutex_unlock(&g->lock);
}

/* Error messages are per thread; those of a stage are copied for the caller. */
static void keep_message(char text[512], tomos_status status)
{
	if (status != TOMOS_OK)
		snprintf(text, 512, "%s", tomos_message());
}

tomos_status slab_read(Stages *s, const Slab *slab, RawSlab *raw)
{
	FileRun *r = s->run;
	double start = run_now();
	RawRows needs = prepared_needs(r->prepared, slab->row, slab->rows);
	TRY(raw_read(raw, r->prepared, &needs));
	s->read_seconds += run_now() - start;
	return TOMOS_OK;
}

static void *read_stage(void *user)
{
	Stages *s = user;
	const FileRun *r = s->run;
	int64_t at = 0;
	tomos_cancel_on(s->cancel);
	for (int64_t i = 0; i < r->slab_count && s->read_status == TOMOS_OK; i++) {
		if (slab_left(r, &r->slabs[i]) == 0)
			continue;
		if (!gate_wait(&s->in, true))
			break;
		s->read_status = slab_read(s, &r->slabs[i], &s->raw[at++ % 2]);
		if (s->read_status == TOMOS_OK)
			gate_move(&s->in, true);
	}
	keep_message(s->read_message, s->read_status);
	gate_end(&s->in);
	return NULL;
}

/* Number of values outside the window of the integer output. */
static int64_t count_cut(const FileRun *r, const float *values, int64_t count)
{
	const double *window = r->file_options.window;
	int64_t cut = 0;
	for (int64_t i = 0; window && i < count; i++)
		cut += (double)values[i] < window[0] || (double)values[i] > window[1];
	return cut;
}

/* Records the residuals of a slab in the journal, for a run that resumes this one. */
static tomos_status note_slab(FileRun *r, const Slab *slab)
{
	char *line;
	if (!r->iterates)
		return TOMOS_OK;
	TRY(iterations_text(&line, &r->iterative.slabs[slab - r->slabs]));
	tomos_status status = journal_note(&r->journal, line);
	mem_free(line);
	return status;
}

tomos_status slab_write(Stages *s, const Slab *slab, const float *volume)
{
	FileRun *r = s->run;
	double start = run_now();
	int64_t first = slab->first - r->first_slice;
	const tomos_array part =
		tomos_array_of((float *)volume, slab->count, r->grid.n[1], r->grid.n[0]);
	tomos_status finite = tomos_result_check(&part, first, "the volume");
	r->useless = finite == TOMOS_BAD_FILE; /* not if it was cancelled */
	TRY(finite);
	TRY(tomos_file_write(r->file, first, slab->count, volume));
	preview_take(&r->preview, first, slab->count, volume);
	s->written_bytes +=
		(double)(slab->count * r->grid.n[0] * r->grid.n[1]) * r->file->element.bytes;
	s->cut += count_cut(r, volume, slab->count * r->grid.n[0] * r->grid.n[1]);
	if (r->lasting) {
		TRY(io_sync(r->file));
		TRY(journal_add(&r->journal, first, slab->count, r->file->checksums + first));
		TRY(note_slab(r, slab));
	}
	s->write_seconds += run_now() - start;
	return TOMOS_OK;
}

static void *write_stage(void *user)
{
	Stages *s = user;
	tomos_cancel_on(s->cancel);
	for (int64_t at = 0; s->write_status == TOMOS_OK && gate_wait(&s->out, false); at++) {
		const Slab *slab = s->written[at % 2];
		int64_t skip = slab->before * s->run->grid.n[1] * s->run->grid.n[0];
		s->write_status = slab_write(s, slab, s->volumes[at % 2] + skip);
		if (s->write_status == TOMOS_OK)
			gate_move(&s->out, false);
	}
	keep_message(s->write_message, s->write_status);
	gate_end(&s->out);
	return NULL;
}

/* Converts the progress of a slab to that of the run: slices times views, or slices times
 * iterations. */
typedef struct {
	FileRun *run;
	int64_t count;
} SlabProgress;

static int report_slab(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	const SlabProgress *p = user;
	const FileRun *r = p->run;
	int64_t steps = r->iterates ? r->iterative.o.iterations : r->prepared->geometry->count;
	int64_t slices = r->slab_count > 1 ? r->slices : 1,
		before = r->slab_count > 1 ? r->done : 0;
	bool computing = strcmp(stage, r->method) == 0;
	int64_t count = r->slab_count > 1 ? p->count : 1;
	int64_t part = computing && total > 0 ? count * steps * done / total : 0;
	report_publish(r->job, r->report);
	if (r->iterates && total == 0) /* a stage whose length is not known, like the norm's */
		return r->progress->report(r->progress->user, stage, done, total, value);
	return r->progress->report(
		r->progress->user, r->stage, before * steps + part, slices * steps, value);
}

/* Moves each view's detector to the rows of a slab. The slabs of a stack differ in their height
 * only, and each is centred at z = 0. */
static void slab_views(const FileRun *r, const Slab *slab, tomos_geometry *scan)
{
	double middle =
		(double)slab->row + 0.5 * (double)(slab->rows - r->prepared->geometry->rows);
	scan->rows = r->stacked ? slab->padded : slab->rows;
	for (int64_t i = 0; i < scan->count; i++) {
		tomos_view *view = &scan->views[i];
		if (r->stacked) {
			view->det[2] = view->src[2] = view->u[2] = 0;
			memcpy(view->v, (double[]){0, 0, 1}, sizeof view->v);
		} else {
			view_slide(view, 0, middle);
		}
	}
}

/* The part of the scan that a slab is computed from, and the part of the grid. */
static tomos_status slab_geometry(
	const FileRun *r, const Slab *slab, tomos_geometry **scan, tomos_grid *grid)
{
	const tomos_geometry *g = r->prepared->geometry;
	*grid = r->grid;
	grid->n[2] = slab->padded;
	grid->first[2] += (double)slab->first * grid->step[2];
	if (r->stacked) {
		grid->step[2] = 1;
		grid->first[2] = -0.5 * (double)(slab->padded - 1);
	}
	TRY(tomos_geometry_views(scan, g->rows, g->columns, g->views, g->count));
	slab_views(r, slab, *scan);
	return TOMOS_OK;
}

/* The method for a slab: the last one, if that fits. */
static tomos_status slab_analytic(FileRun *r, const Slab *slab)
{
	tomos_geometry *scan;
	tomos_grid grid;
	if (r->analytic && r->stacked && r->analytic_rows == slab->padded)
		return TOMOS_OK;
	analytic_close(r->analytic);
	r->analytic = NULL;
	r->analytic_rows = slab->padded;
	TRY(slab_geometry(r, slab, &scan, &grid));
	tomos_status status =
		analytic_open(&r->analytic, r->method, r->backend, &grid, scan, r->job->analytic);
	tomos_geometry_free(scan);
	return status;
}

/* An odd number of rows is followed by one of zeros in each view. */
static void pad_rows(float *data, const tomos_geometry *scan, int64_t rows, int64_t padded)
{
	int64_t columns = scan->columns, size = padded * columns;
	for (int64_t i = scan->count; i-- > 0;) {
		memmove(data + i * size, data + i * rows * columns,
			(size_t)(rows * columns) * sizeof *data);
		memset(data + i * size + rows * columns, 0,
			(size_t)(size - rows * columns) * sizeof *data);
	}
}

/* Only the computing thread updates these counts; it also reports progress. */
static void count_read(FileRun *r, const RawSlab *raw)
{
	r->report->read_bytes += (double)raw->rows.rows * (double)raw_row_bytes(r->prepared);
}

/* Names of the kernels, which --verbose prints. */
static void note_kernels(FileRun *r)
{
	const tomos_backend *b = r->backend;
	const char *forward = r->iterates ? b->kernel_of[FORWARD] : NULL;
	const char *back = r->iterates ? b->kernel_of[ADJOINT] : tomos_backend_kernel(b);
	snprintf(r->report->forward, sizeof r->report->forward, "%s", forward ? forward : "");
	snprintf(r->report->back, sizeof r->report->back, "%s", back ? back : "");
}

static void count_done(FileRun *r, const Slab *slab)
{
	double voxels = (double)slab->count * (double)r->grid.n[0] * (double)r->grid.n[1];
	double passes = 1;
	if (r->iterates && !r->iterative.probing)
		passes = 2 * (double)r->iterative.slabs[slab - r->slabs].iterations;
	r->report->updates += passes * voxels * (double)r->prepared->geometry->count;
	r->report->slices += slab->count;
	r->report->slabs++;
}

static tomos_status analytic_slab(
	FileRun *r, const Slab *slab, float *rows, float *volume, const tomos_progress *progress)
{
	const tomos_geometry *g = r->prepared->geometry;
	int64_t count = r->stacked ? slab->padded : slab->rows;
	TRY(slab_analytic(r, slab));
	if (count > slab->rows)
		pad_rows(rows, g, slab->rows, count);
	tomos_array data = tomos_array_of(rows, g->count, count, g->columns);
	tomos_array x = tomos_array_of(volume, slab->padded, r->grid.n[1], r->grid.n[0]);
	return analytic_apply(r->analytic, &data, &x, progress);
}

/* Iterative methods would spread a value that is not finite over the whole volume. */
static tomos_status check_rows(FileRun *r, const Slab *slab, float *rows)
{
	const tomos_geometry *g = r->prepared->geometry;
	const tomos_array data = tomos_array_of(rows, g->count, slab->rows, g->columns);
	char reason[512];
	if (!r->iterates || tomos_array_check(&data, r->job->scan) == TOMOS_OK)
		return TOMOS_OK;
	snprintf(reason, sizeof reason, "%s", tomos_message());
	return fail(TOMOS_BAD_FILE, "%s", reason);
}

tomos_status slab_compute(Stages *s, const Slab *slab, RawSlab *raw, float *volume)
{
	FileRun *r = s->run;
	SlabProgress part = {r, slab_left(r, slab)};
	const tomos_progress own = {report_slab, &part};
	const tomos_progress *progress = r->progress && r->progress->report ? &own : NULL;
	double start = run_now();
	TRY(raw_prepare(raw, r->prepared, slab->rows, s->rows, &r->report->prep, progress));
	s->values += raw_values(raw, r->prepared);
	TRY(check_rows(r, slab, s->rows));
	count_read(r, raw);
	if (r->slab_count == 1 && r->iterates)
		raw_free(raw);
	TRY((r->iterates ? iterative_slab : analytic_slab)(r, slab, s->rows, volume, progress));
	count_done(r, slab);
	note_kernels(r);
	r->report->compute_seconds += run_now() - start;
	r->done += part.count;
	return TOMOS_OK;
}

static tomos_status compute_stage(Stages *s)
{
	FileRun *r = s->run;
	int64_t at = 0;
	for (int64_t i = 0; i < r->slab_count; i++) {
		const Slab *slab = &r->slabs[i];
		if (slab_left(r, slab) == 0)
			continue;
		if (!gate_wait(&s->in, false) || !gate_wait(&s->out, true))
			return TOMOS_OK; /* another stage failed and has the error message */
		s->written[at % 2] = slab;
		TRY(slab_compute(s, slab, &s->raw[at % 2], s->volumes[at % 2]));
		gate_move(&s->in, false);
		gate_move(&s->out, true);
		at++;
	}
	return TOMOS_OK;
}

static tomos_status stages_make(Stages *s)
{
	const FileRun *r = s->run;
	const tomos_geometry *g = r->prepared->geometry;
	int64_t most = 0;
	for (int64_t i = 0; i < r->slab_count; i++)
		most = max64(most, max64(r->slabs[i].rows, r->slabs[i].padded));
	TRY(mem_alloc(&s->rows, g->count * most * g->columns, sizeof(float), "prepared rows"));
	for (int i = 0; i < min64(2, r->slab_count); i++) {
		TRY(raw_alloc(&s->raw[i], r->prepared, r->most_rows));
		TRY(mem_alloc(&s->volumes[i], r->most_slices * r->grid.n[1] * r->grid.n[0],
			sizeof(float), "a slab of the volume"));
	}
	return TOMOS_OK;
}

static tomos_status stages_start(Stages *s, pthread_t threads[2])
{
	if (pthread_create(&threads[0], NULL, read_stage, s) != 0)
		return fail(TOMOS_NO_MEMORY, "no thread to read with");
	if (pthread_create(&threads[1], NULL, write_stage, s) == 0)
		return TOMOS_OK;
	gate_end(&s->in);
	pthread_join(threads[0], NULL);
	return fail(TOMOS_NO_MEMORY, "no thread to write with");
}

tomos_status stages_run(Stages *s)
{
	pthread_t threads[2];
	TRY(stages_start(s, threads));
	tomos_status status = compute_stage(s);
	char message[512];
	keep_message(message, status);
	gate_end(&s->in);
	gate_end(&s->out);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	s->run->report->read_seconds = s->read_seconds;
	s->run->report->write_seconds = s->write_seconds;
	s->run->report->written_bytes = s->written_bytes;
	s->run->report->cut = s->cut;
	if (status == TOMOS_OK && s->read_status == TOMOS_OK && s->write_status == TOMOS_OK) {
		status = prepared_usable(s->run->prepared, &s->run->report->prep, s->values);
		s->run->useless = status != TOMOS_OK;
		return status;
	}
	if (status != TOMOS_OK)
		return fail(status, "%s", message);
	if (s->read_status != TOMOS_OK)
		return fail(s->read_status, "%s", s->read_message);
	if (s->write_status != TOMOS_OK)
		return fail(s->write_status, "%s", s->write_message);
	return TOMOS_OK;
}

tomos_status stages_with(FileRun *r, tomos_status (*work)(Stages *s))
{
	Stages *s;
	TRY(mem_zeroed(&s, 1, sizeof *s, "the stages of a run"));
	s->run = r;
	s->cancel = cancel_asked();
	gate_make(&s->in);
	gate_make(&s->out);
	tomos_status status = stages_make(s);
	if (status == TOMOS_OK)
		status = work(s);
	for (int i = 0; i < 2; i++) {
		raw_free(&s->raw[i]);
		mem_free(s->volumes[i]);
	}
	mem_free(s->rows);
	gate_free(&s->in);
	gate_free(&s->out);
	mem_free(s);
	return status;
}
