/* tomos bench --survey: speed of each projector in both directions over many geometries. The cases
 * of a family are printed together, each with its rate relative to the fastest one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

#define ENOUGH 1.0 /* seconds of timed runs of a case, whatever --repeat says */

enum { MODELS = 3, CASES = 2 * MODELS };

typedef struct survey_case {
	const survey_row *row;
	const char *model;
	bool back;
	timing t;
} survey_case;

/* Arrays on the device, kept while the shape is the same; results have arrays of their own. */
typedef struct pair {
	tomos_array in, out;
} pair;

typedef struct survey {
	const settings *s;
	tomos_backend *backend;
	double scale;
	const survey_row **rows; /* families one after the other */
	int row_count;
	survey_case *cases;
	int case_count;
	pair volume, projections;
} survey;

/* ---- measuring ----------------------------------------------------------------------------- */

static bool has_shape(const tomos_array *array, const int64_t n[3])
{
	return array->data && memcmp(array->shape, n, 3 * sizeof *n) == 0;
}

static int pair_fit(survey *v, pair *p, const int64_t n[3], const char *what)
{
	tomos_array host = {.data = NULL};
	int code;
	if (has_shape(&p->in, n))
		return DONE;
	tomos_array_destroy(&p->in, v->backend);
	tomos_array_destroy(&p->out, v->backend);
	DO(array_new(&host, n, what));
	bench_fill(&host);
	DO(lib(tomos_array_create(&p->in, v->backend, n[0], n[1], n[2])));
	DO(lib(tomos_array_create(&p->out, v->backend, n[0], n[1], n[2])));
	DO(lib(tomos_array_copy(v->backend, &host, &p->in)));
done:
	array_free(&host);
	return code;
}

static int case_once(const survey *v, const survey_case *c, const tomos_op *op, double *time)
{
	double start = seconds();
	int code = lib(c->back ? tomos_op_adjoint(op, &v->projections.in, &v->volume.out)
			       : tomos_op_forward(op, &v->volume.in, &v->projections.out));
	*time = seconds() - start;
	return code;
}

/* The first run, which fills caches, counts only if it takes long. */
static int case_run(const survey *v, survey_case *c, const tomos_op *op, double updates)
{
	double *times = malloc((size_t)v->s->bench.repeat * sizeof *times), spent = 0;
	int count = 0, code = DONE;
	if (!times)
		return failed("no memory for %lld times", (long long)v->s->bench.repeat);
	DO(case_once(v, c, op, &times[0]));
	if (times[0] > ENOUGH)
		count = 1;
	while (count < v->s->bench.repeat && spent < ENOUGH && times[0] <= ENOUGH) {
		DO(case_once(v, c, op, &times[count]));
		spent += times[count++];
	}
	timing_of(times, count, updates, &c->t);
	c->t.rate = 1e-9 * updates / c->t.least;
	snprintf(c->t.kernel, sizeof c->t.kernel, "%s", tomos_backend_kernel(v->backend));
done:
	free(times);
	return code;
}

static int model_run(survey *v, const survey_row *row, const char *model, const tomos_grid *grid,
	const tomos_geometry *scan)
{
	const char *direction = v->s->bench.direction;
	tomos_projector_options o = v->s->projector;
	tomos_op *op = NULL;
	int code;
	double updates = (double)grid->n[0] * (double)grid->n[1] * (double)grid->n[2] *
			 (double)tomos_geometry_count(scan);
	o.forward = model;
	o.back = "";
	DO(lib(tomos_op_projector(&op, v->backend, grid, scan, &o)));
	for (int back = 0; back < 2; back++) {
		survey_case *c = &v->cases[v->case_count];
		if (strcmp(direction, back ? "forward" : "back") == 0)
			continue;
		*c = (survey_case){.row = row, .model = model, .back = back};
		DO(case_run(v, c, op, updates));
		v->case_count++;
	}
done:
	tomos_op_free(op);
	return code;
}

static int row_run(survey *v, const survey_row *row)
{
	static const char *const models[MODELS] = {"joseph", "voxel", "footprint"};
	const char *only = v->s->bench.projector;
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	int code;
	DO(survey_get(row, v->scale, &grid, &scan));
	const int64_t x[3] = {grid.n[2], grid.n[1], grid.n[0]};
	const int64_t y[3] = {tomos_geometry_count(scan), tomos_geometry_rows(scan),
		tomos_geometry_columns(scan)};
	DO(pair_fit(v, &v->volume, x, "the volume"));
	DO(pair_fit(v, &v->projections, y, "the projections"));
	for (int i = 0; i < (only[0] ? 1 : MODELS); i++)
		DO(model_run(v, row, only[0] ? only : models[i], &grid, scan));
done:
	tomos_geometry_free(scan);
	return code;
}

/* ---- output -------------------------------------------------------------------------------- */

/* Rate relative to the fastest case of the same family, projector and direction. */
static double relative(const survey *v, const survey_case *c)
{
	double best = c->t.rate;
	for (const survey_case *k = v->cases; k < v->cases + v->case_count; k++)
		if (strcmp(k->row->family, c->row->family) == 0 &&
			strcmp(k->model, c->model) == 0 && k->back == c->back && k->t.rate > best)
			best = k->t.rate;
	return c->t.rate / best;
}

static const char *kernel_of(const survey_case *c)
{
	return c->t.kernel[0] ? c->t.kernel : "reference";
}

static void print_cases(const survey *v, int first)
{
	for (int i = first; i < v->case_count; i++) {
		const survey_case *c = &v->cases[i];
		printf("%-24s %-9s %-7s %10.2f ms %9.4g GU/s %6.3f %s\n", c->row->name, c->model,
			c->back ? "back" : "forward", 1e3 * c->t.least, c->t.rate, relative(v, c),
			kernel_of(c));
	}
	fflush(stdout);
}

static void json_cases(FILE *file, const void *user)
{
	const survey *v = user;
	fprintf(file, "\"scale\": %g,\n\"cases\": [", v->scale);
	for (const survey_case *c = v->cases; c < v->cases + v->case_count; c++)
		fprintf(file,
			"%s\n{\"name\": \"%s\", \"family\": \"%s\", \"projector\": \"%s\", "
			"\"direction\": \"%s\", \"median_s\": %.6g, \"min_s\": %.6g, "
			"\"max_s\": %.6g, \"gups\": %.6g, \"relative\": %.4g, \"kernel\": \"%s\"}",
			c == v->cases ? "" : ",", c->row->name, c->row->family, c->model,
			c->back ? "back" : "forward", c->t.median, c->t.least, c->t.most, c->t.rate,
			relative(v, c), kernel_of(c));
	fprintf(file, "\n]\n");
}

static int run_rows(survey *v)
{
	int first = 0, code = DONE;
	printf("%-24s %-9s %-7s %13s %14s %6s kernel\n", "geometry", "projector", "", "time",
		"rate", "of best");
	for (int i = 0; i < v->row_count; i++) {
		DO(progress_step(v->rows[i]->name, i, v->row_count));
		DO(row_run(v, v->rows[i]));
		if (i + 1 < v->row_count && strcmp(v->rows[i]->family, v->rows[i + 1]->family) == 0)
			continue;
		progress_clear();
		print_cases(v, first);
		first = v->case_count;
	}
done:
	return code;
}

static int survey_run(survey *v)
{
	int code;
	DO(survey_choose(v->s, &v->rows, &v->row_count));
	v->cases = calloc((size_t)v->row_count * CASES, sizeof *v->cases);
	if (!v->cases) {
		code = failed("no memory for %d geometries", v->row_count);
		goto done;
	}
	DO(lib(tomos_backend_open_with(&v->backend, v->s->backend.backend, &v->s->device)));
	printf("%s\n", tomos_backend_describe(v->backend));
	v->scale = survey_scale(v->s->bench.scale, v->backend);
	DO(run_rows(v));
	DO(bench_json(v->s, tomos_backend_describe(v->backend), json_cases, v));
done:
	tomos_array_destroy(&v->volume.in, v->backend);
	tomos_array_destroy(&v->volume.out, v->backend);
	tomos_array_destroy(&v->projections.in, v->backend);
	tomos_array_destroy(&v->projections.out, v->backend);
	tomos_backend_close(v->backend);
	free(v->rows);
	free(v->cases);
	return code;
}

int bench_survey(const settings *s)
{
	survey v = {.s = s};
	int code = survey_check_scale(s->bench.scale);
	if (code != DONE)
		return code;
	if (s->bench.list)
		return survey_print();
	if (s->bench.geometries[0] && s->bench.json[0])
		return wrong_usage(
			"--json has no effect with --geometries, which does not measure");
	return s->bench.geometries[0] ? survey_save(s) : survey_run(&v);
}
