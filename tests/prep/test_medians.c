/* Medians: the fast ones against sorting. */
#include <stdlib.h>
#include "prep/prep_test.h"

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

static float sorted_median(float *values, int64_t count)
{
	qsort(values, (size_t)count, sizeof *values, by_value);
	float above = values[count / 2];
	return count % 2 ? above : 0.5F * (values[count / 2 - 1] + above);
}

/* kind 0: noise; 1: few different values; 2: of very different sizes; 3: all the same. */
static void fill_values(float *values, int64_t count, int kind, uint64_t *random)
{
	for (int64_t i = 0; i < count; i++) {
		double noise = noise_of(random);
		values[i] = (float)(kind == 0   ? noise
				    : kind == 1 ? floor(noise)
				    : kind == 2 ? copysign(pow(10, 10 * noise), noise)
						: 0.25);
	}
}

static void test_many(void **state)
{
	(void)state;
	uint64_t random = 3;
	static float values[5000], copy[5000];
	const int64_t counts[] = {1, 2, 255, 256, 257, 1500, 1501, 4998};
	for (int i = 0; i < COUNT(counts); i++)
		for (int kind = 0; kind < 4; kind++) {
			fill_values(values, counts[i], kind, &random);
			memcpy(copy, values, sizeof copy);
			assert_true(
				median_many(values, counts[i]) == sorted_median(copy, counts[i]));
		}
}

static float line_median(
	const float *data, int64_t lines, int64_t count, int64_t line, int64_t size, int64_t at)
{
	float values[99];
	for (int64_t i = 0; i < size; i++)
		values[i] = data[index_mirrored(line - size / 2 + i, lines) * count + at];
	return sorted_median(values, size);
}

static void test_lines(void **state)
{
	(void)state;
	enum { LINES = 13, MOST = 30 };
	uint64_t random = 4;
	float data[LINES * MOST], here[MOST], next[MOST];
	for (int64_t size = 3; size <= 21; size += 2)
		for (int64_t count = 4; count <= MOST; count += 5)
			for (int64_t line = 0; line < LINES; line++) {
				fill_values(data, LINES * count, (int)(line % 3), &random);
				assert_true(
					median_lines(data, LINES, count, line, size, here, next));
				for (int64_t i = 0; i < count; i++) {
					assert_true(here[i] ==
						    line_median(data, LINES, count, line, size, i));
					assert_true(next[i] == line_median(data, LINES, count,
								       line + 1, size, i));
				}
			}
	assert_false(median_lines(data, LINES, 3, 0, 5, here, next));
	assert_false(median_lines(data, LINES, 9, 0, 23, here, next));
}

#define TESTS(T) T(test_many), T(test_lines)
TEST_MAIN(TESTS, NULL, NULL)
