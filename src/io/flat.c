/* Complete reads and writes of ordinary files, with an error message on failure. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/io.h"

/* A fraction of a second of I/O, so that cancelling takes effect soon. */
enum { LARGEST_STEP = 1 << 26 };

tomos_status flat_open(int *descriptor, int64_t *size, const char *path)
{
	struct stat info;
	/* Without O_NONBLOCK a named pipe would wait here for a writer. */
	*descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*descriptor < 0)
		return fail(TOMOS_IO, "'%s' cannot be opened: %s", path, strerror(errno));
	if (fstat(*descriptor, &info) == 0 && S_ISREG(info.st_mode)) {
		*size = info.st_size;
		return TOMOS_OK;
	}
	(void)flat_close(descriptor, path);
	return fail(TOMOS_IO, "'%s' is not a regular file", path);
}

tomos_status flat_create(int *descriptor, const char *temporary, const char *path)
{
	*descriptor = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (*descriptor < 0)
		return fail(TOMOS_IO, "'%s' cannot be created (as '%s'): %s", path, temporary,
			strerror(errno));
	return TOMOS_OK;
}

tomos_status flat_unnamed(int *descriptor, const char *path)
{
	const char *folder = getenv("TMPDIR");
	char *name;
	TRY(mem_printf(&name, "%s/tomos-XXXXXX", folder && folder[0] ? folder : "/tmp"));
	tomos_status status = TOMOS_OK;
	*descriptor = mkstemp(name);
	if (*descriptor >= 0)
		(void)unlink(name);
	else
		status = fail(TOMOS_IO, "'%s' cannot be unpacked to '%s': %s", path, name,
			strerror(errno));
	mem_free(name);
	return status;
}

bool path_ends_in(const char *path, const char *ending)
{
	size_t length = strlen(path), end = strlen(ending);
	return length >= end && strcasecmp(path + length - end, ending) == 0;
}

tomos_status path_beside(char **name, const char *path, const char *other)
{
	const char *slash = strrchr(path, '/');
	int length = other[0] != '/' && slash ? (int)(slash - path + 1) : 0;
	return mem_printf(name, "%.*s%s", length, path, other);
}

static tomos_status write_part(const char *part, const char *path, const char *text)
{
	int descriptor;
	(void)unlink(part);
	TRY(flat_create(&descriptor, part, path));
	tomos_status status = flat_write(descriptor, path, 0, text, (int64_t)strlen(text));
	tomos_status closed = flat_close(&descriptor, path);
	TRY(status != TOMOS_OK ? status : closed);
	return rename(part, path) == 0 ? TOMOS_OK
				       : fail(TOMOS_IO, "'%s' cannot be renamed to '%s': %s", part,
						 path, strerror(errno));
}

tomos_status flat_text_write(const char *path, const char *text)
{
	char *part;
	TRY(mem_printf(&part, "%s.part", path));
	tomos_status status = write_part(part, path, text);
	if (status != TOMOS_OK)
		(void)unlink(part);
	mem_free(part);
	return status;
}

tomos_status file_descriptor(const File *file, int *descriptor)
{
	if (!file->continued)
		return flat_create(descriptor, file->temporary, file->path);
	*descriptor = open(file->temporary, O_RDWR | O_CLOEXEC);
	if (*descriptor < 0)
		return fail(errno == ENOENT || errno == EISDIR ? TOMOS_BAD_FILE : TOMOS_IO,
			"'%s', begun as '%s', cannot be opened: %s", file->path, file->temporary,
			strerror(errno));
	return TOMOS_OK;
}

tomos_status flat_read(int descriptor, const char *path, int64_t at, void *data, int64_t bytes)
{
	for (int64_t done = 0; done < bytes;) {
		TRY(cancel_check("reading"));
		size_t step = (size_t)min64(bytes - done, LARGEST_STEP);
		ssize_t got = pread(descriptor, (char *)data + done, step, at + done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail(TOMOS_IO, "'%s' cannot be read at byte %lld: %s", path,
				(long long)(at + done), strerror(errno));
		if (got == 0)
			return fail(TOMOS_BAD_FILE,
				"'%s' ends at byte %lld; %lld more were expected", path,
				(long long)(at + done), (long long)(bytes - done));
		done += got;
	}
	return TOMOS_OK;
}

tomos_status flat_write(
	int descriptor, const char *path, int64_t at, const void *data, int64_t bytes)
{
	for (int64_t done = 0; done < bytes;) {
		TRY(cancel_check("writing"));
		size_t step = (size_t)min64(bytes - done, LARGEST_STEP);
		ssize_t put = pwrite(descriptor, (const char *)data + done, step, at + done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return fail(TOMOS_IO, "'%s' cannot be written at byte %lld: %s", path,
				(long long)(at + done),
				put < 0 ? strerror(errno) : "nothing taken");
		done += put;
	}
	return TOMOS_OK;
}

/* ---- many bytes, by several threads ---------------------------------------------------------- */

/* Bytes of one task: large enough for any disk, small enough to share the work evenly. */
enum { TASK = 1 << 22 };

typedef struct {
	const Runs *runs;
	char *in;
	const char *out;
} Transfer;

/* Moves bytes [i * TASK, (i + 1) * TASK) of the memory, which may be in several runs. */
static tomos_status move_bytes(void *user, int64_t i)
{
	const Transfer *t = user;
	const Runs *r = t->runs;
	int64_t end = min64((i + 1) * TASK, r->bytes * r->count), step;
	for (int64_t done = i * TASK; done < end; done += step) {
		int64_t run = done / r->bytes, within = done % r->bytes;
		int64_t at = r->at + run * r->stride + within;
		step = min64(r->bytes - within, end - done);
		TRY(t->in ? flat_read(r->descriptor, r->path, at, t->in + done, step)
			  : flat_write(r->descriptor, r->path, at, t->out + done, step));
	}
	return TOMOS_OK;
}

static int64_t count_tasks(const Runs *runs)
{
	return (runs->bytes * runs->count + TASK - 1) / TASK;
}

tomos_status flat_read_runs(const Runs *runs, int threads, void *data)
{
	Transfer t = {runs, data, NULL};
	return parallel_each(count_tasks(runs), threads, move_bytes, &t, "reading");
}

tomos_status flat_write_runs(const Runs *runs, int threads, const void *data)
{
	Transfer t = {runs, NULL, data};
	return parallel_each(count_tasks(runs), threads, move_bytes, &t, "writing");
}

tomos_status flat_cut(int descriptor, const char *path, int64_t bytes)
{
	if (ftruncate(descriptor, bytes) == 0)
		return TOMOS_OK;
	return fail(TOMOS_IO, "'%s' cannot be given %lld bytes: %s", path, (long long)bytes,
		strerror(errno));
}

tomos_status flat_close(int *descriptor, const char *path)
{
	int closing = *descriptor;
	*descriptor = -1;
	if (closing >= 0 && close(closing) != 0 && errno != EINTR)
		return fail(TOMOS_IO, "'%s' cannot be closed: %s", path, strerror(errno));
	return TOMOS_OK;
}
