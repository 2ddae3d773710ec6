/* Bytes and times of CSR and SCSR at the sizes of the cuART paper: 720 views of 1024 rays, images
 * of 512 x 512 and 1024 x 1024 pixels. */
#include <time.h>
#include "op/scsr/scsr.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

#define PI 3.14159265358979323846
enum { VIEWS = 720, RAYS = 1024, REPEATS = 7 };

static tomos_backend *backend;

static double seconds_of(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
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

/* Memory of the CSR matrix, computed from the number of entries without allocating its 10 GB. */
static double csr_expected(const tomos_grid *grid, const tomos_geometry *scan, int kernel)
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

typedef struct {
	double wall, processor;
} Times;

/* The shortest times of A and A', which are run alternately. Comparisons use processor time, which
 * depends less on other work of the machine than the wall clock does. */
static void product_times(const tomos_op *op, const float *x, float *y, float *back, Times best[2])
{
	best[0] = best[1] = (Times){1e30, 1e30};
	for (int i = 0; i < 2 * REPEATS; i++) {
		double wall = seconds_of(CLOCK_MONOTONIC),
		       work = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
		OK(i % 2 ? op_adjoint(op, y, back) : op_forward(op, x, y));
		best[i % 2].wall = fmin(best[i % 2].wall, seconds_of(CLOCK_MONOTONIC) - wall);
		best[i % 2].processor =
			fmin(best[i % 2].processor, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - work);
	}
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
	double begin = seconds_of(CLOCK_MONOTONIC);
	OK(tomos_op_matrix(&op, backend, &grid, scan, &o, &m));
	double built = seconds_of(CLOCK_MONOTONIC) - begin, csr = csr_expected(&grid, scan, kernel);
	OK(tomos_matrix_bytes(op, &bytes));
	OK(tomos_op_projector(&plain, backend, &grid, scan, &o));
	float *x = case_data(&c, n * n), *y = case_data(&c, VIEWS * RAYS);
	float *f = case_data(&c, VIEWS * RAYS), *g = case_data(&c, n * n);
	Times times[2];
	product_times(op, x, y, g, times);
	double ratio = times[1].processor / times[0].processor;
	OK(op_forward(plain, x, f));
	double difference = case_difference(y, f, VIEWS * RAYS);
	printf("  %4d^2 %-6s %8.1f %8.1f %6.2f %8.2f %8.1f %8.1f %6.2f %9.1e\n", (int)n, o.forward,
		1e-6 * csr, 1e-6 * (double)bytes, csr / (double)bytes, built, 1e3 * times[0].wall,
		1e3 * times[1].wall, ratio, difference);
	assert_true(csr / (double)bytes >= 7.6);
	assert_true(ratio <= 1.3);
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

#define TESTS(T) T(table)
TEST_MAIN(TESTS, NULL, NULL)
