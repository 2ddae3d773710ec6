/* Sparse matrices in files: Matrix Market, SciPy's npz, HDF5. */
#ifndef TOMOS_IO_MATRIX_FILE_H
#define TOMOS_IO_MATRIX_FILE_H

#include "io/io.h"

/* One list of numbers of a file; kind 'S' is a string of `element.bytes` characters. */
typedef struct {
	const char *name;
	Element element;
	int64_t count;
	void *data;
} NamedList;

/* Writes to the temporary name; `path` is used in messages. Reading finds the lists by name and
 * allocates their data; data is NULL for a missing list. */
tomos_status npz_write(const char *temporary, const char *path, const NamedList *lists, int count);
tomos_status npz_read(const char *path, NamedList *lists, int count);
tomos_status hdf5_lists_write(
	const char *temporary, const char *path, const NamedList *lists, int count);
tomos_status hdf5_lists_read(const char *path, NamedList *lists, int count);
bool hdf5_is(const unsigned char *head, size_t length);

/* The header of an npy file in memory: type, shape and offset of the numbers. `descr` is NumPy's,
 * for types that are not numbers. */
typedef struct {
	Element element; /* bytes 0: no number */
	char descr[32];
	int rank;
	int64_t axes[3]; /* the first of them */
	bool fortran;
	int64_t count, data; /* number of elements, and their offset in bytes */
} NpyForm;

tomos_status npy_look(NpyForm *form, const char *path, const unsigned char *bytes, int64_t size);
/* A header for a list (count < 0: a single value), to be mem_freed. */
tomos_status npy_compose(char **header, int64_t *length, Element element, int64_t count);

tomos_status mtx_write(const char *temporary, const char *path, const tomos_matrix *matrix);
/* The arrays are the caller's to mem_free, also after a failure. */
tomos_status mtx_read(const char *path, tomos_matrix *matrix);
/* Reads the first lines only; *lines: number of lines with entries. */
tomos_status mtx_look(const char *path, tomos_matrix *matrix, int64_t *lines);

/* The extension selects the format when writing, the content when reading. Matrices read have
 * sorted columns and valid indices. */
tomos_status matrix_write(
	const char *path, const tomos_matrix *matrix, const tomos_file_options *options);
tomos_status matrix_read(const char *path, tomos_matrix *matrix);
void matrix_release(tomos_matrix *matrix);
/* Rejects arrays that are not a valid matrix (TOMOS_BAD_FILE), and sorts the columns of each
 * row. */
tomos_status matrix_check(const char *path, tomos_matrix *matrix);

/* Allocates arrays of the narrowest types for `rows`, `columns` and `count`. */
tomos_status matrix_allocate(tomos_matrix *matrix);
static inline int64_t matrix_at(const void *array, int bytes, int64_t i)
{
	return bytes == 4 ? ((const int32_t *)array)[i] : ((const int64_t *)array)[i];
}
static inline void matrix_set(const void *array, int bytes, int64_t i, int64_t value)
{
	if (bytes == 4)
		((int32_t *)(uintptr_t)array)[i] = (int32_t)value;
	else
		((int64_t *)(uintptr_t)array)[i] = value;
}

#endif
