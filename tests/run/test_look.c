/* The window of values that integers and pictures are stored with. */
#include "io/io_help.h"
#include <math.h>
#include <stdlib.h>
#include "run/run.h"

enum { COUNT_ALL = 1001 };

/* -500 to 500 in no order. */
static void spread(float *data)
{
	for (int i = 0; i < COUNT_ALL; i++)
		data[i] = (float)(i * 619 % COUNT_ALL) - 500;
}

static void cuts_both_tails(void **state)
{
	(void)state;
	float data[COUNT_ALL];
	double window[2] = {7, 7};
	spread(data);
	window_of(data, COUNT_ALL, 0.01, window);
	assert_true(window[0] == -490 && window[1] == 490);
	spread(data);
	window_of(data, COUNT_ALL, 0, window);
	assert_true(window[0] == -500 && window[1] == 500);
}

static void one_value_has_a_window(void **state)
{
	(void)state;
	float data[] = {-3, -3, -3};
	double window[2];
	window_of(data, 3, 0.1, window);
	assert_true(window[0] == -3 && window[1] == 0);
	window_of((float[]){0.5F}, 1, 0.1, window);
	assert_true(window[0] == 0.5 && window[1] == 1.5);
}

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/* The values that sorting finds, for values of every size and sign, many of them equal. */
static void finds_what_sorting_finds(void **state)
{
	enum { MANY = 600000 };
	static float data[MANY], sorted[MANY];
	uint32_t seed = 1;
	(void)state;
	for (int64_t n = 1; n <= MANY; n = n < 10 ? n + 1 : n * 7) {
		for (int64_t i = 0; i < n; i++) {
			seed = seed * 1664525 + 1013904223;
			double size = ldexp((double)(seed >> 9), (int)(seed % 81) - 60);
			data[i] = sorted[i] = (float)(seed >> 8 & 1 ? size : -size);
			if (i % 5 == 0)
				data[i] = sorted[i] = -0.25F;
		}
		qsort(sorted, (size_t)n, sizeof *sorted, by_value);
		for (int k = 0; k < 4; k++) {
			double tail = 0.13 * k, window[2];
			int64_t low = (int64_t)(tail * (double)(n - 1));
			window_of(data, n, tail, window);
			assert_true(window[0] == (double)sorted[low]);
			assert_true(window[1] == (double)sorted[n - 1 - low] ||
				    sorted[low] >= sorted[n - 1 - low]);
		}
	}
}

#define TESTS(T) T(cuts_both_tails), T(one_value_has_a_window), T(finds_what_sorting_finds)
TEST_MAIN(TESTS, NULL, NULL)
