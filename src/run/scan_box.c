/* Samples of the frames of a scan, a step apart: listed, in order of sinograms, mirrored. */
#include <string.h>
#include "run/scan.h"

static tomos_status check_box(const tomos_scan *scan, tomos_frames which, const Samples *s)
{
	static const char *const axes[3] = {"", "rows", "columns"};
	const int64_t n[3] = {scan->sets[which].count, scan->rows, scan->columns};
	int64_t total;
	int k = samples_outside(s, n);
	if (k < 3)
		return fail(TOMOS_BAD_VALUE, "'%s': %lld %s from %lld on, %lld apart, of %lld",
			scan->path, (long long)s->count[k], k ? axes[k] : scan_set_names[which],
			(long long)s->first[k], (long long)s->step[k], (long long)n[k]);
	return shape_count(s->count, &total);
}

/* Frames of the list that are equally far apart in the file are read at once. */
static tomos_status read_listed(const FrameSet *set, const Samples *s, float *data)
{
	int64_t frame = s->count[1] * s->count[2], run;
	for (int64_t i = 0; i < s->count[0]; i += run) {
		const int64_t *from = set->list + s->first[0] + i * s->step[0];
		int64_t apart = i + 1 < s->count[0] ? from[s->step[0]] - from[0] : 0;
		for (run = 1; apart > 0 && i + run < s->count[0] &&
			      from[run * s->step[0]] == from[0] + run * apart;)
			run++;
		Samples some = *s;
		some.first[0] = from[0];
		some.count[0] = run;
		some.step[0] = max64(apart, 1);
		TRY(io_read_box(set->file, &some, data + i * frame));
	}
	return TOMOS_OK;
}

/* [row][view][column] into [view][row][column]. */
static tomos_status read_sinograms(File *file, const Samples *s, float *data)
{
	int64_t views = s->count[0], rows = s->count[1], columns = s->count[2];
	const Samples stored = {{s->first[1], s->first[0], s->first[2]}, {rows, views, columns},
		{s->step[1], s->step[0], s->step[2]}};
	float *other;
	if (views == 1 || rows == 1)
		return io_read_box(file, &stored, data);
	TRY(mem_alloc(&other, views * rows * columns, sizeof *other, "sinograms"));
	tomos_status status = io_read_box(file, &stored, other);
	for (int64_t i = 0; i < views * rows && status == TOMOS_OK; i++)
		memcpy(data + i * columns, other + (i % rows * views + i / rows) * columns,
			(size_t)columns * sizeof *data);
	mem_free(other);
	return status;
}

/* ---- mirrored frames ---------------------------------------------------------------------- */

static void mirror(float *data, int64_t count, int64_t size)
{
	for (int64_t i = 0; i < count / 2; i++)
		for (int64_t k = 0; k < size; k++) {
			float *a = data + i * size + k, *b = data + (count - 1 - i) * size + k;
			float kept = *a;
			*a = *b;
			*b = kept;
		}
}

/* The same samples in the opposite order, as they are in the file. */
static void flip_axis(Samples *s, int axis, int64_t n)
{
	s->first[axis] = n - 1 - (s->first[axis] + samples_span(s, axis) - 1);
}

tomos_status tomos_scan_read_box(tomos_scan *scan, tomos_frames which, const int64_t first[3],
	const int64_t count[3], const int64_t step[3], float *data)
{
	Samples s;
	if (!scan || !first || !count || !step || !data)
		return fail(TOMOS_BAD_VALUE, "tomos_scan_read_box: an argument is NULL");
	for (int k = 0; k < 3; k++) {
		s.first[k] = first[k];
		s.count[k] = count[k];
		s.step[k] = count[k] == 1 ? 1 : step[k];
	}
	const FrameSet *set = &scan->sets[which];
	TRY(check_box(scan, which, &s));
	if (scan->flip[FLIP_ROWS])
		flip_axis(&s, 1, scan->rows);
	if (scan->flip[FLIP_COLUMNS])
		flip_axis(&s, 2, scan->columns);
	TRY(set->list            ? read_listed(set, &s, data)
		: set->sinograms ? read_sinograms(set->file, &s, data)
				 : io_read_box(set->file, &s, data));
	for (int64_t i = 0; scan->flip[FLIP_ROWS] && i < count[0]; i++)
		mirror(data + i * count[1] * count[2], count[1], count[2]);
	for (int64_t i = 0; scan->flip[FLIP_COLUMNS] && i < count[0] * count[1]; i++)
		mirror(data + i * count[2], count[2], 1);
	return TOMOS_OK;
}
