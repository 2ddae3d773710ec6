/* The bitshuffle filter: bit k of all numbers of a block together, then LZ4, Zstd or nothing.
 *
 * K. Masui et al., A compression scheme for radio data in high performance computing, Astronomy and
 * Computing 12 (2015) 181.
 */
#include <string.h>
#include "io/filters.h"

/* ---- bits to bytes --------------------------------------------------------------------------- */

enum { GROUP = 8 };

#define LANES 16
#define TARGET
#include "io/bits.def"
#ifdef __x86_64__
#define LANES 32
#define TARGET __attribute__((target("avx2")))
#include "io/bits.def"
#endif

/* Rows shorter than a vector, through a copy. */
static void last_bits(const unsigned char *in, int64_t row, int64_t done, unsigned char *out)
{
	unsigned char rows[GROUP * 16] = {0}, last[GROUP * 16];
	for (int b = 0; b < GROUP; b++)
		memcpy(rows + b * 16, in + b * row + done, (size_t)(row - done));
	(void)bits_to_bytes_16(rows, 16, 0, last);
	memcpy(out + done * GROUP, last, (size_t)((row - done) * GROUP));
}

/* 8 rows of `row` bytes, which have bits 0 to 7 of a byte of all numbers, to these bytes. */
static void bits_to_bytes(const unsigned char *in, int64_t row, unsigned char *out)
{
	int64_t done = 0;
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		done = bits_to_bytes_32(in, row, done, out);
#endif
	done = bits_to_bytes_16(in, row, done, out);
	if (done < row)
		last_bits(in, row, done, out);
}

void bits_unshuffle(const unsigned char *in, int64_t count, int size, bool far,
	unsigned char *planes, unsigned char *out)
{
	for (int k = 0; k < size; k++)
		bits_to_bytes(
			in + k * count, count / GROUP, (size == 1 ? out : planes) + k * count);
	if (size > 1)
		bytes_unshuffle(planes, count, size, far, out);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { PLAIN = 0, WITH_LZ4 = 2, WITH_ZSTD = 3, USUAL_BLOCK = 8192, LARGEST_BLOCK = 1 << 26 };

typedef struct {
	const Undo *w;
	int size, packing;
	int64_t block; /* numbers per block */
	unsigned char *bits, *planes;
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
	int64_t made = b->packing == WITH_LZ4
			       ? lz4_unpack(from, packed, b->bits, bytes)
			       : zstd_unpack(w->unpacker, from, packed, b->bits, bytes);
	return made == bytes ? b->bits : NULL;
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
			bits_unshuffle(bits, some, b->size, w->far, b->planes, w->out + start);
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
	int64_t at = b.packing == PLAIN ? 0 : 12, bytes = w->bytes;
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
	b.bits = unpacker_block(w->unpacker, 2 * b.block * b.size);
	if (!b.bits)
		return UNDO_NO_MEMORY;
	b.planes = b.bits + b.block * b.size;
	return undo_blocks(&b, at, bytes);
}
