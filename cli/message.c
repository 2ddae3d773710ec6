/* What the program says: results and notes unless quiet, one sentence for every failure. */
#include <stdarg.h>
#include <stdio.h>
#include "cli.h"

static const char *speaker = "";
static bool silent;

void message_begin(const char *command_name, bool quiet)
{
	speaker = command_name;
	silent = quiet;
}

void complain(const char *format, ...)
{
	va_list values;
	fflush(stdout);
	progress_clear();
	fprintf(stderr, "tomos%s%s: ", speaker[0] ? " " : "", speaker);
	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	fputc('\n', stderr);
}

int interrupted(void)
{
	complain("interrupted; nothing was written");
	return INTERRUPTED;
}

int lib(tomos_status status)
{
	if (status == TOMOS_OK)
		return DONE;
	if (status == TOMOS_CANCELLED)
		return interrupted();
	return failed("%s", tomos_message());
}

bool message_quiet(void)
{
	return silent;
}

void say(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	progress_clear();
	if (!silent)
		vprintf(format, values);
	va_end(values);
}

void note(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	progress_clear();
	if (!silent)
		vfprintf(stderr, format, values);
	va_end(values);
}
