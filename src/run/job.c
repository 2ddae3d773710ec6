/* Jobs and reports of callers, and the strings in them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "run/run.h"

tomos_status job_take(tomos_job *job, const tomos_job *given)
{
	tomos_run_report report = {.bytes = sizeof report};
	*job = (tomos_job){.bytes = sizeof *job};
	if (!given)
		return fail(TOMOS_BAD_VALUE, "there is no job to run");
	TRY(struct_take(job, given, "tomos_job"));
	return job->report ? struct_take(&report, job->report, "tomos_run_report") : TOMOS_OK;
}

void report_publish(const tomos_job *job, const tomos_run_report *report)
{
	if (job->report)
		struct_give(job->report, report, "tomos_run_report");
}

tomos_status job_tell(const tomos_job *job, tomos_level level, const char *format, ...)
{
	char line[1024];
	va_list list;
	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	if (job->say)
		job->say(job->user, level, line);
	return TOMOS_OK;
}

/* ---- the output ---------------------------------------------------------------------------- */

static tomos_status output_beside(char **output, const char *scan)
{
	size_t length = strlen(scan);
	while (length > 1 && scan[length - 1] == '/')
		length--;
	int end = (int)length;
	for (int i = end - 1; i > 0 && scan[i] != '/' && scan[i - 1] != '/'; i--)
		if (scan[i] == '.') {
			end = i;
			break;
		}
	return mem_printf(output, "%.*s_rec/", end, scan);
}

tomos_status default_output(char **output, const char *scan)
{
	char *file, *dataset;
	TRY(io_split(scan, &file, &dataset));
	tomos_status status = output_beside(output, file);
	mem_free(file);
	mem_free(dataset);
	return status;
}

tomos_status tomos_job_output(const char *scan, char *output, size_t size)
{
	char *name;
	if (!scan || !scan[0] || !output)
		return fail(TOMOS_BAD_VALUE, "the name of a scan is missing");
	TRY(default_output(&name, scan));
	bool fits = strlen(name) < size;
	if (fits)
		memcpy(output, name, strlen(name) + 1);
	mem_free(name);
	return fits ? TOMOS_OK
		    : fail(TOMOS_BAD_VALUE, "the output of '%s' has a name longer than %zu bytes",
			      scan, size);
}

/* ---- options that have no effect on a scan --------------------------------------------------- */

#define DEGREES (180 / 3.14159265358979323846)

typedef enum { GIVEN_SCAN, GIVEN_AXIS, GIVEN_PREP, GIVEN_GROUPS } GivenGroup;

static const char *const given_names[GIVEN_GROUPS] = {"scan", "axis", "prep"};

static uint64_t option_bit(GivenGroup group, const char *name)
{
	int count;
	const tomos_option *rows = tomos_options(given_names[group], &count);
	for (int i = 0; i < count; i++)
		if (strcmp(rows[i].name, name) == 0)
			return (uint64_t)1 << i;
	return 0;
}

static bool is_given(const uint64_t given[3], GivenGroup group, const char *name)
{
	return (given[group] & option_bit(group, name)) != 0;
}

/* Rejects the first option of the group that is given, unless preparation has one of its name. */
static tomos_status reject_given(
	const uint64_t given[3], GivenGroup group, bool prepares, const char *why)
{
	int count;
	const tomos_option *rows = tomos_options(given_names[group], &count);
	for (int i = 0; i < count; i++)
		if ((given[group] >> i & 1) &&
			!(prepares && is_given(given, GIVEN_PREP, rows[i].name)))
			return fail(TOMOS_BAD_VALUE, "the option '%s' has no effect: %s",
				rows[i].name, why);
	return TOMOS_OK;
}

static tomos_status check_views(const tomos_job *job, const uint64_t given[3], const char *why)
{
	tomos_prep_options prep = tomos_prep_defaults();
	TRY(options_take(&prep, job->prep, "prep"));
	bool phase = strcmp(prep.phase, "none") != 0; /* which uses the pixel */
	TRY(reject_given(given, GIVEN_SCAN, phase, why));
	return job->axis_later ? TOMOS_OK : reject_given(given, GIVEN_AXIS, false, why);
}

/* Whether rays tell the direction of rotation, also where the axis is given. */
static bool has_point_source(const tomos_scan_options *scan, const tomos_scan *file)
{
	const char *in_file = file->setup.geometry;
	return strcmp(scan->geometry, "fan") == 0 || strcmp(scan->geometry, "cone") == 0 ||
	       (strcmp(scan->geometry, "parallel") == 0 && in_file && strcmp(in_file, "cone") == 0);
}

/* Why the axis of the scan is not searched for; "": it is. */
static void why_no_search(const tomos_scan_options *scan, const tomos_scan *file,
	const uint64_t given[3], char *why, size_t size)
{
	why[0] = 0;
	if (is_given(given, GIVEN_SCAN, "axis"))
		snprintf(why, size, "the option 'axis' sets the axis");
	else if (strcmp(scan->geometry, "helix") == 0 || strcmp(scan->geometry, "lebedev") == 0)
		snprintf(why, size, "the axis of a %.40s scan is not searched for", scan->geometry);
	else if (scan_axis_known(file))
		snprintf(why, size, "'%.400s' says where the axis is", file->path);
}

static tomos_status check_axis(
	const tomos_job *job, const tomos_scan *scan_file, const uint64_t given[3])
{
	tomos_scan_options scan = tomos_scan_defaults();
	char why[512];
	TRY(options_take(&scan, job->geometry, "scan"));
	uint64_t others[3] = {given[0], given[1], given[2]};
	why_no_search(&scan, scan_file, given, why, sizeof why);
	if (has_point_source(&scan, scan_file))
		others[GIVEN_AXIS] &= ~option_bit(GIVEN_AXIS, "direction");
	else if (!why[0] && is_given(given, GIVEN_AXIS, "direction"))
		return fail(TOMOS_BAD_VALUE,
			"the option 'direction' has no effect: the rays are parallel");
	return why[0] && !job->axis_later ? reject_given(others, GIVEN_AXIS, false, why) : TOMOS_OK;
}

/* What an option is where it is not given stands for what the scanner's file says, also if it is
 * given. */
static tomos_status check_setup(
	const tomos_job *job, const tomos_scan *file, const uint64_t given[3])
{
	const ScanSetup *s = &file->setup;
	tomos_scan_options scan = tomos_scan_defaults();
	TRY(options_take(&scan, job->geometry, "scan"));
	const struct {
		const char *name;
		double option, file;
	} tilts[] = {{"roll", scan.roll, s->roll}, {"slant", scan.slant, s->slant},
		{"swivel", scan.swivel, s->swivel}};
	if (!s->geometry)
		return TOMOS_OK;
	if (is_given(given, GIVEN_SCAN, "geometry") && strcmp(scan.geometry, "parallel") == 0 &&
		strcmp(s->geometry, "parallel") != 0)
		return fail(TOMOS_BAD_VALUE,
			"the option 'geometry' parallel has no effect: '%s' is a scan of a %s beam",
			file->path, s->geometry);
	for (int i = 0; i < COUNT(tilts); i++)
		if (is_given(given, GIVEN_SCAN, tilts[i].name) && tilts[i].option == 0 &&
			tilts[i].file != 0)
			return fail(TOMOS_BAD_VALUE,
				"the option '%s' 0 has no effect: %.4g degrees, from '%s', are "
				"used; 1e-6 is as good as none",
				tilts[i].name, tilts[i].file * DEGREES, file->path);
	return TOMOS_OK;
}

/* 0 stands for what the file says, unless it is given. */
static tomos_status check_pixel(const tomos_job *job, const uint64_t given[3])
{
	tomos_scan_options scan = tomos_scan_defaults();
	TRY(options_take(&scan, job->geometry, "scan"));
	if (!is_given(given, GIVEN_SCAN, "pixel") || scan.pixel > 0)
		return TOMOS_OK;
	return fail(
		TOMOS_BAD_VALUE, "the option 'pixel' is %g; it must be greater than 0", scan.pixel);
}

tomos_status tomos_job_check(const tomos_job *given_job, const tomos_scan *scan, const char *views,
	const uint64_t given[3])
{
	tomos_job job;
	char why[512];
	TRY(job_take(&job, given_job));
	if (!given || (!views && !scan))
		return fail(TOMOS_BAD_VALUE, "a job is checked without %s",
			given ? "its scan" : "the options that were given");
	TRY(check_pixel(&job, given));
	uint64_t checked[3] = {given[0], given[1], given[2]};
	if (views) {
		snprintf(why, sizeof why, "the views are those of %.400s", views);
		checked[GIVEN_AXIS] &= ~option_bit(GIVEN_AXIS, "direction");
	} else if (scan->geometry)
		snprintf(why, sizeof why, "'%.400s' has a geometry of its own", scan->path);
	else {
		TRY(check_setup(&job, scan, given));
		return check_axis(&job, scan, given);
	}
	return check_views(&job, checked, why);
}

/* ---- ranges --------------------------------------------------------------------------------- */

/* Parses the digits up to `end`; without digits the value does not change. */
static bool take_index(const char *text, const char *end, int64_t *value)
{
	for (int64_t number = 0; text < end; text++) {
		if (*text < '0' || *text > '9' || !size_mul(number, 10, &number) ||
			!size_add(number, *text - '0', &number))
			return false;
		*value = number;
	}
	return true;
}

tomos_status range_parse(
	const char *name, const char *text, int64_t count, int64_t *first, int64_t *end)
{
	*first = 0;
	*end = count;
	if (!text || !text[0])
		return TOMOS_OK;
	const char *colon = strchr(text, ':');
	if (colon && take_index(text, colon, first) &&
		take_index(colon + 1, text + strlen(text), end) && *first < *end && *end <= count)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE, "%s '%s': it must be FIRST:END with 0 <= FIRST < END <= %lld",
		name, text, (long long)count);
}
