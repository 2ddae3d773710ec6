/* Boxes of samples of every format: the same numbers as from a plain read, whatever the box and the
 * steps; and what is rejected. */
#include <hdf5.h>
#include "io_help.h"
#include "hdf5_leaks.h"
#include "io/io.h"

#define FORMAT(name) &format_##name,
static const Format *const formats[] = {
#include "io/formats.def"
};
#undef FORMAT

static uint32_t seed = 7;

static int64_t below(int64_t n)
{
	seed = seed * 1664525U + 1013904223U;
	return (int64_t)(seed >> 8) % n;
}

static Samples random_samples(const int64_t n[3])
{
	Samples s;
	for (int k = 0; k < 3; k++) {
		s.first[k] = below(n[k]);
		s.step[k] = 1 + (below(3) ? below(n[k]) : 0);
		s.count[k] = 1 + below((n[k] - 1 - s.first[k]) / s.step[k] + 1);
		if (below(4) == 0) { /* the whole axis */
			s.first[k] = 0;
			s.step[k] = 1;
			s.count[k] = n[k];
		}
	}
	return s;
}

static void compare(const int64_t n[3], const float *all, const Samples *s, const float *part)
{
	for (int64_t i = 0; i < s->count[0]; i++)
		for (int64_t j = 0; j < s->count[1]; j++)
			for (int64_t k = 0; k < s->count[2]; k++) {
				int64_t z = s->first[0] + i * s->step[0];
				int64_t y = s->first[1] + j * s->step[1];
				int64_t x = s->first[2] + k * s->step[2];
				assert_true(part[(i * s->count[1] + j) * s->count[2] + k] ==
					    all[(z * n[1] + y) * n[2] + x]);
			}
}

/* Boxes read by the format's own function, and taken from whole rows, also from rows that are
 * unpacked in groups. */
static void check_boxes(File *file, int boxes)
{
	const int64_t *n = file->shape, grain = file->grain;
	int64_t count = n[0] * n[1] * n[2];
	float *all = calloc((size_t)count, sizeof *all), *part = calloc((size_t)count, sizeof *all);
	assert_ok(tomos_file_read(file, 0, n[0], all));
	for (int b = 0; b < boxes; b++) {
		Samples s = random_samples(n);
		memset(part, 0, (size_t)count * sizeof *part);
		assert_ok(tomos_file_read_box(file, s.first, s.count, s.step, part));
		compare(n, all, &s, part);
		if (strcmp(file->type, "float32") == 0 && !file->element.swapped) {
			file->grain = 1 + below(3);
			file->row_grain = 1 + below(3);
			memset(part, 0, (size_t)count * sizeof *part);
			assert_ok(samples_by_rows(file, &s, 1 + b % 3, part));
			compare(n, all, &s, part);
			file->grain = grain;
		}
	}
	free(all);
	free(part);
}

static void check_path(const char *path, const tomos_file_options *options, int boxes)
{
	tomos_file *file;
	assert_ok(tomos_file_open(&file, path, options));
	check_boxes(file, boxes);
	tomos_file_close(file);
}

static void write_with(const char *path, const int64_t shape[3], const tomos_file_options *given)
{
	tomos_file_options options = *given;
	tomos_file *file;
	int64_t count = shape[0] * shape[1] * shape[2];
	float *data = calloc((size_t)count, sizeof *data);
	for (int64_t i = 0; i < count; i++)
		data[i] = (float)(i % 65521);
	options.overwrite = 1;
	if (path[strlen(path) - 1] == '/')
		file_discard(path);
	assert_ok(tomos_file_create(&file, path, TOMOS_VOLUME, shape, &options));
	assert_ok(tomos_file_write(file, 0, shape[0], data));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	free(data);
}

/* Rows longer and shorter than what is read in one piece. */
static const int64_t shapes[2][3] = {{6, 9, 11}, {4, 5, 1500}};

static void check_ending(const Format *format, const char *ending, int length, int shape)
{
	char name[64], layout[64];
	tomos_file_options options = tomos_file_defaults();
	const int64_t *n = shapes[shape];
	(void)format;
	snprintf(name, sizeof name, "box.%.*s", length, ending);
	snprintf(layout, sizeof layout, "%d,%d,%d,float32", (int)n[0], (int)n[1], (int)n[2]);
	write_with(at(name), n, &options);
	if (strcmp(format->name, "raw") == 0)
		options.raw = layout;
	check_path(at(name), &options, 100);
	file_discard(at(name));
}

static void every_format(void **state)
{
	int checked = 0;
	(void)state;
	for (int i = 0; i < COUNT(formats); i++)
		for (const char *e = formats[i]->endings; e && *e && formats[i]->create;) {
			int length = (int)strcspn(e, "|");
			check_ending(formats[i], e, length, 0);
			check_ending(formats[i], e, length, 1);
			e += length + (e[length] == '|');
			checked++;
		}
	assert_true(checked >= 6);
	assert_int_equal(mem_live(), 0);
}

static void packed_and_small_types(void **state)
{
	static const char *const paths[] = {"box.h5", "box.npy", "box.tif", "stack/"};
	static const double window[2] = {0, 65535};
	(void)state;
	for (int i = 0; i < COUNT(paths); i++) {
		tomos_file_options options = tomos_file_defaults();
		options.type = i == 1 ? "uint8" : "uint16";
		options.window = window;
		options.window_count = 2;
		if (i == 0)
			options.compress = 3;
		write_with(at(paths[i]), shapes[0], &options);
		check_path(at(paths[i]), NULL, 200);
	}
	assert_int_equal(mem_live(), 0);
}

/* ---- layouts that other programs write ------------------------------------------------------- */

static void fortran(void **state)
{
	unsigned char bytes[128 + 6 * 9 * 11 * 2];
	char head[128];
	(void)state;
	memset(bytes, ' ', 128);
	int length = snprintf(head, sizeof head,
		"%cNUMPY%c%c%c%c{'descr': '>u2', 'fortran_order': True, 'shape': (6, 9, 11), }",
		0x93, 1, 'v', 118, 'h');
	memcpy(bytes, head, (size_t)length);
	bytes[7] = bytes[9] = 0;
	bytes[127] = '\n';
	for (int i = 0; i < 6 * 9 * 11; i++) {
		bytes[128 + 2 * i] = (unsigned char)(i >> 8);
		bytes[129 + 2 * i] = (unsigned char)i;
	}
	put_file(at("fortran.npy"), bytes, sizeof bytes);
	check_path(at("fortran.npy"), NULL, 300);
	assert_int_equal(mem_live(), 0);
}

/* Slices larger than what is read by one call. */
static void large_slices(void **state)
{
	const int64_t shape[3] = {2, 900, 600};
	tomos_file_options options = tomos_file_defaults();
	(void)state;
	write_with(at("large.npy"), shape, &options);
	check_path(at("large.npy"), NULL, 12);
	file_discard(at("large.npy"));
	assert_int_equal(mem_live(), 0);
}

static Format counting;
static const Format *counted;
static int portions;

static tomos_status count_portions(File *file, const Samples *s, int threads, void *stored)
{
	portions++;
	return counted->read_box(file, s, threads, stored);
}

/* Integers, a step apart along the first axis, are not read one index at a time. */
static void steps_of_integers(void **state)
{
	const int64_t shape[3] = {64, 3, 5}, first[3] = {1, 0, 0}, count[3] = {16, 3, 5},
		      step[3] = {4, 1, 1};
	const double window[2] = {0, 65535};
	tomos_file_options options = tomos_file_defaults();
	float part[16 * 3 * 5];
	tomos_file *file;
	(void)state;
	options.type = "uint16";
	options.window = window;
	options.window_count = 2;
	write_with(at("steps.npy"), shape, &options);
	assert_ok(tomos_file_open(&file, at("steps.npy"), NULL));
	counted = file->format;
	counting = *counted;
	counting.read_box = count_portions;
	file->format = &counting;
	assert_ok(tomos_file_read_box(file, first, count, step, part));
	file->format = counted;
	tomos_file_close(file);
	assert_int_equal(portions, 1);
	assert_float_equal(part[15], 5 * 15, 1e-2); /* the second sample is index 5 */
	file_discard(at("steps.npy"));
	assert_int_equal(mem_live(), 0);
}

/* Chunks whose sides divide no axis, some of them never written, with a filter and without. */
static void chunked(void **state)
{
	const hsize_t axes[3] = {6, 9, 11}, sides[3] = {4, 5, 3}, first[3] = {0, 0, 0};
	const hsize_t half[3] = {6, 9, 6};
	const float fill = 2.5F;
	float data[6 * 9 * 6];
	(void)state;
	for (int i = 0; i < COUNT(data); i++)
		data[i] = (float)i;
	for (int packed = 0; packed < 2; packed++) {
		hid_t file = H5Fcreate(at("chunks.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
		hid_t space = H5Screate_simple(3, axes, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
		hid_t memory = H5Screate_simple(3, half, NULL);
		H5Pset_chunk(list, 3, sides);
		H5Pset_fill_value(list, H5T_NATIVE_FLOAT, &fill);
		if (packed)
			H5Pset_deflate(list, 2);
		hid_t set = H5Dcreate2(
			file, "data", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
		H5Sselect_hyperslab(space, H5S_SELECT_SET, first, NULL, half, NULL);
		assert_true(H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, data) >= 0);
		H5Dclose(set);
		H5Sclose(memory);
		H5Sclose(space);
		H5Pclose(list);
		H5Fclose(file);
		check_path(at("chunks.h5"), NULL, 300);
	}
	assert_int_equal(mem_live(), 0);
}

/* ---- rejections ------------------------------------------------------------------------------ */

static void rejected(void **state)
{
	tomos_file_options options = tomos_file_defaults();
	const int64_t zero[3] = {0}, ones[3] = {1, 1, 1}, two[3] = {2, 2, 2};
	const int64_t outside[3] = {0, 9, 0}, many[3] = {1, 1, 7}, huge[3] = {1, 1, INT64_MAX};
	const int64_t negative[3] = {-1, 0, 0}, none[3] = {1, 0, 1};
	float data[64];
	tomos_file *file;
	(void)state;
	write_with(at("box.npy"), shapes[0], &options);
	assert_ok(tomos_file_open(&file, at("box.npy"), NULL));
	assert_int_equal(tomos_file_read_box(file, outside, ones, ones, data), TOMOS_BAD_VALUE);
	assert_says("1 samples from 9 on, 1 apart, along the second axis, which has 9");
	assert_int_equal(tomos_file_read_box(file, zero, many, two, data), TOMOS_BAD_VALUE);
	assert_says("7 samples from 0 on, 2 apart, along the third axis, which has 11");
	assert_int_equal(tomos_file_read_box(file, zero, huge, two, data), TOMOS_BAD_VALUE);
	assert_int_equal(tomos_file_read_box(file, zero, two, huge, data), TOMOS_BAD_VALUE);
	assert_int_equal(tomos_file_read_box(file, negative, ones, ones, data), TOMOS_BAD_VALUE);
	assert_int_equal(tomos_file_read_box(file, zero, none, ones, data), TOMOS_BAD_VALUE);
	assert_int_equal(tomos_file_read_box(file, zero, two, zero, data), TOMOS_BAD_VALUE);
	assert_int_equal(tomos_file_read_box(file, zero, ones, ones, NULL), TOMOS_BAD_VALUE);
	assert_int_equal(tomos_file_read_box(file, NULL, ones, ones, data), TOMOS_BAD_VALUE);
	assert_says("first is NULL");
	assert_int_equal(tomos_file_read_box(NULL, zero, ones, ones, data), TOMOS_BAD_VALUE);
	/* one sample has no step */
	assert_ok(tomos_file_read_box(file, zero, ones, zero, data));
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

/* Every allocation fails in turn. */
static void memory(void **state)
{
	static const char *const paths[] = {"box.h5", "box.tif", "stack/"};
	const int64_t first[3] = {0, 1, 1}, count[3] = {3, 3, 4}, step[3] = {2, 2, 2};
	float data[36];
	(void)state;
	for (int i = 0; i < COUNT(paths); i++) {
		tomos_file *file;
		tomos_status status = TOMOS_NO_MEMORY;
		assert_ok(tomos_file_open(&file, at(paths[i]), NULL));
		for (int nth = 1; status != TOMOS_OK; nth++) {
			mem_fail_nth(nth);
			status = tomos_file_read_box(file, first, count, step, data);
			mem_fail_nth(0);
			assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
			assert_true(nth < 100);
		}
		tomos_file_close(file);
	}
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) \
	T(every_format), T(packed_and_small_types), T(fortran), T(large_slices), \
		T(steps_of_integers), T(chunked), T(rejected), T(memory)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
