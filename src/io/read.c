/* Reading: parts of a file as stored, and converted to float. */
#include "io/io.h"

/* Numbers that are converted together, which limits the memory for the stored ones, and those of
 * one task. */
enum { PORTION = 1 << 22, PIECE = 1 << 16 };

static tomos_status check_part(const File *file, const Extract *part, const void *data)
{
	if (file->temporary)
		return fail(
			TOMOS_BAD_VALUE, "'%s' is open for writing and cannot be read", file->path);
	TRY(io_check_range(file, part->first, part->count, data));
	if (part->row < 0 || part->rows < 1 || part->row > file->shape[1] - part->rows)
		return fail(TOMOS_BAD_VALUE, "'%s': %lld rows from row %lld, of %lld", file->path,
			(long long)part->rows, (long long)part->row, (long long)file->shape[1]);
	return TOMOS_OK;
}

tomos_status io_read_stored(File *file, const Extract *part, int threads, void *stored)
{
	TRY(check_part(file, part, stored));
	TRY(cancel_check("reading"));
	return file->format->read(file, part, threads, stored);
}

/* ---- conversion ------------------------------------------------------------------------------ */

typedef struct {
	const File *file;
	const char *stored;
	float *data;
	int64_t count;
} Conversion;

static tomos_status convert_piece(void *user, int64_t i)
{
	const Conversion *c = user;
	const File *file = c->file;
	int64_t count = min64(PIECE, c->count - i * PIECE);
	float *data = c->data + i * PIECE;
	const char *stored = c->stored + i * PIECE * file->element.bytes;
	if (stored != (const char *)data)
		TRY(element_convert(file->element, stored, count, data, file->path));
	if (file->scale != 1 || file->offset != 0)
		for (int64_t k = 0; k < count; k++)
			data[k] = (float)(file->offset + file->scale * (double)data[k]);
	return TOMOS_OK;
}

tomos_status io_convert(const File *file, const void *stored, int64_t count, float *data)
{
	Conversion c = {file, stored, data, count};
	return parallel_each(
		(count + PIECE - 1) / PIECE, tomos_threads(), convert_piece, &c, "reading");
}

/* Indices of the first axis per portion, which ends where a chunk ends. */
static int64_t next_portion(const File *file, const Extract *part, int64_t done)
{
	int64_t grain = file->grain, first = part->first + done;
	int64_t most = max64(1, PORTION / (part->rows * file->shape[2]));
	int64_t end = (first + max64(most, grain)) / grain * grain;
	return min64(end - first, part->count - done);
}

static tomos_status read_converted(File *file, const Extract *part, void *stored, float *data)
{
	int64_t index = part->rows * file->shape[2];
	for (int64_t done = 0, count; done < part->count; done += count) {
		count = next_portion(file, part, done);
		const Extract some = {part->first + done, count, part->row, part->rows};
		TRY(io_read_stored(file, &some, tomos_threads(), stored));
		TRY(checksums_compare(file, &some, stored));
		TRY(io_convert(file, stored, count * index, data + done * index));
	}
	return TOMOS_OK;
}

static int64_t largest_portion(const File *file, const Extract *part)
{
	int64_t most = 0;
	for (int64_t done = 0, count; done < part->count; done += count) {
		count = next_portion(file, part, done);
		most = max64(most, count);
	}
	return most;
}

tomos_status io_read(File *file, const Extract *part, float *data)
{
	int64_t index = part->rows * file->shape[2];
	void *stored;
	TRY(check_part(file, part, data));
	if (file->element.kind == 'f' && file->element.bytes == 4 && !file->element.swapped) {
		TRY(io_read_stored(file, part, tomos_threads(), data));
		TRY(checksums_compare(file, part, data));
		return io_convert(file, data, part->count * index, data);
	}
	TRY(mem_alloc(&stored, largest_portion(file, part) * index, (size_t)file->element.bytes,
		"a part of a file as stored"));
	tomos_status status = read_converted(file, part, stored, data);
	mem_free(stored);
	return status;
}

tomos_status tomos_file_read(File *file, int64_t first, int64_t count, float *data)
{
	const Extract part = {first, count, 0, file->shape[1]};
	return io_read(file, &part, data);
}
