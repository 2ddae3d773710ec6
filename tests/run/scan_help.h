/* A small scan with known numbers, in Data Exchange files and to compare with. */
#ifndef TOMOS_TESTS_RUN_SCAN_HELP_H
#define TOMOS_TESTS_RUN_SCAN_HELP_H

#include "base/base.h"
#include "io/io_help.h"
#include "scan_files.h"
#include <math.h>
#include <sys/stat.h>

enum { VIEWS = 5, ROWS = 3, COLUMNS = 4, FRAME = ROWS * COLUMNS };

#define RADIANS (3.14159265358979323846 / 180)

static const hsize_t whole[3] = {VIEWS, ROWS, COLUMNS}, two[3] = {2, ROWS, COLUMNS};

/* A different number for each pixel of each set. */
static inline uint16_t value(int set, int64_t frame, int64_t row, int64_t column)
{
	return (uint16_t)(1000 * (set + 1) + 100 * frame + 10 * row + column);
}

static inline void fill(uint16_t *data, int set, int64_t frames)
{
	for (int64_t i = 0; i < frames * FRAME; i++)
		data[i] = value(set, i / FRAME, i / COLUMNS % ROWS, i % COLUMNS);
}

/* Frames [first, first + count) and rows [row, row + rows) have the numbers of their places. */
static inline void assert_frames(tomos_scan *scan, tomos_frames which, int64_t first, int64_t count,
	int64_t row, int64_t rows)
{
	float data[VIEWS * FRAME];
	assert_ok(tomos_scan_read(scan, which, first, count, row, rows, data));
	for (int64_t i = 0; i < count * rows * COLUMNS; i++)
		assert_true(data[i] == (float)value((int)which, first + i / (rows * COLUMNS),
					       row + i / COLUMNS % rows, i % COLUMNS));
}

/* The longest box from every first sample with every step. */
static inline void assert_boxes(tomos_scan *scan, tomos_frames which, int64_t frames)
{
	const int64_t n[3] = {frames, ROWS, COLUMNS};
	for (int64_t i = 0; i < frames * frames * FRAME * FRAME; i++) {
		int64_t left = i, first[3], step[3], count[3];
		float data[VIEWS * FRAME];
		for (int k = 0; k < 3; k++) {
			first[k] = left % n[k];
			step[k] = 1 + left / n[k] % n[k];
			count[k] = (n[k] - 1 - first[k]) / step[k] + 1;
			left /= n[k] * n[k];
		}
		assert_ok(tomos_scan_read_box(scan, which, first, count, step, data));
		for (int64_t j = 0; j < count[0] * count[1] * count[2]; j++)
			assert_true(
				data[j] == (float)value((int)which,
						   first[0] + j / (count[1] * count[2]) * step[0],
						   first[1] + j / count[2] % count[1] * step[1],
						   first[2] + j % count[2] * step[2]));
	}
}

static inline void assert_all(tomos_scan *scan, int64_t flats, int64_t darks)
{
	tomos_scan_info info = {.bytes = sizeof info};
	assert_ok(tomos_scan_describe(scan, &info));
	assert_int_equal(info.views, VIEWS);
	assert_int_equal(info.rows, ROWS);
	assert_int_equal(info.columns, COLUMNS);
	assert_int_equal(info.flats, flats);
	assert_int_equal(info.darks, darks);
	assert_true(info.counts);
	assert_frames(scan, TOMOS_VIEWS, 0, VIEWS, 0, ROWS);
	assert_frames(scan, TOMOS_VIEWS, 1, 3, 1, 2);
	assert_frames(scan, TOMOS_VIEWS, 4, 1, 2, 1);
	assert_boxes(scan, TOMOS_VIEWS, VIEWS);
	if (flats)
		assert_frames(scan, TOMOS_FLATS, 0, flats, 1, 1);
	if (darks)
		assert_frames(scan, TOMOS_DARKS, 0, darks, 0, 2);
}

static inline void assert_angles(tomos_scan *scan, const double *degrees)
{
	double angles[VIEWS];
	assert_ok(tomos_scan_angles(scan, angles));
	for (int i = 0; i < VIEWS; i++)
		assert_true(fabs(angles[i] - degrees[i] * RADIANS) < 1e-12);
}

static inline void rejected(const char *name, const char *says)
{
	tomos_scan *scan;
	assert_int_not_equal(tomos_scan_open(&scan, at(name), NULL), TOMOS_OK);
	assert_null(scan);
	assert_says(says);
	assert_int_equal(mem_live(), 0);
}

/* ---- Data Exchange ------------------------------------------------------------------------ */

static const double theta[VIEWS] = {0, 36, 72, 108, 144};

static inline hid_t exchange_start(const char *path)
{
	uint16_t data[VIEWS * FRAME];
	hid_t file = h5_new(path);
	fill(data, TOMOS_VIEWS, VIEWS);
	h5_put(file, "exchange/data", H5T_NATIVE_UINT16, 3, whole, data);
	return file;
}

static inline void put_others(hid_t file)
{
	uint16_t data[2 * FRAME];
	fill(data, TOMOS_FLATS, 2);
	h5_put(file, "exchange/data_white", H5T_NATIVE_UINT16, 3, two, data);
	fill(data, TOMOS_DARKS, 1);
	h5_put(file, "exchange/data_dark", H5T_NATIVE_UINT16, 2, two + 1, data);
}

/* Every allocation fails in turn. */
static inline void survives(const char *path)
{
	int64_t live = mem_live();
	tomos_status status = TOMOS_NO_MEMORY;
	for (int64_t nth = 1; status != TOMOS_OK; nth++) {
		tomos_scan *scan;
		float data[VIEWS * FRAME];
		mem_fail_nth(nth);
		status = tomos_scan_open(&scan, path, NULL);
		if (status == TOMOS_OK)
			status = tomos_scan_read(scan, TOMOS_VIEWS, 0, VIEWS, 0, ROWS, data);
		mem_fail_nth(0);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
		tomos_scan_close(scan);
		assert_int_equal(mem_live(), live);
		assert_true(nth < 1000);
	}
}

#endif
