/* Every format of formats.def that is written and recognised: round trips, parts, truncations, bit
 * flips. */
#include "io_help.h"
#include "hdf5_leaks.h"
#include "io/io.h"

#define FORMAT(name) &format_##name,
static const Format *const formats[] = {
#include "io/formats.def"
};
#undef FORMAT

static const int64_t shape[3] = {3, 4, 5};
enum { NUMBERS = 3 * 4 * 5 };
static float numbers[NUMBERS];

/* A path for each ending in turn; NULL after the last, and for formats that files do not show or
 * that only the reader knows. */
static const char *path_of(const Format *format, int ending)
{
	static const unsigned char any[1] = {0};
	char name[64];
	const char *text = format->endings ? format->endings : "";
	bool silent = strcmp(format->name, "raw") == 0 && !format->probe(any, 1);
	for (; ending > 0 && *text; ending--) {
		text += strcspn(text, "|");
		text += *text == '|';
	}
	if (!*text || !format->create || !format->open || silent)
		return NULL;
	snprintf(name, sizeof name, "every.%.*s", (int)strcspn(text, "|"), text);
	return at(name);
}

/* Calls `check` with a file of each ending of each format. */
static void each(void (*check)(const Format *format, const char *path))
{
	int count = 0;
	for (int i = 0; i < COUNT(formats); i++)
		for (int ending = 0;; ending++, count++) {
			char path[256];
			const char *next = path_of(formats[i], ending);
			if (!next)
				break;
			snprintf(path, sizeof path, "%s", next);
			write_array(path, TOMOS_VOLUME, shape, numbers);
			check(formats[i], path);
		}
	assert_true(count >= 4);
	assert_int_equal(mem_live(), 0);
}

static void check_whole(const Format *format, const char *path)
{
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	float back[NUMBERS];
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_describe(file, &info));
	assert_string_equal(info.format, format->name);
	assert_string_equal(info.type, "float32");
	assert_memory_equal(info.shape, shape, sizeof shape);
	assert_ok(tomos_file_read(file, 0, shape[0], back));
	assert_memory_equal(back, numbers, sizeof back);
	assert_ok(tomos_file_read(file, 1, 2, back));
	assert_memory_equal(back, numbers + 20, 40 * sizeof *back);
	assert_ok(io_read(file, &(Extract){.first = 2, .count = 1, .row = 1, .rows = 2}, back));
	assert_memory_equal(back, numbers + 45, 10 * sizeof *back);
	tomos_file_close(file);
}

/* The files that a damage may be in: the file itself, or those of a directory. */
static const char *file_of(const Format *format, const char *path, int number, char name[300])
{
	static const char *const zarr[] = {"/zarr.json", "/0/zarr.json", "/0/c/0/0/0"};
	bool directory = strcmp(format->name, "zarr") == 0;
	if (number >= (directory ? COUNT(zarr) : 1))
		return NULL;
	snprintf(name, 300, "%s%s", path, directory ? zarr[number] : "");
	return name;
}

static void check_truncated(const Format *format, const char *path)
{
	char name[300];
	for (int i = 0; file_of(format, path, i, name); i++) {
		size_t length;
		int64_t found[3];
		float *data;
		unsigned char *bytes = get_file(name, &length);
		put_file(name, bytes, length / 2);
		assert_text(read_all(path, found, &data) != TOMOS_OK, path, __FILE__, __LINE__);
		assert_says("every.");
		put_file(name, bytes, length);
		free(bytes);
		free(data);
	}
}

/* Damaged files are read or rejected with a message. */
static void flip_bytes(const char *path, const char *name)
{
	size_t length;
	unsigned char *bytes = get_file(name, &length);
	for (size_t i = 0; i < length; i += 1 + length / 300) {
		int64_t found[3];
		float *data;
		bytes[i] ^= (unsigned char)(1 << i % 8);
		put_file(name, bytes, length);
		if (read_all(path, found, &data) != TOMOS_OK)
			assert_true(tomos_message()[0] != 0);
		bytes[i] ^= (unsigned char)(1 << i % 8);
		free(data);
	}
	put_file(name, bytes, length);
	free(bytes);
}

static void check_flipped(const Format *format, const char *path)
{
	char name[300];
	for (int i = 0; file_of(format, path, i, name); i++)
		flip_bytes(path, name);
}

static void round_trips(void **state)
{
	(void)state;
	each(check_whole);
}

static void truncated(void **state)
{
	(void)state;
	each(check_truncated);
}

static void flipped(void **state)
{
	(void)state;
	each(check_flipped);
}

static int begin(void **state)
{
	exact_numbers(numbers, NUMBERS);
	return scratch_make(state);
}

#define TESTS(T) T(round_trips), T(truncated), T(flipped)
TEST_MAIN(TESTS, begin, scratch_remove)
