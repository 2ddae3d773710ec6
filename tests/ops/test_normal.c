/* The normal operator of the Fourier projector against its definition, iterations with it against
 * those with projections, and what it rejects. */
#include "op/op.h" /* first: cmocka makes a macro of fail() */
#include "base/fft.h"
#include "ops/opened.h"

enum { N = 40, VIEWS = 60, WIDE = 108, SLICES = 3, ITERATIONS = 30 };

/* A scan of a disc with a hole in each slice. */
typedef struct {
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_op *op;
	float x[SLICES][N][N], b[VIEWS][SLICES][WIDE], mask[SLICES][N][N];
} Scan;

static tomos_array volume_of(float *data)
{
	return tomos_array_of(data, SLICES, N, N);
}

static void scan_make_with(Scan *s, int64_t columns, double accuracy)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_projector_options p = tomos_projector_defaults();
	o.geometry = "parallel";
	o.views = VIEWS, o.columns = columns, o.rows = SLICES;
	OK(tomos_geometry_make(&s->scan, &o));
	OK(tomos_grid_centred(&s->grid, N, N, SLICES, 1));
	p.forward = "fourier";
	p.accuracy = accuracy;
	OK(tomos_op_projector(&s->op, backend, &s->grid, s->scan, &p));
	for (int z = 0; z < SLICES; z++)
		for (int y = 0; y < N; y++)
			for (int x = 0; x < N; x++) {
				double u = x - 0.5 * (N - 1), v = y - 0.5 * (N - 1);
				double hole = (u - 5) * (u - 5) + (v + z) * (v + z);
				s->mask[z][y][x] = u * u + v * v < 0.25 * N * N;
				s->x[z][y][x] = u * u + v * v < 16 * 16 && hole > 10 ? 1 : 0;
			}
	tomos_array volume = volume_of(&s->x[0][0][0]);
	tomos_array views = tomos_array_of(&s->b[0][0][0], VIEWS, SLICES, columns);
	OK(tomos_op_forward(s->op, &volume, &views));
	unsigned seed = 1; /* noise of 1 % */
	for (int64_t i = 0; i < VIEWS * SLICES * columns; i++) {
		seed = seed * 1664525U + 1013904223U;
		(&s->b[0][0][0])[i] += 0.3F * ((float)(seed >> 8) / 8388608.0F - 1);
	}
}

static void scan_make(Scan *s, int64_t columns)
{
	scan_make_with(s, columns, 1e-6);
}

static void scan_free(Scan *s)
{
	tomos_op_free(s->op);
	tomos_geometry_free(s->scan);
}

/* ---- the definition -------------------------------------------------------------------------- */

static double sinc(double x)
{
	return fabs(x) < 1e-9 ? 1 : sin(M_PI * x) / (M_PI * x);
}

/* The entry of A'A for two voxels (dx, dy) apart, from all columns of a period. */
static double entry(const Scan *s, int64_t period, double dx, double dy)
{
	double sum = 0;
	for (int64_t v = 0; v < VIEWS; v++) {
		const double *u = s->scan->views[v].u;
		double each = 1, t = u[0] * dx + u[1] * dy;
		for (int64_t m = 1; m < period / 2; m++) {
			double f = (double)m / (double)period;
			double taper = f > 0.4 ? cos(5 * M_PI * (f - 0.4)) : 1;
			double response = taper * taper * sinc(f * u[0]) * sinc(f * u[1]);
			each += 2 * response * response * cos(2 * M_PI * f * t);
		}
		sum += each / (double)period;
	}
	return sum;
}

/* A single voxel in one slice, other values in the others. */
static void kernel(void **state)
{
	static Scan s;
	static float in[SLICES][N][N], out[SLICES][N][N];
	tomos_op *normal;
	NormalRequest request = {0};
	(void)state;
	scan_make(&s, WIDE);
	memcpy(in, s.x, sizeof in);
	memset(in[1], 0, sizeof in[1]);
	in[1][7][3] = 2;
	OK(s.op->type->normal(s.op, &request, &normal));
	assert_non_null(normal);
	tomos_array from = volume_of(&in[0][0][0]), to = volume_of(&out[0][0][0]);
	OK(tomos_op_forward(normal, &from, &to));
	int64_t period = fft_length(WIDE + FOURIER_REACH);
	double largest = 2 * entry(&s, period, 0, 0);
	for (int i = 0; i < N * N; i += 37) {
		int x = i % N, y = i / N;
		double error = out[1][y][x] - 2 * entry(&s, period, x - 3, y - 7);
		if (fabs(error) > 2e-6 * largest) /* A and A' are each accurate to 1e-6 */
			fail_msg("voxel %d, %d: error %.2g", x, y, error / largest);
	}
	tomos_op_free(normal);
	scan_free(&s);
}

/* Narrow slices, for transforms of many lengths: a single voxel, by the convolution and by
 * projections. */
static void length(int64_t wide, int64_t high)
{
	enum { FEW = 7, MOST = 4100 };
	static float in[MOST], out[2][MOST], views[FEW * 4 * MOST];
	const int64_t columns = wide + high + 2 * FOURIER_REACH, voxels = wide * high;
	tomos_scan_options o = tomos_scan_defaults();
	tomos_projector_options p = tomos_projector_defaults();
	NormalRequest request = {0};
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_op *op, *normal;
	o.geometry = "parallel";
	o.views = FEW, o.columns = columns, o.rows = 1;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_grid_centred(&grid, wide, high, 1, 1));
	p.forward = "fourier";
	p.accuracy = 1e-6;
	OK(tomos_op_projector(&op, backend, &grid, scan, &p));
	OK(op->type->normal(op, &request, &normal));
	memset(in, 0, sizeof in);
	in[voxels / 3] = 1;
	tomos_array x = tomos_array_of(in, 1, high, wide);
	tomos_array one = tomos_array_of(out[0], 1, high, wide);
	tomos_array two = tomos_array_of(out[1], 1, high, wide);
	tomos_array y = tomos_array_of(views, FEW, 1, columns);
	OK(tomos_op_forward(normal, &x, &one));
	OK(tomos_op_forward(op, &x, &y));
	OK(tomos_op_adjoint(op, &y, &two));
	for (int64_t i = 0; i < voxels; i++)
		if (fabs((double)out[0][i] - out[1][i]) > 1e-5 * out[1][voxels / 3])
			fail_msg("%lld x %lld: voxel %lld differs by %.2g", (long long)wide,
				(long long)high, (long long)i, out[0][i] - out[1][i]);
	tomos_op_free(normal);
	tomos_op_free(op);
	tomos_geometry_free(scan);
}

static void lengths(void **state)
{
	(void)state;
	for (int64_t n = 3; n < (case_slow() ? 40 : 2000); n = n * 8 / 5 + 1) {
		length(n, 2);
		length(2, n);
	}
	length(510, 2); /* powers of two */
	length(2, 510);
	length(2, 1020);
	length(2040, 2);
	length(2, 2040);
}

/* ---- iterations ------------------------------------------------------------------------------ */

typedef struct {
	float x[SLICES][N][N];
	double residual[ITERATIONS];
	int64_t done; /* iterations */
	const char *kernel, *ended;
} Run;

static void run(Run *r, Scan *s, const char *method, const char *normal,
	const tomos_algebraic_options *options)
{
	tomos_algebraic_options o = *options;
	tomos_history history = {
		.bytes = sizeof history, .capacity = ITERATIONS, .residual = r->residual};
	tomos_array x = volume_of(&r->x[0][0][0]);
	tomos_array b = tomos_array_of(&s->b[0][0][0], VIEWS, SLICES, s->scan->columns);
	memset(r, 0, sizeof *r);
	o.normal = normal;
	o.history = &history;
	OK(tomos_reconstruct(s->op, method, &b, &x, &o, NULL));
	r->kernel = backend->kernel_of[FORWARD];
	r->ended = history.ended;
	r->done = history.count;
}

/* An iteration may have converged before the last one, to the same result. */
static void compare(const char *method, const Run *a, const Run *b, int64_t iterations)
{
	bool short_of = a->done < iterations && strcmp(a->ended, "converged") != 0;
	double difference = 0, norm = 0, residual = 0;
	for (int64_t i = 0; i < SLICES * N * N; i++) {
		double x = (&a->x[0][0][0])[i], y = (&b->x[0][0][0])[i];
		difference += (x - y) * (x - y);
		norm += x * x;
	}
	for (int64_t k = 0; k < min64(a->done, b->done); k++)
		residual = fmax(residual, fabs(b->residual[k] / a->residual[k] - 1));
	if (short_of || !(difference <= 1e-10 * norm) ||
		!(residual <= (test_repeats() ? 1e-3 : 2e-3)))
		fail_msg("%s: volumes differ by %.2g, residuals by %.2g", method,
			sqrt(difference / norm), residual);
}

/* Without a penalty CGLS is compared early: later iterates change by 1e-3 if data change by 1e-7,
 * with projections as well. */
static void iterates_at(double accuracy)
{
	static Scan s;
	static Run direct, fourier;
	static const struct {
		const char *method;
		int64_t iterations;
		double strength;
	} cases[] = {{"cgls", 4, 0}, {"cgls", 30, 60}, {"fista", 30, 2}, {"pdhg", 30, 2},
		{"sirt", 30, 0}};
	scan_make_with(&s, WIDE, accuracy);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		tomos_algebraic_options o = tomos_algebraic_defaults();
		o.iterations = cases[i].iterations;
		o.strength = cases[i].strength;
		if (strcmp(cases[i].method, "cgls") != 0)
			o.minimum = 0;
		if (strcmp(cases[i].method, "sirt") == 0)
			o.weights = "landweber";
		run(&direct, &s, cases[i].method, "direct", &o);
		assert_string_equal(direct.kernel, "fourier");
		run(&fourier, &s, cases[i].method, "auto", &o);
		assert_string_equal(fourier.kernel, "fourier_normal");
		compare(cases[i].method, &direct, &fourier, o.iterations);
	}
	scan_free(&s);
}

static void iterates(void **state)
{
	(void)state;
	iterates_at(tomos_projector_defaults().accuracy);
	iterates_at(1e-6);
}

static double projected_residual(Scan *s, Run *r)
{
	static float projected[VIEWS][SLICES][WIDE];
	const float *a = &projected[0][0][0], *b = &s->b[0][0][0];
	const tomos_array x = volume_of(&r->x[0][0][0]);
	const tomos_array y = tomos_array_of(&projected[0][0][0], VIEWS, SLICES, WIDE);
	double square = 0;
	OK(tomos_op_forward(s->op, &x, &y));
	for (int64_t i = 0; i < VIEWS * SLICES * WIDE; i++)
		square += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
	return sqrt(square);
}

/* An object that is larger than the volume: rounding delays late iterations, by projections more
 * than by the convolution, but does not change what they converge to. */
static void outside(void **state)
{
	static Scan s;
	static Run direct, fourier;
	tomos_algebraic_options o = tomos_algebraic_defaults();
	(void)state;
	scan_make_with(&s, WIDE, tomos_projector_defaults().accuracy);
	for (int64_t i = 0; i < VIEWS * SLICES * WIDE; i++) {
		double t = (double)(i % WIDE) - 0.5 * (WIDE - 1);
		(&s.b[0][0][0])[i] += 2 * (float)sqrt(fmax(45. * 45 - t * t, 0));
	}
	o.iterations = 60;
	run(&direct, &s, "cgls", "direct", &o);
	run(&fourier, &s, "cgls", "fourier", &o);
	assert_true(projected_residual(&s, &fourier) <= 1.00001 * projected_residual(&s, &direct));
	scan_free(&s);
}

/* The detector covers the circle of the mask, and not the corners. */
static void masked(void **state)
{
	enum { NARROW = N + 2 * FOURIER_REACH + 2 };
	static Scan s;
	static Run direct, fourier;
	tomos_algebraic_options o = tomos_algebraic_defaults();
	(void)state;
	scan_make(&s, NARROW);
	tomos_array mask = volume_of(&s.mask[0][0][0]);
	o.iterations = 4;
	run(&direct, &s, "cgls", "direct", &o);
	run(&fourier, &s, "cgls", "auto", &o);
	assert_string_equal(fourier.kernel, "fourier");
	assert_memory_equal(&direct.x, &fourier.x, sizeof direct.x);
	o.mask = &mask;
	run(&direct, &s, "cgls", "direct", &o);
	run(&fourier, &s, "cgls", "auto", &o);
	assert_string_equal(fourier.kernel, "fourier_normal");
	compare("cgls in a circle", &direct, &fourier, o.iterations);
	assert_true(fourier.x[0][0][0] == 0);
	scan_free(&s);
}

/* Weights of views are those of all their rays. */
static void weighted(void **state)
{
	static Scan s;
	static Run direct, fourier;
	static float weights[VIEWS][SLICES][WIDE];
	tomos_algebraic_options o = tomos_algebraic_defaults();
	const tomos_array array = tomos_array_of(&weights[0][0][0], VIEWS, SLICES, WIDE);
	(void)state;
	scan_make(&s, WIDE);
	for (int64_t i = 0; i < VIEWS * SLICES * WIDE; i++)
		(&weights[0][0][0])[i] = (float)(1 + i / (SLICES * WIDE) % 7);
	o.iterations = 4;
	o.ray_weights = &array;
	run(&direct, &s, "cgls", "direct", &o);
	run(&fourier, &s, "cgls", "auto", &o);
	assert_string_equal(fourier.kernel, "fourier_normal");
	compare("cgls with weights of views", &direct, &fourier, o.iterations);
	weights[5][1][3] += 1;
	run(&fourier, &s, "cgls", "auto", &o);
	assert_string_equal(fourier.kernel, "fourier");
	scan_free(&s);
}

/* Without noise the residual falls to rounding error, after which more iterations would only add
 * errors. */
static void exact_data(void **state)
{
	static Scan s;
	static Run fourier;
	double difference = 0, norm = 0;
	tomos_algebraic_options o = tomos_algebraic_defaults();
	(void)state;
	scan_make(&s, WIDE);
	tomos_array volume = volume_of(&s.x[0][0][0]);
	tomos_array views = tomos_array_of(&s.b[0][0][0], VIEWS, SLICES, WIDE);
	OK(tomos_op_forward(s.op, &volume, &views));
	o.iterations = 1000;
	run(&fourier, &s, "cgls", "fourier", &o);
	assert_string_equal(fourier.ended, "accuracy");
	for (int64_t i = 0; i < SLICES * N * N; i++) {
		double x = (&s.x[0][0][0])[i], y = (&fourier.x[0][0][0])[i];
		difference += (x - y) * (x - y);
		norm += x * x;
	}
	assert_true(difference < 0.01 * norm);
	scan_free(&s);
}

/* ---- rejections ------------------------------------------------------------------------------ */

static tomos_status attempt(Scan *s, const char *method, tomos_algebraic_options o)
{
	static float volume[SLICES][N][N];
	tomos_array x = volume_of(&volume[0][0][0]);
	tomos_array b = tomos_array_of(&s->b[0][0][0], VIEWS, SLICES, s->scan->columns);
	o.normal = "fourier";
	o.iterations = 1;
	return tomos_reconstruct(s->op, method, &b, &x, &o, NULL);
}

static void rejected(void **state)
{
	static Scan s, narrow;
	const tomos_algebraic_options o = tomos_algebraic_defaults();
	tomos_algebraic_options bad = o;
	(void)state;
	scan_make(&s, WIDE);
	REJECTED(attempt(&s, "lsqr", o), TOMOS_BAD_VALUE, "no use for the option 'normal'");
	REJECTED(attempt(&s, "sirt", o), TOMOS_UNSUPPORTED, "--weights landweber has none");
	tomos_array views = tomos_array_of(&s.b[0][0][0], VIEWS, SLICES, WIDE);
	for (int64_t i = 0; i < VIEWS * SLICES * WIDE; i++)
		(&s.b[0][0][0])[i] = fabsf((&s.b[0][0][0])[i]);
	bad.ray_weights = &views;
	REJECTED(attempt(&s, "cgls", bad), TOMOS_UNSUPPORTED,
		"--ray-weights that differ within a view");
	bad = o;
	bad.stop = "ncp";
	REJECTED(attempt(&s, "cgls", bad), TOMOS_UNSUPPORTED, "--stop ncp");
	scan_make(&narrow, N);
	REJECTED(attempt(&narrow, "cgls", o), TOMOS_UNSUPPORTED,
		"in view 1 voxels project onto columns -1.0 to 40.0, and the detector has columns "
		"0 to 39");
	tomos_op *fourier = s.op;
	tomos_projector_options p = tomos_projector_defaults();
	s.grid.step[2] = 1.5; /* slices are not as high as rows */
	p.forward = "fourier";
	OK(tomos_op_projector(&s.op, backend, &s.grid, s.scan, &p));
	REJECTED(attempt(&s, "cgls", o), TOMOS_UNSUPPORTED, "not as high as detector rows");
	tomos_op_free(s.op);
	p.forward = "joseph";
	OK(tomos_op_projector(&s.op, backend, &s.grid, s.scan, &p));
	REJECTED(attempt(&s, "cgls", o), TOMOS_UNSUPPORTED, "that of --forward fourier is");
	tomos_op_free(fourier);
	scan_free(&s);
	scan_free(&narrow);
}

#define TESTS(T) \
	T(kernel), T(lengths), T(iterates), T(outside), T(masked), T(weighted), T(exact_data), \
		T(rejected)
TEST_MAIN(TESTS, open_backend, close_backend)
