/* tomos tune: measures the kernels of a device, stores the fastest ones, and prints them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"

enum { CARD_SLICES = 128, CPU_SLICES = 16 };
enum { SURVEY_SECONDS = 4 }; /* for each geometry, unless --seconds is given */

/* Parallel rays over 180 degrees. */
static int parallel_scan(int64_t rows, int64_t columns, int64_t views, tomos_geometry **scan)
{
	tomos_scan_options o = tomos_scan_defaults();
	o.rows = rows;
	o.columns = columns;
	o.views = views;
	return lib(tomos_geometry_make(scan, &o));
}

static int64_t most_slices(const settings *s, const tomos_backend *backend)
{
	bool cpu = strncmp(tomos_backend_describe(backend), "cpu", 3) == 0;
	return s->tuned.slices > 0 ? s->tuned.slices : cpu ? CPU_SLICES : CARD_SLICES;
}

/* A scan of the sizes of the file, with a slab of its rows; or the views of the file, if it has
 * them. */
static int file_scan(const settings *s, const tomos_backend *backend, tomos_geometry **scan)
{
	tomos_scan *file = NULL;
	tomos_scan_info info = {.bytes = sizeof info};
	int64_t slices = most_slices(s, backend);
	int code;
	DO(lib(tomos_scan_open(&file, s->operands[0], &s->source)));
	DO(lib(tomos_scan_describe(file, &info)));
	if (info.has_geometry)
		DO(lib(tomos_scan_geometry(file, scan, NULL)));
	else
		DO(parallel_scan(
			info.rows < slices ? info.rows : slices, info.columns, info.views, scan));
done:
	tomos_scan_close(file);
	return code;
}

static int make_problem(
	const settings *s, const tomos_backend *backend, tomos_grid *grid, tomos_geometry **scan)
{
	const tuned_options *t = &s->tuned;
	int code;
	if (s->operand_count > 0) {
		DO(file_scan(s, backend, scan));
		return lib(tomos_grid_for(grid, *scan, NULL));
	}
	int64_t slices = most_slices(s, backend);
	DO(lib(tomos_grid_centred(grid, t->size, t->size, slices, 1)));
	DO(parallel_scan(slices, t->columns > 0 ? t->columns : t->size, t->views, scan));
done:
	return code;
}

static void print_machine(const tomos_machine *m)
{
	printf("model   %s\ndriver  %s\n", m->model, *m->driver ? m->driver : "-");
	for (int i = 0; i < TOMOS_RATES; i++)
		if (m->rates[i] > 0)
			printf("%-7s at most %.4g %s\n", tomos_rate_name((tomos_rate)i),
				1e-9 * m->rates[i], i <= TOMOS_RATE_CACHE ? "GB/s" : "G a second");
}

static void print_row(const tomos_tuned *r, const tomos_machine *m)
{
	tomos_rate part = TOMOS_RATES;
	double bound = tomos_tuned_bound(r, m, &part);
	printf("%-6s %-7s %-5s %-6s %5lld^2 %6lld %6lld %7lld %c %-15s %9.4g", r->projector,
		r->direction, r->data, r->rays, (long long)r->size, (long long)r->slices,
		(long long)r->views, (long long)r->columns, r->chosen && !r->unknown ? '*' : ' ',
		r->kernel, 1e-9 * r->rate);
	if (r->unknown)
		printf(" no kernel of this build, ignored\n");
	else if (bound > 0)
		printf(" %9.4g %5.1f %% %s%s\n", 1e-9 * bound, 100 * r->rate / bound,
			tomos_rate_name(part), r->coarse ? ", coarse" : "");
	else
		printf(" %9s %7s %s\n", "unknown", "-", r->coarse ? "coarse" : "");
}

static void print_heading(void)
{
	printf("%-27s %7s %6s %6s %7s   %-15s %9s %9s %7s by\n", "projection", "slice", "slices",
		"views", "columns", "kernel", "GU/s", "bound", "share");
}

static int print_rows(tomos_backend *backend, const tomos_tuned *rows, int64_t count)
{
	tomos_machine machine = {.bytes = sizeof machine};
	int code;
	DO(lib(tomos_backend_machine(backend, &machine)));
	print_machine(&machine);
	if (count == 0)
		printf("nothing was measured on this device: kernels are taken in a fixed order\n");
	else
		print_heading();
	for (int64_t i = 0; i < count; i++)
		print_row(&rows[i], &machine);
done:
	return code;
}

static bool file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* Prints the name of the file with the measurements, if there is one. */
static void print_file(const tomos_backend *backend)
{
	const char *wrong;
	char *path;
	if (tomos_tuned_file(backend, &path, &wrong) == TOMOS_OK)
		printf("file    %s%s\n", path, file_exists(path) ? "" : " (not there)");
	if (path && wrong)
		warn("'%s' cannot be used: %s; measure again", path, wrong);
	tomos_tuned_free(path);
}

static int show(tomos_backend *backend)
{
	tomos_tuned *rows = NULL;
	int64_t count;
	int code = lib(tomos_tuned_list(&rows, &count, backend));
	print_file(backend);
	if (code == DONE)
		code = print_rows(backend, rows, count);
	tomos_tuned_free(rows);
	return code;
}

static int forget(tomos_backend *backend)
{
	const char *wrong;
	char *path;
	int code;
	DO(lib(tomos_tuned_file(backend, &path, &wrong)));
	bool there = file_exists(path);
	DO(lib(tomos_tuned_forget(backend)));
	if (there)
		say("removed %s\n", path);
	else
		say("nothing to remove: there is no %s\n", path);
done:
	tomos_tuned_free(path);
	return code;
}

/* Saves once before measuring, so that a directory without write access is reported at once. */
static int tune(const settings *s, tomos_backend *backend)
{
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	tomos_tuned *rows = NULL;
	int64_t count = 0;
	char *path = NULL;
	int code;
	DO(make_problem(s, backend, &grid, &scan));
	DO(lib(tomos_tuned_keep(backend, NULL)));
	DO(lib(tomos_tune(&rows, &count, backend, &grid, scan, &s->tune, progress_shown())));
	progress_clear();
	DO(lib(tomos_tuned_keep(backend, &path)));
	DO(print_rows(backend, rows, count));
	say("wrote %s\n", path);
done:
	tomos_tuned_free(path);
	tomos_tuned_free(rows);
	tomos_geometry_free(scan);
	return code;
}

/* Measures one geometry of the survey. */
static int tune_row(const settings *s, tomos_backend *backend, const tomos_machine *machine,
	const survey_row *row)
{
	tomos_tune_options o = s->tune;
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	tomos_tuned *rows = NULL;
	int64_t count = 0;
	int code;
	if (!settings_given(s, GROUP_tune, "seconds"))
		o.seconds = SURVEY_SECONDS;
	DO(survey_get(row, survey_scale(s->tuned.scale, backend), &grid, &scan));
	tomos_status status = tomos_tune(&rows, &count, backend, &grid, scan, &o, progress_shown());
	progress_clear();
	if (status != TOMOS_UNSUPPORTED)
		DO(lib(status));
	printf("%s%s%s\n", row->name, count > 0 ? "" : ": ", count > 0 ? "" : tomos_message());
	for (int64_t i = 0; i < count; i++)
		print_row(&rows[i], machine);
	fflush(stdout);
done:
	tomos_tuned_free(rows);
	tomos_geometry_free(scan);
	return code;
}

/* Results are stored after each geometry, for the case that the rest is cancelled. */
static int tune_survey(const settings *s, tomos_backend *backend)
{
	tomos_machine machine = {.bytes = sizeof machine};
	const survey_row **rows = NULL;
	char *path = NULL;
	int count, code;
	DO(survey_choose(s, &rows, &count));
	DO(lib(tomos_tuned_keep(backend, NULL)));
	DO(lib(tomos_backend_machine(backend, &machine)));
	print_machine(&machine);
	print_heading();
	for (int i = 0; i < count; i++) {
		DO(tune_row(s, backend, &machine, rows[i]));
		tomos_tuned_free(path);
		path = NULL;
		DO(lib(tomos_tuned_keep(backend, &path)));
	}
	say("wrote %s\n", path);
done:
	tomos_tuned_free(path);
	free(rows);
	return code;
}

static int check_survey(const settings *s)
{
	static const char *const others[] = {
		"size", "views", "columns", "slices", "show", "forget"};
	for (int i = 0; i < COUNT(others); i++)
		if (settings_given(s, GROUP_tuned, others[i]))
			return wrong_usage("--%s has no effect with --survey", others[i]);
	return survey_check_scale(s->tuned.scale);
}

static int check(const settings *s)
{
	static const char *const sizes[] = {"size", "views", "columns", "slices"};
	if (s->tuned.survey)
		return check_survey(s);
	if (s->operand_count > 0 && !file_exists(s->operands[0])) {
		int code = survey_missing(s->operands[0]);
		if (code != DONE)
			return code;
	}
	if (s->operand_count > 1)
		return wrong_usage(
			"'%s' is one word too many: tomos tune takes one scan", s->operands[1]);
	if (s->tuned.show && s->tuned.forget)
		return wrong_usage("--show and --forget: give one of them");
	const char *how = s->tuned.show ? "with --show" : "with --forget";
	for (int i = 0; i < COUNT(sizes) && (s->tuned.show || s->tuned.forget); i++)
		if (settings_given(s, GROUP_tuned, sizes[i]))
			return wrong_usage("--%s has no effect %s", sizes[i], how);
	if (s->tuned.show || s->tuned.forget) {
		int code = settings_reject(s, GROUP_tune, -1, how);
		if (code != DONE)
			return code;
	}
	for (int i = 0; i < 3 && s->operand_count > 0; i++)
		if (settings_given(s, GROUP_tuned, sizes[i]))
			return wrong_usage(
				"--%s: the sizes are those of '%s'", sizes[i], s->operands[0]);
	if (s->tuned.slices < 0 || s->tuned.columns < 0)
		return wrong_usage("--slices and --columns must not be negative");
	return DONE;
}

int cmd_tune(const settings *s)
{
	tomos_backend *backend = NULL;
	int code;
	DO(check(s));
	DO(lib(tomos_backend_open(&backend, s->backend.backend)));
	printf("%s\n", tomos_backend_describe(backend));
	if (s->tuned.show)
		DO(show(backend));
	else if (s->tuned.forget)
		DO(forget(backend));
	else
		DO(s->tuned.survey ? tune_survey(s, backend) : tune(s, backend));
done:
	tomos_backend_close(backend);
	return code;
}
