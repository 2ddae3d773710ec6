/* Names chosen from "a|b|c" lists. */
#include <stdio.h>
#include <string.h>
#include "base/base.h"

enum { LONGEST = 64, NOT_NEAR = 1000 };

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

static int least(int a, int b, int c)
{
	int least_ab = a < b ? a : b;
	return least_ab < c ? least_ab : c;
}

/* Damerau-Levenshtein distance of two short strings: exchanging two neighbours counts as one
 * edit. */
static int edits(const char *a, int n, const char *b, int m)
{
	int d[LONGEST + 1][LONGEST + 1];
	for (int i = 0; i <= n; i++)
		for (int j = 0; j <= m; j++) {
			if (i == 0 || j == 0) {
				d[i][j] = i + j;
				continue;
			}
			int same = a[i - 1] == b[j - 1];
			d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1, d[i][j]);
		}
	return d[n][m];
}

/* Whether `text` contains the word, at its beginning or after a hyphen. */
static bool has_word(const char *text, const char *word, int length)
{
	for (const char *at = text; at; at = strchr(at, '-') ? strchr(at, '-') + 1 : NULL)
		if (strncmp(at, word, (size_t)length) == 0 && (!at[length] || at[length] == '-'))
			return true;
	return false;
}

/* "gpu" and "gpu:1": by their letters nearest to "cpu". */
static bool means_cuda(const char *text)
{
	return strncmp(text, "gpu", 3) == 0 && (!text[3] || text[3] == ':');
}

/* Distance of a name from the text, in tenths of an edit. Names within a few edits are nearest;
 * then those of which one is a prefix of the other; then those of which one is a word of the
 * other. */
static int cost(const char *name, const char *text)
{
	int n = (int)strlen(name), m = (int)strlen(text), shorter = n < m ? n : m, start = 0;
	int distance = edits(name, n, text, m), found = NOT_NEAR;
	if (means_cuda(text) && strcmp(name, "cuda") == 0)
		return 0;
	while (start < shorter && name[start] == text[start])
		start++;
	if ((n >= 3 && has_word(text, name, n)) || (m >= 3 && has_word(name, text, m)))
		found = 40 + distance;
	if (start == shorter && shorter >= 3)
		found = 12 + n + m - 2 * shorter;
	if (distance <= 1 + m / 3 && 10 * distance - (start < 3 ? start : 3) < found)
		found = 10 * distance - (start < 3 ? start : 3);
	return found;
}

const char *tomos_name_nearest(const char *names, const char *text)
{
	static _Thread_local char nearest[LONGEST + 1];
	int best = NOT_NEAR;
	nearest[0] = 0;
	if (!names || !text || strlen(text) > LONGEST)
		return nearest;
	for (const char *at = names; *at;) {
		char name[LONGEST + 1];
		size_t n = strcspn(at, "|");
		snprintf(name, sizeof name, "%.*s", (int)n, at);
		int now = n > 0 && n <= LONGEST ? cost(name, text) : NOT_NEAR;
		if (now < best) {
			best = now;
			memcpy(nearest, name, sizeof nearest);
		}
		at += n + (at[n] == '|');
	}
	return nearest;
}

tomos_status choice_find(const char *what, const char *choices, const char *text, int *index)
{
	*index = text ? choice_index(choices, text) : -1;
	if (*index >= 0)
		return TOMOS_OK;
	const char *nearest = tomos_name_nearest(choices, text ? text : "");
	return fail(TOMOS_BAD_VALUE, "%s '%s' is not known%s%s%s (known: %s)", what,
		text ? text : "(none)", *nearest ? "; did you mean '" : "", nearest,
		*nearest ? "'?" : "", choices);
}
