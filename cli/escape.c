/* Text from outside, such as names of files, within UTF-8, XML and JSON. */
#include <string.h>
#include "cli.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Without overlong forms, surrogates and codes above U+10FFFF, which XML parsers reject: these show
 * in the second byte. */
int utf8_length(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	if (*c < 0x80)
		return 1;
	int length = *c < 0xc2 ? 0 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : *c < 0xf5 ? 4 : 0;
	unsigned least = *c == 0xe0 ? 0xa0 : *c == 0xf0 ? 0x90 : 0x80;
	unsigned most = *c == 0xed ? 0x9f : *c == 0xf4 ? 0x8f : 0xbf;
	if (length == 0 || c[1] < least || c[1] > most)
		return 0;
	for (int i = 2; i < length; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

int utf8_cut(const char *text, int most)
{
	int used = 0;
	while (text[used]) {
		int length = utf8_length(text + used);
		length = length > 0 ? length : 1;
		if (used + length > most)
			break;
		used += length;
	}
	return used;
}

static const char *xml_entity(char letter)
{
	switch (letter) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default: /* XML has no other control characters */
		return (unsigned char)letter >= 32 || letter == '\n' || letter == '\t'
			       ? NULL
			       : replacement;
	}
}

/* XML has no U+FFFE and U+FFFF either. */
void xml_escape(FILE *out, const char *text)
{
	while (*text) {
		int length = utf8_length(text);
		bool none = length == 0 || strncmp(text, "\xef\xbf\xbe", 3) == 0 ||
			    strncmp(text, "\xef\xbf\xbf", 3) == 0;
		const char *entity = none ? replacement : xml_entity(*text);
		if (entity)
			fputs(entity, out);
		else
			fwrite(text, 1, (size_t)length, out);
		text += length > 0 ? length : 1;
	}
}

void json_text(FILE *json, const char *text)
{
	fputc('"', json);
	while (*text) {
		int length = utf8_length(text);
		if (length == 0)
			fputs(replacement, json);
		else if (*text == '"' || *text == '\\')
			fprintf(json, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			fprintf(json, "\\u%04x", (unsigned)*text);
		else
			fwrite(text, 1, (size_t)length, json);
		text += length > 0 ? length : 1;
	}
	fputc('"', json);
}
