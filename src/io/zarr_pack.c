/* Layers of chunks that are packed when all their slices are there; and shards of chunks that are
 * not packed, whose checksums and index are written at the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "io/crc32c.h"
#include "io/zarr_parts.h"

enum { SUM_BYTES = 4, ENTRY_BYTES = 16, MOST_PACKED = 64 };

static void put_word(unsigned char *to, uint64_t word, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (unsigned char)(word >> 8 * i);
}

/* The entries of a shard, with their checksum; `bytes` has space for all. */
static int64_t encode_index(const ShardEntry *entries, int64_t count, unsigned char *bytes)
{
	for (int64_t i = 0; i < count; i++) {
		put_word(bytes + ENTRY_BYTES * i, entries[i].offset, 8);
		put_word(bytes + ENTRY_BYTES * i + 8, entries[i].bytes, 8);
	}
	put_word(bytes + ENTRY_BYTES * count, crc32c(bytes, ENTRY_BYTES * count), SUM_BYTES);
	return ENTRY_BYTES * count + SUM_BYTES;
}

static tomos_status write_index(
	int descriptor, const char *path, int64_t at, const ShardEntry *entries, int64_t count)
{
	unsigned char *bytes;
	TRY(mem_alloc(&bytes, ENTRY_BYTES * count + SUM_BYTES, 1, "the index of a shard"));
	int64_t length = encode_index(entries, count, bytes);
	tomos_status status = flat_write(descriptor, path, at, bytes, length);
	mem_free(bytes);
	return status == TOMOS_OK ? flat_cut(descriptor, path, at + length) : status;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Chunks of a layer that are packed at the same time. */
typedef struct {
	const File *file;
	const ZarrLevel *level;
	int stage;
	int64_t layer, room;         /* room: bytes per chunk in `memory` */
	int64_t chunks[MOST_PACKED]; /* their numbers in the layer */
	int64_t bytes[MOST_PACKED];
	unsigned char *memory;
} Packing;

/* Reads chunk i from the stage, and packs it to the second part of its memory. */
static tomos_status pack_chunk(void *user, int64_t i)
{
	Packing *p = user;
	const ZarrArray *a = &p->level->array;
	int64_t raw = zarr_inner_bytes(a);
	unsigned char *from = p->memory + i * p->room, *to = from + raw;
	int64_t layer_bytes = p->level->per[0] * p->level->per[1] * raw;
	int64_t at = p->chunks[i] * raw, size = lseek(p->stage, 0, SEEK_END);
	memset(from, 0, (size_t)raw); /* a layer that is not whole may end before its chunk does */
	TRY(flat_read(p->stage, p->file->temporary, at, from,
		max64(0, min64(raw, min64(size, layer_bytes) - at))));
	if (a->codecs.list[0] == CODEC_ZSTD && a->codecs.count > 0) {
		p->bytes[i] = zstd_pack(p->file->compress, from, raw, to, p->room - raw);
		if (p->bytes[i] < 0)
			return fail(TOMOS_NO_MEMORY, "no memory to compress '%s'", p->file->path);
	} else {
		memcpy(to, from, (size_t)raw);
		p->bytes[i] = raw;
	}
	if (a->sharded) {
		put_word(to + p->bytes[i], crc32c(to, p->bytes[i]), SUM_BYTES);
		p->bytes[i] += SUM_BYTES;
	}
	return TOMOS_OK;
}

static const unsigned char *packed_chunk(const Packing *p, int64_t i)
{
	return p->memory + i * p->room + zarr_inner_bytes(&p->level->array);
}

/* ---- shards of a layer ----------------------------------------------------------------------- */

/* The chunks of shard (sy, sx), which are in the array, in the order of its index. */
static void shard_chunks(const ZarrLevel *l, const int64_t shard[2], int64_t *numbers)
{
	const ZarrArray *a = &l->array;
	int64_t ny = a->chunk[1] / a->inner[1], nx = a->chunk[2] / a->inner[2];
	for (int64_t i = 0; i < ny * nx; i++) {
		int64_t cy = shard[0] * ny + i / nx, cx = shard[1] * nx + i % nx;
		numbers[i] = cy < l->per[0] && cx < l->per[1] ? cy * l->per[1] + cx : -1;
	}
}

static tomos_status write_packed(Packing *p, int descriptor, const int64_t *numbers, int64_t count,
	int threads, ShardEntry *entries)
{
	int64_t end = 0, most = min64(MOST_PACKED, 2 * (int64_t)threads);
	for (int64_t done = 0; done < count;) {
		int64_t now = 0, places[MOST_PACKED];
		for (; done < count && now < most; done++) {
			entries[done] = (ShardEntry){UINT64_MAX, UINT64_MAX};
			places[now] = done;
			p->chunks[now] = numbers[done];
			now += numbers[done] >= 0;
		}
		TRY(parallel_each(now, threads, pack_chunk, p, "writing"));
		for (int64_t i = 0; i < now; i++) {
			TRY(flat_write(
				descriptor, p->file->path, end, packed_chunk(p, i), p->bytes[i]));
			entries[places[i]] = (ShardEntry){(uint64_t)end, (uint64_t)p->bytes[i]};
			end += p->bytes[i];
		}
	}
	return write_index(descriptor, p->file->path, end, entries, count);
}

static tomos_status pack_shard(Packing *p, const int64_t shard[2], int threads)
{
	int64_t count = zarr_index_count(&p->level->array), *numbers = NULL;
	const int64_t at[3] = {p->layer, shard[0], shard[1]};
	ShardEntry *entries = NULL;
	int descriptor = -1;
	char *name = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&numbers, count, sizeof *numbers, "the chunks of a shard"));
	TRY_OR_DONE(mem_alloc(&entries, count, sizeof *entries, "the chunks of a shard"));
	TRY_OR_DONE(zarr_chunk_path(&p->level->array, at, &name));
	TRY_OR_DONE(zarr_open_making(&descriptor, name, p->file->path));
	shard_chunks(p->level, shard, numbers);
	TRY_OR_DONE(write_packed(p, descriptor, numbers, count, threads, entries));
	TRY_OR_DONE(flat_close(&descriptor, p->file->path));
done:
	(void)flat_close(&descriptor, p->file->path);
	mem_free(name);
	mem_free(entries);
	mem_free(numbers);
	return status;
}

static tomos_status pack_shards(Packing *p, int threads)
{
	const ZarrArray *a = &p->level->array;
	int64_t ny = parts_of(a->shape[1], a->chunk[1]), nx = parts_of(a->shape[2], a->chunk[2]);
	for (int64_t i = 0; i < ny * nx; i++)
		TRY(pack_shard(p, (const int64_t[2]){i / nx, i % nx}, threads));
	return TOMOS_OK;
}

/* ---- chunks as files ------------------------------------------------------------------------- */

static tomos_status write_file(const Packing *p, int64_t i)
{
	int64_t nx = p->level->per[1];
	const int64_t at[3] = {p->layer, p->chunks[i] / nx, p->chunks[i] % nx};
	int descriptor;
	char *name;
	TRY(zarr_chunk_path(&p->level->array, at, &name));
	tomos_status status = zarr_open_making(&descriptor, name, p->file->path);
	mem_free(name);
	TRY(status);
	status = flat_write(descriptor, p->file->path, 0, packed_chunk(p, i), p->bytes[i]);
	if (status == TOMOS_OK)
		status = flat_cut(descriptor, p->file->path, p->bytes[i]);
	tomos_status closed = flat_close(&descriptor, p->file->path);
	return status != TOMOS_OK ? status : closed;
}

static tomos_status pack_to_file(void *user, int64_t i)
{
	TRY(pack_chunk(user, i));
	return write_file(user, i);
}

static tomos_status pack_files(Packing *p, int threads)
{
	int64_t count = p->level->per[0] * p->level->per[1];
	int64_t most = min64(MOST_PACKED, 2 * (int64_t)threads);
	for (int64_t done = 0; done < count; done += most) {
		int64_t now = min64(most, count - done);
		for (int64_t i = 0; i < now; i++)
			p->chunks[i] = done + i;
		TRY(parallel_each(now, threads, pack_to_file, p, "writing"));
	}
	return TOMOS_OK;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static tomos_status pack_stage(Packing *p, const char *name, int threads)
{
	const ZarrArray *a = &p->level->array;
	int64_t raw = zarr_inner_bytes(a), most = min64(MOST_PACKED, 2 * (int64_t)threads), size;
	p->room = raw + zstd_bound(raw) + SUM_BYTES;
	TRY(flat_open(&p->stage, &size, name));
	tomos_status status = mem_alloc(&p->memory, most, (size_t)p->room, "chunks to be packed");
	if (status == TOMOS_OK)
		status = a->sharded ? pack_shards(p, threads) : pack_files(p, threads);
	mem_free(p->memory);
	(void)flat_close(&p->stage, name);
	return status;
}

tomos_status layer_pack(File *file, int level, int64_t layer, int threads)
{
	const Zarr *own = file->own;
	Packing p = {
		.file = file, .level = &own->writer->levels[level], .stage = -1, .layer = layer};
	char *name;
	TRY(stage_path(file, level, layer, &name));
	tomos_status status = pack_stage(&p, name, threads < 1 ? 1 : threads);
	if (status == TOMOS_OK && unlink(name) != 0)
		status = fail(TOMOS_IO, "'%s' cannot be removed: %s", name, strerror(errno));
	mem_free(name);
	return status;
}

/* ---- unpacking ------------------------------------------------------------------------------- */

/* A layer on its way back to a stage. */
typedef struct {
	const File *file;
	const ZarrLevel *level;
	int64_t layer;
	int stage;
} Restoring;

Samples chunk_samples(const ZarrLevel *l, int64_t layer, int64_t number)
{
	const ZarrArray *a = &l->array;
	const int64_t at[3] = {layer, number / l->per[1], number % l->per[1]};
	Samples s = {.step = {1, 1, 1}};
	for (int i = 0; i < 3; i++) {
		s.first[i] = at[i] * a->inner[i];
		s.count[i] = min64(a->inner[i], a->shape[i] - s.first[i]);
	}
	return s;
}

/* A chunk back to the stage. A damaged one is left out: all its slices will be written again. */
static tomos_status restore_chunk(void *user, int64_t number)
{
	const Restoring *r = user;
	const ZarrArray *a = &r->level->array;
	const Samples s = chunk_samples(r->level, r->layer, number);
	int64_t size = a->element.bytes, row = s.count[2] * size, line = a->inner[2] * size;
	int64_t start = number * zarr_inner_bytes(a);
	char *chunk;
	TRY(mem_alloc(&chunk, s.count[0] * s.count[1], (size_t)row, "a chunk"));
	tomos_status status = zarr_read_samples(a, &s, 1, chunk);
	bool whole = status == TOMOS_OK;
	if (status == TOMOS_BAD_FILE)
		status = TOMOS_OK;
	for (int64_t j = 0; j < s.count[0] * s.count[1] && whole && status == TOMOS_OK; j++) {
		int64_t at = start + j / s.count[1] * r->level->piece + j % s.count[1] * line;
		status = flat_write(r->stage, r->file->temporary, at, chunk + j * row, row);
	}
	mem_free(chunk);
	return status;
}

static tomos_status restore_chunks(Restoring *r, char *name)
{
	int64_t count = r->level->per[0] * r->level->per[1];
	(void)unlink(name); /* of a process that did not come to its end */
	TRY(zarr_open_making(&r->stage, name, r->file->path));
	tomos_status status = parallel_each(count, tomos_threads(), restore_chunk, r, "writing");
	if (status == TOMOS_OK)
		status = flat_cut(r->stage, name, count * zarr_inner_bytes(&r->level->array));
	tomos_status closed = flat_close(&r->stage, name);
	return status != TOMOS_OK ? status : closed;
}

/* Under a name of this process until it is complete. Another process may have been faster: then its
 * file is the stage, and has slices already. */
static tomos_status restore(const File *file, int level, int64_t layer, const char *name)
{
	const Zarr *own = file->own;
	Restoring r = {file, &own->writer->levels[level], layer, -1};
	char *mine;
	TRY(mem_printf(&mine, "%s.whole.%d", name, file->part));
	tomos_status status = restore_chunks(&r, mine);
	if (status == TOMOS_OK && file_rename_new(mine, name) != 0 && errno != EEXIST)
		status = fail(TOMOS_IO, "'%s' cannot be renamed: %s", mine, strerror(errno));
	(void)unlink(mine);
	mem_free(mine);
	return status;
}

tomos_status layer_unpack(const File *file, int level, int64_t layer)
{
	const Zarr *own = file->own;
	const int64_t at[3] = {layer, 0, 0};
	char *name, *chunk = NULL;
	TRY(stage_path(file, level, layer, &name));
	tomos_status status = zarr_chunk_path(&own->writer->levels[level].array, at, &chunk);
	if (status == TOMOS_OK && access(name, F_OK) != 0 && access(chunk, F_OK) == 0)
		status = restore(file, level, layer, name);
	mem_free(chunk);
	mem_free(name);
	return status;
}

/* ---- shards that are not packed -------------------------------------------------------------- */

typedef struct {
	const File *file;
	const ZarrLevel *level;
	uint32_t shift, nothing; /* of a piece: to join checksums, and the checksum of zeros */
	int64_t n[3];            /* shards along each axis */
} Completion;

/* The checksum of a chunk from those of its pieces; beyond the array they are 0. */
static uint32_t chunk_sum(const Completion *c, int64_t layer, int64_t chunk)
{
	const ZarrLevel *l = c->level;
	int64_t depth = l->array.inner[0], per = l->per[0] * l->per[1];
	uint32_t sum = 0;
	for (int64_t i = 0; i < depth; i++) {
		int64_t slice = layer * depth + i;
		uint32_t next =
			slice < l->array.shape[0] ? l->sums[slice * per + chunk] : c->nothing;
		sum = i ? crc32c_join(c->shift, sum, next) : next;
	}
	return sum;
}

static tomos_status complete_chunks(
	const Completion *c, int descriptor, const int64_t shard[3], ShardEntry *entries)
{
	const ZarrLevel *l = c->level;
	const ZarrArray *a = &l->array;
	int64_t n[3], raw = zarr_inner_bytes(a), layers = parts_of(a->shape[0], a->inner[0]);
	for (int i = 0; i < 3; i++)
		n[i] = a->chunk[i] / a->inner[i];
	for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
		int64_t z = shard[0] * n[0] + i / (n[1] * n[2]);
		int64_t y = shard[1] * n[1] + i / n[2] % n[1], x = shard[2] * n[2] + i % n[2];
		unsigned char sum[SUM_BYTES];
		entries[i] = (ShardEntry){UINT64_MAX, UINT64_MAX};
		if (z >= layers || y >= l->per[0] || x >= l->per[1])
			continue;
		put_word(sum, chunk_sum(c, z, y * l->per[1] + x), SUM_BYTES);
		TRY(flat_write(descriptor, c->file->path, i * l->slot + raw, sum, SUM_BYTES));
		entries[i] = (ShardEntry){(uint64_t)(i * l->slot), (uint64_t)(raw + SUM_BYTES)};
	}
	return TOMOS_OK;
}

static tomos_status complete_shard(void *user, int64_t i)
{
	const Completion *c = user;
	const int64_t at[3] = {i / (c->n[1] * c->n[2]), i / c->n[2] % c->n[1], i % c->n[2]};
	int64_t count = zarr_index_count(&c->level->array);
	ShardEntry *entries = NULL;
	int descriptor = -1;
	char *name;
	tomos_status status;
	TRY(zarr_chunk_path(&c->level->array, at, &name));
	TRY_OR_DONE(zarr_open_making(&descriptor, name, c->file->path));
	TRY_OR_DONE(mem_alloc(&entries, count, sizeof *entries, "the chunks of a shard"));
	TRY_OR_DONE(complete_chunks(c, descriptor, at, entries));
	TRY_OR_DONE(write_index(descriptor, c->file->path, count * c->level->slot, entries, count));
	TRY_OR_DONE(flat_close(&descriptor, c->file->path));
done:
	(void)flat_close(&descriptor, c->file->path);
	mem_free(entries);
	mem_free(name);
	return status;
}

static tomos_status zero_checksum(int64_t bytes, uint32_t *sum)
{
	unsigned char *zeros;
	TRY(mem_zeroed(&zeros, bytes, 1, "a piece of a slice"));
	*sum = crc32c(zeros, bytes);
	mem_free(zeros);
	return TOMOS_OK;
}

tomos_status shards_complete(File *file, int threads)
{
	const Zarr *own = file->own;
	for (int k = 0; k < own->writer->count; k++) {
		const ZarrLevel *l = &own->writer->levels[k];
		Completion c = {.file = file, .level = l, .shift = crc32c_shift(l->piece)};
		for (int i = 0; i < 3; i++)
			c.n[i] = parts_of(l->array.shape[i], l->array.chunk[i]);
		TRY(zero_checksum(l->piece, &c.nothing));
		TRY(parallel_each(
			c.n[0] * c.n[1] * c.n[2], threads, complete_shard, &c, "writing"));
	}
	return TOMOS_OK;
}
