/* The rules that end an iteration, each against its definition on the iterates themselves: the step
 * at which it must end, with the limit just above and just below what that step has. */
#include "algo/iteration.h" /* first: cmocka makes a macro of fail() */
#include "algo/problem.h"

enum { STEPS = 14, SIZE = 20, TURNS = 18, AT = 7 };

/* All iterates of a method and their residuals; 0: before the first. */
typedef struct {
	Problem p;
	const char *method;
	double *x[STEPS + 1], *r[STEPS + 1];
} Trail;

static double dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

static void trail_step(Trail *t, int k)
{
	Problem *p = &t->p;
	float *y = malloc((size_t)p->pixels * sizeof *y);
	tomos_array projected = tomos_array_of(y, p->b.shape[0], p->b.shape[1], p->b.shape[2]);
	tomos_algebraic_options o = problem_options(NULL, k);
	problem_zero(p);
	OK(tomos_reconstruct(p->op, t->method, &p->b, &p->x, &o, NULL));
	OK(tomos_op_forward(p->op, &p->x, &projected));
	t->x[k] = malloc((size_t)p->voxels * sizeof *t->x[k]);
	t->r[k] = malloc((size_t)p->pixels * sizeof *t->r[k]);
	for (int64_t i = 0; i < p->voxels; i++)
		t->x[k][i] = p->x.data[i];
	for (int64_t i = 0; i < p->pixels; i++)
		t->r[k][i] = (double)p->b.data[i] - y[i];
	free(y);
}

static Trail trail_make(const char *method)
{
	Trail t = {.p = problem_make("parallel", "joseph", SIZE, TURNS, 0.1), .method = method};
	for (int k = 0; k <= STEPS; k++)
		trail_step(&t, k);
	return t;
}

static void trail_free(Trail *t)
{
	for (int k = 0; k <= STEPS; k++)
		free(t->x[k]), free(t->r[k]);
	problem_free(&t->p);
}

/* ---- what each rule looks at after step k ---------------------------------------------------- */

static double data_norm(const Trail *t)
{
	return sqrt(case_dot(t->p.b.data, t->p.b.data, t->p.pixels));
}

static double change(const Trail *t, int k)
{
	double square = 0;
	for (int64_t i = 0; i < t->p.voxels; i++)
		square += (t->x[k][i] - t->x[k - 1][i]) * (t->x[k][i] - t->x[k - 1][i]);
	return sqrt(square / dot(t->x[k], t->x[k], t->p.voxels));
}

static double discrepancy(const Trail *t, int k)
{
	return sqrt(dot(t->r[k], t->r[k], t->p.pixels)) / data_norm(t);
}

/* r'(r + next) / (2 ||r||), which must not fall below the noise. */
static double monotone(const Trail *t, int k)
{
	const double *r = t->r[k - 1];
	double square = dot(r, r, t->p.pixels), product = dot(r, t->r[k], t->p.pixels);
	return (square + product) / (2 * sqrt(square)) / data_norm(t);
}

/* The power of all rows at f of `size`, rows filled up with zeros. */
static double power_at(const Trail *t, int k, int64_t f, int64_t size)
{
	double sum = 0;
	for (int64_t view = 0; view < TURNS; view++) {
		double re = 0, im = 0;
		for (int64_t i = 0; i < SIZE; i++) {
			double turn = 2 * M_PI * (double)(f * i) / (double)size;
			re += t->r[k][view * SIZE + i] * cos(turn);
			im += t->r[k][view * SIZE + i] * sin(turn);
		}
		sum += re * re + im * im;
	}
	return sum;
}

/* The distance of the normalised cumulative periodogram from the straight line of white noise. */
static double whiteness(const Trail *t, int k)
{
	enum { WIDE = 32, HALF = WIDE / 2 };
	double sum = 0, total = 0, square = 0;
	for (int64_t f = 1; f <= HALF; f++)
		total += power_at(t, k, f, WIDE);
	for (int64_t f = 1; f <= HALF; f++) {
		sum += power_at(t, k, f, WIDE);
		double off = sum / total - (double)f / HALF;
		square += off * off;
	}
	return sqrt(square);
}

/* ---- where they end -------------------------------------------------------------------------- */

static int64_t ended_after(Trail *t, const char *rule, double limit)
{
	Lists lists;
	tomos_algebraic_options o = problem_options(&lists, STEPS);
	o.stop = rule;
	if (strcmp(rule, "change") == 0)
		o.tolerance = limit;
	else if (strcmp(rule, "ncp") != 0)
		o.noise_level = limit;
	problem_zero(&t->p);
	OK(tomos_reconstruct(t->p.op, t->method, &t->p.b, &t->p.x, &o, NULL));
	return lists.history.count;
}

/* The first step at which the measure is no more than the limit. */
static void limited(Trail *t, const char *rule, double (*measure)(const Trail *t, int k))
{
	for (int side = 0; side < 2; side++) {
		double limit = measure(t, AT) * (side ? 1.003 : 0.997);
		int wanted = 1;
		while (wanted < STEPS && !(measure(t, wanted) <= limit))
			wanted++;
		assert_true(side == 0 || wanted <= AT);
		int64_t ended = ended_after(t, rule, limit);
		if (ended != wanted)
			fail_msg("%s, %s at %g: after %d, not %d", t->method, rule, limit,
				(int)ended, wanted);
	}
}

static void rules(void **state)
{
	(void)state;
	static const char *const methods[] = {"sirt", "cgls", "lsmr", "fista"};
	for (int m = 0; m < (CASE_SLOW ? 2 : 4); m++) {
		Trail t = trail_make(methods[m]);
		limited(&t, "change", change);
		limited(&t, "discrepancy", discrepancy);
		limited(&t, "monotone", monotone);
		int wanted = 2;
		while (wanted < STEPS && !(whiteness(&t, wanted) > whiteness(&t, wanted - 1)))
			wanted++;
		printf("  %s: ncp ends after %d\n", methods[m], wanted);
		assert_int_equal(ended_after(&t, "ncp", 0), wanted);
		trail_free(&t);
	}
}

/* One wave of w in a row of 16: all of the power at one of eight frequencies. */
static void periodogram(void **state)
{
	(void)state;
	enum { WIDE = 16, HALF = WIDE / 2 };
	Problem p = problem_make("parallel", "joseph", WIDE, 1, 0);
	Iteration it = {.Y = &p.op->range};
	for (int wave = 0; wave <= HALF; wave++) {
		float r[WIDE];
		double number, square = 0;
		for (int i = 0; i < WIDE; i++) /* wave 0: an impulse, as white as can be */
			r[i] = wave ? (float)cos(2 * M_PI * wave * i / WIDE) : (float)(i == 3);
		for (int f = 1; wave && f <= HALF; f++) {
			double off = (f >= wave) - (double)f / HALF;
			square += off * off;
		}
		OK(stop_ncp(&it, r, &number));
		if (!(fabs(number - sqrt(square)) < 1e-4))
			fail_msg("wave %d: %g, not %g", wave, number, sqrt(square));
	}
	problem_free(&p);
}

#define TESTS(T) T(rules), T(periodogram)
TEST_MAIN(TESTS, one_thread, NULL)
