/* Any bytes as each picture of a folder of TIFF files: two views, a flat and a dark. */
#include "fuzz_tiff.h"
#include "fuzz_scan.h"

static char folder[] = "/tmp/tomos-fuzz-XXXXXX";

static void remove_folder(void)
{
	file_discard(folder);
}

/* The names in the folder are links to the file in memory, which stays the same. */
static void read_stack(const char *path, const uint8_t *bytes, size_t size)
{
	static const char *const names[] = {"proj_0.tif", "proj_1.tif", "flat.tif", "dark.tif"};
	static bool made;
	(void)bytes;
	(void)size;
	if (!made) {
		require(mkdtemp(folder) && atexit(remove_folder) == 0);
		for (int i = 0; i < COUNT(names); i++)
			require(symlink(path, seed_path(folder, names[i])) == 0);
		made = true;
	}
	read_scan_as(folder, "");
}

const Target target = {&format_tiff, TIFF_START, read_stack, put_seeds};
