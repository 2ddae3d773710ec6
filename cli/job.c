/* The job of the commands that work on a scan as measured: recon, prep and center. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "cli.h"

static int check_options(const settings *s, const tomos_scan *scan)
{
	const tomos_job job = {.bytes = sizeof job,
		.geometry = &s->scan,
		.prep = &s->prep,
		.axis_later = strcmp(message_command(), "center") == 0};
	const uint64_t given[3] = {settings_rows(s, GROUP_scan), settings_rows(s, GROUP_axis),
		settings_rows(s, GROUP_prep)};
	const char *path = s->views.views_file;
	char views[480];
	snprintf(views, sizeof views, "'%.400s'", path);
	int code = lib(tomos_job_check(&job, scan, path[0] ? views : NULL, given));
	return code == DONE ? needs_scan(s, scan) : code;
}

static bool is_scanner_name(const char *name)
{
	static const char *const endings[] = {".xtekct", ".log", ".pca", ".xml"};
	const char *dot = strrchr(name, '.');
	for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
		if (strcasecmp(dot, endings[i]) == 0)
			return true;
	return false;
}

void note_scanner(const char *views)
{
	char folder[4096], path[8192];
	struct stat file;
	struct dirent **list = NULL;
	snprintf(folder, sizeof folder, "%s", views);
	char *slash = strrchr(folder, '/');
	if (stat(views, &file) != 0 || !S_ISDIR(file.st_mode))
		snprintf(slash ? slash + 1 : folder, 2, "%s", slash ? "" : ".");
	int count = scandir(folder, &list, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		const char *name = list[i]->d_name;
		snprintf(path, sizeof path, "%s%s%s", folder,
			folder[strlen(folder) - 1] == '/' ? "" : "/", name);
		if (is_scanner_name(name) && file_of_scanner(path))
			note("'%s' is the file of a scanner: 'tomos %s %s' reads the geometry from "
			     "it",
				path, message_command(), path);
		free(list[i]);
	}
	free(list);
}

/* Neither the scan nor the command line describes the rays: what is assumed is printed. */
static void note_geometry(const settings *s, const tomos_scan_info *info)
{
	if (info->has_geometry || info->geometry[0] || s->views.views_file[0] ||
		settings_given(s, GROUP_scan, "geometry"))
		return;
	note("no geometry in '%s': parallel beam assumed; --geometry fan or cone with "
	     "--source-axis and --source-detector if not",
		s->operands[0]);
	note_scanner(s->operands[0]);
}

/* Rejects mm and the like where lengths are in pixels, as nothing gives their size. */
static int check_lengths(const settings *s, const tomos_scan_info *info)
{
	if (s->views.views_file[0])
		return DONE;
	if (info->has_geometry)
		return lengths_check(s, s->operands[0], info->length_unit);
	bool known = info->pixel > 0 || settings_given(s, GROUP_scan, "pixel");
	return known ? DONE : lengths_check(s, s->operands[0], NULL);
}

/* Options against what the scan says itself, and views from a file. */
static int look_at_scan(const settings *s, scan_job *j)
{
	tomos_scan *scan = NULL;
	int code;
	DO(lib(tomos_scan_open(&scan, s->operands[0], &s->source)));
	j->info.bytes = sizeof j->info;
	DO(lib(tomos_scan_describe(scan, &j->info)));
	DO(check_options(s, scan));
	DO(check_lengths(s, &j->info));
	const int64_t shape[3] = {j->info.views, j->info.rows, j->info.columns};
	if (s->views.views_file[0])
		DO(load_views_of(s, shape, &j->views));
done:
	tomos_scan_close(scan);
	j->info.kind = j->info.format = j->info.type = j->info.dataset = ""; /* were the scan's */
	j->info.length_unit = "";
	return code;
}

static void say_line(void *user, tomos_level level, const char *line)
{
	(void)user;
	message_line(level, line);
}

int job_make(const settings *s, scan_job *j)
{
	int code = look_at_scan(s, j);
	if (code != DONE)
		return code;
	j->scan = s->scan;
	if (!settings_given(s, GROUP_scan, "pixel"))
		j->scan.pixel = 0; /* the file's */
	j->job = (tomos_job){.bytes = sizeof j->job,
		.scan = s->operands[0],
		.source = &s->source,
		.geometry = &j->scan,
		.views = j->views,
		.prep = &s->prep,
		.axis = &s->axis,
		.backend = s->backend.backend,
		.say = say_line};
	if (strcmp(message_command(), "prep") != 0) /* which does not depend on the rays */
		note_geometry(s, &j->info);
	return DONE;
}

void job_free(scan_job *j)
{
	tomos_geometry_free(j->views);
}

int job_prepared(const settings *s, bool axis_later,
	int (*work)(const settings *s, tomos_prepared *prepared, tomos_backend *backend))
{
	scan_job j = {.views = NULL};
	tomos_prepared *prepared = NULL;
	tomos_backend *backend = NULL;
	int code;
	DO(job_make(s, &j));
	j.job.axis_later = axis_later;
	DO(lib(tomos_backend_open(&backend, s->backend.backend)));
	DO(lib(tomos_prepared_open(&prepared, &j.job, progress_shown())));
	prepared_say(prepared);
	DO(work(s, prepared, backend));
done:
	tomos_prepared_close(prepared);
	tomos_backend_close(backend);
	job_free(&j);
	return code;
}

void prepared_say(const tomos_prepared *prepared)
{
	if (tomos_prepared_note(prepared))
		message_line(TOMOS_FACT, tomos_prepared_note(prepared));
	if (tomos_prepared_warning(prepared))
		message_line(TOMOS_WARNING, tomos_prepared_warning(prepared));
}

/* ---- the axis ------------------------------------------------------------------------------ */

static void say_opinion(const char *name, double column)
{
	if (!isnan(column))
		say("  %-10s %.3f\n", name, column);
}

void axis_say(const tomos_axis *axis, const tomos_geometry *scan)
{
	int64_t columns = tomos_geometry_columns(scan);
	const double *ray = tomos_geometry_list(scan)[0].src;
	bool tilted = ray[3] == TOMOS_PARALLEL && fabs(ray[2]) > 1e-9 * hypot(ray[0], ray[1]);
	say("axis at column %.2f of %lld, ", axis->column, (long long)columns);
	if (!isnan(axis->error))
		say("standard error %.2g columns, ", axis->error);
	double from, to, step;
	bool doubt = tomos_axis_doubt(axis, &from, &to, &step);
	say("%s (confidence %.2f)%s\n", doubt ? "uncertain" : "certain", axis->confidence,
		axis->half ? ", half acquisition" : "");
	if (axis->reversed)
		note("opposite rays agree only if the rotation is reversed: the angles are negated "
		     "(--direction given keeps them)");
	if (axis->contradicted)
		warn("opposite rays agree only if the rotation is the reverse of what the "
		     "scanner's file, --reverse or --views-file says, which is kept (--direction "
		     "auto takes the other one)");
	if (axis->tilted)
		note("opposite rays agree far better with a detector that is rolled or swivelled: "
		     "--fit finds by how much");
	say_opinion("pairs", axis->pairs);
	say_opinion("vo", axis->vo);
	say_opinion("sharpness", axis->sharpness);
	if (axis->constant > 0)
		note("%lld column%s the same value in all views (dead pixels, or a frame) and %s "
		     "replaced for this search",
			(long long)axis->constant, axis->constant == 1 ? " has" : "s have",
			axis->constant == 1 ? "was" : "were");
	if (axis->at_edge) /* slices about it would not show the axis */
		warn("the axis may be outside the range %g to %g that was searched; give another "
		     "one with --axis-range",
			axis->low, axis->high);
	if (!doubt || axis->at_edge)
		return;
	if (tilted) /* filtered back projection has no slices of it */
		warn("the axis is uncertain; --axis sets it");
	else
		warn("the axis is uncertain; compare slices with --sweep %g:%g:%g", from,
			fmin(to, (double)(columns - 1)), step);
}

/* ---- what preparation did ------------------------------------------------------------------ */

void prep_say(const tomos_prep_report *r)
{
	const struct {
		int64_t count;
		const char *what;
	} list[] = {
		{r->repaired, "values without light or not finite, replaced by their neighbours"},
		{r->raised, "values below --floor, raised to it"},
		{r->zingers, "zingers replaced by medians"},
		{r->stripes, "columns of sinograms corrected as stripes"},
		{r->views, "bad views interpolated or left out"}};
	for (int i = 0; i < COUNT(list); i++)
		if (list[i].count > 0)
			say("%lld %s\n", (long long)list[i].count, list[i].what);
}
