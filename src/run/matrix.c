/* Stored matrices between operators and files. */
#include "io/matrix_file.h"
#include "op/matrix.h"

tomos_status tomos_matrix_write(
	const tomos_op *op, const char *path, const tomos_file_options *options)
{
	tomos_matrix arrays;
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

/* Both structs have the same arrays; the operator's own it. */
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
	*m = (tomos_matrix){0};
	return csr;
}

tomos_status tomos_op_matrix_read(tomos_op **op, tomos_backend *backend, const char *path,
	const int64_t domain[3], const int64_t range[3])
{
	tomos_matrix m = {0};
	tomos_status status;
	*op = NULL;
	if (!backend || !domain || !range)
		return fail(TOMOS_BAD_VALUE, "a matrix from a file needs a backend and two shapes");
	TRY_OR_DONE(matrix_read(path, &m));
	TRY_OR_DONE(check_shape(path, "columns", m.columns, domain));
	TRY_OR_DONE(check_shape(path, "rows", m.rows, range));
	Csr csr = take_arrays(&m);
	TRY_OR_DONE(csr_op(op, backend, domain, range, &csr, path));
done:
	matrix_release(&m);
	return status;
}
