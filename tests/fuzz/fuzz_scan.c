/* Any bytes as a scan: Data Exchange and NXtomo, TIFF, npy and MetaImage files, and as raw numbers. */
#include "fuzz_file.h"
#include <hdf5.h>
#include "run/scan.h"

const Format *const target = NULL;

/* HDF5 1.10 loses some bytes of its own when an object's checksum is wrong. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libhdf5";
}

static void read_frames(tomos_scan *scan, const tomos_scan_info *info)
{
	const int64_t counts[3] = {info->views, info->flats, info->darks};
	float *data;
	if (info->columns > MOST ||
		mem_alloc(&data, info->columns, sizeof *data, "a row") != TOMOS_OK)
		return;
	for (int kind = 0; kind < 3; kind++)
		for (int64_t i = 0; i < counts[kind] && i < 4; i++)
			(void)tomos_scan_read(scan, (tomos_frames)kind, i, 1, 0, 1, data);
	mem_free(data);
}

static void read_lists(tomos_scan *scan, const tomos_scan_info *info)
{
	double *list;
	tomos_geometry *geometry = NULL;
	if (info->views > MOST)
		return;
	require(mem_alloc(&list, 2 * info->views, sizeof *list, "lists") == TOMOS_OK);
	(void)tomos_scan_angles(scan, list);
	(void)tomos_scan_shifts(scan, list, list + info->views);
	mem_free(list);
	if (info->views <= 4096 && tomos_scan_geometry(scan, &geometry, NULL) == TOMOS_OK)
		require(tomos_geometry_count(geometry) == info->views);
	tomos_geometry_free(geometry);
}

static void read_scan(const char *path, const char *raw)
{
	tomos_source_options options = tomos_source_defaults();
	tomos_scan *scan = NULL;
	tomos_scan_info info;
	int64_t live = mem_live();
	options.raw = raw;
	tomos_status status = tomos_scan_open(&scan, path, &options);
	require((status == TOMOS_OK) == (scan != NULL) && (scan || *tomos_message()));
	if (scan && tomos_scan_describe(scan, &info) == TOMOS_OK) {
		read_lists(scan, &info);
		read_frames(scan, &info);
	}
	tomos_scan_close(scan);
	require(mem_live() == live);
}

static void read_both(const char *path)
{
	read_scan(path, "");
	read_scan(path, "2,3,4,uint16,8,big");
}

void (*const target_read)(const char *path) = read_both;

static void put(hid_t file, const char *name, hid_t type, int rank, const hsize_t *sizes)
{
	static const double zeros[64];
	hid_t links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(rank, sizes, NULL);
	H5Pset_create_intermediate_group(links, 1);
	hid_t set = H5Dcreate2(file, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
	require(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros) >= 0);
	H5Dclose(set);
	H5Sclose(space);
	H5Pclose(links);
}

static hid_t seed_new(const char *directory, const char *name)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	return H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

static void put_exchange(const char *directory)
{
	const hsize_t sizes[3] = {2, 3, 4};
	hid_t file = seed_new(directory, "seed-exchange.h5");
	put(file, "exchange/data", H5T_NATIVE_UINT16, 3, sizes);
	put(file, "exchange/data_white", H5T_NATIVE_UINT16, 3, sizes);
	put(file, "exchange/data_dark", H5T_NATIVE_UINT16, 3, sizes);
	put(file, "exchange/theta", H5T_NATIVE_DOUBLE, 1, sizes);
	H5Fclose(file);
}

static void put_nexus(const char *directory)
{
	const hsize_t sizes[3] = {2, 3, 4};
	hid_t file = seed_new(directory, "seed-nexus.h5"), text = H5Tcopy(H5T_C_S1);
	hid_t space = H5Screate(H5S_SCALAR);
	put(file, "entry/instrument/detector/data", H5T_NATIVE_UINT16, 3, sizes);
	put(file, "entry/instrument/detector/image_key", H5T_NATIVE_INT32, 1, sizes);
	put(file, "entry/sample/rotation_angle", H5T_NATIVE_DOUBLE, 1, sizes);
	H5Tset_size(text, 6);
	hid_t set = H5Dcreate2(
		file, "entry/definition", text, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
	require(H5Dwrite(set, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, "NXtomo") >= 0);
	H5Dclose(set);
	H5Sclose(space);
	H5Tclose(text);
	H5Fclose(file);
}

void put_seeds(const char *directory)
{
	static const char *const names[] = {"seed.h5", "seed.tif", "seed.npy", "seed.mha"};
	for (int i = 0; i < COUNT(names); i++) {
		tomos_file *file;
		if (put_seed(directory, names[i], TOMOS_PROJECTIONS, (int64_t[]){2, 3, 4}, &file))
			end_seed(file);
	}
	put_exchange(directory);
	put_nexus(directory);
}
