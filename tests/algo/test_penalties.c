/* What fista and pdhg come to: closed forms of few voxels, and the conditions that hold at the
 * minimum of 1/2 ||A x - b||^2 + alpha R(x) inside bounds, for R in two and three dimensions. */
#include "algo/penalty.h" /* first: cmocka makes a macro of fail() */
#include "algo/problem.h"

static const char *const methods[] = {"fista", "pdhg"};

/* ---- voxels that each have a ray of their own: A = h ----------------------------------------- */

enum { COUNT_MOST = 16 };

/* 1/2 ||h x - b||^2 + alpha R(x), b = h f. */
static void denoised(const char *method, tomos_algebraic_options o, double h, int64_t count,
	const double *f, float *x)
{
	double angle = 0;
	float data[COUNT_MOST];
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_op *op;
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_geometry_parallel(&scan, 1, count, h, &angle, 1));
	OK(tomos_grid_centred(&grid, count, 1, 1, h));
	OK(tomos_op_projector(&op, backend, &grid, scan, NULL));
	for (int64_t i = 0; i < count; i++)
		data[i] = (float)(h * f[i]), x[i] = 0;
	tomos_array b = tomos_array_of(data, 1, 1, count), image = tomos_array_of(x, 1, 1, count);
	o.iterations = strcmp(method, "pdhg") == 0 ? 1500 : 500;
	bool gradient = strcmp(o.regulariser, "tv") == 0 || strcmp(o.regulariser, "huber") == 0;
	if (strcmp(method, "fista") == 0 && gradient)
		o.inner = 40;
	OK(tomos_reconstruct(op, method, &b, &image, &o, NULL));
	tomos_op_free(op);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
}

static void assert_value(const char *what, double value, double wanted)
{
	if (!(fabs(value - wanted) < 2e-4))
		fail_msg("%s: %g, not %g", what, value, wanted);
}

static tomos_algebraic_options with(const char *regulariser, double strength)
{
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.regulariser = regulariser;
	o.strength = strength;
	return o;
}

/* Two levels of n1 and n2 voxels come together by alpha / (h^2 n1) and alpha / (h^2 n2). */
static void steps_come_together(void **state)
{
	(void)state;
	const double h = 0.7, alpha = 0.4, f[5] = {1, 1, 3, 3, 3};
	for (int m = 0; m < 2; m++) {
		float x[5];
		denoised(methods[m], with("tv", alpha), h, 5, f, x);
		for (int i = 0; i < 5; i++)
			assert_value(methods[m], x[i],
				i < 2 ? 1 + alpha / (h * h * 2) : 3 - alpha / (h * h * 3));
	}
}

/* Of two voxels the jump J loses 2 alpha / h^2, and where it ends below delta it is divided by
 * 1 + 2 alpha / (h^2 delta); the mean stays. */
static void huber_of_two(void **state)
{
	(void)state;
	static const double deltas[] = {0.1, 0.8, 2};
	const double h = 0.7, alpha = 0.2, f[2] = {1, 2.5};
	for (int m = 0; m < 2; m++)
		for (int k = 0; k < 3; k++) {
			float x[2];
			tomos_algebraic_options o = with("huber", alpha);
			o.huber = deltas[k];
			denoised(methods[m], o, h, 2, f, x);
			double jump = 1.5 - 2 * alpha / (h * h);
			if (jump < deltas[k])
				jump = 1.5 / (1 + 2 * alpha / (h * h * deltas[k]));
			assert_value("huber", (double)x[1] - x[0], jump);
			assert_value("huber's mean", (double)x[1] + x[0], 3.5);
		}
}

/* Tikhonov: h^2 f / (h^2 + alpha); L1: f less alpha / h^2; and both inside bounds. */
static void single_voxels(void **state)
{
	(void)state;
	const double h = 0.7, alpha = 0.2, f[4] = {2, -1.5, 0.3, 0.9};
	for (int i = 0; i < 8; i++) {
		bool l1 = i / 2 % 2, bounded = i / 4;
		float x[4];
		tomos_algebraic_options o = with(l1 ? "l1" : "tikhonov", alpha);
		o.minimum = bounded ? -0.5 : o.minimum, o.maximum = bounded ? 0.6 : o.maximum;
		denoised(methods[i % 2], o, h, 4, f, x);
		for (int k = 0; k < 4; k++) {
			double wanted = l1 ? copysign(fmax(fabs(f[k]) - alpha / (h * h), 0), f[k])
					   : h * h * f[k] / (h * h + alpha);
			if (bounded)
				wanted = fmin(fmax(wanted, -0.5), 0.6);
			assert_value(l1 ? "l1" : "tikhonov", x[k], wanted);
		}
	}
}

/* ---- the minimum of whole problems ----------------------------------------------------------- */

/* Adds alpha times the gradient of the Huber penalty: of the length of (dx, dy, dz), or (dx, dy),
 * in each voxel. */
static void add_huber(const Problem *p, const tomos_algebraic_options *o, double *g)
{
	int first = strcmp(o->penalty_within, "slices") == 0; /* of the axes z, y, x */
	const int64_t *n = p->x.shape, stride[3] = {n[1] * n[2], n[2], 1};
	const float *x = p->x.data;
	for (int64_t i = 0; i < p->voxels; i++) {
		const int64_t at[3] = {i / stride[0], i / n[2] % n[1], i % n[2]};
		double d[3] = {0}, square = 0;
		for (int a = first; a < 3; a++) {
			d[a] = at[a] + 1 < n[a] ? (double)x[i + stride[a]] - x[i] : 0;
			square += d[a] * d[a];
		}
		double slope = o->strength / fmax(sqrt(square), o->huber);
		for (int a = first; a < 3; a++) {
			g[i] -= slope * d[a];
			if (at[a] + 1 < n[a])
				g[i + stride[a]] += slope * d[a];
		}
	}
}

/* The largest part of the gradient that no bound holds, over the largest at x = 0. */
static double slope_left(Problem *p, const tomos_algebraic_options *o)
{
	float *r = malloc((size_t)p->pixels * sizeof *r),
	      *s = malloc((size_t)p->voxels * sizeof *s);
	double *g = calloc((size_t)p->voxels, sizeof *g), most = 0, left = 0;
	tomos_array ray = tomos_array_of(r, p->b.shape[0], p->b.shape[1], p->b.shape[2]);
	tomos_array back = tomos_array_of(s, p->x.shape[0], p->x.shape[1], p->x.shape[2]);
	OK(tomos_op_adjoint(p->op, &p->b, &back));
	for (int64_t i = 0; i < p->voxels; i++)
		most = fmax(most, fabs(s[i]));
	OK(tomos_op_forward(p->op, &p->x, &ray));
	for (int64_t i = 0; i < p->pixels; i++)
		r[i] -= p->b.data[i];
	OK(tomos_op_adjoint(p->op, &ray, &back));
	for (int64_t i = 0; i < p->voxels; i++)
		g[i] = s[i];
	add_huber(p, o, g);
	for (int64_t i = 0; i < p->voxels; i++) {
		bool low = p->x.data[i] <= (float)o->minimum,
		     high = p->x.data[i] >= (float)o->maximum;
		left = fmax(left, low ? fmax(-g[i], 0) : high ? fmax(g[i], 0) : fabs(g[i]));
	}
	free(r), free(s), free(g);
	return left / most;
}

static void minima(void **state)
{
	(void)state;
	static const char *const geometries[] = {"parallel", "cone"};
	for (int i = 0; i < 10; i++) {
		bool cone = i >= 8 || i / 2 % 2, fista = i % 2 == 0, slices = i >= 8;
		Problem p = problem_make(geometries[cone], "joseph", cone ? 7 : 10, 9, 0.1);
		tomos_algebraic_options o = problem_options(NULL, fista ? 100 : 500);
		o.regulariser = "huber", o.strength = 0.02, o.huber = 0.2;
		if (fista)
			o.inner = 40;
		if (slices)
			o.penalty_within = "slices";
		if (i / 4)
			o.minimum = 0.2, o.maximum = 1.1;
		OK(tomos_reconstruct(p.op, methods[i % 2], &p.b, &p.x, &o, NULL));
		double left = slope_left(&p, &o);
		printf("  %s, %s%s%s: %.1e of the slope left\n", methods[i % 2], geometries[cone],
			i / 4 ? ", bounded" : "", slices ? ", slices" : "", left);
		assert_true(left < 1e-4);
		problem_free(&p);
	}
}

/* Differences along one axis have a norm below 2, reached by signs in turn, and their squares add
 * up. */
static void bound_of_the_gradient(void **state)
{
	(void)state;
	tomos_algebraic_options o = tomos_algebraic_defaults();
	for (int kind = 0; kind < 3; kind++) {
		int64_t slices = kind == 0 ? 1 : 16;
		Space space = {NULL, {slices, 16, 16}, slices * 256, NULL};
		Iteration it = {.X = &space, .o = &o};
		double axes = kind == 1 ? 3 : 2;
		o.penalty_within = kind == 2 ? "slices" : "volume";
		assert_true(fabs(gradient_bound(&it) - 4 * axes) < 1e-12);
	}
}

#define TESTS(T) \
	T(steps_come_together), T(huber_of_two), T(single_voxels), T(minima), \
		T(bound_of_the_gradient)
TEST_MAIN(TESTS, one_thread, NULL)
