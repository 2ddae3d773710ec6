/* Output of the command: results and notes unless quiet, warnings, one error message for every
 * failure. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "cli.h"

static const char *speaker = "";
static const char *place; /* file named in error messages, or NULL */
static int place_line;
static _Atomic bool silent; /* also read by the signal thread */
static FILE *record;        /* where all messages are kept, too, or NULL */

void message_record(FILE *file)
{
	record = file;
}

/* Also what is not printed because of --quiet. */
static void keep(const char *mark, const char *format, va_list values)
{
	va_list again;
	if (!record)
		return;
	va_copy(again, values);
	fputs(mark, record);
	vfprintf(record, format, again);
	va_end(again);
}

void message_begin(const char *command_name, bool quiet)
{
	speaker = command_name;
	silent = quiet;
}

void message_place(const char *path, int line)
{
	place = path;
	place_line = line;
}

void complain(const char *format, ...)
{
	va_list values;
	if (!ranks_print())
		return;
	fflush(stdout);
	progress_clear();
	fprintf(stderr, "tomos%s%s: ", speaker[0] ? " " : "", speaker);
	if (place)
		fprintf(stderr, "'%s', line %d: ", place, place_line);
	va_start(values, format);
	keep("! ", format, values);
	if (record)
		fputc('\n', record);
	vfprintf(stderr, format, values);
	va_end(values);
	fputc('\n', stderr);
}

int interrupted(void)
{
	complain("interrupted; nothing was written");
	return INTERRUPTED;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/* Whether a word is the name of an option, source_axis or source-axis. */
static bool same_name(const char *name, const char *word, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (name[i] != (word[i] == '-' ? '_' : word[i]))
			return false;
	return !name[length];
}

/* "pitch is 3; it must be ...": the first word of a message is what it is about. */
static bool is_subject(const char *after)
{
	static const char *const verbs[] = {
		": ", " is ", " are ", " has ", " have ", " and ", " '"};
	for (int i = 0; i < COUNT(verbs); i++)
		if (strncmp(after, verbs[i], strlen(verbs[i])) == 0)
			return true;
	return false;
}

/* Whether a word is the name of an option of the running command: of two words or more, which is
 * unambiguous in a message, or the subject of the message. */
static bool is_option(const char *word, size_t length, bool first)
{
	if (!memchr(word, '_', length) && !memchr(word, '-', length) &&
		!(first && is_subject(word + length)))
		return false;
	const command *c = command_find(speaker);
	for (int number = 0; number < GROUP_COUNT && c; number++) {
		group g = group_get(number);
		for (int i = 0; i < g.count; i++)
			if (same_name(g.rows[i].name, word, length) && row_used(c, number, i))
				return true;
	}
	return false;
}

/* "the option 'flats'" of the library's messages as "--flats"; returns how much of the message that
 * was. */
static size_t quoted_option(const char *at, char *text, size_t *used, size_t size)
{
	static const char before[] = "the option '";
	size_t start = sizeof before - 1, length = 0;
	if (strncmp(at, before, start) != 0)
		return 0;
	while (is_word(at[start + length]))
		length++;
	if (length == 0 || at[start + length] != '\'' || *used + length + 4 >= size)
		return 0;
	*used += (size_t)sprintf(text + *used, "--");
	for (size_t i = 0; i < length; i++)
		text[(*used)++] = at[start + i] == '_' ? '-' : at[start + i];
	return start + length + 1;
}

/* Copies a word; the name of an option, where `named`, as it is typed. Returns its length. */
static size_t copy_word(
	const char *at, bool named, bool first, char *text, size_t *used, size_t size)
{
	size_t length = 0;
	while (is_word(at[length]))
		length++;
	bool option = named && is_option(at, length, first) && *used + length + 4 < size;
	if (option)
		*used += (size_t)sprintf(text + *used, "--");
	length = length ? length : 1;
	for (size_t i = 0; i < length && *used + 2 < size; i++)
		text[(*used)++] = option && at[i] == '_' ? '-' : at[i];
	return length;
}

static void type_options(const char *message, bool words, char *text, size_t size)
{
	size_t used = 0;
	for (const char *at = message; *at && used + 4 < size;) {
		size_t length = quoted_option(at, text, &used, size);
		bool begins = at == message || at[-1] == ' ' ||
			      at[-1] == '('; /* not part of a file name */
		at += length ? length
			     : copy_word(at, words && begins, at == message, text, &used, size);
	}
	text[used] = 0;
}

void message_typed(const char *message, char *text, size_t size)
{
	type_options(message, true, text, size);
}

void message_line_typed(const char *line, char *text, size_t size)
{
	type_options(line, false, text, size);
}

/* Adds the option to use, which the library does not know. */
static void add_hint(char *message, size_t size)
{
	static const char plain[] = " and overwrite was not asked for";
	char *at = strstr(message, plain);
	if (at && at[sizeof plain - 1] == 0)
		snprintf(at, size - (size_t)(at - message), "; give --overwrite to replace it");
}

int lib(tomos_status status)
{
	if (status == TOMOS_OK)
		return DONE;
	if (status == TOMOS_CANCELLED)
		return interrupted();
	char message[2048];
	message_typed(tomos_message(), message, sizeof message);
	add_hint(message, sizeof message);
	return status == TOMOS_BAD_VALUE ? wrong_usage("%s", message) : failed("%s", message);
}

const char *message_command(void)
{
	return speaker;
}

bool message_quiet(void)
{
	return silent || !ranks_print();
}

void say(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	keep("", format, values);
	progress_clear();
	if (!silent)
		vprintf(format, values);
	fflush(stdout); /* so that a log is up to date during the run */
	va_end(values);
}

void message_line(tomos_level level, const char *line)
{
	char text[1024];
	message_line_typed(line, text, sizeof text);
	if (level == TOMOS_FACT)
		say("%s\n", text);
	else if (level == TOMOS_NOTE)
		note("%s", text);
	else
		warn("%s", text);
}

/* A line to stderr, with what it is before it. */
static void remark(bool shown, const char *kind, const char *format, va_list values)
{
	char line[2048];
	vsnprintf(line, sizeof line, format, values);
	if (record)
		fprintf(record, "! %s: %s\n", kind, line);
	progress_clear();
	if (shown)
		fprintf(stderr, "%s: %s\n", kind, line);
}

void note(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	remark(!message_quiet(), "note", format, values);
	va_end(values);
}

void warn(const char *format, ...)
{
	va_list values;
	va_start(values, format);
	remark(ranks_print(), "warning", format, values);
	va_end(values);
}
