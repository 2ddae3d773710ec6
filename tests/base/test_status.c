/* Statuses have names, and every thread its own message. */
#include <pthread.h>
#include "base/base_test.h"

static tomos_status make(tomos_status status, const char *text)
{
	return (fail)(status, "the %s is %d", text, 42);
}

static void test_sentence(void **state)
{
	(void)state;
	assert_int_equal(make(TOMOS_IO, "answer"), TOMOS_IO);
	assert_string_equal(tomos_message(), "the answer is 42");
	char text[3000];
	memset(text, 'x', sizeof text);
	text[sizeof text - 1] = 0;
	assert_int_equal(make(TOMOS_BAD_FILE, text), TOMOS_BAD_FILE);
	assert_int_equal(strlen(tomos_message()), 1023);
}

static void *other_thread(void *result)
{
	const char **messages = result;
	messages[0] = strdup(tomos_message());
	make(TOMOS_IO, "other");
	messages[1] = strdup(tomos_message());
	return NULL;
}

static void test_one_per_thread(void **state)
{
	(void)state;
	pthread_t thread;
	char *messages[2];
	make(TOMOS_IO, "own");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, messages), 0);
	pthread_join(thread, NULL);
	assert_string_equal(messages[0], "");
	assert_string_equal(messages[1], "the other is 42");
	assert_string_equal(tomos_message(), "the own is 42");
	free(messages[0]);
	free(messages[1]);
}

static void test_names(void **state)
{
	(void)state;
	for (int i = TOMOS_OK; i <= TOMOS_CALLBACK_FAILED; i++)
		for (int k = TOMOS_OK; k < i; k++)
			assert_string_not_equal(tomos_status_name((tomos_status)i),
				tomos_status_name((tomos_status)k));
	assert_string_equal(tomos_status_name(TOMOS_OK), "ok");
	assert_string_equal(tomos_status_name(TOMOS_CANCELLED), "cancelled");
	assert_string_equal(
		tomos_status_name((tomos_status)(TOMOS_CALLBACK_FAILED + 1)), "unknown status");
	assert_string_equal(tomos_version(), TOMOS_VERSION);
}

static tomos_status try_twice(tomos_status first, int *steps)
{
	TRY(first);
	++*steps;
	return TOMOS_OK;
}

static tomos_status try_to_the_end(tomos_status first, int *steps)
{
	tomos_status status;
	TRY_OR_DONE(first);
	*steps += 10;
done:
	++*steps;
	return status;
}

static void test_try(void **state)
{
	(void)state;
	int steps = 0;
	assert_int_equal(try_twice(TOMOS_IO, &steps), TOMOS_IO);
	assert_int_equal(steps, 0);
	assert_int_equal(try_twice(TOMOS_OK, &steps), TOMOS_OK);
	assert_int_equal(steps, 1);
	assert_int_equal(try_to_the_end(TOMOS_NO_DEVICE, &steps), TOMOS_NO_DEVICE);
	assert_int_equal(steps, 2);
	assert_int_equal(try_to_the_end(TOMOS_OK, &steps), TOMOS_OK);
	assert_int_equal(steps, 13);
}

#define TESTS(T) T(test_sentence), T(test_one_per_thread), T(test_names), T(test_try)
TEST_MAIN(TESTS, NULL, NULL)
