/* Any bytes as a MetaImage file. */
#include "fuzz_array.h"

static void put_seeds(const char *directory)
{
	put_array(directory, "seed.mha", TOMOS_VOLUME, (int64_t[]){2, 3, 4});
}

const Target target = {&format_mhd, MHD_START, read_array, put_seeds};
