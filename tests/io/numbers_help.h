/* Arrays of numbers and the formats that store them, for tests of files. */
#ifndef TOMOS_TESTS_IO_NUMBERS_HELP_H
#define TOMOS_TESTS_IO_NUMBERS_HELP_H

#include "io_help.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tiffio.h>
#include <hdf5.h>
#include "io/io.h"

static const struct {
	char kind;
	int bytes;
	const char *name;
	float values[6];
} types[] = {
	{'i', 1, "int8", {-128, -1, 0, 1, 5, 127}},
	{'i', 2, "int16", {-32768, -1, 0, 256, 5, 32767}},
	{'i', 4, "int32", {-8388608, -1, 0, 65536, 5, 1 << 30}},
	{'i', 8, "int64", {-8388608, -1, 0, 65536, 5, 1LL << 40}},
	{'u', 1, "uint8", {0, 1, 2, 127, 128, 255}},
	{'u', 2, "uint16", {0, 1, 256, 32768, 32769, 65535}},
	{'u', 4, "uint32", {0, 1, 65536, 1 << 23, 1 << 30, 2147483648.0F}},
	{'u', 8, "uint64", {0, 1, 65536, 1 << 23, 1LL << 32, 1LL << 62}},
	{'f', 2, "float16", {-2, -0.0F, 0.5F, 1, 1.25F, 2048}},
	{'f', 4, "float32", {-2, -0.0F, 0.1F, 1e-40F, 1e30F, 3}},
	{'f', 8, "float64", {-2, -0.0F, 0.5F, 1e-20F, 1e30F, 3}},
};

static const int64_t small[3] = {3, 1, 2};

static const int64_t shape[3] = {5, 3, 4};

static float numbers[60];

static inline int make_numbers(void **state)
{
	for (int i = 0; i < 60; i++)
		numbers[i] = (float)i * 0.75F - 11;
	return scratch_make(state);
}

/* ---- types and orders ------------------------------------------------------------------------ */

static inline void assert_type(const char *path, const char *type)
{
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_describe(file, &info));
	assert_string_equal(info.type, type);
	tomos_file_close(file);
}

#endif
