/* Any bytes as an NRRD file. */
#include "fuzz_array.h"

static void put_seeds(const char *directory)
{
	put_array(directory, "seed.nrrd", TOMOS_VOLUME, (int64_t[]){2, 3, 4});
	put_text(directory, "gzip.nrrd",
		"NRRD0004\ntype: float\ndimension: 3\nspace: RAS\nsizes: 4 3 2\nendian: "
		"big\nencoding: "
		"gzip\nspacings: 1 2 3\nline skip: 1\nbyte skip: -1\nunits: \"um\"\n\n\x1f\x8b");
}

const Target target = {&format_nrrd, "NRRD0005\n", 9, read_array, put_seeds};
