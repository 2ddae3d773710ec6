/* Reads zip archives: the directory, and stored or deflated members, in pieces.
 *
 * 32- or 64-bit sizes. PKWARE's APPNOTE 6.3.
 */
#include <string.h>
#include <zlib.h>
#include "io/zip.h"

enum {
	LARGEST_TAIL = ZIP_END + 65535,
	LARGEST_DIRECTORY = 1 << 20,
	LARGEST_UNPACKED = 1100, /* largest expansion by deflate */
	PIECE = 1 << 16,
};

static uint64_t get(const unsigned char *from, int bytes)
{
	uint64_t value = 0;
	for (int i = bytes; i-- > 0;)
		value = value << 8 | from[i];
	return value;
}

/* ---- the directory --------------------------------------------------------------------------- */

tomos_status zip_damaged(const Archive *a, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s' is a damaged npz file: %s", a->path, what);
}

/* Position of the end record in `tail`; a comment may follow it. */
static int64_t find_end(const unsigned char *tail, int64_t length)
{
	for (int64_t at = length - ZIP_END; at >= 0; at--)
		if (get(tail + at, 4) == 0x06054b50 &&
			at + ZIP_END + (int64_t)get(tail + at + 20, 2) == length)
			return at;
	return -1;
}

static tomos_status find_directory64(Archive *a, int64_t end, int64_t *at, int64_t *size)
{
	unsigned char locator[ZIP_LOCATOR64], record[ZIP_END64];
	if (end < ZIP_LOCATOR64)
		return zip_damaged(a, "there is no room for 64-bit sizes");
	TRY(flat_read(a->descriptor, a->path, end - ZIP_LOCATOR64, locator, ZIP_LOCATOR64));
	uint64_t where = get(locator + 8, 8);
	if (get(locator, 4) != 0x07064b50 || where > (uint64_t)(a->size - ZIP_END64))
		return zip_damaged(a, "the end of the directory is not where it should be");
	TRY(flat_read(a->descriptor, a->path, (int64_t)where, record, ZIP_END64));
	if (get(record, 4) != 0x06064b50)
		return zip_damaged(a, "the end of the directory is not where it should be");
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
		return zip_damaged(a, "it has no directory at its end");
	if (size == UINT32_MAX || at == UINT32_MAX)
		TRY(find_directory64(a, a->size - length + end, &at, &size));
	if (size < 0 || size > LARGEST_DIRECTORY || at < 0 || at > a->size - size)
		return zip_damaged(a, "its directory is not in the file");
	TRY(mem_alloc(&a->directory, size, 1, "the directory of an npz file"));
	a->directory_size = size;
	return flat_read(a->descriptor, a->path, at, a->directory, size);
}

/* The extra field has the sizes that do not fit 32 bits, in this order. */
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

tomos_status zip_next(const Archive *a, int64_t *at, Entry *e)
{
	const unsigned char *from = a->directory + *at;
	int64_t left = a->directory_size - *at;
	if (left == 0) {
		*at = -1;
		return TOMOS_OK;
	}
	if (left < ZIP_CENTRAL || get(from, 4) != 0x02014b50)
		return zip_damaged(a, "its directory is cut short");
	int64_t extra = (int64_t)get(from + 30, 2), comment = (int64_t)get(from + 32, 2);
	*e = (Entry){.method = (int)get(from + 10, 2),
		.crc = (uint32_t)get(from + 16, 4),
		.packed = (int64_t)get(from + 20, 4),
		.size = (int64_t)get(from + 24, 4),
		.name_length = (int64_t)get(from + 28, 2),
		.at = (int64_t)get(from + 42, 4),
		.name = from + ZIP_CENTRAL};
	if (ZIP_CENTRAL + e->name_length + extra + comment > left ||
		!take_sizes64(e, e->name + e->name_length, extra))
		return zip_damaged(a, "its directory is cut short");
	*at += ZIP_CENTRAL + e->name_length + extra + comment;
	return TOMOS_OK;
}

tomos_status zip_open(Archive *a, const char *path)
{
	*a = (Archive){.path = path, .descriptor = -1};
	TRY(flat_open(&a->descriptor, &a->size, path));
	return read_directory(a);
}

void zip_close(Archive *a)
{
	(void)flat_close(&a->descriptor, a->path);
	mem_free(a->directory);
	a->directory = NULL;
}

bool zip_is(const Entry *e, const char *name, const char *ending)
{
	int64_t length = (int64_t)strlen(name), end = (int64_t)strlen(ending);
	return e->name_length == length + end && memcmp(e->name, name, (size_t)length) == 0 &&
	       memcmp(e->name + length, ending, (size_t)end) == 0;
}

/* ---- members --------------------------------------------------------------------------------- */

tomos_status zip_locate(const Archive *a, const Entry *e, int64_t *at)
{
	unsigned char local[ZIP_LOCAL];
	if (e->at > a->size - ZIP_LOCAL || e->packed > a->size ||
		e->size / LARGEST_UNPACKED > e->packed)
		return zip_damaged(a, "a member is not in the file");
	TRY(flat_read(a->descriptor, a->path, e->at, local, ZIP_LOCAL));
	*at = e->at + ZIP_LOCAL + (int64_t)get(local + 26, 2) + (int64_t)get(local + 28, 2);
	if (get(local, 4) != 0x04034b50 || (get(local + 6, 2) & 1) || *at > a->size - e->packed)
		return zip_damaged(a, "a member is not in the file, or encrypted");
	if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
		return fail(TOMOS_UNSUPPORTED,
			"'%s': compression method %d; only deflate can be read", a->path,
			e->method);
	if (e->method == ZIP_STORED && e->packed != e->size)
		return zip_damaged(a, "a stored member changes its size");
	return TOMOS_OK;
}

/* State of the decompression of a member. */
typedef struct {
	const Archive *archive;
	const Entry *entry;
	int64_t wanted, taken;
	uint32_t crc;
	ZipSink sink;
	void *user;
} Flow;

static tomos_status hand_on(Flow *f, const unsigned char *bytes, int64_t count)
{
	if (count > f->entry->size - f->taken)
		return zip_damaged(f->archive, "a member is larger than it says");
	int64_t some = min64(count, f->wanted - f->taken);
	f->crc = (uint32_t)crc32(f->crc, bytes, (uInt)count);
	f->taken += some;
	return some > 0 ? f->sink(f->user, bytes, some) : TOMOS_OK;
}

/* Decompresses all of the present input. */
static tomos_status inflate_piece(Flow *f, z_stream *z, unsigned char *out, int *code)
{
	do {
		z->next_out = out;
		z->avail_out = PIECE;
		*code = inflate(z, Z_NO_FLUSH);
		if (*code != Z_OK && *code != Z_STREAM_END && *code != Z_BUF_ERROR)
			return zip_damaged(f->archive, "a member cannot be unpacked");
		TRY(hand_on(f, out, PIECE - (int64_t)z->avail_out));
	} while (*code == Z_OK && z->avail_out == 0 && f->taken < f->wanted);
	return TOMOS_OK;
}

static tomos_status flow_through(Flow *f, z_stream *z, int64_t at, unsigned char *in)
{
	const Archive *a = f->archive;
	int code = Z_OK;
	for (int64_t done = 0; done < f->entry->packed && f->taken < f->wanted; done += PIECE) {
		int64_t step = min64(PIECE, f->entry->packed - done);
		TRY(flat_read(a->descriptor, a->path, at + done, in, step));
		z->next_in = in;
		z->avail_in = (uInt)step;
		if (f->entry->method == ZIP_STORED)
			TRY(hand_on(f, in, step));
		else if (code != Z_STREAM_END)
			TRY(inflate_piece(f, z, in + PIECE, &code));
	}
	if (f->taken < f->wanted)
		return zip_damaged(a, "a member cannot be unpacked");
	if (f->wanted == f->entry->size && f->crc != f->entry->crc)
		return zip_damaged(a, "a checksum is wrong");
	return TOMOS_OK;
}

tomos_status zip_take(const Archive *a, const Entry *e, int64_t wanted, ZipSink sink, void *user)
{
	Flow flow = {a, e, min64(wanted, e->size), 0, 0, sink, user};
	z_stream z = {.next_in = NULL};
	unsigned char *room;
	int64_t at;
	TRY(zip_locate(a, e, &at));
	TRY(mem_alloc(&room, 2 * PIECE, 1, "a piece of an npz file"));
	tomos_status status = inflateInit2(&z, -MAX_WBITS) == Z_OK
				      ? flow_through(&flow, &z, at, room)
				      : fail(TOMOS_NO_MEMORY, "no memory to unpack '%s'", a->path);
	inflateEnd(&z);
	mem_free(room);
	return status;
}

static tomos_status to_memory(void *user, const unsigned char *bytes, int64_t count)
{
	unsigned char **next = user;
	memcpy(*next, bytes, (size_t)count);
	*next += count;
	return TOMOS_OK;
}

tomos_status zip_bytes(const Archive *a, const Entry *e, int64_t wanted, unsigned char **bytes)
{
	int64_t at;
	*bytes = NULL;
	TRY(zip_locate(a, e, &at)); /* before memory is allocated for a false size */
	TRY(mem_alloc(bytes, min64(wanted, e->size), 1, "a member of an npz file"));
	unsigned char *next = *bytes;
	tomos_status status = zip_take(a, e, wanted, to_memory, &next);
	if (status != TOMOS_OK) {
		mem_free(*bytes);
		*bytes = NULL;
	}
	return status;
}
