/* Bytes and times of CSR and SCSR at the sizes of the cuART paper: 720 views of 1024 rays, images of
 * 512 x 512 and 1024 x 1024 pixels. */
#include <time.h>
#include "op/scsr.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

#define PI 3.14159265358979323846
enum { VIEWS = 720, RAYS = 1024, REPEATS = 5 };

static tomos_backend *backend;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void make_scan(int64_t n, tomos_grid *grid, tomos_geometry **scan)
{
	static double angles[VIEWS];
	for (int i = 0; i < VIEWS; i++)
		angles[i] = PI / VIEWS * i;
	OK(tomos_grid_centred(grid, n, n, 1, 1));
	OK(tomos_geometry_parallel(scan, 1, RAYS, (double)n / RAYS, angles, VIEWS));
}

/* What CSR takes: counted, since 10 GB need not be filled to be known. */
static double csr_bytes(const tomos_grid *grid, const tomos_geometry *scan, int kernel)
{
	Lister lister;
	KernelModel model = {.weight = WEIGHT_RAY};
	Part *parts;
	int64_t count, *counts = malloc(VIEWS * RAYS * sizeof *counts), sum = 0;
	OK(lister_open(&lister, grid, scan, kernel, &model));
	OK(lister_parts(&lister, &parts, &count));
	OK(lister_count(&lister, parts, count, counts));
	for (int64_t i = 0; i < VIEWS * RAYS; i++)
		sum += counts[i];
	mem_free(parts);
	lister_close(&lister);
	free(counts);
	return 8.0 * (double)sum + (sum > INT32_MAX ? 8 : 4) * (VIEWS * RAYS + 1.0);
}

/* The quickest of some runs: what else the machine does is left out of the comparison. */
static double product_time(const tomos_op *op, bool adjoint, const float *in, float *out)
{
	double best = 1e30;
	for (int i = 0; i < REPEATS; i++) {
		double begin = now();
		OK(adjoint ? op_adjoint(op, in, out) : op_forward(op, in, out));
		best = fmin(best, now() - begin);
	}
	return best;
}

static void check_size(int64_t n, int kernel)
{
	tomos_grid grid;
	tomos_geometry *scan;
	tomos_op *op, *plain;
	tomos_projector_options o = tomos_projector_defaults();
	tomos_matrix_options m = tomos_matrix_defaults();
	int64_t bytes;
	Case c = {.state = 4};
	o.forward = kernel_rows[kernel].name;
	m.storage = "scsr";
	make_scan(n, &grid, &scan);
	double begin = now();
	OK(tomos_op_matrix(&op, backend, &grid, scan, &o, &m));
	double built = now() - begin, csr = csr_bytes(&grid, scan, kernel);
	OK(tomos_matrix_bytes(op, &bytes));
	OK(tomos_op_projector(&plain, backend, &grid, scan, &o));
	float *x = case_data(&c, n * n), *y = case_data(&c, VIEWS * RAYS);
	float *f = case_data(&c, VIEWS * RAYS), *g = case_data(&c, n * n);
	double forward = product_time(op, false, x, y), adjoint = product_time(op, true, y, g);
	OK(op_forward(plain, x, f));
	double difference = case_difference(y, f, VIEWS * RAYS);
	printf("  %4d^2 %-6s %8.1f %8.1f %6.2f %8.2f %8.1f %8.1f %6.2f %9.1e\n", (int)n, o.forward,
		1e-6 * csr, 1e-6 * (double)bytes, csr / (double)bytes, built, 1e3 * forward,
		1e3 * adjoint, adjoint / forward, difference);
	assert_true(csr / (double)bytes >= 7.6);
	assert_true(adjoint <= 1.3 * forward);
	assert_true(difference <= 3e-6); /* the projector's own sums are in single precision */
	tomos_op_free(op), tomos_op_free(plain);
	tomos_geometry_free(scan);
	free(x), free(y), free(f), free(g);
}

static void table(void **state)
{
	(void)state;
	OK(tomos_backend_open(&backend, "cpu"));
	printf("  %d views of %d rays, parallel; %s\n", VIEWS, RAYS,
		tomos_backend_describe(backend));
	printf("  pixels kernel   CSR MB  SCSR MB  ratio  build s     A ms    A' ms   A'/A "
	       "difference\n");
	check_size(512, KERNEL_joseph);
	check_size(512, KERNEL_line);
	check_size(1024, KERNEL_joseph);
	check_size(1024, KERNEL_line);
	tomos_backend_close(backend);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(table)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
