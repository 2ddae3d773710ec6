/* Names chosen from "a|b|c" lists, and the options structs of callers of any age. */
#include <stdio.h>
#include <string.h>
#include "base/base.h"

int choice_index(const char *choices, const char *text)
{
	size_t length = strlen(text);
	int index = 0;
	for (const char *p = choices; *p; index++) {
		size_t n = strcspn(p, "|");
		if (n == length && memcmp(p, text, n) == 0)
			return index;
		p += n + (p[n] == '|');
	}
	return -1;
}

/* Edit distance (insert, delete, replace) of two short names. */
static int distance(const char *a, size_t na, const char *b, size_t nb)
{
	int row[65];
	if (na > 64 || nb > 64)
		return 1000;
	for (size_t j = 0; j <= nb; j++)
		row[j] = (int)j;
	for (size_t i = 1; i <= na; i++) {
		int corner = row[0];
		row[0] = (int)i;
		for (size_t j = 1; j <= nb; j++) {
			int cost = corner + (a[i - 1] != b[j - 1]);
			corner = row[j];
			int other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
			row[j] = cost < other ? cost : other;
		}
	}
	return row[nb];
}

const char *choice_nearest(const char *choices, const char *text)
{
	static _Thread_local char nearest[65];
	size_t length = strlen(text);
	int best = (int)length / 2 + 2;
	nearest[0] = 0;
	for (const char *p = choices; *p;) {
		size_t n = strcspn(p, "|");
		int d = distance(p, n, text, length);
		if (n > 0 && n < sizeof nearest && d < best) {
			best = d;
			memcpy(nearest, p, n);
			nearest[n] = 0;
		}
		p += n + (p[n] == '|');
	}
	return nearest;
}

tomos_status choice_find(const char *what, const char *choices, const char *text, int *index)
{
	*index = text ? choice_index(choices, text) : -1;
	if (*index >= 0)
		return TOMOS_OK;
	const char *nearest = choice_nearest(choices, text ? text : "");
	return fail(TOMOS_BAD_VALUE, "%s '%s' is not known%s%s%s (known: %s)", what,
		text ? text : "(none)", *nearest ? "; did you mean '" : "", nearest,
		*nearest ? "'?" : "", choices);
}

tomos_status options_take(void *options, const void *given, const char *group)
{
	size_t own, theirs;
	memcpy(&own, options, sizeof own);
	if (!given)
		return TOMOS_OK;
	memcpy(&theirs, given, sizeof theirs);
	if (theirs < sizeof(size_t) || theirs > 65536)
		return fail(TOMOS_BAD_VALUE,
			"the bytes field of the %s options is %zu; fill them with "
			"tomos_%s_defaults()",
			group, theirs, group);
	memcpy((char *)options + sizeof own, (const char *)given + sizeof own,
		(theirs < own ? theirs : own) - sizeof own);
	return tomos_options_check(group, options);
}
