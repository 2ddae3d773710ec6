/* HDF5 files to begin with, in the old layout without checksums, in which more damage goes unseen
 * by the library. */
#ifndef TOMOS_TESTS_FUZZ_FUZZ_HDF5_H
#define TOMOS_TESTS_FUZZ_FUZZ_HDF5_H

#include <hdf5.h>
#include "fuzz_file.h"

/* HDF5 1.10 leaks some memory when it reads a damaged file. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libhdf5";
}

static inline hid_t h5_seed(const char *directory, const char *name)
{
	return H5Fcreate(seed_path(directory, name), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

/* A dataset of zeros and the groups in its path, in compressed chunks or contiguous. */
static inline void h5_put(
	hid_t file, const char *name, hid_t type, int rank, const hsize_t *sizes, bool chunked)
{
	static const double zeros[64];
	hid_t links = H5Pcreate(H5P_LINK_CREATE), list = H5Pcreate(H5P_DATASET_CREATE);
	hid_t space = rank ? H5Screate_simple(rank, sizes, NULL) : H5Screate(H5S_SCALAR);
	H5Pset_create_intermediate_group(links, 1);
	if (chunked) {
		H5Pset_chunk(list, rank, sizes);
		H5Pset_deflate(list, 4);
	}
	hid_t set = H5Dcreate2(file, name, type, space, links, list, H5P_DEFAULT);
	require(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros) >= 0);
	H5Dclose(set);
	H5Sclose(space);
	H5Pclose(list);
	H5Pclose(links);
}

/* A text: a dataset of its own, or an attribute of `name`. */
static inline void h5_put_text(
	hid_t file, const char *name, const char *attribute, const char *text)
{
	hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
	H5Tset_size(type, strlen(text));
	hid_t made = attribute ? H5Acreate_by_name(file, name, attribute, type, space, H5P_DEFAULT,
					 H5P_DEFAULT, H5P_DEFAULT)
			       : H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT,
					 H5P_DEFAULT);
	require((attribute ? H5Awrite(made, type, text)
			   : H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text)) >= 0);
	H5Idec_ref(made);
	H5Sclose(space);
	H5Tclose(type);
}

#endif
