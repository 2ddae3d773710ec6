/* The work on one slab: read, prepared and reconstructed, written; in host memory, or in that of a
 * device. */
#include <stdio.h>
#include <string.h>
#include "run/run_parts.h"

static double slab_bytes_of(const FileRun *r, int64_t slices, size_t bytes)
{
	return (double)(slices * r->grid.n[0] * r->grid.n[1]) * (double)bytes;
}

/* ---- reading ------------------------------------------------------------------------------- */

tomos_status slab_read(Stages *s, const Turn *turn)
{
	FileRun *r = s->run;
	int at = (int)(turn->read % 2);
	RawRows needs = prepared_needs(r->prepared, turn->slab->row, turn->slab->rows);
	if (r->resident && r->resident->prep)
		TRY(resident_read(r->resident, r->prepared, &needs, at));
	else
		TRY(raw_read(&s->raw[at], r->prepared, &needs));
	s->bytes[TOMOS_STAGE_READ] += (double)needs.rows * (double)raw_stored_bytes(r->prepared);
	return TOMOS_OK;
}

/* ---- progress and counts ------------------------------------------------------------------- */

/* Converts the progress of a slab to that of the run: slices times views, or slices times
 * iterations. */
typedef struct {
	Stages *stages;
	int64_t count;
} SlabProgress;

static int report_slab(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	const SlabProgress *p = user;
	const FileRun *r = p->stages->run;
	int64_t steps = r->iterates ? r->iterative.o.iterations : r->prepared->geometry->count;
	int64_t slices = r->slab_count > 1 ? r->slices : 1,
		before = r->slab_count > 1 ? r->done : 0;
	bool computing = strcmp(stage, r->method) == 0;
	int64_t count = r->slab_count > 1 ? p->count : 1;
	int64_t part = computing && total > 0 ? count * steps * done / total : 0;
	stages_publish(p->stages);
	report_publish(r->job, r->report);
	if (r->iterates && total == 0) /* a stage whose length is not known, like the norm's */
		return r->progress->report(r->progress->user, stage, done, total, value);
	return r->progress->report(
		r->progress->user, r->stage, before * steps + part, slices * steps, value);
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
	/* Iterating, ranks with the other views project these slices, too. */
	const tomos_prepared *p = r->iterates ? r->whole : r->prepared;
	r->report->updates += passes * voxels * (double)p->geometry->count;
	r->report->slices += slab_own(r, slab).count;
	r->report->slabs++;
}

/* Whether each slice of a slab has a row of its own among those of the slab. */
static bool slabs_stack(const FileRun *r)
{
	return r->stacked && !r->rows_once;
}

/* Rows of a view in memory: of a stack, one for every slice computed. */
static int64_t slab_padded(const FileRun *r, const Slab *slab)
{
	return slabs_stack(r) && !r->iterates ? slab->padded : slab->rows;
}

/* ---- preparation --------------------------------------------------------------------------- */

/* Iterative methods would spread a value that is not finite over the whole volume. */
static tomos_status check_rows(FileRun *r, const Slab *slab, float *rows)
{
	const tomos_geometry *g = r->prepared->geometry;
	const tomos_array data = tomos_array_of(rows, g->count, slab->rows, g->columns);
	return r->iterates ? run_check_numbers(&data, r->job->scan) : TOMOS_OK;
}

/* The same for rows in device memory. */
static tomos_status check_resident(FileRun *r, const Slab *slab)
{
	const tomos_geometry *g = r->prepared->geometry;
	const tomos_backend *b = r->backend;
	const Encoding floats = {.bytes = sizeof(float)};
	int64_t values = g->count * slab->rows * g->columns, counts[2] = {0, 0};
	float *host;
	if (!r->iterates)
		return TOMOS_OK;
	TRY(b->type->vector->encode(
		r->backend, values, r->resident->rows.data, &floats, NULL, counts));
	if (counts[0] == 0)
		return TOMOS_OK;
	TRY(mem_alloc(&host, values, sizeof *host, "prepared rows"));
	const tomos_array rows = tomos_array_of(host, g->count, slab->rows, g->columns);
	tomos_status status = b->type->memory->download(r->backend, r->resident->rows.data, &rows);
	if (status == TOMOS_OK)
		status = check_rows(r, slab, host);
	mem_free(host);
	return status;
}

static tomos_status prepare_host(
	Stages *s, const Turn *turn, RawSlab *raw, const tomos_progress *progress)
{
	FileRun *r = s->run;
	const Slab *slab = turn->slab;
	TRY(raw_prepare(raw, r->prepared, slab->rows, s->rows, &r->report->prep, progress));
	TRY(check_rows(r, slab, s->rows));
	if (r->slab_count == 1 && r->iterates)
		raw_free(raw);
	if (!r->resident)
		return TOMOS_OK;
	return resident_upload(r->resident, r->prepared, s->rows, slab->rows, slab_padded(r, slab));
}

tomos_status slab_prepare(Stages *s, const Turn *turn, const tomos_progress *progress)
{
	FileRun *r = s->run;
	const Slab *slab = turn->slab;
	int at = (int)(turn->read % 2);
	if (!turn->fresh)
		return TOMOS_OK;
	stage_begin(s, TOMOS_STAGE_PREPARE);
	RawRows needs = prepared_needs(r->prepared, slab->row, slab->rows);
	if (r->resident && r->resident->prep) {
		TRY(resident_prepare(r->resident, r->prepared, at, slab->rows, slab_padded(r, slab),
			&r->report->prep));
		TRY(check_resident(r, slab));
	} else {
		TRY(prepare_host(s, turn, &s->raw[at], progress));
	}
	TRY(run_say_truncated(r, slab, r->resident ? r->resident->rows.data : s->rows,
		r->resident ? slab_padded(r, slab) : slab->rows));
	s->values += r->prepared->info.views * needs.rows * r->prepared->columns;
	r->report->read_bytes += (double)needs.rows * (double)raw_stored_bytes(r->prepared);
	stage_end(s, TOMOS_STAGE_PREPARE);
	s->bytes[TOMOS_STAGE_PREPARE] += (double)needs.rows * (double)raw_stored_bytes(r->prepared);
	return TOMOS_OK;
}

/* ---- reconstruction ------------------------------------------------------------------------ */

/* Moves each view's detector to the rows of a slab. The slabs of a stack differ in their height
 * only, and each is centred at z = 0. */
static void slab_views(const FileRun *r, const Slab *slab, tomos_geometry *scan)
{
	double middle =
		(double)slab->row + 0.5 * (double)(slab->rows - r->prepared->geometry->rows);
	scan->rows = slab_padded(r, slab);
	for (int64_t i = 0; i < scan->count; i++) {
		tomos_view *view = &scan->views[i];
		if (slabs_stack(r)) {
			view->det[2] = view->src[2] = view->u[2] = 0;
			memcpy(view->v, (double[]){0, 0, 1}, sizeof view->v);
		} else {
			view_slide(view, 0, middle);
		}
	}
}

/* The part of the scan that a slab is computed from, with all views, and the part of the grid. */
static tomos_status slab_geometry(
	const FileRun *r, const Slab *slab, tomos_geometry **scan, tomos_grid *grid)
{
	const tomos_geometry *g = r->whole->geometry;
	*grid = r->grid;
	if (!r->rows_once) {
		grid->n[2] = slab->padded;
		grid->first[2] += (double)slab->first * grid->step[2];
	}
	if (slabs_stack(r)) {
		grid->step[2] = 1;
		grid->first[2] = -0.5 * (double)(slab->padded - 1);
	}
	TRY(tomos_geometry_views(scan, g->rows, g->columns, g->views, g->count));
	slab_views(r, slab, *scan);
	return TOMOS_OK;
}

tomos_status slab_analytic(FileRun *r, const Slab *slab)
{
	tomos_geometry *scan;
	tomos_grid grid;
	bool same = r->rows_once || (r->stacked && r->analytic_rows == slab->padded);
	if (r->analytic && same)
		return TOMOS_OK;
	analytic_close(r->analytic);
	r->analytic = NULL;
	r->analytic_rows = slab->padded;
	const tomos_prepared *p = r->prepared;
	TRY(slab_geometry(r, slab, &scan, &grid));
	const ViewRange views = {p->first_view + p->skipped, p->geometry->count};
	tomos_status status = analytic_open(
		&r->analytic, r->method, r->backend, &grid, scan, &views, r->job->analytic);
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

static tomos_status analytic_slab(
	FileRun *r, const Slab *slab, float *rows, float *volume, const tomos_progress *progress)
{
	const tomos_geometry *g = r->prepared->geometry;
	int64_t count = slab_padded(r, slab);
	TRY(slab_analytic(r, slab));
	if (count > slab->rows)
		pad_rows(rows, g, slab->rows, count);
	tomos_array data = tomos_array_of(rows, g->count, count, g->columns);
	tomos_array x = tomos_array_of(volume, slab->padded, r->grid.n[1], r->grid.n[0]);
	TRY(analytic_apply(r->analytic, &data, &x, progress));
	analytic_add_metal(r->analytic, &r->metal_found);
	return TOMOS_OK;
}

/* The first value of some slices that is not finite, for the error message. */
static tomos_status find_bad(FileRun *r, const Share *slab, const float *volume)
{
	int64_t size = r->grid.n[1] * r->grid.n[0];
	float *slice;
	TRY(mem_alloc(&slice, size, sizeof *slice, "a slice"));
	const tomos_array part = tomos_array_of(slice, 1, r->grid.n[1], r->grid.n[0]);
	tomos_status status = TOMOS_OK;
	for (int64_t i = 0; i < slab->count && status == TOMOS_OK; i++) {
		status = r->backend->type->memory->download(r->backend, volume + i * size, &part);
		if (status == TOMOS_OK)
			status = tomos_result_check(
				&part, slab->first - r->first_slice + i, "the volume");
	}
	r->useless = status == TOMOS_BAD_FILE;
	mem_free(slice);
	return status;
}

tomos_status slab_encode(Stages *s, const Turn *turn, int at)
{
	FileRun *r = s->run;
	const Slab *slab = turn->slab;
	const Share own = slab_own(r, slab);
	int64_t size = r->grid.n[1] * r->grid.n[0], counts[2];
	int64_t before = (slab->before + own.first - slab->first) * size;
	if (own.count == 0)
		return TOMOS_OK;
	TRY(resident_encode(r->resident, at, before, own.count * size, counts));
	s->cut += counts[1];
	s->encoded_cut[at] = counts[1];
	return counts[0] == 0 ? TOMOS_OK
			      : find_bad(r, &own, r->resident->volumes[at].data + before);
}

/* Of a slab in a volume that is computed from the same rows, its box. */
static tomos_status resident_analytic(
	FileRun *r, const Turn *turn, float *volume, const tomos_progress *progress)
{
	Resident *d = r->resident;
	const Slab *slab = turn->slab;
	int64_t first = r->rows_once ? slab->first : 0;
	const Box box = {{0, 0, first}, {r->grid.n[0], r->grid.n[1], first + slab->padded}};
	TRY(slab_analytic(r, slab));
	if (turn->fresh)
		TRY(resident_filter(d, r->analytic));
	d->row = slab->row;
	d->row_count = slab->rows;
	return analytic_back(r->analytic, d->filtered.data, &box, volume, progress);
}

/* In device memory. */
static tomos_status resident_slab(
	Stages *s, const Turn *turn, int at, const tomos_progress *progress)
{
	FileRun *r = s->run;
	Resident *d = r->resident;
	const Slab *slab = turn->slab;
	float *volume = d->volumes[at].data;
	TRY(r->iterates ? iterative_slab(r, slab, d->rows.data, volume, progress)
			: resident_analytic(r, turn, volume, progress));
	TRY(run_sum_views(r, slab, volume));
	TRY(run_convert_units(r, slab->padded * r->grid.n[1] * r->grid.n[0], volume));
	return slab_encode(s, turn, at);
}

tomos_status slab_compute(Stages *s, const Turn *turn, int at)
{
	FileRun *r = s->run;
	const Slab *slab = turn->slab;
	SlabProgress part = {s, slab_left(r, slab)};
	const tomos_progress own = {report_slab, &part};
	const tomos_progress *progress = r->progress && r->progress->report ? &own : NULL;
	double start = run_now();
	tomos_status status = slab_prepare(s, turn, progress);
	TRY(r->together ? run_agree(r, status) : status);
	if (turn->fresh)
		gate_move(&s->in, false);
	stage_begin(s, TOMOS_STAGE_RECONSTRUCT);
	if (r->resident) {
		TRY(resident_slab(s, turn, at, progress));
	} else {
		TRY((r->iterates ? iterative_slab : analytic_slab)(
			r, slab, s->rows, s->volumes[at], progress));
		TRY(run_sum_views(r, slab, s->volumes[at]));
		TRY(run_convert_units(
			r, slab->padded * r->grid.n[1] * r->grid.n[0], s->volumes[at]));
	}
	count_done(r, slab);
	note_kernels(r);
	stage_end(s, TOMOS_STAGE_RECONSTRUCT);
	s->bytes[TOMOS_STAGE_RECONSTRUCT] += slab_bytes_of(r, slab->count, sizeof(float));
	r->report->compute_seconds += run_now() - start;
	slab_done(s, WORK_COMPUTE, slab, start);
	r->done += part.count;
	return TOMOS_OK;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Number of values outside the window of the integer output. */
static int64_t count_cut(const FileRun *r, const float *values, int64_t count)
{
	const double *window = r->file_options.window;
	int64_t cut = 0;
	for (int64_t i = 0; window && i < count; i++)
		cut += (double)values[i] < window[0] || (double)values[i] > window[1];
	return cut;
}

/* Records in the journal, for a run that resumes this one, the values of a slab that are beyond the
 * window and the residuals. */
static tomos_status note_slab(FileRun *r, const Slab *slab, const Share *own, int64_t cut)
{
	char *line;
	if (cut > 0) {
		TRY(mem_printf(&line, CUT_NOTE, (long long)(own->first - r->first_slice),
			(long long)own->count, (long long)cut));
		tomos_status status = journal_note(&r->journal, line);
		mem_free(line);
		TRY(status);
	}
	if (!r->iterates)
		return TOMOS_OK;
	TRY(iterations_text(&line, &r->iterative.slabs[slab - r->slabs]));
	tomos_status status = journal_note(&r->journal, line);
	mem_free(line);
	return status;
}

/* Slices in host memory: checked, written, and drawn. Several threads may do this for different
 * slices. */
static tomos_status write_floats(Stages *s, int64_t first, int64_t count, const float *slices)
{
	FileRun *r = s->run;
	int64_t size = r->grid.n[1] * r->grid.n[0];
	const tomos_array part =
		tomos_array_of((float *)(uintptr_t)slices, count, r->grid.n[1], r->grid.n[0]);
	if (!s->checked) {
		tomos_status finite = tomos_result_check(&part, first, "the volume");
		if (finite == TOMOS_BAD_FILE) /* not if it was cancelled */
			r->useless = true;
		TRY(finite);
	}
	TRY(tomos_file_write(r->file, first, count, slices));
	preview_take(&r->preview, first, count, slices);
	s->cut += count_cut(r, slices, count * size);
	return TOMOS_OK;
}

typedef struct {
	Stages *stages;
	int64_t first; /* slice of the output */
} Writing;

static tomos_status write_piece(void *user, int64_t first, int64_t count, char *host)
{
	const Writing *w = user;
	const FileRun *r = w->stages->run;
	if (r->resident->encoding.bytes < 4)
		return io_write_stored(r->file, w->first + first, count, 1, host);
	return write_floats(w->stages, w->first + first, count, (const float *)(void *)host);
}

/* Slices of a few MiB at least are downloaded and written by one thread. */
tomos_status slab_open_writing(const FileRun *r)
{
	enum { PIECE = 4 << 20 };
	Resident *d = r->resident;
	if (!d || d->down.memory)
		return TOMOS_OK;
	int64_t slice = r->grid.n[1] * r->grid.n[0] * d->encoding.bytes;
	int64_t piece = slice * max64(1, PIECE / slice);
	return ring_open(&d->down, d->backend, COPY_DOWNLOAD, piece, 2 * d->workers);
}

/* before: slices of the slab before those that are written. */
static tomos_status write_resident(Stages *s, const Share *own, int64_t before, int at)
{
	const FileRun *r = s->run;
	Resident *d = r->resident;
	int64_t size = r->grid.n[1] * r->grid.n[0];
	bool floats = d->encoding.bytes == 4;
	Writing writing = {s, own->first - r->first_slice};
	const RingJob job = {.device = (char *)(floats ? d->volumes[at].data + before * size
						       : d->stored[at].data),
		.count = own->count,
		.bytes = size * d->encoding.bytes,
		.task = write_piece,
		.user = &writing};
	TRY(slab_open_writing(r));
	return ring_download(&d->down, &job);
}

tomos_status slab_write(Stages *s, const Turn *turn, int at)
{
	FileRun *r = s->run;
	const Slab *slab = turn->slab;
	const Share own = slab_own(r, slab);
	int64_t first = own.first - r->first_slice, size = r->grid.n[1] * r->grid.n[0];
	int64_t offset = slab->before + own.first - slab->first;
	bool encoded = r->resident && r->resident->encoding.bytes < 4;
	int64_t before = s->cut; /* only this thread adds to it, unless the device encodes */
	if (own.count == 0)
		return TOMOS_OK;
	if (r->resident)
		TRY(write_resident(s, &own, offset, at));
	else
		TRY(write_floats(s, first, own.count, s->volumes[at] + offset * size));
	s->bytes[TOMOS_STAGE_WRITE] += slab_bytes_of(r, own.count, (size_t)r->file->element.bytes);
	if (!r->lasting)
		return TOMOS_OK;
	TRY(io_sync(r->file));
	TRY(journal_add(&r->journal, first, own.count, r->file->checksums + first));
	return note_slab(r, slab, &own, encoded ? s->encoded_cut[at] : s->cut - before);
}

/* A slab of floats to host memory. */
tomos_status slab_floats(Stages *s, const Turn *turn, int at, float **volume)
{
	const FileRun *r = s->run;
	const Slab *slab = turn->slab;
	int64_t before = slab->before * r->grid.n[1] * r->grid.n[0];
	*volume = s->volumes[at] + (r->resident ? 0 : before);
	if (!r->resident)
		return TOMOS_OK;
	const tomos_array to = tomos_array_of(*volume, slab->count, r->grid.n[1], r->grid.n[0]);
	return r->backend->type->memory->download(
		r->backend, r->resident->volumes[at].data + before, &to);
}
