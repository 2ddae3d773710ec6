/* Stored matrices on the backend under test against the cpu's CSR: all numbers of symmetries, one
 * slab and several, parts, powers, rows, and what is left when memory runs out. */
#include "op/scsr/scsr.h" /* first: cmocka makes a macro of fail() */
#include "op/sweep.h"
#include "ops/cases.h"

#define PI 3.14159265358979323846

static tomos_backend *here, *there;

static int set_up(void **state)
{
	(void)state;
	if (tomos_backend_open(&here, "cpu") == TOMOS_OK &&
		tomos_backend_open(&there, test_backend()) == TOMOS_OK)
		return 0;
	print_message("%s\n", tomos_message());
	return 1;
}

static int tear_down(void **state)
{
	(void)state;
	tomos_backend_close(there);
	tomos_backend_close(here);
	return 0;
}

typedef struct {
	const char *what;
	int64_t nx, ny, columns, views;
	double pixel, start, arc, source; /* degrees; 0: parallel */
	int symmetries;
} Setup;

static const Setup setups[] = {
	{"half a turn", 17, 17, 21, 24, 0.9, 0, 180, 0, 8},
	{"several slabs", 70, 70, 80, 12, 0.9, 0, 180, 0, 8},
	{"many slabs", 150, 150, 100, 8, 1.5, 0, 180, 0, 8},
	{"quarter turns alone", 40, 40, 50, 12, 1, 3, 360, 0, 4},
	{"half turns alone", 41, 41, 50, 9, 1, 3, 180, 0, 2},
	{"a rectangle", 40, 21, 50, 12, 1, 0, 180, 0, 4},
	{"nothing in common", 33, 33, 60, 7, 1, 3, 180, 80, 1},
	{"fan", 24, 24, 40, 32, 1, 0, 360, 60, 8},
	{"one column", 9, 9, 1, 16, 1, 0, 180, 0, 8},
};

static tomos_op *make(
	tomos_backend *backend, const Setup *s, const char *projector, const char *storage)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_projector_options p = tomos_projector_defaults();
	tomos_matrix_options m = tomos_matrix_defaults();
	tomos_grid grid;
	tomos_geometry *scan;
	tomos_op *op;
	double distance = 2 * s->source;
	o.geometry = s->source > 0 ? "fan" : "parallel";
	o.columns = s->columns, o.views = s->views, o.pixel = s->pixel;
	o.start = s->start * PI / 180, o.arc = s->arc * PI / 180;
	if (s->source > 0) {
		o.source_axis = &s->source, o.source_axis_count = 1;
		o.source_detector = &distance, o.source_detector_count = 1;
	}
	p.forward = projector;
	m.storage = storage;
	OK(tomos_grid_centred(&grid, s->nx, s->ny, 1, 1));
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_op_matrix(&op, backend, &grid, scan, &p, &m));
	tomos_geometry_free(scan);
	return op;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Applies the function to vectors of the backend, copied from and to host memory. */
static void apply(const tomos_op *op, bool adjoint, int power, const float *in, float *out)
{
	const Space *from = adjoint ? &op->range : &op->domain;
	const Space *to = adjoint ? &op->domain : &op->range;
	tomos_backend *b = from->backend;
	float *x, *y;
	tomos_array source = tomos_array_of((float *)in, 1, 1, from->count);
	tomos_array target = tomos_array_of(out, 1, 1, to->count);
	OK(vector_new(&x, from, "x"));
	OK(vector_new(&y, to, "y"));
	OK(vector_fill(to, NAN, y)); /* all of it is written */
	OK(b->type->memory->upload(b, x, &source));
	if (power == 1)
		OK(adjoint ? op_adjoint(op, x, y) : op_forward(op, x, y));
	else
		OK(adjoint ? op_power_adjoint(op, power, x, y) : op_power(op, power, x, y));
	OK(b->type->memory->download(b, y, &target));
	vector_free(x, from);
	vector_free(y, to);
}

static double compare(const tomos_op *one, const tomos_op *two, int power, Case *c)
{
	double worst = 0;
	for (int adjoint = 0; adjoint < 2; adjoint++) {
		int64_t n = adjoint ? one->range.count : one->domain.count;
		int64_t m = adjoint ? one->domain.count : one->range.count;
		float *in = case_data(c, n), *f = case_data(c, m), *g = case_data(c, m);
		apply(one, adjoint, power, in, f);
		apply(two, adjoint, power, in, g);
		worst = fmax(worst, case_difference(f, g, m));
		free(in), free(f), free(g);
	}
	return worst;
}

static double compare_parts(const tomos_op *one, const tomos_op *two, Case *c)
{
	int64_t list[64], count = 0;
	tomos_op *a, *b, *a_part, *b_part;
	for (int64_t v = one->range.shape[0] - 1; v >= 0; v -= 3)
		list[count++] = v;
	OK(op_part(one, &a, list, count));
	OK(op_part(two, &b, list, count));
	const int64_t first = count - 1; /* a part of a part */
	OK(op_part(a, &a_part, &first, 1));
	OK(op_part(b, &b_part, &first, 1));
	double worst = fmax(compare(a, b, 1, c), compare(a_part, b_part, 1, c));
	tomos_op_free(a_part), tomos_op_free(b_part), tomos_op_free(a), tomos_op_free(b);
	return worst;
}

static void products(void **state)
{
	(void)state;
	static const char *const projectors[] = {"joseph", "line", "footprint"};
	double worst = 0;
	for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
		for (int k = 0; k < 3; k++) {
			Case c = {.state = 99};
			tomos_op *truth = make(here, &setups[i], projectors[k], "csr");
			tomos_op *csr = make(there, &setups[i], projectors[k], "csr");
			tomos_op *scsr = make(there, &setups[i], projectors[k], "scsr");
			const Scsr *own = scsr->own;
			assert_int_equal(own->symmetries.count, setups[i].symmetries);
			double plain =
				fmax(compare(csr, truth, 1, &c), compare(scsr, truth, 1, &c));
			double parts =
				fmax(compare_parts(csr, truth, &c), compare_parts(scsr, truth, &c));
			double powers =
				fmax(compare(csr, truth, 2, &c), compare(csr, truth, 0, &c));
			powers = fmax(powers, compare(scsr, truth, 2, &c));
			if (!(plain <= 1e-6 && parts <= 1e-6 && powers <= 1e-6))
				fail_msg("%s, %s: products differ by %g, of parts %g, of powers %g",
					setups[i].what, projectors[k], plain, parts, powers);
			worst = fmax(worst, plain);
			tomos_op_free(truth), tomos_op_free(csr), tomos_op_free(scsr);
		}
	printf("  %s against the cpu's CSR: largest difference %.1e\n", test_backend(), worst);
}

/* SCSR adds in a fixed order. */
static void same_bits(void **state)
{
	(void)state;
	Case c = {.state = 7};
	tomos_op *op = make(there, &setups[2], "joseph", "scsr");
	int64_t n = op->domain.count, m = op->range.count;
	float *x = case_data(&c, n), *y[2] = {case_data(&c, m), case_data(&c, m)};
	float *z[2] = {case_data(&c, n), case_data(&c, n)};
	for (int k = 0; k < 2; k++) {
		apply(op, false, 1, x, y[k]);
		apply(op, true, 1, y[0], z[k]);
	}
	assert_memory_equal(y[0], y[1], (size_t)m * sizeof(float));
	assert_memory_equal(z[0], z[1], (size_t)n * sizeof(float));
	free(x), free(y[0]), free(y[1]), free(z[0]), free(z[1]);
	tomos_op_free(op);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void fetch(tomos_backend *b, const void *data, void *to, int64_t floats)
{
	tomos_array array = tomos_array_of(to, 1, 1, floats);
	OK(b->type->memory->download(b, data, &array));
}

/* Row `ray` as the device lists it, spread over the voxels, less the cpu's. */
static void check_row(const tomos_op *truth, int64_t ray, const int64_t *index, const float *weight,
	int64_t count, double *dense)
{
	int64_t list[1024], entries;
	float w[1024];
	assert_true(truth->row_most <= 1024);
	OK(op_row(truth, ray, list, w, &entries));
	for (int64_t k = 0; k < entries; k++)
		dense[list[k]] -= w[k];
	for (int64_t k = 0; k < count; k++)
		dense[index[k]] += weight[k];
	for (int64_t k = 0; k < truth->domain.count; k++) {
		if (fabs(dense[k]) > 1e-6)
			fail_msg("ray %d: entries of voxel %d differ by %g", (int)ray, (int)k,
				dense[k]);
		dense[k] = 0;
	}
}

static void check_rows(const tomos_op *op, const tomos_op *truth)
{
	Sweep sweep;
	int64_t rays = op->range.count, *order = calloc((size_t)rays, sizeof *order);
	double *dense = calloc((size_t)op->domain.count, sizeof *dense);
	for (int64_t i = 0; i < rays; i++)
		order[i] = rays - 1 - i;
	OK(sweep_open(&sweep, op));
	OK(sweep_order(&sweep, order));
	KernelBatch batch = sweep.batch;
	batch.ray = sweep.order + 1;
	batch.count = min64(batch.count, rays) - 1;
	int64_t most = batch.most, *entries = calloc((size_t)rays, sizeof *entries);
	int64_t *index = calloc((size_t)(batch.count * most + 1), sizeof *index);
	float *weight = calloc((size_t)(batch.count * most + 1), sizeof *weight);
	/* The elements after the entries of a row are downloaded, too. */
	OK(there->type->vector->fill(there, 2 * batch.count * most, 0, (void *)batch.index));
	OK(there->type->vector->fill(there, batch.count * most, 0, batch.weight));
	OK(op_list(op, &batch));
	fetch(there, batch.entries, entries, 2 * batch.count);
	fetch(there, batch.index, index, 2 * batch.count * most);
	fetch(there, batch.weight, weight, batch.count * most);
	for (int64_t i = 0; i < batch.count; i++)
		check_row(truth, order[i + 1], index + i * most, weight + i * most, entries[i],
			dense);
	sweep_close(&sweep);
	free(order), free(dense), free(entries), free(index), free(weight);
}

static void rows(void **state)
{
	(void)state;
	if (!there->type->projector->list_rows) {
		print_message("the %s backend gives rows one by one\n", test_backend());
		skip();
	}
	for (int i = 0; i < 6; i++) {
		tomos_op *truth = make(here, &setups[i == 2 ? 7 : i], "joseph", "csr");
		for (int k = 0; k < 2; k++) {
			const char *storage = k ? "scsr" : "csr";
			tomos_op *op = make(there, &setups[i == 2 ? 7 : i], "joseph", storage);
			check_rows(op, truth);
			tomos_op_free(op);
		}
		tomos_op_free(truth);
	}
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void failing_allocations(void **state)
{
	(void)state;
	tomos_grid grid;
	tomos_geometry *scan;
	tomos_matrix_options m = tomos_matrix_defaults();
	const double angles[] = {0, PI / 4, PI / 2, 3 * PI / 4};
	const int64_t view = 3;
	OK(tomos_grid_centred(&grid, 9, 9, 1, 1));
	OK(tomos_geometry_parallel(&scan, 1, 12, 1, angles, 4));
	for (int k = 0; k < 2; k++) {
		tomos_op *op = NULL, *part = NULL;
		tomos_status status = TOMOS_NO_MEMORY;
		m.storage = k ? "scsr" : "csr";
		for (int verb = 0; verb < 2; verb++) {
			status = TOMOS_NO_MEMORY;
			for (int n = 1; status != TOMOS_OK; n++) {
				int64_t before = mem_live();
				mem_fail_nth(n);
				status = verb == 0 ? tomos_op_matrix(
							     &op, there, &grid, scan, NULL, &m)
						   : op_part(op, &part, &view, 1);
				mem_fail_nth(0);
				if (status != TOMOS_OK) {
					assert_int_equal(status, TOMOS_NO_MEMORY);
					assert_int_equal(mem_live(), before);
				}
			}
		}
		tomos_op_free(part), tomos_op_free(op);
	}
	tomos_geometry_free(scan);
}

#define TESTS(T) T(products), T(same_bits), T(rows), T(failing_allocations)
TEST_MAIN(TESTS, set_up, tear_down)
