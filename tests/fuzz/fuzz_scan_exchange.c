/* Any bytes as a scan in HDF5: Data Exchange, and what tomos wrote. */
#include "fuzz_hdf5.h"
#include "fuzz_scan.h"

static void put_exchange(const char *directory, bool chunked)
{
	const hsize_t sizes[3] = {2, 3, 4};
	hid_t file = h5_seed(directory, chunked ? "seed-chunked.h5" : "seed-exchange.h5");
	h5_put(file, "exchange/data", H5T_NATIVE_UINT16, 3, sizes, chunked);
	h5_put(file, "exchange/data_white", H5T_NATIVE_UINT16, 3, sizes, chunked);
	h5_put(file, "exchange/data_dark", H5T_NATIVE_UINT16, 2, sizes + 1, false);
	h5_put(file, "exchange/theta", H5T_NATIVE_DOUBLE, 1, sizes, chunked);
	h5_put(file, "exchange/data_shift_x", H5T_NATIVE_DOUBLE, 1, sizes, false);
	h5_put(file, "measurement/instrument/monochromator/energy", H5T_NATIVE_DOUBLE, 0, NULL,
		false);
	h5_put_text(file, "exchange/data", "axes", "theta:y:x");
	h5_put_text(file, "exchange/theta", "units", "deg");
	H5Fclose(file);
}

static void put_seeds(const char *directory)
{
	put_array(directory, "seed.h5", TOMOS_PROJECTIONS, (int64_t[]){2, 3, 4});
	put_exchange(directory, false);
	put_exchange(directory, true);
}

const Target target = {&format_hdf5, HDF5_START, read_scan, put_seeds};
