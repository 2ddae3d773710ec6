/* The body of the targets of scans: opened, a row of some frames of each set read, angles, shifts
 * and geometry taken. */
#ifndef TOMOS_TESTS_FUZZ_FUZZ_SCAN_H
#define TOMOS_TESTS_FUZZ_FUZZ_SCAN_H

#include "fuzz_file.h"
#include "run/scan.h"

static inline void read_frames(tomos_scan *scan, const tomos_scan_info *info)
{
	const int64_t counts[3] = {info->views, info->flats, info->darks};
	float *data;
	if (info->columns > MOST ||
		mem_alloc(&data, info->columns, sizeof *data, "a row") != TOMOS_OK)
		return;
	for (int kind = 0; kind < 3; kind++)
		for (int64_t i = 0; i < counts[kind] && i < 4; i++)
			(void)tomos_scan_read(scan, (tomos_frames)kind, i, 1, 0, 1, data);
	mem_free(data);
}

static inline void read_lists(tomos_scan *scan, const tomos_scan_info *info)
{
	double *list;
	tomos_geometry *geometry = NULL;
	if (info->views > MOST)
		return;
	require(mem_alloc(&list, 2 * info->views, sizeof *list, "lists") == TOMOS_OK);
	(void)tomos_scan_angles(scan, list);
	(void)tomos_scan_shifts(scan, list, list + info->views);
	mem_free(list);
	if (info->views <= 4096 && tomos_scan_geometry(scan, &geometry, NULL) == TOMOS_OK)
		require(tomos_geometry_count(geometry) == info->views);
	tomos_geometry_free(geometry);
}

static inline void read_scan_as(const char *path, const char *raw)
{
	tomos_source_options options = tomos_source_defaults();
	tomos_scan *scan = NULL;
	tomos_scan_info info = {.bytes = sizeof info};
	int64_t live = mem_live();
	options.raw = raw;
	tomos_status status = tomos_scan_open(&scan, path, &options);
	require((status == TOMOS_OK) == (scan != NULL) && (scan || *tomos_message()));
	if (scan && tomos_scan_describe(scan, &info) == TOMOS_OK) {
		read_lists(scan, &info);
		read_frames(scan, &info);
	}
	tomos_scan_close(scan);
	require(mem_live() == live);
}

static inline void read_scan(const char *path, const uint8_t *bytes, size_t size)
{
	(void)bytes;
	(void)size;
	read_scan_as(path, "");
}

#endif
