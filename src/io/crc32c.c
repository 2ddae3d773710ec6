/* CRC-32C (Castagnoli), by the instruction of x86 processors where there is one, and the checksum
 * of joined bytes from the checksums of the parts. */
#include <string.h>
#include "io/crc32c.h"

enum { BITS = 32, LEAST = 192 }; /* LEAST: bytes that several streams are worth it for */
#define POLYNOMIAL 0x82f63b78u   /* bits reversed: the highest power is the lowest bit */

/* Product of two polynomials modulo the polynomial of the checksum. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	for (int bit = BITS - 1; bit >= 0; bit--) {
		product ^= a >> bit & 1 ? b : 0;
		b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
	}
	return product;
}

uint32_t crc32c_shift(int64_t bytes)
{
	uint32_t power = 1u << 23, result = 1u << 31; /* x^8, 1 */
	for (; bytes > 0; bytes >>= 1) {
		if (bytes & 1)
			result = multiply(result, power);
		power = multiply(power, power);
	}
	return result;
}

uint32_t crc32c_join(uint32_t shift, uint32_t first, uint32_t second)
{
	return multiply(shift, first) ^ second;
}

static uint32_t by_bits(uint32_t sum, const unsigned char *bytes, int64_t count)
{
	static const uint32_t nibbles[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
		0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6,
		0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
	for (int64_t i = 0; i < count; i++) {
		sum ^= bytes[i];
		sum = sum >> 4 ^ nibbles[sum & 15];
		sum = sum >> 4 ^ nibbles[sum & 15];
	}
	return sum;
}

#if defined __x86_64__ && defined __GNUC__
#include <nmmintrin.h>

#define HARDWARE __attribute__((target("sse4.2")))

HARDWARE static uint64_t next_word(uint64_t sum, const unsigned char *bytes)
{
	uint64_t word;
	memcpy(&word, bytes, sizeof word);
	return _mm_crc32_u64(sum, word);
}

/* What joins three streams of the last length that was used. */
static _Thread_local struct {
	int64_t lane;
	uint32_t one, two;
} known;

/* The instruction takes three cycles, and one can begin in every cycle: so three streams. */
HARDWARE static uint32_t by_instruction(uint32_t sum, const unsigned char *bytes, int64_t count)
{
	uint64_t s[3] = {sum, 0, 0};
	int64_t lane = count >= LEAST ? count / 24 * 8 : 0;
	if (lane > 0 && lane != known.lane) {
		known.lane = lane;
		known.one = crc32c_shift(lane);
		known.two = crc32c_shift(2 * lane);
	}
	for (int64_t i = 0; i < lane; i += 8) {
		s[0] = next_word(s[0], bytes + i);
		s[1] = next_word(s[1], bytes + lane + i);
		s[2] = next_word(s[2], bytes + 2 * lane + i);
	}
	if (lane > 0)
		s[0] = multiply(known.two, (uint32_t)s[0]) ^ multiply(known.one, (uint32_t)s[1]) ^
		       s[2];
	for (bytes += 3 * lane, count -= 3 * lane; count >= 8; count -= 8, bytes += 8)
		s[0] = next_word(s[0], bytes);
	return by_bits((uint32_t)s[0], bytes, count);
}

static bool has_instruction(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#else
static uint32_t by_instruction(uint32_t sum, const unsigned char *bytes, int64_t count)
{
	return by_bits(sum, bytes, count);
}

static bool has_instruction(void)
{
	return false;
}
#endif

uint32_t crc32c_plain(const void *bytes, int64_t count)
{
	return ~by_bits(~0u, bytes, count);
}

uint32_t crc32c(const void *bytes, int64_t count)
{
	return has_instruction() ? ~by_instruction(~0u, bytes, count) : crc32c_plain(bytes, count);
}
