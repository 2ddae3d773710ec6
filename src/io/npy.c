/* NumPy array files, versions 1 to 3 of the format: a header line, then the numbers.
 *
 * The header is a Python dictionary with the keys 'descr', 'fortran_order' and 'shape', in any
 * order; anything else is rejected.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
#include <stdio.h>
#include <string.h>
#include "io/io.h"
#include "io/matrix_file.h"

enum {
	LARGEST_HEADER = 1 << 16, /* headers by NumPy have some hundred bytes */
	LARGEST_RANK = 32,
};

#define MAGIC "\x93NUMPY"
#define NATIVE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>')
#define FOREIGN (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<')

/* ---- the header ------------------------------------------------------------------------------ */

typedef struct {
	const char *path;
	const char *at, *end;
	char descr[32];
	int64_t axes[LARGEST_RANK];
	int rank;
	bool fortran, has_descr, has_order, has_shape;
} Header;

/* Replaces control characters, which a terminal would interpret. */
static const char *printable(char *text, size_t room, const char *from, const char *end)
{
	size_t length = 0;
	for (; length + 1 < room && from < end; length++, from++)
		text[length] = *from >= ' ' && *from <= '~' ? *from : '?';
	text[length] = 0;
	return text;
}

static tomos_status reject(const Header *h, const char *what)
{
	char found[25];
	return fail(TOMOS_BAD_FILE, "'%s': the npy header is wrong: %s expected at '%s'", h->path,
		what, printable(found, sizeof found, h->at, h->end));
}

static void skip_spaces(Header *h)
{
	while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t'))
		h->at++;
}

static bool take(Header *h, const char *token)
{
	size_t length = strlen(token);
	skip_spaces(h);
	if ((size_t)(h->end - h->at) < length || memcmp(h->at, token, length) != 0)
		return false;
	h->at += length;
	return true;
}

static tomos_status take_text(Header *h, char *text, size_t room, const char *what)
{
	skip_spaces(h);
	char quote = h->at < h->end ? *h->at : 0;
	if (quote != '\'' && quote != '"')
		return reject(h, what);
	const char *start = h->at + 1;
	const char *stop = memchr(start, quote, (size_t)(h->end - start));
	size_t length = stop ? (size_t)(stop - start) : room;
	if (length >= room)
		return reject(h, what);
	printable(text, room, start, stop);
	h->at = stop + 1;
	return TOMOS_OK;
}

static tomos_status take_number(Header *h, int64_t *number)
{
	skip_spaces(h);
	const char *start = h->at;
	*number = 0;
	for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
		if (!size_mul(*number, 10, number) || !size_add(*number, *h->at - '0', number))
			return reject(h, "a size below 2^63");
	return h->at > start ? TOMOS_OK : reject(h, "a size");
}

static tomos_status take_shape(Header *h)
{
	if (!take(h, "("))
		return reject(h, "'(' of the shape");
	for (h->rank = 0; !take(h, ")"); h->rank++) {
		if (h->rank == LARGEST_RANK)
			return reject(h, "a shape of at most 32 axes");
		TRY(take_number(h, &h->axes[h->rank]));
		bool comma = take(h, ",");
		skip_spaces(h);
		bool last = h->at < h->end && *h->at == ')';
		if (!comma && (!last || h->rank == 0))
			return reject(h, "',' after a size");
	}
	return TOMOS_OK;
}

static tomos_status take_entry(Header *h)
{
	char key[16];
	TRY(take_text(h, key, sizeof key, "a key"));
	if (!take(h, ":"))
		return reject(h, "':' after a key");
	if (strcmp(key, "descr") == 0 && !h->has_descr) {
		h->has_descr = true;
		return take_text(
			h, h->descr, sizeof h->descr, "a plain number type (no list of fields)");
	}
	if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
		h->has_order = true;
		h->fortran = take(h, "True");
		return h->fortran || take(h, "False") ? TOMOS_OK : reject(h, "True or False");
	}
	if (strcmp(key, "shape") == 0 && !h->has_shape) {
		h->has_shape = true;
		return take_shape(h);
	}
	return reject(h, "one each of the keys descr, fortran_order and shape");
}

static tomos_status parse(Header *h)
{
	if (!take(h, "{"))
		return reject(h, "'{'");
	while (!take(h, "}")) {
		TRY(take_entry(h));
		bool comma = take(h, ",");
		skip_spaces(h);
		if (!comma && (h->at == h->end || *h->at != '}'))
			return reject(h, "',' or '}'");
	}
	skip_spaces(h);
	if (h->at != h->end)
		return reject(h, "the end");
	if (!h->has_descr || !h->has_order || !h->has_shape)
		return reject(h, "each of the keys descr, fortran_order and shape");
	return TOMOS_OK;
}

/* '<f4', '|u1', '>i2', '|b1' ... */
static tomos_status take_element(Element *element, const Header *h)
{
	const char *d = h->descr;
	char kind = strlen(d) == 3 && strchr("<>|=", d[0]) && d[1] == 'b' ? 'u' : d[0] ? d[1] : 0;
	*element = (Element){kind, strlen(d) == 3 ? d[2] - '0' : 0, d[0] == FOREIGN};
	bool order = element->bytes == 1 ? d[0] != 0 && strchr("<>|=", d[0])
					 : d[0] == NATIVE || d[0] == FOREIGN || d[0] == '=';
	if (!order || !element_name(*element) || (d[1] == 'b' && element->bytes != 1))
		return fail(TOMOS_UNSUPPORTED,
			"'%s' holds numbers of type '%s'; integers (i1 to u8) and floats (f2, f4, "
			"f8) "
			"can be read",
			h->path, d);
	return TOMOS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool npy_probe(const unsigned char *head, size_t length)
{
	return head && length >= 6 && memcmp(head, MAGIC, 6) == 0;
}

/* Offset of the header: after the magic, two bytes of version and 2 or 4 of length. */
static tomos_status find_header(const Plain *npy, const char *path, int64_t *at, int64_t *length)
{
	unsigned char start[12] = {0};
	TRY(flat_read(npy->descriptor, path, 0, start, min64(npy->size, sizeof start)));
	int version = start[6];
	if (npy->size < (int64_t)sizeof start || version < 1 || version > 3 || start[7] != 0)
		return fail(TOMOS_BAD_FILE,
			"'%s': version %d.%d of the npy format in %lld bytes; 1.0, 2.0 and 3.0 can "
			"be "
			"read",
			path, version, start[7], (long long)npy->size);
	*at = version == 1 ? 10 : 12;
	*length = start[8] | start[9] << 8;
	if (version > 1)
		*length |= (int64_t)start[10] << 16 | (int64_t)start[11] << 24;
	if (*length > LARGEST_HEADER || *length > npy->size - *at)
		return fail(TOMOS_BAD_FILE,
			"'%s': the npy header says it has %lld bytes; the file has %lld", path,
			(long long)*length, (long long)npy->size);
	return TOMOS_OK;
}

static tomos_status read_header(Plain *npy, Header *h)
{
	int64_t at = 0, length = 0;
	char *text;
	TRY(find_header(npy, h->path, &at, &length));
	TRY(mem_alloc(&text, length, 1, "an npy header"));
	tomos_status status = flat_read(npy->descriptor, h->path, at, text, length);
	h->at = text;
	h->end = text + length;
	if (status == TOMOS_OK)
		status = parse(h);
	mem_free(text);
	npy->data = at + length;
	npy->fortran = h->fortran;
	return status;
}

static tomos_status npy_open(File *file, const tomos_file_options *options)
{
	(void)options;
	Header h = {.path = file->path};
	TRY(plain_new(file, sizeof(Plain)));
	Plain *npy = file->own;
	TRY(flat_open(&npy->descriptor, &npy->size, file->path));
	TRY(read_header(npy, &h));
	TRY(take_element(&file->element, &h));
	TRY(file_take_shape(file, h.axes, h.rank));
	return plain_check(npy, file, file->path);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The header is padded with spaces so that the numbers begin at a multiple of 64 bytes. */
static tomos_status write_header(Plain *npy, const File *file)
{
	char *text;
	TRY(mem_printf(&text,
		MAGIC
		"%c%c%c%c{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%lld, %lld, %lld), "
		"}",
		1, '.', '.', '.', file->element.bytes == 1 ? '|' : NATIVE, file->element.kind,
		file->element.bytes, (long long)file->shape[0], (long long)file->shape[1],
		(long long)file->shape[2]));
	char padded[256];
	size_t length = strlen(text), whole = (length + 1 + 63) / 64 * 64;
	memset(padded, ' ', sizeof padded);
	memcpy(padded, text, length);
	mem_free(text);
	padded[7] = 0;
	padded[8] = (char)(whole - 10);
	padded[9] = 0;
	padded[whole - 1] = '\n';
	npy->data = (int64_t)whole;
	return flat_write(npy->descriptor, file->path, 0, padded, npy->data);
}

static tomos_status npy_create(File *file)
{
	TRY(plain_new(file, sizeof(Plain)));
	Plain *npy = file->own;
	TRY(file_descriptor(file, &npy->descriptor));
	TRY(write_header(npy, file));
	return plain_begin(file, npy);
}

/* ---- npy files inside archives --------------------------------------------------------------- */

tomos_status npy_look(NpyForm *form, const char *path, const unsigned char *bytes, int64_t size)
{
	int64_t at = size > 6 && bytes[6] == 1 ? 10 : 12, length = 0;
	if (size < 12 || !npy_probe(bytes, (size_t)size) || bytes[6] < 1 || bytes[6] > 3)
		return fail(TOMOS_BAD_FILE, "'%s': an array in it is no npy file", path);
	for (int64_t i = at; i-- > 8;)
		length = length << 8 | bytes[i];
	if (length > size - at)
		return fail(TOMOS_BAD_FILE,
			"'%s': an npy header says it has %lld bytes; %lld are there", path,
			(long long)length, (long long)(size - at));
	Header h = {.path = path, .at = (const char *)bytes + at};
	h.end = h.at + length;
	TRY(parse(&h));
	*form = (NpyForm){.count = 1, .data = at + length};
	memcpy(form->descr, h.descr, sizeof form->descr);
	form->rank = h.rank;
	form->fortran = h.fortran;
	for (int i = 0; i < h.rank; i++) {
		if (i < COUNT(form->axes))
			form->axes[i] = h.axes[i];
		if (!size_mul(form->count, h.axes[i], &form->count))
			return fail(TOMOS_BAD_FILE, "'%s': an array in it is too large", path);
	}
	if (strlen(h.descr) > 1 && strchr("SU", h.descr[1]))
		return TOMOS_OK;
	return take_element(&form->element, &h);
}

tomos_status npy_compose(char **header, int64_t *length, Element element, int64_t count)
{
	char shape[32] = "";
	if (count >= 0)
		snprintf(shape, sizeof shape, "%lld,", (long long)count);
	*length = 128;
	TRY(mem_alloc(header, *length + 1, 1, "an npy header"));
	snprintf(*header, 129, MAGIC "%c%c%c%c%-*s", 1, '.', '.', '.', 118, "");
	int written = snprintf(*header + 10, 118,
		"{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }",
		element.bytes == 1 || element.kind == 'S' ? '|' : NATIVE, element.kind,
		element.bytes, shape);
	(*header)[10 + written] = ' ';
	(*header)[7] = 0;
	(*header)[8] = 118;
	(*header)[9] = 0;
	(*header)[127] = '\n';
	return TOMOS_OK;
}

const Format format_npy = {
	.name = "npy",
	.endings = "npy",
	.probe = npy_probe,
	.open = npy_open,
	.create = npy_create,
	PLAIN_FORMAT,
};
