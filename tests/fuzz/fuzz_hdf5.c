/* Any bytes as an HDF5 file: our own layout, with checksums, and the old one. */
#include "fuzz_hdf5.h"
#include "fuzz_array.h"

static void put_seeds(const char *directory)
{
	const hsize_t sizes[3] = {2, 3, 4};
	put_array(directory, "seed.h5", TOMOS_VOLUME, (int64_t[]){2, 3, 4});
	for (int chunked = 0; chunked < 2; chunked++) {
		hid_t file = h5_seed(directory, chunked ? "seed-chunked.h5" : "seed-old.h5");
		h5_put(file, chunked ? "exchange/data" : "a/picture", H5T_IEEE_F32LE, 3, sizes,
			chunked);
		H5Fclose(file);
	}
}

const Target target = {&format_hdf5, HDF5_START, read_array, put_seeds};
