/* Peak rates: those measured for the processor, those of several devices, and the bound computed
 * from them. */
#include <math.h>
#include <string.h>
#include "backend/split/split.h"
#include "base/test_main.h"

static void test_bound(void **state)
{
	(void)state;
	tomos_machine m = {
		.bytes = sizeof m, .rates = {[TOMOS_RATE_MEMORY] = 100, [TOMOS_RATE_SUMS] = 1000}};
	double work[TOMOS_RATES] = {[TOMOS_RATE_MEMORY] = 50, [TOMOS_RATE_SUMS] = 400};
	tomos_rate part = TOMOS_RATES;
	assert_float_equal(tomos_machine_bound(&m, work, &part), 0.5, 1e-12);
	assert_int_equal(part, TOMOS_RATE_MEMORY);
	work[TOMOS_RATE_SUMS] = 600;
	assert_float_equal(tomos_machine_bound(&m, work, &part), 0.6, 1e-12);
	assert_int_equal(part, TOMOS_RATE_SUMS);
	assert_float_equal(tomos_machine_bound(&m, work, NULL), 0.6, 1e-12);
	/* This machine has no rate of texture fetches, so these cannot be the bound. */
	const double fetches[TOMOS_RATES] = {[TOMOS_RATE_FETCHES] = 1e9};
	assert_true(tomos_machine_bound(&m, fetches, &part) == 0);
}

static void test_names(void **state)
{
	(void)state;
	for (int i = 0; i < TOMOS_RATES; i++)
		assert_true(strlen(tomos_rate_name((tomos_rate)i)) > 0);
	assert_string_equal(tomos_rate_name(TOMOS_RATES), "");
}

static void test_processor(void **state)
{
	(void)state;
	tomos_backend *backend;
	tomos_machine m = {.bytes = sizeof m};
	assert_int_equal(tomos_backend_open(&backend, "cpu"), TOMOS_OK);
	assert_int_equal(tomos_backend_machine(backend, &m), TOMOS_OK);
	tomos_backend_close(backend);
	assert_int_equal(m.processors, tomos_threads());
	/* From the slowest that may run this test (an emulator) to more than any processor
	 * reaches. */
	assert_true(m.clock > 1e7 && m.clock < 2e10);
	assert_true(m.rates[TOMOS_RATE_MEMORY] > 1e7 && m.rates[TOMOS_RATE_MEMORY] < 1e14);
	assert_true(m.rates[TOMOS_RATE_CACHE] > m.clock && m.rates[TOMOS_RATE_SUMS] > m.clock);
	assert_true(m.rates[TOMOS_RATE_FETCHES] == 0 && m.rates[TOMOS_RATE_TENSOR] == 0);
	assert_non_null(strstr(m.model, "threads"));
}

/* Twice the processor, as two devices. */
static void test_several(void **state)
{
	(void)state;
	const char *const names[2] = {"", ""};
	const SplitOptions options = {1 << 20, SHARE_AUTO};
	tomos_backend *pair;
	tomos_machine two = {.bytes = sizeof two};
	assert_int_equal(split_open(&pair, &cpu_backend, names, 2, &options), TOMOS_OK);
	assert_int_equal(tomos_backend_machine(pair, &two), TOMOS_OK);
	tomos_backend_close(pair);
	assert_int_equal(two.processors, 2 * tomos_threads());
	assert_true(two.rates[TOMOS_RATE_SUMS] > 2 * two.clock * tomos_threads());
}

static void test_no_memory(void **state)
{
	(void)state;
	int64_t before = mem_live();
	tomos_backend *backend;
	tomos_machine m = {.bytes = sizeof m};
	assert_int_equal(tomos_backend_open(&backend, "cpu"), TOMOS_OK);
	mem_fail_nth(1);
	assert_int_equal(tomos_backend_machine(backend, &m), TOMOS_NO_MEMORY);
	assert_non_null(strstr(tomos_message(), "measuring the memory"));
	mem_fail_nth(0);
	tomos_backend_close(backend);
	assert_int_equal(mem_live(), before);
}

#define TESTS(T) T(test_bound), T(test_names), T(test_processor), T(test_several), T(test_no_memory)
TEST_MAIN(TESTS, NULL, NULL)
