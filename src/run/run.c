/* A whole reconstruction, from file to file, in slabs: planned, read, computed and written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "run/cost.h"

/* ---- what is to be done ------------------------------------------------------------------- */

/* Of a rank; the ranks of a machine share its memory. */
static double planned_memory(int64_t bytes, const tomos_comm *comm)
{
	double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	return bytes > 0 ? (double)bytes : 0.5 * all / (comm ? comm->local_size : 1);
}

/* A scan cannot be measured again, so not even `overwrite` replaces it by its reconstruction. */
static tomos_status output_is_not_scan(const char *output, const char *scan)
{
	struct stat a, b;
	if (stat(output, &a) != 0 || stat(scan, &b) != 0 || a.st_dev != b.st_dev ||
		a.st_ino != b.st_ino)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE, "the output '%s' is the scan itself; give it another name",
		output);
}

/* Reports an obstacle to the output (an existing file, for example) before anything is computed. */
static tomos_status name_output(FileRun *r)
{
	const tomos_job *job = r->job;
	if (!job->scan || !job->scan[0])
		return fail(TOMOS_BAD_VALUE, "the name of a scan is missing");
	TRY(job->output && job->output[0] ? mem_text(&r->output, job->output)
					  : default_output(&r->output, job->scan));
	if (r->options.dry_run)
		return TOMOS_OK;
	TRY(output_is_not_scan(r->output, job->scan));
	TRY(io_check_options(r->output, &r->file_options));
	TRY(file_check(r->output, r->file_options.overwrite != 0));
	r->preview.output = r->output;
	r->preview.overwrite = r->file_options.overwrite != 0 || r->options.resume != 0;
	return r->options.preview ? preview_check(&r->preview) : TOMOS_OK;
}

const char *run_default_method(const tomos_geometry *scan)
{
	return scan->views[0].src[3] == (int)TOMOS_POINT && scan->rows > 1 ? "fdk" : "fbp";
}

static tomos_status choose_method(FileRun *r)
{
	char names[512];
	int index;
	r->method = r->job->method && r->job->method[0] ? r->job->method
							: run_default_method(r->prepared->geometry);
	r->stage = r->method;
	r->iterates = run_is_iterative(r->method);
	snprintf(names, sizeof names, "%s|%s", analytic_names(), tomos_method_names());
	TRY(choice_find("method", names, r->method, &index));
	if (r->iterates)
		return iterative_take(r);
	tomos_analytic_options analytic = tomos_analytic_defaults();
	TRY(options_take(&analytic, r->job->analytic, "analytic"));
	r->metal = strcmp(analytic.metal, "none") != 0;
	return TOMOS_OK;
}

/* Opens the volume to compare with before the work, so that a wrong shape is reported early. */
static tomos_status open_compare(FileRun *r)
{
	const char *path = r->job->compare;
	if (!path || !path[0])
		return TOMOS_OK;
	TRY(tomos_file_open(&r->compare, path, NULL));
	const int64_t *n = r->compare->shape, *m = r->report->shape;
	bool also_truth = r->iterates && !(r->job->truth && r->job->truth[0]);
	bool fits = memcmp(n, m, sizeof r->compare->shape) == 0;
	if (!fits || !also_truth)
		TRY(job_say_gap(r->job, r->compare));
	if (!fits)
		return fail(TOMOS_BAD_FILE,
			"'%s' is %lld x %lld x %lld (z y x), but the reconstruction is %lld x %lld "
			"x %lld (z y x)",
			path, (long long)n[0], (long long)n[1], (long long)n[2], (long long)m[0],
			(long long)m[1], (long long)m[2]);
	return also_truth ? TOMOS_OK : run_check_volume(r, r->compare, true);
}

/* Rejects a scan that filtered back projection is not for, before its axis is searched for. */
static tomos_status check_kind(const tomos_job *job)
{
	tomos_scan_options scan = tomos_scan_defaults();
	bool named = job->method && job->method[0];
	const char *method = named ? job->method : "filtered back projection";
	TRY(options_take(&scan, job->geometry, "scan"));
	bool lamina = strcmp(scan.geometry, "laminography") == 0 && scan.tilt != 0;
	if (job->views || run_is_iterative(method) ||
		(!lamina && choice_index("helix|lebedev", scan.geometry) < 0))
		return TOMOS_OK;
	return fail(TOMOS_UNSUPPORTED,
		"%s needs a circle about the z axis, and this is a %s scan; use an algebraic "
		"method, for instance sirt",
		method, scan.geometry);
}

/* What is to be done, with the scan and the backend open. */
static tomos_status open_run(FileRun *r)
{
	const tomos_job *job = r->job;
	int64_t end;
	r->options = tomos_run_defaults();
	r->file_options = tomos_file_defaults();
	TRY(options_take(&r->options, job->run, "run"));
	TRY(options_need("run", &r->options, NULL));
	TRY(options_take(&r->file_options, job->file, "file"));
	TRY(run_check_units(r));
	TRY(check_kind(job));
	TRY(name_output(r));
	opening_begin(&r->opening, job, r->comm);
	TRY(tomos_prepared_open(&r->whole, job, r->progress));
	r->prepared = r->whole;
	r->memory = planned_memory(r->options.memory, r->comm);
	TRY(choose_method(r));
	TRY(tomos_grid_for(&r->grid, r->prepared->geometry, job->grid));
	TRY(range_parse("rows", r->options.rows, r->grid.n[2], &r->first_slice, &end));
	r->slices = end - r->first_slice;
	r->stacked = run_stacked(r->prepared->geometry, &r->grid, &r->first_row);
	r->report->shape[0] = r->slices;
	r->report->shape[1] = r->grid.n[1];
	r->report->shape[2] = r->grid.n[0];
	TRY(open_compare(r));
	TRY(output_begin_early(r));
	return opening_end(&r->opening, &r->backend);
}

static tomos_status plan_run(FileRun *r)
{
	TRY(r->iterates ? iterative_plan(r) : run_choose_by(r));
	TRY(run_divide(r));
	TRY(together_open(r));
	TRY(r->options.ranks > 0 ? cost_plan(r) : run_plan(r));
	TRY(r->iterates ? iterative_open(r) : TOMOS_OK);
	return r->iterates && !r->options.dry_run ? iterative_checkpoints(r) : TOMOS_OK;
}

static tomos_status say_no_penalty(const FileRun *r)
{
	const tomos_algebraic_options *o = &r->iterative.o;
	bool expected = r->iterates && tomos_method_uses(r->method, "regulariser") &&
			strcmp(o->regulariser, "none") != 0;
	if (!expected || o->strength != 0)
		return TOMOS_OK;
	return job_note(r->job,
		"%s has no penalty without the option 'strength': plain least squares", r->method);
}

static tomos_status say_plan(const FileRun *r)
{
	const tomos_prepared *p = r->whole;
	const tomos_geometry *g = p->geometry;
	TRY(job_say(r->job,
		"scan      %s: %s, %lld views of %lld row%s x %lld columns, %lld flat%s, "
		"%lld dark%s",
		r->job->scan, p->info.kind, (long long)p->info.views, (long long)p->info.rows,
		p->info.rows == 1 ? "" : "s", (long long)p->info.columns, (long long)p->info.flats,
		p->info.flats == 1 ? "" : "s", (long long)p->info.darks,
		p->info.darks == 1 ? "" : "s"));
	TRY(p->note ? job_say(r->job, "%s", p->note) : TOMOS_OK);
	TRY(p->warning ? job_warn(r->job, "%s", p->warning) : TOMOS_OK);
	TRY(p->found ? job_say(r->job, "%s", p->found) : TOMOS_OK);
	TRY(job_say(r->job, "method    %s on %s", r->method, tomos_backend_describe(r->backend)));
	TRY(r->by_why[0] ? job_say(r->job, "by        %s: %s", r->by.by, r->by_why) : TOMOS_OK);
	TRY(job_say(r->job, "volume    %lld x %lld x %lld voxels (x y z) of %g x %g x %g%s%s to %s",
		(long long)r->grid.n[0], (long long)r->grid.n[1], (long long)r->slices,
		fabs(r->grid.step[0]), fabs(r->grid.step[1]), fabs(r->grid.step[2]),
		p->unit[0] ? " " : "", strcmp(p->unit, "pixel") == 0 ? "pixels" : p->unit,
		r->output));
	if (r->slices < r->grid.n[2])
		TRY(job_say(r->job, "slices    %lld to %lld of the volume's %lld",
			(long long)r->first_slice, (long long)(r->first_slice + r->slices - 1),
			(long long)r->grid.n[2]));
	TRY(run_say_ranks(r));
	TRY(run_say_angles(r));
	TRY(say_no_penalty(r));
	TRY(run_say_slow(r));
	double passes = r->iterates ? 2 * (double)r->iterative.o.iterations : 1;
	return job_say(r->job,
		"plan      %s%lld slab%s of up to %lld slice%s, %.0f MiB of %.0f MiB memory, %.4g "
		"G "
		"updates",
		r->adapts ? "at least " : "", (long long)r->slab_count,
		r->slab_count == 1 ? "" : "s", (long long)r->thickest, r->thickest == 1 ? "" : "s",
		r->planned / (1 << 20), r->memory / (1 << 20),
		1e-9 * passes * (double)r->grid.n[0] * (double)r->grid.n[1] * (double)r->slices *
			(double)g->count);
}

/* ---- one slab of an iterative method ------------------------------------------------------- */

/* Integers are encoded on the device, unless the pictures need floats. */
static void set_encoding(FileRun *r)
{
	const double *window = r->file_options.window;
	if (!r->resident || r->file->element.kind == 'f' || r->preview.pictures ||
		!r->backend->type->vector->encode)
		return;
	r->resident->encoding = (Encoding){.bytes = r->file->element.bytes,
		.scale = r->file->scale,
		.offset = r->file->offset,
		.low = window[0],
		.high = window[1]};
}

/* The window of integers, which the output is created with, may depend on the values. */
static tomos_status open_after(Stages *s, const Turn *turn)
{
	FileRun *r = s->run;
	bool floats = strcmp(r->file_options.type, "float32") == 0;
	float *volume = NULL;
	if (!floats && r->file_options.window_count == 0) {
		TRY(run_agree(r, turn ? slab_floats(s, turn, 0, &volume) : TOMOS_OK));
		TRY(run_take_range(r, volume));
	}
	TRY(run_open_output(r));
	set_encoding(r);
	return r->resident && turn ? slab_encode(s, turn, 0) : TOMOS_OK;
}

/* Reads, computes and writes the only slab; nothing can overlap. A run that is killed leaves no
 * output; one that is cancelled writes its last complete iterate. */
static tomos_status one_slab(Stages *s)
{
	FileRun *r = s->run;
	const Turn *turn = turn_at(s, 0); /* NULL: the slab is another rank's */
	stage_begin(s, TOMOS_STAGE_READ);
	TRY(run_agree(r, turn ? slab_read(s, turn) : TOMOS_OK));
	stage_end(s, TOMOS_STAGE_READ);
	TRY(run_agree(r, turn ? slab_compute(s, turn, 0) : TOMOS_OK));
	TRY(run_check_usable(r, s->values));
	if (r->stopped) {
		tomos_cancel_on(NULL);
		r->progress = NULL;
	}
	TRY(open_after(s, turn));
	stage_begin(s, TOMOS_STAGE_WRITE);
	if (turn && slab_left(r, turn->slab) > 0)
		TRY(slab_write(s, turn, 0));
	stage_end(s, TOMOS_STAGE_WRITE);
	return TOMOS_OK;
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* There is one slab for any amount of memory and any number of ranks, so that the range of its
 * values may be the window. */
static bool is_one_slab(const FileRun *r)
{
	int64_t last = r->first_slice + r->slices - 1;
	return r->iterative.whole || r->slices == 1 ||
	       (r->iterative.grouped && r->first_slice / GROUP_SLICES == last / GROUP_SLICES);
}

static tomos_status reconstruct_all(FileRun *r)
{
	bool floats = strcmp(r->file_options.type, "float32") == 0;
	bool exact = r->iterates && is_one_slab(r);
	bool one = exact || (r->iterates && r->slab_count == 1 && comm_size(r->comm) == 1);
	tomos_status status = TOMOS_OK;
	if (!floats && r->file_options.window_count == 0 && !exact)
		status = run_end_all(r, run_choose_window(r));
	TRY(run_agree(r, status));
	if (one)
		return run_agree(
			r, stages_with(r, one_slab, !floats && r->file_options.window_count == 0));
	TRY(run_open_output(r));
	set_encoding(r);
	if (r->slab_count > 0)
		status = run_end_all(r, stages_with(r, stages_run, false));
	TRY(run_agree(r, status));
	status = run_check_usable(r, r->values);
	r->useless = status != TOMOS_OK;
	return status;
}

/* After a failure the part that is done is kept for a later run, unless it is empty. */
static void close_output(FileRun *r, tomos_status status)
{
	double begun =
		r->journal.begun || (r->file && memchr(r->file->written, 1, (size_t)r->slices));
	double useless = r->useless;
	(void)comm_sum(r->comm, &begun, 1);
	(void)comm_sum(r->comm, &useless, 1);
	bool kept = begun > 0 && !(useless > 0);
	tomos_file_close(r->file);
	r->file = NULL;
	journal_close(&r->journal,
		comm_rank(r->comm) == 0 && r->lasting && (status == TOMOS_OK || !kept));
	if (!kept)
		r->report->slices = 0;
}

/* What is complete is shown, also where pictures or the comparison have failed. */
static tomos_status show_complete(FileRun *r, tomos_status status)
{
	char reason[1024] = "";
	if (!r->report->complete)
		return status;
	if (status != TOMOS_OK)
		snprintf(reason, sizeof reason, "%s", tomos_message());
	run_show(r);
	return status == TOMOS_OK ? TOMOS_OK : fail(status, "%s", reason);
}

/* The metal of all slabs. */
static tomos_status say_metal(FileRun *r)
{
	const MetalFound *m = &r->metal_found;
	double sums[2] = {m->voxels, m->metal};
	double ends[2] = {m->voxels > 0 ? -m->low : -HUGE_VAL, m->high};
	char range[64];
	if (!r->metal)
		return TOMOS_OK;
	TRY(comm_sum(r->comm, sums, 2));
	TRY(comm_largest(r->comm, ends, 2));
	if (-ends[0] < ends[1])
		snprintf(range, sizeof range, "%.4g to %.4g, by slice", -ends[0], ends[1]);
	else
		snprintf(range, sizeof range, "%.4g", ends[1]);
	if (sums[1] == 0)
		return job_note(r->job,
			"no metal found: no voxel is above %s; the option 'metal_threshold' sets "
			"another limit",
			range);
	return job_say(r->job, "metal     %.3g %% of the voxels, above %s", 100 * sums[1] / sums[0],
		range);
}

static tomos_status execute(FileRun *r)
{
	tomos_status status = run_agree(r, run_begin_preview(r));
	if (status == TOMOS_OK)
		status = reconstruct_all(r);
	if (status == TOMOS_OK)
		status = run_agree(r, say_metal(r));
	if (status == TOMOS_OK)
		status = run_agree(r, run_collect_iterations(r));
	if (status == TOMOS_OK)
		status = run_agree(r, output_put_iterations(r));
	if (status == TOMOS_OK)
		status = run_commit(r);
	r->report->complete = status == TOMOS_OK;
	close_output(r, status);
	if (status == TOMOS_OK)
		status = run_collect_report(r);
	if (r->iterates)
		iterations_sum(&r->iterative, r->report);
	if (status == TOMOS_OK)
		status = run_write_preview(r);
	else
		preview_remove(&r->preview);
	if (status == TOMOS_OK && r->compare && comm_rank(r->comm) == 0)
		status = run_compare(r);
	status = show_complete(r, status);
	preview_free(&r->preview);
	return run_agree(r, status);
}

static tomos_status stopped_early(const FileRun *r)
{
	return fail(TOMOS_CANCELLED, "interrupted after %lld iteration%s; '%s' is the last one",
		(long long)r->report->iterations, r->report->iterations == 1 ? "" : "s", r->output);
}

const char *tomos_stage_names(void)
{
	return "read|upload|prepare|reconstruct|download|write";
}

tomos_status tomos_run(const tomos_job *job, const tomos_progress *progress)
{
	FileRun r = {.progress = progress, .journal = {.descriptor = -1}};
	const tomos_cancel *cancel = cancel_asked();
	tomos_status status;
	r.begun = run_now();
	TRY(job_take(&r.taken, job));
	r.job = &r.taken;
	r.comm = r.taken.comm;
	if (comm_rank(r.comm) > 0)
		r.taken.say = NULL;
	r.report = &r.own;
	r.own = (tomos_run_report){.bytes = sizeof r.own,
		.prep = {.bytes = sizeof r.own.prep},
		.difference = {.bytes = sizeof r.own.difference},
		.residual = NAN,
		.error = NAN,
		.ended = ""};
	report_publish(r.job, r.report);
	TRY_OR_DONE(run_agree(&r, open_run(&r)));
	TRY_OR_DONE(run_agree(&r, run_share_device(&r)));
	TRY_OR_DONE(run_agree(&r, plan_run(&r)));
	TRY_OR_DONE(run_same_slabs(&r));
	TRY_OR_DONE(checkpoints_say(&r));
	r.report->planned_bytes = r.planned;
	if (r.options.dry_run)
		r.report->slabs = r.slab_count;
	TRY_OR_DONE(say_plan(&r));
	r.report->start_seconds = run_now() - r.begun;
	TRY_OR_DONE(r.options.ranks > 0 ? cost_say(&r)
		    : r.options.dry_run ? run_say_time(&r)
					: execute(&r));
done:
	if (r.journal.part) /* the output was begun before something failed */
		close_output(&r, status);
	r.report->seconds = run_now() - r.begun - r.shown;
	report_publish(r.job, r.report);
	tomos_cancel_on(cancel); /* a run that was stopped has gone on without it */
	if (status == TOMOS_OK && r.stopped)
		status = stopped_early(&r);
	iterative_close(&r.iterative);
	run_divide_free(&r);
	analytic_close(r.analytic);
	resident_close(r.resident);
	tomos_file_close(r.compare);
	mem_free(r.slabs);
	mem_free(r.output);
	opening_close(&r.opening);
	run_all_views(&r);
	tomos_prepared_close(r.whole);
	return status;
}
