/* Files of "key = value" lines in sections. */
#ifndef TOMOS_BASE_KEYS_H
#define TOMOS_BASE_KEYS_H

#include "base/base.h"

typedef struct {
	const char *section, *name, *value;
} Key;

typedef struct {
	const char *path; /* borrowed, for messages */
	char *text;
	Key *list;
	int64_t count;
} Keys;

/* A whole file with a zero after it; to be freed. */
tomos_status text_read(char **text, int64_t *length, const char *path);

/* Bytes of the UTF-8 character at `text`; 0: it is none. */
int character_bytes(const char *text);

/* The finite number at the beginning of a text, with a decimal point or comma in any locale. */
bool text_number(const char *text, double *value);

/* What is not UTF-8 is taken for Latin-1; the values are UTF-8, as names of files are. */
tomos_status keys_read(Keys *keys, const char *path);
void keys_free(Keys *keys);
/* `names` are "a|b|c" in any case, `section` "" is any. The first value, or NULL. */
const char *keys_text(const Keys *keys, const char *section, const char *names);
/* A number; found NULL: it has to be there, otherwise *value does not change where it is not.
 * keys_positive: greater than 0, or 0 where it is not there. keys_count: a whole number. */
tomos_status keys_number(
	const Keys *keys, const char *section, const char *names, double *value, bool *found);
tomos_status keys_positive(
	const Keys *keys, const char *section, const char *names, double *value, bool *found);
tomos_status keys_count(const Keys *keys, const char *section, const char *names, int64_t *value);

#endif
