/* tomos recon: a volume from a scan. The options become a job of the library, and its report is
 * printed. */
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "report.h"

typedef struct recon {
	scan_job scan;
	tomos_device_options device;
	tomos_algebraic_options algebraic;
	tomos_matrix_options stored;
	tomos_history history;
	tomos_run_report report;
	char *recipe; /* all options in force */
	page page;    /* of --report */
} recon;

static bool is_iterative(const char *method)
{
	return tomos_method_help(method)[0] != 0;
}

/* ---- options that have no effect ------------------------------------------------------------ */

/* Options of iterative methods that this one does not use. */
static int reject_unused(const settings *s, const char *method)
{
	group g = group_get(GROUP_algebraic);
	char shown[64];
	for (int i = 0; i < g.count; i++)
		if ((s->given[GROUP_algebraic] >> i & 1) &&
			!tomos_method_uses(method, g.rows[i].name)) {
			name_shown(g.rows[i].name, shown);
			return wrong_usage("--%s has no effect with --method %s", shown, method);
		}
	if (s->stored.matrix[0] && s->stored.stored[0])
		return wrong_usage("--stored has no effect with --matrix");
	return s->stored.matrix[0] ? settings_reject(s, GROUP_projector, -1, "with --matrix")
				   : DONE;
}

/* The method for messages; which of fbp and fdk it is follows from the scan. */
static const char *method_words(const settings *s)
{
	return s->recon.method[0] ? s->recon.method : "fbp or fdk";
}

static int reject_others(const settings *s)
{
	const char *method = s->recon.method;
	char why[64];
	int code;
	snprintf(why, sizeof why, "with --method %s", method_words(s));
	if (s->recon.report[0] && s->run.dry_run)
		return wrong_usage("--report has no effect with --dry-run");
	if (is_iterative(method)) {
		DO(reject_unused(s, method));
		return settings_reject(s, GROUP_analytic, GROUP_projector, why);
	}
	DO(settings_reject(s, GROUP_algebraic, GROUP_run, why));
	DO(settings_reject(s, GROUP_stored, -1, why));
	DO(settings_reject(s, GROUP_projector, GROUP_analytic, why));
	if (s->recon.start[0] || s->recon.plot[0] || s->recon.history[0])
		DO(wrong_usage("--%s has no effect %s",
			s->recon.start[0]  ? "start"
			: s->recon.plot[0] ? "plot"
					   : "history",
			why));
done:
	return code;
}

/* ---- the job -------------------------------------------------------------------------------- */

static const char *array_path(const tomos_array *array)
{
	return array ? ((const file_array *)array)->path : NULL;
}

static int iterative_job(const settings *s, recon *r)
{
	tomos_job *job = &r->scan.job;
	r->algebraic = s->algebraic;
	job->mask = array_path(s->algebraic.mask);
	job->ray_weights = array_path(s->algebraic.ray_weights);
	job->truth = array_path(s->algebraic.truth);
	job->start = s->recon.start;
	r->algebraic.mask = r->algebraic.ray_weights = r->algebraic.truth = NULL;
	r->algebraic.history = &r->history;
	job->algebraic = &r->algebraic;
	job->projector = &s->projector;
	job->matrix = s->stored.matrix;
	if (s->stored.stored[0]) {
		r->stored = tomos_matrix_defaults();
		r->stored.storage = s->stored.stored;
		job->stored = &r->stored;
	}
	return history_new(&r->history, s->algebraic.iterations);
}

/* The report of the run is up to date when its data are shown. */
static void show_run(void *user, const tomos_run_look *look)
{
	recon *r = user;
	r->page.run_seconds = r->report.seconds;
	page_look(&r->page, look);
}

static int make_job(const settings *s, recon *r)
{
	tomos_job *job = &r->scan.job;
	int code;
	DO(job_make(s, &r->scan));
	r->device = s->device;
	if (strncmp(s->backend.backend, "cpu", 3) == 0)
		r->device.memory = 0; /* --memory is the host's then */
	r->report.bytes = sizeof r->report;
	job->output = s->output.output;
	job->method = s->recon.method;
	job->device = &r->device;
	job->grid = &s->grid;
	job->analytic = &s->analytic;
	job->file = &s->file;
	job->run = &s->run;
	job->command = s->line;
	job->recipe = r->recipe;
	job->compare = s->recon.compare;
	job->report = &r->report;
	job->comm = ranks_comm();
	if (s->recon.report[0]) {
		job->look = show_run;
		job->user = r;
	}
	if (is_iterative(s->recon.method))
		DO(iterative_job(s, r));
done:
	return code;
}

/* ---- the report ------------------------------------------------------------------------------ */

static void say_iterations(const settings *s, const recon *r)
{
	const tomos_run_report *p = &r->report;
	if (p->iterations == 0)
		return;
	say("%s: %lld iteration%s (%s%s), residual %.4g", s->recon.method, (long long)p->iterations,
		p->iterations == 1 ? "" : "s",
		strcmp(p->ended, "iterations") == 0 ? "all" : p->ended,
		p->iterations == p->before ? "; of the checkpoint, nothing was left to do" : "",
		p->residual);
	if (!isnan(p->error))
		say(", error %.4g, least %.4g after %lld", p->error, history_least(&r->history),
			(long long)p->best);
	say("\n");
	if (strcmp(p->ended, "accuracy") == 0)
		note("the iteration ended because --normal fourier cannot tell smaller "
		     "residuals from rounding; --normal direct can");
	if (p->before > s->algebraic.iterations)
		note("the checkpoint has %lld iterations, more than the %lld of "
		     "--iterations: the volume has them all",
			(long long)p->before, (long long)s->algebraic.iterations);
}

static void say_stages(const tomos_run_report *r)
{
	const tomos_prep_report *p = &r->prep;
	if (p->repaired || p->raised || p->zingers || p->stripes || p->views)
		say("repaired  %lld values without light or not finite, %lld raised to the floor, "
		    "%lld zingers, %lld stripes, %lld bad view%s\n",
			(long long)p->repaired, (long long)p->raised, (long long)p->zingers,
			(long long)p->stripes, (long long)p->views, p->views == 1 ? "" : "s");
	if (r->cut)
		say("cut off   %lld values beyond the window\n", (long long)r->cut);
	if (r->compute_seconds > 0)
		say("done      %lld slice%s in %.2f s: read %.3g MB in %.2f s, computed in %.2f s "
		    "(%.3g GU/s), wrote %.3g MB in %.2f s\n",
			(long long)r->slices, r->slices == 1 ? "" : "s", r->seconds,
			r->read_bytes * 1e-6, r->read_seconds, r->compute_seconds,
			r->updates * 1e-9 / r->compute_seconds, r->written_bytes * 1e-6,
			r->write_seconds);
}

/* The projector's kernels are the same in all slabs; a stored matrix has none. */
static void say_kernels(const settings *s, const tomos_run_report *r)
{
	static const char reference[] = "the reference kernel";
	if (s->stored.stored[0] || s->stored.matrix[0])
		say("kernels   none, the matrix is stored\n");
	else if (r->iterations > 0)
		say("kernels   forward %s, back %s\n", r->forward[0] ? r->forward : reference,
			r->back[0] ? r->back : reference);
	else
		say("kernels   back %s\n", r->back[0] ? r->back : reference);
}

/* The stages overlap, so the longest one sets the duration. */
static void say_timing(const tomos_run_report *r)
{
	const char *name = tomos_stage_names();
	say("%-12s %8s %10s %11s %8s\n", "stage", "busy", "amount", "rate", "of wall");
	say("%-12s %6.2f s %10s %11s %6.0f %%\n", "start", r->start_seconds, "", "",
		100 * r->start_seconds / r->seconds);
	for (int i = 0; i < TOMOS_STAGES; i++) {
		int length = (int)strcspn(name, "|");
		double seconds = r->stage_seconds[i], bytes = r->stage_bytes[i];
		if (seconds > 0)
			say("%-12.*s %6.2f s %7.0f MB %6.3g GB/s %6.0f %%%s\n", length, name,
				seconds, bytes * 1e-6, bytes * 1e-9 / seconds,
				100 * seconds / r->seconds, i == r->limiting ? "  longest" : "");
		name += length + (name[length] != 0);
	}
	say("%-12s %6.2f s\n", "wall", r->seconds);
}

static void say_report(const settings *s, const recon *r)
{
	say_iterations(s, r);
	say_stages(&r->report);
	if (r->report.ranks > 1 && !s->run.dry_run)
		say("sent      %.6g MB between %lld ranks; read from shared memory: %.6g MB\n",
			r->report.sent_bytes * 1e-6, (long long)r->report.ranks,
			r->report.shared_bytes * 1e-6);
	if (s->recon.timing && r->report.seconds > 0 && !s->run.dry_run)
		say_timing(&r->report);
	if (s->recon.verbose && !s->run.dry_run)
		say_kernels(s, &r->report);
	if (r->report.compared)
		difference_say(&r->report.difference);
}

/* Whether a run that began without checkpoints has left one: FILE, or FILE.FIRST-LAST of a slab. */
static bool has_checkpoint(const settings *s)
{
	const char *path = s->algebraic.checkpoint;
	char pattern[2 * PATH_MAX];
	size_t used = 0;
	glob_t found;
	for (; *path && used + 8 < sizeof pattern; path++) {
		pattern[used++] = '\\';
		pattern[used++] = *path;
	}
	if (used == 0 || *path)
		return false;
	pattern[used] = 0;
	bool one = access(s->algebraic.checkpoint, F_OK) == 0;
	snprintf(pattern + used, sizeof pattern - used, ".*-*");
	if (!one && glob(pattern, 0, NULL, &found) == 0) {
		one = found.gl_pathc > 0;
		globfree(&found);
	}
	return one;
}

/* A run that ended early: what it leaves for the next. */
static int run_ended(const settings *s, tomos_status status, const recon *r)
{
	bool kept = r->report.slices + r->report.resumed > 0;
	if (status == TOMOS_CANCELLED && r->report.complete) {
		progress_go_on();
		complain("%s%s", tomos_message(),
			s->algebraic.checkpoint[0]
				? ", and --resume --overwrite goes on from the checkpoint"
				: "");
		return INTERRUPTED;
	}
	if (status == TOMOS_CANCELLED && kept) {
		complain("interrupted; what was done is kept, and --resume goes on from there");
		return INTERRUPTED;
	}
	if (status == TOMOS_CANCELLED && has_checkpoint(s)) {
		complain("interrupted; no slice was written, but --resume goes on from the "
			 "checkpoint '%s'",
			s->algebraic.checkpoint);
		return INTERRUPTED;
	}
	int code = lib(status);
	if (code == FAILED && kept && r->report.complete)
		complain("the volume is complete");
	else if (code == FAILED && kept)
		complain("what was done is kept, and --resume goes on from there");
	return code;
}

/* Only after the volume is in its place: what fails here leaves it. */
static int write_history(const settings *s, const recon *r)
{
	int code;
	if (!is_iterative(s->recon.method) || s->run.dry_run || !ranks_print())
		return DONE;
	DO(history_plot(s, &r->history, s->recon.method, !isnan(r->report.error)));
	DO(history_write(s, &r->history));
done:
	return code;
}

static int reconstruct(const settings *s, recon *r)
{
	bool iterative = is_iterative(s->recon.method);
	int code;
	DO(reject_others(s));
	if (s->recon.report[0])
		DO(page_begin(&r->page, s));
	DO(make_job(s, r));
	progress_rates(iterative ? NULL : &r->report);
	tomos_status status = tomos_run(&r->scan.job, progress_shown());
	progress_rates(NULL);
	int ended = run_ended(s, status, r);
	if (ended == DONE || r->report.complete) {
		say_report(s, r);
		DO(write_history(s, r));
		if (s->recon.report[0] && ranks_print())
			DO(page_write(&r->page, &r->report, iterative ? &r->history : NULL));
		if (s->recon.sbatch[0])
			DO(sbatch_write(s, &r->report));
	}
	DO(ended);
done:
	return code;
}

/* Options of the method; a pixel that was not given is left to the scan. */
static bool in_force(const settings *s, int number, const tomos_option *row)
{
	const char *method = s->recon.method;
	switch (number) {
	case GROUP_algebraic:
		return is_iterative(method) && tomos_method_uses(method, row->name);
	case GROUP_projector:
	case GROUP_stored:
		return is_iterative(method);
	case GROUP_analytic:
		return !is_iterative(method);
	default:
		return number != GROUP_scan || strcmp(row->name, "pixel") != 0 ||
		       settings_given(s, GROUP_scan, "pixel");
	}
}

int cmd_recon(const settings *s)
{
	recon r = {.recipe = NULL};
	int code;
	DO(recipe_text(s, command_find("recon"), in_force, &r.recipe));
	DO(reconstruct(s, &r));
	DO(recipe_save(s, r.recipe));
done:
	history_free(&r.history);
	page_free(&r.page);
	free(r.recipe);
	job_free(&r.scan);
	return code;
}
