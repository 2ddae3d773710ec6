/* Any bytes as an npy file. */
#include "fuzz_array.h"

static void put_seeds(const char *directory)
{
	put_array(directory, "seed.npy", TOMOS_VOLUME, (int64_t[]){2, 3, 4});
}

const Target target = {&format_npy, NPY_START, read_array, put_seeds};
