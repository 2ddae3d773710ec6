/* Scans in HDF5 files, made by hand for tests: datasets of any type with attributes. */
#ifndef TOMOS_TESTS_RUN_SCAN_FILES_H
#define TOMOS_TESTS_RUN_SCAN_FILES_H

#include <hdf5.h>
#include "io/io_help.h"

static inline hid_t h5_new(const char *path)
{
	hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
	assert_true(file >= 0);
	return file;
}

/* A dataset and the groups in its path; `list` is a creation property list or H5P_DEFAULT. */
static inline void h5_put_as(hid_t file, const char *name, hid_t type, int rank,
	const hsize_t *sizes, hid_t list, const void *data)
{
	hid_t links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(rank, sizes, NULL);
	H5Pset_create_intermediate_group(links, 1);
	hid_t set = H5Dcreate2(file, name, type, space, links, list, H5P_DEFAULT);
	assert_true(set >= 0);
	if (data)
		assert_true(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
	H5Dclose(set);
	H5Sclose(space);
	H5Pclose(links);
}

static inline void h5_put(
	hid_t file, const char *name, hid_t type, int rank, const hsize_t *sizes, const void *data)
{
	h5_put_as(file, name, type, rank, sizes, H5P_DEFAULT, data);
}

static inline void h5_put_list(hid_t file, const char *name, const double *list, int64_t count)
{
	h5_put(file, name, H5T_NATIVE_DOUBLE, 1, (hsize_t[]){(hsize_t)count}, list);
}

static inline void h5_put_scalar(hid_t file, const char *name, double value)
{
	h5_put(file, name, H5T_NATIVE_DOUBLE, 0, NULL, &value);
}

static inline hid_t h5_text_type(const char *text, bool variable)
{
	hid_t type = H5Tcopy(H5T_C_S1);
	H5Tset_size(type, variable ? H5T_VARIABLE : strlen(text));
	return type;
}

static inline void h5_put_text(hid_t file, const char *name, const char *text, bool variable)
{
	hid_t type = h5_text_type(text, variable);
	h5_put(file, name, type, 0, NULL, variable ? (const void *)&text : text);
	H5Tclose(type);
}

static inline void h5_attribute(
	hid_t file, const char *object, const char *name, const char *text, bool variable)
{
	hid_t type = h5_text_type(text, variable), space = H5Screate(H5S_SCALAR);
	hid_t made = H5Acreate_by_name(
		file, object, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
	assert_true(made >= 0);
	assert_true(H5Awrite(made, type, variable ? (const void *)&text : text) >= 0);
	H5Aclose(made);
	H5Sclose(space);
	H5Tclose(type);
}

#endif
