/* Compression: deflate, by libdeflate, which is faster, or by zlib; LZ4 and
 * Zstd where this build has them. */
#include "io/filters.h"
#if TOMOS_HAS_LZ4
#include <lz4.h>
#endif
#if TOMOS_HAS_ZSTD
#include <zstd.h>
#endif

#if TOMOS_HAS_LIBDEFLATE
#include <libdeflate.h>

int64_t deflate_bound(int64_t bytes)
{
	return (int64_t)libdeflate_zlib_compress_bound(NULL, (size_t)bytes);
}

int64_t deflate_pack(int level, const unsigned char *in, int64_t bytes, unsigned char *out)
{
	struct libdeflate_compressor *c = libdeflate_alloc_compressor(level);
	size_t made = 0;
	if (c)
		made = libdeflate_zlib_compress(
			c, in, (size_t)bytes, out, (size_t)deflate_bound(bytes));
	libdeflate_free_compressor(c);
	return made ? (int64_t)made : UNDO_NO_MEMORY;
}

/* libdeflate_zlib_decompress, or that for another header. */
typedef enum libdeflate_result Decompress(struct libdeflate_decompressor *decompressor,
	const void *in, size_t bytes, void *out, size_t room, size_t *made);

static int64_t decompress(Decompress *with, Unpacker *u, const unsigned char *in, int64_t bytes,
	unsigned char *out, int64_t room)
{
	size_t made = 0;
	if (!u->deflate)
		u->deflate = libdeflate_alloc_decompressor();
	if (!u->deflate)
		return UNDO_NO_MEMORY;
	return with(u->deflate, in, (size_t)bytes, out, (size_t)room, &made) == LIBDEFLATE_SUCCESS
		       ? (int64_t)made
		       : UNDO_DAMAGED;
}

int64_t deflate_unpack(
	Unpacker *u, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
	return decompress(libdeflate_zlib_decompress, u, in, bytes, out, room);
}

int64_t gzip_undo(
	Unpacker *u, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
	return decompress(libdeflate_gzip_decompress, u, in, bytes, out, room);
}

static void deflate_free(Unpacker *u)
{
	if (u->deflate)
		libdeflate_free_decompressor(u->deflate);
}

#else
#include <zlib.h>

int64_t deflate_bound(int64_t bytes)
{
	return (int64_t)compressBound((uLong)bytes);
}

int64_t deflate_pack(int level, const unsigned char *in, int64_t bytes, unsigned char *out)
{
	uLongf made = (uLongf)deflate_bound(bytes);
	return compress2(out, &made, in, (uLong)bytes, level) == Z_OK ? (int64_t)made
								      : UNDO_NO_MEMORY;
}

int64_t deflate_unpack(
	Unpacker *u, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
	uLongf made = (uLongf)room;
	int result = uncompress(out, &made, in, (uLong)bytes);
	(void)u;
	return result == Z_OK          ? (int64_t)made
	       : result == Z_MEM_ERROR ? UNDO_NO_MEMORY
				       : UNDO_DAMAGED;
}

int64_t gzip_undo(
	Unpacker *u, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
	enum { WITH_GZIP_HEADER = 31 };
	z_stream stream = {.next_in = (Bytef *)(uintptr_t)in,
		.avail_in = (uInt)min64(bytes, UINT32_MAX),
		.next_out = out,
		.avail_out = (uInt)min64(room, UINT32_MAX)};
	(void)u;
	if (inflateInit2(&stream, WITH_GZIP_HEADER) != Z_OK)
		return UNDO_NO_MEMORY;
	int result = inflate(&stream, Z_FINISH);
	inflateEnd(&stream);
	return result == Z_STREAM_END  ? (int64_t)stream.total_out
	       : result == Z_MEM_ERROR ? UNDO_NO_MEMORY
				       : UNDO_DAMAGED;
}

static void deflate_free(Unpacker *u)
{
	(void)u;
}

#endif

int64_t lz4_unpack(const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
#if TOMOS_HAS_LZ4
	if (bytes > INT32_MAX || room > INT32_MAX)
		return UNDO_DAMAGED;
	int made = LZ4_decompress_safe((const char *)in, (char *)out, (int)bytes, (int)room);
	return made < 0 ? UNDO_DAMAGED : made;
#else
	(void)in, (void)bytes, (void)out, (void)room;
	return UNDO_DAMAGED;
#endif
}

int64_t zstd_unpack(
	Unpacker *u, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
#if TOMOS_HAS_ZSTD
	if (!u->zstd)
		u->zstd = ZSTD_createDCtx();
	if (!u->zstd)
		return UNDO_NO_MEMORY;
	size_t made = ZSTD_decompressDCtx(u->zstd, out, (size_t)room, in, (size_t)bytes);
	return ZSTD_isError(made) ? UNDO_DAMAGED : (int64_t)made;
#else
	(void)u, (void)in, (void)bytes, (void)out, (void)room;
	return UNDO_DAMAGED;
#endif
}

int64_t zstd_bound(int64_t bytes)
{
#if TOMOS_HAS_ZSTD
	return (int64_t)ZSTD_compressBound((size_t)bytes);
#else
	return bytes;
#endif
}

int64_t zstd_pack(
	int level, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
#if TOMOS_HAS_ZSTD
	size_t made = ZSTD_compress(out, (size_t)room, in, (size_t)bytes, level);
	return ZSTD_isError(made) ? UNDO_NO_MEMORY : (int64_t)made;
#else
	(void)level, (void)in, (void)bytes, (void)out, (void)room;
	return UNDO_NO_MEMORY;
#endif
}

unsigned char *unpacker_block(Unpacker *u, int64_t bytes)
{
	if (bytes <= u->room)
		return u->block;
	mem_free(u->block);
	u->block = NULL;
	u->room = 0;
	if (mem_alloc(&u->block, bytes, 1, "blocks of a chunk") != TOMOS_OK)
		return NULL;
	u->room = bytes;
	return u->block;
}

void unpacker_free(Unpacker *u)
{
	deflate_free(u);
#if TOMOS_HAS_ZSTD
	ZSTD_freeDCtx(u->zstd);
#endif
	mem_free(u->block);
	*u = (Unpacker){.room = 0};
}
