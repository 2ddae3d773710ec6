/* Any bytes as a compressed chunk: the first two choose the filter and its parameters. */
#include "fuzz_file.h"
#include "io/filters.h"
#if TOMOS_HAS_ZSTD
#include <zstd.h>
#endif
#if TOMOS_HAS_BLOSC
#include <blosc.h>
#endif

static const int ids[] = {1, 2, 3, 32000, 32001, 32004, 32008, 32015};

static void undo(const char *path, const uint8_t *bytes, size_t size)
{
	enum { ROOM = 1 << 16 };
	static unsigned char out[ROOM];
	int64_t live = mem_live();
	(void)path;
	if (size < 4)
		return;
	const Filter filter = {ids[bytes[0] % COUNT(ids)],
		{bytes[1], 0, bytes[1] % 16, bytes[2] * 8U, bytes[0] / 64}};
	/* The input is exactly as long as it is said to be, so that reading beyond it is seen. */
	unsigned char *in = malloc(size - 3);
	require(in != NULL);
	memcpy(in, bytes + 3, size - 3);
	Unpacker unpacker = {.room = 0};
	const Undo work = {&filter, in, (int64_t)size - 3, out, ROOM,
		{bytes[2] * 16, bytes[2] * 16 + 1024}, bytes[0] % 2 == 1, &unpacker};
	int64_t made = filter_known(&filter) ? filter_undo(&work) : UNDO_DAMAGED;
	require(made <= ROOM);
	unpacker_free(&unpacker);
	free(in);
	require(mem_live() == live);
}

/* Packed numbers after the three bytes that choose a filter. */
static void put_packed(const char *directory)
{
	unsigned char numbers[512], seed[2048];
	for (size_t i = 0; i < sizeof numbers; i++)
		numbers[i] = (unsigned char)(i * i / 64);
	memset(seed, 0, 3);
	int64_t made = deflate_pack(6, numbers, sizeof numbers, seed + 3);
	put_bytes(directory, "seed-deflate", seed, (size_t)made + 3);
#if TOMOS_HAS_ZSTD
	seed[0] = 7;
	made = (int64_t)ZSTD_compress(seed + 3, sizeof seed - 3, numbers, sizeof numbers, 3);
	put_bytes(directory, "seed-zstd", seed, (size_t)made + 3);
#endif
#if TOMOS_HAS_BLOSC
	static const char *const names[] = {"blosclz", "lz4", "zlib", "zstd"};
	seed[0] = 4;
	for (int i = 0; i < COUNT(names); i++) {
		char name[64];
		snprintf(name, sizeof name, "seed-blosc-%s", names[i]);
		made = blosc_compress_ctx(5, 1 + i % 2, 2, sizeof numbers, numbers, seed + 3,
			sizeof seed - 3, names[i], 256, 1);
		if (made > 0)
			put_bytes(directory, name, seed, (size_t)made + 3);
	}
#endif
}

static void put_seeds(const char *directory)
{
	put_packed(directory);
	static const unsigned char lzf[] = {3, 0, 0, 2, 'a', 'b', 'c', 32 * 3, 2, 32 * 7, 3, 0};
	static const unsigned char lz4[] = {
		5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 4, 'a', 'b', 'c', 'd'};
	static const unsigned char bits[] = {6 + 128, 2, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 16, 0,
		0, 0, 18, 0xf0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	put_bytes(directory, "seed-lzf", lzf, sizeof lzf);
	put_bytes(directory, "seed-lz4", lz4, sizeof lz4);
	put_bytes(directory, "seed-bitshuffle", bits, sizeof bits);
}

const Target target = {NULL, NULL, 0, undo, put_seeds};
