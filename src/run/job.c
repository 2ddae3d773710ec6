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
