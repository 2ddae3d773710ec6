/* Any bytes as a MetaImage file. */
#include "fuzz_file.h"

const Format *const target = &format_mhd;
void (*const target_read)(const char *path) = read_file;

void put_seeds(const char *directory)
{
	tomos_file *file;
	if (put_seed(directory, "seed.mha", TOMOS_VOLUME, (int64_t[]){2, 3, 4}, &file))
		end_seed(file);
}
