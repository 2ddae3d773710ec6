/* A box of samples of contiguous numbers: only the parts of the file that hold them are read. */
#include "io/io.h"

enum {
	/* Bytes between two rows of samples that are read with them: copying these takes no longer
	 * than a call of the operating system. */
	LARGEST_GAP = 4096,
	TASK = 1 << 20, /* bytes read by a task, and the size of its memory */
};

/* Lines of `count[2]` samples, in groups that are read by one call. Axes are in the order of the
 * file, the slowest first; distances are in bytes. */
typedef struct {
	const char *path;
	int descriptor;
	int64_t at, size; /* of the first sample; of a number */
	int64_t count[3], pitch[3], out[3];
	int64_t lines, groups; /* lines of a group; groups of the second axis */
	int64_t each;          /* groups of a task */
	char *stored;
} Lines;

static int64_t group_span(const Lines *l, int64_t lines)
{
	return (lines - 1) * l->pitch[1] + (l->count[2] - 1) * l->pitch[2] + l->size;
}

/* Whether a group is the same bytes in the file and in memory. */
static bool is_direct(const Lines *l)
{
	return l->pitch[2] == l->size && l->out[2] == l->size &&
	       (l->lines == 1 || l->pitch[1] == l->out[1]);
}

static tomos_status read_lines(const Lines *l, int64_t group, char *buffer)
{
	int64_t i = group / l->groups, j = group % l->groups * l->lines;
	int64_t lines = min64(l->lines, l->count[1] - j), span = group_span(l, lines);
	int64_t at = l->at + i * l->pitch[0] + j * l->pitch[1];
	char *to = l->stored + i * l->out[0] + j * l->out[1];
	if (!buffer)
		return flat_read(l->descriptor, l->path, at, to, span);
	TRY(flat_read(l->descriptor, l->path, at, buffer, span));
	for (int64_t k = 0; k < lines; k++)
		copy_strided(to + k * l->out[1], l->out[2], buffer + k * l->pitch[1], l->pitch[2],
			l->count[2], l->size);
	return TOMOS_OK;
}

static tomos_status read_task(void *user, int64_t task)
{
	const Lines *l = user;
	int64_t end = min64((task + 1) * l->each, l->count[0] * l->groups);
	char *buffer = NULL;
	tomos_status status = TOMOS_OK;
	if (!is_direct(l))
		TRY(mem_alloc(&buffer, group_span(l, l->lines), 1, "rows of a file"));
	for (int64_t group = task * l->each; status == TOMOS_OK && group < end; group++)
		status = read_lines(l, group, buffer);
	mem_free(buffer);
	return status;
}

/* In a file in Fortran order the third axis is the slowest. */
static Lines describe(const File *file, const Plain *plain, const Samples *s, void *stored)
{
	int64_t size = file->element.bytes, pitch = size, out = size;
	Lines l = {.path = file->path,
		.descriptor = plain->descriptor,
		.at = plain->data,
		.size = size,
		.stored = stored};
	int64_t outs[3];
	for (int k = 2; k >= 0; out *= s->count[k], k--)
		outs[k] = out;
	for (int k = 2; k >= 0; k--) {
		int axis = plain->fortran ? 2 - k : k;
		l.count[k] = s->count[axis];
		l.pitch[k] = pitch * s->step[axis];
		l.out[k] = outs[axis];
		l.at += s->first[axis] * pitch;
		pitch *= file->shape[axis];
	}
	return l;
}

tomos_status plain_read_box(
	const File *file, const Plain *plain, const Samples *s, int threads, void *stored)
{
	Lines l = describe(file, plain, s, stored);
	l.lines = 1;
	if (l.pitch[1] - group_span(&l, 1) <= LARGEST_GAP)
		l.lines = min64(l.count[1], max64(1, TASK / l.pitch[1]));
	l.groups = (l.count[1] + l.lines - 1) / l.lines;
	l.each = max64(1, TASK / group_span(&l, l.lines));
	int64_t tasks = (l.count[0] * l.groups + l.each - 1) / l.each;
	return parallel_each(tasks, threads, read_task, &l, "reading");
}

tomos_status plain_file_read_box(File *file, const Samples *s, int threads, void *stored)
{
	return plain_read_box(file, file->own, s, threads, stored);
}
