/* Contiguous numbers after a header of any kind. */
#include "io/io.h"

enum { PIECE = 1 << 16 }; /* numbers converted per step */

tomos_status plain_check(const Plain *plain, const File *file, const char *path)
{
	int64_t count, bytes = INT64_MAX, expected;
	TRY(shape_count(file->shape, &count));
	if (size_mul(count, plain->element.bytes, &bytes) &&
		size_add(bytes, plain->data, &expected) && expected == plain->size)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s' has %lld bytes of data; %lld x %lld x %lld numbers of type %s need %lld",
		path, (long long)(plain->size - plain->data), (long long)file->shape[0],
		(long long)file->shape[1], (long long)file->shape[2], element_name(plain->element),
		(long long)bytes);
}

/* `count` numbers from number `from` of the file, in pieces through `buffer`. */
static tomos_status read_numbers(const File *file, const Plain *plain, void *buffer, int64_t from,
	int64_t count, float *data)
{
	for (int64_t done = 0; done < count; done += PIECE) {
		int64_t step = min64(PIECE, count - done);
		TRY(flat_read(plain->descriptor, file->path,
			plain->data + (from + done) * plain->element.bytes, buffer,
			step * plain->element.bytes));
		TRY(element_convert(plain->element, buffer, step, data + done, file->path));
	}
	return TOMOS_OK;
}

/* Element (i, j, k) is at i + n0 (j + n1 k): planes of constant k are read one by one, and the
 * requested part is transposed to C order. */
static tomos_status read_fortran(
	const File *file, const Plain *plain, void *buffer, const Extract *part, float *data)
{
	int64_t n0 = file->shape[0], n1 = file->shape[1], n2 = file->shape[2];
	float *plane;
	tomos_status status = mem_alloc(&plane, n0 * n1, sizeof *plane, "a plane in Fortran order");
	for (int64_t k = 0; k < n2 && status == TOMOS_OK; k++) {
		status = read_numbers(file, plain, buffer, k * n0 * n1, n0 * n1, plane);
		for (int64_t i = 0; i < part->count && status == TOMOS_OK; i++)
			for (int64_t j = 0; j < part->rows; j++)
				data[(i * part->rows + j) * n2 + k] =
					plane[part->first + i + n0 * (part->row + j)];
	}
	mem_free(plane);
	return status;
}

/* Index by index, or in one read if all rows are requested. */
static tomos_status read_rows(
	const File *file, const Plain *plain, void *buffer, const Extract *part, float *data)
{
	int64_t slab = file->shape[1] * file->shape[2], size = part->rows * file->shape[2];
	bool whole = part->rows == file->shape[1];
	int64_t step = whole ? part->count : 1;
	for (int64_t i = 0; i < part->count; i += step)
		TRY(read_numbers(file, plain, buffer,
			(part->first + i) * slab + part->row * file->shape[2], step * size,
			data + i * size));
	return TOMOS_OK;
}

tomos_status plain_read(const File *file, const Plain *plain, const Extract *part, float *data)
{
	void *buffer;
	TRY(mem_alloc(&buffer, PIECE, 8, "a piece of a file"));
	tomos_status status =
		(plain->fortran ? read_fortran : read_rows)(file, plain, buffer, part, data);
	mem_free(buffer);
	return status;
}

tomos_status plain_write(
	const File *file, const Plain *plain, int64_t first, int64_t count, const void *data)
{
	int64_t slab = file->shape[1] * file->shape[2] * plain->element.bytes;
	return flat_write(
		plain->descriptor, file->path, plain->data + first * slab, data, count * slab);
}

tomos_status plain_read_back(const File *file, const Plain *plain, int64_t index, void *stored)
{
	int64_t slab = file->shape[1] * file->shape[2] * plain->element.bytes;
	return flat_read(plain->descriptor, file->path, plain->data + index * slab, stored, slab);
}

tomos_status plain_finish(const File *file, Plain *plain)
{
	int64_t slab = file->shape[1] * file->shape[2] * plain->element.bytes;
	if (plain->descriptor >= 0)
		TRY(flat_cut(plain->descriptor, file->path, plain->data + file->shape[0] * slab));
	return flat_close(&plain->descriptor, file->path);
}

/* ---- formats that are nothing else ----------------------------------------------------------- */

tomos_status plain_file_read(File *file, const Extract *part, float *data)
{
	return plain_read(file, file->own, part, data);
}

tomos_status plain_file_write(File *file, int64_t first, int64_t count, const void *data)
{
	return plain_write(file, file->own, first, count, data);
}

tomos_status plain_file_finish(File *file)
{
	return plain_finish(file, file->own);
}

tomos_status plain_file_read_back(File *file, int64_t index, void *stored)
{
	return plain_read_back(file, file->own, index, stored);
}

void plain_file_close(File *file)
{
	Plain *plain = file->own;
	(void)flat_close(&plain->descriptor, file->path);
	mem_free(plain);
}
