/* Files of "key = value" lines in sections, as the software of scanners writes them.
 *
 * Lines may be of any length and in Latin-1, values may contain ':' and ';', and the case of names
 * differs between models: general readers of INI files reject some of these.
 */
#include "base/keys.h"
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LARGEST_FILE = 64 << 20 };

static const char byte_order_mark[] = "\xef\xbb\xbf"; /* of UTF-8 */

tomos_status text_read(char **text, int64_t *length, const char *path)
{
	FILE *file = fopen(path, "rb");
	*text = NULL;
	if (!file)
		return fail(TOMOS_IO, "'%s' cannot be opened: %s", path, strerror(errno));
	bool sought = fseek(file, 0, SEEK_END) == 0;
	long size = sought ? ftell(file) : -1;
	tomos_status status = TOMOS_OK;
	if (size < 0 || fseek(file, 0, SEEK_SET) != 0)
		status = fail(TOMOS_IO, "'%s' cannot be read: %s", path, strerror(errno));
	else if (size > LARGEST_FILE)
		status = fail(TOMOS_BAD_FILE, "'%s' has %ld bytes; such a file has at most %d",
			path, size, LARGEST_FILE);
	else
		status = mem_zeroed(text, size + 1, 1, "the text of a file");
	if (status == TOMOS_OK && fread(*text, 1, (size_t)size, file) != (size_t)size)
		status = fail(TOMOS_IO, "'%s' cannot be read: %s", path, strerror(errno));
	fclose(file);
	if (status != TOMOS_OK) {
		mem_free(*text);
		*text = NULL;
		return status;
	}
	*length = size;
	return TOMOS_OK;
}

/* ---- characters --------------------------------------------------------------------------- */

int character_bytes(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	int count = at[0] < 0x80   ? 1
		    : at[0] < 0xc2 ? 0
		    : at[0] < 0xe0 ? 2
		    : at[0] < 0xf0 ? 3
		    : at[0] < 0xf5 ? 4
				   : 0;
	for (int i = 1; i < count; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return count;
}

static bool is_utf8(const char *text)
{
	int bytes = 1;
	for (; *text && bytes > 0; text += bytes)
		bytes = character_bytes(text);
	return bytes > 0;
}

/* Latin-1 becomes UTF-8, in which a file of that name is found. */
static tomos_status make_utf8(char **text, int64_t length)
{
	char *whole, *to;
	if (is_utf8(*text))
		return TOMOS_OK;
	TRY(mem_zeroed(&whole, 2 * length + 1, 1, "the text of a file"));
	to = whole;
	for (int64_t i = 0; i < length; i++) {
		unsigned char letter = (unsigned char)(*text)[i];
		if (letter >= 0x80)
			*to++ = (char)(0xc0 | letter >> 6);
		*to++ = (char)(letter >= 0x80 ? 0x80 | (letter & 0x3f) : letter);
	}
	mem_free(*text);
	*text = whole;
	return TOMOS_OK;
}

/* ---- parsing ------------------------------------------------------------------------------ */

static char *trim(char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	size_t length = strlen(text);
	while (length > 0 && isspace((unsigned char)text[length - 1]))
		text[--length] = 0;
	return text;
}

static tomos_status add_line(Keys *keys, const char **section, char *line, int64_t *capacity)
{
	line = trim(line);
	char *equals = strchr(line, '='), *close = strchr(line, ']');
	if (line[0] == '[' && close) {
		*close = 0;
		*section = trim(line + 1);
		return TOMOS_OK;
	}
	if (!equals || line[0] == ';' || line[0] == '#')
		return TOMOS_OK;
	*equals = 0;
	TRY(mem_grow(
		&keys->list, keys->count, capacity, sizeof *keys->list, "the lines of a file"));
	keys->list[keys->count++] = (Key){*section, trim(line), trim(equals + 1)};
	return TOMOS_OK;
}

tomos_status keys_read(Keys *keys, const char *path)
{
	int64_t length, capacity = 0;
	const char *section = "";
	*keys = (Keys){.path = path};
	TRY(text_read(&keys->text, &length, path));
	for (int64_t i = 0; i < length; i++)
		if (keys->text[i] == 0)
			keys->text[i] = ' ';
	tomos_status status = make_utf8(&keys->text, length);
	char *start = keys->text;
	if (start && strncmp(start, byte_order_mark, 3) == 0)
		start += 3;
	for (char *line = start, *next; line && status == TOMOS_OK; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		status = add_line(keys, &section, line, &capacity);
	}
	if (status != TOMOS_OK)
		keys_free(keys);
	return status;
}

void keys_free(Keys *keys)
{
	mem_free(keys->list);
	mem_free(keys->text);
	*keys = (Keys){.path = NULL};
}

/* ---- values ------------------------------------------------------------------------------- */

/* Whether a name is one of "a|b|c", in any case. */
static bool name_fits(const char *names, const char *name)
{
	for (size_t length; *names; names += length + (names[length] == '|')) {
		length = strcspn(names, "|");
		if (strlen(name) == length && strncasecmp(names, name, length) == 0)
			return true;
	}
	return false;
}

const char *keys_text(const Keys *keys, const char *section, const char *names)
{
	for (int64_t i = 0; i < keys->count; i++)
		if ((!section[0] || strcasecmp(keys->list[i].section, section) == 0) &&
			name_fits(names, keys->list[i].name))
			return keys->list[i].value;
	return NULL;
}

/* A decimal comma is a point, in any locale; a unit may follow. */
bool text_number(const char *text, double *value)
{
	char copy[64], *end, point = localeconv()->decimal_point[0];
	snprintf(copy, sizeof copy, "%.63s", text);
	char *at = copy + strcspn(copy, ".,");
	if (*at)
		*at = point;
	*value = strtod(copy, &end);
	return end != copy && isfinite(*value);
}

tomos_status keys_number(
	const Keys *keys, const char *section, const char *names, double *value, bool *found)
{
	const char *text = keys_text(keys, section, names);
	bool there = text && text[0];
	if (found)
		*found = there;
	if (!there && found)
		return TOMOS_OK;
	if (!there)
		return fail(TOMOS_BAD_FILE, "'%s' does not have '%.*s'", keys->path,
			(int)strcspn(names, "|"), names);
	if (text_number(text, value))
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s': '%.*s' is '%.40s', which is not a number", keys->path,
		(int)strcspn(names, "|"), names, text);
}

tomos_status keys_positive(
	const Keys *keys, const char *section, const char *names, double *value, bool *found)
{
	*value = 0;
	TRY(keys_number(keys, section, names, value, found));
	if ((found && !*found) || *value > 0)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s': '%.*s' is %g; it must be greater than 0", keys->path,
		(int)strcspn(names, "|"), names, *value);
}

tomos_status keys_count(const Keys *keys, const char *section, const char *names, int64_t *value)
{
	double number;
	TRY(keys_number(keys, section, names, &number, NULL));
	if (!(number >= 1 && number <= 1e7 && number == floor(number)))
		return fail(TOMOS_BAD_FILE, "'%s': '%.*s' is %g; it must be 1 to 10000000, whole",
			keys->path, (int)strcspn(names, "|"), names, number);
	*value = (int64_t)number;
	return TOMOS_OK;
}
