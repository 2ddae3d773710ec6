/* Stored matrices between operators and files. */
#include <string.h>
#include "io/matrix_file.h"
#include "op/matrix.h"

tomos_status tomos_matrix_write(
	const tomos_op *op, const char *path, const tomos_file_options *options)
{
	tomos_matrix arrays = {.bytes = sizeof arrays};
	TRY(tomos_matrix_arrays(op, &arrays));
	return matrix_write(path, &arrays, options);
}

static tomos_status check_shape(
	const char *path, const char *what, int64_t has, const int64_t shape[3])
{
	int64_t wanted;
	TRY(shape_count(shape, &wanted));
	if (has == wanted)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE, "'%s' has %lld %s; %lld x %lld x %lld are %lld", path,
		(long long)has, what, (long long)shape[0], (long long)shape[1], (long long)shape[2],
		(long long)wanted);
}

/* Moves the arrays to the operator's struct, which has the same members. */
static Csr take_arrays(tomos_matrix *m)
{
	Csr csr = {.rows = m->rows,
		.columns = m->columns,
		.count = m->count,
		.pointer_bytes = m->pointer_bytes,
		.index_bytes = m->index_bytes,
		.pointers = (void *)(uintptr_t)m->pointers,
		.indices = (void *)(uintptr_t)m->indices,
		.values = (float *)(uintptr_t)m->values};
	*m = (tomos_matrix){.bytes = sizeof *m};
	return csr;
}

static tomos_status make_op(tomos_op **op, tomos_backend *backend, const char *name,
	tomos_matrix *m, const int64_t domain[3], const int64_t range[3])
{
	TRY(check_shape(name, "columns", m->columns, domain));
	TRY(check_shape(name, "rows", m->rows, range));
	Csr csr = take_arrays(m);
	return csr_op(op, backend, domain, range, &csr, name);
}

tomos_status tomos_op_matrix_read(tomos_op **op, tomos_backend *backend, const char *path,
	const int64_t domain[3], const int64_t range[3])
{
	tomos_matrix m = {.bytes = sizeof m};
	tomos_status status;
	*op = NULL;
	if (!backend || !domain || !range)
		return fail(TOMOS_BAD_VALUE, "a matrix from a file needs a backend and two shapes");
	TRY_OR_DONE(matrix_read(path, &m));
	TRY_OR_DONE(make_op(op, backend, path, &m, domain, range));
done:
	matrix_release(&m);
	return status;
}

static bool is_width(int bytes)
{
	return bytes == 4 || bytes == 8;
}

static tomos_status copy_matrix(tomos_matrix *m, const tomos_matrix *from)
{
	*m = *from;
	m->pointers = m->indices = m->values = NULL;
	TRY(mem_alloc(&m->pointers, m->rows + 1, (size_t)m->pointer_bytes, "the rows of a matrix"));
	TRY(mem_alloc(
		&m->indices, m->count, (size_t)m->index_bytes, "the column indices of a matrix"));
	TRY(mem_alloc(&m->values, m->count, sizeof(float), "the values of a matrix"));
	memcpy((void *)(uintptr_t)m->pointers, from->pointers,
		(size_t)(m->rows + 1) * (size_t)m->pointer_bytes);
	if (m->count == 0)
		return TOMOS_OK;
	memcpy((void *)(uintptr_t)m->indices, from->indices,
		(size_t)m->count * (size_t)m->index_bytes);
	memcpy((void *)(uintptr_t)m->values, from->values, (size_t)m->count * sizeof(float));
	return TOMOS_OK;
}

static tomos_status check_arrays(const tomos_matrix *a)
{
	if (!a->pointers || (a->count > 0 && (!a->indices || !a->values)))
		return fail(TOMOS_BAD_VALUE, "a matrix needs its three arrays");
	if (a->rows < 1 || a->columns < 1 || a->count < 0)
		return fail(TOMOS_BAD_VALUE, "a matrix of %lld x %lld with %lld entries",
			(long long)a->rows, (long long)a->columns, (long long)a->count);
	if (!is_width(a->pointer_bytes) || !is_width(a->index_bytes))
		return fail(TOMOS_BAD_VALUE,
			"pointers of %d and indices of %d bytes: both must have 4 or 8",
			a->pointer_bytes, a->index_bytes);
	return TOMOS_OK;
}

tomos_status tomos_op_matrix_arrays(tomos_op **op, tomos_backend *backend,
	const tomos_matrix *arrays, const int64_t domain[3], const int64_t range[3])
{
	static const char name[] = "the matrix";
	tomos_matrix given = {.bytes = sizeof given}, m = given;
	tomos_status status;
	*op = NULL;
	if (!backend || !domain || !range)
		return fail(TOMOS_BAD_VALUE, "a matrix needs a backend and two shapes");
	TRY(struct_take(&given, arrays, "tomos_matrix"));
	TRY(check_arrays(&given));
	TRY_OR_DONE(copy_matrix(&m, &given));
	TRY_OR_DONE(matrix_check(name, &m));
	TRY_OR_DONE(make_op(op, backend, name, &m, domain, range));
done:
	matrix_release(&m);
	return status == TOMOS_BAD_FILE ? TOMOS_BAD_VALUE : status;
}
