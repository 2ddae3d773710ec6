/* The body of the targets of scanners' files: any bytes as the file that describes a scan, in a
 * folder with two views that it may name. */
#ifndef TOMOS_TESTS_FUZZ_FUZZ_SCANNER_H
#define TOMOS_TESTS_FUZZ_FUZZ_SCANNER_H

#include "fuzz_scan.h"

static char scanner_folder[] = "/tmp/tomos-fuzz-XXXXXX";

static inline void remove_scanner_folder(void)
{
	file_discard(scanner_folder);
}

/* Views of 3 rows x 4 columns under these names, and `name` as a link to the file in memory. */
static inline void make_scanner_folder(
	const char *path, const char *name, const char *const *views, int count)
{
	const int64_t shape[3] = {1, 3, 4};
	char folder[512];
	require(mkdtemp(scanner_folder) && atexit(remove_scanner_folder) == 0);
	for (int i = 0; i < count; i++) {
		const char *slash = strchr(views[i], '/');
		if (slash) {
			snprintf(folder, sizeof folder, "%s/%.*s", scanner_folder,
				(int)(slash - views[i]), views[i]);
			(void)mkdir(folder, 0700);
		}
		put_array(scanner_folder, views[i], TOMOS_PROJECTIONS, shape);
	}
	require(symlink(path, seed_path(scanner_folder, name)) == 0);
}

/* Reads the file as `name` of that folder. */
#define SCANNER_TARGET(start, name, seeds, ...) \
	static void read_it(const char *path, const uint8_t *bytes, size_t size) \
	{ \
		static const char *const views[] = {__VA_ARGS__}; \
		static bool made; \
		(void)bytes; \
		(void)size; \
		if (!made) \
			make_scanner_folder(path, name, views, COUNT(views)); \
		made = true; \
		read_scan_as(seed_path(scanner_folder, name), ""); \
	} \
	const Target target = {NULL, start, sizeof(start) - 1, read_it, seeds};

#endif
