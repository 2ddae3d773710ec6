/* Reads samples of a Zarr array: the chunks that hold some, by several threads. Chunks that are not
 * packed are read in part, if less than half of them is needed; their checksum is then not
 * checked. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/zarr_parts.h"

typedef struct {
	const ZarrArray *array;
	const Samples *samples;
	char *stored;
	int64_t low[3], n[3]; /* inner chunks that the samples span */
} Reading;

/* The samples of an axis that lie in a chunk: numbers [from, end), the first one at `at` of the
 * chunk. */
typedef struct {
	int64_t from, end, at;
} Range;

/* Where an inner chunk is. */
typedef struct {
	int descriptor;
	char *path;
	int64_t at, bytes;
} Source;

static bool range_of(const Samples *s, int axis, int64_t start, int64_t length, Range *r)
{
	int64_t first = s->first[axis], step = s->step[axis];
	r->from = start > first ? parts_of(start - first, step) : 0;
	int64_t before = start + length - first;
	r->end = before > 0 ? min64(parts_of(before, step), s->count[axis]) : 0;
	r->at = first + r->from * step - start;
	return r->from < r->end;
}

/* ---- where chunks are ------------------------------------------------------------------------ */

/* descriptor -1: there is no such file. */
static tomos_status open_chunk_file(const ZarrArray *a, const int64_t inner[3], Source *s)
{
	int64_t at[3];
	struct stat info;
	for (int i = 0; i < 3; i++)
		at[i] = inner[i] / (a->chunk[i] / a->inner[i]);
	TRY(zarr_chunk_path(a, at, &s->path));
	s->descriptor = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->descriptor < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? TOMOS_OK
			       : fail(TOMOS_IO, "'%s' cannot be opened: %s", s->path,
					 strerror(errno));
	if (fstat(s->descriptor, &info) != 0 || !S_ISREG(info.st_mode))
		return fail(TOMOS_IO, "'%s' is not a regular file", s->path);
	s->at = 0;
	s->bytes = info.st_size;
	return TOMOS_OK;
}

static tomos_status find_in_shard(const ZarrArray *a, const int64_t inner[3], Source *s)
{
	int64_t number = 0;
	ShardEntry *entries;
	for (int i = 0; i < 3; i++) {
		int64_t per = a->chunk[i] / a->inner[i];
		number = number * per + inner[i] % per;
	}
	TRY(zarr_index_read(a, s->descriptor, s->bytes, s->path, &entries));
	const ShardEntry e = entries[number];
	mem_free(entries);
	if (e.offset == UINT64_MAX && e.bytes == UINT64_MAX)
		return flat_close(&s->descriptor, s->path);
	if (e.offset > (uint64_t)s->bytes || e.bytes > (uint64_t)s->bytes - e.offset)
		return fail(TOMOS_BAD_FILE,
			"'%s': chunk %lld of the shard is said to have %llu bytes from byte %llu; "
			"the file has %lld",
			s->path, (long long)number, (unsigned long long)e.bytes,
			(unsigned long long)e.offset, (long long)s->bytes);
	s->at = (int64_t)e.offset;
	s->bytes = (int64_t)e.bytes;
	return TOMOS_OK;
}

/* ---- the numbers of a chunk ------------------------------------------------------------------ */

static bool is_plain(const Codecs *c)
{
	for (int i = 0; i < c->count; i++)
		if (c->list[i] != CODEC_CRC32C)
			return false;
	return c->axes[0] == 0 && c->axes[1] == 1;
}

/* Rows [low, high) of the planes that samples lie in, at their places in `chunk`. */
static tomos_status read_planes(
	const Reading *r, const Source *s, const Range ranges[3], unsigned char *chunk)
{
	const ZarrArray *a = r->array;
	int64_t row = a->inner[2] * a->element.bytes, plane = a->inner[1] * row;
	int64_t low = ranges[1].at;
	int64_t rows = (ranges[1].end - ranges[1].from - 1) * r->samples->step[1] + 1;
	for (int64_t i = 0; i < ranges[0].end - ranges[0].from; i++) {
		int64_t at = (ranges[0].at + i * r->samples->step[0]) * plane + low * row;
		TRY(flat_read(s->descriptor, s->path, s->at + at, chunk + at, rows * row));
	}
	return TOMOS_OK;
}

static bool few_needed(const Reading *r, const Range ranges[3])
{
	const ZarrArray *a = r->array;
	int64_t rows = (ranges[1].end - ranges[1].from - 1) * r->samples->step[1] + 1;
	return 2 * (ranges[0].end - ranges[0].from) * rows <= a->inner[0] * a->inner[1];
}

static void copy_samples(const Reading *r, const Range ranges[3], const unsigned char *chunk)
{
	const ZarrArray *a = r->array;
	const Samples *s = r->samples;
	int64_t size = a->element.bytes, stride[3], along = size;
	for (int i = 2; i >= 0; i--) {
		stride[a->codecs.axes[i]] = along;
		along *= a->inner[a->codecs.axes[i]];
	}
	const char *from = (const char *)chunk;
	for (int i = 0; i < 3; i++)
		from += ranges[i].at * stride[i];
	for (int64_t i = ranges[0].from; i < ranges[0].end; i++)
		for (int64_t j = ranges[1].from; j < ranges[1].end; j++)
			copy_strided(
				r->stored + ((i * s->count[1] + j) * s->count[2] + ranges[2].from) *
						    size,
				size,
				from + (i - ranges[0].from) * s->step[0] * stride[0] +
					(j - ranges[1].from) * s->step[1] * stride[1],
				stride[2] * s->step[2], ranges[2].end - ranges[2].from, size);
}

static void fill_samples(const Reading *r, const Range ranges[3])
{
	const Samples *s = r->samples;
	int64_t size = r->array->element.bytes;
	for (int64_t i = ranges[0].from; i < ranges[0].end; i++)
		for (int64_t j = ranges[1].from; j < ranges[1].end; j++)
			copy_strided(
				r->stored + ((i * s->count[1] + j) * s->count[2] + ranges[2].from) *
						    size,
				size, (const char *)r->array->fill, 0,
				ranges[2].end - ranges[2].from, size);
}

static tomos_status unpack_chunk(const Reading *r, const Source *s, const Range ranges[3])
{
	const ZarrArray *a = r->array;
	int64_t expected = zarr_inner_bytes(a), room = zarr_room(expected);
	bool plain = is_plain(&a->codecs), part = plain && few_needed(r, ranges);
	int64_t packed = plain ? 0 : room;
	unsigned char *memory, *chunk = NULL;
	Unpacker unpacker = {.room = 0};
	if (expected / LARGEST_RATIO > s->bytes || (part && s->bytes < expected))
		return fail(TOMOS_BAD_FILE, "'%s': a chunk has %lld bytes, too few for %lld",
			s->path, (long long)s->bytes, (long long)expected);
	if (s->bytes > room && !part)
		return fail(TOMOS_BAD_FILE, "'%s': a chunk has %lld bytes, too many for %lld",
			s->path, (long long)s->bytes, (long long)expected);
	TRY(mem_alloc(&memory, 2 * packed + max64(part ? 0 : s->bytes, expected), 1, "a chunk"));
	unsigned char *in = memory + 2 * packed, *const buffers[2] = {memory, memory + packed};
	tomos_status status = part ? read_planes(r, s, ranges, in)
				   : flat_read(s->descriptor, s->path, s->at, in, s->bytes);
	if (status == TOMOS_OK && !part)
		status = zarr_unpack(
			&a->codecs, &unpacker, buffers, in, s->bytes, expected, &chunk, s->path);
	if (status == TOMOS_OK)
		copy_samples(r, ranges, part ? in : chunk);
	unpacker_free(&unpacker);
	mem_free(memory);
	return status;
}

/* ---- samples --------------------------------------------------------------------------------- */

static tomos_status read_chunk(void *user, int64_t task)
{
	const Reading *r = user;
	const ZarrArray *a = r->array;
	int64_t inner[3] = {r->low[0] + task / (r->n[1] * r->n[2]),
		r->low[1] + task / r->n[2] % r->n[1], r->low[2] + task % r->n[2]};
	Range ranges[3];
	Source source = {.descriptor = -1};
	for (int i = 0; i < 3; i++)
		if (!range_of(r->samples, i, inner[i] * a->inner[i], a->inner[i], &ranges[i]))
			return TOMOS_OK;
	TRY(cancel_check("reading"));
	tomos_status status = open_chunk_file(a, inner, &source);
	if (status == TOMOS_OK && source.descriptor >= 0 && a->sharded)
		status = find_in_shard(a, inner, &source);
	if (status == TOMOS_OK && source.descriptor >= 0)
		status = unpack_chunk(r, &source, ranges);
	else if (status == TOMOS_OK && a->whole)
		status = fail(TOMOS_BAD_FILE, "'%s': the chunk (%lld, %lld, %lld) is missing",
			a->folder, (long long)inner[0], (long long)inner[1], (long long)inner[2]);
	else if (status == TOMOS_OK)
		fill_samples(r, ranges);
	(void)flat_close(&source.descriptor, source.path);
	mem_free(source.path);
	return status;
}

tomos_status zarr_read_samples(
	const ZarrArray *a, const Samples *samples, int threads, void *stored)
{
	Reading r = {.array = a, .samples = samples, .stored = stored};
	for (int i = 0; i < 3; i++) {
		int64_t last = samples->first[i] + samples_span(samples, i) - 1;
		r.low[i] = samples->first[i] / a->inner[i];
		r.n[i] = last / a->inner[i] - r.low[i] + 1;
	}
	return parallel_each(r.n[0] * r.n[1] * r.n[2], threads, read_chunk, &r, "reading");
}
