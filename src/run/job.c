/* Jobs and reports as callers hand them over, and the texts in them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "run/run.h"

/* The size policy of tomos.h: what an older program does not know is 0, and what this library does not
 * know must be 0. */
tomos_status job_take(tomos_job *job, const tomos_job *given)
{
	const size_t own = sizeof *job;
	*job = (tomos_job){.bytes = own};
	if (!given || given->bytes < 2 * sizeof(size_t) || given->bytes > 65536)
		return fail(TOMOS_BAD_VALUE, "a job must begin with its size, %zu bytes", own);
	const char *bytes = (const char *)given;
	for (size_t i = own; i < given->bytes; i++)
		if (bytes[i] != 0)
			return fail(TOMOS_UNSUPPORTED,
				"the job has a field at byte %zu that this library does not know: "
				"it is "
				"of an older version",
				i);
	memcpy(job, given, given->bytes < own ? given->bytes : own);
	job->bytes = own;
	if (job->report && (job->report->bytes < 2 * sizeof(size_t) || job->report->bytes > 65536))
		return fail(TOMOS_BAD_VALUE, "a report must begin with its size, %zu bytes",
			sizeof *job->report);
	return TOMOS_OK;
}

void report_publish(const tomos_job *job, const tomos_run_report *report)
{
	if (!job->report)
		return;
	size_t theirs = job->report->bytes;
	memcpy((char *)job->report + sizeof theirs, (const char *)report + sizeof theirs,
		(theirs < sizeof *report ? theirs : sizeof *report) - sizeof theirs);
}

tomos_status job_say(const tomos_job *job, const char *format, ...)
{
	char line[512];
	va_list list;
	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	if (job->say)
		job->say(job->user, line);
	return TOMOS_OK;
}

/* The digits up to `end`; none leave the value. */
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
