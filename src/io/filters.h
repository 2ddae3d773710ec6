/* Filters of compressed chunks, undone without the HDF5 library, so that several threads can do
 * it. */
#ifndef TOMOS_IO_FILTERS_H
#define TOMOS_IO_FILTERS_H

#include "base/base.h"

/* A filter by its number in the registry of HDF5 filters, with its parameters. */
enum { FILTER_VALUES = 8 };
typedef struct {
	int id;
	unsigned values[FILTER_VALUES];
} Filter;

/* What a thread keeps from chunk to chunk, all zero at first: contexts of decompressors, whose
 * creation takes longer than a small chunk, and memory for blocks. */
typedef struct {
	void *deflate, *zstd;
	unsigned char *block;
	int64_t room;
} Unpacker;
void unpacker_free(Unpacker *u);

/* What a filter is undone with: `bytes` bytes at `in`, to at most `room` bytes at `out`. A filter
 * that works in blocks may leave out those outside [need[0], need[1]) of the output. With `far` the
 * output is memory that is not read soon, so filters may write past the caches; far_end makes sure
 * that other threads see it. */
typedef struct {
	const Filter *filter;
	const unsigned char *in;
	int64_t bytes;
	unsigned char *out;
	int64_t room;
	int64_t need[2];
	bool far;
	Unpacker *unpacker;
} Undo;

/* Whether this build can undo it. */
bool filter_known(const Filter *filter);
/* Whether it leaves out blocks that are not needed. */
bool filter_skips(const Filter *filter);
/* The number of bytes made, or what is wrong. */
enum { UNDO_DAMAGED = -1, UNDO_NO_MEMORY = -2 };
int64_t filter_undo(const Undo *undo);
void far_end(void);

/* ---- parts ----------------------------------------------------------------------------------- */

/* Numbers in the formats of filters have their high byte first. */
int64_t filter_number(const unsigned char *bytes, int count);
/* Deflate, levels 1 to 9; `out` of deflate_pack has space for deflate_bound bytes. */
int64_t deflate_bound(int64_t bytes);
int64_t deflate_pack(int level, const unsigned char *in, int64_t bytes, unsigned char *out);
int64_t deflate_unpack(
	Unpacker *u, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room);
/* Deflate with a gzip header. */
int64_t gzip_undo(
	Unpacker *u, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room);
/* Zstd; `out` of zstd_pack has space for zstd_bound bytes. */
int64_t zstd_bound(int64_t bytes);
int64_t zstd_pack(
	int level, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room);
/* As filter_undo; always damaged in builds without LZ4 or Zstd. */
int64_t lz4_unpack(const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room);
int64_t zstd_unpack(
	Unpacker *u, const unsigned char *in, int64_t bytes, unsigned char *out, int64_t room);
/* Memory for blocks until the next call; NULL: none. */
unsigned char *unpacker_block(Unpacker *u, int64_t bytes);
/* Bytes as they are, and byte k of all numbers for every k back to numbers of `size` bytes; `far`
 * as above. */
void bytes_copy(const unsigned char *in, int64_t count, bool far, unsigned char *out);
void bytes_unshuffle(
	const unsigned char *in, int64_t count, int size, bool far, unsigned char *out);
/* Bit k of all numbers for every k, back to numbers; `count` is a multiple of 8, and `planes` has
 * the size of the numbers. */
void bits_unshuffle(const unsigned char *in, int64_t count, int size, bool far,
	unsigned char *planes, unsigned char *out);
/* Bits shuffled and packed with LZ4, Zstd or not at all. */
int64_t undo_bitshuffle(const Undo *w);
bool bitshuffle_known(const Filter *filter);
/* Shuffled and packed in blocks, by Blosc 1. */
int64_t undo_blosc(const Undo *w);

#endif
