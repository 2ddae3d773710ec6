/* Any bytes as a scan in a MetaImage file. */
#include "fuzz_scan.h"

static void put_seeds(const char *directory)
{
	put_array(directory, "seed.mha", TOMOS_PROJECTIONS, (int64_t[]){2, 3, 4});
	put_text(directory, "seed-beside.mhd",
		"NDims = 3\nDimSize = 4 3 2\nElementType = MET_USHORT\n"
		"ElementByteOrderMSB = True\nHeaderSize = -1\nElementDataFile = /dev/null\n");
}

const Target target = {&format_mhd, MHD_START, read_scan, put_seeds};
