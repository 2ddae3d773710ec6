/* Orders of views: each view once, and in the places that their definitions say. */
#include "op/subset.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

enum { MOST = 40 };

static void each_view_once(void **state)
{
	(void)state;
	static const ViewOrder orders[] = {
		ORDER_SEQUENTIAL, ORDER_RANDOM, ORDER_GOLDEN, ORDER_MULTILEVEL};
	for (int k = 0; k < 4; k++)
		for (int64_t count = 1; count <= MOST; count++) {
			int64_t list[MOST], met[MOST] = {0};
			OK(order_list(orders[k], count, 3, list));
			for (int64_t i = 0; i < count; i++) {
				assert_in_range(list[i], 0, count - 1);
				met[list[i]]++;
			}
			for (int64_t i = 0; i < count; i++)
				assert_int_equal(met[i], 1);
		}
}

/* Bit-reversed; by the golden ratio, the next free view where one is taken. */
static void places(void **state)
{
	(void)state;
	static const int64_t multilevel[] = {0, 4, 2, 6, 1, 5, 3, 7}, six[] = {0, 3, 1, 4, 2, 5},
			     golden[] = {0, 4, 1, 6, 3, 2, 5, 7};
	int64_t list[8];
	OK(order_list(ORDER_MULTILEVEL, 8, 0, list));
	assert_memory_equal(list, multilevel, sizeof multilevel);
	OK(order_list(ORDER_GOLDEN, 8, 0, list));
	assert_memory_equal(list, golden, sizeof golden);
	OK(order_list(ORDER_MULTILEVEL, 6, 0, list));
	assert_memory_equal(list, six, sizeof six);
}

/* Blocks differ by one view at most, the larger ones first. */
static void blocks(void **state)
{
	(void)state;
	static const int64_t first[] = {0, 4, 8, 11, 14};
	for (int64_t i = 0; i <= 4; i++)
		assert_int_equal(subset_first(14, 4, i), first[i]);
	for (int64_t i = 0; i <= 3; i++)
		assert_int_equal(subset_first(12, 3, i), 4 * i);
}

#define TESTS(T) T(each_view_once), T(places), T(blocks)
TEST_MAIN(TESTS, NULL, NULL)
