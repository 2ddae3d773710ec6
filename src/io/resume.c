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

/* ---- data that are packed -------------------------------------------------------------------- */

/* Indices that are packed together, and some rows of them in memory. */
typedef struct {
	Extract part;
	int64_t line; /* bytes of a row */
	const char *stored;
	uint32_t *sums; /* of the rows so far */
} Group;

static void sum_rows(void *user, int64_t i)
{
	const Group *g = user;
	int64_t bytes = g->part.rows * g->line;
	g->sums[i] = checksum_add(g->sums[i], g->stored + i * bytes, bytes);
}

/* All rows, as many at a time as are unpacked together. */
static tomos_status check_group(File *file, Group *g, char *stored, bool *readable)
{
	*readable = true;
	memset(g->sums, 0, (size_t)g->part.count * sizeof *g->sums);
	for (int64_t row = 0; row < file->shape[1] && *readable; row += file->row_grain) {
		g->part.row = row;
		g->part.rows = min64(file->row_grain, file->shape[1] - row);
		tomos_status status =
			file->format->read_back_rows(file, &g->part, tomos_threads(), stored);
		*readable = status != TOMOS_BAD_FILE;
		if (*readable)
			TRY(status);
		if (*readable)
			parallel_for(g->part.count, sum_rows, g);
	}
	return TOMOS_OK;
}

/* Each group is unpacked once. Those without a written index are not read. */
static tomos_status check_groups(File *file, const tomos_progress *progress, Group *g, char *stored,
	int64_t *done, int64_t *lost)
{
	for (int64_t first = 0; first < file->shape[0]; first += file->grain) {
		int64_t count = min64(file->grain, file->shape[0] - first);
		bool readable;
		if (!memchr(file->written + first, 1, (size_t)count))
			continue;
		g->part.first = first;
		g->part.count = count;
		TRY(check_group(file, g, stored, &readable));
		for (int64_t i = first; i < first + count; i++) {
			bool right = readable && g->sums[i - first] == file->checksums[i];
			if (file->written[i])
				*(right ? done : lost) += 1;
			file->written[i] &= right;
		}
		TRY(progress_report(progress, "verifying", first + count, file->shape[0], 0));
	}
	return TOMOS_OK;
}

static tomos_status verify_packed(
	File *file, const tomos_progress *progress, int64_t *done, int64_t *lost)
{
	Group g = {.line = file->shape[2] * file->element.bytes};
	char *stored = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&g.sums, file->grain, sizeof *g.sums, "checksums"));
	TRY_OR_DONE(mem_alloc(
		&stored, file->grain * file->row_grain, (size_t)g.line, "slices as stored"));
	g.stored = stored;
	status = check_groups(file, progress, &g, stored, done, lost);
done:
	mem_free(g.sums);
	mem_free(stored);
	return status;
}

tomos_status io_verify_done(
	File *file, const tomos_progress *progress, int64_t *done, int64_t *lost)
{
	void *stored;
	*done = *lost = 0;
	if (file->format->read_back_rows && file->grain > 1)
		return verify_packed(file, progress, done, lost);
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
