/* Any bytes as an HDF5 file; besides our own, with checksums, the old layout without them, in which
 * more damage goes unseen by the library. */
#include "fuzz_file.h"
#include <hdf5.h>

const Format *const target = &format_hdf5;
void (*const target_read)(const char *path) = read_file;

/* HDF5 1.10 loses some bytes of its own when an object's checksum is wrong. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libhdf5";
}

static void put_old(const char *directory, bool chunked)
{
	static const float zeros[24];
	const hsize_t sizes[3] = {2, 3, 4};
	char path[512];
	snprintf(path, sizeof path, "%s/seed-old-%d.h5", directory, chunked);
	hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
	hid_t space = H5Screate_simple(3, sizes, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
	if (chunked) {
		H5Pset_chunk(list, 3, sizes);
		H5Pset_deflate(list, 4);
	}
	hid_t group = H5Gcreate2(file, "exchange", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
	hid_t data = H5Dcreate2(group, chunked ? "data" : "picture", H5T_IEEE_F32LE, space,
		H5P_DEFAULT, list, H5P_DEFAULT);
	require(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros) >= 0);
	H5Dclose(data);
	H5Gclose(group);
	H5Pclose(list);
	H5Sclose(space);
	H5Fclose(file);
}

void put_seeds(const char *directory)
{
	tomos_file *file;
	tomos_grid grid;
	if (!put_seed(directory, "seed.h5", TOMOS_VOLUME, (int64_t[]){2, 3, 4}, &file))
		return;
	require(tomos_grid_centred(&grid, 4, 3, 2, 1) == TOMOS_OK);
	require(tomos_file_set_grid(file, &grid) == TOMOS_OK);
	end_seed(file);
	put_old(directory, false);
	put_old(directory, true);
}
