/* Any bytes as a scan in HDF5: NXtomo. */
#include "fuzz_hdf5.h"
#include "fuzz_scan.h"

static void put_nexus(const char *directory, bool chunked)
{
	const hsize_t sizes[3] = {2, 3, 4};
	hid_t file = h5_seed(directory, chunked ? "seed-chunked.nxs" : "seed.nxs");
	h5_put(file, "entry/instrument/detector/data", H5T_NATIVE_UINT16, 3, sizes, chunked);
	h5_put(file, "entry/instrument/detector/image_key", H5T_NATIVE_INT32, 1, sizes, chunked);
	h5_put(file, "entry/instrument/detector/x_pixel_size", H5T_NATIVE_DOUBLE, 0, NULL, false);
	h5_put(file, "entry/sample/rotation_angle", H5T_NATIVE_DOUBLE, 1, sizes, chunked);
	h5_put_text(file, "entry/sample/rotation_angle", "units", "deg");
	h5_put_text(file, "entry/instrument/detector/field_of_view", NULL, "Half");
	h5_put_text(file, "entry/definition", NULL, "NXtomo");
	H5Fclose(file);
}

/* Frames of another dataset of the same file, or of the dataset itself. */
static void put_virtual(const char *directory, bool own)
{
	const hsize_t sizes[3] = {2, 3, 4};
	static const char data[] = "entry/instrument/detector/data";
	hid_t file = h5_seed(directory, own ? "seed-own.nxs" : "seed-virtual.nxs");
	hid_t list = H5Pcreate(H5P_DATASET_CREATE);
	hid_t space = H5Screate_simple(3, sizes, NULL);
	h5_put(file, "entry/instrument/detector/image_key", H5T_NATIVE_INT32, 1, sizes, false);
	h5_put(file, "frames", H5T_NATIVE_UINT16, 3, sizes, false);
	require(H5Pset_virtual(list, space, ".", own ? data : "frames", space) >= 0);
	H5Dclose(H5Dcreate2(file, data, H5T_NATIVE_UINT16, space, H5P_DEFAULT, list, H5P_DEFAULT));
	h5_put_text(file, "entry/definition", NULL, "NXtomo");
	H5Sclose(space);
	H5Pclose(list);
	H5Fclose(file);
}

static void put_seeds(const char *directory)
{
	put_nexus(directory, false);
	put_nexus(directory, true);
	put_virtual(directory, false);
	put_virtual(directory, true);
}

const Target target = {&format_hdf5, HDF5_START, read_scan, put_seeds};
