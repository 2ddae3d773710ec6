/* Gridding of the Fourier projector on the CPU: points on the edge of a tile stay within its
 * memory. */
#include "backend/cpu/cpu.h" /* first: cmocka makes a macro of fail() */
#include <string.h>
#include "backend/cpu/level/spread.h"
#include "base/test_main.h"

enum { SIDE = 32, GUARD = 4 * SIDE * SIDE };

static float memory[2 * GUARD], value[2] = {1, 1};

/* What a point that belongs to the tile by window_first adds before the tile's first cell, with the
 * step rounded differently. */
static float before_tile(const SpreadWindow *w, const CpuLevel *level, double step, int64_t m)
{
	const int64_t first = (int64_t)window_first(w, step, m);
	const double other = nextafter(step, m < 0 ? 2 : 0);
	const SpreadLine line = {other, other, m, m + 1, {first, first}, (int64_t)2 * SIDE};
	float sum = 0;
	memset(memory, 0, sizeof memory);
	level->spread->spread(w, &line, value - 2 * m, memory + GUARD);
	for (int i = 0; i < GUARD; i++)
		sum += memory[i] * memory[i];
	return sum;
}

/* Some points are on an edge but for the last bit of their position. */
static void edges_of_tiles(void **state)
{
	const int64_t n[2] = {16, 16}, size[2] = {24, 24};
	const CpuLevel *level;
	SpreadWindow w = {.lanes = 1};
	(void)state;
	assert_int_equal(cpu_level_choose(&level), TOMOS_OK);
	assert_int_equal(window_make(&w, n, size, 1e-5), TOMOS_OK);
	for (int64_t m = -100; m <= 100; m++)
		for (int i = 1; i <= 20; i++)
			assert_true(before_tile(&w, level, nextafter(0.1 * i, 2), m) == 0);
}

#define TESTS(T) T(edges_of_tiles)
TEST_MAIN(TESTS, NULL, NULL)
