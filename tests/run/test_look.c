/* The window of values that integers and pictures are stored with. */
#include "io/io_help.h"
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

#define TESTS(T) T(cuts_both_tails), T(one_value_has_a_window)
TEST_MAIN(TESTS, NULL, NULL)
