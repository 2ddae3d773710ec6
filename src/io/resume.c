/* Checks that a file under construction left by an earlier process is unchanged. */
#include <string.h>
#include "io/io.h"

enum { PIECE = 1 << 16 };

/* ---- the data -------------------------------------------------------------------------------- */

static tomos_status check_index(File *file, int64_t index, void *stored, bool *right)
{
	int64_t bytes = file->shape[1] * file->shape[2] * file->element.bytes;
	tomos_status status = file->format->read_back(file, index, stored);
	*right = status == TOMOS_OK && checksum_add(0, stored, bytes) == file->checksums[index];
	return status == TOMOS_BAD_FILE ? TOMOS_OK : status;
}

static tomos_status check_all(
	File *file, const tomos_progress *progress, void *stored, int64_t *done, int64_t *lost)
{
	bool right;
	for (int64_t i = 0; i < file->shape[0]; i++) {
		if (!file->written[i])
			continue;
		TRY(check_index(file, i, stored, &right));
		file->written[i] = right;
		*(right ? done : lost) += 1;
		TRY(progress_report(progress, "verifying", i + 1, file->shape[0], 0));
	}
	return TOMOS_OK;
}

tomos_status io_verify_done(
	File *file, const tomos_progress *progress, int64_t *done, int64_t *lost)
{
	void *stored;
	*done = *lost = 0;
	TRY(mem_alloc(&stored, file->shape[1] * file->shape[2], (size_t)file->element.bytes,
		"a slice as stored"));
	tomos_status status = check_all(file, progress, stored, done, lost);
	mem_free(stored);
	return status;
}

/* ---- the frame around the data --------------------------------------------------------------- */

static tomos_status sum_stretch(
	int descriptor, const char *path, int64_t first, int64_t end, uint32_t *sum)
{
	unsigned char piece[PIECE];
	for (int64_t at = first; at < end; at += PIECE) {
		int64_t bytes = min64(PIECE, end - at);
		TRY(flat_read(descriptor, path, at, piece, bytes));
		*sum = checksum_add(*sum, piece, bytes);
	}
	return TOMOS_OK;
}

static tomos_status frame_sum(const char *temporary, const Frame *frame, uint32_t *sum)
{
	int descriptor;
	int64_t size, at = 0;
	tomos_status status = TOMOS_OK;
	*sum = 0;
	TRY(flat_open(&descriptor, &size, temporary));
	for (int i = 0; i < COUNT(frame->holes) && status == TOMOS_OK; i++) {
		status = sum_stretch(descriptor, temporary, at, frame->holes[i][0], sum);
		at = max64(at, frame->holes[i][1]);
	}
	if (status == TOMOS_OK)
		status = sum_stretch(descriptor, temporary, at, frame->bytes, sum);
	(void)flat_close(&descriptor, temporary);
	return status;
}

tomos_status io_frame(File *file, Frame *frame)
{
	*frame = (Frame){.bytes = 0};
	if (!file->format->frame)
		return TOMOS_OK;
	TRY(file->format->frame(file, frame));
	return frame_sum(file->temporary, frame, &frame->sum);
}

tomos_status io_frame_check(const char *temporary, const Frame *frame)
{
	uint32_t sum;
	if (frame->bytes == 0)
		return TOMOS_OK;
	TRY(frame_sum(temporary, frame, &sum));
	if (sum == frame->sum)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s' is damaged: its checksum is %08x, %08x was written",
		temporary, (unsigned)sum, (unsigned)frame->sum);
}

/* ---- source files of an open file ------------------------------------------------------------ */

tomos_status io_sources(const File *file, TakePath take, void *user)
{
	return file->format->sources ? file->format->sources(file, take, user)
				     : take(user, file->path);
}
