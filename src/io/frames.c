/* Frames that a function reads: images of scanners in formats of their own, one file per view or
 * all in one, and frames of one constant value. */
#include <string.h>
#include "io/io.h"

typedef struct {
	const File *file;
	const Samples *samples;
	char *stored;
} Reading;

static tomos_status read_frame(void *user, int64_t i)
{
	const Reading *r = user;
	const FrameSource *s = r->file->own;
	const Samples *n = r->samples;
	int64_t size = r->file->element.bytes, rows = samples_span(n, 1),
		columns = r->file->shape[2];
	int64_t frame = n->first[0] + i * n->step[0];
	char *to = r->stored + i * n->count[1] * n->count[2] * size, *buffer;
	if (rows == n->count[1] && n->count[2] == columns)
		return s->read(s->own, frame, n->first[1], rows, to);
	TRY(mem_alloc(&buffer, rows * columns, (size_t)size, "rows of a frame"));
	tomos_status status = s->read(s->own, frame, n->first[1], rows, buffer);
	if (status == TOMOS_OK)
		samples_pick(r->file, n, buffer, n->step[1], to);
	mem_free(buffer);
	return status;
}

static tomos_status frames_read_box(File *file, const Samples *samples, int threads, void *stored)
{
	Reading r = {file, samples, stored};
	return parallel_each(samples->count[0], threads, read_frame, &r, "reading");
}

static tomos_status frames_read(File *file, const Extract *part, int threads, void *stored)
{
	const Samples samples = samples_of(file, part);
	return frames_read_box(file, &samples, threads, stored);
}

static tomos_status frames_sources(const File *file, TakePath take, void *user)
{
	const FrameSource *s = file->own;
	return s->sources ? s->sources(s->own, take, user) : take(user, file->path);
}

static void frames_close_own(File *file)
{
	FrameSource *s = file->own;
	if (s->close)
		s->close(s->own);
	mem_free(s);
}

static bool frames_probe(const unsigned char *head, size_t length)
{
	(void)head;
	(void)length;
	return false;
}

static const Format format_frames = {
	.name = "frames",
	.endings = "",
	.probe = frames_probe,
	.read = frames_read,
	.read_box = frames_read_box,
	.sources = frames_sources,
	.close = frames_close_own,
};

static tomos_status describe(File *file, const char *path, const FrameSource *source)
{
	int64_t count;
	file->format = &format_frames;
	file->scale = 1;
	file->grain = 1;
	file->content = TOMOS_PROJECTIONS;
	file->element = source->element;
	file->type = element_name(source->element);
	memcpy(file->shape, source->shape, sizeof file->shape);
	TRY(mem_text(&file->path, path));
	TRY(mem_text(&file->dataset, ""));
	return shape_count(file->shape, &count);
}

tomos_status io_frames(File **file, const char *path, const FrameSource *source)
{
	File *made = NULL;
	FrameSource *own = NULL;
	tomos_status status;
	*file = NULL;
	TRY_OR_DONE(mem_zeroed(&made, 1, sizeof *made, "a file's description"));
	TRY_OR_DONE(describe(made, path, source));
	TRY_OR_DONE(mem_alloc(&own, 1, sizeof *own, "a list of frames"));
	*own = *source;
	made->own = own;
	*file = made;
	return TOMOS_OK;
done:
	if (source->close)
		source->close(source->own);
	tomos_file_close(made);
	return status;
}

/* ---- frames of one value ------------------------------------------------------------------ */

typedef struct {
	int64_t columns;
	float value;
} Constant;

static tomos_status read_constant(
	const void *own, int64_t frame, int64_t row, int64_t rows, void *stored)
{
	const Constant *c = own;
	float *data = stored;
	(void)frame;
	(void)row;
	for (int64_t i = 0; i < rows * c->columns; i++)
		data[i] = c->value;
	return TOMOS_OK;
}

static tomos_status no_sources(const void *own, TakePath take, void *user)
{
	(void)own;
	(void)take;
	(void)user;
	return TOMOS_OK;
}

tomos_status io_constant(File **file, const char *path, const int64_t shape[3], double value)
{
	Constant *own;
	*file = NULL;
	TRY(mem_zeroed(&own, 1, sizeof *own, "a constant frame"));
	*own = (Constant){shape[2], (float)value};
	const FrameSource source = {.shape = {shape[0], shape[1], shape[2]},
		.element = {'f', sizeof(float), false},
		.read = read_constant,
		.sources = no_sources,
		.close = mem_free,
		.own = own};
	return io_frames(file, path, &source);
}
