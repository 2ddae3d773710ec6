/* The Blosc filter, version 1: blocks that are shuffled and packed one by one.
 *
 * The library makes new contexts for each chunk; here they are kept, and blocks that are not
 * needed are left out. Only what is packed with BloscLZ or Snappy is left to the library.
 */
#include <string.h>
#include "io/filters.h"

#if TOMOS_HAS_BLOSC
#include <blosc.h>

enum { HEAD = 16, FORMAT = 2, MOST_STREAMS = 16, LEAST_STREAM = 128, GROUP = 8 };
enum { SHUFFLED = 1, COPIED = 2, BITS = 4, WHOLE = 16 };
enum { WITH_LZ4 = 1, WITH_ZLIB = 3, WITH_ZSTD = 4 };

typedef struct {
	const Undo *w;
	int flags, codec, size; /* size of a number */
	int64_t bytes, block;   /* of the data, of a block */
	int64_t packed;         /* of everything */
	unsigned char *streams, *planes;
} Blosc;

/* Low byte first, unlike in other filters. */
static int64_t number_at(const unsigned char *p)
{
	return (int64_t)(int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
				  (uint32_t)p[3] << 24);
}

static int64_t undo_by_library(const Undo *w)
{
	size_t size;
	if (blosc_cbuffer_validate(w->in, (size_t)w->bytes, &size) < 0 || (int64_t)size > w->room)
		return UNDO_DAMAGED;
	int made = blosc_decompress_ctx(w->in, w->out, (size_t)w->room, 1);
	return made < 0 ? UNDO_DAMAGED : made;
}

static int64_t unpack_stream(
	const Blosc *b, const unsigned char *in, int64_t packed, unsigned char *out, int64_t bytes)
{
	if (packed == bytes) {
		memcpy(out, in, (size_t)bytes);
		return bytes;
	}
	return b->codec == WITH_LZ4    ? lz4_unpack(in, packed, out, bytes)
	       : b->codec == WITH_ZLIB ? deflate_unpack(b->w->unpacker, in, packed, out, bytes)
				       : zstd_unpack(b->w->unpacker, in, packed, out, bytes);
}

/* A whole block of small numbers has a stream for each of their bytes. */
static int64_t unpack_block(const Blosc *b, int64_t at, int64_t bytes, unsigned char *out)
{
	bool split = !(b->flags & WHOLE) && b->size <= MOST_STREAMS &&
		     bytes / b->size >= LEAST_STREAM && bytes == b->block;
	int64_t streams = split ? b->size : 1, each = bytes / streams;
	for (int64_t i = 0; i < streams; i++) {
		int64_t packed = at >= 0 && b->packed - at >= 4 ? number_at(b->w->in + at) : -1;
		if (packed < 1 || packed > b->packed - at - 4)
			return UNDO_DAMAGED;
		int64_t made = unpack_stream(b, b->w->in + at + 4, packed, out + i * each, each);
		if (made != each)
			return made == UNDO_NO_MEMORY ? made : UNDO_DAMAGED;
		at += 4 + packed;
	}
	return streams * each == bytes ? bytes : UNDO_DAMAGED;
}

/* Bytes that do not make up a number are at the end, unchanged. */
static void unshuffle(const Blosc *b, int64_t bytes, unsigned char *out)
{
	int64_t count = bytes / b->size, whole = count * b->size;
	if (!(b->flags & BITS))
		bytes_unshuffle(b->streams, count, b->size, b->w->far, out);
	else if (count % GROUP == 0)
		bits_unshuffle(b->streams, count, b->size, b->w->far, b->planes, out);
	else
		whole = 0;
	memcpy(out + whole, b->streams + whole, (size_t)(bytes - whole));
}

static int64_t undo_blocks(const Blosc *b)
{
	const Undo *w = b->w;
	bool shuffled = (b->flags & SHUFFLED && b->size > 1) || b->flags & BITS;
	for (int64_t i = 0; i * b->block < b->bytes; i++) {
		int64_t start = i * b->block, bytes = min64(b->block, b->bytes - start);
		if (start + bytes <= w->need[0] || start >= w->need[1])
			continue;
		int64_t made = unpack_block(b, number_at(w->in + HEAD + 4 * i), bytes,
			shuffled ? b->streams : w->out + start);
		if (made != bytes)
			return made;
		if (shuffled)
			unshuffle(b, bytes, w->out + start);
	}
	return b->bytes;
}

int64_t undo_blosc(const Undo *w)
{
	if (w->bytes < HEAD)
		return UNDO_DAMAGED;
	Blosc b = {.w = w,
		.flags = w->in[2],
		.codec = w->in[2] >> 5,
		.size = w->in[3],
		.bytes = number_at(w->in + 4),
		.block = number_at(w->in + 8),
		.packed = number_at(w->in + 12)};
	if (w->in[0] != FORMAT || b.size < 1 || b.bytes < 0 || b.bytes > w->room ||
		b.packed > w->bytes)
		return UNDO_DAMAGED;
	if (b.flags & COPIED) {
		if (b.packed - HEAD != b.bytes)
			return UNDO_DAMAGED;
		memcpy(w->out, w->in + HEAD, (size_t)b.bytes);
		return b.bytes;
	}
	bool known = (b.codec == WITH_LZ4 && TOMOS_HAS_LZ4) || b.codec == WITH_ZLIB ||
		     (b.codec == WITH_ZSTD && TOMOS_HAS_ZSTD);
	if (!known)
		return undo_by_library(w);
	if (b.block < 1 || b.block > max64(b.bytes, 1) ||
		(b.bytes + b.block - 1) / b.block > (b.packed - HEAD) / 4)
		return UNDO_DAMAGED;
	b.streams = unpacker_block(w->unpacker, 2 * b.block);
	if (!b.streams)
		return UNDO_NO_MEMORY;
	b.planes = b.streams + b.block;
	return undo_blocks(&b);
}
#endif
