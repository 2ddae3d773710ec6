/* Stored matrices: listing the entries of a projector, and two formats to store them. */
#ifndef TOMOS_OP_MATRIX_H
#define TOMOS_OP_MATRIX_H

#include "op/op.h"

/* ---- entries, from the reference kernels --------------------------------------------------- */

/* Pixels [low, high) of one view; `first` is the matrix row of pixel `low`. */
typedef struct {
	int64_t view, low, high, first;
} Part;

/* A projector whose matrix is to be listed. */
typedef struct {
	Plan plan;
	int kernel;
	int64_t pixels;  /* of one view: row view * pixels + pixel of the matrix */
	int64_t longest; /* most entries a ray or a voxel meets; rays: after lister_count */
} Lister;

/* Takes `count` entries of a row; the indices of one row come in ascending order, in one or more
 * calls of the same thread. */
typedef void (*ListerPut)(
	void *user, int64_t row, int64_t count, const int64_t *index, const float *weight);

tomos_status lister_open(Lister *lister, const tomos_grid *grid, const tomos_geometry *scan,
	int kernel, const KernelModel *model);
void lister_close(Lister *lister);
/* Divides the views into parts, enough for all threads; `row` counts the rows of the parts. */
tomos_status lister_parts(const Lister *lister, Part **parts, int64_t *count);
/* counts[row] = entries of each row of the parts. */
tomos_status lister_count(Lister *lister, const Part *parts, int64_t count, int64_t *counts);
tomos_status lister_fill(
	const Lister *lister, const Part *parts, int64_t count, ListerPut put, void *user);
void plan_shapes(const Plan *plan, int64_t domain[3], int64_t range[3]);

/* An entry to the power 0, 1 (`plain`) or 2; power 0: 1 for an entry, 0 for padding. */
static inline __attribute__((always_inline)) float raised(float value, const int plain, int power)
{
	if (plain)
		return value;
	return power == 2 ? value * value : value != 0 ? 1 : 0;
}

/* ---- arrays in device memory --------------------------------------------------------------- */

/* Copies `count` elements of `size` bytes, a multiple of 4, to device memory; device_free sets the
 * pointer to NULL and accepts NULL. */
tomos_status device_send(tomos_backend *backend, void *device_out, const void *host, int64_t count,
	size_t size, const char *what);
tomos_status device_reserve(
	tomos_backend *backend, void *device_out, int64_t floats, const char *what);
void device_free(tomos_backend *backend, void *device_in_out);

/* ---- compressed rows ------------------------------------------------------------------------- */

/* Owns its arrays; indices ascend in every row. */
typedef struct {
	int64_t rows, columns, count;
	int pointer_bytes, index_bytes; /* 4 or 8 */
	void *pointers;                 /* rows + 1 */
	void *indices;
	float *values;
} Csr;

/* Entry i of an array of 4- or 8-byte integers; `bytes` is a literal in fast code. */
static inline int64_t csr_at(const void *array, int bytes, int64_t i)
{
	return bytes == 4 ? ((const int32_t *)array)[i] : ((const int64_t *)array)[i];
}

void csr_free(Csr *csr);
int64_t csr_longest(const Csr *csr); /* entries of the longest row */
Entries csr_entries(const Csr *csr);
int64_t csr_bytes(const Csr *csr);
/* Takes ownership of the arrays, also on failure; `what` describes their origin. */
tomos_status csr_op(tomos_op **op, tomos_backend *backend, const int64_t domain[3],
	const int64_t range[3], Csr *csr, const char *what);
tomos_status csr_make(tomos_op **op, tomos_backend *backend, Lister *lister);

/* ---- symmetric compressed rows --------------------------------------------------------------- */

tomos_status scsr_make(tomos_op **op, tomos_backend *backend, Lister *lister);
/* -1: the operator is of another kind. */
int64_t scsr_op_bytes(const tomos_op *op);

#endif
