/* CRC-32 checksums of the stored bytes, one per index of the first axis. */
#include <string.h>
#include "io/io.h"

/* One checksum per index of the first axis, so that they do not depend on the slabs written. */
tomos_status checksums_write(File *file)
{
	const int64_t shape[2] = {1, file->shape[0]};
	double *numbers;
	if (file->format != &format_hdf5)
		return TOMOS_OK;
	TRY(mem_alloc(&numbers, file->shape[0], sizeof *numbers, "checksums"));
	for (int64_t i = 0; i < file->shape[0]; i++)
		numbers[i] = file->checksums[i];
	tomos_status status = io_put(file, CHECKSUMS, numbers, shape);
	mem_free(numbers);
	return status;
}

static tomos_status compare_sum(
	const File *file, int64_t index, uint32_t expected, const void *stored)
{
	uint32_t sum =
		checksum_add(0, stored, file->shape[1] * file->shape[2] * file->element.bytes);
	if (sum == expected)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s', dataset '%s': index %lld is damaged: its checksum is %08x, %08x was "
		"written; if another program has changed it, delete '" CHECKSUMS "' there",
		file->path, file->dataset, (long long)index, (unsigned)sum, (unsigned)expected);
}

static tomos_status check_index(File *file, int64_t index, double expected, void *stored)
{
	const Extract part = {index, 1, 0, file->shape[1]};
	TRY(file->format->read(file, &part, tomos_threads(), stored));
	return compare_sum(file, index, (uint32_t)expected, stored);
}

static tomos_status check_all(File *file, const double *sums, const tomos_progress *progress)
{
	void *stored;
	tomos_status status = TOMOS_OK;
	TRY(mem_alloc(&stored, file->shape[1] * file->shape[2], (size_t)file->element.bytes,
		"a slice as stored"));
	for (int64_t i = 0; i < file->shape[0]; i++) {
		TRY_OR_DONE(check_index(file, i, sums[i], stored));
		TRY_OR_DONE(progress_report(progress, "verifying", i + 1, file->shape[0], 0));
	}
done:
	mem_free(stored);
	return status;
}

/* Those that the file has; to be freed. */
static tomos_status checksums_read(File *file, double **sums)
{
	int64_t shape[2];
	TRY(io_get(file, CHECKSUMS, sums, shape));
	Element e = file->element;
	bool fits = *sums && (e.kind == 'u' ? e.bytes <= 2 : e.kind == 'f' && e.bytes == 4);
	tomos_status status = TOMOS_OK;
	if (!fits)
		status = fail(TOMOS_UNSUPPORTED, "'%s' has no checksums", file->path);
	else if (shape[0] != 1 || shape[1] != file->shape[0])
		status = fail(TOMOS_BAD_FILE, "'%s' has %lld checksums for %lld indices",
			file->path, (long long)(shape[0] * shape[1]), (long long)file->shape[0]);
	if (status != TOMOS_OK) {
		mem_free(*sums);
		*sums = NULL;
	}
	return status;
}

/* ---- while reading --------------------------------------------------------------------------- */

void checksums_load(File *file)
{
	bool own =
		strcmp(file->dataset, "/volume") == 0 || strcmp(file->dataset, "/projections") == 0;
	double *sums;
	if (file->format != &format_hdf5 || !own || checksums_read(file, &sums) != TOMOS_OK)
		return;
	if (mem_alloc(&file->checksums, file->shape[0], sizeof *file->checksums, "checksums") ==
		TOMOS_OK)
		for (int64_t i = 0; i < file->shape[0]; i++)
			file->checksums[i] = (uint32_t)sums[i];
	mem_free(sums);
}

typedef struct {
	const File *file;
	int64_t first;
	const char *stored;
} Checking;

static tomos_status check_read(void *user, int64_t i)
{
	const Checking *c = user;
	int64_t bytes = c->file->shape[1] * c->file->shape[2] * c->file->element.bytes;
	return compare_sum(
		c->file, c->first + i, c->file->checksums[c->first + i], c->stored + i * bytes);
}

tomos_status checksums_compare(const File *file, const Extract *part, const void *stored)
{
	Checking c = {file, part->first, stored};
	if (!file->checksums || part->rows < file->shape[1])
		return TOMOS_OK;
	return parallel_each(part->count, tomos_threads(), check_read, &c, "reading");
}

tomos_status tomos_file_verify(File *file, const tomos_progress *progress)
{
	double *sums;
	TRY(checksums_read(file, &sums));
	tomos_status status = check_all(file, sums, progress);
	mem_free(sums);
	return status;
}

tomos_status tomos_file_checksums(File *file, uint32_t *checksums)
{
	double *sums;
	TRY(checksums_read(file, &sums));
	for (int64_t i = 0; i < file->shape[0]; i++)
		checksums[i] = (uint32_t)sums[i];
	mem_free(sums);
	return TOMOS_OK;
}
