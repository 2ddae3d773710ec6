/* The status and its message, one per thread; the version of the library. */
#include <stdarg.h>
#include <stdio.h>
#include "base/base.h"

static _Thread_local char message[1024];

#undef fail
tomos_status fail(tomos_status status, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vsnprintf(message, sizeof message, format, list);
	va_end(list);
	return status;
}

const char *tomos_message(void)
{
	return message;
}

const char *tomos_status_name(tomos_status status)
{
	static const char *const names[] = {"ok", "bad value", "no memory", "input or output",
		"bad file", "unsupported", "no device", "cancelled", "diverged", "callback failed"};
	return (unsigned)status < (unsigned)COUNT(names) ? names[status] : "unknown status";
}

const char *tomos_version(void)
{
	return TOMOS_VERSION;
}

int tomos_version_number(void)
{
	return TOMOS_VERSION_NUMBER;
}

tomos_status tomos_version_check(int compiled_against)
{
	const int own = TOMOS_VERSION_NUMBER, theirs = compiled_against;
	if (theirs / 100 == own / 100 && theirs <= own)
		return TOMOS_OK;
	return fail(TOMOS_UNSUPPORTED,
		"the program was compiled against tomos %d.%d.%d, and the library is %s: it must "
		"be the "
		"same version, or a later patch of it",
		theirs / 10000, theirs / 100 % 100, theirs % 100, TOMOS_VERSION);
}
