/* Matrices in files: round trips, files cut short at every byte, wrong content, failing memory. */
#include "io/matrix_file.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[128], other[128];
static tomos_backend *backend;
static const char *const endings[] = {"mtx", "npz", "h5"};

static int set_up(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/tomos-matrix-%ld", (long)getpid());
	return mkdir(folder, 0700) != 0 || tomos_backend_open(&backend, "cpu") != TOMOS_OK;
}

static int tear_down(void **state)
{
	(void)state;
	tomos_backend_close(backend);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/a.%s", folder, endings[i]);
		(void)unlink(path);
		snprintf(path, sizeof path, "%s/b.%s", folder, endings[i]);
		(void)unlink(path);
	}
	return rmdir(folder);
}

static const char *name(const char *stem, int kind)
{
	char *to = *stem == 'a' ? path : other;
	snprintf(to, sizeof path, "%s/%s.%s", folder, stem, endings[kind]);
	return to;
}

static tomos_op *small_matrix(Case *c)
{
	tomos_op *op;
	OK(tomos_op_matrix(&op, backend, &c->grid, c->scan, NULL, NULL));
	return op;
}

static tomos_file_options overwriting(void)
{
	tomos_file_options o = tomos_file_defaults();
	o.overwrite = 1;
	return o;
}

static void store(const char *where, const void *bytes, size_t size)
{
	(void)unlink(where); /* some file systems wait for the disk where a file is overwritten */
	FILE *file = fopen(where, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static char *load(const char *where, size_t *size)
{
	FILE *file = fopen(where, "rb");
	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	char *bytes = malloc(*size + 1);
	assert_int_equal(fread(bytes, 1, *size, file), *size);
	fclose(file);
	return bytes;
}

static void same_arrays(const tomos_matrix *a, const tomos_matrix *b)
{
	assert_int_equal(a->rows, b->rows);
	assert_int_equal(a->columns, b->columns);
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->pointer_bytes, b->pointer_bytes);
	assert_memory_equal(a->pointers, b->pointers, (size_t)(a->rows + 1) * 4);
	assert_memory_equal(a->indices, b->indices, (size_t)a->count * 4);
	assert_memory_equal(a->values, b->values, (size_t)a->count * 4);
}

/* ---- round trips ----------------------------------------------------------------------------- */

static void round_trips(void **state)
{
	(void)state;
	tomos_file_options o = overwriting();
	for (int i = 0; i < 2 * CASE_KINDS; i++)
		for (int kind = 0; kind < 3; kind++) {
			Case c = case_make(i);
			tomos_op *op = small_matrix(&c), *read;
			int64_t domain[3], range[3];
			tomos_matrix a = {.bytes = sizeof a}, b = {.bytes = sizeof b};
			tomos_op_domain(op, domain);
			tomos_op_range(op, range);
			OK(tomos_matrix_write(op, name("a", kind), &o));
			OK(tomos_op_matrix_read(&read, backend, path, domain, range));
			OK(tomos_matrix_arrays(op, &a));
			OK(tomos_matrix_arrays(read, &b));
			same_arrays(&a, &b);
			float *x = case_data(&c, c.voxels), *f = case_data(&c, c.pixels);
			float *g = case_data(&c, c.pixels);
			tomos_array ax = case_volume(&c, x), af = case_projections(&c, f);
			tomos_array ag = case_projections(&c, g);
			OK(tomos_op_forward(op, &ax, &af));
			OK(tomos_op_forward(read, &ax, &ag));
			assert_memory_equal(f, g, (size_t)c.pixels * sizeof *f);
			assert_non_null(strstr(tomos_op_describe(read), "as CSR"));
			tomos_op_free(op), tomos_op_free(read);
			tomos_geometry_free(c.scan);
			free(x), free(f), free(g);
		}
}

/* Rows in any order, entries twice, comments, blank lines, symmetric and pattern. */
static void foreign_text(void **state)
{
	(void)state;
	static const char general[] =
		"%%MatrixMarket matrix coordinate real general\n% a comment\n\n"
		"2 3 4\n2 3 0.5\n1 2 -1e1\n\n2 1 2\r\n 2 1 3 \n";
	static const char symmetric[] =
		"%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n";
	tomos_matrix m = {.bytes = sizeof m};
	store(name("a", 0), general, sizeof general - 1);
	OK(matrix_read(path, &m));
	assert_int_equal(m.rows, 2);
	assert_int_equal(m.columns, 3);
	assert_memory_equal(m.pointers, ((int32_t[]){0, 1, 4}), 12);
	assert_memory_equal(m.indices, ((int32_t[]){1, 0, 0, 2}), 16);
	assert_float_equal(m.values[0], -10, 0);
	assert_float_equal(m.values[1] + m.values[2], 5, 0);
	assert_float_equal(m.values[3], 0.5, 0);
	matrix_release(&m);
	store(path, symmetric, sizeof symmetric - 1);
	OK(matrix_read(path, &m));
	assert_memory_equal(m.pointers, ((int32_t[]){0, 2, 3}), 12);
	assert_memory_equal(m.indices, ((int32_t[]){0, 1, 0}), 12);
	matrix_release(&m);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void cut_short(void **state)
{
	(void)state;
	tomos_grid grid;
	tomos_geometry *scan;
	double angles[2] = {0.2, 1};
	tomos_op *op;
	tomos_file_options o = overwriting();
	OK(tomos_grid_centred(&grid, 3, 3, 1, 1));
	OK(tomos_geometry_parallel(&scan, 1, 4, 1, angles, 2));
	OK(tomos_op_matrix(&op, backend, &grid, scan, NULL, NULL));
	for (int kind = 0; kind < 3; kind++) {
		size_t size;
		OK(tomos_matrix_write(op, name("a", kind), &o));
		char *bytes = load(path, &size);
		int64_t before = mem_live();
		size_t step = kind == 2 && CASE_SLOW ? 17 : 1;
		for (size_t cut = 0; cut < size; cut += step) {
			tomos_matrix m = {.bytes = sizeof m};
			store(name("b", kind), bytes, cut);
			tomos_status status = matrix_read(other, &m);
			if (status != TOMOS_BAD_FILE && status != TOMOS_UNSUPPORTED)
				fail_msg("%s cut to %d of %d bytes: %s", endings[kind], (int)cut,
					(int)size, tomos_status_name(status));
			assert_non_null(strstr(tomos_message(), "b."));
		}
		assert_int_equal(mem_live(), before);
		free(bytes);
	}
	tomos_op_free(op);
	tomos_geometry_free(scan);
}

/* Any bit may be wrong: it is rejected or read, but nothing else happens. */
static void bits_flipped(void **state)
{
	(void)state;
	Case c = case_make(1);
	tomos_op *op = small_matrix(&c);
	tomos_file_options o = overwriting();
	for (int kind = 0; kind < 2; kind++) {
		size_t size;
		OK(tomos_matrix_write(op, name("a", kind), &o));
		char *bytes = load(path, &size);
		int64_t before = mem_live();
		for (int i = 0; i < (CASE_SLOW ? 200 : 1000); i++) {
			size_t at = (size_t)(case_random(&c) * (double)size);
			char bit = (char)(1 << case_integer(&c, 0, 7));
			tomos_matrix m = {.bytes = sizeof m};
			bytes[at] ^= bit;
			store(name("b", kind), bytes, size);
			if (matrix_read(other, &m) == TOMOS_OK)
				matrix_release(&m);
			bytes[at] ^= bit;
		}
		assert_int_equal(mem_live(), before);
		free(bytes);
	}
	tomos_op_free(op);
	tomos_geometry_free(c.scan);
}

static void reject_text(const char *text, tomos_status status, const char *words)
{
	tomos_matrix m = {.bytes = sizeof m};
	store(name("a", 0), text, strlen(text));
	int64_t before = mem_live();
	REJECTED(matrix_read(path, &m), status, words);
	assert_int_equal(mem_live(), before);
}

#define REAL "%%MatrixMarket matrix coordinate real general\n"

static void wrong_text(void **state)
{
	(void)state;
	reject_text("hello\n", TOMOS_BAD_FILE, "is no matrix file");
	reject_text("%%MatrixMarket matrix array real general\n1 1\n1\n", TOMOS_UNSUPPORTED,
		"only 'matrix coordinate' can be read");
	reject_text("%%MatrixMarket matrix coordinate complex general\n1 1 0\n", TOMOS_UNSUPPORTED,
		"complex general; real, integer or pattern");
	reject_text("%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n", TOMOS_UNSUPPORTED,
		"real hermitian");
	reject_text(
		REAL "2 2\n", TOMOS_BAD_FILE, "line 2: the numbers of rows, columns and entries");
	reject_text(REAL "0 2 0\n", TOMOS_BAD_FILE, "rows, columns and entries");
	reject_text(REAL "233333333333331 3 1\n2 2 3\n", TOMOS_BAD_FILE,
		"claims 233333333333331 rows in a file of 72 bytes");
	reject_text(REAL "2 2 99999999\n", TOMOS_BAD_FILE, "than the file has room for");
	reject_text(REAL "2 2 1\n3 1 1\n", TOMOS_BAD_FILE,
		"line 3: a row and a column inside the matrix");
	reject_text(REAL "2 2 1\n1 -1 1\n", TOMOS_BAD_FILE, "a row and a column inside");
	reject_text(REAL "2 2 1\n1 1 x\n", TOMOS_BAD_FILE, "a value was expected");
	reject_text(REAL "2 2 1\n1 1 nan\n", TOMOS_BAD_FILE, "is not finite");
	reject_text(REAL "2 2 2\n1 1 1\n", TOMOS_BAD_FILE, "ends before its last entry");
	reject_text(
		REAL "2 2 1\n1 1 1\n2 2 2\n", TOMOS_BAD_FILE, "more than the number of entries");
	reject_text(REAL "2 2 1\n1 1 1", TOMOS_BAD_FILE, "cut short");
	reject_text("%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 3 1\n",
		TOMOS_BAD_FILE, "must be square");
}

/* Lists that make no matrix, through npz. */
static void wrong_lists(void **state)
{
	(void)state;
	int32_t indices[3] = {0, 1, 1}, pointers[3] = {0, 1, 3};
	int64_t shape[2] = {2, 2};
	float values[3] = {1, 2, 3};
	NamedList good[5] = {{"data", {'f', 4, false}, 3, values},
		{"indices", {'i', 4, false}, 3, indices}, {"indptr", {'i', 4, false}, 3, pointers},
		{"shape", {'i', 8, false}, 2, shape}, {"format", {'S', 3, false}, -1, "csr"}};
	tomos_matrix m = {.bytes = sizeof m};
#define TRY_LISTS(count, status, words) \
	(void)unlink(name("a", 1)); \
	OK(npz_write(path, path, lists, count)); \
	REJECTED(matrix_read(path, &m), status, words)
	NamedList lists[5];
#define FRESH memcpy(lists, good, sizeof lists)
	FRESH;
	(void)unlink(name("a", 1));
	OK(npz_write(path, path, lists, 5));
	OK(matrix_read(path, &m));
	assert_memory_equal(m.indices, indices, sizeof indices);
	matrix_release(&m);
	lists[4].data = "csc";
	TRY_LISTS(5, TOMOS_UNSUPPORTED, "the format 'csc'; only csr can be read");
	FRESH;
	TRY_LISTS(3, TOMOS_BAD_FILE, "has no 'shape': it is not a matrix in CSR");
	lists[1].element.kind = 'f';
	TRY_LISTS(5, TOMOS_UNSUPPORTED, "'indices' must be integers of 4 or 8 bytes");
	FRESH;
	lists[0].count = 2;
	TRY_LISTS(5, TOMOS_BAD_FILE, "2 values for 3 column indices");
	FRESH;
	shape[0] = 3;
	TRY_LISTS(5, TOMOS_BAD_FILE, "'shape' must have two sizes");
	shape[0] = 2;
	pointers[0] = 1;
	TRY_LISTS(5, TOMOS_BAD_FILE, "row 0 begins at entry 1");
	pointers[0] = 0, pointers[1] = 4;
	TRY_LISTS(5, TOMOS_BAD_FILE, "row 0 ends at entry 4; it began at 0 of 3");
	pointers[1] = 1, pointers[2] = 2;
	TRY_LISTS(5, TOMOS_BAD_FILE, "the rows have 2 entries of 3");
	pointers[2] = 3, indices[2] = 2;
	TRY_LISTS(5, TOMOS_BAD_FILE, "entry 2 is in column 2 of 2");
	indices[2] = 1, values[1] = INFINITY;
	TRY_LISTS(5, TOMOS_BAD_FILE, "entry 1 is not finite");
}

static void wrong_calls(void **state)
{
	(void)state;
	Case c = case_make(0);
	tomos_op *op = small_matrix(&c), *read, *projector;
	int64_t domain[3], range[3];
	tomos_op_domain(op, domain);
	tomos_op_range(op, range);
	REJECTED(tomos_matrix_write(op, "a.txt", NULL), TOMOS_BAD_VALUE,
		"'a.txt': the name of a matrix file ends in .mtx, .npz, .h5 or .hdf5");
	REJECTED(tomos_matrix_write(op, NULL, NULL), TOMOS_BAD_VALUE, "'(none)'");
	(void)unlink(name("a", 1));
	OK(tomos_matrix_write(op, path, NULL));
	REJECTED(tomos_matrix_write(op, path, NULL), TOMOS_IO, "exists already");
	range[0]++;
	REJECTED(tomos_op_matrix_read(&read, backend, path, domain, range), TOMOS_BAD_VALUE,
		" rows; ");
	domain[0]++;
	REJECTED(tomos_op_matrix_read(&read, backend, path, domain, range), TOMOS_BAD_VALUE,
		" columns; ");
	REJECTED(tomos_op_matrix_read(&read, NULL, path, domain, range), TOMOS_BAD_VALUE,
		"a matrix from a file needs a backend and two shapes");
	REJECTED(tomos_op_matrix_read(&read, backend, NULL, domain, range), TOMOS_BAD_VALUE,
		"no matrix file to read is named");
	REJECTED(tomos_op_matrix_read(&read, backend, "/nowhere.npz", domain, range), TOMOS_IO,
		"cannot be opened");
	OK(tomos_op_projector(&projector, backend, &c.grid, c.scan, NULL));
	REJECTED(tomos_matrix_write(projector, path, NULL), TOMOS_BAD_VALUE,
		"is not a matrix stored as CSR");
	tomos_op_free(op), tomos_op_free(projector);
	tomos_geometry_free(c.scan);
}

static void failing_allocations(void **state)
{
	(void)state;
	Case c = case_make(6);
	tomos_op *op = small_matrix(&c), *read = NULL;
	int64_t domain[3], range[3];
	tomos_file_options o = overwriting();
	tomos_op_domain(op, domain);
	tomos_op_range(op, range);
	for (int kind = 0; kind < 3; kind++)
		for (int reading = 0; reading < 2; reading++) {
			tomos_status status = TOMOS_NO_MEMORY;
			for (int n = 1; status != TOMOS_OK; n++) {
				int64_t before = mem_live();
				mem_fail_nth(n);
				status = reading ? tomos_op_matrix_read(
							   &read, backend, path, domain, range)
						 : tomos_matrix_write(op, name("a", kind), &o);
				mem_fail_nth(0);
				if (status != TOMOS_OK) {
					assert_int_equal(status, TOMOS_NO_MEMORY);
					assert_int_equal(mem_live(), before);
				}
			}
			tomos_op_free(read);
			read = NULL;
		}
	tomos_op_free(op);
	tomos_geometry_free(c.scan);
}

/* The same matrix gives the same bytes, whenever it is written. */
static void same_bytes(void **state)
{
	(void)state;
	static const int32_t pointers[2] = {0, 1}, indices[1] = {0};
	static const float values[1] = {2};
	const tomos_matrix matrix = {sizeof matrix, 1, 1, 1, 4, 4, pointers, indices, values};
	const tomos_file_options options = overwriting();
	unsigned char bytes[2][8192] = {{0}, {0}};
	for (int kind = 0; kind < 3; kind++)
		OK(matrix_write(name("a", kind), &matrix, &options));
	sleep(1);
	for (int kind = 0; kind < 3; kind++) {
		OK(matrix_write(name("b", kind), &matrix, &options));
		for (int i = 0; i < 2; i++) {
			FILE *file = fopen(name(i ? "b" : "a", kind), "rb");
			assert_non_null(file);
			assert_in_range(fread(bytes[i], 1, sizeof bytes[i], file), 1, 8191);
			fclose(file);
		}
		assert_memory_equal(bytes[0], bytes[1], sizeof bytes[0]);
	}
}

#define TESTS(T) \
	T(round_trips), T(foreign_text), T(cut_short), T(bits_flipped), T(wrong_text), \
		T(wrong_lists), T(wrong_calls), T(failing_allocations), T(same_bytes)
TEST_MAIN(TESTS, set_up, tear_down)
