/* Any bytes as a NIfTI file. */
#include "fuzz_array.h"

static void put_seeds(const char *directory)
{
	put_array(directory, "seed.nii", TOMOS_VOLUME, (int64_t[]){2, 3, 4});
	put_array(directory, "seed.nii.gz", TOMOS_VOLUME, (int64_t[]){2, 3, 4});
}

/* Other inputs become NIfTI-2, whose mark is at the beginning. */
const Target target = {&format_nifti, "\x1c\2\0\0n+2\0\r\n\032\n", 12, read_array, put_seeds};
