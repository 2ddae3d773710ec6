/* The algebraic methods against closed-form data, against each other and against their theory. */
#include "algo/problem.h"

typedef struct {
	const char *method;
	int64_t iterations;
	double limits[3]; /* relative error: parallel, fan, cone */
	void (*set)(tomos_algebraic_options *o);
} Case3;

static void set_cimmino(tomos_algebraic_options *o)
{
	o->weights = "cimmino";
}

static void set_landweber(tomos_algebraic_options *o)
{
	o->weights = "landweber";
}

static void set_cav(tomos_algebraic_options *o)
{
	o->weights = "cav";
}

static void set_drop(tomos_algebraic_options *o)
{
	o->weights = "drop";
}

static void set_nesterov(tomos_algebraic_options *o)
{
	o->blocks = 4;
	o->nesterov = 1;
}

static void set_bounds(tomos_algebraic_options *o)
{
	o->minimum = 0;
	o->maximum = 1.5;
}

static void set_slow(tomos_algebraic_options *o)
{
	o->relaxation = 0.3;
}

static void set_tv(tomos_algebraic_options *o)
{
	o->strength = 3e-4;
	o->minimum = 0;
}

static void set_huber(tomos_algebraic_options *o)
{
	o->strength = 3e-4;
	o->regulariser = "huber";
}

static void set_l1(tomos_algebraic_options *o)
{
	o->strength = 1e-4;
	o->regulariser = "l1";
}

static void set_tikhonov(tomos_algebraic_options *o)
{
	o->strength = 1e-3;
	o->regulariser = "tikhonov";
}

static void set_damping(tomos_algebraic_options *o)
{
	o->strength = 1e-3;
}

static const Case3 cases[] = {{"sirt", 60, {0.07, 0.08, 0.15}, NULL},
	{"sirt", 60, {0.06, 0.065, 0.13}, set_bounds},
	{"sirt", 60, {0.08, 0.10, 0.22}, set_cimmino},
	{"sirt", 60, {0.08, 0.10, 0.22}, set_landweber}, {"sirt", 60, {0.08, 0.10, 0.22}, set_cav},
	{"sirt", 60, {0.08, 0.10, 0.22}, set_drop}, {"art", 4, {0.065, 0.08, 0.14}, set_slow},
	{"sart", 4, {0.065, 0.075, 0.16}, set_slow}, {"block", 15, {0.065, 0.08, 0.14}, NULL},
	{"block", 10, {0.085, 0.09, 0.17}, set_nesterov}, {"cgls", 12, {0.075, 0.08, 0.22}, NULL},
	{"cgls", 12, {0.075, 0.08, 0.22}, set_damping},
	{"lsqr", 12, {0.075, 0.08, 0.22}, set_damping},
	{"lsmr", 12, {0.075, 0.08, 0.22}, set_damping}, {"mlem", 60, {0.10, 0.10, 0.14}, NULL},
	{"osem", 8, {0.10, 0.10, 0.13}, NULL}, {"fista", 40, {0.055, 0.06, 0.095}, set_tv},
	{"fista", 40, {0.07, 0.07, 0.13}, set_huber}, {"fista", 40, {0.085, 0.09, 0.14}, set_l1},
	{"fista", 40, {0.085, 0.09, 0.14}, set_tikhonov},
	{"pdhg", 100, {0.04, 0.045, 0.09}, set_tv}, {"pdhg", 100, {0.06, 0.065, 0.13}, set_huber},
	{"pdhg", 100, {0.07, 0.08, 0.13}, set_l1}, {"pdhg", 100, {0.07, 0.08, 0.13}, set_tikhonov},
	{"asd-pocs", 40, {0.08, 0.085, 0.26}, NULL}};

/* Sanitizers look at every method, not at how far it comes: a few iterations, which must not
 * diverge. */
static void errors(void **state)
{
	(void)state;
	static const char *const geometries[] = {"parallel", "fan", "cone"};
	const int kinds = case_slow() ? 2 : 3; /* the cone is most of the work */
	Problem problems[3];
	for (int g = 0; g < kinds; g++) {
		int64_t n = g == 2 ? 32 : 48;
		problems[g] = problem_make(geometries[g], "joseph", n, g == 2 ? 24 : 60, 0);
	}
	printf("relative error after N iterations (cone: a third): parallel, fan, cone\n");
	for (int i = 0; i < COUNT(cases); i++) {
		/* On devices fan and cone are projected once per method: weights and penalties are
		 * vector operations, which parallel beams show. */
		const bool again = i > 0 && strcmp(cases[i].method, cases[i - 1].method) == 0;
		const int shown = test_repeats() || !again ? kinds : 1;
		printf("  %-9s %4lld ", cases[i].method, (long long)cases[i].iterations);
		for (int g = 0; g < shown; g++) {
			const int64_t all = cases[i].iterations;
			const double limit = case_slow() ? 1 : cases[i].limits[g];
			tomos_algebraic_options o =
				problem_options(NULL, case_slow() ? (all + 9) / 10
						      : g == 2    ? (all + 2) / 3
								  : all);
			Problem *p = &problems[g];
			if (cases[i].set)
				cases[i].set(&o);
			problem_zero(p);
			OK(tomos_reconstruct(p->op, cases[i].method, &p->b, &p->x, &o, NULL));
			double error = problem_error(p);
			printf("  %.4f", error);
			if (!(error < limit))
				fail_msg("%s on %s: error %g, limit %g", cases[i].method,
					geometries[g], error, limit);
		}
		printf("\n");
	}
	for (int g = 0; g < kinds; g++)
		problem_free(&problems[g]);
}

static void residuals_fall(void **state)
{
	(void)state;
	static const char *const methods[] = {"sirt", "cgls", "lsqr", "lsmr"};
	Problem p = problem_make("fan", "line", 32, 40, 0.02);
	for (int i = 0; i < COUNT(methods); i++) {
		Lists lists;
		tomos_algebraic_options o = problem_options(&lists, 30);
		if (i == 0)
			o.weights = "landweber"; /* whose residual is the plain one */
		problem_zero(&p);
		OK(tomos_reconstruct(p.op, methods[i], &p.b, &p.x, &o, NULL));
		assert_int_equal(lists.history.count, 30);
		for (int k = 1; k < 30; k++)
			if (lists.residual[k] > lists.residual[k - 1] * (1 + 1e-5))
				fail_msg("%s: residual %g after %g", methods[i], lists.residual[k],
					lists.residual[k - 1]);
	}
	problem_free(&p);
}

/* The reported residual is the one of the iterate. */
static void residuals_true(void **state)
{
	(void)state;
	static const char *const methods[] = {"sirt", "cgls", "lsqr", "lsmr", "fista", "pdhg"};
	Problem p = problem_make("parallel", "joseph", 32, 40, 0.02);
	float *y = malloc((size_t)p.pixels * sizeof *y);
	for (int i = 0; i < COUNT(methods); i++) {
		Lists lists;
		tomos_algebraic_options o = problem_options(&lists, 9);
		tomos_array projected = tomos_array_of(y, p.b.shape[0], p.b.shape[1], p.b.shape[2]);
		if (i >= 1)
			o.strength = 0.01;
		problem_zero(&p);
		OK(tomos_reconstruct(p.op, methods[i], &p.b, &p.x, &o, NULL));
		OK(tomos_op_forward(p.op, &p.x, &projected));
		double wanted = case_difference(y, p.b.data, p.pixels);
		if (!(fabs(lists.residual[8] - wanted) < 1e-3 * wanted))
			fail_msg("%s reports %g, it is %g", methods[i], lists.residual[8], wanted);
	}
	free(y);
	problem_free(&p);
}

static void solve(Problem *p, const char *method, const tomos_algebraic_options *o, float *result)
{
	problem_zero(p);
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, o, NULL));
	memcpy(result, p->x.data, (size_t)p->voxels * sizeof *result);
}

/* SART, written out for one view after the other with operators of single views. */
static void sart_by_hand(const Problem *p, int64_t sweeps, float *x)
{
	int64_t n = p->voxels, m = p->pixels / p->b.shape[0];
	float *row = malloc(4 * (size_t)(n + m) * sizeof *row);
	float *r = row + m, *ones = r + m, *column = ones + n + m, *s = column + n;
	memset(x, 0, (size_t)n * sizeof *x);
	for (int64_t i = 0; i < n + m; i++)
		ones[i] = 1;
	for (int64_t k = 0; k < sweeps * p->b.shape[0]; k++) {
		int64_t view = k % p->b.shape[0];
		tomos_geometry *one;
		OK(tomos_geometry_views(&one, p->b.shape[1], p->b.shape[2],
			tomos_geometry_list(p->scan) + view, 1));
		case_forward(p->backend, &p->grid, one, NULL, ones, row);
		case_adjoint(p->backend, &p->grid, one, NULL, ones, column);
		case_forward(p->backend, &p->grid, one, NULL, x, r);
		for (int64_t i = 0; i < m; i++)
			r[i] = row[i] > 1e-5F ? (p->b.data[view * m + i] - r[i]) / row[i] : 0;
		case_adjoint(p->backend, &p->grid, one, NULL, r, s);
		for (int64_t i = 0; i < n; i++)
			x[i] += column[i] > 1e-5F ? s[i] / column[i] : 0;
		tomos_geometry_free(one);
	}
	free(row);
}

static void blocks_between(void **state)
{
	(void)state;
	static const char *const weights[] = {"sirt", "cimmino", "landweber", "cav", "drop"};
	Problem p = problem_make("fan", "joseph", 24, 20, 0);
	float *one = malloc((size_t)p.voxels * sizeof *one),
	      *two = malloc((size_t)p.voxels * sizeof *two);
	for (int i = 0; i < COUNT(weights); i++) {
		tomos_algebraic_options o = problem_options(NULL, 8);
		o.weights = weights[i];
		solve(&p, "sirt", &o, one);
		o.blocks = 1;
		solve(&p, "block", &o, two);
		assert_true(case_difference(two, one, p.voxels) < 1e-5);
	}
	for (int i = 0; i < 4; i++) {
		static const char *const orders[] = {
			"sequential", "random", "golden", "multilevel"};
		tomos_algebraic_options o = problem_options(NULL, 3);
		o.order = orders[i];
		solve(&p, "sart", &o, one);
		o.blocks = 20;
		solve(&p, "block", &o, two);
		assert_true(case_difference(two, one, p.voxels) < 1e-5);
		if (i == 0) {
			sart_by_hand(&p, 3, two);
			assert_true(case_difference(two, one, p.voxels) < 1e-4);
		}
	}
	free(one);
	free(two);
	problem_free(&p);
}

static void momentum_helps(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 48, 60, 0);
	double residual[2];
	for (int nesterov = 0; nesterov < 2; nesterov++) {
		Lists lists;
		tomos_algebraic_options o = problem_options(&lists, 20);
		o.blocks = 1;
		o.nesterov = nesterov;
		problem_zero(&p);
		OK(tomos_block(p.op, &p.b, &p.x, &o, NULL));
		residual[nesterov] = lists.residual[19];
	}
	printf("residual of one block after 20 sweeps: %.4g, with momentum %.4g\n", residual[0],
		residual[1]);
	assert_true(residual[1] < 0.6 * residual[0]);
	problem_free(&p);
}

/* Where all have converged, all are the same: Tikhonov's minimum is one. */
static void krylov_converge(Problem *p, float *cgls, float *other)
{
	tomos_algebraic_options o = problem_options(NULL, 200);
	o.strength = 0.05;
	solve(p, "cgls", &o, cgls);
	solve(p, "lsmr", &o, other);
	assert_true(case_difference(other, cgls, p->voxels) < 1e-4);
	o.regulariser = "tikhonov";
	solve(p, "fista", &o, other);
	assert_true(case_difference(other, cgls, p->voxels) < 1e-3);
	o.iterations = 400;
	solve(p, "pdhg", &o, other);
	assert_true(case_difference(other, cgls, p->voxels) < 1e-3);
}

static void krylov_agree(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 32, 40, 0.01);
	float *cgls = malloc((size_t)p.voxels * sizeof *cgls),
	      *lsqr = malloc((size_t)p.voxels * sizeof *lsqr);
	for (int k = 1; k <= 5; k++)
		for (int damped = 0; damped < 2; damped++) {
			tomos_algebraic_options o = problem_options(NULL, k);
			o.strength = 0.1 * damped;
			solve(&p, "cgls", &o, cgls);
			solve(&p, "lsqr", &o, lsqr);
			assert_true(case_difference(lsqr, cgls, p.voxels) < 1e-3);
		}
	if (!case_slow())
		krylov_converge(&p, cgls, lsqr);
	free(cgls);
	free(lsqr);
	problem_free(&p);
}

/* 1/2 ||A x - b||^2 + strength sum |x| */
static double l1_objective(const Problem *p, double strength)
{
	float *y = malloc((size_t)p->pixels * sizeof *y);
	double sum = 0;
	case_forward(p->backend, &p->grid, p->scan, NULL, p->x.data, y);
	for (int64_t i = 0; i < p->pixels; i++)
		sum += 0.5 * (y[i] - p->b.data[i]) * (y[i] - p->b.data[i]);
	for (int64_t i = 0; i < p->voxels; i++)
		sum += strength * fabs(p->x.data[i]);
	free(y);
	return sum;
}

/* FISTA and PDHG meet at the minimum; that of L1 is flat, so there it is the values that meet. */
static void penalties_agree(void **state)
{
	(void)state;
	static const char *const penalties[] = {"tv", "huber", "l1"};
	if (case_slow()) /* the same steps as in errors(), until they end */
		skip();
	Problem p = problem_make("parallel", "joseph", 16, 12, 0.05);
	float *one = malloc((size_t)p.voxels * sizeof *one),
	      *two = malloc((size_t)p.voxels * sizeof *two);
	for (int i = 0; i < COUNT(penalties); i++) {
		tomos_algebraic_options o = problem_options(NULL, 150);
		o.regulariser = penalties[i];
		o.strength = 0.01;
		if (strcmp(penalties[i], "huber") == 0)
			o.huber = 0.05;
		o.minimum = 0;
		solve(&p, "fista", &o, one);
		double least = l1_objective(&p, o.strength);
		o.iterations = 600;
		solve(&p, "pdhg", &o, two);
		double apart = i == 2 ? fabs(l1_objective(&p, o.strength) / least - 1)
				      : case_difference(two, one, p.voxels);
		printf("fista and pdhg with %s: %.5f apart\n", penalties[i], apart);
		assert_true(apart < 0.01);
	}
	free(one);
	free(two);
	problem_free(&p);
}

static void inside(const Problem *p, const char *method, double low, double high, const float *mask)
{
	for (int64_t i = 0; i < p->voxels; i++) {
		double x = p->x.data[i];
		bool bad = mask && mask[i] == 0 ? x != 0 : !(x >= (float)low && x <= (float)high);
		if (bad)
			fail_msg("%s: voxel %lld is %g", method, (long long)i, x);
	}
}

static void constraints(void **state)
{
	(void)state;
	static const char *const methods[] = {
		"sirt", "art", "sart", "block", "mlem", "osem", "fista", "pdhg", "asd-pocs"};
	Problem p = problem_make("parallel", "line", 24, 20, 0.05);
	tomos_array mask = problem_array(1, 24, 24);
	for (int64_t i = 0; i < p.voxels; i++)
		mask.data[i] = p.truth.data[i] > 0.01F ? 7 : 0;
	for (int i = 0; i < COUNT(methods); i++)
		for (int masked = 0; masked < 2; masked++) {
			tomos_algebraic_options o = problem_options(NULL, 6);
			o.minimum = 0.1;
			o.maximum = 1.2;
			o.mask = masked ? &mask : NULL;
			o.strength =
				strcmp(methods[i], "fista") == 0 || strcmp(methods[i], "pdhg") == 0
					? 1e-3
					: 0;
			problem_zero(&p);
			for (int64_t k = 0; k < p.voxels; k++)
				p.x.data[k] = 0.5F;
			OK(tomos_reconstruct(p.op, methods[i], &p.b, &p.x, &o, NULL));
			inside(&p, methods[i], 0.1, 1.2, masked ? mask.data : NULL);
		}
	free(mask.data);
	problem_free(&p);
}

/* A mask without bounds, for all methods: nothing outside, and about as good inside. */
static void masks(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 24, 20, 0);
	tomos_array mask = problem_array(1, 24, 24);
	for (int64_t i = 0; i < p.voxels; i++)
		mask.data[i] = p.truth.data[i] > 0.01F;
	char names[256], *name;
	snprintf(names, sizeof names, "%s", tomos_method_names());
	for (name = strtok(names, "|"); name; name = strtok(NULL, "|")) {
		tomos_algebraic_options o = problem_options(NULL, 6);
		problem_zero(&p);
		OK(tomos_reconstruct(p.op, name, &p.b, &p.x, &o, NULL));
		double without = problem_error(&p);
		o.mask = &mask;
		problem_zero(&p);
		OK(tomos_reconstruct(p.op, name, &p.b, &p.x, &o, NULL));
		inside(&p, name, -1e9, 1e9, mask.data);
		if (!(problem_error(&p) < 1.2 * without))
			fail_msg("%s: error %g with a mask, %g without", name, problem_error(&p),
				without);
	}
	free(mask.data);
	problem_free(&p);
}

/* Pixels that are wrong do no harm where their weight is 0, whatever they hold. Devices that add in
 * any order differ from run to run anyway, and CGLS makes 1e-3 of it; a wrong pixel that counts
 * would make more than 1. */
static void bad_pixels(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 24, 30, 0);
	tomos_array weights = problem_array(30, 1, 24);
	float *first = malloc((size_t)p.voxels * sizeof *first);
	for (int64_t i = 0; i < p.pixels; i++)
		weights.data[i] = i % 24 == 9 || i % 31 == 0 ? 0 : 2;
	char names[256], *name;
	snprintf(names, sizeof names, "%s", tomos_method_names());
	for (name = strtok(names, "|"); name; name = strtok(NULL, "|")) {
		tomos_algebraic_options o = problem_options(NULL, 8);
		o.ray_weights = &weights;
		for (int run = 0; run < 2; run++) {
			for (int64_t i = 0; i < p.pixels; i++)
				p.b.data[i] += weights.data[i] == 0 ? 50.0F * (float)run : 0;
			solve(&p, name, &o, run ? p.x.data : first);
		}
		double apart = case_difference(p.x.data, first, p.voxels),
		       error = problem_error(&p);
		for (int64_t i = 0; i < p.pixels; i++)
			p.b.data[i] -= weights.data[i] == 0 ? 50 : 0;
		if (!(apart < (test_repeats() ? 1e-5 : 1e-2)) || !(error < 0.5))
			fail_msg("%s: %g apart, error %g", name, apart, error);
	}
	free(first);
	free(weights.data);
	problem_free(&p);
}

/* Matrices that sweep by themselves come to what rows one by one come to; bounds, a mask and a
 * random order are for rows alone. */
static void art_on_matrices(void **state)
{
	(void)state;
	static const char *const storages[] = {"csr", "scsr"};
	Problem p = problem_make("parallel", "joseph", 40, 24, 0.01);
	tomos_array mask = problem_array(1, 40, 40);
	float *first = malloc((size_t)p.voxels * sizeof *first);
	for (int64_t i = 0; i < p.voxels; i++)
		mask.data[i] = i % 40 > 3;
	for (int way = 0; way < 5; way++) {
		tomos_algebraic_options o = problem_options(NULL, 3);
		o.minimum = way == 1 ? 0 : o.minimum;
		o.mask = way == 2 ? &mask : NULL;
		o.order = way == 3 ? "random" : way == 4 ? "sequential" : o.order;
		for (int k = 0; k < 2; k++) {
			tomos_matrix_options m = tomos_matrix_defaults();
			tomos_op *op, *projector = p.op;
			tomos_backend *cpu;
			m.storage = storages[k];
			OK(tomos_backend_open(&cpu, "cpu"));
			OK(tomos_op_matrix(&op, cpu, &p.grid, p.scan, NULL, &m));
			p.op = op;
			solve(&p, "art", &o, k ? p.x.data : first);
			p.op = projector;
			tomos_op_free(op);
			tomos_backend_close(cpu);
		}
		double apart = case_difference(p.x.data, first, p.voxels);
		if (!(apart < 1e-5))
			fail_msg("way %d: %g apart", way, apart);
	}
	free(first);
	free(mask.data);
	problem_free(&p);
}

#define TESTS(T) \
	T(errors), T(residuals_fall), T(residuals_true), T(blocks_between), T(momentum_helps), \
		T(krylov_agree), T(penalties_agree), T(constraints), T(masks), T(bad_pixels), \
		T(art_on_matrices)
TEST_MAIN(TESTS, NULL, NULL)
