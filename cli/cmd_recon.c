/* tomos recon: a volume from projections. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli.h"

#define RESULT "the reconstruction"

typedef struct recon_job {
	tomos_backend *backend;
	tomos_device_options device;
	tomos_geometry *views; /* of --views-file */
	tomos_prepared *prepared;
	const tomos_geometry *scan; /* its geometry */
	tomos_grid grid;
	int64_t first_slice; /* its number */
	tomos_array data, volume, truth;
	tomos_grid truth_grid; /* n[0] 0: its file says none */
	tomos_history history;
	int64_t before; /* iterations of the checkpoint that it goes on from */
	char *recipe;   /* all options in force */
	bool with_truth;
	bool stopped; /* by Ctrl-C, with a whole iterate in the volume */
} recon_job;

static bool is_algebraic(const char *method)
{
	return tomos_method_help(method)[0] != 0;
}

/* An algebraic method's options that this one has no use for. */
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
	return DONE;
}

/* Options of the methods not chosen are rejected: nobody should believe that they did something. */
static int reject_others(const settings *s, const char *method)
{
	char why[64];
	int code;
	snprintf(why, sizeof why, "with --method %s", method);
	if (is_algebraic(method)) {
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

static int history_new(tomos_history *h, int64_t iterations)
{
	h->room = iterations < 0 ? 0 : iterations < 100000 ? iterations : 100000;
	h->residual = malloc((size_t)(h->room + 1) * sizeof *h->residual);
	h->error = malloc((size_t)(h->room + 1) * sizeof *h->error);
	return h->residual && h->error ? DONE : failed("no memory for the history");
}

static void history_free(tomos_history *h)
{
	free(h->residual);
	free(h->error);
}

static int64_t history_shown(const tomos_history *h)
{
	return h->count < h->room ? h->count : h->room;
}

static void history_say(const recon_job *j, const char *method)
{
	const tomos_history *h = &j->history;
	int64_t last = history_shown(h) - 1;
	if (last < 0)
		return;
	say("%s: %lld iteration%s (%s%s), residual %.4g", method, (long long)h->count,
		h->count == 1 ? "" : "s", strcmp(h->ended, "iterations") == 0 ? "all" : h->ended,
		h->count == j->before ? "; of the checkpoint, nothing was left to do" : "",
		h->residual[last]);
	if (j->with_truth)
		say(", error %.4g, least %.4g after %lld", h->error[last],
			h->best > 0 && h->best <= h->room ? h->error[h->best - 1] : NAN,
			(long long)h->best);
	say("\n");
}

/* The numbers as text: iteration, residual, error. */
static int history_write(const settings *s, const tomos_history *h)
{
	const char *path = s->recon.history;
	FILE *file = path[0] ? fopen(path, s->file.overwrite ? "w" : "wx") : NULL;
	if (!path[0])
		return DONE;
	if (!file)
		return failed("'%s' cannot be written: %s", path, strerror(errno));
	fprintf(file, "iteration,residual,error\n");
	for (int64_t i = 0; i < history_shown(h); i++)
		fprintf(file, "%lld,%.9g,%.9g\n", (long long)(i + 1), h->residual[i], h->error[i]);
	if (fclose(file) != 0)
		return failed("'%s' cannot be written: %s", path, strerror(errno));
	return DONE;
}

static int history_plot(const settings *s, const tomos_history *h, const char *method, bool truth)
{
	int64_t count = history_shown(h);
	const curve curves[2] = {{"residual", h->residual, count}, {"error", h->error, count}};
	const plot p = {method, curves, truth ? 2 : 1, NULL, NULL};
	if (!s->recon.plot[0] || count == 0)
		return DONE;
	return plot_write(s->recon.plot, &p, &s->file);
}

/* The start image goes where the result will be. */
static int load_start(const settings *s, recon_job *j)
{
	const char *path = s->recon.start;
	tomos_array start = {0};
	tomos_grid grid;
	char text[96], wanted[96];
	int code;
	if (!path[0])
		return DONE;
	DO(load_volume(s, path, &start, &grid));
	shape_text(start.shape, TOMOS_VOLUME, text);
	shape_text(j->volume.shape, TOMOS_VOLUME, wanted);
	if (memcmp(start.shape, j->volume.shape, sizeof start.shape) != 0)
		DO(failed("'%s' is %s, but the reconstruction is %s", path, text, wanted));
	array_free(&j->volume);
	j->volume = start;
	return DONE;
done:
	array_free(&start);
	return code;
}

static void warn_grid(const tomos_array *array, const tomos_grid *grid)
{
	const file_array *file = (const file_array *)array;
	if (array)
		grids_warn(file->path, &file->grid, RESULT, grid);
}

/* A sinogram of weights has the shape of a sinogram of data. */
static int load_arrays(const settings *s, recon_job *j, tomos_algebraic_options *o)
{
	int code;
	DO(arrays_load(s, GROUP_algebraic));
	if (o->ray_weights) {
		file_array *weights = (file_array *)o->ray_weights;
		DO(fit_views(weights->path, j->scan, &weights->array));
	}
	warn_grid(o->truth, &j->grid);
	warn_grid(o->mask, &j->grid);
	if (!o->truth && j->truth.data)
		o->truth = &j->truth;
	DO(load_start(s, j));
	DO(history_new(&j->history, o->iterations > j->before ? o->iterations : j->before));
	o->history = &j->history;
done:
	return code;
}

/* Ctrl-C after an iteration at least ends the work, not the program: the iterate is written. */
static int heard(recon_job *j, tomos_status status)
{
	j->stopped = status == TOMOS_CANCELLED && j->history.count > 0;
	if (!j->stopped)
		return lib(status);
	progress_go_on();
	return DONE;
}

static int recon_algebraic(const settings *s, recon_job *j, const char *method)
{
	tomos_algebraic_options o = s->algebraic;
	tomos_op *op = NULL;
	int code;
	DO(load_arrays(s, j, &o));
	DO(operator_make(s, j->backend, &j->grid, j->scan, &op));
	DO(heard(j, tomos_reconstruct(op, method, &j->data, &j->volume, &o, progress_shown())));
	j->with_truth = o.truth != NULL;
	history_say(j, method);
	if (j->before > s->algebraic.iterations)
		complain("the checkpoint has %lld iterations, --iterations are %lld: more than "
			 "asked for",
			(long long)j->before, (long long)s->algebraic.iterations);
done:
	tomos_op_free(op);
	arrays_free(s, GROUP_algebraic);
	return code;
}

/* Reads the truth before the work, so that one of another shape is rejected in time. */
static int truth_load(const settings *s, const int64_t shape[3], recon_job *j)
{
	const char *path = s->recon.compare;
	char text[96], wanted[96];
	tomos_file *file = NULL;
	tomos_file_info info;
	int code;
	if (!path[0])
		return DONE;
	DO(lib(tomos_file_open(&file, path, NULL)));
	DO(lib(tomos_file_describe(file, &info)));
	shape_text(info.shape, TOMOS_VOLUME, text);
	shape_text(shape, TOMOS_VOLUME, wanted);
	if (memcmp(info.shape, shape, sizeof info.shape) != 0)
		DO(failed("'%s' is %s, but the reconstruction is %s", path, text, wanted));
	DO(file_own_grid(file, &j->truth_grid));
	DO(file_read_all(file, path, &j->truth));
done:
	tomos_file_close(file);
	return code;
}

static int put_texts(const settings *s, const recon_job *j, tomos_file *file)
{
	int code;
	DO(lib(tomos_file_set_text(file, "version", tomos_version())));
	DO(lib(tomos_file_set_text(file, "method", s->recon.method)));
	DO(lib(tomos_file_set_text(file, "scan", s->operands[0])));
	DO(lib(tomos_file_set_text(file, "command", s->line)));
	DO(lib(tomos_file_set_text(file, "recipe", j->recipe)));
done:
	return code;
}

static int recon_finish(const settings *s, recon_job *j, output_file *out)
{
	tomos_difference d;
	int code;
	array_free(&j->data);
	DO(output_range(out, &j->volume));
	DO(put_texts(s, j, out->file));
	DO(output_write(out, &j->volume, &j->grid, NULL));
	if (j->truth.data)
		DO(difference_print(&j->truth, &j->volume, &d));
	if (j->stopped)
		complain("interrupted after %lld iteration%s; '%s' is the last one%s",
			(long long)j->history.count, j->history.count == 1 ? "" : "s",
			s->output.output,
			s->algebraic.checkpoint[0]
				? ", and --resume --overwrite goes on from the checkpoint"
				: "");
done:
	return code;
}

/* ---- from file to file -------------------------------------------------------------------- */

static void say_line(void *user, const char *line)
{
	(void)user;
	progress_clear();
	if (strncmp(line, "warning", 7) == 0)
		note("%s\n", line);
	else
		say("%s\n", line);
}

/* Options that describe the scan; a pixel that nobody named is the file's. */
static tomos_scan_options job_scan(const settings *s)
{
	tomos_scan_options o = s->scan;
	if (!settings_given(s, GROUP_scan, "pixel"))
		o.pixel = 0;
	return o;
}

/* Where neither the scan nor the person says how the rays run, nobody should find out by the result. */
static void note_geometry(const settings *s, const tomos_scan_info *info)
{
	if (info->has_geometry || s->views.views_file[0] ||
		settings_given(s, GROUP_scan, "geometry"))
		return;
	note("note: no geometry in '%s': parallel beam assumed; --geometry fan or cone with "
	     "--source-axis and --source-detector if not\n",
		s->operands[0]);
}

/* Views from a file, for which the size of the detector is needed where that is text. Options that
 * contradict these, or what the scan says itself, are rejected. */
static int job_views(const settings *s, tomos_geometry **views)
{
	tomos_scan *scan = NULL;
	tomos_scan_info info;
	int code;
	DO(lib(tomos_scan_open(&scan, s->operands[0], &s->source)));
	DO(lib(tomos_scan_describe(scan, &info)));
	DO(scan_options_check(s, &info));
	note_geometry(s, &info);
	const int64_t shape[3] = {info.views, info.rows, info.columns};
	if (s->views.views_file[0])
		DO(load_views_of(s, shape, views));
done:
	tomos_scan_close(scan);
	return code;
}

static tomos_job job_make(const settings *s, const recon_job *j, const tomos_scan_options *scan)
{
	return (tomos_job){.bytes = sizeof(tomos_job),
		.scan = s->operands[0],
		.output = s->output.output,
		.method = s->recon.method,
		.backend = s->backend.backend,
		.device = &j->device,
		.source = &s->source,
		.geometry = scan,
		.views = j->views,
		.prep = &s->prep,
		.axis = &s->axis,
		.grid = &s->grid,
		.analytic = &s->analytic,
		.file = &s->file,
		.run = &s->run,
		.command = s->line,
		.recipe = j->recipe,
		.say = say_line};
}

static void say_report(const tomos_run_report *r)
{
	const tomos_prep_report *p = &r->prep;
	if (p->repaired || p->raised || p->zingers || p->stripes || p->views)
		say("repaired  %lld values without light or not finite, %lld raised to the floor, "
		    "%lld zingers, "
		    "%lld stripes, %lld bad views\n",
			(long long)p->repaired, (long long)p->raised, (long long)p->zingers,
			(long long)p->stripes, (long long)p->views);
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

/* With a truth to compare with, its shape is checked before the work. */
static int check_truth(const settings *s, recon_job *j, tomos_job job)
{
	tomos_run_options run = s->run;
	tomos_run_report report = {.bytes = sizeof report};
	int code;
	if (!s->recon.compare[0])
		return DONE;
	run.dry_run = 1;
	job.run = &run;
	job.say = NULL;
	job.report = &report;
	DO(lib(tomos_run(&job, progress_silent())));
	DO(truth_load(s, report.shape, j));
done:
	return code;
}

static int compare_output(const settings *s, recon_job *j)
{
	tomos_file *file = NULL;
	tomos_difference d;
	int code = DONE;
	if (!j->truth.data || s->run.dry_run)
		return DONE;
	if (!s->output.output[0])
		DO(wrong_usage("--compare needs an output; name it with -o FILE"));
	DO(lib(tomos_file_open(&file, s->output.output, NULL)));
	DO(file_own_grid(file, &j->grid));
	grids_warn(s->recon.compare, &j->truth_grid, RESULT, &j->grid);
	DO(file_read_all(file, s->output.output, &j->volume));
	DO(difference_print(&j->truth, &j->volume, &d));
done:
	tomos_file_close(file);
	return code;
}

/* A run that ended early says what it leaves for the next. */
static int run_ended(tomos_status status, const tomos_run_report *r)
{
	bool kept = r->slices + r->resumed > 0;
	if (status == TOMOS_CANCELLED && kept) {
		complain("interrupted; what was done is kept, and --resume goes on from there");
		return INTERRUPTED;
	}
	int code = lib(status);
	if (code == FAILED && kept)
		complain("what was done is kept, and --resume goes on from there");
	return code;
}

static int recon_analytic(const settings *s, recon_job *j)
{
	tomos_scan_options scan = job_scan(s);
	tomos_run_report report = {.bytes = sizeof report};
	int code;
	DO(reject_others(s, s->recon.method[0] ? s->recon.method : "fbp"));
	DO(job_views(s, &j->views));
	tomos_job job = job_make(s, j, &scan);
	job.report = &report;
	DO(check_truth(s, j, job));
	progress_rates(&report);
	DO(run_ended(tomos_run(&job, progress_shown()), &report));
	say_report(&report);
	DO(compare_output(s, j));
done:
	progress_rates(NULL);
	return code;
}

/* ---- algebraic methods: all in memory ----------------------------------------------------- */

/* The host's memory is not a device's, and the processor has no other. */
static tomos_device_options job_device(const settings *s)
{
	tomos_device_options o = s->device;
	if (strncmp(s->backend.backend, "cpu", 3) == 0)
		o.memory = 0;
	return o;
}

/* On the processor all is in the host's memory, with as much again for what a method keeps at least. */
static int check_memory(const settings *s, const recon_job *j)
{
	double data = (double)tomos_geometry_count(j->scan) * (double)tomos_geometry_rows(j->scan) *
		      (double)tomos_geometry_columns(j->scan);
	double voxels = (double)j->grid.n[0] * (double)j->grid.n[1] * (double)j->grid.n[2];
	double needed = 2 * sizeof(float) * (data + voxels);
	if (s->run.memory == 0 || needed <= (double)s->run.memory ||
		strncmp(tomos_backend_describe(j->backend), "cpu", 3) != 0)
		return DONE;
	return failed("--memory: %.4g MiB are too few: %s needs the projections and the volume "
		      "twice, %.4g MiB at least; --rows FIRST:END does some slices at a time",
		(double)s->run.memory / (1 << 20), s->recon.method, needed / (1 << 20));
}

static int open_prepared(const settings *s, recon_job *j)
{
	tomos_scan_options scan = job_scan(s);
	int code;
	DO(job_views(s, &j->views));
	tomos_job job = job_make(s, j, &scan);
	DO(lib(tomos_prepared_open(&j->prepared, &job, progress_shown())));
	j->scan = tomos_prepared_geometry(j->prepared);
	if (tomos_prepared_note(j->prepared))
		say("%s\n", tomos_prepared_note(j->prepared));
	DO(lib(tomos_prepared_slices(
		j->prepared, s->run.rows, &s->grid, &j->grid, &j->first_slice)));
done:
	return code;
}

static int read_prepared(const settings *s, recon_job *j)
{
	int code;
	const int64_t shape[3] = {tomos_geometry_count(j->scan), tomos_geometry_rows(j->scan),
		tomos_geometry_columns(j->scan)};
	DO(array_new(&j->data, shape, "the projections"));
	DO(lib(tomos_prepared_read(
		j->prepared, 0, shape[1], j->data.data, NULL, progress_shown())));
	if (lib(tomos_array_check(&j->data, s->operands[0])) != DONE)
		DO(FAILED); /* what a file holds is no fault of the words typed */
done:
	return code;
}

/* Before the work: no other file is taken for a checkpoint, and none that cannot be gone on from. */
static int look_at_checkpoint(const settings *s, recon_job *j)
{
	const char *path = s->algebraic.checkpoint;
	tomos_checkpoint_info info;
	if (!path[0] || access(path, F_OK) != 0)
		return DONE;
	tomos_status status = tomos_checkpoint_describe(path, &info);
	if (!info.found && status == TOMOS_OK)
		return failed("'%s' exists and is no checkpoint; name another file", path);
	if (!s->algebraic.resume && !s->file.overwrite)
		return failed("'%s' is the checkpoint of an earlier run: --resume goes on from it, "
			      "--overwrite begins again",
			path);
	if (!s->algebraic.resume)
		return DONE;
	j->before = info.iterations;
	return lib(status);
}

static int recon_whole(const settings *s, recon_job *j, const char *method)
{
	output_file out = {.file = NULL};
	int code;
	DO(reject_others(s, method));
	if (!s->output.output[0])
		DO(wrong_usage("no output; name it with -o FILE"));
	DO(look_at_checkpoint(s, j));
	DO(open_prepared(s, j));
	DO(lib(tomos_backend_open_with(&j->backend, s->backend.backend, &j->device)));
	DO(check_memory(s, j));
	DO(read_prepared(s, j));
	const int64_t shape[3] = {j->grid.n[2], j->grid.n[1], j->grid.n[0]};
	DO(truth_load(s, shape, j));
	grids_warn(s->recon.compare, &j->truth_grid, RESULT, &j->grid);
	DO(array_new(&j->volume, shape, "the volume"));
	tomos_file_options options = s->file;
	if (options.first_number < 0 && s->folder) /* other files have no numbers */
		options.first_number = j->first_slice;
	DO(output_open(&out, s->output.output, &options, TOMOS_VOLUME, shape));
	say("%s on %s\n", method, tomos_backend_describe(j->backend));
	DO(recon_algebraic(s, j, method));
	DO(recon_finish(s, j, &out));
	/* Only now: what fails here leaves the volume. */
	DO(history_plot(s, &j->history, method, j->with_truth));
	DO(history_write(s, &j->history));
	if (j->stopped)
		DO(INTERRUPTED);
done:
	output_close(&out);
	return code;
}

/* Options of the method at hand; a pixel that nobody named is left to the scan. */
static bool in_force(const settings *s, int number, const tomos_option *row)
{
	const char *method = s->recon.method;
	switch (number) {
	case GROUP_algebraic:
		return is_algebraic(method) && tomos_method_uses(method, row->name);
	case GROUP_projector:
	case GROUP_stored:
		return is_algebraic(method);
	case GROUP_analytic:
		return !is_algebraic(method);
	default:
		return number != GROUP_scan || strcmp(row->name, "pixel") != 0 ||
		       settings_given(s, GROUP_scan, "pixel");
	}
}

int cmd_recon(const settings *s)
{
	recon_job j = {.device = job_device(s)};
	const char *method = s->recon.method;
	int code;
	DO(recipe_text(s, command_find("recon"), in_force, &j.recipe));
	DO(is_algebraic(method) ? recon_whole(s, &j, method) : recon_analytic(s, &j));
	DO(recipe_save(s, j.recipe));
done:
	array_free(&j.data);
	array_free(&j.volume);
	array_free(&j.truth);
	history_free(&j.history);
	free(j.recipe);
	tomos_geometry_free(j.views);
	tomos_prepared_close(j.prepared);
	tomos_backend_close(j.backend);
	return code;
}
