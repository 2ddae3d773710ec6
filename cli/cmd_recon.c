/* tomos recon: a volume from projections. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

typedef struct recon_job {
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_array data, volume, truth;
	tomos_history history;
	bool stopped; /* by Ctrl-C, with a whole iterate in the volume */
} recon_job;

static bool is_algebraic(const char *method)
{
	return tomos_method_help(method)[0] != 0;
}

static const char *recon_method(const settings *s, const tomos_geometry *scan)
{
	if (s->recon.method[0])
		return s->recon.method;
	return scan_point_source(scan) && tomos_geometry_rows(scan) > 1 ? "fdk" : "fbp";
}

/* An algebraic method's options that this one has no use for. */
static int refuse_unused(const settings *s, const char *method)
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

/* Options of the methods not chosen are refused: nobody should believe that they did something. */
static int refuse_others(const settings *s, const char *method)
{
	char why[64];
	int code;
	snprintf(why, sizeof why, "with --method %s", method);
	if (is_algebraic(method)) {
		DO(refuse_unused(s, method));
		return settings_refuse(s, GROUP_analytic, -1, why);
	}
	DO(settings_refuse(s, GROUP_algebraic, -1, why));
	DO(settings_refuse(s, GROUP_stored, -1, why));
	DO(settings_refuse(s, GROUP_projector, -1, why));
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
	h->room = iterations < 100000 ? iterations : 100000;
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

static void history_say(const tomos_history *h, const char *method, bool truth)
{
	int64_t last = history_shown(h) - 1;
	if (last < 0)
		return;
	say("%s: %lld iterations (%s), residual %.4g", method, (long long)h->count,
		strcmp(h->ended, "iterations") == 0 ? "all" : h->ended, h->residual[last]);
	if (truth)
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
	int code;
	if (!path[0])
		return DONE;
	DO(load_volume(s, path, &start, &grid));
	if (memcmp(start.shape, j->volume.shape, sizeof start.shape) != 0)
		DO(failed("'%s' has another shape than the reconstruction", path));
	array_free(&j->volume);
	j->volume = start;
	return DONE;
done:
	array_free(&start);
	return code;
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
	if (!o->truth && j->truth.data)
		o->truth = &j->truth;
	DO(load_start(s, j));
	DO(history_new(&j->history, o->iterations));
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
	DO(heard(j, tomos_reconstruct(op, method, &j->data, &j->volume, &o, progress_report())));
	history_say(&j->history, method, o.truth != NULL);
	DO(history_plot(s, &j->history, method, o.truth != NULL));
	DO(history_write(s, &j->history));
done:
	tomos_op_free(op);
	arrays_free(s, GROUP_algebraic);
	return code;
}

/* Limited angles are reconstructed, but nobody should trust the values unwarned. */
static int warn_of_gaps(const tomos_geometry *scan)
{
	double covered, needed, degrees = 180 / 3.14159265358979323846;
	int code = lib(tomos_geometry_cover(scan, &covered, &needed));
	if (code == DONE && covered < 0.99 * needed)
		note("warning: the views cover %.4g of %.4g degrees: values will be too low and "
		     "edges smeared; an algebraic method may do better\n",
			covered * degrees, needed * degrees);
	return code;
}

static int recon_run(const settings *s, recon_job *j, const char *method)
{
	if (is_algebraic(method))
		return recon_algebraic(s, j, method);
	int code = warn_of_gaps(j->scan);
	if (code != DONE)
		return code;
	return lib((strcmp(method, "fdk") == 0 ? tomos_fdk : tomos_fbp)(j->backend, &j->grid,
		j->scan, &j->data, &j->volume, &s->analytic, progress_report()));
}

/* Reads the truth before the work, so that one of another shape is refused in time. */
static int truth_load(const settings *s, const int64_t shape[3], tomos_array *truth)
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
	DO(file_read_all(file, path, truth));
done:
	tomos_file_close(file);
	return code;
}

static int recon_finish(const settings *s, recon_job *j, tomos_file *file)
{
	tomos_difference d;
	int code;
	array_free(&j->data);
	DO(output_write(file, s->output.output, &j->volume, &j->grid, NULL));
	if (j->truth.data)
		DO(difference_print(&j->truth, &j->volume, &d));
	if (j->stopped) {
		complain("interrupted after %lld iterations; '%s' is the last one",
			(long long)j->history.count, s->output.output);
		code = INTERRUPTED;
	}
done:
	return code;
}

int cmd_recon(const settings *s)
{
	recon_job j = {0};
	tomos_file *file = NULL;
	int code;
	DO(load_scan(s, s->operands[0], &j.data, &j.scan));
	const char *method = recon_method(s, j.scan);
	DO(refuse_others(s, method));
	DO(lib(tomos_grid_for(&j.grid, j.scan, &s->grid)));
	const int64_t shape[3] = {j.grid.n[2], j.grid.n[1], j.grid.n[0]};
	DO(truth_load(s, shape, &j.truth));
	DO(array_new(&j.volume, shape, "the volume"));
	DO(output_open(&file, s, TOMOS_VOLUME, shape));
	DO(lib(tomos_backend_open_with(&j.backend, s->backend.backend, &s->device)));
	say("%s on %s\n", method, tomos_backend_describe(j.backend));
	DO(recon_run(s, &j, method));
	DO(recon_finish(s, &j, file));
done:
	array_free(&j.data);
	array_free(&j.volume);
	array_free(&j.truth);
	history_free(&j.history);
	tomos_file_close(file);
	tomos_geometry_free(j.scan);
	tomos_backend_close(j.backend);
	return code;
}
