/* gzip streams: unpacked to a file without a name, and packed by several threads.
 *
 * Packing splits the bytes into blocks that are deflated independently, each ended by an empty
 * stored block so that they join at a byte, as pigz does. The result is one member: some readers
 * stop after the first of several.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "io/io.h"

enum {
	PIECE = 1 << 18, /* bytes read or written at a time */
	BLOCK = 1 << 20, /* bytes deflated by one task */
	LEVEL = 4,       /* noise of float volumes gains nothing by more */
	RAW = -15,       /* window of a stream without header */
	GZIP = 15 + 16,  /* and of one with gzip's */
};

/* ---- unpacking ------------------------------------------------------------------------------- */

typedef struct {
	z_stream stream;
	int from, to;
	const char *path;
	int64_t at, end;   /* packed bytes not yet read */
	int64_t done, all; /* bytes written, and to be written */
	unsigned char in[PIECE], out[PIECE];
} Unpacking;

static tomos_status damaged(const Unpacking *u)
{
	return fail(TOMOS_BAD_FILE,
		"'%s': the compressed data are damaged or end too early: %lld of %lld bytes",
		u->path, (long long)u->done, (long long)u->all);
}

static tomos_status refill(Unpacking *u)
{
	if (u->stream.avail_in > 0)
		return TOMOS_OK;
	int64_t bytes = min64(PIECE, u->end - u->at);
	if (bytes < 1)
		return damaged(u);
	TRY(flat_read(u->from, u->path, u->at, u->in, bytes));
	u->at += bytes;
	u->stream.next_in = u->in;
	u->stream.avail_in = (uInt)bytes;
	return TOMOS_OK;
}

static tomos_status unpack_some(Unpacking *u)
{
	TRY(refill(u));
	u->stream.next_out = u->out;
	u->stream.avail_out = (uInt)min64(PIECE, u->all - u->done);
	int result = inflate(&u->stream, Z_NO_FLUSH);
	int64_t got = u->stream.next_out - u->out;
	TRY(flat_write(u->to, u->path, u->done, u->out, got));
	u->done += got;
	if (result == Z_STREAM_END && u->done < u->all) /* the next member */
		result = inflateReset(&u->stream);
	if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR)
		return TOMOS_OK;
	return damaged(u);
}

tomos_status gzip_unpack(
	int from, const char *path, int64_t at, int64_t end, int64_t bytes, int *unpacked)
{
	Unpacking *u;
	if (bytes / LARGEST_RATIO > end - at)
		return fail(TOMOS_BAD_FILE, "'%s': %lld compressed bytes are too few for %lld",
			path, (long long)(end - at), (long long)bytes);
	TRY(mem_zeroed(&u, 1, sizeof *u, "buffers for compressed data"));
	u->from = from;
	u->path = path;
	u->at = at;
	u->end = end;
	u->all = bytes;
	tomos_status status = flat_unnamed(unpacked, path);
	if (status == TOMOS_OK && inflateInit2(&u->stream, GZIP) != Z_OK)
		status = fail(TOMOS_NO_MEMORY, "'%s': no memory to unpack it", path);
	else if (status == TOMOS_OK) {
		u->to = *unpacked;
		while (u->done < bytes && status == TOMOS_OK)
			status = unpack_some(u);
		inflateEnd(&u->stream);
	}
	mem_free(u);
	return status;
}

size_t gzip_head(const unsigned char *head, size_t length, unsigned char *out, size_t room)
{
	z_stream stream = {.next_in = (unsigned char *)head,
		.avail_in = (uInt)length,
		.next_out = out,
		.avail_out = (uInt)room};
	if (length < 2 || head[0] != 0x1f || head[1] != 0x8b || inflateInit2(&stream, GZIP) != Z_OK)
		return 0;
	(void)inflate(&stream, Z_SYNC_FLUSH);
	inflateEnd(&stream);
	return room - stream.avail_out;
}

/* ---- packing --------------------------------------------------------------------------------- */

typedef struct {
	unsigned char *in, *out;
	int64_t bytes, packed;
	uLong sum;
	bool last;
	const char *path;
} Block;

/* Bytes that a block may need at most, with the empty block at its end. */
static int64_t block_room(void)
{
	return (int64_t)compressBound(BLOCK) + 64;
}

static tomos_status pack_block(void *user, int64_t i)
{
	Block *b = (Block *)user + i;
	z_stream stream = {.next_in = b->in,
		.avail_in = (uInt)b->bytes,
		.next_out = b->out,
		.avail_out = (uInt)block_room()};
	if (deflateInit2(&stream, LEVEL, Z_DEFLATED, RAW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return fail(TOMOS_NO_MEMORY, "'%s': no memory to compress it", b->path);
	int result = deflate(&stream, b->last ? Z_FINISH : Z_SYNC_FLUSH);
	b->packed = stream.next_out - b->out;
	b->sum = crc32(crc32(0, NULL, 0), b->in, (uInt)b->bytes);
	deflateEnd(&stream);
	if (result == (b->last ? Z_STREAM_END : Z_OK) && stream.avail_in == 0)
		return TOMOS_OK;
	return fail(TOMOS_NO_MEMORY, "'%s': zlib cannot compress a block (%d)", b->path, result);
}

typedef struct {
	int from, to;
	const char *path;
	int64_t size, at, out;
	uLong sum;
} Packing;

/* Reads up to `count` blocks, deflates them and appends them in their order. */
static tomos_status pack_batch(Packing *p, Block *blocks, int64_t count)
{
	int64_t used = 0;
	for (; used < count && p->at < p->size; used++) {
		Block *b = &blocks[used];
		b->bytes = min64(BLOCK, p->size - p->at);
		b->last = p->at + b->bytes == p->size;
		b->path = p->path;
		TRY(flat_read(p->from, p->path, p->at, b->in, b->bytes));
		p->at += b->bytes;
	}
	TRY(parallel_each(used, tomos_threads(), pack_block, blocks, "compressing"));
	for (int64_t i = 0; i < used; i++) {
		TRY(flat_write(p->to, p->path, p->out, blocks[i].out, blocks[i].packed));
		p->out += blocks[i].packed;
		p->sum = crc32_combine(p->sum, blocks[i].sum, blocks[i].bytes);
	}
	return TOMOS_OK;
}

static void put_little(unsigned char *to, uint32_t number)
{
	for (int i = 0; i < 4; i++)
		to[i] = (unsigned char)(number >> 8 * i);
}

static tomos_status pack_all(Packing *p, Block *blocks, int64_t count)
{
	static const unsigned char header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
	unsigned char trailer[8];
	TRY(flat_write(p->to, p->path, 0, header, sizeof header));
	p->out = sizeof header;
	p->sum = crc32(0, NULL, 0);
	while (p->at < p->size)
		TRY(pack_batch(p, blocks, count));
	put_little(trailer, (uint32_t)p->sum);
	put_little(trailer + 4, (uint32_t)p->size);
	return flat_write(p->to, p->path, p->out, trailer, sizeof trailer);
}

static tomos_status gzip_pack(int from, int to, const char *path)
{
	struct stat info;
	int64_t count = 2 * (int64_t)tomos_threads();
	unsigned char *memory = NULL;
	Block *blocks = NULL;
	tomos_status status;
	if (fstat(from, &info) != 0 || info.st_size < 1)
		return fail(TOMOS_IO, "'%s': what is to be compressed cannot be read", path);
	Packing p = {.from = from, .to = to, .path = path, .size = info.st_size};
	count = min64(count, (p.size + BLOCK - 1) / BLOCK);
	TRY_OR_DONE(mem_zeroed(&blocks, count, sizeof *blocks, "blocks to compress"));
	TRY_OR_DONE(mem_alloc(&memory, count * (BLOCK + block_room()), 1, "blocks to compress"));
	for (int64_t i = 0; i < count; i++) {
		blocks[i].in = memory + i * (BLOCK + block_room());
		blocks[i].out = blocks[i].in + BLOCK;
	}
	status = pack_all(&p, blocks, count);
done:
	mem_free(memory);
	mem_free(blocks);
	return status;
}

static tomos_status pack_to(const File *file, const char *whole)
{
	int64_t size;
	int from = -1, to = -1;
	(void)unlink(whole);
	tomos_status status = flat_open(&from, &size, file->temporary);
	if (status == TOMOS_OK)
		status = flat_create(&to, whole, file->path);
	if (status == TOMOS_OK)
		status = gzip_pack(from, to, file->path);
	(void)flat_close(&from, file->path);
	tomos_status closed = flat_close(&to, file->path);
	if (status != TOMOS_OK || closed != TOMOS_OK)
		(void)unlink(whole);
	return status != TOMOS_OK ? status : closed;
}

/* The packed file takes the place of the one under construction. A resumable one stays until the
 * run removes it, in case the process is killed before the commit. */
tomos_status gzip_finish(File *file)
{
	char *whole;
	TRY(mem_printf(&whole, "%s" IO_WHOLE_ENDING, file->temporary));
	tomos_status status = pack_to(file, whole);
	if (status != TOMOS_OK) {
		mem_free(whole);
		return status;
	}
	if (!file->kept)
		file_discard(file->temporary);
	mem_free(file->temporary);
	file->temporary = whole;
	return TOMOS_OK;
}
