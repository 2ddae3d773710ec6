/* ART on the backend under test gives the cpu's result, whatever the order, the operator and the
 * bounds. */
#include "algo/problem.h"
#include "ops/cpu_backend.h"

static void solve(const tomos_op *op, const Problem *p, const tomos_algebraic_options *o, float *x)
{
	tomos_array image = p->x;
	image.data = x;
	memset(x, 0, (size_t)p->voxels * sizeof *x);
	OK(tomos_art(op, &p->b, &image, o, NULL));
}

/* Both ways, and how far they are apart. */
static double apart(const tomos_op *one, const tomos_op *two, const Problem *p,
	const tomos_algebraic_options *o)
{
	float *x = calloc((size_t)p->voxels, sizeof *x), *y = calloc((size_t)p->voxels, sizeof *y);
	solve(one, p, o, x);
	solve(two, p, o, y);
	assert_true(case_dot(y, y, p->voxels) > 0);
	double difference = case_difference(x, y, p->voxels);
	free(x), free(y);
	return difference;
}

static tomos_op *on_cpu(const Problem *p, const char *projector)
{
	tomos_op *op;
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = projector;
	OK(tomos_op_projector(&op, cpu, &p->grid, p->scan, &o));
	return op;
}

static void orders(void **state)
{
	(void)state;
	static const char *const names[] = {"sequential", "random", "golden", "multilevel"};
	static const char *const geometries[] = {"parallel", "fan", "cone"};
	static const char *const projectors[] = {"joseph", "line", "line-march"};
	double worst = 0;
	for (int g = 0; g < 3; g++) {
		Problem p = problem_make(geometries[g], projectors[g], g == 2 ? 12 : 40, 15, 0.01);
		tomos_op *op = on_cpu(&p, projectors[g]);
		for (int i = 0; i < 4; i++)
			for (int bounded = 0; bounded < 2; bounded++) {
				tomos_algebraic_options o = problem_options(NULL, 2);
				o.order = names[i];
				o.relaxation = 0.7;
				if (bounded)
					o.minimum = 0, o.maximum = 1.1;
				double difference = apart(p.op, op, &p, &o);
				if (!(difference <= 1e-5))
					fail_msg("%s, %s, %s: %g apart", geometries[g], names[i],
						bounded ? "bounded" : "free", difference);
				worst = fmax(worst, difference);
			}
		tomos_op_free(op);
		problem_free(&p);
	}
	printf("  %s against the cpu: at most %.1e apart\n", test_backend(), worst);
}

static void matrices(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 32, 16, 0.01);
	tomos_op *projector = on_cpu(&p, "joseph");
	for (int k = 0; k < 2; k++) {
		tomos_matrix_options m = tomos_matrix_defaults();
		tomos_algebraic_options o = problem_options(NULL, 2);
		tomos_op *op;
		m.storage = k ? "scsr" : "csr";
		o.minimum = 0;
		OK(tomos_op_matrix(&op, p.backend, &p.grid, p.scan, NULL, &m));
		double difference = apart(op, projector, &p, &o);
		if (!(difference <= 1e-5))
			fail_msg("%s: %g apart", m.storage, difference);
		tomos_op_free(op);
	}
	tomos_op_free(projector);
	problem_free(&p);
}

/* Rays that count less, some not at all, and voxels outside a mask. */
static void weights_and_masks(void **state)
{
	(void)state;
	Problem p = problem_make("fan", "line", 32, 16, 0.01);
	tomos_op *op = on_cpu(&p, "line");
	tomos_algebraic_options o = problem_options(NULL, 3);
	tomos_array weights = problem_array(16, 1, 32), mask = problem_array(1, 32, 32);
	for (int64_t i = 0; i < p.pixels; i++)
		weights.data[i] = i % 7 == 3 ? 0 : 0.5F + (float)(i % 5);
	for (int64_t i = 0; i < p.voxels; i++)
		mask.data[i] = p.truth.data[i] > 0.01F;
	o.ray_weights = &weights;
	assert_true(apart(p.op, op, &p, &o) <= 1e-5);
	o.mask = &mask;
	o.minimum = 0.1;
	assert_true(apart(p.op, op, &p, &o) <= 1e-5);
	free(weights.data), free(mask.data);
	tomos_op_free(op);
	problem_free(&p);
}

/* Rays so near one another that many share voxels, as many as one pass has and more. */
static void fine_pixels(void **state)
{
	(void)state;
	static const int64_t sizes[] = {10, 12, 20, 24};
	Problem fine = problem_make("parallel", "joseph", 60, 7, 0.01);
	for (int i = 0; i < COUNT(sizes); i++) {
		int64_t n = sizes[i];
		Problem p = fine;
		tomos_algebraic_options o = problem_options(NULL, 2);
		tomos_op *op;
		OK(tomos_grid_centred(&p.grid, n, n, 1, 2.0 / (double)n));
		p.voxels = n * n;
		p.x = tomos_array_of(NULL, 1, n, n);
		OK(tomos_op_projector(&op, p.backend, &p.grid, p.scan, NULL));
		tomos_op *truth = on_cpu(&p, "joseph");
		double difference = apart(op, truth, &p, &o);
		if (!(difference <= 1e-5))
			fail_msg("%d voxels: %g apart", (int)n, difference);
		tomos_op_free(op), tomos_op_free(truth);
	}
	problem_free(&fine);
}

/* More entries in a row than the threads of a device hold, and more rows than a batch. */
static void long_rows(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 1500, 1, 0);
	tomos_op *op = on_cpu(&p, "joseph");
	tomos_algebraic_options o = problem_options(NULL, 1);
	double difference = apart(p.op, op, &p, &o);
	if (!(difference <= 1e-5))
		fail_msg("%g apart", difference);
	tomos_op_free(op);
	problem_free(&p);
}

#define TESTS(T) T(orders), T(matrices), T(weights_and_masks), T(fine_pixels), T(long_rows)
TEST_MAIN(TESTS, set_up, tear_down)
