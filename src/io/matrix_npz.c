/* Named lists in a zip archive of npy files, the format of NumPy's savez and SciPy's save_npz.
 *
 * Written without compression, with 64-bit sizes. PKWARE's APPNOTE 6.3.
 */
#include <limits.h>
#include <string.h>
#include <zlib.h>
#include "io/matrix_file.h"
#include "io/zip.h"

enum {
	CRC_STEP = 1 << 30,
};

static void put(unsigned char **to, int bytes, uint64_t value)
{
	for (int i = 0; i < bytes; i++, value >>= 8)
		*(*to)++ = (unsigned char)(value & 255);
}

/* ---- writing --------------------------------------------------------------------------------- */

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

/* Fields common to local and central headers, from the version to the length of the extra field. */
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

/* The name and an extra field of `count` long numbers: the size twice, and where the member is. */
static void put_name(unsigned char **to, const Member *m, int count)
{
	const int64_t numbers[] = {m->size, m->size, m->at};
	memcpy(*to, m->name, strlen(m->name));
	*to += strlen(m->name);
	put(to, 2, 1);
	put(to, 2, 8 * (uint64_t)count);
	for (int i = 0; i < count; i++)
		put(to, 8, (uint64_t)numbers[i]);
}

static tomos_status write_local(Zip *zip, const Member *m)
{
	unsigned char header[ZIP_LOCAL + sizeof m->name + 20], *to = header;
	put(&to, 4, 0x04034b50);
	put_common(&to, m, 20);
	put_name(&to, m, 2);
	return append(zip, header, to - header);
}

static tomos_status write_central(Zip *zip, const Member *m)
{
	unsigned char header[ZIP_CENTRAL + sizeof m->name + 28], *to = header;
	put(&to, 4, 0x02014b50);
	put(&to, 2, 3 << 8 | 45); /* made on Unix */
	put_common(&to, m, 28);
	put(&to, 2, 0); /* comment */
	put(&to, 2, 0); /* disk */
	put(&to, 2, 0);
	put(&to, 4, UINT32_C(0644) << 16);
	put(&to, 4, UINT32_MAX);
	put_name(&to, m, 3);
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
	unsigned char tail[ZIP_END64 + ZIP_LOCATOR64 + ZIP_END], *to = tail;
	int64_t end64 = zip->at;
	put(&to, 4, 0x06064b50);
	put(&to, 8, ZIP_END64 - 12);
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

/* ---- reading --------------------------------------------------------------------------------- */

/* '|S3' and '<U3': the string as characters, zero-terminated. */
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
	if (form.rank > 1)
		return fail(TOMOS_BAD_FILE, "'%s': a list in it has %d axes", a->path, form.rank);
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
	for (int i = 0; i < count; i++)
		if (!lists[i].data && zip_is(e, lists[i].name, ".npy"))
			return &lists[i];
	return NULL;
}

static tomos_status read_lists(const Archive *a, NamedList *lists, int count)
{
	Entry e;
	for (int64_t at = 0;;) {
		unsigned char *bytes;
		TRY(zip_next(a, &at, &e));
		if (at < 0)
			return TOMOS_OK;
		NamedList *list = find_list(lists, count, &e);
		if (!list)
			continue;
		TRY(zip_bytes(a, &e, e.size, &bytes));
		tomos_status status = take_list(a, list, &bytes, e.size);
		mem_free(bytes);
		TRY(status);
	}
}

tomos_status npz_read(const char *path, NamedList *lists, int count)
{
	Archive a;
	tomos_status status = zip_open(&a, path);
	if (status == TOMOS_OK)
		status = read_lists(&a, lists, count);
	zip_close(&a);
	return status;
}
