/* The journal of an output under construction: which slices are done, with their checksums.
 *
 * It is a text file beside the output. A line is added when its slices are on the disk, so that what
 * the journal says is always there; a last line that was cut off does not count. The file is locked
 * while a process writes the output.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "run/run.h"

#define HEAD "tomos journal 2 %016llx\n"
#define READY \
	"ready\n" /* the file under construction has all but its data, and a place for these */

/* ".<name>.part" and ".<name>.journal" beside the output. */
static tomos_status make_names(Journal *j, const char *output)
{
	size_t end = strlen(output);
	while (end > 1 && output[end - 1] == '/')
		end--;
	size_t start = end;
	while (start > 0 && output[start - 1] != '/')
		start--;
	TRY(mem_printf(&j->part, "%.*s.%.*s.part", (int)start, output, (int)(end - start),
		output + start));
	return mem_printf(&j->path, "%.*s.%.*s.journal", (int)start, output, (int)(end - start),
		output + start);
}

static tomos_status open_locked(Journal *j, const char *output)
{
	j->descriptor = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (j->descriptor < 0)
		return fail(TOMOS_IO, "'%s', the journal of '%s', cannot be opened: %s", j->path,
			output, strerror(errno));
	if (flock(j->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		close(j->descriptor);
		j->descriptor = -1;
		return fail(TOMOS_IO, "'%s' is being written by another process", output);
	}
	return TOMOS_OK;
}

static tomos_status read_old(Journal *j)
{
	struct stat info;
	if (fstat(j->descriptor, &info) != 0)
		return fail(TOMOS_IO, "'%s' cannot be read: %s", j->path, strerror(errno));
	TRY(mem_zeroed(&j->text, info.st_size + 1, 1, "a journal"));
	TRY(flat_read(j->descriptor, j->path, 0, j->text, info.st_size));
	char *last = strrchr(j->text, '\n');
	if (last)
		last[1] = 0;
	else
		j->text[0] = 0;
	j->length = (int64_t)strlen(j->text);
	return TOMOS_OK;
}

tomos_status journal_open(Journal *j, const char *output, uint64_t job, bool resume, bool overwrite)
{
	struct stat info;
	char head[64];
	*j = (Journal){.descriptor = -1};
	TRY(file_check(output, overwrite));
	TRY(make_names(j, output));
	TRY(open_locked(j, output));
	TRY(read_old(j));
	if (!resume || !strstr(j->text, "\n" READY) || lstat(j->part, &info) != 0)
		return TOMOS_OK;
	snprintf(head, sizeof head, HEAD READY, (unsigned long long)job);
	j->begun = strncmp(j->text, head, strlen(head)) == 0;
	if (!j->begun)
		return fail(TOMOS_BAD_VALUE,
			"'%s' was begun with another scan or other options; without resume it is "
			"begun again",
			output);
	return TOMOS_OK;
}

static tomos_status append(Journal *j, const char *text)
{
	int64_t length = (int64_t)strlen(text);
	TRY(flat_write(j->descriptor, j->path, j->length, text, length));
	j->length += length;
	if (fdatasync(j->descriptor) != 0 && errno != EINVAL)
		return fail(TOMOS_IO, "'%s' cannot be brought to the disk: %s", j->path,
			strerror(errno));
	return TOMOS_OK;
}

tomos_status journal_begin(Journal *j, uint64_t job)
{
	char head[64];
	io_discard(j->part);
	if (ftruncate(j->descriptor, 0) != 0)
		return fail(TOMOS_IO, "'%s' cannot be emptied: %s", j->path, strerror(errno));
	j->length = 0;
	snprintf(head, sizeof head, HEAD, (unsigned long long)job);
	return append(j, head);
}

tomos_status journal_ready(Journal *j)
{
	return append(j, READY);
}

tomos_status journal_add(Journal *j, int64_t first, int64_t count, const uint32_t *checksums)
{
	char *line;
	int64_t room = 64 + 10 * count, length;
	TRY(mem_alloc(&line, room, 1, "a line of a journal"));
	length = snprintf(line, (size_t)room, "%lld %lld", (long long)first, (long long)count);
	for (int64_t i = 0; i < count; i++)
		length += snprintf(line + length, (size_t)(room - length), " %08x", checksums[i]);
	snprintf(line + length, (size_t)(room - length), "\n");
	tomos_status status = append(j, line);
	mem_free(line);
	return status;
}

/* One line; false where it is not what this writes. */
static bool replay_line(const char *line, File *file, int64_t *done)
{
	char *at;
	long long first = strtoll(line, &at, 10), count = strtoll(at, &at, 10);
	if (first < 0 || count < 1 || first > file->shape[0] - count)
		return false;
	for (int64_t i = 0; i < count; i++) {
		char *next;
		uint32_t sum = (uint32_t)strtoul(at, &next, 16);
		if (next == at)
			return false;
		io_done(file, first + i, 1, &sum);
		at = next;
	}
	*done += count;
	return *at == '\n';
}

tomos_status journal_replay(const Journal *j, File *file, int64_t *done)
{
	const char *ready = strstr(j->text, "\n" READY);
	*done = 0;
	for (const char *line = ready ? strchr(ready + 1, '\n') : NULL; line && line[1];
		line = strchr(line + 1, '\n'))
		if (!replay_line(line + 1, file, done))
			return fail(TOMOS_BAD_FILE, "'%s' is damaged; run without resume", j->path);
	return TOMOS_OK;
}

void journal_close(Journal *j, bool finished)
{
	if (finished && j->descriptor >= 0) {
		io_discard(j->part);
		(void)unlink(j->path);
	}
	if (j->descriptor >= 0)
		close(j->descriptor);
	mem_free(j->path);
	mem_free(j->part);
	mem_free(j->text);
	*j = (Journal){.descriptor = -1};
}
