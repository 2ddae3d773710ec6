/* Checksum of bytes, in any number of parts; by libdeflate, which is faster, or by zlib. */
#include "base/base.h"
#if TOMOS_HAS_LIBDEFLATE
#include <libdeflate.h>

uint32_t checksum_add(uint32_t sum, const void *bytes, int64_t count)
{
	return count > 0 ? libdeflate_crc32(sum, bytes, (size_t)count) : sum;
}

#else
#include <zlib.h>

uint32_t checksum_add(uint32_t sum, const void *bytes, int64_t count)
{
	const unsigned char *at = bytes;
	for (int64_t step; count > 0; count -= step, at += step) {
		step = min64(count, 1 << 30);
		sum = (uint32_t)crc32(sum, at, (uInt)step);
	}
	return sum;
}

#endif
