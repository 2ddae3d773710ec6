/* Streams of OLE2 compound files (Microsoft's structured storage): header, file allocation tables,
 * directory.
 *
 * A file is a sequence of sectors. The FAT has the next sector of each, the double-indirect FAT the
 * sectors of the FAT. Small streams are in 64-byte sectors of the mini stream, which is the stream
 * of the root entry and has a FAT of its own.
 */
#include "io/ole2.h"
#include <ctype.h>
#include <string.h>
#include "io/io.h"

enum { HEADER = 512, ENTRY = 128, HEADER_FATS = 109, MINI_SHIFT = 6, ROOT = 5, NAME = 32 };
#define END_OF_CHAIN 0xfffffffeu
#define NONE 0xffffffffu
#define LARGEST_MINI ((int64_t)1 << 30)

typedef struct {
	char name[NAME]; /* lower case */
	int64_t parent;  /* -1: not in the tree */
	uint32_t links[3], start;
	int type;
	int64_t size;
} Entry;

typedef struct {
	uint32_t *next;
	int64_t count;
} Fat;

struct Ole2 {
	char *path;
	int descriptor;
	int shift;
	int64_t size, sectors, cutoff;
	Fat fat, mini;
	unsigned char *small; /* the mini stream */
	int64_t small_bytes;
	Entry *entries;
	int64_t count;
};

static uint32_t u16_at(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32_at(const unsigned char *p)
{
	return u16_at(p) | u16_at(p + 2) << 16;
}

static tomos_status damaged(const Ole2 *ole, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s' is damaged: %s of the compound file", ole->path, what);
}

/* ---- sectors ------------------------------------------------------------------------------- */

static tomos_status read_sector(const Ole2 *ole, uint32_t sector, unsigned char *bytes)
{
	if (sector >= ole->sectors)
		return damaged(ole, "a sector is beyond the end");
	return flat_read(ole->descriptor, ole->path, ((int64_t)sector + 1) << ole->shift, bytes,
		(int64_t)1 << ole->shift);
}

/* The number of sectors of a chain; one with more sectors than the file has is circular. */
static tomos_status chain_length(const Ole2 *ole, uint32_t start, int64_t *length)
{
	*length = 0;
	for (uint32_t at = start; at != END_OF_CHAIN && at != NONE; at = ole->fat.next[at])
		if (at >= ole->fat.count || ++*length > ole->sectors)
			return damaged(ole, "a chain of sectors");
	return TOMOS_OK;
}

static tomos_status read_chain(
	const Ole2 *ole, uint32_t start, int64_t sectors, unsigned char *bytes)
{
	for (int64_t i = 0; i < sectors; i++, start = ole->fat.next[start])
		TRY(read_sector(ole, start, bytes + (i << ole->shift)));
	return TOMOS_OK;
}

/* A whole chain as bytes, to be freed; NULL where it is empty. */
static tomos_status load_chain(
	const Ole2 *ole, uint32_t start, unsigned char **bytes, int64_t *length)
{
	int64_t sectors;
	*bytes = NULL;
	*length = 0;
	TRY(chain_length(ole, start, &sectors));
	if (sectors == 0)
		return TOMOS_OK;
	TRY(mem_alloc(bytes, sectors << ole->shift, 1, "a table of a compound file"));
	tomos_status status = read_chain(ole, start, sectors, *bytes);
	if (status != TOMOS_OK) {
		mem_free(*bytes);
		*bytes = NULL;
	}
	*length = sectors << ole->shift;
	return status;
}

/* ---- tables -------------------------------------------------------------------------------- */

static void take_links(Fat *fat, const unsigned char *bytes, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		fat->next[fat->count++] = u32_at(bytes + 4 * i);
}

/* The FAT's sectors: 109 in the header, the others in a chain of tables that end with the sector of
 * the next. */
static tomos_status load_fat(Ole2 *ole, const unsigned char *header, unsigned char *sector)
{
	int64_t links = ((int64_t)1 << ole->shift) / 4, wanted = u32_at(header + 44), listed = 0;
	unsigned char list[1 << 12];
	uint32_t table = u32_at(header + 68);
	int64_t tables = 0;
	if (wanted > ole->sectors)
		return damaged(ole, "the size of the allocation table");
	TRY(mem_alloc(&ole->fat.next, max64(1, wanted * links), 4, "an allocation table"));
	for (; listed < wanted && listed < HEADER_FATS; listed++) {
		TRY(read_sector(ole, u32_at(header + 76 + 4 * listed), sector));
		take_links(&ole->fat, sector, links);
	}
	while (listed < wanted) {
		if (++tables > ole->sectors)
			return damaged(ole, "the list of allocation tables");
		TRY(read_sector(ole, table, list));
		for (int64_t i = 0; i + 1 < links && listed < wanted; i++, listed++) {
			TRY(read_sector(ole, u32_at(list + 4 * i), sector));
			take_links(&ole->fat, sector, links);
		}
		table = u32_at(list + 4 * (links - 1));
	}
	return TOMOS_OK;
}

static void take_entry(Entry *e, const unsigned char *from, bool wide)
{
	uint32_t length = u16_at(from + 64) / 2;
	*e = (Entry){.parent = -1, .type = from[66], .start = u32_at(from + 116)};
	for (uint32_t i = 0; i + 1 < length && i + 1 < NAME; i++) {
		uint32_t letter = u16_at(from + 2 * i);
		e->name[i] = (char)(letter < 128 ? tolower((int)letter) : '?');
	}
	for (int i = 0; i < 3; i++)
		e->links[i] = u32_at(from + 68 + 4 * i);
	e->size = u32_at(from + 120);
	if (wide)
		e->size |= (int64_t)(u32_at(from + 124) & 0x7fffffffu) << 32;
}

/* Sets the parents: the links of an entry are two siblings and a child. */
static tomos_status make_tree(Ole2 *ole)
{
	int64_t *stack, depth = 0;
	TRY(mem_alloc(&stack, ole->count, sizeof *stack, "the directory of a compound file"));
	stack[depth++] = 0;
	while (depth > 0) {
		int64_t at = stack[--depth];
		for (int i = 0; i < 3; i++) {
			uint32_t to = ole->entries[at].links[i];
			if (to == 0 || to >= ole->count || ole->entries[to].parent >= 0)
				continue;
			ole->entries[to].parent = i == 2 ? at : ole->entries[at].parent;
			if (ole->entries[to].parent >= 0)
				stack[depth++] = to;
		}
	}
	mem_free(stack);
	return TOMOS_OK;
}

static tomos_status load_directory(Ole2 *ole, const unsigned char *header)
{
	unsigned char *bytes;
	int64_t length;
	TRY(load_chain(ole, u32_at(header + 48), &bytes, &length));
	ole->count = length / ENTRY;
	tomos_status status = ole->count
				      ? mem_alloc(&ole->entries, ole->count, sizeof *ole->entries,
						"the directory of a compound file")
				      : damaged(ole, "the directory");
	for (int64_t i = 0; i < ole->count && status == TOMOS_OK; i++)
		take_entry(&ole->entries[i], bytes + i * ENTRY, ole->shift > 9);
	mem_free(bytes);
	TRY(status);
	if (ole->entries[0].type != ROOT)
		return damaged(ole, "the root of the directory");
	return make_tree(ole);
}

static tomos_status load_mini(Ole2 *ole, const unsigned char *header)
{
	unsigned char *bytes;
	int64_t length;
	TRY(load_chain(ole, u32_at(header + 60), &bytes, &length));
	tomos_status status =
		mem_alloc(&ole->mini.next, max64(1, length / 4), 4, "an allocation table");
	if (status == TOMOS_OK)
		take_links(&ole->mini, bytes, length / 4);
	mem_free(bytes);
	TRY(status);
	if (ole->entries[0].size > LARGEST_MINI)
		return damaged(ole, "the size of the mini stream");
	return load_chain(ole, ole->entries[0].start, &ole->small, &ole->small_bytes);
}

/* ---- opening ------------------------------------------------------------------------------- */

bool ole2_head(const void *head, size_t length)
{
	return length >= 8 && memcmp(head, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8) == 0;
}

static tomos_status open_into(Ole2 *ole)
{
	unsigned char header[HEADER], sector[1 << 12];
	TRY(flat_open(&ole->descriptor, &ole->size, ole->path));
	if (ole->size < HEADER)
		return damaged(ole, "the header");
	TRY(flat_read(ole->descriptor, ole->path, 0, header, HEADER));
	ole->shift = (int)u16_at(header + 30);
	ole->cutoff = u32_at(header + 56);
	if (!ole2_head(header, HEADER) || (ole->shift != 9 && ole->shift != 12) ||
		u16_at(header + 32) != MINI_SHIFT)
		return damaged(ole, "the header");
	ole->sectors = max64(0, (ole->size >> ole->shift) - 1);
	TRY(load_fat(ole, header, sector));
	TRY(load_directory(ole, header));
	return load_mini(ole, header);
}

tomos_status ole2_open(Ole2 **ole, const char *path)
{
	Ole2 *made;
	*ole = NULL;
	TRY(mem_zeroed(&made, 1, sizeof *made, "a compound file"));
	made->descriptor = -1;
	tomos_status status = mem_text(&made->path, path);
	if (status == TOMOS_OK)
		status = open_into(made);
	if (status == TOMOS_OK)
		*ole = made;
	else
		ole2_close(made);
	return status;
}

void ole2_close(Ole2 *ole)
{
	if (!ole)
		return;
	(void)flat_close(&ole->descriptor, ole->path ? ole->path : "");
	mem_free(ole->fat.next);
	mem_free(ole->mini.next);
	mem_free(ole->small);
	mem_free(ole->entries);
	mem_free(ole->path);
	mem_free(ole);
}

/* ---- streams ------------------------------------------------------------------------------- */

/* Whether the entry is the one of a path, compared from its last name to the first. */
static bool entry_fits(const Ole2 *ole, int64_t at, const char *path)
{
	const char *end = path + strlen(path);
	while (at > 0) {
		const char *from = end;
		while (from > path && from[-1] != '/')
			from--;
		const char *name = ole->entries[at].name;
		size_t length = (size_t)(end - from), i = 0;
		while (i < length && tolower((unsigned char)from[i]) == name[i])
			i++;
		if (i < length || name[i])
			return false;
		at = ole->entries[at].parent;
		if (from == path)
			return at == 0;
		end = from - 1;
	}
	return false;
}

bool ole2_find(const Ole2 *ole, const char *path, OleStream *stream)
{
	for (int64_t i = 1; i < ole->count; i++)
		if (ole->entries[i].type == 2 && ole->entries[i].parent >= 0 &&
			entry_fits(ole, i, path)) {
			*stream = (OleStream){ole->entries[i].start, ole->entries[i].size};
			return true;
		}
	return false;
}

static tomos_status read_small(
	const Ole2 *ole, const OleStream *stream, int64_t at, int64_t bytes, char *out)
{
	uint32_t sector = stream->start;
	int64_t done = 0, size = (int64_t)1 << MINI_SHIFT;
	for (int64_t from = 0; done < bytes; from += size) {
		if (sector >= ole->mini.count || from > ole->small_bytes)
			return damaged(ole, "a chain of small sectors");
		int64_t low = max64(at, from), high = min64(at + bytes, from + size);
		int64_t place = ((int64_t)sector << MINI_SHIFT) + low - from;
		if (high > low && place + high - low > ole->small_bytes)
			return damaged(ole, "a small sector is beyond the end");
		if (high > low) {
			memcpy(out + done, ole->small + place, (size_t)(high - low));
			done += high - low;
		}
		sector = ole->mini.next[sector];
	}
	return TOMOS_OK;
}

/* Sectors that follow each other are read at once. */
static tomos_status read_large(
	const Ole2 *ole, const OleStream *stream, int64_t at, int64_t bytes, char *out)
{
	uint32_t sector = stream->start;
	int64_t size = (int64_t)1 << ole->shift, skipped = at >> ole->shift, done = 0;
	for (int64_t i = 0; i < skipped && sector < ole->fat.count; i++)
		sector = ole->fat.next[sector];
	at &= size - 1;
	while (done < bytes) {
		uint32_t first = sector;
		int64_t run = 0;
		do {
			if (sector >= ole->fat.count || sector >= ole->sectors)
				return damaged(ole, "a chain of sectors");
			sector = ole->fat.next[sector];
			run++;
		} while (sector == first + run && run * size - at < bytes - done);
		int64_t count = min64(run * size - at, bytes - done);
		TRY(flat_read(ole->descriptor, ole->path, (((int64_t)first + 1) << ole->shift) + at,
			out + done, count));
		done += count;
		at = 0;
	}
	return TOMOS_OK;
}

tomos_status ole2_read(
	const Ole2 *ole, const OleStream *stream, int64_t at, int64_t bytes, void *out)
{
	if (at < 0 || bytes < 0 || at > stream->size - bytes)
		return fail(TOMOS_BAD_FILE, "'%s': %lld bytes from %lld of a stream that has %lld",
			ole->path, (long long)bytes, (long long)at, (long long)stream->size);
	return stream->size < ole->cutoff ? read_small(ole, stream, at, bytes, out)
					  : read_large(ole, stream, at, bytes, out);
}
