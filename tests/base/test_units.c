/* Lengths and energies with units: every unit, and the message for an unknown one. */
#include "base/base_test.h"
#include <math.h>

static void check_length(const char *text, double expected)
{
	double value = 0;
	assert_ok(tomos_length_parse(text, &value));
	assert_true(fabs(value - expected) <= 1e-15 * fabs(expected));
}

static void check_energy(const char *text, double expected)
{
	double value = 0;
	assert_ok(tomos_energy_parse(text, &value));
	assert_true(fabs(value - expected) <= 1e-15 * fabs(expected));
}

static void test_units(void **state)
{
	(void)state;
	check_length("1.17um", 1.17e-3);
	check_length("1.17 \xc2\xb5m", 1.17e-3);
	check_length("1.17\xce\xbcm", 1.17e-3);
	check_length("60mm", 60);
	check_length("60", 60);
	check_length("-2.5cm", -25);
	check_length("1e3nm", 1e-3);
	check_length("0.06m", 60);
	check_energy("20keV", 20);
	check_energy("20000 eV", 20);
	check_energy("0.02MeV", 20);
	check_energy("20", 20);
}

static void check_size(const char *text, int64_t wanted)
{
	int64_t bytes = -1;
	assert_int_equal(tomos_size_parse(text, &bytes), TOMOS_OK);
	assert_int_equal(bytes, wanted);
}

static void test_sizes(void **state)
{
	(void)state;
	int64_t bytes;
	check_size("512M", 512 << 20);
	check_size("2G", (int64_t)2 << 30);
	check_size("1.5 GiB", (int64_t)3 << 29);
	check_size("4K", 4096);
	check_size("4 KiB", 4096);
	check_size("1T", (int64_t)1 << 40);
	check_size("1 TiB", (int64_t)1 << 40);
	check_size("100", 100);
	check_size("7B", 7);
	check_size("3MiB", 3 << 20);
	assert_rejected(tomos_size_parse("2 gig", &bytes), TOMOS_BAD_VALUE,
		"the unit 'gig' is not known for a size; it may be K, M, G, T");
	assert_rejected(tomos_size_parse("much", &bytes), TOMOS_BAD_VALUE, "'much' is not a size");
	assert_rejected(tomos_size_parse("-1G", &bytes), TOMOS_BAD_VALUE,
		"'-1G' is not a size: it must be 0 to 9e15 bytes");
	assert_rejected(tomos_size_parse("1e9T", &bytes), TOMOS_BAD_VALUE, "'1e9T' is not a size");
}

static void test_rejected(void **state)
{
	(void)state;
	double value;
	assert_rejected(tomos_length_parse("20keV", &value), TOMOS_BAD_VALUE,
		"'20keV': the unit 'keV' is not known for a length");
	assert_rejected(tomos_length_parse("0,2mm", &value), TOMOS_BAD_VALUE,
		"'0,2mm' is not a length: the decimal mark is a point, 0.2mm");
	assert_rejected(tomos_length_parse("wide", &value), TOMOS_BAD_VALUE,
		"'wide' is not a length: a number and one of nm");
	assert_rejected(tomos_length_parse("", &value), TOMOS_BAD_VALUE, "'' is not a length");
	assert_rejected(tomos_length_parse(NULL, &value), TOMOS_BAD_VALUE, "'' is not a length");
	assert_rejected(tomos_length_parse(" 1", &value), TOMOS_BAD_VALUE, "' 1' is not a length");
	assert_rejected(
		tomos_length_parse("inf", &value), TOMOS_BAD_VALUE, "'inf' is not a length");
	assert_rejected(tomos_energy_parse("20kev", &value), TOMOS_BAD_VALUE,
		"the unit 'kev' is not known for an energy");
	assert_rejected(
		tomos_energy_parse("nan", &value), TOMOS_BAD_VALUE, "'nan' is not an energy");
}

#define TESTS(T) T(test_units), T(test_sizes), T(test_rejected)
TEST_MAIN(TESTS, NULL, NULL)
