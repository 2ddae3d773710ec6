/* What the fuzz targets of the array formats share: any bytes as a file are read, or refused with a
 * sentence; nothing leaks, and a shape is never larger than the file can hold. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/io.h"

enum { MOST = 1 << 24 }; /* numbers read at a time: larger claims are only described */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void put_seeds(const char *directory);
extern const Format *const target; /* the format whose files the bytes are to be; NULL: any */
extern void (*const target_read)(const char *path);

static inline void require(bool holds)
{
	if (!holds)
		abort();
}

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

static inline void read_file(const char *path)
{
	tomos_file *file;
	tomos_file_info info;
	int64_t live = mem_live();
	tomos_status status = tomos_file_open(&file, path, NULL);
	require((status == TOMOS_OK) == (file != NULL) && (file || *tomos_message()));
	if (file) {
		(void)tomos_file_describe(file, &info);
		read_slabs(file);
	}
	tomos_file_close(file);
	require(mem_live() == live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int memory = -1;
	char path[64];
	if (target && !target->probe(data, size)) /* the other formats have targets of their own */
		return 0;
	if (memory < 0)
		memory = memfd_create("fuzz", 0);
	require(memory >= 0 && ftruncate(memory, 0) == 0);
	require(pwrite(memory, data, size, 0) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
	target_read(path);
	return 0;
}

/* Valid files to begin with go into the last directory of the command line. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct stat info;
	for (int i = *argc - 1; i > 0; i--)
		if ((*argv)[i][0] != '-' && stat((*argv)[i], &info) == 0 && S_ISDIR(info.st_mode)) {
			put_seeds((*argv)[i]);
			break;
		}
	return 0;
}

/* A small array under `name`, which says the format; false for a seed of before. */
static inline bool put_seed(const char *directory, const char *name, tomos_content content,
	const int64_t shape[3], tomos_file **file)
{
	char path[512];
	float zeros[64] = {0};
	snprintf(path, sizeof path, "%s/%s", directory, name);
	if (access(path, F_OK) == 0)
		return false;
	require(tomos_file_create(file, path, content, shape, NULL) == TOMOS_OK);
	require(tomos_file_write(*file, 0, shape[0], zeros) == TOMOS_OK);
	return true;
}

static inline void end_seed(tomos_file *file)
{
	require(tomos_file_commit(file) == TOMOS_OK);
	tomos_file_close(file);
}

#endif
