/* Contiguous numbers after a header of any kind. */
#include <string.h>
#include "io/io.h"

/* Numbers in Fortran order that are read at once, since any part of them takes the whole file. */
enum { FORTRAN_PORTION = 1 << 24 };

tomos_status plain_new(File *file, size_t bytes)
{
	Plain *plain;
	TRY(mem_zeroed(&plain, 1, bytes, "a file's description"));
	plain->descriptor = -1;
	file->own = plain;
	return TOMOS_OK;
}

tomos_status plain_check(const Plain *plain, File *file, const char *path)
{
	int64_t count, bytes = INT64_MAX, expected;
	TRY(shape_count(file->shape, &count));
	if (plain->fortran)
		file->grain = max64(1, FORTRAN_PORTION / (file->shape[1] * file->shape[2]));
	if (size_mul(count, file->element.bytes, &bytes) &&
		size_add(bytes, plain->data, &expected) && expected == plain->size)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s' has %lld bytes of data; %lld x %lld x %lld numbers of type %s need %lld",
		path, (long long)(plain->size - plain->data), (long long)file->shape[0],
		(long long)file->shape[1], (long long)file->shape[2], element_name(file->element),
		(long long)bytes);
}

/* Element (i, j, k) is at i + n0 (j + n1 k): planes of constant k are read one by one, and the
 * requested part is transposed to C order. */
static tomos_status read_fortran(
	const File *file, const Plain *plain, const Extract *part, char *plane, char *stored)
{
	int64_t n0 = file->shape[0], n1 = file->shape[1], n2 = file->shape[2];
	int64_t size = file->element.bytes;
	for (int64_t k = 0; k < n2; k++) {
		TRY(flat_read(plain->descriptor, file->path, plain->data + k * n0 * n1 * size,
			plane, n0 * n1 * size));
		for (int64_t i = 0; i < part->count; i++)
			for (int64_t j = 0; j < part->rows; j++)
				memcpy(stored + ((i * part->rows + j) * n2 + k) * size,
					plane + (part->first + i + n0 * (part->row + j)) * size,
					(size_t)size);
	}
	return TOMOS_OK;
}

tomos_status plain_read(
	const File *file, const Plain *plain, const Extract *part, int threads, void *stored)
{
	int64_t line = file->shape[2] * file->element.bytes, slab = file->shape[1] * line;
	bool whole = part->rows == file->shape[1]; /* then it is one run */
	const Runs runs = {plain->descriptor, file->path,
		plain->data + part->first * slab + part->row * line, slab,
		(whole ? part->count : 1) * part->rows * line, whole ? 1 : part->count};
	char *plane;
	if (!plain->fortran)
		return flat_read_runs(&runs, threads, stored);
	TRY(mem_alloc(&plane, file->shape[0] * file->shape[1], (size_t)file->element.bytes,
		"a plane in Fortran order"));
	tomos_status status = read_fortran(file, plain, part, plane, stored);
	mem_free(plane);
	return status;
}

tomos_status plain_begin(const File *file, Plain *plain)
{
	const int64_t *n = file->shape;
	return reserve_open(&plain->reserve, plain->descriptor, plain->data,
		n[0] * n[1] * n[2] * file->element.bytes);
}

void plain_close(const File *file, Plain *plain)
{
	reserve_close(&plain->reserve);
	(void)flat_close(&plain->descriptor, file->path);
}

tomos_status plain_create(File *file, Plain *plain, int64_t data)
{
	plain->data = data;
	TRY(file_descriptor(file, &plain->descriptor));
	return plain_begin(file, plain);
}

tomos_status plain_write(const File *file, const Plain *plain, int64_t first, int64_t count,
	int threads, const void *stored)
{
	int64_t slab = file->shape[1] * file->shape[2] * file->element.bytes;
	const Runs runs = {
		plain->descriptor, file->path, plain->data + first * slab, 0, count * slab, 1};
	return reserve_write(plain->reserve, &runs, threads, stored);
}

tomos_status plain_read_back(const File *file, const Plain *plain, int64_t index, void *stored)
{
	int64_t slab = file->shape[1] * file->shape[2] * file->element.bytes;
	return flat_read(plain->descriptor, file->path, plain->data + index * slab, stored, slab);
}

tomos_status plain_finish(const File *file, Plain *plain)
{
	int64_t slab = file->shape[1] * file->shape[2] * file->element.bytes;
	reserve_close(&plain->reserve);
	if (plain->descriptor >= 0)
		TRY(flat_cut(plain->descriptor, file->path, plain->data + file->shape[0] * slab));
	return flat_close(&plain->descriptor, file->path);
}

/* ---- formats that are nothing else ----------------------------------------------------------- */

tomos_status plain_file_read(File *file, const Extract *part, int threads, void *stored)
{
	return plain_read(file, file->own, part, threads, stored);
}

tomos_status plain_file_write(
	File *file, int64_t first, int64_t count, int threads, const void *stored)
{
	return plain_write(file, file->own, first, count, threads, stored);
}

tomos_status plain_file_finish(File *file)
{
	Plain *plain = file->own;
	if (plain->descriptor >= 0 && file->format->seal)
		TRY(file->format->seal(file));
	return plain_finish(file, plain);
}

tomos_status plain_file_read_back(File *file, int64_t index, void *stored)
{
	return plain_read_back(file, file->own, index, stored);
}

tomos_status plain_file_get(const File *file, const char *name, double **values, int64_t shape[2])
{
	const Plain *plain = file->own;
	return grid_get(&plain->grid, file, name, values, shape);
}

tomos_status plain_file_put(
	File *file, const char *name, const double *values, const int64_t shape[2])
{
	Plain *plain = file->own;
	(void)shape;
	grid_put(&plain->grid, file, name, values);
	return TOMOS_OK;
}

void plain_file_close(File *file)
{
	Plain *plain = file->own;
	plain_close(file, plain);
	mem_free(plain);
}
