/* tomos align: shifts, and on request the roll, of each view, found from the projections. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plot.h"

enum { MOTIONS = 3 };

typedef struct alignment {
	tomos_array data;
	double *motions, *poses; /* [view][3], [view][6] */
	double *curves[MOTIONS]; /* columns, rows, degrees of each view */
	int64_t views;
} alignment;

static int alignment_new(alignment *a, const tomos_geometry *g)
{
	const int64_t shape[3] = {
		tomos_geometry_count(g), tomos_geometry_rows(g), tomos_geometry_columns(g)};
	size_t views = (size_t)shape[0];
	a->views = shape[0];
	a->motions = calloc(views, MOTIONS * sizeof *a->motions);
	a->poses = calloc(views, 6 * sizeof *a->poses);
	for (int n = 0; n < MOTIONS; n++)
		a->curves[n] = calloc(views, sizeof *a->curves[n]);
	if (!a->motions || !a->poses || !a->curves[0] || !a->curves[1] || !a->curves[2])
		return failed("no memory for %lld poses", (long long)shape[0]);
	return array_new(&a->data, shape, "the projections");
}

static void alignment_free(alignment *a)
{
	array_free(&a->data);
	free(a->motions);
	free(a->poses);
	for (int n = 0; n < MOTIONS; n++)
		free(a->curves[n]);
}

static double length(const double v[3])
{
	return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

/* Shifts in columns and rows of the detector: where the object is magnified, more than the motion
 * itself. */
static double magnified(const tomos_view *view)
{
	double way[3];
	if (view->src[3] == (int)TOMOS_PARALLEL)
		return 1;
	for (int i = 0; i < 3; i++)
		way[i] = view->det[i] - view->src[i];
	return length(way) / fmax(length(view->src), 1e-30);
}

/* Signs are those of --shift-x, --shift-y and --roll: a view that moves one way has its image
 * shifted the other way. */
static void set_curves(alignment *a, const tomos_geometry *g)
{
	const double degree = acos(-1) / 180;
	for (int64_t i = 0; i < a->views; i++) {
		const tomos_view *view = &tomos_geometry_list(g)[i];
		const double *motion = a->motions + MOTIONS * i;
		a->curves[0][i] = -motion[0] * magnified(view) / length(view->u);
		a->curves[1][i] = -motion[1] * magnified(view) / length(view->v);
		a->curves[2][i] = motion[2] / degree;
	}
}

static double rms(const double *values, int64_t count)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += values[i] * values[i];
	return sqrt(sum / (double)count);
}

static int write_table(const settings *s, const alignment *a)
{
	const char *path = s->motions.table;
	text_file table;
	if (!path[0])
		return DONE;
	if (text_begin(&table, path) != DONE)
		return FAILED;
	fprintf(table.lines, "view,shift-x,shift-y,roll\n");
	for (int64_t i = 0; i < a->views; i++)
		fprintf(table.lines, "%lld,%.6g,%.6g,%.6g\n", (long long)i, a->curves[0][i],
			a->curves[1][i], a->curves[2][i]);
	int code = text_end(&table, path, s->file.overwrite);
	if (code == DONE)
		say("wrote %s\n", path);
	return code;
}

static int write_plot(const settings *s, const alignment *a)
{
	const curve curves[MOTIONS] = {{"columns", a->curves[0], a->views},
		{"rows", a->curves[1], a->views}, {"roll (degrees)", a->curves[2], a->views}};
	const plot p = {.title = "motion of each view",
		.curves = curves,
		.across = "view",
		.from_zero = true,
		.up = s->align.fit_roll ? "pixels, degrees" : "pixels",
		.curve_count = s->align.fit_roll ? MOTIONS : MOTIONS - 1};
	if (!s->motions.motion_plot[0])
		return DONE;
	int code = plot_write(s->motions.motion_plot, &p, &s->file);
	if (code == DONE)
		say("wrote %s\n", s->motions.motion_plot);
	return code;
}

static int write_results(const settings *s, alignment *a, const tomos_geometry *g)
{
	tomos_geometry *moved = NULL;
	int code;
	set_curves(a, g);
	say("shifts of %.3g columns and %.3g rows rms", rms(a->curves[0], a->views),
		rms(a->curves[1], a->views));
	if (s->align.fit_roll)
		say(", roll of %.3g degrees rms", rms(a->curves[2], a->views));
	say("\n");
	DO(lib(tomos_geometry_move(&moved, g, a->poses)));
	DO(lib(tomos_geometry_write(moved, s->output.output, &s->file)));
	say("wrote %s: for tomos recon --views-file with an algebraic method, for instance "
	    "--method sirt; fbp and fdk need a circle\n",
		s->output.output);
	DO(write_table(s, a));
	DO(write_plot(s, a));
done:
	tomos_geometry_free(moved);
	return code;
}

/* The axis and the direction of rotation that motions are relative to, and what makes them
 * uncertain. */
static void say_given(const tomos_prepared *prepared, const alignment *a)
{
	if (!tomos_prepared_note(prepared)) /* which job_prepared has printed */
		say("axis and direction of rotation: as given\n");
	if (tomos_align_cut(&a->data))
		warn("the object goes on beyond the first or last row: parts of it move in and out "
		     "of view, and shifts along the rows are less certain");
}

static int align(const settings *s, tomos_prepared *prepared, tomos_backend *backend)
{
	const tomos_geometry *g = tomos_prepared_geometry(prepared);
	alignment a = {.views = 0};
	tomos_grid grid;
	int code;
	DO(lib(tomos_grid_for(&grid, g, &s->grid)));
	DO(alignment_new(&a, g));
	DO(lib(tomos_prepared_read(
		prepared, 0, a.data.shape[1], a.data.data, NULL, progress_shown())));
	progress_clear();
	say_given(prepared, &a);
	DO(lib(tomos_align(
		backend, &grid, g, &a.data, a.motions, a.poses, &s->align, progress_shown())));
	progress_clear();
	DO(write_results(s, &a, g));
done:
	alignment_free(&a);
	return code;
}

/* Before the computation: none of the files exists, unless they may be replaced. */
static int check_outputs(const settings *s)
{
	const char *paths[] = {s->output.output, s->motions.table, s->motions.motion_plot};
	const char *end = strrchr(s->output.output, '.');
	if (!end || (strcmp(end, ".json") != 0 && strcmp(end, ".txt") != 0))
		return wrong_usage(
			"-o: '%s' must end with .json or .txt: a list of views", s->output.output);
	for (int i = 0; i < COUNT(paths) && !s->file.overwrite; i++) {
		FILE *file = paths[i][0] ? fopen(paths[i], "r") : NULL;
		if (file) {
			fclose(file);
			return failed(
				"'%s' exists already; give --overwrite to replace it", paths[i]);
		}
	}
	return DONE;
}

int cmd_align(const settings *s)
{
	int code = check_outputs(s);
	return code == DONE ? job_prepared(s, false, align) : code;
}
