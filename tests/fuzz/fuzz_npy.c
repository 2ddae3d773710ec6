/* Any bytes as an npy file. */
#include "fuzz_file.h"

const Format *const target = &format_npy;
void (*const target_read)(const char *path) = read_file;

void put_seeds(const char *directory)
{
	tomos_file *file;
	if (put_seed(directory, "seed.npy", TOMOS_VOLUME, (int64_t[]){2, 3, 4}, &file))
		end_seed(file);
}
