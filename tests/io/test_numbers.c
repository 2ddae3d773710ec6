/* Numbers at the edges of their types, and the order of numbered files. */
#include "io_help.h"
#include <math.h>
#include <sys/stat.h>
#include "io/io.h"

static void put_double(double value, bool big)
{
	uint64_t bits;
	char text[96];
	memcpy(&bits, &value, sizeof bits);
	snprintf(text, sizeof text, "{'descr': '%cf8', 'fortran_order': False, 'shape': (1,), }\n",
		big ? '>' : '<');
	Bytes b = npy_text(1, text);
	b.big = big;
	add(&b, bits, 8);
	put_file(at("d.npy"), b.bytes, b.length);
}

/* A double that float32 does not hold is rejected in either byte order; infinities are kept. */
static void doubles_beyond_float(void **state)
{
	(void)state;
	int64_t got[3];
	float *data;
	for (int big = 0; big < 2; big++) {
		put_double(-1e300, big);
		assert_int_equal(read_all(at("d.npy"), got, &data), TOMOS_UNSUPPORTED);
		assert_says("-1e+300 does not fit float32");
		put_double(-HUGE_VAL, big);
		assert_reads(at("d.npy"), (int64_t[]){1, 1, 1}, &(float){-HUGE_VALF});
		put_double(1e-300, big);
		assert_reads(at("d.npy"), (int64_t[]){1, 1, 1}, &(float){0});
	}
}

/* Stored integers: rounded to the nearest, cut at both ends, 0 for what is not a number. */
static void integers_are_rounded_and_cut(void **state)
{
	(void)state;
	static const float values[] = {-1, 0.24F, 0.26F, 99.8F, 200, NAN};
	uint8_t small[6];
	uint16_t large[6];
	element_encode((Element){'u', 1, false}, values, 6, 0.5, 0, small);
	assert_memory_equal(small, ((uint8_t[]){0, 0, 1, 200, 255, 0}), sizeof small);
	element_encode((Element){'u', 2, false}, values, 6, 0.002, -1, large);
	assert_memory_equal(large, ((uint16_t[]){0, 620, 630, 50400, 65535, 0}), sizeof large);
}

/* Numbers in names count as numbers, each of them; leading zeros do not count. */
static void numbered_names(void **state)
{
	(void)state;
	static const char *const names[] = {"a_1_9.tif", "a_01_10.tif", "a_1_011.tif", "a_2_1.tif",
		"a_10_0.tif", "a_10_0b.tif", "b_1.tif"};
	const int64_t one[3] = {1, 1, 1};
	float values[COUNT(names)];
	assert_int_equal(mkdir(at("n"), 0777), 0);
	for (int i = 0; i < COUNT(names); i++) {
		char path[64];
		values[i] = (float)i;
		snprintf(path, sizeof path, "n/%s", names[i]);
		Bytes b = tiff_bytes(false, 'f', 4, one, &values[i]);
		put_file(at(path), b.bytes, b.length);
	}
	assert_reads(at("n"), (int64_t[]){COUNT(names), 1, 1}, values);
}

#define TESTS(T) T(doubles_beyond_float), T(integers_are_rounded_and_cut), T(numbered_names)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
