/* Writing: slices in the type of the file, or floats converted to it, by several threads. */
#include <string.h>
#include "io/io.h"

/* Numbers written per step: a fraction of a second, so that cancelling takes effect soon. */
enum { PORTION = 1 << 26 };

typedef struct {
	const File *file;
	const char *stored;
	int64_t bytes; /* of one index */
	uint32_t *sums;
	const float *data; /* to be encoded */
} Slices;

static void sum_one(void *user, int64_t i)
{
	const Slices *s = user;
	s->sums[i] = checksum_add(0, s->stored + i * s->bytes, s->bytes);
}

/* Only resumable and HDF5 files need checksums; some formats make them. */
static tomos_status write_portion(
	File *file, int64_t first, int64_t count, int threads, const char *stored)
{
	Slices s = {file, stored, file->shape[1] * file->shape[2] * file->element.bytes,
		file->checksums + first, NULL};
	TRY(cancel_check("writing"));
	if ((file->kept || file->format == &format_hdf5) && !file->format->sums)
		parallel_for(count, sum_one, &s);
	return file->format->write(file, first, count, threads, stored);
}

static tomos_status write_portions(
	File *file, int64_t first, int64_t count, int threads, const char *stored)
{
	int64_t slice = file->shape[1] * file->shape[2], most = max64(1, PORTION / slice);
	for (int64_t done = 0; done < count; done += most)
		TRY(write_portion(file, first + done, min64(most, count - done), threads,
			stored + done * slice * file->element.bytes));
	return TOMOS_OK;
}

static tomos_status check_writing(const File *file, int64_t first, int64_t count, const void *data)
{
	TRY(io_check_writable(file));
	return io_check_range(file, first, count, data);
}

tomos_status io_write_stored(
	File *file, int64_t first, int64_t count, int threads, const void *stored)
{
	TRY(check_writing(file, first, count, stored));
	/* After a failed write the slab counts as not written. */
	memset(file->written + first, 0, (size_t)count);
	TRY(write_portions(file, first, count, threads, stored));
	memset(file->written + first, 1, (size_t)count);
	return TOMOS_OK;
}

/* ---- floats ---------------------------------------------------------------------------------- */

static void encode_one(void *user, int64_t i)
{
	const Slices *s = user;
	const File *file = s->file;
	int64_t slice = file->shape[1] * file->shape[2];
	element_encode(file->element, s->data + i * slice, slice, file->scale, file->offset,
		(char *)s->stored + i * s->bytes);
}

/* One slice per thread at a time, which limits the memory for encoded numbers. */
static tomos_status write_encoded(File *file, int64_t first, int64_t count, const float *data)
{
	int64_t slice = file->shape[1] * file->shape[2], most = min64(count, tomos_threads());
	char *stored;
	TRY(mem_alloc(&stored, most * slice, (size_t)file->element.bytes, "slices as stored"));
	tomos_status status = TOMOS_OK;
	for (int64_t done = 0; done < count && status == TOMOS_OK; done += most) {
		int64_t now = min64(most, count - done);
		Slices s = {file, stored, slice * file->element.bytes, NULL, data + done * slice};
		parallel_for(now, encode_one, &s);
		status = io_write_stored(file, first + done, now, tomos_threads(), stored);
	}
	mem_free(stored);
	return status;
}

tomos_status tomos_file_write(File *file, int64_t first, int64_t count, const float *data)
{
	TRY(check_writing(file, first, count, data));
	if (file->element.kind == 'f')
		return io_write_stored(file, first, count, tomos_threads(), data);
	memset(file->written + first, 0, (size_t)count);
	return write_encoded(file, first, count, data);
}
