/* A volume of numbers, the ways to write it as Zarr, and a check of all levels of the file. */
#ifndef TOMOS_TESTS_IO_ZARR_HELP_H
#define TOMOS_TESTS_IO_ZARR_HELP_H

#include "io_help.h"
#include "io/io.h"

enum { NZ = 71, NY = 67, NX = 131, NUMBERS = NZ * NY * NX };
static const int64_t shape[3] = {NZ, NY, NX};
static float numbers[NUMBERS];

/* The ways to write. */
typedef struct {
	const char *type, *version;
	int compress;
	double rounding; /* of means, in the window of integers */
} Way;
static const Way ways[] = {{"float32", "3", 0, 0}, {"float32", "3", 1, 0}, {"float32", "2", 0, 0},
	{"uint16", "3", 0, 0.5 / 257}, {"uint8", "2", 1, 0.5}};

static inline tomos_file_options options_of(const Way *way)
{
	static const double window[2] = {0, 255};
	tomos_file_options o = overwriting();
	o.type = way->type;
	o.zarr = way->version;
	o.compress = way->compress;
	if (way->rounding > 0) {
		o.window = window;
		o.window_count = 2;
	}
	return o;
}

/* The mean of up to eight voxels, as the next level has it. */
static inline double mean_at(const float *data, const int64_t n[3], const int64_t at[3])
{
	double sum = 0;
	int count = 0;
	for (int i = 0; i < 8; i++) {
		int64_t z = 2 * at[0] + (i & 1), y = 2 * at[1] + (i >> 1 & 1),
			x = 2 * at[2] + (i >> 2);
		if (z < n[0] && y < n[1] && x < n[2]) {
			sum += (double)data[(z * n[1] + y) * n[2] + x];
			count++;
		}
	}
	return sum / count;
}

static inline float *read_level(const char *path, int level, int64_t n[3])
{
	tomos_file_options o = tomos_file_defaults();
	tomos_file_info info = {.bytes = sizeof info};
	tomos_file *file;
	o.level = level;
	assert_ok(tomos_file_open(&file, path, &o));
	assert_int_equal(tomos_file_levels(file), 3);
	assert_ok(tomos_file_describe(file, &info));
	memcpy(n, info.shape, sizeof info.shape);
	float *data = malloc((size_t)(n[0] * n[1] * n[2]) * sizeof *data);
	assert_ok(tomos_file_read(file, 0, n[0], data));
	tomos_file_close(file);
	return data;
}

/* All levels of a file of `numbers`: 71 x 67 x 131, 36 x 34 x 66, 18 x 17 x 33. */
static inline void check_levels(const char *path, double rounding)
{
	int64_t n[3], next[3];
	float *data = read_level(path, 0, n);
	assert_memory_equal(n, shape, sizeof shape);
	assert_memory_equal(data, numbers, sizeof numbers);
	for (int level = 1; level < 3; level++) {
		float *means = read_level(path, level, next);
		for (int64_t i = 0; i < next[0] * next[1] * next[2]; i++) {
			const int64_t at[3] = {
				i / (next[1] * next[2]), i / next[2] % next[1], i % next[2]};
			double error = (double)means[i] - mean_at(data, n, at);
			assert_true(fabs(error) <= rounding + 1e-4);
		}
		free(data);
		data = means;
		memcpy(n, next, sizeof n);
	}
	assert_int_equal(n[2], 33);
	free(data);
}

static inline void fill_numbers(void)
{
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = (float)(i * 37 % 251);
}

#endif
