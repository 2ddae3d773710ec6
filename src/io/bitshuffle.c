/* The bitshuffle filter: bit k of all numbers of a block together, then LZ4, Zstd or nothing.
 *
 * K. Masui et al., A compression scheme for radio data in high performance computing, Astronomy and
 * Computing 12 (2015) 181.
 */
#include <string.h>
#include "io/filters.h"
#if TOMOS_HAS_LZ4
#include <lz4.h>
#endif
#if TOMOS_HAS_ZSTD
#include <zstd.h>
#endif

/* ---- bits to bytes --------------------------------------------------------------------------- */

enum { LANES = 16, GROUP = 8 };

typedef uint8_t Bytes __attribute__((vector_size(LANES)));
typedef uint16_t Shorts __attribute__((vector_size(LANES)));
typedef uint32_t Words __attribute__((vector_size(LANES)));
typedef uint64_t Longs __attribute__((vector_size(LANES)));

#define LOW8(a, b) \
	__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH8(a, b) \
	__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW16(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH16(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW32(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

/* Swaps bits between rows that are `shift` apart; three such steps transpose 8 x 8 bits. */
#define SWAP_BITS(a, b, shift, mask) \
	do { \
		Longs t = ((a) >> (shift) ^ (b)) & (mask); \
		(b) ^= t; \
		(a) ^= t << (shift); \
	} while (0)

static void transpose_bits(Longs r[GROUP])
{
	const Longs four = (Longs){0} + UINT64_C(0x0f0f0f0f0f0f0f0f);
	const Longs two = (Longs){0} + UINT64_C(0x3333333333333333);
	const Longs one = (Longs){0} + UINT64_C(0x5555555555555555);
	for (int i = 0; i < 4; i++)
		SWAP_BITS(r[i], r[i + 4], 4, four);
	for (int i = 0; i < 2; i++) {
		SWAP_BITS(r[i], r[i + 2], 2, two);
		SWAP_BITS(r[i + 4], r[i + 6], 2, two);
	}
	for (int i = 0; i < GROUP; i += 2)
		SWAP_BITS(r[i], r[i + 1], 1, one);
}

/* 8 rows of 16 bytes to 16 groups of 8. */
static void store_transposed(const Longs r[GROUP], unsigned char *out)
{
	Shorts pairs[GROUP];
	Words fours[GROUP];
	Longs all[GROUP];
	for (int i = 0; i < GROUP; i += 2) {
		pairs[i] = (Shorts)LOW8((Bytes)r[i], (Bytes)r[i + 1]);
		pairs[i + 1] = (Shorts)HIGH8((Bytes)r[i], (Bytes)r[i + 1]);
	}
	for (int i = 0; i < 2; i++)
		for (int h = 0; h < GROUP; h += 4) {
			fours[h + 2 * i] = (Words)LOW16(pairs[h + i], pairs[h + i + 2]);
			fours[h + 2 * i + 1] = (Words)HIGH16(pairs[h + i], pairs[h + i + 2]);
		}
	for (int i = 0; i < 4; i++) {
		all[2 * i] = (Longs)LOW32(fours[i], fours[i + 4]);
		all[2 * i + 1] = (Longs)HIGH32(fours[i], fours[i + 4]);
	}
	memcpy(out, all, sizeof all);
}

/* 8 rows of `row` bytes, which have bits 0 to 7 of every number's byte, to these bytes. Vectors of
 * 16 bytes from each row, and the last ones from a copy. */
static void bits_to_bytes(const unsigned char *in, int64_t row, unsigned char *out)
{
	Longs r[GROUP];
	for (int64_t i = 0; i < row; i += LANES) {
		int64_t count = min64(LANES, row - i);
		unsigned char last[LANES * GROUP];
		for (int b = 0; b < GROUP; b++) {
			r[b] = (Longs){0};
			if (count == LANES)
				memcpy(&r[b], in + b * row + i, LANES);
			else
				memcpy(&r[b], in + b * row + i, (size_t)count);
		}
		transpose_bits(r);
		store_transposed(r, count == LANES ? out + i * GROUP : last);
		if (count < LANES)
			memcpy(out + i * GROUP, last, (size_t)(count * GROUP));
	}
}

void bits_unshuffle(
	const unsigned char *in, int64_t count, int size, unsigned char *planes, unsigned char *out)
{
	for (int k = 0; k < size; k++)
		bits_to_bytes(
			in + k * count, count / GROUP, (size == 1 ? out : planes) + k * count);
	if (size > 1)
		bytes_unshuffle(planes, count, size, out);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { PLAIN = 0, WITH_LZ4 = 2, WITH_ZSTD = 3, USUAL_BLOCK = 8192, LARGEST_BLOCK = 1 << 26 };

typedef struct {
	const Undo *w;
	int size, packing;
	int64_t block; /* numbers per block */
	unsigned char *bits, *planes;
	void *zstd;
} Blocks;

/* The bits of a block of `bytes` bytes, unpacked; moves *at behind it. NULL: damaged. With `skip`
 * any other pointer. */
static const unsigned char *unpack(Blocks *b, int64_t *at, int64_t bytes, bool skip)
{
	const Undo *w = b->w;
	const unsigned char *from = w->in + *at + (b->packing == PLAIN ? 0 : 4);
	int64_t packed = bytes, left = w->bytes - *at;
	if (b->packing != PLAIN) {
		packed = left >= 4 ? filter_number(w->in + *at, 4) : INT64_MAX;
		left -= 4;
	}
	if (packed > left)
		return NULL;
	*at = from + packed - w->in;
	if (skip || b->packing == PLAIN)
		return from;
#if TOMOS_HAS_LZ4
	if (b->packing == WITH_LZ4 && LZ4_decompress_safe((const char *)from, (char *)b->bits,
					      (int)packed, (int)bytes) == bytes)
		return b->bits;
#endif
#if TOMOS_HAS_ZSTD
	if (b->packing == WITH_ZSTD && ZSTD_decompressDCtx(b->zstd, b->bits, (size_t)bytes, from,
					       (size_t)packed) == (size_t)bytes)
		return b->bits;
#endif
	return NULL;
}

/* Whole blocks, a shorter one of a multiple of 8 numbers, and the rest as it is. */
static int64_t undo_blocks(Blocks *b, int64_t at, int64_t bytes)
{
	const Undo *w = b->w;
	int64_t count = bytes / b->size, whole = count / GROUP * GROUP, done = 0;
	for (int64_t some; done < whole; done += some) {
		int64_t start = done * b->size, end;
		some = min64(b->block, whole - done);
		end = start + some * b->size;
		bool skip = end <= w->need[0] || start >= w->need[1];
		const unsigned char *bits = unpack(b, &at, some * b->size, skip);
		if (!bits)
			return UNDO_DAMAGED;
		if (!skip)
			bits_unshuffle(bits, some, b->size, b->planes, w->out + start);
	}
	int64_t rest = bytes - done * b->size;
	if (rest > w->bytes - at)
		return UNDO_DAMAGED;
	memcpy(w->out + done * b->size, w->in + at, (size_t)rest);
	return bytes;
}

bool bitshuffle_known(const Filter *filter)
{
	unsigned packing = filter->values[4];
	return packing == PLAIN || (TOMOS_HAS_LZ4 && packing == WITH_LZ4) ||
	       (TOMOS_HAS_ZSTD && packing == WITH_ZSTD);
}

static int64_t usual_block(int size)
{
	return max64(USUAL_BLOCK / size / GROUP * GROUP, 128);
}

/* Packed data begin with their size and the bytes of a block. */
int64_t undo_bitshuffle(const Undo *w)
{
	const unsigned *values = w->filter->values; /* version (2), size, block, packing */
	Blocks b = {.w = w, .size = (int)min64(values[2], 256), .packing = (int)values[4]};
	int64_t at = b.packing == PLAIN ? 0 : 12, bytes = w->bytes, result = UNDO_NO_MEMORY;
	if (b.size < 1 || !bitshuffle_known(w->filter) || w->bytes < at)
		return UNDO_DAMAGED;
	b.block = values[3];
	if (b.packing != PLAIN) {
		bytes = filter_number(w->in, 8);
		b.block = filter_number(w->in + 8, 4) / b.size;
	}
	if (b.block == 0)
		b.block = usual_block(b.size);
	if (bytes > w->room || b.block % GROUP || b.block * b.size > LARGEST_BLOCK)
		return UNDO_DAMAGED;
#if TOMOS_HAS_ZSTD
	b.zstd = b.packing == WITH_ZSTD ? ZSTD_createDCtx() : NULL;
#endif
	bool ready = b.zstd || b.packing != WITH_ZSTD;
	if (mem_alloc(&b.bits, 2 * b.block, (size_t)b.size, "a block of a chunk") == TOMOS_OK &&
		ready) {
		b.planes = b.bits + b.block * b.size;
		result = undo_blocks(&b, at, bytes);
	}
	mem_free(b.bits);
#if TOMOS_HAS_ZSTD
	ZSTD_freeDCtx(b.zstd);
#endif
	return result;
}
