/* What the fuzz targets share: any bytes as a file are read, or rejected with a message; nothing
 * leaks, and a shape is never larger than the file can hold. The file exists in memory only. */
#ifndef TOMOS_TESTS_FUZZ_FUZZ_FILE_H
#define TOMOS_TESTS_FUZZ_FUZZ_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/io.h"

enum { MOST = 1 << 20 }; /* numbers read at a time: larger claims are only described */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A fuzz target: the format of the files; their first bytes, which are put before every input so
 * that it reaches the reader (NULL: none); and the function that reads them. */
typedef struct {
	const Format *format;
	const char *start;
	size_t start_length;
	void (*read)(const char *path, const uint8_t *data, size_t size);
	void (*seeds)(const char *directory);
} Target;
extern const Target target;

#define HDF5_START "\x89HDF\r\n\x1a\n", 8
#define TIFF_START "II*", 4
#define NPY_START "\x93NUMPY\1", 8
#define NPZ_START "PK\3\4", 4
#define MHD_START "ObjectType = ", 13

static inline void require(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int memory = -1;
	char path[64];
	if (size < target.start_length)
		return 0;
	if (memory < 0)
		memory = memfd_create("fuzz", 0);
	require(memory >= 0 && ftruncate(memory, 0) == 0);
	require(pwrite(memory, data, size, 0) == (ssize_t)size);
	if (target.start && !(target.format && target.format->probe(data, size)))
		require(pwrite(memory, target.start, target.start_length, 0) ==
			(ssize_t)target.start_length);
	snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
	target.read(path, data, size);
	return 0;
}

/* Valid files to begin with go into the last directory of the command line. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct stat info;
	for (int i = *argc - 1; i > 0; i--)
		if ((*argv)[i][0] != '-' && stat((*argv)[i], &info) == 0 && S_ISDIR(info.st_mode)) {
			target.seeds((*argv)[i]);
			break;
		}
	return 0;
}

/* ---- seeds -------------------------------------------------------------------------------- */

static inline const char *seed_path(const char *directory, const char *name)
{
	static char path[512];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	return path;
}

static inline void put_bytes(
	const char *directory, const char *name, const void *bytes, size_t count)
{
	FILE *file = fopen(seed_path(directory, name), "wb");
	require(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

static inline void put_text(const char *directory, const char *name, const char *text)
{
	put_bytes(directory, name, text, strlen(text));
}

/* Writes a small array to `name`, whose ending determines the format, with a grid if the format has
 * one. */
static inline void put_array(
	const char *directory, const char *name, tomos_content content, const int64_t shape[3])
{
	tomos_file_options options = tomos_file_defaults();
	float zeros[64] = {0};
	tomos_grid grid;
	tomos_file *file;
	options.overwrite = 1;
	require(tomos_file_create(&file, seed_path(directory, name), content, shape, &options) ==
		TOMOS_OK);
	require(tomos_grid_centred(&grid, shape[2], shape[1], shape[0], 1) == TOMOS_OK);
	if (content == TOMOS_VOLUME && file->format->put)
		require(tomos_file_set_grid(file, &grid) == TOMOS_OK);
	require(tomos_file_write(file, 0, shape[0], zeros) == TOMOS_OK);
	require(tomos_file_commit(file) == TOMOS_OK);
	tomos_file_close(file);
}

#endif
