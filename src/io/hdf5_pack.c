/* Compressed data of HDF5 outputs: chunks are compressed here and written as they are.
 *
 * The library moves chunks while a file is under construction, so an HDF5 file left by a killed
 * process cannot be resumed. Chunks of a resumable output are therefore first written to a separate
 * file, each with a header that identifies it. When all are complete they are moved into a copy of
 * the HDF5 file, so that this step can be repeated, too. The filters, shuffle and deflate, are part
 * of every HDF5 library.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "io/hdf5_parts.h"

/* Header of each chunk in the chunk file, in native byte order. */
typedef struct {
	char mark[8];
	int64_t number, bytes;
	uint64_t crc;
} Head;

static const char mark[8] = "tomos-1";

typedef struct {
	int64_t at, bytes; /* bytes 0: missing */
	uint64_t crc;
} Place;

struct Pack {
	int descriptor; /* of the chunk file; -1: chunks are written directly to the dataset */
	char *path;
	int64_t end;                   /* of the complete chunks in that file */
	int64_t rows, per_slice, size; /* rows and bytes of a chunk, chunks per slice */
	Place *places;
	unsigned char *shuffled, *packed; /* for one chunk, when chunks are read back */
	pthread_mutex_t lock;             /* of `end`, `places` and the chunk file */
};

/* ---- the chunk file -------------------------------------------------------------------------- */

/* Finds the chunks of an earlier process; the last one may be incomplete. */
static tomos_status find_chunks(Pack *p, int64_t count)
{
	int64_t length = lseek(p->descriptor, 0, SEEK_END);
	Head head;
	while (length - p->end >= (int64_t)sizeof head) {
		TRY(flat_read(p->descriptor, p->path, p->end, &head, sizeof head));
		int64_t at = p->end + (int64_t)sizeof head;
		if (memcmp(head.mark, mark, sizeof mark) != 0 || head.number < 0 ||
			head.number >= count || head.bytes < 1 || head.bytes > length - at)
			break;
		p->places[head.number] = (Place){at, head.bytes, head.crc};
		p->end = at + head.bytes;
	}
	return TOMOS_OK;
}

static tomos_status open_chunks(const File *file, Pack *p)
{
	bool continued = file->continued && !file->part;
	TRY(file->part ? mem_printf(&p->path, IO_PART, file->temporary, file->part)
		       : mem_printf(&p->path, "%s" IO_DATA_ENDING, file->temporary));
	int mode = O_RDWR | O_CREAT | O_CLOEXEC | (continued ? 0 : O_TRUNC);
	p->descriptor = open(p->path, mode, 0666);
	if (p->descriptor < 0)
		return fail(TOMOS_IO, "'%s' cannot be created (as '%s'): %s", file->path, p->path,
			strerror(errno));
	TRY(find_chunks(p, file->shape[0] * p->per_slice));
	return flat_cut(p->descriptor, p->path, p->end);
}

tomos_status pack_open(const File *file, Pack **pack)
{
	int64_t row = file->shape[2] * file->element.bytes;
	Pack *p;
	TRY(mem_zeroed(&p, 1, sizeof *p, "the chunks of an HDF5 file"));
	*pack = p;
	p->descriptor = -1;
	pthread_mutex_init(&p->lock, NULL);
	p->rows = (int64_t)hdf5_chunk_rows((hsize_t)file->shape[1], (hsize_t)row);
	p->per_slice = (file->shape[1] + p->rows - 1) / p->rows;
	p->size = p->rows * row;
	TRY(mem_zeroed(&p->places, file->shape[0] * p->per_slice, sizeof *p->places,
		"the chunks of an HDF5 file"));
	TRY(mem_alloc(&p->shuffled, p->size, 1, "a chunk"));
	TRY(mem_alloc(&p->packed, deflate_bound(p->size), 1, "a packed chunk"));
	return file->kept ? open_chunks(file, p) : TOMOS_OK;
}

void pack_close(Pack *p)
{
	if (!p)
		return;
	(void)flat_close(&p->descriptor, p->path);
	mem_free(p->path);
	mem_free(p->places);
	mem_free(p->shuffled);
	mem_free(p->packed);
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

/* ---- chunks of other processes --------------------------------------------------------------- */

static tomos_status append_file(const File *file, Pack *p, const char *name)
{
	enum { STEP = 1 << 20 };
	int from;
	int64_t size;
	char *bytes = NULL;
	TRY(flat_open(&from, &size, name));
	tomos_status status = mem_alloc(&bytes, STEP, 1, "chunks of another process");
	for (int64_t at = 0; at < size && status == TOMOS_OK; at += STEP) {
		int64_t count = min64(STEP, size - at);
		status = flat_read(from, name, at, bytes, count);
		if (status == TOMOS_OK)
			status = flat_write(p->descriptor, p->path, p->end + at, bytes, count);
	}
	mem_free(bytes);
	(void)flat_close(&from, name);
	TRY(status);
	TRY(find_chunks(p, file->shape[0] * p->per_slice));
	return flat_cut(p->descriptor, p->path, p->end);
}

static tomos_status merge_part(const File *file, Pack *p, const char *name)
{
	TRY(append_file(file, p, name));
	if (unlink(name) == 0)
		return TOMOS_OK;
	return fail(TOMOS_IO, "'%s' cannot be removed: %s", name, strerror(errno));
}

/* Part files are removed from the last to the first, so that after an interruption those that are
 * left are still numbered from 1. Chunks that were appended before it are appended again. */
tomos_status pack_merge(const File *file)
{
	const Hdf5 *own = file->own;
	char *name;
	int parts = 0;
	tomos_status status = TOMOS_OK;
	for (bool there = own->pack->descriptor >= 0; there; parts += there) {
		TRY(mem_printf(&name, IO_PART, file->temporary, parts + 1));
		there = access(name, F_OK) == 0;
		mem_free(name);
	}
	for (; parts > 0 && status == TOMOS_OK; parts--) {
		TRY(mem_printf(&name, IO_PART, file->temporary, parts));
		status = merge_part(file, own->pack, name);
		mem_free(name);
	}
	return status;
}

/* ---- compression ----------------------------------------------------------------------------- */

/* Shuffle filter: byte k of all numbers, for every k; bytes beyond the edge of the array are 0. */
static void shuffle(
	const Pack *p, const unsigned char *from, int64_t bytes, int size, unsigned char *shuffled)
{
	int64_t all = p->size / size, count = bytes / size;
	for (int k = 0; k < size; k++) {
		unsigned char *to = shuffled + k * all;
		for (int64_t i = 0; i < count; i++)
			to[i] = from[i * size + k];
		memset(to + count, 0, (size_t)(all - count));
	}
}

static tomos_status put_chunk(const File *file, int64_t number, const void *bytes, int64_t count)
{
	const Hdf5 *own = file->own;
	const Pack *p = own->pack;
	const hsize_t at[3] = {
		(hsize_t)(number / p->per_slice), (hsize_t)(number % p->per_slice * p->rows), 0};
	bool put = H5Dwrite_chunk(own->dataset, H5P_DEFAULT, 0, at, (size_t)count, bytes) >= 0;
	put &= hdf5_landed(hdf5_disk_failure(own->file));
	char what[64];
	snprintf(what, sizeof what, "index %lld cannot be written", (long long)at[0]);
	return put ? TOMOS_OK : hdf5_reject(TOMOS_IO, file->path, file->dataset, what);
}

static tomos_status keep_chunk(
	const File *file, Pack *p, int64_t number, const void *packed, int64_t bytes)
{
	Head head = {.number = number, .bytes = bytes};
	int64_t at = p->end + (int64_t)sizeof head;
	memcpy(head.mark, mark, sizeof mark);
	head.crc = checksum_add(0, packed, bytes);
	TRY(flat_write(p->descriptor, file->path, p->end, &head, sizeof head));
	TRY(flat_write(p->descriptor, file->path, at, packed, bytes));
	p->places[number] = (Place){at, bytes, head.crc};
	p->end = at + bytes;
	return TOMOS_OK;
}

/* Chunks that are compressed at the same time, each with memory for the shuffled and the packed
 * bytes, and then written in their order. */
typedef struct {
	const File *file;
	const Pack *pack;
	const unsigned char *stored; /* of the first slice of the call */
	int64_t first, done;         /* the first slice; chunks written before */
	int64_t room;                /* bytes per chunk in `memory` */
	unsigned char *memory;
	int64_t *bytes; /* of each packed chunk */
} Packing;

static tomos_status pack_chunk(void *user, int64_t i)
{
	const Packing *b = user;
	const File *file = b->file;
	const Pack *p = b->pack;
	int64_t number = b->done + i, row = p->size / p->rows;
	int64_t first = number % p->per_slice * p->rows;
	const unsigned char *from =
		b->stored + (number / p->per_slice * file->shape[1] + first) * row;
	unsigned char *shuffled = b->memory + i * b->room;
	shuffle(p, from, min64(p->rows, file->shape[1] - first) * row, file->element.bytes,
		shuffled);
	b->bytes[i] = deflate_pack(file->compress, shuffled, p->size, shuffled + p->size);
	if (b->bytes[i] < 0)
		return fail(TOMOS_NO_MEMORY, "no memory to compress '%s'", file->path);
	return TOMOS_OK;
}

static tomos_status put_packed(const Packing *b, int64_t i)
{
	const Hdf5 *own = b->file->own;
	Pack *p = own->pack;
	const unsigned char *packed = b->memory + i * b->room + p->size;
	int64_t number = b->first * p->per_slice + b->done + i;
	tomos_status status;
	if (p->descriptor >= 0) {
		pthread_mutex_lock(&p->lock);
		status = keep_chunk(b->file, p, number, packed, b->bytes[i]);
		pthread_mutex_unlock(&p->lock);
		return status;
	}
	Quiet quiet = hdf5_enter();
	return hdf5_leave(quiet, put_chunk(b->file, number, packed, b->bytes[i]));
}

static tomos_status pack_all(Packing *b, int64_t count, int64_t most, int threads)
{
	for (; b->done < count; b->done += most) {
		int64_t now = min64(most, count - b->done);
		TRY(parallel_each(now, threads, pack_chunk, b, "writing"));
		for (int64_t i = 0; i < now; i++)
			TRY(put_packed(b, i));
	}
	return TOMOS_OK;
}

tomos_status pack_write(
	const File *file, int64_t first, int64_t count, int threads, const void *stored)
{
	const Hdf5 *own = file->own;
	const Pack *p = own->pack;
	int64_t most = min64(count * p->per_slice, max64(1, threads));
	Packing b = {.file = file, .pack = p, .stored = stored, .first = first};
	b.room = p->size + deflate_bound(p->size);
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&b.memory, most, (size_t)b.room, "chunks to be packed"));
	TRY_OR_DONE(mem_alloc(&b.bytes, most, sizeof *b.bytes, "sizes of chunks"));
	TRY_OR_DONE(pack_all(&b, count * p->per_slice, most, threads));
done:
	mem_free(b.bytes);
	mem_free(b.memory);
	return status;
}

/* ---- all chunks into the HDF5 file ----------------------------------------------------------- */

/* The compressed bytes of a chunk, as they were written. */
static tomos_status read_chunk(Pack *p, int64_t number)
{
	const Place *place = &p->places[number];
	if (place->bytes < 1 || place->bytes > deflate_bound(p->size))
		return fail(TOMOS_BAD_FILE, "'%s' has lost index %lld; run without resume", p->path,
			(long long)(number / p->per_slice));
	TRY(flat_read(p->descriptor, p->path, place->at, p->packed, place->bytes));
	if (checksum_add(0, p->packed, place->bytes) != place->crc)
		return fail(TOMOS_BAD_FILE, "'%s' is damaged at index %lld; run without resume",
			p->path, (long long)(number / p->per_slice));
	return TOMOS_OK;
}

static tomos_status copy_chunk(const File *file, Pack *p, int64_t number)
{
	TRY(read_chunk(p, number));
	return put_chunk(file, number, p->packed, p->places[number].bytes);
}

static tomos_status unpack_chunk(Pack *p, int64_t number)
{
	TRY(read_chunk(p, number));
	Unpacker u = {.room = 0};
	int64_t made = deflate_unpack(&u, p->packed, p->places[number].bytes, p->shuffled, p->size);
	unpacker_free(&u);
	if (made != p->size)
		return fail(TOMOS_BAD_FILE, "'%s' is damaged at index %lld", p->path,
			(long long)(number / p->per_slice));
	return TOMOS_OK;
}

tomos_status pack_read_back(const File *file, int64_t index, void *stored)
{
	const Hdf5 *own = file->own;
	Pack *p = own->pack;
	int size = file->element.bytes;
	int64_t all = p->size / size, slice = file->shape[1] * file->shape[2];
	for (int64_t c = 0; c < p->per_slice; c++) {
		int64_t first = c * all, count = min64(all, slice - first);
		TRY(unpack_chunk(p, index * p->per_slice + c));
		unsigned char *to = (unsigned char *)stored + first * size;
		for (int64_t i = 0; i < count * size; i++)
			to[i] = p->shuffled[i % size * all + i / size];
	}
	return TOMOS_OK;
}

tomos_status pack_gather(const File *file)
{
	const Hdf5 *own = file->own;
	for (int64_t i = 0; i < file->shape[0] * own->pack->per_slice; i++)
		TRY(copy_chunk(file, own->pack, i));
	return TOMOS_OK;
}

bool pack_waits(const Pack *p)
{
	return p && p->descriptor >= 0;
}
