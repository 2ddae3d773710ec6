/* Every truncation and bit flip of small files is rejected, or reads the shape that was written. */
#include "io_help.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <hdf5.h>
#include <tiffio.h>
#include "hdf5_leaks.h"
#include "io/io.h"

static const int64_t shape[3] = {3, 4, 5};
static float numbers[60];
static int rejected, accepted;

static int make_numbers(void **state)
{
	for (int i = 0; i < 60; i++)
		numbers[i] = (float)i * 0.75F - 11;
	return scratch_make(state);
}

/* Reads what is there; a stack is a directory around the damaged file. */
static void try_reading(const char *path, const int64_t expected[3])
{
	int64_t got[3], live = mem_live();
	float *data;
	if (read_all(path, got, &data) == TOMOS_OK) {
		assert_memory_equal(got, expected, sizeof got);
		accepted++;
	} else {
		assert_non_null(strstr(tomos_message(), "damaged"));
		rejected++;
	}
	free(data);
	assert_int_equal(mem_live(), live);
}

static void truncate_everywhere(const char *path, size_t length)
{
	for (size_t cut = length; cut-- > 0;) {
		int before = rejected;
		assert_int_equal(truncate(path, (off_t)cut), 0);
		try_reading(path, shape);
		assert_int_equal(rejected, before + 1);
	}
}

static void flip_bits(const char *path, const unsigned char *bytes, size_t length, size_t step)
{
	int file = open(path, O_WRONLY);
	for (size_t bit = 0; bit < 8 * length; bit += step) {
		unsigned char flipped = bytes[bit / 8] ^ (unsigned char)(1 << bit % 8);
		assert_int_equal(pwrite(file, &flipped, 1, (off_t)(bit / 8)), 1);
		try_reading(path, shape);
		assert_int_equal(pwrite(file, bytes + bit / 8, 1, (off_t)(bit / 8)), 1);
	}
	close(file);
	assert_true(rejected > 0 && accepted > 0); /* the data's own bits are free to change */
}

static void damage_file(const char *whole, size_t step)
{
	size_t length;
	char path[128];
	snprintf(path, sizeof path, "%s", at("damaged"));
	unsigned char *bytes = get_file(whole, &length);
	rejected = accepted = 0;
	put_file(path, bytes, length);
	flip_bits(path, bytes, length, step);
	truncate_everywhere(path, length);
	free(bytes);
}

static void damage(const char *name, size_t step)
{
	write_array(at(name), TOMOS_VOLUME, shape, numbers);
	damage_file(at(name), step);
}

static void damaged_formats(void **state)
{
	(void)state;
	damage("a.npy", 1);
	damage("a.mha", 1);
	damage("a.tif", 1);
	damage("a.h5", 7);
}

/* The layout HDF5 writes by default has no checksums. */
static void damaged_old_hdf5(void **state)
{
	(void)state;
	const hsize_t sizes[3] = {3, 4, 5};
	hid_t file = H5Fcreate(at("old.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
	hid_t space = H5Screate_simple(3, sizes, NULL);
	hid_t data = H5Dcreate2(
		file, "volume", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
	assert_true(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) >= 0);
	H5Dclose(data);
	H5Sclose(space);
	H5Fclose(file);
	damage_file(at("old.h5"), 7);
}

static void put_byte(const char *path, off_t where, unsigned char value)
{
	int file = open(path, O_WRONLY);
	assert_int_equal(pwrite(file, &value, 1, where), 1);
	close(file);
}

static void rejects_old_first_blocks(void **state)
{
	(void)state;
	tomos_file *file;
	H5Fclose(H5Fcreate(at("damaged"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
	put_byte(at("damaged"), 48, 0);
	assert_int_equal(tomos_file_open(&file, at("damaged"), NULL), TOMOS_UNSUPPORTED);
	assert_says("is part of an HDF5 file in several parts");
	put_byte(at("damaged"), 42, 1);
	assert_int_equal(tomos_file_open(&file, at("damaged"), NULL), TOMOS_BAD_FILE);
	assert_says("is truncated: it has 800 bytes of 66336");
	put_byte(at("damaged"), 13, 5);
	assert_int_equal(tomos_file_open(&file, at("damaged"), NULL), TOMOS_BAD_FILE);
	assert_says("addresses of 5 bytes; 4 or 8 were expected");
}

/* Named numbers are read from damaged files too: they give numbers or a rejection. */
static void damaged_numbers(void **state)
{
	(void)state;
	tomos_file_options options = overwriting();
	tomos_file *file;
	tomos_grid grid;
	size_t length;
	assert_ok(tomos_grid_centred(&grid, 5, 4, 3, 0.5));
	assert_ok(tomos_file_create(&file, at("a.h5"), TOMOS_VOLUME, shape, &options));
	assert_ok(tomos_file_set_grid(file, &grid));
	assert_ok(tomos_file_write(file, 0, 3, numbers));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	unsigned char *bytes = get_file(at("a.h5"), &length);
	for (size_t bit = 3; bit < 8 * length; bit += 13) {
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		put_file(at("damaged"), bytes, length);
		if (tomos_file_open(&file, at("damaged"), NULL) == TOMOS_OK) {
			if (tomos_file_grid(file, &grid) == TOMOS_OK)
				assert_int_equal(grid.n[0], 5);
			tomos_file_close(file);
		}
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	free(bytes);
	assert_int_equal(mem_live(), 0);
}

/* A file that shrinks after it was opened. */
static void truncated_while_open(void **state)
{
	(void)state;
	static const char *const names[] = {"s.npy", "s.tif", "s.h5"};
	float data[60];
	for (int k = 0; k < COUNT(names); k++) {
		tomos_file *file;
		struct stat info;
		write_array(at(names[k]), TOMOS_VOLUME, shape, numbers);
		assert_ok(tomos_file_open(&file, at(names[k]), NULL));
		stat(at(names[k]), &info);
		assert_int_equal(truncate(at(names[k]), info.st_size - 8), 0);
		/* HDF5 files end in metadata: there the data may still be whole. */
		if (k < 2) {
			assert_int_equal(tomos_file_read(file, 0, 3, data), TOMOS_BAD_FILE);
			assert_non_null(strstr(tomos_message(), names[k]));
			assert_says(k == 0 ? "more were expected" : "the data end too early");
		} else
			(void)tomos_file_read(file, 0, 3, data);
		tomos_file_close(file);
	}
	assert_int_equal(mem_live(), 0);
}

/* The link to a next page is at the very end; without it libtiff would see the last page. */
static void lost_link(void **state)
{
	(void)state;
	const uint8_t pixels[4] = {1, 2, 3, 4};
	struct stat info;
	tomos_file *file;
	TIFF *tiff = TIFFOpen(at("page.tif"), "w");
	TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 2);
	TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 2);
	TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
	TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
	assert_true(TIFFWriteEncodedStrip(tiff, 0, (void *)(uintptr_t)pixels, 4) == 4);
	TIFFClose(tiff);
	assert_ok(tomos_file_open(&file, at("page.tif"), NULL));
	tomos_file_close(file);
	stat(at("page.tif"), &info);
	for (int kept = 0; kept < 4; kept++) {
		assert_int_equal(truncate(at("page.tif"), info.st_size - 4 + kept), 0);
		assert_int_equal(tomos_file_open(&file, at("page.tif"), NULL), TOMOS_BAD_FILE);
	}
}

#define TESTS(T) \
	T(damaged_formats), T(damaged_old_hdf5), T(rejects_old_first_blocks), T(damaged_numbers), \
		T(truncated_while_open), T(lost_link)
TEST_MAIN(TESTS, make_numbers, scratch_remove)
