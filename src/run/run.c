/* A whole reconstruction, from file to file, in slabs: planned, read, computed and written.
 *
 * Reading and writing have a thread of their own each; preparation and reconstruction share the
 * caller's, as both use all cores. Between the stages lie two buffers, one being filled and one being
 * emptied. Where the rays of each view stay inside slices, a slice needs one row, and slabs are
 * computed in units of rows, in which their places are whole numbers, and in pairs of rows, which the
 * filter takes as one: every slice then comes out the same to the bit, whatever slab it is in.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "run/run.h"

enum { SLABS = 8, THICK = 16, FIXED_BYTES = 96 << 20, WINDOW_SLICES = 5 };

#define WINDOW_TAIL 1e-4   /* of a slice that may lie below its window, and above */
#define WINDOW_MARGIN 0.05 /* for the slices that were not looked at */

typedef struct {
	int64_t first, count;   /* slices of the whole grid */
	int64_t row, rows;      /* prepared rows that these need */
	int64_t before, padded; /* stacked: slices computed before the first, and in all */
} Slab;

typedef struct {
	const tomos_job *job;
	const tomos_progress *progress;
	tomos_run_options options;
	tomos_prepared *prepared;
	tomos_backend *backend;
	const char *method, *stage; /* what progress is reported of */
	char *output;
	tomos_grid grid; /* of all slices, before --rows */
	int64_t first_slice, slices;
	bool stacked; /* slice k needs row k + first_row alone */
	int64_t first_row;
	Slab *slabs;
	int64_t slab_count, thickest;
	int64_t most_rows, most_slices; /* of a slab: rows of the scan, slices computed */
	double memory, planned;
	Journal journal;
	tomos_file_options file_options;
	double window[2]; /* in the file's options, where none was given */
	Preview preview;
	File *file;
	tomos_run_report own, *report; /* the caller's, or its own */
	bool lasting;                  /* the journal is this run's, and a later one can go on */
	int64_t done;                  /* slices, those of an earlier run included */
} Run;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what is to be done ------------------------------------------------------------------- */

static double planned_memory(int64_t bytes)
{
	double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	return bytes > 0 ? (double)bytes : 0.5 * all;
}

static tomos_status default_output(char **output, const char *scan)
{
	size_t length = strlen(scan);
	while (length > 1 && scan[length - 1] == '/')
		length--;
	int end = (int)length;
	for (int i = end - 1; i > 0 && scan[i] != '/' && scan[i - 1] != '/'; i--)
		if (scan[i] == '.') {
			end = i;
			break;
		}
	return mem_printf(output, "%.*s_rec/", end, scan);
}

/* What is in the way of the output is said before anything is searched for or computed. */
static tomos_status name_output(Run *r)
{
	const tomos_job *job = r->job;
	if (!job->scan || !job->scan[0])
		return fail(TOMOS_BAD_VALUE, "the name of a scan is missing");
	TRY(job->output && job->output[0] ? mem_text(&r->output, job->output)
					  : default_output(&r->output, job->scan));
	if (r->options.dry_run)
		return TOMOS_OK;
	TRY(io_check_name(r->output));
	return file_check(r->output, r->file_options.overwrite != 0);
}

/* Rows go straight through slices of the same height: slice k lies on row k + *first. */
static bool is_stacked(const tomos_geometry *g, const tomos_grid *grid, int64_t *first)
{
	double step = grid->step[2], middle = 0.5 * (double)(g->rows - 1);
	double row = (grid->first[2] - g->views[0].det[2]) / step + middle;
	*first = (int64_t)floor(row + 0.5);
	if (fabs(row - (double)*first) > 1e-6 || *first < 0 || *first + grid->n[2] > g->rows)
		return false;
	for (int64_t i = 0; i < g->count; i++) {
		const tomos_view *v = &g->views[i];
		if (v->src[3] != 0 || v->src[2] != 0 || v->u[2] != 0 || v->v[0] != 0 ||
			v->v[1] != 0 || fabs(v->v[2] - step) > 1e-9 * fabs(step) ||
			fabs(v->det[2] - g->views[0].det[2]) > 1e-9 * fabs(step))
			return false;
	}
	return true;
}

/* Detectors whose rows are level: rows beyond those that a slab's rays meet are of no use to it. */
static bool is_level(const tomos_geometry *g)
{
	for (int64_t i = 0; i < g->count; i++) {
		const tomos_view *v = &g->views[i];
		if (fabs(v->u[2]) > 1e-12 * fabs(v->v[2]) || v->v[0] != 0 || v->v[1] != 0)
			return false;
	}
	return true;
}

static void window_rows(const Run *r, const tomos_geometry *g, Slab *slab)
{
	const Box box = {
		{0, 0, slab->first}, {r->grid.n[0], r->grid.n[1], slab->first + slab->count}};
	int64_t low = g->rows, high = 0;
	for (int64_t i = 0; i < g->count; i++) {
		Window w = geom_window(g, i, &r->grid, &box, 2);
		low = min64(low, w.low[1]);
		high = max64(high, w.high[1]);
	}
	slab->row = low < high ? low : 0;
	slab->rows = low < high ? high - low : 1;
}

static void needed_rows(const Run *r, Slab *slab)
{
	const tomos_geometry *g = r->prepared->geometry;
	slab->before = 0;
	slab->padded = slab->count;
	if (r->stacked) {
		int64_t first = slab->first + r->first_row, end = first + slab->count;
		slab->row = first / 2 * 2;
		slab->before = first - slab->row;
		slab->padded = (end + 1) / 2 * 2 - slab->row;
		slab->rows = min64(g->rows, slab->row + slab->padded) - slab->row;
	} else if (slab->count == r->grid.n[2] || !is_level(g)) {
		slab->row = 0;
		slab->rows = g->rows;
	} else {
		window_rows(r, g, slab);
	}
}

/* What does not depend on the slabs. */
static double fixed_bytes(const Run *r)
{
	double nx = (double)r->grid.n[0], ny = (double)r->grid.n[1], nz = (double)r->slices;
	double planes = r->options.preview ? nx * ny + nx * nz + ny * nz : 0;
	return FIXED_BYTES + 2 * sizeof(float) * planes;
}

/* What a slab of that many slices takes, all buffers and the work of the method included. */
static double slab_bytes(const Run *r, int64_t count)
{
	const tomos_prepared *p = r->prepared;
	const tomos_geometry *g = p->geometry;
	Slab slab = {.first = r->first_slice + (r->slices - count) / 2, .count = count};
	needed_rows(r, &slab);
	RawRows needs = prepared_needs(p, slab.row, slab.rows);
	double raw = (double)needs.rows * (double)raw_row_bytes(p);
	double row = (double)g->count * (double)g->columns * sizeof(float);
	double slice = (double)r->grid.n[0] * (double)r->grid.n[1] * sizeof(float);
	double binned = p->bin > 1 ? row * (double)needs.prepared_rows : 0;
	return 2 * raw + binned + row * (double)max64(slab.rows, slab.padded) +
	       2 * slice * (double)slab.padded;
}

/* As thick as memory allows, but several, so that the stages have something to do beside each other. */
static tomos_status choose_thickness(Run *r, int64_t *thick)
{
	double left = r->memory - fixed_bytes(r);
	int64_t low = 1, high = r->slices;
	if (slab_bytes(r, 1) > left)
		return fail(TOMOS_NO_MEMORY,
			"%.3g MB of memory are too few: one slice alone needs %.3g MB%s",
			r->memory * 1e-6, (slab_bytes(r, 1) + fixed_bytes(r)) * 1e-6,
			r->prepared->reach.all_rows
				? ", as phase retrieval looks at all rows at once"
				: "");
	while (low < high) { /* the thickest that fits */
		int64_t middle = low + (high - low + 1) / 2;
		if (slab_bytes(r, middle) <= left)
			low = middle;
		else
			high = middle - 1;
	}
	/* All rows in every slab: the fewer, the better. */
	bool again = r->prepared->reach.all_rows || (!r->stacked && low == r->slices);
	*thick = again ? low : min64(low, max64(THICK, (r->slices + SLABS - 1) / SLABS));
	return TOMOS_OK;
}

static tomos_status plan_slabs(Run *r)
{
	int64_t thick = 1;
	TRY(choose_thickness(r, &thick));
	r->slab_count = (r->slices + thick - 1) / thick;
	r->thickest = (r->slices + r->slab_count - 1) / r->slab_count;
	if (r->stacked && r->thickest < r->slices) /* of whole pairs, as far as memory allows */
		r->thickest = min64((r->thickest + 1) / 2 * 2, max64(2, thick / 2 * 2));
	r->slab_count = (r->slices + r->thickest - 1) / r->thickest;
	r->planned = slab_bytes(r, r->thickest) + fixed_bytes(r);
	TRY(mem_zeroed(&r->slabs, r->slab_count, sizeof *r->slabs, "the slabs"));
	for (int64_t i = 0; i < r->slab_count; i++) {
		Slab *slab = &r->slabs[i];
		slab->first = r->first_slice + i * r->thickest;
		slab->count = min64(r->thickest, r->first_slice + r->slices - slab->first);
		needed_rows(r, slab);
		r->most_slices = max64(r->most_slices, slab->padded);
		RawRows needs = prepared_needs(r->prepared, slab->row, slab->rows);
		r->most_rows = max64(r->most_rows, needs.rows);
	}
	return TOMOS_OK;
}

static tomos_status choose_method(Run *r)
{
	const tomos_geometry *g = r->prepared->geometry;
	bool given = r->job->method && r->job->method[0];
	int index;
	r->method = given ? r->job->method : g->views[0].src[3] != 0 && g->rows > 1 ? "fdk" : "fbp";
	r->stage = r->method;
	return choice_find("method of a run", "fbp|fdk", r->method, &index);
}

static tomos_status prepare_run(Run *r)
{
	const tomos_job *job = r->job;
	int64_t end;
	r->options = tomos_run_defaults();
	r->file_options = tomos_file_defaults();
	TRY(options_take(&r->options, job->run, "run"));
	TRY(options_take(&r->file_options, job->file, "file"));
	TRY(name_output(r));
	TRY(tomos_prepared_open(&r->prepared, job, r->progress));
	r->memory = planned_memory(r->options.memory);
	TRY(choose_method(r));
	TRY(tomos_grid_for(&r->grid, r->prepared->geometry, job->grid));
	TRY(range_parse("rows", r->options.rows, r->grid.n[2], &r->first_slice, &end));
	r->slices = end - r->first_slice;
	r->stacked = is_stacked(r->prepared->geometry, &r->grid, &r->first_row);
	r->report->shape[0] = r->slices;
	r->report->shape[1] = r->grid.n[1];
	r->report->shape[2] = r->grid.n[0];
	TRY(plan_slabs(r));
	return tomos_backend_open_with(
		&r->backend, job->backend ? job->backend : "auto", job->device);
}

/* Limited angles are reconstructed, but nobody should trust the values unwarned. */
static tomos_status say_gaps(const Run *r)
{
	double covered, needed, degrees = 180 / 3.14159265358979323846;
	TRY(tomos_geometry_cover(r->prepared->geometry, &covered, &needed));
	if (covered >= 0.99 * needed)
		return TOMOS_OK;
	return job_say(r->job,
		"warning: the views cover %.4g of %.4g degrees: values will be too low and edges "
		"smeared; an algebraic method may do better",
		covered * degrees, needed * degrees);
}

static tomos_status say_plan(const Run *r)
{
	const tomos_prepared *p = r->prepared;
	const tomos_geometry *g = p->geometry;
	TRY(job_say(r->job,
		"scan      %s: %s, %lld views of %lld row%s x %lld columns, %lld flat%s, "
		"%lld dark%s",
		r->job->scan, p->info.kind, (long long)p->info.views, (long long)p->info.rows,
		p->info.rows == 1 ? "" : "s", (long long)p->info.columns, (long long)p->info.flats,
		p->info.flats == 1 ? "" : "s", (long long)p->info.darks,
		p->info.darks == 1 ? "" : "s"));
	if (p->note)
		TRY(job_say(r->job, "%s", p->note));
	TRY(job_say(r->job, "method    %s on %s", r->method, tomos_backend_describe(r->backend)));
	TRY(job_say(r->job, "volume    %lld x %lld x %lld voxels (x y z) of %g x %g x %g to %s",
		(long long)r->grid.n[0], (long long)r->grid.n[1], (long long)r->slices,
		fabs(r->grid.step[0]), fabs(r->grid.step[1]), fabs(r->grid.step[2]), r->output));
	TRY(say_gaps(r));
	return job_say(r->job,
		"plan      %lld slab%s of up to %lld slice%s, %.0f MB of %.0f MB memory, %.4g G "
		"updates",
		(long long)r->slab_count, r->slab_count == 1 ? "" : "s", (long long)r->thickest,
		r->thickest == 1 ? "" : "s", r->planned * 1e-6, r->memory * 1e-6,
		1e-9 * (double)r->grid.n[0] * (double)r->grid.n[1] * (double)r->slices *
			(double)g->count);
}

/* ---- the output --------------------------------------------------------------------------- */

static uint64_t hash(uint64_t sum, const void *bytes, size_t count)
{
	return (sum ^ io_checksum(bytes, (int64_t)count)) * UINT64_C(1099511628211);
}

static uint64_t hash_text(uint64_t sum, const char *text)
{
	return text ? hash(sum, text, strlen(text)) : hash(sum, "", 0);
}

static uint64_t hash_option(uint64_t sum, const tomos_option *row, const char *options)
{
	const char *field = options + row->offset, *list;
	int64_t count;
	_Static_assert(sizeof(double) == sizeof(int64_t), "what the other kinds are");
	memcpy(&list, field, sizeof list);
	switch (row->kind) {
	case TOMOS_TEXT:
	case TOMOS_CHOICE:
		return hash_text(sum, list);
	case TOMOS_INTS:
	case TOMOS_REALS:
	case TOMOS_ANGLES:
		memcpy(&count, options + row->count_offset, sizeof count);
		return hash(sum, list, (size_t)count * sizeof(double));
	case TOMOS_FLAG:
		return hash(sum, field, sizeof(int));
	default:
		return hash(sum, field, sizeof(double));
	}
}

static uint64_t hash_options(uint64_t sum, const char *group, const void *options)
{
	int count;
	const tomos_option *rows = tomos_options(group, &count);
	for (int i = 0; i < count; i++)
		sum = hash_option(sum, &rows[i], options);
	return sum;
}

/* Whatever decides the numbers of the output; not the slabs, which do not. */
static tomos_status hash_run(const Run *r, uint64_t *result)
{
	const tomos_geometry *g = r->prepared->geometry;
	const tomos_file_options *file = &r->file_options;
	tomos_analytic_options analytic = tomos_analytic_defaults();
	TRY(options_take(&analytic, r->job->analytic, "analytic"));
	const int64_t sizes[] = {g->rows, g->columns, g->count, r->first_slice, r->slices,
		r->prepared->info.rows, r->prepared->info.columns, r->prepared->info.views};
	uint64_t sum = UINT64_C(14695981039346656037);
	sum = hash_text(sum, r->job->scan);
	sum = hash_text(sum, r->method);
	sum = hash_text(sum, r->job->recipe);
	sum = hash(sum, sizes, sizeof sizes);
	sum = hash(sum, r->window, sizeof r->window);
	sum = hash(sum, &r->grid, sizeof r->grid);
	sum = hash_options(sum, "analytic", &analytic);
	sum = hash_options(sum, "prep", &r->prepared->prep);
	sum = hash_text(sum, file->type);
	sum = hash(sum, file->window, (size_t)file->window_count * sizeof *file->window);
	sum = hash(sum, &file->first_number, sizeof file->first_number);
	sum = hash(sum, &file->compress, sizeof file->compress);
	*result = hash(sum, g->views, (size_t)g->count * sizeof *g->views);
	return TOMOS_OK;
}

static tomos_status put_geometry(const Run *r)
{
	const tomos_geometry *g = r->prepared->geometry;
	const int64_t shape[2] = {g->count, VIEW_NUMBERS}, two[2] = {1, 2};
	const double detector[2] = {(double)g->rows, (double)g->columns};
	double *numbers;
	TRY(mem_alloc(&numbers, g->count * VIEW_NUMBERS, sizeof *numbers, "the views' numbers"));
	geom_to_numbers(g, numbers);
	tomos_status status = io_put(r->file, "process/geometry/views", numbers, shape);
	mem_free(numbers);
	TRY(status);
	return io_put(r->file, "process/geometry/detector", detector, two);
}

/* How the volume came to be: the command, every option, the version and the geometry. */
static tomos_status put_provenance(const Run *r)
{
	const tomos_job *job = r->job;
	tomos_grid grid = r->grid;
	grid.n[2] = r->slices;
	grid.first[2] += (double)r->first_slice * grid.step[2];
	if (r->file->format->put)
		TRY(tomos_file_set_grid(r->file, &grid));
	TRY(tomos_file_set_text(r->file, "version", TOMOS_VERSION));
	TRY(tomos_file_set_text(r->file, "method", r->method));
	TRY(tomos_file_set_text(r->file, "scan", job->scan));
	if (job->command)
		TRY(tomos_file_set_text(r->file, "command", job->command));
	if (job->recipe)
		TRY(tomos_file_set_text(r->file, "recipe", job->recipe));
	if (r->prepared->note)
		TRY(tomos_file_set_text(r->file, "axis", r->prepared->note));
	return r->file->format->put ? put_geometry(r) : TOMOS_OK;
}

static tomos_status open_output(Run *r)
{
	const int64_t shape[3] = {r->slices, r->grid.n[1], r->grid.n[0]};
	uint64_t sum = 0;
	TRY(hash_run(r, &sum));
	r->file_options.first_number += r->first_slice + (r->stacked ? r->first_row : 0);
	TRY(journal_open(&r->journal, r->output, sum, r->options.resume != 0,
		r->file_options.overwrite != 0));
	if (!r->journal.begun)
		TRY(journal_begin(&r->journal, sum));
	r->lasting = true;
	TRY(io_create(&r->file, r->output, TOMOS_VOLUME, shape, &r->file_options, r->journal.part,
		r->journal.begun));
	if (r->journal.begun) {
		TRY(journal_replay(&r->journal, r->file, &r->done));
		r->report->resumed = r->done;
		return job_say(r->job, "resumed   %lld of %lld slices are done", (long long)r->done,
			(long long)r->slices);
	}
	TRY(put_provenance(r));
	return io_seal(r->file);
}

/* Slices that nobody has written yet. */
static int64_t slices_left(const Run *r, const Slab *slab)
{
	if (!r->file) /* a probe, which writes none */
		return slab->count;
	const unsigned char *written = r->file->written + (slab->first - r->first_slice);
	int64_t left = 0;
	for (int64_t i = 0; i < slab->count; i++)
		left += !written[i];
	return left;
}

/* ---- stages ------------------------------------------------------------------------------- */

/* Two buffers between a stage and the next; `full` says which one is to be emptied. */
typedef struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	int64_t put, taken; /* buffers filled and emptied so far */
	bool ended;         /* nothing will be put or taken any more */
} Gate;

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

/* Waits until there is a free (ahead 2) or a full (ahead 0) buffer; false when the other side ended. */
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

typedef struct {
	Run *run;
	Gate in, out;
	RawSlab raw[2];
	float *volumes[2];
	const Slab *written[2];             /* the slab in each volume */
	double read_seconds, write_seconds; /* of their threads */
	int64_t cut;                        /* of the writing one */
	float *rows;                        /* prepared */
	tomos_status read_status, write_status;
	char read_message[512], write_message[512];
} Stages;

/* Messages belong to a thread; those of a stage are handed on. */
static void keep_message(char text[512], tomos_status status)
{
	if (status != TOMOS_OK)
		snprintf(text, 512, "%s", tomos_message());
}

static tomos_status read_slab(Stages *s, const Slab *slab, RawSlab *raw)
{
	Run *r = s->run;
	double start = now();
	RawRows needs = prepared_needs(r->prepared, slab->row, slab->rows);
	TRY(raw_read(raw, r->prepared, &needs));
	s->read_seconds += now() - start;
	return TOMOS_OK;
}

static void *read_stage(void *user)
{
	Stages *s = user;
	const Run *r = s->run;
	int64_t at = 0;
	for (int64_t i = 0; i < r->slab_count && s->read_status == TOMOS_OK; i++) {
		if (slices_left(r, &r->slabs[i]) == 0)
			continue;
		if (!gate_wait(&s->in, true))
			break;
		s->read_status = read_slab(s, &r->slabs[i], &s->raw[at++ % 2]);
		if (s->read_status == TOMOS_OK)
			gate_move(&s->in, true);
	}
	keep_message(s->read_message, s->read_status);
	gate_end(&s->in);
	return NULL;
}

/* Values that integers cannot hold. */
static int64_t count_cut(const Run *r, const float *values, int64_t count)
{
	const double *window = r->file_options.window;
	int64_t cut = 0;
	for (int64_t i = 0; window && i < count; i++)
		cut += (double)values[i] < window[0] || (double)values[i] > window[1];
	return cut;
}

static tomos_status write_slab(Stages *s, const Slab *slab, const float *volume)
{
	Run *r = s->run;
	double start = now();
	int64_t first = slab->first - r->first_slice;
	TRY(tomos_file_write(r->file, first, slab->count, volume));
	preview_take(&r->preview, first, slab->count, volume);
	s->cut += count_cut(r, volume, slab->count * r->grid.n[0] * r->grid.n[1]);
	if (r->lasting) {
		TRY(io_sync(r->file));
		TRY(journal_add(&r->journal, first, slab->count, r->file->checksums + first));
	}
	s->write_seconds += now() - start;
	return TOMOS_OK;
}

static void *write_stage(void *user)
{
	Stages *s = user;
	for (int64_t at = 0; s->write_status == TOMOS_OK && gate_wait(&s->out, false); at++) {
		const Slab *slab = s->written[at % 2];
		int64_t skip = slab->before * s->run->grid.n[1] * s->run->grid.n[0];
		s->write_status = write_slab(s, slab, s->volumes[at % 2] + skip);
		if (s->write_status == TOMOS_OK)
			gate_move(&s->out, false);
	}
	keep_message(s->write_message, s->write_status);
	gate_end(&s->out);
	return NULL;
}

/* Steps of a slab as steps of the whole: slices times views. */
typedef struct {
	const Run *run;
	int64_t count;
} SlabProgress;

static int report_slab(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	const SlabProgress *p = user;
	const Run *r = p->run;
	int64_t views = r->prepared->geometry->count;
	bool computing = strcmp(stage, r->method) == 0;
	int64_t part = computing && total > 0 ? p->count * views * done / total : 0;
	return r->progress->report(
		r->progress->user, r->stage, r->done * views + part, r->slices * views, value);
}

/* The part of the scan that a slab is computed from, and the part of the grid. */
static tomos_status slab_geometry(
	const Run *r, const Slab *slab, tomos_geometry **scan, tomos_grid *grid)
{
	const tomos_geometry *g = r->prepared->geometry;
	*grid = r->grid;
	grid->n[2] = slab->padded;
	grid->first[2] += (double)slab->first * grid->step[2];
	TRY(tomos_geometry_views(scan, g->rows, g->columns, g->views, g->count));
	double middle = (double)slab->row + 0.5 * (double)(slab->rows - g->rows);
	(*scan)->rows = slab->rows;
	if (r->stacked) {
		(*scan)->rows = slab->padded;
		grid->step[2] = 1;
		grid->first[2] = -0.5 * (double)(slab->padded - 1);
	}
	for (int64_t i = 0; i < g->count; i++) {
		tomos_view *view = &(*scan)->views[i];
		for (int a = 0; a < 3; a++)
			view->det[a] += middle * view->v[a];
		if (r->stacked) {
			view->det[2] = 0;
			view->v[2] = 1;
		}
	}
	return TOMOS_OK;
}

/* An odd number of rows is followed by one of zeros in each view. */
static void pad_rows(float *data, const tomos_geometry *scan, int64_t rows)
{
	int64_t columns = scan->columns, size = scan->rows * columns;
	for (int64_t i = scan->count; i-- > 0;) {
		memmove(data + i * size, data + i * rows * columns,
			(size_t)(rows * columns) * sizeof *data);
		memset(data + i * size + rows * columns, 0,
			(size_t)(size - rows * columns) * sizeof *data);
	}
}

/* Counted by the computing thread alone, which reports progress as well. */
static void count_slab(Run *r, const Slab *slab, const RawSlab *raw, const tomos_grid *grid)
{
	double voxels = (double)slab->count * (double)grid->n[0] * (double)grid->n[1];
	r->report->read_bytes += (double)raw->rows.rows * (double)raw_row_bytes(r->prepared);
	if (r->file)
		r->report->written_bytes += voxels * r->file->element.bytes;
	r->report->updates += voxels * (double)r->prepared->geometry->count;
	r->report->slices += slab->count;
	r->report->slabs++;
}

static tomos_status compute_slab(Stages *s, const Slab *slab, RawSlab *raw, float *volume)
{
	Run *r = s->run;
	SlabProgress part = {r, slices_left(r, slab)};
	const tomos_progress progress = {report_slab, &part};
	const tomos_progress *told = r->progress && r->progress->report ? &progress : NULL;
	double start = now();
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	tomos_status status;
	TRY_OR_DONE(raw_prepare(raw, r->prepared, slab->rows, s->rows, &r->report->prep, told));
	TRY_OR_DONE(slab_geometry(r, slab, &scan, &grid));
	if (scan->rows > slab->rows)
		pad_rows(s->rows, scan, slab->rows);
	tomos_array data = tomos_array_of(s->rows, scan->count, scan->rows, scan->columns);
	tomos_array x = tomos_array_of(volume, grid.n[2], grid.n[1], grid.n[0]);
	TRY_OR_DONE((strcmp(r->method, "fdk") == 0 ? tomos_fdk : tomos_fbp)(
		r->backend, &grid, scan, &data, &x, r->job->analytic, told));
	count_slab(r, slab, raw, &grid);
	r->report->compute_seconds += now() - start;
	r->done += part.count;
done:
	tomos_geometry_free(scan);
	return status;
}

static tomos_status compute_stage(Stages *s)
{
	Run *r = s->run;
	int64_t at = 0;
	for (int64_t i = 0; i < r->slab_count; i++) {
		const Slab *slab = &r->slabs[i];
		if (slices_left(r, slab) == 0)
			continue;
		if (!gate_wait(&s->in, false) || !gate_wait(&s->out, true))
			return TOMOS_OK; /* another stage failed, and says why */
		s->written[at % 2] = slab;
		TRY(compute_slab(s, slab, &s->raw[at % 2], s->volumes[at % 2]));
		gate_move(&s->in, false);
		gate_move(&s->out, true);
		at++;
	}
	return TOMOS_OK;
}

static tomos_status stages_make(Stages *s)
{
	const Run *r = s->run;
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

static tomos_status stages_run(Stages *s)
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
	s->run->report->cut = s->cut;
	if (status != TOMOS_OK)
		return fail(status, "%s", message);
	if (s->read_status != TOMOS_OK)
		return fail(s->read_status, "%s", s->read_message);
	if (s->write_status != TOMOS_OK)
		return fail(s->write_status, "%s", s->write_message);
	return TOMOS_OK;
}

static tomos_status with_stages(Run *r, tomos_status (*work)(Stages *s))
{
	Stages *s;
	TRY(mem_zeroed(&s, 1, sizeof *s, "the stages of a run"));
	s->run = r;
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

/* ---- slices ahead of the others ----------------------------------------------------------- */

static tomos_status probe_slab(Stages *s)
{
	Run *r = s->run;
	const Slab *slab = &r->slabs[0];
	TRY(read_slab(s, slab, &s->raw[0]));
	TRY(compute_slab(s, slab, &s->raw[0], s->volumes[0]));
	r->report->read_seconds = s->read_seconds;
	int64_t size = r->grid.n[1] * r->grid.n[0];
	if (r->file_options.window_count == 0)
		window_of(s->volumes[0] + slab->before * size, slab->count * size, WINDOW_TAIL,
			r->window);
	return TOMOS_OK;
}

/* Reads and computes some slices for their window and times; what they are depends on no plan. */
static tomos_status probe(const Run *whole, const char *stage, int64_t first, int64_t count,
	double window[2], tomos_run_report *report)
{
	Run r = *whole;
	Slab slab = {.first = first, .count = count};
	*report = (tomos_run_report){.slabs = 0};
	needed_rows(&r, &slab);
	r.report = report;
	r.stage = stage;
	r.slices = count;
	r.slabs = &slab;
	r.slab_count = 1;
	r.most_slices = slab.padded;
	r.most_rows = prepared_needs(r.prepared, slab.row, slab.rows).rows;
	TRY(with_stages(&r, probe_slab));
	memcpy(window, r.window, sizeof r.window);
	return TOMOS_OK;
}

/* Integers without a window: from slices at the same places whatever the slabs, a bit wider. */
static tomos_status choose_window(Run *r)
{
	int64_t count = min64(WINDOW_SLICES, r->slices);
	double window[2] = {HUGE_VAL, -HUGE_VAL};
	for (int64_t i = 0; i < count; i++) {
		int64_t slice = r->first_slice + (2 * i + 1) * r->slices / (2 * count);
		tomos_run_report report;
		double one[2];
		TRY(probe(r, "window", slice, 1, one, &report));
		window[0] = fmin(window[0], one[0]);
		window[1] = fmax(window[1], one[1]);
	}
	double margin = WINDOW_MARGIN * (window[1] - window[0]);
	r->window[0] = window[0] - margin;
	r->window[1] = window[1] + margin;
	r->file_options.window = r->window;
	r->file_options.window_count = 2;
	return job_say(r->job, "window    %g to %g, from %lld slices", r->window[0], r->window[1],
		(long long)count);
}

/* How long the run would take: the slower one of two stages, and the other one once. */
static tomos_status say_time(const Run *r)
{
	bool again = r->prepared->reach.all_rows; /* in every slab, whatever its height */
	int64_t count = again ? r->thickest : min64(r->thickest, THICK);
	double slabs = again ? (double)r->slab_count : (double)r->slices / (double)count;
	double window[2];
	tomos_run_report t;
	if (!r->job->say)
		return TOMOS_OK;
	TRY(probe(r, "estimate", r->first_slice + (r->slices - count) / 2, count, window, &t));
	double slow = fmax(t.read_seconds, t.compute_seconds);
	double all = slabs * slow + fmin(t.read_seconds, t.compute_seconds);
	double unit = all < 120 ? 1 : all < 7200 ? 60 : 3600;
	return job_say(r->job,
		"time      about %.2g %s: %lld slices took %.2g s to read and %.2g s to compute; "
		"writing is taken to be no slower",
		all / unit,
		all < 120    ? "s"
		: all < 7200 ? "minutes"
			     : "hours",
		(long long)count, t.read_seconds, t.compute_seconds);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static tomos_status open_preview(Run *r)
{
	if (!r->options.preview)
		return TOMOS_OK;
	r->preview.output = r->output;
	r->preview.overwrite = r->file_options.overwrite != 0;
	memcpy(r->preview.shape, r->report->shape, sizeof r->preview.shape);
	return preview_open(&r->preview);
}

/* What was done is left for a later run, unless it is nothing. */
static tomos_status execute(Run *r)
{
	bool floats = strcmp(r->file_options.type, "float32") == 0;
	tomos_status status = open_preview(r);
	if (status == TOMOS_OK && !floats && r->file_options.window_count == 0)
		status = choose_window(r);
	if (status == TOMOS_OK)
		status = open_output(r);
	if (status == TOMOS_OK)
		status = with_stages(r, stages_run);
	if (status == TOMOS_OK)
		status = tomos_file_commit(r->file);
	bool begun =
		r->journal.begun || (r->file && memchr(r->file->written, 1, (size_t)r->slices));
	tomos_file_close(r->file);
	journal_close(&r->journal, r->lasting && (status == TOMOS_OK || !begun));
	if (status == TOMOS_OK && r->preview.taken)
		status = preview_write(&r->preview);
	preview_free(&r->preview);
	return status;
}

tomos_status tomos_run(const tomos_job *job, const tomos_progress *progress)
{
	Run r = {.job = job, .progress = progress, .journal = {.descriptor = -1}};
	double start = now();
	tomos_status status;
	if (!job || job->bytes != sizeof *job)
		return fail(
			TOMOS_BAD_VALUE, "a job must begin with its size, %zu bytes", sizeof *job);
	r.report = job->report ? job->report : &r.own;
	*r.report = (tomos_run_report){.slabs = 0};
	TRY_OR_DONE(prepare_run(&r));
	TRY_OR_DONE(say_plan(&r));
	TRY_OR_DONE(r.options.dry_run ? say_time(&r) : execute(&r));
done:
	r.report->seconds = now() - start;
	mem_free(r.slabs);
	mem_free(r.output);
	tomos_backend_close(r.backend);
	tomos_prepared_close(r.prepared);
	return status;
}
