/* Virtual HDF5 datasets: read through their sources; rejected if a source is missing, is damaged or
 * is the dataset itself. */
#include "io/io_help.h"
#include <hdf5.h>
#include <sys/stat.h>
#include "io/io.h"

static const hsize_t sizes[3] = {2, 3, 4};

/* A virtual dataset all of whose data come from `dataset` of the file `source` ("." is its own). */
static void put_virtual(hid_t file, const char *name, const char *source, const char *dataset)
{
	hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(3, sizes, NULL);
	assert_true(H5Pset_virtual(list, space, source, dataset, space) >= 0);
	hid_t made =
		H5Dcreate2(file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT);
	assert_true(made >= 0);
	H5Dclose(made);
	H5Sclose(space);
	H5Pclose(list);
}

static void put_numbers(hid_t file, const char *name)
{
	float data[24];
	hid_t space = H5Screate_simple(3, sizes, NULL);
	hid_t made = H5Dcreate2(
		file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
	for (int i = 0; i < 24; i++)
		data[i] = (float)(1 + i);
	assert_true(H5Dwrite(made, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
	H5Dclose(made);
	H5Sclose(space);
}

static hid_t new_file(const char *name)
{
	hid_t file = H5Fcreate(at(name), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
	assert_true(file >= 0);
	return file;
}

/* Opened without printing of the library; the message where that fails. */
static tomos_status open_first(tomos_file **file, const char *name)
{
	tomos_file_options options = tomos_file_defaults();
	options.dataset = "a";
	return tomos_file_open(file, at(name), &options);
}

static void assert_read(const char *name)
{
	tomos_file *file;
	float data[24] = {0};
	assert_ok(open_first(&file, name));
	assert_ok(tomos_file_read(file, 0, 2, data));
	for (int i = 0; i < 24; i++)
		assert_true(data[i] == (float)(1 + i));
	tomos_file_close(file);
}

static void assert_rejected(const char *name, const char *words)
{
	tomos_file *file;
	assert_int_not_equal(open_first(&file, name), TOMOS_OK);
	assert_null(file);
	assert_says(words);
	assert_int_equal(mem_live(), 0);
}

static void sources(void **state)
{
	(void)state;
	hid_t file = new_file("nested.h5");
	put_virtual(file, "a", ".", "b");
	put_virtual(file, "b", ".", "c");
	put_virtual(file, "c", "other.h5", "d");
	H5Fclose(file);
	file = new_file("other.h5");
	put_numbers(file, "d");
	H5Fclose(file);
	assert_read("nested.h5");
	assert_int_equal(truncate(at("other.h5"), 1000), 0);
	assert_rejected("nested.h5", "is truncated");
	H5Fclose(new_file("other.h5"));
	assert_rejected("nested.h5", "whose source, dataset 'd' of");
	unlink(at("other.h5"));
	assert_rejected("nested.h5", "it is virtual, and its file 'other.h5' cannot be read");
}

static void own_source(void **state)
{
	(void)state;
	static const char *const loops[][3] = {{"one.h5", ".", "a"}, {"two.h5", ".", "b"}};
	for (int i = 0; i < COUNT(loops); i++) {
		hid_t file = new_file(loops[i][0]);
		put_virtual(file, "a", loops[i][1], loops[i][2]);
		put_virtual(file, "b", ".", "a");
		H5Fclose(file);
		assert_rejected(loops[i][0], "it is its own source");
	}
}

/* The library would read zeros here. */
static void own_file_named(void **state)
{
	(void)state;
	hid_t file = new_file("named.h5");
	put_virtual(file, "a", "named.h5", "b");
	put_numbers(file, "b");
	H5Fclose(file);
	assert_rejected("named.h5", "names the file it is in as 'named.h5'; only '.' can be read");
}

static tomos_status count_readable(void *user, const char *path)
{
	*(int *)user += access(path, R_OK) == 0;
	return TOMOS_OK;
}

/* Through a symbolic link, sources are also found beside the file itself, as HDF5 does. */
static void linked(void **state)
{
	(void)state;
	char target[512], link[512];
	int readable = 0;
	tomos_file *opened;
	assert_int_equal(mkdir(at("linked"), 0755), 0);
	hid_t file = new_file("linked/whole.h5");
	put_virtual(file, "a", "part.h5", "d");
	H5Fclose(file);
	file = new_file("linked/part.h5");
	put_numbers(file, "d");
	H5Fclose(file);
	snprintf(target, sizeof target, "%s", at("linked/whole.h5"));
	snprintf(link, sizeof link, "%s", at("link.h5"));
	assert_int_equal(symlink(target, link), 0);
	assert_read("link.h5");
	assert_ok(open_first(&opened, "link.h5"));
	assert_ok(io_sources(opened, count_readable, &readable));
	assert_int_equal(readable, 2);
	tomos_file_close(opened);
	unlink(at("linked/part.h5"));
	assert_rejected("link.h5", "it is virtual, and its file 'part.h5' cannot be read");
}

#define TESTS(T) T(sources), T(own_source), T(own_file_named), T(linked)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
