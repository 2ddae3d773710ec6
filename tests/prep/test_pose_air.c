/* Air around the object in an averaged scan. */
#include "prep/pose.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"
#include "truth/truth.h"

enum { VIEWS = 3, ROWS = 40, COLUMNS = 48, PIXELS = ROWS * COLUMNS };

/* From the edge of the object in view v, in pixels; negative: within. */
static double outside(int64_t i)
{
	int64_t view = i / PIXELS, row = i % PIXELS / COLUMNS, column = i % COLUMNS;
	return hypot((double)(column - 20 - 3 * view), (double)(row - 18)) - 9;
}

/* Views of a ball in its density, with noise, smoothed as the search does; `level` everywhere. */
static void make(Coarse *c, float *before, double density, double noise, double level)
{
	*c = (Coarse){.bin = 1, .orbit = {.views = VIEWS, .rows = ROWS, .columns = COLUMNS}};
	c->data = malloc((size_t)(VIEWS * PIXELS) * sizeof *c->data);
	for (int64_t i = 0; i < VIEWS * PIXELS; i++) {
		double way = 9 + outside(i), chord = way < 9 ? sqrt(81 - way * way) / 9 : 0;
		double u = sqrt(-2 * log(random_uniform(5, 2 * (uint64_t)i) + 1e-9));
		double n = u * cos(6.2832 * random_uniform(5, 2 * (uint64_t)i + 1));
		c->data[i] = (float)(level + density * chord + noise * n);
	}
	OK(coarse_finish(c));
	OK(coarse_sharpen(c));
	memcpy(before, c->data, (size_t)(VIEWS * PIXELS) * sizeof *before);
	OK(coarse_clear_air(c));
}

/* Air is 0 but for the odd pixel, the object as it was up to 3 pixels beside it. */
static void test_cleared(void **state)
{
	static const double density[] = {1, -1, 1}, noise[] = {0.02, 0.02, 0};
	(void)state;
	for (int k = 0; k < 3; k++) {
		Coarse c;
		float before[VIEWS * PIXELS];
		int64_t air = 0, left = 0;
		make(&c, before, density[k], noise[k], 0);
		for (int64_t i = 0; i < VIEWS * PIXELS; i++) {
			if (outside(i) < 3)
				assert_true(c.data[i] == before[i]);
			air += outside(i) > 9;
			left += outside(i) > 9 && c.data[i] != 0;
		}
		printf("  %d of %d pixels of air are left\n", (int)left, (int)air);
		assert_true(50 * left < air);
		free(c.data);
	}
}

/* Values that are not about 0 are no air. */
static void test_level(void **state)
{
	Coarse c;
	float before[VIEWS * PIXELS];
	(void)state;
	make(&c, before, 1, 0.02, 0.1);
	assert_memory_equal(c.data, before, sizeof before);
	free(c.data);
}

#define TESTS(T) T(test_cleared), T(test_level)
TEST_MAIN(TESTS, NULL, NULL)
