/* Air around the object in an averaged scan. */
#include "prep/pose.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"
#include "truth/truth.h"

enum { VIEWS = 3, ROWS = 40, COLUMNS = 48 };

static int64_t pixels_of(const Coarse *c)
{
	return c->orbit.views * c->orbit.rows * c->orbit.columns;
}

/* From the edge of the object, in pixels; negative: within. */
static double outside(const Coarse *c, int64_t i)
{
	int64_t n = c->orbit.columns, column = i % n, row = i / n % c->orbit.rows;
	int64_t view = i / n / c->orbit.rows;
	return hypot((double)(column - 20 - 3 * (view % VIEWS)), (double)(row - 18)) - 9;
}

/* Views of a ball in its density, with noise, smoothed as the search does; `level` everywhere.
 * Returns what was not air yet, to be freed as c->data. */
static float *make(Coarse *c, const int64_t shape[3], double density, double noise, double level)
{
	*c = (Coarse){
		.bin = 1, .orbit = {.views = shape[0], .rows = shape[1], .columns = shape[2]}};
	const int64_t count = pixels_of(c);
	float *before = malloc((size_t)count * sizeof *before);
	c->data = malloc((size_t)count * sizeof *c->data);
	for (int64_t i = 0; i < count; i++) {
		double way = 9 + outside(c, i), chord = way < 9 ? sqrt(81 - way * way) / 9 : 0;
		double u = sqrt(-2 * log(random_uniform(5, 2 * (uint64_t)i) + 1e-9));
		double n = u * cos(6.2832 * random_uniform(5, 2 * (uint64_t)i + 1));
		c->data[i] = (float)(level + density * chord + noise * n);
	}
	OK(coarse_finish(c));
	OK(coarse_sharpen(c));
	memcpy(before, c->data, (size_t)count * sizeof *before);
	OK(coarse_clear_air(c));
	return before;
}

/* Air is 0 but for the odd pixel, the object as it was up to 3 pixels beside it. */
static void check_cleared(const int64_t shape[3], double density, double noise)
{
	Coarse c;
	float *before = make(&c, shape, density, noise, 0);
	int64_t air = 0, left = 0, changed = 0;
	for (int64_t i = 0; i < pixels_of(&c); i++) {
		changed += outside(&c, i) < 3 && c.data[i] != before[i];
		air += outside(&c, i) > 9;
		left += outside(&c, i) > 9 && c.data[i] != 0;
	}
	printf("  %d of %d pixels of air are left\n", (int)left, (int)air);
	assert_int_equal(changed, 0);
	assert_true(50 * left < air);
	free(before);
	free(c.data);
}

static void test_cleared(void **state)
{
	static const int64_t shape[3] = {VIEWS, ROWS, COLUMNS};
	(void)state;
	check_cleared(shape, 1, 0.02);
	check_cleared(shape, -1, 0.02);
	check_cleared(shape, 1, 0);
}

/* Of such numbers of pixels, samples at equal distances are all of the first column. */
static void test_powers_of_two(void **state)
{
	(void)state;
	check_cleared((const int64_t[]){512, 64, 32}, 1, 0.02);
}

/* Where there is nothing else: one of 16000 means is beyond four standard deviations, and leaves
 * some 60 pixels around it, in part together with others. */
static void test_noise(void **state)
{
	Coarse c;
	int64_t left = 0;
	(void)state;
	float *before = make(&c, (const int64_t[]){512, 64, 32}, 0, 0.02, 0);
	for (int64_t i = 0; i < pixels_of(&c); i++)
		left += c.data[i] != 0;
	double share = (double)left / (double)pixels_of(&c);
	printf("  %.5f of the noise is left\n", share);
	assert_true(share > 0.0005 && share < 0.004);
	free(before);
	free(c.data);
}

/* Values that are not about 0 are no air. */
static void test_level(void **state)
{
	Coarse c;
	(void)state;
	float *before = make(&c, (const int64_t[]){VIEWS, ROWS, COLUMNS}, 1, 0.02, 0.1);
	assert_memory_equal(c.data, before, (size_t)pixels_of(&c) * sizeof *before);
	free(before);
	free(c.data);
}

#define TESTS(T) T(test_cleared), T(test_powers_of_two), T(test_noise), T(test_level)
TEST_MAIN(TESTS, NULL, NULL)
