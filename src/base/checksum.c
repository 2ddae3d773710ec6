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

/* Polynomials over two elements, modulo that of the checksum: the highest bit is the coefficient of
 * x^0. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
		product ^= a & bit ? b : 0;
		b = b >> 1 ^ (b & 1 ? UINT32_C(0xedb88320) : 0);
	}
	return product;
}

uint32_t checksum_before(uint32_t sum, int64_t bytes)
{
	uint32_t power = UINT32_C(1) << 23; /* x^8, of one byte */
	for (; bytes > 0; bytes /= 2) {
		sum = bytes % 2 ? multiply(power, sum) : sum;
		power = multiply(power, power);
	}
	return sum;
}
