/* Deflate with a zlib header, by libdeflate, which is faster, or by zlib. */
#include "io/filters.h"
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

int64_t deflate_unpack(const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	size_t made = 0;
	if (!d)
		return UNDO_NO_MEMORY;
	bool good = libdeflate_zlib_decompress(d, in, (size_t)bytes, out, (size_t)room, &made) ==
		    LIBDEFLATE_SUCCESS;
	libdeflate_free_decompressor(d);
	return good ? (int64_t)made : UNDO_DAMAGED;
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

int64_t deflate_unpack(const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room)
{
	uLongf made = (uLongf)room;
	int result = uncompress(out, &made, in, (uLong)bytes);
	return result == Z_OK          ? (int64_t)made
	       : result == Z_MEM_ERROR ? UNDO_NO_MEMORY
				       : UNDO_DAMAGED;
}

#endif
