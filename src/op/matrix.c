/* The matrix of a projector in compressed rows (CSR). Two passes over the projector: one counts the
 * entries of each row, one stores them.
 *
 * The forward product sums row by row. The adjoint needs no transposed matrix: the rows are divided
 * into shares, each share is summed into its own image, and the images are added. The number of
 * shares depends on the matrix only, so that results do not depend on the number of threads.
 */
#include <stdio.h>
#include <string.h>
#include "op/matrix.h"

OPTION_VALUES(matrix_values, TOMOS_MATRIX_OPTIONS);

enum {
	ROWS_PER_TASK = 256,
	COLUMNS_PER_TASK = 4096,
	FEW_SHARES = 8,   /* if an image is not larger than the entries of a share */
	MOST_SHARES = 64, /* if all images are at most 1/32 of the entries */
};

#define INLINE static inline __attribute__((always_inline))

typedef struct {
	Csr own;
	const Csr *csr; /* its own, or that of the operator it is a part of */
	int64_t rows, view_rows;
	int64_t *views;   /* of a part; NULL: all */
	KernelCsr device; /* arrays in device memory, if the backend has products */
} Matrix;

/* ---- products ------------------------------------------------------------------------------- */

typedef struct {
	const Matrix *matrix;
	int power;
	const float *in;
	float *out;
	float *images; /* adjoint: of all shares but the first, whose image is `out` */
	int64_t shares;
} Product;

/* Row of the whole matrix that is row r of the part. */
static int64_t row_of(const Matrix *m, int64_t r)
{
	return m->views ? m->views[r / m->view_rows] * m->view_rows + r % m->view_rows : r;
}

/* Product of a row with x; four independent sums, so that additions overlap. */
INLINE double row_sum(
	const Product *p, const int bytes, const int plain, int64_t begin, int64_t end)
{
	const Csr *csr = p->matrix->csr;
	double sum[4] = {0};
	int64_t i = begin;
	for (; i + 4 <= end; i += 4)
		for (int k = 0; k < 4; k++)
			sum[k] += (double)raised(csr->values[i + k], plain, p->power) *
				  p->in[csr_at(csr->indices, bytes, i + k)];
	for (; i < end; i++)
		sum[0] += (double)raised(csr->values[i], plain, p->power) *
			  p->in[csr_at(csr->indices, bytes, i)];
	return sum[0] + sum[1] + (sum[2] + sum[3]);
}

static void forward_rows(void *user, int64_t task)
{
	const Product *p = user;
	const Csr *csr = p->matrix->csr;
	int64_t end = min64((task + 1) * ROWS_PER_TASK, p->matrix->rows);
	for (int64_t r = task * ROWS_PER_TASK; r < end; r++) {
		int64_t row = row_of(p->matrix, r);
		int64_t low = csr_at(csr->pointers, csr->pointer_bytes, row);
		int64_t high = csr_at(csr->pointers, csr->pointer_bytes, row + 1);
		p->out[r] = (float)(p->power != 1 ? row_sum(p, csr->index_bytes, 0, low, high)
				    : csr->index_bytes == 4 ? row_sum(p, 4, 1, low, high)
							    : row_sum(p, 8, 1, low, high));
	}
}

static int64_t row_tasks(int64_t rows)
{
	return (rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
}

/* Whether the matrix is stored in device memory. */
static bool on_device(const tomos_op *op)
{
	return op->domain.backend->type->matrix != NULL;
}

INLINE void row_spread(const Product *p, const int bytes, const int plain, int64_t begin,
	int64_t end, float value, float *image)
{
	const Csr *csr = p->matrix->csr;
	for (int64_t i = begin; i < end; i++)
		image[csr_at(csr->indices, bytes, i)] +=
			raised(csr->values[i], plain, p->power) * value;
}

static void adjoint_share(void *user, int64_t share)
{
	const Product *p = user;
	const Matrix *m = p->matrix;
	const Csr *csr = m->csr;
	float *image = share ? p->images + (share - 1) * csr->columns : p->out;
	int64_t end = m->rows * (share + 1) / p->shares;
	memset(image, 0, (size_t)csr->columns * sizeof *image);
	for (int64_t r = m->rows * share / p->shares; r < end; r++) {
		int64_t row = row_of(m, r);
		int64_t low = csr_at(csr->pointers, csr->pointer_bytes, row);
		int64_t high = csr_at(csr->pointers, csr->pointer_bytes, row + 1);
		if (p->power != 1)
			row_spread(p, csr->index_bytes, 0, low, high, p->in[r], image);
		else if (csr->index_bytes == 4)
			row_spread(p, 4, 1, low, high, p->in[r], image);
		else
			row_spread(p, 8, 1, low, high, p->in[r], image);
	}
}

static void add_images(void *user, int64_t task)
{
	const Product *p = user;
	int64_t columns = p->matrix->csr->columns, first = task * COLUMNS_PER_TASK;
	int64_t end = min64(first + COLUMNS_PER_TASK, columns);
	for (int64_t share = 1; share < p->shares; share++) {
		const float *image = p->images + (share - 1) * columns;
		for (int64_t i = first; i < end; i++)
			p->out[i] += image[i];
	}
}

/* More shares if they take little time and memory. */
static int64_t shares_of(const Matrix *m)
{
	int64_t entries = m->csr->count / m->csr->rows * m->rows, each = entries / m->csr->columns;
	return max64(1, max64(min64(each, FEW_SHARES), min64(each / 32, MOST_SHARES)));
}

static tomos_status adjoint(Product *p)
{
	int64_t columns = p->matrix->csr->columns;
	p->shares = shares_of(p->matrix);
	if (p->shares > 1)
		TRY(mem_alloc(&p->images, (p->shares - 1) * columns, sizeof *p->images,
			"the images of a matrix"));
	parallel_for(p->shares, adjoint_share, p);
	if (p->shares > 1)
		parallel_for((columns + COLUMNS_PER_TASK - 1) / COLUMNS_PER_TASK, add_images, p);
	mem_free(p->images);
	return TOMOS_OK;
}

static tomos_status matrix_apply(
	const tomos_op *op, Direction direction, int power, const float *in, float *out)
{
	const Matrix *m = op->own;
	tomos_backend *backend = op->domain.backend;
	Product p = {.matrix = m, .power = power, .in = in, .out = out};
	if (on_device(op))
		return backend->type->matrix->csr_apply(
			backend, &m->device, direction, power, in, out);
	if (direction == ADJOINT)
		return adjoint(&p);
	parallel_for(row_tasks(m->rows), forward_rows, &p);
	return TOMOS_OK;
}

static tomos_status matrix_row(
	const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count)
{
	const Matrix *m = op->own;
	const Csr *csr = m->csr;
	int64_t row = row_of(m, i), low = csr_at(csr->pointers, csr->pointer_bytes, row);
	*count = csr_at(csr->pointers, csr->pointer_bytes, row + 1) - low;
	for (int64_t k = 0; k < *count; k++)
		index[k] = csr_at(csr->indices, csr->index_bytes, low + k);
	memcpy(weight, csr->values + low, (size_t)*count * sizeof *weight);
	return TOMOS_OK;
}

static tomos_status matrix_list(const tomos_op *op, const KernelBatch *batch)
{
	const Matrix *m = op->own;
	tomos_backend *backend = op->domain.backend;
	return backend->type->matrix->csr_list_rows(backend, &m->device, batch);
}

static void matrix_free(tomos_op *op)
{
	Matrix *m = op->own;
	tomos_backend *backend = op->domain.backend;
	mem_free(m->views);
	device_free(backend, &m->device.views);
	if (m->csr != &m->own)
		return;
	device_free(backend, &m->device.pointers);
	device_free(backend, &m->device.indices);
	device_free(backend, &m->device.values);
	csr_free(&m->own);
}

/* A subset of views borrows the arrays of the whole operator. */
static tomos_status matrix_part(
	tomos_op *part, const tomos_op *op, const int64_t *views, int64_t count)
{
	const Matrix *whole = op->own;
	Matrix *m = part->own;
	*m = *whole;
	m->views = NULL;
	m->device.views = NULL;
	m->rows = m->device.rows = count * m->view_rows;
	TRY(mem_alloc(&m->views, count, sizeof *m->views, "views of a matrix"));
	for (int64_t i = 0; i < count; i++)
		m->views[i] = whole->views ? whole->views[views[i]] : views[i];
	return on_device(part) ? device_send(part->domain.backend, &m->device.views, m->views,
					 count, sizeof *m->views, "views of a matrix")
			       : TOMOS_OK;
}

static const OpType matrix_type = {.apply = matrix_apply,
	.free = matrix_free,
	.part = matrix_part,
	.row = matrix_row,
	.list = matrix_list};

/* ---- construction ---------------------------------------------------------------------------- */

static tomos_status send_arrays(tomos_backend *backend, Matrix *m)
{
	const Csr *csr = m->csr;
	KernelCsr *device = &m->device;
	*device = (KernelCsr){.rows = csr->rows,
		.columns = csr->columns,
		.view_rows = m->view_rows,
		.wide_pointers = csr->pointer_bytes == 8,
		.wide_indices = csr->index_bytes == 8};
	TRY(device_send(backend, &device->pointers, csr->pointers, csr->rows + 1,
		(size_t)csr->pointer_bytes, "the rows of a matrix"));
	TRY(device_send(backend, &device->indices, csr->indices, csr->count,
		(size_t)csr->index_bytes, "the column indices of a matrix"));
	return device_send(backend, &device->values, csr->values, csr->count, sizeof *csr->values,
		"the values of a matrix");
}

tomos_status csr_op(tomos_op **op, tomos_backend *backend, const int64_t domain[3],
	const int64_t range[3], Csr *csr, const char *what)
{
	tomos_op *made = NULL;
	tomos_status status;
	*op = NULL;
	TRY_OR_DONE(op_make(&made, &matrix_type, backend, domain, range, sizeof(Matrix)));
	Matrix *m = made->own;
	*m = (Matrix){.own = *csr, .rows = csr->rows, .view_rows = range[1] * range[2]};
	m->csr = &m->own;
	*csr = (Csr){0};
	if (on_device(made))
		TRY_OR_DONE(send_arrays(backend, m));
	made->matched = true;
	made->entries = csr_entries(m->csr);
	made->row_most = max64(csr_longest(m->csr), 1);
	snprintf(made->description, sizeof made->description,
		"%.60s as CSR: %lld entries in %.1f MB", what, (long long)m->csr->count,
		1e-6 * (double)csr_bytes(m->csr));
done:
	csr_free(csr);
	return op_finish(op, made, status);
}

/* ---- building -------------------------------------------------------------------------------- */

/* While rows are filled, row r begins at pointers[r + 1]; afterwards at pointers[r]. */
typedef struct {
	Csr *csr;
	int64_t *pointers;
} Filling;

static void put_entries(
	void *user, int64_t row, int64_t count, const int64_t *index, const float *weight)
{
	const Filling *f = user;
	int64_t at = f->pointers[row + 1];
	f->pointers[row + 1] = at + count;
	memcpy(f->csr->values + at, weight, (size_t)count * sizeof *weight);
	if (f->csr->index_bytes == 8) {
		memcpy((int64_t *)f->csr->indices + at, index, (size_t)count * sizeof *index);
		return;
	}
	for (int64_t i = 0; i < count; i++)
		((int32_t *)f->csr->indices)[at + i] = (int32_t)index[i];
}

static tomos_status sum_counts(int64_t *pointers, int64_t rows, int64_t *count)
{
	int64_t sum = 0;
	for (int64_t r = 0; r < rows; r++) {
		int64_t length = pointers[r + 1];
		pointers[r + 1] = sum;
		if (!size_add(sum, length, &sum))
			return fail(TOMOS_BAD_VALUE, "a matrix of more than 2^63 entries");
	}
	*count = sum;
	return TOMOS_OK;
}

/* Takes ownership of `pointers`; stored in 4 bytes each if that is enough. */
static tomos_status narrow_pointers(Csr *csr, int64_t **pointers)
{
	csr->pointer_bytes = csr->count <= INT32_MAX ? 4 : 8;
	if (csr->pointer_bytes == 8) {
		csr->pointers = *pointers;
		*pointers = NULL;
		return TOMOS_OK;
	}
	int32_t *narrow;
	TRY(mem_alloc(&narrow, csr->rows + 1, sizeof *narrow, "the rows of a matrix"));
	for (int64_t r = 0; r <= csr->rows; r++)
		narrow[r] = (int32_t)(*pointers)[r];
	csr->pointers = narrow;
	return TOMOS_OK;
}

static tomos_status csr_build(Csr *csr, Lister *lister)
{
	Part *parts = NULL;
	int64_t *pointers = NULL, count;
	tomos_status status;
	TRY_OR_DONE(lister_parts(lister, &parts, &count));
	TRY_OR_DONE(mem_alloc(&pointers, csr->rows + 1, sizeof *pointers, "the rows of a matrix"));
	pointers[0] = 0;
	TRY_OR_DONE(lister_count(lister, parts, count, pointers + 1));
	TRY_OR_DONE(sum_counts(pointers, csr->rows, &csr->count));
	csr->index_bytes = csr->columns - 1 <= INT32_MAX ? 4 : 8;
	TRY_OR_DONE(mem_alloc(&csr->indices, csr->count, (size_t)csr->index_bytes,
		"the column indices of a matrix"));
	TRY_OR_DONE(
		mem_alloc(&csr->values, csr->count, sizeof *csr->values, "the values of a matrix"));
	TRY_OR_DONE(lister_fill(lister, parts, count, put_entries, &(Filling){csr, pointers}));
	TRY_OR_DONE(narrow_pointers(csr, &pointers));
done:
	mem_free(parts);
	mem_free(pointers);
	if (status != TOMOS_OK)
		csr_free(csr);
	return status;
}

void plan_shapes(const Plan *plan, int64_t domain[3], int64_t range[3])
{
	for (int a = 0; a < 3; a++)
		domain[a] = plan->grid.n[2 - a];
	range[0] = plan->scan->count;
	range[1] = plan->scan->rows;
	range[2] = plan->scan->columns;
}

tomos_status csr_make(tomos_op **op, tomos_backend *backend, Lister *lister)
{
	int64_t domain[3], range[3];
	Csr csr = {0};
	*op = NULL;
	plan_shapes(&lister->plan, domain, range);
	TRY(shape_count(domain, &csr.columns));
	TRY(shape_count(range, &csr.rows));
	TRY(csr_build(&csr, lister));
	return csr_op(op, backend, domain, range, &csr, kernel_rows[lister->kernel].name);
}

static tomos_status choose_kernel(
	const tomos_projector_options *options, int *kernel, KernelModel *model)
{
	tomos_projector_options o = tomos_projector_defaults();
	int back;
	TRY(options_take(&o, options, "projector"));
	TRY(projector_choose(&o, kernel, &back, model));
	TRY(options_need("projector", &o, NULL));
	if (strcmp(kernel_rows[*kernel].weights, kernel_rows[back].weights) != 0)
		return fail(TOMOS_BAD_VALUE,
			"a stored matrix and its transpose are one: back projector '%s' is not the "
			"adjoint of '%s'",
			kernel_rows[back].name, kernel_rows[*kernel].name);
	return TOMOS_OK;
}

tomos_status tomos_op_matrix(tomos_op **op, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_projector_options *projector,
	const tomos_matrix_options *options)
{
	*op = NULL;
	if (!backend || !grid || !scan)
		return fail(TOMOS_BAD_VALUE, "a matrix needs a backend, a grid and a geometry");
	tomos_matrix_options o = tomos_matrix_defaults();
	TRY(options_take(&o, options, "matrix"));
	int kernel, storage;
	KernelModel model = {.weight = WEIGHT_RAY};
	TRY(choose_kernel(projector, &kernel, &model));
	TRY(choice_find("storage", matrix_values.storage, o.storage, &storage));
	Lister lister;
	TRY(lister_open(&lister, grid, scan, kernel, &model));
	tomos_status status = (storage == 0 ? csr_make : scsr_make)(op, backend, &lister);
	lister_close(&lister);
	if (status == TOMOS_OK)
		op_place(*op, grid, scan, &model);
	return status;
}

/* The operator's matrix if it is stored as CSR and whole, else NULL. */
static const Matrix *whole_csr(const tomos_op *op)
{
	const Matrix *m = op && op->type == &matrix_type ? op->own : NULL;
	return m && !m->views ? m : NULL;
}

tomos_status tomos_matrix_arrays(const tomos_op *op, tomos_matrix *arrays)
{
	const Matrix *m = whole_csr(op);
	if (!arrays)
		return fail(TOMOS_BAD_VALUE, "the pointer to the arrays of a matrix is missing");
	if (!m)
		return fail(TOMOS_BAD_VALUE, "the operator (%s) is not a matrix stored as CSR",
			op ? op->description : "none");
	const tomos_matrix found = {sizeof found, m->csr->rows, m->csr->columns, m->csr->count,
		m->csr->pointer_bytes, m->csr->index_bytes, m->csr->pointers, m->csr->indices,
		m->csr->values};
	return struct_give(arrays, &found, "tomos_matrix");
}

tomos_status tomos_matrix_bytes(const tomos_op *op, int64_t *bytes)
{
	const Matrix *m = whole_csr(op);
	*bytes = m ? csr_bytes(m->csr) : op ? scsr_op_bytes(op) : -1;
	if (*bytes < 0)
		return fail(TOMOS_BAD_VALUE, "the operator (%s) is not a stored matrix",
			op ? op->description : "none");
	return TOMOS_OK;
}
