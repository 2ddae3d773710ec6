/* Sparse matrix files: parts common to all formats, and checks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "io/matrix_file.h"

enum { DATA, INDICES, INDPTR, SHAPE, FORMAT, LISTS };

void matrix_release(tomos_matrix *m)
{
	mem_free((void *)(uintptr_t)m->pointers);
	mem_free((void *)(uintptr_t)m->indices);
	mem_free((void *)(uintptr_t)m->values);
	*m = (tomos_matrix){.bytes = sizeof *m};
}

tomos_status matrix_allocate(tomos_matrix *m)
{
	m->pointer_bytes = m->count <= INT32_MAX ? 4 : 8;
	m->index_bytes = m->columns - 1 <= INT32_MAX ? 4 : 8;
	TRY(mem_alloc(&m->pointers, m->rows + 1, (size_t)m->pointer_bytes, "the rows of a matrix"));
	TRY(mem_alloc(
		&m->indices, m->count, (size_t)m->index_bytes, "the column indices of a matrix"));
	return mem_alloc(&m->values, m->count, sizeof(float), "the values of a matrix");
}

/* ---- checks ---------------------------------------------------------------------------------- */

static tomos_status check_pointers(const char *path, const tomos_matrix *m)
{
	int64_t last = matrix_at(m->pointers, m->pointer_bytes, 0);
	if (last != 0)
		return fail(TOMOS_BAD_FILE, "'%s': row 0 begins at entry %lld, not at 0", path,
			(long long)last);
	for (int64_t r = 1; r <= m->rows; r++) {
		int64_t next = matrix_at(m->pointers, m->pointer_bytes, r);
		if (next < last || next > m->count)
			return fail(TOMOS_BAD_FILE,
				"'%s': row %lld ends at entry %lld; it began at %lld of %lld", path,
				(long long)(r - 1), (long long)next, (long long)last,
				(long long)m->count);
		last = next;
	}
	if (last != m->count)
		return fail(TOMOS_BAD_FILE, "'%s': the rows have %lld entries of %lld", path,
			(long long)last, (long long)m->count);
	return TOMOS_OK;
}

static tomos_status check_entries(const char *path, const tomos_matrix *m)
{
	for (int64_t i = 0; i < m->count; i++) {
		int64_t column = matrix_at(m->indices, m->index_bytes, i);
		if (column < 0 || column >= m->columns)
			return fail(TOMOS_BAD_FILE,
				"'%s': entry %lld is in column %lld of %lld, first column 0", path,
				(long long)i, (long long)column, (long long)m->columns);
		if (!isfinite(m->values[i]))
			return fail(TOMOS_BAD_FILE, "'%s': entry %lld is not finite", path,
				(long long)i);
	}
	return TOMOS_OK;
}

typedef struct {
	int64_t column;
	float value;
} Entry;

static int compare_entries(const void *a, const void *b)
{
	const Entry *one = a, *two = b;
	return one->column < two->column ? -1 : one->column > two->column;
}

static tomos_status sort_row(tomos_matrix *m, int64_t low, int64_t high)
{
	Entry *row;
	TRY(mem_alloc(&row, high - low, sizeof *row, "a row of a matrix"));
	for (int64_t i = low; i < high; i++)
		row[i - low] = (Entry){matrix_at(m->indices, m->index_bytes, i), m->values[i]};
	qsort(row, (size_t)(high - low), sizeof *row, compare_entries);
	for (int64_t i = low; i < high; i++) {
		matrix_set(m->indices, m->index_bytes, i, row[i - low].column);
		((float *)(uintptr_t)m->values)[i] = row[i - low].value;
	}
	mem_free(row);
	return TOMOS_OK;
}

static tomos_status sort_rows(tomos_matrix *m)
{
	for (int64_t r = 0; r < m->rows; r++) {
		int64_t low = matrix_at(m->pointers, m->pointer_bytes, r);
		int64_t high = matrix_at(m->pointers, m->pointer_bytes, r + 1), i = low + 1;
		while (i < high && matrix_at(m->indices, m->index_bytes, i) >=
					   matrix_at(m->indices, m->index_bytes, i - 1))
			i++;
		if (i < high)
			TRY(sort_row(m, low, high));
	}
	return TOMOS_OK;
}

/* ---- lists of numbers ------------------------------------------------------------------------ */

static Element integers(int bytes)
{
	return (Element){'i', bytes, false};
}

static void name_lists(NamedList lists[LISTS])
{
	static const char *const names[LISTS] = {"data", "indices", "indptr", "shape", "format"};
	for (int i = 0; i < LISTS; i++)
		lists[i] = (NamedList){.name = names[i]};
}

static void lists_of(const tomos_matrix *m, int64_t shape[2], NamedList lists[LISTS])
{
	static const char csr[] = "csr";
	name_lists(lists);
	shape[0] = m->rows;
	shape[1] = m->columns;
	lists[DATA].element = (Element){'f', 4, false};
	lists[DATA].count = lists[INDICES].count = m->count;
	lists[DATA].data = (void *)(uintptr_t)m->values;
	lists[INDICES].element = integers(m->index_bytes);
	lists[INDICES].data = (void *)(uintptr_t)m->indices;
	lists[INDPTR].element = integers(m->pointer_bytes);
	lists[INDPTR].count = m->rows + 1;
	lists[INDPTR].data = (void *)(uintptr_t)m->pointers;
	lists[SHAPE].element = integers(8);
	lists[SHAPE].count = 2;
	lists[SHAPE].data = shape;
	lists[FORMAT].element = (Element){'S', 3, false};
	lists[FORMAT].count = -1;
	lists[FORMAT].data = (void *)(uintptr_t)csr;
}

/* Integer i of a list, in native or swapped byte order. */
static int64_t integer_at(const NamedList *list, int64_t i)
{
	unsigned char bytes[8];
	int size = list->element.bytes;
	memcpy(bytes, (const char *)list->data + i * size, (size_t)size);
	for (int k = 0; list->element.swapped && k < size / 2; k++) {
		unsigned char swap = bytes[k];
		bytes[k] = bytes[size - 1 - k];
		bytes[size - 1 - k] = swap;
	}
	return matrix_at(memcpy(&(int64_t){0}, bytes, (size_t)size), size, 0);
}

static tomos_status check_list(const char *path, const NamedList *list, bool whole)
{
	const Element *e = &list->element;
	if (!list->data)
		return fail(TOMOS_BAD_FILE, "'%s' has no '%s': it is not a matrix in CSR", path,
			list->name);
	if (whole ? e->kind != 'i' || (e->bytes != 4 && e->bytes != 8) : !element_name(*e))
		return fail(TOMOS_UNSUPPORTED, "'%s': '%s' must be %s", path, list->name,
			whole ? "integers of 4 or 8 bytes" : "real numbers");
	return TOMOS_OK;
}

static tomos_status check_lists(const char *path, const NamedList lists[LISTS])
{
	const NamedList *format = &lists[FORMAT];
	if (format->data && memcmp(format->data, "csr", 4) != 0)
		return fail(TOMOS_UNSUPPORTED,
			"'%s' is a matrix in the format '%.8s'; only csr can be read (tocsr() "
			"converts)",
			path, (const char *)format->data);
	for (int i = 0; i < FORMAT; i++)
		TRY(check_list(path, &lists[i], i != DATA));
	if (lists[SHAPE].count != 2 || integer_at(&lists[SHAPE], 0) < 1 ||
		integer_at(&lists[SHAPE], 1) < 1 ||
		integer_at(&lists[SHAPE], 0) != lists[INDPTR].count - 1)
		return fail(TOMOS_BAD_FILE,
			"'%s': 'shape' must have two sizes, the first one less than the %lld of "
			"'indptr'",
			path, (long long)lists[INDPTR].count);
	if (lists[DATA].count != lists[INDICES].count)
		return fail(TOMOS_BAD_FILE, "'%s': %lld values for %lld column indices", path,
			(long long)lists[DATA].count, (long long)lists[INDICES].count);
	return TOMOS_OK;
}

/* Integers that do not fit the narrower array become a value that is out of range as well. */
static int64_t limited(int64_t value, int bytes)
{
	return bytes == 4 && (value < 0 || value > INT32_MAX) ? -1 : value;
}

static tomos_status take_lists(const char *path, tomos_matrix *m, const NamedList lists[LISTS])
{
	TRY(check_lists(path, lists));
	m->rows = integer_at(&lists[SHAPE], 0);
	m->columns = integer_at(&lists[SHAPE], 1);
	m->count = lists[DATA].count;
	TRY(matrix_allocate(m));
	for (int64_t r = 0; r <= m->rows; r++)
		matrix_set(m->pointers, m->pointer_bytes, r,
			limited(integer_at(&lists[INDPTR], r), m->pointer_bytes));
	for (int64_t i = 0; i < m->count; i++)
		matrix_set(m->indices, m->index_bytes, i,
			limited(integer_at(&lists[INDICES], i), m->index_bytes));
	return element_convert(lists[DATA].element, lists[DATA].data, m->count,
		(float *)(uintptr_t)m->values, path);
}

static tomos_status read_lists(const char *path, tomos_matrix *m,
	tomos_status (*read)(const char *path, NamedList *lists, int count), int count)
{
	NamedList lists[LISTS];
	name_lists(lists);
	tomos_status status = read(path, lists, count);
	if (status == TOMOS_OK)
		status = take_lists(path, m, lists);
	for (int i = 0; i < LISTS; i++)
		mem_free(lists[i].data);
	return status;
}

/* ---- formats --------------------------------------------------------------------------------- */

enum { MTX, NPZ, HDF5 };

static tomos_status kind_by_name(const char *path, int *kind)
{
	static const char *const endings[] = {".mtx", ".npz", ".h5", ".hdf5"};
	size_t length = path ? strlen(path) : 0;
	for (int i = 0; i < COUNT(endings); i++) {
		size_t end = strlen(endings[i]);
		*kind = i < HDF5 ? i : HDF5;
		if (length > end && strcmp(path + length - end, endings[i]) == 0)
			return TOMOS_OK;
	}
	return fail(TOMOS_BAD_VALUE,
		"'%s': the name of a matrix file ends in .mtx, .npz, .h5 or .hdf5",
		path ? path : "(none)");
}

/* -1: none of them */
static tomos_status find_kind(const char *path, int *kind)
{
	unsigned char head[16] = {0};
	int descriptor;
	int64_t size;
	if (!path)
		return fail(TOMOS_BAD_VALUE, "no matrix file to read is named");
	TRY(flat_open(&descriptor, &size, path));
	tomos_status status =
		flat_read(descriptor, path, 0, head, min64(size, (int64_t)sizeof head));
	(void)flat_close(&descriptor, path);
	TRY(status);
	*kind = memcmp(head, "PK", 2) == 0                 ? NPZ
		: hdf5_is(head, sizeof head)               ? HDF5
		: memcmp(head, "%%MatrixMarket ", 15) == 0 ? MTX
							   : -1;
	return TOMOS_OK;
}

static tomos_status kind_by_content(const char *path, int *kind)
{
	TRY(find_kind(path, kind));
	if (*kind < 0)
		return fail(TOMOS_BAD_FILE,
			"'%s' is no matrix file: neither Matrix Market nor npz nor HDF5", path);
	return TOMOS_OK;
}

static tomos_status write_kind(
	int kind, const char *temporary, const char *path, const tomos_matrix *m)
{
	NamedList lists[LISTS];
	int64_t shape[2];
	lists_of(m, shape, lists);
	if (kind == MTX)
		return mtx_write(temporary, path, m);
	return kind == NPZ ? npz_write(temporary, path, lists, LISTS)
			   : hdf5_lists_write(temporary, path, lists, FORMAT);
}

tomos_status matrix_write(
	const char *path, const tomos_matrix *m, const tomos_file_options *options)
{
	tomos_file_options o = tomos_file_defaults();
	char *temporary = NULL;
	int kind;
	TRY(options_take(&o, options, "file"));
	TRY(kind_by_name(path, &kind));
	TRY(file_temporary(&temporary, path, o.overwrite != 0));
	tomos_status status = write_kind(kind, temporary, path, m);
	if (status == TOMOS_OK)
		status = file_publish(temporary, path, o.overwrite != 0);
	if (status != TOMOS_OK)
		file_discard(temporary);
	mem_free(temporary);
	return status;
}

tomos_status matrix_check(const char *path, tomos_matrix *m)
{
	TRY(check_pointers(path, m));
	TRY(check_entries(path, m));
	return sort_rows(m);
}

tomos_status matrix_read(const char *path, tomos_matrix *m)
{
	tomos_status status;
	int kind;
	*m = (tomos_matrix){.bytes = sizeof *m};
	TRY(kind_by_content(path, &kind));
	TRY_OR_DONE(kind == MTX   ? mtx_read(path, m)
		    : kind == NPZ ? read_lists(path, m, npz_read, LISTS)
				  : read_lists(path, m, hdf5_lists_read, FORMAT));
	TRY_OR_DONE(matrix_check(path, m));
done:
	if (status != TOMOS_OK)
		matrix_release(m);
	return status;
}

/* ---- contents of a file ---------------------------------------------------------------------- */

static void take_info(tomos_matrix_info *info, const NamedList *pointers, const NamedList *shape,
	const NamedList *storage)
{
	info->found = pointers->data && pointers->count > 0 && shape->data && shape->count == 2;
	if (!info->found)
		return;
	info->rows = integer_at(shape, 0);
	info->columns = integer_at(shape, 1);
	info->entries = integer_at(pointers, pointers->count - 1);
	snprintf(info->storage, sizeof info->storage, "%.*s",
		storage->data ? (int)min64(storage->element.bytes, 7) : 3,
		storage->data ? (const char *)storage->data : "csr");
}

static bool is_whole(const NamedList *list)
{
	return !list->data || (list->element.kind == 'i' &&
				      (list->element.bytes == 4 || list->element.bytes == 8));
}

static tomos_status look_lists(const char *path, tomos_matrix_info *info,
	tomos_status (*read)(const char *path, NamedList *lists, int count), int count)
{
	NamedList lists[] = {{.name = "indptr"}, {.name = "shape"}, {.name = "format"}};
	tomos_status status = read(path, lists, count);
	if (status == TOMOS_OK && is_whole(&lists[0]) && is_whole(&lists[1]))
		take_info(info, &lists[0], &lists[1], &lists[2]);
	for (int i = 0; i < COUNT(lists); i++)
		mem_free(lists[i].data);
	return status;
}

tomos_status tomos_matrix_describe(const char *path, tomos_matrix_info *info)
{
	static const char *const names[] = {"Matrix Market", "npz", "hdf5"};
	tomos_matrix m = {.bytes = sizeof m};
	tomos_matrix_info found = {.bytes = sizeof found};
	int kind;
	TRY(find_kind(path, &kind));
	found.format = kind < 0 ? NULL : names[kind];
	TRY(struct_give(
		info, &found, "tomos_matrix_info")); /* the format, also of a damaged file */
	if (kind == MTX) {
		TRY(mtx_look(path, &m, &found.entries));
		found = (tomos_matrix_info){
			sizeof found, 1, names[kind], "coo", m.rows, m.columns, found.entries};
	} else if (kind >= 0) {
		TRY(kind == NPZ ? look_lists(path, &found, npz_read, 3)
				: look_lists(path, &found, hdf5_lists_read, 2));
	}
	return struct_give(info, &found, "tomos_matrix_info");
}
