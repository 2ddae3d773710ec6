/* Custom and composite operators compared with small dense matrices. */
#include "op/op.h" /* first: cmocka makes a macro of fail() */
#include "ops/opened.h"

enum { M = 6, N = 4 };

/* A dense matrix whose products count how often they were called. */
typedef struct {
	float entries[M][N];
	int forward, adjoint, answer;
} Dense;

static void multiply(const Dense *d, bool transposed, const float *in, float *out)
{
	for (int i = 0; i < (transposed ? N : M); i++) {
		out[i] = 0;
		for (int k = 0; k < (transposed ? M : N); k++)
			out[i] += (transposed ? d->entries[k][i] : d->entries[i][k]) * in[k];
	}
}

static int dense_forward(void *user, const tomos_array *in, const tomos_array *out)
{
	Dense *d = user;
	assert_int_equal(in->shape[1] * in->shape[2], N);
	assert_int_equal(in->device, 0);
	d->forward++;
	multiply(d, false, in->data, out->data);
	return d->answer;
}

static int dense_adjoint(void *user, const tomos_array *in, const tomos_array *out)
{
	Dense *d = user;
	d->adjoint++;
	multiply(d, true, in->data, out->data);
	return d->answer;
}

static const int64_t domain[3] = {1, 2, 2}, range[3] = {3, 1, 2};

static Dense dense_make(int seed, float low)
{
	Dense d = {.answer = 0};
	for (int r = 0; r < M; r++)
		for (int c = 0; c < N; c++)
			d.entries[r][c] = low + (float)((r * 7 + c * 3 + seed * 5) % 11) / 5;
	return d;
}

static tomos_op *custom(Dense *d)
{
	tomos_op *op;
	OK(tomos_op_custom(&op, backend, domain, range,
		&(tomos_custom){
			sizeof(tomos_custom), dense_forward, dense_adjoint, d, "a dense matrix"}));
	return op;
}

/* y = op x through the public function, which takes host arrays on any backend. */
static void apply(const tomos_op *op, bool back, const float *in, float *out)
{
	int64_t from[3], to[3];
	tomos_op_domain(op, back ? to : from);
	tomos_op_range(op, back ? from : to);
	tomos_array x = tomos_array_of((float *)(uintptr_t)in, from[0], from[1], from[2]);
	tomos_array y = tomos_array_of(out, to[0], to[1], to[2]);
	OK((back ? tomos_op_adjoint : tomos_op_forward)(op, &x, &y));
}

static void near(const float *a, const double *b, int n)
{
	for (int i = 0; i < n; i++)
		assert_true(fabs(a[i] - b[i]) < 1e-4);
}

static const float some[M] = {1, -2, 0.5F, 3, -1, 0.25F};

/* The entries of an operator, column by column, and of its adjoint, row by row: both must agree. */
static void has_entries(const tomos_op *op, int rows, int columns, const double *entries)
{
	float unit[M], out[M];
	double expected[M];
	assert_true(op->domain.count == columns && op->range.count == rows);
	for (int c = 0; c < columns; c++) {
		memset(unit, 0, sizeof unit);
		unit[c] = 1;
		apply(op, false, unit, out);
		for (int r = 0; r < rows; r++)
			expected[r] = entries[r * columns + c];
		near(out, expected, rows);
	}
	for (int r = 0; r < rows; r++) {
		memset(unit, 0, sizeof unit);
		unit[r] = 1;
		apply(op, true, unit, out);
		near(out, entries + (ptrdiff_t)r * columns, columns);
	}
}

static void own_functions(void **state)
{
	(void)state;
	Dense d = dense_make(1, 0);
	tomos_op *A = custom(&d);
	double entries[M * N];
	for (int i = 0; i < M * N; i++)
		entries[i] = d.entries[i / N][i % N];
	has_entries(A, M, N, entries);
	assert_int_equal(d.forward, N);
	assert_int_equal(d.adjoint, M);
	assert_string_equal(tomos_op_describe(A), "a dense matrix");
	tomos_op_free(A);
}

static void sums_products_and_transposes(void **state)
{
	(void)state;
	Dense d = dense_make(1, 0), e = dense_make(2, -1);
	tomos_op *A = custom(&d), *B = custom(&e), *op, *T;
	double entries[M * M] = {0};
	OK(tomos_op_sum(&op, 2, A, -3, B));
	for (int i = 0; i < M * N; i++)
		entries[i] = 2.0 * d.entries[i / N][i % N] - 3.0 * e.entries[i / N][i % N];
	has_entries(op, M, N, entries);
	tomos_op_free(op);
	OK(tomos_op_sum(&op, -0.5, A, 1, NULL));
	for (int i = 0; i < M * N; i++)
		entries[i] = -0.5 * d.entries[i / N][i % N];
	has_entries(op, M, N, entries);
	tomos_op_free(op);
	OK(tomos_op_transpose(&T, B));
	for (int i = 0; i < M * N; i++)
		entries[i] = e.entries[i % M][i / M];
	has_entries(T, N, M, entries);
	OK(tomos_op_product(&op, A, T));
	for (int i = 0; i < M * M; i++) {
		entries[i] = 0;
		for (int c = 0; c < N; c++)
			entries[i] += (double)d.entries[i / M][c] * e.entries[i % M][c];
	}
	has_entries(op, M, M, entries);
	tomos_op_free(op);
	tomos_op_free(T);
	tomos_op_free(A);
	tomos_op_free(B);
}

/* ---- methods --------------------------------------------------------------------------------- */

static tomos_op *matrix_of(const Dense *d)
{
	int32_t pointers[M + 1], indices[M * N];
	for (int r = 0; r <= M; r++)
		pointers[r] = r * N;
	for (int i = 0; i < M * N; i++)
		indices[i] = i % N;
	tomos_op *op;
	OK(tomos_op_matrix_arrays(&op, backend,
		&(tomos_matrix){
			sizeof(tomos_matrix), M, N, M * N, 4, 4, pointers, indices, d->entries[0]},
		domain, range));
	return op;
}

static tomos_status solve(const tomos_op *A, const char *method, float *x)
{
	tomos_algebraic_options o = tomos_algebraic_defaults();
	tomos_array b = tomos_array_of((float *)(uintptr_t)some, 3, 1, 2);
	tomos_array result = tomos_array_of(x, 1, 2, 2);
	o.iterations = 3;
	if (strcmp(method, "asd-pocs") == 0)
		o.noise_level = 0.1;
	if (tomos_method_uses(method, "norm")) /* estimates are rough, and start in two ways */
		OK(tomos_op_norm(A, &o.norm, NULL));
	return tomos_reconstruct(A, method, &b, &result, &o, NULL);
}

/* What needs forward and adjoint alone gives the same as with a stored matrix. */
static void methods_take_them(void **state)
{
	(void)state;
	static const char *const methods[] = {
		"sirt", "cgls", "lsqr", "lsmr", "mlem", "fista", "pdhg"};
	Dense d = dense_make(1, 0);
	tomos_op *A = custom(&d), *B = matrix_of(&d), *half, *C;
	OK(tomos_op_sum(&half, 0.5, A, 0, NULL));
	OK(tomos_op_sum(&C, 1, half, 0.5, B));
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		float x[N] = {0}, y[N] = {0}, z[N] = {0};
		OK(solve(B, methods[i], x));
		OK(solve(A, methods[i], y));
		OK(solve(C, methods[i], z));
		near(y, (const double[]){x[0], x[1], x[2], x[3]}, N);
		near(z, (const double[]){x[0], x[1], x[2], x[3]}, N);
	}
	tomos_op_free(C);
	tomos_op_free(half);
	tomos_op_free(A);
	tomos_op_free(B);
}

static void what_they_cannot(void **state)
{
	(void)state;
	Dense d = dense_make(1, 0), e = dense_make(1, -3);
	float x[N] = {0};
	tomos_op *A = custom(&d), *negative = custom(&e), *B = matrix_of(&e), *minus;
	REJECTED(solve(A, "art", x), TOMOS_UNSUPPORTED, "(a dense matrix) cannot give single rows");
	REJECTED(solve(A, "sart", x), TOMOS_UNSUPPORTED, "cannot be split into blocks of views");
	REJECTED(solve(A, "osem", x), TOMOS_UNSUPPORTED, "cannot be split into blocks of views");
	REJECTED(solve(negative, "sirt", x), TOMOS_UNSUPPORTED,
		"has a row or column whose sum is -");
	REJECTED(
		solve(negative, "mlem", x), TOMOS_UNSUPPORTED, "mlem needs entries of 0 and above");
	REJECTED(solve(B, "sirt", x), TOMOS_UNSUPPORTED,
		"has negative entries; weights 'sirt' needs");
	OK(tomos_op_sum(&minus, -1, A, 0, NULL));
	REJECTED(solve(minus, "sirt", x), TOMOS_UNSUPPORTED, "needs entries of 0 and above");
	OK(solve(negative, "cgls", x));
	d.answer = 7;
	REJECTED(solve(A, "cgls", x), TOMOS_CALLBACK_FAILED,
		"the forward function of the operator (a dense matrix) failed: it returned 7");
	tomos_op_free(minus);
	tomos_op_free(B);
	tomos_op_free(negative);
	tomos_op_free(A);
}

/* The norm of an operator that takes a constant volume to zero. */
static void norms(void **state)
{
	(void)state;
	Dense d = {.entries = {{3, -3, 0, 0}, {0, 0, 2, -2}}};
	double norm;
	tomos_op *A = custom(&d);
	OK(tomos_op_norm(A, &norm, NULL));
	assert_true(fabs(norm - 3 * sqrt(2)) < 1e-3 * norm);
	tomos_op_free(A);
}

static void rejections(void **state)
{
	(void)state;
	Dense d = dense_make(1, 0);
	const tomos_custom calls = {sizeof calls, dense_forward, NULL, &d, NULL};
	tomos_op *A = custom(&d), *T, *op;
	OK(tomos_op_transpose(&T, A));
	REJECTED(tomos_op_custom(&op, backend, domain, range, &calls), TOMOS_BAD_VALUE,
		"functions for forward and adjoint");
	REJECTED(tomos_op_sum(&op, 1, A, 1, T), TOMOS_BAD_VALUE,
		"a sum of operators of 6 x 4 and 4 x 6");
	REJECTED(tomos_op_product(&op, A, A), TOMOS_BAD_VALUE,
		"a product of operators of 6 x 4 and 6 x 4: the inner sizes");
	REJECTED(tomos_op_sum(&op, NAN, A, 1, NULL), TOMOS_BAD_VALUE, "an operator times nan");
	REJECTED(tomos_op_sum(&op, 1, A, 1e39, A), TOMOS_BAD_VALUE, "times 1e+39");
	REJECTED(tomos_op_sum(&op, 1, NULL, 1, A), TOMOS_BAD_VALUE, "at least one");
	REJECTED(tomos_op_product(&op, A, NULL), TOMOS_BAD_VALUE, "needs two");
	REJECTED(tomos_op_transpose(&op, NULL), TOMOS_BAD_VALUE, "needs an operator");
	tomos_op_free(T);
	tomos_op_free(A);
}

static void bad_arrays(void **state)
{
	(void)state;
	int32_t pointers[] = {0, 1, 2}, indices[] = {1, 4}, back[] = {0, 2, 1};
	float values[] = {1, 2};
	const int64_t two[3] = {2, 1, 1};
	tomos_matrix m = {sizeof m, 2, N, 2, 4, 4, pointers, indices, values};
	tomos_op *op;
	REJECTED(tomos_op_matrix_arrays(&op, backend, &m, domain, two), TOMOS_BAD_VALUE,
		"entry 1 is in column 4 of 4");
	indices[1] = 0;
	REJECTED(tomos_op_matrix_arrays(&op, backend, &m, domain, range), TOMOS_BAD_VALUE,
		"has 2 rows; 3 x 1 x 2 are 6");
	m.pointers = back;
	REJECTED(tomos_op_matrix_arrays(&op, backend, &m, domain, two), TOMOS_BAD_VALUE,
		"row 1 ends at entry 1; it began at 2");
	m.pointers = pointers;
	m.index_bytes = 2;
	REJECTED(tomos_op_matrix_arrays(&op, backend, &m, domain, two), TOMOS_BAD_VALUE,
		"both must have 4 or 8");
	m.index_bytes = 4;
	values[0] = INFINITY;
	REJECTED(tomos_op_matrix_arrays(&op, backend, &m, domain, two), TOMOS_BAD_VALUE,
		"entry 0 is not finite");
}

static void allocations_fail(void **state)
{
	(void)state;
	Dense d = dense_make(1, 0);
	float x[N], y[N];
	tomos_op *A = custom(&d), *T, *sum, *op;
	OK(tomos_op_transpose(&T, A));
	OK(tomos_op_sum(&sum, 1, T, 1, T));
	OK(tomos_op_product(&op, sum, A));
	tomos_array in = tomos_array_of(x, 1, 2, 2), out = tomos_array_of(y, 1, 2, 2);
	memcpy(x, some, sizeof x);
	tomos_status status = TOMOS_NO_MEMORY;
	int n = 0;
	while (status != TOMOS_OK) {
		int64_t before = mem_live();
		mem_fail_nth(++n);
		status = tomos_op_forward(op, &in, &out);
		mem_fail_nth(0);
		assert_int_equal(mem_live(), before);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
	}
	assert_true(!test_repeats() || n > 2);
	tomos_op_free(op);
	tomos_op_free(sum);
	tomos_op_free(T);
	tomos_op_free(A);
}

/* A point becomes (1, 4, 6, 4, 1) / 16 along each axis; the adjoint is exact. */
static void smoothing(void **state)
{
	static const float weights[7] = {0, 1, 4, 6, 4, 1, 0};
	enum { SLICES = 5, ROWS = 6, COLUMNS = 7, VOXELS = SLICES * ROWS * COLUMNS };
	Space space = {backend, {SLICES, ROWS, COLUMNS}, VOXELS, NULL};
	float x[VOXELS] = {0}, y[VOXELS], back[VOXELS];
	tomos_op *op;
	(void)state;
	OK(op_smooth(&op, &space));
	const tomos_array in = tomos_array_of(x, SLICES, ROWS, COLUMNS),
			  out = tomos_array_of(y, SLICES, ROWS, COLUMNS);
	x[(2 * ROWS + 2) * COLUMNS + 3] = 4096;
	OK(tomos_op_forward(op, &in, &out));
	for (int i = 0; i < VOXELS; i++) {
		int k = i / (ROWS * COLUMNS), j = i / COLUMNS % ROWS, c = i % COLUMNS;
		assert_true(y[i] == weights[k + 1] * weights[j + 1] * weights[c]);
	}
	double sums[2] = {0};
	for (int i = 0; i < VOXELS; i++)
		x[i] = (float)(i * i % 13);
	OK(tomos_op_forward(op, &in, &out));
	for (int i = 0; i < VOXELS; i++)
		sums[0] += (double)(y[i] * (float)(i % 5));
	memcpy(back, x, sizeof x);
	for (int i = 0; i < VOXELS; i++)
		x[i] = (float)(i % 5);
	OK(tomos_op_adjoint(op, &in, &out));
	for (int i = 0; i < VOXELS; i++)
		sums[1] += (double)(y[i] * back[i]);
	assert_true(fabs(sums[0] / sums[1] - 1) < 1e-5);
	tomos_op_free(op);
}

#define TESTS(T) \
	T(own_functions), T(smoothing), T(sums_products_and_transposes), T(methods_take_them), \
		T(what_they_cannot), T(norms), T(rejections), T(bad_arrays), T(allocations_fail)
TEST_MAIN(TESTS, open_backend, close_backend)
