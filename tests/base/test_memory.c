/* Memory: alignment, counts, failure on demand; sizes that do not fit. */
#include "base/base_test.h"

static void test_aligned(void **state)
{
	(void)state;
	int64_t before = mem_live();
	for (int64_t count = 0; count < 200; count += 13) {
		char *block;
		assert_ok(mem_alloc(&block, count, 3, "a block"));
		assert_int_equal((uintptr_t)block % 64, 0);
		memset(block, 1, (size_t)count * 3);
		assert_int_equal(mem_live(), before + 1);
		mem_free(block);
		assert_int_equal(mem_live(), before);
	}
	mem_free(NULL);
	assert_int_equal(mem_live(), before);
}

static void test_zeroed(void **state)
{
	(void)state;
	double *block;
	assert_ok(mem_alloc(&block, 1000, sizeof *block, "a block"));
	memset(block, 0xff, 1000 * sizeof *block);
	mem_free(block);
	assert_ok(mem_zeroed(&block, 1000, sizeof *block, "a block"));
	for (int i = 0; i < 1000; i++)
		assert_true(block[i] == 0);
	mem_free(block);
}

/* Elements stay as they are when the list moves, and a list that cannot grow keeps its memory. */
static void test_grow(void **state)
{
	(void)state;
	int64_t before = mem_live(), capacity = 0, count = 0, *list = NULL;
	for (; count < 1000; count++) {
		assert_ok(mem_grow(&list, count, &capacity, sizeof *list, "a list"));
		assert_true(capacity > count && capacity <= 3 * count + 16);
		assert_int_equal(mem_live(), before + 1);
		list[count] = count * count;
	}
	for (int64_t i = 0; i < count; i++)
		assert_int_equal(list[i], i * i);
	int64_t full = capacity, *same = list;
	mem_fail_nth(1);
	assert_rejected(mem_grow(&list, full, &capacity, sizeof *list, "a list"), TOMOS_NO_MEMORY,
		"a list");
	mem_fail_nth(0);
	assert_ptr_equal(list, same);
	assert_int_equal(capacity, full);
	mem_free(list);
	assert_int_equal(mem_live(), before);
}

static void test_texts(void **state)
{
	(void)state;
	char *text;
	assert_ok(mem_text(&text, "a text"));
	assert_string_equal(text, "a text");
	mem_free(text);
	assert_ok(mem_printf(&text, "%s %05d", "number", 42));
	assert_string_equal(text, "number 00042");
	mem_free(text);
}

static void test_rejected(void **state)
{
	(void)state;
	void *block = &block;
	assert_rejected(mem_alloc(&block, INT64_MAX / 4, 8, "the volume"), TOMOS_NO_MEMORY,
		"no memory for the volume: 2305843009213693951 x 8 bytes");
	assert_null(block);
	assert_rejected(mem_alloc(&block, -1, 8, "a row"), TOMOS_NO_MEMORY, "a row: -1 x 8 bytes");
	assert_rejected(
		mem_zeroed(&block, INT64_MAX, 1, "a row"), TOMOS_NO_MEMORY, "no memory for a row");
}

static void test_failure_on_demand(void **state)
{
	(void)state;
	int64_t before = mem_live();
	char *a, *b, *c, *d;
	mem_fail_nth(2);
	assert_ok(mem_text(&a, "first"));
	assert_rejected(
		mem_printf(&b, "second"), TOMOS_NO_MEMORY, "no memory for a text: 7 x 1 bytes");
	assert_null(b);
	assert_ok(mem_zeroed(&c, 1, 1, "third"));
	mem_fail_nth(1);
	assert_rejected(mem_zeroed(&d, 1, 1, "fourth"), TOMOS_NO_MEMORY, "fourth");
	mem_fail_nth(1);
	mem_fail_nth(0);
	assert_ok(mem_text(&d, "fifth"));
	assert_int_equal(mem_live(), before + 3);
	mem_free(a);
	mem_free(c);
	mem_free(d);
	assert_int_equal(mem_live(), before);
}

static void test_sizes(void **state)
{
	(void)state;
	int64_t result;
	assert_true(size_mul(INT64_C(1) << 31, INT64_C(1) << 31, &result));
	assert_true(result == INT64_C(1) << 62);
	assert_false(size_mul(INT64_C(1) << 32, INT64_C(1) << 31, &result));
	assert_true(size_add(INT64_MAX - 1, 1, &result));
	assert_true(result == INT64_MAX);
	assert_false(size_add(INT64_MAX, 1, &result));
	assert_true(min64(-2, 3) == -2 && max64(-2, 3) == 3);
}

static void test_shapes(void **state)
{
	(void)state;
	int64_t count;
	assert_ok(shape_count((int64_t[]){3000, 2000, 1000}, &count));
	assert_true(count == INT64_C(6000000000));
	assert_rejected(shape_count((int64_t[]){3, 0, 5}, &count), TOMOS_BAD_VALUE,
		"a shape of 3 x 0 x 5 is empty or too large");
	assert_rejected(
		shape_count((int64_t[]){-3, -2, 5}, &count), TOMOS_BAD_VALUE, "-3 x -2 x 5");
	assert_rejected(
		shape_count((int64_t[]){INT64_MAX, 2, 1}, &count), TOMOS_BAD_VALUE, "too large");
	assert_rejected(shape_count((int64_t[]){INT64_C(1) << 60, 1, 1}, &count), TOMOS_BAD_VALUE,
		"too large");
}

#define TESTS(T) \
	T(test_aligned), T(test_zeroed), T(test_grow), T(test_texts), T(test_rejected), \
		T(test_failure_on_demand), T(test_sizes), T(test_shapes)
TEST_MAIN(TESTS, NULL, NULL)
