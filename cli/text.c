/* Parsing of words, names and numbers. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

static bool among(const char *list, const char *separator, const char *text, size_t length)
{
	for (const char *at = list; *at;) {
		size_t n = strcspn(at, separator);
		if (n == length && strncmp(at, text, n) == 0)
			return true;
		at += n + (at[n] == *separator);
	}
	return false;
}

bool name_in(const char *names, const char *text, size_t length)
{
	return among(names, "|", text, length);
}

bool word_has(const char *words, const char *text)
{
	return among(words, " ", text, strlen(text));
}

bool ends_with(const char *text, const char *ending)
{
	size_t n = strlen(text), m = strlen(ending);
	return n >= m && strcmp(text + n - m, ending) == 0;
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

static int list_fill(const char *option, char *text, const char *between, bool lengths,
	double *values, int64_t *count)
{
	char *rest = NULL;
	for (char *word = strtok_r(text, between, &rest); word;
		word = strtok_r(NULL, between, &rest)) {
		double *value = &values[(*count)++];
		if (lengths && tomos_length_parse(word, value) != TOMOS_OK)
			return wrong_usage("--%s: %s", option, tomos_message());
		if (!lengths && !text_real(word, value))
			return wrong_usage(
				"--%s: '%.60s' is not a number; a list is written 3,4,5, or "
				"@FILE with the numbers in a file",
				option, word);
	}
	return DONE;
}

/* Whether the first name of a comma-separated list is this one. */
static bool begins_with_name(const char *list, const char *name)
{
	size_t length = strcspn(list, ",\r\n");
	return length == strlen(name) && strncmp(list, name, length) == 0;
}

/* A table that begins with names, such as that of tomos align: keeps the column that is named as
 * the option, one number in a line. */
static int keep_column(const char *option, const char *path, char *text)
{
	size_t head, used = 0;
	int64_t column = 0, at = 0;
	char names[200];
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0) /* the byte-order mark of spreadsheets */
		memmove(text, text + 3, strlen(text + 3) + 1);
	head = strcspn(text, "\r\n");
	if (!isalpha((unsigned char)text[0]) || !memchr(text, ',', head))
		return DONE;
	snprintf(names, sizeof names, "%.*s", (int)head, text);
	for (const char *name = text; !begins_with_name(name, option); column++) {
		name += strcspn(name, ",\r\n");
		if (*name++ != ',')
			return wrong_usage("--%s: '%s' has the columns %s, and none is named '%s'",
				option, path, names, option);
	}
	for (const char *c = text + head; *c; c++) {
		bool ends = *c == '\n';
		at = ends ? 0 : at + (*c == ',');
		if (ends || (at == column && *c != ','))
			text[used++] = *c;
	}
	text[used] = 0;
	return DONE;
}

int text_list(const char *option, const char *text, bool lengths, double **values, int64_t *count)
{
	bool from_file = text[0] == '@';
	errno = 0;
	char *copy = from_file ? slurp(text + 1) : strdup(text);
	int code = DONE;
	*count = 0;
	*values = NULL;
	if (!copy && from_file)
		return wrong_usage("--%s: cannot read the list '%s'%s%s", option, text + 1,
			errno ? ": " : "", errno ? strerror(errno) : "");
	if (copy)
		*values = malloc((strlen(copy) / 2 + 1) * sizeof **values);
	if (!*values)
		DO(failed("--%s: no memory for the list", option));
	if (!from_file && (strstr(copy, ",,") || copy[0] == ',' || ends_with(copy, ",")))
		DO(wrong_usage("--%s: a number is missing in '%s'", option, text));
	if (from_file)
		DO(keep_column(option, text + 1, copy));
	DO(list_fill(option, copy, from_file ? ", \t\r\n" : ",", lengths, *values, count));
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

void shell_quote(FILE *file, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+=.,:/@%";
	if (word[0] && strspn(word, plain) == strlen(word)) {
		fputs(word, file);
		return;
	}
	fputc('\'', file);
	for (const char *c = word; *c; c++)
		if (*c == '\'')
			fputs("'\\''", file);
		else
			fputc(*c, file);
	fputc('\'', file);
}
