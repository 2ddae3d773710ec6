/* Undoes the common filters of HDF5 chunks: shuffle, deflate, Fletcher-32, LZ4, Zstd and Blosc.
 * Formats: HDF5 file format specification, and the registered filter plug-ins of The HDF Group. */
#include <string.h>
#include "io/filters.h"

enum {
	DEFLATE = 1,
	SHUFFLE = 2,
	FLETCHER = 3,
	LZF = 32000,
	BLOSC = 32001,
	LZ4 = 32004,
	BITSHUFFLE = 32008,
	ZSTD = 32015,
};

/* ---- of every HDF5 library ------------------------------------------------------------------- */

static int64_t undo_deflate(const Undo *w)
{
	return deflate_unpack(w->unpacker, w->in, w->bytes, w->out, w->room);
}

/* Bytes that do not make up a number are at the end, unchanged. */
static int64_t undo_shuffle(const Undo *w)
{
	unsigned size = w->filter->values[0];
	if (size < 1 || (int64_t)size > w->bytes || w->bytes > w->room)
		return UNDO_DAMAGED;
	int64_t count = w->bytes / size, whole = count * size;
	bytes_unshuffle(w->in, count, (int)size, w->far, w->out);
	memcpy(w->out + whole, w->in + whole, (size_t)(w->bytes - whole));
	return w->bytes;
}

/* Of 16-bit words, high byte first. 360 words are summed before the sums can overflow. */
static uint32_t fletcher(const unsigned char *bytes, int64_t count)
{
	uint32_t one = 0, two = 0;
	for (int64_t words = count / 2, some; words > 0; words -= some) {
		some = min64(words, 360);
		for (int64_t i = 0; i < some; i++, bytes += 2) {
			one += (uint32_t)(bytes[0] << 8 | bytes[1]);
			two += one;
		}
		one = (one & 0xffff) + (one >> 16);
		two = (two & 0xffff) + (two >> 16);
	}
	if (count % 2) {
		one += (uint32_t)(*bytes << 8);
		two += one;
		one = (one & 0xffff) + (one >> 16);
		two = (two & 0xffff) + (two >> 16);
	}
	one = (one & 0xffff) + (one >> 16);
	two = (two & 0xffff) + (two >> 16);
	return two << 16 | one;
}

static int64_t undo_fletcher(const Undo *w)
{
	int64_t bytes = w->bytes - 4;
	if (bytes < 0 || bytes > w->room)
		return UNDO_DAMAGED;
	const unsigned char *end = w->in + bytes;
	uint32_t stored = (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 |
			  (uint32_t)end[3] << 24;
	uint32_t sum = fletcher(w->in, bytes);
	/* Some versions of the library swapped the bytes of both sums. */
	uint32_t swapped = (sum & 0xff00ff) << 8 | (sum >> 8 & 0xff00ff);
	if (stored != sum && stored != swapped)
		return UNDO_DAMAGED;
	memcpy(w->out, w->in, (size_t)bytes);
	return bytes;
}

/* ---- plug-ins -------------------------------------------------------------------------------- */

/* Literals of up to 32 bytes, and copies of 3 to 264 bytes from at most 8192 bytes before: the
 * "lzf" of h5py. */
static int64_t undo_lzf(const Undo *w)
{
	int64_t at = 0, made = 0;
	while (at < w->bytes) {
		int control = w->in[at++];
		int64_t count = control < 32 ? control + 1 : control >> 5, back;
		if (control >= 32 && count == 7 && at < w->bytes)
			count += w->in[at++];
		if (control < 32) {
			if (count > w->bytes - at || count > w->room - made)
				return UNDO_DAMAGED;
			memcpy(w->out + made, w->in + at, (size_t)count);
			at += count;
			made += count;
			continue;
		}
		back = at < w->bytes ? ((control & 31) << 8 | w->in[at++]) + 1 : INT64_MAX;
		count += 2;
		if (back > made || count > w->room - made)
			return UNDO_DAMAGED;
		for (; count > 0; count--, made++)
			w->out[made] = w->out[made - back];
	}
	return made;
}

int64_t filter_number(const unsigned char *bytes, int count)
{
	uint64_t number = 0;
	for (int i = 0; i < count; i++)
		number = number << 8 | bytes[i];
	return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

#if TOMOS_HAS_LZ4
/* Size of the data and of a block, then each block after its packed size; a block as large as
 * unpacked is not packed. */
static int64_t undo_lz4(const Undo *w)
{
	int64_t at = 12, made = 0;
	int64_t all = w->bytes >= at ? filter_number(w->in, 8) : INT64_MAX;
	int64_t block = w->bytes >= at ? filter_number(w->in + 8, 4) : 0;
	if (all > w->room || block < 1 || block > INT32_MAX)
		return UNDO_DAMAGED;
	for (int64_t size, packed; made < all; made += size, at += packed) {
		size = min64(block, all - made);
		if (w->bytes - at < 4)
			return UNDO_DAMAGED;
		packed = filter_number(w->in + at, 4);
		at += 4;
		if (packed > w->bytes - at)
			return UNDO_DAMAGED;
		if (packed == size)
			bytes_copy(w->in + at, size, w->far, w->out + made);
		else if (lz4_unpack(w->in + at, packed, w->out + made, size) != size)
			return UNDO_DAMAGED;
	}
	return made;
}
#endif

#if TOMOS_HAS_ZSTD
static int64_t undo_zstd(const Undo *w)
{
	return zstd_unpack(w->unpacker, w->in, w->bytes, w->out, w->room);
}
#endif

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
	int id;
	int64_t (*undo)(const Undo *w);
} filters[] = {
	{DEFLATE, undo_deflate},
	{SHUFFLE, undo_shuffle},
	{FLETCHER, undo_fletcher},
	{LZF, undo_lzf},
	{BITSHUFFLE, undo_bitshuffle},
#if TOMOS_HAS_LZ4
	{LZ4, undo_lz4},
#endif
#if TOMOS_HAS_ZSTD
	{ZSTD, undo_zstd},
#endif
#if TOMOS_HAS_BLOSC
	{BLOSC, undo_blosc},
#endif
};

bool filter_known(const Filter *filter)
{
	for (int i = 0; i < COUNT(filters); i++)
		if (filters[i].id == filter->id)
			return filter->id != BITSHUFFLE || bitshuffle_known(filter);
	return false;
}

bool filter_skips(const Filter *filter)
{
	return filter->id == BITSHUFFLE;
}

int64_t filter_undo(const Undo *undo)
{
	for (int i = 0; i < COUNT(filters); i++)
		if (filters[i].id == undo->filter->id)
			return filters[i].undo(undo);
	return UNDO_DAMAGED;
}
