/* Chunks of Zarr arrays: their files, the codecs of bytes undone, and the index of shards. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/crc32c.h"
#include "io/zarr_parts.h"

enum { SUM_BYTES = 4, LZ4_HEAD = 4 };

tomos_status zarr_chunk_path(const ZarrArray *a, const int64_t at[3], char **path)
{
	char key[128] = "";
	const char separator[2] = {a->separator, 0};
	snprintf(key, sizeof key, "%s", a->prefixed ? "c" : "");
	for (int i = 0; i < a->rank; i++) {
		int axis = i + 3 - a->rank;
		size_t used = strlen(key);
		snprintf(key + used, sizeof key - used, "%s%lld", used ? separator : "",
			(long long)(axis < 0 ? 0 : at[axis]));
	}
	return mem_printf(path, "%s/%s", a->folder, key);
}

/* ---- codecs ---------------------------------------------------------------------------------- */

int64_t zarr_room(int64_t expected)
{
	return expected + expected / 8 + 4096;
}

static uint32_t sum_at(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int64_t undo_sum(const unsigned char *in, int64_t bytes)
{
	int64_t count = bytes - SUM_BYTES;
	return count >= 0 && crc32c(in, count) == sum_at(in + count) ? count : UNDO_DAMAGED;
}

/* LZ4 of numcodecs: the number of bytes, then one block. */
static int64_t undo_lz4(const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
	int64_t said = bytes >= LZ4_HEAD ? (int64_t)sum_at(in) : -1;
	if (said < 0 || said > room)
		return UNDO_DAMAGED;
	return lz4_unpack(in + LZ4_HEAD, bytes - LZ4_HEAD, out, said);
}

static int64_t undo_packed(Codec codec, Unpacker *u, const unsigned char *in, int64_t bytes,
	unsigned char *out, int64_t room)
{
#if TOMOS_HAS_BLOSC
	const Filter filter = {.id = 0};
	const Undo undo = {&filter, in, bytes, out, room, {0, room}, false, u};
	if (codec == CODEC_BLOSC)
		return undo_blosc(&undo);
#endif
	return codec == CODEC_ZSTD   ? zstd_unpack(u, in, bytes, out, room)
	       : codec == CODEC_GZIP ? gzip_undo(u, in, bytes, out, room)
	       : codec == CODEC_ZLIB ? deflate_unpack(u, in, bytes, out, room)
	       : codec == CODEC_LZ4  ? undo_lz4(in, bytes, out, room)
				     : UNDO_DAMAGED;
}

static tomos_status damaged(Codec codec, int64_t made, const char *path)
{
	static const char *const names[] = {"crc32c", "zstd", "gzip", "zlib", "blosc", "lz4"};
	if (made == UNDO_NO_MEMORY)
		return fail(TOMOS_NO_MEMORY, "no memory to unpack '%s'", path);
	if (codec == CODEC_CRC32C)
		return fail(TOMOS_BAD_FILE,
			"'%s': a chunk is damaged: its checksum (crc32c) is wrong", path);
	return fail(TOMOS_BAD_FILE, "'%s': a chunk is damaged: it is no data packed with %s", path,
		names[codec]);
}

tomos_status zarr_unpack(const Codecs *c, Unpacker *u, unsigned char *const buffers[2],
	unsigned char *in, int64_t bytes, int64_t expected, unsigned char **out, const char *path)
{
	int64_t room = zarr_room(expected);
	int next = 0;
	for (int i = c->count - 1; i >= 0; i--) {
		bool sum = c->list[i] == CODEC_CRC32C;
		int64_t made = sum ? undo_sum(in, bytes)
				   : undo_packed(c->list[i], u, in, bytes, buffers[next], room);
		if (made < 0)
			return damaged(c->list[i], made, path);
		bytes = made;
		if (!sum) {
			in = buffers[next];
			next = 1 - next;
		}
	}
	if (bytes != expected)
		return fail(TOMOS_BAD_FILE, "'%s': a chunk holds %lld bytes; %lld were expected",
			path, (long long)bytes, (long long)expected);
	*out = in;
	return TOMOS_OK;
}

/* ---- the index of a shard -------------------------------------------------------------------- */

int64_t zarr_index_count(const ZarrArray *a)
{
	int64_t count = 1;
	for (int i = 0; i < 3; i++)
		count *= a->chunk[i] / a->inner[i];
	return count;
}

static uint64_t word_at(const unsigned char *p, bool big)
{
	uint64_t word = 0;
	for (int i = 0; i < 8; i++)
		word = word << 8 | p[big ? i : 7 - i];
	return word;
}

static tomos_status decode_index(const ZarrArray *a, const unsigned char *bytes, int64_t length,
	const char *path, ShardEntry *entries)
{
	int64_t count = zarr_index_count(a), left = length;
	for (int i = a->index.count - 1; i >= 0; i--, left -= SUM_BYTES)
		if (undo_sum(bytes, left) < 0)
			return fail(TOMOS_BAD_FILE,
				"'%s': the index of the shard is damaged: its checksum (crc32c) is "
				"wrong",
				path);
	for (int64_t i = 0; i < count; i++)
		entries[i] = (ShardEntry){word_at(bytes + 16 * i, a->index.big),
			word_at(bytes + 16 * i + 8, a->index.big)};
	return TOMOS_OK;
}

tomos_status zarr_index_read(
	const ZarrArray *a, int descriptor, int64_t size, const char *path, ShardEntry **entries)
{
	int64_t count = zarr_index_count(a), length;
	unsigned char *bytes;
	*entries = NULL;
	if (!size_mul(count, sizeof(ShardEntry), &length) ||
		!size_add(length, (int64_t)a->index.count * SUM_BYTES, &length) || length > size)
		return fail(TOMOS_BAD_FILE,
			"'%s' has %lld bytes, too few for the index of a shard of %lld chunks",
			path, (long long)size, (long long)count);
	TRY(mem_alloc(&bytes, length, 1, "the index of a shard"));
	tomos_status status =
		flat_read(descriptor, path, a->index_first ? 0 : size - length, bytes, length);
	if (status == TOMOS_OK)
		status = mem_alloc(entries, count, sizeof **entries, "the index of a shard");
	if (status == TOMOS_OK)
		status = decode_index(a, bytes, length, path, *entries);
	if (status != TOMOS_OK) {
		mem_free(*entries);
		*entries = NULL;
	}
	mem_free(bytes);
	return status;
}
