/* Any bytes as a scan in an npy file. */
#include "fuzz_scan.h"

static void put_seeds(const char *directory)
{
	put_array(directory, "seed.npy", TOMOS_PROJECTIONS, (int64_t[]){2, 3, 4});
	put_array(directory, "seed-sinogram.npy", TOMOS_PROJECTIONS, (int64_t[]){1, 3, 4});
}

const Target target = {&format_npy, NPY_START, read_scan, put_seeds};
