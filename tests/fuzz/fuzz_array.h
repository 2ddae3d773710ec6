/* The body of the targets of array formats: opened, described, and a few slabs read. */
#ifndef TOMOS_TESTS_FUZZ_FUZZ_ARRAY_H
#define TOMOS_TESTS_FUZZ_FUZZ_ARRAY_H

#include "fuzz_file.h"

static inline void read_slabs(tomos_file *file)
{
	float *data;
	int64_t slab;
	if (!size_mul(file->shape[1], file->shape[2], &slab) || slab > MOST)
		return;
	require(mem_alloc(&data, slab, sizeof *data, "a slab") == TOMOS_OK);
	for (int64_t i = 0; i < file->shape[0] && i < 8; i++)
		if (tomos_file_read(file, i, 1, data) != TOMOS_OK)
			break;
	mem_free(data);
}

static inline void read_array(const char *path, const uint8_t *bytes, size_t size)
{
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	int64_t live = mem_live();
	(void)bytes;
	(void)size;
	tomos_status status = tomos_file_open(&file, path, NULL);
	require((status == TOMOS_OK) == (file != NULL) && (file || *tomos_message()));
	if (file) {
		(void)tomos_file_describe(file, &info);
		read_slabs(file);
	}
	tomos_file_close(file);
	require(mem_live() == live);
}

#endif
