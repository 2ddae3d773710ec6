/* Reading frames of a scan: listed, in order of sinograms, mirrored. */
#include <string.h>
#include "run/scan.h"

enum { SINOGRAM_BYTES = 16 << 20 }; /* of sinograms transposed at a time */

static tomos_status check_range(const tomos_scan *scan, tomos_frames which, const Extract *e)
{
	const FrameSet *set = &scan->sets[which];
	if (e->first < 0 || e->count < 1 || e->first > set->count - e->count)
		return fail(TOMOS_BAD_VALUE, "'%s': %lld %s from %lld on, of %lld", scan->path,
			(long long)e->count, scan_set_names[which], (long long)e->first,
			(long long)set->count);
	if (e->row < 0 || e->rows < 1 || e->row > scan->rows - e->rows)
		return fail(TOMOS_BAD_VALUE, "'%s': %lld rows from row %lld, of %lld", scan->path,
			(long long)e->rows, (long long)e->row, (long long)scan->rows);
	return TOMOS_OK;
}

/* Stored numbers, or floats. */
typedef struct {
	int bytes;
	int threads; /* of stored numbers; 0: floats */
} Wanted;

static tomos_status read_part(File *file, const Extract *part, Wanted w, void *data)
{
	return w.threads ? io_read_stored(file, part, w.threads, data) : io_read(file, part, data);
}

/* Frames that follow each other in the file are read at once. */
static tomos_status read_listed(const FrameSet *set, const Extract *e, Wanted w, char *data)
{
	int64_t frame = e->rows * set->file->shape[2] * w.bytes;
	for (int64_t i = 0, run; i < e->count; i += run) {
		const int64_t *from = set->list + e->first + i;
		for (run = 1; i + run < e->count && from[run] == from[0] + run;)
			run++;
		const Extract part = {from[0], run, e->row, e->rows};
		TRY(read_part(set->file, &part, w, data + i * frame));
	}
	return TOMOS_OK;
}

typedef struct {
	const char *from;
	char *to;
	const Extract *part;
	int64_t done, rows, line; /* rows transposed before, rows in `from`, bytes of a row */
} Transpose;

static void transpose_view(void *user, int64_t view)
{
	const Transpose *t = user;
	for (int64_t r = 0; r < t->rows; r++)
		memcpy(t->to + (view * t->part->rows + t->done + r) * t->line,
			t->from + (r * t->part->count + view) * t->line, (size_t)t->line);
}

/* [row][view][column], some rows at a time, into [view][row][column]. */
static tomos_status read_sinograms(File *file, const Extract *e, Wanted w, char *data)
{
	int64_t line = file->shape[2] * w.bytes, sinogram = e->count * line;
	int64_t most = min64(e->rows, max64(1, SINOGRAM_BYTES / sinogram));
	char *rows;
	TRY(mem_alloc(&rows, most, (size_t)sinogram, "sinograms"));
	tomos_status status = TOMOS_OK;
	for (int64_t r = 0; r < e->rows && status == TOMOS_OK; r += most) {
		const Extract part = {e->row + r, min64(most, e->rows - r), e->first, e->count};
		Transpose t = {rows, data, e, r, part.count, line};
		status = read_part(file, &part, w, rows);
		if (status == TOMOS_OK)
			parallel_for(e->count, transpose_view, &t);
	}
	mem_free(rows);
	return status;
}

static tomos_status read_as_stored(
	tomos_scan *scan, tomos_frames which, const Extract *e, Wanted w, void *data)
{
	const FrameSet *set = &scan->sets[which];
	if (set->list)
		return read_listed(set, e, w, data);
	if (set->sinograms)
		return read_sinograms(set->file, e, w, data);
	return read_part(set->file, e, w, data);
}

/* ---- mirrored frames ---------------------------------------------------------------------- */

typedef struct {
	char *data;
	int64_t rows, columns, bytes; /* bytes of a number */
	const bool *flip;
} Mirror;

static void swap_bytes(char *a, char *b, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		char kept = a[i];
		a[i] = b[i];
		b[i] = kept;
	}
}

static void mirror_frame(void *user, int64_t frame)
{
	const Mirror *m = user;
	int64_t line = m->columns * m->bytes;
	char *first = m->data + frame * m->rows * line, *last = first + (m->rows - 1) * line;
	for (int64_t r = 0; m->flip[FLIP_ROWS] && r < m->rows / 2; r++)
		swap_bytes(first + r * line, last - r * line, line);
	for (int64_t r = 0; m->flip[FLIP_COLUMNS] && r < m->rows; r++)
		for (int64_t c = 0; c < m->columns / 2; c++)
			swap_bytes(first + r * line + c * m->bytes,
				first + (r + 1) * line - (c + 1) * m->bytes, m->bytes);
}

static tomos_status read_frames(
	tomos_scan *scan, tomos_frames which, const Extract *e, Wanted w, void *data)
{
	Extract part = *e;
	Mirror m = {data, e->rows, scan->columns, w.bytes, scan->flip};
	TRY(check_range(scan, which, e));
	if (scan->flip[FLIP_ROWS])
		part.row = scan->rows - e->row - e->rows;
	TRY(read_as_stored(scan, which, &part, w, data));
	if (scan->flip[FLIP_ROWS] || scan->flip[FLIP_COLUMNS])
		return parallel_try(e->count, mirror_frame, &m, "reading");
	return TOMOS_OK;
}

tomos_status scan_read_stored(
	tomos_scan *scan, tomos_frames which, const Extract *part, int threads, void *stored)
{
	const File *file = scan->sets[which].file;
	const Wanted w = {file ? file->element.bytes : 0, threads < 1 ? 1 : threads};
	return read_frames(scan, which, part, w, stored);
}

tomos_status tomos_scan_read(tomos_scan *scan, tomos_frames which, int64_t first, int64_t count,
	int64_t row, int64_t rows, float *data)
{
	const Extract part = {first, count, row, rows};
	const Wanted w = {sizeof *data, 0};
	return read_frames(scan, which, &part, w, data);
}
