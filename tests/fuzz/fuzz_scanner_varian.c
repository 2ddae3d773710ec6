/* Any bytes as a view of Varian and as its air scan, .xim by its first bytes or .hnd. */
#include "fuzz_scanner.h"

static void put_seeds(const char *directory)
{
	static const unsigned char xim[712] = {'V', 'M', 'S', '.', 'X', 'I', 0, 0, 1, 0, 0, 0, 2, 0,
		0, 0, 2, 0, 0, 0, 32, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 13, 0, 0, 0,
		1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 9, 16, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 13, 0,
		0, 0, 'K', 'V', 'N', 'o', 'r', 'm', 'C', 'h', 'a', 'm', 'b', 'e', 'r', 0, 0, 0, 0,
		5, 0, 0, 0, 11, 0, 0, 0, 'K', 'V', 'S', 'o', 'u', 'r', 'c', 'e', 'R', 't', 'n', 1};
	unsigned char hnd[1100] = "Varian_VA_INTERNAL_1.0";
	hnd[120] = hnd[124] = 2;
	put_bytes(directory, "seed.xim", xim, sizeof xim);
	put_bytes(directory, "seed.hnd", hnd, sizeof hnd);
}

static void read_it(const char *path, const uint8_t *bytes, size_t size)
{
	static bool made;
	(void)bytes;
	(void)size;
	if (!made) {
		make_scanner_folder(path, "Proj_1.xim", NULL, 0);
		put_text(scanner_folder, "Scan.xml",
			"<Scan><SAD>2</SAD><SID>5</SID><ImagerResX>1</ImagerResX><ImagerResY>1"
			"</ImagerResY></Scan>");
		require(mkdir(seed_path(scanner_folder, "Calibrations"), 0700) == 0 &&
			mkdir(seed_path(scanner_folder, "Calibrations/AIR"), 0700) == 0 &&
			symlink(path, seed_path(scanner_folder, "Calibrations/AIR/Filter.xim")) ==
				0);
	}
	made = true;
	read_scan_as(seed_path(scanner_folder, "Proj_1.xim"), "");
}

const Target target = {NULL, NULL, 0, read_it, put_seeds};
