/* Words, names and numbers that a person wrote. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

#define LONGEST_NAME 63

bool name_in(const char *names, const char *text, size_t length)
{
	for (const char *at = names; *at;) {
		size_t n = strcspn(at, "|");
		if (n == length && strncmp(at, text, n) == 0)
			return true;
		at += n + (at[n] == '|');
	}
	return false;
}

bool word_has(const char *words, const char *text)
{
	size_t length = strlen(text);
	for (const char *at = words; *at;) {
		size_t n = strcspn(at, " ");
		if (n == length && strncmp(at, text, n) == 0)
			return true;
		at += n + (at[n] == ' ');
	}
	return false;
}

bool ends_with(const char *text, const char *ending)
{
	size_t n = strlen(text), m = strlen(ending);
	return n >= m && strcmp(text + n - m, ending) == 0;
}

static int least(int a, int b, int c)
{
	int least_ab = a < b ? a : b;
	return least_ab < c ? least_ab : c;
}

/* Edits that turn a into b (Damerau: a swap of neighbours is one edit); both are short. */
static int edits(const char *a, int n, const char *b, int m)
{
	int d[LONGEST_NAME + 2][LONGEST_NAME + 2];
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

/* The library has a search of its own for its sentences. It stays inside: to correct words is no part
 * of reconstructing, and what people type at a prompt, swaps and first letters, is weighed here. */
const char *name_nearest(const char *names, const char *text)
{
	static char nearest[LONGEST_NAME + 1];
	int length = (int)strlen(text), best = length / 2 + 2;
	nearest[0] = 0;
	if (length > LONGEST_NAME)
		return nearest;
	for (const char *at = names; *at;) {
		int n = (int)strcspn(at, "|");
		int distance = n <= LONGEST_NAME ? edits(at, n, text, length) : best;
		if (distance < best ||
			(length > 1 && distance == best && strncmp(at, text, 2) == 0)) {
			best = distance;
			snprintf(nearest, sizeof nearest, "%.*s", n, at);
		}
		at += n + (at[n] == '|');
	}
	return nearest;
}

bool text_int(const char *text, int64_t *value)
{
	char *end;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	*value = number;
	return end != text && *end == 0 && errno == 0 && !isspace((unsigned char)text[0]);
}

bool text_real(const char *text, double *value)
{
	char *end;
	*value = strtod(text, &end);
	return end != text && *end == 0 && isfinite(*value) && !isspace((unsigned char)text[0]);
}

/* The content of a text file, as a string to free; NULL if it cannot be read. */
static char *slurp(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t length = 0, room = 0;
	if (!file)
		return NULL;
	for (;;) {
		if (length + 1 >= room) {
			char *larger = realloc(text, room = room * 2 + 4096);
			if (!larger)
				break;
			text = larger;
		}
		size_t got = fread(text + length, 1, room - length - 1, file);
		length += got;
		text[length] = 0;
		if (got == 0 && !ferror(file) && strlen(text) == length) {
			fclose(file);
			return text;
		}
		if (got == 0)
			break;
	}
	fclose(file);
	free(text);
	return NULL;
}

static int list_fill(
	const char *option, char *text, const char *between, double *values, int64_t *count)
{
	char *rest = NULL;
	for (char *word = strtok_r(text, between, &rest); word;
		word = strtok_r(NULL, between, &rest))
		if (!text_real(word, &values[(*count)++]))
			return wrong_usage("--%s: '%.60s' is not a number", option, word);
	return DONE;
}

int text_list(const char *option, const char *text, double **values, int64_t *count)
{
	bool from_file = text[0] == '@';
	char *copy = from_file ? slurp(text + 1) : strdup(text);
	int code = DONE;
	*count = 0;
	*values = NULL;
	if (!copy && from_file)
		return wrong_usage("--%s: cannot read the list '%s'", option, text + 1);
	if (copy)
		*values = malloc((strlen(copy) / 2 + 1) * sizeof **values);
	if (!*values)
		DO(failed("--%s: no memory for the list", option));
	if (!from_file && (strstr(copy, ",,") || copy[0] == ',' || ends_with(copy, ",")))
		DO(wrong_usage("--%s: a number is missing in '%s'", option, text));
	DO(list_fill(option, copy, from_file ? ", \t\r\n" : ",", *values, count));
	if (*count == 0)
		DO(wrong_usage("--%s: there is no number in '%s'", option, text));
done:
	free(copy);
	if (code != DONE) {
		free(*values);
		*values = NULL;
	}
	return code;
}
