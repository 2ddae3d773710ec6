/* Complete reads and writes of ordinary files, with an error message on failure. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
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
