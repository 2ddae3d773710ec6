/* The output of a run: its provenance, and the part that an earlier run has completed. */
#include <stdio.h>
#include <string.h>
#include "run/run_parts.h"
#include "truth/truth.h"

enum { ENDED_TEXT = 32 };

static tomos_status put_geometry(const FileRun *r)
{
	const tomos_geometry *g = r->whole->geometry;
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

/* Attenuation, unless the values are something else that has no name here. */
static tomos_status put_units(const FileRun *r)
{
	tomos_analytic_options analytic = tomos_analytic_defaults();
	const char *length = r->prepared->unit;
	char value[UNIT_NAME + 2] = "";
	TRY(options_take(&analytic, r->job->analytic, "analytic"));
	bool filtered = r->iterates ||
			(strcmp(analytic.filter, "none") != 0 && analytic.response_count == 0);
	if (r->options.hu_count > 0)
		snprintf(value, sizeof value, "HU");
	else if (length[0] && strlen(length) + 2 < UNIT_NAME && filtered &&
		 prepared_are_integrals(r->prepared))
		snprintf(value, sizeof value, "1/%s", length);
	return tomos_file_set_units(r->file, length, value);
}

tomos_status output_put_grid(const FileRun *r)
{
	tomos_grid grid = r->grid;
	grid.n[2] = r->slices;
	grid.first[2] += (double)r->first_slice * grid.step[2];
	TRY(put_units(r));
	return r->file->format->put ? tomos_file_set_grid(r->file, &grid) : TOMOS_OK;
}

/* How the axis was found, with a warning if it is uncertain. */
static tomos_status put_axis(const FileRun *r)
{
	const tomos_prepared *p = r->prepared;
	char *text;
	if (!p->note)
		return TOMOS_OK;
	TRY(mem_printf(&text, "%s%s%s", p->note, p->warning ? "; warning: " : "",
		p->warning ? p->warning : ""));
	tomos_status status = tomos_file_set_text(r->file, "axis", text);
	mem_free(text);
	return status;
}

/* Room for texts of the end of the run, which are then written in place: what has been begun stays
 * readable for a later run whenever this one is killed. */
static tomos_status reserve_iterations(const FileRun *r)
{
	char blank[ENDED_TEXT];
	snprintf(blank, sizeof blank, "%*s", ENDED_TEXT - 1, "");
	TRY(tomos_file_set_text(r->file, "iterations", blank));
	return tomos_file_set_text(r->file, "ended", blank);
}

/* Writes the provenance of the volume: command, all options, version and geometry. */
static tomos_status put_provenance(const FileRun *r)
{
	const tomos_job *job = r->job;
	if (r->options.hu_count > 0 && strcmp(r->prepared->unit, "pixel") == 0)
		TRY(job_warn(job, "the size of the pixels is not known, so the attenuation "
				  "of water of the option 'hu' is taken per pixel; give the option "
				  "'pixel'"));
	TRY(output_put_grid(r));
	TRY(tomos_file_set_text(r->file, "version", TOMOS_VERSION));
	TRY(tomos_file_set_text(r->file, "method", r->method));
	TRY(tomos_file_set_text(r->file, "scan", job->scan));
	if (r->prepared->scan->setup.read)
		TRY(tomos_file_set_text(r->file, "scanner", r->prepared->scan->setup.read));
	if (job->command)
		TRY(tomos_file_set_text(r->file, "command", job->command));
	if (job->recipe)
		TRY(tomos_file_set_text(r->file, "recipe", job->recipe));
	TRY(put_axis(r));
	if (r->iterates)
		TRY(reserve_iterations(r));
	if (r->prepared->found)
		TRY(tomos_file_set_text(r->file, "found", r->prepared->found));
	return r->file->format->put ? put_geometry(r) : TOMOS_OK;
}

/* How many iterations made the volume, and what ended them, when these are known. */
tomos_status output_put_iterations(const FileRun *r)
{
	const Iterative *it = &r->iterative;
	const char *ended = iterations_ended(it);
	char text[ENDED_TEXT];
	if (!r->iterates || comm_rank(r->comm) > 0)
		return TOMOS_OK;
	snprintf(text, sizeof text, "%lld", (long long)iterations_most(it));
	TRY(tomos_file_set_text(r->file, "iterations", text));
	return tomos_file_set_text(
		r->file, "ended", strcmp(ended, "cancelled") == 0 ? "interrupted" : ended);
}

/* Of the files of slices: that of the slice in the whole volume, which is part of the identity. */
static void number_slices(FileRun *r)
{
	if (r->file_options.first_number < 0)
		r->file_options.first_number = r->first_slice + (r->stacked ? r->first_row : 0);
}

static tomos_status create_part(FileRun *r)
{
	const int64_t shape[3] = {r->slices, r->grid.n[1], r->grid.n[0]};
	TRY(io_create(&r->file, r->output, TOMOS_VOLUME, shape, &r->file_options, r->journal.part,
		r->journal.begun));
	const Format *format = r->file->format;
	return format->reserve ? format->reserve(r->file, r->memory - r->planned) : TOMOS_OK;
}

/* Values beyond the window in slices that are not computed again; false: another kind of note. */
static bool take_cut(FileRun *r, const char *note)
{
	long long first, count, cut;
	if (sscanf(note, CUT_NOTE, &first, &count, &cut) != 3)
		return false;
	bool inside = first >= 0 && count > 0 && cut > 0 && first <= r->slices - count;
	if (inside && !memchr(r->file->written + first, 0, (size_t)count))
		r->cut += cut;
	return true;
}

/* Takes over the slices of an earlier run that are still valid. The others are computed again,
 * which is reported. */
static tomos_status take_part(FileRun *r)
{
	int64_t lost, unread;
	TRY(io_merge(r->file));
	/* Kept in memory until the end, and part of each TIFF file of a folder. */
	if (!r->file->format->put_text)
		TRY(put_provenance(r));
	TRY(journal_replay(&r->journal, r->file, &unread));
	TRY(io_verify_done(r->file, r->progress, &r->done, &lost));
	r->report->resumed = r->done;
	for (const char *note = journal_next_note(&r->journal, NULL); note;
		note = journal_next_note(&r->journal, note))
		if (!take_cut(r, note) && r->iterates)
			unread += !iterations_read(&r->iterative, note);
	r->report->cut = r->cut;
	TRY(job_say(r->job, "resumed   %lld of %lld slices are done", (long long)r->done,
		(long long)r->slices));
	if (lost > 0)
		TRY(job_warn(r->job,
			"%lld slice%s of the earlier run %s damaged and will be "
			"computed again",
			(long long)lost, lost == 1 ? "" : "s", lost == 1 ? "is" : "are"));
	if (unread > 0)
		TRY(job_warn(r->job,
			"%lld line%s of '%s' cannot be read; their slices will be "
			"computed again",
			(long long)unread, unread == 1 ? "" : "s", r->journal.path));
	return TOMOS_OK;
}

/* A file with everything but its data, in the place of what an earlier run left. */
static tomos_status make_part(FileRun *r)
{
	TRY(journal_clear(&r->journal));
	TRY(create_part(r));
	TRY(put_provenance(r));
	return io_seal(r->file);
}

static tomos_status begin_part(FileRun *r, const Identity *identity)
{
	Frame frame;
	if (r->journal.damage[0])
		TRY(job_warn(r->job, "nothing is resumed, the work begins again: %s",
			r->journal.damage));
	if (!r->file)
		TRY(make_part(r));
	TRY(journal_begin(&r->journal, identity));
	TRY(io_frame(r->file, &frame));
	return journal_ready(&r->journal, &frame);
}

static tomos_status open_journal(FileRun *r, const Identity *identity)
{
	TRY(journal_open(&r->journal, r->output, identity, r->options.resume != 0,
		r->file_options.overwrite != 0));
	r->lasting = true;
	return TOMOS_OK;
}

/* Iterative methods create their output when they have computed some of it. With --memory, what
 * writing may take follows from the plan. */
static bool is_known_early(const FileRun *r)
{
	bool window =
		strcmp(r->file_options.type, "float32") == 0 || r->file_options.window_count > 0;
	return window && !r->iterates && !r->options.dry_run && r->options.ranks == 0 &&
	       !r->options.resume && r->options.memory == 0 && comm_size(r->comm) == 1;
}

tomos_status output_begin_early(FileRun *r)
{
	bool left = false;
	if (!is_known_early(r))
		return TOMOS_OK;
	TRY(journal_left(r->output, &left));
	if (left)
		return TOMOS_OK;
	number_slices(r);
	TRY(open_journal(r, NULL));
	return make_part(r);
}

tomos_status output_create(FileRun *r)
{
	Identity identity = {.scan = 0};
	number_slices(r);
	TRY(run_identity(r, &identity));
	if (!r->file)
		TRY(open_journal(r, &identity));
	tomos_status status = r->journal.begun ? create_part(r) : TOMOS_OK;
	if (status == TOMOS_BAD_FILE)
		journal_damaged(&r->journal);
	else
		TRY(status);
	return r->journal.begun ? take_part(r) : begin_part(r, &identity);
}

int64_t slab_left(const FileRun *r, const Slab *slab)
{
	if (!r->file) /* a trial, which writes no output */
		return slab->count;
	const unsigned char *written = r->file->written + (slab->first - r->first_slice);
	int64_t left = 0;
	for (int64_t i = 0; i < slab->count; i++)
		left += !written[i];
	return left;
}

/* ---- pictures ------------------------------------------------------------------------------ */

static tomos_status open_preview(FileRun *r)
{
	if (!r->options.preview && !r->job->look)
		return TOMOS_OK;
	r->preview.pictures = r->options.preview != 0;
	memcpy(r->preview.shape, r->report->shape, sizeof r->preview.shape);
	return preview_open(&r->preview);
}

tomos_status run_begin_preview(FileRun *r)
{
	if (comm_rank(r->comm) > 0)
		return TOMOS_OK;
	TRY(open_preview(r));
	return r->preview.pictures ? run_look_early(r) : TOMOS_OK;
}

/* The output is complete at this point, so a failure leaves nothing to resume. */
tomos_status run_write_preview(FileRun *r)
{
	char reason[512];
	tomos_status status = r->preview.pictures ? preview_write(&r->preview) : TOMOS_OK;
	if (status == TOMOS_OK)
		return TOMOS_OK;
	r->report->slices = r->report->resumed = 0;
	snprintf(reason, sizeof reason, "%s", tomos_message());
	return fail(status, "'%s' is complete, but its pictures are not: %s", r->output, reason);
}

/* The row of the middle slice, before and after preparation, and the columns likewise. */
static void look_place(const FileRun *r, tomos_run_look *look)
{
	const tomos_prepared *p = r->prepared;
	int64_t middle = r->first_slice + r->slices / 2 + r->first_row;
	look->row = r->stacked ? middle : p->geometry->rows / 2;
	look->first_column = p->first_column;
	look->bin = p->bin;
	look->scan_row = min64((p->first_row + look->row) * p->bin + p->bin / 2, p->info.rows - 1);
}

void run_show(FileRun *r)
{
	enum { READ_BACK = 64 }; /* slices of other ranks or of an earlier run */
	tomos_grid grid = r->grid;
	tomos_run_look look = {.bytes = sizeof look, .prepared = r->prepared, .method = r->method};
	if (!r->job->look || comm_rank(r->comm) > 0)
		return;
	bool whole = preview_fill(&r->preview, READ_BACK) == TOMOS_OK;
	grid.first[2] += (double)r->first_slice * grid.step[2];
	grid.n[2] = r->slices;
	look.grid = &grid;
	look.output = r->output;
	look.backend = tomos_backend_describe(r->backend);
	look.device_bytes = r->planned_device;
	memcpy(look.window, r->window, sizeof look.window);
	look_place(r, &look);
	for (int axis = 0; axis < 3; axis++) {
		look.planes[axis] = whole ? r->preview.planes[axis] : NULL;
		look.widths[axis] = axis == 2 ? r->preview.shape[1] : r->preview.shape[2];
		look.heights[axis] = axis == 0 ? r->preview.shape[1] : r->preview.shape[0];
	}
	r->report->seconds = run_now() - r->begun;
	report_publish(r->job, r->report);
	r->job->look(r->job->user, &look);
	r->shown = run_now() - r->begun - r->report->seconds;
}

/* ---- comparison ---------------------------------------------------------------------------- */

enum { COMPARED_VALUES = 16 << 20 }; /* read of each file at a time */

typedef tomos_status (*Visit)(Comparison *c, const tomos_array *a, const tomos_array *b);

static tomos_status compare_pass(
	const FileRun *r, tomos_file *file, float *const parts[2], Visit visit, Comparison *c)
{
	int64_t ny = r->grid.n[1], nx = r->grid.n[0], most = max64(1, COMPARED_VALUES / (ny * nx));
	for (int64_t first = 0; first < r->slices; first += most) {
		int64_t count = min64(most, r->slices - first);
		TRY(tomos_file_read(r->compare, first, count, parts[0]));
		TRY(run_match_truth(
			r, r->compare, r->options.hu_count > 0, count * ny * nx, parts[0]));
		TRY(tomos_file_read(file, first, count, parts[1]));
		const tomos_array a = tomos_array_of(parts[0], count, ny, nx);
		const tomos_array b = tomos_array_of(parts[1], count, ny, nx);
		TRY(visit(c, &a, &b));
	}
	return TOMOS_OK;
}

tomos_status run_compare(FileRun *r)
{
	int64_t slice = r->grid.n[1] * r->grid.n[0];
	int64_t most = min64(r->slices, max64(1, COMPARED_VALUES / slice)) * slice;
	float *parts[2] = {NULL, NULL};
	tomos_file *file = NULL;
	tomos_status status;
	Comparison c;
	comparison_begin(&c);
	TRY_OR_DONE(mem_alloc(&parts[0], most, sizeof(float), "slices to compare"));
	TRY_OR_DONE(mem_alloc(&parts[1], most, sizeof(float), "slices to compare"));
	TRY_OR_DONE(tomos_file_open(&file, r->output, NULL));
	TRY_OR_DONE(compare_pass(r, file, parts, comparison_sum, &c));
	TRY_OR_DONE(compare_pass(r, file, parts, comparison_ssim, &c));
	comparison_end(&c, &r->report->difference);
	r->report->compared = 1;
done:
	tomos_file_close(file);
	mem_free(parts[0]);
	mem_free(parts[1]);
	return status;
}
