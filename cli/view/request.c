/* What a request asks for. Everything that comes from outside is read here, strictly: names have no
 * escapes, numbers no second spelling, and whatever is not known is rejected. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "view.h"

enum { HTTP_PORT = 80 };

static view_action reject(view_request *r, int status, const char *error)
{
	r->action = VIEW_ERROR;
	r->status = status;
	snprintf(r->error, sizeof r->error, "%s", error);
	return r->action;
}

/* ---- who asks -------------------------------------------------------------------------------- */

/* Requests for other host names are rejected: pages of another site could send them if its name
 * resolves to this machine (DNS rebinding). Browsers leave out the port if it is HTTP's default. */
static bool host_known(const char *host, int port)
{
	static const char *const names[] = {"127.0.0.1", "localhost"};
	char text[32];
	for (int i = 0; host && i < COUNT(names); i++) {
		snprintf(text, sizeof text, "%s:%d", names[i], port);
		if (strcmp(host, text) == 0 || (port == HTTP_PORT && strcmp(host, names[i]) == 0))
			return true;
	}
	return false;
}

/* In a time that does not depend on how much of it is right. */
static bool token_right(const char *text, size_t length, const char *token)
{
	unsigned wrong = length != VIEW_TOKEN;
	for (size_t i = 0; i < VIEW_TOKEN; i++)
		wrong |= (unsigned)((i < length ? text[i] : 0) ^ token[i]);
	return wrong == 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool name_plain(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("._-/", text[i]))
			return false;
	return true;
}

/* Names between slashes: not empty, and with a dot in front only those that Zarr has. */
static bool parts_plain(const char *path)
{
	static const char *const dotted[] = {".zattrs", ".zgroup", ".zarray", ".zmetadata"};
	if (strstr(path, ".."))
		return false;
	do {
		size_t length = strcspn(path, "/");
		bool known = length > 0 && *path != '.';
		for (int i = 0; i < COUNT(dotted); i++)
			known = known || (length == strlen(dotted[i]) &&
						 strncmp(path, dotted[i], length) == 0);
		if (!known)
			return false;
		path += length;
	} while (*path++ == '/');
	return true;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Undoes %XX; false: an escape that is none, or a character that no value has. */
static bool unescape(const char *from, size_t length, char *to, size_t size)
{
	size_t used = 0;
	for (size_t i = 0; i < length; i++) {
		char c = from[i];
		if (c == '%') {
			char digits[3] = {0};
			if (length - i < 3)
				return false;
			digits[0] = from[i + 1];
			digits[1] = from[i + 2];
			if (!isxdigit((unsigned char)digits[0]) ||
				!isxdigit((unsigned char)digits[1]))
				return false;
			c = (char)strtol(digits, NULL, 16);
			i += 2;
		}
		if (c < '!' || c > '~' || used + 1 >= size)
			return false;
		to[used++] = c;
	}
	to[used] = 0;
	return true;
}

static bool take_int(const char **text, int64_t *value)
{
	char *end;
	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*value = strtoll(*text, &end, 10);
	*text = end;
	return errno == 0;
}

static bool take_one(const char *text, int64_t *value)
{
	return take_int(&text, value) && !*text;
}

static bool take_three(const char *text, int64_t values[3])
{
	for (int i = 0; i < 3; i++) {
		if (!take_int(&text, &values[i]) || *text != (i < 2 ? ',' : 0))
			return false;
		text += i < 2;
	}
	return true;
}

static bool take_real(const char *text, double *value)
{
	char *end;
	if (!*text || strspn(text, "0123456789+-.eE") != strlen(text))
		return false;
	*value = strtod(text, &end);
	return !*end && isfinite(*value);
}

static bool take_word(const char *text, char *word, size_t size)
{
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '-')
			return false;
	return snprintf(word, size, "%s", text) < (int)size;
}

/* ---- the query ------------------------------------------------------------------------------- */

/* One pair name=value; false: unknown, or not in its form. */
static bool box_pair(view_request *r, const char *name, const char *value)
{
	if (strcmp(name, "file") == 0)
		return take_one(value, &r->file);
	if (strcmp(name, "level") == 0)
		return take_one(value, &r->level);
	if (strcmp(name, "first") == 0)
		return take_three(value, r->first);
	if (strcmp(name, "count") == 0)
		return take_three(value, r->count);
	if (strcmp(name, "step") == 0)
		return take_three(value, r->step);
	if (strcmp(name, "low") == 0)
		return take_real(value, &r->low);
	if (strcmp(name, "high") == 0)
		return take_real(value, &r->high);
	if (strcmp(name, "type") != 0)
		return false;
	r->bytes = strcmp(value, "uint8") == 0;
	return r->bytes || strcmp(value, "float32") == 0;
}

static bool slice_pair(view_request *r, const char *name, const char *value)
{
	if (strcmp(name, "row") == 0)
		return take_one(value, &r->row);
	if (strcmp(name, "axis") == 0)
		return take_real(value, &r->axis);
	if (strcmp(name, "size") == 0)
		return take_one(value, &r->size) && r->size >= 1 && r->size <= VIEW_SIDE;
	return strcmp(name, "filter") == 0 && take_word(value, r->filter, sizeof r->filter);
}

static bool take_pair(view_request *r, const char *pair, size_t length)
{
	char name[16], value[128];
	size_t before = 0;
	while (before < length && pair[before] != '=')
		before++;
	if (before == length || !unescape(pair, before, name, sizeof name) ||
		!unescape(pair + before + 1, length - before - 1, value, sizeof value))
		return false;
	return r->action == VIEW_BOX ? box_pair(r, name, value) : slice_pair(r, name, value);
}

static view_action take_query(view_request *r, const char *query)
{
	while (*query) {
		size_t length = strcspn(query, "&");
		if (!take_pair(r, query, length))
			return reject(r, 400,
				"the query has a part that is not known or not in its form");
		query += length;
		query += *query == '&';
	}
	return r->action;
}

static view_action check_box(view_request *r)
{
	double samples = 1;
	for (int i = 0; i < 3; i++) {
		samples *= (double)r->count[i];
		if (r->count[i] < 1 || r->step[i] < 1)
			return reject(r, 400, "count and step must be at least 1 along each axis");
	}
	if (samples > VIEW_SAMPLES)
		return reject(r, 400, "more than 67108864 samples in one request");
	if (r->file >= VIEW_FILES || r->level >= VIEW_LEVELS)
		return reject(r, 400, "there is no such file or level");
	if (r->bytes && !(r->low < r->high))
		return reject(r, 400, "uint8 needs low and high, with low below high");
	return r->action;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static view_action take_zarr(view_request *r, const view_gate *gate, const char *path, bool options)
{
	if (!gate->zarr)
		return reject(r, 404, "the Zarr itself is served with --zarr only");
	if (!parts_plain(path) || strlen(path) >= sizeof r->name)
		return reject(r, 404, "there is no such file");
	r->action = options ? VIEW_PREFLIGHT : VIEW_ZARR;
	snprintf(r->name, sizeof r->name, "%s", path);
	return r->action;
}

/* `path` is what follows the token and its slash, with its query after `length` characters. */
static view_action take_path(view_request *r, const char *path, size_t length)
{
	const char *query = path[length] == '?' ? path + length + 1 : "";
	if (length == 4 && strncmp(path, "info", 4) == 0)
		r->action = VIEW_INFO;
	else if (length == 3 && strncmp(path, "box", 3) == 0)
		r->action = VIEW_BOX;
	else if (length == 5 && strncmp(path, "slice", 5) == 0)
		r->action = VIEW_SLICE;
	else if (length == 4 && strncmp(path, "axis", 4) == 0)
		r->action = VIEW_AXIS;
	else {
		r->action = VIEW_PAGE;
		snprintf(r->name, sizeof r->name, "%.*s", (int)length, path);
		if (length == 0)
			snprintf(r->name, sizeof r->name, "index.html");
		return r->action;
	}
	if (r->action == VIEW_BOX || r->action == VIEW_SLICE)
		take_query(r, query);
	if (r->action == VIEW_BOX)
		check_box(r);
	if (r->action == VIEW_SLICE && r->row < 0)
		reject(r, 400, "a slice needs row");
	return r->action;
}

/* The first part of the path must be the token. */
static const char *after_token(const char *url, const view_gate *gate)
{
	if (*url != '/')
		return NULL;
	size_t length = strcspn(url + 1, "/?");
	if (!token_right(url + 1, length, gate->token) || url[1 + length] != '/')
		return NULL;
	return url + 2 + length;
}

view_action view_parse(view_request *r, const view_gate *gate, const char *method, const char *host,
	const char *url)
{
	bool options = strcmp(method, "OPTIONS") == 0;
	memset(r, 0, sizeof *r);
	r->step[0] = r->step[1] = r->step[2] = 1;
	r->row = -1;
	r->axis = NAN;
	if (!host_known(host, gate->port))
		return reject(r, 403, "the Host header is not that of this server");
	if (strlen(url) > VIEW_URL)
		return reject(r, 414, "the address is too long");
	const char *path = after_token(url, gate);
	if (!path)
		return reject(r, 404, "there is no such page");
	size_t length = strcspn(path, "?");
	bool zarr = strncmp(path, "zarr/", 5) == 0;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 && !(options && zarr))
		return reject(r, 405, "only GET and HEAD are answered");
	if (!name_plain(path, length) || length >= sizeof r->name)
		return reject(r, 404, "there is no such file");
	if (!zarr)
		return take_path(r, path, length);
	if (path[length])
		return reject(r, 404, "there is no such file");
	return take_zarr(r, gate, path + 5, options);
}

/* ---- ranges of bytes ------------------------------------------------------------------------- */

bool view_range_parse(view_range *range, const char *header, int64_t size)
{
	int64_t low, high = size - 1;
	*range = (view_range){0, size, false};
	if (!header)
		return true;
	if (strncmp(header, "bytes=", 6) != 0 || strchr(header, ','))
		return true; /* other units are ignored, and several ranges may be */
	const char *at = header + 6;
	bool tail = *at == '-';
	at += tail;
	if (!take_int(&at, &low))
		return false;
	if (!tail) {
		if (*at++ != '-' || (*at && !take_int(&at, &high)))
			return false;
	} else {
		low = low < size ? size - low : 0;
	}
	high = high < size - 1 ? high : size - 1;
	if (*at || low > high)
		return false;
	*range = (view_range){low, high - low + 1, true};
	return true;
}
