/* The status and the sentence that goes with it, one per thread. */
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
		"bad file", "unsupported", "no device", "cancelled", "diverged"};
	return (unsigned)status < (unsigned)COUNT(names) ? names[status] : "unknown status";
}

const char *tomos_version(void)
{
	return TOMOS_VERSION;
}
