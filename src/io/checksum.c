/* CRC-32 checksums of the stored bytes, one per index of the first axis. */
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

static tomos_status check_index(
	File *file, int64_t index, double expected, float *data, void *stored)
{
	const Extract part = {index, 1, 0, file->shape[1]};
	int64_t count = file->shape[1] * file->shape[2];
	TRY(file->format->read(file, &part, data));
	if (file->element.kind != 'f')
		element_encode(file->element, data, count, 1, 0, stored);
	uint32_t sum = checksum_add(
		0, file->element.kind == 'f' ? data : stored, count * file->element.bytes);
	if ((double)sum == expected)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s', dataset '%s': index %lld is damaged: its checksum is %08x, %08x was written",
		file->path, file->dataset, (long long)index, (unsigned)sum, (unsigned)expected);
}

static tomos_status check_all(File *file, const double *sums, const tomos_progress *progress)
{
	int64_t count = file->shape[1] * file->shape[2];
	float *data = NULL;
	void *stored = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&data, count, sizeof *data, "a slice"));
	TRY_OR_DONE(mem_alloc(&stored, count, sizeof(uint16_t), "a slice as stored"));
	for (int64_t i = 0; i < file->shape[0]; i++) {
		TRY_OR_DONE(check_index(file, i, sums[i], data, stored));
		if (progress && progress->report &&
			progress->report(progress->user, "verifying", i + 1, file->shape[0], 0))
			TRY_OR_DONE(fail(TOMOS_CANCELLED, "verifying was cancelled"));
	}
done:
	mem_free(stored);
	mem_free(data);
	return status;
}

tomos_status tomos_file_verify(File *file, const tomos_progress *progress)
{
	double *sums;
	int64_t shape[2];
	TRY(io_get(file, CHECKSUMS, &sums, shape));
	bool fits =
		sums && element_named(file->type, &file->element) &&
		(file->element.kind == 'u' ? file->element.bytes <= 2
					   : file->element.kind == 'f' && file->element.bytes == 4);
	tomos_status status = TOMOS_OK;
	if (!fits)
		status = fail(TOMOS_UNSUPPORTED, "'%s' has no checksums", file->path);
	else if (shape[0] != 1 || shape[1] != file->shape[0])
		status = fail(TOMOS_BAD_FILE, "'%s' has %lld checksums for %lld indices",
			file->path, (long long)(shape[0] * shape[1]), (long long)file->shape[0]);
	else
		status = check_all(file, sums, progress);
	mem_free(sums);
	return status;
}
