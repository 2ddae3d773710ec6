/* The transpose of filtered back projection: inner products agree; rejections; every allocation
 * failing. */
#include "algo/problem.h"

static void fill_random(tomos_array *a, uint32_t seed)
{
	for (int64_t i = 0; i < a->shape[0] * a->shape[1] * a->shape[2]; i++) {
		seed = seed * 1664525u + 1013904223u;
		a->data[i] = (float)(seed >> 8) / (float)(1 << 24);
	}
}

static double dot(const tomos_array *a, const tomos_array *b)
{
	double sum = 0;
	for (int64_t i = 0; i < a->shape[0] * a->shape[1] * a->shape[2]; i++)
		sum += (double)a->data[i] * b->data[i];
	return sum;
}

static void inner_products(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "fan", "cone"};
	for (int k = 0; k < COUNT(kinds); k++) {
		Problem p = problem_make(kinds[k], "joseph", 16, 24, 0);
		tomos_array x = problem_array(p.x.shape[0], p.x.shape[1], p.x.shape[2]);
		tomos_array y = problem_array(p.b.shape[0], p.b.shape[1], p.b.shape[2]);
		fill_random(&x, 1);
		fill_random(&y, 2);
		OK(tomos_fbp(p.backend, &p.grid, p.scan, &y, &p.x, NULL, NULL));
		OK(tomos_fbp_transpose(p.backend, &p.grid, p.scan, &x, &p.b, NULL, NULL));
		double size = sqrt(dot(&x, &x) * dot(&p.x, &p.x));
		double apart = fabs(dot(&x, &p.x) - dot(&y, &p.b)) / size;
		printf("  %s: %.1e apart\n", kinds[k], apart);
		assert_true(apart < 1e-6);
		free(x.data);
		free(y.data);
		problem_free(&p);
	}
}

static void rejections(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 16, 24, 0);
	tomos_analytic_options o = tomos_analytic_defaults();
	o.padding = "edge";
	REJECTED(tomos_fbp_transpose(p.backend, &p.grid, p.scan, &p.x, &p.b, &o, NULL),
		TOMOS_UNSUPPORTED, "not available for scans with padding other than zero");
	o = tomos_analytic_defaults();
	o.interpolation = "oversampled";
	REJECTED(tomos_fbp_transpose(p.backend, &p.grid, p.scan, &p.x, &p.b, &o, NULL),
		TOMOS_UNSUPPORTED, "oversampled interpolation");
	REJECTED(tomos_fbp_transpose(p.backend, &p.grid, p.scan, &p.b, &p.x, NULL, NULL),
		TOMOS_BAD_VALUE, "the shape of the volume is 24 x 1 x 16");
	REJECTED(tomos_fbp_transpose(NULL, &p.grid, p.scan, &p.x, &p.b, NULL, NULL),
		TOMOS_BAD_VALUE, "the transpose of fbp needs a backend, a grid and a geometry");
	problem_free(&p);
}

static void other_scans(void **state)
{
	(void)state;
	const double axis = 3;
	Problem p = problem_make("parallel", "joseph", 16, 24, 0);
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	o.columns = 16, o.views = 24;
	o.roll = 0.1;
	OK(tomos_geometry_make(&scan, &o));
	REJECTED(tomos_fbp_transpose(p.backend, &p.grid, scan, &p.x, &p.b, NULL, NULL),
		TOMOS_UNSUPPORTED, "rotated detectors");
	tomos_geometry_free(scan);
	o.roll = 0, o.arc = 6.283185307179586;
	o.axis = &axis, o.axis_count = 1;
	OK(tomos_geometry_make(&scan, &o));
	REJECTED(tomos_fbp_transpose(p.backend, &p.grid, scan, &p.x, &p.b, NULL, NULL),
		TOMOS_UNSUPPORTED, "an offset detector");
	tomos_geometry_free(scan);
	problem_free(&p);
}

static void allocations(void **state)
{
	(void)state;
	Problem p = problem_make("fan", "joseph", 16, 24, 0);
	p.b.stride[2] = 2, p.b.stride[1] = p.b.stride[0] = 32; /* not in place */
	p.b.data = realloc(p.b.data, (size_t)p.pixels * 2 * sizeof(float));
	int64_t live = mem_live();
	tomos_status status = TOMOS_NO_MEMORY;
	for (int n = 1; status != TOMOS_OK; n++) {
		mem_fail_nth(n);
		status = tomos_fbp_transpose(p.backend, &p.grid, p.scan, &p.x, &p.b, NULL, NULL);
		mem_fail_nth(0);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
		assert_int_equal(mem_live(), live);
	}
	problem_free(&p);
}

#define TESTS(T) T(inner_products), T(rejections), T(other_scans), T(allocations)
TEST_MAIN(TESTS, NULL, NULL)
