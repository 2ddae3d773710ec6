/* Stored matrices against the projectors they were made of: all models, all kinds of scan, parts,
 * rows and powers, threads, what is rejected, and allocations that fail. */
#include "op/op.h" /* first: cmocka makes a macro of fail() */
#include "ops/cpu_backend.h"

enum { CASES = CASE_SLOW ? 45 : 135 };

static tomos_projector_options model_of(int number)
{
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = case_models[number / CASE_KINDS % CASE_MODELS];
	o.boundary = number % 2 ? "clamp" : "expand";
	o.voxel_interpolation = number % 4 == 3 ? "nearest" : "linear";
	o.plain = 1;
	case_fit(&o);
	return o;
}

static tomos_op *make_matrix(
	const tomos_grid *grid, const tomos_geometry *scan, const tomos_projector_options *o)
{
	tomos_op *op;
	OK(tomos_op_matrix(&op, cpu, grid, scan, o, NULL));
	return op;
}

/* ---- products ------------------------------------------------------------------------------- */

static void equals_the_projector(void **state)
{
	(void)state;
	double worst = 0;
	for (int i = 0; i < CASES; i++) {
		Case c = case_make(i);
		tomos_projector_options o = model_of(i);
		tomos_op *op = make_matrix(&c.grid, c.scan, &o);
		float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
		float *Ax = case_data(&c, c.pixels), *Ay = case_data(&c, c.voxels);
		float *f = case_data(&c, c.pixels), *g = case_data(&c, c.voxels);
		case_forward(cpu, &c.grid, c.scan, &o, x, f);
		case_adjoint(cpu, &c.grid, c.scan, &o, y, g);
		OK(op_forward(op, x, Ax));
		OK(op_adjoint(op, y, Ay));
		double forward = case_difference(Ax, f, c.pixels);
		double adjoint = case_difference(Ay, g, c.voxels);
		double one = case_dot(Ax, y, c.pixels), two = case_dot(x, Ay, c.voxels);
		double size = sqrt(case_dot(Ax, Ax, c.pixels) * case_dot(y, y, c.pixels));
		if (!(forward <= 1e-6 && adjoint <= 1e-6 && fabs(one - two) <= 1e-6 * size))
			fail_msg("%s %s: forward differs by %g, adjoint by %g, <Ax,y> - <x,A'y> = "
				 "%g",
				o.forward, c.name, forward, adjoint, one - two);
		worst = fmax(worst, fmax(forward, adjoint));
		assert_int_equal(tomos_op_matched(op), 1);
		tomos_op_free(op);
		tomos_geometry_free(c.scan);
		free(x), free(y), free(Ax), free(Ay), free(f), free(g);
	}
	printf("  CSR against the projectors: largest difference %.1e\n", worst);
}

static void arrays_are_in_order(void **state)
{
	(void)state;
	for (int i = 0; i < CASES; i++) {
		Case c = case_make(i);
		tomos_projector_options o = model_of(i);
		tomos_op *op = make_matrix(&c.grid, c.scan, &o);
		tomos_matrix m = {.bytes = sizeof m};
		OK(tomos_matrix_arrays(op, &m));
		assert_int_equal(m.rows, c.pixels);
		assert_int_equal(m.columns, c.voxels);
		assert_int_equal(m.pointer_bytes, 4);
		assert_int_equal(m.index_bytes, 4);
		const int32_t *pointers = m.pointers, *indices = m.indices;
		assert_int_equal(pointers[0], 0);
		assert_int_equal(pointers[m.rows], m.count);
		for (int64_t r = 0; r < m.rows; r++)
			for (int32_t k = pointers[r]; k < pointers[r + 1]; k++) {
				assert_in_range(indices[k], 0, m.columns - 1);
				if (k > pointers[r] && indices[k] <= indices[k - 1])
					fail_msg("%s %s: row %d is not in order", o.forward, c.name,
						(int)r);
			}
		int64_t bytes;
		OK(tomos_matrix_bytes(op, &bytes));
		assert_true(bytes >= 8 * m.count + 4 * (m.rows + 1));
		tomos_op_free(op);
		tomos_geometry_free(c.scan);
	}
}

static void threads_do_not_matter(void **state)
{
	(void)state;
	tomos_grid grid;
	double angles[5] = {0.1, 0.7, 1.3, 1.9, 2.9};
	tomos_geometry *scan;
	OK(tomos_grid_centred(&grid, 70, 66, 1, 1));
	OK(tomos_geometry_parallel(&scan, 1, 90, 1, angles, 5));
	for (int model = 0; model < CASE_MODELS; model++) {
		float x[70 * 66], y[450], f[3][450], g[3][70 * 66];
		Case c = {.state = 5};
		for (int i = 0; i < 70 * 66; i++)
			x[i] = (float)case_random(&c);
		for (int i = 0; i < 450; i++)
			y[i] = (float)case_random(&c);
		for (int t = 0; t < 3; t++) {
			OK(tomos_set_threads((int[]){1, 2, 7}[t]));
			tomos_projector_options o = tomos_projector_defaults();
			o.forward = case_models[model];
			tomos_op *op = make_matrix(&grid, scan, &o);
			OK(op_forward(op, x, f[t]));
			OK(op_adjoint(op, y, g[t]));
			assert_memory_equal(f[0], f[t], sizeof f[0]);
			assert_memory_equal(g[0], g[t], sizeof g[0]);
			tomos_op_free(op);
		}
	}
	OK(tomos_set_threads(0));
	tomos_geometry_free(scan);
}

/* ---- what algorithms ask of operators -------------------------------------------------------- */

static void parts_rows_and_powers(void **state)
{
	(void)state;
	for (int i = 0; i < 45; i++) {
		Case c = case_make(i);
		tomos_projector_options o = model_of(i);
		tomos_op *op = make_matrix(&c.grid, c.scan, &o), *part, *again;
		int64_t views = tomos_geometry_count(c.scan), per = c.pixels / views;
		const int64_t list[2] = {views - 1, 0}, second = 1;
		OK(op_part(op, &part, list, 2));
		OK(op_part(part, &again, &second, 1)); /* view 0 */
		float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
		float *f = case_data(&c, c.pixels), *g = case_data(&c, c.pixels + per);
		float *weight = case_data(&c, op->row_most);
		int64_t *index = malloc((size_t)op->row_most * sizeof *index), count;
		OK(op_forward(op, x, f));
		OK(op_forward(part, x, g));
		assert_memory_equal(g, f + (views - 1) * per, (size_t)per * sizeof *f);
		assert_memory_equal(g + per, f, (size_t)per * sizeof *f);
		OK(op_forward(again, x, g));
		assert_memory_equal(g, f, (size_t)per * sizeof *f);
		OK(op_power(op, 2, x, g));
		OK(op_power(op, 0, x, y));
		for (int64_t r = 0; r < c.pixels; r++) {
			double sum = 0, squares = 0, ones = 0;
			OK(op_row(op, r, index, weight, &count));
			assert_in_range(count, 0, op->row_most);
			for (int64_t k = 0; k < count; k++) {
				sum += (double)weight[k] * x[index[k]];
				squares += (double)weight[k] * weight[k] * x[index[k]];
				ones += x[index[k]];
			}
			assert_float_equal(sum, f[r], 1e-5 * (1 + fabs(sum)));
			assert_float_equal(squares, g[r], 1e-5 * (1 + fabs(squares)));
			assert_float_equal(ones, y[r], 1e-5 * (1 + fabs(ones)));
		}
		tomos_op_free(again), tomos_op_free(part), tomos_op_free(op);
		tomos_geometry_free(c.scan);
		free(x), free(y), free(f), free(g), free(weight), free(index);
	}
}

/* A' of parts added up is A' of the whole. */
static void parts_add_up(void **state)
{
	(void)state;
	Case c = case_make(1);
	tomos_projector_options o = model_of(0);
	tomos_op *op = make_matrix(&c.grid, c.scan, &o), *part;
	int64_t views = tomos_geometry_count(c.scan), per = c.pixels / views;
	float *y = case_data(&c, c.pixels), *x = case_data(&c, c.voxels);
	float *sum = calloc((size_t)c.voxels, sizeof *sum), *one = case_data(&c, c.voxels);
	for (int64_t v = 0; v < views; v++) {
		OK(op_part(op, &part, &v, 1));
		OK(op_adjoint(part, y + v * per, one));
		for (int64_t k = 0; k < c.voxels; k++)
			sum[k] += one[k];
		tomos_op_free(part);
	}
	OK(op_adjoint(op, y, x));
	assert_true(case_difference(sum, x, c.voxels) < 1e-6);
	tomos_op_free(op);
	tomos_geometry_free(c.scan);
	free(y), free(x), free(sum), free(one);
}

/* ---- rejections ------------------------------------------------------------------------------ */

static void rejections(void **state)
{
	(void)state;
	Case c = case_make(2); /* a cone */
	tomos_op *op = NULL;
	int64_t before = mem_live(), bytes;
	tomos_matrix arrays = {.bytes = sizeof arrays};
	REJECTED(tomos_op_matrix(&op, cpu, NULL, c.scan, NULL, NULL), TOMOS_BAD_VALUE,
		"a matrix needs a backend, a grid and a geometry");
	tomos_projector_options o = tomos_projector_defaults();
	o.back = "voxel";
	REJECTED(tomos_op_matrix(&op, cpu, &c.grid, c.scan, &o, NULL), TOMOS_BAD_VALUE,
		"back projector 'voxel' is not the adjoint of 'joseph'");
	tomos_matrix_options m = tomos_matrix_defaults();
	m.storage = "cssr";
	REJECTED(tomos_op_matrix(&op, cpu, &c.grid, c.scan, NULL, &m), TOMOS_BAD_VALUE,
		"storage 'cssr' is not known");
	m.storage = "scsr";
	REJECTED(tomos_op_matrix(&op, cpu, &c.grid, c.scan, NULL, &m), TOMOS_UNSUPPORTED,
		"SCSR is for one slice and one detector row");
	m.bytes = 0;
	REJECTED(tomos_op_matrix(&op, cpu, &c.grid, c.scan, NULL, &m), TOMOS_BAD_VALUE,
		"bytes of a tomos_matrix_options is 0");
	OK(tomos_op_projector(&op, cpu, &c.grid, c.scan, NULL));
	REJECTED(
		tomos_matrix_arrays(op, &arrays), TOMOS_BAD_VALUE, "is not a matrix stored as CSR");
	REJECTED(tomos_matrix_arrays(op, NULL), TOMOS_BAD_VALUE,
		"the pointer to the arrays of a matrix is missing");
	REJECTED(tomos_matrix_arrays(NULL, &arrays), TOMOS_BAD_VALUE, "the operator (none)");
	REJECTED(tomos_matrix_bytes(op, &bytes), TOMOS_BAD_VALUE, "is not a stored matrix");
	tomos_op_free(op);
	assert_int_equal(mem_live(), before);
	tomos_geometry_free(c.scan);
}

static void description(void **state)
{
	(void)state;
	Case c = case_make(0);
	tomos_op *op = make_matrix(&c.grid, c.scan, NULL);
	assert_non_null(strstr(tomos_op_describe(op), "joseph as CSR: "));
	tomos_op_free(op);
	tomos_geometry_free(c.scan);
}

static void failing_allocations(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++) {
		Case c = case_make(CASE_KINDS * i);
		tomos_projector_options o = model_of(CASE_KINDS * i);
		tomos_status status = TOMOS_NO_MEMORY;
		tomos_op *op = NULL;
		for (int n = 1; status != TOMOS_OK; n++) {
			int64_t before = mem_live();
			mem_fail_nth(n);
			status = tomos_op_matrix(&op, cpu, &c.grid, c.scan, &o, NULL);
			mem_fail_nth(0);
			if (status == TOMOS_OK)
				break;
			assert_int_equal(status, TOMOS_NO_MEMORY);
			assert_int_equal(mem_live(), before);
			assert_null(op);
		}
		const int64_t view = 0;
		tomos_op *part = NULL;
		int64_t before = mem_live();
		for (int n = 1; n < 4; n++) {
			mem_fail_nth(n);
			status = op_part(op, &part, &view, 1);
			mem_fail_nth(0);
			assert_int_equal(status, TOMOS_NO_MEMORY);
			assert_int_equal(mem_live(), before);
		}
		tomos_op_free(op);
		tomos_geometry_free(c.scan);
	}
}

static void adjoint_without_memory(void **state)
{
	(void)state;
	tomos_grid grid;
	tomos_geometry *scan;
	float x[30 * 30], y[4 * 45] = {1};
	OK(tomos_grid_centred(&grid, 30, 30, 1, 1));
	OK(tomos_geometry_parallel(&scan, 1, 45, 1, (const double[]){0.1, 0.7, 1.3, 1.9}, 4));
	tomos_op *op = make_matrix(&grid, scan, NULL);
	int64_t before = mem_live();
	mem_fail_nth(1);
	REJECTED(op_adjoint(op, y, x), TOMOS_NO_MEMORY, "the images of a matrix");
	mem_fail_nth(0);
	assert_int_equal(mem_live(), before);
	tomos_op_free(op);
	tomos_geometry_free(scan);
}

#define TESTS(T) \
	T(equals_the_projector), T(arrays_are_in_order), T(threads_do_not_matter), \
		T(parts_rows_and_powers), T(parts_add_up), T(rejections), T(description), \
		T(failing_allocations), T(adjoint_without_memory)
TEST_MAIN(TESTS, set_up, tear_down)
