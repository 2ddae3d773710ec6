/* What the tests of files share: a scratch directory, whole files in memory, hand-made TIFFs. */
#ifndef TOMOS_TESTS_IO_IO_HELP_H
#define TOMOS_TESTS_IO_IO_HELP_H

#include <dirent.h>
#include "base/test_main.h"
#undef fail /* base.h has its own */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/base.h"

static char scratch[64];

static inline int scratch_in(const char *parent)
{
	snprintf(scratch, sizeof scratch, "%s/tomos-io-XXXXXX", parent);
	return mkdtemp(scratch) ? 0 : -1;
}

static inline int scratch_make(void **state)
{
	(void)state;
	return scratch_in("/tmp");
}

static inline int scratch_remove(void **state)
{
	(void)state;
	file_discard(scratch);
	return 0;
}

/* Numbers that every float format stores exactly. */
static inline void exact_numbers(float *numbers, int count)
{
	for (int i = 0; i < count; i++)
		numbers[i] = (float)i * 0.5F - 7;
}

/* A path in the scratch directory; four may be in use at a time. */
static inline const char *at(const char *name)
{
	static char paths[4][256];
	static int next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
	return path;
}

/* Entries of a directory besides "." and "..": what tests leave behind. */
static inline int entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;
	assert_non_null(directory);
	for (struct dirent *e; (e = readdir(directory));)
		count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(directory);
	return count;
}

static inline void put_file(const char *path, const void *bytes, size_t length)
{
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static inline unsigned char *get_file(const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	*length = (size_t)ftell(file);
	rewind(file);
	unsigned char *bytes = malloc(*length + 1);
	assert_int_equal(fread(bytes, 1, *length, file), *length);
	fclose(file);
	return bytes;
}

static inline void assert_text(bool holds, const char *text, const char *file, int line)
{
	if (!holds) {
		print_error("%s\n  message: %s\n", text, tomos_message());
		_fail(file, line);
	}
}

#define assert_says(text) \
	assert_text(strstr(tomos_message(), text) != NULL, text, __FILE__, __LINE__)
#define assert_ok(expression) \
	assert_text((expression) == TOMOS_OK, "failed: " #expression, __FILE__, __LINE__)

static inline tomos_file_options overwriting(void)
{
	tomos_file_options options = tomos_file_defaults();
	options.overwrite = 1;
	return options;
}

static inline void write_array(
	const char *path, tomos_content content, const int64_t shape[3], const float *data)
{
	tomos_file_options options = overwriting();
	tomos_file *file;
	if (path[strlen(path) - 1] == '/')
		file_discard(path); /* folders are not replaced by those of fewer files */
	assert_ok(tomos_file_create(&file, path, content, shape, &options));
	assert_ok(tomos_file_write(file, 0, shape[0], data));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

/* Opens and reads all; the status of whichever failed. Sizes are bounded, so that a damaged file
 * that claims a large shape fails the test. */
static inline tomos_status read_all(const char *path, int64_t shape[3], float **data)
{
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	int64_t count;
	*data = NULL;
	TRY(tomos_file_open(&file, path, NULL));
	tomos_status status = tomos_file_describe(file, &info);
	if (status == TOMOS_OK) {
		memcpy(shape, info.shape, sizeof info.shape);
		status = shape_count(shape, &count);
	}
	if (status == TOMOS_OK) {
		assert_true(count <= 64 << 20);
		*data = malloc((size_t)count * sizeof **data);
		status = tomos_file_read(file, 0, shape[0], *data);
	}
	tomos_file_close(file);
	if (status != TOMOS_OK) {
		free(*data);
		*data = NULL;
	}
	return status;
}

static inline void assert_reads(const char *path, const int64_t shape[3], const float *expected)
{
	int64_t got[3];
	float *data;
	assert_ok(read_all(path, got, &data));
	assert_memory_equal(got, shape, sizeof got);
	assert_memory_equal(
		data, expected, (size_t)(shape[0] * shape[1] * shape[2]) * sizeof *data);
	free(data);
}

/* ---- numbers of any type and order, and TIFF and npy files made of them ---------------------- */

typedef struct {
	unsigned char bytes[4096];
	size_t length;
	bool big; /* byte order */
} Bytes;

static inline void add(Bytes *b, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		int place = b->big ? bytes - 1 - i : i;
		b->bytes[b->length++] = (unsigned char)(place < 8 ? value >> 8 * place : 0);
	}
}

static inline void add_text(Bytes *b, const char *text)
{
	memcpy(b->bytes + b->length, text, strlen(text));
	b->length += strlen(text);
}

static inline uint64_t half_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	if ((bits & 0x7fffffffu) == 0)
		return bits >> 16;
	return (bits >> 16 & 0x8000u) | (((bits >> 23 & 255u) - 112u) << 10) | (bits >> 13 & 1023u);
}

/* A value that the type can hold exactly. */
static inline void add_value(Bytes *b, char kind, int bytes, float value)
{
	uint64_t bits = 0;
	double wide = value;
	uint32_t narrow;
	memcpy(&narrow, &value, sizeof narrow);
	if (kind != 'f')
		bits = (uint64_t)(int64_t)value;
	else if (bytes == 8)
		memcpy(&bits, &wide, sizeof bits);
	else
		bits = bytes == 4 ? narrow : half_bits(value);
	add(b, bits, bytes);
}

/* A classic TIFF file of one strip per page; `compression` is only said, not done. */
static inline Bytes tiff_bytes(
	bool big, char kind, int bytes, const int64_t shape[3], const float *data)
{
	Bytes b = {.big = big};
	size_t page = (size_t)(shape[1] * shape[2]) * (size_t)bytes;
	add_text(&b, big ? "MM" : "II");
	add(&b, 42, 2);
	add(&b, 8, 4);
	for (int64_t p = 0; p < shape[0]; p++) {
		size_t start = b.length;
		uint64_t tags[][3] = {{256, 4, (uint64_t)shape[2]}, {257, 4, (uint64_t)shape[1]},
			{258, 3, (uint64_t)bytes * 8}, {259, 3, 1}, {262, 3, 1},
			{273, 4, start + 126}, {277, 3, 1}, {278, 4, (uint64_t)shape[1]},
			{279, 4, page},
			{339, 3,
				kind == 'f'   ? 3
				: kind == 'i' ? 2
					      : 1}};
		add(&b, 10, 2);
		for (int t = 0; t < 10; t++) {
			int size = tags[t][1] == 3 ? 2 : 4;
			add(&b, tags[t][0], 2);
			add(&b, tags[t][1], 2);
			add(&b, 1, 4);
			add(&b, tags[t][2], size);
			add(&b, 0, 4 - size);
		}
		size_t after = start + 126 + page + (page & 1);
		add(&b, p + 1 < shape[0] ? after : 0, 4);
		for (int64_t i = 0; i < shape[1] * shape[2]; i++)
			add_value(&b, kind, bytes, data[p * shape[1] * shape[2] + i]);
		add(&b, 0, (int)(page & 1));
	}
	return b;
}

/* An npy file with this text as its header. */
static inline Bytes npy_text(int version, const char *text)
{
	Bytes b = {.big = false};
	add(&b, 0x93, 1);
	add_text(&b, "NUMPY");
	add(&b, (uint64_t)version, 1);
	add(&b, 0, 1);
	add(&b, strlen(text), version == 1 ? 2 : 4);
	add_text(&b, text);
	return b;
}

#endif
