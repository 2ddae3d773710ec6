/* Filters of compressed chunks: against their definitions, and with damaged bytes. Files written by
 * the usual libraries are read in tests/python/test_compressed.py. */
#include <hdf5.h>
#include "io_help.h"
#include "io/filters.h"
#include "io/io.h"
#if TOMOS_HAS_BLOSC
#include <blosc.h>
#endif

enum { ROOM = 1 << 16 };

static uint32_t seed = 1;

static unsigned char next_byte(void)
{
	seed = seed * 1664525 + 1013904223;
	return (unsigned char)(seed >> 24);
}

/* ---- shuffling ------------------------------------------------------------------------------- */

/* Bit b of byte k of number i is bit i % 8 of byte i / 8 of row 8 k + b. */
static void shuffle_bits(const unsigned char *numbers, int64_t count, int size, unsigned char *out)
{
	memset(out, 0, (size_t)(count * size));
	for (int64_t i = 0; i < count; i++)
		for (int k = 0; k < size; k++)
			for (int b = 0; b < 8; b++)
				if (numbers[i * size + k] >> b & 1)
					out[(8 * k + b) * (count / 8) + i / 8] |=
						(unsigned char)(1 << i % 8);
}

static void bits(void **state)
{
	(void)state;
	for (int size = 1; size <= 9; size++)
		for (int64_t count = 8; count <= 400; count += 8) {
			unsigned char in[9 * 400], rows[9 * 400], planes[9 * 400], out[9 * 400 + 1];
			for (int64_t i = 0; i < count * size; i++)
				in[i] = next_byte();
			shuffle_bits(in, count, size, rows);
			out[count * size] = 77;
			bits_unshuffle(rows, count, size, true, planes, out);
			assert_memory_equal(in, out, (size_t)(count * size));
			assert_int_equal(out[count * size], 77);
		}
}

/* Few numbers, and enough of them for vectors that are written past the caches, from addresses that
 * allow it and others. */
static void bytes(void **state)
{
	enum { MANY = 9001 };
	static unsigned char in[9 * MANY], room[9 * MANY + 64];
	(void)state;
	for (int size = 1; size <= 9; size++)
		for (int trial = 0; trial < 8; trial++) {
			int count = trial & 1 ? MANY : 37;
			unsigned char *out = room + 16 - (uintptr_t)room % 16 + (trial & 2 ? 8 : 0);
			for (int i = 0; i < count * size; i++)
				in[i] = next_byte();
			out[count * size] = 77;
			bytes_unshuffle(in, count, size, trial & 4, out);
			for (int i = 0; i < count * size; i++)
				assert_int_equal(out[i], in[i % size * count + i / size]);
			bytes_copy(in, count * size, trial & 4, out);
			assert_memory_equal(in, out, (size_t)(count * size));
			assert_int_equal(out[count * size], 77);
		}
}

/* ---- damaged bytes --------------------------------------------------------------------------- */

/* Whatever the bytes are, as many as fit are made, or they are rejected. */
static void any_bytes(void **state)
{
	static const int ids[] = {1, 2, 3, 32000, 32001, 32004, 32008, 32015};
	static unsigned char in[600], out[ROOM + 1];
	Unpacker u = {.room = 0};
	(void)state;
	for (int i = 0; i < COUNT(ids); i++)
		for (int try = 0; try < 3000; try++) {
			Filter f = {ids[i],
				{next_byte(), next_byte(), next_byte() % 9, 0, next_byte() % 4}};
			int64_t count = next_byte() * 2, room = 1 + next_byte() * 4;
			for (int64_t k = 0; k < count; k++)
				in[k] = next_byte();
			/* Sizes at the beginning that might be right. */
			for (int k = 0; k < 12 && try % 2; k++)
				in[k] = k == 7 || k == 10 ? next_byte() % 8 : 0;
			if (!filter_known(&f))
				continue;
			out[room] = 77;
			const Undo undo = {&f, in, count, out, room, {next_byte(), next_byte()},
				try % 3 == 0, &u};
			int64_t made = filter_undo(&undo);
			assert_true(made == UNDO_DAMAGED || (made >= 0 && made <= room));
			assert_int_equal(out[room], 77);
		}
	unpacker_free(&u);
	assert_int_equal(mem_live(), 0);
}

/* A literal and copies that overlap themselves, as h5py's "lzf" has them. */
static void lzf(void **state)
{
	static const unsigned char in[] = {2, 'a', 'b', 'c', 32 * 3, 2, 32 * 7, 3, 0};
	unsigned char out[64];
	const Filter f = {32000, {0}};
	Undo undo = {&f, in, sizeof in, out, sizeof out, {0, 64}, false, NULL};
	(void)state;
	assert_int_equal(filter_undo(&undo), 3 + 5 + 12);
	assert_memory_equal(out, "abcabcabbbbbbbbbbbbb", 20);
	undo.room = 19;
	assert_int_equal(filter_undo(&undo), UNDO_DAMAGED);
	undo.room = 64;
	undo.bytes = sizeof in - 1;
	assert_int_equal(filter_undo(&undo), UNDO_DAMAGED);
}

/* What the library packs, with one unpacker for all: the numbers, of which those not needed may be
 * left out; cut off at any place, it is rejected or all that is needed is there. */
static void blosc(void **state)
{
	(void)state;
#if TOMOS_HAS_BLOSC
	enum { MOST_BYTES = 200000 }; /* streams are of blocks of 65536 bytes and more */
	static const char *const codecs[] = {"blosclz", "lz4", "lz4hc", "zlib", "zstd"};
	static unsigned char data[MOST_BYTES], packed[MOST_BYTES + BLOSC_MAX_OVERHEAD],
		out[MOST_BYTES];
	const Filter f = {32001, {0}};
	Unpacker u = {.room = 0};
	for (int try = 0; try < 1000; try++) {
		int size = 1 + next_byte() % 20;
		size_t any = (size_t)next_byte() << 16 | (size_t)next_byte() << 8 | next_byte();
		size_t bytes = 1 + any % (try % 8 ? 5000 : MOST_BYTES);
		for (size_t i = 0; i < bytes; i++)
			data[i] = (unsigned char)(try % 3 ? i / 7 % 100 : next_byte());
		int made = blosc_compress_ctx(try % 10, try / 10 % 3, (size_t)size, bytes, data,
			packed, sizeof packed, codecs[try % COUNT(codecs)], next_byte() * 16U, 1);
		assert_true(made > 0);
		int64_t low = (int64_t)((size_t)next_byte() * 800 % bytes),
			high = min64(low + 1 + next_byte() * 400, (int64_t)bytes);
		Undo undo = {&f, packed, made, out, (int64_t)bytes, {low, high}, true, &u};
		memset(out, 0, bytes);
		assert_int_equal(filter_undo(&undo), bytes);
		assert_memory_equal(out + low, data + low, (size_t)(high - low));
		undo.bytes = made * (int64_t)next_byte() / 256;
		assert_int_equal(filter_undo(&undo), UNDO_DAMAGED);
		undo.bytes = made;
		undo.room = (int64_t)bytes - 1;
		assert_int_equal(filter_undo(&undo), UNDO_DAMAGED);
	}
	unpacker_free(&u);
	assert_int_equal(mem_live(), 0);
#else
	print_message("skipped: this build is without Blosc\n");
	skip();
#endif
}

/* ---- files of the HDF5 library --------------------------------------------------------------- */

enum { N0 = 7, N1 = 9, N2 = 11 };

typedef struct {
	int rank;
	hsize_t chunk[3];
	bool shuffled, packed, summed;
	hsize_t written; /* indices of the first axis */
} Layout;

static hid_t layout_list(const Layout *l)
{
	static const uint16_t fill = 4711;
	hid_t list = H5Pcreate(H5P_DATASET_CREATE);
	H5Pset_chunk(list, l->rank, l->chunk + 3 - l->rank);
	H5Pset_fill_value(list, H5T_NATIVE_UINT16, &fill);
	if (l->shuffled)
		H5Pset_shuffle(list);
	if (l->packed)
		H5Pset_deflate(list, 6);
	if (l->summed)
		H5Pset_fletcher32(list);
	return list;
}

static void write_layout(const char *path, const Layout *l, const uint16_t *numbers)
{
	hsize_t sizes[3] = {N0, N1, N2}, part[3] = {l->written, N1, N2}, start[3] = {0, 0, 0};
	int skip = 3 - l->rank;
	hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
	hid_t space = H5Screate_simple(l->rank, sizes + skip, NULL);
	hid_t memory = H5Screate_simple(l->rank, part + skip, NULL), list = layout_list(l);
	hid_t set =
		H5Dcreate2(file, "volume", H5T_STD_U16BE, space, H5P_DEFAULT, list, H5P_DEFAULT);
	if (l->rank == 3)
		H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
	assert_true(H5Dwrite(set, H5T_NATIVE_UINT16, memory, space, H5P_DEFAULT, numbers) >= 0);
	H5Dclose(set);
	H5Pclose(list);
	H5Sclose(memory);
	H5Sclose(space);
	H5Fclose(file);
}

/* Every part of the file, as floats and as stored; keep: chunks stay in memory. */
static void check_layout(const char *path, const Layout *l, const uint16_t *numbers, bool keep)
{
	tomos_file *file;
	float data[N0 * N1 * N2];
	uint16_t stored[N0 * N1 * N2];
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_true(file->element.swapped && file->element.bytes == 2);
	int64_t n0 = file->shape[0];
	file->keep = keep;
	for (int64_t first = 0; first < n0; first++)
		for (int64_t count = 1; count <= n0 - first; count++)
			for (int64_t row = 0; row < N1; row++) {
				const Extract part = {first, count, row, 1 + (N1 - row - 1) / 2};
				assert_ok(io_read(file, &part, data));
				assert_ok(io_read_stored(file, &part, 3, stored));
				int64_t size = part.rows * N2;
				for (int64_t i = 0; i < count * size; i++) {
					int64_t index = first + i / size, at = i % size;
					bool there = (hsize_t)index < l->written;
					int expected = there ? numbers[(index * N1 + row) * N2 + at]
							     : 4711;
					assert_int_equal((int)data[i], expected);
					assert_int_equal(__builtin_bswap16(stored[i]), expected);
				}
			}
	tomos_file_close(file);
}

static void layouts(void **state)
{
	static const hsize_t chunks[][3] = {
		{1, N1, N2}, {3, 4, 5}, {N0, 1, N2}, {2, N1, N2}, {N0, N1, N2}, {1, 1, 1}};
	uint16_t numbers[N0 * N1 * N2];
	(void)state;
	for (int i = 0; i < N0 * N1 * N2; i++)
		numbers[i] = (uint16_t)(i * 97);
	for (int c = 0; c < COUNT(chunks); c++)
		for (int k = 0; k < 8; k++)
			for (int rank = 2; rank <= 3; rank++) {
				Layout l = {rank, {0}, k & 1, k & 2, k & 4,
					rank == 2 ? 1
					: k % 4   ? N0
						  : 3};
				memcpy(l.chunk, chunks[c], sizeof l.chunk);
				write_layout(at("layout.h5"), &l, numbers);
				check_layout(at("layout.h5"), &l, numbers, false);
				check_layout(at("layout.h5"), &l, numbers, true);
			}
	assert_int_equal(mem_live(), 0);
}

/* Chunks that were unpacked for some rows are not read again for others, if they are kept. */
static void kept_chunks(void **state)
{
	const Layout l = {3, {2, 5, N2}, true, true, false, N0};
	static const Extract some = {0, N0, 2, 1}, others = {0, N0, 0, 5};
	uint16_t numbers[N0 * N1 * N2];
	float data[N0 * N1 * N2];
	(void)state;
	for (int i = 0; i < N0 * N1 * N2; i++)
		numbers[i] = (uint16_t)(i * 97);
	for (int keep = 0; keep < 2; keep++) {
		tomos_file *file;
		size_t length;
		write_layout(at("kept.h5"), &l, numbers);
		assert_ok(tomos_file_open(&file, at("kept.h5"), NULL));
		assert_true(file->unpacks && file->grain == 2 && file->row_grain == 5);
		file->keep = keep;
		assert_ok(io_read(file, &some, data));
		free(get_file(at("kept.h5"), &length));
		assert_int_equal(truncate(at("kept.h5"), 8), 0);
		assert_int_equal(truncate(at("kept.h5"), (off_t)length), 0);
		assert_int_equal(io_read(file, &others, data), keep ? TOMOS_OK : TOMOS_BAD_FILE);
		for (int i = 0; i < N0 * 5 * N2 && keep; i++)
			assert_int_equal(
				(int)data[i], numbers[i / (5 * N2) * N1 * N2 + i % (5 * N2)]);
		tomos_file_close(file);
	}
	assert_int_equal(mem_live(), 0);
}

/* More chunks than are looked up beforehand. */
static void many_chunks(void **state)
{
	enum { COUNT_OF = 70 };
	hsize_t sizes[3] = {COUNT_OF, COUNT_OF, 3}, chunk[3] = {1, 1, 3};
	static uint16_t numbers[COUNT_OF * COUNT_OF * 3];
	hid_t file = H5Fcreate(at("many.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
	hid_t space = H5Screate_simple(3, sizes, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
	(void)state;
	for (int i = 0; i < COUNT(numbers); i++)
		numbers[i] = (uint16_t)(i * 31);
	H5Pset_chunk(list, 3, chunk);
	H5Pset_deflate(list, 1);
	hid_t set =
		H5Dcreate2(file, "volume", H5T_STD_U16LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
	assert_true(H5Dwrite(set, H5T_NATIVE_UINT16, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) >= 0);
	H5Dclose(set);
	H5Pclose(list);
	H5Sclose(space);
	H5Fclose(file);
	int64_t got[3];
	float *data;
	assert_ok(read_all(at("many.h5"), got, &data));
	for (int i = 0; i < COUNT(numbers); i++)
		assert_int_equal((int)data[i], numbers[i]);
	free(data);
}

/* Flipped bits of packed chunks with checksums are noticed. */
static void damaged_chunks(void **state)
{
	const Layout l = {3, {2, N1, N2}, true, true, true, N0};
	static uint16_t numbers[N0 * N1 * N2];
	static const unsigned char zlib[2] = {0x78, 0x9c};
	size_t length, flips = 0;
	(void)state;
	for (int i = 0; i < N0 * N1 * N2; i++)
		numbers[i] = (uint16_t)(i * 97);
	write_layout(at("flipped.h5"), &l, numbers);
	unsigned char *whole = get_file(at("flipped.h5"), &length);
	for (size_t i = 0; i + 40 < length; i++) {
		if (memcmp(whole + i, zlib, 2) != 0)
			continue;
		for (size_t k = 3; k < 40; k += 6, flips++) {
			int64_t got[3];
			float *data;
			whole[i + k] ^= 16;
			put_file(at("flipped.h5"), whole, length);
			whole[i + k] ^= 16;
			assert_int_equal(read_all(at("flipped.h5"), got, &data), TOMOS_BAD_FILE);
			assert_says("is damaged");
		}
	}
	assert_true(flips >= 4);
	free(whole);
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) \
	T(bits), T(bytes), T(any_bytes), T(lzf), T(blosc), T(layouts), T(kept_chunks), \
		T(many_chunks), T(damaged_chunks)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
