/* Reading a box of samples, a step apart along each axis, as floats. Formats that can read less
 * than whole rows have a function for it; the others read the rows that the samples lie in. */
#include <string.h>
#include "io/io.h"

/* Numbers that are converted, or read and thinned out, at a time. */
enum { PORTION = 1 << 22 };

Samples samples_of(const File *file, const Extract *part)
{
	return (Samples){
		{part->first, part->row, 0}, {part->count, part->rows, file->shape[2]}, {1, 1, 1}};
}

int64_t samples_span(const Samples *s, int axis)
{
	return (s->count[axis] - 1) * s->step[axis] + 1;
}

int samples_outside(const Samples *s, const int64_t n[3])
{
	for (int k = 0; k < 3; k++)
		if (s->first[k] < 0 || s->first[k] >= n[k] || s->count[k] < 1 || s->step[k] < 1 ||
			s->count[k] - 1 > (n[k] - 1 - s->first[k]) / s->step[k])
			return k;
	return 3;
}

static tomos_status check_samples(const File *file, const Samples *s, const float *data)
{
	static const char *const names[3] = {"first", "second", "third"};
	int k = samples_outside(s, file->shape);
	int64_t total;
	if (file->temporary)
		return fail(
			TOMOS_BAD_VALUE, "'%s' is open for writing and cannot be read", file->path);
	if (!data)
		return fail(TOMOS_BAD_VALUE, "'%s': the data are NULL", file->path);
	if (k < 3)
		return fail(TOMOS_BAD_VALUE,
			"'%s': %lld samples from %lld on, %lld apart, along the %s axis, which has "
			"%lld",
			file->path, (long long)s->count[k], (long long)s->first[k],
			(long long)s->step[k], names[k], (long long)file->shape[k]);
	return shape_count(s->count, &total);
}

/* ---- copies with a stride -------------------------------------------------------------------- */

#define COPY(type) \
	for (int64_t i = 0; i < count; i++) \
	memcpy(to + i * to_stride, from + i * from_stride, sizeof(type))

void copy_strided(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t count,
	int64_t bytes)
{
	if (to_stride == bytes && from_stride == bytes)
		memcpy(to, from, (size_t)(count * bytes));
	else if (bytes == 1)
		COPY(uint8_t);
	else if (bytes == 2)
		COPY(uint16_t);
	else if (bytes == 4)
		COPY(uint32_t);
	else
		COPY(uint64_t);
}

void samples_pick(
	const File *file, const Samples *s, const char *rows, int64_t row_step, char *stored)
{
	int64_t size = file->element.bytes, line = file->shape[2] * size;
	for (int64_t j = 0; j < s->count[1]; j++)
		copy_strided(stored + j * s->count[2] * size, size,
			rows + j * row_step * line + s->first[2] * size, s->step[2] * size,
			s->count[2], size);
}

/* ---- formats that read whole rows ------------------------------------------------------------ */

/* Number of samples along an axis, from sample `done` on, that are read together: those in its
 * group of `grain` indices, and in the next groups while these are at most `most` indices. */
static int64_t next_group(const Samples *s, int axis, int64_t done, int64_t grain, int64_t most)
{
	int64_t at = s->first[axis] + done * s->step[axis];
	int64_t end = (at / grain + 1) * grain;
	if (s->step[axis] < grain || s->step[axis] == 1)
		end = max64(end, (at + most) / grain * grain);
	return min64((end - 1 - at) / s->step[axis] + 1, s->count[axis] - done);
}

/* Reads the rows of `some`, a part of the samples, and copies their samples to the result. */
static tomos_status read_group(
	File *file, const Samples *some, const Samples *all, int threads, char *rows, char *stored)
{
	int64_t size = file->element.bytes, span = samples_span(some, 1);
	const Extract part = {some->first[0], samples_span(some, 0), some->first[1], span};
	TRY(file->format->read(file, &part, threads, rows));
	for (int64_t i = 0; i < some->count[0]; i++)
		samples_pick(file, some, rows + i * some->step[0] * span * file->shape[2] * size,
			some->step[1], stored + i * all->count[1] * all->count[2] * size);
	return TOMOS_OK;
}

/* Groups of rows, at least those that are unpacked together; `rows` NULL: only *most, the numbers
 * of the largest group. */
static tomos_status each_group(
	File *file, const Samples *s, int threads, char *rows, char *stored, int64_t *most)
{
	int64_t grain = max64(1, file->grain), row_grain = max64(1, file->row_grain);
	int64_t nx = file->shape[2], size = file->element.bytes;
	int64_t planes = max64(1, PORTION / (min64(samples_span(s, 1), PORTION) * nx));
	Samples some = *s;
	for (int64_t i = 0; i < s->count[0]; i += some.count[0]) {
		some.first[0] = s->first[0] + i * s->step[0];
		some.count[0] = next_group(s, 0, i, grain, planes);
		int64_t lines = max64(1, PORTION / (samples_span(&some, 0) * nx));
		for (int64_t j = 0; j < s->count[1]; j += some.count[1]) {
			some.first[1] = s->first[1] + j * s->step[1];
			some.count[1] = next_group(s, 1, j, row_grain, lines);
			*most = max64(*most, samples_span(&some, 0) * samples_span(&some, 1) * nx);
			if (!rows)
				continue;
			TRY(cancel_check("reading"));
			TRY(read_group(file, &some, s, threads, rows,
				stored + (i * s->count[1] + j) * s->count[2] * size));
		}
	}
	return TOMOS_OK;
}

tomos_status samples_by_rows(File *file, const Samples *s, int threads, void *stored)
{
	int64_t most = 0;
	char *rows;
	TRY(each_group(file, s, threads, NULL, NULL, &most));
	TRY(mem_alloc(&rows, most, (size_t)file->element.bytes, "rows of a file"));
	tomos_status status = each_group(file, s, threads, rows, stored, &most);
	mem_free(rows);
	return status;
}

/* ---- all formats ----------------------------------------------------------------------------- */

static tomos_status read_stored(File *file, const Samples *s, void *stored)
{
	TRY(cancel_check("reading"));
	if (file->format->read_box)
		return file->format->read_box(file, s, tomos_threads(), stored);
	return samples_by_rows(file, s, tomos_threads(), stored);
}

static int64_t portion_of(const File *file, const Samples *s, int64_t done)
{
	int64_t most = max64(1, PORTION / (s->count[1] * s->count[2])),
		grain = max64(1, file->grain);
	if (s->step[0] >= grain) /* no two samples are in one chunk */
		return min64(most, s->count[0] - done);
	return next_group(s, 0, done, grain, most * s->step[0]);
}

/* In portions along the first axis, which end where a chunk ends. */
static tomos_status read_converted(File *file, const Samples *s, void *stored, float *data)
{
	int64_t plane = s->count[1] * s->count[2];
	Samples some = *s;
	for (int64_t done = 0; done < s->count[0]; done += some.count[0]) {
		some.first[0] = s->first[0] + done * s->step[0];
		some.count[0] = portion_of(file, s, done);
		TRY(read_stored(file, &some, stored));
		TRY(io_convert(file, stored, some.count[0] * plane, data + done * plane));
	}
	return TOMOS_OK;
}

tomos_status io_read_box(File *file, const Samples *s, float *data)
{
	int64_t most = 0;
	void *stored;
	TRY(check_samples(file, s, data));
	int64_t plane = s->count[1] * s->count[2];
	if (file->element.kind == 'f' && file->element.bytes == 4 && !file->element.swapped) {
		TRY(read_stored(file, s, data));
		return io_convert(file, data, s->count[0] * plane, data);
	}
	for (int64_t done = 0; done < s->count[0]; done += portion_of(file, s, done))
		most = max64(most, portion_of(file, s, done));
	TRY(mem_alloc(
		&stored, most * plane, (size_t)file->element.bytes, "a part of a file as stored"));
	tomos_status status = read_converted(file, s, stored, data);
	mem_free(stored);
	return status;
}

tomos_status tomos_file_read_box(File *file, const int64_t first[3], const int64_t count[3],
	const int64_t step[3], float *data)
{
	Samples s;
	if (!file || !first || !count || !step)
		return fail(TOMOS_BAD_VALUE, "tomos_file_read_box: %s is NULL",
			!file    ? "the file"
			: !first ? "first"
			: !count ? "count"
				 : "step");
	for (int k = 0; k < 3; k++) {
		s.first[k] = first[k];
		s.count[k] = count[k];
		s.step[k] = count[k] == 1 ? 1 : step[k];
	}
	return io_read_box(file, &s, data);
}
