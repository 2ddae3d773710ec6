/* Named lists in a zip archive of npy files, as NumPy's savez and SciPy's save_npz have them.
 *
 * Written without compression, with 64-bit sizes; read with or without deflate, of 32- or 64-bit
 * sizes. PKWARE's APPNOTE 6.3.
 */
#include <limits.h>
#include <string.h>
#include <zlib.h>
#include "io/matrix_file.h"

enum {
	LOCAL = 30, /* bytes of the fixed parts of each record */
	CENTRAL = 46,
	END = 22,
	END64 = 56,
	LOCATOR64 = 20,
	LARGEST_TAIL = END + 65535,
	LARGEST_DIRECTORY = 1 << 20,
	CRC_STEP = 1 << 30,
};

static void put(unsigned char **to, int bytes, uint64_t value)
{
	for (int i = 0; i < bytes; i++, value >>= 8)
		*(*to)++ = (unsigned char)(value & 255);
}

static uint64_t get(const unsigned char *from, int bytes)
{
	uint64_t value = 0;
	for (int i = bytes; i-- > 0;)
		value = value << 8 | from[i];
	return value;
}

/* ---- writing ------------------------------------------------------------------------------------ */

typedef struct {
	char name[24];
	int64_t at, size;
	uint32_t crc;
} Member;

typedef struct {
	int descriptor;
	const char *path;
	int64_t at;
} Zip;

static tomos_status append(Zip *zip, const void *bytes, int64_t count)
{
	TRY(flat_write(zip->descriptor, zip->path, zip->at, bytes, count));
	zip->at += count;
	return TOMOS_OK;
}

static uint32_t crc_of(uint32_t crc, const void *data, int64_t bytes)
{
	const unsigned char *from = data;
	for (int64_t done = 0; done < bytes; done += CRC_STEP)
		crc = (uint32_t)crc32(crc, from + done, (uInt)min64(bytes - done, CRC_STEP));
	return crc;
}

/* What local and central headers have in common, from the version needed to the extra's length. */
static void put_common(unsigned char **to, const Member *m, int extra)
{
	put(to, 2, 45);
	put(to, 2, 0);                  /* flags */
	put(to, 2, 0);                  /* stored */
	put(to, 4, (1 << 5 | 1) << 16); /* 1 January 1980: the same matrix is the same file */
	put(to, 4, m->crc);
	put(to, 4, UINT32_MAX); /* sizes are in the extra field */
	put(to, 4, UINT32_MAX);
	put(to, 2, strlen(m->name));
	put(to, 2, (uint64_t)extra);
}

static tomos_status write_local(Zip *zip, const Member *m)
{
	unsigned char header[LOCAL + sizeof m->name + 20], *to = header;
	put(&to, 4, 0x04034b50);
	put_common(&to, m, 20);
	memcpy(to, m->name, strlen(m->name));
	to += strlen(m->name);
	put(&to, 2, 1);
	put(&to, 2, 16);
	put(&to, 8, (uint64_t)m->size);
	put(&to, 8, (uint64_t)m->size);
	return append(zip, header, to - header);
}

static tomos_status write_central(Zip *zip, const Member *m)
{
	unsigned char header[CENTRAL + sizeof m->name + 28], *to = header;
	put(&to, 4, 0x02014b50);
	put(&to, 2, 3 << 8 | 45); /* made on Unix */
	put_common(&to, m, 28);
	put(&to, 2, 0); /* comment */
	put(&to, 2, 0); /* disk */
	put(&to, 2, 0);
	put(&to, 4, UINT32_C(0644) << 16);
	put(&to, 4, UINT32_MAX);
	memcpy(to, m->name, strlen(m->name));
	to += strlen(m->name);
	put(&to, 2, 1);
	put(&to, 2, 24);
	put(&to, 8, (uint64_t)m->size);
	put(&to, 8, (uint64_t)m->size);
	put(&to, 8, (uint64_t)m->at);
	return append(zip, header, to - header);
}

static tomos_status write_member(Zip *zip, const NamedList *list, Member *m)
{
	char *header;
	int64_t length, bytes = (list->count < 0 ? 1 : list->count) * list->element.bytes;
	TRY(npy_compose(&header, &length, list->element, list->count));
	m->at = zip->at;
	m->size = length + bytes;
	m->crc = crc_of(crc_of(0, header, length), list->data, bytes);
	memcpy(m->name, list->name, strlen(list->name));
	memcpy(m->name + strlen(list->name), ".npy", 5);
	tomos_status status = write_local(zip, m);
	if (status == TOMOS_OK)
		status = append(zip, header, length);
	mem_free(header);
	return status != TOMOS_OK ? status : append(zip, list->data, bytes);
}

static tomos_status write_end(Zip *zip, int64_t directory, int count)
{
	unsigned char tail[END64 + LOCATOR64 + END], *to = tail;
	int64_t end64 = zip->at;
	put(&to, 4, 0x06064b50);
	put(&to, 8, END64 - 12);
	put(&to, 2, 3 << 8 | 45);
	put(&to, 2, 45);
	put(&to, 8, 0); /* disks */
	put(&to, 8, (uint64_t)count);
	put(&to, 8, (uint64_t)count);
	put(&to, 8, (uint64_t)(end64 - directory));
	put(&to, 8, (uint64_t)directory);
	put(&to, 4, 0x07064b50);
	put(&to, 4, 0);
	put(&to, 8, (uint64_t)end64);
	put(&to, 4, 1);
	put(&to, 4, 0x06054b50);
	put(&to, 4, 0);
	put(&to, 2, (uint64_t)count);
	put(&to, 2, (uint64_t)count);
	put(&to, 4, UINT32_MAX);
	put(&to, 4, UINT32_MAX);
	put(&to, 2, 0);
	return append(zip, tail, to - tail);
}

static tomos_status write_all(Zip *zip, const NamedList *lists, int count)
{
	Member members[8] = {{{0}, 0, 0, 0}};
	for (int i = 0; i < count; i++)
		TRY(write_member(zip, &lists[i], &members[i]));
	int64_t directory = zip->at;
	for (int i = 0; i < count; i++)
		TRY(write_central(zip, &members[i]));
	return write_end(zip, directory, count);
}

tomos_status npz_write(const char *temporary, const char *path, const NamedList *lists, int count)
{
	Zip zip = {.descriptor = -1, .path = path};
	TRY(flat_create(&zip.descriptor, temporary, path));
	tomos_status status = write_all(&zip, lists, count);
	tomos_status closed = flat_close(&zip.descriptor, path);
	return status != TOMOS_OK ? status : closed;
}

/* ---- the directory --------------------------------------------------------------------------------- */

typedef struct {
	int descriptor;
	const char *path;
	int64_t size;
	unsigned char *directory;
	int64_t directory_size;
} Archive;

typedef struct {
	const unsigned char *name;
	int64_t name_length, packed, size, at;
	int method;
	uint32_t crc;
} Entry;

static tomos_status damaged(const Archive *a, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s' is a damaged npz file: %s", a->path, what);
}

/* Where the end record lies in `tail`; a comment may follow, up to the end of the file. */
static int64_t find_end(const unsigned char *tail, int64_t length)
{
	for (int64_t at = length - END; at >= 0; at--)
		if (get(tail + at, 4) == 0x06054b50 &&
			at + END + (int64_t)get(tail + at + 20, 2) == length)
			return at;
	return -1;
}

static tomos_status find_directory64(Archive *a, int64_t end, int64_t *at, int64_t *size)
{
	unsigned char locator[LOCATOR64], record[END64];
	if (end < LOCATOR64)
		return damaged(a, "there is no room for 64-bit sizes");
	TRY(flat_read(a->descriptor, a->path, end - LOCATOR64, locator, LOCATOR64));
	uint64_t where = get(locator + 8, 8);
	if (get(locator, 4) != 0x07064b50 || where > (uint64_t)(a->size - END64))
		return damaged(a, "the end of the directory is not where it should be");
	TRY(flat_read(a->descriptor, a->path, (int64_t)where, record, END64));
	if (get(record, 4) != 0x06064b50)
		return damaged(a, "the end of the directory is not where it should be");
	*size = (int64_t)(get(record + 40, 8) & INT64_MAX);
	*at = (int64_t)(get(record + 48, 8) & INT64_MAX);
	return TOMOS_OK;
}

static tomos_status read_directory(Archive *a)
{
	unsigned char *tail;
	int64_t length = min64(a->size, LARGEST_TAIL), at, size;
	TRY(mem_alloc(&tail, length, 1, "the end of an npz file"));
	tomos_status status = flat_read(a->descriptor, a->path, a->size - length, tail, length);
	int64_t end = status == TOMOS_OK ? find_end(tail, length) : -1;
	size = end >= 0 ? (int64_t)get(tail + end + 12, 4) : 0;
	at = end >= 0 ? (int64_t)get(tail + end + 16, 4) : 0;
	mem_free(tail);
	TRY(status);
	if (end < 0)
		return damaged(a, "it has no directory at its end");
	if (size == UINT32_MAX || at == UINT32_MAX)
		TRY(find_directory64(a, a->size - length + end, &at, &size));
	if (size < 0 || size > LARGEST_DIRECTORY || at < 0 || at > a->size - size)
		return damaged(a, "its directory is not in the file");
	TRY(mem_alloc(&a->directory, size, 1, "the directory of an npz file"));
	a->directory_size = size;
	return flat_read(a->descriptor, a->path, at, a->directory, size);
}

/* 64-bit sizes stand in the extra field, those that do not fit into 32 bits, in this order. */
static bool take_sizes64(Entry *e, const unsigned char *extra, int64_t length)
{
	int64_t *wide[3] = {&e->size, &e->packed, &e->at};
	bool needed = false;
	for (int i = 0; i < 3; i++)
		needed |= *wide[i] == UINT32_MAX;
	while (needed && length >= 4) {
		int64_t part = (int64_t)get(extra + 2, 2);
		if (part > length - 4)
			return false;
		const unsigned char *from = extra + 4;
		for (int i = 0; get(extra, 2) == 1 && i < 3; i++)
			if (*wide[i] == UINT32_MAX) {
				if (from + 8 > extra + 4 + part)
					return false;
				*wide[i] = (int64_t)(get(from, 8) & INT64_MAX);
				from += 8;
			}
		if (get(extra, 2) == 1)
			return true;
		extra += 4 + part;
		length -= 4 + part;
	}
	return !needed;
}

/* The entry at *at of the directory; *at goes on to the next, -1 at the end. */
static tomos_status next_entry(const Archive *a, int64_t *at, Entry *e)
{
	const unsigned char *from = a->directory + *at;
	int64_t left = a->directory_size - *at;
	if (left == 0) {
		*at = -1;
		return TOMOS_OK;
	}
	if (left < CENTRAL || get(from, 4) != 0x02014b50)
		return damaged(a, "its directory is cut short");
	int64_t extra = (int64_t)get(from + 30, 2), comment = (int64_t)get(from + 32, 2);
	*e = (Entry){.method = (int)get(from + 10, 2),
		.crc = (uint32_t)get(from + 16, 4),
		.packed = (int64_t)get(from + 20, 4),
		.size = (int64_t)get(from + 24, 4),
		.name_length = (int64_t)get(from + 28, 2),
		.at = (int64_t)get(from + 42, 4),
		.name = from + CENTRAL};
	if (CENTRAL + e->name_length + extra + comment > left ||
		!take_sizes64(e, e->name + e->name_length, extra))
		return damaged(a, "its directory is cut short");
	*at += CENTRAL + e->name_length + extra + comment;
	return TOMOS_OK;
}

/* ---- members ------------------------------------------------------------------------------------------ */

static tomos_status inflate_all(
	const Archive *a, unsigned char *packed, int64_t from, unsigned char *bytes, int64_t to)
{
	z_stream z = {.next_in = packed, .next_out = bytes};
	int code = inflateInit2(&z, -MAX_WBITS);
	if (code != Z_OK)
		return fail(TOMOS_NO_MEMORY, "no memory to unpack '%s'", a->path);
	while (code == Z_OK) {
		int64_t in = packed + from - z.next_in, out = bytes + to - z.next_out;
		z.avail_in = (uInt)min64(in, CRC_STEP);
		z.avail_out = (uInt)min64(out, CRC_STEP);
		code = inflate(&z, in <= CRC_STEP && out <= CRC_STEP ? Z_FINISH : Z_NO_FLUSH);
	}
	bool whole = code == Z_STREAM_END && z.next_out == bytes + to;
	inflateEnd(&z);
	return whole ? TOMOS_OK : damaged(a, "a member cannot be unpacked");
}

static tomos_status unpack(const Archive *a, const Entry *e, int64_t at, unsigned char *bytes)
{
	if (e->method == 0)
		return e->packed == e->size ? flat_read(a->descriptor, a->path, at, bytes, e->size)
					    : damaged(a, "a stored member changes its size");
	if (e->method != 8)
		return fail(TOMOS_UNSUPPORTED,
			"'%s': compression method %d; only deflate can be read", a->path,
			e->method);
	unsigned char *packed;
	TRY(mem_alloc(&packed, e->packed, 1, "a member of an npz file"));
	tomos_status status = flat_read(a->descriptor, a->path, at, packed, e->packed);
	if (status == TOMOS_OK)
		status = inflate_all(a, packed, e->packed, bytes, e->size);
	mem_free(packed);
	return status;
}

/* All bytes of a member, checked. */
static tomos_status read_member(const Archive *a, const Entry *e, unsigned char **bytes)
{
	unsigned char local[LOCAL];
	if (e->at > a->size - LOCAL || e->packed > a->size || e->size / 1100 > e->packed)
		return damaged(a, "a member is not in the file");
	TRY(flat_read(a->descriptor, a->path, e->at, local, LOCAL));
	int64_t at = e->at + LOCAL + (int64_t)get(local + 26, 2) + (int64_t)get(local + 28, 2);
	if (get(local, 4) != 0x04034b50 || (get(local + 6, 2) & 1) || at > a->size - e->packed)
		return damaged(a, "a member is not in the file, or encrypted");
	TRY(mem_alloc(bytes, e->size, 1, "a member of an npz file"));
	tomos_status status = unpack(a, e, at, *bytes);
	if (status == TOMOS_OK && crc_of(0, *bytes, e->size) != e->crc)
		status = damaged(a, "a checksum is wrong");
	if (status != TOMOS_OK)
		mem_free(*bytes);
	return status;
}

/* '|S3' and '<U3': the text as characters, ended by 0. */
static tomos_status take_text(const Archive *a, NamedList *list, const NpyForm *form,
	const unsigned char *bytes, int64_t size)
{
	int step = form->descr[1] == 'U' ? 4 : 1;
	int64_t length = (size - form->data) / step;
	char *text;
	if (form->descr[1] != 'S' && form->descr[1] != 'U')
		return fail(TOMOS_UNSUPPORTED, "'%s': '%s' has the type '%s'", a->path, list->name,
			form->descr);
	TRY(mem_zeroed(&text, length + 8, 1, "a text of an npz file"));
	for (int64_t i = 0; i < length; i++)
		text[i] =
			(char)bytes[form->data + i * step + (form->descr[0] == '>' ? step - 1 : 0)];
	list->data = text;
	list->element = (Element){'S', (int)min64(length, INT_MAX), false};
	return TOMOS_OK;
}

static tomos_status take_list(
	const Archive *a, NamedList *list, unsigned char **bytes, int64_t size)
{
	NpyForm form;
	int64_t needed;
	TRY(npy_look(&form, a->path, *bytes, size));
	if (form.element.bytes == 0)
		return take_text(a, list, &form, *bytes, size);
	if (!size_mul(form.count, form.element.bytes, &needed) || needed != size - form.data)
		return fail(TOMOS_BAD_FILE, "'%s': '%s' has %lld bytes for %lld numbers", a->path,
			list->name, (long long)(size - form.data), (long long)form.count);
	list->element = form.element;
	list->count = form.count;
	memmove(*bytes, *bytes + form.data, (size_t)needed);
	list->data = *bytes;
	*bytes = NULL;
	return TOMOS_OK;
}

static NamedList *find_list(NamedList *lists, int count, const Entry *e)
{
	for (int i = 0; i < count; i++) {
		int64_t length = (int64_t)strlen(lists[i].name);
		if (e->name_length == length + 4 && !lists[i].data &&
			memcmp(e->name, lists[i].name, (size_t)length) == 0 &&
			memcmp(e->name + length, ".npy", 4) == 0)
			return &lists[i];
	}
	return NULL;
}

static tomos_status read_lists(Archive *a, NamedList *lists, int count)
{
	Entry e;
	TRY(read_directory(a));
	for (int64_t at = 0;;) {
		unsigned char *bytes;
		TRY(next_entry(a, &at, &e));
		if (at < 0)
			return TOMOS_OK;
		NamedList *list = find_list(lists, count, &e);
		if (!list)
			continue;
		TRY(read_member(a, &e, &bytes));
		tomos_status status = take_list(a, list, &bytes, e.size);
		mem_free(bytes);
		TRY(status);
	}
}

tomos_status npz_read(const char *path, NamedList *lists, int count)
{
	Archive a = {.path = path, .descriptor = -1};
	TRY(flat_open(&a.descriptor, &a.size, path));
	tomos_status status = read_lists(&a, lists, count);
	(void)flat_close(&a.descriptor, path);
	mem_free(a.directory);
	return status;
}
