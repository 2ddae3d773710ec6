/* Names from lists, and option structs of callers compiled with any version. */
#include "base/base_test.h"

static const char list[] = "line|line-march|joseph|voxel|footprint";

static void test_index(void **state)
{
	(void)state;
	assert_int_equal(choice_index(list, "line"), 0);
	assert_int_equal(choice_index(list, "line-march"), 1);
	assert_int_equal(choice_index(list, "footprint"), 4);
	assert_int_equal(choice_index(list, "foot"), -1);
	assert_int_equal(choice_index(list, "voxels"), -1);
	assert_int_equal(choice_index(list, ""), -1);
	assert_int_equal(choice_index(list, "line|line-march"), -1);
	assert_int_equal(choice_index("", "line"), -1);
}

static void test_nearest(void **state)
{
	(void)state;
	assert_string_equal(tomos_name_nearest(list, "josef"), "joseph");
	assert_string_equal(tomos_name_nearest(list, "linemarch"), "line-march");
	assert_string_equal(tomos_name_nearest(list, "lin"), "line");
	assert_string_equal(tomos_name_nearest(list, "xyz"), "");
	assert_string_equal(tomos_name_nearest("", "line"), "");
	assert_string_equal(tomos_name_nearest(list, "jsoeph"), "joseph");
	/* A common beginning counts more than common letters elsewhere. */
	static const char filters[] = "ram-lak|hamming|hann|parzen";
	assert_string_equal(tomos_name_nearest(filters, "hanning"), "hann");
	assert_string_equal(tomos_name_nearest(filters, "kaiser"), "");
	assert_string_equal(tomos_name_nearest(filters, "ram"), "ram-lak");
	/* So does a common word. */
	assert_string_equal(tomos_name_nearest("source-axis|energy", "axis"), "source-axis");
	assert_string_equal(tomos_name_nearest("auto|cuda|cpu|opencl", "gpu"), "cuda");
	assert_string_equal(tomos_name_nearest("auto|cuda|cpu|opencl", "gpu:1"), "cuda");
	assert_string_equal(tomos_name_nearest("energy|seed", "geometry"), "");
	char longest[200];
	memset(longest, 'a', sizeof longest);
	longest[sizeof longest - 1] = 0;
	assert_string_equal(tomos_name_nearest(list, longest), "");
}

static void test_find(void **state)
{
	(void)state;
	int index;
	assert_ok(choice_find("projector", list, "voxel", &index));
	assert_int_equal(index, 3);
	assert_rejected(choice_find("projector", list, "josef", &index), TOMOS_BAD_VALUE,
		"projector 'josef' is not known; did you mean 'joseph'? (known: line|line-march|");
	assert_rejected(choice_find("filter", list, "qqqqqq", &index), TOMOS_BAD_VALUE,
		"filter 'qqqqqq' is not known (known: ");
	assert_rejected(choice_find("filter", list, NULL, &index), TOMOS_BAD_VALUE,
		"filter '(none)' is not known");
}

static void test_options_of_any_age(void **state)
{
	(void)state;
	tomos_algebraic_options o = tomos_algebraic_defaults();
	assert_ok(options_take(&o, NULL, "algebraic"));
	assert_int_equal(o.iterations, 20);
	struct {
		size_t bytes;
		int64_t iterations;
	} old = {sizeof old, 7};
	assert_ok(options_take(&o, &old, "algebraic"));
	assert_int_equal(o.iterations, 7);
	assert_true(o.tolerance == 1e-4);
	assert_int_equal(o.bytes, sizeof o);
	struct {
		tomos_algebraic_options known;
		double later[3];
	} new = {.known = tomos_algebraic_defaults(), .later = {1, 2, 3}};
	new.known.bytes = sizeof new;
	new.known.maximum = 5;
	assert_rejected(options_take(&o, &new, "algebraic"), TOMOS_UNSUPPORTED,
		"the program needs a newer library");
	memset(new.later, 0, sizeof new.later);
	assert_ok(options_take(&o, &new, "algebraic"));
	assert_true(o.maximum == 5);
	assert_int_equal(o.iterations, 20);
	assert_int_equal(o.bytes, sizeof o);
}

static void test_options_without_size(void **state)
{
	(void)state;
	tomos_algebraic_options o = tomos_algebraic_defaults(), given = {0};
	assert_rejected(options_take(&o, &given, "algebraic"), TOMOS_BAD_VALUE,
		"the member bytes of a tomos_algebraic_options is 0: it must be "
		"sizeof(tomos_algebraic_options)");
	given.bytes = 1 << 20;
	assert_rejected(
		options_take(&o, &given, "algebraic"), TOMOS_BAD_VALUE, "options is 1048576");
}

#define TESTS(T) \
	T(test_index), T(test_nearest), T(test_find), T(test_options_of_any_age), \
		T(test_options_without_size)
TEST_MAIN(TESTS, NULL, NULL)
